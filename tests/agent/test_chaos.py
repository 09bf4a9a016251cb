"""Runs under faults of every kind at any moment: what is durable comes first, and nothing is lost or left behind."""

import asyncio
import random
from typing import Any

import pytest

from jsrun.agent.config import RuntimeLimits
from jsrun.agent.errors import ApiError, RunCancelled, RuntimeFault, SessionFailure, Unavailable
from jsrun.agent.events import RunFinished, RunStarted
from jsrun.agent.messages import AssistantMessage, ToolMessage, open_calls, pairing_problem
from jsrun.agent.provider import InferenceRequest, InferenceResult
from jsrun.agent.runtime import Agent, start_with_session_store
from jsrun.agent.session import CommitAck, SessionCommit
from jsrun.agent.stores.memory import MemorySessions
from jsrun.agent.tools import ToolContext
from tests.agent.helpers import PATIENCE_S, Seen, Store, asks, call, config, no_tasks_left, tool

ACTIONS = 30


class World:
    """A model, a tool and a store that misbehave by chance, and check at each call what must be durable by then."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.calm = False
        self.store = Store(MemorySessions().open("s"))
        self.problems: list[str] = []
        self._real_commit = self.store.commit
        self.store.commit = self.commit  # type: ignore[method-assign]  # the store of this world

    def often(self, probability: float) -> bool:
        """Does it happen this time?"""
        return not self.calm and self.chance.random() < probability

    async def dawdle(self) -> None:
        """Take a few turns of the loop."""
        for _ in range(self.chance.choice((0, 0, 1, 3, 8))):
            await asyncio.sleep(0)

    async def commit(self, commit: SessionCommit) -> CommitAck:
        """Commit, fail before it, or land and lose the answer."""
        await self.dawdle()
        if self.often(0.1):
            raise Unavailable("before")
        ack = await self._real_commit(commit)
        await self.dawdle()
        if self.often(0.05):
            raise Unavailable("after")
        return ack

    async def provider(self, request: InferenceRequest) -> InferenceResult:
        """Answer, ask for tools, ask for what is unsound, fail, or hang."""
        stored = (await self.store.load()).messages
        if stored != request.messages:
            self.problems.append(f"asked with {len(request.messages)} messages, {len(stored)} were durable")
        if open_calls(request.messages):
            self.problems.append("asked with an open call")
        await self.dawdle()
        if self.often(0.05):
            raise ApiError("by chance")
        if self.often(0.05):
            await asyncio.sleep(3600)
        if self.calm or self.chance.random() < 0.4:
            reason = None if self.calm else self.chance.choice(("stop", "length"))
            return InferenceResult(AssistantMessage("done", stop_reason=reason))
        ids = [f"c{self.chance.randrange(4)}" for _ in range(self.chance.randrange(1, 4))]
        return InferenceResult(asks(*map(call, ids)))

    async def work(self, arguments: dict[str, Any], ctx: ToolContext) -> str:
        """Answer, fail, or hang."""
        waiting = [one.id for one in open_calls((await self.store.load()).messages)]
        if ctx.call_id not in waiting:
            self.problems.append(f"a tool ran before its request was durable: {ctx.call_id}")
        await self.dawdle()
        if self.often(0.1):
            raise ValueError("by chance")
        if self.often(0.05):
            await asyncio.sleep(3600)
        return "worked"

    async def act(self, agent: Agent, number: int) -> None:
        """One thing a caller may do, and what must hold after it."""
        kind = self.chance.choice(("run", "run", "continue", "continue", "reload"))
        if kind == "reload":
            await agent.reload()
        else:
            handle = agent.start_run(f"job {number}") if kind == "run" else agent.start_continue()
            for _ in range(self.chance.choice((2, 10, 40))):
                await asyncio.sleep(0)
            # Arguments are checked in a thread, so tools come only to those who wait.
            await asyncio.sleep(self.chance.choice((0, 0.002, 0.01, 0.03)))
            cut = asyncio.ensure_future(handle.cancel())
            outcome = await asyncio.wait_for(handle.outcome(), PATIENCE_S)
            assert await cut is (outcome.error == RunCancelled("caller"))
            assert (outcome.message is None) is not (outcome.error is None)
        held, stored = await agent.history(), (await self.store.load()).messages
        # What is stored may be ahead by the one commit whose answer was lost.
        assert stored[: len(held)] == held
        assert pairing_problem(held) is None
        assert pairing_problem(stored) is None


@pytest.mark.parametrize("seed", range(16))
async def test_whatever_fails_and_whoever_cancels(seed: int) -> None:
    """AGT-012 AGT-036 AGT-045 What was asked for was durable before, and afterwards the work comes to its end."""
    world = World(seed)
    seen = Seen()
    limits = RuntimeLimits(cancel_grace=1.0, inference_timeout=5.0, tool_timeout=5.0)
    settings = config(world.provider, tool(world.work), limits=limits, dispatcher=seen.dispatcher, max_iterations=4)
    async with await start_with_session_store(settings, world.store) as agent:
        for number in range(ACTIONS):
            await world.act(agent, number)
        world.calm = True
        for _ in range(3):  # a pending commit may have landed already, and then its retry finds the head beyond it
            try:
                await agent.run("at last")
            except RuntimeFault as fault:
                assert fault.code == "pending"
                try:
                    await agent.run_continue()
                except SessionFailure:
                    await agent.reload()
        held = await agent.history()
        assert held == (await world.store.load()).messages
        assert pairing_problem(held) is None
        assert open_calls(held) == ()
        assert isinstance(held[-1], AssistantMessage)
    assert world.problems == []
    assert len(await seen.events(RunStarted)) == len(await seen.events(RunFinished))
    assert any(isinstance(message, ToolMessage) for message in held)
    assert no_tasks_left()
