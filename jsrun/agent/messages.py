"""Messages: the values a conversation is made of, and what makes a history sound.

Pure values: this module imports nothing that does IO, tells time, draws random numbers or schedules.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias

if TYPE_CHECKING:
    from ptc.wire import Json

_SURROGATES = re.compile("[\ud800-\udfff]")
_REPLACEMENT = "\ufffd"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call the model asks for. `arguments_json` is the text as the model wrote it, sound or not."""

    id: str
    name: str
    arguments_json: str


@dataclass(frozen=True, slots=True)
class UserMessage:
    """What the caller said."""

    content: str
    role: ClassVar[Literal["user"]] = "user"


@dataclass(frozen=True, slots=True)
class SystemMessage:
    """Known from histories written elsewhere; removed wherever a history enters."""

    content: str
    role: ClassVar[Literal["system"]] = "system"


@dataclass(frozen=True, slots=True)
class ToolMessage:
    """The result of the call `tool_call_id`."""

    tool_call_id: str
    content: str
    is_error: bool = False
    role: ClassVar[Literal["tool"]] = "tool"


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """What the model said.

    `stop_reason`: `stop`, `length`, `tool_use`, `error` or the provider's own word. `provider_data`: JSON that one
    provider adapter writes and reads; it is stored with the message and kept out of `repr`.
    """

    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    thinking: str | None = None
    stop_reason: str | None = None
    provider_data: "Json" = field(default=None, repr=False, hash=False)
    role: ClassVar[Literal["assistant"]] = "assistant"


Message: TypeAlias = UserMessage | SystemMessage | AssistantMessage | ToolMessage


def has_surrogate(text: str) -> bool:
    """Does the text hold a lone surrogate, which no encoding can carry?"""
    return _SURROGATES.search(text) is not None


def clean_text(text: str) -> str:
    """The text with each lone surrogate replaced by U+FFFD."""
    return _SURROGATES.sub(_REPLACEMENT, text)


def clean_assistant(message: AssistantMessage) -> AssistantMessage:
    """The message with every text of the model cleaned; `provider_data` belongs to its adapter and stays."""
    texts = [message.content, message.thinking or "", message.stop_reason or ""]
    for call in message.tool_calls:
        texts += [call.id, call.name, call.arguments_json]
    if not any(map(has_surrogate, texts)):
        return message
    return replace(
        message,
        content=clean_text(message.content),
        thinking=None if message.thinking is None else clean_text(message.thinking),
        stop_reason=None if message.stop_reason is None else clean_text(message.stop_reason),
        tool_calls=tuple(
            ToolCall(clean_text(call.id), clean_text(call.name), clean_text(call.arguments_json))
            for call in message.tool_calls
        ),
    )


def assistant_problem(message: object) -> str | None:
    """Why a value is no well-typed assistant message, as the end of a sentence; None if it is one.

    Dataclasses do not check their fields, and a provider may be anyone's.
    """
    if not isinstance(message, AssistantMessage):
        return f"the message is a {type(message).__name__}, not an AssistantMessage"
    if not isinstance(message.content, str):
        return "the message's content is not text"
    for name in ("thinking", "stop_reason"):
        if not isinstance(getattr(message, name), str | None):
            return f"the message's {name} is neither text nor None"
    if not isinstance(message.tool_calls, tuple):
        return "the message's tool_calls are not a tuple"
    for index, call in enumerate(message.tool_calls):
        fields = (call.id, call.name, call.arguments_json) if isinstance(call, ToolCall) else (None,)
        if not all(isinstance(value, str) for value in fields):
            return f"tool call {index} of the message is not a ToolCall of three texts"
    return None


def open_calls(history: Sequence[Message]) -> tuple[ToolCall, ...]:
    """The calls of the last assistant message that wait for an answer, in order.

    There are none unless only tool messages follow that message.
    """
    answered: set[str] = set()
    for message in reversed(history):
        if isinstance(message, ToolMessage):
            answered.add(message.tool_call_id)
        elif isinstance(message, AssistantMessage):
            return tuple(call for call in message.tool_calls if call.id not in answered)
        else:
            break
    return ()


def without_system(history: Iterable[Message]) -> tuple[Message, ...]:
    """The history without its system messages."""
    return tuple(message for message in history if not isinstance(message, SystemMessage))


def pairing_problem(history: Sequence[Message]) -> tuple[int, str] | None:
    """The index of the first message that breaks the pairing of calls and answers, and how; None if all is sound.

    Each tool message answers a call of the nearest assistant message, once; no call stays open behind a user or
    assistant message; no id stands twice in a batch.
    """
    waiting: set[str] = set()
    for index, message in enumerate(history):
        if isinstance(message, ToolMessage):
            if message.tool_call_id not in waiting:
                return index, "a tool message that answers no open call of the assistant message before it"
            waiting.remove(message.tool_call_id)
            continue
        if isinstance(message, SystemMessage):
            continue
        if waiting:
            return index, "a message that buries a tool call without an answer"
        if isinstance(message, AssistantMessage):
            waiting = {call.id for call in message.tool_calls}
            if len(waiting) < len(message.tool_calls):
                return index, "an assistant message with the same call id twice"
    return None
