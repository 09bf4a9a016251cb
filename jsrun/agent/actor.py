"""The actor: one task that serves a mailbox and never waits for an effect."""

import asyncio
import contextlib
import logging
from collections.abc import Coroutine
from functools import partial

from jsrun.agent.active_run import ActiveRun, Broken, payload_of
from jsrun.agent.core import AgentState
from jsrun.agent.effects import load
from jsrun.agent.errors import (
    ActorStart,
    AgentUnavailable,
    InferenceError,
    IterationLimit,
    RuntimeFault,
    SessionError,
    SessionFailure,
    one_line,
)
from jsrun.agent.events import (
    EndReason,
    ErrorEnd,
    Interrupted,
    MaxIterationsExceeded,
    NormalEnd,
    SessionEnded,
    SessionReloaded,
    SessionStarted,
)
from jsrun.agent.guarded import name_of
from jsrun.agent.hooks import HookFailure
from jsrun.agent.keeper import Keeper
from jsrun.agent.mailbox import (
    Cancel,
    GetHistory,
    Reload,
    Report,
    Run,
    RunOutcome,
    RuntimeMsg,
    Stop,
    refuse,
)
from jsrun.agent.session import ReloadReport, Session, SessionDisabled, SessionPending, SessionReady

# Reports of a reload and of the shutdown hooks; runs have ids of their own.
_RELOAD = "reload"
_SHUTDOWN = "shutdown"

_log = logging.getLogger("jsrun.agent")

STOPPED = "the agent was stopped"


class Actor:
    """Serves one agent from its start hooks to its shutdown hooks.

    `crash_detail` is what waiting callers read when the actor dies; None tells them why.
    """

    def __init__(self, keeper: Keeper, crash_detail: str | None = None) -> None:
        self.keeper = keeper
        self.crash: BaseException | None = None
        self._crash_detail = crash_detail
        self._mailbox: asyncio.Queue[RuntimeMsg | Report] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        self._run: ActiveRun | None = None
        self._reload: Reload | None = None
        self._workers: set[asyncio.Task[object]] = set()
        self._stopping = False
        self._interrupted = False
        self._limit_reached = False
        self._over = False
        self._reason: EndReason = NormalEnd()
        self._unavailable = STOPPED
        self.task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Run the start hooks, then begin to serve. Raises ActorStart."""
        keeper = self.keeper
        try:
            await keeper.hooks.session_start(keeper.config.identity, keeper.config.model, keeper.agent_state.history)
        except HookFailure as failure:
            raise ActorStart(str(failure)) from None
        keeper.emit(
            SessionStarted(
                identity=keeper.config.identity,
                model=keeper.config.model,
                system_prompt=keeper.config.system_prompt,
            )
        )
        self.task = self._loop.create_task(self._live(), name=f"agent {keeper.config.agent_id}")
        try:
            # A task that is cancelled before its first step never begins, and nobody would hear of its end.
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            self.task.cancel()
            await asyncio.wait({self.task})
            raise

    @property
    def over(self) -> bool:
        """Has it ended?"""
        return self._over

    def post(self, message: RuntimeMsg | Report) -> None:
        """Put a message into the mailbox; once the actor has ended, the message is refused."""
        if self._over:
            refuse(message, AgentUnavailable(self._unavailable))
        else:
            self._mailbox.put_nowait(message)

    async def _live(self) -> None:
        try:
            while not self._over:
                self._handle(await self._mailbox.get())
            if self._workers:  # a reload that was cut short
                await asyncio.wait(self._workers)
        except BaseException as error:
            await self._die(error)
            if not isinstance(error, Exception):
                raise
        finally:
            self._drain()

    def _handle(self, message: RuntimeMsg | Report) -> None:
        if isinstance(message, Report):
            self._hear(message)
        elif isinstance(message, GetHistory):
            if not message.reply_to.done():
                message.reply_to.set_result(self.keeper.agent_state.history)
        elif isinstance(message, Cancel):
            if self._run is not None and self._run.id == message.run_id:
                self._run.cancel(message.reason)
        elif isinstance(message, Stop):
            self._stop()
        elif self._stopping:
            refuse(message, AgentUnavailable(STOPPED))
        elif self._run is not None or self._reload is not None:
            refuse(message, RuntimeFault("busy"))
        elif isinstance(message, Reload):
            self._begin_reload(message)
        elif isinstance(message, Run) and isinstance(self.keeper.session, SessionPending):
            refuse(message, RuntimeFault("pending"))
        else:
            self._run = ActiveRun(self.keeper, message, self.post, self._finished)
            self._run.begin()

    def _hear(self, report: Report) -> None:
        if isinstance(report.payload, Broken):
            raise report.payload.error
        if report.run_id == _SHUTDOWN:
            self._end(report.payload)
        elif report.run_id == _RELOAD:
            self._reloaded(report.payload)
        elif self._run is not None:
            self._run.handle(report)

    def _finished(self, outcome: RunOutcome) -> None:
        self._run = None
        error = outcome.error
        self._limit_reached = isinstance(error, InferenceError) and isinstance(error.error, IterationLimit)
        if self._stopping and not self._over:
            self._shut_down()

    def _stop(self) -> None:
        if self._stopping:
            return
        self._stopping = True
        if self._reload is not None:
            refuse(self._reload, AgentUnavailable(STOPPED))
            self._reload = None
            for worker in self._workers:
                worker.cancel()
        if self._run is not None:
            self._interrupted = True
            self._run.cancel("stopped")
        else:
            self._shut_down()

    def _begin_reload(self, message: Reload) -> None:
        session, limits = self.keeper.session, self.keeper.config.limits
        if isinstance(session, SessionDisabled):
            refuse(message, RuntimeFault("no_session"))
            return
        self._reload = message
        self._spawn(_RELOAD, load(session.store, limits.load_timeout, limits.cancel_grace))

    def _reloaded(self, loaded: object) -> None:
        message, session = self._reload, self.keeper.session
        self._reload = None
        if message is None or isinstance(session, SessionDisabled):  # stopped meanwhile
            return
        if isinstance(loaded, Session):
            report = self._take_over(session, loaded)
            self.keeper.emit(SessionReloaded(report=report))
            if not message.reply_to.done():
                message.reply_to.set_result(report)
        elif isinstance(loaded, SessionError):
            refuse(message, SessionFailure(loaded))
        else:
            refuse(message, AgentUnavailable("the reload was cancelled"))

    def _take_over(self, session: SessionReady | SessionPending, loaded: Session) -> ReloadReport:
        """Replace history and head by what was loaded, dropping a pending commit."""
        keeper = self.keeper
        waiting = session.commit.messages if isinstance(session, SessionPending) else ()
        expected = (*keeper.agent_state.history, *waiting)
        landed = bool(waiting) and loaded.messages[: len(expected)] == expected
        keeper.agent_state = AgentState(loaded.messages, max_iterations=keeper.config.max_iterations)
        keeper.session = SessionReady(session.store, loaded.head)
        return ReloadReport(loaded.head, landed, () if landed else waiting)

    def _shut_down(self) -> None:
        keeper = self.keeper
        if self._interrupted:
            self._reason = Interrupted()
        elif self._limit_reached:
            self._reason = MaxIterationsExceeded(limit=keeper.config.max_iterations)
        state = keeper.agent_state
        self._spawn(_SHUTDOWN, keeper.hooks.session_shutdown(state.history, state.iterations, self._reason))

    def _end(self, payload: object) -> None:
        self.keeper.emit(SessionEnded(reason=self._reason))
        self._over = True

    async def _die(self, error: BaseException) -> None:
        """Wake every caller at once, then run the shutdown hooks, if they have not run yet."""
        keeper = self.keeper
        shutting_down = self._stopping and self._run is None
        self._over = True
        self.crash = error
        self._unavailable = self._crash_detail or f"the agent crashed: {one_line(name_of(error))}"
        if isinstance(error, Exception):  # a fault of ours or of a clock or source of ids, not the end of the loop
            _log.error("the agent %s crashed", keeper.config.agent_id, exc_info=error)
        gone = AgentUnavailable(self._unavailable)
        if self._run is not None:
            self._run.abort(gone)
        if self._reload is not None:
            refuse(self._reload, gone)
        self._drain()
        for worker in self._workers:
            worker.cancel()
        reason = ErrorEnd(error=one_line(name_of(error)))
        try:
            if not shutting_down:
                state = keeper.agent_state
                await keeper.hooks.session_shutdown(state.history, state.iterations, reason)
        finally:
            with contextlib.suppress(Exception):  # what broke the actor may break the telling too
                keeper.emit(SessionEnded(reason=reason))

    def _drain(self) -> None:
        while not self._mailbox.empty():
            refuse(self._mailbox.get_nowait(), AgentUnavailable(self._unavailable))

    def _spawn(self, name: str, work: Coroutine[object, object, object]) -> None:
        task = self._loop.create_task(work)
        self._workers.add(task)
        task.add_done_callback(partial(self._report, name))

    def _report(self, name: str, task: "asyncio.Task[object]") -> None:
        self._workers.discard(task)
        self.post(Report(name, 0, payload_of(task)))
