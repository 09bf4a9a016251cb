"""Cancelling: deadlines, callers who go away, and what does not want to end."""

import asyncio
from typing import Any

import pytest

from jsrun.agent.config import RuntimeLimits
from jsrun.agent.errors import (
    RunCancelled,
)
from jsrun.agent.hooks import Hooks
from jsrun.agent.messages import AssistantMessage, ToolMessage, open_calls, pairing_problem
from jsrun.agent.runtime import (
    history,
    run,
    run_continue,
    start,
)
from jsrun.agent.tools import ToolContext
from jsrun.spend import Spend
from tests.agent.helpers import (
    DONE,
    HI,
    PATIENCE_S,
    Hang,
    asks,
    call,
    config,
    costing,
    results,
    script,
    tool,
)


async def test_at_the_deadline_the_provider_is_cancelled_and_the_next_run_works() -> None:
    """AGT-024 The task really ends, and the history keeps the prompt."""
    hang = Hang()
    provider = script(lambda request: hang(), DONE)
    async with await start(config(provider)) as agent:
        with pytest.raises(RunCancelled) as caught:
            await run(agent, "hi", timeout=0.5)
        assert caught.value == RunCancelled("deadline")
        assert hang.left.is_set()
        assert await history(agent) == (HI,)
        assert await run(agent, "again") == DONE


@pytest.mark.parametrize("times", [1, 3])
async def test_cancelling_the_waiting_task_cancels_the_run(times: int) -> None:
    """AGT-025 The cancellation is raised again only when the run has ended, however often it comes."""
    hang = Hang(stubborn=True)
    async with await start(config(script(lambda request: hang(), DONE), limits=RuntimeLimits())) as agent:
        task = asyncio.create_task(run(agent, "hi"))
        await hang.wait_entered()
        for _ in range(times):
            task.cancel()
            await asyncio.wait({task}, timeout=0.01)
        await asyncio.wait_for(hang.cancelled.wait(), PATIENCE_S)
        assert not task.done(), "the provider holds on, and has its grace"
        hang.released.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await run_continue(agent) == DONE, "the agent is free again"


async def test_cancel_is_true_when_it_ended_the_run() -> None:
    """AGT-026 And the run ends as cancelled by its caller."""
    hang = Hang()
    async with await start(config(hang)) as agent:
        handle = agent.start_run("hi")
        await hang.wait_entered()
        assert await handle.cancel() is True
        assert (await handle.outcome()).error == RunCancelled("caller")


async def test_cancel_after_the_end_is_false_and_the_answer_stands() -> None:
    """AGT-026 A run that is over cannot be cancelled, and no other run is hit."""
    async with await start(config(script(DONE, DONE))) as agent:
        handle = agent.start_run("hi")
        await handle.outcome()
        assert await handle.cancel() is False
        assert await handle.result() == DONE
        other = agent.start_run("again")
        assert await handle.cancel() is False
        assert await other.result() == DONE


async def test_the_first_reason_of_a_cancellation_counts() -> None:
    """AGT-026 A stop during the grace of a cancelled run does not rename it."""
    hang = Hang(stubborn=True)
    agent = await start(config(hang))
    handle = agent.start_run("hi")
    await hang.wait_entered()
    cancelling = asyncio.create_task(handle.cancel())
    await asyncio.wait_for(hang.cancelled.wait(), PATIENCE_S)
    await agent.stop()
    assert await cancelling is True
    hang.released.set()


async def test_cancelled_during_tools_finished_results_are_kept() -> None:
    """AGT-027 The rest read `Tool error: cancelled`, and no inference follows."""
    slow = Hang("late")

    async def quick(arguments: dict[str, Any], ctx: ToolContext) -> str:
        return "kept"

    provider = script(asks(call("a", "quick"), call("b", "slow")), DONE)
    async with await start(config(provider, tool(quick, "quick"), tool(slow, "slow"))) as agent:
        handle = agent.start_run("hi")
        await slow.wait_entered()
        await asyncio.sleep(0)
        assert await handle.cancel()
        kept, cut = (await history(agent))[-2:]
        assert kept == ToolMessage("a", "kept")
        assert cut == ToolMessage("b", "Tool error: cancelled", is_error=True)
        assert slow.left.is_set()
        assert len(provider.requests) == 1
        assert await run_continue(agent) == DONE
        assert results(provider.requests[1]) == {"a": "kept", "b": "Tool error: cancelled"}


async def test_a_provider_that_ignores_cancellation_is_abandoned() -> None:
    """AGT-028 Its late answer changes nothing."""
    hang = Hang(costing(AssistantMessage("late"), 5), stubborn=True)
    async with await start(config(script(lambda request: hang(), DONE))) as agent:
        handle = agent.start_run("hi")
        await hang.wait_entered()
        async with asyncio.timeout(PATIENCE_S):
            assert await handle.cancel()
        assert await run_continue(agent) == DONE
        hang.released.set()
        await asyncio.wait_for(hang.left.wait(), PATIENCE_S)
        assert await history(agent) == (HI, DONE)
        assert handle.usage == Spend()


async def test_a_tool_that_ignores_cancellation_is_abandoned() -> None:
    """AGT-028 The batch is closed without it, and what it still spends is nobody's."""
    late: list[ToolContext] = []
    hang = Hang("late", stubborn=True)

    async def stubborn(arguments: dict[str, Any], ctx: ToolContext) -> object:
        late.append(ctx)
        answer = await hang()
        ctx.add_usage(Spend(calls=7))
        return answer

    async with await start(config(script(asks(call("a")), DONE), tool(stubborn))) as agent:
        handle = agent.start_run("hi")
        await hang.wait_entered()
        async with asyncio.timeout(PATIENCE_S):
            assert await handle.cancel()
        usage = handle.usage
        hang.released.set()
        await asyncio.wait_for(hang.left.wait(), PATIENCE_S)
        await asyncio.sleep(0)
        assert (await history(agent))[-1] == ToolMessage("a", "Tool error: cancelled", is_error=True)
        assert handle.usage == usage
        assert usage.calls == 1


@pytest.mark.parametrize("point", ["on_before_inference", "on_after_inference", "on_tool_call"])
async def test_the_deadline_covers_hooks(point: str) -> None:
    """AGT-024 A hook that waits for a person without a limit of its own is cancelled with the run."""
    hang = Hang()

    async def wait(*given: object) -> None:
        await hang()

    hooks = Hooks("person", timeout=None, **{point: wait})
    provider = script(asks(call("a")), DONE)
    async with await start(config(provider, hooks=(hooks,))) as agent:
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(RunCancelled) as caught:
                await run(agent, "hi", timeout=0.5)
        assert caught.value.reason == "deadline"
        assert hang.left.is_set()
        messages = await history(agent)
        assert pairing_problem(messages) is None
        assert open_calls(messages) == ()
        hang.released.set()
        assert isinstance(await run_continue(agent), AssistantMessage)


async def test_a_cancel_before_the_run_is_accepted_still_ends_it() -> None:
    """AGT-026 The mailbox keeps the order: the run starts, and is cut before its first effect is done."""
    provider = script(DONE)
    async with await start(config(provider)) as agent:
        handle = agent.start_run("hi")
        assert await handle.cancel() is True
        assert await history(agent) == (HI,)
        assert await run_continue(agent) == DONE
