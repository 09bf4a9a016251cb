"""What tests of the lifecycle share: a clock moved by hand, hosts that only keep notes, a scripted agent."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jsrun.plugs._level import PlugEntry
from jsrun.plugs._steps import PhaseLimits
from jsrun.plugs.api import AgentSpawnSpec, EndReason, ExecResult, Host, HostInfo, Plug, RunKind
from jsrun.plugs.clock import Timer
from jsrun.plugs.errors import HostClosed, HostUnavailable
from jsrun.plugs.infos import PauseInfo, RunInfo, SessionInfo, TeardownInfo
from jsrun.plugs.lifecycle import Lifecycle
from jsrun.plugs.persist import MemoryStore, StateStore
from jsrun.plugs.runner import AgentBase, MemoryRecorder, Run, RunEnd, RunPlan

# Far more than any test needs; reaching it means something hangs.
PATIENCE = 20.0


@dataclass(eq=False)
class _Call:
    at: float
    callback: Callable[[], None]
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True


class ManualClock:
    """Stands still until a test moves it."""

    def __init__(self) -> None:
        self._now = 1_000.0
        self._calls: list[_Call] = []

    def now(self) -> float:
        return self._now

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        call = _Call(self._now + seconds, callback)
        self._calls.append(call)
        return call

    async def advance(self, seconds: float) -> None:
        """Move on, making calls when their time comes; between them everything that can run runs."""
        end = self._now + seconds
        while True:
            await settle()
            due = [call for call in self._calls if not call.cancelled and call.at <= end]
            if not due:
                break
            call = min(due, key=lambda each: each.at)
            self._calls.remove(call)
            self._now = max(self._now, call.at)
            call.callback()
        self._now = end
        await settle()


async def settle() -> None:
    """Let every task run until it waits for something that only a test or the system can bring."""
    for _ in range(50):
        await asyncio.sleep(0)


class NoteHost:
    """A host that runs nothing; `uses` notes what it was asked to run."""

    def __init__(self, name: str, workspace: str = "/work", *, close_error: BaseException | None = None) -> None:
        self.info_value = HostInfo("memory", "linux", "/home/me", "/tmp", workspace, True)
        self.name = name
        self.uses: list[str] = []
        self.closes = 0
        self.bound = False
        self._close_error = close_error

    @property
    def info(self) -> HostInfo:
        return self.info_value

    @property
    def closed(self) -> bool:
        return self.closes > 0

    async def exec(self, command: Any, **options: Any) -> ExecResult:
        if self.closed:
            raise HostClosed(self.name)
        self.uses.append(command)
        return ExecResult(0, self.name, "", len(self.name), 0)

    async def aclose(self) -> None:
        self.closes += 1
        if self._close_error is not None:
            raise self._close_error


class GoneHost(NoteHost):
    """Stands for a machine that is not there."""

    def __init__(self, plug: str) -> None:
        super().__init__("unavailable")
        self.plug = plug

    @property
    def info(self) -> HostInfo:
        raise HostUnavailable(self.plug)

    async def exec(self, command: Any, **options: Any) -> ExecResult:
        raise HostUnavailable(self.plug)


class View:
    """A bound view that shows what it is bound to."""

    def __init__(self, host: Any, cwd: Callable[[], str], env: Callable[[], Mapping[str, str | None]]) -> None:
        self.host = host
        self.cwd = cwd
        self.env = env
        self.bound = True

    @property
    def closed(self) -> bool:
        return bool(self.host.closed)

    @property
    def info(self) -> HostInfo:
        info: HostInfo = self.host.info
        return info

    async def exec(self, command: Any, **options: Any) -> ExecResult:
        result: ExecResult = await self.host.exec(command, **options)
        return result


class ScriptedAgent:
    """An agent step that runs no process: it waits for the stop, or does what `script` says."""

    def __init__(self, script: Callable[[Lifecycle], Awaitable[PauseInfo]] | None = None) -> None:
        self.script = script
        self.specs: list[AgentSpawnSpec] = []
        self.hosts: list[Any] = []
        self.running = asyncio.Event()

    async def __call__(self, spec: AgentSpawnSpec, host: Host, lifecycle: Lifecycle) -> PauseInfo:
        self.specs.append(spec)
        self.hosts.append(host)
        self.running.set()
        if self.script is not None:
            return await self.script(lifecycle)
        return await lifecycle.stopped()


@dataclass
class Rig:
    """A session whose runs are performed one after the other with the same plugs."""

    entries: Sequence[PlugEntry]
    store: StateStore = field(default_factory=MemoryStore)
    agent: ScriptedAgent = field(default_factory=ScriptedAgent)
    base: AgentBase = field(default_factory=lambda: AgentBase("agent", ("--acp",)))
    env: Mapping[str, str] = field(default_factory=dict)
    limits: PhaseLimits = field(default_factory=PhaseLimits)
    may_pause: bool = False
    host: NoteHost = field(default_factory=lambda: NoteHost("runner"))
    recorder: MemoryRecorder = field(default_factory=MemoryRecorder)
    clock: ManualClock = field(default_factory=ManualClock)
    number: int = 0
    run: Run = field(init=False)

    def make(self, kind: RunKind, end: TeardownInfo | None = None) -> Run:
        """The next run, not begun."""
        self.number += 1
        self.host.closes = 0
        self.agent.running.clear()
        plan = RunPlan(
            entries=self.entries,
            session=SessionInfo("s1", "job-7"),
            run=RunInfo(kind, self.number),
            agent=self.base,
            env=self.env,
            may_pause=self.may_pause,
            history=self.recorder.history(),
            limits=self.limits,
            end=end,
        )
        self.run = Run(
            plan,
            agent=self.agent,
            host=self.host,  # type: ignore[arg-type]  # only what the lifecycle uses of a host
            store=self.store,
            recorder=self.recorder,
            bind=View,  # type: ignore[arg-type]  # likewise
            unavailable=GoneHost,  # type: ignore[arg-type]  # likewise
            clock=self.clock,
        )
        return self.run

    async def perform(self, kind: RunKind = "start", stop: EndReason = "closed") -> RunEnd:
        """A run that is stopped as soon as the agent runs, or ends by itself."""
        run = self.make(kind)
        task = asyncio.create_task(run.perform())
        running = asyncio.create_task(self.agent.running.wait())
        await asyncio.wait({task, running}, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        running.cancel()
        if not task.done():
            run.stop(stop)
        return await asyncio.wait_for(task, PATIENCE)

    async def teardown(self, reason: EndReason = "closed") -> RunEnd:
        """A run that only tears down."""
        return await asyncio.wait_for(self.make("teardown", TeardownInfo(reason)).perform(), PATIENCE)

    @contextlib.asynccontextmanager
    async def going(self, kind: RunKind = "start") -> Any:
        """A run under way; it must have ended at the end of the block."""
        task = asyncio.create_task(self.make(kind).perform())
        try:
            yield task
            await asyncio.wait_for(asyncio.shield(task), PATIENCE)
        finally:
            task.cancel()


def entries(*plugs: type[Plug]) -> list[PlugEntry]:
    """A setup of these plugs, with the ids p0, p1, …"""
    return [PlugEntry(plug, f"p{index}") for index, plug in enumerate(plugs)]


def noting(calls: list[str], name: str) -> type[Plug]:
    """A plug that notes each of its steps in `calls`."""

    class Noting(Plug, name=f"test/{name}"):
        async def load(self) -> None:
            calls.append(f"load {name}")

        async def session(self, next: Any) -> None:
            calls.append(f"attach {name}")
            info = await next()
            calls.append(f"pause {name}: {info.reason}")

        async def teardown(self, next: Any) -> None:
            calls.append(f"restore {name}")
            info = await next()
            calls.append(f"destroy {name}: {'cleanup_failed' if info.cleanup_failed else info.reason}")

    return Noting
