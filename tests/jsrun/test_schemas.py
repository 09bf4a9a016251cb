"""Schemas at work: defaults, mismatches in words, bounds."""

import asyncio
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from jsrun.canonical import canonical_json
from jsrun.keywords import same
from jsrun.regex import EngineRegexTester
from jsrun.schema_checks import SchemaProblem, check_schema, path_text
from jsrun.schemas import RegexOverBound, Schema
from ptc.wire import Json


async def problems(
    schema: dict[str, Any], value: Json, root: str = "output", *, engine: bool = False
) -> tuple[str, ...]:
    tester = EngineRegexTester() if engine else None
    return await Schema(schema).problems(value, root, tester)


async def test_missing_names_come_in_order() -> None:
    """JSR-109 x-order first, then the schema's order, with commas and "and", also when not in properties"""
    schema = {
        "required": ["far", "c", "b", "a"],
        "x-order": ["b", "nothing"],
        "properties": {"a": {}, "b": {}, "c": {}},
    }
    assert await problems(schema, {}) == ("The output misses `b`, `a`, `c` and `far`.",)
    assert await problems(schema, {"a": 1, "b": 1}) == ("The output misses `c` and `far`.",)
    assert await problems(schema, {"a": 1, "b": 1, "c": 2}) == ("The output misses `far`.",)
    assert await problems({"allOf": [{"required": ["x"]}, {"required": ["y", "x"]}]}, {}) == (
        "The output misses `x` and `y`.",
    )


MISMATCHES: list[tuple[dict[str, Any], Json, str]] = [
    ({"type": "string"}, 5, "must be a string, got 5"),
    ({"type": ["string", "null"]}, True, "must be a string or null, got true"),
    ({"type": "integer"}, 1.5, "must be a whole number, got 1.5"),
    ({"type": "object"}, [], "must be an object, got an array"),
    ({"type": "boolean"}, "true", 'must be true or false, got "true"'),
    ({"enum": ["a", 1, None]}, "b", 'must be "a", 1 or null, got "b"'),
    ({"const": 1}, True, "must be 1, got true"),
    ({"minimum": 2}, 1, "must be at least 2, got 1"),
    ({"exclusiveMaximum": 2}, 2, "must be less than 2, got 2"),
    ({"multipleOf": 3}, 4, "must be a multiple of 3, got 4"),
    ({"minLength": 2}, "a", "must have at least 2 characters, got 1"),
    ({"maxLength": 1}, "😀😀", "must have at most 1 character, got 2"),
    ({"minItems": 1}, [], "must have at least 1 item, got 0"),
    ({"maxProperties": 0}, {"a": 1}, "must have at most 0 properties, got 1"),
    ({"uniqueItems": True}, [{"a": 1, "b": 2}, {"b": 2.0, "a": 1}], "must not have two equal items"),
    ({"required": ["x", "y"]}, {}, "misses `x` and `y`"),
    ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, "misses `b`, needed beside `a`"),
    ({"properties": {}, "additionalProperties": False}, {"a": 1}, "has `a`, which the schema does not allow"),
    ({"unevaluatedProperties": False, "properties": {"b": {}}}, {"a": 1}, "has `a`, which the schema does not allow"),
    ({"prefixItems": [{}], "items": False}, [1, 2], "must have at most 1 item, got 2"),
    ({"prefixItems": [{}], "unevaluatedItems": False}, [1, 2], "must not have item 1"),
    ({"contains": {"type": "string"}}, [1], "must contain at least 1 matching item, got 0"),
    ({"anyOf": [{"type": "string"}, {"type": "null"}]}, 5, "must be a string or null, got 5"),
    ({"anyOf": [{"minLength": 3}, {"maxLength": 1}]}, "ab", "fits none of 2 alternatives"),
    ({"oneOf": [{}, {"type": "string"}]}, "ab", "must fit one of 2 alternatives, fits 2"),
    ({"not": {"type": "string"}}, "ab", "is what the schema rules out"),
    ({"propertyNames": {"maxLength": 1}}, {"ab": 1}, 'has the name "ab", which the schema does not allow'),
]


@pytest.mark.parametrize(("schema", "value", "text"), MISMATCHES)
async def test_a_mismatch_is_told_by_its_path(schema: dict[str, Any], value: Json, text: str) -> None:
    """JSR-110 in words, with JSON values and never a type of Python"""
    whole = {"properties": {"items": {"items": schema}}}
    assert await problems(whole, {"items": [value]}) == (f"output.items[0]: {text}.",)


async def test_what_the_schema_false_rules_out_is_told() -> None:
    """JSR-110 without printing the value"""
    assert await problems({"properties": {"a": False}}, {"a": ["x" * 1000]}) == ("output.a: is not allowed.",)


async def test_up_to_three_mismatches_are_told_besides_missing_names() -> None:
    """JSR-110 and only objects fit at the root"""
    schema = {"required": ["z"], "additionalProperties": {"type": "string"}}
    told = await problems(schema, {"a": 1, "b c": 2, "d": 3, "e": 4})
    assert told == (
        "The output misses `z`.",
        "output.a: must be a string, got 1.",
        'output["b c"]: must be a string, got 2.',
        "output.d: must be a string, got 3.",
    )
    assert await problems({}, 5, "input") == ("input: must be an object, got 5.",)
    assert await Schema({}).problems(5, "answer", object_root=False) == ()


def test_defaults_fill_what_is_absent() -> None:
    """JSR-111 nested in objects that are there, nowhere else, and without touching the value given"""
    schema = Schema(
        {
            "properties": {
                "a": {"default": [1]},
                "here": {"properties": {"b": {"default": {"c": 2}}, "d": {"default": 3}}},
                "absent": {"properties": {"b": {"default": 1}}},
                "made": {"default": {}, "properties": {"b": {"default": 1}}},
                "null": {"default": None},
                "list": {"items": {"properties": {"b": {"default": 1}}}},
                "if": {"anyOf": [{"properties": {"b": {"default": 1}}}]},
            },
            "allOf": [{"properties": {"never": {"default": 1}}}],
        }
    )
    given: dict[str, Any] = {"here": {"d": None}, "list": [{}], "if": {}}
    filled: Any = schema.with_defaults(given)
    assert filled == {
        "a": [1],
        "here": {"b": {"c": 2}, "d": None},
        "made": {"b": 1},
        "null": None,
        "list": [{}],
        "if": {},
    }
    assert given == {"here": {"d": None}, "list": [{}], "if": {}}
    filled["a"].append(2)
    filled["here"]["b"]["c"] = 5
    again: Any = schema.with_defaults({"here": {}})
    assert again["a"] == [1] and again["here"]["b"] == {"c": 2}
    assert schema.with_defaults([1]) == [1]


async def test_patterns_are_those_of_javascript() -> None:
    """JSR-112 Unicode properties, look-behind and named groups work; `\\Z` of Python does not"""
    schema = {
        "properties": {"a": {"pattern": r"^\p{Lu}(?<=A)$"}, "b": {"pattern": "x\\Z"}, "c": {"pattern": r"^[\w\-]+\-$"}},
        "patternProperties": {"^n_": {"type": "number"}},
        "additionalProperties": False,
    }
    assert await problems(schema, {"a": "A", "n_x": 1, "c": "a-"}, engine=True) == ()
    told = await problems(schema, {"a": "B", "b": "x", "n_x": "1", "m_x": 1}, engine=True)
    assert len(told) == 3
    assert told[0] == 'output.a: must match the pattern "^\\\\p{Lu}(?<=A)$", got "B".'
    assert await problems({"properties": {"a": {"pattern": "("}}}, {"a": ""}, engine=True) == (
        'output: the schema\'s pattern "(" is not a regular expression.',
    )


async def test_patterns_behind_conditions_are_asked_too() -> None:
    """JSR-112 what is only looked at because another pattern matched is matched as well"""
    schema = {
        "properties": {
            "a": {"if": {"pattern": "^x"}, "then": {"if": {"pattern": "y$"}, "then": {"pattern": "z"}}, "else": False}
        }
    }
    assert await problems(schema, {"a": "xzy"}, engine=True) == ()
    assert await problems(schema, {"a": "x"}, engine=True) == ()
    assert await problems(schema, {"a": "xy"}, engine=True) == ('output.a: must match the pattern "z", got "xy".',)
    assert await problems(schema, {"a": "q"}, engine=True) == ("output.a: is not allowed.",)


async def _beats(task: "asyncio.Task[tuple[str, ...]]") -> int:
    beats = 0
    while not task.done():
        await asyncio.sleep(0.02)
        beats += 1
    return beats


HOSTILE: dict[str, tuple[dict[str, Any], Any]] = {
    "anyOf": (
        {
            "$defs": {str(n): {"anyOf": [{"$ref": f"#/$defs/{n + 1}"}] * 2} for n in range(40)} | {"40": False},
            "$ref": "#/$defs/0",
        },
        {},
    ),
    "self": ({"$ref": "#"}, {}),
    "dependent": (
        {
            "$defs": {
                str(n): {"dependentSchemas": {"a": {"$ref": f"#/$defs/{n + 1}"}, "b": {"$ref": f"#/$defs/{n + 1}"}}}
                for n in range(40)
            }
            | {"40": {}},
            "$ref": "#/$defs/0",
            "unevaluatedProperties": False,
        },
        {"a": 1, "b": 1},
    ),
    "pattern": ({"properties": {"a": {"pattern": "^(a+)+$"}}}, {"a": "a" * 40 + "!"}),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
async def test_hostile_schemas_end_and_leave_the_host_alive(name: str) -> None:
    """JSR-112 exponential, endless and backtracking ones end as a mismatch that says so"""
    schema, value = HOSTILE[name]
    began = time.monotonic()
    task = asyncio.ensure_future(problems(schema, value, engine=True))
    beats = await _beats(task)
    assert time.monotonic() - began < 30  # 8 s on a quiet machine
    (told,) = task.result()
    assert "the check" in told
    assert beats > 2 or name == "self"


async def test_many_unique_items_are_compared_through_a_set() -> None:
    """JSR-112 100,000 objects take no longer than reading them"""
    began = time.monotonic()
    schema = {"properties": {"a": {"uniqueItems": True}}}
    assert await problems(schema, {"a": [{"n": n} for n in range(100_000)]}) == ()
    assert await problems(schema, {"a": [{"n": n // 2} for n in range(100_000)]}) != ()
    assert time.monotonic() - began < 30


async def test_too_much_text_for_patterns_is_a_mismatch() -> None:
    """JSR-112 what would be sent to the engine is bounded too"""
    schema: dict[str, Any] = {"patternProperties": {f"^{n}": {} for n in range(300)}}
    (told,) = await problems(schema, {f"k{n}" * 20: 1 for n in range(2_000)}, engine=True)
    assert "characters" in told or "evaluations" in told


async def test_an_engine_that_cannot_answer_is_a_mismatch() -> None:
    class Broken:
        async def test(self, pairs: list[tuple[str, str]]) -> list[bool | None]:
            raise RegexOverBound("could not be done")

    schema = Schema({"properties": {"a": {"pattern": "x"}}})
    assert await schema.problems({"a": "x"}, "input", Broken()) == (
        "input: the check of its patterns could not be done.",
    )
    assert await schema.problems({"a": "y"}, "input") == ()  # without a tester patterns are left aside


async def test_a_schema_from_a_program_is_checked_before_it_is_used() -> None:
    """JSR-062 any root type, but valid and closed"""
    loaded = await Schema.load({"type": "array"})
    assert isinstance(loaded, Schema)
    refused = await Schema.load({"type": "arr"}, "options.schema")
    assert isinstance(refused, list) and isinstance(refused[0], SchemaProblem)
    assert '"options.schema.type"' in str(refused[0])
    deep: dict[str, Json] = {}
    for _ in range(500):
        deep = {"not": deep}
    assert isinstance(await Schema.load(deep), Schema)


AGAIN: dict[str, Any] = {"$ref": "#/$defs/again"}
IN_PLACE: list[dict[str, Any]] = [
    AGAIN,
    {"$dynamicRef": "#/$defs/again"},
    {"not": AGAIN},
    {"not": {"not": AGAIN}},
    {"allOf": [AGAIN]},
    {"anyOf": [{"type": "null"}, AGAIN]},
    {"oneOf": [{"type": "null"}, AGAIN]},
    {"if": AGAIN},
    {"if": {}, "then": AGAIN},
    {"if": {"type": "null"}, "else": AGAIN},
    {"dependentSchemas": {"a": AGAIN}},
    {"unevaluatedProperties": False, "allOf": [{"not": {"not": AGAIN}}]},
]


@pytest.mark.parametrize("schema", IN_PLACE, ids=str)
async def test_a_schema_that_refers_to_itself_in_place_ends_the_check(schema: dict[str, Any]) -> None:
    """JSR-109 told like every other bound, before the interpreter's own limit, which extension code does not survive"""
    whole = {"$defs": {"again": schema}, "$ref": "#/$defs/again"}
    assert await problems(whole, {"a": []}) == ("output: the check goes deeper than 3,000 keywords.",)


async def test_a_chain_of_references_is_followed_as_far_as_a_check_may_go() -> None:
    """JSR-109 a thousand references one after the other are fine, five thousand are too many"""
    for length, ends in ((1_000, "output: must be an array, got an object."), (5_000, "goes deeper than 3,000")):
        chain: dict[str, Any] = {str(number): {"$ref": f"#/$defs/{number + 1}"} for number in range(length)}
        schema = {"$defs": {**chain, str(length): {"type": "array"}}, "$ref": "#/$defs/0"}
        (problem,) = await problems(schema, {})
        assert ends in problem


def test_nothing_outside_the_schema_is_ever_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """JSR-009 a remote reference is refused without a look at it"""
    import urllib.request

    def fail(*args: object, **keys: object) -> None:
        raise AssertionError("opened")

    monkeypatch.setattr(urllib.request, "urlopen", fail)
    for reference in ("http://localhost:1/x", "file:///etc/passwd", "x.json", "#/a/b", "#name", "urn:x"):
        (problem,) = check_schema({"properties": {"a": {"$ref": reference}}})
        assert problem.path == ("properties", "a", "$ref")


def test_paths_are_written_like_code() -> None:
    """JSR-110 dots for names, brackets for the rest, and a long path keeps its end"""
    assert path_text("input", ("items", 3, "when", "a b", "$x")) == 'input.items[3].when["a b"].$x'
    assert len(path_text("input", ("x",) * 500)) < 250


Strategy = st.SearchStrategy[Any]
_key: Strategy = st.sampled_from(["a", "b", "c"])
_keys: Strategy = st.lists(_key, max_size=2, unique=True)
_value: Strategy = st.recursive(
    st.sampled_from([None, True, False, 0, 1, 1.0, 2.5, -1, "", "a", "ab"]),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_key, inner, max_size=3)),
    max_leaves=6,
)


def _keywords(inner: Strategy) -> Strategy:
    several = st.lists(inner, min_size=1, max_size=2)
    named = st.dictionaries(_key, inner, max_size=2)
    forms: list[dict[str, Strategy]] = [
        {"properties": named, "required": _keys},
        {"properties": named, "additionalProperties": inner},
        {"prefixItems": several, "items": inner},
        {"contains": inner, "maxContains": st.integers(0, 2)},
        {"allOf": several},
        {"anyOf": several},
        {"oneOf": several},
        {"not": inner},
        {"if": inner, "then": inner, "else": inner},
        {"propertyNames": inner},
        {"dependentSchemas": st.dictionaries(_key, inner, max_size=1)},
    ]
    return st.one_of([st.fixed_dictionaries(form) for form in forms])


_scalar: list[dict[str, Strategy]] = [
    {"type": st.sampled_from(["string", "integer", "number", "object", "array", "null"])},
    {"enum": st.lists(_value, min_size=1, max_size=3)},
    {"const": _value},
    {"minimum": st.integers(-1, 2), "multipleOf": st.sampled_from([1, 2, 0.5])},
    {"minLength": st.integers(0, 2), "maxLength": st.integers(0, 2)},
    {"uniqueItems": st.booleans(), "minItems": st.integers(0, 2)},
    {"minProperties": st.integers(0, 2), "dependentRequired": st.dictionaries(_key, _keys, max_size=1)},
]
_schema: Strategy = st.recursive(
    st.one_of(st.booleans(), *(st.fixed_dictionaries(form) for form in _scalar)), _keywords, max_leaves=6
)


@given(_schema, _value)
@settings(max_examples=300, deadline=None)
def test_our_keywords_agree_with_those_of_the_package(schema: Any, value: Any) -> None:
    """JSR-110 what fits is what fits for `jsonschema`, whatever the messages say"""
    whole = {"allOf": [schema]}
    expected = Draft202012Validator(whole).is_valid(value)
    assert (Schema(whole).problems_now(value, "x", object_root=False) == ()) is expected


UNEVALUATED: list[tuple[dict[str, Any], Json, bool]] = [
    ({"properties": {"a": {}}, "unevaluatedProperties": False}, {"a": 1}, True),
    ({"allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": False}, {"a": 1}, True),
    ({"allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": False}, {"a": 1, "b": 1}, False),
    ({"anyOf": [{"required": ["b"], "properties": {"a": {}}}, True], "unevaluatedProperties": False}, {"a": 1}, False),
    ({"$ref": "#/$defs/x", "$defs": {"x": {"properties": {"a": {}}}}, "unevaluatedProperties": False}, {"a": 1}, True),
    ({"if": {"properties": {"a": {"const": 1}}}, "unevaluatedProperties": False}, {"a": 1}, True),
    ({"if": {"properties": {"a": {"const": 1}}}, "unevaluatedProperties": False}, {"a": 2}, False),
    ({"dependentSchemas": {"a": {"properties": {"a": {}}}}, "unevaluatedProperties": False}, {"a": 2}, True),
    ({"allOf": [{"additionalProperties": True}], "unevaluatedProperties": False}, {"a": 2}, True),
    ({"unevaluatedProperties": {"type": "string"}}, {"a": 2}, False),
    ({"prefixItems": [True], "unevaluatedItems": False}, [1], True),
    ({"prefixItems": [True], "unevaluatedItems": False}, [1, 2], False),
    ({"contains": {"const": 2}, "prefixItems": [True], "unevaluatedItems": False}, [1, 2], True),
    ({"anyOf": [{"items": {"const": 1}}], "unevaluatedItems": False}, [1, 1], True),
    ({"not": {"properties": {"a": {}}}, "unevaluatedProperties": False}, {"a": 1}, False),
]


@pytest.mark.parametrize(("schema", "value", "fits"), UNEVALUATED)
def test_what_was_not_evaluated_is_found(schema: dict[str, Any], value: Json, fits: bool) -> None:
    """JSR-110 through references, alternatives and conditions that accept the value"""
    assert (Schema(schema).problems_now(value, "x", object_root=False) == ()) is fits


@given(_value, _value)
def test_equality_is_that_of_json(one: Any, two: Any) -> None:
    assert same(one, two) is (canonical_json(one) == canonical_json(two))
