"""The other end of a side, in memory: it asks, tells and answers, and keeps everything that it got."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from jsrun.plugs.errors import RequestError
from jsrun.plugs.wire import Answer, Call, Cancel, SideName, Wire

# The answer to a request, or to nothing; it may be awaited.
Reply: TypeAlias = Callable[["Peer", str, Any], Any]
Feed: TypeAlias = Callable[[bytes], Awaitable[None]]

METHOD_NOT_FOUND = -32601


def refuse(peer: "Peer", method: str, params: Any) -> Any:
    """Offers no method."""
    raise RequestError(METHOD_NOT_FOUND, f"{method} is not offered.")


class Peer:
    """A client or an agent. `reply(peer, method, params)` answers requests, and is told of notifications too.

    `accept` takes the bytes meant for it and `feed` is where its own go. `got` lists what it got, in order:
    ("request" or "notification", method, params), ("answer", number, result or RequestError), ("cancel", number, None).
    `log`, if given, lists the same with the name of the side before, for several peers in one order.
    """

    def __init__(self, side: SideName, reply: Reply = refuse) -> None:
        self.side = side
        self.reply = reply
        self.got: list[tuple[str, Any, Any]] = []
        self.log: list[tuple[str, str, Any, Any]] | None = None
        self.feed: Feed | None = None
        self.cancelled: set[int] = set()
        # The wire as the far side of this peer is called.
        self._wire = Wire("agent" if side == "client" else "client")
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def accept(self, data: bytes) -> None:
        """Take bytes."""
        self._wire.receive(data)
        while (item := self._wire.next_item()) is not None:
            if isinstance(item, Call):
                self._note("notification" if item.number is None else "request", item.method, item.params)
                task = asyncio.get_running_loop().create_task(self._answer(item))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            elif isinstance(item, Answer):
                self._note("answer", item.number, item.error if item.error is not None else item.result)
                self._answered(item)
            elif isinstance(item, Cancel):
                self._note("cancel", item.number, None)
                if item.number is not None:
                    self.cancelled.add(item.number)
            else:
                raise AssertionError(f"a line that is no message was written: {item.reason}")

    async def request(self, method: str, params: Any = None) -> Any:
        """Ask; the result. RequestError is the error answer. A cancellation is passed on as $/cancel_request."""
        number, future = await self.ask(method, params)
        try:
            return await future
        except asyncio.CancelledError:
            await self.cancel(number)
            raise

    async def ask(self, method: str, params: Any = None) -> "tuple[int, asyncio.Future[Any]]":
        """Ask without waiting: the request's number, and its answer to come."""
        number, line = self._wire.request(method, params)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._asked[number] = future
        await self._send(line)
        return number, future

    async def notify(self, method: str, params: Any = None) -> None:
        """Tell."""
        await self._send(self._wire.notification(method, params))

    async def cancel(self, number: int) -> None:
        """Cancel request `number`."""
        await self._send(self._wire.cancel(number))

    async def raw(self, data: bytes) -> None:
        """Send bytes as they are."""
        await self._send(data)

    def methods(self) -> list[str]:
        """The methods of the requests and notifications it got, in order."""
        return [what for kind, what, _ in self.got if kind in ("request", "notification")]

    async def close(self) -> None:
        """End what it is still answering."""
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for future in self._asked.values():
            future.cancel()

    def _note(self, kind: str, what: Any, value: Any) -> None:
        self.got.append((kind, what, value))
        if self.log is not None:
            self.log.append((self.side, kind, what, value))

    async def _answer(self, call: Call) -> None:
        error: RequestError | None = None
        result: Any = None
        try:
            result = self.reply(self, call.method, call.params)
            if inspect.isawaitable(result):
                result = await result
        except RequestError as refusal:
            error = refusal
        if call.number is not None:
            await self._send(
                self._wire.result(call.number, result) if error is None else self._wire.error(call.number, error)
            )

    def _answered(self, answer: Answer) -> None:
        future = self._asked.pop(answer.number, None) if answer.number is not None else None
        if future is None or future.done():
            return
        if answer.error is not None:
            future.set_exception(answer.error)
        else:
            future.set_result(answer.result)

    async def _send(self, line: bytes) -> None:
        assert self.feed is not None, "the peer is connected to nothing"
        await self.feed(line)
