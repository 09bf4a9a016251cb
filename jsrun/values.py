"""Values at the doors: how deep and how large they may be, and which answers of a host can reach a program.

The channel bounds frames and tokens; the bounds here are narrower, so that a value over them fails one call with a
message that names the place or both sizes.
"""

import re
from collections.abc import Iterator
from typing import Final, TypeAlias

from jsrun.canonical import MAX_LEVELS, json_text, parse_json
from jsrun.schema_checks import path_text
from ptc.errors import NotJson
from ptc.outcome import UNSET, Unset
from ptc.wire import Json, encode, json_size

KIB: Final = 1024
MIB: Final = 1024 * KIB

ARGUMENT_BYTES: Final = MIB
"""JSON of the arguments of one call: room for a long document, no place to keep a corpus."""

ANSWER_BYTES: Final = 8 * MIB
"""JSON of one answer, and of a run's input."""

FRAME_BYTES: Final = 16 * MIB
"""One frame of the channel, in which characters above ASCII take six bytes."""

_FRAME_ROOM: Final = 512  # what a frame holds beside the value
# The measured size is at most so many times that of our own JSON text: `1e+20` stands for 21 digits.
_LONGEST: Final = 5
# Up to this many characters a text is far from every bound, whatever is in it.
_SHORT: Final = 4096

# One code fence around an answer, as models like to write it.
_FENCE: Final = re.compile(r"\s*```[A-Za-z0-9_-]*[ \t]*\r?\n(.*?)\r?\n?[ \t]*```\s*", re.DOTALL)

_Key: TypeAlias = "str | int"


class Unsendable(Exception):
    """A value that cannot cross; the text is `PATH: REASON`."""


def json_in(text: object) -> "Json | Unset":
    """The JSON in a model's text, which may stand in one code fence; UNSET if there is none."""
    if not isinstance(text, str):
        return UNSET
    fenced = _FENCE.fullmatch(text)
    try:
        found: Json = parse_json(fenced[1] if fenced else text)  # type: ignore[assignment]  # what JSON text holds
    except ValueError:
        return UNSET
    return found


def answer_text(value: object) -> str:
    """The JSON text of a host's answer, for the journal. Unsendable, with the path, if it cannot cross."""
    if value is None or value is True or value is False or (type(value) is str and len(value) <= _SHORT):
        return json_text(value)
    try:
        wire = encode(value, "result")
    except NotJson as error:
        raise Unsendable(str(error)) from None
    text = json_text(value)
    checked: Json = value  # type: ignore[assignment]  # encode has looked at all of it
    if problem := levels_problem(checked, text, "result") or size_problem(checked, text, ANSWER_BYTES, "result"):
        raise Unsendable(problem)
    if len(wire) + _FRAME_ROOM > FRAME_BYTES:
        raise Unsendable(f"result: {len(wire):,} bytes do not fit a message of {FRAME_BYTES:,} bytes")
    return text


def size_problem(value: Json, text: str, most: int, root: str) -> str | None:
    """What to say of a value whose compact JSON has more than `most` bytes. `text` is its JSON text in ASCII."""
    if len(text) * _LONGEST <= most:
        return None
    size = json_size(value)
    return f"{root}: {size:,} bytes of JSON, {most:,} are allowed" if size > most else None


def levels_problem(value: Json, text: str, root: str) -> str | None:
    """What to say of a value that is nested deeper than 512 levels. `text` is its JSON text."""
    if text.count("[") + text.count("{") <= MAX_LEVELS:
        return None
    path = _too_deep(value)
    return None if path is None else f"{path_text(root, path)}: more than {MAX_LEVELS} levels"


def _too_deep(value: Json) -> tuple[_Key, ...] | None:
    """The way to the first list or object that is one level too deep, or None."""
    trail: list[_Key] = []
    waiting: list[Iterator[tuple[_Key, Json]]] = []
    items: Iterator[tuple[_Key, Json]] = iter(((0, value),))
    while True:
        for key, item in items:
            if not isinstance(item, dict | list | tuple):
                continue
            if len(waiting) == MAX_LEVELS:
                return (*trail[1:], key)
            waiting.append(items)
            trail.append(key)
            items = iter(item.items()) if isinstance(item, dict) else enumerate(item)
            break
        else:
            if not waiting:
                return None
            items = waiting.pop()
            trail.pop()
