"""Notes on a program's syntax tree: what is type, what cannot be erased, and what awaits.

The notes are taken by the handlers of `ptc._syntax` and `ptc._generics` while a tree is walked once, and used by
`ptc._erase`. Offsets are code points of the program.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = ["Handlers", "Refusal", "Removal", "Survey", "Text"]

_LINE_BREAK: Final = re.compile(r"[\n\r\u2028\u2029]")
_SPACE: Final = re.compile(r"(?:[\s\ufeff]++|//[^\n\r\u2028\u2029]*+)*+")


class Text:
    """The text of a program, and where in it white space, comments and line breaks are."""

    def __init__(self, value: str) -> None:
        self.value = value
        # Looking for the end of a comment that has none, again and again, would take quadratic time.
        self._last_comment_end = value.rfind("*/")

    def after(self, offset: int) -> int:
        """The next offset from `offset` on that is neither white space nor comment."""
        while True:
            space = _SPACE.match(self.value, offset)
            offset = space.end() if space else offset
            if offset + 2 > self._last_comment_end or not self.value.startswith("/*", offset):
                return offset
            offset = self.value.index("*/", offset + 2) + 2

    def broken(self, start: int, end: int) -> bool:
        """Whether there is a line break between two offsets."""
        return _LINE_BREAK.search(self.value, start, end) is not None


@dataclass(frozen=True, slots=True)
class Removal:
    """A stretch of text that goes.

    `semicolon`: it leaves a `;` in its first place. `joins`: it must do so too if the next line begins with one of
    these characters.
    """

    start: int
    end: int
    semicolon: bool = False
    joins: str = ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Something that cannot be erased: where it is, and what to do about it."""

    offset: int
    advice: str


@dataclass(slots=True)
class Survey:
    """The notes of one walk over a tree. `unreadable`: the parser met an error, so the notes are a guess."""

    source: Text
    unreadable: bool
    removals: list[Removal] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    functions: list[tuple[int, int]] = field(default_factory=list)
    """Where text is not part of the body itself."""
    awaits: list[int] = field(default_factory=list)
    restricted: list[tuple[int, str]] = field(default_factory=list)
    """End and name of the keywords no line break may follow."""
    fat_arrows: list[int] = field(default_factory=list)
    typed_arrows: list[tuple[int, int]] = field(default_factory=list)
    """End of `)` and start of `=>`, of arrow functions with a return type."""
    prefixes: set[int] = field(default_factory=set)
    """Starts of the `<T>` of type assertions."""
    statements: list[int] = field(default_factory=list)
    """Starts of expression statements."""
    first: list[Removal] = field(default_factory=list)
    """What must be gone before the parser can read on."""
    comparisons: list[int] = field(default_factory=list)
    """Offsets of `<` that open no type argument, though the parser took them for it."""
    less: list[int] = field(default_factory=list)
    """Offsets of the `<` that were read as operators, since the last `>`."""
    after_open_field: set[int] = field(default_factory=set)
    """Starts of class members that follow a field without a semicolon."""

    @property
    def text(self) -> str:
        return self.source.value

    def awaits_itself(self) -> bool:
        """Whether there is an `await` outside all nested functions."""
        spans = sorted(self.functions)
        starts = [start for start, _ in spans]
        reach = []  # how far the functions up to and including this one go
        furthest = 0
        for _, end in spans:
            furthest = max(furthest, end)
            reach.append(furthest)
        for at in self.awaits:
            before = bisect_right(starts, at)
            if before == 0 or reach[before - 1] <= at:
                return True
        return False

    def remove(self, node: "Node", *, semicolon: bool = False, joins: str = "") -> None:
        self.removals.append(Removal(node.start_byte, node.end_byte, semicolon, joins))

    def refuse(self, node: "Node", advice: str) -> None:
        self.refusals.append(Refusal(node.start_byte, advice))

    def broken(self, start: int, end: int) -> bool:
        return self.source.broken(start, end)

    def after(self, offset: int) -> int:
        return self.source.after(offset)


Handlers = Mapping[str, Callable[[Survey, "Node"], bool]]
"""From the type of a node to what notes its meaning; a True answer means that its children count as well."""
