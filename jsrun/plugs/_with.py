"""The `with:` of a setup entry: JSON whose texts may hold expressions, each with its place."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from jsrun.plugs._expr_parser import read
from jsrun.plugs.errors import ExpressionError, SetupIssue
from jsrun.plugs.expr import ExprError, Names, Template
from jsrun.plugs.expr import Path as NamePath

Path: TypeAlias = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Leaf:
    """A text with expressions, where it is in the value, and its `file:line:column`."""

    path: Path
    template: Template
    place: str

    def names(self) -> Iterator[NamePath]:
        """All names that its expressions use."""
        return self.template.names()


@dataclass(frozen=True, slots=True)
class With:
    """What stands at `with:`; `leaves` are its texts with expressions."""

    value: Any
    leaves: tuple[Leaf, ...]
    _read: Any

    def evaluate(self, names: Names) -> Any:
        """The value with its expressions evaluated; ExpressionError with the place of the first that has no value."""
        return _evaluated(self._read, names)


def read_with(value: Any, place: Callable[[Path], str]) -> tuple[With, list[tuple[Path, str]]]:
    """Read the expressions in `value`; `place` tells the place of a path in it. Also what is wrong, by path."""
    leaves: list[Leaf] = []
    wrong: list[tuple[Path, str]] = []

    def walk(part: Any, path: Path) -> Any:
        if isinstance(part, dict):
            return {key: walk(inner, (*path, key)) for key, inner in part.items()}
        if isinstance(part, list):
            return [walk(inner, (*path, index)) for index, inner in enumerate(part)]
        if not isinstance(part, str):
            return part
        try:
            found = read(part)
        except ExprError as error:
            wrong.append((path, str(error)))
            return part
        if isinstance(found, str):
            return found
        leaf = Leaf(path, found, place(path))
        leaves.append(leaf)
        return leaf

    with_expressions = walk(value, ())
    return With(value, tuple(leaves), with_expressions), wrong


def _evaluated(part: Any, names: Names) -> Any:
    if isinstance(part, dict):
        return {key: _evaluated(inner, names) for key, inner in part.items()}
    if isinstance(part, list):
        return [_evaluated(inner, names) for inner in part]
    if not isinstance(part, Leaf):
        return part
    try:
        return part.template.evaluate(names)
    except ExprError as error:
        raise ExpressionError([SetupIssue(str(error), part.place)]) from None
