"""Reading the expressions in a text of a setup."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jsrun._text import quoted
from jsrun.plugs.expr import FUNCTIONS, Binary, Expr, ExprError, Function, Literal, Name, Not, Template

# An expression says where a value comes from; a program belongs into a plug.
MAX_BYTES = 4 * 1024
MAX_LEVELS = 32

OPENING = "${{"
CLOSING = "}}"

_TOKEN = re.compile(
    r"""(?P<blank>[ \t\r\n]+)
    |(?P<number>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![\w.]))
    |(?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |(?P<name>[A-Za-z_][A-Za-z0-9_-]*)
    |(?P<end>\}\})
    |(?P<sign>==|!=|&&|\|\||[!().,])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "'": "'"}
_WORDS: Mapping[str, Any] = {"true": True, "false": False, "null": None}
# What a name may look like; None stands for any part.
_KNOWN: tuple[tuple[str | None, ...], ...] = (
    ("env", None),
    ("session", "id"),
    ("session", "execution_id"),
    ("session", "agent", "name"),
    ("run", "kind"),
    ("run", "number"),
    ("setup", None, "outputs", None),
)
_KNOWN_TEXT = (
    "env.X, session.id, session.execution_id, session.agent.name, run.kind, run.number and setup.ID.outputs.NAME"
)


def read(text: str) -> "str | Template":
    """`text` with its expressions read, or as plain text if it has none. ExprError for a wrong expression.

    `$${{` stands for `${{` that begins no expression.
    """
    pieces: list[str | Expr] = []
    plain = ""
    at = 0
    while (found := text.find(OPENING, at)) >= 0:
        if found > at and text[found - 1] == "$":
            plain += text[at : found - 1] + OPENING
            at = found + len(OPENING)
            continue
        plain += text[at:found]
        if plain:
            pieces.append(plain)
            plain = ""
        parser = _Parser(text, found + len(OPENING))
        pieces.append(parser.expression())
        at = parser.at
    plain += text[at:]
    if not pieces:
        return plain
    return Template((*pieces, plain) if plain else tuple(pieces))


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str


@dataclass(slots=True)
class _Parser:
    """Reads one expression from `at` on, its end mark included."""

    _source: str
    at: int
    _start: int = field(init=False)
    _token: _Token = field(init=False)
    _level: int = 0

    def __post_init__(self) -> None:
        self._start = self.at

    def expression(self) -> Expr:
        self._advance()
        expr = self._either()
        if self._token.kind != "end":
            raise self._unexpected()
        if _levels(expr) > MAX_LEVELS:  # a long chain of operators is as deep as it is long
            raise self._too_deep()
        return expr

    def _either(self) -> Expr:
        left = self._both()
        while self._take("||"):
            left = Binary("||", left, self._both())
        return left

    def _both(self) -> Expr:
        left = self._equal()
        while self._take("&&"):
            left = Binary("&&", left, self._equal())
        return left

    def _equal(self) -> Expr:
        left = self._operand()
        while (sign := self._token.text) in ("==", "!=") and self._token.kind == "sign":
            self._advance()
            left = Binary(sign, left, self._operand())
        return left

    def _operand(self) -> Expr:
        self._level += 1
        if self._level > MAX_LEVELS:
            raise self._too_deep()
        try:
            return self._one()
        finally:
            self._level -= 1

    def _one(self) -> Expr:
        if self._take("!"):
            return Not(self._operand())
        if self._take("("):
            inner = self._either()
            self._expect(")")
            return inner
        token = self._token
        if token.kind == "number":
            self._advance()
            return Literal(_number(token.text))
        if token.kind == "string":
            self._advance()
            return Literal(_unescaped(token.text[1:-1]))
        if token.kind != "name":
            raise self._unexpected()
        self._advance()
        if token.text in _WORDS:
            return Literal(_WORDS[token.text])
        if self._take("("):
            return self._function(token.text)
        return self._name(token.text)

    def _function(self, name: str) -> Expr:
        known = FUNCTIONS.get(name)
        if known is None:
            raise ExprError(f"There is no function {quoted(name)}; there are {', '.join(FUNCTIONS)}.")
        arguments: list[Expr] = []
        if not self._take(")"):
            arguments.append(self._either())
            while self._take(","):
                arguments.append(self._either())
            self._expect(")")
        if len(arguments) != known.count:
            raise ExprError(f"{name}() takes {known.count} arguments, not {len(arguments)}.")
        return Function(name, tuple(arguments))

    def _name(self, first: str) -> Expr:
        path = [first]
        while self._take("."):
            if self._token.kind != "name":
                raise self._unexpected()
            path.append(self._token.text)
            self._advance()
        for known in _KNOWN:
            if len(known) == len(path) and all(want in (None, part) for want, part in zip(known, path, strict=True)):
                return Name(tuple(path))
        raise ExprError(f"There is no name {quoted('.'.join(path))}; there are {_KNOWN_TEXT}.")

    def _take(self, sign: str) -> bool:
        if self._token.kind != "sign" or self._token.text != sign:
            return False
        self._advance()
        return True

    def _expect(self, sign: str) -> None:
        if not self._take(sign):
            raise self._unexpected()

    def _advance(self) -> None:
        kind = "blank"
        while kind == "blank":
            match = _TOKEN.match(self._source, self.at)
            if match is None:
                raise self._no_token()
            kind = str(match.lastgroup)
            self.at = match.end()
            if len(self._source[self._start : self.at].encode(errors="surrogatepass")) > MAX_BYTES + len(CLOSING):
                raise ExprError(f"The expression is longer than {MAX_BYTES:,} bytes.")
        self._token = _Token(kind, match[0] if match is not None else "")

    @staticmethod
    def _too_deep() -> ExprError:
        return ExprError(f"The expression has more than {MAX_LEVELS} levels.")

    def _no_token(self) -> ExprError:
        rest = self._source[self.at : self.at + 1]
        if not rest:
            return ExprError(f"The expression has no end; close it with {CLOSING}.")
        if rest in "\"'":
            return ExprError("A text in the expression has no end; close it with the quote it began with.")
        return ExprError(f"The expression cannot be read at {quoted(self._source[self.at : self.at + 20])}.")

    def _unexpected(self) -> ExprError:
        return ExprError(f"The expression cannot go on with {quoted(self._token.text)}.")


def _number(literal: str) -> int | float:
    if len(literal) > 300:
        raise ExprError("A number in the expression is too long.")
    value = float(literal) if set(literal) & set(".eE") else int(literal)
    if value in (float("inf"), float("-inf")):
        raise ExprError(f"The number {literal} is too large.")
    return value


def _unescaped(text: str) -> str:
    def replaced(match: re.Match[str]) -> str:
        if match[1] not in _ESCAPES:
            raise ExprError(f"A text in the expression holds the escape {quoted(match[0])}, which there is not.")
        return _ESCAPES[match[1]]

    return _ESCAPE.sub(replaced, text)


def _levels(expr: Expr) -> int:
    deepest = 0
    layer = [expr]
    while layer:
        deepest += 1
        layer = [part for outer in layer for part in _parts(outer)]
    return deepest


def _parts(expr: Expr) -> tuple[Expr, ...]:
    match expr:
        case Not(operand):
            return (operand,)
        case Binary(_, left, right):
            return (left, right)
        case Function(_, arguments):
            return arguments
    return ()
