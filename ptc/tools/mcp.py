"""The tools of an MCP server as `Tool`s. Needs the extra `mcp`, which is imported only when it is used.

    async with stdio_tools([sys.executable, "server.py"]) as tools:
        code_tools = CodeTools(runtime, tools)

`mcp_tools` does the same for a client or session somebody else has opened.
"""

import asyncio
import contextlib
import io
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TextIO, TypeAlias

from pydantic_core import PydanticSerializationError, to_json

from ptc.errors import CallError, UsageError
from ptc.tools.arguments import Arguments, subschemas
from ptc.tools.model import Tool, copy_json, wait_out
from ptc.wire import Json

if TYPE_CHECKING:
    import mcp
    import mcp.types

    Client: TypeAlias = mcp.Client | mcp.ClientSession

__all__ = ["mcp_tools", "stdio_tools"]

# A server that is installed on its first start may take long; one that says nothing for this long never will.
START_SECONDS: Final = 60.0
# A server that hands out ever new pages would keep us for ever.
MAX_TOOLS: Final = 1_000
# The package nests arguments in a message of this many levels at most, and writes only so many levels.
_MESSAGE_LEVELS: Final = 4


async def mcp_tools(client: "Client", prefix: str = "") -> list[Tool]:
    """The tools a connected client or session offers now, each name with `prefix` before it.

    A tool that only reads, as its annotations say, is safe. Its result is the structured content if it declares a
    schema for that, else the text. A part of its input schema that we cannot check is left to the server. Raises
    `UsageError` if there are more than a thousand, and what the client raises if it has no connection.
    """
    return [_tool(client, item, prefix, None) for item in await _list(client)]


@contextlib.asynccontextmanager
async def stdio_tools(
    command: Sequence[str], *, env: Mapping[str, str] | None = None, prefix: str = ""
) -> AsyncIterator[list[Tool]]:
    """Start a server that speaks over its standard streams; its tools, as long as the block lasts.

    env: its variables, beside PATH, HOME and the like. `UsageError` if the extra is missing or the server cannot be
    used. A server that dies fails the calls to it, and nothing else.
    """
    _require()
    from mcp import Client, StdioServerParameters, stdio_client

    if isinstance(command, str) or not command:
        raise UsageError('command: a list of words is needed, like ["python", "server.py"]')
    parameters = StdioServerParameters(
        command=command[0], args=list(command[1:]), env=None if env is None else dict(env)
    )
    with _error_stream() as errors:
        client = Client(stdio_client(parameters, errlog=errors))
        listed: asyncio.Future[list[mcp.types.Tool]] = asyncio.get_running_loop().create_future()
        stop = asyncio.Event()

        async def hold() -> None:
            async with client:
                listed.set_result(await _list(client))
                await stop.wait()

        # A task of its own, because the package cancels the task that holds a connection when the connection breaks.
        connection = asyncio.create_task(hold())
        try:
            first: set[asyncio.Future[Any]] = {connection, listed}
            await asyncio.wait(first, timeout=START_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if not listed.done():
                raise UsageError(f"the MCP server cannot be used: {_why_not(connection)}")
            yield [_tool(client, item, prefix, connection) for item in listed.result()]
        finally:
            stop.set()
            if not listed.done():
                connection.cancel()
            await wait_out([connection])
            if not connection.cancelled():
                connection.exception()  # has been told, or is the end of a server that nobody asked any more


def _require() -> None:
    try:
        from mcp import Client  # noqa: F401
    except ImportError:  # absent, or a version before 2
        raise UsageError(
            "tools of MCP servers need the package mcp, version 2; install the extra: pip install 'subharness[mcp]'"
        ) from None


async def _list(client: "Client") -> "list[mcp.types.Tool]":
    _require()
    from mcp import ClientSession
    from mcp.types import PaginatedRequestParams

    listed: list[mcp.types.Tool] = []
    cursor: str | None = None
    while True:
        if isinstance(client, ClientSession):
            page = await client.list_tools(params=PaginatedRequestParams(cursor=cursor))
        else:
            page = await client.list_tools(cursor=cursor)
        listed += page.tools
        cursor = page.next_cursor
        if cursor is None:
            return listed
        if len(listed) > MAX_TOOLS or not page.tools:
            raise UsageError(f"the MCP server lists more than {MAX_TOOLS:,} tools, or pages without end")


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
        _check_sendable(arguments)
        calling = asyncio.ensure_future(client.call_tool(name, arguments))
        try:
            await asyncio.wait({calling, connection} if connection else {calling}, return_when=asyncio.FIRST_COMPLETED)
            if not calling.done():
                raise CallError("the MCP server is gone")
            result: Any = calling.result()
        except CallError:
            raise
        except Exception as error:
            raise CallError(f"the MCP server did not do the call: {_reason(error)}") from None
        finally:
            calling.cancel()
            await wait_out([calling])
        text = "\n".join(_text(part.model_dump(by_alias=True)) for part in result.content)
        if result.is_error:
            raise CallError(text or "the tool failed")
        if structured and result.structured_content is not None:
            content: Json = result.structured_content
            return content
        return text

    return call


def _check_sendable(arguments: dict[str, Json]) -> None:
    """Refuse what the package cannot write, which would break the whole connection."""
    wrapped: object = arguments
    for _ in range(_MESSAGE_LEVELS):
        wrapped = {"": wrapped}
    try:
        to_json(wrapped)
    except (PydanticSerializationError, ValueError):
        raise CallError("args: half a surrogate pair, or very deep nesting, cannot be sent to an MCP server") from None


def _text(part: Mapping[str, Any]) -> str:
    """A part of a result as text; of what is no text, what it is."""
    resource = part.get("resource")
    for holder in (part, resource if isinstance(resource, Mapping) else {}):
        if isinstance(holder.get("text"), str):
            return str(holder["text"])
    return f"({part.get('type')}, not shown)"


def _why_not(connection: "asyncio.Task[None]") -> str:
    if not connection.done():
        return f"it did not answer within {START_SECONDS:g} seconds"
    error = None if connection.cancelled() else connection.exception()
    return "the connection ended" if error is None else _reason(error)


def _reason(error: BaseException) -> str:
    """What went wrong, from inside whatever groups it is in."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, FileNotFoundError):
        return f'the command "{error.filename}" is not installed'
    return str(error) or "the connection ended"


@contextlib.contextmanager
def _error_stream() -> Iterator[TextIO]:
    """Where a server's complaints go: our own stderr, if a process can write to it."""
    try:
        sys.stderr.fileno()
    except (AttributeError, io.UnsupportedOperation, ValueError):
        with open(os.devnull, "w") as nowhere:  # noqa: PTH123  # no path of ours
            yield nowhere
    else:
        yield sys.stderr
