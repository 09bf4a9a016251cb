"""A timeline as plain text, one line for each call, and the short forms of figures that every view of it shares."""

import re
from collections.abc import Iterator, Sequence

from rich.cells import cell_len, set_cell_size

from jsrun._text import printable
from jsrun.canonical import parse_json
from jsrun.ending_hints import ending_hint
from jsrun.endings import duration, size
from jsrun.spend import Spend
from jsrun.timeline import Gauge, TimedCall, Timeline

# Cells of the axis where nobody says how wide the terminal is: enough to see which calls overlap.
BAR = 24
_BAR_LEAST = 10
_BAR_MOST = 60
_GAUGE = 20
# A ref is a name for `ai` and `tool`, but a whole question for `ask`.
_REF = 24
# Of a value or sentence in the overview of a run; the export and the page have it whole.
SHOWN_CHARACTERS = 100
_ANSWER_LEAST = 10
_SENTENCE = 400

_HEAD = ("#", "door", "ref", "state", "start", "took", "timeline", "tokens", "in", "out")
_BAR_AT = _HEAD.index("timeline")
_RIGHT = frozenset({"#", "start", "took", "tokens", "in", "out"})
_KIB = 1024
# Characters that change the order in which others are shown, so that a text reads as something it is not.
_DECEIVING = re.compile("[\u061c\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]")
_SIZES = ((_KIB**3, "G"), (_KIB**2, "M"), (_KIB, "K"))


def timeline_lines(timeline: Timeline, width: int | None = None, *, ascii_only: bool = False) -> Iterator[str]:
    """The lines of a run: what it was, its fuel, its calls. `width` cells cut the answers; None: nobody minds."""
    run = timeline.run
    yield f"run      {_line(run.run_id)}"
    yield f"bundle   {_line(run.name)} {_line(run.bundle_hash)}"
    yield f"engine   {_line(run.engine)}, {run.form}"
    yield f"started  {run.started_at}, attempt {run.attempt}"
    sentence = f" ({_line(timeline.sentence, _SENTENCE)})" if timeline.sentence else ""
    yield f"ending   {ending_text(run.status, run.reason)}{sentence}"
    hint = ending_hint(run.status, run.reason)
    if hint:
        yield f"         {hint}"
    if timeline.spend.reported():
        yield f"spend    {spend_text(timeline.spend)}"
    yield f"input    {_line(run.input)}"
    for number, gauge in enumerate(timeline.gauges):
        yield f"{'fuel' if number == 0 else '':8} {gauge.name:8}{_gauge_bar(gauge, ascii_only)}  {gauge_text(gauge)}"
    yield ""
    if not timeline.calls:
        yield "no door calls"
        return
    yield from _table(timeline, width, ascii_only)
    yield ""
    yield calls_text(timeline)


def _table(timeline: Timeline, width: int | None, ascii_only: bool) -> Iterator[str]:
    rows = [_cells(call) for call in timeline.calls]
    widths = [max(cell_len(row[at]) for row in (_HEAD, *rows)) for at in range(len(_HEAD))]
    bar, room = _shares(width, sum(widths) - widths[_BAR_AT] + 2 * len(widths))
    widths[_BAR_AT] = bar
    yield _joined((*_HEAD, "answer"), widths)
    attempt = timeline.calls[0].row.attempt
    for call, row in zip(timeline.calls, rows, strict=True):
        if call.row.attempt != attempt:
            attempt = call.row.attempt
            yield f"-- attempt {attempt}, whose first call was at {call.row.at}"
        drawn = _bar(call, timeline.span_ms, bar, ascii_only)
        yield _joined((*row[:_BAR_AT], drawn, *row[_BAR_AT + 1 :], _answer(call, room)), widths)
        if width is not None and call.row.err is not None and cell_len(_line(call.row.err)) > room:
            yield f"{'':4}{_line(call.row.err, max(width - 4, SHOWN_CHARACTERS // 2))}"  # why it failed is worth a line


def _shares(width: int | None, taken: int) -> tuple[int, int]:
    """How many cells the bars and the answers get of what is left of the width."""
    if width is None:
        return BAR, SHOWN_CHARACTERS
    bar = min(max((width - taken) // 2, _BAR_LEAST), _BAR_MOST)
    return bar, max(width - taken - bar, _ANSWER_LEAST)


def _cells(call: TimedCall) -> tuple[str, ...]:
    """The cells of a call, without its bar."""
    row = call.row
    return (
        str(row.seq),
        row.call,
        _line(row.ref, _REF),
        row.state + (" (redone)" if call.superseded else ""),
        time_text(call.start_ms),
        "" if call.took_ms is None else time_text(call.took_ms),
        "",
        "" if call.tokens is None else f"{call.tokens:,}",
        "" if call.input_bytes is None else size_text(call.input_bytes),
        "" if call.output_bytes is None else size_text(call.output_bytes),
    )


def _joined(cells: Sequence[str], widths: Sequence[int]) -> str:
    parts = []
    for name, cell, width in zip(_HEAD, cells, widths, strict=False):
        blanks = " " * (width - cell_len(cell))
        parts.append(blanks + cell if name in _RIGHT else cell + blanks)
    return "  ".join((*parts, cells[-1])).rstrip()


def _bar(call: TimedCall, span_ms: float, cells: int, ascii_only: bool) -> str:
    """The call on the axis, at least one cell long. A call without an answer is drawn lighter: its end is not known."""
    first = min(int(on_axis(call.start_ms, span_ms) * cells), cells - 1)
    last = min(max(first + 1, round(on_axis(call.end_ms, span_ms) * cells)), cells)
    full, open_ = ("#", "-") if ascii_only else ("█", "░")
    return " " * first + (full if call.answered else open_) * (last - first) + " " * (cells - last)


def on_axis(ms: float, span_ms: float) -> float:
    """Where a moment is on an axis of this length, from 0 to 1."""
    return ms / span_ms if span_ms > 0 else 0.0


def _gauge_bar(gauge: Gauge, ascii_only: bool) -> str:
    if gauge.share is None:
        return " " * (_GAUGE + 2)
    cells = int(gauge.share * _GAUGE)  # full is only what is used up
    if gauge.used and cells == 0:
        cells = 1  # something is not nothing
    full, rest = ("#", ".") if ascii_only else ("█", "·")
    return f"[{full * cells}{rest * (_GAUGE - cells)}]"


def _answer(call: TimedCall, room: int) -> str:
    row = call.row
    return _line(row.err or value_line(row.output) or row.note or "", room)


def visible(text: str) -> str:
    """Text fit to be shown: what could drive a terminal, hide itself or change the order of others is escaped."""
    return _DECEIVING.sub(lambda match: f"\\u{ord(match[0]):04x}", printable(text))


def value_line(text: str | None) -> str:
    """A JSON value as one line: text as it is, everything else as JSON."""
    if text is None:
        return ""
    try:
        value = parse_json(text) if text.startswith('"') else None
    except ValueError:
        return text
    return value if isinstance(value, str) else text


def _line(text: str, most: int = SHOWN_CHARACTERS) -> str:
    # Cut before and after: a long text need not be read whole, and an escape may make it longer.
    line = " ".join(visible(text[: most * 2]).split())
    if cell_len(line) <= most and len(text) <= most * 2:
        return line
    return set_cell_size(line, most - 1).rstrip() + "…"


def ending_text(status: str | None, reason: str | None) -> str:
    """`finished`, or status and reason, or that there is no ending."""
    if status is None:
        return "no ending"
    return status if reason is None else f"{status}: {_line(reason)}"


def calls_text(timeline: Timeline) -> str:
    """How many calls there were, and how many at once."""
    count = len(timeline.calls)
    calls = f"{count:,} door call{'' if count == 1 else 's'} in {time_text(timeline.span_ms)}"
    if timeline.parallel > 1:
        return f"{calls}, at most {timeline.parallel:,} at the same time"
    return calls


def spend_text(spend: Spend) -> str:
    """What model calls cost, in one line."""
    cost = f", ${spend.cost_usd:.4f}" if spend.cost_usd else ""
    cache = f", {spend.cache_read:,} read from the cache" if spend.cache_read else ""
    model = f" ({_line(spend.model)})" if spend.model else ""
    return f"{spend.input:,} tokens in, {spend.output:,} out{cache}{cost}{model}"


def gauge_text(gauge: Gauge) -> str:
    """`12 of 500`, `1.5 seconds of 15 minutes`, `not measured, limit 128 MiB`."""
    if gauge.used is None:
        return "not measured" if gauge.limit is None else f"not measured, limit {_amount(gauge.name, gauge.limit)}"
    used = _amount(gauge.name, gauge.used)
    return f"{used}, no limit" if gauge.limit is None else f"{used} of {_amount(gauge.name, gauge.limit)}"


def _amount(name: str, value: float) -> str:
    if name in ("wall", "compute"):
        return duration(value)
    return size(int(value)) if name == "memory" else f"{int(value):,}"


def time_text(ms: float) -> str:
    """A time on the axis, short: `0.4ms`, `340ms`, `1.25s`, `2m05s`, `3h04m`."""
    if ms < 10:
        return f"{ms:.1f}ms"
    if ms < 1000:
        return f"{ms:.0f}ms"
    if ms < 60_000:
        return f"{ms / 1000:.2f}s"
    seconds = round(ms / 1000)
    if seconds < 3600:
        return f"{seconds // 60}m{seconds % 60:02}s"
    return f"{seconds // 3600:,}h{seconds % 3600 // 60:02}m"


def size_text(amount: int) -> str:
    """A size in bytes, short: `712`, `1.5K`, `3.0M`."""
    for unit, name in _SIZES:
        if amount >= unit:
            return f"{amount / unit:.1f}{name}"
    return str(amount)
