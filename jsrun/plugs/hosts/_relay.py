"""Carrying connections from a listener to where they are to go, in both directions."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from jsrun.plugs.hosts._exec import CHUNK_BYTES

_log = logging.getLogger("jsrun.plugs")


class Reader(Protocol):
    """What is read from: the streams of asyncio and of asyncssh alike."""

    async def read(self, n: int) -> bytes:
        """Some bytes, `b""` at the end."""
        ...


class Writer(Protocol):
    """What is written to."""

    def write(self, data: bytes) -> None:
        """Queue bytes."""
        ...

    async def drain(self) -> None:
        """Wait until there is room."""
        ...

    def write_eof(self) -> None:
        """End the stream, the other direction stays open."""
        ...

    def close(self) -> None:
        """Close both directions."""
        ...


@dataclass(frozen=True, slots=True)
class Listening:
    """A forward that is up."""

    port: int


class Relay:
    """The connections of one forward; each is carried to a new one made by `connect`."""

    def __init__(self, connect: Callable[[], Awaitable[tuple[Reader, Writer]]]) -> None:
        self._connect = connect
        self._tasks: set[asyncio.Task[None]] = set()

    def accept(self, reader: Reader, writer: Writer) -> None:
        """Take a connection of the listener."""
        task = asyncio.create_task(self._carry(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Cut all connections."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _carry(self, reader: Reader, writer: Writer) -> None:
        far_writer: Writer | None = None
        try:
            far_reader, far_writer = await self._connect()
            await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))
        except Exception as error:  # whatever breaks a connection, it breaks this one only
            _log.debug("a forwarded connection ended: %s", error)
        finally:
            writer.close()
            if far_writer is not None:
                far_writer.close()


async def _pump(reader: Reader, writer: Writer) -> None:
    while data := await reader.read(CHUNK_BYTES):
        writer.write(data)
        await writer.drain()
    writer.write_eof()


@contextlib.asynccontextmanager
async def listen_here(
    host: str, port: int, connect: Callable[[], Awaitable[tuple[Reader, Writer]]]
) -> AsyncIterator[Listening]:
    """A listener on this machine whose connections go where `connect` leads; OSError if the port is taken."""
    relay = Relay(connect)
    server = await asyncio.start_server(relay.accept, host, port)
    try:
        yield Listening(server.sockets[0].getsockname()[1])
    finally:
        server.close()
        await relay.close()
        await server.wait_closed()
