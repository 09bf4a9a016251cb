"""One run of a session: prepares the chain, drives it, runs the agent, removes everything if the session ended."""

import asyncio
import fnmatch
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias

from jsrun.plugs._level import Bind, PlugEntry, RunFacts
from jsrun.plugs._steps import AgentStep, History, PhaseLimits, StepRecorder
from jsrun.plugs._watch import outlast
from jsrun.plugs.api import Host, PlugLogger
from jsrun.plugs.clock import Clock, LoopClock
from jsrun.plugs.draft import AgentDraft
from jsrun.plugs.errors import NotResumable
from jsrun.plugs.host_api import Env
from jsrun.plugs.hosts.bound import BoundHost
from jsrun.plugs.hosts.unavailable import UnavailableHost
from jsrun.plugs.infos import EndReason, PauseInfo, RunInfo, SessionInfo, TeardownInfo, cleanup_failed
from jsrun.plugs.lifecycle import Lifecycle
from jsrun.plugs.persist import StateStore

RunState: TypeAlias = Literal["paused", "ended", "leftover"]

# Names of the program's own variables, which no plug and no agent is to see.
_OWN_PREFIX = "JSRUN_"


@dataclass(frozen=True, slots=True)
class AgentBase:
    """The agent as the caller and the setup name it. `inherit_env` are names or globs of the runner's variables."""

    command: str | None = None
    args: tuple[str, ...] = ()
    env: Env = field(default_factory=dict)
    inherit_env: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunPlan:
    """What a run is to do.

    `env` is the runner's environment. `may_pause`: whether the policy may pause the session by itself. `history`: what
    earlier runs did. `end` is why the session ends, for a run that only tears down.
    """

    entries: Sequence[PlugEntry]
    session: SessionInfo
    run: RunInfo
    agent: AgentBase = AgentBase()
    env: Mapping[str, str] = field(default_factory=dict)
    may_pause: bool = False
    history: History = field(default_factory=History)
    limits: PhaseLimits = field(default_factory=PhaseLimits)
    end: TeardownInfo | None = None


@dataclass(frozen=True, slots=True)
class RunEnd:
    """How a run ended. `pause` is what was seen outside the outermost plug, None in a run that only tears down;
    `teardown` likewise, None if nothing was torn down.
    """

    state: RunState
    reason: EndReason
    pause: PauseInfo | None
    teardown: TeardownInfo | None

    @property
    def error(self) -> BaseException | None:
        """The first failure of the session, else of the clean-up."""
        if self.pause is not None and self.pause.error is not None:
            return self.pause.error
        return self.teardown.error if self.teardown is not None else None


class RunRecorder(StepRecorder, Protocol):
    """Where the steps of a run are written down. Each is called, and must be durable, before the step is made."""

    async def run_started(self, run: RunInfo) -> None:
        """The run begins."""
        ...

    async def agent_started(self, pid: int | None, started: str | None) -> None:
        """The agent's process is there, and no message has been exchanged yet.

        `pid` is None if it does not run on the runner's machine; `started` tells two processes with one pid apart.
        """
        ...

    async def tearing(self, reason: EndReason) -> None:
        """The removal of everything begins."""
        ...

    async def ended(self, end: RunEnd) -> None:
        """The run is over; after a successful teardown the state of its plugs is gone."""
        ...


class MemoryRecorder:
    """Keeps the steps in a list, for tests and for sessions that are not to outlive the process."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, ...]] = []
        self._loaded: set[str] = set()
        self._handed: set[str] = set()

    def history(self) -> History:
        """What the runs recorded so far did."""
        return History(frozenset(self._loaded), frozenset(self._handed))

    async def run_started(self, run: RunInfo) -> None:
        """See RunRecorder."""
        self.steps.append(("run", run.kind, str(run.number)))

    async def loaded(self, plug: str) -> None:
        """See StepRecorder."""
        self.steps.append(("load", plug))
        self._loaded.add(plug)

    async def attached(self, plug: str) -> None:
        """See StepRecorder."""
        self.steps.append(("attach", plug))

    async def handed(self, plug: str, host: bool) -> None:
        """See StepRecorder."""
        self.steps.append(("handed" if host else "not handed", plug))
        (self._handed.add if host else self._handed.discard)(plug)

    async def agent_started(self, pid: int | None, started: str | None) -> None:
        """See RunRecorder."""
        self.steps.append(("agent",))

    async def stopping(self, reason: EndReason) -> None:
        """See StepRecorder."""
        self.steps.append(("stopping", reason))

    async def paused(self, plug: str) -> None:
        """See StepRecorder."""
        self.steps.append(("pause", plug))

    async def tearing(self, reason: EndReason) -> None:
        """See RunRecorder."""
        self.steps.append(("tearing", reason))

    async def torn(self, plug: str) -> None:
        """See StepRecorder."""
        self.steps.append(("teardown", plug))

    async def ended(self, end: RunEnd) -> None:
        """See RunRecorder."""
        self.steps.append(("ended", end.state, end.reason))


class Run:
    """Performs one run. `agent` runs the agent; `host` is the runner's own machine, which the run closes at its end.

    `bind` and `unavailable` make the views of hosts and the host that stands for a missing one; tests have their own.
    """

    def __init__(
        self,
        plan: RunPlan,
        *,
        agent: AgentStep,
        host: Host,
        store: StateStore,
        recorder: RunRecorder,
        bind: Bind = BoundHost,
        unavailable: Callable[[str], Host] = UnavailableHost,
        clock: Clock | None = None,
    ) -> None:
        self.plan = plan
        self._host = host
        self._store = store
        self._recorder = recorder
        self._clock = clock if clock is not None else LoopClock()
        self._end_after: EndReason | None = None
        self._log = PlugLogger({"session": plan.session.id, "run": plan.run.number})
        self._runner_env = {name: value for name, value in plan.env.items() if not name.startswith(_OWN_PREFIX)}
        facts = RunFacts(
            session=plan.session,
            run=plan.run,
            runner_env=self._runner_env,
            runner=bind(host, lambda: host.info.workspace, dict),
            store=store,
            bind=bind,
        )
        self.lifecycle = Lifecycle(
            plan.entries,
            facts,
            recorder=recorder,
            agent=agent,
            unavailable=unavailable,
            clock=self._clock,
            limits=plan.limits,
            history=plan.history,
            log=self._log,
        )

    def stop(self, reason: EndReason) -> None:
        """Ask for the stop of the run; the first request wins, and cancels nothing.

        An end asked for while the run pauses for "idle" is made after that pause, in the same run.
        """
        earlier = self.lifecycle.stop_requested
        if earlier is None:
            stiff = not_resumable(self.plan.entries)
            if reason == "idle" and stiff:
                self._log.warning("the session is paused but cannot be resumed", plugs=", ".join(stiff))
            self.lifecycle.stop(reason)
        elif earlier.reason == "idle" and reason != "idle" and self._end_after is None:
            self._end_after = reason

    def fail(self, error: BaseException) -> None:
        """Stop the run because something failed."""
        self.lifecycle.fail(error)

    def hurry(self) -> None:
        """Cut every limit that remains to 5 s."""
        self.lifecycle.hurry()

    async def perform(self) -> RunEnd:
        """Perform the run; how it ended. A cancellation asks for a stop as "cancelled" and is raised at the end.

        Before anything is done: NotResumable if plugs do not suit the policy or cannot be resumed, AgentSpecError for
        an agent that no process can be started from. What the recorder raises for the run as a whole (`run_started`,
        `tearing`, `ended`) is passed on; nothing goes on without it.
        """
        check_resumable(self.plan)
        self._draft()
        return await outlast(asyncio.create_task(self._perform()), lambda: self.stop("cancelled"))

    async def _perform(self) -> RunEnd:
        try:
            await self._recorder.run_started(self.plan.run)
            end = await self._phases()
        finally:
            await self.lifecycle.finish()
            await self._close()
        await self._recorder.ended(end)
        return end

    async def _phases(self) -> RunEnd:
        plan = self.plan
        pause: PauseInfo | None = None
        if plan.run.kind == "teardown":
            end = plan.end if plan.end is not None else TeardownInfo("closed")
        else:
            pause = await self.lifecycle.session(self._draft(), self._host)
            if pause.may_resume and self._end_after is None:
                return RunEnd("paused", pause.reason, pause, None)
            reason = pause.reason if not pause.may_resume else self._end_after
            assert reason is not None
            end = TeardownInfo(reason, pause.error, also=pause.also)
        await self._recorder.tearing(end.reason)
        torn = await self.lifecycle.teardown(end, self._draft(), self._host)
        if not torn.cleanup_failed:
            torn = await self._forget_states(torn)
        return RunEnd("leftover" if torn.cleanup_failed else "ended", end.reason, pause, torn)

    async def _forget_states(self, torn: TeardownInfo) -> TeardownInfo:
        error = await self.lifecycle.in_time(self._store.delete_session(self.plan.session.id))
        if error is None:
            return torn
        self._log.error("the state of the session could not be removed", error=error)
        return cleanup_failed(torn, error)

    def _draft(self) -> AgentDraft:
        """What each phase begins with."""
        agent = self.plan.agent
        inherited = {
            name: value
            for name, value in self._runner_env.items()
            if any(fnmatch.fnmatchcase(name, pattern) for pattern in agent.inherit_env)
        }
        return AgentDraft(
            agent.command, agent.args, {**inherited, **agent.env}, None, lambda: self._host.info.workspace
        )

    async def _close(self) -> None:
        error = await self.lifecycle.in_time(self._host.aclose())
        if error is not None:
            self._log.error("the runner's machine could not be let go", error=error)


def not_resumable(entries: Sequence[PlugEntry]) -> list[str]:
    """Names of the plugs that cannot take part in a resume."""
    return [entry.plug.name for entry in entries if not entry.plug.resumable]


def check_resumable(plan: RunPlan) -> None:
    """NotResumable if the policy may pause what cannot be resumed, or the run resumes what cannot be."""
    stiff = not_resumable(plan.entries)
    if stiff and plan.run.kind == "resume":
        raise NotResumable(stiff, "The session cannot be resumed; it can be ended")
    if stiff and plan.run.kind == "start" and plan.may_pause:
        raise NotResumable(stiff, "The policy may pause the session, which could not be resumed then")
