"""What one schema validation may use, shared by all its keywords."""

import time
from collections.abc import Callable
from contextvars import ContextVar

# Schemas and values come from programs and models. Real ones need a few thousand evaluations and milliseconds.
MAX_EVALUATIONS = 500_000
MAX_SECONDS = 5.0
# Keywords inside one another: real checks have a few hundred, a schema that refers to itself in place has no end.
# At up to five frames each this is well within `ptc.deep.FRAMES`. Python's own limit must not be met: extension code of
# packages below us panics there.
MAX_DEPTH = 3_000


class OverBound(Exception):
    """A validation that takes too much; the text completes "the check …"."""


class Budget:
    """What one validation may use, and how it matches patterns.

    `match` answers whether a pattern is found in a text; None leaves patterns aside: they count as found.
    """

    def __init__(self, match: Callable[[str, str], bool] | None = None, seconds: float = MAX_SECONDS) -> None:
        self._match = match
        self._evaluations = 0
        self._depth = 0
        self._until = time.thread_time() + seconds

    def enter(self) -> None:
        """Book one keyword evaluation, inside which others may be; `leave` is called at its end. Raises OverBound."""
        self.spend()
        if self._depth == MAX_DEPTH:
            raise OverBound(f"goes deeper than {MAX_DEPTH:,} keywords")
        self._depth += 1

    def leave(self) -> None:
        """A keyword's evaluation has ended, in whatever way."""
        self._depth -= 1

    def spend(self) -> None:
        """Book one evaluation. Raises OverBound."""
        self._evaluations += 1
        if self._evaluations > MAX_EVALUATIONS:
            raise OverBound(f"needs more than {MAX_EVALUATIONS:,} evaluations")
        if time.thread_time() > self._until:
            raise OverBound(f"takes more than {MAX_SECONDS:g} seconds")

    def seconds_left(self) -> float:
        """The CPU time that is left, to be asked in the thread that spends it."""
        return self._until - time.thread_time()

    def matches(self, pattern: str, text: str) -> bool:
        """Is `pattern` found in `text`? Books one evaluation."""
        self.spend()
        return True if self._match is None else self._match(pattern, text)


# Each validation has a thread of its own, and with it a budget of its own.
BUDGET: ContextVar[Budget] = ContextVar("BUDGET")
