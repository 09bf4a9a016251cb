"""What differs between the output a case expects and the one it got, by path, for people."""

from collections.abc import Iterator, Sequence
from typing import Final

from jsrun._text import compact_json
from jsrun.schema_checks import Path, path_text
from ptc.wire import Json

# Differences told of one output, and characters shown of one value.
MOST: Final = 5
_SHOWN_CHARS: Final = 120
# What is shown of two long texts around the place where they part.
_BEFORE_CHARS: Final = 20
_LONG_CHARS: Final = 60


def differences(wanted: Json, got: Json, *, exact: bool, root: str = "output") -> list[str]:
    """Where `got` is not what is wanted, one line each; without `exact`, objects may have more keys."""
    found: list[str] = []
    for path, problem in _differences(wanted, got, exact):
        if len(found) == MOST:
            return [*found, "…"]
        found.append(f"{path_text(root, path)}: {problem}")
    return found


def call_difference(wanted: Sequence[str], made: Sequence[str]) -> str:
    """The first call that is not the expected one."""
    at = next((n for n, pair in enumerate(zip(wanted, made, strict=False)) if pair[0] != pair[1]), None)
    if at is None:
        at = min(len(wanted), len(made))
    expected = shown(wanted[at]) if at < len(wanted) else "no more calls"
    got = shown(made[at]) if at < len(made) else "no more calls"
    return f"call {at + 1}: expected {expected}, got {got}"


def _differences(wanted: Json, got: Json, exact: bool) -> Iterator[tuple[Path, str]]:
    # A stack of our own, because values may be deeper than Python's.
    todo: list[tuple[Path, Json, Json]] = [((), wanted, got)]
    while todo:
        path, one, two = todo.pop()
        if isinstance(one, dict) and isinstance(two, dict):
            for key in one:
                if key not in two:
                    yield (*path, key), f"expected {shown(one[key])}, is missing"
            if exact:
                for key in two:
                    if key not in one:
                        yield (*path, key), f"not expected, got {shown(two[key])}"
            todo += [((*path, key), one[key], two[key]) for key in reversed(one) if key in two]
        elif isinstance(one, list) and isinstance(two, list):
            if len(one) != len(two):
                yield path, f"expected {_count(one)}, got {len(two)}"
            pairs = list(enumerate(zip(one, two, strict=False)))
            todo += [((*path, index), *pair) for index, pair in reversed(pairs)]
        elif isinstance(one, bool) is not isinstance(two, bool) or one != two:
            yield path, _unequal(one, two)


def _unequal(wanted: Json, got: Json) -> str:
    if isinstance(wanted, str) and isinstance(got, str) and max(len(wanted), len(got)) > _LONG_CHARS:
        at = next((n for n, pair in enumerate(zip(wanted, got, strict=False)) if pair[0] != pair[1]), None)
        at = min(len(wanted), len(got)) if at is None else at
        start = max(0, at - _BEFORE_CHARS)
        one, two = (shown(text[start : start + _LONG_CHARS]) for text in (wanted, got))
        return f"from character {at + 1} on, expected …{one}…, got …{two}…"
    return f"expected {shown(wanted)}, got {shown(got)}"


def _count(items: list[Json]) -> str:
    return f"{len(items)} item{'' if len(items) == 1 else 's'}"


def shown(value: object, most: int = _SHOWN_CHARS) -> str:
    """A value as JSON text, cut at `most` characters."""
    text = compact_json(value)
    return text if len(text) <= most else text[:most] + "…"
