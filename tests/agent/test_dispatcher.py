"""The event dispatcher: consumers at their own pace, and what becomes of slow and broken ones."""

import asyncio
import json
import logging
import threading
import time
from datetime import UTC, datetime
from typing import get_args

import pytest

from jsrun.agent import events
from jsrun.agent.config import AgentIdentity
from jsrun.agent.dispatcher import EventDispatcher, EventQueue
from jsrun.agent.errors import ApiError
from jsrun.agent.events import Event, EventRecord, EventsDropped, InferenceDelta, RunFinished
from jsrun.agent.messages import AssistantMessage, ToolCall, UserMessage
from jsrun.agent.provider import InferenceMetadata
from jsrun.agent.runtime import start
from jsrun.agent.session import ReloadReport
from jsrun.spend import Spend
from tests.agent.helpers import DONE, PATIENCE_S, Hang, asks, call, config, eventually, no_tasks_left, script


def record(number: int) -> EventRecord:
    """The record of this number."""
    event = InferenceDelta(kind="text", text=str(number), index=0)
    return EventRecord(agent_id="a", seq=number, at=datetime.now(UTC), run_id="r", event=event)


def told(record: EventRecord) -> str:
    """What a record says: its text, or how many were dropped."""
    return f"-{record.event.count}" if isinstance(record.event, EventsDropped) else str(record.seq)


async def test_each_consumer_gets_every_record_in_order() -> None:
    """AGT-075 Async ones in a task, plain ones in a thread, each on its own."""
    one: list[EventRecord] = []
    two: list[EventRecord] = []
    threads: set[int] = set()

    async def asynchronous(record: EventRecord) -> None:
        one.append(record)

    def plain(record: EventRecord) -> None:
        threads.add(threading.get_ident())
        two.append(record)

    dispatcher = EventDispatcher()
    dispatcher.add(asynchronous)
    dispatcher.add(plain, name="plain")
    records = [record(number) for number in range(100)]
    for one_record in records:
        dispatcher.emit(one_record)
    await dispatcher.aclose()
    assert one == two == records
    assert threads
    assert threading.get_ident() not in threads
    await eventually(lambda: not any(thread.name == "events of plain" for thread in threading.enumerate()))


async def test_a_consumer_that_is_removed_gets_no_more() -> None:
    """AGT-075 The others go on."""
    one: list[str] = []
    two: list[str] = []

    async def first(record: EventRecord) -> None:
        one.append(told(record))

    async def second(record: EventRecord) -> None:
        two.append(told(record))

    dispatcher = EventDispatcher()
    remove = dispatcher.add(first)
    dispatcher.add(second)
    dispatcher.emit(record(1))
    remove()
    remove()
    dispatcher.emit(record(2))
    await dispatcher.aclose()
    assert one == ["1"]
    assert two == ["1", "2"]


async def test_a_full_queue_drops_for_that_consumer_alone_and_counts() -> None:
    """AGT-075 The next record it gets is preceded by the number of those it lost."""
    gate = asyncio.Event()
    busy = asyncio.Event()
    slow: list[str] = []
    quick: list[str] = []

    async def slow_one(record: EventRecord) -> None:
        busy.set()
        await gate.wait()
        slow.append(told(record))

    async def quick_one(record: EventRecord) -> None:
        quick.append(told(record))

    dispatcher = EventDispatcher(queue_size=3)
    dispatcher.add(slow_one)
    dispatcher.add(quick_one)
    dispatcher.emit(record(0))
    await busy.wait()
    for number in range(1, 9):
        dispatcher.emit(record(number))
        await eventually(lambda number=number: len(quick) == number + 1)  # type: ignore[misc]  # bound now
    gate.set()
    await eventually(lambda: len(slow) == 4)
    dispatcher.emit(record(9))
    await dispatcher.aclose()
    assert quick == [str(number) for number in range(10)]
    assert slow == ["0", "1", "2", "3", "-5", "9"]


async def test_a_thread_that_is_stuck_holds_nobody_up() -> None:
    """AGT-075 A blocked plain consumer loses records, emitting does not wait, and closing gives up on it in time."""
    gate = threading.Event()
    got: list[str] = []

    def stuck(record: EventRecord) -> None:
        gate.wait(PATIENCE_S)
        got.append(told(record))

    dispatcher = EventDispatcher(queue_size=2)
    dispatcher.add(stuck, name="stuck")
    try:
        started = time.monotonic()
        for number in range(10_000):
            dispatcher.emit(record(number))
        await dispatcher.aclose(timeout=0.1)
        assert time.monotonic() - started < PATIENCE_S / 2
        assert got == []
    finally:
        gate.set()
    await eventually(lambda: not any(thread.name == "events of stuck" for thread in threading.enumerate()))
    assert len(got) <= 4  # the one in hand, two in the queue, and the marker


async def test_closing_ends_a_consumer_that_hangs() -> None:
    """AGT-075 Its task is gone when the dispatcher is closed."""
    entered = asyncio.Event()

    async def hangs(record: EventRecord) -> None:
        entered.set()
        await Hang()()

    dispatcher = EventDispatcher()
    dispatcher.add(hangs)
    dispatcher.emit(record(1))
    await entered.wait()
    await dispatcher.aclose(timeout=0.05)
    assert no_tasks_left()


@pytest.mark.parametrize("plain", [False, True])
async def test_ten_failures_in_a_row_remove_a_consumer(plain: bool, caplog: pytest.LogCaptureFixture) -> None:
    """AGT-075 Nine are forgiven by one success; each is logged on one line."""
    seen: list[str] = []

    def consume(record: EventRecord) -> None:
        seen.append(told(record))
        if record.seq != 9:
            raise ValueError("broken\nbadly")

    async def consume_async(record: EventRecord) -> None:
        consume(record)

    dispatcher = EventDispatcher()
    with caplog.at_level(logging.WARNING, "jsrun.agent"):
        dispatcher.add(consume if plain else consume_async, name="bad")
        for number in range(30):
            dispatcher.emit(record(number))
        await eventually(lambda: any("removed" in entry.message for entry in caplog.records))
        dispatcher.emit(record(99))
        await dispatcher.aclose()
    assert seen == [str(number) for number in range(20)]
    assert "ValueError: broken" in caplog.records[0].message
    assert all("\n" not in entry.message for entry in caplog.records)


async def test_a_consumer_that_exits_is_only_a_failing_one() -> None:
    """AGT-075 SystemExit and a cancellation of its own included."""
    seen: list[str] = []

    async def consume(record: EventRecord) -> None:
        seen.append(told(record))
        raise SystemExit(1) if record.seq == 0 else asyncio.CancelledError

    dispatcher = EventDispatcher()
    dispatcher.add(consume)
    for number in range(3):
        dispatcher.emit(record(number))
    await dispatcher.aclose()
    assert seen == ["0", "1", "2"]


async def test_consumers_change_neither_result_nor_duration_of_a_run() -> None:
    """AGT-075 One is slow, one blocks, one raises."""
    gate = threading.Event()
    forever = asyncio.Event()

    async def slow(record: EventRecord) -> None:
        await forever.wait()

    def blocking(record: EventRecord) -> None:
        gate.wait(PATIENCE_S)

    async def raising(record: EventRecord) -> None:
        raise RuntimeError("no")

    dispatcher = EventDispatcher(queue_size=4)
    for consumer in (slow, blocking, raising):
        dispatcher.add(consumer)
    try:
        started = time.monotonic()
        provider = script(asks(call("a"), call("b")), DONE)
        async with await start(config(provider, dispatcher=dispatcher)) as agent:
            assert await agent.run("hi", PATIENCE_S) == DONE
        assert time.monotonic() - started < PATIENCE_S / 2
    finally:
        gate.set()
        forever.set()
        await dispatcher.aclose()


async def test_stopping_an_agent_leaves_its_dispatcher_open() -> None:
    """AGT-075 Its creator owns it, and may use it for several agents."""
    names: list[str] = []

    async def consume(record: EventRecord) -> None:
        names.append(type(record.event).__name__)

    dispatcher = EventDispatcher()
    dispatcher.add(consume)
    for _ in range(2):
        async with await start(config(script(DONE), dispatcher=dispatcher)) as agent:
            await agent.run("hi", PATIENCE_S)
    await dispatcher.aclose()
    assert names.count("SessionStarted") == names.count("SessionEnded") == names.count("RunFinished") == 2


async def test_a_closed_dispatcher_takes_nothing_and_says_nothing() -> None:
    """AGT-075 Emitting never raises; adding to it is misuse."""
    dispatcher = EventDispatcher()
    await dispatcher.aclose()
    await dispatcher.aclose()
    dispatcher.emit(record(1))
    with pytest.raises(RuntimeError, match="closed"):
        dispatcher.add(lambda record: None)


@pytest.mark.parametrize("size", [0, -1, True, 1.5])
def test_the_size_of_a_queue_is_a_whole_number(size: int) -> None:
    """AGT-075 At least one record."""
    with pytest.raises(ValueError, match="queue_size"):
        EventDispatcher(size)


async def test_a_queue_of_a_run_drops_and_ends_as_the_others() -> None:
    """AGT-075 The same rules for the reader of one run."""
    queue = EventQueue(2)
    for number in range(5):
        queue.put(record(number))
    assert [told(await anext(queue)), told(await anext(queue))] == ["0", "1"]
    queue.put(record(5))
    queue.close()
    queue.put(record(6))
    assert [told(item) async for item in queue] == ["-3", "5"]


def test_every_event_becomes_json_and_names_its_kind() -> None:
    """AGT-071 Also those that hold messages, errors and reports."""
    message = AssistantMessage("m", (ToolCall("a", "look", "{}"),), stop_reason="tool_use")
    usage = Spend(model="m", calls=1)
    some: list[Event] = [
        events.SessionStarted(identity=AgentIdentity(id="a", name="n"), model="m", system_prompt=None),
        events.SessionEnded(reason=events.MaxIterationsExceeded(limit=3)),
        events.SessionReloaded(report=ReloadReport("h", False, (UserMessage("lost"),))),
        events.RunStarted(kind="prompt"),
        RunFinished(status="failed", error=None, usage=usage, duration=1.0),
        events.Committed(commit_id="c", messages=(UserMessage("hi"), message)),
        events.CommitFailed(commit_id="c", error=ApiError("x")),
        events.InferenceStarted(model="m", message_count=1, tool_count=0),
        InferenceDelta(kind="text", text="t", index=0),
        events.InferenceCompleted(
            message=message, metadata=InferenceMetadata(input_tokens=1), duration=0.5, sent=(UserMessage("hi"),)
        ),
        events.InferenceFailed(error=ApiError("down", 500), duration=0.5, sent=()),
        events.ToolStarted(call=message.tool_calls[0]),
        events.ToolExecuted(
            call=message.tool_calls[0],
            content="c",
            is_error=False,
            ran=True,
            timed_out=False,
            abandoned=False,
            duration=0.1,
        ),
        events.ToolBlocked(call=message.tool_calls[0], hook_name="h", reason="r"),
        events.HookActed(hook_name="h", point="on_tool_call", action="blocked_tool"),
        events.HookFailed(hook_name="h", point="on_error", error="e"),
        EventsDropped(count=2),
    ]
    assert {type(event) for event in some} == set(get_args(Event))
    kinds = set()
    for event in some:
        data = json.loads(
            EventRecord(agent_id="a", seq=1, at=datetime.now(UTC), run_id=None, event=event).model_dump_json()
        )
        kinds.add(data["event"]["type"])
    assert len(kinds) == len(some)
    failed = json.loads(some[10].model_dump_json())
    assert failed["error"] == {"kind": "ApiError", "message": "down (status 500)"}
    assert json.loads(some[5].model_dump_json())["messages"][0] == {"role": "user", "content": "hi"}
