"""A real process is killed at every step of a run; what it committed is enough to go on."""

import asyncio
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from jsrun.agent.errors import RuntimeFault
from jsrun.agent.messages import AssistantMessage, Message, ToolMessage
from jsrun.agent.runtime import start_with_session_store
from jsrun.agent.stores.sqlite import SqliteSessions
from tests.agent.crash_child import CALLS, POINTS, settings
from tests.agent.helpers import HI, PATIENCE_S

ASKED = AssistantMessage("", CALLS, stop_reason="tool_use")
RESULTS = (ToolMessage("a", "did a"), ToolMessage("b", "did b"))
ANSWER = AssistantMessage("did a and did b", stop_reason="stop")
UNDISTURBED: tuple[Message, ...] = (HI, ASKED, *RESULTS, ANSWER)

# What is stored after each commit, by how many commits landed.
STORED = (0, 1, 2, 4, 5)


@dataclass(frozen=True)
class Expected:
    """By the point of death: commits that landed, and what the continuing process does."""

    landed: int
    inferences: int
    tools: int


EXPECTED = {
    "before commit 0": Expected(0, 2, 2),
    "after commit 0": Expected(1, 2, 2),
    "in inference 0": Expected(1, 2, 2),
    "before commit 1": Expected(1, 2, 2),
    "after commit 1": Expected(2, 1, 2),
    "in tool a": Expected(2, 1, 2),
    "in tool b": Expected(2, 1, 2),
    "before commit 2": Expected(2, 1, 2),
    "after commit 2": Expected(3, 1, 0),
    "in inference 1": Expected(3, 1, 0),
    "before commit 3": Expected(3, 1, 0),
    "after commit 3": Expected(4, 0, 0),
}


def notes(folder: Path) -> list[str]:
    """What inferences and tools have noted, the dead process included."""
    path = folder / "notes"
    return path.read_text().splitlines() if path.is_file() else []


async def die(folder: Path, point: str, kind: str = "repeatable") -> None:
    """Run the agent in a process of its own until it is killed at that point."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.agent.crash_child", str(folder), point, kind
    )
    async with asyncio.timeout(PATIENCE_S):
        assert await child.wait() == -signal.SIGKILL


@pytest.mark.parametrize("point", POINTS)
async def test_a_killed_run_is_continued_to_the_undisturbed_outcome(point: str, tmp_path: Path) -> None:
    """AGT-044 The stored tail, and what `run_continue` does with it, are those of the crash table."""
    expected = EXPECTED[point]
    await die(tmp_path, point)
    before = notes(tmp_path)
    async with SqliteSessions(tmp_path / "sessions.db") as sessions:
        store = sessions.open("s")
        assert (await store.load()).messages == UNDISTURBED[: STORED[expected.landed]]
        configuration = settings(tmp_path, lambda point: None, repeatable=True)
        async with await start_with_session_store(configuration, store) as agent:
            if expected.landed == 0:  # not even the prompt was kept
                with pytest.raises(RuntimeFault, match="no_history"):
                    await agent.run_continue()
                answer = await agent.run("hi")
            else:
                answer = await agent.run_continue()
            assert answer == ANSWER
        assert (await store.load()).messages == UNDISTURBED
        assert len(await sessions.list()) == 1
    again = notes(tmp_path)[len(before) :]
    assert sum(line.startswith("inference") for line in again) == expected.inferences
    assert sum(line.startswith("tool") for line in again) == expected.tools


@pytest.mark.parametrize("point", ["after commit 1", "in tool a", "before commit 2"])
async def test_a_tool_that_must_not_be_repeated_is_not_run_again(point: str, tmp_path: Path) -> None:
    """AGT-019 AGT-044 Nobody knows whether it ran, so the model is told, and the run goes on."""
    await die(tmp_path, point, "once")
    before = notes(tmp_path)
    async with SqliteSessions(tmp_path / "sessions.db") as sessions:
        configuration = settings(tmp_path, lambda point: None, repeatable=False)
        async with await start_with_session_store(configuration, sessions.open("s")) as agent:
            answer = await agent.run_continue()
    assert answer.content.count("Tool error: outcome unknown") == 2
    assert notes(tmp_path)[len(before) :] == ["inference 1"]


async def test_a_session_may_die_again_and_again(tmp_path: Path) -> None:
    """AGT-044 Each process does one step and is killed; the last one finds the work done."""
    await die(tmp_path, "after commit 0")
    for number in range(3):
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.agent.crash_child", str(tmp_path), "after commit 0", "repeatable", "continue"
        )
        async with asyncio.timeout(PATIENCE_S):
            assert await child.wait() == -signal.SIGKILL
        async with SqliteSessions(tmp_path / "sessions.db") as sessions:
            assert len((await sessions.open("s").load()).messages) == STORED[number + 2]
    assert notes(tmp_path) == ["inference 0", "tool a", "tool b", "inference 1"]
