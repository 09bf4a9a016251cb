"""Session: the state of one run. It books steps, writes the journal, keeps ledger and clock, and knows why it stops."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeAlias

from jsrun.canonical import input_hash, json_text
from jsrun.endings import Ending, cancelled, crashed, out_of
from jsrun.errors import JournalError
from jsrun.events import RunEvent, Watch
from jsrun.fuel import Fuel
from jsrun.journal import Call, EntryRow, Journal, State
from jsrun.result import LogEntry, Truncation
from jsrun.spend import Spend
from ptc.outcome import UNSET, Unset
from ptc.wire import Json

if TYPE_CHECKING:  # it works on sessions
    from jsrun._past import Past

Writing: TypeAlias = Callable[[EntryRow], Awaitable[None]]
"""A method of a journal that writes one row."""

NOTHING_SPENT = Spend()
_NO_INPUT = input_hash(None)

# Statuses a result keeps, in bytes: a run with many steps must not fill the host's memory. The last one is the report
# in any case.
_KEPT_STATUS_BYTES = 1024 * 1024


class Stopped(Exception):
    """Raised through host code of ours once the run has been stopped; nothing more happens in it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """How a call went: what the program gets (UNSET is undefined), or `err`, the full text of its failure.

    `output` is JSON text for the journal, `shown` what a program sees of `err`, `ending` an end of the whole run.
    """

    value: "Json | Unset" = UNSET
    output: str | None = None
    err: str | None = None
    shown: str = ""
    note: str | None = None
    spend: Spend = NOTHING_SPENT
    ending: Ending | None = None


@dataclass(frozen=True, slots=True)
class Status:
    """A status that was shown, after so many console entries."""

    entry: LogEntry
    after: int


class Session:
    """Everything about one run that changes while it goes on."""

    def __init__(
        self, *, run_id: str, fuel: Fuel, journal: Journal, watch: Watch, clock_ms: int, attempt: int = 1
    ) -> None:
        self.run_id = run_id
        self.attempt = attempt
        self.fuel = fuel
        self.watch = watch
        self.ending: Ending | None = None
        self.fatal: BaseException | None = None
        """What a host function raised to end the whole process; raised again when the run is closed."""
        self.over = False
        """The result is being made: late answers change nothing any more."""
        self.stopped: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.abort: Callable[[str], None] | None = None
        """Ends the program's process, while there is one."""
        self.past: Past | None = None
        """What answers calls out of a record, in a run that was recorded before."""
        self.steps = 0
        self.calls = 0
        self.spend = NOTHING_SPENT
        self.report = ""
        self.statuses: list[Status] = []
        self.console_entries = 0
        self.started = time.monotonic()
        self._journal = journal
        self._start_ms = clock_ms
        self._clock_ms = clock_ms
        self._seq = 0
        self._answered = 0
        self._last_answer: asyncio.Future[None] | None = None
        self._status_bytes = 0
        self._lost_status_bytes = 0

    # --- stopping ---

    def stop(self, ending: Ending) -> None:
        """End the run for this reason. The first reason stays; the process is killed at once."""
        if self.ending is not None or self.over:
            return
        self.ending = ending
        if not self.stopped.done():
            self.stopped.set_result(None)
        if self.abort is not None:
            self.abort(ending.reason or "stopped")

    def stop_for(self, error: BaseException) -> None:
        """A host function asked the process to end: close the run first."""
        self.fatal = self.fatal or error
        self.stop(cancelled("a host function asked the process to end"))

    def check(self) -> None:
        """Raise `Stopped` if the run has ended meanwhile."""
        if self.ending is not None or self.over:
            raise Stopped

    def book_step(self) -> None:
        """One more door call. With no step left the run stops and the call does not happen."""
        self.check()
        if self.fuel.steps is not None and self.steps >= self.fuel.steps:
            self.stop(out_of("steps", self.fuel))
            raise Stopped
        self.steps += 1

    def tokens_left(self) -> int | None:
        """What the ledger allows further calls; None without a ceiling."""
        return None if self.fuel.tokens is None else max(0, self.fuel.tokens - self.spend.tokens)

    # --- clock ---

    @property
    def now_ms(self) -> int:
        """The program's clock, as of the last answer."""
        return self._clock_ms

    def elapsed(self) -> float:
        """Seconds since the run was accepted."""
        return time.monotonic() - self.started

    def _tick(self) -> int:
        self._clock_ms = max(self._clock_ms, self._start_ms + int(self.elapsed() * 1000))
        return self._clock_ms

    # --- rows ---

    def next_seq(self) -> int:
        """The number of a call that has just come, in the program's order; its row is written with it."""
        self._seq += 1
        if self.past is not None:
            self.past.announce()
        return self._seq

    async def open(
        self,
        seq: int,
        call: Call,
        ref: str,
        given: "Json | Unset" = UNSET,
        *,
        step: bool = True,
        note: str | None = None,
    ) -> EntryRow:
        """Write the row of a call that is about to be made. Stops the run if it cannot be written."""
        text = None if isinstance(given, Unset) else json_text(given)
        row = self._row(seq, call, ref, text, _NO_INPUT if isinstance(given, Unset) else input_hash(given), step)
        if note is not None:
            row = replace(row, note=note)
        await self._write(self._journal.open, row)
        self.check()
        if self.watch.active:
            size = 0 if text is None else len(text)
            self.tell(RunEvent("opened", self.run_id, row.seq, call, _shown_ref(call, ref), size=size))
        return row

    async def record(
        self, seq: int, call: Call, ref: str, state: State, *, err: str | None = None, note: str | None = None
    ) -> int:
        """Write the one row of a call that is not made: a refusal, or the sentence of a check. Gives the clock."""
        row = self._row(seq, call, ref, None, _NO_INPUT, step=state == "refused")
        now = self._tick()
        row = replace(row, state=state, answered=self._next_answer(), clock_ms=now, err=err, note=note, elapsed_ms=0.0)
        if self.watch.active:
            shown = _shown_ref(call, ref)
            self.tell(RunEvent("opened", self.run_id, row.seq, call, shown))
            self.tell(RunEvent("closed", self.run_id, row.seq, call, shown, ok=err is None))
        await self._in_turn(self._write(self._journal.open, row))
        return now

    async def close(self, row: EntryRow, answer: Answer, elapsed: float) -> int:
        """Write how a call went, book what it cost, and give the clock when it is its turn to be answered.

        Raises `Stopped` if this, or anything else meanwhile, ends the run.
        """
        self.check()
        if answer.spend != NOTHING_SPENT:
            self.spend += answer.spend
        stops = answer.ending is not None
        now = self._tick()
        row = replace(
            row,
            state="stopped" if stops else "ok" if answer.err is None else "err",
            answered=None if stops else self._next_answer(),
            clock_ms=now,
            output=answer.output,
            err=answer.err,
            note=answer.note if answer.note is not None else row.note,
            spend=None if answer.spend == NOTHING_SPENT else answer.spend,
            elapsed_ms=elapsed * 1000,
        )
        if self.watch.active:
            size = 0 if answer.output is None else len(answer.output)
            shown = _shown_ref(row.call, row.ref)
            ok, took = answer.err is None, elapsed * 1000
            self.tell(RunEvent("closed", self.run_id, row.seq, row.call, shown, ok=ok, elapsed_ms=took, size=size))
        if answer.ending is not None:
            await self._write(self._journal.close, row)
            self.stop(answer.ending)
            raise Stopped
        await self._in_turn(self._write(self._journal.close, row))
        if answer.spend != NOTHING_SPENT and self.fuel.tokens is not None and self.spend.tokens >= self.fuel.tokens:
            self.stop(out_of("tokens", self.fuel, self.spend.tokens))
            raise Stopped
        return now

    async def blank(self) -> None:
        """Answer a blank status: it has no row, but takes its turn among the answers, so that its place is known."""
        if self.past is not None and not self.past.live:
            await self.past.blank()
            return
        self._next_answer()
        await self._in_turn(None)

    def take(self, row: EntryRow, tokens: int) -> None:
        """Book a recorded answer that is given again; `tokens` have been spent up to it."""
        self.calls += row.step
        self._clock_ms = max(self._clock_ms, row.clock_ms or 0)
        if row.spend is not None and self.fuel.tokens is not None and tokens >= self.fuel.tokens:
            self.stop(out_of("tokens", self.fuel, tokens))

    def go_on(self, next_answer: int) -> None:
        """The record is at its end: number and date live answers from here, as if no time had passed in between."""
        self._answered = next_answer - 1
        self._start_ms = self._clock_ms - int(self.elapsed() * 1000)

    def _row(self, seq: int, call: Call, ref: str, text: str | None, hashed: str, step: bool) -> EntryRow:
        if step:
            self.calls += 1
        at = timestamp()
        return EntryRow(self.run_id, self.attempt, seq, call, ref, text, hashed, at, step=int(step))

    def _next_answer(self) -> int:
        self._answered += 1
        return self._answered

    async def _in_turn(self, writing: Awaitable[None] | None) -> None:
        """Write the row that answers a call, if it has one, then wait until every earlier answer has gone out.

        Answers reach the program in the order of their numbers, in whatever order a journal gets done with them.
        """
        before, self._last_answer = self._last_answer, asyncio.get_running_loop().create_future()
        mine = self._last_answer
        try:
            if writing is not None:
                await writing
            if before is not None and not before.done():
                await before
        finally:
            if not mine.done():  # cancelled along with a later answer that waited for it
                mine.set_result(None)
        self.check()

    async def _write(self, write: Writing, row: EntryRow) -> None:
        try:
            await write(row)
        except JournalError as error:
            self.stop(crashed(f"The journal cannot be written: {error}"))
            raise Stopped from None

    # --- statuses ---

    def show(self, text: str, left_out: int) -> None:
        """Take a status that was shown. Of very many only the first ones are kept for the result."""
        self.report = text
        amount = len(text.encode("utf-8", "surrogatepass"))
        if self._status_bytes + amount > _KEPT_STATUS_BYTES:
            self._lost_status_bytes += amount
        else:
            self._status_bytes += amount
            self.statuses.append(Status(LogEntry(text, "status", left_out), self.console_entries))
        if self.watch.active:
            self.tell(RunEvent("status", self.run_id, door="log", text=text))

    def status_truncation(self) -> tuple[Truncation, ...]:
        """What the result leaves out of the statuses."""
        cut_ones = any(status.entry.cut for status in self.statuses)
        if not self._lost_status_bytes and not cut_ones:
            return ()
        return (Truncation("statuses", self._status_bytes, None if cut_ones else self._lost_status_bytes),)

    def tell(self, event: RunEvent) -> None:
        """Tell whoever watches the run."""
        self.watch.tell(event)


def timestamp() -> str:
    """The time in RFC 3339, UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _shown_ref(call: Call, ref: str) -> str:
    """Events name prompts and tools; what a person or a program wrote is content."""
    return ref if call in ("ai", "tool") else ""
