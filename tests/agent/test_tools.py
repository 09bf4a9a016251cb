"""Tools: registering them, and checking the arguments of calls."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jsrun.agent.errors import InvalidConfiguration
from jsrun.agent.events import ToolExecuted, ToolStarted
from jsrun.agent.hooks import Hooks
from jsrun.agent.messages import ToolMessage
from jsrun.agent.tools import Tool, ToolContext, ToolDefinition, ToolRegistry
from tests.agent.batch import Batch
from tests.agent.helpers import call, seen, tool

POINT: dict[str, Any] = {
    "type": "object",
    "properties": {"x": {"type": "integer"}, "tags": {"type": "array", "items": {"type": "string"}}},
    "required": ["x"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("{", ["line 1, column 2"]),
        ("", ["JSON"]),
        ("{'x': 1}", ["JSON"]),
        ('{"x": 1} {}', ["JSON", "column 10"]),
        ('{"x": 1, "x": 2}', ['"x"', "column 10"]),
        ('{"x": NaN}', ["NaN"]),
        ('{"x": -Infinity}', ["Infinity"]),
        ("[]", ["object"]),
        ("null", ["object"]),
        ('"x"', ["object"]),
        ('{"x": "one"}', ["/x: must be"]),
        ("{}", ["`x`"]),
        ('{"x": 1, "tags": ["a", 2]}', ["/tags/1: must be a string, got 2"]),
        ('{"x": 1, "y": 2}', ["`y`"]),
        ("[" * 100_000, ["nested"]),
    ],
)
async def test_arguments_that_cannot_be_used_are_told_with_place_and_reason(arguments: str, told: list[str]) -> None:
    """AGT-060 The handler never runs, no hook is asked, nothing starts; the neighbour is not disturbed."""
    asked: list[str] = []
    ran: list[object] = []

    async def handler(arguments: dict[str, Any], ctx: ToolContext) -> str:
        ran.append(arguments)
        return "ran"

    point = Tool(ToolDefinition("point", "", POINT), handler)
    hooks = Hooks("h", on_tool_call=lambda name, id, arguments: asked.append(id))
    batch = Batch(point, tool(seen), hooks=[hooks])
    bad, good = await batch(call("a", "point", arguments), call("b"))
    assert bad.is_error
    assert bad.content.startswith("Tool error: ")
    for part in told:
        assert part in bad.content
    assert len(bad.content) < 1000
    assert good == ToolMessage("b", "seen b")
    assert ran == []
    assert asked == ["b"]
    assert [event.call.id for event in batch.of(ToolStarted)] == ["b"]
    assert [event.ran for event in batch.of(ToolExecuted)] == [False, True]


async def test_an_unknown_tool_is_told_what_there_is() -> None:
    """AGT-060 By the names of the known ones."""
    batch = Batch(tool(seen), tool(seen, "peek"))
    (message,) = await batch(call("a", "lok"))
    assert message.is_error
    assert "'lok'" in message.content
    assert "look, peek" in message.content
    assert batch.of(ToolStarted) == []


async def test_at_most_five_places_are_told() -> None:
    """AGT-060 Each by its JSON pointer."""
    many = json.dumps({"x": 1, "tags": list(range(20))})
    (message,) = await Batch(Tool(ToolDefinition("point", "", POINT), seen))(call("a", "point", many))
    assert [f"/tags/{number}" in message.content for number in (0, 4, 5, 19)] == [True, True, False, False]


async def test_a_pattern_is_checked_by_an_engine() -> None:
    """AGT-060 Patterns of a schema are JavaScript."""
    schema: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^[a-z]+$"}}}
    batch = Batch(Tool(ToolDefinition("word", "", schema), seen))
    good, bad = await batch(call("1", "word", '{"a":"abc"}'), call("2", "word", '{"a":"123"}'))
    assert good == ToolMessage("1", "seen 1")
    assert bad.is_error
    assert "/a" in bad.content


async def test_lone_surrogates_of_the_model_do_not_reach_a_handler() -> None:
    """AGT-034 AGT-060 They become U+FFFD."""
    got: list[dict[str, Any]] = []

    async def handler(arguments: dict[str, Any], ctx: ToolContext) -> str:
        got.append(arguments)
        return "\ud800"

    (message,) = await Batch(tool(handler))(call("a", "look", '{"\\ud800": ["\\udfff", "\\ud83d\\ude00"]}'))
    assert got == [{"\ufffd": ["\ufffd", "\U0001f600"]}]
    assert message.content == "\ufffd"


async def test_long_arguments_are_read_without_stalling_the_loop() -> None:
    """AGT-060 They are parsed beside it, and used as they are."""
    numbers = list(range(60_000))
    got: list[object] = []

    async def handler(arguments: dict[str, Any], ctx: ToolContext) -> str:
        got.append(arguments["n"])
        return "ok"

    batch = Batch(tool(handler))
    assert await batch(call("a", "look", json.dumps({"n": numbers}))) == (ToolMessage("a", "ok"),)
    assert got == [numbers]


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=40))
async def test_no_text_of_arguments_breaks_a_batch(arguments: str) -> None:
    """AGT-060 Anything a model may write is either used or told."""
    (message,) = await Batch(tool(seen))(call("a", "look", arguments))
    assert message.content == "seen a" or message.content.startswith("Tool error: ")


async def test_a_recovered_call_that_may_not_be_repeated_does_not_run() -> None:
    """AGT-019 AGT-060 The others of the batch do."""
    once = tool(seen, "once", repeatable=False)
    first, second = await Batch(tool(seen), once)(call("a", "once"), call("b"), recovered=True)
    assert first == ToolMessage("a", "Tool error: outcome unknown, it may have run", is_error=True)
    assert second == ToolMessage("b", "seen b")


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("", {"type": "object"}),
        ("1st", {"type": "object"}),
        ("a b", {"type": "object"}),
        ("é", {"type": "object"}),
        ("a\n", {"type": "object"}),
        ("a" * 65, {"type": "object"}),
        ("taken", {"type": "object"}),
        ("bad-type", {"type": "foo"}),
        ("array", {"type": "array"}),
        ("nullable", {"type": ["object", "null"]}),
        ("remote", {"type": "object", "properties": {"a": {"$ref": "https://example.com/schema.json"}}}),
        ("dangling", {"type": "object", "properties": {"a": {"$ref": "#/$defs/none"}}}),
        ("no-schema", []),
    ],
)
def test_the_registry_refuses_what_no_model_can_call(name: str, parameters: Any) -> None:
    """AGT-061 Names, twice the same name, schemas and references out of them; the message names the tool."""
    with pytest.raises(InvalidConfiguration) as caught:
        ToolRegistry([tool(seen, "taken"), Tool(ToolDefinition(name, "", parameters), seen)])
    assert repr(name) in str(caught.value)


@pytest.mark.parametrize("options", [{"timeout": 0}, {"timeout": True}, {"max_result_chars": 0}, {"timeout": -1.0}])
def test_the_registry_refuses_bad_limits(options: dict[str, Any]) -> None:
    """AGT-061 By the name of the tool and the limit."""
    with pytest.raises(InvalidConfiguration, match=f"'look'.*{next(iter(options))}"):
        ToolRegistry([tool(seen, **options)])


def test_the_registry_keeps_order_and_takes_good_names() -> None:
    """AGT-061 Registration order is the order the model sees."""
    names = ["zeta", "A" * 64, "m-1", "a_b"]
    registry = ToolRegistry([tool(seen, name) for name in names])
    assert [definition.name for definition in registry.definitions] == names
    local: dict[str, Any] = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/n"}},
        "$defs": {"n": {"type": "number"}},
    }
    assert len(ToolRegistry([Tool(ToolDefinition("local", "", local), seen)])) == 1
