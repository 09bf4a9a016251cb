"""Plain JSON for values on their way to a program: the quick carriage beside the wire (`ptc.wire`).

Most values a host function gives are shallow and hold nothing JSON lacks. Such a value travels as nested JSON, which
the engine's own parser reads at once, instead of flat tokens that are put together one by one. The guarantees are those
of the wire: only values it would admit unchanged are taken here, everything else is left to it. Only the direction from
host to program may use it, since the nesting of untrusted text must not be the parser's problem.
"""

import json
import math
from typing import Final

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
        return _write(value)
    except (TypeError, ValueError, RuntimeError):  # changed by another thread since it was looked at
        return None


_CONTAINERS: Final = frozenset({dict, list, tuple})


def _is_plain(value: object, max_tokens: int) -> bool:
    shapes: set[tuple[object, ...]] = set()  # of objects whose keys have been looked at
    left = max_tokens - 1
    level: list[object] = [value]
    for _ in range(MAX_PLAIN_DEPTH):
        below: list[object] = []
        for container in level:
            if isinstance(container, dict):
                shape = tuple(container)
                if shape not in shapes:
                    if not all(type(key) is str and _has_no_surrogate(key) for key in shape):
                        return False
                    shapes.add(shape)
                items = list(container.values())
            else:
                items = list(container)  # type: ignore[call-overload]  # a list or tuple
            left -= len(items)
            if left < 0:
                return False
            for item in items:
                kind = type(item)
                if kind is str or kind is bool or item is None:
                    continue
                if kind is int:
                    if not -MAX_SAFE_INTEGER <= item <= MAX_SAFE_INTEGER:
                        return False
                elif kind is float:
                    if not math.isfinite(item) or (item == 0 and math.copysign(1, item) < 0):
                        return False
                elif kind in _CONTAINERS:
                    below.append(item)
                else:
                    return False
        if not below:
            return True
        level = below
    return False


def _has_no_surrogate(key: str) -> bool:
    """Keys with halves of characters may be equal in JavaScript without being so here."""
    return key.isascii() or not any("\ud800" <= character <= "\udfff" for character in key)
