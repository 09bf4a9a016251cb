"""The host that stands for a machine which is not there, so that nothing meant for it is done elsewhere."""

from contextlib import AbstractAsyncContextManager
from typing import NoReturn

from jsrun.plugs.errors import HostUnavailable
from jsrun.plugs.host_api import (
    MAX_OUTPUT,
    AgentSpawnSpec,
    Command,
    Env,
    ExecResult,
    FileStat,
    Forward,
    ForwardSpec,
    HostFs,
    HostInfo,
    HostProcess,
)
from jsrun.plugs.hosts.path import HostPath

# No machine has this folder, so a path built from it leads nowhere.
_NOWHERE = "/nonexistent"
_INFO = HostInfo("unavailable", "linux", home=_NOWHERE, tmpdir=_NOWHERE, workspace=_NOWHERE, persistent=False)


class UnavailableHost:
    """Every operation raises HostUnavailable, which names `plug`, the one that once handed a host inwards."""

    def __init__(self, plug: str) -> None:
        self._plug = plug
        self._fs = _UnavailableFs(plug)

    @property
    def info(self) -> HostInfo:
        """Facts about no machine; the kind is "unavailable"."""
        return _INFO

    @property
    def fs(self) -> HostFs:
        """See Host."""
        return self._fs

    @property
    def supports_forward(self) -> bool:
        """See Host."""
        return False

    @property
    def closed(self) -> bool:
        """See Host."""
        return False

    @property
    def bound(self) -> bool:
        """See Host."""
        return False

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
        """HostUnavailable."""
        raise HostUnavailable(self._plug)

    async def spawn(self, spec: AgentSpawnSpec) -> HostProcess:
        """HostUnavailable."""
        raise HostUnavailable(self._plug)

    def forward(self, spec: ForwardSpec) -> AbstractAsyncContextManager[Forward]:
        """HostUnavailable."""
        raise HostUnavailable(self._plug)

    async def aclose(self) -> None:
        """Nothing to close."""


class _UnavailableFs:
    def __init__(self, plug: str) -> None:
        self._plug = plug

    def _refuse(self) -> NoReturn:
        raise HostUnavailable(self._plug)

    async def read_bytes(self, path: str) -> bytes:
        self._refuse()

    async def write_bytes(self, path: str, data: bytes) -> None:
        self._refuse()

    async def append_bytes(self, path: str, data: bytes) -> None:
        self._refuse()

    async def stat(self, path: str, *, follow: bool = True) -> FileStat:
        self._refuse()

    async def listdir(self, path: str) -> list[str]:
        self._refuse()

    async def mkdir(self, path: str, mode: int = 0o777) -> None:
        self._refuse()

    async def rename(self, path: str, target: str) -> None:
        self._refuse()

    async def unlink(self, path: str) -> None:
        self._refuse()

    async def rmdir(self, path: str) -> None:
        self._refuse()

    async def chmod(self, path: str, mode: int) -> None:
        self._refuse()

    async def symlink(self, path: str, target: str) -> None:
        self._refuse()

    async def readlink(self, path: str) -> str:
        self._refuse()
