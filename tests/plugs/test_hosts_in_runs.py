"""Real hosts in the hands of a run: what is closed, what is killed, what never connects."""

import asyncio
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from jsrun.plugs._level import PlugEntry
from jsrun.plugs._side import Side
from jsrun.plugs.agentproc import AgentPart
from jsrun.plugs.api import AgentSpawnSpec, HostProcess, Plug
from jsrun.plugs.clock import LoopClock
from jsrun.plugs.hosts import LocalHost, SshHost
from jsrun.plugs.hosts.ssh import SshLogin
from jsrun.plugs.infos import PauseInfo, RunInfo, SessionInfo
from jsrun.plugs.persist import MemoryStore
from jsrun.plugs.runner import AgentBase, MemoryRecorder, Run, RunEnd, RunPlan
from jsrun.plugs.testing.peer import Peer
from tests.plugs.sshd import Server, sshd


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One SSH server for all tests of the module."""
    with sshd(tmp_path_factory.mktemp("sshd")) as running:
        yield running


async def perform(plugs: Sequence[type[Plug]], host: LocalHost) -> RunEnd:
    """A start that is closed as soon as the agent would run, and torn down."""

    async def agent(spec: AgentSpawnSpec, host: Any, lifecycle: Any) -> PauseInfo:
        lifecycle.stop("closed")
        info: PauseInfo = await lifecycle.stopped()
        return info

    plan = RunPlan([PlugEntry(plug) for plug in plugs], SessionInfo("s1"), RunInfo("start", 1), AgentBase("agent"))
    run = Run(plan, agent=agent, host=host, store=MemoryStore(), recorder=MemoryRecorder())
    return await asyncio.wait_for(run.perform(), 30)


@pytest.mark.plg("PLG-081")
async def test_what_plugs_leave_running_ends_with_the_run(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """PLG-081 On the runner when the run ends, on a handed host when that is closed, with a warning each."""
    left: list[HostProcess] = []

    class Leaving(Plug, name="t/leaving"):
        async def session(self, next: Any) -> None:
            left.append(await self.ctx.runner.spawn(AgentSpawnSpec("sleep", ("1000",))))
            await next(LocalHost(tmp_path))
            assert await left[1].wait() == -15  # the handed host was closed before the plug goes on

    class Inner(Plug, name="t/inner"):
        async def session(self, next: Any) -> None:
            left.append(await self.ctx.host.spawn(AgentSpawnSpec("sleep", ("1000",))))
            await next()

    host = LocalHost(tmp_path)
    end = await perform([Leaving, Inner], host)
    assert end.error is None and host.closed
    for process in left:
        assert await process.wait() == -15
        assert process.pid is not None
        with pytest.raises(ProcessLookupError):
            os.kill(process.pid, 0)
    assert [record.message for record in caplog.records if "left running" in record.message] == [
        "processes left running on a host (local) are killed: 1"
    ] * 2


@pytest.mark.plg("PLG-077")
async def test_a_handed_host_nobody_uses_never_connects(tmp_path: Path) -> None:
    """PLG-077 Neither when it is handed on and closed in both phases, nor when its facts are read."""
    connections: list[Any] = []
    listener = await asyncio.start_server(lambda *streams: connections.append(streams), "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    workspaces: list[str] = []

    class Handing(Plug, name="t/handing"):
        def remote(self) -> SshHost:
            return SshHost(SshLogin("127.0.0.1", port=port), workspace="/remote")

        async def session(self, next: Any) -> None:
            await next(self.remote())

        async def teardown(self, next: Any) -> None:
            await next(self.remote())

    class Looking(Plug, name="t/looking"):
        async def session(self, next: Any) -> None:
            workspaces.append(self.ctx.agent.cwd)
            await next()

        async def teardown(self, next: Any) -> None:
            workspaces.append(self.ctx.host.info.workspace)
            await next()

    async with listener:
        end = await perform([Handing, Looking], LocalHost(tmp_path))
    assert end.error is None and end.teardown is not None
    assert workspaces == ["/remote", "/remote"]
    assert connections == []


# Answers every request with what it was asked, where it runs, and a variable; ends with its input.
_AGENT = """
import json, os, sys
for line in sys.stdin:
    asked = json.loads(line)
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": {
        "asked": asked["params"], "cwd": os.getcwd(), "key": os.environ.get("KEY"),
        "ssh": "SSH_CONNECTION" in os.environ,
    }}), flush=True)
"""


@pytest.mark.plg("PLG-037")
async def test_an_agent_runs_on_a_handed_machine(server: Server, tmp_path: Path) -> None:
    """PLG-037 Over SSH: messages both ways, its folder and variables; it ends with the session."""
    (tmp_path / "remote").mkdir()
    (tmp_path / "agent.py").write_text(_AGENT)

    class Remote(Plug, name="t/remote"):
        async def session(self, next: Any) -> None:
            self.ctx.agent.env["KEY"] = "a\nb"
            await next(SshHost(server.login, workspace=str(tmp_path / "remote")))

    recorder = MemoryRecorder()
    opened = asyncio.Event()

    async def open_(chain: Any) -> None:
        opened.set()

    client = Peer("client")
    side = Side("client", client.accept)
    client.feed = side.receive
    part = AgentPart(side, recorder, clock=LoopClock(), open=open_)
    base = AgentBase(sys.executable, (str(tmp_path / "agent.py"),))
    plan = RunPlan([PlugEntry(Remote)], SessionInfo("s1"), RunInfo("start", 1), base)
    run = Run(plan, agent=part, host=LocalHost(tmp_path), store=MemoryStore(), recorder=recorder)
    performing = asyncio.create_task(run.perform())
    await asyncio.wait_for(opened.wait(), 30)
    params = {"text": "ü" * 50_000, "n": list(range(100))}
    answers = await asyncio.wait_for(asyncio.gather(*(client.request("x/y", params) for _ in range(5))), 30)
    expected = {"asked": params, "cwd": str(tmp_path / "remote"), "key": "a\nb", "ssh": True}
    assert answers == [expected] * 5
    run.stop("closed")
    end = await asyncio.wait_for(performing, 30)
    assert end.error is None and end.reason == "closed"
    await client.close()
    side.close()
