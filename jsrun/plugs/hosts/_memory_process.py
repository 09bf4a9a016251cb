"""A process that is a coroutine in this very process, for tests."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from jsrun.plugs.hosts._exec import CHUNK_BYTES
from jsrun.plugs.hosts._local_process import signal_number


class Pipe:
    """Bytes from a writer to a reader. A writer waits while 64 KiB lie unread, as with a pipe of the system."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._ended = False  # no more will be written
        self._deaf = False  # no more will be read
        self._changed = asyncio.Condition()

    async def write(self, data: bytes) -> None:
        """Write all of `data`; BrokenPipeError when nobody reads any more."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._deaf or len(self._data) < CHUNK_BYTES)
            if self._deaf or self._ended:
                raise BrokenPipeError("nobody reads this pipe any more")
            self._data += data
            self._changed.notify_all()

    async def read(self, n: int) -> bytes:
        """At least one byte and at most `n`, or `b""` at the end."""
        async with self._changed:
            await self._changed.wait_for(lambda: bool(self._data) or self._ended or self._deaf)
            data = bytes(self._data[:n])
            del self._data[:n]
            self._changed.notify_all()
            return data

    async def close(self) -> None:
        """End it from the writer's side; calling it again does nothing."""
        async with self._changed:
            self._ended = True
            self._changed.notify_all()

    async def stop_reading(self) -> None:
        """End it from the reader's side."""
        async with self._changed:
            self._deaf = True
            self._changed.notify_all()


@dataclass(frozen=True, slots=True)
class MemoryIO:
    """What the coroutine that stands for a program gets: its arguments, environment, folder and streams."""

    args: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    stdin: Pipe
    stdout: Pipe
    stderr: Pipe


# A program: its exit code, where None is 0.
Program = Callable[[MemoryIO], Awaitable[int | None]]


class MemoryProcess:
    """See HostProcess. A signal cancels the coroutine; an exception is printed to stderr and makes exit code 1."""

    def __init__(self, program: Program, io: MemoryIO) -> None:
        self._io = io
        self._signal: int | None = None
        self.stdin = io.stdin
        self.stdout = io.stdout
        self.stderr = io.stderr
        # Of its own, so that a signal which comes before its first step ends it in the usual way.
        self._program = asyncio.ensure_future(program(io))
        self._task = asyncio.create_task(self._run(), name=f"memory process {io.args[0]}")

    @property
    def pid(self) -> int | None:
        """None: it has no number."""
        return None

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return not self._task.done()

    async def wait(self) -> int:
        """See HostProcess."""
        return await asyncio.shield(self._task)

    async def kill(self, signal: str = "TERM") -> None:
        """See HostProcess."""
        number = signal_number(signal)
        if self.running:
            self._signal = number
            self._program.cancel()

    async def _run(self) -> int:
        await asyncio.wait([self._program])
        code: int | None
        if self._program.cancelled():
            code = -self._signal if self._signal is not None else 1
        elif (error := self._program.exception()) is not None:
            code = 1
            with contextlib.suppress(BrokenPipeError):
                await self._io.stderr.write(f"{type(error).__name__}: {error}\n".encode())
        else:
            code = self._program.result()
        await self._io.stdin.stop_reading()
        await self._io.stdout.close()
        await self._io.stderr.close()
        return code or 0
