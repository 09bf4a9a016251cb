"""Real hosts in the hands of a run: what is closed, what is killed, what never connects."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from jsrun.plugs._level import PlugEntry
from jsrun.plugs.api import AgentSpawnSpec, HostProcess, Plug
from jsrun.plugs.hosts import LocalHost, SshHost
from jsrun.plugs.hosts.ssh import SshLogin
from jsrun.plugs.infos import PauseInfo, RunInfo, SessionInfo
from jsrun.plugs.persist import MemoryStore
from jsrun.plugs.runner import AgentBase, MemoryRecorder, Run, RunEnd, RunPlan


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
