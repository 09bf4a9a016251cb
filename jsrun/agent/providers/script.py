"""ScriptProvider: answers read from a file, for trying things out without a model."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jsrun.agent.errors import InvalidConfiguration, InvalidResponse
from jsrun.agent.messages import AssistantMessage, ToolCall
from jsrun.agent.provider import InferenceRequest, InferenceResult
from jsrun.canonical import json_text, parse_json

_FORM = 'a step is a text, or {"text": "…", "calls": [{"name": "…", "arguments": {…}}]}'


@dataclass(frozen=True, slots=True)
class _Step:
    text: str
    calls: tuple[tuple[str, str], ...]
    """Name and arguments, as JSON, of each tool call."""


class ScriptProvider:
    """Answers with the steps of a script, in order. Raises InvalidResponse when the script is used up."""

    def __init__(self, steps: Sequence[_Step], name: str) -> None:
        self._steps = steps
        self._next = 0
        self._name = name

    async def __call__(self, request: InferenceRequest) -> InferenceResult:
        if self._next >= len(self._steps):
            raise InvalidResponse(f"the script {self._name} has no step after number {len(self._steps)}")
        step = self._steps[self._next]
        self._next += 1
        calls = tuple(
            ToolCall(f"call-{self._next}-{number}", name, arguments)
            for number, (name, arguments) in enumerate(step.calls, start=1)
        )
        return InferenceResult(AssistantMessage(step.text, calls, stop_reason="tool_use" if calls else "stop"))

    @classmethod
    def load(cls, path: str | Path) -> "ScriptProvider":
        """The script in a UTF-8 file: a JSON array of steps.

        A step is a text, the answer, or an object with `calls`, of `name` and `arguments` each, and perhaps a `text`.
        InvalidConfiguration, naming the step, for anything else.
        """
        try:
            data: Any = parse_json(Path(path).read_text(encoding="utf-8-sig"))
        except OSError as error:
            raise InvalidConfiguration(f"the script {path} cannot be read: {error.strerror}") from None
        except ValueError as error:
            raise InvalidConfiguration(f"the script {path} {error}") from None
        if not isinstance(data, list):
            raise InvalidConfiguration(f"the script {path} must be a JSON array; {_FORM}")
        return cls([_step(item, f"the script {path}, step {number}") for number, item in enumerate(data, 1)], str(path))


def _step(item: Any, place: str) -> _Step:
    if isinstance(item, str):
        return _Step(item, ())
    calls = item.get("calls", []) if isinstance(item, dict) else None
    if not isinstance(calls, list) or set(item) - {"text", "calls"} or not isinstance(item.get("text", ""), str):
        raise InvalidConfiguration(f"{place}: {_FORM}")
    found = []
    for call in calls:
        sound = isinstance(call, dict) and not set(call) - {"name", "arguments"}
        if not sound or not isinstance(call.get("name"), str) or not isinstance(call.get("arguments", {}), dict):
            raise InvalidConfiguration(f"{place}: {_FORM}")
        found.append((call["name"], json_text(call.get("arguments", {}))))
    return _Step(item.get("text", ""), tuple(found))
