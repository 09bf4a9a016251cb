"""One plug, attached for real in a world in memory: scripted hosts and agent, time that jumps, planted faults."""

import asyncio
import json
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Any

from jsrun.plugs._level import PlugEntry
from jsrun.plugs._side import Side
from jsrun.plugs.agentproc import AgentPart
from jsrun.plugs.api import AgentSpawnSpec, EndReason, Host, NextSession, NextTeardown, Plug, RunKind
from jsrun.plugs.clock import LoopClock
from jsrun.plugs.host_api import Env
from jsrun.plugs.hosts import BoundHost, MemoryHost, UnavailableHost
from jsrun.plugs.hosts.memory import Call
from jsrun.plugs.infos import RunInfo, SessionInfo, TeardownInfo
from jsrun.plugs.persist import MemoryStore
from jsrun.plugs.runner import AgentBase, MemoryRecorder, Run, RunEnd, RunPlan
from jsrun.plugs.testing.agent import ScriptedAgent
from jsrun.plugs.testing.clock import VirtualTime
from jsrun.plugs.testing.faults import NEXT, Crashed, Fault, Faults, FaultyHost, FaultyStore, Planted
from jsrun.plugs.testing.peer import Peer, Reply, refuse

SESSION = "harness"
AGENT_COMMAND = "agent"
# The id of a plug under test for which none is given; without one it can publish and keep nothing.
PLUG_ID = "plug"
# A handler that ignores its cancellation more often than this is left to the end of the event loop.
BURY_TRIES = 20


class PlugHarness:
    """A session with the plug under test, its client, and its agent.

    `inputs` is the value of `with:`; `kind` that of the first run; `persisted` a stored value from an earlier run.
    `host` is what `ctx.host` of the plug is bound to and `runner` the runner's own machine, by default one and the
    same. `agent` is the agent and `client` answers what the agent asks. `outer` and `inner` are plugs around the one
    under test, and `env` is the runner's environment. Use it with `async with`: at the end nothing is left running.
    Without, the world begins with the first run and ends with the session.
    """

    def __init__(
        self,
        plug: type[Plug],
        *,
        inputs: Any = None,
        id: str | None = PLUG_ID,
        kind: RunKind = "start",
        persisted: Any = None,
        host: MemoryHost | None = None,
        runner: MemoryHost | None = None,
        agent: ScriptedAgent | None = None,
        client: Reply = refuse,
        outer: Sequence[type[Plug]] = (),
        inner: Sequence[type[Plug]] = (),
        env: Mapping[str, str] | None = None,
        faults: Sequence[Fault] = (),
    ) -> None:
        self.plug = plug
        self.agent = agent if agent is not None else ScriptedAgent()
        self.runner = runner if runner is not None else MemoryHost()
        self.host = host if host is not None else self.runner
        self.store = MemoryStore()
        if persisted is not None and id is not None:
            self.store.values[SESSION, id] = json.dumps(persisted).encode()
        self.recorder = MemoryRecorder()
        self.end: RunEnd | None = None
        self.draft: AgentSpawnSpec | None = None
        self.wire: list[tuple[str, str, Any, Any]] = []
        self.logs: list[str] = []
        self.client = Peer("client", client)
        self.client.log = self.agent.log = self.wire
        self.faults: tuple[Fault, ...] = tuple(faults)
        self.planted = Faults()
        self.instance: Plug | None = None
        self._id = id
        self._kind: RunKind = kind
        self._entries = self._setup(plug, inputs, outer, inner)
        self._index = next(at for at, entry in enumerate(self._entries) if entry.plug is plug)
        self._env = dict(env or {})
        self._number = 0 if kind == "start" else 1
        self._time: VirtualTime | None = None
        self._ends_itself = False
        self._logging = _Lines(self.logs)
        self._run: Run | None = None
        self._performing: asyncio.Task[RunEnd] | None = None
        self._before: set[asyncio.Task[Any]] = set()
        self._acp_session: str | None = None

    # The world

    async def __aenter__(self) -> "PlugHarness":
        self._time = await VirtualTime().__aenter__()
        logger = logging.getLogger("jsrun.plugs")
        logger.addHandler(self._logging)
        self._level = logger.level
        logger.setLevel(logging.DEBUG)
        self._before = asyncio.all_tasks()
        self._client_side = Side("client", self.client.accept)
        self.client.feed = self._client_side.receive
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.client.close()
        self._client_side.close()
        await self._bury()
        logger = logging.getLogger("jsrun.plugs")
        logger.removeHandler(self._logging)
        logger.setLevel(self._level)
        await self.time.__aexit__(kind, error, traceback)
        self._time = None

    @property
    def time(self) -> VirtualTime:
        """The time of this world."""
        assert self._time is not None, "begin with `attach`, or use the harness with `async with`"
        return self._time

    @property
    def calls(self) -> list[Call]:
        """What was done on the hosts of the harness, in order."""
        return self.host.calls if self.host is self.runner else [*self.runner.calls, *self.host.calls]

    @property
    def persisted(self) -> Any:
        """The stored value of the plug; None if nothing is stored."""
        stored = self.store.values.get((SESSION, self._id)) if self._id is not None else None
        return json.loads(stored) if stored is not None else None

    @property
    def crashed(self) -> bool:
        """Whether a planted crash has ended the last run."""
        return self.planted.crashed.is_set()

    @property
    def running(self) -> bool:
        """Whether a run is under way."""
        return self._performing is not None and not self._performing.done() and not self.crashed

    # Runs

    async def attach(self) -> None:
        """Begin the first run; returns when the agent runs, or at a planted crash. Raises what the run failed with."""
        await self._begin(self._kind)

    async def resume(self) -> None:
        """Begin a resume run, as `attach` does."""
        await self._begin("resume")

    async def pause(self, reason: EndReason = "idle") -> RunEnd | None:
        """Stop the run; how it ended. For another reason than "idle" it tears down. None after a planted crash."""
        assert self._run is not None, "there is no run to pause"
        self._run.stop(reason)
        return await self._ended()

    async def teardown(self, reason: EndReason = "closed") -> RunEnd | None:
        """End the session, with the run under way or with one that only tears down; how. None after a planted crash."""
        if self.running:
            return await self.pause(reason)
        await self._start("teardown", TeardownInfo(reason))
        return await self._ended()

    # Messages

    async def prompt(self, text: str) -> Any:
        """A turn; its result. The first one opens an ACP session."""
        if self._acp_session is None:
            self._acp_session = (await self.request("session/new", {"cwd": "/work", "mcpServers": []}))["sessionId"]
        params = {"sessionId": self._acp_session, "prompt": [{"type": "text", "text": text}]}
        return await self.request("session/prompt", params)

    async def request(self, method: str, params: Any = None) -> Any:
        """A request of the client; its result. RequestError is the error answer, Crashed a planted crash meanwhile."""
        return await self._unless_crashed(self.client.request(method, params))

    async def notify(self, method: str, params: Any = None) -> None:
        """A notification of the client; returns when all that follows from it at once has happened."""
        await self.time.run(self.client.notify(method, params))
        await self.time.settle()

    async def agent_request(self, method: str, params: Any = None) -> Any:
        """A request of the agent, as `request`."""
        assert self.agent.peer is not None, "no agent runs"
        return await self._unless_crashed(self.agent.peer.request(method, params))

    async def agent_notify(self, method: str, params: Any = None) -> None:
        """A notification of the agent, as `notify`."""
        assert self.agent.peer is not None, "no agent runs"
        await self.time.run(self.agent.peer.notify(method, params))
        await self.time.settle()

    # Inside

    def _setup(
        self, plug: type[Plug], inputs: Any, outer: Sequence[type[Plug]], inner: Sequence[type[Plug]]
    ) -> list[PlugEntry]:
        harness = self

        class Place(Plug, name="harness/place"):
            """Hands in the host that the plug is to have, and looks at what the runner's process was told."""

            async def session(self, next: NextSession) -> None:
                await next(None if harness.host is harness.runner else harness.host.reopen())

            async def teardown(self, next: NextTeardown) -> None:
                await next(None if harness.host is harness.runner else harness.host.reopen())

        class Inside(Plug, name="harness/inside"):
            """Where `next` of the plug under test leads: faults planted there happen here."""

            async def session(self, next: NextSession) -> None:
                await harness.planted.reach(NEXT, Planted)
                await next()

            async def teardown(self, next: NextTeardown) -> None:
                await harness.planted.reach(NEXT, Planted)
                await next()

        return [
            PlugEntry(Place),
            *[PlugEntry(each, f"outer-{index}") for index, each in enumerate(outer)],
            PlugEntry(plug, self._id, lambda names: inputs),
            PlugEntry(Inside),
            *[PlugEntry(each, f"inner-{index}") for index, each in enumerate(inner)],
        ]

    def _bind(self, host: Host, cwd: Callable[[], str], env: Callable[[], Env]) -> Host:
        return BoundHost(FaultyHost(host, self.planted), cwd, env)

    async def _start(self, kind: RunKind, end: TeardownInfo | None = None) -> None:
        if self._time is None:
            await self.__aenter__()
            self._ends_itself = True
        await self._bury()
        self._number += 1
        self.planted = Faults(self.faults)
        self.end = None
        machine = self.runner.reopen()
        plan = RunPlan(
            entries=self._entries,
            session=SessionInfo(SESSION),
            run=RunInfo(kind, self._number),
            agent=AgentBase(AGENT_COMMAND),
            env=self._env,
            history=self.recorder.history(),
            end=end,
        )
        self._part = AgentPart(self._client_side, self.recorder, clock=LoopClock(), open=self._opened)
        self._running = asyncio.Event()
        self._run = Run(
            plan,
            agent=self._spawned,
            host=machine,
            store=FaultyStore(self.store, self.planted),
            recorder=self.recorder,
            bind=self._bind,
            unavailable=UnavailableHost,
        )
        self._performing = asyncio.create_task(self._run.perform())

    async def _spawned(self, spec: AgentSpawnSpec, host: Host, lifecycle: Any) -> Any:
        self.draft = spec
        if isinstance(host, MemoryHost):
            # Whatever the plug made of the command, and wherever it is to run: it is this agent.
            host.program(spec.command, self.agent.program)
        self.instance = lifecycle.levels[self._index].instance
        return await self._part(spec, host, lifecycle)

    async def _opened(self, chain: Any) -> None:
        self._running.set()

    async def _begin(self, kind: RunKind) -> None:
        await self._start(kind)
        await self._wait(self._running)
        if self._performing is not None and self._performing.done():
            self.end = await self._over(self._performing)
            if self.end.error is not None:
                raise self.end.error

    async def _ended(self) -> RunEnd | None:
        assert self._performing is not None
        await self._wait()
        if not self._performing.done():
            return None
        self.end = await self._over(self._performing)
        return self.end

    async def _over(self, performing: "asyncio.Task[RunEnd]") -> RunEnd:
        """How a run ended; where the session did too, so does a world that began with it."""
        end = performing.result()
        if self._ends_itself and end.state != "paused":
            self._ends_itself = False
            await self.__aexit__(None, None, None)
        return end

    async def _wait(self, event: asyncio.Event | None = None) -> None:
        """Wait for the end of the run, the planted crash, or an event."""
        assert self._performing is not None
        waits = [asyncio.create_task(each.wait()) for each in (self.planted.crashed, event) if each is not None]
        try:
            await self.time.run(_first({self._performing, *waits}))
        finally:
            for wait in waits:
                wait.cancel()

    async def _unless_crashed(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        asking = asyncio.create_task(coroutine)
        crashed = asyncio.create_task(self.planted.crashed.wait())
        try:
            await self.time.run(_first({asking, crashed}))
            if not asking.done():
                raise Crashed("The runner's process died meanwhile.")
            return asking.result()
        finally:
            crashed.cancel()
            asking.cancel()

    async def _bury(self) -> None:
        """End what is left of the run before, as the death of its process would."""
        self.planted.bury()
        left = {task for task in asyncio.all_tasks() - self._before if task is not asyncio.current_task()}
        for _ in range(BURY_TRIES):
            for task in left:
                task.cancel()
            await self.time.settle()
            left = {task for task in left if not task.done()}
        self._performing = None


async def _first(futures: set["asyncio.Future[Any]"]) -> None:
    await asyncio.wait(futures, return_when=asyncio.FIRST_COMPLETED)


class _Lines(logging.Handler):
    """Keeps log lines, level first."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        """See logging.Handler."""
        self._lines.append(f"{record.levelname} {record.getMessage()}")
