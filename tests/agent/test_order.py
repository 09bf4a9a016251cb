"""The events of a run, whichever way it ends."""

import asyncio
from typing import Any

import pytest

from jsrun.agent.errors import (
    AgentUnavailable,
    ApiError,
    InferenceError,
    IterationLimit,
    ParentConflict,
    RunCancelled,
    RuntimeFault,
    SessionFailure,
    Unavailable,
)
from jsrun.agent.events import (
    CommitFailed,
    Committed,
    ErrorEnd,
    EventRecord,
    InferenceCompleted,
    InferenceFailed,
    InferenceStarted,
    Interrupted,
    MaxIterationsExceeded,
    NormalEnd,
    RunFinished,
    RunStarted,
    SessionEnded,
    SessionReloaded,
    SessionStarted,
)
from jsrun.agent.hooks import BlockTool, Hooks, ReplaceMessages, ReplaceResult
from jsrun.agent.messages import ToolMessage
from jsrun.agent.provider import InferenceResult
from jsrun.agent.runtime import start, start_with_session_store
from jsrun.agent.stores.memory import MemorySessions
from jsrun.agent.testing import StreamingScriptedProvider
from tests.agent.helpers import (
    DONE,
    HI,
    Hang,
    Seen,
    Store,
    asks,
    call,
    config,
    failing,
    no_tasks_left,
    script,
)

ASKED = asks(call("a"))


def raising(*given: object) -> None:
    """A hook that fails."""
    raise ValueError("broken")


async def test_a_run_with_one_tool_and_a_store_gives_exactly_this_order() -> None:
    """AGT-071 AGT-072 With `seq` rising by one, the run's id on the run's events, and each commit where it belongs."""
    seen = Seen()
    settings = config(script(ASKED, DONE), dispatcher=seen.dispatcher)
    async with await start_with_session_store(settings, MemorySessions().open("s")) as agent:
        handle = agent.start_run("hi")
        await handle.result()
    assert await seen.names() == [
        "SessionStarted",
        "RunStarted",
        "Committed",
        "InferenceStarted",
        "InferenceCompleted",
        "Committed",
        "ToolStarted",
        "ToolExecuted",
        "Committed",
        "InferenceStarted",
        "InferenceCompleted",
        "Committed",
        "RunFinished",
        "SessionEnded",
    ]
    assert [record.seq for record in seen.records] == list(range(1, 15))
    assert [record.run_id for record in seen.records] == [None, *[handle.run_id] * 12, None]
    assert {record.agent_id for record in seen.records} == {settings.identity.id}
    times = [record.at for record in seen.records]
    assert times == sorted(times)
    committed = await seen.events(Committed)
    assert [event.messages for event in committed] == [(HI,), (ASKED,), (ToolMessage("a", "seen a"),), (DONE,)]


async def test_hooks_and_deltas_have_their_places() -> None:
    """AGT-071 What hooks did stands where they acted, and the pieces of an answer between its start and its end."""
    seen = Seen()
    hooks = Hooks(
        "h",
        on_before_inference=lambda model, prompt, tools, messages: ReplaceMessages(messages),
        on_tool_call=lambda name, id, arguments: BlockTool("no") if id == "b" else None,
        on_tool_result=lambda name, id, content, is_error, duration: ReplaceResult("changed"),
    )
    provider = StreamingScriptedProvider([asks(call("a"), call("b")), DONE], piece=2)
    async with await start(config(provider, hooks=(hooks,), dispatcher=seen.dispatcher)) as agent:
        await agent.run("hi")
    assert await seen.names() == [
        "SessionStarted",
        "RunStarted",
        "HookActed",
        "InferenceStarted",
        "InferenceDelta",
        "InferenceDelta",
        "InferenceCompleted",
        "ToolBlocked",
        "HookActed",
        "ToolStarted",
        "HookActed",
        "ToolExecuted",
        "HookActed",
        "InferenceStarted",
        "InferenceDelta",
        "InferenceDelta",
        "InferenceCompleted",
        "RunFinished",
        "SessionEnded",
    ]


async def test_events_tell_what_happened() -> None:
    """AGT-071 The fields of the events of a run."""
    seen = Seen()
    settings = config(script(ASKED, DONE), dispatcher=seen.dispatcher, system_prompt="be brief")
    async with await start(settings) as agent:
        outcome = await agent.start_run("hi").outcome()
        await agent.start_continue().outcome()
    (started,) = await seen.events(SessionStarted)
    assert (started.identity, started.model, started.system_prompt) == (settings.identity, "test", "be brief")
    assert [event.kind for event in await seen.events(RunStarted)] == ["prompt", "continue"]
    first, second = await seen.events(InferenceStarted)
    assert (first.model, first.message_count, first.tool_count) == ("test", 1, 1)
    assert second.message_count == 3
    completed = (await seen.events(InferenceCompleted))[1]
    assert (completed.message, completed.sent) == (DONE, (HI, ASKED, ToolMessage("a", "seen a")))
    assert completed.duration >= 0
    finished = (await seen.events(RunFinished))[0]
    assert (finished.status, finished.error, finished.usage) == ("completed", None, outcome.usage)


async def test_completion_is_told_before_the_commit_and_a_failed_commit_is_told_as_such() -> None:
    """AGT-072 `InferenceCompleted` proves nothing durable: `CommitFailed` follows, and no `Committed` of it."""
    seen = Seen()
    lost = Unavailable("no route")
    store = Store(MemorySessions().open("s"), faults={1: failing(lost)})
    async with await start_with_session_store(config(script(DONE), dispatcher=seen.dispatcher), store) as agent:
        await agent.try_run("hi")
        await agent.run_continue()
    names = await seen.names()
    assert names == [
        "SessionStarted",
        "RunStarted",
        "Committed",
        "InferenceStarted",
        "InferenceCompleted",
        "CommitFailed",
        "RunFinished",
        "RunStarted",
        "Committed",
        "RunFinished",
        "SessionEnded",
    ]
    (failed,) = await seen.events(CommitFailed)
    assert (failed.commit_id, failed.error) == (store.commits[1].id, lost)
    finished = await seen.events(RunFinished)
    assert [event.status for event in finished] == ["failed", "completed"]
    assert finished[0].error == SessionFailure(lost)


async def test_a_refused_run_emits_nothing() -> None:
    """AGT-073 Neither while another runs, nor while a commit is pending, nor after the end."""
    seen = Seen()
    hang = Hang(InferenceResult(DONE))
    store = Store(MemorySessions().open("s"), faults={1: failing(ParentConflict(None, "x"))})
    agent = await start_with_session_store(config(hang, dispatcher=seen.dispatcher), store)
    handle = agent.start_run("hi")
    await hang.wait_entered()
    busy = agent.start_run("x")
    watched = [record async for record in busy.events()]
    assert (await busy.outcome()).error == RuntimeFault("busy")
    hang.released.set()
    await handle.outcome()
    assert (await agent.start_run("x").outcome()).error == RuntimeFault("pending")
    await agent.stop()
    gone = agent.start_run("x")
    assert isinstance((await gone.outcome()).error, AgentUnavailable)
    assert [record async for record in gone.events()] == watched == []
    names = await seen.names()
    assert names.count("RunStarted") == names.count("RunFinished") == 1


async def ending(kind: str) -> tuple[Any, RunFinished]:
    """The events of a run that ends in this way, from its start on, and the last of them."""
    seen = Seen()
    hang = Hang()
    hooks = (Hooks("bad", on_before_inference=raising),) if kind == "hook" else ()
    provider = {
        "answer": script(DONE),
        "error": script(ApiError("no", 500)),
        "limit": script(ASKED),
        "cancel": hang,
        "stop": hang,
        "kill": hang,
        "deadline": hang,
        "hook": script(DONE),
    }[kind]
    agent = await start(config(provider, hooks=hooks, dispatcher=seen.dispatcher, max_iterations=1))
    handle = agent.start_run("hi", timeout=0.05 if kind == "deadline" else None)
    if provider is hang and kind != "deadline":
        await hang.wait_entered()
    if kind == "cancel":
        await handle.cancel()
    if kind == "kill":
        agent._port.actor.task.cancel()  # type: ignore[attr-defined]  # the port of an agent without a supervisor
    if kind != "stop":
        await handle.outcome()
    await agent.stop()
    await handle.outcome()
    names = await seen.names()
    assert names.count("RunStarted") == names.count("RunFinished") == 1
    assert names.count("SessionStarted") == names.count("SessionEnded") == 1
    assert names[0] == "SessionStarted"
    assert names[-2:] == ["RunFinished", "SessionEnded"]
    (finished,) = await seen.events(RunFinished)
    (ended,) = await seen.events(SessionEnded)
    assert no_tasks_left()
    return ended.reason, finished


@pytest.mark.parametrize(
    ("kind", "status", "error"),
    [
        ("answer", "completed", None),
        ("error", "failed", InferenceError(ApiError("no", 500))),
        ("limit", "failed", InferenceError(IterationLimit(1))),
        ("cancel", "cancelled", RunCancelled("caller")),
        ("deadline", "cancelled", RunCancelled("deadline")),
        ("stop", "cancelled", RunCancelled("stopped")),
        ("hook", "failed", RuntimeFault("hook_failed", "hook 'bad' failed: ValueError: broken")),
        ("kill", "failed", AgentUnavailable("the agent crashed: CancelledError")),
    ],
)
async def test_a_run_finishes_once_whichever_way_it_ends(kind: str, status: str, error: Any) -> None:
    """AGT-073 AGT-074 One `RunFinished` for one `RunStarted`, with how it ended; one `SessionEnded` at the end."""
    _reason, finished = await ending(kind)
    assert (finished.status, finished.error) == (status, error)
    assert finished.duration >= 0


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("answer", NormalEnd()),
        ("cancel", NormalEnd()),
        ("stop", Interrupted()),
        ("limit", MaxIterationsExceeded(limit=1)),
        ("kill", ErrorEnd(error="CancelledError")),
    ],
)
async def test_the_end_has_its_reason(kind: str, reason: object) -> None:
    """AGT-074 Each of the four is reached; a run that was cancelled before is no interruption of the end."""
    assert (await ending(kind))[0] == reason


async def test_only_the_last_run_counts_for_the_reason() -> None:
    """AGT-074 A run after the one that used up its rounds makes the end a normal one."""
    seen = Seen()
    async with await start(config(script(ASKED, DONE), max_iterations=1, dispatcher=seen.dispatcher)) as agent:
        await agent.try_run("hi")
        await agent.run_continue()
    (ended,) = await seen.events(SessionEnded)
    assert ended.reason == NormalEnd()


async def test_an_inference_that_fails_is_told_and_nothing_is_committed() -> None:
    """AGT-072 `InferenceFailed`, then the end of the run."""
    seen = Seen()
    store = MemorySessions().open("s")
    async with await start_with_session_store(
        config(script(ApiError("no")), dispatcher=seen.dispatcher), store
    ) as agent:
        await agent.try_run("hi")
    names = await seen.names()
    assert names[2:] == ["Committed", "InferenceStarted", "InferenceFailed", "RunFinished", "SessionEnded"]
    (failed,) = await seen.events(InferenceFailed)
    assert (failed.error, failed.sent) == (ApiError("no"), (HI,))


async def test_a_reload_is_told() -> None:
    """AGT-074 With its report, outside of any run."""
    seen = Seen()
    settings = config(script(), dispatcher=seen.dispatcher)
    async with await start_with_session_store(settings, MemorySessions().open("s")) as agent:
        report = await agent.reload()
    (event,) = await seen.events(SessionReloaded)
    assert event.report == report
    assert seen.records[1].run_id is None


async def test_a_handle_shows_the_events_of_its_run_alone() -> None:
    """AGT-073 From the start if it is asked at once, up to `RunFinished`, for any number of readers."""
    async with await start(config(script(DONE, ASKED, DONE))) as agent:
        await agent.run("before")
        handle = agent.start_run("hi")
        readers = [handle.events(), handle.events()]

        async def read(reader: Any) -> list[EventRecord]:
            return [record async for record in reader]

        first, second = await asyncio.gather(*map(read, readers))
        assert first == second
        assert [type(record.event).__name__ for record in first] == [
            "RunStarted",
            "InferenceStarted",
            "InferenceCompleted",
            "ToolStarted",
            "ToolExecuted",
            "InferenceStarted",
            "InferenceCompleted",
            "RunFinished",
        ]
        assert {record.run_id for record in first} == {handle.run_id}
        assert [record async for record in handle.events()] == []
