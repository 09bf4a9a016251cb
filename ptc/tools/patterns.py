"""Regular expressions of JSON Schemas, matched in linear time.

Schemas have JavaScript's regular expressions, which Python's `re` neither reads right nor always finishes. The Rust
engine that comes with pydantic never backtracks. A pattern is rewritten for it; what it has no equivalent for
(look-around, back references) is refused, as is one so large that matching it would hold up the host.
"""

import re
from functools import lru_cache
from typing import Final

from pydantic_core import SchemaError, SchemaValidator, core_schema

from ptc.errors import UsageError

__all__ = ["Pattern", "TooLongError", "pattern"]

# Automaton states: hundreds make a large pattern; thousands come from counted repetition inside counted repetition.
MAX_STATES: Final = 5_000
# States times characters, in which matching is linear: a quarter of a second at the very worst. Enough for 50,000
# characters and a UUID, or 500,000 of base64.
MAX_WORK: Final = 2_000_000

# Roughly how many states a class of Unicode characters takes, as encoded in UTF-8.
_WIDE, _VERY_WIDE = 10, 300
_COUNTED: Final = re.compile(r"\{(\d+)(?:,(\d*))?\}")
_NAMED: Final = re.compile(r"\?<[A-Za-z_][A-Za-z0-9_]*>")
_PROPERTY: Final = re.compile(r"[pP]\{[A-Za-z0-9_=]+\}")
_HEX: Final = re.compile(r"x([0-9A-Fa-f]{2})|u\{0*([0-9A-Fa-f]{1,6})\}|u([0-9A-Fa-f]{4})")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
# JavaScript's \d and \w are ASCII, and its dot leaves out four line ends.
_CLASSES: Final = {"d": "[0-9]", "D": "[^0-9]", "w": "[0-9A-Za-z_]", "W": "[^0-9A-Za-z_]", "s": r"\s", "S": r"\S"}
_DOT: Final = r"[^\n\r\x{2028}\x{2029}]"


class TooLongError(Exception):
    """A text is too long to be searched for a pattern."""


class Pattern:
    """A compiled regular expression. Raises `UsageError` for what cannot be matched."""

    def __init__(self, source: str) -> None:
        rewriting = _Rewriting(source)
        self._states = rewriting.states
        try:
            self._validator = SchemaValidator(core_schema.str_schema(pattern=rewriting.text, regex_engine="rust-regex"))
        except SchemaError:
            raise UsageError(f"{rewriting.shown} is no regular expression of JavaScript, or is too large") from None

    def work(self, text: str) -> int:
        """How much searching the text may take at the worst, in steps of the automaton."""
        return self._states * len(text)

    def is_in(self, text: str) -> bool:
        """Whether some part of the text matches. TooLongError if that would take too long to find out."""
        if self.work(text) > MAX_WORK:
            raise TooLongError
        return self._validator.isinstance_python(_SURROGATE.sub("\ufffd", text))


@lru_cache(maxsize=2048)
def pattern(source: str) -> Pattern:
    """The compiled pattern, from a cache."""
    return Pattern(source)


class _Rewriting:
    """Rewrites one pattern, token by token, and counts the states it will need."""

    def __init__(self, source: str) -> None:
        self.shown = f"the pattern {source!a:.100}"
        self._source = source
        self._at = 0
        self._out: list[str] = []
        self._groups: list[int] = []
        """States of the groups around, up to where the inner group begins."""
        self._states = 0
        """States of the group we are in, without the last atom."""
        self._last = 0
        """States of the last atom, which a quantifier multiplies."""
        while self._at < len(source):
            self._token()
        self.states = self._states + self._last + sum(self._groups) + 1
        if self.states > MAX_STATES:
            raise self._refused("is too large: its counted repetitions take too long to match")
        self.text = "".join(self._out)

    def _refused(self, why: str) -> UsageError:
        return UsageError(f"{self.shown} {why}")

    def _token(self) -> None:
        character = self._source[self._at]
        self._at += 1
        if character == "\\":
            self._atom(*self._escape(in_class=False))
        elif character == "[":
            self._atom(*self._class())
        elif character == ".":
            self._atom(_DOT, _WIDE)
        elif character == "(":
            self._open()
        elif character == ")":
            self._close()
        elif character == "{":
            self._count()
        elif character in "]}":
            self._atom("\\" + character, 1)
        elif _SURROGATE.match(character):
            raise self._refused("holds half a surrogate pair")
        elif character in "*+?|^$":
            self._out.append(character)
        else:
            self._atom(character, 1)

    def _atom(self, text: str, states: int) -> None:
        self._out.append(text)
        self._states += self._last
        self._last = states

    def _open(self) -> None:
        mark = "("
        if self._source.startswith("?", self._at):
            named = _NAMED.match(self._source, self._at)
            if named is None and not self._source.startswith("?:", self._at):
                raise self._refused("has look-around or flags, which cannot be matched in bounded time")
            mark = "(?:"
            self._at = named.end() if named is not None else self._at + 2
        self._out.append(mark)
        self._groups.append(self._states + self._last)
        self._states = self._last = 0

    def _close(self) -> None:
        if not self._groups:
            raise self._refused("has a ) too many")
        self._out.append(")")
        self._last = self._states + self._last + 1
        self._states = self._groups.pop()

    def _count(self) -> None:
        counted = _COUNTED.match(self._source, self._at - 1)
        if counted is None:
            self._atom("\\{", 1)
            return
        numbers = [number.lstrip("0") or "0" for number in counted.groups() if number]
        if max(map(len, numbers)) > len(str(MAX_STATES)):
            raise self._refused("is too large: its counted repetitions take too long to match")
        self._last = min(self._last * max(1, *map(int, numbers)), 2 * MAX_STATES)
        self._out.append(counted.group())
        self._at = counted.end()

    def _escape(self, in_class: bool) -> tuple[str, int]:
        """What follows a backslash, rewritten, and its states."""
        if self._at == len(self._source):
            raise self._refused("ends with a backslash")
        character = self._source[self._at]
        if character in _CLASSES:
            self._at += 1
            return _CLASSES[character], 1 if character in "dw" else _WIDE
        if unicode := _PROPERTY.match(self._source, self._at):
            self._at = unicode.end()
            return "\\" + unicode.group(), _VERY_WIDE
        if _HEX.match(self._source, self._at):
            return f"\\x{{{self._code():x}}}", 1
        self._at += 1
        if character in "tnrfv":
            return "\\" + character, 1
        if character == "0":
            return r"\x{0}", 1
        if character == "b":
            return (r"\x{8}" if in_class else r"(?-u:\b)"), 1
        if character == "B" and not in_class:
            return r"\B", _VERY_WIDE
        if character in "123456789k":
            raise self._refused("has a back reference, which cannot be matched in bounded time")
        if character.isalnum() or _SURROGATE.match(character):
            raise self._refused(f"has the unknown escape \\{ascii(character)[1:-1]}")
        return f"\\x{{{ord(character):x}}}", 1

    def _code(self) -> int:
        """The code point of an escape by number; two halves of a pair are one."""
        codes = []
        for _ in range(2):
            escape = _HEX.match(self._source, self._at)
            assert escape is not None
            codes.append(int("".join(digits or "" for digits in escape.groups()), 16))
            self._at = escape.end()
            if not 0xD800 <= codes[0] < 0xDC00 or not self._source.startswith("\\u", self._at):
                break
            self._at += 1
            if not _HEX.match(self._source, self._at):
                break
        if len(codes) == 2 and 0xDC00 <= codes[1] < 0xE000:
            return 0x10000 + (codes[0] - 0xD800) * 0x400 + codes[1] - 0xDC00
        if len(codes) == 2 or 0xD800 <= codes[0] < 0xE000:
            raise self._refused("holds half a surrogate pair")
        return codes[0]

    def _class(self) -> tuple[str, int]:
        """The rest of a class in brackets, rewritten, and its states."""
        negated = self._source.startswith("^", self._at)
        self._at += negated
        if self._source.startswith("]", self._at):  # JavaScript's way of writing "any character", and "none"
            self._at += 1
            return ("(?s:.)" if negated else r"[^\x{0}-\x{10ffff}]"), _WIDE
        items: list[str] = []
        states = _WIDE if negated else 1
        while True:
            if self._at == len(self._source):
                raise self._refused("has a [ without its ]")
            character = self._source[self._at]
            self._at += 1
            if character == "]":
                return f"[{'^' if negated else ''}{''.join(items)}]", states
            if character == "\\":
                text, count = self._escape(in_class=True)
                states += count if count > 1 else 0
            elif character == "-" and self._source.startswith("-", self._at):
                raise self._refused("has two dashes side by side in a class; write \\- for each")
            elif _SURROGATE.match(character):
                raise self._refused("holds half a surrogate pair")
            else:
                text = "\\" + character if character in "[&~^" else character
                states += _WIDE if character > "\x7f" else 0
            items.append(text)
