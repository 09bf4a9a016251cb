"""Models of the `ai` extra: one pydantic-ai request per answer. Imported only when such a model is named."""

import json
import math
from collections.abc import Mapping
from typing import cast

from pydantic_ai.direct import model_request
from pydantic_ai.exceptions import AgentRunError, UserError
from pydantic_ai.messages import ModelRequest, ModelResponse, SystemPromptPart, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models import Model, ModelRequestParameters, infer_model
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import ModelSettings, ThinkingLevel
from pydantic_ai.tools import ToolDefinition

from jsrun._text import quoted
from jsrun.env import AIOptions, Answer, Effort
from jsrun.errors import DoorFailure, JsrunError
from jsrun.spend import Spend
from ptc.outcome import UNSET, Unset
from ptc.wire import Json

# The name of the structured answer, as a tool or as a response format.
_ANSWER = "answer"

_THINKING: Mapping[Effort, ThinkingLevel] = {"off": False, "low": "low", "medium": "medium", "high": "high"}


class PydanticAIModel:
    """One model of pydantic-ai, asked directly: a system and a user message in, text or JSON out.

    With a schema the library picks the model's own way to structured output (response format or tool call). `effort`
    becomes its `thinking` setting, which models without such a thing ignore.
    """

    def __init__(self, model: Model) -> None:
        self._model = model

    @classmethod
    def named(cls, spec: str) -> "PydanticAIModel":
        """The model `PROVIDER:NAME`; JsrunError if the library has none, its client is missing, or it has no key."""
        try:
            return cls(infer_model(spec))
        except (UserError, ImportError, ValueError) as error:
            raise JsrunError(f"The model {quoted(spec)} cannot be used: {_line(error)}") from error

    async def answer(self, system: str, user: str, options: AIOptions) -> Answer:
        settings = ModelSettings()
        if options.effort is not None:
            settings["thinking"] = _THINKING[options.effort]
        parameters, suffix = _structured(options.schema)
        request = ModelRequest(parts=[SystemPromptPart(content=system + suffix), UserPromptPart(content=user)])
        try:
            response = await model_request(
                self._model,
                [request],
                model_settings=settings,
                model_request_parameters=parameters,
            )
        except (AgentRunError, UserError) as error:
            raise DoorFailure(f"The model did not answer: {_line(error)}") from error
        text = "".join(part.content for part in response.parts if isinstance(part, TextPart))
        spend = spend_of(response, self._model.model_name)
        return Answer(text=text, json=_called(response, spend), spend=spend)


def _structured(schema: Mapping[str, Json] | None) -> tuple[ModelRequestParameters, str]:
    """How to ask for an answer of this schema: request parameters, and what to add to the system message."""
    if schema is None:
        return ModelRequestParameters(), ""
    if schema.get("type") != "object":
        # Response formats and tool arguments must be objects; the runner parses and checks the text.
        return ModelRequestParameters(), f"\n\nAnswer with JSON alone, valid for this JSON Schema: {json.dumps(schema)}"
    plain = dict(schema)
    tool = ToolDefinition(name=_ANSWER, description="Give the answer.", parameters_json_schema=plain, kind="output")
    form = OutputObjectDefinition(json_schema=plain, name=_ANSWER)
    return (
        ModelRequestParameters(output_mode="auto", output_tools=[tool], output_object=form, allow_text_output=False),
        "",
    )


def _called(response: ModelResponse, spend: Spend) -> "Json | Unset":
    """The arguments of the answer "tool", if the model answered that way; DoorFailure, billed, if they are no JSON."""
    for part in response.parts:
        if isinstance(part, ToolCallPart) and part.tool_name == _ANSWER:
            if not isinstance(part.args, str):
                return cast(Json, part.args or {})
            try:
                return cast(Json, json.loads(part.args))
            except ValueError as error:
                raise DoorFailure("The model's answer is not JSON.", spend=spend) from error
    return UNSET


def spend_of(response: ModelResponse, name: str) -> Spend:
    """What a response cost; `name` is the model that was asked, for one that does not give its own."""
    usage = response.usage
    cached = usage.cache_read_tokens + usage.cache_write_tokens
    return Spend(
        model=response.model_name or name,
        calls=1,
        input=max(usage.input_tokens - cached, 0),  # the library counts cache traffic as input, the ledger does not
        output=max(usage.output_tokens, 0),
        cache_read=max(usage.cache_read_tokens, 0),
        cache_write=max(usage.cache_write_tokens, 0),
        cost_usd=_cost(response),
    )


def _cost(response: ModelResponse) -> float:
    """US dollars by the library's price list, 0 for a model it does not know."""
    if response.usage.cost is not None:
        cost = float(response.usage.cost)
    else:
        try:
            cost = float(response.cost().total_price)
        except (AssertionError, LookupError, ValueError):
            return 0.0
    return cost if math.isfinite(cost) and cost >= 0 else 0.0


def _line(error: Exception) -> str:
    """An error of the library on one line."""
    return " ".join(str(error).split())
