"""What enters from a store: loads, reloads, and histories that cannot be."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from jsrun.agent.config import RuntimeLimits
from jsrun.agent.core import AgentState
from jsrun.agent.errors import (
    AgentUnavailable,
    Corrupt,
    ParentConflict,
    RuntimeFault,
    SessionFailure,
    SessionLoad,
    Unavailable,
)
from jsrun.agent.messages import Message, SystemMessage, ToolMessage, UserMessage
from jsrun.agent.provider import InferenceResult
from jsrun.agent.runtime import (
    RuntimeState,
    history,
    run,
    run_continue,
    start,
    start_with_session_store,
    start_with_state,
)
from jsrun.agent.session import CommitAck, Session, SessionCommit, SessionDisabled
from jsrun.agent.stores.memory import MemorySessions
from tests.agent.helpers import (
    DONE,
    HI,
    PATIENCE_S,
    QUICK,
    Hang,
    Store,
    asks,
    call,
    config,
    failing,
    no_tasks_left,
    noting,
    script,
)

ASKED = asks(call("a"))


SEEN = ToolMessage("a", "seen a")


LOST = Unavailable("no route")


def memory(**options: Any) -> Store:
    """A fresh store that notes what is done with it."""
    return Store(MemorySessions().open("s"), **options)


async def test_reload_resolves_a_permanent_conflict() -> None:
    """AGT-042 History and head are the store's, what was lost is handed back, and the next run commits."""
    sessions = MemorySessions()
    store = Store(sessions.open("s"))
    async with await start_with_session_store(config(script(DONE, DONE)), store) as agent:
        await run(agent, "hi")
        other = UserMessage("from elsewhere")
        await sessions.open("s").commit(SessionCommit("foreign", store.commits[-1].id, (other,)))
        with pytest.raises(SessionFailure) as caught:
            await run(agent, "mine")
        assert isinstance(caught.value.error, ParentConflict)
        report = await agent.reload()
        assert (report.head, report.landed, report.discarded) == ("foreign", False, (UserMessage("mine"),))
        assert await history(agent) == (HI, DONE, other)
        assert await run(agent, "mine") == DONE
        assert store.commits[-2].parent == "foreign"


async def test_reload_without_a_pending_commit_takes_over_what_is_there() -> None:
    """AGT-042 Nothing was pending, so nothing landed and nothing is lost."""
    sessions = MemorySessions()
    async with await start_with_session_store(config(script(DONE)), sessions.open("s")) as agent:
        await sessions.open("s").commit(SessionCommit("foreign", None, (SystemMessage("s"), HI)))
        report = await agent.reload()
        assert (report.head, report.landed, report.discarded) == ("foreign", False, ())
        assert await history(agent) == (HI,)
        assert await run_continue(agent) == DONE


async def test_reload_needs_a_store() -> None:
    """AGT-042 `no_session` without one."""
    async with await start(config(script())) as agent:
        with pytest.raises(RuntimeFault) as caught:
            await agent.reload()
        assert caught.value.code == "no_session"


async def test_reload_tells_that_a_pending_commit_did_land() -> None:
    """AGT-043 Here the answer was lost on its way; nothing is discarded, and the run goes on from there."""
    store = memory()

    async def landed_but_lost(commit: SessionCommit) -> CommitAck:
        await store.inner.commit(commit)
        raise LOST

    store.faults = {1: landed_but_lost}
    provider = script(ASKED, DONE)
    async with await start_with_session_store(config(provider), store) as agent:
        with pytest.raises(SessionFailure):
            await run(agent, "hi")
        report = await agent.reload()
        assert (report.head, report.landed, report.discarded) == (store.commits[1].id, True, ())
        assert await history(agent) == (HI, ASKED)
        assert await run_continue(agent) == DONE


@pytest.mark.parametrize("fault", [LOST, OSError("gone")])
async def test_a_failed_reload_changes_nothing(fault: Exception) -> None:
    """AGT-043 The commit stays pending and can still be sent again."""
    store = memory(faults={0: failing(LOST)})
    async with await start_with_session_store(config(script(DONE)), store) as agent:
        with pytest.raises(SessionFailure):
            await run(agent, "hi")
        store.load_fault = fault
        with pytest.raises(SessionFailure) as caught:
            await agent.reload()
        assert isinstance(caught.value.error, Unavailable)
        assert await history(agent) == ()
        assert await run_continue(agent) == DONE
        assert store.commits[0] == store.commits[1]


async def test_reload_during_a_run_is_busy() -> None:
    """AGT-043 And so is a run during a reload."""
    hang = Hang(InferenceResult(DONE))
    store = memory()
    async with await start_with_session_store(config(hang), store) as agent:
        handle = agent.start_run("hi")
        await hang.wait_entered()
        with pytest.raises(RuntimeFault) as caught:
            await agent.reload()
        assert caught.value.code == "busy"
        hang.released.set()
        await handle.result()
        reload = asyncio.ensure_future(agent.reload())
        await asyncio.sleep(0)
        with pytest.raises(RuntimeFault) as caught:
            await run(agent, "x")
        assert caught.value.code == "busy"
        await reload


async def test_a_stop_cuts_a_reload_short() -> None:
    """AGT-023 AGT-043 Its caller reads that the agent is gone, and the load is cancelled."""
    store = memory()
    agent = await start_with_session_store(config(script(DONE)), store)
    hang = Hang()
    store.load = hang  # type: ignore[method-assign]  # this load never answers
    reload = asyncio.ensure_future(agent.reload())
    await hang.wait_entered()
    async with asyncio.timeout(PATIENCE_S):
        await agent.stop()
    with pytest.raises(AgentUnavailable):
        await reload
    assert hang.left.is_set()
    assert no_tasks_left()


async def test_system_messages_never_enter() -> None:
    """AGT-046 Not by a load, not by an initial state; the next parent is the loaded head."""
    store = memory()
    written = (SystemMessage("old prompt"), HI, SystemMessage("x"), DONE)
    await store.inner.commit(SessionCommit("c0", None, written))
    provider = script(DONE, DONE)
    async with await start_with_session_store(config(provider, system_prompt="new"), store) as agent:
        assert await history(agent) == (HI, DONE)
        await run(agent, "hi")
        assert provider.requests[0].messages == (HI, DONE, HI)
        assert store.commits[0].parent == "c0"
    settings = config(script(DONE))
    state = RuntimeState(AgentState(written), settings, SessionDisabled())
    async with await start_with_state(settings, state) as agent:
        assert await history(agent) == (HI, DONE)


BROKEN: dict[str, tuple[tuple[Message, ...], int]] = {
    "an answer without a question": ((HI, ToolMessage("a", "x")), 1),
    "an answer twice": ((HI, ASKED, SEEN, SEEN), 3),
    "an answer to an earlier batch": ((HI, ASKED, SEEN, asks(call("b")), ToolMessage("a", "x")), 4),
    "a buried call": ((HI, ASKED, UserMessage("x")), 2),
    "a buried call under an answer": ((HI, ASKED, DONE), 2),
    "an id twice": ((HI, asks(call("a"), call("a"))), 1),
    "no message": ((HI, "text"), 1),  # type: ignore[dict-item]  # what a careless store may load
}


@pytest.mark.parametrize(("messages", "index"), BROKEN.values(), ids=BROKEN.keys())
async def test_a_history_that_does_not_pair_is_corrupt(messages: tuple[Message, ...], index: int) -> None:
    """AGT-046 With the index of the message, before any provider or hook is touched: on load, reload and start."""
    provider = script(DONE)

    class Loads:
        session_id = "s"
        session = Session("c0", messages)

        async def load(self) -> Session:
            return self.session

        async def commit(self, commit: SessionCommit) -> CommitAck:
            return CommitAck(commit.id)

    notes: list[str] = []
    settings = config(provider, hooks=(noting(notes),))
    with pytest.raises(SessionLoad) as caught:
        await start_with_session_store(settings, Loads())
    assert isinstance(caught.value.error, Corrupt)
    assert notes == []
    assert f"message {index}:" in str(caught.value)
    state = RuntimeState(AgentState(messages), settings, SessionDisabled())
    with pytest.raises(SessionLoad, match=f"message {index}:"):
        await start_with_state(settings, state)
    store = Loads()
    store.session = Session(None, ())
    async with await start_with_session_store(settings, store) as agent:
        store.session = Loads.session
        with pytest.raises(SessionFailure, match=f"message {index}:"):
            await agent.reload()
        assert await history(agent) == ()
    assert provider.requests == []


@pytest.mark.parametrize(
    "answer",
    [None, "text", Session(3, ())],  # type: ignore[arg-type]  # as above
    ids=repr,
)
async def test_a_load_that_answers_nonsense_is_corrupt(answer: Any) -> None:
    """AGT-046 A foreign store is believed nothing."""

    class Loads:
        session_id = "s"

        async def load(self) -> Any:
            return answer

        async def commit(self, commit: SessionCommit) -> CommitAck:
            raise NotImplementedError

    with pytest.raises(SessionLoad) as caught:
        await start_with_session_store(config(script()), Loads())
    assert isinstance(caught.value.error, Corrupt)


async def test_a_load_that_takes_too_long_is_unavailable() -> None:
    """AGT-046 The load is cancelled, and nothing has started."""
    hang = Hang()

    class Loads:
        session_id = "s"
        load: Callable[[], Any] = hang

        async def commit(self, commit: SessionCommit) -> CommitAck:
            raise NotImplementedError

    limits = RuntimeLimits(load_timeout=0.05, cancel_grace=QUICK.cancel_grace)
    with pytest.raises(SessionLoad) as caught:
        await start_with_session_store(config(script(), limits=limits), Loads())
    assert isinstance(caught.value.error, Unavailable)
    assert hang.left.is_set()
    assert no_tasks_left()
