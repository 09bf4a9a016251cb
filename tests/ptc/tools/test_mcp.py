"""Tools of a real MCP server, a process spoken to over its standard streams, called from programs."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

import ptc
from ptc.tools import CodeTools, Tool, mcp_tools, stdio_tools
from tests.ptc.tools.toolbox import is_typescript, run

mcp = pytest.importorskip("mcp", reason="the extra mcp is not installed")

pytestmark = pytest.mark.asyncio(loop_scope="session")

COMMAND = [sys.executable, str(Path(__file__).with_name("mcp_server.py"))]

# A server without the package, which says what a test wants it to say.
RAW_SERVER = """
import json, sys
tools = json.loads(sys.argv[1])
for line in sys.stdin:
    message = json.loads(line)
    answer = {"error": {"code": -32601, "message": "unknown"}}
    if message.get("method") == "initialize":
        named = {"name": "raw", "version": "1"}
        answer = {"result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": named}}
    elif message.get("method") == "tools/list":
        answer = {"result": {"tools": tools, "nextCursor": "again"} if "endless" in sys.argv else {"tools": tools}}
    elif message.get("method") == "tools/call":
        answer = {"result": {"content": [{"type": "text", "text": json.dumps(message["params"]["arguments"])}]}}
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
"""


def raw_server(*tools: dict[str, Any]) -> list[str]:
    return [sys.executable, "-c", RAW_SERVER, json.dumps(tools)]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def tools() -> AsyncIterator[list[Tool]]:
    """The tools of one server that lives as long as the tests of this module."""
    async with stdio_tools(COMMAND, env={"TOKEN": "t"}) as tools:
        yield tools


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


class TestPrograms:
    async def test_a_program_calls_the_servers_tools(self, runtime: ptc.Runtime, tools: list[Tool]) -> None:
        """PTC-139 results are data, by the schema the server declares."""
        code = """
            const { result: hits } = await tools.search({ query: "needle", limit: 2 });
            const { result: sum } = await tools.add({ a: hits.length, b: 40 });
            return [hits.map(hit => hit.title), sum, await tools.say({ text: "hello" })];
        """
        result = await run(CodeTools(runtime, tools), code)
        assert result.outcome is not None, result.text
        assert result.outcome.value == [["needle 0", "needle 1"], 42, "hello"]

    async def test_the_declarations_show_what_the_server_says(self, runtime: ptc.Runtime, tools: list[Tool]) -> None:
        """PTC-142 arguments, results and descriptions."""
        text = CodeTools(runtime, tools).declarations()
        assert is_typescript(text)
        assert ("  /** Finds titles. */\n  search(args: { limit?: number; query: string }): Promise<{") in text
        assert "title: string" in text
        assert "say(args: { text: string }): Promise<string>;" in text

    async def test_a_failure_of_the_server_is_catchable(self, runtime: ptc.Runtime, tools: list[Tool]) -> None:
        """PTC-139 as ToolCallError with the server's text; arguments are checked before they are sent."""
        code = """
            const said = [];
            for (const [name, args] of [["fail", { why: "not today" }], ["add", { a: "x", b: 1 }], ["add", {}]])
                try { await tools[name](args) } catch (e) { said.push([e.name, e.toolName, e.message]) }
            return said;
        """
        result = await run(CodeTools(runtime, tools), code)
        assert result.outcome is not None, result.text
        assert result.outcome.value == [
            ["ToolCallError", "fail", "not today"],
            ["ToolCallError", "add", 'invalid arguments: args.a: "x" does not fit {"type":"integer"}'],
            ["ToolCallError", "add", "invalid arguments: args.a is missing; args.b is missing"],
        ]

    async def test_tools_that_only_read_overlap(self, runtime: ptc.Runtime, tools: list[Tool]) -> None:
        """PTC-140 as their annotations say; two calls that wait for each other both end."""
        code = "return await Promise.all(['a', 'b'].map(name => tools.meet({ name })))"
        result = await run(CodeTools(runtime, tools), code)
        assert result.outcome is not None, result.text
        assert result.outcome.value == [{"result": "a"}, {"result": "b"}]

    async def test_other_tools_run_alone(self, runtime: ptc.Runtime, tools: list[Tool]) -> None:
        """PTC-140 the server sees one call end before the next begins."""
        code = """
            const calls = [1, 2, 3].map(n => tools.write({ text: `${n}` }));
            return (await Promise.all(calls))[2].result;
        """
        result = await run(CodeTools(runtime, tools), code)
        assert result.outcome is not None, result.text
        assert result.outcome.value == [f"{what} {number}" for number in (1, 2, 3) for what in ("begin", "end")]

    async def test_content_that_is_no_text_is_named(self, runtime: ptc.Runtime, tools: list[Tool]) -> None:
        """PTC-139."""
        result = await run(CodeTools(runtime, tools), "return await tools.picture({})")
        assert result.text == "look:\n(image, not shown)"

    async def test_a_call_that_hangs_ends_with_the_program(self, runtime: ptc.Runtime, tools: list[Tool]) -> None:
        """PTC-141 and the connection is still good."""
        code_tools = CodeTools(runtime, tools)
        result = await run(code_tools, "await tools.hang({})", timeout=0.3)
        assert result.text.startswith("timeout: ")
        assert (await run(code_tools, "return (await tools.add({ a: 1, b: 1 })).result")).text == "2"

    async def test_a_direct_call_works_too(self, runtime: ptc.Runtime, tools: list[Tool]) -> None:
        """PTC-137 in native mode."""
        code_tools = CodeTools(runtime, tools, "native")
        assert (await code_tools.call("say", {"text": "hi"}, "c1")).text == "hi"
        failed = await code_tools.call("fail", {"why": "no"}, "c1")
        assert (failed.text, failed.is_error) == ("no", True)

    async def test_what_cannot_be_sent_fails_that_call_only(self, runtime: ptc.Runtime, tools: list[Tool]) -> None:
        """PTC-139 half a surrogate pair would break the connection."""
        code = r"""
            try { await tools.say({ text: "\ud800" }) }
            catch (e) { return [e.message, await tools.say({ text: "ok" })] }
        """
        result = await run(CodeTools(runtime, tools), code)
        assert result.outcome is not None, result.text
        message, after = result.outcome.value
        assert message.startswith("args: half a surrogate pair")
        assert after == "ok"


class TestServers:
    async def test_a_server_gets_its_variables_and_ends_with_the_block(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """PTC-139 and sees nothing else of the host's."""
        monkeypatch.setenv("HOST_SECRET", "s")
        async with stdio_tools(COMMAND, env={"TOKEN": "t"}, prefix="x_") as tools:
            where = next(tool for tool in tools if tool.name == "x_environment")
            told = await where.call({})
        assert (told["token"], told["secret"]) == ("t", None)
        assert not is_there(told["pid"])

    async def test_a_server_that_dies_fails_the_calls_to_it_and_nothing_else(self, runtime: ptc.Runtime) -> None:
        """PTC-141 the call under way and every later one."""
        async with stdio_tools(COMMAND) as tools:
            code = """
                const said = [];
                for (const call of [() => tools.die({}), () => tools.add({ a: 1, b: 1 })])
                    try { said.push(await call()) } catch (e) { said.push(e.name) }
                return said;
            """
            result = await asyncio.wait_for(run(CodeTools(runtime, tools), code), 30)
            assert result.outcome is not None, result.text
            assert result.outcome.value == ["ToolCallError", "ToolCallError"]

    async def test_a_session_of_somebody_else_serves_as_well(self, runtime: ptc.Runtime) -> None:
        """PTC-139 a ClientSession and a Client."""
        server = mcp.StdioServerParameters(command=COMMAND[0], args=COMMAND[1:])
        with open(os.devnull, "w") as nowhere:  # noqa: ASYNC230, PTH123
            async with (
                mcp.stdio_client(server, errlog=nowhere) as (read, write),
                mcp.ClientSession(read, write) as session,
            ):
                await session.initialize()
                tools = await mcp_tools(session, prefix="s_")
                result = await run(CodeTools(runtime, tools), "return (await tools.s_add({ a: 1, b: 2 })).result")
                assert result.text == "3"
            async with mcp.Client(mcp.stdio_client(server, errlog=nowhere)) as client:
                tools = await mcp_tools(client)
                result = await run(CodeTools(runtime, tools), "return (await tools.add({ a: 1, b: 3 })).result")
                assert result.text == "4"

    async def test_a_schema_we_cannot_check_is_left_to_the_server(self, runtime: ptc.Runtime) -> None:
        """PTC-139 a pattern is left out, a schema beyond that accepts any object."""
        looks_ahead = {"type": "object", "properties": {"a": {"type": "string", "pattern": "(?=x)"}}}
        broken = {"type": "object", "properties": {"a": {"type": "strng"}}}
        remote = {"type": "object", "properties": {"a": {"$ref": "https://example.com/x"}}}
        named = {"one": looks_ahead, "two": broken, "three": remote}
        command = raw_server(*({"name": name, "inputSchema": schema} for name, schema in named.items()))
        async with stdio_tools(command) as tools:
            code_tools = CodeTools(runtime, tools)
            assert [tool.parameters for tool in tools[1:]] == [{"type": "object"}] * 2
            code = """
                const said = [];
                for (const [name, a] of [["one", "y"], ["one", 1], ["two", 1], ["three", 1]])
                    try { said.push(await tools[name]({ a })) } catch (e) { said.push(e.message) }
                return said;
            """
            result = await run(code_tools, code)
            assert result.outcome is not None, result.text
            assert result.outcome.value == [
                '{"a": "y"}',
                'invalid arguments: args.a: 1 does not fit {"type":"string"}',
                '{"a": 1}',
                '{"a": 1}',
            ]

    @pytest.mark.parametrize(
        ("command", "reason"),
        [
            (["no-such-command-anywhere"], 'the command "no-such-command-anywhere" is not installed'),
            ([sys.executable, "-c", "raise SystemExit(3)"], "the MCP server cannot be used: "),
            ([*raw_server({"name": "a", "inputSchema": {"type": "object"}}), "endless"], "or pages without end"),
            ([], "a list of words is needed"),
            ("python server.py", "a list of words is needed"),
        ],
    )
    async def test_a_server_that_cannot_be_used_is_one_error(self, command: Any, reason: str) -> None:
        """PTC-139 with the reason."""
        with pytest.raises(ptc.UsageError, match=reason):
            async with stdio_tools(command):
                pass

    async def test_a_missing_extra_says_what_to_install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """PTC-139 importing ptc.tools needs no extra."""
        monkeypatch.setitem(sys.modules, "mcp", None)
        with pytest.raises(ptc.UsageError, match=r"pip install 'subharness\[mcp\]'"):
            async with stdio_tools(COMMAND):
                pass

    async def test_cancelling_the_start_ends_the_server(self) -> None:
        """PTC-141 one that says nothing."""
        command = [sys.executable, "-c", "import sys; sys.stdin.read()"]

        async def start() -> None:
            async with stdio_tools(command):
                pass

        starting = asyncio.create_task(start())
        await asyncio.wait({starting}, timeout=0.3)
        assert not starting.done()
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
