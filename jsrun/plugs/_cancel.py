"""A request that its own side cancels: at the far side first, then in its handlers, and it is answered in any case."""

from typing import Final

from jsrun.plugs._answers import Answers
from jsrun.plugs._job import Job
from jsrun.plugs._side import CANCELLED_TEXT
from jsrun.plugs.api import PlugLogger
from jsrun.plugs.clock import Clock
from jsrun.plugs.errors import RequestError
from jsrun.plugs.wire import REQUEST_CANCELLED

# How long the far side may take to answer what is cancelled there, and then its handlers to end, in seconds.
CANCEL_SECONDS: Final = 5.0
GRACE_SECONDS: Final = 5.0


class Cancelling:
    """Cancels begun requests."""

    def __init__(self, clock: Clock, answers: Answers, log: PlugLogger) -> None:
        self._clock = clock
        self._answers = answers
        self._log = log

    def cancel(self, job: Job) -> None:
        """Cancel a request; a second time does nothing."""
        if job.cancelled:
            return
        job.cancelled = True
        if job.pending:
            for far in job.pending:
                far.cancel()
            job.timer = self._clock.call_later(CANCEL_SECONDS, lambda: self._give_up(job))
        else:
            self._give_up(job)

    def _give_up(self, job: Job) -> None:
        """It has nothing at the far side, or gets no answer from there."""
        job.timer = None
        job.interrupt()
        job.last_timer = self._clock.call_later(GRACE_SECONDS, lambda: self._leave(job))

    def _leave(self, job: Job) -> None:
        """A handler goes on although it was cancelled: its request is answered without it."""
        self._log.error("a message handler ignores its cancellation", plug=job.label, method=job.message.method)
        self._answers.answer(job, None, RequestError(REQUEST_CANCELLED, CANCELLED_TEXT))
        job.settle()
