"""Many agents at once in one loop."""

import asyncio
import threading

from jsrun.agent.messages import ToolMessage
from jsrun.agent.runtime import start, start_with_session_store
from jsrun.agent.stores.memory import MemorySessions
from tests.agent.helpers import DONE, PATIENCE_S, asks, call, config, eventually, no_tasks_left, script

AGENTS = 200


async def test_two_hundred_agents_with_three_rounds_each_leave_nothing() -> None:
    """AGT-020 AGT-035 Each has its own conversation, and afterwards there is no task, no timer, no thread."""
    sessions = MemorySessions()
    before = threading.active_count()

    async def one(number: int) -> None:
        rounds = [asks(call(f"{number}-{at}-a"), call(f"{number}-{at}-b")) for at in range(3)]
        store = sessions.open(f"s{number}")
        async with await start_with_session_store(config(script(*rounds, DONE)), store) as agent:
            assert await agent.run(f"job {number}") == DONE
            found = [message.content for message in await agent.history() if isinstance(message, ToolMessage)]
            assert found == [f"seen {number}-{at}-{name}" for at in range(3) for name in "ab"]
        stored = (await store.load()).messages
        assert stored[0].content == f"job {number}"
        assert len(stored) == 11

    async with asyncio.timeout(3 * PATIENCE_S):
        await asyncio.gather(*map(one, range(AGENTS)))
    assert len(await sessions.list()) == AGENTS
    assert no_tasks_left()
    await eventually(lambda: threading.active_count() <= before)


async def test_runs_one_after_the_other_do_not_pile_up() -> None:
    """AGT-020 Two hundred runs of one agent leave the tasks of one agent."""
    async with await start(config(script(*[DONE] * AGENTS))) as agent:
        await agent.run("hi")
        tasks = len(asyncio.all_tasks())
        for _ in range(AGENTS - 1):
            await agent.run("hi")
        assert len(asyncio.all_tasks()) == tasks
        assert len(await agent.history()) == 2 * AGENTS
