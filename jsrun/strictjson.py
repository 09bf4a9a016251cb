"""Strict JSON that remembers where things are.

The standard parser accepts NaN, keeps the last of two equal keys and recurses. This one follows RFC 8259 to the letter,
reports every duplicate key with both places, keeps its own stack, and knows the line and column of each key and value.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from jsrun._text import quoted
from jsrun.diagnostics import Diagnostic
from jsrun.positions import Lines
from ptc.wire import Json

# Deeper than anything people write, and shallow enough for every later step to recurse.
MAX_DEPTH = 64
# CPython refuses to convert more digits than this; nobody means such a number.
MAX_DIGITS = 4_300

Path: TypeAlias = tuple[str | int, ...]
Place: TypeAlias = tuple[int, int]

_BLANKS = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
# The inside of a string up to its end or to the first character that cannot stand there.
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]+|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*')
_WORD = re.compile(r"\w+|.", re.DOTALL)
_WORDS: Mapping[str, Json] = {"true": True, "false": False, "null": None}
_CONSTANTS = ("NaN", "Infinity", "-Infinity")


class JsonError(ValueError):
    """Text that is not strict JSON: `line` and `column` from 1, `message` and `hint` as in a diagnostic."""

    def __init__(self, line: int, column: int, message: str, hint: str) -> None:
        super().__init__(f"{line}:{column}: {message} {hint}")
        self.line = line
        self.column = column
        self.message = message
        self.hint = hint


@dataclass(frozen=True, slots=True)
class DuplicateKey:
    """A key that stands twice in one object, with both places."""

    key: str
    first: Place
    second: Place

    @property
    def message(self) -> str:
        return f"The key {quoted(self.key)} is already at {self.first[0]}:{self.first[1]}."

    @property
    def hint(self) -> str:
        return "Remove one of the two."


@dataclass(slots=True)
class Spot:
    """Where a value and its key begin, as offsets; `entries` are those of the values inside."""

    start: int = 0
    key_start: int | None = None
    entries: "dict[str | int, Spot] | None" = None


@dataclass(frozen=True, slots=True)
class Document:
    """Parsed text. Where a key stands twice, the later value is kept and the pair is in `duplicates`."""

    value: Json
    duplicates: tuple[DuplicateKey, ...]
    lines: Lines
    root: "Spot" = field(repr=False)

    def place(self, path: Path) -> Place | None:
        """Where the value at `path` begins; None if there is none."""
        spot = self._spot(path)
        return None if spot is None else self.lines.position(spot.start)

    def key_place(self, path: Path) -> Place | None:
        """Where the key of the value at `path` begins; None if it has none."""
        spot = self._spot(path)
        return None if spot is None or spot.key_start is None else self.lines.position(spot.key_start)

    def _spot(self, path: Path) -> "Spot | None":
        spot: Spot | None = self.root
        for key in path:
            if spot is None or spot.entries is None:
                return None
            spot = spot.entries.get(key)
        return spot


def parse(text: str, max_depth: int = MAX_DEPTH) -> Document:
    """Parse one JSON value. Raises JsonError for anything else, also for more than `max_depth` levels."""
    return _Parser(text, max_depth).document()


def read(text: str, file: str, code: str, max_depth: int = MAX_DEPTH) -> tuple[Document | None, list[Diagnostic]]:
    """Parse `text` of `file` into a document, or None, and diagnostics: `code` for bad JSON and for duplicate keys."""
    try:
        document = parse(text, max_depth)
    except JsonError as error:
        return None, [Diagnostic(code, "error", file, error.line, error.column, error.message, error.hint)]
    return document, [
        Diagnostic(code, "error", file, *double.second, double.message, double.hint) for double in document.duplicates
    ]


class _Parser:
    def __init__(self, text: str, max_depth: int) -> None:
        self._text = text
        self._max_depth = max_depth
        self._lines = Lines(text)
        self._at = 0
        self._duplicates: list[DuplicateKey] = []

    def document(self) -> Document:
        root = Spot()
        value = self._value_tree(root)
        self._skip()
        if self._at < len(self._text):
            raise self._error(
                f"The text goes on after the end of the JSON value with {self._found()}.", "Write one JSON value only."
            )
        return Document(value, tuple(self._duplicates), self._lines, root)

    def _value_tree(self, root: Spot) -> Json:
        """The value at the cursor. `open_` holds the containers around it, each with its own slot and spot."""
        open_: list[tuple[list[Json] | dict[str, Json], str | int, Spot]] = []
        slot: str | int = 0
        spot = root
        while True:
            value = self._start(spot, len(open_))
            if isinstance(value, list | dict):
                self._skip()
                if not self._peek(_closing(value)):
                    open_.append((value, slot, spot))
                    slot, spot = self._next_slot(value, spot)
                    continue
                self._at += 1
            # A value is complete: put it where it belongs, and close every container that ends here.
            while True:
                if not open_:
                    return value
                container, outer_slot, outer_spot = open_[-1]
                if isinstance(container, list):
                    container.append(value)
                else:
                    container[str(slot)] = value
                self._skip()
                if self._peek(","):
                    self._at += 1
                    self._skip()
                    slot, spot = self._next_slot(container, outer_spot)
                    break
                if not self._peek(_closing(container)):
                    raise self._expected(
                        f"a comma or {quoted(_closing(container))}",
                        "Put a comma between entries, and none after the last.",
                    )
                self._at += 1
                open_.pop()
                value, slot = container, outer_slot

    def _start(self, spot: Spot, depth: int) -> Json:
        """The scalar at the cursor, or the empty container that begins there."""
        self._skip()
        spot.start = self._at
        first = self._character()
        if first in {"[", "{"}:
            if depth >= self._max_depth:
                raise self._error(f"The value is nested deeper than {self._max_depth} levels.", "Make it flatter.")
            spot.entries = {}
            self._at += 1
            return [] if first == "[" else {}
        if first == '"':
            return self._string()
        for word, value in _WORDS.items():
            if self._peek(word) and not self._character(len(word)).isalnum():
                self._at += len(word)
                return value
        return self._number()

    def _next_slot(self, container: list[Json] | dict[str, Json], spot: Spot) -> tuple[str | int, Spot]:
        """The slot and the spot of the entry that begins at the cursor; reads the key of an object's entry."""
        entries = spot.entries if spot.entries is not None else {}
        if isinstance(container, list):
            entries[len(container)] = entry = Spot()
            return len(container), entry
        if not self._peek('"'):
            raise self._expected("a key in double quotes", 'Write keys like "name", and no comma after the last entry.')
        start = self._at
        key = self._string()
        earlier = entries.get(key)
        if earlier is not None and earlier.key_start is not None:
            first = self._lines.position(earlier.key_start)
            self._duplicates.append(DuplicateKey(key, first, self._lines.position(start)))
        entries[key] = entry = Spot(key_start=start)
        self._skip()
        if not self._peek(":"):
            raise self._expected(f"a colon after the key {quoted(key)}", "Separate key and value by a colon.")
        self._at += 1
        return key, entry

    def _string(self) -> str:
        match = _STRING.match(self._text, self._at)
        end = match.end() if match else self._at
        if self._text.startswith('"', end):
            literal = self._text[self._at : end + 1]
            self._at = end + 1
            return literal[1:-1] if "\\" not in literal else str(json.loads(literal))
        if end >= len(self._text):
            raise self._error("The text that begins here has no end.", "Close it with a double quote.")
        self._at = end
        if self._peek("\\"):
            raise self._error("Text holds a backslash escape that JSON does not have.", r"Write \\ for a backslash.")
        raise self._error(
            "Text holds a raw control character.", r"Write it as an escape: \n for a line break, \t for a tab."
        )

    def _number(self) -> int | float:
        match = _NUMBER.match(self._text, self._at)
        literal = match[0] if match else ""
        following = self._character(len(literal))
        if not match or following.isalnum() or following in {".", "_", "+", "-"}:
            raise self._no_value()
        if len(literal) > MAX_DIGITS:
            raise self._error(f"The number has {len(literal):,} characters.", f"Use at most {MAX_DIGITS:,}.")
        number = float(literal) if match[1] or match[2] else int(literal)
        if number in (float("inf"), float("-inf")):
            raise self._error(f"The number {quoted(literal)} is too large.", "Use a smaller one, or text.")
        self._at += len(literal)
        return number

    def _no_value(self) -> JsonError:
        for constant in _CONSTANTS:
            if self._peek(constant):
                return self._error(f'"{constant}" is not JSON.', "Write a number, or null.")
        if self._peek("//") or self._peek("/*"):
            return self._error("JSON has no comments.", "Remove the comment.")
        if self._peek("'"):
            return self._error("Text in single quotes is not JSON.", "Use double quotes.")
        return self._expected("a JSON value", "Write text in double quotes, a number, true, false, null, [] or {}.")

    def _expected(self, what: str, hint: str) -> JsonError:
        if self._peek("//") or self._peek("/*"):
            return self._error("JSON has no comments.", "Remove the comment.")
        return self._error(f"Expected {what}, got {self._found()}.", hint)

    def _found(self) -> str:
        if self._at >= len(self._text):
            return "the end of the text"
        word = _WORD.match(self._text, self._at, self._at + 100)
        return quoted(word[0] if word else "")

    def _error(self, message: str, hint: str) -> JsonError:
        return JsonError(*self._lines.position(self._at), message, hint)

    def _peek(self, text: str) -> bool:
        return self._text.startswith(text, self._at)

    def _character(self, ahead: int = 0) -> str:
        """The character at the cursor or `ahead` of it; empty at the end."""
        return self._text[self._at + ahead : self._at + ahead + 1]

    def _skip(self) -> None:
        match = _BLANKS.match(self._text, self._at)
        self._at = match.end() if match else self._at


def _closing(container: list[Json] | dict[str, Json]) -> str:
    return "]" if isinstance(container, list) else "}"
