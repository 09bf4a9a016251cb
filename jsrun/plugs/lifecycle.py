"""The phases of a run: how the chain is entered, what each level sees of the inside, and how all of it is removed.

A level's handler runs in a task of its own. Its `next()` starts the level inside in another task and waits for that
one whatever happens to the handler, so that a failure or a cancellation never cuts short what is further in.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from jsrun.plugs._level import Level, Phase, PlugEntry, RunFacts
from jsrun.plugs._steps import AgentStep, History, PhaseLimits, StepRecorder
from jsrun.plugs._watch import Deadline, Watch, failure_of, outlast
from jsrun.plugs.api import Gone, Host, PlugLogger
from jsrun.plugs.clock import Clock
from jsrun.plugs.draft import AgentDraft
from jsrun.plugs.errors import HostUnavailable, NextMisuse, PhaseTimeout, PlugCancelled
from jsrun.plugs.infos import EndReason, PauseInfo, TeardownInfo, cleanup_failed, pause_failed

# A host must be closed, and state be written or removed, in this time, in seconds; then it is left alone.
CLOSE_SECONDS = 30.0
# In teardown, notice is given this long before the limit, in seconds.
NOTICE_SECONDS = 10.0
# After a second signal nothing may take longer than this, in seconds.
HURRY_SECONDS = 5.0


class Lifecycle:
    """The plugs of one run, driven through its phases. `unavailable` makes the host that stands for a missing one."""

    def __init__(
        self,
        entries: Sequence[PlugEntry],
        facts: RunFacts,
        *,
        recorder: StepRecorder,
        agent: AgentStep,
        unavailable: Callable[[str], Host],
        clock: Clock,
        limits: PhaseLimits,
        history: History,
        log: PlugLogger,
    ) -> None:
        levels: list[Level] = []
        for index, entry in enumerate(entries):
            levels.append(Level(facts, entry, index, tuple(levels)))
        self.levels: tuple[Level, ...] = tuple(levels)
        self.clock = clock
        self.log = log
        self._recorder = recorder
        self._agent = agent
        self._unavailable = unavailable
        self._limits = limits
        self._loaded = set(history.loaded)
        self._handed = set(history.handed)
        self._gone: list[int] = []  # levels that said so of their machine
        self._stop: PauseInfo | None = None
        self._stop_event = asyncio.Event()
        self._stop_recording: asyncio.Task[None] | None = None
        self._late: list[BaseException] = []  # failures while the agent was being stopped for another reason
        self._watches: list[Watch | Deadline] = []
        self._left: list[asyncio.Task[None]] = []
        self._hurried = False
        self._end: TeardownInfo | None = None  # set while everything is being removed

    # Stopping

    @property
    def stop_requested(self) -> PauseInfo | None:
        """How the inside ends because of the first request to stop; None while there is none."""
        return self._stop

    def stop(self, reason: EndReason) -> None:
        """Ask for the stop of the run; the first request wins. Nothing is cancelled."""
        self._decide(PauseInfo(reason))

    def fail(self, error: BaseException) -> None:
        """Stop the run because of a failure; one that comes while the agent is being stopped counts too."""
        if self._stop is not None and self._stop.error is not error:
            self._late.append(error)
            self.log.error("the run fails while it is being stopped", error=error)
        self._decide(PauseInfo("failed", error))

    async def stopped(self) -> PauseInfo:
        """Wait until a stop is decided and recorded; how the inside ends because of it."""
        await self._stop_event.wait()
        await self._record_stop()
        assert self._stop is not None
        return self._stop

    def hurry(self) -> None:
        """Cut every limit, present and future, to 5 s, and give notice in teardown."""
        self._hurried = True
        for level in self.levels:
            if self._end is not None:
                level.stop(self._end.reason)
        for watch in self._watches:
            watch.cut(HURRY_SECONDS)

    @property
    def left_behind(self) -> bool:
        """Whether a handler that ignored its cancellation still runs: an event loop that waits for it never ends."""
        return any(not task.done() for task in self._left)

    def _decide(self, info: PauseInfo) -> None:
        if self._stop is not None:
            return
        self._stop = info
        for level in self.levels:
            level.stop(info.reason)
        self._stop_event.set()

    async def _record_stop(self) -> None:
        if self._stop_recording is None:
            assert self._stop is not None
            self._stop_recording = asyncio.create_task(self._recorder.stopping(self._stop.reason))
        await asyncio.shield(self._stop_recording)

    # Session

    async def session(self, draft: AgentDraft, host: Host) -> PauseInfo:
        """Attach all levels, run the agent, pause all levels; what is seen outside the outermost one."""
        info = await self._session(0, draft, host)
        self._decide(PauseInfo(info.reason, info.error))
        try:
            await self._record_stop()
        except Exception as error:  # told by a level already, unless there is none
            info = pause_failed(info, error)
        return info

    async def _session(self, index: int, draft: AgentDraft, host: Host) -> PauseInfo:
        """What the level outside `index` sees of it and of all that is further in."""
        if self._stop is not None:
            return self._stop
        if index == len(self.levels):
            return await self._run_agent(draft, host)
        level = self.levels[index]
        phase = self._begin(level, "session", draft, host)
        await self._handle(level, phase, self._attach_and_pause(level, phase))
        failure = phase.failure
        if failure is None and not phase.entered:
            failure = NextMisuse(f"The plug {level.label} returned from `session` without calling `next()`.")
        base = phase.paused
        if base is None and self._stop is not None and self._stop.reason == "failed":
            base = self._stop if self._stop.error is not failure else None
        if failure is None:
            assert base is not None  # `next` was called, so it returned something
            return base
        level.log.error("the plug failed", error=failure)
        self._decide(PauseInfo("failed", failure))
        if base is not None and base.error is phase.cancelled and phase.cancelled is not None:
            # The inside was stopped because of this very failure.
            return PauseInfo("failed", failure, base.also)
        return pause_failed(base, failure)

    async def _attach_and_pause(self, level: Level, phase: Phase) -> None:
        await self._prepare(level, phase)
        if phase.failure is not None:  # it took too long, and went on all the same
            return
        level.enter("session")
        await self._recorder.attached(level.key)
        phase.watch.begin("attach", self._limit(self._limits.attach))
        assert level.instance is not None

        async def next_session(host: Host | None = None) -> PauseInfo:
            if isinstance(host, Gone):
                raise NextMisuse("GONE can be said in `teardown` only.")
            inner = self._enter(level, phase, host, lambda: self._inside_session(level, phase, host))
            try:
                return await outlast(inner, lambda: self._cancelled_in_next(level, phase))
            finally:
                if not phase.concluded:
                    level.enter("pause")
                    phase.watch.begin("pause", self._limit(self._limits.pause))

        await level.instance.session(next_session)

    def _cancelled_in_next(self, level: Level, phase: Phase) -> None:
        phase.cancelled = PlugCancelled(f"The plug {level.label} was cancelled while it waited for the inside.")
        self.fail(phase.cancelled)

    async def _inside_session(self, level: Level, phase: Phase, host: Host | None) -> PauseInfo:
        """What `next` returns: everything further in, then the closed host. Never raises for any of it."""
        inner_host = host if host is not None else level.outside
        try:
            if self._stop is None:
                await self._record_handed(level, host is not None)
            draft = level.agent.inner(lambda: inner_host.info.workspace)
            info = await self._session(level.plug.index + 1, draft, inner_host)
        except Exception as error:  # the journal, say: whatever it is, the plug is to pause as usual
            self.log.error("the run cannot go on", error=error)
            self.fail(error)
            info = PauseInfo("failed", error)
        self._decide(PauseInfo(info.reason, info.error))
        await self._close(level, host)
        try:
            await self._record_stop()
            await self._recorder.paused(level.key)
        except Exception as error:  # pausing saves costs also where it cannot be recorded
            self.log.error("a step cannot be recorded", error=error)
            info = pause_failed(info, error)
        phase.paused = info
        return info

    async def _record_handed(self, level: Level, handed: bool) -> None:
        if handed or level.key in self._handed:
            await self._recorder.handed(level.key, handed)
        if handed:
            self._handed.add(level.key)
        else:
            self._handed.discard(level.key)

    async def _run_agent(self, draft: AgentDraft, host: Host) -> PauseInfo:
        try:
            info = await self._agent(draft.spec(), host, self)
        except Exception as error:
            info = PauseInfo("failed", error)
        for later in self._late:
            info = pause_failed(info, later)
        if info.error is not None:
            self.log.error("the agent's part of the run failed", error=info.error)
        return info

    # Teardown

    async def teardown(self, end: TeardownInfo, draft: AgentDraft, host: Host) -> TeardownInfo:
        """Remove everything, the innermost first. `end`: why the session ends. What is seen outside level 0."""
        self._end = end
        return await self._teardown(0, draft, host, end)

    async def _teardown(self, index: int, draft: AgentDraft, host: Host, end: TeardownInfo) -> TeardownInfo:
        if index == len(self.levels):
            return end
        level = self.levels[index]
        phase = self._begin(level, "teardown", draft, host)
        if self._hurried:
            level.stop(end.reason)
        ever_loaded = level.key in self._loaded
        await self._handle(level, phase, self._remove(level, phase, end))
        failure = phase.failure
        if failure is None and not phase.entered:
            failure = NextMisuse(f"The plug {level.label} returned from `teardown` without calling `next()`.")
        if phase.torn is None:
            # What is further in must not stay because this plug failed.
            level.agent.freeze()
            await self._inside_teardown(level, phase, None, end)
        assert phase.torn is not None
        await self._close_state(level)
        if failure is None or self._forgiven(level, failure):
            return phase.torn
        if not (level.loaded or ever_loaded or level.state_unread):
            level.log.warning("a plug that was never loaded in this session cannot be prepared", error=failure)
            return phase.torn
        level.log.error("the clean-up failed", error=failure)
        return cleanup_failed(phase.torn, failure)

    async def _remove(self, level: Level, phase: Phase, end: TeardownInfo) -> None:
        if not level.loaded:
            await self._prepare(level, phase)
            if phase.failure is not None:
                return
        level.enter("teardown")
        await self._recorder.torn(level.key)
        limit = self._limit(self._limits.teardown)
        notice = (NOTICE_SECONDS, lambda: level.stop(end.reason))
        phase.watch.begin("teardown", limit, notice)
        assert level.instance is not None

        async def next_teardown(host: Host | Gone | None = None) -> TeardownInfo:
            inner = self._enter(level, phase, host, lambda: self._inside_teardown(level, phase, host, end))
            try:
                return await outlast(inner, lambda: None)
            finally:
                if not phase.concluded:
                    phase.watch.begin("teardown", self._limit(self._limits.teardown), notice)

        await level.instance.teardown(next_teardown)

    async def _inside_teardown(
        self, level: Level, phase: Phase, host: Host | Gone | None, end: TeardownInfo
    ) -> TeardownInfo:
        missing = host is None and level.key in self._handed
        if isinstance(host, Gone):
            self._gone.append(level.plug.index)
            inner_host = self._unavailable(level.label)
        elif missing:
            inner_host = self._unavailable(level.label)
        else:
            inner_host = host if host is not None else level.outside
        try:
            draft = level.agent.inner(lambda: inner_host.info.workspace)
            info = await self._teardown(level.plug.index + 1, draft, inner_host, end)
        except Exception as error:  # the store, say: this plug must destroy its own things all the same
            self.log.error("the clean-up inside failed", error=error)
            info = cleanup_failed(end, error)
        if not isinstance(host, Gone):
            await self._close(level, host)
        phase.torn = info
        return info

    def _forgiven(self, level: Level, failure: BaseException) -> bool:
        """Whether a clean-up failed only because a machine outside of it no longer exists."""
        if isinstance(failure, BaseExceptionGroup):
            forgiven = all(self._forgiven(level, error) for error in failure.exceptions)
        else:
            forgiven = isinstance(failure, HostUnavailable) and any(index < level.plug.index for index in self._gone)
        if forgiven:
            level.log.info("there is nothing to clean up: its machine is gone", error=failure)
        return forgiven

    # Both phases

    def _begin(self, level: Level, name: str, draft: AgentDraft, host: Host) -> Phase:
        def too_long(part: str, limit: float) -> None:
            phase.failure = PhaseTimeout(f"The plug {level.label} took longer than {limit:g} s to {_DOING[part]}.")
            if self._end is None:
                self.fail(phase.failure)

        phase = Phase(Watch(self.clock, too_long))
        self._watches.append(phase.watch)
        level.begin(name, draft, host, phase)
        return phase

    async def _prepare(self, level: Level, phase: Phase) -> None:
        async def on_load() -> None:
            await self._recorder.loaded(level.key)
            self._loaded.add(level.key)

        level.enter("prepare")
        phase.watch.begin("prepare", self._limit(self._limits.prepare))
        await level.prepare(on_load)

    async def _handle(self, level: Level, phase: Phase, handler: Coroutine[Any, Any, None]) -> None:
        """Run a handler to its end, or to where it is abandoned; what it raised is the failure of the phase."""
        task = asyncio.create_task(level.guard(phase, handler), name=f"plug {level.label}")
        phase.watch.observe(task)
        if not await phase.watch.ended():
            self._left.append(task)
            level.log.error("the plug ignores its cancellation and is abandoned")
        phase.concluded = True
        if phase.inner is not None and not phase.inner.done():
            # The handler left while `next()` was pending in a task of its own.
            if phase.failure is None:
                phase.failure = NextMisuse(f"The plug {level.label} ended before its `next()` returned.")
            if self._end is None:
                self.fail(phase.failure)
            await phase.inner

    def _enter(
        self, level: Level, phase: Phase, host: Host | Gone | None, inside: Callable[[], Coroutine[Any, Any, Any]]
    ) -> "asyncio.Task[Any]":
        """Go inwards: the draft is frozen, the plug's clock stands still."""
        if phase.concluded:
            raise NextMisuse(f"The plug {level.label} called `next()` after its handler had ended.")
        if phase.entered:
            raise NextMisuse(f"The plug {level.label} called `next()` a second time.")
        if host is not None and not isinstance(host, Gone):
            level.check_handed(host)
        phase.entered = True
        phase.watch.stop()
        level.agent.freeze()
        phase.inner = asyncio.create_task(inside(), name=f"inside {level.label}")
        return phase.inner

    async def _close(self, level: Level, host: Host | None) -> None:
        """Close a handed host; nothing that goes wrong with it changes how the run ends."""
        if host is None:
            return
        if (error := await self.in_time(host.aclose())) is not None:
            level.log.error("the host handed inwards could not be closed", error=error)

    def _limit(self, seconds: float) -> float:
        return min(seconds, HURRY_SECONDS) if self._hurried else seconds

    async def in_time(self, work: Coroutine[Any, Any, object]) -> BaseException | None:
        """Do `work` in 30 s, 5 s after a second signal; what went wrong, whatever it is."""
        task = asyncio.create_task(failure_of(work))
        deadline = Deadline(self.clock, self._limit(CLOSE_SECONDS))
        self._watches.append(deadline)
        done = await deadline.ended(task)
        self._watches.remove(deadline)
        if done:
            return task.result()
        task.cancel()
        return TimeoutError("It was not done in time.")

    async def finish(self) -> None:
        """After the last handler of the run: refuse further writes of state."""
        for level in self.levels:
            await self._close_state(level)

    async def _close_state(self, level: Level) -> None:
        """Refuse further writes of a plug's state; a store that does not answer holds nothing up."""
        if level.instance is not None and (error := await self.in_time(level.persisted.close())) is not None:
            level.persisted.give_up()
            level.log.error("it is not known whether the state is stored", error=error)


_DOING = {"prepare": "be prepared", "attach": "attach", "pause": "pause", "teardown": "clean up"}
