"""A connection to an MCP server over the official `mcp` package (the extra `mcp`), which is imported when it is used.

Failures are `McpFailure`, whose text is a sentence without its capital and its full stop, for the caller to complete.
"""

import asyncio
import contextlib
import io
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TextIO, TypeAlias

from pydantic_core import PydanticSerializationError, to_json

from ptc.tools.model import wait_out
from ptc.wire import Json

if TYPE_CHECKING:
    import mcp
    import mcp.types

    Client: TypeAlias = mcp.Client | mcp.ClientSession

__all__ = ["Connection", "McpFailure", "call_tool", "error_stream", "list_tools", "require_mcp", "result_text", "stdio"]

# A server that is installed on its first start may take long; one that says nothing for this long never will.
START_SECONDS: Final = 60.0
# A server that hands out ever new pages would keep us for ever.
MAX_TOOLS: Final = 1_000
# The package nests arguments in a message of this many levels at most, and writes only so many levels.
_MESSAGE_LEVELS: Final = 4
# Of what a server says of its failure; a page of it helps nobody.
_REASON_CHARS: Final = 1_000


class McpFailure(Exception):
    """A server that cannot be used, or a call it did not do."""


class Connection:
    """One client in a task of its own, from when it is made until it is closed or breaks.

    A task of its own, because the package cancels the task that holds a connection when the connection breaks: so a
    server that dies fails the calls to it, and nothing else of the host.
    """

    def __init__(self, client: "mcp.Client") -> None:
        self.client = client
        self._listed: asyncio.Future[list[mcp.types.Tool]] = asyncio.get_running_loop().create_future()
        self._stop = asyncio.Event()
        self.task = asyncio.create_task(self._hold())

    async def _hold(self) -> None:
        async with self.client:
            self._listed.set_result(await list_tools(self.client))
            await self._stop.wait()

    async def tools(self, within: float = START_SECONDS) -> "list[mcp.types.Tool]":
        """What the server offers, once it has said so. McpFailure if it ends or says nothing for `within` seconds."""
        first: set[asyncio.Future[Any]] = {self.task, self._listed}
        await asyncio.wait(first, timeout=within, return_when=asyncio.FIRST_COMPLETED)
        if self._listed.done():
            return self._listed.result()
        if not self.task.done():
            raise McpFailure(f"the MCP server cannot be used: it did not answer within {within:g} seconds")
        error = None if self.task.cancelled() else self.task.exception()
        raise McpFailure(f"the MCP server cannot be used: {_reason(error)}")

    async def close(self) -> None:
        """End the connection, and with it a server that was started."""
        self._stop.set()
        if not self._listed.done():
            self.task.cancel()  # it is still starting
        await wait_out([self.task])
        if not self.task.cancelled():
            self.task.exception()  # has been told, or is the end of a server that nobody asked any more


def require_mcp() -> None:
    """McpFailure, with what to install, if the package is missing."""
    try:
        from mcp import Client  # noqa: F401
    except ImportError:  # absent, or a version before 2
        raise McpFailure(
            "tools of MCP servers need the package mcp, version 2; install the extra: pip install 'subharness[mcp]'"
        ) from None


def stdio(words: Sequence[str], env: Mapping[str, str] | None, errors: TextIO) -> "mcp.Client":
    """A client of a server to be started by a command; it gets `env` beside PATH, HOME and the like."""
    from mcp import Client, StdioServerParameters, stdio_client

    server = StdioServerParameters(command=words[0], args=list(words[1:]), env=None if env is None else dict(env))
    return Client(stdio_client(server, errlog=errors))


async def list_tools(client: "Client") -> "list[mcp.types.Tool]":
    """The tools a connected client or session offers. McpFailure for more than a thousand, or pages without end."""
    require_mcp()
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
            raise McpFailure(f"the MCP server lists more than {MAX_TOOLS:,} tools, or pages without end")


async def call_tool(
    client: "Client", name: str, arguments: dict[str, Json], holder: "asyncio.Task[None] | None" = None
) -> "mcp.types.CallToolResult":
    """One call. `holder` is the task that holds the connection, if it is ours: its end fails the call. McpFailure."""
    _check_sendable(arguments)
    calling = asyncio.ensure_future(client.call_tool(name, arguments))
    try:
        await asyncio.wait({calling, holder} if holder else {calling}, return_when=asyncio.FIRST_COMPLETED)
        if not calling.done():
            raise McpFailure("the MCP server is gone")
        return calling.result()
    except McpFailure:
        raise
    except Exception as error:
        raise McpFailure(f"the MCP server did not do the call: {_reason(error)}") from None
    finally:
        calling.cancel()
        await wait_out([calling])


def result_text(result: "mcp.types.CallToolResult") -> str:
    """The text of a result, a line a part; of what is no text, what it is."""
    return "\n".join(_text(part.model_dump(by_alias=True)) for part in result.content)


@contextlib.contextmanager
def error_stream() -> Iterator[TextIO]:
    """Where a server's complaints go: our own stderr, if a process can write to it."""
    try:
        sys.stderr.fileno()
    except (AttributeError, io.UnsupportedOperation, ValueError):
        with open(os.devnull, "w") as nowhere:  # noqa: PTH123  # no path of ours
            yield nowhere
    else:
        yield sys.stderr


def _check_sendable(arguments: dict[str, Json]) -> None:
    """Refuse what the package cannot write, which would break the whole connection."""
    wrapped: object = arguments
    for _ in range(_MESSAGE_LEVELS):
        wrapped = {"": wrapped}
    try:
        to_json(wrapped)
    except (PydanticSerializationError, ValueError):
        raise McpFailure("args: half a surrogate pair, or very deep nesting, cannot be sent to an MCP server") from None


def _text(part: Mapping[str, Any]) -> str:
    resource = part.get("resource")
    for holder in (part, resource if isinstance(resource, Mapping) else {}):
        if isinstance(holder.get("text"), str):
            return str(holder["text"])
    return f"({part.get('type')}, not shown)"


def _reason(error: BaseException | None) -> str:
    """What went wrong, from inside whatever groups it is in."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, FileNotFoundError):
        return f'the command "{error.filename}" is not installed'
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return (str(error) if error is not None else "")[:_REASON_CHARS].rstrip(".") or "the connection ended"
