"""The effects of the runtime but tools: one inference, one commit, one load.

Each runs in a worker task of the actor, treats provider and store as foreign code, and returns its outcome as a value.
"""

import asyncio
import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from jsrun.agent.config import RuntimeConfig
from jsrun.agent.errors import (
    AiError,
    ApiError,
    Corrupt,
    InferenceTimeout,
    InvalidResponse,
    ParentConflict,
    SessionError,
    Unavailable,
)
from jsrun.agent.events import Event, InferenceCompleted, InferenceDelta, InferenceFailed, InferenceStarted
from jsrun.agent.guarded import Raised, TimeUp, guarded, name_of, stripped
from jsrun.agent.keeper import Keeper
from jsrun.agent.messages import AssistantMessage, Message, assistant_problem, clean_assistant, clean_text
from jsrun.agent.provider import Delta, InferenceMetadata, InferenceRequest, InferenceResult
from jsrun.agent.session import CommitAck, Session, SessionCommit, SessionStore, entering
from jsrun.canonical import json_text, parse_json
from jsrun.spend import Spend

if TYPE_CHECKING:
    from ptc.wire import Json


async def infer(
    keeper: Keeper, messages: tuple[Message, ...], add_usage: Callable[[Spend], None]
) -> AssistantMessage | AiError:
    """One inference with its hooks and events. Raises HookFailure; cancelled, it ends within `cancel_grace`."""
    config, hooks, emit = keeper.config, keeper.hooks, keeper.emit
    tools = config.tools.definitions
    messages = await hooks.before_inference(config.model, config.system_prompt, tools, messages)
    request = InferenceRequest(messages, tools, config.settings, config.system_prompt)
    emit(InferenceStarted(model=config.model, message_count=len(messages), tool_count=len(tools)))
    clock = asyncio.get_running_loop().time
    started = clock()
    with keeper.instrumentation.inference(config, request) as span:
        answer = await _ask(config, request, emit)
        span.answered(answer)
    duration = clock() - started
    if isinstance(answer, AiError):
        emit(InferenceFailed(error=answer, duration=duration, sent=messages))
        await hooks.error(config.model, answer)
        return answer
    add_usage(spend_of(answer.metadata, config.model))
    emit(InferenceCompleted(message=answer.message, metadata=answer.metadata, duration=duration, sent=messages))
    await hooks.after_inference(config.model, answer.message, answer.metadata, duration)
    return answer.message


async def send_commit(store: SessionStore, commit: SessionCommit, timeout: float) -> SessionError | None:
    """Send a commit; None if it landed. It is never cancelled: past `timeout` it is abandoned and counts as failed."""

    async def call() -> CommitAck:
        return await store.commit(commit)

    try:
        # Only the id proves the landing, whatever else a foreign store may answer.
        actual = (await guarded(call, timeout, None)).head
    except TimeUp:
        return Unavailable(f"the store did not answer a commit within {timeout:g} s")
    except Raised as raised:
        return _session_error(raised.error)
    except AttributeError as error:
        return _session_error(error)
    if actual != commit.id:
        return ParentConflict(commit.id, actual)
    return None


async def load(store: SessionStore, timeout: float, grace: float) -> Session | SessionError:
    """Load a session and check its history, which is returned without system messages."""

    async def call() -> Session:
        return await store.load()

    try:
        session: object = await guarded(call, timeout, grace)
    except TimeUp:
        return Unavailable(f"the store did not load the session within {timeout:g} s")
    except Raised as raised:
        return _session_error(raised.error)
    if not isinstance(session, Session) or not isinstance(session.head, str | None):
        return Corrupt(f"the store loaded a {type(session).__name__} that is no sound Session")
    try:
        return Session(session.head, entering(tuple(session.messages)))
    except Corrupt as error:
        return error.bare()


def spend_of(metadata: InferenceMetadata, model: str) -> Spend:
    """What one inference cost; a missing figure is 0. ValueError for a figure that is none."""
    return Spend(
        model=metadata.response_model or model,
        calls=1,
        input=metadata.input_tokens or 0,
        output=metadata.output_tokens or 0,
        cache_read=metadata.cache_read_tokens or 0,
        cache_write=metadata.cache_write_tokens or 0,
        cost_usd=metadata.cost_usd or 0.0,
    )


async def _ask(
    config: RuntimeConfig, request: InferenceRequest, emit: Callable[[Event], None]
) -> InferenceResult | AiError:
    """What the provider answers, checked and cleaned, or the error it comes down to."""
    listening = True

    def on_delta(delta: Delta) -> None:
        if listening:
            emit(InferenceDelta(kind=delta.kind, text=clean_text(delta.text), index=delta.index))

    def stop_listening() -> None:
        nonlocal listening
        listening = False

    async def call() -> object:
        stream = getattr(config.provider, "stream", None) if config.stream else None
        answer: object = config.provider(request) if stream is None else stream(request, on_delta)
        return await answer if inspect.isawaitable(answer) else answer

    limits = config.limits
    try:
        answer = await guarded(call, limits.inference_timeout, limits.cancel_grace, stop_listening)
    except TimeUp:
        return InferenceTimeout(limits.inference_timeout)
    except Raised as raised:
        if isinstance(raised.error, AiError):
            stripped(raised.error)
            return raised.error
        return ApiError(f"the provider raised {name_of(raised.error)}")
    finally:
        stop_listening()
    try:
        return _sound(answer, config.model)
    except ValueError as error:
        return InvalidResponse(str(error))


def _sound(answer: object, model: str) -> InferenceResult:
    """A provider's return value, checked and cleaned. ValueError, in words for people, for what is no sound result."""
    if not isinstance(answer, InferenceResult):
        raise ValueError(f"the provider returned a {type(answer).__name__}, not an InferenceResult")
    problem = assistant_problem(answer.message)
    if problem is not None:
        raise ValueError(problem)
    if not isinstance(answer.metadata, InferenceMetadata):
        raise ValueError(f"the metadata is a {type(answer.metadata).__name__}, not InferenceMetadata")
    spend_of(answer.metadata, model)
    message = clean_assistant(answer.message)
    if message.provider_data is not None:
        try:
            # A copy of its own, in the one form it has after it was stored.
            data = parse_json(json_text(message.provider_data))
        except ValueError as error:
            raise ValueError(f"the message's provider_data cannot be stored: {error}") from None
        message = replace(message, provider_data=cast("Json", data))
    return InferenceResult(message, answer.metadata)


def _session_error(error: BaseException) -> SessionError:
    if isinstance(error, SessionError):
        stripped(error)
        return error
    return Unavailable(f"the store raised {name_of(error)}")
