"""A machine reached over SSH (`subharness[ssh]`)."""

import asyncio
import contextlib
import posixpath
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from jsrun.plugs.errors import ForwardUnsupported, HostError, MissingExtra
from jsrun.plugs.host_api import Command, Env, FileStat, Forward, ForwardSpec, HostInfo
from jsrun.plugs.hosts._base import ProcessHost, absolute
from jsrun.plugs.hosts._exec import OwnProcess
from jsrun.plugs.hosts._relay import Listening, Reader, Relay, Writer, listen_here
from jsrun.plugs.hosts.local import LOOPBACK

if TYPE_CHECKING:
    import asyncssh

    from jsrun.plugs.hosts._ssh_process import SshProcess

T = TypeVar("T")

# To connect and log in, in seconds.
CONNECT_SECONDS = 30.0
# A connection is asked for life this often, and counts as lost after three times without an answer, in seconds.
_ALIVE_SECONDS = 15.0
# Groups of commands that have ended are looked after when the host closes, this many of the latest.
_REMEMBERED = 256
# A server opens ten sessions on a connection unless it is told otherwise: for so many commands at a time, for signals,
# one for files, and one for the agent.
_COMMANDS = 6
_SIGNALS = 2
# One line each: system, home, folder for temporary files, working folder.
_PROBE = 'uname -s; printf "%s\\n" "$HOME" "${TMPDIR:-/tmp}"; pwd'


@dataclass(frozen=True, slots=True)
class SshLogin:
    """Where and how to log in. None stands for what the `ssh` program would take: the configuration and keys in ~/.ssh.

    `known_hosts`: the file with the keys of hosts. `insecure_accept_any_host_key` switches their check off.
    """

    address: str
    port: int | None = None
    username: str | None = None
    client_keys: Sequence[str | Path] | None = None
    password: str | None = None
    known_hosts: str | Path | None = None
    insecure_accept_any_host_key: bool = False
    config: str | Path | None = None

    def __repr__(self) -> str:
        return f"SshLogin({self.address!r})"


class SshHost(ProcessHost):
    """Commands, files and forwards on a machine with an SSH server and a POSIX shell.

    The one connection is made at the first use, however many wait for it, and never again: once it is lost, everything
    raises HostError. Six commands run at a time, others wait for their turn. Facts about the machine are given here;
    `probe` asks the machine. MissingExtra without asyncssh.
    """

    def __init__(
        self,
        login: SshLogin | str,
        *,
        workspace: str,
        home: str | None = None,
        tmpdir: str = "/tmp",
        os: str = "linux",
        persistent: bool = True,
    ) -> None:
        self._login = SshLogin(login) if isinstance(login, str) else login
        info = HostInfo("ssh", os, home or workspace, tmpdir, absolute(workspace), persistent)
        super().__init__(info, _SshFs(self))
        self._connecting: asyncio.Task[asyncssh.SSHClientConnection] | None = None
        self._sftp_starting: asyncio.Task[asyncssh.SFTPClient] | None = None
        self._ended: list[SshProcess] = []
        self._commands = asyncio.Semaphore(_COMMANDS)
        self._signals = asyncio.Semaphore(_SIGNALS)

    @classmethod
    async def probe(cls, login: SshLogin | str, *, workspace: str | None = None, persistent: bool = True) -> "SshHost":
        """Connect, and make a host with true facts; `workspace` is by default the folder that a login starts in."""
        host = cls(login, workspace="/", persistent=persistent)
        try:
            told = (await host.exec(f"cd; {_PROBE}")).stdout.splitlines()
            if len(told) != 4:
                raise HostError("The machine did not tell its system and folders.")
        except BaseException:
            await host.aclose()
            raise
        system, home, tmpdir, start = told
        host._info = replace(
            host.info,
            os="macos" if system == "Darwin" else "linux",
            home=home,
            tmpdir=posixpath.normpath(tmpdir),
            workspace=absolute(workspace) if workspace is not None else start,
        )
        return host

    async def connection(self) -> "asyncssh.SSHClientConnection":
        """The one connection, made now if need be; HostError if that fails or failed, or it was lost."""
        self.check_open()
        if self._connecting is None:
            self._connecting = asyncio.create_task(_open(self._login))
        connection = await asyncio.shield(self._connecting)
        if connection.is_closed():
            raise HostError(f"The SSH connection to {self._login.address} was lost.")
        return connection

    async def sftp(self) -> "asyncssh.SFTPClient":
        """The one SFTP session; HostError as for `connection`."""
        connection = await self.connection()
        if self._sftp_starting is None:
            self._sftp_starting = asyncio.create_task(_start_sftp(connection))
        return await asyncio.shield(self._sftp_starting)

    def _turn(self) -> AbstractAsyncContextManager[Any]:
        return self._commands

    async def _connect(self) -> None:
        await self.connection()

    async def _start(self, command: Command, cwd: str, env: Env) -> OwnProcess:
        connection = await self.connection()
        from jsrun.plugs.hosts import _ssh_process

        return await _translated(_ssh_process.start(connection, self._signals, command, cwd, env))

    def _keep(self, process: OwnProcess) -> bool:
        # Asking the machine after every command would cost a round trip each; it is asked once, at the end.
        from jsrun.plugs.hosts._ssh_process import SshProcess

        if isinstance(process, SshProcess):
            self._ended = [*self._ended[1 - _REMEMBERED :], process]
        return False

    async def _left(self, processes: Sequence[OwnProcess]) -> list[OwnProcess]:
        from jsrun.plugs.hosts._ssh_process import SshProcess

        known = [process for process in processes if isinstance(process, SshProcess)]
        ended = [*self._ended, *(process for process in known if not process.running)]
        living = await self._living([process.group for process in ended]) if ended else frozenset()
        return [
            *(process for process in known if process.running),
            *(process for process in ended if process.group in living),
        ]

    async def _living(self, groups: list[int]) -> frozenset[int]:
        """Those of the groups, whose leaders have ended, of which something still runs."""
        from jsrun.plugs.hosts import _ssh_line

        assert self._connecting is not None  # it started those processes
        try:
            connection = await self._connecting
            done = await _translated(connection.run(_ssh_line.groups_left(groups), timeout=CONNECT_SECONDS))
        except HostError:
            return frozenset()
        return frozenset(int(word) for word in str(done.stdout or "").split() if word.isdecimal())

    def _forward(self, spec: ForwardSpec) -> AbstractAsyncContextManager[Forward]:
        if spec.direction == "to_host":
            return self._to_host(spec)
        if spec.direction == "to_runner":
            return self._to_runner(spec)
        raise ForwardUnsupported(f"There is no forward {spec.direction!r}.")

    @contextlib.asynccontextmanager
    async def _to_host(self, spec: ForwardSpec) -> AsyncIterator[Forward]:
        connection = await self.connection()

        async def connect() -> tuple[Reader, Writer]:
            return await connection.open_connection(LOOPBACK, spec.remote_port)

        async with listen_here(spec.local_host, spec.local_port, connect) as listening:
            yield listening

    @contextlib.asynccontextmanager
    async def _to_runner(self, spec: ForwardSpec) -> AsyncIterator[Forward]:
        connection = await self.connection()

        async def connect() -> tuple[Reader, Writer]:
            return await asyncio.open_connection(spec.local_host, spec.local_port)

        relay = Relay(connect)
        listener = await _translated(
            connection.start_server(lambda _host, _port: relay.accept, LOOPBACK, spec.remote_port)
        )
        try:
            yield Listening(listener.get_port())
        finally:
            listener.close()
            await relay.close()
            await listener.wait_closed()

    async def _close(self) -> None:
        if self._connecting is None:
            return
        with contextlib.suppress(HostError):
            connection = await self._connecting
            if self._sftp_starting is not None:
                (await self._sftp_starting).exit()
            connection.close()
            await connection.wait_closed()


class _SshFs:
    """Files over SFTP. See HostFs."""

    def __init__(self, host: SshHost) -> None:
        self._host = host

    async def read_bytes(self, path: str) -> bytes:
        return await self._do("read", path, lambda fs, sftp: fs.read_bytes(sftp, path))

    async def write_bytes(self, path: str, data: bytes) -> None:
        await self._do("write", path, lambda fs, sftp: fs.write_bytes(sftp, path, data, "wb"))

    async def append_bytes(self, path: str, data: bytes) -> None:
        await self._do("write", path, lambda fs, sftp: fs.write_bytes(sftp, path, data, "ab"))

    async def stat(self, path: str, *, follow: bool = True) -> FileStat:
        return await self._do("stat", path, lambda fs, sftp: fs.stat(sftp, path, follow))

    async def listdir(self, path: str) -> list[str]:
        return await self._do("listdir", path, lambda fs, sftp: fs.listdir(sftp, path))

    async def mkdir(self, path: str, mode: int = 0o777) -> None:
        from asyncssh import SFTPAttrs

        await self._do("mkdir", path, lambda fs, sftp: sftp.mkdir(path, SFTPAttrs(permissions=mode)))

    async def rename(self, path: str, target: str) -> None:
        await self._do("rename", path, lambda fs, sftp: sftp.posix_rename(path, absolute(target)), target)

    async def unlink(self, path: str) -> None:
        await self._do("unlink", path, lambda fs, sftp: sftp.remove(path))

    async def rmdir(self, path: str) -> None:
        await self._do("rmdir", path, lambda fs, sftp: sftp.rmdir(path))

    async def chmod(self, path: str, mode: int) -> None:
        await self._do("chmod", path, lambda fs, sftp: sftp.chmod(path, mode))

    async def symlink(self, path: str, target: str) -> None:
        await self._do("symlink", path, lambda fs, sftp: sftp.symlink(target, path))

    async def readlink(self, path: str) -> str:
        return str(await self._do("readlink", path, lambda fs, sftp: sftp.readlink(path)))

    async def _do(
        self, what: str, path: str, operation: Callable[[Any, "asyncssh.SFTPClient"], Awaitable[T]], target: str = ""
    ) -> T:
        absolute(path)
        sftp = await self._host.sftp()
        import asyncssh

        from jsrun.plugs.hosts import _ssh_fs

        try:
            return await _translated(operation(_ssh_fs, sftp))
        except asyncssh.SFTPError as error:
            raise await _ssh_fs.translated(sftp, error, what, path, target) from error


async def _open(login: SshLogin) -> "asyncssh.SSHClientConnection":
    try:
        import asyncssh
    except ImportError:
        raise MissingExtra("ssh") from None
    options: dict[str, Any] = {
        "port": login.port,
        "username": login.username,
        "password": login.password,
        "client_keys": None if login.client_keys is None else [str(key) for key in login.client_keys],
        "known_hosts": None if login.known_hosts is None else str(login.known_hosts),
        "config": None if login.config is None else str(login.config),
    }
    # None would mean something else to the library: for `known_hosts` that keys are not checked at all.
    given = {name: value for name, value in options.items() if value is not None}
    if login.insecure_accept_any_host_key:
        given["known_hosts"] = None
    try:
        return await asyncssh.connect(
            login.address, connect_timeout=CONNECT_SECONDS, keepalive_interval=_ALIVE_SECONDS, **given
        )
    except asyncssh.HostKeyNotVerifiable as error:
        raise HostError(
            f"The key of the host {login.address} is not known: {error.reason}. Add it to your known_hosts file, from a"
            " source that you trust."
        ) from error
    except (OSError, ValueError, asyncssh.Error) as error:
        raise HostError(f"There is no SSH connection to {login.address}: {error}.") from error


async def _start_sftp(connection: "asyncssh.SSHClientConnection") -> "asyncssh.SFTPClient":
    return await _translated(connection.start_sftp_client())


async def _translated(work: Awaitable[T]) -> T:
    """The value of `work`; HostError for errors of the connection, those of files are passed on."""
    import asyncssh

    try:
        return await work
    except asyncssh.SFTPError:
        raise
    except (ConnectionError, asyncssh.Error) as error:
        raise HostError(f"The SSH connection failed: {error}.") from error
