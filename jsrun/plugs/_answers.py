"""Every request is answered once, and every message that is done is told."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from jsrun.plugs._job import Job
from jsrun.plugs._queue import Fault
from jsrun.plugs.api import PlugLogger
from jsrun.plugs.clock import Clock
from jsrun.plugs.errors import AgentExited, LineTooLong, PlugCancelled, RequestError
from jsrun.plugs.message import Message
from jsrun.plugs.wire import INTERNAL_ERROR

SESSION_FAILED: Final = "The session failed."
AGENT_GONE: Final = "The agent is gone."


@dataclass(frozen=True, slots=True)
class Passed:
    """A message that is done, as the side it came from sees it: `message` as read, and the answer as written.

    `began` and `ended` are seconds of the chain's clock, `size` bytes of the line read. `reached` tells whether it got
    to the far side.
    """

    message: Message
    size: int
    began: float
    ended: float
    reached: bool
    result: Any = None
    error: RequestError | None = None


class Answers:
    """Answers requests. `fault` is told of an answer that cannot be written, `on_message` of messages that are done.

    Once `quiet`, notifications that are dropped are not logged: the session is ending.
    """

    def __init__(
        self, clock: Clock, fault: Fault, on_message: Callable[[Passed], None] | None, log: PlugLogger
    ) -> None:
        self.quiet = False
        self._clock = clock
        self._fault = fault
        self._on_message = on_message
        self._log = log

    def answer(self, job: Job, result: Any, failure: RequestError | None) -> RequestError | None:
        """Answer a job's request unless it is answered; the error that it is answered with."""
        if job.number is None or job.origin is None:
            if failure is not None and not self.quiet:
                self._log.warning(
                    "a notification was dropped", method=job.message.method, plug=job.label, error=failure
                )
            return failure
        if job.answered:
            return failure
        job.answered = True
        try:
            job.origin.answer(job.number, result, failure)
        except LineTooLong as error:
            failure = self._unanswerable(job, error, "A message was longer than it may be.")
        except (TypeError, ValueError) as error:
            failure = self._unanswerable(job, error, f"The plug {job.label} answered with something that is not JSON.")
        return failure

    def done(self, job: Job, began: float, result: Any, failure: RequestError | None) -> None:
        """Tell of a job that is done."""
        if self._on_message is None:
            return
        passed = Passed(job.message, job.size, began, self._clock.now(), job.reached, result, failure)
        try:
            self._on_message(passed)
        except Exception as error:
            self._log.error("the record of a message failed", error=error)

    def _unanswerable(self, job: Job, error: BaseException, text: str) -> RequestError:
        self._fault(error, text)
        failure = RequestError(INTERNAL_ERROR, text)
        assert job.origin is not None and job.number is not None
        job.origin.answer(job.number, None, failure)
        return failure


def told_text(error: BaseException) -> str:
    """What callers are told of a failure: nothing that could hold a secret."""
    if isinstance(error, AgentExited):
        return AGENT_GONE
    return str(error) if isinstance(error, PlugCancelled) else SESSION_FAILED
