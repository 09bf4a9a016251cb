"""Tools and checks that the tests of `ptc.tools` share."""

import asyncio
from collections.abc import Callable
from typing import Any

import tree_sitter
import tree_sitter_typescript

from ptc.tools import CodeTools, Tool, ToolResult

OBJECT: dict[str, Any] = {"type": "object"}

_PARSER = tree_sitter.Parser(tree_sitter.Language(tree_sitter_typescript.language_typescript()))


def tool(
    name: str,
    call: Callable[[Any], Any] = lambda arguments: arguments,
    parameters: Any = OBJECT,
    *,
    description: str = "Does it.",
    output: Any = None,
    safe: bool | Callable[[Any], bool] = False,
) -> Tool:
    """A tool that gives its arguments back, unless told otherwise."""
    return Tool(name, description, parameters, call, output, safe)


async def run(tools: CodeTools, code: str, **arguments: Any) -> ToolResult:
    """What `run_code` says to a program."""
    return await tools.call("run_code", {"code": code, "description": "a test", **arguments}, "c1")


def is_typescript(text: str) -> bool:
    """Whether a parser of TypeScript reads the text without an error."""
    return not _PARSER.parse(text.encode()).root_node.has_error


async def soon(is_so: Callable[[], bool]) -> None:
    """Wait until something is so, at most ten seconds."""
    async with asyncio.timeout(10):
        while not is_so():  # noqa: ASYNC110  # there is no event for what a process does
            await asyncio.sleep(0.005)
