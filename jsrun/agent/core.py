"""The pure core: one table that says what follows from a state and a message.

`update` takes a state and a message and returns the next state with at most one effect for the runtime to carry out.
Pure: this module imports nothing that does IO, tells time, draws random numbers or schedules.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, TypeAlias

from jsrun.agent.errors import AiError, IllegalTransition, IterationLimit, RuntimeFault
from jsrun.agent.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
    open_calls,
)

# A provider that asks for more in one message is out of its mind; real batches hold a handful.
MAX_CALLS = 128
# The stop reasons of an answer that is complete; None comes from providers that give no reason.
FINISHED = ("stop", None)

NOT_EXECUTED = "Tool error: not executed"
BATCH_REJECTED = "Tool error: batch rejected: "


class Phase(Enum):
    """What the agent waits for: a caller, the model, or tools."""

    IDLE = "idle"
    MODEL = "model"
    TOOLS = "tools"


IDLE, MODEL, TOOLS = Phase.IDLE, Phase.MODEL, Phase.TOOLS


@dataclass(frozen=True, slots=True)
class AgentState:
    """The conversation and where it stands. `iterations` counts the tool rounds of this run."""

    history: tuple[Message, ...] = ()
    iterations: int = 0
    max_iterations: int = 50
    phase: Phase = IDLE


@dataclass(frozen=True, slots=True)
class UserPrompt:
    """A caller says something."""

    text: str


@dataclass(frozen=True, slots=True)
class Resume:
    """Go on from the history. `withheld`: its last effect is known not to have begun, and the run goes on."""

    withheld: bool = False


@dataclass(frozen=True, slots=True)
class ProviderResponded:
    """The model answered."""

    message: AssistantMessage


@dataclass(frozen=True, slots=True)
class ProviderFailed:
    """The model did not answer."""

    error: AiError


@dataclass(frozen=True, slots=True)
class ToolResults:
    """Every open call has its result."""

    results: tuple[ToolMessage, ...]


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The effect was cut short; with tools, `results` closes every open call."""

    results: tuple[ToolMessage, ...] = ()


Msg: TypeAlias = UserPrompt | Resume | ProviderResponded | ProviderFailed | ToolResults | Interrupted


@dataclass(frozen=True, slots=True)
class CallProvider:
    """Ask the model, with these messages."""

    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class ExecuteTools:
    """Execute these calls. `recovered`: they may have run before, in a process that is gone."""

    calls: tuple[ToolCall, ...]
    recovered: bool


Effect: TypeAlias = CallProvider | ExecuteTools


@dataclass(frozen=True, slots=True)
class Next:
    """The run goes on with one effect."""

    state: AgentState
    effect: Effect


@dataclass(frozen=True, slots=True)
class Done:
    """The run is over with an answer."""

    state: AgentState
    message: AssistantMessage


@dataclass(frozen=True, slots=True)
class Failed:
    """The run is over without an answer."""

    state: AgentState
    error: AiError | RuntimeFault


@dataclass(frozen=True, slots=True)
class Halted:
    """The run was cut short and may be continued."""

    state: AgentState


StepResult: TypeAlias = Next | Done | Failed | Halted


def update(state: AgentState, msg: Msg) -> StepResult:
    """What follows from `msg` in `state`. Raises IllegalTransition for what the table does not hold."""
    step = _TABLE.get((state.phase, type(msg)))
    if step is None:
        raise IllegalTransition(state.phase.value, f"{type(msg).__name__} is not expected")
    return step(state, msg)


def _prompt(state: AgentState, msg: UserPrompt) -> StepResult:
    closed = (ToolMessage(call.id, NOT_EXECUTED, is_error=True) for call in open_calls(state.history))
    history = (*state.history, *closed, UserMessage(msg.text))
    return _call_provider(replace(state, history=history, iterations=0))


def _resume(state: AgentState, msg: Resume) -> StepResult:
    if not msg.withheld:
        state = replace(state, iterations=0)
    if not state.history:
        return Failed(state, RuntimeFault("no_history"))
    waiting = open_calls(state.history)
    if waiting:
        return Next(replace(state, phase=TOOLS), ExecuteTools(waiting, recovered=not msg.withheld))
    last = state.history[-1]
    if isinstance(last, SystemMessage):
        return Failed(state, RuntimeFault("bad_tail"))
    if isinstance(last, AssistantMessage) and last.stop_reason in FINISHED:
        return Done(state, last)
    return _call_provider(state)


def _responded(state: AgentState, msg: ProviderResponded) -> StepResult:
    message = msg.message
    if not message.tool_calls:
        return Done(replace(state, history=(*state.history, message), phase=IDLE), message)
    reason = _unsound(message.tool_calls)
    if reason is not None:
        return _round_end(replace(state, history=(*state.history, *_rejected(message, len(state.history), reason))))
    state = replace(state, history=(*state.history, message), phase=TOOLS)
    return Next(state, ExecuteTools(message.tool_calls, recovered=False))


def _provider_failed(state: AgentState, msg: ProviderFailed) -> StepResult:
    return Failed(replace(state, phase=IDLE), msg.error)


def _interrupted_model(state: AgentState, msg: Interrupted) -> StepResult:
    if msg.results:
        raise IllegalTransition(state.phase.value, "Interrupted carries results, but no tool was asked for")
    return Halted(replace(state, phase=IDLE))


def _tool_results(state: AgentState, msg: ToolResults) -> StepResult:
    return _round_end(_answered(state, msg.results))


def _interrupted_tools(state: AgentState, msg: Interrupted) -> StepResult:
    return Halted(replace(_answered(state, msg.results), phase=IDLE))


# The one place that says what is legal: a pair that is not here raises.
_TABLE: Mapping[tuple[Phase, type], Callable[[AgentState, Any], StepResult]] = {
    (IDLE, UserPrompt): _prompt,
    (IDLE, Resume): _resume,
    (MODEL, ProviderResponded): _responded,
    (MODEL, ProviderFailed): _provider_failed,
    (MODEL, Interrupted): _interrupted_model,
    (TOOLS, ToolResults): _tool_results,
    (TOOLS, Interrupted): _interrupted_tools,
}


def _call_provider(state: AgentState) -> Next:
    return Next(replace(state, phase=MODEL), CallProvider(state.history))


def _round_end(state: AgentState) -> StepResult:
    # Never above the limit, also where a caller of the core resumes a run that had used it up.
    state = replace(state, iterations=min(state.iterations + 1, state.max_iterations))
    if state.iterations >= state.max_iterations:
        return Failed(replace(state, phase=IDLE), IterationLimit(state.max_iterations))
    return _call_provider(state)


def _answered(state: AgentState, results: Sequence[ToolMessage]) -> AgentState:
    expected = [call.id for call in open_calls(state.history)]
    if [result.tool_call_id for result in results] != expected:
        raise IllegalTransition(state.phase.value, "the results do not name the open calls in their order")
    return replace(state, history=(*state.history, *results))


def _unsound(calls: Sequence[ToolCall]) -> str | None:
    """Why a batch must not run; None if it may."""
    if len(calls) > MAX_CALLS:
        return f"it has {len(calls)} calls, at most {MAX_CALLS} are allowed"
    if any(not call.id.strip() for call in calls):
        return "a call has a blank id"
    if len({call.id for call in calls}) < len(calls):
        return "two calls have the same id"
    return None


def _rejected(message: AssistantMessage, index: int, reason: str) -> tuple[Message, ...]:
    """The message with ids that providers accept, and an error for each of its calls."""
    calls = tuple(replace(call, id=f"rejected-{index}-{at}") for at, call in enumerate(message.tool_calls))
    # What the adapter kept of the message holds the old ids.
    repaired = replace(message, tool_calls=calls, provider_data=None)
    return (repaired, *(ToolMessage(call.id, BATCH_REJECTED + reason, is_error=True) for call in calls))
