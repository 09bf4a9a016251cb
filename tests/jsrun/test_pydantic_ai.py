"""The adapter to pydantic-ai, against models of that library which need no network."""

import json
from collections.abc import Callable

import pytest

pytest.importorskip("pydantic_ai", reason='needs pydantic-ai: pip install "subharness[ai]"')

from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.usage import RequestUsage

from jsrun._pydantic_ai import PydanticAIModel, spend_of
from jsrun.env import AIOptions, Answer
from jsrun.errors import DoorFailure, JsrunError
from jsrun.local_env import LocalEnv
from jsrun.models import resolve_model
from jsrun.prompts import Prompt
from jsrun.spend import Spend
from ptc.outcome import UNSET
from ptc.wire import Json

SCHEMA: dict[str, Json] = {"type": "object", "properties": {"tags": {"type": "array", "items": {"type": "string"}}}}


def answering(
    function: Callable[[list[ModelMessage], AgentInfo], ModelResponse], profile: ModelProfile | None = None
) -> PydanticAIModel:
    return PydanticAIModel(FunctionModel(function, profile=profile))


def texts(messages: list[ModelMessage]) -> list[tuple[type, str]]:
    """Kind and text of everything the model was sent."""
    parts = [part for message in messages for part in message.parts]
    return [(type(part), str(part.content)) for part in parts if isinstance(part, SystemPromptPart | UserPromptPart)]


async def test_system_and_user_message_go_out_and_text_comes_back() -> None:
    """JSR-118"""
    seen: list[tuple[type, str]] = []

    def function(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.extend(texts(messages))
        return ModelResponse(parts=[ThinkingPart("hm"), TextPart("two "), TextPart("parts")])

    answer = await LocalEnv(answering(function)).ai(Prompt("tag", "Tag it."), {"a": 1}, AIOptions())
    assert seen == [(SystemPromptPart, "Tag it."), (UserPromptPart, '{"a":1}')]
    assert (answer.text, answer.json) == ("two parts", UNSET)


def test_usage_becomes_spend_with_cache_traffic_apart() -> None:
    """JSR-096"""
    usage = RequestUsage(input_tokens=100, output_tokens=20, cache_read_tokens=60, cache_write_tokens=10)
    response = ModelResponse(parts=[], usage=usage, model_name="nobody-knows-its-price")
    assert spend_of(response, "asked-for") == Spend("nobody-knows-its-price", 1, 30, 20, 60, 10, 0.0)
    assert spend_of(ModelResponse(parts=[]), "asked-for") == Spend("asked-for", 1)


def test_a_known_model_has_a_price() -> None:
    """JSR-096"""
    usage = RequestUsage(input_tokens=1_000_000, output_tokens=0)
    response = ModelResponse(parts=[], usage=usage, model_name="gpt-4o", provider_name="openai")
    assert spend_of(response, "").cost_usd > 0


async def test_a_schema_is_asked_for_as_a_tool_call_and_its_arguments_are_the_answer() -> None:
    """JSR-062"""

    def function(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        [tool] = info.output_tools
        assert tool.parameters_json_schema == SCHEMA and not info.allow_text_output
        return ModelResponse(parts=[ToolCallPart(tool.name, '{"tags": ["a"]}')])

    answer = await answering(function).answer("s", "u", AIOptions(schema=SCHEMA))
    assert answer.json == {"tags": ["a"]}


async def test_a_model_with_response_formats_is_asked_by_its_own_way() -> None:
    """JSR-062"""

    def function(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        form = info.model_request_parameters.output_object
        assert info.output_tools == [] and form is not None and form.json_schema == SCHEMA
        return ModelResponse(parts=[TextPart('{"tags": ["a"]}')])

    profile = ModelProfile(supports_json_schema_output=True, default_structured_output_mode="native")
    answer = await answering(function, profile).answer("s", "u", AIOptions(schema=SCHEMA))
    assert (answer.text, answer.json) == ('{"tags": ["a"]}', UNSET), "the runner parses and checks it"


async def test_a_schema_that_is_no_object_is_asked_for_in_words() -> None:
    """JSR-062"""
    schema: dict[str, Json] = {"type": "array", "items": {"type": "string"}}

    def function(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        assert info.output_tools == [] and json.dumps(schema) in texts(messages)[0][1]
        return ModelResponse(parts=[TextPart('["a"]')])

    assert (await answering(function).answer("s", "u", AIOptions(schema=schema))).text == '["a"]'


async def test_an_answer_that_is_no_json_fails_and_is_billed() -> None:
    """JSR-062"""

    def function(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        usage = RequestUsage(input_tokens=5, output_tokens=2)
        return ModelResponse(parts=[ToolCallPart("answer", '{"tags": [')], usage=usage)

    with pytest.raises(DoorFailure, match="not JSON") as caught:
        await answering(function).answer("s", "u", AIOptions(schema=SCHEMA))
    assert caught.value.spend.tokens == 7


@pytest.mark.parametrize(
    ("effort", "thinking"), [(None, None), ("off", False), ("low", "low"), ("medium", "medium"), ("high", "high")]
)
async def test_effort_becomes_the_thinking_setting(effort: str | None, thinking: object) -> None:
    """JSR-062"""

    def function(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        assert info.model_request_parameters.thinking == thinking
        return ModelResponse(parts=[TextPart("x")])

    profile = ModelProfile(supports_thinking=True)
    await answering(function, profile).answer("s", "u", AIOptions(effort=effort))  # type: ignore[arg-type]


async def test_a_provider_error_is_a_door_failure_in_one_line() -> None:
    """JSR-052"""

    def function(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        raise ModelHTTPError(429, "m", {"error": "slow\ndown"})

    with pytest.raises(DoorFailure, match=r"The model did not answer: .*429") as caught:
        await answering(function).answer("s", "u", AIOptions())
    assert "\n" not in str(caught.value)


async def test_the_test_model_of_the_library_works() -> None:
    """JSR-117"""
    assert await PydanticAIModel(TestModel(custom_output_text="hello")).answer("s", "u", AIOptions()) == Answer(
        "hello", spend=Spend("test", 1, 52, 1)
    )


@pytest.mark.parametrize("spec", ["nobody:gpt-5", "openai:gpt-5"])
def test_a_provider_that_is_not_there_is_an_error_in_words(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """JSR-117 unknown, or its client is not installed, or there is no key"""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(JsrunError, match=f'The model "{spec}" cannot be used: '):
        resolve_model(spec)
