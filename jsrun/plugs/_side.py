"""One side of the conversation: what was read from it and not begun yet, and what is still to be written to it."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, TypeAlias

from jsrun.plugs.api import PlugLogger
from jsrun.plugs.errors import LineTooLong, RequestError
from jsrun.plugs.wire import (
    INTERNAL_ERROR,
    LINE_BYTES,
    REQUEST_CANCELLED,
    Answer,
    Call,
    Cancel,
    Invalid,
    Item,
    SideName,
    Wire,
)

# Reading runs ahead of the plugs by this much, so that a burst is smoothed but a slow reader is felt.
READ_AHEAD_ITEMS: Final = 256
READ_AHEAD_BYTES: Final = 8 * 1024 * 1024
# What may wait to be written before whoever writes has to wait: as much as a pipe holds.
WRITE_AHEAD_BYTES: Final = 64 * 1024
# Requests of one side that are not answered; the next is refused.
MAX_OPEN: Final = 4_096

CANCELLED_TEXT: Final = "The request was cancelled."

Write: TypeAlias = Callable[[bytes], Awaitable[None]]
Queued: TypeAlias = Call | Answer


class Listener(Protocol):
    """Who is told at once what does not wait in the queue: the chain."""

    def cancel(self, side: "Side", number: int) -> None:
        """The side cancels its request `number`, which was begun."""
        ...

    def broken(self, side: "Side", error: BaseException) -> None:
        """A line of the side was too long (LineTooLong), or nothing can be written to it any more."""
        ...


class Side:
    """The client or the agent. `write` takes bytes in order and returns when they are written.

    The client's may outlive a chain: lines that none has begun wait for the next.
    """

    def __init__(
        self, name: SideName, write: Write, *, line_bytes: int = LINE_BYTES, log: PlugLogger | None = None
    ) -> None:
        self.name = name
        self.wire = Wire(name, line_bytes)
        self.listener: Listener | None = None
        self.log = (log if log is not None else PlugLogger({})).bind(side=name)
        # Lines that were no messages, and lines that reached no plug because the agent is being stopped.
        self.skipped = 0
        self.failure: LineTooLong | None = None
        self.ended = False
        # Set whenever something new was read, or reading ended.
        self.news = asyncio.Event()
        self._refusal: str | None = None
        self._discarding = False
        self._write = write
        self._items: deque[Queued] = deque()
        self._bytes = 0
        self._calls: set[int] = set()  # requests among the items
        self._waiting = asyncio.Event()
        self._room: asyncio.Future[None] | None = None
        self._out: list[bytes] = []
        self._out_bytes = 0
        self._writer: asyncio.Task[None] | None = None
        self._drained: list[asyncio.Future[None]] = []
        self._write_failed = False
        self._gone = asyncio.Event()

    # Reading

    async def receive(self, data: bytes) -> None:
        """Take bytes that were read; returns when there is room for more. LineTooLong for a line that is too long."""
        if self._discarding:
            return
        self.wire.receive(data)
        await self._take_all()

    async def end(self) -> None:
        """There is nothing more to read. LineTooLong as in `receive`."""
        self.wire.end()
        await self._take_all()
        self.ended = True
        self.news.set()
        self._check_gone()

    def pop(self, answers_only: bool = False) -> Queued | None:
        """The item whose turn it is, or the first answer; None if there is none."""
        items = self._items
        at = 0
        while at < len(items):
            item = items[at]
            if isinstance(item, Answer):
                del items[at]
                self._popped(item)
                return item
            if item.number is not None and item.number not in self._calls:  # answered while it waited
                del items[at]
                self._popped(item)
            elif answers_only:
                at += 1
            else:
                del items[at]
                self._popped(item)
                return item
        return None

    async def waiting(self) -> None:
        """Wait until a message is there that was not begun."""
        await self._waiting.wait()

    @property
    def queued(self) -> int:
        """How many messages are there that were not begun."""
        return len(self._items)

    @property
    def gone(self) -> bool:
        """Whether nothing can be written to it, or it ended its input and all its requests are answered."""
        return self._write_failed or (self.ended and self.wire.open == 0)

    async def wait_gone(self) -> None:
        """Wait until it is `gone`."""
        await self._gone.wait()

    def refuse(self, text: str) -> None:
        """Answer the requests that were not begun, and all to come, with -32603; drop all other messages."""
        self._refusal = text
        for number in list(self._calls):
            self.answer(number, None, RequestError(INTERNAL_ERROR, text))
        self._items.clear()
        self._calls.clear()
        self._bytes = 0
        self._waiting.clear()
        self._let_in()

    def discard(self) -> None:
        """Drop all that was read and all to come, so that a process that still prints does not wait for a reader."""
        self._discarding = True
        self._items.clear()
        self._calls.clear()
        self._bytes = 0
        self._let_in()

    # Writing

    def put(self, line: bytes) -> None:
        """Write a line after those before it; it is dropped if nothing can be written any more."""
        if self._write_failed:
            return
        self._out.append(line)
        self._out_bytes += len(line)
        if self._writer is None:
            self._writer = asyncio.get_running_loop().create_task(self._write_out())

    @property
    def blocked(self) -> bool:
        """Whether so much is to be written that whoever writes should wait."""
        return self._out_bytes > WRITE_AHEAD_BYTES

    async def drain(self) -> None:
        """Wait while `blocked`."""
        while self.blocked:
            room: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._drained.append(room)
            await room

    async def flush(self) -> None:
        """Wait until everything is written, or nothing can be."""
        while self._writer is not None:
            await asyncio.wait({self._writer})

    def answer(self, number: int, result: Any, error: RequestError | None) -> None:
        """Answer request `number`. TypeError, ValueError or LineTooLong if that makes no line: it stays open then."""
        self.put(self.wire.result(number, result) if error is None else self.wire.error(number, error))
        self._check_gone()

    def close(self) -> None:
        """Let nothing more be written, and nobody wait."""
        self._write_failed = True
        if self._writer is not None:
            self._writer.cancel()
        self._forget_output()

    async def _write_out(self) -> None:
        try:
            while self._out:
                data = self._out[0] if len(self._out) == 1 else b"".join(self._out)
                self._out.clear()
                await self._write(data)
                self._out_bytes -= len(data)
                if self._drained and not self.blocked:
                    self._wake_writers()
        except Exception as error:
            self._write_failed = True
            self.log.debug("nothing can be written any more", error=error)
            self._forget_output()
            if self.listener is not None:
                self.listener.broken(self, error)
        finally:
            self._writer = None
        self._check_gone()

    def _forget_output(self) -> None:
        self._out.clear()
        self._out_bytes = 0
        self._wake_writers()
        self._check_gone()

    def _wake_writers(self) -> None:
        waiters, self._drained = self._drained, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _check_gone(self) -> None:
        if self.gone:
            self._gone.set()

    # Reading, inside

    async def _take_all(self) -> None:
        while not self._discarding:
            try:
                item = self.wire.next_item()
            except LineTooLong as error:
                if self.failure is None:
                    self.failure = error
                    if self.listener is not None:
                        self.listener.broken(self, error)
                raise
            if item is None:
                return
            await self._take(item)

    async def _take(self, item: Item) -> None:
        if isinstance(item, Invalid):
            self.skipped += 1
            self.log.warning("a line is no message", reason=item.reason, bytes=item.size)
            if self.name == "client":
                self.put(self.wire.refusal(item.code, item.reason))
                await self.drain()
        elif isinstance(item, Cancel):
            self._cancel(item)
        elif isinstance(item, Answer) and item.number is None:
            self.log.warning("an answer to nothing that was asked", bytes=item.size)
        elif isinstance(item, Call) and item.number is not None and self.wire.open > MAX_OPEN:
            self.answer(item.number, None, RequestError(INTERNAL_ERROR, f"More than {MAX_OPEN:,} requests are open."))
            await self.drain()
        elif isinstance(item, Call) and self._refusal is not None:
            if item.number is not None:
                self.answer(item.number, None, RequestError(INTERNAL_ERROR, self._refusal))
                await self.drain()
        else:
            if isinstance(item, Call) and item.number is not None:
                self._calls.add(item.number)
            self._items.append(item)
            self._bytes += item.size
            self.news.set()
            if isinstance(item, Call):
                self._waiting.set()
            if len(self._items) >= READ_AHEAD_ITEMS or self._bytes >= READ_AHEAD_BYTES:
                self._room = asyncio.get_running_loop().create_future()
                await self._room

    def _cancel(self, item: Cancel) -> None:
        if item.number is None:
            return
        if item.number in self._calls:
            self._calls.discard(item.number)
            self.answer(item.number, None, RequestError(REQUEST_CANCELLED, CANCELLED_TEXT))
        elif self.listener is not None:
            self.listener.cancel(self, item.number)

    def _popped(self, item: Queued) -> None:
        self._bytes -= item.size
        if isinstance(item, Call) and item.number is not None:
            self._calls.discard(item.number)
        if not self._items:
            self._waiting.clear()
        self._let_in()

    def _let_in(self) -> None:
        """Go on reading once half of the room is free: to wake the reader for each item would cost more."""
        if len(self._items) > READ_AHEAD_ITEMS // 2 or self._bytes > READ_AHEAD_BYTES // 2:
            return
        if self._room is not None and not self._room.done():
            self._room.set_result(None)
        self._room = None
