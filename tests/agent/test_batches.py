"""Executing a batch: errors, time-outs, order, results, threads, cancellation."""

import asyncio
import threading
import time
from typing import Any

import pytest

from jsrun.agent.errors import ToolError
from jsrun.agent.events import ToolExecuted, ToolStarted
from jsrun.agent.hooks import Hooks, ReplaceResult
from jsrun.agent.messages import ToolMessage
from jsrun.agent.runtime import start
from jsrun.agent.tools import Tool, ToolContext
from jsrun.spend import Spend
from tests.agent.batch import Batch
from tests.agent.helpers import DONE, PATIENCE_S, Hang, asks, call, config, eventually, results, script, seen, tool


def raising(error: BaseException, name: str) -> Tool:
    """A tool that raises."""

    async def handler(arguments: dict[str, Any], ctx: ToolContext) -> str:
        raise error

    return tool(handler, name)


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ToolError("the file is gone"), "the file is gone"),
        (ToolError("two\nlines"), "two\nlines"),
        (KeyError("x"), "KeyError: 'x'"),
        (ValueError("first\nsecond"), "ValueError: first"),
        (ValueError(), "ValueError"),
        (ValueError("y" * 1000), f"ValueError: {'y' * 1000}"[:500]),
        (SystemExit(3), "SystemExit: 3"),
        (asyncio.CancelledError(), "CancelledError"),
        (GeneratorExit(), "GeneratorExit"),
    ],
)
@pytest.mark.parametrize("plain", [False, True])
async def test_a_handler_that_raises_is_one_error_result(error: BaseException, text: str, plain: bool) -> None:
    """AGT-058 Whatever it raises, async or in a thread; its neighbours finish, and no traceback shows."""

    def raise_it(arguments: dict[str, Any], ctx: ToolContext) -> str:
        raise error

    batch = Batch(tool(raise_it, "bad") if plain else raising(error, "bad"), tool(seen))
    first, second, third = await batch(call("a"), call("b", "bad"), call("c"))
    assert (first, third) == (ToolMessage("a", "seen a"), ToolMessage("c", "seen c"))
    assert second == ToolMessage("b", f"Tool error: {text}", is_error=True)


async def test_an_error_whose_text_cannot_be_made_is_still_an_error_result() -> None:
    """AGT-058 The class alone is told then."""

    class Nasty(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    (message,) = await Batch(raising(Nasty(), "bad"))(call("a", "bad"))
    assert message == ToolMessage("a", "Tool error: Nasty", is_error=True)


async def test_a_handler_that_breaks_does_not_break_the_run() -> None:
    """AGT-058 The model reads it, and answers."""
    provider = script(asks(call("a", "bad"), call("b")), DONE)
    async with await start(config(provider, raising(SystemExit("bye"), "bad"), tool(seen))) as agent:
        assert await agent.run("hi", PATIENCE_S) == DONE
    assert results(provider.requests[1]) == {"a": "Tool error: SystemExit: bye", "b": "seen b"}


async def test_tools_that_hang_end_together_when_their_time_is_up() -> None:
    """AGT-059 Five of them take the time of one; async and plain ones alike."""
    gate = threading.Event()

    def blocked(arguments: dict[str, Any], ctx: ToolContext) -> str:
        gate.wait(PATIENCE_S)
        return "late"

    batch = Batch(tool(Hang(), timeout=0.8), tool(blocked, "block", timeout=0.8))
    started = time.monotonic()
    try:
        messages = await batch(call("1"), call("2"), call("3", "block"), call("4"), call("5", "block"))
        took = time.monotonic() - started
    finally:
        gate.set()
    assert {message.content for message in messages} == {"Tool error: timed out after 0.8 s"}
    assert took < 4 * 0.8
    executed = batch.of(ToolExecuted)
    assert all(event.timed_out and event.ran and event.is_error for event in executed)
    assert [event.abandoned for event in executed] == [False, False, True, False, True]


async def test_a_tool_without_a_limit_outlives_that_of_the_agent() -> None:
    """AGT-059 `timeout=None` is none."""

    async def slow(arguments: dict[str, Any], ctx: ToolContext) -> str:
        await asyncio.sleep(0.2)
        return "done"

    (message,) = await Batch(tool(slow, timeout=None), tool_timeout=0.05)(call("a"))
    assert message == ToolMessage("a", "done")


async def test_results_are_in_call_order_whoever_finishes_first() -> None:
    """AGT-062 And all have started before the first is told as executed."""
    turns = [asyncio.Event() for _ in range(4)]

    async def handler(arguments: dict[str, Any], ctx: ToolContext) -> str:
        number = int(ctx.call_id)
        if number < 3:
            await turns[number + 1].wait()
        turns[number].set()
        return f"r{number}"

    batch = Batch(tool(handler))
    messages = await batch(*[call(str(number)) for number in range(4)])
    assert [message.content for message in messages] == ["r0", "r1", "r2", "r3"]
    kinds = [type(event) for event in batch.events]
    assert kinds == [ToolStarted] * 4 + [ToolExecuted] * 4
    assert [event.call.id for event in batch.of(ToolExecuted)] == ["0", "1", "2", "3"]


class Odd:
    """Nothing JSON knows."""


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain {text}", "plain {text}"),
        ("", ""),
        (None, "null"),
        (True, "true"),
        (12, "12"),
        ([1, "zwei", None], '[1,"zwei",null]'),
        ({"b": {"a": "é"}}, '{"b":{"a":"é"}}'),
    ],
)
async def test_a_result_is_text_or_json(value: object, text: str) -> None:
    """AGT-063 A text stays as it is; other values are compact JSON."""

    async def handler(arguments: dict[str, Any], ctx: ToolContext) -> object:
        return value

    assert await Batch(tool(handler))(call("a")) == (ToolMessage("a", text),)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, b"bytes", Odd(), {1: 2}, [Odd()]])
async def test_a_result_json_cannot_hold_is_an_error(value: object) -> None:
    """AGT-063 Not a text that looks like one."""

    async def handler(arguments: dict[str, Any], ctx: ToolContext) -> object:
        return value

    (message,) = await Batch(tool(handler))(call("a"))
    assert message.is_error
    assert message.content.startswith("Tool error: the result is not JSON")


async def test_a_result_that_holds_itself_is_an_error() -> None:
    """AGT-063 Instead of an endless text."""

    async def handler(arguments: dict[str, Any], ctx: ToolContext) -> object:
        loop: list[object] = []
        loop.append(loop)
        return loop

    (message,) = await Batch(tool(handler))(call("a"))
    assert message.is_error


async def test_an_oversized_result_is_cut_and_says_so() -> None:
    """AGT-063 The last line gives the kept and the full size; a tool's own limit counts before the agent's."""

    async def handler(arguments: dict[str, Any], ctx: ToolContext) -> str:
        return "x" * 12_345

    async def fails(arguments: dict[str, Any], ctx: ToolContext) -> str:
        raise ToolError("y" * 12_345)

    batch = Batch(
        tool(handler), tool(handler, "own", max_result_chars=20_000), tool(fails, "bad"), max_result_chars=1_000
    )
    cut, whole, error = await batch(call("a"), call("b", "own"), call("c", "bad"))
    lines = cut.content.split("\n")
    assert lines[0] == "x" * 1_000
    assert "1,000" in lines[1]
    assert "12,345" in lines[1]
    assert len(lines) == 2
    assert not cut.is_error
    assert whole.content == "x" * 12_345
    assert len(error.content) < 1_200


async def test_a_plain_handler_does_not_stall_the_loop() -> None:
    """AGT-064 Two that wait for each other, and for the loop, can only end in threads of their own."""
    barrier = threading.Barrier(2, timeout=PATIENCE_S)
    loop = asyncio.get_running_loop()
    names: set[str] = set()

    def blocking(arguments: dict[str, Any], ctx: ToolContext) -> str:
        names.add(threading.current_thread().name)
        barrier.wait()
        asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result(PATIENCE_S)  # the loop goes on meanwhile
        return "done"

    messages = await Batch(tool(blocking))(call("a"), call("b"))
    assert [message.content for message in messages] == ["done", "done"]
    assert threading.current_thread().name not in names
    await eventually(lambda: not any(thread.name.startswith("jsrun ") for thread in threading.enumerate()))


async def test_at_most_so_many_run_at_a_time_and_waiting_costs_no_time() -> None:
    """AGT-065 Ten tools on two places, each with less time than all of them take."""
    running = 0
    most = 0

    async def handler(arguments: dict[str, Any], ctx: ToolContext) -> str:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.25)
        running -= 1
        return "ok"

    batch = Batch(tool(handler, timeout=1.0), max_parallel_tools=2)
    messages = await batch(*[call(str(number)) for number in range(10)])
    assert {message.content for message in messages} == {"ok"}
    assert most == 2


async def test_what_a_tool_costs_is_counted() -> None:
    """AGT-034 From the loop and from threads, with the context saying which call it is."""
    contexts: list[ToolContext] = []

    async def asynchronous(arguments: dict[str, Any], ctx: ToolContext) -> str:
        contexts.append(ctx)
        ctx.add_usage(Spend(input=3))
        return ""

    def plain(arguments: dict[str, Any], ctx: ToolContext) -> str:
        ctx.add_usage(Spend(output=4))
        return ""

    batch = Batch(tool(asynchronous), tool(plain, "plain"))
    await batch(call("a"), call("b", "plain"))
    assert batch.spend == Spend(input=3, output=4)
    assert (contexts[0].run_id, contexts[0].call_id, contexts[0].tool_name) == ("run-1", "a", "look")


async def test_a_batch_that_is_cancelled_is_closed() -> None:
    """AGT-027 What had finished is kept as hooks leave it, what hung reads cancelled, what waited never started."""
    hang = Hang()
    done = asyncio.Event()

    async def quick(arguments: dict[str, Any], ctx: ToolContext) -> str:
        done.set()
        return "quick"

    hooks = Hooks("h", on_tool_result=lambda name, id, content, is_error, duration: ReplaceResult(content.upper()))
    batch = Batch(tool(quick, "quick"), tool(hang), hooks=[hooks], max_parallel_tools=2)
    task = asyncio.create_task(batch(call("a", "quick"), call("b"), call("c"), call("d")))
    await hang.wait_entered()
    await asyncio.wait_for(done.wait(), PATIENCE_S)
    await eventually(lambda: len(batch.of(ToolStarted)) == 3)
    task.cancel()
    messages = await task
    cancelled = [ToolMessage(id, "Tool error: cancelled", is_error=True) for id in "bcd"]
    assert messages == (ToolMessage("a", "QUICK"), *cancelled)
    assert hang.cancelled.is_set() or hang.left.is_set()
    assert [event.ran for event in batch.of(ToolExecuted)] == [True, True, True, False]


async def test_a_batch_that_is_cancelled_while_hooks_look_at_results_keeps_them() -> None:
    """AGT-027 The hook comes to its end."""
    entered, gate = asyncio.Event(), asyncio.Event()

    async def slow(name: str, id: str, content: str, is_error: bool, duration: float) -> ReplaceResult:
        entered.set()
        await gate.wait()
        return ReplaceResult("clean")

    batch = Batch(tool(seen), hooks=[Hooks("h", on_tool_result=slow, timeout=None)])
    task = asyncio.create_task(batch(call("a"), call("b")))
    await asyncio.wait_for(entered.wait(), PATIENCE_S)
    task.cancel()
    gate.set()
    assert await task == (ToolMessage("a", "clean"), ToolMessage("b", "clean"))


async def test_a_hook_cannot_change_arguments_on_the_way() -> None:
    """AGT-068 It decides on a copy."""
    got: list[dict[str, Any]] = []

    async def handler(arguments: dict[str, Any], ctx: ToolContext) -> str:
        got.append(arguments)
        return ""

    def meddle(name: str, id: str, arguments: Any) -> None:
        arguments.value["a"].append("more")
        arguments.value["b"] = 1

    await Batch(tool(handler), hooks=[Hooks("h", on_tool_call=meddle)])(call("a", "look", '{"a": []}'))
    assert got == [{"a": []}]
