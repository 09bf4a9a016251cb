"""The calls of an agent: running, refusing, looking, stopping, and outcomes of every kind."""

import asyncio
from typing import Any

import pytest

from jsrun.agent.config import RuntimeLimits
from jsrun.agent.errors import (
    AgentUnavailable,
    ApiError,
    InferenceError,
    InferenceTimeout,
    InvalidResponse,
    IterationLimit,
    RunCancelled,
    RuntimeFault,
)
from jsrun.agent.hooks import Hooks
from jsrun.agent.mailbox import Report
from jsrun.agent.messages import AssistantMessage, ToolMessage, UserMessage
from jsrun.agent.provider import InferenceMetadata, InferenceRequest, InferenceResult
from jsrun.agent.runtime import (
    Agent,
    history,
    run,
    run_continue,
    start,
    start_with_session_store,
    stop,
    try_run,
    try_run_continue,
)
from jsrun.agent.stores.memory import MemorySessions
from jsrun.agent.supervisor import Supervisor, supervised
from jsrun.agent.tools import ToolContext
from tests.agent.helpers import (
    DONE,
    HI,
    PATIENCE_S,
    Hang,
    asks,
    call,
    config,
    costing,
    eventually,
    no_tasks_left,
    script,
    tool,
)


async def test_run_returns_the_answer_and_the_history_grows() -> None:
    """AGT-020 Each run adds to the conversation, which each request carries whole, with the system prompt beside it."""
    provider = script(asks(call("a")), DONE, AssistantMessage("again"))
    async with await start(config(provider, system_prompt="be brief")) as agent:
        assert await run(agent, "hi") == DONE
        assert await run(agent, "more") == AssistantMessage("again")
        expected = (HI, asks(call("a")), ToolMessage("a", "seen a"), DONE, UserMessage("more"))
        assert provider.requests[-1].messages == expected
        assert provider.requests[-1].system_prompt == "be brief"
        assert await history(agent) == (*expected, AssistantMessage("again"))


@pytest.mark.parametrize("again", [lambda agent: run(agent, "x"), run_continue, Agent.reload])
async def test_a_second_run_is_refused_and_does_not_disturb_the_first(again: Any) -> None:
    """AGT-021 `busy` at once, whichever way the second comes."""
    hang = Hang(InferenceResult(DONE))
    async with await start(config(hang)) as agent:
        first = agent.start_run("hi")
        await hang.wait_entered()
        with pytest.raises(RuntimeFault) as caught:
            await again(agent)
        assert caught.value.code == "busy"
        hang.released.set()
        assert await first.result() == DONE


async def test_history_answers_while_the_provider_or_a_tool_hangs() -> None:
    """AGT-022 Committed messages only, and from inside a handler too."""
    inside: list[object] = []
    hang, slow = Hang(InferenceResult(asks(call("a"), call("b", "peek")))), Hang("slow")

    async def peek(arguments: dict[str, Any], ctx: ToolContext) -> str:
        inside.append(await agent.history())
        return "peeked"

    async with await start(config(hang, tool(slow), tool(peek, "peek"))) as agent:
        handle = agent.start_run("hi")
        await hang.wait_entered()
        assert await history(agent) == (HI,)
        hang.released.set()
        await slow.wait_entered()
        asked = (HI, asks(call("a"), call("b", "peek")))
        assert await history(agent) == asked
        await eventually(lambda: inside == [asked])
        assert await handle.cancel()


async def test_stop_ends_a_run_and_the_agent() -> None:
    """AGT-023 The run reads `stopped`, stopping twice is fine, and later calls find nobody."""
    hang = Hang()
    agent = await start(config(hang))
    handle = agent.start_run("hi")
    await hang.wait_entered()
    await asyncio.gather(stop(agent), stop(agent))
    assert hang.left.is_set()
    with pytest.raises(RunCancelled) as caught:
        await handle.result()
    assert caught.value.reason == "stopped"
    await stop(agent)
    for again in (run(agent, "x"), run_continue(agent), history(agent), agent.reload()):
        with pytest.raises(AgentUnavailable):
            await again
    assert no_tasks_left()


@pytest.mark.parametrize("where", ["handler", "hook"])
async def test_a_handler_and_a_hook_may_stop_their_own_agent(where: str) -> None:
    """AGT-023 Nothing waits for itself."""

    async def end(*given: object) -> None:
        await agent.stop()

    hooks = (Hooks("end", on_before_inference=end),) if where == "hook" else ()
    agent = await start(config(script(asks(call("a"))), tool(end), hooks=hooks))
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(RunCancelled):
            await run(agent, "hi")
        await agent.stop()


@pytest.mark.parametrize("point", ["on_tool_result", "on_complete", "on_session_shutdown"])
@pytest.mark.parametrize("watched", [False, True])
async def test_a_hook_that_nothing_cuts_short_may_stop_its_own_agent(point: str, watched: bool) -> None:
    """AGT-023 It goes on at once, and the agent ends after it, under a supervisor too."""
    stopped = asyncio.Event()

    async def end(*given: object) -> None:
        await agent.stop()
        stopped.set()

    mine = config(script(asks(call("a")), DONE), hooks=(Hooks("end", timeout=None, **{point: end}),))
    async with asyncio.timeout(PATIENCE_S), Supervisor([supervised(mine, name="a")]) as supervisor:
        agent = supervisor.agent("a") if watched else await start(mine)
        await try_run(agent, "hi")
        await agent.stop()
        assert stopped.is_set()
        with pytest.raises(AgentUnavailable):
            await run(agent, "again")


async def test_what_a_hook_leaves_behind_waits_for_the_end_as_others_do() -> None:
    """AGT-023 Once the hook is over, `stop` returns when the agent has ended."""
    left: list[asyncio.Task[None]] = []

    async def late() -> None:
        await asyncio.sleep(0)
        await agent.stop()
        assert notes == ["ended"]

    async def end(*given: object) -> None:
        await asyncio.sleep(0.01)
        notes.append("ended")

    def leave(*given: object) -> None:
        left.append(asyncio.create_task(late()))

    notes: list[str] = []
    agent = await start(config(script(DONE), hooks=(Hooks("h", on_complete=leave, on_session_shutdown=end),)))
    async with asyncio.timeout(PATIENCE_S):
        await run(agent, "hi")
        await left[0]


async def test_a_report_of_another_run_or_step_is_ignored() -> None:
    """AGT-029 Whatever it says."""
    hang = Hang(InferenceResult(DONE))
    async with await start(config(hang)) as agent:
        handle = agent.start_run("hi")
        await hang.wait_entered()
        forged = AssistantMessage("forged")
        for run_id, step in ((handle.run_id, 0), (handle.run_id, 2), ("run-of-old", 1)):
            agent._port.post(Report(run_id, step, forged))  # type: ignore[arg-type]  # what only workers post
        assert await history(agent) == (HI,)
        hang.released.set()
        assert await handle.result() == DONE
        agent._port.post(Report(handle.run_id, 1, forged))  # type: ignore[arg-type]  # as above
        assert await history(agent) == (HI, DONE)


async def test_try_run_hands_every_error_through() -> None:
    """AGT-030 Exactly one of message and error is set; usage is there both times."""
    provider = script(costing(DONE, 2), ApiError("no", 500), asks(call("a")))
    async with await start(config(provider, max_iterations=1)) as agent:
        good = await try_run(agent, "hi")
        assert good is not None
        assert (good.message, good.error, good.usage.tokens) == (DONE, None, 3)
        bad = await try_run(agent, "hi")
        assert bad is not None
        assert (bad.message, bad.error) == (None, InferenceError(ApiError("no", 500)))
        limit = await try_run_continue(agent)
        assert limit is not None
        assert limit.error == InferenceError(IterationLimit(1))


async def test_try_run_is_none_at_the_deadline_and_when_the_agent_is_gone() -> None:
    """AGT-030 And only then: a cancelled run is an outcome."""
    hang = Hang()
    agent = await start(config(hang))
    assert await try_run(agent, "hi", timeout=0.02) is None
    hang.entered.clear()
    task = asyncio.create_task(try_run(agent, "hi"))
    await hang.wait_entered()
    await agent.stop()
    stopped = await task
    assert stopped is not None
    assert stopped.error == RunCancelled("stopped")
    assert await try_run(agent, "hi") is None
    assert await try_run_continue(agent) is None


async def test_killing_the_actor_wakes_every_caller_at_once() -> None:
    """AGT-031 Those who wait for a run, those whose message was not read yet, and those who come later."""
    hang = Hang(stubborn=True)
    agent = await start(config(hang))
    handle = agent.start_run("hi")
    await hang.wait_entered()
    actor = agent._port.actor  # type: ignore[attr-defined]  # the port of an agent without a supervisor
    actor.task.cancel()
    unread = [asyncio.ensure_future(history(agent)), asyncio.ensure_future(run_continue(agent))]
    for waiting in (handle.result(), *unread, run(agent, "x"), handle.outcome()):
        async with asyncio.timeout(PATIENCE_S):
            outcome = (await asyncio.gather(waiting, return_exceptions=True))[0]
        error: object = getattr(outcome, "error", outcome)
        assert isinstance(error, AgentUnavailable)
    hang.released.set()
    await asyncio.wait({actor.task})
    await asyncio.wait_for(hang.left.wait(), PATIENCE_S)
    await agent.stop()


async def test_a_fault_of_the_runtime_wakes_the_caller_too() -> None:
    """AGT-031 Here the source of ids breaks in the middle of a run; hooks and watchers come to their end."""
    ids = iter(["agent", "run"])

    def new_id() -> str:
        value = next(ids, None)
        if value is None:
            raise OSError("no randomness left")
        return value

    agent = await start_with_session_store(config(script(DONE), new_id=new_id), MemorySessions().open("s"))
    handle = agent.start_run("hi")
    events = handle.events()
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(AgentUnavailable, match="no randomness left"):
            await handle.result()
        names = [type(record.event).__name__ async for record in events]
    assert names == ["RunStarted", "RunFinished"]
    await agent.stop()
    assert no_tasks_left()


class Odd(BaseException):
    """An exception nobody expects."""


@pytest.mark.parametrize(
    "error", [ValueError("secret\nline"), SystemExit(3), asyncio.CancelledError(), Odd("x")], ids=repr
)
async def test_a_foreign_exception_of_the_provider_ends_the_run_only(error: BaseException) -> None:
    """AGT-032 It becomes an ApiError that names its class, on one line and without traceback."""

    def fail(request: InferenceRequest) -> None:
        raise error

    async with await start(config(script(fail, DONE))) as agent:
        with pytest.raises(InferenceError) as caught:
            await run(agent, "hi")
        assert isinstance(caught.value.error, ApiError)
        assert type(error).__name__ in str(caught.value)
        assert "\n" not in str(caught.value)
        assert await run_continue(agent) == DONE


def deep(levels: int) -> Any:
    """A list in a list in a list."""
    value: Any = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        None,
        "text",
        InferenceResult("text"),  # type: ignore[arg-type]  # what a careless provider may do
        InferenceResult(AssistantMessage(None)),  # type: ignore[arg-type]
        InferenceResult(AssistantMessage("x", [call("a")])),  # type: ignore[arg-type]
        InferenceResult(AssistantMessage("x", (("a", "look", "{}"),))),  # type: ignore[arg-type]
        InferenceResult(AssistantMessage("x", provider_data=float("nan"))),
        InferenceResult(AssistantMessage("x", provider_data={"k": object()})),  # type: ignore[dict-item]
        InferenceResult(AssistantMessage("x", provider_data=deep(100_000))),
        InferenceResult(DONE, InferenceMetadata(input_tokens=-1)),
        InferenceResult(DONE, {}),  # type: ignore[arg-type]
    ],
    ids=range(11),
)
async def test_a_foreign_value_of_the_provider_is_an_invalid_response(value: Any) -> None:
    """AGT-032 The agent lives, and its history stays as it was."""

    async def provider(request: InferenceRequest) -> Any:
        return value

    async with await start(config(provider)) as agent:
        with pytest.raises(InferenceError) as caught:
            await run(agent, "hi")
        assert isinstance(caught.value.error, InvalidResponse)
        assert await history(agent) == (HI,)


async def test_an_inference_that_takes_too_long_is_cancelled() -> None:
    """AGT-032 It is an error of the provider, and the next run works."""
    hang = Hang()
    limits = RuntimeLimits(inference_timeout=0.05, cancel_grace=0.2)
    async with await start(config(script(lambda request: hang(), DONE), limits=limits)) as agent:
        with pytest.raises(InferenceError) as caught:
            await run(agent, "hi")
        assert caught.value.error == InferenceTimeout(0.05)
        assert hang.left.is_set()
        assert await run_continue(agent) == DONE
