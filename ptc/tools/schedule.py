"""When the calls of one program run: in their order, together where that is safe, and never after the program's end.

A call is answered in the order it was made: what is ready early waits for the answers before it, so that a program sees
the same order each time. An unsafe call starts when all before it have been answered, and nothing starts until its own
answer has been handed over.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final

from ptc.tools.model import wait_out

__all__ = ["Schedule"]

_log = logging.getLogger("ptc")


@dataclass(slots=True, eq=False)
class _Call:
    """A call that has not been answered. `turn` is set when its answer, `value` or `error`, may be handed over."""

    work: Callable[[], Awaitable[object]]
    is_safe: Callable[[], bool]
    turn: "asyncio.Future[None]"
    checked: bool = False
    alone: bool | None = None
    """Whether nothing may run beside it; None until its turn to start has come."""
    ended: bool = False
    value: object = None
    error: BaseException | None = field(default=None)


class Schedule:
    """The queue of one run. Belongs to the running event loop. `close` it when the run is over."""

    def __init__(self, max_parallel: int) -> None:
        self._max_parallel: Final = max_parallel
        self._queue: deque[_Call] = deque()
        """Not started."""
        self._open: deque[_Call] = deque()
        """Started, and their answers not handed over."""
        self._running: set[asyncio.Task[None]] = set()
        self._closed = False

    def submit(
        self,
        check: Callable[[], Awaitable[None]],
        is_safe: Callable[[], bool],
        work: Callable[[], Awaitable[object]],
    ) -> Coroutine[Any, Any, object]:
        """Put a call at the end of the queue. The coroutine gives its answer, and must be awaited for it to start.

        check: what must succeed before anything else; if it raises, that is the answer. is_safe: asked when the turn
        of the call has come. work: the call itself. Cancelling the wait for an answer ends the whole schedule, for a
        run that no longer waits for one call waits for none.
        """
        call = _Call(work, is_safe, asyncio.get_running_loop().create_future())
        self._queue.append(call)
        return self._answer(call, check)

    async def close(self) -> None:
        """Drop the calls that have not started, cancel the others, and return when the last has ended."""
        self._cancel()
        await wait_out(self._running)

    async def _answer(self, call: _Call, check: Callable[[], Awaitable[None]]) -> object:
        try:
            try:
                await check()
            except Exception as error:
                call.error, call.ended = error, True
            call.checked = True
            self._advance()
            await call.turn
        except BaseException:
            self._cancel()
            raise
        # Whoever awaits us hands the answer over in this same step of the loop; on the next turn it is done.
        asyncio.get_running_loop().call_soon(self._handed_over, call)
        if call.error is not None:
            raise call.error
        return call.value

    def _advance(self) -> None:
        """Start what may start, answer the first if it may be answered."""
        while self._queue and self._may_start(self._queue[0]):
            call = self._queue.popleft()
            self._open.append(call)
            if not call.ended:
                self._start(call)
        first = self._open[0] if self._open else None
        if first is not None and first.ended and not first.turn.done():
            first.turn.set_result(None)

    def _may_start(self, call: _Call) -> bool:
        if self._closed or not call.checked or (self._open and self._open[-1].alone):
            return False
        if call.ended:  # refused by its check: it only waits to be answered
            return True
        if len(self._running) >= self._max_parallel:
            return False
        if call.alone is None:
            call.alone = not _is_safe(call)
        return not call.alone or not self._open

    def _start(self, call: _Call) -> None:
        task = asyncio.get_running_loop().create_task(_work(call))
        self._running.add(task)
        task.add_done_callback(lambda task: self._ended(call, task))

    def _ended(self, call: _Call, task: "asyncio.Task[None]") -> None:
        self._running.discard(task)
        call.ended = True
        if isinstance(call.error, (KeyboardInterrupt, SystemExit)) and not call.turn.done():
            call.turn.set_result(None)  # it ends the run, so no order is to be kept
        self._advance()

    def _handed_over(self, call: _Call) -> None:
        if self._open and self._open[0] is call:
            self._open.popleft()
            self._advance()

    def _cancel(self) -> None:
        if self._closed:
            return  # a second time it would interrupt what the functions do to end well
        self._closed = True
        self._queue.clear()
        for task in self._running:
            task.cancel()


async def _work(call: _Call) -> None:
    try:
        call.value = await call.work()
    except BaseException as error:  # it belongs to the one who waits for the answer
        call.error = error


def _is_safe(call: _Call) -> bool:
    try:
        return call.is_safe() is True
    except Exception:
        _log.exception("whether a call is safe could not be told, so it runs alone")
        return False
