"""Sessions: idleness, pauses and resumes, expiry, owners that die, and the recorded setup."""

import asyncio
import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jsrun.plugs.errors import ControllerError, NotResumable, RequestError, SessionBusy, UnknownSession
from jsrun.plugs.journal import SessionJournal
from tests.plugs.sessions import PATIENCE_S, Client, agent_of, controlling, eventually, lines, policy, setup_of


async def state_of(controller: Any, session: str = "s") -> str:
    """The recorded state."""
    return str((await controller.journal.get(session)).state)


@pytest.mark.plg("PLG-082")
async def test_the_idle_timer_does_not_pause_while_something_is_in_flight(tmp_path: Path) -> None:
    """PLG-082 a waiting prompt, and a pending permission, keep the session running; quiet ends it."""
    client = Client()
    hold = asyncio.Event()

    async def later(peer: Any, method: str, params: Any) -> Any:
        await hold.wait()
        return {}

    client.peer.reply = later
    async with controlling(tmp_path) as controller:
        session = await controller.start(
            setup_of(tmp_path), agent_of(tmp_path), client.streams, policy(idle_after=0.3), "s"
        )
        await client.open()
        asked = asyncio.create_task(client.prompt("ask"))
        await asyncio.sleep(1.0)
        assert await state_of(controller) == "running"
        hold.set()
        assert await asked == "end_turn"
        await eventually(lambda: "a: pause idle" in lines(tmp_path / "notes"))
        client.leave()
        end = await asyncio.wait_for(session.wait(), PATIENCE_S)
        assert (end.state, end.reason) == ("ended", "closed")


@pytest.mark.plg("PLG-083")
async def test_a_message_to_a_paused_session_resumes_it_unseen(tmp_path: Path) -> None:
    """PLG-083 handshake and ACP sessions are repeated to the new agent; the client sees neither them nor replays."""
    client = Client()
    async with controlling(tmp_path) as controller:
        session = await controller.start(
            setup_of(tmp_path), agent_of(tmp_path), client.streams, policy(idle_after=0.2), "s"
        )
        await client.open()
        assert await client.prompt("one") == "end_turn"
        await eventually(lambda: "a: pause idle" in lines(tmp_path / "notes"))
        before = len(client.peer.got)
        assert await client.prompt("two") == "end_turn"
        assert client.updates() == ["got one", "got two"]
        assert [what for kind, what, _ in client.peer.got[before:] if kind != "answer"] == ["session/update"]
        asked = lines(tmp_path / "asked")
        second = [at for at, line in enumerate(asked) if line.startswith("start")][1]
        assert asked[second + 1 : second + 4] == ["initialize", "session/load", "session/prompt"]
        assert (await controller.journal.get("s")).runs >= 2
        client.leave()
        assert (await asyncio.wait_for(session.wait(), PATIENCE_S)).state == "ended"


@pytest.mark.plg("PLG-083")
async def test_an_agent_that_cannot_be_taken_up_again_is_not_paused(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """PLG-083 it is logged once, and the session goes on."""
    client = Client()
    caplog.set_level(logging.WARNING, "jsrun.plugs")
    async with controlling(tmp_path) as controller:
        session = await controller.start(
            setup_of(tmp_path), agent_of(tmp_path, "no-load"), client.streams, policy(idle_after=0.1), "s"
        )
        await client.open()
        await eventually(lambda: "no way to take up" in caplog.text)
        await asyncio.sleep(0.5)
        assert await state_of(controller) == "running"
        assert caplog.text.count("no way to take up") == 1
        client.leave()
        await asyncio.wait_for(session.wait(), PATIENCE_S)


@pytest.mark.plg("PLG-084")
async def test_a_session_that_is_paused_for_long_expires(tmp_path: Path) -> None:
    """PLG-084 a teardown run with `expired`, by whichever controller opens next."""
    client = Client()
    async with controlling(tmp_path) as controller:
        session = await controller.start(
            setup_of(tmp_path), agent_of(tmp_path), client.streams, policy(expire_after=0.2, on_disconnect="pause"), "s"
        )
        await client.open()
        client.leave()
        assert (await asyncio.wait_for(session.wait(), PATIENCE_S)).state == "paused"
    await asyncio.sleep(0.3)
    async with controlling(tmp_path) as controller:
        record = await controller.journal.get("s")
        assert (record.state, record.reason, record.runs) == ("ended", "expired", 2)
    assert lines(tmp_path / "notes")[-2:] == ["b: teardown expired", "a: teardown expired"]
    assert places(tmp_path) == []


@pytest.mark.plg("PLG-084")
async def test_an_expired_session_whose_plug_is_gone_keeps_nobody_from_the_others(tmp_path: Path) -> None:
    """PLG-084 it stays as it is, until it is resumed with another setup; the controller opens all the same."""
    client = Client()
    async with controlling(tmp_path) as controller:
        session = await controller.start(
            setup_of(tmp_path), agent_of(tmp_path), client.streams, policy(expire_after=0.2, on_disconnect="pause"), "s"
        )
        await client.open()
        client.leave()
        assert (await asyncio.wait_for(session.wait(), PATIENCE_S)).state == "paused"
        recorded = json.dumps((await controller.journal.get("s")).setup)
        assert "sessions:Noting" in recorded
        await controller.journal.update("s", setup=recorded.replace("sessions:Noting", "sessions:Nowhere"))
    await asyncio.sleep(0.3)
    async with controlling(tmp_path) as controller:
        assert await state_of(controller) == "paused"
        assert await controller.sweep() == []


@pytest.mark.plg("PLG-084")
async def test_the_time_of_all_runs_counts(tmp_path: Path) -> None:
    """PLG-084 `policy.timeout` sums the runs and ends with `timeout`."""
    client = Client()
    async with controlling(tmp_path) as controller:
        session = await controller.start(
            setup_of(tmp_path), agent_of(tmp_path), client.streams, policy(timeout=1.0, idle_after=0.2), "s"
        )
        await client.open()
        while (await controller.journal.get("s")).state != "ended":
            with contextlib.suppress(RequestError):  # the last one comes too late
                await client.prompt("again")
            await asyncio.sleep(0.1)
        end = await asyncio.wait_for(session.wait(), PATIENCE_S)
        record = await controller.journal.get("s")
        assert (end.reason, record.state) == ("timeout", "ended")
        assert record.ran >= 0.9
        await client.peer.close()


@pytest.mark.plg("PLG-029")
async def test_what_cannot_be_resumed_is_not_started_with_a_pausing_policy(tmp_path: Path) -> None:
    """PLG-029 nothing is created."""
    async with controlling(tmp_path) as controller:
        setup = setup_of(tmp_path, plugs=("Noting", "Stiff"))
        with pytest.raises(NotResumable, match="stiff"):
            await controller.start(setup, agent_of(tmp_path), Client().streams, policy(idle_after=1), "s")
        assert await controller.records() == []


OWNER = """
import asyncio, os, signal, sys
from pathlib import Path
from jsrun.plugs.journal import SessionJournal
from tests.plugs.sessions import *

async def main(folder, fatal):
    journal_step = SessionJournal.step
    count = 0
    async def step(self, *arguments, **more):
        nonlocal count
        await journal_step(self, *arguments, **more)
        count += 1
        if count == fatal:
            os.kill(os.getpid(), signal.SIGKILL)
    SessionJournal.step = step
    client = Client()
    async with controlling(folder) as controller:
        session = await controller.start(setup_of(folder), agent_of(folder), client.streams, None, "s")
        opening = asyncio.ensure_future(client.open())
        await asyncio.wait({opening, asyncio.ensure_future(session.wait())}, return_when=asyncio.FIRST_COMPLETED)
        client.leave()
        await session.wait()

asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
"""


def owner(folder: Path, fatal: int) -> int:
    """A process that owns the session `s` and dies after so many recorded steps; its exit code."""
    folder.mkdir()
    command = [sys.executable, "-c", OWNER, str(folder), str(fatal)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.run(command, env=environment, timeout=60, capture_output=True).returncode


def sleeper() -> "subprocess.Popen[bytes]":
    """A process, and group, of its own that waits."""
    return subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, start_new_session=True)


def places(folder: Path) -> list[Path]:
    """What plugs made and did not remove."""
    return list(folder.glob("*.place"))


async def gone(folder: Path) -> None:
    """Wait until no agent of the folder lives."""
    await eventually(lambda: not agents(folder))


def agents(folder: Path) -> list[int]:
    """The agents of a folder that still live."""
    found = [int(line.split()[1]) for line in lines(folder / "asked") if line.startswith("start")]
    return [pid for pid in found if Path(f"/proc/{pid}").exists()]


@pytest.mark.plg("PLG-085", "PLG-087")
@pytest.mark.parametrize("after", ["resume", "end"])
async def test_a_killed_owner_leaves_a_session_that_goes_on_or_ends(tmp_path: Path, after: str) -> None:
    """PLG-085 PLG-087 SIGKILL after every recorded step: the agent it left is ended, and resume and teardown work."""
    fatal = 0
    while True:
        fatal += 1
        folder = tmp_path / str(fatal)
        code = await asyncio.to_thread(owner, folder, fatal)
        if code == 0:
            break
        assert code == -signal.SIGKILL
        async with controlling(folder) as controller:
            record = await controller.journal.get("s")
            assert record.state in ("ended", "interrupted"), (fatal, record)
            await gone(folder)
            if record.state == "ended":
                continue
            if after == "resume" and not record.tearing:
                client = Client()
                session = await controller.resume("s", client.streams)
                await client.open()
                assert await client.prompt("again") == "end_turn", fatal
                client.leave()
                assert (await asyncio.wait_for(session.wait(), PATIENCE_S)).state == "ended", fatal
            else:
                if after == "resume":
                    with pytest.raises(ControllerError, match="only ended"):
                        await controller.resume("s", Client().streams)
                end = await controller.end("s")
                assert end is not None
                assert end.state == "ended", (fatal, end)
            assert places(folder) == [], fatal
            assert await state_of(controller) == "ended"
    assert fatal > 12, "every step was tried"


@pytest.mark.plg("PLG-086")
async def test_a_second_owner_is_refused_and_may_ask(tmp_path: Path) -> None:
    """PLG-086 SessionBusy for a running session; its owner hears an end that another controller asks for."""
    client = Client()
    async with controlling(tmp_path) as controller, controlling(tmp_path) as other:
        session = await controller.start(setup_of(tmp_path), agent_of(tmp_path), client.streams, None, "s")
        await client.open()
        with pytest.raises(SessionBusy):
            await other.resume("s", Client().streams)
        assert await other.end("s", "cancelled") is None
        end = await asyncio.wait_for(session.wait(), PATIENCE_S)
        assert (end.state, end.reason) == ("ended", "cancelled")
        assert await other.end("s") is None
        with pytest.raises(UnknownSession):
            await other.end("absent")
        await client.peer.close()


@pytest.mark.plg("PLG-087")
async def test_a_process_that_is_another_by_now_is_left_alone(tmp_path: Path) -> None:
    """PLG-087 an agent is ended only if its start time is the recorded one."""
    bystander = sleeper()
    try:
        code = await asyncio.to_thread(owner, tmp_path / "x", 6)
        assert code == -signal.SIGKILL
        journal = SessionJournal(tmp_path / "x" / "state")
        await journal.update("s", agent_pid=bystander.pid, agent_started="another boot/1")
        journal.close()
        async with controlling(tmp_path / "x") as controller:
            assert await state_of(controller) == "interrupted"
            assert bystander.poll() is None
            await controller.end("s")
    finally:
        bystander.kill()
        bystander.wait()
        assert bystander.stdin is not None
        bystander.stdin.close()


@pytest.mark.plg("PLG-088")
async def test_later_runs_use_the_recorded_setup(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """PLG-088 a file that has changed is told and not used; a setup that is given is."""
    client = Client()
    async with controlling(tmp_path) as controller:
        setup = setup_of(tmp_path)
        session = await controller.start(setup, agent_of(tmp_path), client.streams, policy(on_disconnect="pause"), "s")
        await client.open()
        client.leave()
        assert (await asyncio.wait_for(session.wait(), PATIENCE_S)).state == "paused"
        setup_of(tmp_path, plugs=("Noting",))
        caplog.set_level(logging.WARNING, "jsrun.plugs")
        end = await controller.end("s")
        assert end is not None
        assert end.state == "ended"
    assert "the setup file has changed" in caplog.text
    assert lines(tmp_path / "notes")[-2:] == ["b: teardown closed", "a: teardown closed"]


async def test_a_leftover_keeps_its_state_until_a_retry_succeeds(tmp_path: Path) -> None:
    """PLG-026 (the controller's part) a failed teardown leaves `leftover`; ending it again tries the whole chain."""
    client = Client()
    async with controlling(tmp_path) as controller:
        setup = setup_of(tmp_path, fail="teardown")
        session = await controller.start(setup, agent_of(tmp_path), client.streams, None, "s")
        await client.open()
        client.leave()
        assert (await asyncio.wait_for(session.wait(), PATIENCE_S)).state == "leftover"
        assert await controller.store.get("s", "a") is not None
        with pytest.raises(ControllerError, match="only ended"):
            await controller.resume("s", Client().streams)
        fixed = setup_of(tmp_path)
        await controller.journal.update("s", setup=json.dumps(fixed.record()))
        end = await controller.end("s")
        assert end is not None
        assert end.state == "ended"
        assert await controller.store.get("s", "a") is None


async def test_ids_are_checked_and_taken_once(tmp_path: Path) -> None:
    """Bad ids and taken ones are refused before anything starts."""
    async with controlling(tmp_path) as controller:
        with pytest.raises(ValueError, match="no id"):
            await controller.start(setup_of(tmp_path), agent_of(tmp_path), Client().streams, None, "../x")
        client = Client()
        session = await controller.start(setup_of(tmp_path), agent_of(tmp_path), client.streams, None, "s")
        client.leave()
        await asyncio.wait_for(session.wait(), PATIENCE_S)
        with pytest.raises(ControllerError, match="already"):
            await controller.start(setup_of(tmp_path), agent_of(tmp_path), Client().streams, None, "s")
