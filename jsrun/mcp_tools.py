"""Tools of an MCP server, over the official `mcp` package (extra `jsrun[mcp]`), which is imported only here.

The connection lives in a task of its own. The package cancels the task that holds a connection when the connection
breaks; so a server that dies fails the calls to it, and nothing else of the host.
"""

import asyncio
import contextlib
import io
import os
import shlex
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TextIO, TypeAlias

from pydantic_core import PydanticSerializationError, to_json

from jsrun._text import cut, quoted
from jsrun.belt import Belt, Tool
from jsrun.env import ToolResult
from jsrun.errors import BeltError, DoorFailure
from jsrun.schema_checks import check_schema
from ptc.outcome import UNSET
from ptc.wire import Json

if TYPE_CHECKING:
    import mcp
    import mcp.types

Tools: TypeAlias = "list[mcp.types.Tool]"

# A server that is installed on its first start may take long; one that says nothing for this long never will.
START_SECONDS = 60.0
# A server that hands out ever new pages would keep us for ever.
MAX_TOOLS = 1_000
# The package nests the arguments in a message of this many levels at most, and writes only so many levels.
_MESSAGE_LEVELS = 4


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
    with _error_stream() as errors:
        connection = _Connection(_client(command, url, env, errors))
        try:
            yield Belt(connection.tool(item, prefix) for item in await connection.tools())
        finally:
            await connection.close()


class _Connection:
    """One client in a task of its own, from when it is made until it is closed or breaks."""

    def __init__(self, client: "mcp.Client") -> None:
        self._client = client
        self._ready: asyncio.Future[Tools] = asyncio.get_running_loop().create_future()
        self._stop = asyncio.Event()
        self._task = asyncio.create_task(self._hold())

    async def _hold(self) -> None:
        try:
            async with self._client:
                self._ready.set_result(await _list(self._client))
                await self._stop.wait()
        except (Exception, asyncio.CancelledError) as error:  # whatever the package raises, in groups of groups
            if self._stop.is_set():
                self._ready.cancel()  # nobody waits for it any more
            elif not self._ready.done():
                self._ready.set_exception(BeltError(f"The MCP server cannot be used: {_reason(error)}"))

    async def tools(self) -> Tools:
        """What the server offers, once it has said so."""
        try:
            async with asyncio.timeout(START_SECONDS):
                return await asyncio.shield(self._ready)
        except TimeoutError:
            raise BeltError(f"The MCP server did not answer within {START_SECONDS:g} seconds.") from None

    async def close(self) -> None:
        """End the connection, and with it a server that was started."""
        self._stop.set()
        if not self._ready.done():
            self._task.cancel()  # it is still starting
        await asyncio.wait({self._task})

    def tool(self, item: "mcp.types.Tool", prefix: str) -> Tool:
        """One tool of the server as one of ours."""
        schema: dict[str, Json] = {key: value for key, value in item.input_schema.items() if key != "$schema"}
        return Tool(
            name=prefix + item.name,
            description=item.description or "",
            input_schema={"type": "object"} if check_schema(schema) else schema,
            call=self._caller(item.name),
            read_only=bool(item.annotations and item.annotations.read_only_hint),
        )

    def _caller(self, name: str) -> Callable[[dict[str, Json]], object]:
        async def call(args: dict[str, Json]) -> ToolResult:
            _check_sendable(args)
            calling = asyncio.ensure_future(self._client.call_tool(name, args))
            try:
                await asyncio.wait({calling, self._task}, return_when=asyncio.FIRST_COMPLETED)
                if not calling.done():
                    raise DoorFailure("The MCP server is gone.")
                result = calling.result()
            except Exception as error:
                if isinstance(error, DoorFailure):
                    raise
                raise DoorFailure(f"The MCP server did not do the call: {_reason(error)}") from None
            finally:
                calling.cancel()
            text = "\n".join(_text(part.model_dump(by_alias=True)) for part in result.content)
            json: Json = result.structured_content
            return ToolResult(text=text, json=UNSET if json is None else json, failed=result.is_error)

        return call


def _client(
    command: str | Sequence[str] | None, url: str | None, env: Mapping[str, str] | None, errors: TextIO
) -> "mcp.Client":
    try:
        from mcp import Client, StdioServerParameters, stdio_client
    except ImportError:  # absent, or a version before 2
        raise BeltError("Tools of MCP servers need the package mcp, version 2. Install the extra jsrun[mcp].") from None
    if command is None:
        return Client(str(url))
    words = shlex.split(command) if isinstance(command, str) else list(command)
    if not words:
        raise BeltError("The command of the MCP server is empty.")
    server = StdioServerParameters(command=words[0], args=words[1:], env=None if env is None else dict(env))
    return Client(stdio_client(server, errlog=errors))


async def _list(client: "mcp.Client") -> Tools:
    listed: Tools = []
    cursor: str | None = None
    while True:
        page = await client.list_tools(cursor=cursor)
        listed += page.tools
        cursor = page.next_cursor
        if cursor is None:
            return listed
        if len(listed) > MAX_TOOLS or not page.tools:
            raise ValueError(f"it lists more than {MAX_TOOLS:,} tools, or pages without end")


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


def _check_sendable(args: dict[str, Json]) -> None:
    """Refuse what the package cannot write, which would break the whole connection."""
    wrapped: object = args
    for _ in range(_MESSAGE_LEVELS):
        wrapped = {"": wrapped}
    try:
        to_json(wrapped)
    except (PydanticSerializationError, ValueError):
        raise DoorFailure(
            "args: a lone surrogate, or nesting beyond what the protocol's library writes, cannot be sent to the server"
        ) from None


def _text(part: Mapping[str, object]) -> str:
    """A part of a result as text; of what is no text, what it is."""
    if part.get("type") == "text":
        return str(part.get("text", ""))
    resource = part.get("resource")
    if isinstance(resource, Mapping) and isinstance(resource.get("text"), str):
        return str(resource["text"])
    return f"({part.get('type')}, not shown)"


def _reason(error: BaseException) -> str:
    """What went wrong, from inside whatever groups it is in."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, FileNotFoundError):
        return f"the command {quoted(str(error.filename))} is not installed."
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}."
    return cut(str(getattr(error, "message", "")) or str(error) or "the connection ended.")
