"""OtelInstrumentation: spans and metrics of OpenTelemetry. The library is imported when one is made."""

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from jsrun.agent.errors import InvalidConfiguration
from jsrun.agent.instrumentation import InferenceSpan, RunSpan, ToolSpan

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from jsrun.agent.config import RuntimeConfig
    from jsrun.agent.messages import ToolCall
    from jsrun.agent.provider import InferenceRequest


class OtelInstrumentation:
    """One span for a run, and in it one for each inference and each tool call; metrics of inferences.

    Without providers the global ones are used. `capture_content` adds texts: messages, arguments, results (as handlers
    gave them, before hooks) and errors; without it none of them leaves the process. Raises InvalidConfiguration if
    OpenTelemetry is not installed.
    """

    def __init__(
        self,
        tracer_provider: "TracerProvider | None" = None,
        meter_provider: "MeterProvider | None" = None,
        capture_content: bool = False,
    ) -> None:
        try:
            from jsrun.agent.otel_spans import Spans
        except ModuleNotFoundError as error:
            if (error.name or "").split(".")[0] != "opentelemetry":
                raise
            raise InvalidConfiguration('spans need the "otel" extra; run: pip install "subharness[otel]"') from None
        self._spans = Spans(tracer_provider, meter_provider, capture_content)

    def run(self, config: "RuntimeConfig", run_id: str, session_id: str | None) -> RunSpan:
        """A run begins; it becomes the current span of the context this is called in."""
        return self._spans.run(config, run_id, session_id)

    def inference(self, config: "RuntimeConfig", request: "InferenceRequest") -> AbstractContextManager[InferenceSpan]:
        """An inference, as long as the block lasts."""
        return self._spans.inference(config, request)

    def tool(self, call: "ToolCall", description: str) -> AbstractContextManager[ToolSpan]:
        """A handler at work, as long as the block lasts."""
        return self._spans.tool(call)
