"""Positions: from an offset into a text to the line and column people see."""

import re
from bisect import bisect_right

_LINE_END = re.compile(r"\r\n|\n|\r")


class Lines:
    """The lines of one text; they end with LF, CR LF or CR."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(match.end() for match in _LINE_END.finditer(text))]

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of the character at `offset`, both from 1, the column in code points."""
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def offset(self, line: int, column: int) -> int:
        """The offset of a position; a line past the end counts as the last one."""
        index = min(max(line, 1), len(self._starts)) - 1
        return self._starts[index] + max(column, 1) - 1

    @property
    def count(self) -> int:
        """How many lines the text has; an empty text has one."""
        return len(self._starts)
