"""Tools in real runs: what the model reads, and what stands in the history and the store."""

import asyncio
import threading
import time
from typing import Any

from jsrun.agent.config import RuntimeLimits
from jsrun.agent.events import ToolExecuted, ToolStarted
from jsrun.agent.messages import AssistantMessage, ToolMessage
from jsrun.agent.runtime import start, start_with_session_store
from jsrun.agent.stores.memory import MemorySessions
from jsrun.agent.tools import Tool, ToolContext, ToolDefinition
from tests.agent.helpers import DONE, PATIENCE_S, Hang, Seen, asks, call, config, results, script, seen, tool


async def test_a_model_that_is_told_its_mistakes_can_correct_them() -> None:
    """AGT-060 Each round reads what was wrong with the one before; the handler runs once."""
    ran: list[object] = []

    async def handler(arguments: dict[str, Any], ctx: ToolContext) -> str:
        ran.append(arguments)
        return "right"

    schema: dict[str, Any] = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
    point = Tool(ToolDefinition("point", "", schema), handler)
    attempts = [("pint", "{}"), ("point", '{"x":'), ("point", '{"x":"1"}'), ("point", '{"x":1}')]
    provider = script(*[asks(call(str(n), *attempt)) for n, attempt in enumerate(attempts)], DONE)
    async with await start(config(provider, point)) as agent:
        assert await agent.run("hi", PATIENCE_S) == DONE
        history = await agent.history()
    read = results(provider.requests[-1])
    assert "no tool 'pint'" in read["0"]
    assert "not JSON" in read["1"]
    assert "/x" in read["2"]
    assert read["3"] == "right"
    assert ran == [{"x": 1}]
    flags = [message.is_error for message in history if isinstance(message, ToolMessage)]
    assert flags == [True, True, True, False]


async def test_tools_that_hang_cost_a_run_the_time_of_one() -> None:
    """AGT-059 The agent's own limit, five calls, one answer after it."""
    hang = Hang()
    limits = RuntimeLimits(tool_timeout=0.6, cancel_grace=0.2)
    provider = script(asks(*[call(str(number)) for number in range(5)]), DONE)
    started = time.monotonic()
    async with await start(config(provider, tool(hang), limits=limits)) as agent:
        assert await agent.run("hi", PATIENCE_S) == DONE
    assert time.monotonic() - started < 5 * 0.6
    assert set(results(provider.requests[1]).values()) == {"Tool error: timed out after 0.6 s"}


async def test_results_are_stored_in_call_order() -> None:
    """AGT-062 AGT-063 Whoever finished first, with values as JSON and too much of them cut."""
    first_may_end = asyncio.Event()

    async def late(arguments: dict[str, Any], ctx: ToolContext) -> str:
        await first_may_end.wait()
        return "x" * 30

    async def soon(arguments: dict[str, Any], ctx: ToolContext) -> dict[str, Any]:
        first_may_end.set()
        return {"a": [1, None]}

    watcher = Seen()
    catalog = MemorySessions()
    limits = RuntimeLimits(max_result_chars=20)
    provider = script(asks(call("1", "late"), call("2", "soon")), DONE)
    made = config(provider, tool(late, "late"), tool(soon, "soon"), limits=limits, dispatcher=watcher.dispatcher)
    async with await start_with_session_store(made, catalog.open("s")) as agent:
        await agent.run("hi", PATIENCE_S)
    stored = (await catalog.open("s").load()).messages
    one, two = [message for message in stored if isinstance(message, ToolMessage)]
    assert (one.tool_call_id, two.tool_call_id) == ("1", "2")
    assert one.content.startswith("x" * 20 + "\n")
    assert two.content == '{"a":[1,null]}'
    executed = await watcher.events(ToolExecuted)
    assert [event.content for event in executed] == [one.content, two.content]
    names = await watcher.names()
    assert max(i for i, name in enumerate(names) if name == "ToolStarted") < names.index("ToolExecuted")


async def test_an_agent_answers_while_a_plain_handler_blocks() -> None:
    """AGT-064 It blocks until the history was read, which a stalled loop could never do."""
    gate = threading.Event()
    watcher = Seen()

    def blocking(arguments: dict[str, Any], ctx: ToolContext) -> str:
        return "released" if gate.wait(PATIENCE_S) else "stalled"

    provider = script(asks(call("a")), DONE)
    async with await start(config(provider, tool(blocking), dispatcher=watcher.dispatcher)) as agent:
        handle = agent.start_run("hi", PATIENCE_S)
        async for record in handle.events():
            if isinstance(record.event, ToolStarted):
                assert len(await agent.history()) == 2
                gate.set()
        assert await handle.result() == DONE
    assert results(provider.requests[1]) == {"a": "released"}


async def test_a_batch_of_many_runs_some_at_a_time() -> None:
    """AGT-065 The largest batch there may be."""
    running, most = 0, 0

    async def handler(arguments: dict[str, Any], ctx: ToolContext) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1
        return ctx.call_id

    limits = RuntimeLimits(max_parallel_tools=5)
    provider = script(asks(*[call(str(number)) for number in range(128)]), DONE)
    async with await start(config(provider, tool(handler), limits=limits)) as agent:
        await agent.run("hi", PATIENCE_S)
    assert results(provider.requests[1]) == {str(number): str(number) for number in range(128)}
    assert most == 5


async def test_text_beside_calls_does_not_keep_them_from_running() -> None:
    """AGT-058 AGT-062 And a tool that fails is one result among the others."""

    async def bad(arguments: dict[str, Any], ctx: ToolContext) -> str:
        raise OSError("disk full")

    asked = AssistantMessage("I look.", (call("a"), call("b", "bad")), stop_reason="stop")
    provider = script(asked, DONE)
    async with await start(config(provider, tool(seen), tool(bad, "bad"))) as agent:
        assert await agent.run("hi", PATIENCE_S) == DONE
    assert results(provider.requests[1]) == {"a": "seen a", "b": "Tool error: OSError: disk full"}
