"""One message on its way: through the handlers of the plugs to the far side, and back."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

from jsrun.plugs._place import Place
from jsrun.plugs._side import CANCELLED_TEXT, Side
from jsrun.plugs.api import Plug
from jsrun.plugs.clock import Clock, Timer
from jsrun.plugs.errors import AgentExited, AgentNotRunning, LineTooLong, RequestError
from jsrun.plugs.message import Message
from jsrun.plugs.wire import INTERNAL_ERROR, REQUEST_CANCELLED

# The message whose handler runs, so that what the handler sends is known to belong to it.
current_job: ContextVar["Job | None"] = ContextVar("current_job", default=None)


@dataclass(frozen=True, slots=True)
class Seat:
    """A plug that handles messages, at its place in the chain; `label` names it to people."""

    index: int
    label: str
    handler: Callable[[Message, Any], Any]


def seats_of(plugs: Sequence[Plug]) -> list[Seat]:
    """The seats of those plugs that handle messages, outermost first."""
    return [Seat(index, _label(plug), plug.message) for index, plug in enumerate(plugs) if "message" in plug.handlers]


def _label(plug: Plug) -> str:
    place = plug.ctx.plug
    return f"{place.name} ({place.id})" if place.id is not None else place.name


class Far:
    """A request of ours at the far side, until its answer is there or nobody waits for it."""

    __slots__ = ("answer", "cancelled", "job", "message", "number", "side")

    def __init__(self, side: Side, number: int, job: "Job", message: Message) -> None:
        self.side = side
        self.number = number
        self.job = job
        self.message = message
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.cancelled = False

    def fail(self, error: BaseException) -> None:
        """Let whoever waits for the answer get `error`; nothing happens if it is there."""
        if not self.answer.done():
            self.answer.set_exception(error)
            self.answer.exception()  # a waiter cancelled in this very moment is no reason for a line in the log

    def cancel(self) -> None:
        """Ask the far side, once, to cancel it."""
        if not self.cancelled:
            self.cancelled = True
            self.side.put(self.side.wire.cancel(self.number))


class Calls:
    """The requests of ours that are not answered."""

    def __init__(self) -> None:
        self._calls: dict[tuple[Side, int], Far] = {}

    def __len__(self) -> int:
        return len(self._calls)

    def at(self, side: Side) -> list[Far]:
        """Those that one side has."""
        return [far for far in self._calls.values() if far.side is side]

    def add(self, far: Far) -> None:
        """A request was made."""
        self._calls[far.side, far.number] = far

    def remove(self, far: Far) -> None:
        """Its answer is there, or nobody waits for it any more."""
        self._calls.pop((far.side, far.number), None)

    def take(self, side: Side, number: int | None) -> Far | None:
        """The request that an answer belongs to; None if nobody waits for it."""
        return self._calls.pop((side, number), None) if number is not None else None

    def fail(self, side: Side, error: BaseException) -> None:
        """Let whoever waits for this side get `error`."""
        for far in self.at(side):
            far.fail(error)


class Road(Protocol):
    """What a message needs of the chain."""

    @property
    def clock(self) -> Clock: ...
    @property
    def calls(self) -> Calls: ...

    def closed_to(self, side: Side, message: Message) -> BaseException | None:
        """Why nothing can be sent to a side any more; None if it can."""
        ...

    def swallowed(self, side: Side, message: Message) -> bool:
        """Whether a notification is not to be written to this side."""
        ...

    def fault(self, error: BaseException, text: str) -> None:
        """The session fails; `text` is what callers are told."""
        ...


class Job:
    """One message. `seats` are the plugs it passes, in its order; `far` is where it goes.

    `origin` and `number` name the side's request that it answers, if any.
    """

    def __init__(
        self,
        road: Road,
        message: Message,
        seats: Sequence[Seat],
        far: Side,
        *,
        origin: Side | None = None,
        number: int | None = None,
        size: int = 0,
    ) -> None:
        self.road = road
        self.message = message
        self.seats = seats
        self.far = far
        self.origin = origin
        self.number = number
        self.size = size
        parent = current_job.get()
        self.parent = parent if parent is not None and not parent.done else None
        self.at = 0  # the handler that ran last
        self.place: Place | None = None  # the message's own, in the queue of its origin
        self.answer_place: Place | None = None  # of an answer it got, in the queue of the far side
        self.pending: set[Far] = set()  # its requests at either side, and those of messages that its handlers sent
        self.cancelled = False
        self.answered = False
        self.done: bool = False
        self.reached = False
        self.task: asyncio.Task[None] | None = None
        self.started = False
        self.timer: Timer | None = None  # until which a cancelled request may be answered by the far side
        self.last_timer: Timer | None = None  # until which its handlers may end
        self._blocked = 0.0
        self._blocked_since: float | None = None
        self._writers = 0

    @property
    def label(self) -> str:
        """The plug whose handler ran last."""
        return self.seats[min(self.at, len(self.seats) - 1)].label if self.seats else "no plug"

    def blocked_seconds(self) -> float:
        """See Holder."""
        since = self._blocked_since
        return self._blocked if since is None else self._blocked + self.road.clock.now() - since

    async def run(self) -> Any:
        """Pass all plugs; the result of a request. RequestError is its error answer; what else it raises is a failure
        the chain knows of already, or the loss of the agent.
        """
        return await self._step(0, self.message)

    def interrupt(self) -> None:
        """Cancel its task; one that did not start yet looks for itself, because its answer would be lost."""
        if self.task is not None and self.started:
            self.task.cancel()

    def settle(self) -> None:
        """Let what is behind this message, and behind its answer, begin."""
        if self.place is not None:
            self.place.settle()
            self.place = None
        self._settle_answer()

    async def _step(self, at: int, message: Message) -> Any:
        if at == len(self.seats):
            return await self._send(message)
        seat = self.seats[at]
        self.at = at
        try:
            result = seat.handler(message, Next(self, at))
            if inspect.isawaitable(result):
                result = await result
        except (RequestError, asyncio.CancelledError):
            raise
        except BaseException as error:
            if isinstance(error, AgentExited | AgentNotRunning):
                raise
            text = f"The plug {seat.label} failed."
            error.add_note(f"{text[:-1]} at {message.method}.")
            self.road.fault(error, text)
            raise RequestError(INTERNAL_ERROR, text) from error
        return result

    async def forward(self, at: int, message: Message) -> Any:
        """What `next` of the handler `at` does."""
        if not isinstance(message, Message):
            raise TypeError(f"next() takes a Message, not {type(message).__name__}.")
        if message.direction != self.message.direction or message.kind != self.message.kind:
            raise TypeError("A message given to next() must keep its direction and kind.")
        result = await self._step(at + 1, message)
        self.at = at
        return result

    def _is_cancelled(self) -> bool:
        job: Job | None = self
        while job is not None:
            if job.cancelled and not job.done:
                return True
            job = job.parent
        return False

    async def _send(self, message: Message) -> Any:
        """Write the message to the far side; the result of a request."""
        if self._is_cancelled():
            raise RequestError(REQUEST_CANCELLED, CANCELLED_TEXT)
        side = self.far
        if message.kind == "notification" and self.road.swallowed(side, message):
            return None
        lost = self.road.closed_to(side, message)
        if lost is not None:
            raise lost
        try:
            if message.kind == "request":
                number, line = side.wire.request(message.method, message.params)
            else:
                number, line = None, side.wire.notification(message.method, message.params)
        except LineTooLong as error:
            self.road.fault(error, "A message was longer than it may be.")
            raise RequestError(INTERNAL_ERROR, "A message was longer than it may be.") from error
        self.reached = True
        if number is None:
            side.put(line)
            await self._drain(side)
            self._settle_own()
            return None
        return await self._ask(side, number, line, message)

    async def _ask(self, side: Side, number: int, line: bytes, message: Message) -> Any:
        far = Far(side, number, self, message)
        self.road.calls.add(far)
        # The answer comes through the queue of that side, so nothing of ours may hold it.
        for job in self.lineage():
            job.pending.add(far)
            if job.origin is side and job.place is not None:
                job.place.settle()
                job.place = None
            if job.far is side:
                job._settle_answer()
        side.put(line)
        try:
            await self._drain(side)
            self._settle_own()
            return await far.answer
        except asyncio.CancelledError:
            if not far.answer.done() or far.answer.cancelled():
                far.cancel()
            raise
        finally:
            self.close(far)

    def close(self, far: Far) -> None:
        """A request of this message is over."""
        self.road.calls.remove(far)
        for job in self.lineage():
            job.pending.discard(far)
            if job.cancelled and not job.pending and job.timer is not None:
                job.timer.cancel()
                job.timer = None

    def lineage(self) -> "list[Job]":
        """This message, the one whose handler sent it, and so on."""
        jobs = [self]
        while (parent := jobs[-1].parent) is not None:
            jobs.append(parent)
        return jobs

    async def _drain(self, side: Side) -> None:
        if side.blocked:
            await self.blocking(side)

    async def blocking(self, side: Side) -> None:
        """Wait until a side takes more; that time does not count as held by a plug, for who sent this one neither."""
        jobs = self.lineage()
        for job in jobs:
            job._writers += 1
            if job._blocked_since is None:
                job._blocked_since = self.road.clock.now()
        try:
            await side.drain()
        finally:
            for job in jobs:
                job._writers -= 1
                if job._writers == 0 and job._blocked_since is not None:
                    job._blocked += self.road.clock.now() - job._blocked_since
                    job._blocked_since = None

    def _settle_own(self) -> None:
        if self.place is not None:
            self.place.settle()
            self.place = None

    def _settle_answer(self) -> None:
        if self.answer_place is not None:
            self.answer_place.settle()
            self.answer_place = None


class Next:
    """The `next` of one handler and message; see NextMessage."""

    __slots__ = ("_at", "_job")

    def __init__(self, job: Job, at: int) -> None:
        self._job = job
        self._at = at

    def __call__(self, message: Message) -> Awaitable[Any]:
        """See NextMessage."""
        return self._job.forward(self._at, message)

    def release(self) -> None:
        """See NextMessage."""
        self._job.settle()
