"""schema: TypeScript declarations of arbitrary JSON Schemas."""

from functools import cache
from typing import Any

import tree_sitter
import tree_sitter_typescript
from hypothesis import strategies as st

from fuzz.strategies import KEYS, schemas
from fuzz.targets import Target
from ptc.errors import UsageError
from ptc.tools import Tool, declarations
from ptc.tools.declarations import schema_type


def check(given: Any, _place: None) -> None:
    """Total, deterministic, and TypeScript that parses."""
    name, schema, output = given
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


def _parses(text: str) -> None:
    tree = _parser().parse(text.encode("utf-8", "surrogatepass"))
    assert not tree.root_node.has_error, f"no TypeScript: {text}"


@cache
def _parser() -> tree_sitter.Parser:
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_typescript.language_typescript()))


TARGET = Target(
    about="declarations of arbitrary JSON Schemas: total, deterministic, valid TypeScript",
    inputs=st.tuples(KEYS, schemas(), schemas()).map(list),
    check=check,
    guided=True,
)
