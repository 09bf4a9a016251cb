"""Places in a queue: who holds one, and the watch over those that are held for too long."""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from jsrun.plugs.clock import Clock, Timer

# A place that plug code holds for so long is worth a line in the log, in seconds.
NOTICE_SECONDS: Final = 5.0
# And for so long the session fails: nothing that is behind it can be delivered.
HOLD_SECONDS: Final = 300.0


class Holder(Protocol):
    """The message that holds a place."""

    def blocked_seconds(self) -> float:
        """How long it has waited, so far, to write."""
        ...


class Place:
    """The head of a queue: what is behind it begins when it is settled."""

    __slots__ = ("_settled", "_waiter", "holder")

    def __init__(self, holder: Holder) -> None:
        self.holder = holder
        self._settled = False
        self._waiter: asyncio.Future[None] | None = None

    @property
    def settled(self) -> bool:
        """Whether what is behind may begin."""
        return self._settled

    def settle(self) -> None:
        """Let what is behind begin."""
        self._settled = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self) -> None:
        """Wait until it is settled."""
        if not self._settled:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter


class HoldWatch:
    """Watches the head of one queue with a single timer, however many messages pass.

    `on_notice` is called once for a place held for NOTICE_SECONDS, `on_stall` at `limit` seconds; time in which its
    holder waited to write does not count.
    """

    def __init__(
        self,
        clock: Clock,
        limit: float,
        on_notice: Callable[[Holder, float], None],
        on_stall: Callable[[Holder, float], None],
    ) -> None:
        self._clock = clock
        self._limit = limit
        self._on_notice = on_notice
        self._on_stall = on_stall
        self._place: Place | None = None
        self._since = 0.0
        self._blocked_before = 0.0
        self._noticed = False
        self._timer: Timer | None = None

    def begin(self, place: Place) -> None:
        """`place` is the head of the queue from now on."""
        self._place = place
        self._since = self._clock.now()
        self._blocked_before = place.holder.blocked_seconds()
        self._noticed = False
        if self._timer is None:
            self._arm(min(NOTICE_SECONDS, self._limit))

    def end(self) -> None:
        """The head was settled. The timer stays: the next message needs it."""
        self._place = None

    def close(self) -> None:
        """Watch no more."""
        self._place = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, seconds: float) -> None:
        self._timer = self._clock.call_later(seconds, self._look)

    def _look(self) -> None:
        self._timer = None
        if self._place is None:
            return
        holder = self._place.holder
        held = self._clock.now() - self._since - (holder.blocked_seconds() - self._blocked_before)
        if held >= self._limit:
            self._on_stall(holder, held)
            return
        if held >= NOTICE_SECONDS and not self._noticed:
            self._noticed = True
            self._on_notice(holder, held)
        due = self._limit if self._noticed else min(NOTICE_SECONDS, self._limit)
        self._arm(max(due - held, 0.001))  # never a timer of no length, whatever the rounding
