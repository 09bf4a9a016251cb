"""Tools as TypeScript: the type of every kind of schema, and that no schema, however odd, breaks the text."""

import itertools
import random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ptc.tools.declarations import MAX_PARTS, declarations, schema_type
from tests.ptc.tools.toolbox import is_typescript, tool

TYPES: list[tuple[Any, str]] = [
    # scalars
    ({"type": "string"}, "string"),
    ({"type": "number"}, "number"),
    ({"type": "integer"}, "number"),
    ({"type": "boolean"}, "boolean"),
    ({"type": "null"}, "null"),
    ({"type": ["string", "null"]}, "string | null"),
    ({"type": ["integer", "number"]}, "number"),
    # what says nothing
    ({}, "unknown"),
    (True, "unknown"),
    (False, "never"),
    (None, "unknown"),
    (3, "unknown"),
    ("string", "unknown"),
    ([{"type": "string"}], "unknown"),
    ({"type": "date"}, "unknown"),
    ({"type": 3}, "unknown"),
    ({"type": []}, "unknown"),
    ({"not": {"type": "string"}}, "unknown"),
    # const and enum
    ({"const": 'a"b\n'}, '"a\\"b\\n"'),
    ({"const": None}, "null"),
    ({"const": True}, "true"),
    ({"const": -1.5}, "-1.5"),
    ({"const": 1e300}, "1e+300"),
    ({"const": 1.0}, "1"),
    ({"const": 2**60}, "1152921504606846976n"),
    ({"const": 10**5000}, "bigint"),
    ({"const": {"a": 1}}, "unknown"),
    ({"type": "object", "const": {"a": 1}}, "{ [key: string]: unknown }"),
    ({"type": "string", "enum": ["a", "b", "a"]}, '"a" | "b"'),
    ({"enum": ["a", 1, None, False]}, '"a" | 1 | null | false'),
    ({"enum": []}, "unknown"),
    ({"enum": "ab"}, "unknown"),
    ({"type": "string", "enum": ["a", ["b"]]}, "string"),
    ({"type": "string", "enum": [str(n) for n in range(5 * MAX_PARTS)]}, "string"),
    # anyOf, oneOf, allOf
    ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "string | null"),
    ({"oneOf": [{"type": "string"}, {"type": "string"}]}, "string"),
    ({"anyOf": [{"type": "string"}, {}]}, "unknown"),
    ({"anyOf": [{"type": "string"}, False]}, "string"),
    ({"anyOf": [False]}, "never"),
    ({"anyOf": []}, "unknown"),
    ({"anyOf": {"type": "string"}}, "unknown"),
    ({"type": "object", "properties": {"a": True}, "anyOf": [{"required": ["a"]}, {}]}, "{ a?: unknown }"),
    ({"allOf": [{"type": "string"}, {"type": "number"}]}, "string & number"),
    ({"allOf": [{"anyOf": [{"type": "string"}, {"type": "null"}]}, {"type": "number"}]}, "(string | null) & number"),
    ({"allOf": [{"type": "string"}, False]}, "never"),
    ({"allOf": [{"type": "string"}, {"minLength": 1}]}, "string"),
    ({"anyOf": [{"allOf": [{"type": "string"}, {"type": "number"}]}, {"type": "null"}]}, "string & number | null"),
    # arrays and tuples
    ({"type": "array"}, "unknown[]"),
    ({"type": "array", "items": {"type": "string"}}, "string[]"),
    ({"items": {"type": "string"}}, "string[]"),
    ({"type": "array", "items": {"type": ["string", "null"]}}, "(string | null)[]"),
    ({"type": "array", "items": {"allOf": [{"type": "string"}, {"type": "number"}]}}, "(string & number)[]"),
    ({"type": "array", "items": {"type": "array", "items": {"type": "string"}}}, "string[][]"),
    ({"type": "array", "items": False}, "never[]"),
    ({"prefixItems": [{"type": "string"}, {"type": "number"}]}, "[string, number]"),
    ({"prefixItems": [{"type": "string"}, {"type": ["number", "null"]}], "minItems": 1}, "[string, (number | null)?]"),
    ({"prefixItems": [{"type": "string"}], "items": {"type": "number"}}, "[string, ...number[]]"),
    ({"prefixItems": [{"type": "string"}], "items": {"type": ["number", "null"]}}, "[string, ...(number | null)[]]"),
    ({"prefixItems": [{"type": "string"}], "items": True, "maxItems": 1}, "[string]"),
    # objects
    ({"type": "object"}, "{ [key: string]: unknown }"),
    ({"type": "object", "properties": {}}, "{}"),
    ({"type": "object", "additionalProperties": False}, "{}"),
    ({"type": "object", "additionalProperties": {"type": "number"}}, "{ [key: string]: number }"),
    ({"properties": {"b": {"type": "string"}, "a": {"type": "number"}}}, "{ a?: number; b?: string }"),
    ({"properties": {"b": True, "a": True}, "required": ["b", "c"]}, "{ a?: unknown; b: unknown; c: unknown }"),
    ({"properties": {"a": True}, "additionalProperties": True}, "{ a?: unknown; [key: string]: unknown }"),
    (
        {"properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "number"}},
        "{ a?: string } & { [key: string]: number }",
    ),
    ({"patternProperties": {"^x": {"type": "number"}}, "additionalProperties": False}, "{ [key: string]: unknown }"),
    ({"properties": {"a-b": True, "": True, "é": True}}, '{ ""?: unknown; "a-b"?: unknown; "é"?: unknown }'),
    ({"properties": {"new": True, "abstract": True}}, '{ "abstract"?: unknown; "new"?: unknown }'),
    ({"properties": 3, "type": "object"}, "{}"),
    # references
    ({"$ref": "#/$defs/a", "$defs": {"a": {"type": "string"}}}, "string"),
    ({"$ref": "#/definitions/a~1b%20c~0", "definitions": {"a/b c~": {"type": "string"}}}, "string"),
    ({"$ref": "#/anyOf/1", "anyOf": [{}, {"type": "string"}]}, "string"),
    ({"$ref": "#/$defs/a", "description": "x", "$defs": {"a": {"type": "string"}}}, "string"),
    ({"properties": {"next": {"$ref": "#"}}}, "{ next?: { next?: unknown } }"),
    ({"$ref": "#"}, "unknown"),
    ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}, "unknown"),
    ({"$ref": "#/$defs/no"}, "unknown"),
    ({"$ref": "https://example.com/schema"}, "unknown"),
    ({"$ref": "#name", "$defs": {"a": {"$anchor": "name", "type": "string"}}}, "unknown"),
    ({"$ref": 3}, "unknown"),
    ({"$ref": "#/anyOf/999999999999999999999", "anyOf": []}, "unknown"),
]


@pytest.mark.parametrize(("schema", "expected"), TYPES)
def test_the_type_of_a_schema(schema: Any, expected: str) -> None:
    """PTC-142 scalars, enums, unions, intersections, arrays, tuples, objects, references; anything else is unknown."""
    assert schema_type(schema) == expected
    assert is_typescript(f"type T = {expected};")


def test_the_declarations_of_a_set() -> None:
    """PTC-142 in name order, with comments, exact names and the class of errors."""
    search = tool(
        "search",
        parameters={
            "type": "object",
            "properties": {
                "query": {"type": "string", "description": "What to look for."},
                "limit": {"type": "integer"},
                "within": {
                    "type": "object",
                    "properties": {"days": {"type": "number", "description": "Not */ more."}},
                    "required": ["days"],
                },
            },
            "required": ["query"],
        },
        description="Searches.\n\n  Finds   things. */ evil()",
        output={"type": "array", "items": {"type": "object", "properties": {"url": {"type": "string"}}}},
    )
    odd = tool('odd-name "2"', description=" \n")
    text = declarations([search, odd, tool("new", description="")])
    assert (
        text
        == r"""declare class ToolCallError extends Error { readonly toolName: string }

declare const tools: {
  "new"(args: { [key: string]: unknown }): Promise<unknown>;
  "odd-name \"2\""(args: { [key: string]: unknown }): Promise<unknown>;
  /** Searches. Finds things. *\/ evil() */
  search(args: {
    limit?: number;
    /** What to look for. */
    query: string;
    within?: {
      /** Not *\/ more. */
      days: number;
    };
  }): Promise<{ url?: string }[]>;
};
"""
    )
    assert is_typescript(text)


def test_no_tools_are_an_empty_object() -> None:
    """PTC-142."""
    assert declarations([]).endswith("\ndeclare const tools: {};\n")
    assert is_typescript(declarations([]))


@pytest.mark.parametrize(
    "name", ["get", "set", "constructor", "async", "static", "readonly", "delete", "a b", "é", "\0"]
)
def test_any_name_gives_a_method(name: str) -> None:
    """PTC-142 as it is, or in quotes."""
    text = declarations([tool(name, parameters={"properties": {name: {"type": "string"}}})])
    assert is_typescript(text)
    assert text.count(": string }") == 2


NESTINGS: dict[str, Any] = {
    "properties": lambda inner: {"properties": {"a": inner}},
    "described properties": lambda inner: {"properties": {"a": inner, "b": {"description": "b"}}},
    "items": lambda inner: {"items": inner},
    "prefixItems": lambda inner: {"prefixItems": [inner]},
    "additionalProperties": lambda inner: {"additionalProperties": inner},
    "anyOf": lambda inner: {"anyOf": [inner, {"type": "null"}]},
    "allOf": lambda inner: {"allOf": [inner, {"type": "object"}]},
    "lists": lambda inner: [inner],
    "unknown words": lambda inner: {"x": inner},
}


@pytest.mark.parametrize("name", NESTINGS)
def test_a_schema_may_be_deep(name: str) -> None:
    """PTC-142 5,000 levels, through any keyword."""
    schema: Any = {"type": "string"}
    for _ in range(5_000):
        schema = NESTINGS[name](schema)
    text = declarations([tool("deep", parameters=schema, output=schema)])
    assert is_typescript(text)
    assert len(text) < 200_000


def test_references_that_fan_out_end() -> None:
    """PTC-142 sixty-four doublings; siblings of the deep part keep their plain types."""
    levels: dict[str, Any] = {
        f"d{n}": {"properties": {key: {"$ref": f"#/$defs/d{n + 1}"} for key in "ab"}} for n in range(64)
    }
    text = schema_type({"$ref": "#/$defs/d0", "$defs": levels})
    assert len(text) < 200_000
    assert is_typescript(f"type T = {text};")
    wide: Any = {"properties": {"a": {"$ref": "#/$defs/d0"}, "z": {"type": "string"}}, "$defs": levels}
    assert schema_type(wide).endswith("z?: string;\n}")


SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
_KEYWORDS = """
    type enum const anyOf oneOf allOf items prefixItems properties required additionalProperties patternProperties
    $ref $defs description minItems maxItems title not if
"""
KEYWORDS = st.sampled_from(_KEYWORDS.split())
WORDS = st.sampled_from(
    [
        "object",
        "array",
        "string",
        "integer",
        "null",
        "#",
        "#/$defs/a",
        "#/properties/a",
        "a",
        "*/",
        "`",
        "new",
        "\ud800",
    ]
)
VALUES = st.recursive(
    SCALARS | WORDS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(KEYWORDS | WORDS | st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=25,
)


@settings(max_examples=300, deadline=None)
@given(parameters=VALUES, output=VALUES, name=st.text(min_size=1, max_size=8) | WORDS, description=st.text())
@example(parameters={"properties": {"a": {"description": "*/*/"}}}, output=None, name="*/", description="/**/ */")
@example(
    parameters={"const": "\u2028"}, output={"enum": [float("inf"), -0.0]}, name="\u2028", description="\ud83d\ude00"
)
def test_any_json_value_may_be_a_schema(parameters: Any, output: Any, name: str, description: str) -> None:
    """PTC-142 never an error, always TypeScript, always writable as UTF-8."""
    text = declarations([tool(name, parameters=parameters, output=output, description=description)])
    assert is_typescript(text)


def shuffled(value: Any, chance: random.Random) -> Any:
    """An equal value with the members of its objects in another order."""
    if isinstance(value, list):
        return [shuffled(item, chance) for item in value]
    if isinstance(value, dict):
        items = [(key, shuffled(item, chance)) for key, item in value.items()]
        chance.shuffle(items)
        return dict(items)
    return value


@settings(max_examples=100, deadline=None)
@given(schemas=st.lists(VALUES, max_size=4), chance=st.randoms(use_true_random=False))
def test_an_equal_set_gives_equal_bytes(schemas: list[Any], chance: random.Random) -> None:
    """PTC-142 in any order of the tools and of the members of their schemas."""
    names = [f"tool{number}" for number in range(len(schemas))]
    once = [tool(name, parameters=schema, output=schema) for name, schema in zip(names, schemas, strict=True)]
    again = [
        tool(name, parameters=shuffled(schema, chance), output=shuffled(schema, chance))
        for name, schema in zip(names, schemas, strict=True)
    ]
    chance.shuffle(again)
    assert declarations(once).encode() == declarations(again).encode()


def test_the_order_of_tools_does_not_matter() -> None:
    """PTC-142 every order of four."""
    tools = [tool(name) for name in ("b", "a", "B", "é")]
    assert len({declarations(order) for order in itertools.permutations(tools)}) == 1
