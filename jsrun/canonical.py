"""JSON as text: the form the journal stores, and the canonical form by which two values are compared."""

import hashlib
import json
import re
from collections.abc import Iterable
from itertools import chain

# No value crosses a door with more levels than this, so stored text with more is broken.
MAX_LEVELS = 512
# How Python prints a float that is a whole number: "1.0", "1e+16". May also hit inside a string; then the careful
# encoder runs for nothing, but its answer is the same.
_WHOLE_FLOAT = re.compile(r"\.0(?!\d)|\de\+\d")

# Kept, because `json.dumps` with options makes a new encoder each time, and every door call needs several texts.
_plain = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
_sorted = json.JSONEncoder(separators=(",", ":"), allow_nan=False, sort_keys=True).encode


def canonical_json(value: object) -> str:
    """The one text of a JSON value: keys sorted by code point, no blanks, ASCII, whole floats written as integers.

    Integers of any size and lone surrogates are fine. ValueError for what is not JSON: NaN, Infinity, an object.
    """
    text = json_text(value, sort_keys=True)
    if _WHOLE_FLOAT.search(text) is None:
        return text
    return _careful(value, sort_keys=True, whole=True)


def input_hash(value: object) -> str:
    """SHA-256 of the canonical text, in hex: equal for equal values, whatever their key order or number type."""
    return hashlib.sha256(canonical_json(value).encode("ascii")).hexdigest()


def json_text(value: object, *, sort_keys: bool = False) -> str:
    """ASCII JSON text without blanks, keys in their order (or sorted). ValueError for what is not JSON."""
    try:
        return (_sorted if sort_keys else _plain)(value)
    except RecursionError:
        return _careful(value, sort_keys=sort_keys, whole=False)
    except TypeError:
        raise ValueError("the value is not JSON") from None


def parse_json(text: str) -> object:
    """The value of stored JSON text, read as untrusted: ValueError, in words for people, for anything unsound."""
    try:
        value: object = json.loads(text, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError(f"is nested deeper than {MAX_LEVELS} levels") from None
    except ValueError as error:
        # A number of too many digits is the one refusal that does not come from the JSON reader itself.
        reason = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
        raise ValueError(f"is not JSON: {reason}") from None
    brackets = text.count("[") + text.count("{")
    if brackets > MAX_LEVELS and _levels(value) > MAX_LEVELS:
        raise ValueError(f"is nested deeper than {MAX_LEVELS} levels")
    return value


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not a JSON number")


def _careful(value: object, *, sort_keys: bool, whole: bool) -> str:
    """Encode without recursion: a stack of pieces, each either finished text or a value still to be written."""
    out: list[str] = []
    stack: list[tuple[bool, object]] = [(False, value)]
    while stack:
        finished, item = stack.pop()
        if finished:
            out.append(str(item))
        elif isinstance(item, dict):
            keys = sorted(item) if sort_keys else list(item)
            parts = ([(True, json_text(key) + ":"), (False, item[key])] for key in keys)
            stack.extend(reversed(_bracketed("{", parts, "}")))
        elif isinstance(item, list | tuple):
            stack.extend(reversed(_bracketed("[", ([(False, element)] for element in item), "]")))
        elif whole and isinstance(item, float) and item.is_integer():
            out.append(str(int(item)))
        else:
            out.append(json_text(item))
    return "".join(out)


def _bracketed(opening: str, parts: Iterable[list[tuple[bool, object]]], closing: str) -> list[tuple[bool, object]]:
    pieces: list[tuple[bool, object]] = [(True, opening)]
    for number, part in enumerate(parts):
        if number:
            pieces.append((True, ","))
        pieces.extend(part)
    pieces.append((True, closing))
    return pieces


def _levels(value: object) -> int:
    """How deep lists and objects are nested; 0 for a scalar."""
    deepest = 0
    layer = [value]
    while layer := [item for item in layer if isinstance(item, dict | list)]:
        deepest += 1
        layer = list(chain.from_iterable(item.values() if isinstance(item, dict) else item for item in layer))
    return deepest
