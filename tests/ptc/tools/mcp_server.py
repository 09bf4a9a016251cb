"""An MCP server for the tests, made with the official package: `python mcp_server.py` speaks over standard streams."""

import asyncio
import os
from typing import Any

from mcp.server import MCPServer
from mcp.types import CallToolResult, ImageContent, TextContent, ToolAnnotations
from pydantic import BaseModel

server = MCPServer("test")
READS = ToolAnnotations(read_only_hint=True)
# Two calls of `meet` end when both are there, which shows that they are at work at the same time.
both = asyncio.Barrier(2)
log: list[str] = []


class Hit(BaseModel):
    """Something found."""

    title: str
    score: float


@server.tool(annotations=READS)
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


@server.tool(annotations=READS)
def search(query: str, limit: int = 3) -> list[Hit]:
    """Finds titles."""
    return [Hit(title=f"{query} {number}", score=1 / (number + 1)) for number in range(limit)]


@server.tool(structured_output=False)
def say(text: str) -> str:
    """Says it."""
    return text


@server.tool(annotations=READS)
async def meet(name: str) -> str:
    """Waits for another."""
    await asyncio.wait_for(both.wait(), 30)
    return name


@server.tool()
async def write(text: str) -> list[str]:
    """Writes a line, slowly."""
    log.append(f"begin {text}")
    await asyncio.sleep(0.01)
    log.append(f"end {text}")
    return log


@server.tool()
def fail(why: str) -> CallToolResult:
    """Fails."""
    return CallToolResult(content=[TextContent(type="text", text=why)], is_error=True)


@server.tool()
def picture() -> CallToolResult:
    """Shows."""
    image = ImageContent(type="image", data="AAAA", mime_type="image/png")
    return CallToolResult(content=[TextContent(type="text", text="look:"), image])


@server.tool()
def nothing() -> None:
    """Gives nothing."""


@server.tool()
def environment() -> dict[str, Any]:
    """Tells where it runs."""
    return {"pid": os.getpid(), "token": os.environ.get("TOKEN"), "secret": os.environ.get("HOST_SECRET")}


@server.tool()
async def hang() -> str:
    """Never answers."""
    await asyncio.Event().wait()
    return ""


@server.tool()
def die() -> str:
    """Ends the server."""
    os._exit(3)


if __name__ == "__main__":
    server.run()
