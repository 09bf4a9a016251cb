"""The calls of an agent: running, refusing, watching, cancelling, stopping, limits."""

import asyncio
from typing import Any

import pytest

from jsrun.agent.config import RuntimeConfig, RuntimeLimits
from jsrun.agent.core import MODEL, AgentState
from jsrun.agent.errors import (
    AgentUnavailable,
    ApiError,
    InferenceError,
    InferenceTimeout,
    InvalidConfiguration,
    InvalidResponse,
    IterationLimit,
    RunCancelled,
    RunError,
    RuntimeFault,
)
from jsrun.agent.hooks import Hooks
from jsrun.agent.mailbox import Report
from jsrun.agent.messages import AssistantMessage, ToolMessage, UserMessage, open_calls, pairing_problem
from jsrun.agent.provider import InferenceMetadata, InferenceRequest, InferenceResult
from jsrun.agent.runtime import (
    Agent,
    RuntimeState,
    history,
    run,
    run_continue,
    start,
    start_with_session_store,
    start_with_state,
    stop,
    try_run,
    try_run_continue,
)
from jsrun.agent.session import SessionDisabled
from jsrun.agent.stores.memory import MemorySessions
from jsrun.agent.tools import ToolContext
from jsrun.spend import Spend
from tests.agent.helpers import (
    DONE,
    HI,
    PATIENCE_S,
    QUICK,
    Hang,
    asks,
    call,
    config,
    costing,
    eventually,
    no_tasks_left,
    results,
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


async def test_a_handler_and_a_hook_may_stop_their_own_agent() -> None:
    """AGT-023 Nothing waits for itself."""

    async def end(arguments: dict[str, Any], ctx: ToolContext) -> str:
        await agent.stop()
        return "never read"

    agent = await start(config(script(asks(call("a"))), tool(end)))
    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(RunCancelled):
            await run(agent, "hi")
        await agent.stop()


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


@pytest.mark.parametrize("ceiling", [11, 5])
async def test_at_the_token_ceiling_the_run_ends_before_the_next_effect(ceiling: int) -> None:
    """AGT-033 No tool runs, the open calls are closed, and the history is well formed."""
    ran: list[str] = []

    async def note(arguments: dict[str, Any], ctx: ToolContext) -> str:
        ran.append(ctx.call_id)
        return "x"

    provider = script(costing(asks(call("a"), call("b")), 10), DONE)
    async with await start(config(provider, tool(note))) as agent:
        with pytest.raises(RunCancelled) as caught:
            await run(agent, "hi", max_tokens=ceiling)
        assert caught.value.reason == "tokens"
        assert ran == []
        messages = await history(agent)
        assert pairing_problem(messages) is None
        assert open_calls(messages) == ()
        assert [message.content for message in messages[2:]] == ["Tool error: cancelled"] * 2
        assert await run_continue(agent) == DONE


async def test_an_answer_stands_whatever_it_cost() -> None:
    """AGT-033 The ceiling stops the next effect; an answer asks for none."""
    async with await start(config(script(costing(DONE, 1000)))) as agent:
        assert await run(agent, "hi", max_tokens=1) == DONE


async def test_usage_is_the_sum_of_inferences_and_tools() -> None:
    """AGT-034 A figure the provider does not tell adds nothing; tools add from wherever they run."""

    async def spend(arguments: dict[str, Any], ctx: ToolContext) -> str:
        ctx.add_usage(Spend(model="other", calls=1, input=100, cost_usd=0.5))
        return "x"

    def spend_in_thread(arguments: dict[str, Any], ctx: ToolContext) -> str:
        ctx.add_usage(Spend(input=1000))
        return "x"

    first = InferenceResult(
        asks(call("a"), call("b", "thread")),
        InferenceMetadata(input_tokens=1, output_tokens=2, cache_read_tokens=3, cost_usd=0.25),
    )
    second = InferenceResult(DONE, InferenceMetadata(response_model="m2", cache_write_tokens=4))
    tools = (tool(spend), tool(spend_in_thread, "thread"))
    async with await start(config(script(first, second), *tools)) as agent:
        handle = agent.start_run("hi")
        usage = (await handle.outcome()).usage
        assert usage == handle.usage
        assert (usage.calls, usage.input, usage.output) == (3, 1101, 2)
        assert (usage.cache_read, usage.cache_write, usage.cost_usd) == (3, 4, 0.75)
        assert usage.mixed
        with pytest.raises(RunError):
            await run(agent, "hi")
        assert handle.usage == usage, "a later run is counted for itself"


@pytest.mark.parametrize("prompt", ["", "  \n", "half \ud800", None])
async def test_a_prompt_that_cannot_be_is_a_value_error(prompt: Any) -> None:
    """AGT-034 Nothing starts."""
    async with await start(config(script(DONE))) as agent:
        with pytest.raises(ValueError, match="prompt"):
            agent.start_run(prompt)
        assert await history(agent) == ()


@pytest.mark.parametrize("timeout", [0, -1.0, float("nan"), "1", True])
async def test_a_bad_timeout_is_a_value_error(timeout: Any) -> None:
    """AGT-034 For runs and for the history."""
    async with await start(config(script(DONE))) as agent:
        for calling in (agent.run("hi", timeout), agent.run_continue(timeout), agent.history(timeout)):
            with pytest.raises(ValueError, match="timeout"):
                await calling
        with pytest.raises(ValueError, match="max_tokens"):
            await agent.run("hi", max_tokens=0)
        assert await agent.run("hi", timeout=None) == DONE


async def test_lone_surrogates_of_a_model_become_replacement_characters() -> None:
    """AGT-034 In every text of its message."""
    raw = AssistantMessage("a\ud800", (call("i\udfff", "look", '"\ud900"'),), thinking="\udc00", stop_reason="\ud801")
    async with await start(config(script(raw, DONE))) as agent:
        await run(agent, "hi")
        message = (await history(agent))[1]
        assert message == AssistantMessage(
            "a\ufffd", (call("i\ufffd", "look", '"\ufffd"'),), thinking="\ufffd", stop_reason="\ufffd"
        )


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"max_iterations": 0}, "max_iterations"),
        ({"max_iterations": True}, "max_iterations"),
        ({"provider": None}, "provider"),
        ({"tools": ()}, "tools"),
        ({"limits": None}, "limits"),
        ({"hooks": (Hooks("h"), Hooks("other"), Hooks("h"))}, "hooks: the name 'h'"),
    ],
)
def test_a_bad_configuration_names_the_field(options: dict[str, Any], name: str) -> None:
    """AGT-034 At once, when it is made."""
    with pytest.raises(InvalidConfiguration, match=name):
        RuntimeConfig(**{"provider": script(), **options})


@pytest.mark.parametrize("name", RuntimeLimits.__dataclass_fields__)
@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), "1", None])
def test_a_bad_limit_names_the_field(name: str, value: Any) -> None:
    """AGT-034 Each limit is above 0 and finite."""
    with pytest.raises(InvalidConfiguration, match=name):
        RuntimeLimits(**{name: value})


async def test_an_initial_state_has_the_same_configuration_and_is_at_rest() -> None:
    """AGT-034 Another configuration, or a phase of a run, is refused."""
    mine, other = config(script(DONE)), config(script(DONE))
    with pytest.raises(InvalidConfiguration, match="config"):
        await start_with_state(mine, RuntimeState(AgentState(), other, SessionDisabled()))
    with pytest.raises(InvalidConfiguration, match="idle"):
        await start_with_state(mine, RuntimeState(AgentState(phase=MODEL), mine, SessionDisabled()))
    state = RuntimeState(AgentState((HI,), max_iterations=1), mine, SessionDisabled())
    async with await start_with_state(mine, state) as agent:
        assert await run_continue(agent) == DONE


async def test_calls_from_another_loop_are_refused() -> None:
    """AGT-034 An agent belongs to the loop that started it."""
    async with await start(config(script(DONE), limits=QUICK)) as agent:

        def elsewhere() -> None:
            with pytest.raises(RuntimeError, match="another event loop"):
                asyncio.run(agent.history())

        await asyncio.to_thread(elsewhere)
