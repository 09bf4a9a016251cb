"""Messages as JSON objects: the form stores keep, read back strictly."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from jsrun.agent.messages import AssistantMessage, Message, SystemMessage, ToolCall, ToolMessage, UserMessage

if TYPE_CHECKING:
    from ptc.wire import Json

_CALL_KEYS = ("id", "name", "arguments_json")
# Role → the keys its object must have, and those it may have.
_KEYS: Mapping[str, tuple[frozenset[str], frozenset[str]]] = {
    "user": (frozenset({"content"}), frozenset()),
    "system": (frozenset({"content"}), frozenset()),
    "tool": (frozenset({"tool_call_id", "content"}), frozenset({"is_error"})),
    "assistant": (frozenset({"content"}), frozenset({"tool_calls", "thinking", "stop_reason", "provider_data"})),
}


def message_to_json(message: Message) -> "dict[str, Json]":
    """The object of a message: `role`, its fields, and nothing for a field at its default."""
    found: dict[str, Json] = {"role": message.role}
    if isinstance(message, ToolMessage):
        found["tool_call_id"] = message.tool_call_id
    found["content"] = message.content
    if isinstance(message, ToolMessage) and message.is_error:
        found["is_error"] = True
    if isinstance(message, AssistantMessage):
        if message.tool_calls:
            found["tool_calls"] = [{key: getattr(call, key) for key in _CALL_KEYS} for call in message.tool_calls]
        for name in ("thinking", "stop_reason", "provider_data"):
            if getattr(message, name) is not None:
                found[name] = getattr(message, name)
    return found


def message_from_json(data: object) -> Message:
    """The message of such an object. ValueError, completing "the message …", for anything else."""
    if not isinstance(data, dict):
        raise ValueError("is not a JSON object")
    role = data.get("role")
    if not isinstance(role, str) or role not in _KEYS:
        raise ValueError(f"has the role {role!r}, which is none of {', '.join(_KEYS)}")
    needed, possible = _KEYS[role]
    keys = set(data) - {"role"}
    if missing := sorted(needed - keys):
        raise ValueError(f"has no {missing[0]}")
    if unknown := sorted(keys - needed - possible):
        raise ValueError(f"has an unknown key {unknown[0]!r}")
    content = _text(data, "content")
    if role == "user":
        return UserMessage(content)
    if role == "system":
        return SystemMessage(content)
    if role == "tool":
        is_error = data.get("is_error", False)
        if not isinstance(is_error, bool):
            raise ValueError("has an is_error that is neither true nor false")
        return ToolMessage(_text(data, "tool_call_id"), content, is_error)
    return AssistantMessage(
        content=content,
        tool_calls=_calls(data.get("tool_calls", [])),
        thinking=_text(data, "thinking") if "thinking" in data else None,
        stop_reason=_text(data, "stop_reason") if "stop_reason" in data else None,
        provider_data=cast("Json", data.get("provider_data")),
    )


def _calls(data: object) -> tuple[ToolCall, ...]:
    if not isinstance(data, list):
        raise ValueError("has tool_calls that are not a list")
    for call in data:
        if not isinstance(call, dict) or set(call) != set(_CALL_KEYS):
            raise ValueError(f"has a tool call that is not an object of {', '.join(_CALL_KEYS)}")
    return tuple(ToolCall(*(_text(call, key) for key in _CALL_KEYS)) for call in data)


def _text(data: Mapping[str, object], key: str) -> str:
    value = data[key]
    if not isinstance(value, str):
        raise ValueError(f"has a {key} that is not text")
    return value
