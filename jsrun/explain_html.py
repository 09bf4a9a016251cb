"""A run explained on one page of HTML that needs nothing else: no network, no other file, a script only to filter.

Everything in a journal may have been written by a program or a model, so it is hostile. Data gets onto the page through
`_text` alone, which leaves no character that could be markup, and into attributes as numbers only. The page's policy
allows one style sheet and one script, by their hashes: should markup get through all the same, it could run nothing.
"""

import base64
import hashlib
import html
import json
import re
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import resources
from itertools import groupby

from jsrun.called_lines import CalledLines
from jsrun.canonical import parse_json
from jsrun.ending_hints import ending_hint
from jsrun.endings import size
from jsrun.timeline import Gauge, TimedCall, Timeline
from jsrun.timeline_text import calls_text, ending_text, gauge_text, on_axis, size_text, spend_text, time_text, visible

# Of one value, and of all values together: a browser opens a page of this size without trouble.
VALUE_CHARACTERS = 100_000
PAGE_CHARACTERS = 20_000_000
# What every value keeps when the page is full.
_LEAST_CHARACTERS = 500
# Links beside one line of the program; a loop may have made thousands of calls.
_LINKS = 6
# Of a ref in the overview; a question may be long.
_REF_CHARACTERS = 200
# A ref up to this length is there whole in most windows.
_NAME_CHARACTERS = 20
# How much longer indented JSON may be than the JSON itself.
_MOST_BLANKS = 8
# The bars are drawn on a scale of whole numbers.
_UNITS = 10_000
_TICKS = 4

_PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")


def explain_html(timeline: Timeline, program: CalledLines | None = None, *, notice: str = "", made_by: str = "") -> str:
    """The page. `program`: the lines of the program that ran; `notice` is shown before them, or in their place."""
    return _Page(timeline, program).text(notice, made_by)


@cache
def _template() -> str:
    return resources.files("jsrun").joinpath("explain.html").read_text("utf-8")


@cache
def policy() -> str:
    """The content security policy: nothing may be loaded, and only the page's own style and script may work."""
    template = _template()
    style, script = (_hash(template, tag) for tag in ("style", "script"))
    return (
        f"default-src 'none'; style-src '{style}'; script-src '{script}'; base-uri 'none'; form-action 'none'; "
        "require-trusted-types-for 'script'"
    )


def _hash(template: str, tag: str) -> str:
    inside = template.partition(f"<{tag}>")[2].partition(f"</{tag}>")[0]
    return "sha256-" + base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()


class _Page:
    def __init__(self, timeline: Timeline, program: CalledLines | None) -> None:
        self._timeline = timeline
        self._program = program
        self._room = PAGE_CHARACTERS

    def text(self, notice: str, made_by: str) -> str:
        line, run = self._timeline, self._timeline.run
        parts = {
            "policy": policy(),  # ours; its quotes stand in double ones
            "title": _text(f"{run.name}: {ending_text(run.status, run.reason)}"),
            "heading": _text(run.name),
            "subtitle": _text(f"Run {run.run_id}, started {run.started_at}"),
            "ending": self._ending(),
            "facts": "".join(f"<dt>{name}</dt><dd>{_text(value)}</dd>" for name, value in _facts(line)),
            "gauges": "".join(map(_gauge, line.gauges)),
            "values": self._values(),
            "calls_note": _text(f"{calls_text(line)}. {_AXIS_NOTE if line.calls else ''}".strip()),
            "axis": _axis(line.span_ms) if line.calls else "",
            "calls": "\n".join(self._calls()),
            "program": "\n".join(self._lines(notice)),
            "made_by": _text(made_by),
        }
        # One pass, so that braces in the data stay braces.
        return _PLACEHOLDER.sub(lambda match: parts[match[1]], _template())

    def _ending(self) -> str:
        run, sentence = self._timeline.run, self._timeline.sentence
        hint = ending_hint(run.status, run.reason)
        status = run.status if run.status in ("finished", "fell_back", "incomplete") else "none"
        place = ""
        if self._program is not None and self._program.ended is not None:
            number = self._program.ended
            place = f'<p><a href="#line-{number}">Show line {number}</a></p>'
        return (
            f'<div class="ending {status}"><strong>{_text(ending_text(run.status, run.reason))}</strong>'
            + (f"<p>{_text(sentence)}</p>" if sentence else "")
            + (f'<p class="soft">{_text(hint)}</p>' if hint else "")
            + place
            + "</div>"
        )

    def _values(self) -> str:
        line = self._timeline
        parts = [self._value("Input", line.run.input)]
        if line.has_output:
            parts.append(self._value("Output", json.dumps(line.output), open_=True))
        else:
            parts.append('<p class="none">There is no output.</p>')
        if line.report:
            parts.append(self._fold("Report", line.report))
        if line.logs:
            logs = "\n".join(f"{entry.level:6} {entry.text}" for entry in line.logs)
            parts.append(self._fold(f"Log, {len(line.logs):,} line{'' if len(line.logs) == 1 else 's'}", logs))
        if line.cut:
            parts.append(f'<p class="note">Cut when it was recorded: {_text(", ".join(line.cut))}.</p>')
        return "\n".join(parts)

    def _calls(self) -> Iterator[str]:
        attempts = {attempt.number: attempt for attempt in self._timeline.attempts}
        for number, calls in groupby(self._timeline.calls, key=lambda call: call.row.attempt):
            if len(attempts) > 1:
                began = attempts[number].began
                yield f'<h3 class="attempt">Attempt {number:d}{_text(f", from {began}" if began else "")}</h3>'
            yield from map(self._call, calls)

    def _call(self, call: TimedCall) -> str:
        row = call.row
        again = " superseded" if call.superseded else ""
        shown = row.ref or row.note or ""  # a status has no ref
        took = "–" if call.took_ms is None else time_text(call.took_ms)
        sizes = f"{_size(call.input_bytes)} → {_size(call.output_bytes)}"
        tokens = "" if call.tokens is None else f"{call.tokens:,}"
        return (
            f'<details class="call {_text(row.state)}{again}" id="{_call_id(call)}"><summary>'
            f'<span class="right soft">{row.seq:d}</span><span>{_text(row.call)}</span>'
            f'<span class="ref"><bdi>{_text(shown[:_REF_CHARACTERS])}</bdi></span>'
            f'<span class="state">{_text(row.state)}</span>'
            f"{_bar(call, self._timeline.span_ms)}"
            f'<span class="right wide">{time_text(call.start_ms)}</span><span class="right">{took}</span>'
            f'<span class="right wide">{tokens}</span><span class="right wide soft">{sizes}</span>'
            f'</summary><div class="body">{"".join(self._body(call))}</div></details>'
        )

    def _body(self, call: TimedCall) -> Iterator[str]:
        row = call.row
        if call.superseded:
            yield '<p class="note">A later attempt made this call again, and that one counts.</p>'
        if not row.step:
            yield '<p class="note">Made for the run, not by the program: it used no step.</p>'
        if row.call in _PROSE or len(row.ref) > _NAME_CHARACTERS:
            yield f"<h3>{_PROSE.get(row.call, 'Ref')}</h3>{self._pre(row.ref)}"
        if row.err is not None:
            yield f'<h3 class="error">Error</h3>{self._pre(row.err)}'
        if row.note is not None:
            yield f"<h3>Note</h3>{self._pre(row.note)}"
        if row.input is not None:
            yield self._value("Input", row.input, open_=True)
        if row.output is not None:
            yield self._value("Output", row.output, open_=True)
        facts = [("made", row.at)]
        if call.took_ms is not None:
            facts.append(("took", time_text(call.took_ms)))
        if row.spend is not None:
            facts.append(("spend", spend_text(row.spend)))
        yield '<dl class="facts">' + "".join(f"<dt>{name}</dt><dd>{_text(value)}</dd>" for name, value in facts)
        lines = self._program.lines_of.get(row.key, ()) if self._program is not None else ()
        if lines:
            links = ", ".join(f'<a href="#line-{number}">{number}</a>' for number in lines[:_LINKS])
            yield f"<dt>line{'' if len(lines) == 1 else 's, by name'}</dt><dd>{links}</dd>"
        yield "</dl>"

    def _lines(self, notice: str) -> Iterator[str]:
        if notice:
            yield f'<p class="note">{_text(notice)}</p>'
        program = self._program
        if program is None:
            return
        if program.calls:
            yield f'<p class="note">{_BY_NAME}</p>'
        yield '<div class="program code">'
        for number, text in enumerate(program.lines, start=1):
            calls = program.calls.get(number, ())
            kind = (" called" if calls else "") + (" ended" if number == program.ended else "")
            links = " ".join(f'<a href="#{_call_id(call)}">#{call.row.seq:d}</a>' for call in calls[:_LINKS])
            more = f" and {len(calls) - _LINKS:,} more" if len(calls) > _LINKS else ""
            yield (
                f'<div class="row{kind}" id="line-{number}"><span class="number">{number}</span>'
                f'<span class="text">{_text(text)}</span><span class="calls">{links}{more}</span></div>'
            )
        yield "</div>"

    def _value(self, name: str, text: str, *, open_: bool = False) -> str:
        return self._fold(f"{name}, {size(len(text))} of JSON", _pretty(text), open_=open_)

    def _fold(self, name: str, text: str, *, open_: bool = False) -> str:
        opened = " open" if open_ else ""
        return f'<details class="fold"{opened}><summary>{_text(name)}</summary>{self._pre(text)}</details>'

    def _pre(self, text: str) -> str:
        most = min(VALUE_CHARACTERS, max(self._room, _LEAST_CHARACTERS))
        shown, rest = text[:most], len(text) - most
        self._room -= len(shown)
        more = f'<p class="note">{rest:,} more characters: "jsrun journal export" has them.</p>' if rest > 0 else ""
        # The line end is dropped by the browser; without it, it would drop one of the text.
        return f'<pre tabindex="0">\n{_text(shown)}</pre>{more}'


_AXIS_NOTE = "Bars above each other are calls that went on at the same time; a pale bar is a call without an answer."
_BY_NAME = (
    "The journal does not record positions: a line is marked if it holds a call of that door and name, "
    "and several lines may share the calls of one name."
)
# Of these doors the ref is what somebody wrote, not a name, so it is shown whole.
_PROSE = {"ask": "Question", "remember": "Note", "recall": "Query"}


def _text(value: str) -> str:
    """Text as the page shows it: escaped, and what could not be seen or would deceive is made visible."""
    return html.escape(visible(value), quote=True)


def _pretty(text: str) -> str:
    """Stored JSON to be read: a text as itself, everything else on indented lines."""
    try:
        value = parse_json(text)
        if isinstance(value, str):
            return value
        indented = json.dumps(value, ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        return text
    # Deep values would be blanks for the most part.
    return indented if len(indented) <= _MOST_BLANKS * max(len(text), _LEAST_CHARACTERS) else text


def _facts(line: Timeline) -> Iterable[tuple[str, str]]:
    run = line.run
    yield "engine", f"{run.engine}, {run.form}"
    yield "attempt", str(run.attempt)
    yield "ended", run.ended_at or "–"
    if line.spend.reported():
        yield "spend", spend_text(line.spend)
    yield "bundle", run.bundle_hash
    yield "program", run.program_hash
    if run.parent_run_id:
        yield "parent", run.parent_run_id
    yield "seed", run.seed


def _gauge(gauge: Gauge) -> str:
    share = gauge.share
    width = 0 if share is None else round(share * _UNITS)
    full = " full" if share is not None and share >= 1 else ""
    text = _text(gauge_text(gauge))
    return (
        f'<div class="gauge{full}"><span>{_text(gauge.name)}</span>'
        f'<svg viewBox="0 0 {_UNITS} 10" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect width="{width}" height="10"/></svg><span>{text}</span></div>'
    )


def _bar(call: TimedCall, span_ms: float) -> str:
    # A call of a millisecond in a run of minutes must still be seen.
    width = min(max(round(on_axis(call.end_ms - call.start_ms, span_ms) * _UNITS), _UNITS // 150), _UNITS)
    start = min(round(on_axis(call.start_ms, span_ms) * _UNITS), _UNITS - width)
    return (
        f'<svg class="bar" viewBox="0 0 {_UNITS} 10" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect x="{start}" y="1" width="{width}" height="8"/></svg>'
    )


def _axis(span_ms: float) -> str:
    ticks = "".join(f"<span>{_tick(span_ms * step / _TICKS)}</span>" for step in range(_TICKS + 1))
    return (
        '<div class="grid wide" aria-hidden="true"><span class="right">#</span><span>door</span><span>ref</span>'
        f'<span>state</span><span class="axis">{ticks}</span><span class="right">start</span>'
        '<span class="right">took</span><span class="right">tokens</span><span class="right">in → out</span></div>'
    )


def _tick(ms: float) -> str:
    return "0" if ms == 0 else time_text(ms)


def _call_id(call: TimedCall) -> str:
    return f"call-{call.row.attempt:d}-{call.row.seq:d}"


def _size(amount: int | None) -> str:
    return "–" if amount is None else size_text(amount)
