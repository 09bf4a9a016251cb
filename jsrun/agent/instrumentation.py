"""What an agent's work can be measured through. `otel` has the implementation for OpenTelemetry."""

import contextlib
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from jsrun.agent.config import RuntimeConfig
    from jsrun.agent.errors import AiError
    from jsrun.agent.mailbox import RunOutcome
    from jsrun.agent.messages import ToolCall
    from jsrun.agent.provider import InferenceRequest, InferenceResult


class RunSpan(Protocol):
    """The measurement of one run."""

    def ended(self, outcome: "RunOutcome") -> None:
        """The run is over."""
        ...


class InferenceSpan(Protocol):
    """The measurement of one inference."""

    def answered(self, answer: "InferenceResult | AiError") -> None:
        """The provider has answered, or failed."""
        ...


class ToolSpan(Protocol):
    """The measurement of one tool call."""

    def answered(self, content: str, is_error: bool, error_type: str | None) -> None:
        """The handler has ended; `error_type` is the class of what it failed with."""
        ...


class Instrumentation(Protocol):
    """Measures runs, inferences and tool calls; each is current while its work runs. Nothing here may raise."""

    def run(self, config: "RuntimeConfig", run_id: str, session_id: str | None) -> RunSpan:
        """A run begins. Called in the context of the run, in which it makes itself current."""
        ...

    def inference(self, config: "RuntimeConfig", request: "InferenceRequest") -> AbstractContextManager[InferenceSpan]:
        """An inference, as long as the block lasts."""
        ...

    def tool(self, call: "ToolCall", description: str) -> AbstractContextManager[ToolSpan]:
        """A handler at work, as long as the block lasts."""
        ...


class _Nothing:
    """Measures nothing."""

    def ended(self, outcome: "RunOutcome") -> None:
        return

    def answered(self, *_answer: object) -> None:
        return

    def run(self, config: "RuntimeConfig", run_id: str, session_id: str | None) -> "_Nothing":
        return self

    def inference(self, config: "RuntimeConfig", request: "InferenceRequest") -> "AbstractContextManager[_Nothing]":
        return contextlib.nullcontext(self)

    def tool(self, call: "ToolCall", description: str) -> "AbstractContextManager[_Nothing]":
        return contextlib.nullcontext(self)


NO_INSTRUMENTATION: Instrumentation = _Nothing()
"""Measures nothing."""
