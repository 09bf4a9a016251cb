"""A process at the far end of an SSH connection. Imported only when a connection is made."""

import asyncio
import contextlib
import secrets
from collections.abc import Callable

import asyncssh
from asyncssh.stream import SSHClientStreamSession

from jsrun.plugs.errors import HostError
from jsrun.plugs.host_api import Command, Env
from jsrun.plugs.hosts import _ssh_line
from jsrun.plugs.hosts._exec import CHUNK_BYTES
from jsrun.plugs.hosts._local_process import signal_number

# A login shell may print a greeting before the marker; more than this is no greeting.
_GREETING_BYTES = 64 * 1024
# A shell that has not begun by then never will, in seconds.
_START_SECONDS = 30.0
# A signal over a connection that hangs must not hang its sender, in seconds. `group_end` itself takes up to 2 s.
_SIGNAL_SECONDS = 10.0


class _Session(SSHClientStreamSession[bytes]):
    """asyncssh's streams, and the moment of exit even while others hold the pipes."""

    def __init__(self) -> None:
        super().__init__()
        self.exited: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def exit_status_received(self, status: int) -> None:
        super().exit_status_received(status)
        self._exit()

    def exit_signal_received(self, signal: str, core_dumped: bool, msg: str, lang: str) -> None:
        super().exit_signal_received(signal, core_dumped, msg, lang)
        self._exit()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._exit()

    def _exit(self) -> None:
        if not self.exited.done():
            self.exited.set_result(None)


class _Input:
    def __init__(self, writer: "asyncssh.SSHWriter[bytes]") -> None:
        self._writer = writer
        self._closed = False

    async def write(self, data: bytes) -> None:
        """See ProcessInput."""
        try:
            for start in range(0, len(data), CHUNK_BYTES):
                self._writer.write(data[start : start + CHUNK_BYTES])
                await self._writer.drain()
        except (OSError, asyncssh.Error) as error:
            raise BrokenPipeError("the process does not read its input any more") from error

    async def close(self) -> None:
        """See ProcessInput."""
        if not self._closed:
            self._closed = True
            with contextlib.suppress(OSError, asyncssh.Error):
                self._writer.write_eof()


class _Output:
    def __init__(self, reader: "asyncssh.SSHReader[bytes]") -> None:
        self._reader = reader
        self._ahead = b""  # what followed the marker

    async def read(self, n: int) -> bytes:
        """See ProcessOutput. A lost connection ends the output; `wait` tells of it."""
        if self._ahead:
            data, self._ahead = self._ahead[:n], self._ahead[n:]
            return data
        try:
            return await self._reader.read(n)
        except (OSError, asyncssh.Error):
            return b""

    async def after_marker(self, marker: str) -> str:
        """Drop what precedes the marker, and return what stands behind it on its line; empty if it never comes."""
        seen = b""
        wanted = marker.encode() + b" "
        while len(seen) < _GREETING_BYTES and (data := await self.read(CHUNK_BYTES)):
            seen += data
            line, end, after = seen.partition(wanted)[2].partition(b"\n")
            if end:
                self._ahead = after
                return line.decode("ascii", "replace")
        return ""


class SshProcess:
    """See HostProcess and OwnProcess; `group` is the number of the process and its group at the far side."""

    def __init__(
        self,
        connection: asyncssh.SSHClientConnection,
        channel: "asyncssh.SSHClientChannel[bytes]",
        session: _Session,
        stdout: _Output,
        group: int,
        signals: asyncio.Semaphore,
    ) -> None:
        self._connection = connection
        self._signals = signals
        self._channel = channel
        self._session = session
        self.group = group
        self.stdin = _Input(asyncssh.SSHWriter(session, channel))
        self.stdout = stdout
        self.stderr = _Output(asyncssh.SSHReader(session, channel, asyncssh.EXTENDED_DATA_STDERR))

    @property
    def pid(self) -> int | None:
        """None: it does not run on the runner's machine."""
        return None

    @property
    def running(self) -> bool:
        """Whether the process itself still runs, as far as is known."""
        return not self._session.exited.done()

    async def wait(self) -> int:
        """See HostProcess; HostError if the connection was lost before it ended."""
        await asyncio.shield(self._session.exited)
        code = self._channel.get_returncode()
        if code is None:
            raise HostError("The SSH connection was lost while a process ran.")
        return code

    async def kill(self, signal: str = "TERM") -> None:
        """See HostProcess."""
        signal_number(signal)
        await self._run(_ssh_line.group_signal(self.group, signal))

    async def end(self) -> None:
        """See OwnProcess."""
        await self._run(_ssh_line.group_end(self.group))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SIGNAL_SECONDS):
                await asyncio.shield(self._session.exited)

    def release(self) -> None:
        """See OwnProcess."""
        if self._session.exited.done():
            self._channel.close()

    def on_exit(self, callback: Callable[[], None]) -> None:
        """See OwnProcess."""
        self._session.exited.add_done_callback(lambda _: callback())

    async def _run(self, line: str) -> None:
        # Without a connection there is nothing to be done: sshd ends what belonged to it, or nobody can.
        with contextlib.suppress(OSError, asyncssh.Error, TimeoutError):
            async with self._signals:
                await self._connection.run(line, timeout=_SIGNAL_SECONDS, encoding=None)


async def start(
    connection: asyncssh.SSHClientConnection, signals: asyncio.Semaphore, command: Command, cwd: str, env: Env
) -> SshProcess:
    """Start a process; HostError if the program, or the folder, is not there or may not be used.

    `signals` bounds how many sessions are open at a time to send signals.
    """
    marker = f"jsrun-{secrets.token_hex(8)}"
    told = _ssh_line.header(command, cwd, env, marker)
    session = _Session()
    channel, _ = await connection.create_session(lambda: session, _ssh_line.LINE, encoding=None)
    stdout = _Output(asyncssh.SSHReader(session, channel))
    writer = asyncssh.SSHWriter(session, channel)
    word = ""
    with contextlib.suppress(OSError, asyncssh.Error):  # a shell that is not there says so by ending
        async with asyncio.timeout(_START_SECONDS):
            writer.write(told)
            await writer.drain()
            word = await stdout.after_marker(marker)
    if word.isdecimal():
        return SshProcess(connection, channel, session, stdout, int(word), signals)
    channel.close()
    name = command if isinstance(command, str) else command[0]
    if word == _ssh_line.NO_FOLDER:
        raise HostError(f"A command cannot be started in {cwd!r}: there is no such folder, or it may not be entered.")
    if word == _ssh_line.NO_COMMAND:
        raise HostError(f"{name!r} cannot be started: there is no such program.")
    if connection.is_closed():
        raise HostError("The SSH connection was lost while a process was being started.")
    raise HostError("The far side has no POSIX shell that starts commands in time.")
