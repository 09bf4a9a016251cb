"""The expressions of a setup, `${{ env.X }}`, and their values. They are read once and evaluated anew in each run.

There are names, literals, a few operators and functions, and nothing else: no attribute, index or call of Python.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from jsrun._text import compact_json
from jsrun.canonical import canonical_json, parse_json

Names: TypeAlias = Mapping[str, Any]
Path: TypeAlias = tuple[str, ...]


class ExprError(Exception):
    """What is wrong with an expression, or with its value; the text is a message for people."""


class MissingName(ExprError):
    """A name that is not there."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A number, a text, true, false or null."""

    value: Any


@dataclass(frozen=True, slots=True)
class Name:
    """A name, by its parts."""

    path: Path


@dataclass(frozen=True, slots=True)
class Not:
    """`!operand`."""

    operand: "Expr"


@dataclass(frozen=True, slots=True)
class Binary:
    """`left sign right`, where the sign is one of `== != && ||`."""

    sign: str
    left: "Expr"
    right: "Expr"


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the list, with as many arguments as it takes."""

    name: str
    arguments: "tuple[Expr, ...]"


Expr: TypeAlias = Literal | Name | Not | Binary | Function


@dataclass(frozen=True, slots=True)
class Template:
    """A text with expressions in it: pieces of text and expressions in their order, at least one of the latter."""

    pieces: tuple[str | Expr, ...]

    def evaluate(self, names: Names) -> Any:
        """The value of a template that is one expression, else text. ExprError if there is none."""
        if len(self.pieces) == 1 and not isinstance(self.pieces[0], str):
            return evaluate(self.pieces[0], names)
        return "".join(piece if isinstance(piece, str) else _text(evaluate(piece, names)) for piece in self.pieces)

    def names(self) -> Iterator[Path]:
        """All names that occur."""
        for piece in self.pieces:
            if not isinstance(piece, str):
                yield from names_in(piece)


def names_in(expr: Expr) -> Iterator[Path]:
    """All names that occur in an expression."""
    stack = [expr]
    while stack:
        match stack.pop():
            case Name(path):
                yield path
            case Not(operand):
                stack.append(operand)
            case Binary(_, left, right):
                stack += (right, left)
            case Function(_, arguments):
                stack += reversed(arguments)


def evaluate(expr: Expr, names: Names) -> Any:
    """The value: JSON. MissingName for a name that is not there, ExprError for a function that does not fit."""
    match expr:
        case Literal(value):
            return value
        case Name(path):
            return _looked_up(path, names)
        case Not(operand):
            return _falsy(evaluate(operand, names))
        case Binary("&&", left, right):
            value = evaluate(left, names)
            return value if _falsy(value) else evaluate(right, names)
        case Binary("||", left, right):
            value = evaluate(left, names)
            return evaluate(right, names) if _falsy(value) else value
        case Binary(sign, left, right):
            # Canonical text tells 1 from true, and does not tell 1 from 1.0.
            equal = canonical_json(evaluate(left, names)) == canonical_json(evaluate(right, names))
            return equal == (sign == "==")
        case Function("default", (first, second)):
            try:
                return evaluate(first, names)
            except MissingName:
                return evaluate(second, names)
        case Function(name, arguments):
            return FUNCTIONS[name].call(*(evaluate(argument, names) for argument in arguments))


def _looked_up(path: Path, names: Names) -> Any:
    value: Any = names
    for part in path:
        if not isinstance(value, Mapping) or part not in value:
            raise MissingName(f"{'.'.join(path)} is not there.")
        value = value[part]
    return value


def _falsy(value: Any) -> bool:
    return value is None or value is False or value == "" or (isinstance(value, int | float) and value == 0)


def _text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else compact_json(value)


# Functions


def _contains(where: Any, what: Any) -> bool:
    if isinstance(where, list):
        wanted = canonical_json(what)
        return any(canonical_json(item) == wanted for item in where)
    return _string("contains", what) in _string("contains", where)


def _starts_with(text: Any, start: Any) -> bool:
    return _string("starts_with", text).startswith(_string("starts_with", start))


def _ends_with(text: Any, end: Any) -> bool:
    return _string("ends_with", text).endswith(_string("ends_with", end))


def _lower(text: Any) -> str:
    return _string("lower", text).lower()


def _json(text: Any) -> Any:
    try:
        return parse_json(_string("json", text))
    except ValueError as error:
        raise ExprError(f"The text given to json() {error}.") from None


def _string(function: str, value: Any) -> str:
    if not isinstance(value, str):
        # Its kind only: the value may be secret.
        raise ExprError(f"{function}() takes text, not {_kind(value)}.")
    return value


def _kind(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return compact_json(value)
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    return "a number"


@dataclass(frozen=True, slots=True)
class Known:
    """A function of the list: how many arguments it takes, and what it does."""

    count: int
    call: Callable[..., Any]


FUNCTIONS: Mapping[str, Known] = {
    "default": Known(2, lambda first, second: first),  # evaluated apart: its first argument may be missing
    "contains": Known(2, _contains),
    "starts_with": Known(2, _starts_with),
    "ends_with": Known(2, _ends_with),
    "lower": Known(1, _lower),
    "json": Known(1, _json),
}
