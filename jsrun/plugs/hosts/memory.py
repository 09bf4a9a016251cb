"""A machine that exists in a test only: files in a dict, scripted commands, agents that are coroutines."""

import asyncio
import inspect
import logging
import posixpath
import re
import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any

from jsrun.plugs.errors import ExecError, ExecTimeout, ForwardUnsupported, HostClosed, HostError
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
from jsrun.plugs.hosts._base import absolute, merged
from jsrun.plugs.hosts._memory_fs import MemoryFiles
from jsrun.plugs.hosts._memory_process import MemoryIO, MemoryProcess, Pipe, Program
from jsrun.plugs.hosts.path import HostPath

__all__ = ["Call", "Command", "ExecCall", "MemoryHost", "MemoryIO", "Ran"]

_log = logging.getLogger("jsrun.plugs")


@dataclass(frozen=True, slots=True)
class Ran:
    """How a scripted command ends."""

    exit_code: int = 0
    stdout: bytes | str = b""
    stderr: bytes | str = b""


@dataclass(frozen=True, slots=True)
class ExecCall:
    """A command as a script sees it: `command` is text for a shell, or a tuple."""

    command: str | tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    input: bytes


@dataclass(frozen=True, slots=True)
class Call:
    """A use of the host: "exec", "spawn", "forward", "aclose", or the name of a file operation, and its arguments."""

    op: str
    args: tuple[Any, ...] = ()


Answer = Ran | Callable[[ExecCall], Ran | Awaitable[Ran]]


@dataclass(slots=True)
class _Machine:
    """What outlives a host object."""

    files: MemoryFiles
    commands: list[tuple[str | tuple[str, ...] | re.Pattern[str], Answer]] = field(default_factory=list)
    programs: dict[str, Program] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)


class MemoryHost:
    """See Host. `calls` records all uses; a command that no script answers raises HostError.

    `reopen()` makes another host on the same machine, as a resume does.
    """

    def __init__(
        self,
        *,
        workspace: str = "/work",
        home: str = "/home/user",
        kind: str = "memory",
        os: str = "linux",
        env: Mapping[str, str] | None = None,
        persistent: bool = True,
    ) -> None:
        self._info = HostInfo(kind, os, home, "/tmp", workspace, persistent)
        self._env = dict(env) if env is not None else {"HOME": home, "PATH": "/usr/bin:/bin"}
        self._machine = _Machine(MemoryFiles(workspace, home, "/tmp"))
        self._processes: list[MemoryProcess] = []
        self._closed = False
        self._fs = _MemoryFs(self)

    def reopen(self) -> "MemoryHost":
        """A new host, open, with the same files, scripts and record."""
        info = self._info
        host = MemoryHost(
            workspace=info.workspace,
            home=info.home,
            kind=info.kind,
            os=info.os,
            env=self._env,
            persistent=info.persistent,
        )
        host._machine = self._machine
        return host

    @property
    def calls(self) -> list[Call]:
        """All uses in their order."""
        return self._machine.calls

    @property
    def files(self) -> MemoryFiles:
        """What lies on the machine, for tests to look at."""
        return self._machine.files

    @property
    def running(self) -> list[MemoryProcess]:
        """Processes started on this host that have not ended."""
        return [process for process in self._processes if process.running]

    def on(self, command: str | Sequence[str] | re.Pattern[str], answer: Answer) -> None:
        """Script a command: text as given to a shell, a sequence, or a pattern searched in either. The latest wins."""
        key = command if isinstance(command, str | re.Pattern) else tuple(command)
        self._machine.commands.insert(0, (key, answer))

    def program(self, command: str, program: Program) -> None:
        """Let `spawn` start a coroutine for `command`."""
        self._machine.programs[command] = program

    @property
    def info(self) -> HostInfo:
        """See Host."""
        return self._info

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
        return self._closed

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
        """See Host; the script of the command is run."""
        data = input.encode() if isinstance(input, str) else input or b""
        call = ExecCall(
            command if isinstance(command, str) else tuple(command),
            absolute(cwd) if cwd is not None else self._info.workspace,
            merged(self._env, env or {}),
            data,
        )
        self.use("exec", call)
        await self._check_folder(call.cwd)
        answer = self._answer(call.command)
        try:
            async with asyncio.timeout(timeout):
                ran = answer if isinstance(answer, Ran) else await _awaited(answer(call))
        except TimeoutError:
            assert timeout is not None
            raise ExecTimeout(_result(Ran(-15), max_output), timeout) from None
        result = _result(ran, max_output)
        if check and result.exit_code != 0:
            raise ExecError(result)
        return result

    async def spawn(self, spec: AgentSpawnSpec) -> HostProcess:
        """See Host; the coroutine registered for the command is started."""
        self.use("spawn", spec)
        cwd = absolute(spec.cwd) if spec.cwd is not None else self._info.workspace
        await self._check_folder(cwd)
        program = self._machine.programs.get(spec.command)
        if program is None:
            raise HostError(f"{spec.command!r} cannot be started: no program of that name is registered.")
        args = (spec.command, *spec.args)
        process = MemoryProcess(program, MemoryIO(args, merged(self._env, spec.env), cwd, Pipe(), Pipe(), Pipe()))
        self._processes.append(process)
        return process

    def forward(self, spec: ForwardSpec) -> AbstractAsyncContextManager[Forward]:
        """ForwardUnsupported."""
        self.use("forward", spec)
        raise ForwardUnsupported("A host in memory has no ports.")

    async def aclose(self) -> None:
        """See Host."""
        if self._closed:
            return
        self._closed = True
        self.calls.append(Call("aclose"))
        left = self.running
        if left:
            _log.warning("processes left running on a host (%s) are killed: %d", self._info.kind, len(left))
        for process in left:
            await process.kill("KILL")
            await process.wait()

    def use(self, op: str, *args: Any) -> None:
        """Record a use; HostClosed after `aclose()`."""
        if self._closed:
            raise HostClosed(f"The host ({self._info.kind}) is closed.")
        self.calls.append(Call(op, args))

    async def _check_folder(self, cwd: str) -> None:
        try:
            kind = self.files.stat(cwd, follow=True).kind
        except OSError:
            kind = "other"
        if kind != "dir":
            raise HostError(f"A command cannot be started in {cwd!r}: there is no such folder.")

    def _answer(self, command: str | tuple[str, ...]) -> Answer:
        shown = command if isinstance(command, str) else shlex.join(command)
        for key, answer in self._machine.commands:
            if key == command or (isinstance(key, re.Pattern) and key.search(shown)):
                return answer
        raise HostError(f"The command {shown!r} cannot be started: no script answers it.")


class _MemoryFs:
    """See HostFs."""

    def __init__(self, host: MemoryHost) -> None:
        self._host = host

    async def read_bytes(self, path: str) -> bytes:
        return self._files("read_bytes", path).read(path)

    async def write_bytes(self, path: str, data: bytes) -> None:
        self._files("write_bytes", path, data).write(path, data)

    async def append_bytes(self, path: str, data: bytes) -> None:
        self._files("append_bytes", path, data).write(path, data, append=True)

    async def stat(self, path: str, *, follow: bool = True) -> FileStat:
        return self._files("stat", path, follow).stat(path, follow)

    async def listdir(self, path: str) -> list[str]:
        return self._files("listdir", path).listdir(path)

    async def mkdir(self, path: str, mode: int = 0o777) -> None:
        self._files("mkdir", path, mode).mkdir(path, mode)

    async def rename(self, path: str, target: str) -> None:
        self._files("rename", path, target).rename(path, absolute(target))

    async def unlink(self, path: str) -> None:
        self._files("unlink", path).unlink(path)

    async def rmdir(self, path: str) -> None:
        self._files("rmdir", path).rmdir(path)

    async def chmod(self, path: str, mode: int) -> None:
        self._files("chmod", path, mode).chmod(path, mode)

    async def symlink(self, path: str, target: str) -> None:
        self._files("symlink", path, target).symlink(path, target)

    async def readlink(self, path: str) -> str:
        return self._files("readlink", path).readlink(path)

    def _files(self, op: str, path: str, *rest: Any) -> MemoryFiles:
        self._host.use(op, posixpath.normpath(absolute(path)), *rest)
        return self._host.files


async def _awaited(ran: Ran | Awaitable[Ran]) -> Ran:
    return await ran if inspect.isawaitable(ran) else ran


def _result(ran: Ran, max_output: int) -> ExecResult:
    out = ran.stdout.encode() if isinstance(ran.stdout, str) else ran.stdout
    err = ran.stderr.encode() if isinstance(ran.stderr, str) else ran.stderr
    return ExecResult(
        ran.exit_code,
        out[:max_output].decode("utf-8", "replace"),
        err[:max_output].decode("utf-8", "replace"),
        len(out),
        len(err),
        max(len(out), len(err)) > max_output,
    )
