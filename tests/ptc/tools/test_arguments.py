"""Checking arguments: what fits, what is said of what does not, and what a check may cost."""

import asyncio
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from ptc.errors import CallError, UsageError
from ptc.tools.arguments import Arguments
from ptc.tools.model import copy_json


async def problem(schema: Any, value: Any) -> str:
    """Why a value does not fit, "" if it does."""
    try:
        await Arguments(schema).check(value)
    except CallError as error:
        return str(error).removeprefix("invalid arguments: ")
    return ""


def of(name: str, schema: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {name: schema}}


TREE = {"$ref": "#/$defs/node", "$defs": {"node": of("inner", {"$ref": "#/$defs/node"})}}

CASES: list[tuple[Any, Any, str]] = [
    ({}, {}, ""),
    ({}, [], "args: an object is needed, not []"),
    (of("a", {"type": "string"}), {"a": "x"}, ""),
    (of("a", {"type": "string"}), {"a": None}, 'args.a: null does not fit {"type":"string"}'),
    (of("a", {"type": ["string", "null"]}), {"a": 1}, 'args.a: 1 does not fit {"type":["string","null"]}'),
    (of("a", {"type": "integer"}), {"a": 2**70}, ""),
    (of("a", {"type": "integer"}), {"a": True}, 'args.a: true does not fit {"type":"integer"}'),
    (of("a", {"type": "number"}), {"a": False}, 'args.a: false does not fit {"type":"number"}'),
    (of("a b", {"items": {"type": "number"}}), {"a b": [1, "x"]}, 'args["a b"][1]: "x" does not fit {"type":"number"}'),
    (of("a", {"enum": [1, "b"]}), {"a": True}, 'args.a: true does not fit {"enum":[1,"b"]}'),
    (of("a", {"const": {"x": [1]}}), {"a": {"x": [1]}}, ""),
    (of("a", {"const": {"x": [1]}}), {"a": {"x": [True]}}, 'args.a: {"x":[true]} does not fit {"const":{"x":[1]}}'),
    (of("a", {"minLength": 2}), {"a": "😀"}, 'args.a: "😀" does not fit {"minLength":2}'),
    (of("a", {"multipleOf": 0.1}), {"a": 0.3}, ""),
    (of("a", {"multipleOf": 0.1}), {"a": 0.35}, 'args.a: 0.35 does not fit {"multipleOf":0.1}'),
    (of("a", {"multipleOf": 3}), {"a": 10**400}, "args.a: 1" + "0" * 79 + '… does not fit {"multipleOf":3}'),
    (of("a", {"exclusiveMinimum": 0}), {"a": 0}, 'args.a: 0 does not fit {"exclusiveMinimum":0}'),
    (
        of("a", {"uniqueItems": True}),
        {"a": [{"x": 1, "y": 2}, {"y": 2, "x": 1}]},
        'args.a: [{"x":1,"y":2},{"y":2,"x":1}] does not fit {"uniqueItems":true}',
    ),
    (of("a", {"uniqueItems": True}), {"a": [1, True, "1", [1]]}, ""),
    (
        of("a", {"pattern": "^(a+)+$"}),
        {"a": "a" * 34 + "!"},
        f'args.a: "{"a" * 34}!" does not fit {{"pattern":"^(a+)+$"}}',
    ),
    (of("a", {"format": "email"}), {"a": "anything"}, ""),
    (
        of("a", {"oneOf": [{"type": "number"}, {"minimum": 0}]}),
        {"a": 1},
        'args.a: 1 does not fit {"oneOf":[{"type":"number"},{"minimum":0}]}',
    ),
    (
        of("a", {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        {"a": 1},
        'args.a: 1 does not fit {"anyOf":[{"type":"string"},{"type":"null"}]}',
    ),
    (of("a", {"not": {"type": "string"}}), {"a": "x"}, 'args.a: "x" does not fit {"not":{"type":"string"}}'),
    (
        of("a", {"contains": {"const": 1}, "maxContains": 1}),
        {"a": [1, 1]},
        'args.a: [1,1] does not fit {"contains":{"const":1}}',
    ),
    (of("a", {"prefixItems": [True], "items": False}), {"a": [1, 2]}, 'args.a: [1,2] does not fit {"items":false}'),
    (of("a", False), {"a": 1}, "args.a is not allowed"),
    ({"required": ["a", "b c"]}, {}, 'args.a is missing; args["b c"] is missing'),
    ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, "args.b is missing"),
    ({"properties": {"a": True}, "additionalProperties": False}, {"a": 1, "x": 1}, "args.x is not a known property"),
    (
        {"patternProperties": {"^x": {"type": "string"}}, "additionalProperties": False},
        {"xa": "", "b": 1},
        "args.b is not a known property",
    ),
    ({"patternProperties": {"^x": {"type": "string"}}}, {"xa": 1}, 'args.xa: 1 does not fit {"type":"string"}'),
    ({"additionalProperties": {"type": "string"}}, {"a": 1}, 'args.a: 1 does not fit {"type":"string"}'),
    ({"propertyNames": {"maxLength": 1}}, {"ab": 1}, 'args: "ab" does not fit {"maxLength":1}'),
    (
        {"properties": {"a": True}, "unevaluatedProperties": False},
        {"b": 1},
        'args: {"b":1} does not fit {"unevaluatedProperties":false}',
    ),
    (TREE, {"inner": {"inner": 3}}, 'args.inner.inner: 3 does not fit {"type":"object"}'),
    (
        {"definitions": {"a": {"type": "string"}}, "properties": {"a": {"$ref": "#/definitions/a"}}},
        {"a": 1},
        'args.a: 1 does not fit {"type":"string"}',
    ),
    (
        {"$schema": "http://json-schema.org/draft-07/schema#", "properties": {"a": {"$schema": "x:y", "minimum": 3}}},
        {"a": 1},
        'args.a: 1 does not fit {"minimum":3}',
    ),
    (of("default", {"type": "string"}), {"default": 1}, 'args.default: 1 does not fit {"type":"string"}'),
    (
        {
            "$id": "https://example.com/a",
            "properties": {"a": {"$ref": "b"}},
            "$defs": {"b": {"$id": "b", "type": "null"}},
        },
        {"a": 1},
        'args.a: 1 does not fit {"type":"null"}',
    ),
]


@pytest.mark.parametrize(("schema", "value", "said"), CASES)
async def test_what_does_not_fit_is_told_by_path_value_and_keyword(schema: Any, value: Any, said: str) -> None:
    """PTC-139 the whole of Draft 2020-12."""
    assert await problem(schema, value) == said


async def test_at_most_three_reasons_are_told() -> None:
    """PTC-139."""
    said = await problem({"required": ["a", "b", "c", "d"]}, {})
    assert said == "args.a is missing; args.b is missing; args.c is missing"


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (None, "the schema of an object is needed"),
        ([], "the schema of an object is needed"),
        (True, "the schema of an object is needed"),
        ({"type": "string"}, "the schema of an object is needed"),
        ({"type": ["object", "null"]}, "the schema of an object is needed"),
        ({"x": {1}}, "parameters.x: set is not JSON"),
        (of("a", {"type": "strng"}), "parameters.properties.a.type: not valid JSON Schema"),
        ({"required": "a"}, "parameters.required: not valid JSON Schema"),
        (of("a", {"$ref": "https://example.com/x"}), '"https://example.com/x" leads to no schema inside it'),
        (of("a", {"$ref": "#/$defs/a"}), '"#/$defs/a" leads to no schema inside it'),
        (of("a", {"$ref": "#/properties/b/const", "const": 1}), "leads to no schema inside it"),
        (of("a", {"pattern": "(?=x)"}), "parameters: the pattern '(?=x)' has look-around"),
        ({"patternProperties": {"(": True}}, "parameters: the pattern '(' is no regular expression"),
        ({"patternProperties": {"a": True}, "unevaluatedProperties": False}, "cannot be used together"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused(schema: Any, reason: str) -> None:
    """PTC-139 when the tools are put together, with the reason."""
    with pytest.raises(UsageError) as refusal:
        Arguments(schema)
    assert reason in str(refusal.value)


def test_a_deep_schema_is_refused() -> None:
    """PTC-139 not an error of the interpreter; 250 levels of objects are fine."""
    schema: Any = {}
    for _ in range(250):
        schema = of("a", schema)
    Arguments(schema)
    for _ in range(5_000):
        schema = of("a", schema)
    with pytest.raises(UsageError, match="nested too deep"):
        Arguments(schema)


def nested(depth: int) -> Any:
    value: Any = {}
    for _ in range(depth):
        value = {"inner": value}
    return value


async def test_deep_arguments_are_refused_and_never_an_error_of_the_interpreter() -> None:
    """PTC-139 a hundred levels are checked; what no schema looks into may be as deep as it likes."""
    assert await problem(TREE, nested(100)) == ""
    assert await problem(TREE, nested(50_000)) == "args: nested too deep to be checked"
    assert await problem({"type": "object"}, nested(50_000)) == ""
    assert await problem(of("inner", {"type": "string"}), nested(50_000)) == (
        "args.inner: " + ('{"inner":' * 9)[:80] + '… does not fit {"type":"string"}'
    )
    assert await problem(of("inner", {"uniqueItems": True}), {"inner": [nested(50_000)]}) == (
        "args: nested too deep to be checked"
    )


AGAIN: dict[str, Any] = {"$ref": "#/$defs/again"}


@pytest.mark.parametrize(
    "schema",
    [
        AGAIN,
        {"$dynamicRef": "#/$defs/again"},
        {"not": AGAIN},
        {"allOf": [AGAIN]},
        {"anyOf": [{"type": "null"}, AGAIN]},
        {"oneOf": [{"type": "null"}, AGAIN]},
        {"if": {"not": AGAIN}},
        {"if": {"type": "null"}, "else": AGAIN},
        {"dependentSchemas": {"a": AGAIN}},
    ],
    ids=str,
)
async def test_a_schema_that_refers_to_itself_in_place_ends_the_check(schema: Any) -> None:
    """PTC-139 before the interpreter's own limit, which extension code does not survive."""
    whole = {"type": "object", "$defs": {"again": schema}, "$ref": "#/$defs/again"}
    assert await problem(whole, {"a": []}) == "args: nested too deep to be checked"


async def test_arguments_may_be_as_deep_as_any_that_cross() -> None:
    """PTC-139 though the checking takes more of a stack than its caller has."""
    assert await problem(TREE, nested(500)) == ""


async def test_a_check_that_would_take_for_ever_ends_while_the_loop_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """PTC-139 two alternatives that look into the same, sixty levels deep."""
    monkeypatch.setattr("ptc.tools.arguments.MAX_SECONDS", 1.0)
    choice = {"anyOf": [{**of("inner", {"$ref": "#/$defs/node"}), "required": [name]} for name in "xy"]}
    schema = {"properties": {"inner": {"$ref": "#/$defs/node"}}, "$defs": {"node": choice}}
    gaps: list[float] = []

    async def tick() -> None:
        while True:
            started = time.perf_counter()
            await asyncio.sleep(0.01)
            gaps.append(time.perf_counter() - started)

    ticking = asyncio.create_task(tick())
    said = await problem(schema, nested(60))
    ticking.cancel()
    assert said == "checking them takes more than 1 s; make them smaller"
    assert len(gaps) > 10
    assert max(gaps) < 2


async def test_a_large_honest_value_is_checked() -> None:
    """PTC-139 in a thread."""
    parameters = of("list", {"type": "array", "items": of("x", {"type": "integer"}), "uniqueItems": False})
    rows = [{"x": number} for number in range(20_000)]
    assert await problem(parameters, {"list": rows}) == ""
    assert await problem(parameters, {"list": [*rows, {"x": ""}]}) == (
        'args.list[20000].x: "" does not fit {"type":"integer"}'
    )


async def test_a_text_too_long_for_its_pattern_is_refused() -> None:
    """PTC-139."""
    said = await problem(of("a", {"pattern": "a{1000}"}), {"a": "b" * 1_000_000})
    assert said == "args: a text is too long to be searched for a pattern"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "ab", 0.5, 2.5]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)
SIZES = st.integers(0, 3)
TYPES = st.sampled_from(["array", "boolean", "integer", "null", "number", "object", "string"])


def schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    names = st.lists(st.sampled_from("abc"), unique=True, max_size=2)
    some = st.lists(inner, min_size=1, max_size=3)
    by_name = st.dictionaries(st.sampled_from("abc"), inner, max_size=2)
    keywords: dict[str, st.SearchStrategy[Any]] = {
        "type": TYPES | st.lists(TYPES, unique=True, min_size=1, max_size=2),
        "const": VALUES,
        "enum": st.lists(VALUES, min_size=1, max_size=3),
        "properties": by_name,
        "required": names,
        "additionalProperties": inner,
        "propertyNames": inner,
        "dependentRequired": st.dictionaries(st.sampled_from("abc"), names, max_size=2),
        "dependentSchemas": by_name,
        "unevaluatedProperties": inner,
        "items": inner,
        "prefixItems": some,
        "contains": inner,
        "unevaluatedItems": inner,
        "uniqueItems": st.booleans(),
        "anyOf": some,
        "oneOf": some,
        "allOf": some,
        "not": inner,
        "if": inner,
        "then": inner,
        "else": inner,
        "multipleOf": st.sampled_from([1, 2, 0.5]),
    }
    for bound in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
        keywords[bound] = st.integers(-2, 2)
    for size in ("Items", "Length", "Properties", "Contains"):
        keywords[f"min{size}"] = keywords[f"max{size}"] = SIZES
    return st.lists(st.sampled_from(sorted(keywords)), max_size=4, unique=True).flatmap(
        lambda chosen: st.fixed_dictionaries({name: keywords[name] for name in chosen})
    )


@settings(max_examples=400, deadline=None)
@given(inner=st.recursive(st.booleans(), schemas, max_leaves=8), value=VALUES)
def test_verdicts_are_those_of_the_library(inner: Any, value: Any) -> None:
    """PTC-139 for random schemas and values."""
    schema, arguments = of("a", inner), copy_json({"a": value})
    said = asyncio.run(problem(schema, arguments))
    assert (said == "") is Draft202012Validator(schema).is_valid(arguments), said
