"""Between our requests and results and those of pydantic-ai. Imported only where the extra `ai` is there."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, cast

from pydantic import ValidationError
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.exceptions import (
    AgentRunError,
    FallbackExceptionGroup,
    ModelAPIError,
    ModelAuthenticationError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelRateLimitError,
    ModelRequestTimeout,
    ModelTimeoutError,
    UnexpectedModelBehavior,
    UserError,
)
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters, infer_model
from pydantic_ai.models.instrumented import InstrumentedModel
from pydantic_ai.providers import Provider as ModelProvider
from pydantic_ai.providers import infer_provider
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from jsrun._pydantic_ai import spend_of
from jsrun.agent.errors import (
    AiError,
    ApiError,
    AuthFailed,
    ContextTooLong,
    InferenceTimeout,
    InvalidResponse,
    RateLimited,
    one_line,
)
from jsrun.agent.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage, clean_assistant
from jsrun.agent.provider import Delta, InferenceMetadata, InferenceRequest, InferenceResult
from jsrun.canonical import json_text

CANNOT_BE_MADE: Final = (UserError, ValueError, TypeError)
"""What the library raises for a model that cannot be made."""

# Marks what this adapter wrote into `provider_data`; a later form gets another mark.
_MARK: Final = "pydantic-ai/1"
# Some providers refuse a conversation in which the assistant speaks last.
_GO_ON: Final = "Continue."
_ERROR_CHARS: Final = 500
_STOP_REASONS: Final[Mapping[str, str]] = {"tool_call": "tool_use", "content_filter": "error"}


def model_of(model: str | Model, kwargs: Mapping[str, Any]) -> Model:
    """The model of a name, made with `kwargs`, or a model object as it is, without its instrumentation.

    Raises ImportError or one of CANNOT_BE_MADE.
    """
    if not isinstance(model, str):
        if kwargs:
            raise TypeError("keywords go with the name of a model; a model object has been made already")
        while isinstance(model, InstrumentedModel):
            model = model.wrapped
        return model
    if not kwargs:
        return infer_model(model)
    used: list[ModelProvider[Any]] = []

    def provider(name: str) -> ModelProvider[Any]:
        used.append(kwargs.get("provider") or infer_provider(name))
        return used[-1]

    made = infer_model(model, provider_factory=provider)
    options = {**kwargs, "provider": used[-1]} if used else dict(kwargs)
    return cast("Callable[..., Model]", type(made))(made.model_name, **options)


async def ask(model: Model, request: InferenceRequest) -> InferenceResult:
    """One answer. Raises AiError."""
    with _errors_mapped():
        response = await model_request(
            model,
            _history(request),
            model_settings=_settings(model, request),
            model_request_parameters=_parameters(request),
            instrument=False,
        )
    return _result(model, response)


async def ask_streaming(model: Model, request: InferenceRequest, emit: Callable[[Delta], None]) -> InferenceResult:
    """One answer, shown while it comes. Raises AiError."""
    with _errors_mapped():
        async with model_request_stream(
            model,
            _history(request),
            model_settings=_settings(model, request),
            model_request_parameters=_parameters(request),
            instrument=False,
        ) as stream:
            async for event in stream:
                delta = _delta(event)
                if delta is not None:
                    emit(delta)
            response = stream.get()
    return _result(model, response)


def _history(request: InferenceRequest) -> list[ModelMessage]:
    """The conversation in the library's messages; system prompt and a last "Continue." are of this request only."""
    history: list[ModelMessage] = []
    names: dict[str, str] = {}
    for message in request.messages:
        if isinstance(message, AssistantMessage):
            names = {call.id: call.name for call in message.tool_calls}
            response = _response(message)
            if response.parts:  # providers refuse an assistant who says nothing
                history.append(response)
        elif isinstance(message, UserMessage | ToolMessage):
            _add(history, _request_part(message, names))
    if not history or isinstance(request.messages[-1], AssistantMessage):
        _add(history, UserPromptPart(_GO_ON))
    last = history[-1]
    if isinstance(last, ModelRequest) and request.system_prompt:
        last.instructions = request.system_prompt
    return history


def _add(history: list[ModelMessage], part: ModelRequestPart) -> None:
    """Neighbouring user and tool messages are one request."""
    last = history[-1] if history else None
    if isinstance(last, ModelRequest):
        last.parts = [*last.parts, part]
    else:
        history.append(ModelRequest(parts=[part]))


def _request_part(message: UserMessage | ToolMessage, names: Mapping[str, str]) -> ModelRequestPart:
    if isinstance(message, UserMessage):
        return UserPromptPart(message.content)
    return ToolReturnPart(
        # A hook may have taken the call away; then there is no name to find.
        tool_name=names.get(message.tool_call_id, "unknown"),
        content=message.content,
        tool_call_id=message.tool_call_id,
        outcome="failed" if message.is_error else "success",
    )


def _response(message: AssistantMessage) -> ModelResponse:
    """The message as the library wants it back: as it came, if it is still what came, else its text and calls."""
    kept = _kept(message.provider_data)
    if kept is not None and _said(kept) == (message.content, message.thinking, message.tool_calls):
        # Thinking that its provider did not sign is taken back by no one.
        kept.parts = [part for part in kept.parts if not isinstance(part, ThinkingPart) or part.signature]
        return kept
    parts: list[ModelResponsePart] = [TextPart(message.content)] if message.content else []
    parts += [ToolCallPart(call.name, call.arguments_json, call.id) for call in message.tool_calls]
    return ModelResponse(parts=parts)


def _kept(data: object) -> ModelResponse | None:
    """The response that this adapter put into `provider_data`; None for what others wrote."""
    if not isinstance(data, dict) or data.get("adapter") != _MARK:
        return None
    try:
        (response,) = ModelMessagesTypeAdapter.validate_python([data.get("response")])
    except (ValidationError, ValueError):  # written by another version of the library
        return None
    return response if isinstance(response, ModelResponse) else None


def _said(response: ModelResponse) -> tuple[str, str | None, tuple[ToolCall, ...]]:
    """Text, thinking and calls of a response, as our message holds them."""
    parts = response.parts
    thinking = "".join(part.content for part in parts if isinstance(part, ThinkingPart))
    message = clean_assistant(
        AssistantMessage(
            "".join(part.content for part in parts if isinstance(part, TextPart)),
            tuple(
                ToolCall(part.tool_call_id, part.tool_name, _arguments(part.args))
                for part in parts
                if isinstance(part, ToolCallPart)
            ),
            thinking or None,
        )
    )
    return message.content, message.thinking, message.tool_calls


def _arguments(args: str | Mapping[str, object] | None) -> str:
    """The arguments as the model wrote them; as JSON where the library has parsed them, or where there are none."""
    if isinstance(args, str) and args.strip():
        return args
    return "{}" if not args or isinstance(args, str) else json_text(args)


def _result(model: Model, response: ModelResponse) -> InferenceResult:
    content, thinking, calls = _said(response)
    reason = response.finish_reason
    (dumped,) = ModelMessagesTypeAdapter.dump_python([response], mode="json")
    message = AssistantMessage(
        content,
        calls,
        thinking,
        None if reason is None else _STOP_REASONS.get(reason, reason),
        {"adapter": _MARK, "response": dumped},
    )
    return InferenceResult(message, _metadata(model, response))


def _metadata(model: Model, response: ModelResponse) -> InferenceMetadata:
    spend = spend_of(response, model.model_name)
    told = spend.reported()  # a provider that tells nothing is counted as zeros by the library
    return InferenceMetadata(
        response_id=response.provider_response_id,
        response_model=response.model_name,
        input_tokens=spend.input if told else None,
        output_tokens=spend.output if told else None,
        cache_read_tokens=spend.cache_read if told else None,
        cache_write_tokens=spend.cache_write if told else None,
        cost_usd=spend.cost_usd or None,
    )


def _settings(model: Model, request: InferenceRequest) -> ModelSettings:
    ours = request.settings
    values: dict[str, Any] = {
        "max_tokens": ours.max_tokens,
        "temperature": ours.temperature,
        "top_p": ours.top_p,
        "seed": ours.seed,
        "stop_sequences": list(ours.stop_sequences) or None,
        "thinking": False if ours.thinking == "off" else ours.thinking,
        # Asking again is for RetryingProvider; a client that does it too would multiply the attempts.
        "max_retries": None if "max_retries" in model.unsupported_settings else 0,
    }
    settings = {name: value for name, value in values.items() if value is not None}
    return cast(ModelSettings, {**settings, **ours.extra})


def _parameters(request: InferenceRequest) -> ModelRequestParameters:
    return ModelRequestParameters(
        function_tools=[
            ToolDefinition(
                name=tool.name,
                description=tool.description,
                # Providers want the type said, which our schemas may leave out.
                parameters_json_schema={"type": "object", **tool.parameters},
            )
            for tool in request.tools
        ]
    )


def _delta(event: ModelResponseStreamEvent) -> Delta | None:
    """What an event shows, None for nothing."""
    if isinstance(event, PartStartEvent):
        part = event.part
        if isinstance(part, TextPart) and part.content:
            return Delta("text", part.content, event.index)
        if isinstance(part, ThinkingPart) and part.content:
            return Delta("thinking", part.content, event.index)
        if isinstance(part, ToolCallPart) and part.args:
            return Delta("tool_call", _arguments(part.args), event.index)
    elif isinstance(event, PartDeltaEvent):
        piece = event.delta
        if isinstance(piece, TextPartDelta) and piece.content_delta:
            return Delta("text", piece.content_delta, event.index)
        if isinstance(piece, ThinkingPartDelta) and piece.content_delta:
            return Delta("thinking", piece.content_delta, event.index)
        if isinstance(piece, ToolCallPartDelta) and piece.args_delta:
            text = piece.args_delta if isinstance(piece.args_delta, str) else json_text(piece.args_delta)
            return Delta("tool_call", text, event.index)
    return None


@contextmanager
def _errors_mapped() -> Iterator[None]:
    clock = asyncio.get_running_loop().time
    started = clock()
    try:
        yield
    except (AgentRunError, UserError, FallbackExceptionGroup) as error:
        raise _ai_error(error, clock() - started) from None


def _ai_error(error: BaseException, waited: float) -> AiError:
    """Our error for one of the library; `waited` seconds since the request was sent."""
    while isinstance(error, FallbackExceptionGroup):
        error = error.exceptions[-1]
    status = error.status_code if isinstance(error, ModelHTTPError) else None
    if isinstance(error, ModelRateLimitError):
        return RateLimited(error.retry_after)
    if isinstance(error, ModelRequestTimeout):
        return InferenceTimeout(error.timeout)
    if isinstance(error, ModelTimeoutError):
        return InferenceTimeout(waited)
    if isinstance(error, ModelAuthenticationError):
        return AuthFailed(_sentence(error), status)
    if isinstance(error, ModelContextWindowExceededError):
        return ContextTooLong(_sentence(error), status)
    if isinstance(error, ModelAPIError):
        return ApiError(_sentence(error), status)
    if isinstance(error, UnexpectedModelBehavior):
        return InvalidResponse(one_line(error.message)[:_ERROR_CHARS])
    return ApiError(one_line(str(error))[:_ERROR_CHARS])


def _sentence(error: ModelAPIError) -> str:
    """What the provider says is wrong. The library's own text holds the whole body, which may quote the request."""
    body = error.body
    if isinstance(body, dict) and isinstance(body.get("error"), dict):
        body = body["error"]
    said = body.get("message") if isinstance(body, dict) else None
    if isinstance(said, str) and said.strip():
        return one_line(said)[:_ERROR_CHARS]
    if isinstance(error, ModelHTTPError):
        return f"the provider of {error.model_name} answered with an error"
    return one_line(error.message)[:_ERROR_CHARS]
