"""Tools of real MCP servers, started as processes and spoken to over their standard streams or HTTP."""

import asyncio
import importlib.util
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jsrun import mcp_tools
from jsrun.belt import Belt
from jsrun.env import ToolResult
from jsrun.errors import BeltError, DoorFailure
from ptc.wire import Json

needs_mcp = pytest.mark.skipif(importlib.util.find_spec("mcp") is None, reason="the extra mcp is not installed")

SERVER = """
import asyncio, os, sys
from typing import Annotated, Any
from mcp.server import MCPServer
from mcp.types import CallToolResult, ImageContent, TextContent, ToolAnnotations

server = MCPServer("test")

@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def add(a: int, b: int) -> int:
    "Adds two numbers."
    return a + b

@server.tool()
def point(x: int) -> dict[str, Any]:
    return {"x": x, "nested": [{"y": None}]}

@server.tool(structured_output=False)
def say(text: str) -> str:
    return text

@server.tool()
def fail(why: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=why)], is_error=True)

@server.tool()
def picture() -> CallToolResult:
    image = ImageContent(type="image", data="AAAA", mime_type="image/png")
    return CallToolResult(content=[TextContent(type="text", text="look:"), image])

@server.tool()
def environment() -> list[str]:
    return [str(os.getpid()), os.environ.get("TOKEN", ""), os.environ.get("HOST_SECRET", "")]

@server.tool()
def die() -> str:
    os._exit(3)

@server.tool()
async def hang() -> str:
    await asyncio.sleep(3600)
    return ""

if len(sys.argv) > 1:
    server.run(transport="streamable-http", port=int(sys.argv[1]))
else:
    server.run()
"""

# A server without the package: it says what the test wants it to say.
RAW_SERVER = """
import json, sys
tools = json.loads(sys.argv[1])
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "initialize":
        answer = {"result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                             "serverInfo": {"name": "raw", "version": "1"}}}
    elif message.get("method") == "tools/list":
        answer = {"result": {"tools": tools}}
    elif message.get("method") == "tools/call":
        name = message["params"]["name"]
        if name == "garbage":
            print("}{", flush=True)
            print("[1, 2", flush=True)
        if name == "refuse":
            answer = {"error": {"code": -32602, "message": "not like this"}}
        else:
            answer = {"result": {"content": [{"type": "text", "text": "done"}]}}
    elif "id" in message:
        answer = {"error": {"code": -32601, "message": "unknown"}}
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
"""


@pytest.fixture
def server(tmp_path: Path) -> list[str]:
    """The command of the test server."""
    file = tmp_path / "server.py"
    file.write_text(SERVER)
    return [sys.executable, str(file)]


def raw_server(*tools: dict[str, Json]) -> list[str]:
    filled = [{"inputSchema": {"type": "object"}} | tool for tool in tools]
    return [sys.executable, "-c", RAW_SERVER, json.dumps(filled)]


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def pid_of(belt: Belt) -> int:
    result = await belt.call("environment", {})
    assert isinstance(result.json, dict)
    names = result.json["result"]
    assert isinstance(names, list)
    return int(str(names[0]))


@needs_mcp
async def test_tools_of_a_started_server_work_and_its_process_ends_with_the_block(server: list[str]) -> None:
    """JSR-121."""
    async with Belt.mcp(command=server) as belt:
        assert belt.names() == ("add", "point", "say", "fail", "picture", "environment", "die", "hang")
        assert [spec.name for spec in belt.specs() if spec.read_only] == ["add"]
        assert belt.specs()[0].description == "Adds two numbers."
        assert await belt.call("add", {"a": 2**70, "b": 1}) == ToolResult(
            "1180591620717411303425", {"result": 2**70 + 1}
        )
        assert (await belt.call("point", {"x": 1})).json == {"x": 1, "nested": [{"y": None}]}
        assert await belt.call("say", {"text": "a\0b\u2028é😀"}) == ToolResult(text="a\0b\u2028é😀")
        assert await belt.call("fail", {"why": "because"}) == ToolResult(text="because", failed=True)
        assert await belt.call("picture", {}) == ToolResult(text="look:\n(image, not shown)")
        pid = await pid_of(belt)
        assert is_there(pid)
    assert not is_there(pid)


@needs_mcp
async def test_arguments_are_checked_before_the_server_sees_them(server: list[str]) -> None:
    async with Belt.mcp(command=server) as belt:
        with pytest.raises(DoorFailure, match=r"args\.a: "):
            await belt.call("add", {"a": "1", "b": 2})
        for unsendable in ("\ud800", nested(400)):
            with pytest.raises(DoorFailure, match="cannot be sent"):
                await belt.call("say", {"text": "x", "more": unsendable})
        assert (await belt.call("say", {"text": "still there"})).text == "still there"


def nested(levels: int) -> Json:
    value: Json = 1
    for _ in range(levels):
        value = [value]
    return value


@needs_mcp
async def test_a_cancelled_call_leaves_the_server_usable(server: list[str]) -> None:
    async with Belt.mcp(command=server) as belt:
        hanging = asyncio.ensure_future(belt.call("hang", {}))
        await belt.call("add", {"a": 1, "b": 1})
        hanging.cancel()
        with pytest.raises(asyncio.CancelledError):
            await hanging
        answers = await asyncio.gather(*(belt.call("add", {"a": number, "b": 1}) for number in range(20)))
        assert [answer.text for answer in answers] == [str(number + 1) for number in range(20)]


@needs_mcp
async def test_a_server_that_dies_fails_its_calls_and_nothing_else(server: list[str]) -> None:
    async with Belt.mcp(command=server) as belt:
        hanging = asyncio.ensure_future(belt.call("hang", {}))
        for name, args in (("die", {}), ("add", {"a": 1, "b": 1})):
            with pytest.raises(DoorFailure, match="MCP server"):
                await asyncio.wait_for(belt.call(name, dict(args)), timeout=20)
        with pytest.raises(DoorFailure, match="MCP server"):
            await asyncio.wait_for(hanging, timeout=20)
    await asyncio.sleep(0)  # no cancellation is left over for this task


@needs_mcp
async def test_the_process_ends_also_when_the_block_fails(server: list[str]) -> None:
    with pytest.raises(ZeroDivisionError):
        async with Belt.mcp(command=server) as belt:
            pid = await pid_of(belt)
            raise ZeroDivisionError
    assert not is_there(pid)


@needs_mcp
async def test_names_get_the_prefix_and_the_server_only_the_environment_it_is_given(
    server: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOST_SECRET", "hidden")
    async with Belt.mcp(command=" ".join(server), prefix="test_", env={"TOKEN": "given"}) as belt:
        assert all(name.startswith("test_") for name in belt.names())
        result = await belt.call("test_environment", {})
        assert isinstance(result.json, dict)
        assert cast_list(result.json["result"])[1:] == ["given", ""]


def cast_list(value: Json) -> list[Json]:
    assert isinstance(value, list)
    return value


@needs_mcp
async def test_a_server_of_another_make_is_understood() -> None:
    """Older protocol, other schema dialects, errors of the protocol, lines that are no messages."""
    old: dict[str, Json] = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"n": {"type": "number"}},
    }
    tuples: dict[str, Json] = {"type": "object", "properties": {"t": {"type": "array", "items": [{"type": "string"}]}}}
    command = raw_server(
        {"name": "refuse", "inputSchema": old}, {"name": "garbage"}, {"name": "tuples", "inputSchema": tuples}
    )
    async with Belt.mcp(command=command) as belt:
        assert belt.specs()[0].input_schema == {"type": "object", "properties": {"n": {"type": "number"}}}
        assert belt.specs()[2].input_schema == {"type": "object"}
        with pytest.raises(DoorFailure, match=r"args\.n"):
            await belt.call("refuse", {"n": "x"})
        with pytest.raises(DoorFailure, match="not like this"):
            await belt.call("refuse", {"n": 1})
        assert await belt.call("garbage", {}) == ToolResult(text="done")
        assert await belt.call("tuples", {"t": [1]}) == ToolResult(text="done")


@needs_mcp
async def test_two_tools_of_one_name_are_refused_and_the_server_ends() -> None:
    with pytest.raises(BeltError, match='Two tools are called "a"'):
        async with Belt.mcp(command=raw_server({"name": "a"}, {"name": " a"})):
            pass


@needs_mcp
@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("/nothing/here --flag", '"/nothing/here" is not installed'),
        ([sys.executable, "-c", "pass"], "MCP server"),
        ([sys.executable, "-c", "print('hello')"], "MCP server"),
        ("", "command of the MCP server is empty"),
        ([], "command of the MCP server is empty"),
    ],
)
async def test_a_server_that_does_not_start_is_reported(command: str | list[str], message: str) -> None:
    with pytest.raises(BeltError, match=message):
        async with Belt.mcp(command=command):
            pass


@needs_mcp
async def test_a_server_that_says_nothing_is_given_up_and_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(mcp_tools, "START_SECONDS", 0.5)
    program = f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid())); time.sleep(3600)"
    with pytest.raises(BeltError, match=r"did not answer within 0\.5 seconds"):
        async with Belt.mcp(command=[sys.executable, "-c", program]):
            pass
    assert not is_there(int((tmp_path / "pid").read_text()))


@needs_mcp
async def test_a_server_is_reached_by_its_url(server: list[str]) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = await asyncio.create_subprocess_exec(*server, str(port), stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 30
        while True:
            try:
                async with Belt.mcp(url=f"http://127.0.0.1:{port}/mcp", prefix="far_") as belt:
                    assert (await belt.call("far_add", {"a": 1, "b": 2})).json == {"result": 3}
                break
            except BeltError:
                assert time.monotonic() < deadline
                await asyncio.sleep(0.1)
    finally:
        process.kill()
        await process.wait()


async def test_exactly_one_of_command_and_url_is_given() -> None:
    for belt in (Belt.mcp(), Belt.mcp(command="x", url="http://localhost")):
        with pytest.raises(BeltError, match="by its command or by its url"):
            async with belt:
                pass


async def test_a_missing_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(BeltError, match=r"pip install 'subharness\[mcp\]'"):
        async with Belt.mcp(command="x"):
            pass
