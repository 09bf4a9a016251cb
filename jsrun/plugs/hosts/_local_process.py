"""A process on this machine, leader of a session and group of its own."""

import asyncio
import contextlib
import os
import signal as signals
import sys
from asyncio.subprocess import SubprocessStreamProtocol
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from jsrun.plugs.errors import HostError
from jsrun.plugs.hosts._exec import CHUNK_BYTES, GRACE_SECONDS

# Whether a group is gone is looked at this often, in seconds.
_LOOK_SECONDS = 0.02
# What got KILL dies as soon as the system comes to it, in seconds.
_DYING_SECONDS = 1.0


class _Protocol(SubprocessStreamProtocol):
    """The streams of asyncio's own subprocesses, and the moment of exit even while others hold the pipes."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(limit=CHUNK_BYTES, loop=loop)
        self.exited: asyncio.Future[None] = loop.create_future()

    def process_exited(self) -> None:
        super().process_exited()
        if not self.exited.done():
            self.exited.set_result(None)


class _Input:
    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def write(self, data: bytes) -> None:
        """See ProcessInput."""
        try:
            self._writer.write(data)
            await self._writer.drain()
        except (ConnectionError, RuntimeError) as error:
            raise BrokenPipeError("the process does not read its input any more") from error

    async def close(self) -> None:
        """See ProcessInput."""
        # What is written already still reaches the process; waiting for that could last as long as it does not read.
        self._writer.close()


class LocalProcess:
    """See HostProcess and OwnProcess; `pid` is also its group."""

    def __init__(self, transport: asyncio.SubprocessTransport, protocol: _Protocol) -> None:
        assert protocol.stdin is not None and protocol.stdout is not None and protocol.stderr is not None
        self._transport = transport
        self._protocol = protocol
        self.pid: int = transport.get_pid()
        self.stdin = _Input(protocol.stdin)
        self.stdout = protocol.stdout
        self.stderr = protocol.stderr

    async def wait(self) -> int:
        """See HostProcess."""
        await asyncio.shield(self._protocol.exited)
        code = self._transport.get_returncode()
        assert code is not None
        return code

    async def kill(self, signal: str = "TERM") -> None:
        """See HostProcess."""
        number = signal_number(signal)
        if not self._protocol.exited.done() or self.left():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    async def end(self) -> None:
        """See OwnProcess."""
        await self.kill("TERM")
        await self._gone(GRACE_SECONDS)
        await self.kill("KILL")
        await self.wait()
        await self._gone(_DYING_SECONDS)

    async def _gone(self, seconds: float) -> None:
        """Wait until nothing of the group is left, so long at most."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.left():  # noqa: ASYNC110  # nothing tells when the last process of a group is gone
                    await asyncio.sleep(_LOOK_SECONDS)

    def release(self) -> None:
        """See OwnProcess."""
        if self._protocol.exited.done():
            self._transport.close()

    def on_exit(self, callback: Callable[[], None]) -> None:
        """See OwnProcess."""
        self._protocol.exited.add_done_callback(lambda _: callback())

    def left(self) -> bool:
        """Whether the process or others of its group still run."""
        if not self._protocol.exited.done():
            return True
        # While a group lives no new process gets its number, so a process with that number means that it is gone.
        return not _exists(os.kill, self.pid) and _exists(os.killpg, self.pid) and _some_alive(self.pid)


async def start(argv: Sequence[str], cwd: str, env: Mapping[str, str]) -> LocalProcess:
    """Start a program; HostError if it, or the folder, is not there or may not be used."""
    loop = asyncio.get_running_loop()
    pipe = asyncio.subprocess.PIPE
    try:
        transport, protocol = await loop.subprocess_exec(
            lambda: _Protocol(loop),
            *argv,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            cwd=cwd,
            env=env,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise HostError(f"{argv[0]!r} cannot be started in {cwd!r}: {reason}.") from error
    return LocalProcess(transport, protocol)


def signal_number(name: str) -> int:
    """The number of "TERM", "KILL", …; ValueError for a name that no signal has."""
    number = getattr(signals, f"SIG{name}", None)
    if not isinstance(number, signals.Signals):
        raise ValueError(f"{name!r} is not the name of a signal, such as TERM.")
    return number


def _exists(send: Callable[[int, int], None], number: int) -> bool:
    try:
        send(number, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _some_alive(group: int) -> bool:
    """Whether a group has more than zombies, which nobody reaps where process 1 is no init."""
    if sys.platform != "linux":
        return True
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            # After the name, which may hold anything: state, parent, group.
            state, _, found = (entry / "stat").read_text().rpartition(")")[2].split()[:3]
            if int(found) == group and state not in "ZX":
                return True
    return False
