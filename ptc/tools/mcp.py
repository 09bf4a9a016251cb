"""The tools of an MCP server as `Tool`s. Needs the extra `mcp`, which is imported only when it is used.

    async with stdio_tools([sys.executable, "server.py"]) as tools:
        code_tools = CodeTools(runtime, tools)

`mcp_tools` does the same for a client or session somebody else has opened.
"""

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ptc.errors import CallError, UsageError
from ptc.tools.arguments import Arguments, subschemas
from ptc.tools.mcp_client import (
    Connection,
    McpFailure,
    call_tool,
    error_stream,
    list_tools,
    require_mcp,
    result_text,
    stdio,
)
from ptc.tools.model import Tool, copy_json
from ptc.wire import Json

if TYPE_CHECKING:
    import asyncio

    import mcp.types

    from ptc.tools.mcp_client import Client

__all__ = ["mcp_tools", "stdio_tools"]


async def mcp_tools(client: "Client", prefix: str = "") -> list[Tool]:
    """The tools a connected client or session offers now, each name with `prefix` before it.

    A tool that only reads, as its annotations say, is safe. Its result is the structured content if it declares a
    schema for that, else the text. A part of its input schema that we cannot check is left to the server. Raises
    `UsageError` if there are more than a thousand, and what the client raises if it has no connection.
    """
    with _usage():
        listed = await list_tools(client)
    return [_tool(client, item, prefix, None) for item in listed]


@contextlib.asynccontextmanager
async def stdio_tools(
    command: Sequence[str], *, env: Mapping[str, str] | None = None, prefix: str = ""
) -> AsyncIterator[list[Tool]]:
    """Start a server that speaks over its standard streams; its tools, as long as the block lasts.

    env: its variables, beside PATH, HOME and the like. `UsageError` if the extra is missing or the server cannot be
    used. A server that dies fails the calls to it, and nothing else.
    """
    if isinstance(command, str) or not command:
        raise UsageError('command: a list of words is needed, like ["python", "server.py"]')
    with error_stream() as errors:
        with _usage():
            require_mcp()
        connection = Connection(stdio(command, env, errors))
        try:
            with _usage():
                listed = await connection.tools()
            yield [_tool(connection.client, item, prefix, connection.task) for item in listed]
        finally:
            await connection.close()


@contextlib.contextmanager
def _usage() -> Iterator[None]:
    try:
        yield
    except McpFailure as failure:
        raise UsageError(str(failure)) from None


def _tool(client: "Client", item: "mcp.types.Tool", prefix: str, connection: "asyncio.Task[None] | None") -> Tool:
    output = item.output_schema
    return Tool(
        name=prefix + item.name,
        description=item.description or item.title or "",
        parameters=_checkable(item.input_schema),
        call=_caller(client, item.name, output is not None, connection),
        output=output if output is not None else {"type": "string"},
        safe=bool(item.annotations and item.annotations.read_only_hint),
    )


def _checkable(schema: dict[str, Any]) -> Json:
    """As much of a schema as can be checked here; the server checks all of it."""
    for simplified in (schema, _without_patterns(schema)):
        try:
            Arguments(simplified)
        except UsageError:
            continue
        return simplified
    return {"type": "object"}


def _without_patterns(schema: dict[str, Any]) -> dict[str, Any]:
    copied: Any = copy_json(schema)
    for inner in subschemas(copied):
        inner.pop("pattern", None)
    return dict(copied)


def _caller(
    client: "Client", name: str, structured: bool, connection: "asyncio.Task[None] | None"
) -> Callable[[dict[str, Json]], object]:
    async def call(arguments: dict[str, Json]) -> Json:
        try:
            result = await call_tool(client, name, arguments, connection)
        except McpFailure as failure:
            raise CallError(str(failure)) from None
        text = result_text(result)
        if result.is_error:
            raise CallError(text or "the tool failed")
        if structured and result.structured_content is not None:
            content: Json = result.structured_content
            return content
        return text

    return call
