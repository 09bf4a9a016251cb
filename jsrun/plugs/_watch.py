"""Waiting with limits: the time that a plug's own code takes, and waits that outlast a cancellation."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from jsrun.plugs.clock import Clock, Timer

T = TypeVar("T")

# A cancelled handler has this long to end, in seconds; then it is abandoned.
GRACE = 5.0


class Watch:
    """Measures one part of a phase after the other, and cancels the handler whose part takes too long.

    `on_limit` is called, with the part's name and its limit, before the cancellation. `abandoned` is done when the
    handler did not end in the time of grace either.
    """

    def __init__(self, clock: Clock, on_limit: Callable[[str, float], None]) -> None:
        self._clock = clock
        self._on_limit = on_limit
        self._timers: list[Timer] = []
        self._grace: Timer | None = None
        self._part = ""
        self._limit = 0.0
        self._ends = 0.0
        self._task: asyncio.Task[Any] | None = None
        self.abandoned: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def observe(self, task: "asyncio.Task[Any]") -> None:
        """The handler's task."""
        self._task = task

    def begin(self, part: str, limit: float, notice: tuple[float, Callable[[], None]] | None = None) -> None:
        """Start the clock for a part of `limit` seconds. `notice`: seconds before its end, and what is called then."""
        self.stop()
        if self._grace is not None:  # its time is over
            return
        self._part = part
        self._limit = limit
        self._ends = self._clock.now() + limit
        self._timers.append(self._clock.call_later(limit, self._expire))
        if notice is not None:
            before, call = notice
            self._timers.append(self._clock.call_later(max(0.0, limit - before), call))

    def stop(self) -> None:
        """Stop the clock: what runs now is not the plug's own code."""
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()

    def cut(self, seconds: float) -> None:
        """Let the part that runs now, if any, end in `seconds` at most."""
        if self._timers and self._ends - self._clock.now() > seconds:
            self.begin(self._part, seconds)

    async def ended(self) -> bool:
        """Wait until the handler has ended; False if it was abandoned."""
        assert self._task is not None
        await asyncio.wait({self._task, self.abandoned}, return_when=asyncio.FIRST_COMPLETED)
        self.stop()
        if self._grace is not None:
            self._grace.cancel()
        return self._task.done()

    def _expire(self) -> None:
        self.stop()
        self._on_limit(self._part, self._limit)
        if self._task is not None:
            self._task.cancel()
        self._grace = self._clock.call_later(GRACE, lambda: _finish(self.abandoned))


async def outlast(task: "asyncio.Task[T]", on_cancel: Callable[[], None]) -> T:
    """The result of `task`, which a cancellation of the waiter does not touch.

    `on_cancel` is called at the first cancellation; CancelledError is raised when the task has ended.
    """
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            if not cancelled:
                cancelled = True
                on_cancel()
    if cancelled:
        raise asyncio.CancelledError
    return task.result()


class Deadline:
    """A time from which on nobody waits any more; it can be cut."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._ends = clock.now() + seconds
        self._late: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._timer = clock.call_later(seconds, lambda: _finish(self._late))

    def cut(self, seconds: float) -> None:
        """Let it come in `seconds` at most."""
        if self._ends - self._clock.now() > seconds:
            self._ends = self._clock.now() + seconds
            self._timer.cancel()
            self._timer = self._clock.call_later(seconds, lambda: _finish(self._late))

    async def ended(self, task: "asyncio.Task[Any]") -> bool:
        """Wait for `task` until then; whether it ended. It is neither cancelled nor its result looked at."""
        try:
            await asyncio.wait({task, self._late}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._timer.cancel()
        return task.done()


async def within(clock: Clock, task: "asyncio.Task[Any]", seconds: float) -> bool:
    """Wait for `task` for so long; whether it ended. It is neither cancelled nor its result looked at."""
    return await Deadline(clock, seconds).ended(task)


async def failure_of(work: Coroutine[Any, Any, object]) -> BaseException | None:
    """Do `work`; what went wrong, whatever it is."""
    try:
        await work
    except BaseException as error:
        return error
    return None


def _finish(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
