"""An input that takes too long is a finding too: an alarm that raises in the middle of it."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

# No input of any target needs more than a few seconds, on a busy machine either: programs have limits of their own.
PATIENCE_S: Final = 60.0


class TooSlow(Exception):
    """An input took longer than `PATIENCE_S`."""


@contextmanager
def patience(seconds: float = PATIENCE_S) -> Iterator[None]:
    """Raise `TooSlow` in what runs inside once it has taken so long. For the main thread; without alarms it waits."""
    if not hasattr(signal, "setitimer"):
        yield
        return

    def ring(_signal: int, _frame: FrameType | None) -> None:
        raise TooSlow(f"it took more than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
