"""Time that passes only when nothing else happens: limits of minutes are tested in milliseconds."""

import asyncio
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Final, TypeVar

T = TypeVar("T")

# Turns of the event loop in which nobody asked for another: then everyone waits for a timer, or for nothing at all.
_QUIET_TURNS: Final = 3


class Stuck(AssertionError):
    """What is waited for can never come: nobody waits for a timer."""


class VirtualTime:
    """Makes the running event loop's time virtual, `asyncio.sleep` and `asyncio.timeout` included.

    `async with VirtualTime() as time:` and then `await time.run(coroutine)`: whenever all tasks wait, time jumps to
    the next timer. It is for what happens in memory only; while a worker thread is at work, time stands still.
    """

    def __init__(self) -> None:
        self._now = 0.0
        self._timers: list[asyncio.TimerHandle] = []
        self._asked = 0
        self._threads: set[asyncio.Future[Any]] = set()

    async def __aenter__(self) -> "VirtualTime":
        loop: Any = asyncio.get_running_loop()
        self._loop = loop
        self._now = loop.time()
        call_at, call_soon, run_in_executor = loop.call_at, loop.call_soon, loop.run_in_executor

        def timed(*args: Any, **options: Any) -> asyncio.TimerHandle:
            handle: asyncio.TimerHandle = call_at(*args, **options)
            self._timers = [timer for timer in self._timers if not timer.cancelled() and timer.when() > self._now]
            self._timers.append(handle)
            return handle

        def soon(*args: Any, **options: Any) -> asyncio.Handle:
            self._asked += 1
            handle: asyncio.Handle = call_soon(*args, **options)
            return handle

        def threaded(*args: Any, **options: Any) -> "asyncio.Future[Any]":
            future: asyncio.Future[Any] = run_in_executor(*args, **options)
            self._threads.add(future)
            future.add_done_callback(self._threads.discard)
            return future

        # Attributes of this one loop, taken away again at the end.
        loop.time, loop.call_at, loop.call_soon, loop.run_in_executor = self.now, timed, soon, threaded
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for name in ("time", "call_at", "call_soon", "run_in_executor"):
            delattr(self._loop, name)

    def now(self) -> float:
        """The time in seconds."""
        return self._now

    async def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine. Stuck if it waits for nothing that could happen."""
        task: asyncio.Task[T] = asyncio.ensure_future(coroutine)
        try:
            while not task.done():
                if await self._quiet(task) and not self._jump():
                    raise Stuck("This waits for something that cannot happen: no timer is set, and nothing is at work.")
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
        return task.result()

    async def settle(self) -> None:
        """Let everything happen that needs no time."""
        await self._quiet(None)

    async def pass_by(self, seconds: float) -> None:
        """Let so much time pass, timer by timer."""
        await self.run(asyncio.sleep(seconds))

    async def _quiet(self, task: "asyncio.Task[Any] | None") -> bool:
        """Wait until nobody asks for a turn of the loop; False if `task` is done before, or threads are at work."""
        quiet = 0
        while quiet < _QUIET_TURNS:
            before = self._asked
            await asyncio.sleep(0)
            if task is not None and task.done():
                return False
            # This coroutine itself asked once.
            quiet = quiet + 1 if self._asked - before <= 1 else 0
            if self._threads:
                await asyncio.wait(self._threads, return_when=asyncio.FIRST_COMPLETED)
                quiet = 0
        return True

    def _jump(self) -> bool:
        """Move to the next timer; False if there is none."""
        due = [timer.when() for timer in self._timers if not timer.cancelled() and timer.when() > self._now]
        if not due:
            return False
        self._now = min(due)
        return True
