"""What hosts with real processes share: closing, checks of what is given to them, `exec` on top of starting."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

from jsrun.plugs.errors import ExecError, ExecTimeout, HostClosed, HostError
from jsrun.plugs.host_api import (
    MAX_OUTPUT,
    AgentSpawnSpec,
    Command,
    Env,
    ExecResult,
    Forward,
    ForwardSpec,
    HostFs,
    HostInfo,
    HostProcess,
)
from jsrun.plugs.hosts._exec import OwnProcess, run_to_end
from jsrun.plugs.hosts.path import HostPath

T = TypeVar("T")
_log = logging.getLogger("jsrun.plugs")


class ProcessHost:
    """A host that starts processes in groups of their own. Derived classes bring what raises NotImplementedError."""

    def __init__(self, info: HostInfo, fs: HostFs) -> None:
        self._info = info
        self._fs = fs
        self._closing: asyncio.Task[None] | None = None
        self._processes: set[OwnProcess] = set()
        self._tasks: set[asyncio.Task[Any]] = set()

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
        return True

    @property
    def closed(self) -> bool:
        """See Host."""
        return self._closing is not None

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
        """See Host."""
        self.check_open()
        data = input.encode() if isinstance(input, str) else input or b""
        async with self._turn():
            process = await self._started(_checked(command), self._folder(cwd), _variables(env or {}))
            ended = await run_to_end(
                process, lambda: self._task(process.end()), input=data, timeout=timeout, max_output=max_output
            )
        if ended.timed_out:
            assert timeout is not None
            raise ExecTimeout(ended.result, timeout)
        if check and ended.result.exit_code != 0:
            raise ExecError(ended.result)
        return ended.result

    async def spawn(self, spec: AgentSpawnSpec) -> HostProcess:
        """See Host."""
        self.check_open()
        command = _checked((spec.command, *spec.args))
        return await self._started(command, self._folder(spec.cwd), _variables(spec.env))

    def forward(self, spec: ForwardSpec) -> AbstractAsyncContextManager[Forward]:
        """See Host."""
        self.check_open()
        return self._forwarding(spec)

    async def aclose(self) -> None:
        """See Host."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._shut())
        await asyncio.shield(self._closing)

    def check_open(self) -> None:
        """HostClosed after `aclose()`."""
        if self.closed:
            raise HostClosed(f"The host ({self._info.kind}) is closed.")

    def _turn(self) -> AbstractAsyncContextManager[Any]:
        """Holds commands back while as many run as the host can take."""
        return contextlib.nullcontext()

    async def _connect(self) -> None:
        """What may take long before a process can be started."""

    async def _start(self, command: Command, cwd: str, env: Env) -> OwnProcess:
        """Start text with `/bin/sh -c`, or a sequence as it is; HostError if that is not possible."""
        raise NotImplementedError

    def _forward(self, spec: ForwardSpec) -> AbstractAsyncContextManager[Forward]:
        raise NotImplementedError

    def _keep(self, process: OwnProcess) -> bool:
        """Whether something of the group of a process that has exited may still run."""
        raise NotImplementedError

    async def _left(self, processes: Sequence[OwnProcess]) -> list[OwnProcess]:
        """Those of which something still runs, others of their groups included."""
        raise NotImplementedError

    async def _close(self) -> None:
        """What is to be done after the last process is gone."""
        raise NotImplementedError

    @contextlib.asynccontextmanager
    async def _forwarding(self, spec: ForwardSpec) -> AsyncIterator[Forward]:
        self.check_open()
        async with self._forward(spec) as forward:
            yield forward

    def _folder(self, cwd: str | None) -> str:
        if cwd is None:
            return self._info.workspace
        return absolute(cwd)

    async def _started(self, command: Command, cwd: str, env: Env) -> OwnProcess:
        """A new process, known to this host. Cancelled meanwhile, it is ended as soon as it is there."""
        await self._connect()
        task = self._task(self._start(command, cwd, env))
        try:
            process = await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.shield(self._task(self._end_unwanted(task)))
            raise
        self._processes.add(process)
        process.on_exit(lambda: self._exited(process))
        if self.closed:
            await process.end()
            self.check_open()
        return process

    async def _end_unwanted(self, starting: "asyncio.Task[OwnProcess]") -> None:
        with contextlib.suppress(HostError):
            process = await starting
            await process.end()
            process.release()

    def _exited(self, process: OwnProcess) -> None:
        # Its group may live on; then it is remembered and ended when the host closes.
        if not self.closed and not self._keep(process):
            self._processes.discard(process)

    async def _shut(self) -> None:
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
        left = await self._left(tuple(self._processes))
        if left:
            _log.warning("processes left running on a host (%s) are killed: %d", self._info.kind, len(left))
        await asyncio.gather(*(process.end() for process in left), return_exceptions=True)
        for process in {*self._processes, *left}:
            process.release()
        self._processes.clear()
        await self._close()

    def _task(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def absolute(path: str) -> str:
    """`path`; HostError for a relative one, which means nothing without a folder it starts from, or one with NUL."""
    if "\0" in path:
        raise HostError("A path holds a NUL character.")
    if not path.startswith("/"):
        raise HostError(f"The path {path!r} is relative, and this host is bound to no folder. Give an absolute one.")
    return path


def merged(base: Mapping[str, str], over: Env) -> dict[str, str]:
    """The variables of `base` with those of `over`, where None removes."""
    variables = {**base, **over}
    return {name: value for name, value in variables.items() if value is not None}


def _checked(command: Command) -> Command:
    if isinstance(command, str):
        texts: tuple[str, ...] = (command,)
    else:
        texts = command = tuple(command)
        if not texts or not texts[0]:
            raise HostError("A command has at least one part, the program.")
    if any("\0" in text for text in texts):
        raise HostError("A command holds a NUL character.")
    return command


def _variables(env: Env) -> Env:
    for name, value in env.items():
        if not name or "=" in name or "\0" in name or "\0" in (value or ""):
            raise HostError(f"The variable {name!r} cannot be given to a process.")
    return env
