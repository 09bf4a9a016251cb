"""The ACP library as client and as agent, with five plugs between them."""

import asyncio
import contextlib
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from jsrun.plugs._level import PlugEntry
from jsrun.plugs._side import Side
from jsrun.plugs.agentproc import AgentPart
from jsrun.plugs.api import NextMessage, Plug
from jsrun.plugs.clock import LoopClock
from jsrun.plugs.hosts import BoundHost, LocalHost, UnavailableHost
from jsrun.plugs.infos import RunInfo, SessionInfo
from jsrun.plugs.message import Message
from jsrun.plugs.persist import MemoryStore
from jsrun.plugs.runner import AgentBase, MemoryRecorder, Run, RunEnd, RunPlan
from tests.plugs import acp_agent

acp = pytest.importorskip("acp", reason="pip install 'subharness[acp]'")

TURNS = 200
# A busy machine is slow; a quiet one needs two seconds.
PATIENCE = 100.0


class Through(Plug, name="through"):
    """Passes everything on, after looking at it as a model of the library."""

    async def message(self, message: Message, next: NextMessage) -> Any:
        message.view()
        return await next(message)


class Noting:
    """A client that notes what it is told, and allows everything."""

    def __init__(self) -> None:
        self.said = ""
        self.asked: list[str] = []

    def on_connect(self, conn: Any) -> None:
        return None

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.said += update.content.text

    async def request_permission(self, session_id: str, tool_call: Any, options: Any, **_: Any) -> Any:
        self.asked.append(tool_call.tool_call_id)
        outcome = acp.schema.AllowedOutcome(outcome="selected", option_id=options[0].option_id)
        return acp.RequestPermissionResponse(outcome=outcome)


@contextlib.asynccontextmanager
async def connected(run_with: Any) -> AsyncIterator[tuple[Any, asyncio.Task[RunEnd]]]:
    """The library's streams, and the run that `run_with(side)` makes for what is at their other end."""
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=ours)
    streams = await asyncio.open_connection(sock=theirs)

    async def write(data: bytes) -> None:
        writer.write(data)
        await writer.drain()

    side = Side("client", write)

    async def read() -> None:
        while data := await reader.read(64 * 1024):
            await side.receive(data)
        await side.end()

    tasks = [asyncio.create_task(run_with(side).perform()), asyncio.create_task(read())]
    try:
        yield streams, tasks[0]
    finally:
        streams[1].close()
        await asyncio.gather(*tasks, return_exceptions=True)
        writer.close()
        side.close()


@pytest.mark.plg("PLG-039", "PLG-047")
async def test_the_library_talks_to_itself_through_five_plugs(tmp_path: Path) -> None:
    """PLG-039 PLG-047 200 turns, 600 updates in order, permissions and a cancel; the agent exits with 0."""
    runs: list[Run] = []

    def run_with(side: Side) -> Run:
        recorder = MemoryRecorder()
        agent = AgentBase(sys.executable, (acp_agent.__file__,), {"PYTHONPATH": str(Path(__file__).parents[2])})
        runs.append(
            Run(
                RunPlan([PlugEntry(Through)] * 5, SessionInfo("s"), RunInfo("start", 1), agent=agent),
                agent=AgentPart(side, recorder, clock=LoopClock()),
                host=LocalHost(tmp_path),
                store=MemoryStore(),
                recorder=recorder,
                bind=BoundHost,
                unavailable=UnavailableHost,
            )
        )
        return runs[0]

    client = Noting()
    async with asyncio.timeout(PATIENCE), connected(run_with) as ((reader, writer), running):
        connection = acp.connect_to_agent(client, writer, reader)
        await connection.initialize(protocol_version=1)
        session = (await connection.new_session(cwd=str(tmp_path))).session_id
        for _ in range(TURNS):
            answer = await connection.prompt(session_id=session, prompt=[acp.text_block("go")])
            assert answer.stop_reason == "end_turn"
        waiting = asyncio.create_task(connection.prompt(session_id=session, prompt=[acp.text_block("wait")]))
        await asyncio.sleep(0)
        await connection.cancel(session_id=session)
        assert (await waiting).stop_reason == "cancelled"
        await connection.close()
        runs[0].stop("closed")
        end = await running
    assert (end.state, end.reason, end.error) == ("ended", "closed", None)
    assert [int(number) for number in client.said.split()] == list(range(TURNS * acp_agent.UPDATES))
    assert client.asked == [f"call-{turn}" for turn in range(0, TURNS, 10)]
