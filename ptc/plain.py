"""Plain JSON for values on their way to a program: the quick carriage beside the wire (`ptc.wire`).

Most values a host function gives are shallow and hold nothing JSON lacks. Such a value travels as nested JSON, which
the engine's own parser reads at once, instead of flat tokens that are put together one by one. The guarantees are those
of the wire: only values it would admit unchanged are taken here, everything else is left to it. Only the direction from
host to program may use it, since the nesting of untrusted text must not be the parser's problem.
"""

import json
import math
from types import NoneType
from typing import Any, Final

from pydantic_core import PydanticSerializationError, to_json

from ptc.wire import MAX_SAFE_INTEGER

__all__ = ["MAX_PLAIN_DEPTH", "plain_text"]

MAX_PLAIN_DEPTH: Final = 32
"""Levels of nesting: far below what any parser holds, and above what tools and databases return."""

_write = json.JSONEncoder(ensure_ascii=True, allow_nan=False, check_circular=False, separators=(",", ":")).encode


def plain_text(value: object, max_tokens: int) -> str | None:
    """The value as ASCII JSON, or None if it must go by the wire: too deep, too many parts, a BigInt, or not JSON.

    None is no verdict: the wire says what is wrong, if anything is.
    """
    if type(value) not in _CONTAINERS or not _is_plain(value, max_tokens):
        return None
    try:
        try:
            quick = to_json(value)
        except PydanticSerializationError:  # half a character, which only the slower writer can escape
            return _write(value)
        return quick.decode("ascii") if quick.isascii() else _write(value)
    except (TypeError, ValueError, RuntimeError):  # changed by another thread since it was looked at
        return None


_CONTAINERS: Final = frozenset({dict, list, tuple})
_KINDS: Final = frozenset({str, bool, NoneType, int, float}) | _CONTAINERS


def _is_plain(value: object, max_tokens: int) -> bool:
    """Level by level, most of it in functions written in C: a host's loop waits for this."""
    keys: set[object] = set()
    left = max_tokens - 1
    level: list[Any] = [value]
    for _ in range(MAX_PLAIN_DEPTH):
        items: list[Any] = []
        for container in level:
            if type(container) is dict:
                keys.update(container)
                items += container.values()
            else:
                items += container
        left -= len(items)
        kinds = set(map(type, items))
        if left < 0 or not kinds <= _KINDS:
            return False
        if int in kinds:
            numbers = [item for item in items if type(item) is int]
            if min(numbers) < -MAX_SAFE_INTEGER or max(numbers) > MAX_SAFE_INTEGER:
                return False
        if float in kinds and not all(_is_sound(item) for item in items if type(item) is float):
            return False
        if kinds.isdisjoint(_CONTAINERS):
            return all(type(key) is str and _has_no_surrogate(key) for key in keys)
        level = [item for item in items if type(item) in _CONTAINERS]
    return False


def _is_sound(number: float) -> bool:
    """Has JSON this number, other than NaN, the infinities and -0?"""
    return math.isfinite(number) and (number != 0 or math.copysign(1, number) > 0)


def _has_no_surrogate(key: str) -> bool:
    """Keys with halves of characters may be equal in JavaScript without being so here."""
    return key.isascii() or not any("\ud800" <= character <= "\udfff" for character in key)
