"""The agent's process: how it ends, how it is stopped, and what it prints."""

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from jsrun.plugs._level import PlugEntry
from jsrun.plugs._side import Side
from jsrun.plugs.agentproc import AgentPart
from jsrun.plugs.api import NextMessage, Plug
from jsrun.plugs.clock import LoopClock
from jsrun.plugs.errors import AgentExited, AgentStartError, LineTooLong, RequestError
from jsrun.plugs.hosts import BoundHost, LocalHost, MemoryHost, UnavailableHost
from jsrun.plugs.hosts.memory import MemoryIO
from jsrun.plugs.infos import RunInfo, RunKind, SessionInfo
from jsrun.plugs.message import Message
from jsrun.plugs.persist import MemoryStore
from jsrun.plugs.runner import AgentBase, MemoryRecorder, Run, RunEnd, RunPlan
from jsrun.plugs.testing.agent import ScriptedAgent
from jsrun.plugs.testing.clock import VirtualTime
from jsrun.plugs.testing.peer import Peer

# A real process gets so long for what takes milliseconds; a busy machine is slow.
PATIENCE = 60.0

AGENT = """
import json, os, sys, time
for line in sys.stdin:
    message = json.loads(line)
    answer = lambda result: print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
    match message["method"]:
        case "exit": answer({}); sys.exit(message["params"]["code"])
        case "die": sys.stderr.write("last words"); sys.exit(message["params"]["code"])
        case "signal": os.kill(os.getpid(), 9)
        case "noise":
            for _ in range(2000):
                sys.stderr.write("n" * 999 + "\\n")
            sys.stderr.write("the tail"); sys.stderr.flush()
            answer("noisy")
        case "long": print("x" * 100_000, flush=True)
        case "babble":
            print("Starting..."); print("[1]", flush=True)
            answer("babbled")
        case "echo": answer(message["params"])
sys.exit(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
"""


class Seen(Plug, name="seen"):
    """Passes on, and notes methods."""

    seen: list[str] = []  # noqa: RUF012  # one list for all instances, which tests clear

    async def message(self, message: Message, next: NextMessage) -> Any:
        self.seen.append(message.method)
        return await next(message)


class Session:
    """A run of one plug with an agent, and its client."""

    def __init__(self, host: Any, command: str, *args: str, line_bytes: int = 1 << 20) -> None:
        Seen.seen.clear()
        self.client = Peer("client")
        self.side = Side("client", self.client.accept)
        self.client.feed = self.side.receive
        self.recorder = MemoryRecorder()
        self._base = AgentBase(command, args)
        self._line_bytes = line_bytes
        self.begin("start", 1, host)

    def begin(self, kind: RunKind, number: int, host: Any) -> None:
        """Make the next run; the client stays."""
        self.part = AgentPart(self.side, self.recorder, clock=LoopClock(), line_bytes=self._line_bytes)
        self.run = Run(
            RunPlan([PlugEntry(Seen)], SessionInfo("s"), RunInfo(kind, number), agent=self._base),
            agent=self.part,
            host=host,
            store=MemoryStore(),
            recorder=self.recorder,
            bind=BoundHost,
            unavailable=UnavailableHost,
        )

    async def perform(self, talk: Callable[["Session"], Awaitable[None]]) -> RunEnd:
        """The end of the run, while which `talk` is what the client does."""
        running = asyncio.create_task(self.run.perform())
        try:
            await talk(self)
        except BaseException:
            self.run.stop("cancelled")
            await running
            raise
        finally:
            end = await running
            self.side.close()
        return end

    @property
    def agent(self) -> Any:
        return self.part.chain.agent if self.part.chain is not None else None


def real(tmp_path: Path, *args: str, **options: Any) -> Session:
    """A session with the agent above."""
    return Session(LocalHost(tmp_path), sys.executable, "-c", AGENT, *args, **options)


async def end_of(session: Session, talk: Callable[[Session], Awaitable[None]]) -> RunEnd:
    return await asyncio.wait_for(session.perform(talk), PATIENCE)


@pytest.mark.plg("PLG-027")
async def test_exit_with_0_and_nothing_in_flight_is_completed(tmp_path: Path) -> None:
    """PLG-027 Agent exit 0 with nothing in flight is `completed`."""

    async def talk(session: Session) -> None:
        assert await session.client.request("exit", {"code": 0}) == {}

    end = await end_of(real(tmp_path), talk)
    assert (end.state, end.reason, end.error) == ("ended", "completed", None)


@pytest.mark.plg("PLG-027")
@pytest.mark.parametrize(
    ("method", "params", "code"),
    [("exit", {"code": 3}, 3), ("die", {"code": 0}, 0), ("die", {"code": 4}, 4), ("signal", {}, -9)],
)
async def test_any_other_exit_is_a_failure(tmp_path: Path, method: str, params: Any, code: int) -> None:
    """PLG-027 With a request in flight, another code or a signal it is `failed` with `AgentExited`."""

    async def talk(session: Session) -> None:
        if method == "exit":
            await session.client.request(method, params)
        else:
            with pytest.raises(RequestError) as caught:
                await session.client.request(method, params)
            assert caught.value.code == -32603

    end = await end_of(real(tmp_path), talk)
    assert end.reason == "failed" and isinstance(end.error, AgentExited) and end.error.code == code
    assert end.error.stderr_tail == ("last words" if method == "die" else "")


@pytest.mark.plg("PLG-057")
async def test_two_megabytes_of_stderr_hang_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """PLG-057 2 MB on the agent's stderr during a turn hang nothing; the tail is in `AgentExited`."""

    async def talk(session: Session) -> None:
        assert await session.client.request("noise", {}) == "noisy"
        await session.client.request("exit", {"code": 1})

    with caplog.at_level(logging.DEBUG, "jsrun.plugs"):
        end = await end_of(real(tmp_path), talk)
    assert isinstance(end.error, AgentExited) and end.error.stderr_tail.endswith("n\nthe tail")
    assert len(end.error.stderr_tail) == 8 * 1024
    noisy = [record for record in caplog.records if getattr(record, "plug", {}).get("line") == "n" * 999]
    assert len(noisy) == 2000


@pytest.mark.plg("PLG-055", "PLG-056")
async def test_noise_on_stdout_is_skipped_and_a_long_line_fails_the_session(tmp_path: Path) -> None:
    """PLG-055 One byte more fails with `LineTooLong`. PLG-056 Text and batches are skipped and counted."""
    skipped = 0

    async def talk(session: Session) -> None:
        nonlocal skipped
        assert await session.client.request("babble") == "babbled"
        skipped = session.agent.skipped
        with pytest.raises(RequestError) as caught:
            await session.client.request("long")
        assert caught.value.code == -32603

    end = await end_of(real(tmp_path, line_bytes=64 * 1024), talk)
    assert skipped == 2 and end.reason == "failed"
    assert isinstance(end.error, LineTooLong) and end.error.side == "agent"


@pytest.mark.plg("PLG-056")
async def test_what_is_no_message_of_the_client_is_answered(tmp_path: Path) -> None:
    """PLG-056 From the client they are answered, with id null."""

    async def talk(session: Session) -> None:
        for line in (b"hello\n", b"[1]\n", b'{"jsonrpc":"2.0","method":1}\n'):
            await session.client.raw(line)
        assert await session.client.request("echo", {"x": 1}) == {"x": 1}
        session.run.stop("closed")

    session = real(tmp_path)
    written: list[bytes] = []
    accept = session.client.accept

    async def keep(data: bytes) -> None:
        written.append(data)
        await accept(data)

    session.side._write = keep
    end = await end_of(session, talk)
    assert end.reason == "closed"
    text = b"".join(written)
    assert text.count(b'"code":-32700') == 1 and text.count(b'"code":-32600') == 2 and text.count(b'"id":null') == 3


async def test_the_exit_code_of_a_stopped_agent_does_not_matter(tmp_path: Path) -> None:
    """An agent that is told to end by its stdin may end as it likes."""

    async def talk(session: Session) -> None:
        assert await session.client.request("echo", [1]) == [1]
        session.run.stop("closed")

    end = await end_of(real(tmp_path, "7"), talk)
    assert (end.state, end.reason, end.error) == ("ended", "closed", None)


async def test_an_agent_that_cannot_be_started_fails_the_run(tmp_path: Path) -> None:
    """The error names the command, and waiting requests are answered."""

    async def talk(session: Session) -> None:
        with pytest.raises(RequestError):
            await session.client.request("echo")

    session = Session(LocalHost(tmp_path), "/nonexistent/agent")
    end = await end_of(session, talk)
    assert end.reason == "failed" and isinstance(end.error, AgentStartError)
    assert "/nonexistent/agent" in str(end.error)


def memory(program: Callable[[MemoryIO], Awaitable[int | None]]) -> Session:
    host = MemoryHost()
    host.program("agent", program)
    return Session(host, "agent")


async def test_stopping_is_stdin_then_term_then_kill() -> None:
    """Stdin is closed; after 5 s TERM to the process group; after 2 s KILL."""
    ends: list[tuple[str, float]] = []

    async def stubborn(io: MemoryIO) -> int:
        while await io.stdin.read(1000):
            pass
        ends.append(("stdin", time.now()))
        try:
            await asyncio.sleep(1e6)
        except asyncio.CancelledError:
            ends.append(("TERM", time.now()))
        try:
            await asyncio.sleep(1e6)
        except asyncio.CancelledError:
            ends.append(("KILL", time.now()))
        return 0

    async def talk(session: Session) -> None:
        await asyncio.sleep(1)
        session.run.stop("closed")

    async with VirtualTime() as time:
        session = memory(stubborn)
        end = await time.run(session.perform(talk))
    begin = ends[0][1]
    assert [(what, round(at - begin, 3)) for what, at in ends] == [("stdin", 0.0), ("TERM", 5.0), ("KILL", 7.0)]
    assert end.state == "ended"


async def test_a_stop_cancels_the_prompt_in_flight_and_waits_for_its_answer() -> None:
    """Each `session/prompt` in flight gets `session/cancel` through the chain and 5 s to be answered."""
    cancelled = asyncio.Event()

    async def prompt(peer: Peer, method: str, params: Any) -> Any:
        await cancelled.wait()
        return {"stopReason": "cancelled"}

    async def cancel(peer: Peer, method: str, params: Any) -> None:
        await asyncio.sleep(2)
        cancelled.set()

    answers: list[Any] = []

    async def talk(session: Session) -> None:
        _, answer = await session.client.ask("session/prompt", {"sessionId": "a", "prompt": []})
        await asyncio.sleep(1)
        session.run.stop("closed")
        answers.append(await answer)

    agent = ScriptedAgent({"session/prompt": prompt, "session/cancel": cancel})
    async with VirtualTime() as time:
        await time.run(memory(agent.program).perform(talk))
    assert answers == [{"stopReason": "cancelled"}] and Seen.seen == ["session/prompt", "session/cancel"]


async def test_requests_of_a_session_that_is_over_are_answered() -> None:
    """What waited, and what comes later, is answered -32603."""

    async def talk(session: Session) -> None:
        await session.client.request("initialize", {})
        session.run.stop("closed")
        await asyncio.sleep(30)
        with pytest.raises(RequestError) as caught:
            await session.client.request("session/new", {})
        assert caught.value.code == -32603

    async with VirtualTime() as time:
        await time.run(memory(ScriptedAgent().program).perform(talk))


async def test_lines_wait_for_the_resume_after_an_idle_pause() -> None:
    """After `idle` a request is not answered: it waits for the next run, which answers it."""
    agent = ScriptedAgent()

    def machine() -> MemoryHost:
        host = MemoryHost()
        host.program("agent", agent.program)
        return host

    async def both(session: Session) -> tuple[RunEnd, RunEnd]:
        running = asyncio.create_task(session.run.perform())
        await session.client.request("initialize", {})
        session.run.stop("idle")
        first = await running
        _, answer = await session.client.ask("session/new", {})
        await session.side.waiting()
        await asyncio.sleep(1000)
        assert not answer.done() and session.side.queued == 1
        session.begin("resume", 2, machine())
        running = asyncio.create_task(session.run.perform())
        assert await answer == {"sessionId": "acp-1"}
        session.run.stop("closed")
        second = await running
        session.side.close()
        return first, second

    async with VirtualTime() as time:
        first, second = await time.run(both(Session(machine(), "agent")))
    assert (first.state, second.state) == ("paused", "ended") and agent.starts == 2
    assert Seen.seen == ["initialize", "session/new"]


@pytest.mark.plg("PLG-055")
async def test_an_agent_is_read_on_after_a_line_that_is_too_long() -> None:
    """PLG-055 What follows is dropped, so that the agent can end by itself and needs no signal."""
    ended: list[int] = []

    async def wordy(io: MemoryIO) -> int:
        await io.stdin.read(1000)
        for _ in range(10):
            await io.stdout.write(b"x" * 100_000)
        ended.append(1)
        return 0

    async def talk(session: Session) -> None:
        with pytest.raises(RequestError):
            await session.client.request("session/prompt", {})

    async with VirtualTime() as time:
        host = MemoryHost()
        host.program("agent", wordy)
        before = time.now()
        end = await time.run(Session(host, "agent", line_bytes=64 * 1024).perform(talk))
        assert isinstance(end.error, LineTooLong) and ended and time.now() - before < 5
