"""A place where commands and the agent run: what every host offers, and what an implementer writes.

Paths are POSIX paths on the host's machine. A host connects when it is first used; reading `info` is no use of it.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    from jsrun.plugs.hosts.path import HostPath

Env: TypeAlias = Mapping[str, str | None]
Command: TypeAlias = str | Sequence[str]
FileKind: TypeAlias = Literal["file", "dir", "symlink", "other"]
ForwardDirection: TypeAlias = Literal["to_runner", "to_host"]

# Output of `exec` kept per stream, in bytes: enough for any report, little enough to hold several.
MAX_OUTPUT = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class HostInfo:
    """Facts about a host, known without I/O.

    `kind`: "local", "ssh", "memory" or a plug's own word. `os`: "linux" or "macos". `workspace`: where the work lies.
    `persistent`: whether files and processes outlive a pause.
    """

    kind: str
    os: str
    home: str
    tmpdir: str
    workspace: str
    persistent: bool


@dataclass(frozen=True, slots=True)
class FileStat:
    """What `HostFs.stat` tells: size in bytes, the permission bits, and seconds since 1970."""

    kind: FileKind
    size: int
    mode: int
    mtime: float


@dataclass(frozen=True, slots=True)
class ExecResult:
    """How a command ended. `exit_code` is minus the signal's number if it was killed.

    `stdout` and `stderr` are text, with U+FFFD for what is not UTF-8, cut at `max_output` bytes each. `stdout_bytes`
    and `stderr_bytes` are the full sizes; `truncated` tells whether something was cut.
    """

    exit_code: int
    stdout: str
    stderr: str
    stdout_bytes: int
    stderr_bytes: int
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class ForwardSpec:
    """A forwarded TCP port; a listening port of 0 is chosen by the system.

    `to_runner`: a listener on the host's loopback (`remote_port`) reaches the runner's `local_host:local_port`.
    `to_host`: a listener on the runner (`local_host:local_port`) reaches the host's `remote_port`.
    """

    direction: ForwardDirection
    remote_port: int = 0
    local_host: str = "127.0.0.1"
    local_port: int = 0


@dataclass(frozen=True, slots=True)
class AgentSpawnSpec:
    """A process to be started, whole: `env` lies over the host's own base environment, where None removes a name."""

    command: str
    args: tuple[str, ...] = ()
    env: Env = field(default_factory=dict)
    cwd: str | None = None


class ProcessInput(Protocol):
    """The standard input of a process."""

    async def write(self, data: bytes) -> None:
        """Write all of `data`; BrokenPipeError when nobody reads any more."""
        ...

    async def close(self) -> None:
        """End the input; calling it again does nothing."""
        ...


class ProcessOutput(Protocol):
    """The standard output or error of a process."""

    async def read(self, n: int) -> bytes:
        """At least one byte and at most `n`, or `b""` at the end."""
        ...


class HostProcess(Protocol):
    """A running process with byte streams, in a process group of its own."""

    @property
    def pid(self) -> int | None:
        """Its process id if it runs on the runner's own machine, else None."""
        ...

    @property
    def stdin(self) -> ProcessInput:
        """What it reads."""
        ...

    @property
    def stdout(self) -> ProcessOutput:
        """What it prints."""
        ...

    @property
    def stderr(self) -> ProcessOutput:
        """What it prints as errors."""
        ...

    async def wait(self) -> int:
        """Its exit code, minus the signal's number if it was killed. May be awaited several times."""
        ...

    async def kill(self, signal: str = "TERM") -> None:
        """Send a signal ("TERM", "KILL", "INT", …) to its group; nothing happens if it is gone."""
        ...


class HostFs(Protocol):
    """The files of a host; errors are Python's own (FileNotFoundError, …) on every host. Times out nothing."""

    async def read_bytes(self, path: str) -> bytes:
        """The contents of a file."""
        ...

    async def write_bytes(self, path: str, data: bytes) -> None:
        """Make or replace the contents of a file."""
        ...

    async def append_bytes(self, path: str, data: bytes) -> None:
        """Add to the end of a file, made if it is not there."""
        ...

    async def stat(self, path: str, *, follow: bool = True) -> FileStat:
        """Facts about what is at `path`; a symlink itself unless `follow`."""
        ...

    async def listdir(self, path: str) -> list[str]:
        """The names in a folder, in no order."""
        ...

    async def mkdir(self, path: str, mode: int = 0o777) -> None:
        """Make one folder."""
        ...

    async def rename(self, path: str, target: str) -> None:
        """Move `path` to `target`, replacing a file there."""
        ...

    async def unlink(self, path: str) -> None:
        """Remove a file or symlink."""
        ...

    async def rmdir(self, path: str) -> None:
        """Remove an empty folder."""
        ...

    async def chmod(self, path: str, mode: int) -> None:
        """Set the permission bits."""
        ...

    async def symlink(self, path: str, target: str) -> None:
        """Make a symlink at `path` that points to `target`."""
        ...

    async def readlink(self, path: str) -> str:
        """Where a symlink points."""
        ...


class Forward(Protocol):
    """A forward that is up."""

    @property
    def port(self) -> int:
        """The port of its listener."""
        ...


@runtime_checkable
class Host(Protocol):
    """A place where commands and the agent run. After `aclose()` every operation raises HostClosed."""

    @property
    def info(self) -> HostInfo:
        """Facts about it, without I/O."""
        ...

    @property
    def fs(self) -> HostFs:
        """Its files."""
        ...

    @property
    def supports_forward(self) -> bool:
        """Whether `forward` works here."""
        ...

    @property
    def closed(self) -> bool:
        """Whether `aclose()` was called."""
        ...

    @property
    def bound(self) -> bool:
        """Whether this is a view bound to a draft, as `ctx.host` is; such a view cannot be handed inwards."""
        ...

    def path(self, path: str) -> "HostPath":
        """A path on this host, with pathlib's names as async calls."""
        ...

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
        """Run a command to its end: text goes to `/bin/sh -c`, a sequence to no shell.

        Standard input is empty unless `input` is given. With `check`, ExecError for another code than 0. At `timeout`
        seconds (ExecTimeout) or on cancellation the group gets TERM, after 2 s KILL. HostError if it cannot be started.
        """
        ...

    async def spawn(self, spec: AgentSpawnSpec) -> HostProcess:
        """Start a process as `spec` says; HostError, or Python's own error, if it cannot be started."""
        ...

    def forward(self, spec: ForwardSpec) -> AbstractAsyncContextManager[Forward]:
        """Forward a port while the context lasts; ForwardUnsupported where that is not possible."""
        ...

    async def aclose(self) -> None:
        """Close it: what still runs on it is killed. Calling it again does nothing."""
        ...
