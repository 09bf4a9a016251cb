"""Past: the recorded part of a run that is made again, to replay it or to go on with it.

Calls come here first. As long as the record lasts each is compared and answered from it; nothing else happens. Where it
ends, a replay ends too, and a resumed run goes live: only now is it claimed in the journal, so a run that went another
way, or that somebody else took, is left as it was.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, cast

from jsrun._feed import ANSWERED, Beat, Differs, Exhausted, Feed, Give, GiveBlank, Step
from jsrun._session import Session, Stopped
from jsrun.canonical import parse_json
from jsrun.endings import Ending, cancelled, crashed, ending, taken_over, unanswered
from jsrun.errors import DivergenceError, JournalError, JsrunError, ResumeError
from jsrun.journal import EntryRow, RunRecord
from jsrun.replay import Difference, Made, compare_ending, ending_is_compared, extra, recorded_sentence
from jsrun.result import REASONS, Reason, RunResult

# Endings by the program's own doing, after which no call can come any more.
_OWN: Final = (None, "threw", "stuck", "no_output", "invalid_output", "guard")
# Host code that was cancelled is waited for as long as a cancelled call.
_CANCEL_GRACE_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Recorded:
    """A recorded run that is to be made again. `resume`: go on where it ends, with `parallel` host calls at once;
    calls in flight whose number is in `unsure` are not made again but fail."""

    record: RunRecord
    resume: bool = False
    parallel: int = 1
    unsure: frozenset[int] = frozenset()


class Past:
    """What a session has of an earlier attempt.

    `begin` claims the run and does what the host does before a program starts; it raises JournalError.
    """

    def __init__(self, session: Session, recorded: Recorded, begin: Callable[[], Awaitable[None]]) -> None:
        self.live = False
        """The record is at its end and the run has been claimed: calls are made."""
        self.difference: Difference | None = None
        self.error: JsrunError | None = None
        """Why the run could not be resumed; to be raised when its process has ended."""
        self.slots = asyncio.Semaphore(recorded.parallel)
        """Host calls at once, once calls are made. While the record lasts the program may make any number."""
        self.unsure = recorded.unsure
        self.record = recorded.record
        self.resumes = recorded.resume
        self._session = session
        self._begin = begin
        self._loop = asyncio.get_running_loop()
        rows = self.record.current()
        self._feed = Feed(rows)
        self._tokens = _tokens_until(self.record, rows)
        self._calls: dict[int, asyncio.Future[EntryRow | None]] = {}
        self._blanks: list[asyncio.Future[None]] = []
        self._pulse: asyncio.Future[bool] | None = None
        self._going_live: asyncio.Task[None] | None = None
        session.spend = self.record.spend()

    # --- what comes from the program ---

    def use_pulse(self) -> None:
        """The program that starts now is async, and sends its pulse."""
        self._feed.use_pulse()

    def announce(self) -> None:
        """A call has come and is being looked at; `recorded` follows."""
        if not self._feed.over:
            self._feed.announce()

    async def recorded(self, seq: int, made: Made) -> EntryRow | None:
        """Wait until it is the call's turn; its row, with the answer, or None if the call is to be made."""
        if self.live:
            return None
        waiter: asyncio.Future[EntryRow | None] = self._loop.create_future()
        self._calls[seq] = waiter
        if not self._feed.over:
            self._take(self._feed.call(seq, made))
        row = await waiter
        self._session.check()
        return row

    async def blank(self) -> None:
        """Wait until it is a blank status's turn."""
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._blanks.append(waiter)
        if not self._feed.over:
            self._take(self._feed.blank())
        await waiter

    async def pulse(self) -> bool:
        """Wait until the pulse is to be answered; whether it is to come back."""
        if self.live or (self._pulse is not None and not self._pulse.done()):
            return False
        self._pulse = self._loop.create_future()
        if not self._feed.over:
            self._take(self._feed.pulse())
        return await self._pulse

    # --- what follows ---

    def _take(self, steps: list[Step]) -> None:
        # Not at once: the caller does not wait yet, and answers must go out in the order of the steps.
        if steps:
            self._loop.call_soon(self._follow, steps)

    def _follow(self, steps: list[Step]) -> None:
        for step in steps:
            if self._session.ending is not None or self._session.over:
                return
            match step:
                case Give(row):
                    self._session.take(row, self._tokens[row.seq])
                    if self._session.ending is None:
                        _settle(self._calls.pop(row.seq), row)
                case GiveBlank():
                    _settle(self._blanks.pop(0), None)
                case Beat(again):
                    self._beat(again)
                case Differs(difference):
                    self._differs(difference)
                case Exhausted(waiting) if self.resumes:
                    self._going_live = self._loop.create_task(self._go_live())
                case Exhausted(waiting):
                    self._end_replay(waiting)

    def _beat(self, again: bool) -> None:
        if self._pulse is not None:
            _settle(self._pulse, again)

    def _differs(self, difference: Difference) -> None:
        self.difference = difference
        if self.resumes:
            self.error = DivergenceError(difference)
        self._session.stop(cancelled(f"it went another way than recorded, {difference}"))

    def _end_replay(self, waiting: "tuple[tuple[int, Made, EntryRow | None], ...]") -> None:
        """The record holds no more answers: end as it did, if the program did not do more than it did then."""
        run, rows = self.record.run, [row for _seq, _made, row in waiting if row is not None]
        self._session.calls += sum(row.step for row in rows)
        asked = next((row for row in rows if row.state == "stopped"), None)
        unknown = next(((seq, made) for seq, made, row in waiting if row is None), None)
        if asked is not None:
            said = None if asked.output is None else parse_json(asked.output)
            self._session.stop(taken_over(said) if isinstance(said, str) else unanswered(asked.ref))
        elif unknown is not None and ending_is_compared(run):
            self._differs(extra(*unknown))
        elif (reason := _reason(run.reason)) is not None:
            self._session.stop(ending(reason, recorded_sentence(run)))
        else:
            self._session.stop(cancelled("the record ends here"))

    async def _go_live(self) -> None:
        try:
            await self._begin()
        except ResumeError as error:
            self.error = error
            self._session.stop(cancelled("it could not be taken up"))
            return
        except JournalError as error:
            self._session.stop(crashed(f"The journal cannot be written: {error}"))
            return
        except Stopped:
            return
        if self._session.ending is not None:
            return
        self.live = True
        self._session.go_on(self._feed.number)
        self._beat(False)
        for blank in self._blanks:
            _settle(blank, None)
        for _seq, waiter in sorted(self._calls.items()):
            _settle(waiter, None)
        self._calls.clear()

    # --- the end ---

    async def conclude(self, end: Ending) -> None:
        """The program has ended this way: what is left to find out about it. Raises why it could not be resumed."""
        task = self._going_live
        if task is not None:
            await asyncio.wait({task}, timeout=_CANCEL_GRACE_S if self._session.ending is not None else None)
            if not task.done():
                task.cancel()
                await asyncio.wait({task}, timeout=_CANCEL_GRACE_S)
            elif not task.cancelled():
                task.result()
        if self.difference is None and not self.live and end.reason in _OWN:
            self.difference = self._feed.left_over()
            if self.difference is not None and self.resumes:
                self.error = DivergenceError(self.difference)
        if self.error is not None:
            raise self.error

    def judge(self, result: RunResult) -> None:
        """Compare the ending of a replay, if nothing differs until then."""
        if self.difference is None:
            self.difference = compare_ending(self.record.run, result)


def _settle(waiter: asyncio.Future[Any], value: object) -> None:
    if not waiter.done():  # cancelled, as the run has ended
        waiter.set_result(value)


def _reason(text: str | None) -> Reason | None:
    return cast(Reason, text) if text in REASONS else None


def _tokens_until(record: RunRecord, rows: Iterable[EntryRow]) -> dict[int, int]:
    """What had been spent when the call of a row was answered, by its seq; calls made anew later count before all."""
    answered = sorted((row for row in rows if row.state in ANSWERED), key=lambda row: (row.answered or 0, row.seq))
    spent = record.spend().tokens - sum(row.spend.tokens for row in answered if row.spend is not None)
    until = {}
    for row in answered:
        spent += 0 if row.spend is None else row.spend.tokens
        until[row.seq] = spent
    return until
