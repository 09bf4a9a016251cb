"""Tools of an MCP server, over the official `mcp` package (extra `mcp`), which is imported when it is used."""

import contextlib
import shlex
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TextIO

from jsrun.belt import Belt, Tool
from jsrun.env import ToolResult
from jsrun.errors import BeltError, DoorFailure, JsrunError
from jsrun.schema_checks import check_schema
from ptc.outcome import UNSET
from ptc.tools.mcp_client import (
    START_SECONDS,
    Connection,
    McpFailure,
    call_tool,
    error_stream,
    require_mcp,
    result_text,
    stdio,
)
from ptc.wire import Json

if TYPE_CHECKING:
    import mcp
    import mcp.types


@contextlib.asynccontextmanager
async def mcp_belt(
    command: str | Sequence[str] | None = None,
    url: str | None = None,
    prefix: str = "",
    env: Mapping[str, str] | None = None,
) -> AsyncIterator[Belt]:
    """A belt of the server's tools, each name with `prefix` before it, as long as the block lasts.

    `command` (a shell-like text, or its words) starts a server that speaks over its standard streams; it gets `env`
    beside PATH, HOME and the like, and ends with the block. `url` reaches one over streamable HTTP. BeltError if the
    package is missing, the server cannot be started or reached, or two tools have one name. An input schema that is not
    Draft 2020-12 is left to the server to check.
    """
    if (command is None) == (url is None):
        raise BeltError("An MCP server is given either by its command or by its url.")
    with error_stream() as errors:
        with _told_as(BeltError):
            require_mcp()
        connection = Connection(_client(command, url, env, errors))
        try:
            with _told_as(BeltError):
                listed = await connection.tools(START_SECONDS)
            yield Belt(_tool(connection, item, prefix) for item in listed)
        finally:
            await connection.close()


def _client(
    command: str | Sequence[str] | None, url: str | None, env: Mapping[str, str] | None, errors: TextIO
) -> "mcp.Client":
    if command is None:
        from mcp import Client

        return Client(str(url))
    words = shlex.split(command) if isinstance(command, str) else list(command)
    if not words:
        raise BeltError("The command of the MCP server is empty.")
    return stdio(words, env, errors)


def _tool(connection: Connection, item: "mcp.types.Tool", prefix: str) -> Tool:
    """One tool of the server as one of ours."""
    schema: dict[str, Json] = {key: value for key, value in item.input_schema.items() if key != "$schema"}
    return Tool(
        name=prefix + item.name,
        description=item.description or "",
        input_schema={"type": "object"} if check_schema(schema) else schema,
        call=_caller(connection, item.name),
        read_only=bool(item.annotations and item.annotations.read_only_hint),
    )


def _caller(connection: Connection, name: str) -> Callable[[dict[str, Json]], object]:
    async def call(args: dict[str, Json]) -> ToolResult:
        with _told_as(DoorFailure):
            result = await call_tool(connection.client, name, args, connection.task)
        json: Json = result.structured_content
        return ToolResult(text=result_text(result), json=UNSET if json is None else json, failed=result.is_error)

    return call


@contextlib.contextmanager
def _told_as(error: type[JsrunError]) -> Iterator[None]:
    """What goes wrong inside, as an error of ours and as a whole sentence."""
    try:
        yield
    except McpFailure as failure:
        text = str(failure)
        raise error(f"{text[0].upper()}{text[1:]}.") from None
