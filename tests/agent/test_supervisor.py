"""Supervised agents: restarts, giving up, stopping, and handles that outlive their actors."""

import asyncio
import logging
from typing import Any

import pytest

from jsrun.agent.errors import (
    ActorStart,
    AgentUnavailable,
    Corrupt,
    InvalidConfiguration,
    RunCancelled,
    SessionLoad,
    SupervisorFailed,
    Unavailable,
)
from jsrun.agent.events import RunFinished
from jsrun.agent.hooks import Hooks
from jsrun.agent.messages import ToolMessage, UserMessage
from jsrun.agent.provider import InferenceResult
from jsrun.agent.runtime import Agent, start
from jsrun.agent.session import SessionCommit, SessionReady
from jsrun.agent.stores.memory import MemorySessions
from jsrun.agent.supervisor import ChildSpec, Supervisor, supervised, supervised_with_session_store
from tests.agent.helpers import (
    DONE,
    HI,
    PATIENCE_S,
    Hang,
    Seen,
    Store,
    asks,
    call,
    config,
    eventually,
    no_tasks_left,
    noting,
    script,
)


async def kill(agent: Agent) -> None:
    """Kill the actor that serves the agent, as a fault of the runtime would, and wait until it is dead."""
    actor = agent._port._actor  # type: ignore[attr-defined]  # the port of a supervised agent
    actor.task.cancel()
    await eventually(lambda: actor.over)


def memory() -> Store:
    """A fresh store that can fail."""
    return Store(MemorySessions().open("s"))


async def test_a_killed_child_reloads_and_goes_on_without_repeating_an_inference() -> None:
    """AGT-053 The committed request is executed, not asked for again."""
    store = memory()
    hang = Hang()
    provider = script(asks(call("a")), lambda request: hang(), DONE)
    async with Supervisor([supervised_with_session_store(config(provider), name="a", store=store)]) as supervisor:
        agent = supervisor.agent("a")
        handle = agent.start_run("hi")
        await hang.wait_entered()
        await kill(agent)
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(AgentUnavailable) as caught:
                await handle.result()
        assert caught.value.detail == "restarted"
        assert await agent.run_continue() == DONE
        assert len(provider.requests) == 3, "the request that hung is asked again, the committed one is not"
        assert await agent.history() == (HI, asks(call("a")), ToolMessage("a", "seen a"), DONE)
        assert store.loads == 2
    assert no_tasks_left()


async def test_a_child_without_a_store_begins_again() -> None:
    """AGT-053 With what it was given."""
    given = (UserMessage("given"), DONE)
    spec = supervised(config(script(DONE, DONE)), name="a", initial_history=given)
    async with Supervisor([spec]) as supervisor:
        agent = supervisor.agent("a")
        await agent.run("hi")
        await kill(agent)
        assert await agent.history() == given
        assert await agent.run("hi") == DONE


async def test_a_child_with_a_given_session_reloads_it() -> None:
    """AGT-053 It begins with what it was given, and again with what its store holds."""
    store = memory()
    spec = supervised(config(script(DONE)), name="a", session=SessionReady(store, None))
    async with Supervisor([spec]) as supervisor:
        agent = supervisor.agent("a")
        assert store.loads == 0
        await agent.run("hi")
        await kill(agent)
        await eventually(lambda: store.loads == 1)
        assert await agent.history() == (HI, DONE)
        assert await agent.run_continue() == DONE


async def test_calls_between_two_actors_wait_for_the_next() -> None:
    """AGT-022 AGT-053 AGT-057 A run started in the gap is answered by the new actor, and can be cancelled there."""
    store = memory()
    gate, hang = Hang(), Hang()
    gate.released.set()
    inner = store.load

    async def slow_load() -> Any:
        await gate()
        return await inner()

    store.load = slow_load  # type: ignore[method-assign]  # this store loads when it is told to
    provider = script(DONE, lambda request: hang())
    async with Supervisor([supervised_with_session_store(config(provider), name="a", store=store)]) as supervisor:
        agent = supervisor.agent("a")
        gate.released.clear()
        gate.entered.clear()
        await kill(agent)
        await gate.wait_entered()
        waiting = agent.start_run("hi")
        asked = asyncio.ensure_future(agent.history())
        await asyncio.sleep(0)
        assert not asked.done()
        with pytest.raises(TimeoutError):
            await agent.history(timeout=0.01)
        gate.released.set()
        assert await waiting.result() == DONE
        await asked
        second = agent.start_run("again")
        await hang.wait_entered()
        assert await second.cancel()


async def test_a_load_failure_at_the_first_start_leaves_no_child_running() -> None:
    """AGT-054 SessionLoad is raised, and those started before are stopped, the last first."""
    order: list[str] = []

    def child(name: str) -> ChildSpec:
        hooks = Hooks(name="note", on_session_shutdown=lambda *given: order.append(name))
        return supervised(config(script(), hooks=(hooks,)), name=name)

    store = memory()
    store.load_fault = Corrupt("bad chain")
    broken = supervised_with_session_store(config(script()), name="broken", store=store)
    with pytest.raises(SessionLoad) as caught:
        async with Supervisor([child("a"), child("b"), broken, child("c")]):
            pytest.fail("never entered")
    assert caught.value.error == Corrupt("bad chain")
    assert order == ["b", "a"]
    assert no_tasks_left()


async def test_a_start_hook_that_fails_is_told_at_the_first_start() -> None:
    """AGT-054 ActorStart, like any other start error."""

    def fail(*given: object) -> None:
        raise ValueError("no")

    spec = supervised(config(script(), hooks=(Hooks(name="bad", on_session_start=fail),)), name="a")
    with pytest.raises(ActorStart):
        async with Supervisor([spec]):
            pytest.fail("never entered")
    assert no_tasks_left()


async def test_load_failures_at_restarts_count_and_end_the_supervisor(caplog: pytest.LogCaptureFixture) -> None:
    """AGT-055 Each is logged; past the limit calls raise AgentUnavailable with the cause."""
    store = memory()
    spec = supervised_with_session_store(config(script(DONE)), name="a", store=store)
    other = supervised(config(Hang()), name="other")
    with caplog.at_level(logging.WARNING, "jsrun.agent"), pytest.raises(SupervisorFailed) as caught:
        async with Supervisor([spec, other], max_restarts=2, within=60.0) as supervisor:
            agent, neighbour = supervisor.agent("a"), supervisor.agent("other")
            await agent.run("hi")
            running = neighbour.start_run("hi")
            store.load_fault = Unavailable("no route")
            await kill(agent)
            call_in_gap = agent.start_continue()
            async with asyncio.timeout(PATIENCE_S):
                with pytest.raises(SupervisorFailed):
                    await supervisor.wait()
            assert store.loads == 3, "the first start and two restarts"
            for each in (agent, neighbour):
                with pytest.raises(AgentUnavailable, match="no route"):
                    await each.run("hi")
            with pytest.raises(AgentUnavailable):
                await call_in_gap.result()
            assert (await running.outcome()).error == RunCancelled("stopped")
    assert caught.value == SupervisorFailed("a", SessionLoad(Unavailable("no route")))
    assert sum("could not be restarted" in record.getMessage() for record in caplog.records) == 2
    assert no_tasks_left()


async def test_a_child_that_dies_too_often_ends_the_supervisor() -> None:
    """AGT-055 The third death within the time is one too many; the cause is what killed it."""
    with pytest.raises(SupervisorFailed) as caught:
        async with Supervisor([supervised(config(script()), name="a")], max_restarts=2, within=60.0) as supervisor:
            agent = supervisor.agent("a")
            for number in range(3):
                await kill(agent)
                if number < 2:
                    assert await agent.history() == ()
            async with asyncio.timeout(PATIENCE_S):
                await supervisor.wait()
    assert isinstance(caught.value.cause, asyncio.CancelledError)


async def test_restarts_long_ago_do_not_count() -> None:
    """AGT-055 Only those within the time do."""
    async with Supervisor([supervised(config(script(DONE)), name="a")], max_restarts=1, within=0.05) as supervisor:
        agent = supervisor.agent("a")
        for _ in range(3):
            await kill(agent)
            assert await agent.history() == ()
            await asyncio.sleep(0.06)
        assert await agent.run("hi") == DONE


async def test_a_stopped_child_stays_stopped() -> None:
    """AGT-056 Alone: its neighbour goes on."""
    specs = [supervised(config(script(DONE)), name=name) for name in ("a", "b")]
    async with Supervisor(specs) as supervisor:
        await supervisor.agent("a").stop()
        with pytest.raises(AgentUnavailable, match="stopped"):
            await supervisor.agent("a").run("hi")
        assert await supervisor.agent("b").run("hi") == DONE
        await supervisor.agent("a").stop()
    await supervisor.wait()


async def test_leaving_ends_the_children_in_reverse_order() -> None:
    """AGT-056 A run in progress is cut short."""
    order: list[str] = []

    def child(name: str, provider: Any) -> ChildSpec:
        hooks = Hooks(name="note", on_session_shutdown=lambda *given: order.append(name))
        return supervised(config(provider, hooks=(hooks,)), name=name)

    hang = Hang()
    async with Supervisor([child("a", hang), child("b", script()), child("c", script())]) as supervisor:
        handle = supervisor.agent("a").start_run("hi")
        await hang.wait_entered()
    assert order == ["c", "b", "a"]
    assert (await handle.outcome()).error == RunCancelled("stopped")
    assert no_tasks_left()


async def test_hooks_and_events_fire_as_they_do_without_a_supervisor() -> None:
    """AGT-057 The same points and the same events, once per actor start."""

    async def play(supervise: bool) -> tuple[list[str], list[str]]:
        points: list[str] = []
        hooks = noting(points)
        seen = Seen()
        settings = config(script(asks(call("a")), DONE), hooks=(hooks,), dispatcher=seen.dispatcher)
        if supervise:
            async with Supervisor([supervised(settings, name="a")]) as supervisor:
                await supervisor.agent("a").run("hi")
        else:
            async with await start(settings) as agent:
                await agent.run("hi")
        return points, await seen.names()

    alone, watched = await play(False), await play(True)
    assert alone == watched
    assert len(alone[0]) == 9


async def test_a_crash_is_told_by_events_and_the_shutdown_hook() -> None:
    """AGT-057 AGT-066 AGT-074 Also of an actor that was killed; then the next one starts counting anew."""
    ended: list[str] = []
    seen = Seen()
    hang = Hang()
    hooks = Hooks(name="note", on_session_shutdown=lambda *given: ended.append("x"))
    settings = config(script(lambda request: hang(), DONE), hooks=(hooks,), dispatcher=seen.dispatcher)
    async with Supervisor([supervised(settings, name="a")]) as supervisor:
        agent = supervisor.agent("a")
        handle = agent.start_run("hi")
        await hang.wait_entered()
        await kill(agent)
        await asyncio.wait_for(handle.outcome(), PATIENCE_S)
        assert await agent.run("hi") == DONE
        assert ended == ["x"]
    assert ended == ["x", "x"]
    names = await seen.names()
    assert names.count("SessionStarted") == names.count("SessionEnded") == 2
    assert names.count("RunStarted") == names.count("RunFinished") == 2
    first = await seen.events(RunFinished)
    assert (first[0].status, first[1].status) == ("failed", "completed")
    starts = [record.seq for record in seen.records if type(record.event).__name__ == "SessionStarted"]
    assert starts == [1, 1]


async def test_bad_specs_are_refused() -> None:
    """AGT-056 Two children of one name, and limits that are none."""
    spec = supervised(config(script()), name="a")
    with pytest.raises(InvalidConfiguration, match="'a' stands twice"):
        Supervisor([spec, spec])
    with pytest.raises(InvalidConfiguration, match="max_restarts"):
        Supervisor([spec], max_restarts=-1)
    with pytest.raises(InvalidConfiguration, match="within"):
        Supervisor([spec], within=0)
    async with Supervisor([spec]) as supervisor:
        with pytest.raises(KeyError):
            supervisor.agent("b")


async def test_a_stop_during_a_restart_ends_the_child() -> None:
    """AGT-056 The new actor is stopped as soon as it is there."""
    store = memory()
    gate = Hang(None)
    spec = supervised_with_session_store(config(script(DONE)), name="a", store=store)
    inner = store.load
    async with Supervisor([spec]) as supervisor:
        agent = supervisor.agent("a")

        async def slow_load() -> Any:
            await gate()
            return await inner()

        store.load = slow_load  # type: ignore[method-assign]  # this store loads when it is told to
        await kill(agent)
        await gate.wait_entered()
        stopping = asyncio.ensure_future(agent.stop())
        await asyncio.sleep(0)
        assert not stopping.done()
        gate.released.set()
        async with asyncio.timeout(PATIENCE_S):
            await stopping
        with pytest.raises(AgentUnavailable, match="stopped"):
            await agent.history()
    assert no_tasks_left()


async def test_a_child_commits_from_the_given_head_on() -> None:
    """AGT-053 The first commit follows what it was given."""
    store = memory()
    await store.inner.commit(SessionCommit("c0", None, (HI,)))
    spec = supervised(
        config(script(InferenceResult(DONE))), name="a", initial_history=(HI,), session=SessionReady(store, "c0")
    )
    async with Supervisor([spec]) as supervisor:
        assert await supervisor.agent("a").run_continue() == DONE
    assert store.commits[0].parent == "c0"
