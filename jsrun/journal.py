"""The journal: one row per run, one row per door call, written before the call is made and closed when it answered.

A journal is anything with the six methods of `Journal`. The runner is the only one that writes; rows are complete when
they are written, so every implementation records the same. JSON columns hold ASCII JSON text, never live values: a row
cannot change after the fact because a host function changed what it returned.
"""

import json
import os
import re
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, Protocol, TypeAlias, get_args, runtime_checkable

from jsrun.canonical import canonical_json, input_hash, json_text, parse_json
from jsrun.errors import JournalError, ResumeError
from jsrun.spend import Spend

__all__ = [
    "CALLS",
    "STATES",
    "Call",
    "EntryRow",
    "Journal",
    "MemoryJournal",
    "RunRecord",
    "RunRow",
    "State",
    "canonical_json",
    "export_rows",
    "input_hash",
    "json_text",
    "new_run_id",
    "owner",
    "owner_gone",
    "parse_json",
]

Call: TypeAlias = Literal["ai", "tool", "ask", "remember", "recall", "log"]
State: TypeAlias = Literal["open", "ok", "err", "refused", "stopped", "abandoned"]
CALLS: Final[tuple[Call, ...]] = get_args(Call)
STATES: Final[tuple[State, ...]] = get_args(State)

# Enough for any run within the default 500 steps; a run with far more calls must not fill the host's memory.
MEMORY_ROWS = 10_000

_SURROGATES = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run. `input` and `fuel` are JSON text, so is `result` once there is one; times are RFC 3339.

    `clock_ms` is the program's clock at the start (ms since 1970), `attempt` counts from 1 and grows with each resume,
    `owner` is the process that works on it. `status`, `reason`, `result` and `ended_at` are None while it goes on.
    """

    run_id: str
    name: str
    bundle_hash: str
    program_hash: str
    engine: str
    form: str
    input: str
    started_at: str
    clock_ms: int
    seed: str
    fuel: str
    owner: str
    attempt: int = 1
    parent_run_id: str | None = None
    status: str | None = None
    reason: str | None = None
    result: str | None = None
    ended_at: str | None = None


@dataclass(frozen=True, slots=True)
class EntryRow:
    """One door call. `input` and `output` are JSON text; `step` is 1 if the call booked a step, else 0.

    `seq` counts opened calls of the run and `answered` its answers, both from 1; `clock_ms` is the program's clock
    after the answer. Lone surrogates in `ref`, `err` and `note` become U+FFFD, so that every reader of the journal can
    read them; compare a ref with `storable(ref)`.
    """

    run_id: str
    attempt: int
    seq: int
    call: Call
    ref: str
    input: str | None
    input_hash: str
    at: str
    step: int = 1
    state: State = "open"
    answered: int | None = None
    clock_ms: int | None = None
    output: str | None = None
    err: str | None = None
    note: str | None = None
    spend: Spend | None = None
    elapsed_ms: float | None = None

    def __post_init__(self) -> None:
        for name in ("ref", "err", "note"):
            text: str | None = getattr(self, name)
            if text is not None and not text.isascii():
                object.__setattr__(self, name, storable(text))

    @property
    def key(self) -> tuple[str, int, int]:
        """What tells this row from every other: run, attempt, seq."""
        return (self.run_id, self.attempt, self.seq)


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run and all its rows, ordered by attempt and seq."""

    run: RunRow
    entries: tuple[EntryRow, ...]

    def current(self) -> tuple[EntryRow, ...]:
        """The rows that count, by seq: of equal seq the one of the highest attempt."""
        latest: dict[int, EntryRow] = {}
        for row in sorted(self.entries, key=lambda row: row.attempt):
            latest[row.seq] = row
        return tuple(latest[seq] for seq in sorted(latest))

    def spend(self) -> Spend:
        """The ledger: the sum over all rows of all attempts."""
        total = Spend()
        for row in self.entries:
            if row.spend is not None:
                total += row.spend
        return total


@runtime_checkable
class Journal(Protocol):
    """Where runs are recorded. A method returns when its change is committed and raises JournalError if it is not."""

    async def open_run(self, row: RunRow) -> None:
        """Record a run that begins. An `attempt` above 1 claims a run that is there for a resume: its ending is
        cleared, and of several claims of one attempt all but one raise ResumeError."""
        ...

    async def open(self, row: EntryRow) -> None:
        """Record a call before it is made, or one that was refused and never will be."""
        ...

    async def close(self, row: EntryRow) -> None:
        """Record the answer to an open call: the row as opened, with its final state."""
        ...

    async def end_run(self, row: RunRow) -> None:
        """Record how the run ended; rows of this attempt that are still open become `abandoned`."""
        ...

    async def read(self, run_id: str) -> RunRecord:
        """The run and all its rows; JournalError if it is not there or cannot be trusted."""
        ...

    async def runs(self) -> Sequence[RunRow]:
        """All runs, the newest first."""
        ...


class MemoryJournal:
    """A journal in memory that keeps its first 10,000 rows; spend and counts go on beyond them.

    `dropped` is the number of rows not kept. Not for use from several threads at once.
    """

    def __init__(self, max_rows: int = MEMORY_ROWS) -> None:
        self._max_rows = max_rows
        self._runs: dict[str, RunRow] = {}
        self._entries: dict[tuple[str, int, int], EntryRow] = {}
        self._unkept: set[tuple[str, int, int]] = set()  # open rows beyond the limit
        self._spend: dict[str, Spend] = {}
        self._calls: dict[str, int] = {}
        self.dropped = 0

    def spend(self, run_id: str) -> Spend:
        """The run's ledger, rows that were not kept included."""
        return self._spend.get(run_id, Spend())

    def calls(self, run_id: str) -> int:
        """How many rows the run has written, rows that were not kept included."""
        return self._calls.get(run_id, 0)

    async def open_run(self, row: RunRow) -> None:
        known = self._runs.get(row.run_id)
        if row.attempt == 1:
            if known is not None:
                raise JournalError(already_there(row))
            self._runs[row.run_id] = row
        elif known is None or known.attempt != row.attempt - 1 or known.status not in RESUMABLE:
            raise ResumeError(not_claimed(row))
        else:
            self._runs[row.run_id] = replace(
                known,
                engine=row.engine,
                fuel=row.fuel,
                attempt=row.attempt,
                owner=row.owner,
                status=None,
                reason=None,
                result=None,
                ended_at=None,
            )

    async def open(self, row: EntryRow) -> None:
        run = self._runs.get(row.run_id)
        if run is None or run.attempt != row.attempt or run.status is not None:
            raise JournalError(not_open(row.run_id, row.attempt))
        if row.key in self._entries or row.key in self._unkept:
            raise JournalError(row_there(row))
        self._calls[row.run_id] = self.calls(row.run_id) + 1
        if len(self._entries) < self._max_rows:
            self._entries[row.key] = row
        else:
            self.dropped += 1
            if row.state == "open":
                self._unkept.add(row.key)
        self._book(row)

    async def close(self, row: EntryRow) -> None:
        opened = self._entries.get(row.key)
        if opened is not None and opened.state == "open":
            self._entries[row.key] = row
        elif row.key in self._unkept:
            self._unkept.remove(row.key)
        else:
            raise JournalError(not_open_row(row))
        self._book(row)

    async def end_run(self, row: RunRow) -> None:
        run = self._runs.get(row.run_id)
        if run is None or run.attempt != row.attempt or run.status is not None:
            raise JournalError(not_open(row.run_id, row.attempt))
        self._runs[row.run_id] = replace(
            run, status=row.status, reason=row.reason, result=row.result, ended_at=row.ended_at
        )
        mine = (row.run_id, row.attempt)
        for key, entry in self._entries.items():
            if key[:2] == mine and entry.state == "open":
                self._entries[key] = replace(entry, state="abandoned")
        self._unkept = {key for key in self._unkept if key[:2] != mine}

    async def read(self, run_id: str) -> RunRecord:
        run = self._runs.get(run_id)
        if run is None:
            raise JournalError(unknown_run(run_id))
        keys = sorted(key for key in self._entries if key[0] == run_id)
        return RunRecord(run, tuple(self._entries[key] for key in keys))

    async def runs(self) -> Sequence[RunRow]:
        return tuple(sorted(self._runs.values(), key=lambda row: (row.started_at, row.run_id), reverse=True))

    def _book(self, row: EntryRow) -> None:
        if row.spend is not None:
            self._spend[row.run_id] = self.spend(row.run_id) + row.spend


# A run that ended in one of these may be taken up again; None is a run without an ending.
RESUMABLE: Final = (None, "incomplete")


def already_there(row: RunRow) -> str:
    """The message for a run id that is used twice."""
    return f"The run {row.run_id} is already in the journal."


def not_claimed(row: RunRow) -> str:
    """The message for a resume that came second, or for a run that cannot be taken up."""
    return (
        f"The run {row.run_id} cannot be taken up as attempt {row.attempt}: it has ended, or another process took it."
    )


def not_open(run_id: str, attempt: int) -> str:
    """The message for a write to a run that ended or was taken over."""
    return f"The run {run_id} is not going on as attempt {attempt} in this journal."


def row_there(row: EntryRow) -> str:
    """The message for a row written twice."""
    return f"Row {row.seq} of run {row.run_id} is already in the journal."


def not_open_row(row: EntryRow) -> str:
    """The message for an answer to a call that is not open."""
    return f"Row {row.seq} of run {row.run_id} is not open, so it cannot be closed."


def unknown_run(run_id: str) -> str:
    """The message for a run that is not in the journal."""
    return f'There is no run "{run_id}" in this journal.'


def storable(text: str) -> str:
    """The text as a journal keeps it: lone surrogates, which no UTF-8 text can hold, become U+FFFD."""
    return _SURROGATES.sub("\ufffd", text)


def export_rows(record: RunRecord) -> Iterator[str]:
    """The rows as JSON Lines, without line ends: `seq at call ref input output spend note err elapsed state attempt`.

    Every line has every key, null where there is nothing; `elapsed` is in nanoseconds.
    """
    for row in record.entries:
        columns = (
            ("seq", str(row.seq)),
            ("at", json_text(row.at)),
            ("call", json_text(row.call)),
            ("ref", json_text(row.ref)),
            ("input", row.input or "null"),
            ("output", row.output or "null"),
            ("spend", "null" if row.spend is None else json_text(row.spend.to_json())),
            ("note", json_text(row.note)),
            ("err", json_text(row.err)),
            ("elapsed", "null" if row.elapsed_ms is None else str(round(row.elapsed_ms * 1e6))),
            ("state", json_text(row.state)),
            ("attempt", str(row.attempt)),
        )
        yield "{" + ",".join(f"{json.dumps(name)}:{text}" for name, text in columns) + "}"


def owner() -> str:
    """This process, as a run row names it: `pid@host`."""
    return f"{os.getpid()}@{socket.gethostname()}"


def owner_gone(text: str) -> bool:
    """Is the process a row names surely gone? No for another host, whose processes cannot be seen from here."""
    pid, _, host = text.partition("@")
    if host != socket.gethostname() or not pid.isascii() or not pid.isdigit():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):  # it is there but not ours, or no pid at all
        return False
    return False


# Crockford's base 32: no I, L, O or U, so that an id can be read aloud; in ASCII order, so that ids sort as they count.
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_RANDOM_BITS = 80
_ID_CHARS = 26

_last_id = 0
_id_lock = threading.Lock()


def new_run_id() -> str:
    """A new id of 26 characters (a ULID): 48 bits of milliseconds, 80 random ones. Ids of a process sort by time."""
    global _last_id
    fresh = (time.time_ns() // 1_000_000) << _RANDOM_BITS | int.from_bytes(os.urandom(_RANDOM_BITS // 8), "big")
    with _id_lock:
        # Within a millisecond, or when the clock steps back, go on from the last id by a random step: a process that
        # was forked in between goes on from the same id.
        _last_id = fresh if fresh > _last_id else _last_id + 1 + int.from_bytes(os.urandom(8), "big")
        return encode_id(_last_id)


def encode_id(number: int) -> str:
    """A number below 2^128 in 26 characters of base 32; greater numbers sort later."""
    return "".join(_ALPHABET[number >> (5 * place) & 31] for place in reversed(range(_ID_CHARS)))
