"""What tests of messages share: a client and an agent in memory, plugs between them, and time that jumps."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, TypeVar

from jsrun.plugs._side import Side
from jsrun.plugs.api import NextMessage, Plug, PlugPlace
from jsrun.plugs.chain import MessageChain, Passed
from jsrun.plugs.errors import AgentExited
from jsrun.plugs.message import Message
from jsrun.plugs.testing.clock import VirtualTime
from jsrun.plugs.testing.peer import Peer, Reply

T = TypeVar("T")
Handler = Callable[[Message, NextMessage], Any]


class Through(Plug, name="through"):
    """Passes everything on, and notes what it saw."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def message(self, message: Message, next: NextMessage) -> Any:
        self.seen.append(message.method)
        return await next(message)


class With(Plug, name="with"):
    """Does what a function says."""

    def __init__(self, handler: Callable[[Any, Message, NextMessage], Any]) -> None:
        self.handler = handler

    async def message(self, message: Message, next: NextMessage) -> Any:
        return await self.handler(self, message, next)


class Talk:
    """Client, plugs and agent, connected."""

    def __init__(self, time: VirtualTime, plugs: list[Plug], client: Reply | None, agent: Reply | None, **options: Any):
        self.time = time
        self.failures: list[BaseException] = []
        self.passed: list[Passed] = []
        self.client = Peer("client", client) if client is not None else Peer("client")
        self.agent = Peer("agent", agent) if agent is not None else Peer("agent", echo)
        line_bytes = options.pop("line_bytes", 1 << 20)
        self.client_side = Side("client", options.pop("client_write", self.client.accept), line_bytes=line_bytes)
        self.agent_side = Side("agent", self.agent.accept, line_bytes=line_bytes)
        self.client.feed = self.client_side.receive
        self.agent.feed = self.agent_side.receive
        for index, plug in enumerate(plugs):
            place = PlugPlace(None, index, type(plug).name if type(plug) is not With else f"with-{index}")

            def send(message: Message, at: int = index) -> Awaitable[Any]:
                return self.chain.send(at, message)

            plug.ctx = SimpleNamespace(plug=place, send=send)  # type: ignore[assignment]  # all the chain needs of it
        self.chain = MessageChain(
            plugs,
            self.client_side,
            self.agent_side,
            on_failure=self.failures.append,
            on_message=self.passed.append,
            **options,
        )

    def run(self, coroutine: Coroutine[Any, Any, T]) -> Awaitable[T]:
        return self.time.run(coroutine)

    async def prompt(self, text: str = "hello") -> Any:
        return await self.run(self.client.request("session/prompt", {"sessionId": "s", "prompt": [text]}))

    def updates(self) -> list[Any]:
        """The numbers of the updates that the client got, in order."""
        return [params["n"] for kind, method, params in self.client.got if method == "session/update"]


def echo(peer: Peer, method: str, params: Any) -> Any:
    """Answers with what was asked."""
    return {"method": method, "params": params}


@asynccontextmanager
async def talk(
    *plugs: Plug, client: Reply | None = None, agent: Reply | None = None, start: bool = True, **options: Any
) -> AsyncIterator[Talk]:
    """Client, plugs and agent; `client` and `agent` answer what they are asked."""
    async with VirtualTime() as time:
        talking = Talk(time, list(plugs), client, agent, **options)
        if start:
            talking.chain.start()
            talking.chain.admit()
        try:
            yield talking
        finally:
            await talking.run(talking.chain.close(talking.failures[0] if talking.failures else None))
            await talking.run(talking.client.close())
            await talking.run(talking.agent.close())
            talking.client_side.close()
            talking.agent_side.close()


def lines(caplog: Any, level: int = logging.WARNING) -> str:
    """What was logged at this level or above."""
    return "\n".join(record.getMessage() for record in caplog.records if record.levelno >= level)


LOST = AgentExited(3, "the end")
