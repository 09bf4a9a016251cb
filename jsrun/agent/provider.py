"""Providers: what talks to a model, what it is asked, and what it answers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, runtime_checkable

from jsrun.agent.messages import AssistantMessage, Message

if TYPE_CHECKING:
    from jsrun.agent.tools import ToolDefinition
    from ptc.wire import Json

Thinking: TypeAlias = Literal["off", "minimal", "low", "medium", "high", "xhigh", "max"]
DeltaKind: TypeAlias = Literal["text", "thinking", "tool_call"]


@dataclass(frozen=True, slots=True)
class InferenceSettings:
    """What the model is asked for, each optional; None leaves it to the provider.

    `max_tokens` of the answer, `stop_sequences` none if empty, `extra`: a JSON object for the adapter, merged last.
    """

    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    stop_sequences: tuple[str, ...] = ()
    thinking: Thinking | None = None
    extra: "Mapping[str, Json]" = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class InferenceRequest:
    """One request: the conversation, the tools on offer, the settings and the system prompt."""

    messages: tuple[Message, ...]
    tools: "tuple[ToolDefinition, ...]" = ()
    settings: InferenceSettings = InferenceSettings()
    system_prompt: str | None = None


@dataclass(frozen=True, slots=True)
class InferenceMetadata:
    """What the provider tells about one inference; None where it does not tell. `cost_usd` in US dollars."""

    response_id: str | None = None
    response_model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class InferenceResult:
    """The answer to a request."""

    message: AssistantMessage
    metadata: InferenceMetadata = InferenceMetadata()


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of an answer as it comes: a view of it, never part of the history. `index` counts the parts from 0."""

    kind: DeltaKind
    text: str
    index: int = 0


class Provider(Protocol):
    """Answers requests; a plain async function is one."""

    async def __call__(self, request: InferenceRequest, /) -> InferenceResult:
        """The answer. Raises AiError."""
        ...


@runtime_checkable
class StreamingProvider(Protocol):
    """A provider that can show its answer while it comes."""

    async def __call__(self, request: InferenceRequest, /) -> InferenceResult:
        """The answer. Raises AiError."""
        ...

    async def stream(self, request: InferenceRequest, emit: Callable[[Delta], None], /) -> InferenceResult:
        """The same answer, with a call of `emit`, which never blocks, for each piece. Raises AiError.

        The joined text deltas equal the content of the result.
        """
        ...
