"""Making the input of a finding smaller: parts are left out as long as the same thing goes wrong in the same place."""

import time
import traceback
from collections.abc import Iterator
from typing import Any, Final

from fuzz.driver import Finding, attempt, told
from fuzz.inputs import from_text, to_text
from fuzz.targets import target

# Half a minute makes nearly every input as small as it gets; a person waits for it.
_SECONDS: Final = 30.0


def smaller(finding: Finding, seconds: float = _SECONDS) -> Finding:
    """A finding with an input as small as it gets in a while; the one given if nothing can be left out.

    State machines keep theirs: Hypothesis has shrunk them, and says the steps.
    """
    chosen = target(finding.target)
    if chosen.lives is not None:
        return finding
    deadline = time.monotonic() + seconds
    with chosen.open() as place:
        best = from_text(finding.text)
        error = attempt(chosen, best, place)
        if error is None:
            return finding
        wanted = _where(error)
        better = True
        while better:
            better = False
            for candidate in parts(best):
                if time.monotonic() > deadline:
                    break
                again = attempt(chosen, candidate, place)
                if again is not None and _where(again) == wanted:
                    best, error, better = candidate, again, True
                    break
    return Finding(finding.target, to_text(best), told(error))


def parts(value: Any) -> Iterator[Any]:
    """Values that are a little less than this one, the smallest first."""
    sequence: Any = value
    if isinstance(value, (str, bytes, list)):
        size = len(value)
        while size:
            for start in range(0, len(value), size):
                yield sequence[:start] + sequence[start + size :]
            size //= 2
    if isinstance(value, list):
        for index, item in enumerate(value):
            for less in parts(item):
                yield [*value[:index], less, *value[index + 1 :]]
    elif isinstance(value, dict):
        for key in value:
            yield {name: item for name, item in value.items() if name != key}
        for key, item in value.items():
            for less in parts(item):
                yield {**value, key: less}
    elif isinstance(value, int) and not isinstance(value, bool) and value:
        yield 0
        if abs(value) > 1:
            yield value // 2 if value > 0 else -(-value // 2)


def _where(error: Exception) -> tuple[str, str, int]:
    """What went wrong and in which line: the same for the same fault."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return type(error).__name__, frame.filename, frame.lineno or 0
