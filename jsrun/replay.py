"""Replay and resume, the part without any input or output: is what a program does now what was recorded?

A recorded run is compared call by call, in the order of the program, then by its ending. Which answer goes out when is
decided by `jsrun._feed`, and both are put to work by `jsrun._past`.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from jsrun._text import compact_json, cut, printable, quoted
from jsrun.canonical import input_hash, parse_json
from jsrun.guards import sentence
from jsrun.journal import Call, EntryRow, RunRecord, RunRow, storable
from jsrun.manifest import Guard
from jsrun.result import RunResult
from jsrun.schema_checks import path_text
from ptc.outcome import UNSET, Unset
from ptc.wire import Json

__all__ = [
    "Difference",
    "DifferenceKind",
    "InFlight",
    "Made",
    "RecordedLook",
    "ReplayReport",
    "compare",
    "compare_ending",
    "guards_have_passed",
    "resume_problem",
    "unsure_calls",
]

DifferenceKind: TypeAlias = Literal["call", "missing", "extra", "ending"]
InFlight: TypeAlias = Literal["refuse", "fail", "retry"]

NOT_COMPARED: Final = frozenset({"wall", "compute", "memory", "cancelled", "crashed"})
"""Reasons for an ending that say something of the host or the moment, not of what the program did."""

RESUMABLE_REASONS: Final = frozenset(
    {"steps", "tokens", "wall", "compute", "memory", "cancelled", "unanswered", "crashed"}
)
"""Reasons for an `incomplete` run that it can be taken up again after."""

# Of a value in a message; the difference itself has it whole.
_SHOWN_CHARS: Final = 200

_Path: TypeAlias = "tuple[str | int, ...]"


@dataclass(frozen=True, slots=True)
class Difference:
    """The first thing that is not as recorded.

    kind: a `call` differs, a recorded one is `missing`, there is an `extra` one, or the `ending` differs. seq: the
    number of the call, from 1; None for an ending. path: where in the call (`call`, `ref`, `refused`, `status`, or from
    `input`) or in the ending (`status`, `reason`, or from `output`); empty where all of it is meant. recorded, actual:
    the JSON values there, UNSET for nothing.
    """

    kind: DifferenceKind
    seq: int | None
    path: str
    recorded: "Json | Unset"
    actual: "Json | Unset"

    def __str__(self) -> str:
        was, now = _shown(self.recorded), _shown(self.actual)
        if self.kind == "missing":
            return f"call {self.seq} is missing: recorded is {was}."
        if self.kind == "extra":
            return f"call {self.seq} is not in the record: {now}."
        place = f"call {self.seq}" if self.kind == "call" else "the ending"
        return f"{place} differs at {self.path}: recorded {was}, now {now}."

    def to_json(self) -> dict[str, Json]:
        """Every field under its name, null for nothing."""
        recorded = None if isinstance(self.recorded, Unset) else self.recorded
        actual = None if isinstance(self.actual, Unset) else self.actual
        return {"kind": self.kind, "seq": self.seq, "path": self.path, "recorded": recorded, "actual": actual}


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """What came of a replay: `same` if there is no `difference`, and the result of running the program again.

    A replay ends where the record ends, or at the first difference; then so does its result.
    """

    same: bool
    difference: Difference | None
    result: RunResult


@dataclass(frozen=True, slots=True)
class Made:
    """A call as the program makes it now, in the terms of the journal. `status` is the text of a `log`."""

    door: Call
    ref: str
    input: "Json | Unset" = UNSET
    refused: bool = False
    status: str | None = None

    def to_json(self) -> Json:
        """The call for people."""
        return _call_json(self.door, self.ref, self.input, self.status)


def compare(row: EntryRow, made: Made) -> Difference | None:
    """The difference between a recorded call and one made now: door, ref, whether it was refused, status, input.

    Key order and `1` versus `1.0` are none.
    """
    if row.call != made.door:
        return Difference("call", row.seq, "call", row.call, made.door)
    ref = made.ref if made.ref.isascii() else storable(made.ref)
    if row.ref != ref:
        return Difference("call", row.seq, "ref", row.ref, ref)
    given = None if isinstance(made.input, Unset) else made.input
    if row.input_hash != input_hash(given):
        if (row.state == "refused") != made.refused:
            return Difference("call", row.seq, "refused", row.state == "refused", made.refused)
        recorded = None if row.input is None else _value(row.input)
        path, was, now = first_difference(recorded, given) or ((), recorded, given)
        return Difference("call", row.seq, path_text("input", path), was, now)
    if made.door == "log" and made.status is not None and row.state != "refused":
        status = storable(made.status)
        if row.note != status:
            return Difference("call", row.seq, "status", row.note, status)
    return None


def missing(row: EntryRow) -> Difference:
    """The difference of a recorded call that is not made any more."""
    given = UNSET if row.input is None else _value(row.input)
    status = row.note if row.call == "log" else None
    return Difference("missing", row.seq, "", _call_json(row.call, row.ref, given, status), UNSET)


def extra(seq: int, made: Made) -> Difference:
    """The difference of a call that is not in the record."""
    return Difference("extra", seq, "", UNSET, made.to_json())


def ending_is_compared(run: RunRow) -> bool:
    """Does the recorded ending say what the program did, so that it must be the same again?"""
    return run.status is not None and run.reason not in NOT_COMPARED


def compare_ending(run: RunRow, result: RunResult) -> Difference | None:
    """The difference between the recorded ending and that of a replay: status, reason, output."""
    if not ending_is_compared(run):
        return None
    if run.status != result.status:
        return Difference("ending", None, "status", run.status, result.status)
    if run.reason != result.reason:
        return Difference("ending", None, "reason", run.reason, result.reason)
    recorded = _recorded_result(run).get("output")
    found = first_difference(recorded, result.output)
    if found is None:
        return None
    path, was, now = found
    return Difference("ending", None, path_text("output", path), was, now)


def recorded_sentence(run: RunRow) -> str:
    """The sentence of the recorded ending; empty without one."""
    result = _recorded_result(run)
    text = result.get("incomplete") or result.get("fell_back") or ""
    return text if isinstance(text, str) else ""


def first_difference(recorded: Json, actual: Json) -> "tuple[_Path, Json | Unset, Json | Unset] | None":
    """The way to the first place where two JSON values differ, and what is there in each; None if they are equal.

    Numbers are compared by value, objects without regard to the order of their keys.
    """
    waiting: list[tuple[_Path, Json | Unset, Json | Unset]] = [((), recorded, actual)]
    while waiting:
        path, was, now = waiting.pop()
        if isinstance(was, dict) and isinstance(now, dict):
            keys = [*was, *(key for key in now if key not in was)]
            waiting.extend(((*path, key), was.get(key, UNSET), now.get(key, UNSET)) for key in reversed(keys))
        elif isinstance(was, list) and isinstance(now, list):
            longest = max(len(was), len(now))
            waiting.extend(((*path, at), _item(was, at), _item(now, at)) for at in reversed(range(longest)))
        elif isinstance(was, bool) or isinstance(now, bool):
            if was is not now:
                return path, was, now
        elif was != now:
            return path, was, now
    return None


# --- resume ---


def resume_problem(run: RunRow, program_hash: str, owner_is_gone: bool) -> str | None:
    """Why a run cannot be taken up by this program, in a sentence with what to do; None if it can be."""
    if run.program_hash != program_hash:
        return (
            f"The run {run.run_id} was made by another version of the program of {quoted(run.name)}."
            " Resume it with that version, or replay it to see what differs."
        )
    if run.status is None:
        if owner_is_gone:
            return None
        return (
            f"The run {run.run_id} may still be going on in process {quoted(run.owner)}."
            " Wait for its end; if that process is surely gone, resume with force."
        )
    if run.status == "incomplete" and run.reason in RESUMABLE_REASONS:
        return None
    ending = run.status.replace("_", " ") + (f" ({run.reason})" if run.reason else "")
    return f"The run {run.run_id} has ended as {ending}, so there is nothing to resume. Start a new run."


def unsure_calls(rows: Iterable[EntryRow], is_read_only: Callable[[str], bool]) -> tuple[EntryRow, ...]:
    """The calls in flight that may have been done already and must not be done twice: tools, but those that only read,
    and notes. `rows` are those that count; `is_read_only` knows tools by their name."""
    return tuple(
        row
        for row in rows
        if row.state in ("open", "abandoned")
        and (row.call == "remember" or (row.call == "tool" and not is_read_only(row.ref)))
    )


# --- guards ---


def guards_have_passed(record: RunRecord) -> bool:
    """Is it certain that the run's free guards had been asked, so that they need not be asked again?"""
    if record.entries:
        return True
    # Without any call: nothing but the program itself, or what it was given, ends a run for these reasons.
    return record.run.reason in ("steps", "compute", "memory")


class RecordedLook:
    """A Look that sees what the recorded run saw: everything is there, but what it fell back for."""

    def __init__(self, record: RunRecord, guards: Sequence[Guard]) -> None:
        notes = {row.note for row in record.current() if row.call == "log" and row.step == 0}
        failed = [guard for guard in guards if storable(sentence(guard)) in notes]
        self._files = {guard.file for guard in failed if guard.kind == "file"}
        self._tools = {guard.tool for guard in failed if guard.kind == "tool"}

    def file_exists(self, path: str) -> bool:
        return path not in self._files

    def tool_on_belt(self, name: str) -> bool:
        return name not in self._tools


# --- small parts ---


def _item(values: list[Json], at: int) -> "Json | Unset":
    return values[at] if at < len(values) else UNSET


def _value(text: str) -> Json:
    value: Json = parse_json(text)  # type: ignore[assignment]  # what JSON text holds is JSON
    return value


def _recorded_result(run: RunRow) -> dict[str, Json]:
    value = None if run.result is None else _value(run.result)
    return value if isinstance(value, dict) else {}


def _call_json(door: str, ref: str, given: "Json | Unset", status: str | None) -> Json:
    call: dict[str, Json] = {"call": door}
    if ref:
        call["ref"] = ref
    if not isinstance(given, Unset):
        call["input"] = given
    if status is not None:
        call["status"] = status
    return call


def _shown(value: "Json | Unset") -> str:
    return "nothing" if isinstance(value, Unset) else printable(cut(compact_json(value), _SHOWN_CHARS))
