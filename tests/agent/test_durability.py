"""Durable sessions: what is committed when, and what follows from a commit that fails."""

import asyncio
from typing import Any

import pytest

from jsrun.agent.config import RuntimeLimits
from jsrun.agent.errors import (
    Corrupt,
    InferenceError,
    InvalidCommit,
    IterationLimit,
    ParentConflict,
    RunCancelled,
    RuntimeFault,
    SessionError,
    SessionFailure,
    Unavailable,
)
from jsrun.agent.messages import AssistantMessage, ToolMessage
from jsrun.agent.runtime import (
    history,
    run,
    run_continue,
    start_with_session_store,
)
from jsrun.agent.session import CommitAck, Session, SessionCommit
from jsrun.agent.stores.memory import MemorySessions
from jsrun.agent.tools import ToolContext
from tests.agent.helpers import (
    DONE,
    HI,
    PATIENCE_S,
    Hang,
    Store,
    asks,
    call,
    config,
    eventually,
    failing,
    no_tasks_left,
    script,
    tool,
)

ASKED = asks(call("a"))


SEEN = ToolMessage("a", "seen a")


LOST = Unavailable("no route")


def memory(**options: Any) -> Store:
    """A fresh store that notes what is done with it."""
    return Store(MemorySessions().open("s"), **options)


async def test_a_plain_run_makes_two_commits_and_a_tool_round_four() -> None:
    """AGT-035 Each parent is the id before it, each id is fresh, and together they are the history."""
    store = memory()
    async with await start_with_session_store(config(script(DONE, ASKED, DONE)), store) as agent:
        await run(agent, "hi")
        assert [commit.messages for commit in store.commits] == [(HI,), (DONE,)]
        await run(agent, "hi")
        assert [commit.messages for commit in store.commits[2:]] == [(HI,), (ASKED,), (SEEN,), (DONE,)]
        ids = [commit.id for commit in store.commits]
        assert [commit.parent for commit in store.commits] == [None, *ids[:-1]]
        assert len(set(ids)) == 6
        for id in ids:
            prefix, _, digits = id.partition("-")
            assert prefix == "commit"
            assert len(digits) == 32
            int(digits, 16)
        assert await store.load() == Session(ids[-1], await history(agent))


@pytest.mark.parametrize(
    ("number", "inferences", "tools"), [(0, 0, 0), (1, 1, 0), (2, 1, 1), (3, 2, 1)], ids=["user", "ask", "batch", "end"]
)
async def test_a_failed_commit_lets_nothing_follow(number: int, inferences: int, tools: int) -> None:
    """AGT-036 No inference after the prompt, no tool after the request, no inference after the batch, no answer."""
    ran: list[str] = []

    async def note(arguments: dict[str, Any], ctx: ToolContext) -> str:
        ran.append(ctx.call_id)
        return "seen a"

    store = memory(faults={number: failing(LOST)})
    provider = script(ASKED, DONE)
    async with await start_with_session_store(config(provider, tool(note)), store) as agent:
        with pytest.raises(SessionFailure) as caught:
            await run(agent, "hi")
        assert caught.value.error == LOST
        assert len(provider.requests) == inferences
        assert len(ran) == tools
        assert await history(agent) == (HI, ASKED, SEEN)[:number]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (Unavailable("no route"), Unavailable("no route")),
        (Corrupt("bad"), Corrupt("bad")),
        (ParentConflict("a", "b"), ParentConflict("a", "b")),
        (InvalidCommit("no"), InvalidCommit("no")),
        (OSError("disk\ngone"), Unavailable("the store raised OSError: disk")),
        (asyncio.CancelledError(), Unavailable("the store raised CancelledError")),
        (SystemExit(1), Unavailable("the store raised SystemExit: 1")),
    ],
    ids=repr,
)
async def test_each_kind_of_failure_keeps_its_identity(error: BaseException, expected: SessionError) -> None:
    """AGT-037 The history stays as it was, and the session is pending."""
    store = memory(faults={1: failing(error)})
    async with await start_with_session_store(config(script(DONE)), store) as agent:
        with pytest.raises(SessionFailure) as caught:
            await run(agent, "hi")
        assert caught.value.error == expected
        assert await history(agent) == (HI,)
        with pytest.raises(RuntimeFault) as refused:
            await run(agent, "again")
        assert refused.value.code == "pending"


async def test_a_commit_that_takes_too_long_is_unavailable_and_left_to_end() -> None:
    """AGT-037 It is not cancelled; when it lands after all, the retry finds it there."""
    hang = Hang()

    async def late(commit: SessionCommit) -> CommitAck | None:
        await hang()
        return None

    store = memory(faults={0: late})
    limits = RuntimeLimits(commit_timeout=0.05)
    async with await start_with_session_store(config(script(DONE), limits=limits), store) as agent:
        with pytest.raises(SessionFailure) as caught:
            await run(agent, "hi")
        assert isinstance(caught.value.error, Unavailable)
        assert not hang.left.is_set()
        hang.released.set()
        await eventually(lambda: hang.left.is_set())
        assert not hang.cancelled.is_set()
        assert await run_continue(agent) == DONE
        assert (await store.load()).messages == (HI, DONE)


@pytest.mark.parametrize("head", ["elsewhere", None])
async def test_an_answer_with_another_head_is_a_conflict(head: Any) -> None:
    """AGT-038 Expected is the commit's id, actual that head, and the session is pending."""

    async def foreign(commit: SessionCommit) -> CommitAck:
        return CommitAck(head)

    store = memory(faults={0: foreign})
    async with await start_with_session_store(config(script(DONE)), store) as agent:
        with pytest.raises(SessionFailure) as caught:
            await run(agent, "hi")
        assert caught.value.error == ParentConflict(store.commits[0].id, head)
        with pytest.raises(RuntimeFault):
            await run(agent, "again")


async def test_an_answer_that_is_no_ack_is_unavailable() -> None:
    """AGT-038 Whatever a foreign store returns, only the commit's own id is success."""

    async def foreign(commit: SessionCommit) -> Any:
        return "yes"

    async with await start_with_session_store(config(script(DONE)), memory(faults={0: foreign})) as agent:
        with pytest.raises(SessionFailure) as caught:
            await run(agent, "hi")
        assert isinstance(caught.value.error, Unavailable)


async def test_a_prompt_while_pending_is_refused_without_a_store_call() -> None:
    """AGT-039 `pending`, and the provider is not called either."""
    store = memory(faults={0: failing(LOST)})
    provider = script(DONE)
    async with await start_with_session_store(config(provider), store) as agent:
        with pytest.raises(SessionFailure):
            await run(agent, "hi")
        with pytest.raises(RuntimeFault) as caught:
            await run(agent, "again")
        assert caught.value.code == "pending"
        assert (len(store.commits), store.loads, provider.requests) == (1, 1, [])


async def test_continue_sends_the_same_commit_until_it_lands() -> None:
    """AGT-040 Same id, parent and messages; each failure leaves it pending and is told as it is."""
    faults = {0: failing(LOST), 1: failing(Corrupt("x")), 2: failing(LOST)}
    store = memory(faults=faults)
    async with await start_with_session_store(config(script(DONE)), store) as agent:
        for call_it, error in (
            (run(agent, "hi"), LOST),
            (run_continue(agent), Corrupt("x")),
            (run_continue(agent), LOST),
        ):
            with pytest.raises(SessionFailure) as caught:
                await call_it
            assert caught.value.error == error
        assert await run_continue(agent) == DONE
        assert store.commits[0] == store.commits[1] == store.commits[2] == store.commits[3]
        assert len(store.commits) == 5


async def test_after_the_retry_a_withheld_answer_is_given() -> None:
    """AGT-041 Without another inference."""
    store = memory(faults={1: failing(LOST)})
    provider = script(DONE)
    async with await start_with_session_store(config(provider), store) as agent:
        with pytest.raises(SessionFailure):
            await run(agent, "hi")
        assert await run_continue(agent) == DONE
        assert len(provider.requests) == 1
        assert await history(agent) == (HI, DONE)


async def test_after_the_retry_a_withheld_error_is_raised() -> None:
    """AGT-041 Here the iteration limit, whose batch the commit held."""
    store = memory(faults={2: failing(LOST)})
    provider = script(ASKED)
    async with await start_with_session_store(config(provider, max_iterations=1), store) as agent:
        with pytest.raises(SessionFailure):
            await run(agent, "hi")
        with pytest.raises(InferenceError) as caught:
            await run_continue(agent)
        assert caught.value.error == IterationLimit(1)
        assert await history(agent) == (HI, ASKED, SEEN)
        assert len(provider.requests) == 1


@pytest.mark.parametrize("number", [0, 1, 2])
async def test_after_the_retry_a_withheld_effect_follows(number: int) -> None:
    """AGT-041 Each effect happens once, a tool that must not be repeated included: it had not begun."""
    ran: list[str] = []

    async def note(arguments: dict[str, Any], ctx: ToolContext) -> str:
        ran.append(ctx.call_id)
        return "seen a"

    store = memory(faults={number: failing(LOST)})
    provider = script(ASKED, DONE)
    async with await start_with_session_store(config(provider, tool(note, repeatable=False)), store) as agent:
        with pytest.raises(SessionFailure):
            await run(agent, "hi")
        assert await run_continue(agent) == DONE
        assert len(provider.requests) == 2
        assert ran == ["a"]
        assert await history(agent) == (HI, ASKED, SEEN, DONE)


async def test_a_retry_keeps_the_count_of_rounds() -> None:
    """AGT-041 Two rounds before the failure and one after it make the limit of three."""
    store = memory(faults={4: failing(LOST)})
    provider = script(*(asks(call(f"c{n}")) for n in range(4)))
    async with await start_with_session_store(config(provider, max_iterations=3), store) as agent:
        with pytest.raises(SessionFailure):
            await run(agent, "hi")
        with pytest.raises(InferenceError) as caught:
            await run_continue(agent)
        assert caught.value.error == IterationLimit(3)
        assert len(provider.requests) == 3


@pytest.mark.parametrize("number", [0, 1, 2, 3])
@pytest.mark.parametrize("end", ["cancel", "stop", "deadline"])
async def test_a_commit_in_flight_is_never_interrupted(number: int, end: str) -> None:
    """AGT-045 The cancellation waits for its answer; after the final commit the answer stands."""
    hang = Hang()

    async def slow(commit: SessionCommit) -> CommitAck | None:
        await hang()
        return None

    store = memory(faults={number: slow})
    agent = await start_with_session_store(config(script(ASKED, DONE), limits=RuntimeLimits(cancel_grace=0.05)), store)
    handle = agent.start_run("hi")
    await hang.wait_entered()
    ending: asyncio.Task[Any] | None = None
    if end == "deadline":
        handle.request_cancel("deadline")
    else:
        ending = asyncio.create_task(handle.cancel() if end == "cancel" else agent.stop())
    # Longer than the grace, after which anything that is not a commit would be abandoned.
    await asyncio.sleep(0.1)
    assert not hang.cancelled.is_set()
    assert not hang.left.is_set()
    hang.released.set()
    outcome = await handle.outcome()
    if number == 3:
        assert outcome.message == DONE
    else:
        reason = {"cancel": "caller", "stop": "stopped", "deadline": "deadline"}[end]
        assert isinstance(outcome.error, RunCancelled)
        assert outcome.error.reason == reason
    if ending is not None:
        answer = await ending
        assert answer is (None if end == "stop" else number < 3)
    expected = [(HI,), (HI, ASKED, ToolMessage("a", "Tool error: cancelled", is_error=True)), (HI, ASKED, SEEN)]
    assert (await store.load()).messages == [*expected, (HI, ASKED, SEEN, DONE)][number]
    await agent.stop()


async def test_a_session_failure_outranks_a_cancellation() -> None:
    """AGT-045 The run was cancelled, but what its caller must know is that the session is pending."""
    hang = Hang()

    async def slow(commit: SessionCommit) -> CommitAck | None:
        await hang()
        raise LOST

    store = memory(faults={1: slow})
    async with await start_with_session_store(config(script(ASKED, DONE)), store) as agent:
        handle = agent.start_run("hi")
        await hang.wait_entered()
        cancelling = asyncio.create_task(handle.cancel())
        await asyncio.sleep(0)
        hang.released.set()
        assert await cancelling is False
        assert (await handle.outcome()).error == SessionFailure(LOST)
        assert await run_continue(agent) == DONE


async def test_a_cancelled_batch_is_closed_by_one_commit() -> None:
    """AGT-027 AGT-045 And when that commit fails, the retry makes the batch durable and goes on."""
    hang = Hang()
    store = memory(faults={2: failing(LOST)})
    provider = script(ASKED, DONE)
    async with await start_with_session_store(config(provider, tool(hang)), store) as agent:
        handle = agent.start_run("hi")
        await hang.wait_entered()
        assert await handle.cancel() is False
        assert (await handle.outcome()).error == SessionFailure(LOST)
        closing = ToolMessage("a", "Tool error: cancelled", is_error=True)
        assert [commit.messages for commit in store.commits] == [(HI,), (ASKED,), (closing,)]
        assert await run_continue(agent) == DONE
        assert store.commits[2] == store.commits[3]
        assert provider.requests[1].messages == (HI, ASKED, closing)


async def test_a_stop_during_a_run_leaves_no_task() -> None:
    """AGT-045 With a store that takes its time."""

    async def slow(commit: SessionCommit) -> CommitAck | None:
        await asyncio.sleep(0.02)
        return None

    agent = await start_with_session_store(config(script(DONE)), memory(faults={0: slow}))
    handle = agent.start_run("hi")
    await asyncio.sleep(0)
    async with asyncio.timeout(PATIENCE_S):
        await agent.stop()
    assert (await handle.outcome()).error == RunCancelled("stopped")
    assert no_tasks_left()


async def test_what_an_adapter_keeps_comes_back_as_it_was_stored() -> None:
    """AGT-035 Provider data is a copy in its stored form: equal before and after a reload."""
    data: dict[str, Any] = {"parts": (1, 2)}
    message = AssistantMessage("done", stop_reason="stop", provider_data=data)
    store = memory()
    async with await start_with_session_store(config(script(message)), store) as agent:
        answer = await run(agent, "hi")
        data["parts"] = "changed"
        assert answer.provider_data == {"parts": [1, 2]}
        assert (await store.load()).messages[-1] == answer
