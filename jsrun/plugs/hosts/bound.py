"""The view of a host that `ctx.host` is: relative paths and commands start where the draft says at that moment."""

import posixpath
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from jsrun.plugs.errors import HostError
from jsrun.plugs.host_api import (
    MAX_OUTPUT,
    AgentSpawnSpec,
    Command,
    Env,
    ExecResult,
    FileStat,
    Forward,
    ForwardSpec,
    Host,
    HostFs,
    HostInfo,
    HostProcess,
)
from jsrun.plugs.hosts.path import HostPath


class BoundHost:
    """`host`, with `cwd()` as its folder and `env()` under the environment of commands; both are asked at each use.

    `spawn` takes its spec as it is. The view cannot be closed and not be handed inwards.
    """

    def __init__(self, host: Host, cwd: Callable[[], str], env: Callable[[], Env]) -> None:
        self._host = host
        self._cwd = cwd
        self._env = env
        self._fs = _BoundFs(host, cwd)

    @property
    def info(self) -> HostInfo:
        """See Host."""
        return self._host.info

    @property
    def fs(self) -> HostFs:
        """See Host."""
        return self._fs

    @property
    def supports_forward(self) -> bool:
        """See Host."""
        return self._host.supports_forward

    @property
    def closed(self) -> bool:
        """See Host."""
        return self._host.closed

    @property
    def bound(self) -> bool:
        """See Host."""
        return True

    def path(self, path: str) -> HostPath:
        """See Host."""
        return HostPath(self, path)

    async def exec(
        self,
        command: Command,
        *,
        cwd: str | None = None,
        env: Env | None = None,
        check: bool = True,
        input: bytes | str | None = None,
        timeout: float | None = None,
        max_output: int = MAX_OUTPUT,
    ) -> ExecResult:
        """See Host."""
        folder = self._cwd() if cwd is None else posixpath.join(self._cwd(), cwd)
        variables = {**self._env(), **(env or {})}
        return await self._host.exec(
            command, cwd=folder, env=variables, check=check, input=input, timeout=timeout, max_output=max_output
        )

    async def spawn(self, spec: AgentSpawnSpec) -> HostProcess:
        """See Host."""
        return await self._host.spawn(spec)

    def forward(self, spec: ForwardSpec) -> AbstractAsyncContextManager[Forward]:
        """See Host."""
        return self._host.forward(spec)

    async def aclose(self) -> None:
        """HostError: the host is closed by whoever made it, or by the runner if it was handed inwards."""
        raise HostError("This is a view of a host; the host is closed by whoever made it.")


class _BoundFs:
    """The files of a host, with relative paths from `cwd()`."""

    def __init__(self, host: Host, cwd: Callable[[], str]) -> None:
        self._host = host
        self._cwd = cwd

    async def read_bytes(self, path: str) -> bytes:
        return await self._host.fs.read_bytes(self._at(path))

    async def write_bytes(self, path: str, data: bytes) -> None:
        await self._host.fs.write_bytes(self._at(path), data)

    async def append_bytes(self, path: str, data: bytes) -> None:
        await self._host.fs.append_bytes(self._at(path), data)

    async def stat(self, path: str, *, follow: bool = True) -> FileStat:
        return await self._host.fs.stat(self._at(path), follow=follow)

    async def listdir(self, path: str) -> list[str]:
        return await self._host.fs.listdir(self._at(path))

    async def mkdir(self, path: str, mode: int = 0o777) -> None:
        await self._host.fs.mkdir(self._at(path), mode)

    async def rename(self, path: str, target: str) -> None:
        await self._host.fs.rename(self._at(path), self._at(target))

    async def unlink(self, path: str) -> None:
        await self._host.fs.unlink(self._at(path))

    async def rmdir(self, path: str) -> None:
        await self._host.fs.rmdir(self._at(path))

    async def chmod(self, path: str, mode: int) -> None:
        await self._host.fs.chmod(self._at(path), mode)

    async def symlink(self, path: str, target: str) -> None:
        # The target stays as it is: a relative one starts at the link, as on every POSIX system.
        await self._host.fs.symlink(self._at(path), target)

    async def readlink(self, path: str) -> str:
        return await self._host.fs.readlink(self._at(path))

    def _at(self, path: str) -> str:
        return posixpath.join(self._cwd(), path)
