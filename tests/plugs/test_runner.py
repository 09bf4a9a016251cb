"""Runs with the real parts: an agent process on this machine, the chain, the stores."""

import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from jsrun.plugs import (
    AgentExited,
    AgentNotRunning,
    AgentSpawnSpec,
    AgentStartError,
    MemoryStore,
    Message,
    PauseInfo,
    Plug,
)
from jsrun.plugs._level import PlugEntry
from jsrun.plugs._side import Side
from jsrun.plugs.agentproc import AgentPart
from jsrun.plugs.clock import LoopClock
from jsrun.plugs.hosts.local import LocalHost
from jsrun.plugs.infos import RunInfo, SessionInfo
from jsrun.plugs.runner import AgentBase, MemoryRecorder, Run, RunEnd, RunPlan
from tests.plugs.rig import PATIENCE, entries
from tests.plugs.sample import VmPlug

# Answers every request but `wait`; `exit` ends it with a code, before or after its answer.
_AGENT = """
import json, os, sys
for line in sys.stdin:
    message = json.loads(line)
    params = message.get("params") or {}
    if message.get("method") == "wait":
        continue
    if params.get("code") is not None and not params.get("answer"):
        print("good bye", file=sys.stderr, flush=True)
        os._exit(params["code"])
    if "id" in message:
        result = {"method": message["method"], "cwd": os.getcwd(), "env": os.environ.get("LEVEL")}
        result |= {"pid": os.getpid(), "args": sys.argv[1:]}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
    if params.get("code") is not None:
        os._exit(params["code"])
"""


class Watching(Plug, name="test/watching"):
    """Notes how the run looks from outside."""

    infos: list[PauseInfo]

    async def session(self, next: Any) -> None:
        self.ctx.agent.env["LEVEL"] = "watching"
        self.infos.append(await next())


def watching() -> type[Watching]:
    """A plug whose class keeps the infos it was given."""

    class Fresh(Watching, name="test/watching"):
        infos: list[PauseInfo] = []  # noqa: RUF012  # one per class made here

    return Fresh


@dataclass
class Talk:
    """A client, and the run it talks to."""

    run: Run
    recorder: MemoryRecorder
    client: Side
    out: "asyncio.Queue[dict[str, Any]]"
    task: "asyncio.Task[RunEnd]" = field(init=False)
    number: int = 0

    async def send(self, method: str, **params: Any) -> int:
        """Ask, without waiting; the request's id."""
        self.number += 1
        line = json.dumps({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params})
        await self.client.receive(line.encode() + b"\n")
        return self.number

    async def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Ask and wait; the answer."""
        number = await self.send(method, **params)
        answer = await asyncio.wait_for(self.out.get(), PATIENCE)
        assert answer["id"] == number
        return answer

    async def end(self) -> RunEnd:
        """How the run ended."""
        return await asyncio.wait_for(asyncio.shield(self.task), PATIENCE)


@contextlib.asynccontextmanager
async def talking(
    plugs: list[PlugEntry], tmp_path: Path, command: str = sys.executable, store: MemoryStore | None = None
) -> AsyncIterator[Talk]:
    """A run under way with the real agent."""
    out: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def write(data: bytes) -> None:
        for line in data.splitlines():
            out.put_nowait(json.loads(line))

    client = Side("client", write)
    recorder = MemoryRecorder()
    plan = RunPlan(
        entries=plugs,
        session=SessionInfo("s1"),
        run=RunInfo("start", 1),
        agent=AgentBase(command, ("-u", "-c", _AGENT)),
    )
    part = AgentPart(client, recorder, clock=LoopClock())
    run = Run(plan, agent=part, host=LocalHost(tmp_path), store=store or MemoryStore(), recorder=recorder)
    talk = Talk(run, recorder, client, out)
    talk.task = asyncio.create_task(run.perform())
    try:
        yield talk
    finally:
        run.stop("cancelled")
        await asyncio.wait({talk.task}, timeout=PATIENCE)
        client.close()


@pytest.mark.plg("PLG-010", "PLG-032")
async def test_the_agent_is_started_as_the_innermost_draft_says(tmp_path: Path) -> None:
    """PLG-010, PLG-032"""
    outer = watching()
    async with talking(entries(outer), tmp_path) as talk:
        answer = await talk.ask("initialize")
        result = answer["result"]
        assert (result["method"], result["env"]) == ("initialize", "watching")
        assert Path(result["cwd"]).name == tmp_path.name
        talk.run.stop("idle")
        end = await talk.end()
    assert (end.state, outer.infos) == ("paused", [PauseInfo("idle")])
    assert [step[0] for step in talk.recorder.steps] == [
        *("run", "load", "attach", "agent", "stopping", "pause", "ended"),
    ]


@pytest.mark.plg("PLG-027")
async def test_an_agent_that_exits_with_0_and_nothing_in_flight_has_completed(tmp_path: Path) -> None:
    """PLG-027"""
    outer = watching()
    async with talking(entries(outer), tmp_path) as talk:
        answer = await talk.ask("last", code=0, answer=True)
        assert answer["result"]["method"] == "last"
        end = await talk.end()
    assert outer.infos == [PauseInfo("completed")]
    assert (end.state, end.reason) == ("ended", "completed")


@pytest.mark.plg("PLG-027")
@pytest.mark.parametrize(("code", "answer", "before"), [(0, False, None), (3, True, None), (0, True, "wait")])
async def test_any_other_exit_of_the_agent_is_a_failure(
    tmp_path: Path, code: int, answer: bool, before: str | None
) -> None:
    """PLG-027 A request in flight, or another code."""
    outer = watching()
    async with talking(entries(outer), tmp_path) as talk:
        if before is not None:
            await talk.send(before)
        await talk.send("last", code=code, answer=answer)
        end = await talk.end()
        answers = [talk.out.get_nowait() for _ in range(talk.out.qsize())]
    (info,) = outer.infos
    assert info.reason == "failed" and isinstance(info.error, AgentExited)
    assert info.error.code == code and end.error is info.error
    if not answer:
        assert "good bye" in str(info.error)
    assert sorted(each["id"] for each in answers) == list(range(1, talk.number + 1))


@pytest.mark.plg("PLG-027")
async def test_an_agent_killed_by_a_signal_is_a_failure(tmp_path: Path) -> None:
    """PLG-027"""
    async with talking([], tmp_path) as talk:
        answer = await talk.ask("initialize")
        os.kill(answer["result"]["pid"], signal.SIGKILL)
        end = await talk.end()
    assert isinstance(end.error, AgentExited) and end.error.code == -signal.SIGKILL


@pytest.mark.plg("PLG-014")
async def test_an_agent_that_cannot_be_started_fails_the_run(tmp_path: Path) -> None:
    """PLG-014"""
    outer = watching()
    async with talking(entries(outer), tmp_path, command=str(tmp_path / "no-such-agent")) as talk:
        end = await talk.end()
    assert isinstance(outer.infos[0].error, AgentStartError)
    assert end.state == "ended" and "no-such-agent" in str(end.error)


@pytest.mark.plg("PLG-059")
async def test_a_plug_can_send_only_while_the_agent_runs(tmp_path: Path) -> None:
    """PLG-059"""
    results: list[Any] = []

    class Sending(Plug):
        async def load(self) -> None:
            await self._try()

        async def _try(self) -> None:
            try:
                results.append(await self.ctx.send(Message("to_agent", "_hello", {}, "request")))
            except AgentNotRunning as error:
                results.append(error)

        async def session(self, next: Any) -> None:
            await next()
            await self._try()

        async def message(self, message: Message, next: Any) -> Any:
            if message.method == "please":
                await self._try()
            return await next(message)

    async with talking(entries(Sending), tmp_path) as talk:
        await talk.ask("please")
        talk.run.stop("idle")
        await talk.end()
    assert [type(result) for result in results] == [AgentNotRunning, dict, AgentNotRunning]
    assert results[1]["method"] == "_hello"


@pytest.mark.plg("PLG-037", "PLG-081")
async def test_a_process_that_a_plug_left_running_ends_with_the_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """PLG-037, PLG-081"""
    processes: list[Any] = []

    class Leaving(Plug):
        async def session(self, next: Any) -> None:
            processes.append(await self.ctx.host.spawn(AgentSpawnSpec("sleep", ("600",))))
            await next()

    with caplog.at_level(logging.WARNING, "jsrun.plugs"):
        async with talking(entries(Leaving), tmp_path) as talk:
            await talk.ask("initialize")
            talk.run.stop("closed")
            await talk.end()
    assert await asyncio.wait_for(processes[0].wait(), PATIENCE) < 0
    assert any(record.levelno == logging.WARNING for record in caplog.records)


@pytest.mark.plg("PLG-007", "PLG-062", "PLG-066")
async def test_a_plug_as_an_author_writes_it(tmp_path: Path) -> None:
    """PLG-007, PLG-062, PLG-066"""
    store = MemoryStore()
    store.values["s1", "vm"] = b'"vm-old"'
    entry = PlugEntry(VmPlug, "vm", lambda names: {"image": "debian", "cpus": "4"})
    for kept in ("vm-old", "vm-debian"):
        async with talking([entry], tmp_path, store=store) as talk:
            answer = await talk.ask("initialize")
            assert answer["result"]["args"] == ["--vm", kept]
            assert json.loads(store.values["s1", "vm"]) == {"vm_id": kept}
            talk.run.stop("closed")
            assert (await talk.end()).state == "ended"
        assert not store.values
