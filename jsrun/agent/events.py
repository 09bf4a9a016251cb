"""Events: what an agent tells about itself, as frozen records that turn into JSON."""

from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from jsrun.agent.errors import AgentError
from jsrun.agent.message_json import message_to_json
from jsrun.agent.messages import AssistantMessage, Message, ToolCall
from jsrun.agent.provider import DeltaKind, InferenceMetadata
from jsrun.agent.session import ReloadReport
from jsrun.spend import Spend

HookPoint: TypeAlias = Literal[
    "on_session_start",
    "on_before_inference",
    "on_after_inference",
    "on_tool_call",
    "on_tool_result",
    "on_error",
    "on_complete",
    "on_session_shutdown",
]


def _error_json(error: AgentError) -> dict[str, str]:
    return {"kind": type(error).__name__, "message": str(error)}


def _messages_json(messages: tuple[Message, ...]) -> list[Any]:
    return [message_to_json(message) for message in messages]


def _report_json(report: ReloadReport) -> dict[str, Any]:
    return {"head": report.head, "landed": report.landed, "discarded": _messages_json(report.discarded)}


class _Ours:
    """A record of ours, which pydantic takes as it is if it is of this class, and how it becomes JSON."""

    def __init__(self, kind: type, to_json: Callable[[Any], Any]) -> None:
        self._kind = kind
        self._to_json = to_json

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        written = core_schema.plain_serializer_function_ser_schema(self._to_json)
        return core_schema.is_instance_schema(self._kind, serialization=written)


_Answer: TypeAlias = Annotated[AssistantMessage, _Ours(AssistantMessage, message_to_json)]
_Messages: TypeAlias = Annotated[tuple[Message, ...], _Ours(tuple, _messages_json)]
_Call: TypeAlias = Annotated[ToolCall, _Ours(ToolCall, asdict)]
_Metadata: TypeAlias = Annotated[InferenceMetadata, _Ours(InferenceMetadata, asdict)]
_Error: TypeAlias = Annotated[AgentError, _Ours(AgentError, _error_json)]
_Usage: TypeAlias = Annotated[Spend, _Ours(Spend, Spend.to_json)]
_Report: TypeAlias = Annotated[ReloadReport, _Ours(ReloadReport, _report_json)]
_Identity: TypeAlias = Annotated[Any, _Ours(object, asdict)]


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())


class NormalEnd(_Record):
    """The agent was stopped between runs."""

    type: Literal["normal"] = "normal"


class Interrupted(_Record):
    """The agent was stopped during a run."""

    type: Literal["interrupted"] = "interrupted"


class MaxIterationsExceeded(_Record):
    """The agent was stopped, and its last run had used up its `limit` rounds."""

    type: Literal["max_iterations_exceeded"] = "max_iterations_exceeded"
    limit: int


class ErrorEnd(_Record):
    """The actor crashed; `error` is one line."""

    type: Literal["error"] = "error"
    error: str


EndReason: TypeAlias = NormalEnd | Interrupted | MaxIterationsExceeded | ErrorEnd


class SessionStarted(_Record):
    """The agent serves, its start hooks are done."""

    type: Literal["session_started"] = "session_started"
    identity: _Identity
    model: str
    system_prompt: str | None


class SessionEnded(_Record):
    """The agent has ended, its shutdown hooks are done."""

    type: Literal["session_ended"] = "session_ended"
    reason: Annotated[EndReason, Field(discriminator="type")]


class SessionReloaded(_Record):
    """History and head are the store's again."""

    type: Literal["session_reloaded"] = "session_reloaded"
    report: _Report


class RunStarted(_Record):
    """A run was accepted."""

    type: Literal["run_started"] = "run_started"
    kind: Literal["prompt", "continue"]


class RunFinished(_Record):
    """A run is over, once for each that started. `duration` in seconds."""

    type: Literal["run_finished"] = "run_finished"
    status: Literal["completed", "failed", "cancelled"]
    error: _Error | None
    usage: _Usage
    duration: float


class Committed(_Record):
    """These messages are durable."""

    type: Literal["committed"] = "committed"
    commit_id: str
    messages: _Messages


class CommitFailed(_Record):
    """The fate of a commit is unknown or bad; the session is pending."""

    type: Literal["commit_failed"] = "commit_failed"
    commit_id: str
    error: _Error


class InferenceStarted(_Record):
    """The provider is about to be asked."""

    type: Literal["inference_started"] = "inference_started"
    model: str
    message_count: int
    tool_count: int


class InferenceDelta(_Record):
    """A piece of the answer, as it comes."""

    type: Literal["inference_delta"] = "inference_delta"
    kind: DeltaKind
    text: str
    index: int


class InferenceCompleted(_Record):
    """The provider answered; nothing is durable yet. `sent`: what it was asked, after hooks. `duration` in seconds."""

    type: Literal["inference_completed"] = "inference_completed"
    message: _Answer
    metadata: _Metadata
    duration: float
    sent: _Messages


class InferenceFailed(_Record):
    """The provider did not answer. `sent`: what it was asked, after hooks. `duration` in seconds."""

    type: Literal["inference_failed"] = "inference_failed"
    error: _Error
    duration: float
    sent: _Messages


class ToolStarted(_Record):
    """A handler is about to be called. `parent_id`: the call of the program that made this call, if one did."""

    type: Literal["tool_started"] = "tool_started"
    call: _Call
    parent_id: str | None = None


class ToolExecuted(_Record):
    """What became of a call, as model and history get it.

    `ran`: its handler was called. `timed_out`: its time was up. `abandoned`: it did not end even when it was cancelled.
    `duration` of the handler in seconds.
    """

    type: Literal["tool_executed"] = "tool_executed"
    call: _Call
    parent_id: str | None = None
    content: str
    is_error: bool
    ran: bool
    timed_out: bool
    abandoned: bool
    duration: float


class ToolBlocked(_Record):
    """A hook refused a call."""

    type: Literal["tool_blocked"] = "tool_blocked"
    call: _Call
    parent_id: str | None = None
    hook_name: str
    reason: str


class HookActed(_Record):
    """A hook changed something."""

    type: Literal["hook_acted"] = "hook_acted"
    hook_name: str
    point: HookPoint
    action: Literal["replaced_messages", "blocked_tool", "replaced_result"]


class HookFailed(_Record):
    """A hook raised, took too long, or returned what it may not; `error` is one line."""

    type: Literal["hook_failed"] = "hook_failed"
    hook_name: str
    point: HookPoint
    error: str


class EventsDropped(_Record):
    """The consumer was too slow: so many records before this one were dropped for it."""

    type: Literal["events_dropped"] = "events_dropped"
    count: int


Event: TypeAlias = (
    SessionStarted
    | SessionEnded
    | SessionReloaded
    | RunStarted
    | RunFinished
    | Committed
    | CommitFailed
    | InferenceStarted
    | InferenceDelta
    | InferenceCompleted
    | InferenceFailed
    | ToolStarted
    | ToolExecuted
    | ToolBlocked
    | HookActed
    | HookFailed
    | EventsDropped
)


class EventRecord(_Record):
    """One event of one agent. `seq` counts from 1 per start of the agent; `run_id` is None outside runs."""

    agent_id: str
    seq: int
    at: datetime
    run_id: str | None
    event: Annotated[Event, Field(discriminator="type")]
