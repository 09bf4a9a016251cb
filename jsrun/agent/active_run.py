"""One run from acceptance to reply: transitions of the core, their commits, their effects, and cancellation.

A run is a sequence of stages, each a worker task: commits, inferences, tool batches, and at last the completion hooks.
The actor hands every report of a worker to the run, which then takes the next step; nothing here waits.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from typing import Literal

from jsrun.agent.core import (
    IDLE,
    TOOLS,
    CallProvider,
    Done,
    Effect,
    Failed,
    Halted,
    Interrupted,
    Msg,
    Next,
    ProviderFailed,
    ProviderResponded,
    Resume,
    StepResult,
    ToolResults,
    UserPrompt,
    update,
)
from jsrun.agent.effects import infer, send_commit
from jsrun.agent.errors import (
    AiError,
    CancelReason,
    InferenceError,
    RunCancelled,
    RunError,
    RuntimeFault,
    SessionError,
    SessionFailure,
)
from jsrun.agent.events import CommitFailed, Committed, RunFinished, RunStarted
from jsrun.agent.execute import CANCELLED, execute_batch
from jsrun.agent.hooks import HookFailure
from jsrun.agent.instrumentation import RunSpan
from jsrun.agent.keeper import Keeper
from jsrun.agent.mailbox import Cancel, Continue, Report, Run, RunOutcome, RuntimeMsg, reply
from jsrun.agent.messages import AssistantMessage, Message, ToolCall, ToolMessage, open_calls
from jsrun.agent.session import (
    ReturnAiError,
    ReturnMessage,
    SessionCommit,
    SessionPending,
    SessionReady,
    disposition_of,
)


class Stage(Enum):
    """What a run waits for."""

    COMMIT = "commit"
    INFERENCE = "inference"
    TOOLS = "tools"
    COMPLETE = "complete"


@dataclass(frozen=True, slots=True)
class Cut:
    """A worker ended because it was cancelled."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A worker raised what it never should: a fault of the runtime, which ends the actor."""

    error: BaseException


class ActiveRun:
    """The run in progress. `post` reaches the actor's mailbox; `finished` is called when the run has been answered."""

    def __init__(
        self,
        keeper: Keeper,
        request: Run | Continue,
        post: Callable[[RuntimeMsg | Report], None],
        finished: Callable[[RunOutcome], None],
    ) -> None:
        self.id = request.ticket.run_id
        self._keeper = keeper
        self._request = request
        self._ticket = request.ticket
        self._post = post
        self._finished = finished
        self._loop = asyncio.get_running_loop()
        self._started = self._loop.time()
        self._deadline: asyncio.TimerHandle | None = None
        self._span: RunSpan | None = None
        self._step = 0
        self._stage: Stage | None = None
        self._then: Callable[[object], None] = lambda payload: None
        self._worker: asyncio.Task[object] | None = None
        self._cancel: CancelReason | None = None
        self._fault: RuntimeFault | None = None
        # The ceiling is looked at after an inference, not after what only tools have spent.
        self._inferred_since_check = False

    def begin(self) -> None:
        """Accept the request and take the first step."""
        timeout = self._ticket.timeout
        if timeout is not None:
            self._deadline = self._loop.call_later(timeout, self._post, Cancel(self.id, "deadline"))
        keeper = self._keeper
        # In the context of the run, which is where its workers find it.
        self._span = self._ticket.context.run(keeper.instrumentation.run, keeper.config, self.id, keeper.session_id)
        keeper.ticket = self._ticket
        keeper.emit(RunStarted(kind="prompt" if isinstance(self._request, Run) else "continue"))
        session = keeper.session
        if isinstance(session, SessionPending):
            self._send(session, partial(self._landed, session))
        elif isinstance(self._request, Run):
            self._step_core(UserPrompt(self._request.prompt))
        else:
            self._step_core(Resume())

    def cancel(self, reason: CancelReason) -> None:
        """Cut the run short; the first reason counts. A commit in flight and the completion hooks come to their end."""
        if self._cancel is not None or self._stage is Stage.COMPLETE:
            return
        self._cancel = reason
        if self._stage in (Stage.INFERENCE, Stage.TOOLS) and self._worker is not None:
            self._worker.cancel()

    def handle(self, report: Report) -> None:
        """Take the next step, if this is the report that is waited for; a late one of another step is ignored."""
        if report.run_id != self.id or report.step != self._step or self._worker is None:
            return
        self._worker = None
        self._then(report.payload)

    def abort(self, error: RunError) -> None:
        """The actor is dying: answer at once. A commit in flight is left to end by itself."""
        if self._worker is not None and self._stage is not Stage.COMMIT:
            self._worker.cancel()
        self._worker = None
        try:
            self._finish(None, error)
        except Exception:  # what broke the actor may break the telling too; the caller is answered all the same
            reply(self._request.reply_to, RunOutcome(None, error, self._ticket.close()))

    def _step_core(self, msg: Msg) -> None:
        self._advance(update(self._keeper.agent_state, msg))

    def _advance(self, result: StepResult) -> None:
        """Make a transition durable, then adopt it. Nothing it asks for happens before."""
        session = self._keeper.session
        delta = result.state.history[len(self._keeper.agent_state.history) :]
        if delta and isinstance(session, SessionReady):
            commit = SessionCommit(f"commit-{self._keeper.config.new_id()}", session.head, delta)
            pending = SessionPending(session.store, commit, result.state, disposition_of(result))
            self._send(pending, partial(self._adopt, result))
        else:
            self._adopt(result)

    def _send(self, pending: SessionPending, landed: Callable[[], None]) -> None:
        work = send_commit(pending.store, pending.commit, self._keeper.config.limits.commit_timeout)
        self._spawn(Stage.COMMIT, work, partial(self._sent, pending, landed))

    def _sent(self, pending: SessionPending, landed: Callable[[], None], error: object) -> None:
        commit = pending.commit
        if isinstance(error, SessionError):
            self._keeper.session = pending
            self._keeper.emit(CommitFailed(commit_id=commit.id, error=error))
            self._finish(None, SessionFailure(error))
            return
        self._keeper.session = SessionReady(pending.store, commit.id)
        self._keeper.emit(Committed(commit_id=commit.id, messages=commit.messages))
        landed()

    def _landed(self, pending: SessionPending) -> None:
        """A commit of an earlier run has landed: do what was to follow it."""
        state = replace(pending.candidate, phase=IDLE)
        if isinstance(pending.disposition, ReturnMessage):
            self._adopt(Done(state, pending.disposition.message))
        elif isinstance(pending.disposition, ReturnAiError):
            self._adopt(Failed(state, pending.disposition.error))
        else:
            self._keeper.agent_state = state
            self._step_core(Resume(withheld=True))

    def _adopt(self, result: StepResult) -> None:
        """A durable transition becomes the state; go on with what it asks for."""
        self._keeper.agent_state = result.state
        if isinstance(result, Next):
            self._check_tokens()
            if self._cancel is None:
                self._start(result.effect)
            else:
                self._halt()
        elif isinstance(result, Done):
            self._complete(result.message)
        elif isinstance(result, Halted):
            self._finish(None, self._fault or RunCancelled(self._cancel or "caller"))
        elif isinstance(result.error, RuntimeFault):
            self._finish(None, result.error)
        else:
            self._finish(None, InferenceError(result.error))

    def _check_tokens(self) -> None:
        ceiling = self._ticket.max_tokens
        if self._inferred_since_check and ceiling is not None and self._ticket.meter.spend.tokens >= ceiling:
            self._cancel = self._cancel or "tokens"
        self._inferred_since_check = False

    def _halt(self) -> None:
        """Cut the run short before its next effect has begun."""
        state = self._keeper.agent_state
        self._step_core(Interrupted(_cancelled(state.history) if state.phase is TOOLS else ()))

    def _start(self, effect: Effect) -> None:
        if isinstance(effect, CallProvider):
            self._spawn(Stage.INFERENCE, self._infer(effect.messages), self._inferred)
        else:
            self._spawn(Stage.TOOLS, self._execute(effect.calls, effect.recovered), self._executed)

    async def _infer(self, messages: tuple[Message, ...]) -> AssistantMessage | AiError | HookFailure:
        try:
            return await infer(self._keeper, messages, self._ticket.meter.add)
        except HookFailure as failure:
            return failure

    def _inferred(self, answer: object) -> None:
        if isinstance(answer, HookFailure) and self._cancel is None:
            self._fault = RuntimeFault("hook_failed", str(answer))
        if self._cancel is None and isinstance(answer, AssistantMessage):
            self._inferred_since_check = True
            self._step_core(ProviderResponded(answer))
        elif self._cancel is None and isinstance(answer, AiError):
            self._step_core(ProviderFailed(answer))
        else:
            self._step_core(Interrupted())

    async def _execute(self, calls: tuple[ToolCall, ...], recovered: bool) -> tuple[ToolMessage, ...]:
        keeper = self._keeper
        return await execute_batch(
            calls,
            recovered=recovered,
            registry=keeper.config.tools,
            hooks=keeper.hooks,
            emit=keeper.emit,
            limits=keeper.config.limits,
            add_usage=self._ticket.meter.add,
            instrumentation=keeper.instrumentation,
            run_id=self.id,
        )

    def _executed(self, results: object) -> None:
        if not isinstance(results, tuple):  # cut before it began
            results = _cancelled(self._keeper.agent_state.history)
            self._cancel = self._cancel or "caller"
        self._step_core(ToolResults(results) if self._cancel is None else Interrupted(results))

    def _complete(self, message: AssistantMessage) -> None:
        keeper = self._keeper
        work = keeper.hooks.complete(
            keeper.config.model, message, keeper.agent_state.iterations, self._ticket.meter.spend
        )
        self._spawn(Stage.COMPLETE, work, lambda payload: self._finish(message, None))

    def _spawn(self, stage: Stage, work: Coroutine[object, object, object], then: Callable[[object], None]) -> None:
        """Start a worker; `then` gets what it returns, or Cut."""
        self._step += 1
        self._stage = stage
        self._then = then
        self._worker = self._loop.create_task(work, context=self._ticket.context.copy())
        self._worker.add_done_callback(partial(self._report, self._step))

    def _report(self, step: int, task: "asyncio.Task[object]") -> None:
        self._post(Report(self.id, step, payload_of(task)))

    def _finish(self, message: AssistantMessage | None, error: RunError | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        keeper = self._keeper
        keeper.agent_state = replace(keeper.agent_state, phase=IDLE)
        usage = self._ticket.meter.close()
        duration = self._loop.time() - self._started
        keeper.emit(RunFinished(status=_status(error), error=error, usage=usage, duration=duration))
        keeper.ticket = None
        self._ticket.close()
        outcome = RunOutcome(message, error, usage)
        if self._span is not None:
            self._ticket.context.run(self._span.ended, outcome)
        reply(self._request.reply_to, outcome)
        self._finished(outcome)


def _status(error: RunError | None) -> Literal["completed", "failed", "cancelled"]:
    if error is None:
        return "completed"
    return "cancelled" if isinstance(error, RunCancelled) else "failed"


def payload_of(task: "asyncio.Task[object]") -> object:
    """What a worker that has ended reports: what it returned, Cut or Broken."""
    if task.cancelled():
        return Cut()
    error = task.exception()
    return task.result() if error is None else Broken(error)


def _cancelled(history: tuple[Message, ...]) -> tuple[ToolMessage, ...]:
    return tuple(ToolMessage(call.id, CANCELLED, is_error=True) for call in open_calls(history))
