"""The adapter over pydantic-ai, against a real server that speaks the chat-completions protocol."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ThinkingPart
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.providers.openai import OpenAIProvider

from jsrun.agent.errors import (
    AiError,
    ApiError,
    AuthFailed,
    ContextTooLong,
    InferenceTimeout,
    InvalidConfiguration,
    InvalidResponse,
    RateLimited,
)
from jsrun.agent.messages import AssistantMessage, Message, SystemMessage, ToolCall, ToolMessage, UserMessage
from jsrun.agent.provider import Delta, InferenceMetadata, InferenceRequest, InferenceSettings
from jsrun.agent.providers.pydantic_ai import PydanticAIProvider
from jsrun.agent.runtime import start_with_session_store
from jsrun.agent.stores.memory import MemorySessions
from jsrun.agent.tools import ToolDefinition
from tests.agent.chat_server import MODEL, ChatServer, Reply, chat_server, fails, says, streams, tool_call
from tests.agent.helpers import HI, PATIENCE_S, config, seen, tool

LOOK = ToolDefinition("look", "Look at it.", {"type": "object", "properties": {"at": {"type": "string"}}})


@asynccontextmanager
async def provider(*replies: Reply) -> AsyncIterator[tuple[PydanticAIProvider, ChatServer]]:
    """The adapter, and the server it talks to."""
    async with chat_server(*replies) as server:
        library = OpenAIProvider(base_url=server.url, api_key="none")
        yield PydanticAIProvider(f"openai-chat:{MODEL}", provider=library), server
        await library.client.close()


def request(*messages: Message, **options: Any) -> InferenceRequest:
    """A request with the tool `look`."""
    return InferenceRequest(messages, (LOOK,), **options)


async def test_a_request_is_mapped() -> None:
    """AGT-077 Messages, tools, settings and system prompt arrive; `extra` comes last."""
    history = (
        HI,
        AssistantMessage(
            "let me see", (ToolCall("a", "look", '{"at":"x"}'), ToolCall("b", "look", "{}")), thinking="unsigned"
        ),
        ToolMessage("a", "seen x"),
        ToolMessage("b", "Tool error: gone", is_error=True),
        UserMessage("and now?"),
    )
    settings = InferenceSettings(
        max_tokens=100,
        temperature=0.5,
        top_p=0.9,
        seed=7,
        stop_sequences=("END",),
        extra={"temperature": 0.25, "presence_penalty": 0.5},
    )
    async with provider(says("fine")) as (ask, server):
        result = await ask(request(*history, settings=settings, system_prompt="be brief"))
    assert result.message.content == "fine"
    (sent,) = server.requests
    assert sent["model"] == MODEL
    roles = [(message["role"], message.get("content")) for message in sent["messages"]]
    assert roles[0] == ("system", "be brief")
    assert [role for role, _ in roles] == ["system", "user", "assistant", "tool", "tool", "user"]
    assert roles[1][1] == "hi"
    assert roles[3][1] == "seen x"
    assert "Tool error: gone" in str(roles[4][1])
    assert roles[5][1] == "and now?"
    calls = sent["messages"][2]["tool_calls"]
    assert [(call["id"], call["function"]["name"]) for call in calls] == [("a", "look"), ("b", "look")]
    assert [message["tool_call_id"] for message in sent["messages"] if message["role"] == "tool"] == ["a", "b"]
    assert "unsigned" not in str(sent)
    (offered,) = sent["tools"]
    assert offered["function"]["name"] == "look"
    assert offered["function"]["description"] == "Look at it."
    assert offered["function"]["parameters"]["properties"] == {"at": {"type": "string"}}
    assert (sent.get("max_tokens") or sent.get("max_completion_tokens")) == 100
    assert (sent["temperature"], sent["presence_penalty"]) == (0.25, 0.5)
    assert (sent["top_p"], sent["seed"], sent["stop"]) == (0.9, 7, ["END"])


async def test_neighbouring_user_and_tool_messages_form_one_request() -> None:
    """AGT-077 And a tool message carries its tool's name and outcome."""
    got: list[list[ModelMessage]] = []

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        got.append(messages)
        return ModelResponse(parts=[TextPart("ok")])

    ask = PydanticAIProvider(FunctionModel(answer))
    asked = AssistantMessage("", (ToolCall("a", "look", "{}"), ToolCall("b", "look", "{}")))
    await ask(request(HI, asked, ToolMessage("a", "x"), ToolMessage("b", "y", is_error=True), UserMessage("go")))
    first, second, third = got[0]
    assert isinstance(first, ModelRequest)
    assert isinstance(second, ModelResponse)
    assert isinstance(third, ModelRequest)
    kinds = [(part.part_kind, getattr(part, "tool_name", None), getattr(part, "outcome", None)) for part in third.parts]
    assert kinds == [
        ("tool-return", "look", "success"),
        ("tool-return", "look", "failed"),
        ("user-prompt", None, None),
    ]


@pytest.mark.parametrize(("thinking", "sent"), [("off", False), ("minimal", "minimal"), ("max", "max"), (None, None)])
async def test_settings_go_by_their_names(thinking: Any, sent: object) -> None:
    """AGT-077 What is not set is not sent."""
    got: list[AgentInfo] = []

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        got.append(info)
        return ModelResponse(parts=[TextPart("ok")])

    bare = InferenceRequest(
        (SystemMessage("left out"), HI), (ToolDefinition("bare", "", {}),), InferenceSettings(thinking=thinking, seed=0)
    )
    await PydanticAIProvider(FunctionModel(answer, profile=ModelProfile(supports_thinking=True)))(bare)
    values = {name: value for name, value in (got[0].model_settings or {}).items() if name != "max_retries"}
    assert got[0].model_request_parameters.thinking == sent
    assert values == {"seed": 0}
    assert got[0].function_tools[0].parameters_json_schema == {"type": "object"}


@pytest.mark.parametrize("last", [AssistantMessage("cut", stop_reason="length"), AssistantMessage("")])
async def test_a_history_that_ends_in_the_assistant_is_told_to_go_on(last: AssistantMessage) -> None:
    """AGT-077 The added text is of this request only."""
    asked = request(HI, last)
    async with provider(says("more")) as (ask, server):
        await ask(asked)
    assert server.requests[0]["messages"][-1] == {"role": "user", "content": "Continue."} or server.requests[0][
        "messages"
    ][-1]["content"] == [{"type": "text", "text": "hi"}, {"type": "text", "text": "Continue."}]
    assert asked == request(HI, last)


async def test_a_response_is_mapped() -> None:
    """AGT-077 Text, calls with their text as written, finish reason, figures; what has no field is in the data only."""
    reply = says("see", tool_call("a", "look", '{ "at": "x" }'), finish="tool_calls")
    async with provider(reply) as (ask, _server):
        result = await ask(request(HI))
    message = result.message
    assert (message.content, message.thinking, message.stop_reason) == ("see", None, "tool_use")
    assert message.tool_calls == (ToolCall("a", "look", '{ "at": "x" }'),)
    # Input is told without what the cache gave, as in a Spend.
    assert result.metadata == InferenceMetadata("resp-1", MODEL, 20, 7, 10, 0, result.metadata.cost_usd)
    assert isinstance(message.provider_data, dict)
    assert message.provider_data["adapter"] == "pydantic-ai/1"


@pytest.mark.parametrize(
    ("finish", "reason"),
    [("stop", "stop"), ("length", "length"), ("content_filter", "error"), ("tool_calls", "tool_use")],
)
async def test_finish_reasons_have_our_words(finish: str, reason: str) -> None:
    """AGT-077 `content_filter` is `error`, a tool call is `tool_use`."""
    async with provider(says("x", finish=finish)) as (ask, _server):
        assert (await ask(request(HI))).message.stop_reason == reason


async def test_what_the_adapter_kept_is_sent_back_with_signatures() -> None:
    """AGT-077 Thinking that was signed survives; a message a hook has changed, or another wrote, does not use it."""
    got: list[list[ModelMessage]] = []

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        got.append(messages)
        signed = ThinkingPart("deep", signature="sig", provider_name="function")
        return ModelResponse(parts=[signed, ThinkingPart("loose"), TextPart("a"), TextPart("b")])

    ask = PydanticAIProvider(FunctionModel(answer))
    said = (await ask(request(HI))).message
    assert (said.content, said.thinking) == ("ab", "deeploose")
    for message in (said, replace(said, content="redacted"), replace(said, provider_data={"other": 1})):
        await ask(request(HI, message, UserMessage("go")))
    kept, changed, foreign = (messages[1] for messages in got[1:])
    assert [type(part) for part in kept.parts] == [ThinkingPart, TextPart, TextPart]
    assert kept.parts[0].signature == "sig"  # type: ignore[union-attr]  # a thinking part, as just seen
    assert [part.content for part in changed.parts] == ["redacted"]  # type: ignore[union-attr]  # one text part
    assert [part.content for part in foreign.parts] == ["ab"]  # type: ignore[union-attr]  # one text part


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (fails(429, "slow down", "rate_limit_exceeded", retry_after="7"), RateLimited(7.0)),
        (fails(429, "slow down", "rate_limit_exceeded"), RateLimited()),
        (fails(401, "bad key", "invalid_api_key"), AuthFailed("bad key", 401)),
        (fails(400, "too long", "context_length_exceeded"), ContextTooLong("too long", 400)),
        (fails(400, "bad tool"), ApiError("bad tool", 400)),
        (fails(503, "busy"), ApiError("busy", 503)),
        (Reply("oops", 500), ApiError(f"the provider of {MODEL} answered with an error", 500)),
    ],
)
async def test_errors_are_mapped(reply: Reply, error: AiError) -> None:
    """AGT-077 Each kind by class and fields, and asked once: the client's own retries are off."""
    async with provider(reply) as (ask, server):
        with pytest.raises(AiError) as caught:
            await ask(request(HI))
    assert caught.value == error
    assert len(server.requests) == 1


async def test_a_response_that_is_none_is_invalid() -> None:
    """AGT-077 Unexpected behaviour of the model."""
    async with provider(Reply({"id": "x", "choices": []})) as (ask, _server):
        with pytest.raises(InvalidResponse):
            await ask(request(HI))


async def test_a_slow_provider_times_out() -> None:
    """AGT-077 The client's own time-out, set by `extra`."""
    async with provider(Reply(hang=True)) as (ask, _server):
        with pytest.raises(InferenceTimeout) as caught:
            await ask(request(HI, settings=InferenceSettings(extra={"timeout": 0.2})))
    assert 0.1 < caught.value.after < PATIENCE_S


async def test_an_inference_can_be_cancelled() -> None:
    """AGT-077 The connection is let go at once."""
    async with provider(Reply(hang=True)) as (ask, server):
        task = asyncio.create_task(ask(request(HI)))
        await asyncio.wait_for(server.arrived.wait(), PATIENCE_S)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, PATIENCE_S)


async def test_a_stream_shows_what_the_result_holds() -> None:
    """AGT-076 AGT-077 Joined deltas are the content and the arguments."""
    reply = streams(
        {"role": "assistant", "content": "he"},
        {"content": "llo"},
        {"content": " there"},
        {"tool_calls": [{"index": 0, **tool_call("a", "look", '{"at"')}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": ':"x"}'}}]},
        finish="tool_calls",
    )
    shown: list[Delta] = []
    async with provider(reply) as (ask, server):
        result = await ask.stream(request(HI), shown.append)
    assert server.requests[0]["stream"] is True
    assert result.message.content == "hello there"
    assert "".join(delta.text for delta in shown if delta.kind == "text") == "hello there"
    assert len([delta for delta in shown if delta.kind == "text"]) == 3
    assert result.message.tool_calls == (ToolCall("a", "look", '{"at":"x"}'),)
    assert "".join(delta.text for delta in shown if delta.kind == "tool_call") == '{"at":"x"}'
    assert (result.metadata.input_tokens, result.metadata.output_tokens) == (30, 7)
    assert result.message.stop_reason == "tool_use"


async def test_an_error_before_a_stream_is_mapped_too() -> None:
    """AGT-077 The same errors, streaming."""
    async with provider(fails(429, "slow", "rate_limit_exceeded", retry_after="3")) as (ask, _server):
        with pytest.raises(RateLimited) as caught:
            await ask.stream(request(HI), lambda delta: None)
    assert caught.value == RateLimited(3.0)


@pytest.mark.parametrize("stream", [True, False])
async def test_an_agent_uses_it_and_stores_what_it_keeps(stream: bool) -> None:
    """AGT-076 AGT-077 A whole run with a tool over a real connection, the same with and without streaming."""
    if stream:
        replies = [
            streams({"tool_calls": [{"index": 0, **tool_call("a", "look", "{}")}]}, finish="tool_calls"),
            streams({"content": "do"}, {"content": "ne"}),
        ]
    else:
        replies = [says(None, tool_call("a", "look", "{}"), finish="tool_calls"), says("done")]
    catalog = MemorySessions()
    async with provider(*replies) as (ask, server):
        agent = await start_with_session_store(config(ask, tool(seen), stream=stream), catalog.open("s"))
        async with agent:
            outcome = await agent.try_run("hi", PATIENCE_S)
        assert outcome is not None
        assert outcome.message is not None
        assert outcome.message.content == "done"
        assert outcome.usage.calls == 2
        assert outcome.usage.output == 14
    assert server.requests[1]["messages"][-1]["content"] == "seen a"
    stored = (await catalog.open("s").load()).messages
    assert [message.role for message in stored] == ["user", "assistant", "tool", "assistant"]


@pytest.mark.parametrize(
    ("model", "said"),
    [("nonsense", "nonsense"), ("nowhere:model", "nowhere"), ("groq:llama", "groq")],
)
def test_a_model_that_cannot_be_used_is_told_at_once(model: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """AGT-078 An unknown name, an unknown provider, a client package that is missing."""
    monkeypatch.setitem(sys.modules, "groq", None)  # as if it were not installed
    with pytest.raises(InvalidConfiguration, match=said) as caught:
        PydanticAIProvider(model)
    assert "\n" not in str(caught.value)
    if model.startswith("groq"):
        assert "pip install" in str(caught.value)


def test_a_key_that_is_missing_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """AGT-078 Not at the first request."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(InvalidConfiguration, match="OPENAI_API_KEY"):
        PydanticAIProvider("openai-chat:gpt-5")


async def test_keywords_make_the_model() -> None:
    """AGT-077 They go to its class; one it does not know is told at once."""
    library = OpenAIProvider(base_url="http://127.0.0.1:9/v1", api_key="none")
    with pytest.raises(InvalidConfiguration, match="colour"):
        PydanticAIProvider(f"openai-chat:{MODEL}", provider=library, colour="red")
    async with chat_server(says("ok")) as server:
        library = OpenAIProvider(base_url=server.url, api_key="none")
        ask = PydanticAIProvider(f"openai-chat:{MODEL}", provider=library, settings={"seed": 5})
        assert (await ask(request(HI))).message.content == "ok"
        await library.client.close()
    assert server.requests[0]["seed"] == 5


async def test_when_every_model_of_a_fallback_fails_the_last_error_counts() -> None:
    """AGT-077 The library groups them."""

    def refuses(status: int) -> FunctionModel:
        async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            raise ModelHTTPError(status, MODEL, {"message": f"status is {status}"})

        return FunctionModel(answer)

    ask = PydanticAIProvider(FallbackModel(refuses(502), refuses(503)))
    with pytest.raises(ApiError) as caught:
        await ask(request(HI))
    assert caught.value == ApiError("status is 503", 503)


def test_a_model_object_takes_no_keywords() -> None:
    """AGT-077 It has been made already."""
    with pytest.raises(InvalidConfiguration, match="keywords"):
        PydanticAIProvider(FunctionModel(lambda messages, info: ModelResponse(parts=[])), settings={})


WITHOUT_EXTRAS = """
import importlib.abc, sys

class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("pydantic_ai", "opentelemetry"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
import jsrun.agent, jsrun.agent.runtime, jsrun.agent.supervisor, jsrun.agent.testing
from jsrun.agent.errors import InvalidConfiguration
from jsrun.agent.providers.pydantic_ai import PydanticAIProvider
from jsrun.agent.otel import OtelInstrumentation
for make in (lambda: PydanticAIProvider("openai:gpt-5"), OtelInstrumentation):
    try:
        make()
    except InvalidConfiguration as error:
        print(error)
"""


def test_the_agent_works_without_extras() -> None:
    """AGT-078 Asking for a missing one names the install."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRAS], capture_output=True, text=True, timeout=60, check=True
    )
    first, second = done.stdout.splitlines()
    assert 'pip install "subharness[ai]"' in first
    assert 'pip install "subharness[otel]"' in second
