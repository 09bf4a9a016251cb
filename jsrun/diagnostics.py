"""Diagnostics: what is wrong with a bundle, where, and what to do about it."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from jsrun._text import printable

Severity: TypeAlias = Literal["error", "warning"]

# More than anybody reads at once; what is left over is counted.
MOST = 100
# Names longer than this are not compared: nobody mistypes them by hand.
NEAREST_CHARS = 64


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding. `line` and `column` count from 1, columns in code points; None where there is no place to show.

    `message` is one sentence that says what is wrong, `hint` one that says what to do.
    """

    code: str
    severity: Severity
    file: str
    line: int | None
    column: int | None
    message: str
    hint: str

    def __str__(self) -> str:
        # Whoever made the bundle named its files: a name must not look like a second line.
        file = printable(self.file).replace("\n", "\\n").replace("\t", "\\t")
        place = ":".join(str(part) for part in (file, self.line, self.column) if part is not None)
        return f"{place}: {self.severity} [{self.code}] {self.message} {self.hint}".rstrip()


def arrange(diagnostics: Iterable[Diagnostic]) -> tuple[Diagnostic, ...]:
    """Sorted by file, line and column; of more than 100, errors are kept first and a last one counts the rest."""
    found = sorted(diagnostics, key=_place)
    if len(found) <= MOST:
        return tuple(found)
    errors_first = sorted(found, key=lambda diagnostic: diagnostic.severity != "error")
    kept = sorted(errors_first[:MOST], key=_place)
    rest = errors_first[MOST:]
    severity: Severity = "error" if any(diagnostic.severity == "error" for diagnostic in rest) else "warning"
    message = "1 more problem is not shown." if len(rest) == 1 else f"{len(rest):,} more problems are not shown."
    return (*kept, Diagnostic("more", severity, kept[-1].file, None, None, message, "Correct these first."))


def _place(diagnostic: Diagnostic) -> tuple[str, int, int, str, str]:
    return (diagnostic.file, diagnostic.line or 0, diagnostic.column or 0, diagnostic.code, diagnostic.message)


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate that `name` was probably meant to be: smallest edit distance, at most 2 or a third of its length.

    Of equally near ones the first in the alphabet; None if nothing is near.
    """
    if not name or len(name) > NEAREST_CHARS:
        return None
    most = max(2, len(name) // 3)
    best: tuple[int, str] | None = None
    for candidate in candidates:
        # A name that has to be rewritten completely is not a misspelling, however short it is.
        bound = min(most, max(len(name), len(candidate)) - 1)
        if candidate == name or _least_distance(name, candidate) > bound:
            continue
        distance = edit_distance(name, candidate, bound)
        if distance is not None and (best is None or (distance, candidate) < best):
            best = (distance, candidate)
    return best[1] if best else None


def _least_distance(a: str, b: str) -> int:
    """A quick lower bound of the distance: characters that one text has and the other has not."""
    left, right = Counter(a), Counter(b)
    return max((left - right).total(), (right - left).total())


def edit_distance(a: str, b: str, bound: int) -> int | None:
    """How many characters must be inserted, removed or replaced to turn `a` into `b`; None if more than `bound`."""
    row = list(range(len(b) + 1))
    for i, left in enumerate(a, start=1):
        diagonal, row[0] = row[0], i
        for j, right in enumerate(b, start=1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (left != right))
        if min(row) > bound:
            return None
    return row[-1] if row[-1] <= bound else None
