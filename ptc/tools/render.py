"""What a model reads of a run: its log, its value, or why it failed. And JSON text of any depth.

    cut_middle(result_text(outcome), max_chars) -> text

The layout is fixed, so that models get used to it: log entries line by line, then the value. After the cut a text has
no lone surrogates, so it can be written as UTF-8.
"""

import json
import re
from collections.abc import Iterator
from typing import Final

from ptc.outcome import Failure, Outcome
from ptc.wire import MAX_SAFE_INTEGER, Json, number_text

__all__ = ["MIN_RESULT_CHARS", "cut_middle", "json_text", "result_text", "short_json", "value_text"]

MIN_RESULT_CHARS: Final = 100
"""The least a result may be cut to: room for the mark, and for something on both sides of it."""

INDENTED_LEVELS: Final = 5
"""Levels of a value that get lines of their own: what people and models still read as a tree."""

NO_OUTPUT: Final = "(no output)"
SHORT_CHARS: Final = 80
"""A value inside a message: enough to recognise it."""

_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def result_text(outcome: Outcome) -> str:
    """The text of a finished or failed run, as long as it is."""
    lines = [entry.text for entry in outcome.logs]
    if outcome.failure is not None:
        finished = outcome.calls - len(outcome.unfinished)
        lines = [_failure_line(outcome.failure), f"calls finished: {finished} of {outcome.calls}", *lines]
    elif outcome.has_value:
        lines.append(value_text(outcome.value))
    return "\n".join(lines) or NO_OUTPUT


def _failure_line(failure: Failure) -> str:
    at = failure.position
    where = f" at {at.line}:{at.column}" if at is not None else ""
    return f"{failure.kind}{where}: {failure.message}"


def value_text(value: Json) -> str:
    """A value as its reader wants it: a string raw, anything else as JSON, indented where it is not deep."""
    return value if isinstance(value, str) else json_text(value, INDENTED_LEVELS)


def cut_middle(text: str, max_chars: int) -> str:
    """`text` ready to be shown: lone surrogates replaced, and with its middle left out if it is too long.

    The mark tells how much is missing of how much. `max_chars` is at least `MIN_RESULT_CHARS`.
    """
    text = _SURROGATE.sub("\ufffd", text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass"))
    total = len(text)
    if total <= max_chars:
        return text
    longest_mark = f"\n[… {total} of {total} characters omitted …]\n"
    kept = max_chars - len(longest_mark)
    head, tail = text[: kept - kept // 2], text[total - kept // 2 :]
    return f"{head}\n[… {total - kept} of {total} characters omitted …]\n{tail}"


def json_text(value: Json, indented_levels: int = 0) -> str:
    """JSON text with two spaces per level down to `indented_levels` levels, and compact below."""
    return "".join(_pieces(value, indented_levels))


def short_json(value: Json, max_chars: int = SHORT_CHARS) -> str:
    """The beginning of a value's compact JSON, to be shown in a message. Costs no more than what is shown."""
    text = ""
    for piece in _pieces(value[:max_chars] if isinstance(value, str) else value, 0):
        text += piece
        if len(text) > max_chars:
            return _SURROGATE.sub("\ufffd", f"{text[:max_chars]}…")
    return _SURROGATE.sub("\ufffd", text)


def _pieces(value: Json, indented_levels: int) -> Iterator[str]:
    """The JSON text piece by piece. Keeps its own stack, so depth is no matter."""
    # Each entry is a container being written: its members, its end, and how its members are separated.
    stack: list[tuple[Iterator[tuple[str, Json]], str, str]] = []
    members: Iterator[tuple[str, Json]] = iter((("", value),))
    end = separator = first = ""
    while True:
        for key, item in members:
            yield first + key
            first = separator
            if isinstance(item, (dict, list)) and item:
                stack.append((members, end, separator))
                is_object, depth = isinstance(item, dict), len(stack)
                members = _members(item, depth <= indented_levels)
                if depth <= indented_levels:
                    line = "\n" + "  " * depth
                    first, separator, end = line, "," + line, "\n" + "  " * (depth - 1)
                else:
                    first, separator, end = "", ",", ""
                end += "}" if is_object else "]"
                yield "{" if is_object else "["
                break
            yield _scalar(item)
        else:
            if not stack:
                return
            yield end
            members, end, separator = stack.pop()
            first = separator


def _members(container: dict[str, Json] | list[Json], indented: bool) -> Iterator[tuple[str, Json]]:
    if isinstance(container, list):
        return (("", item) for item in container)
    colon = ": " if indented else ":"
    return ((json.dumps(key, ensure_ascii=False) + colon, item) for key, item in container.items())


def _scalar(value: Json) -> str:
    if isinstance(value, float):
        return number_text(value)
    if isinstance(value, int) and abs(value) > MAX_SAFE_INTEGER:
        return f"{value:d}"
    return json.dumps(value, ensure_ascii=False)
