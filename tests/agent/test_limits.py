"""Limits, usage, and what is refused before anything starts."""

import asyncio
from typing import Any

import pytest

from jsrun.agent.config import RuntimeConfig, RuntimeLimits
from jsrun.agent.core import MODEL, AgentState
from jsrun.agent.errors import (
    InvalidConfiguration,
    RunCancelled,
    RunError,
)
from jsrun.agent.hooks import Hooks
from jsrun.agent.messages import AssistantMessage, open_calls, pairing_problem
from jsrun.agent.provider import InferenceMetadata, InferenceResult
from jsrun.agent.runtime import (
    RuntimeState,
    history,
    run,
    run_continue,
    start,
    start_with_state,
)
from jsrun.agent.session import SessionDisabled
from jsrun.agent.tools import ToolContext
from jsrun.spend import Spend
from tests.agent.helpers import (
    DONE,
    HI,
    QUICK,
    asks,
    call,
    config,
    costing,
    script,
    tool,
)


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
        ({"hooks": ("h",)}, "hooks"),
        ({"settings": {"temperature": 1}}, "settings"),
        ({"identity": "me"}, "identity"),
        ({"system_prompt": b"be kind"}, "system_prompt"),
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
