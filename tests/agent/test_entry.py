"""What `run_continue` does with each kind of history, in a running agent."""

import pytest

from jsrun.agent.core import AgentState
from jsrun.agent.errors import InferenceError, IterationLimit, RuntimeFault
from jsrun.agent.messages import AssistantMessage, Message, ToolMessage
from jsrun.agent.runtime import Agent, RuntimeState, history, run, run_continue, start_with_state
from jsrun.agent.session import SessionCommit, SessionDisabled, SessionReady
from jsrun.agent.stores.memory import MemorySessions
from tests.agent.helpers import DONE, HI, Store, asks, call, config, results, script, seen, tool

ASKED = asks(call("a"), call("b"))
FIRST = ToolMessage("a", "known")


async def begin(provider: object, *messages: Message, **options: object) -> tuple[Agent, Store]:
    """An agent with this history, and its store."""
    store = Store(MemorySessions().open("s"))
    head = None
    if messages:
        head = (await store.inner.commit(SessionCommit("c0", None, messages))).head
    settings = config(provider, **options)
    state = RuntimeState(AgentState(messages), settings, SessionReady(store, head))
    return await start_with_state(settings, state), store


async def test_nothing_to_continue() -> None:
    """AGT-013 The fault is `no_history`, and no provider is called."""
    provider = script(DONE)
    agent, store = await begin(provider)
    async with agent:
        with pytest.raises(RuntimeFault) as caught:
            await run_continue(agent)
        assert caught.value.code == "no_history"
        assert provider.requests == []
        assert store.commits == []


@pytest.mark.parametrize("tail", [(HI,), (HI, ASKED, FIRST, ToolMessage("b", "too"))], ids=["user", "tool"])
async def test_a_user_or_tool_tail_goes_to_inference(tail: tuple[Message, ...]) -> None:
    """AGT-014 No message is added before it."""
    provider = script(DONE)
    agent, store = await begin(provider, *tail)
    async with agent:
        assert await run_continue(agent) == DONE
        assert provider.requests[0].messages == tail
        assert [commit.messages for commit in store.commits] == [(DONE,)]


@pytest.mark.parametrize("reason", ["stop", "length", "tool_use", "error", None])
async def test_open_calls_are_executed_and_only_those(reason: str | None) -> None:
    """AGT-015 Whatever the stop reason, and only those not yet answered."""
    asked = AssistantMessage("", (call("a"), call("b")), stop_reason=reason)
    provider = script(DONE)
    agent, _store = await begin(provider, HI, asked, FIRST)
    async with agent:
        assert await run_continue(agent) == DONE
        assert results(provider.requests[0]) == {"a": "known", "b": "seen b"}


@pytest.mark.parametrize("reason", ["stop", None])
async def test_a_finished_tail_is_returned(reason: str | None) -> None:
    """AGT-016 With no inference and no commit."""
    answer = AssistantMessage("done", stop_reason=reason)
    provider = script(DONE)
    agent, store = await begin(provider, HI, answer)
    async with agent:
        assert await run_continue(agent) == answer
        assert provider.requests == []
        assert store.commits == []
        assert await history(agent) == (HI, answer)


@pytest.mark.parametrize("reason", ["length", "error", "refusal"])
async def test_a_cut_tail_goes_to_inference(reason: str) -> None:
    """AGT-017 The cut message stays in the history."""
    cut = AssistantMessage("half a", stop_reason=reason)
    provider = script(DONE)
    agent, _store = await begin(provider, HI, cut)
    async with agent:
        assert await run_continue(agent) == DONE
        assert provider.requests[0].messages == (HI, cut)
        assert await history(agent) == (HI, cut, DONE)


async def test_continue_after_the_iteration_limit_has_a_fresh_budget() -> None:
    """AGT-018 As many rounds again."""
    rounds = [asks(call(f"c{n}")) for n in range(3)]
    provider = script(*rounds, DONE)
    settings = config(provider, max_iterations=2)
    state = RuntimeState(AgentState(), settings, SessionDisabled())
    async with await start_with_state(settings, state) as agent:
        with pytest.raises(InferenceError) as caught:
            await run(agent, "hi")
        assert caught.value.error == IterationLimit(2)
        assert len(provider.requests) == 2
        assert await run_continue(agent) == DONE
        assert len(provider.requests) == 4


async def test_a_recovered_call_that_must_not_be_repeated_does_not_run() -> None:
    """AGT-019 The model reads that its outcome is unknown; its neighbour runs."""
    ran: list[str] = []

    async def once(arguments: dict[str, object], ctx: object) -> str:
        ran.append("once")
        return "x"

    asked = asks(call("a", "once"), call("b"))
    provider = script(DONE)
    settings = config(provider, tool(once, "once", repeatable=False), tool(seen))
    state = RuntimeState(AgentState((HI, asked)), settings, SessionDisabled())
    async with await start_with_state(settings, state) as agent:
        assert await run_continue(agent) == DONE
        read = results(provider.requests[0])
        assert read["b"] == "seen b"
        assert read["a"].startswith("Tool error: outcome unknown")
        assert ran == []
