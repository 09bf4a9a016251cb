"""Running a process to its end: its input is fed, its output kept up to a limit and counted beyond it."""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from jsrun.plugs.host_api import ExecResult, HostProcess, ProcessInput, ProcessOutput

# Read at once; also how far reading runs ahead.
CHUNK_BYTES = 64 * 1024
# Between TERM and KILL, in seconds.
GRACE_SECONDS = 2.0
# A background process may hold the pipes of a command that has ended. When nothing came for this long, in seconds,
# the command's own output is complete.
_QUIET_SECONDS = 1.0


class OwnProcess(HostProcess, Protocol):
    """A process as a host itself holds it."""

    async def end(self) -> None:
        """TERM to the group, KILL after 2 s to what is left of it; return when the process is gone."""
        ...

    def release(self) -> None:
        """Let go of its pipes."""
        ...

    def on_exit(self, callback: Callable[[], None]) -> None:
        """Call back once, when the process has exited."""
        ...


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended: its result, and whether that was at its time limit."""

    result: ExecResult
    timed_out: bool


class _Kept:
    """The output of one stream."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._data = bytearray()
        self.total = 0

    async def drain(self, stream: ProcessOutput) -> None:
        while chunk := await stream.read(CHUNK_BYTES):
            self.total += len(chunk)
            self._data += chunk[: max(0, self._limit - len(self._data))]

    @property
    def text(self) -> str:
        return self._data.decode("utf-8", "replace")


async def run_to_end(
    process: OwnProcess,
    ending: Callable[[], "asyncio.Task[None]"],
    *,
    input: bytes,
    timeout: float | None,
    max_output: int,
) -> Ended:
    """Feed and drain `process` until it has exited; at `timeout` seconds, or when cancelled, its group is ended.

    `ending` starts that in a task which outlives a second cancellation.
    """
    stdout, stderr = _Kept(max_output), _Kept(max_output)
    pumps = [
        asyncio.create_task(stdout.drain(process.stdout)),
        asyncio.create_task(stderr.drain(process.stderr)),
        asyncio.create_task(_feed(process.stdin, input)),
    ]
    timed_out = False
    try:
        try:
            async with asyncio.timeout(timeout):
                await process.wait()
                await _quiet(pumps, lambda: stdout.total + stderr.total)
        except TimeoutError:
            timed_out = True
            await asyncio.shield(ending())
        except BaseException:
            await asyncio.shield(ending())
            raise
        if timed_out:
            await _quiet(pumps, lambda: stdout.total + stderr.total)
        code = await process.wait()
    finally:
        for pump in pumps:
            pump.cancel()
        await asyncio.gather(*pumps, return_exceptions=True)
        process.release()
    truncated = max(stdout.total, stderr.total) > max_output
    result = ExecResult(code, stdout.text, stderr.text, stdout.total, stderr.total, truncated)
    return Ended(result, timed_out)


async def _feed(stdin: ProcessInput, data: bytes) -> None:
    # A command need not read its input.
    with contextlib.suppress(BrokenPipeError):
        if data:
            await stdin.write(data)
    with contextlib.suppress(BrokenPipeError):
        await stdin.close()


async def _quiet(pumps: "list[asyncio.Task[None]]", total: Callable[[], int]) -> None:
    before = -1
    while total() != before:
        before = total()
        _, pending = await asyncio.wait(pumps[:2], timeout=_QUIET_SECONDS)
        if not pending:
            return
