"""A process that runs an agent on a SQLite session and is killed on the way: `python -m tests.agent.crash_child`.

Arguments: the folder for database and notes, the point at which to die, `repeatable` or `once` for the tool, and
`continue` to go on with the session instead of a prompt.
"""

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jsrun.agent.config import RuntimeConfig
from jsrun.agent.messages import AssistantMessage, ToolCall, ToolMessage
from jsrun.agent.provider import InferenceRequest, InferenceResult
from jsrun.agent.runtime import start_with_session_store
from jsrun.agent.session import CommitAck, Session, SessionCommit
from jsrun.agent.stores.sqlite import SqliteSessions, SqliteStore
from jsrun.agent.tools import Tool, ToolContext, ToolDefinition, ToolRegistry

CALLS = (ToolCall("a", "note", "{}"), ToolCall("b", "note", "{}"))

# Every moment at which a run with one round can die, in the order they come.
POINTS = (
    "before commit 0",
    "after commit 0",
    "in inference 0",
    "before commit 1",
    "after commit 1",
    "in tool a",
    "in tool b",
    "before commit 2",
    "after commit 2",
    "in inference 1",
    "before commit 3",
    "after commit 3",
)


def note(folder: Path, line: str) -> None:
    """Leave a line that survives the process."""
    with (folder / "notes").open("a") as file:
        file.write(line + "\n")


def die_at(wanted: str) -> Callable[[str], None]:
    """What kills this process when it comes to the wanted point."""

    def reached(point: str) -> None:
        if point == wanted:
            os.kill(os.getpid(), signal.SIGKILL)

    return reached


class DyingStore:
    """The real store, with a point before and after each commit."""

    def __init__(self, inner: SqliteStore, reached: Callable[[str], None]) -> None:
        self._inner = inner
        self._reached = reached
        self._commits = 0

    @property
    def session_id(self) -> str:
        """The real one's."""
        return self._inner.session_id

    async def load(self) -> Session:
        """The real one's."""
        return await self._inner.load()

    async def commit(self, commit: SessionCommit) -> CommitAck:
        """The real one, unless this process dies before or after it."""
        number, self._commits = self._commits, self._commits + 1
        self._reached(f"before commit {number}")
        ack = await self._inner.commit(commit)
        self._reached(f"after commit {number}")
        return ack


def settings(folder: Path, reached: Callable[[str], None], repeatable: bool) -> RuntimeConfig:
    """An agent whose model asks for two calls and then tells their results; it notes each inference and tool."""

    async def provider(request: InferenceRequest) -> InferenceResult:
        results = [message.content for message in request.messages if isinstance(message, ToolMessage)]
        number = 1 if results else 0
        note(folder, f"inference {number}")
        reached(f"in inference {number}")
        if not results:
            return InferenceResult(AssistantMessage("", CALLS, stop_reason="tool_use"))
        return InferenceResult(AssistantMessage(" and ".join(results), stop_reason="stop"))

    async def work(arguments: dict[str, Any], ctx: ToolContext) -> str:
        note(folder, f"tool {ctx.call_id}")
        reached(f"in tool {ctx.call_id}")
        return f"did {ctx.call_id}"

    tool = Tool(ToolDefinition("note", "Work.", {"type": "object"}), work, repeatable=repeatable)
    return RuntimeConfig(provider, ToolRegistry((tool,)), model="test")


async def main(folder: Path, point: str, repeatable: bool, goes_on: bool) -> None:
    """Run until dead, or to the end."""
    reached = die_at(point)
    async with SqliteSessions(folder / "sessions.db") as sessions:
        store = DyingStore(sessions.open("s"), reached)
        async with await start_with_session_store(settings(folder, reached, repeatable), store) as agent:
            await (agent.run_continue() if goes_on else agent.run("hi"))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3] == "repeatable", "continue" in sys.argv))
