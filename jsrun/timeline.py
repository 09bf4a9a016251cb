"""Timeline: what the rows of one run say about when things happened, computed once for everything that shows it.

Rows are untrusted: a time that is no date, a duration beyond reason or a result that is no result must not stop anybody
from looking at the rest, so each is left out where it cannot be read.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from jsrun.canonical import parse_json
from jsrun.fuel import CEILING
from jsrun.journal import EntryRow, RunRecord, RunRow
from jsrun.spend import Spend

# Rows say when a call began to the millisecond, so two calls that touch by less may have been one after the other.
RESOLUTION_MS = 1.0
# A thousand years. More is no duration, and the sum of two stays finite.
_MOST_MS = 3.2e13
_MS_PER_S = 1000.0
_US_PER_MS = 1000
_US_PER_S = 1_000_000
_MICROSECOND = timedelta(microseconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class TimedCall:
    """One door call on the time axis; `start_ms` and `end_ms` count from the beginning of the run.

    `took_ms` is None for a call without an answer, which then lasts as long as its attempt. `superseded`: a later
    attempt made the call again. `input_bytes` and `output_bytes` are those of the JSON in the row.
    """

    row: EntryRow
    start_ms: float
    end_ms: float
    took_ms: float | None
    superseded: bool = False

    @property
    def answered(self) -> bool:
        """Does the row tell when the call ended?"""
        return self.took_ms is not None

    @property
    def tokens(self) -> int | None:
        """What the call booked on the token ceiling; None if it reported no spend."""
        return None if self.row.spend is None else self.row.spend.tokens

    @property
    def input_bytes(self) -> int | None:
        """The size of what the program gave; None if it gave nothing."""
        return None if self.row.input is None else len(self.row.input)

    @property
    def output_bytes(self) -> int | None:
        """The size of the answer; None if there is none."""
        return None if self.row.output is None else len(self.row.output)


@dataclass(frozen=True, slots=True)
class Attempt:
    """The part of the time axis that one attempt takes. Attempts follow each other; the pauses between are left out."""

    number: int
    began: str
    start_ms: float
    end_ms: float


@dataclass(frozen=True, slots=True)
class Gauge:
    """How much of one kind of fuel was used; None: not measured, or without a limit. Seconds, bytes or a count."""

    name: str
    used: float | None
    limit: float | None

    @property
    def share(self) -> float | None:
        """Used over limit, 1 if that was reached or crossed; None if either is not known."""
        if self.used is None or self.limit is None or self.limit <= 0:
            return None
        return min(self.used / self.limit, 1.0)


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line the program logged, with its level."""

    level: str
    text: str


@dataclass(frozen=True, slots=True)
class Timeline:
    """One run as it is shown. `calls` are in the order they were made, over all attempts.

    `span_ms` is the length of the axis and `parallel` the most calls that went on at the same time. `sentence`,
    `report`, `output`, `logs` and `cut` are those of the result, empty without one; `output` is a JSON value and
    `has_output` says whether it is one. `spend` sums all rows.
    """

    run: RunRow
    calls: tuple[TimedCall, ...]
    attempts: tuple[Attempt, ...]
    span_ms: float
    parallel: int
    gauges: tuple[Gauge, ...]
    spend: Spend
    sentence: str = ""
    report: str = ""
    output: object = None
    has_output: bool = False
    logs: tuple[LogLine, ...] = ()
    cut: tuple[str, ...] = ()


def timeline(record: RunRecord) -> Timeline:
    """The timeline of a run. Never fails on what the rows hold."""
    result = _object(record.run.result)
    usage = _object(result.get("usage"))
    placed, attempts = _place(record, _number(usage.get("wall_s")))
    output = result.get("output")
    return Timeline(
        run=record.run,
        calls=placed,
        attempts=attempts,
        span_ms=max((attempt.end_ms for attempt in attempts), default=0.0),
        parallel=_parallel(placed, record.run.form),
        gauges=_gauges(record, usage),
        spend=record.spend(),
        sentence=_text(result.get("incomplete")) or _text(result.get("fell_back")),
        report=_text(result.get("report")),
        output=output,
        has_output=output is not None,
        logs=tuple(LogLine(_text(item.get("level")), _text(item.get("text"))) for item in _objects(result, "logs")),
        cut=tuple(_text(item.get("what")) for item in _objects(result, "truncated")),
    )


def _place(record: RunRecord, wall_s: float | None) -> tuple[tuple[TimedCall, ...], tuple[Attempt, ...]]:
    """Put the attempts end to end on one axis, and every call where it was in its attempt."""
    counting = {row.key for row in record.current()}
    numbers = sorted({1, record.run.attempt, *(row.attempt for row in record.entries)})
    calls: list[TimedCall] = []
    attempts: list[Attempt] = []
    shift = 0.0
    for number in numbers:
        rows = [row for row in record.entries if row.attempt == number]
        began = _began(record.run, number, rows)
        placed = [_timed(row, began, shift, superseded=row.key not in counting) for row in rows]
        end = max((call.end_ms for call in placed), default=shift)
        if number == record.run.attempt:
            end = max(end, shift + _length(record.run, began, wall_s))
        calls += (call if call.answered else replace(call, end_ms=end) for call in placed)
        # The run's own start counts only for its first attempt; of a resume nothing is recorded before its first call.
        said = record.run.started_at if number == 1 else rows[0].at if rows else ""
        attempts.append(Attempt(number, said, shift, end))
        shift = end
    return tuple(calls), tuple(attempts)


def _began(run: RunRow, number: int, rows: list[EntryRow]) -> int | None:
    """When an attempt began, in microseconds since 1970; None if nothing tells.

    The first one began with the run, unless the caller gave the run another time than that of the clock.
    """
    moments = [moment for row in rows if (moment := _moment(row.at)) is not None]
    first = min(moments, default=None)
    if number != 1:
        return first
    started = _moment(run.started_at)
    if started is None or first is None:
        return started if first is None else first
    most = _number(_object(run.fuel).get("wall")) or CEILING.wall or 0.0
    return started if 0 <= first - started <= most * _US_PER_S else first


def _timed(row: EntryRow, began: int | None, shift: float, *, superseded: bool) -> TimedCall:
    moment = _moment(row.at)
    offset = 0.0 if moment is None or began is None else min(max(0.0, (moment - began) / _US_PER_MS), _MOST_MS)
    took = None if row.elapsed_ms is None or row.state in ("open", "abandoned") else min(row.elapsed_ms, _MOST_MS)
    start = shift + offset
    return TimedCall(row, start, start + (took or 0.0), took, superseded)


def _length(run: RunRow, began: int | None, wall_s: float | None) -> float:
    """How long the last attempt took, in milliseconds: as its result says, else by the clock; 0 if it goes on."""
    if run.ended_at is None:
        return 0.0
    if wall_s is None:
        ended = _moment(run.ended_at)
        wall_s = 0.0 if ended is None or began is None else max(0.0, (ended - began) / _US_PER_S)
    return min(wall_s * _MS_PER_S, _MOST_MS)


def _parallel(calls: Iterable[TimedCall], form: str) -> int:
    """The most calls that went on at once. A sync program makes one call at a time, whatever the clock says."""
    marks: list[tuple[float, int]] = []
    any_call = False
    for call in calls:
        any_call = True
        if call.end_ms - call.start_ms > RESOLUTION_MS:
            marks += [(call.start_ms, 1), (call.end_ms - RESOLUTION_MS, -1)]
    if form == "sync" or not marks:
        return int(any_call)
    most = now = 0
    for _, change in sorted(marks):  # an end comes before a beginning at the same moment
        now += change
        most = max(most, now)
    return most


def _gauges(record: RunRecord, usage: Mapping[str, object]) -> tuple[Gauge, ...]:
    limits = _object(record.run.fuel)
    used = {
        "steps": float(sum(row.step for row in record.current())),
        "tokens": float(record.spend().tokens),
        "wall": _number(usage.get("wall_s")),
        "compute": _number(usage.get("compute_s")),
        "memory": _number(usage.get("memory_bytes")),
    }
    return tuple(Gauge(name, value, _number(limits.get(name))) for name, value in used.items())


def _moment(text: str) -> int | None:
    """An RFC 3339 time in whole microseconds since 1970; None for text that only looks like one."""
    try:
        moment = datetime.fromisoformat(text)
        return (moment - _EPOCH) // _MICROSECOND
    except (ValueError, OverflowError, TypeError):  # of these, a time without a zone is a TypeError
        return None


def _object(value: object) -> Mapping[str, object]:
    """An object of a row, as JSON text or as value; empty if it is none."""
    if isinstance(value, str):
        try:
            value = parse_json(value)
        except ValueError:
            return {}
    return value if isinstance(value, dict) else {}


def _objects(result: Mapping[str, object], name: str) -> list[Mapping[str, object]]:
    items = result.get(name)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _number(value: object) -> float | None:
    """A number that can be drawn: finite, not negative; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
