"""The machine the runner itself is on."""

import asyncio
import errno
import os
import stat as modes
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from fnmatch import fnmatchcase
from pathlib import Path

from jsrun.plugs.errors import ForwardUnsupported
from jsrun.plugs.host_api import Command, Env, FileKind, FileStat, Forward, ForwardSpec, HostInfo
from jsrun.plugs.hosts._base import ProcessHost, absolute, merged
from jsrun.plugs.hosts._exec import OwnProcess
from jsrun.plugs.hosts._local_process import LocalProcess, start
from jsrun.plugs.hosts._relay import Reader, Writer, listen_here

# What every program expects to find; anything else of the runner's environment may be a secret and is not passed on.
BASE_ENV = ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "LANG", "LC_*", "TMPDIR", "TZ")
LOOPBACK = "127.0.0.1"


class LocalHost(ProcessHost):
    """Commands, files and forwards on this machine.

    `workspace`: where the work lies, by default the current folder. `environ`: where the base environment is taken
    from, by default the process's own. Both forwards are a TCP relay inside this process.
    """

    def __init__(self, workspace: str | Path | None = None, *, environ: Mapping[str, str] | None = None) -> None:
        source = os.environ if environ is None else environ
        self._base = {name: value for name, value in source.items() if any(fnmatchcase(name, p) for p in BASE_ENV)}
        info = HostInfo(
            kind="local",
            os="macos" if sys.platform == "darwin" else "linux",
            home=self._base.get("HOME") or str(Path.home()),
            tmpdir=tempfile.gettempdir(),
            workspace=str(Path.cwd() if workspace is None else Path(workspace).absolute()),
            persistent=True,
        )
        super().__init__(info, LocalFs(self))

    async def _start(self, command: Command, cwd: str, env: Env) -> OwnProcess:
        argv = ("/bin/sh", "-c", command) if isinstance(command, str) else command
        return await start(argv, cwd, merged(self._base, env))

    def _keep(self, process: OwnProcess) -> bool:
        return isinstance(process, LocalProcess) and process.left()

    async def _left(self, processes: Sequence[OwnProcess]) -> list[OwnProcess]:
        return [process for process in processes if self._keep(process)]

    def _forward(self, spec: ForwardSpec) -> AbstractAsyncContextManager[Forward]:
        if spec.direction == "to_runner":
            here, there = (LOOPBACK, spec.remote_port), (spec.local_host, spec.local_port)
        elif spec.direction == "to_host":
            here, there = (spec.local_host, spec.local_port), (LOOPBACK, spec.remote_port)
        else:
            raise ForwardUnsupported(f"There is no forward {spec.direction!r}.")

        async def connect() -> tuple[Reader, Writer]:
            return await asyncio.open_connection(*there)

        return listen_here(*here, connect)

    async def _close(self) -> None:
        """Nothing more to do."""


class LocalFs:
    """Files of this machine, in worker threads. See HostFs."""

    def __init__(self, host: ProcessHost) -> None:
        self._host = host

    async def read_bytes(self, path: str) -> bytes:
        """See HostFs."""
        return await asyncio.to_thread(self._at(path).read_bytes)

    async def write_bytes(self, path: str, data: bytes) -> None:
        """See HostFs."""
        await asyncio.to_thread(self._at(path).write_bytes, data)

    async def append_bytes(self, path: str, data: bytes) -> None:
        """See HostFs."""
        await asyncio.to_thread(_append, self._at(path), data)

    async def stat(self, path: str, *, follow: bool = True) -> FileStat:
        """See HostFs."""
        return as_stat(await asyncio.to_thread(os.stat, self._at(path), follow_symlinks=follow))

    async def listdir(self, path: str) -> list[str]:
        """See HostFs."""
        return await asyncio.to_thread(os.listdir, self._at(path))

    async def mkdir(self, path: str, mode: int = 0o777) -> None:
        """See HostFs."""
        await asyncio.to_thread(os.mkdir, self._at(path), mode)

    async def rename(self, path: str, target: str) -> None:
        """See HostFs."""
        await asyncio.to_thread(os.replace, self._at(path), self._at(target))

    async def unlink(self, path: str) -> None:
        """See HostFs."""
        await asyncio.to_thread(_unlink, self._at(path))

    async def rmdir(self, path: str) -> None:
        """See HostFs."""
        await asyncio.to_thread(os.rmdir, self._at(path))

    async def chmod(self, path: str, mode: int) -> None:
        """See HostFs."""
        await asyncio.to_thread(os.chmod, self._at(path), mode)

    async def symlink(self, path: str, target: str) -> None:
        """See HostFs."""
        await asyncio.to_thread(os.symlink, target, self._at(path))

    async def readlink(self, path: str) -> str:
        """See HostFs."""
        return await asyncio.to_thread(os.readlink, self._at(path).as_posix())

    def _at(self, path: str) -> Path:
        self._host.check_open()
        return Path(absolute(path))


def as_stat(found: os.stat_result) -> FileStat:
    """What the system tells, in our form."""
    return FileStat(kind_of(found.st_mode), found.st_size, modes.S_IMODE(found.st_mode), found.st_mtime)


def kind_of(mode: int) -> FileKind:
    """The kind that the bits of `st_mode` tell."""
    if modes.S_ISREG(mode):
        return "file"
    if modes.S_ISDIR(mode):
        return "dir"
    return "symlink" if modes.S_ISLNK(mode) else "other"


def _append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def _unlink(path: Path) -> None:
    try:
        path.unlink()
    except PermissionError:
        # What macOS calls it; Linux says what it is.
        if path.is_dir() and not path.is_symlink():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path)) from None
        raise
