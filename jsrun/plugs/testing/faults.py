"""Faults planted into what a plug does: an operation fails, hangs, or is where the runner's process dies."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from jsrun.plugs.api import AgentSpawnSpec, ExecResult, Forward, ForwardSpec, Host, HostFs, HostInfo, HostProcess
from jsrun.plugs.errors import HostError, StateUnavailable
from jsrun.plugs.hosts import HostPath
from jsrun.plugs.persist import StateStore

FaultKind: TypeAlias = Literal["fail", "hang", "crash"]

# The operations besides those of hosts; ANY stands for each of all.
STATE_OPERATIONS = ("persisted.set", "persisted.clear")
NEXT = "next"
ANY = "any"


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens at the `nth` (from 1) use of an operation: before it does anything."""

    kind: FaultKind
    op: str
    nth: int = 1


def fail(op: str, nth: int = 1) -> Fault:
    """The operation raises what such an operation raises: OSError, HostError or StateUnavailable."""
    return Fault("fail", op, nth)


def hang(op: str, nth: int = 1) -> Fault:
    """The operation ends only when it is cancelled."""
    return Fault("hang", op, nth)


def crash(op: str, nth: int = 1) -> Fault:
    """The runner's process dies here: nothing that the plug does takes effect any more."""
    return Fault("crash", op, nth)


class Planted(Exception):
    """What `fail("next")` makes the inside fail with."""


class Crashed(Exception):
    """A request was not answered, because the runner's process died at a planted crash."""


class Faults:
    """Counts the operations of one run and makes the faults happen. `operations` are their names in order."""

    def __init__(self, faults: tuple[Fault, ...] = ()) -> None:
        self.faults = faults
        self.operations: list[str] = []
        self.crashed = asyncio.Event()
        self._dead = False

    def bury(self) -> None:
        """Let what hangs since the crash end."""
        self._dead = True

    async def reach(self, op: str, error: Callable[[str], Exception]) -> None:
        """Called before an operation; returns if it may go on."""
        if self._dead:
            raise asyncio.CancelledError
        if self.crashed.is_set():
            await _for_ever()
        self.operations.append(op)
        for fault in self.faults:
            count = len(self.operations) if fault.op == ANY else self.operations.count(op)
            if fault.op in (op, ANY) and fault.nth == count:
                await self._happen(fault, f"planted: {op}, number {self.operations.count(op)}", error)

    async def _happen(self, fault: Fault, text: str, error: Callable[[str], Exception]) -> None:
        if fault.kind == "fail":
            raise error(text)
        if fault.kind == "crash":
            self.crashed.set()
        await _for_ever()


class FaultyStore:
    """A store whose writes are operations of the plug."""

    def __init__(self, inner: StateStore, faults: Faults) -> None:
        self._inner = inner
        self._faults = faults

    async def get(self, session: str, plug: str) -> bytes | None:
        """See StateStore."""
        return await self._inner.get(session, plug)

    async def put(self, session: str, plug: str, value: bytes) -> None:
        """See StateStore."""
        await self._faults.reach("persisted.set", StateUnavailable)
        await self._inner.put(session, plug, value)

    async def delete(self, session: str, plug: str) -> None:
        """See StateStore."""
        await self._faults.reach("persisted.clear", StateUnavailable)
        await self._inner.delete(session, plug)

    async def delete_session(self, session: str) -> None:
        """See StateStore."""
        await self._inner.delete_session(session)


class FaultyHost:
    """A host whose operations are those of the plug."""

    def __init__(self, inner: Host, faults: Faults) -> None:
        self._inner = inner
        self._faults = faults
        self._fs: Any = _FaultyFs(inner.fs, faults)

    @property
    def info(self) -> HostInfo:
        """See Host."""
        return self._inner.info

    @property
    def fs(self) -> HostFs:
        """See Host."""
        fs: HostFs = self._fs
        return fs

    @property
    def supports_forward(self) -> bool:
        """See Host."""
        return self._inner.supports_forward

    @property
    def closed(self) -> bool:
        """See Host."""
        return self._inner.closed

    @property
    def bound(self) -> bool:
        """See Host."""
        return self._inner.bound

    def path(self, path: str) -> HostPath:
        """See Host."""
        return HostPath(self, path)

    async def exec(self, command: Any, **options: Any) -> ExecResult:
        """See Host."""
        await self._faults.reach("exec", HostError)
        return await self._inner.exec(command, **options)

    async def spawn(self, spec: AgentSpawnSpec) -> HostProcess:
        """See Host."""
        await self._faults.reach("spawn", HostError)
        return await self._inner.spawn(spec)

    def forward(self, spec: ForwardSpec) -> AbstractAsyncContextManager[Forward]:
        """See Host."""
        return self._forward(spec)

    @asynccontextmanager
    async def _forward(self, spec: ForwardSpec) -> AsyncIterator[Forward]:
        await self._faults.reach("forward", HostError)
        async with self._inner.forward(spec) as forward:
            yield forward

    async def aclose(self) -> None:
        """See Host."""
        await self._faults.reach("aclose", HostError)
        await self._inner.aclose()


class _FaultyFs:
    """Each operation of HostFs, counted."""

    def __init__(self, inner: HostFs, faults: Faults) -> None:
        self._inner = inner
        self._faults = faults

    def __getattr__(self, op: str) -> Any:
        operation = getattr(self._inner, op)

        async def counted(*args: Any, **options: Any) -> Any:
            await self._faults.reach(op, OSError)
            return await operation(*args, **options)

        return counted


async def _for_ever() -> None:
    await asyncio.get_running_loop().create_future()
