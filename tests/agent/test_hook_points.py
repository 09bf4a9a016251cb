"""The hooks of a running agent: when each is asked, and what its failure means."""

import asyncio
from typing import Any

import pytest

from jsrun.agent.errors import (
    ActorStart,
    AgentUnavailable,
    ApiError,
    RunCancelled,
    RuntimeFault,
    SessionFailure,
    Unavailable,
)
from jsrun.agent.events import (
    HookFailed,
    InferenceCompleted,
    NormalEnd,
    ToolExecuted,
)
from jsrun.agent.hooks import Hooks, ReplaceMessages, ReplaceResult
from jsrun.agent.messages import AssistantMessage, ToolMessage, UserMessage
from jsrun.agent.runtime import Agent, start, start_with_session_store
from jsrun.agent.stores.memory import MemorySessions
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
    noting,
    script,
    tool,
)

ASKED = asks(call("a"))


def raising(*given: object) -> None:
    """A hook that fails."""
    raise ValueError("broken")


async def test_each_hook_point_fires_where_it_belongs() -> None:
    """AGT-066 Session points once per start, the others once per occasion, completion once per completed run."""
    notes: list[str] = []
    provider = script(ASKED, DONE, ApiError("no"), DONE)
    async with await start(config(provider, hooks=(noting(notes),))) as agent:
        assert notes == ["on_session_start"]
        await agent.run("hi")
        assert notes[1:] == [
            "on_before_inference",
            "on_after_inference",
            "on_tool_call",
            "on_tool_result",
            "on_before_inference",
            "on_after_inference",
            "on_complete",
        ]
        notes.clear()
        await agent.try_run("again")
        assert notes == ["on_before_inference", "on_error"]
        notes.clear()
        await agent.run_continue()
        await agent.run_continue()
        assert notes == ["on_before_inference", "on_after_inference", "on_complete", "on_complete"]
        notes.clear()
    assert notes == ["on_session_shutdown"]


async def test_a_limit_a_failed_session_and_a_cancellation_are_no_provider_errors() -> None:
    """AGT-066 Neither `on_error` nor `on_complete` sees them."""
    notes: list[str] = []
    hang = Hang()
    store = Store(MemorySessions().open("s"), faults={3: failing(Unavailable("x"))})
    settings = config(script(ASKED, lambda request: hang()), hooks=(noting(notes),), max_iterations=1)
    async with await start_with_session_store(settings, store) as agent:
        await agent.try_run("hi")
        handle = agent.start_run("again")
        assert isinstance((await handle.outcome()).error, SessionFailure)
        handle = agent.start_continue()
        await hang.wait_entered()
        await handle.cancel()
    assert not {"on_error", "on_complete"} & set(notes)


async def test_completion_is_durable_before_its_hook_and_its_hook_before_the_reply() -> None:
    """AGT-066 The hook sees the answer in the store, and the caller is not answered before it has ended."""
    store = MemorySessions().open("s")
    hang = Hang()
    stored: list[object] = []

    async def complete(model: str, message: AssistantMessage, iterations: int, usage: object) -> None:
        stored.append((await store.load()).messages[-1])
        stored.append(iterations)
        await hang()

    hooks = Hooks("h", on_complete=complete)
    async with await start_with_session_store(config(script(ASKED, DONE), hooks=(hooks,)), store) as agent:
        handle = agent.start_run("hi")
        await hang.wait_entered()
        waiting = asyncio.ensure_future(handle.outcome())
        await asyncio.sleep(0)
        assert not waiting.done()
        cancelling = asyncio.ensure_future(handle.cancel())
        await asyncio.sleep(0)
        hang.released.set()
        assert (await waiting).message == DONE
        assert await cancelling is False, "after the final commit the answer stands"
        assert stored == [DONE, 1]


async def test_shutdown_hooks_run_in_reverse_and_may_still_look() -> None:
    """AGT-066 They see history, rounds and reason, and the mailbox is served while they run."""
    order: list[object] = []
    agents: list[Agent] = []

    async def shutdown(history: object, iterations: int, reason: object) -> None:
        assert await agents[0].history() == history
        with pytest.raises(AgentUnavailable):
            await agents[0].run("x")
        order.append((history, iterations, reason))

    hooks = (
        Hooks("first", on_session_shutdown=shutdown),
        Hooks("second", on_session_shutdown=lambda *given: order.append("second")),
    )
    agents.append(await start(config(script(ASKED, DONE), hooks=hooks)))
    await agents[0].run("hi")
    await agents[0].stop()
    assert order == ["second", ((HI, ASKED, ToolMessage("a", "seen a"), DONE), 1, NormalEnd())]


async def test_messages_replaced_for_a_request_never_enter_the_history() -> None:
    """AGT-067 They chain, reach the provider, and are told as what was sent."""

    def shout(model: str, prompt: object, tools: object, messages: tuple[Any, ...]) -> ReplaceMessages:
        return ReplaceMessages((UserMessage(messages[0].content + "!"),))

    seen = Seen()
    provider = script(DONE)
    hooks = (Hooks("one", on_before_inference=shout), Hooks("two", on_before_inference=shout))
    async with await start(config(provider, hooks=hooks, dispatcher=seen.dispatcher)) as agent:
        await agent.run("hi")
        assert provider.requests[0].messages == (UserMessage("hi!!"),)
        assert await agent.history() == (HI, DONE)
    (completed,) = await seen.events(InferenceCompleted)
    assert completed.sent == (UserMessage("hi!!"),)


async def test_a_replaced_result_is_what_everyone_gets() -> None:
    """AGT-069 Content and flag: the model, the history, the store and the event."""
    seen = Seen()
    store = MemorySessions().open("s")
    provider = script(ASKED, DONE)
    hooks = Hooks("h", on_tool_result=lambda *given: ReplaceResult("secret gone", is_error=True))
    settings = config(provider, hooks=(hooks,), dispatcher=seen.dispatcher)
    async with await start_with_session_store(settings, store) as agent:
        await agent.run("hi")
    replaced = ToolMessage("a", "secret gone", is_error=True)
    assert provider.requests[1].messages[-1] == replaced
    assert (await store.load()).messages[2] == replaced
    (executed,) = await seen.events(ToolExecuted)
    assert (executed.content, executed.is_error) == ("secret gone", True)


async def test_a_start_hook_that_fails_stops_the_start() -> None:
    """AGT-070 Hooks already started are shut down, the provider is not touched, and no session begins."""
    notes: list[str] = []
    seen = Seen()
    provider = script(DONE)
    hooks = (noting(notes), Hooks("bad", on_session_start=raising), noting(notes, "never"))
    with pytest.raises(ActorStart, match="bad"):
        await start(config(provider, hooks=hooks, dispatcher=seen.dispatcher))
    assert notes == ["on_session_start", "on_session_shutdown"]
    assert await seen.names() == ["HookFailed"]
    assert provider.requests == []
    assert no_tasks_left()


async def test_a_start_that_is_cancelled_shuts_down_what_had_started() -> None:
    """AGT-066 Its hook is cancelled, and no agent is left."""
    notes: list[str] = []
    hang = Hang()

    async def slow(*given: object) -> None:
        await hang()

    hooks = (noting(notes), Hooks("slow", on_session_start=slow))
    starting = asyncio.ensure_future(start(config(script(DONE), hooks=hooks)))
    await hang.wait_entered()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert hang.left.is_set()
    assert notes == ["on_session_start", "on_session_shutdown"]
    assert no_tasks_left()


async def test_a_hook_before_inference_that_fails_ends_the_run() -> None:
    """AGT-070 `hook_failed`, the provider is not called, the prompt stays, and the agent lives."""
    failing_now = [True]

    def fail(*given: object) -> None:
        if failing_now[0]:
            raise ValueError("broken")

    seen = Seen()
    provider = script(DONE)
    async with await start(
        config(provider, hooks=(Hooks("bad", on_before_inference=fail),), dispatcher=seen.dispatcher)
    ) as agent:
        with pytest.raises(RuntimeFault) as caught:
            await agent.run("hi")
        assert caught.value.code == "hook_failed"
        assert "bad" in str(caught.value)
        assert provider.requests == []
        assert await agent.history() == (HI,)
        failing_now[0] = False
        assert await agent.run_continue() == DONE
    (failed,) = await seen.events(HookFailed)
    assert (failed.hook_name, failed.point) == ("bad", "on_before_inference")


@pytest.mark.parametrize("point", ["on_after_inference", "on_error", "on_complete", "on_session_shutdown"])
async def test_a_watching_hook_that_fails_is_ignored(point: str) -> None:
    """AGT-070 But told."""
    seen = Seen()
    provider = script(ApiError("no"), DONE)
    hooks = Hooks("bad", **{point: raising})  # type: ignore[arg-type]  # the name of a point
    async with await start(config(provider, hooks=(hooks,), dispatcher=seen.dispatcher)) as agent:
        await agent.try_run("hi")
        assert await agent.run_continue() == DONE
    assert [event.point for event in await seen.events(HookFailed)] == [point]


async def test_a_cancel_during_the_result_hooks_keeps_what_was_finished() -> None:
    """AGT-027 The tools have ended, a hook still looks at their results: they are kept all the same."""
    hang = Hang()

    async def slow(*given: object) -> None:
        await hang()

    provider = script(asks(call("a"), call("b")), DONE)
    hooks = Hooks("slow", on_tool_result=slow)
    async with await start(config(provider, tool(lambda arguments, ctx: "kept"), hooks=(hooks,))) as agent:
        handle = agent.start_run("hi")
        await hang.wait_entered()
        handle.request_cancel("caller")
        await agent.history()  # read after the request, so that has been handled
        hang.released.set()
        assert (await handle.outcome()).error == RunCancelled("caller")
        messages = await agent.history()
        assert [message.content for message in messages[2:]] == ["kept", "kept"]
