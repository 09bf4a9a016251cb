"""The queue of one side: items begin one after the other, each when the one ahead has settled its place."""

import asyncio
from collections.abc import Callable
from typing import TypeAlias

from jsrun.plugs._job import Job
from jsrun.plugs._place import Holder, HoldWatch, Place
from jsrun.plugs._side import Queued, Side
from jsrun.plugs.api import PlugLogger
from jsrun.plugs.clock import Clock
from jsrun.plugs.errors import ChainStalled

# Begins an item; the place that it holds, if any.
Begin: TypeAlias = Callable[[Side, Queued], Place | None]
Fault: TypeAlias = Callable[[BaseException, str], None]


class Queue:
    """Takes the items of `side` in order. `begin` begins one, `ended` is called when there will be no more.

    `hold` is how long plug code may hold a place, in seconds; then `fault` is told, with ChainStalled.
    """

    def __init__(
        self,
        side: Side,
        *,
        begin: Begin,
        ended: Callable[[], None],
        fault: Fault,
        clock: Clock,
        hold: float,
        log: PlugLogger,
    ) -> None:
        self.side = side
        # Whether messages wait and only answers begin, and whether nothing does.
        self.answers_only = False
        self.halted = False
        self._begin = begin
        self._ended = ended
        self._fault = fault
        self._log = log
        self._watch = HoldWatch(clock, hold, self._notice, self._stalled)
        self._idle = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def running(self) -> bool:
        """Whether it was started."""
        return self._task is not None

    def start(self) -> None:
        """Let items flow."""
        self._task = asyncio.get_running_loop().create_task(self._flow())

    def look(self) -> None:
        """What may begin has changed."""
        self.side.news.set()

    async def drained(self) -> None:
        """Wait until all that can be read was read and has settled its place."""
        await self._idle.wait()

    async def close(self) -> None:
        """Begin nothing more."""
        self._watch.close()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _flow(self) -> None:
        while True:
            item = None if self.halted else self.side.pop(self.answers_only)
            if item is None:
                if self.side.ended:
                    self._idle.set()
                    self._ended()
                self.side.news.clear()
                await self.side.news.wait()
                continue
            place = self._begin(self.side, item)
            if place is not None and not place.settled:
                self._watch.begin(place)
                await place.wait()
                self._watch.end()

    def _notice(self, holder: Holder, seconds: float) -> None:
        assert isinstance(holder, Job)
        self._log.warning(
            "a message is held by a plug", plug=holder.label, method=holder.message.method, seconds=round(seconds, 1)
        )

    def _stalled(self, holder: Holder, seconds: float) -> None:
        assert isinstance(holder, Job)
        text = f"The plug {holder.label} held {holder.message.method} for {seconds:,.0f} s; nothing behind it can pass."
        self._fault(ChainStalled(text), text)
