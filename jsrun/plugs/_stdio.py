"""The client's two streams where the client is at this process's stdin and stdout."""

import contextlib
import os
import sys
from collections.abc import AsyncIterator

from jsrun._threads import in_thread
from jsrun.plugs._session import Streams


@contextlib.asynccontextmanager
async def own_streams() -> AsyncIterator[Streams]:
    """The client's streams, kept aside: what plugs and their children print goes to stderr, what they read is empty."""
    sys.stdout.flush()
    reading, writing = os.dup(0), os.dup(1)
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    try:
        yield _Input(reading), _Output(writing)
    finally:
        # The descriptor that is read may be in use by a thread that waits for the client; it ends with the process.
        os.close(writing)


class _Input:
    """A descriptor of any kind, read in a thread, so that a regular file will do as well."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    async def read(self, n: int, /) -> bytes:
        try:
            return await in_thread(os.read, self._descriptor, n)
        except OSError:
            return b""


class _Output:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    async def write(self, data: bytes, /) -> None:
        await in_thread(self._write, data)

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._descriptor, view) :]
