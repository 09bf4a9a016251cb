"""Doubles and suites for the tests of those who use the agent: scripted models, and what a session store must pass."""

import asyncio
import inspect
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Final, TypeAlias

from jsrun.agent.errors import AiError, InvalidResponse
from jsrun.agent.messages import AssistantMessage
from jsrun.agent.provider import Delta, InferenceRequest, InferenceResult
from jsrun.agent.testing_stores import SessionStoreContract

__all__ = ["ScriptedProvider", "SessionStoreContract", "Step", "StreamingScriptedProvider", "hang"]


class _Hang(Enum):
    HANG = "hang"


hang: Final = _Hang.HANG
"""A step that never answers; it ends when it is cancelled."""

Step: TypeAlias = AssistantMessage | InferenceResult | AiError | _Hang | Callable[[InferenceRequest], object]
"""One answer of a script. A callable, plain or async, gets the request and returns or raises the answer."""


class ScriptedProvider:
    """A provider that plays `steps`, one for each request; a request past the end raises InvalidResponse.

    `requests` holds every request it got, those past the end included.
    """

    def __init__(self, steps: Iterable[Step]) -> None:
        self._steps = tuple(steps)
        self.requests: list[InferenceRequest] = []

    async def __call__(self, request: InferenceRequest) -> InferenceResult:
        """The answer of the next step. Raises its AiError."""
        number = len(self.requests)
        self.requests.append(request)
        if number >= len(self._steps):
            raise InvalidResponse(f"the script has {len(self._steps)} steps, this is request {number + 1}")
        step: object = self._steps[number]
        if step is hang:
            await asyncio.get_running_loop().create_future()
        if callable(step):
            step = step(request)
            if inspect.isawaitable(step):
                step = await step
        if isinstance(step, AiError):
            raise step.bare()
        if isinstance(step, AssistantMessage):
            return InferenceResult(step)
        # A callable may return anything at all, so that a test can see what becomes of it.
        return step  # type: ignore[return-value]


class StreamingScriptedProvider(ScriptedProvider):
    """The same, shown while it comes: the thinking, then the text, in pieces of `piece` characters, then the calls."""

    def __init__(self, steps: Iterable[Step], piece: int = 4) -> None:
        super().__init__(steps)
        self._piece = piece

    async def stream(self, request: InferenceRequest, emit: Callable[[Delta], None]) -> InferenceResult:
        """The answer of the next step, its deltas before it."""
        result = await self(request)
        message = result.message
        thinking = message.thinking or ""
        for piece in _pieces(thinking, self._piece):
            emit(Delta("thinking", piece, 0))
        first = 1 if thinking else 0
        for piece in _pieces(message.content, self._piece):
            emit(Delta("text", piece, first))
        first += 1 if message.content else 0
        for index, call in enumerate(message.tool_calls, first):
            emit(Delta("tool_call", call.arguments_json, index))
        return result


def _pieces(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]
