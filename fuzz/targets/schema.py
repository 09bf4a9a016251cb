"""schema: arbitrary JSON Schemas as TypeScript, and arbitrary values against them."""

import asyncio
import json
from functools import cache
from typing import Any

import tree_sitter
import tree_sitter_typescript
from hypothesis import strategies as st

from fuzz.strategies import KEYS, json_values, schemas
from fuzz.targets import Target
from jsrun.schema_checks import check_schema
from jsrun.schemas import Schema
from ptc.errors import CallError, UsageError
from ptc.tools import Tool, declarations
from ptc.tools.arguments import Arguments
from ptc.tools.declarations import schema_type

# Patterns are matched by an engine in `jsrun`, and left aside here.
_PATTERNS = ('"pattern"', '"patternProperties"')


def check(given: Any, _place: None) -> None:
    """A declaration that is total, deterministic and TypeScript; a value that fits for `ptc` fits for `jsrun` too."""
    name, schema, output, value = given
    for one in (schema, output):
        text = schema_type(one)
        assert text == schema_type(one)
        _parses(f"type T = {text};\n")
    try:
        tool = Tool(name, "Fuzz. */ and more", schema, lambda arguments: None, output)
    except UsageError:
        return
    text = declarations([tool])
    assert text == declarations([tool])
    _parses(text)
    _fits(schema, {"a": value})


def _fits(schema: Any, value: Any) -> None:
    """Both of our checks of a value end; of a schema that both take, they agree."""
    try:
        arguments = Arguments(schema)
    except UsageError:
        return
    refused = asyncio.run(_refusal(arguments, value))
    if check_schema(schema):
        return
    problems = Schema(schema).problems_now(value, "value")
    if not any(keyword in json.dumps(schema) for keyword in _PATTERNS):
        assert bool(refused) == bool(problems), (refused, problems)


async def _refusal(arguments: Arguments, value: Any) -> str:
    try:
        await arguments.check(value)
    except CallError as error:
        return str(error)
    return ""


def _parses(text: str) -> None:
    tree = _parser().parse(text.encode("utf-8", "surrogatepass"))
    assert not tree.root_node.has_error, f"no TypeScript: {text}"


@cache
def _parser() -> tree_sitter.Parser:
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_typescript.language_typescript()))


TARGET = Target(
    about="arbitrary JSON Schemas: declarations that are valid TypeScript, and the same verdict on values everywhere",
    inputs=st.tuples(KEYS, schemas(), schemas(), json_values(3)).map(list),
    check=check,
    guided=True,
)
