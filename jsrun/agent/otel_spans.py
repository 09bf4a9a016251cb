"""The spans and metrics themselves. Imported only where the extra `otel` is there."""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from opentelemetry import context, metrics, trace
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, TracerProvider

from jsrun.agent import otel_names as names
from jsrun.agent.errors import AiError
from jsrun.agent.messages import AssistantMessage, Message, ToolCall, ToolMessage
from jsrun.agent.provider import InferenceRequest, InferenceResult

if TYPE_CHECKING:
    from jsrun.agent.config import RuntimeConfig
    from jsrun.agent.mailbox import RunOutcome

# What all spans of a run share. Set in the run's own context, where its workers find it.
_shared: ContextVar[Mapping[str, Any]] = ContextVar("jsrun_agent_shared", default={})  # noqa: B039  # never changed


class Spans:
    """Makes the spans of agents, and measures their inferences."""

    def __init__(
        self, tracer_provider: TracerProvider | None, meter_provider: MeterProvider | None, capture: bool
    ) -> None:
        self._tracer = trace.get_tracer(names.SCOPE, tracer_provider=tracer_provider)
        meter = metrics.get_meter(names.SCOPE, meter_provider=meter_provider)
        self._duration = meter.create_histogram(names.DURATION, unit="s", description="Duration of an inference.")
        self._tokens = meter.create_histogram(names.TOKEN_USAGE, unit="{token}", description="Tokens of an inference.")
        self._capture = capture

    def run(self, config: "RuntimeConfig", run_id: str, session_id: str | None) -> "_Run":
        """Start the span of a run, and make it current in the context this is called in."""
        identity = config.identity
        shared = {
            names.PROVIDER_NAME: identity.provider_name,
            names.AGENT_ID: identity.id,
            names.AGENT_NAME: identity.name,
            names.CONVERSATION_ID: session_id,
        }
        _shared.set(_known(shared))
        span = self._tracer.start_span(
            f"{names.INVOKE_AGENT} {identity.name}" if identity.name else names.INVOKE_AGENT,
            kind=SpanKind.INTERNAL,
            attributes=_known(
                {
                    **shared,
                    names.OPERATION_NAME: names.INVOKE_AGENT,
                    names.REQUEST_MODEL: config.model or None,
                    names.AGENT_DESCRIPTION: identity.description,
                    names.AGENT_VERSION: identity.version,
                    names.RUN_ID: run_id,
                }
            ),
        )
        context.attach(trace.set_span_in_context(span))  # never detached: the context ends with the run
        return _Run(span, self._capture)

    @contextmanager
    def inference(self, config: "RuntimeConfig", request: InferenceRequest) -> "Iterator[_Inference]":
        """The span of an inference, current in the block."""
        settings = request.settings
        attributes = _known(
            {
                **_shared.get(),
                names.OPERATION_NAME: names.CHAT,
                names.PROVIDER_NAME: config.identity.provider_name,
                names.REQUEST_MODEL: config.model or None,
                names.REQUEST_MAX_TOKENS: settings.max_tokens,
                names.REQUEST_TEMPERATURE: settings.temperature,
                names.REQUEST_TOP_P: settings.top_p,
                names.REQUEST_SEED: settings.seed,
                names.REQUEST_STOP_SEQUENCES: settings.stop_sequences or None,
                names.MESSAGES: len(request.messages),
                names.INPUT_CHARS: sum(map(_size, request.messages)),
            }
        )
        with self._span(f"{names.CHAT} {config.model}".rstrip(), SpanKind.CLIENT, attributes) as span:
            if self._capture:
                span.set_attribute(names.INPUT_MESSAGES, _json([_message(message) for message in request.messages]))
                if request.system_prompt is not None:
                    span.set_attribute(names.SYSTEM_INSTRUCTIONS, _json([_text(request.system_prompt)]))
            measured = _Inference(span, self._capture)
            started = time.perf_counter()
            try:
                yield measured
            except BaseException as error:
                measured.failed(error)
                raise
            finally:
                self._measure(time.perf_counter() - started, attributes, measured)

    @contextmanager
    def tool(self, call: ToolCall) -> "Iterator[_Tool]":
        """The span of a tool call, current in the block."""
        attributes = {
            **_shared.get(),
            names.OPERATION_NAME: names.EXECUTE_TOOL,
            names.TOOL_NAME: call.name,
            names.TOOL_CALL_ID: call.id,
            names.TOOL_TYPE: names.FUNCTION,
            names.ARGUMENT_BYTES: len(call.arguments_json.encode("utf-8", "replace")),
        }
        with self._span(f"{names.EXECUTE_TOOL} {call.name}", SpanKind.INTERNAL, attributes) as span:
            if self._capture:
                span.set_attribute(names.TOOL_ARGUMENTS, call.arguments_json)
            try:
                yield _Tool(span, self._capture)
            except BaseException as error:
                _fail(span, error, self._capture)
                raise

    @contextmanager
    def _span(self, name: str, kind: SpanKind, attributes: Mapping[str, Any]) -> Iterator[Span]:
        # The library's own way to note an exception would write down its text.
        with self._tracer.start_as_current_span(
            name, kind=kind, attributes=attributes, record_exception=False, set_status_on_exception=False
        ) as span:
            yield span

    def _measure(self, seconds: float, attributes: Mapping[str, Any], measured: "_Inference") -> None:
        told = (names.OPERATION_NAME, names.PROVIDER_NAME, names.REQUEST_MODEL)
        shared = {name: attributes[name] for name in told if name in attributes} | measured.dimensions
        self._duration.record(seconds, shared)
        for kind, tokens in measured.tokens.items():
            self._tokens.record(tokens, {**shared, names.TOKEN_TYPE: kind})


class _Run:
    def __init__(self, span: Span, capture: bool) -> None:
        self._span = span
        self._capture = capture

    def ended(self, outcome: "RunOutcome") -> None:
        """The run is over."""
        usage = outcome.usage
        _set(
            self._span,
            {
                names.INPUT_TOKENS: usage.input,
                names.OUTPUT_TOKENS: usage.output,
                names.CACHE_READ_TOKENS: usage.cache_read,
                names.CACHE_WRITE_TOKENS: usage.cache_write,
            },
        )
        if outcome.error is not None:
            _fail(self._span, outcome.error, self._capture)
        self._span.end()


class _Inference:
    """`dimensions` and `tokens` are for the metrics."""

    def __init__(self, span: Span, capture: bool) -> None:
        self._span = span
        self._capture = capture
        self.dimensions: dict[str, str] = {}
        self.tokens: dict[str, int] = {}

    def answered(self, answer: InferenceResult | AiError) -> None:
        """The provider has answered, or failed."""
        if isinstance(answer, AiError):
            self.failed(answer)
            return
        message, told = answer.message, answer.metadata
        _set(
            self._span,
            {
                names.RESPONSE_ID: told.response_id,
                names.RESPONSE_MODEL: told.response_model,
                names.RESPONSE_FINISH_REASONS: None if message.stop_reason is None else (message.stop_reason,),
                names.INPUT_TOKENS: told.input_tokens,
                names.OUTPUT_TOKENS: told.output_tokens,
                names.CACHE_READ_TOKENS: told.cache_read_tokens,
                names.CACHE_WRITE_TOKENS: told.cache_write_tokens,
                names.OUTPUT_CHARS: _size(message),
                names.OUTPUT_MESSAGES: _json([_message(message)]) if self._capture else None,
            },
        )
        if told.response_model is not None:
            self.dimensions[names.RESPONSE_MODEL] = told.response_model
        figures = {names.INPUT: told.input_tokens, names.OUTPUT: told.output_tokens}
        self.tokens = {kind: tokens for kind, tokens in figures.items() if tokens is not None}

    def failed(self, error: BaseException) -> None:
        """There is no answer."""
        self.dimensions[names.ERROR_TYPE] = type(error).__name__
        _fail(self._span, error, self._capture)


class _Tool:
    def __init__(self, span: Span, capture: bool) -> None:
        self._span = span
        self._capture = capture

    def answered(self, content: str, is_error: bool, error_type: str | None) -> None:
        """The handler has ended."""
        self._span.set_attribute(names.RESULT_BYTES, len(content.encode("utf-8", "replace")))
        if self._capture:
            self._span.set_attribute(names.TOOL_RESULT, content)
        if is_error:
            self._span.set_attribute(names.ERROR_TYPE, error_type or "_OTHER")
            self._span.set_status(Status(StatusCode.ERROR, content if self._capture else None))


def _fail(span: Span, error: BaseException, capture: bool) -> None:
    span.set_attribute(names.ERROR_TYPE, type(error).__name__)
    # The text of an error may quote what was said.
    span.set_status(Status(StatusCode.ERROR, str(error) if capture else None))


def _known(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if value is not None}


def _set(span: Span, attributes: Mapping[str, Any]) -> None:
    span.set_attributes(_known(attributes))


def _size(message: Message) -> int:
    """Characters of a message: its text, its thinking and the arguments of its calls."""
    size = len(message.content)
    if isinstance(message, AssistantMessage):
        size += len(message.thinking or "") + sum(len(call.arguments_json) for call in message.tool_calls)
    return size


def _message(message: Message) -> dict[str, Any]:
    """A message in the form of the conventions: role and parts."""
    if isinstance(message, ToolMessage):
        parts = [{"type": "tool_call_response", "id": message.tool_call_id, "response": message.content}]
        return {"role": "tool", "parts": parts}
    if not isinstance(message, AssistantMessage):
        return {"role": message.role, "parts": [_text(message.content)]}
    said: list[dict[str, Any]] = []
    if message.thinking:
        said.append({"type": "reasoning", "content": message.thinking})
    if message.content:
        said.append(_text(message.content))
    said += [
        {"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments_json}
        for call in message.tool_calls
    ]
    return {"role": "assistant", "parts": said, "finish_reason": message.stop_reason}


def _text(content: str) -> dict[str, str]:
    return {"type": "text", "content": content}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
