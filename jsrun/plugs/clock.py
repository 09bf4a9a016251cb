"""The clock behind every limit: the event loop's own, or one that a test moves by hand."""

import asyncio
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """A call that is to come."""

    def cancel(self) -> None:
        """Forget it; nothing happens if it was made already."""
        ...


class Clock(Protocol):
    """Monotonic time in seconds."""

    def now(self) -> float:
        """The time; only differences mean something."""
        ...

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call `callback` in that many seconds, in the running event loop."""
        ...


class LoopClock:
    """The clock of the running event loop."""

    def now(self) -> float:
        """See Clock."""
        return asyncio.get_running_loop().time()

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """See Clock."""
        return asyncio.get_running_loop().call_later(seconds, callback)
