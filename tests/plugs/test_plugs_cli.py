"""`jsrun plugs` as a process: streams, exit codes, signals, lists, traces, secrets; the ACP library on both sides."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import acp
import pytest
from acp import schema

from jsrun.cli import call
from tests.plugs import acp_agent
from tests.plugs.sessions import PATIENCE_S, agent_of, eventually, lines

ROOT = Path(__file__).parents[2]
TURNS = 200
SECRET = "hunter2-hunter2"  # what must not show

LOUD = """
import subprocess, sys
from pathlib import Path
from pydantic import BaseModel, SecretStr
from jsrun.plugs import Plug

class Loud(Plug, name="loud"):
    class Inputs(BaseModel):
        secret: SecretStr = SecretStr("")
        fail: str = ""

    async def session(self, next):
        print("printed by a plug")
        subprocess.run([sys.executable, "-c", "print('printed by a child')"], check=True)
        self.log.warning("the secret is " + self.inputs.secret.get_secret_value())
        if self.inputs.fail == "attach":
            raise RuntimeError("no place, says " + self.inputs.secret.get_secret_value())
        await next()

    async def teardown(self, next):
        await next()
        if self.inputs.fail == "teardown":
            raise RuntimeError("cannot be removed, says " + self.inputs.secret.get_secret_value())

class Late(Plug, name="late"):
    async def session(self, next):
        await next()
        self.ctx.set_output("a", "b")

    async def message(self, message, next):
        return None
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test works in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loud.py").write_text(LOUD)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return tmp_path


def write(text: str, name: str = "setup.yaml") -> str:
    """A setup file."""
    Path(name).write_text(text)
    return name


def command(*arguments: str) -> list[str]:
    """`jsrun plugs` with its sessions in this folder."""
    return [sys.executable, "-m", "jsrun", "plugs", arguments[0], "--state-dir", "state", *arguments[1:]]


def plugs(*arguments: str, given: str = "", **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end."""
    return subprocess.run(
        command(*arguments), input=given, capture_output=True, text=True, timeout=60, env={**os.environ, **environment}
    )


def requests(*texts: str) -> str:
    """What a client writes: the handshake, a session, prompts."""
    asked: list[tuple[str, Any]] = [
        ("initialize", {"protocolVersion": 1}),
        ("session/new", {"cwd": "/", "mcpServers": []}),
    ]
    asked += [("session/prompt", {"sessionId": "acp-1", "prompt": [{"type": "text", "text": text}]}) for text in texts]
    return "".join(
        json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + "\n"
        for number, (method, params) in enumerate(asked)
    )


class Noting:
    """A client that notes what it is told, and allows everything."""

    def __init__(self) -> None:
        self.said = ""
        self.asked: list[str] = []

    def on_connect(self, conn: Any) -> None:
        """The connection is made."""

    async def session_update(self, session_id: str, update: Any, **_more: Any) -> None:
        """An update came."""
        self.said += update.content.text

    async def request_permission(self, session_id: str, tool_call: Any, options: Any, **_more: Any) -> Any:
        """A permission is asked for."""
        self.asked.append(tool_call.tool_call_id)
        outcome = schema.AllowedOutcome(outcome="selected", option_id=options[0].option_id)
        return schema.RequestPermissionResponse(outcome=outcome)


@asynccontextmanager
async def connected(*arguments: str) -> AsyncIterator[tuple[Any, Any, Noting]]:
    """The library's client on the standard streams of a command."""
    client = Noting()
    spawn: Any = acp.spawn_agent_process
    async with spawn(client, *command(*arguments), env={**os.environ}) as (connection, process):
        yield connection, process, client


@pytest.mark.plg("PLG-100")
async def test_the_library_talks_to_itself_through_the_command(tmp_path: Path) -> None:
    """PLG-100 200 turns, 600 updates in order, permissions, a cancel, five plugs, exit 0."""
    setup = write(
        "setup:\n"
        "  - {plug: env, with: {set: {GREETING: hello}}}\n"
        "  - {plug: redact, with: {secrets: [nothing-like-this]}}\n"
        "  - {plug: permissions, with: {default: ask}}\n"
        "  - {plug: transcript, with: {path: transcript.jsonl}}\n"
        "  - {plug: turn-limit, id: limit, with: {max_turns: 1000}}\n"
    )
    agent = (sys.executable, acp_agent.__file__)
    async with connected("run", setup, "--id", "one", "--", *agent) as (connection, process, client):
        await asyncio.wait_for(connection.initialize(protocol_version=1), PATIENCE_S)
        session = (await connection.new_session(cwd=str(tmp_path))).session_id
        for _ in range(TURNS):
            answer = await connection.prompt(session_id=session, prompt=[acp.text_block("go")])
            assert answer.stop_reason == "end_turn"
        waiting = asyncio.create_task(connection.prompt(session_id=session, prompt=[acp.text_block("wait")]))
        await asyncio.sleep(0.1)
        await connection.cancel(session_id=session)
        assert (await waiting).stop_reason == "cancelled"
    assert process.returncode == 0
    assert [int(number) for number in client.said.split()] == list(range(TURNS * acp_agent.UPDATES))
    assert client.asked == [f"call-{turn}" for turn in range(0, TURNS, 10)]
    assert len(lines(tmp_path / "transcript.jsonl")) > TURNS


@pytest.mark.plg("PLG-093")
def test_stdout_carries_the_protocol_only(tmp_path: Path) -> None:
    """PLG-093 what a plug and its children print goes to stderr; stdin and stdout may be regular files."""
    setup = write("setup:\n  - {plug: './loud.py:Loud'}\n")
    Path("in.jsonl").write_text(requests("hello"))
    with Path("in.jsonl").open("rb") as given, Path("out.jsonl").open("wb") as out:
        done = subprocess.run(
            command("run", setup, "--", *agent_of(tmp_path)),
            stdin=given,
            stdout=out,
            stderr=subprocess.PIPE,
            timeout=60,
        )
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in lines(tmp_path / "out.jsonl")]
    assert [one["id"] for one in answers if "id" in one] == [0, 1, 2]
    assert b"printed by a plug" in done.stderr
    assert b"printed by a child" in done.stderr


@pytest.mark.plg("PLG-094")
def test_exit_codes(tmp_path: Path) -> None:
    """PLG-094 0 ended, 1 failed, 2 bad setup, 3 cleanup failed, 124 timeout."""
    fine = write("setup: []\n")
    assert plugs("run", fine, "--", *agent_of(tmp_path), given=requests("one")).returncode == 0
    failed = plugs("run", fine, "--", *agent_of(tmp_path), given=requests("exit 3"))
    assert failed.returncode == 1
    assert "exited with code 3" in failed.stderr
    attach = write("setup:\n  - {plug: './loud.py:Loud', with: {fail: attach}}\n", "attach.yaml")
    assert plugs("run", attach, "--", *agent_of(tmp_path), given=requests()).returncode == 1
    cleanup = write("setup:\n  - {plug: './loud.py:Loud', with: {fail: teardown}}\n", "cleanup.yaml")
    assert plugs("run", cleanup, "--id", "left", "--", *agent_of(tmp_path), given=requests()).returncode == 3
    late = write("policy: {timeout: 0.5}\nsetup: []\n", "late.yaml")
    with subprocess.Popen(
        command("run", late, "--", *agent_of(tmp_path)), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL
    ) as process:
        assert process.wait(timeout=60) == 124
    bad = plugs("run", "absent.yaml", "--", *agent_of(tmp_path))
    assert bad.returncode == 2
    assert "absent.yaml" in bad.stderr
    no_agent = plugs("run", fine)
    assert no_agent.returncode == 2
    assert "no agent" in no_agent.stderr
    bad_id = plugs("run", fine, "--id", "../x", "--", *agent_of(tmp_path))
    assert bad_id.returncode == 2
    assert plugs("end", "absent").returncode == 2
    assert plugs("end").returncode == 2
    for done in (failed, bad, no_agent, bad_id):
        assert "Traceback" not in done.stderr


@pytest.mark.plg("PLG-094")
def test_check_tells_every_mistake_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    """PLG-094 ten mistakes are ten findings with places, exit 2, and nothing was started; a sound one has hints."""
    bad = write(
        "polcy: {}\n"
        "policy: {idle_after: -1}\n"
        "setup:\n"
        "  - {plug: nothere}\n"
        "  - {plug: './absent.py:X'}\n"
        "  - {plug: env, with: {st: 1}}\n"
        "  - {plug: turn-limit}\n"
        "  - {plug: env, id: A}\n"
        "  - {plug: env, id: a, with: {set: {B: '${{ setup.z.outputs.q }}'}}}\n"
        "  - {plug: env, id: a}\n"
        "  - {plug: './loud.py:Late', with: {x: 1}}\n"
    )
    assert call(["plugs", "check", bad, "--json"]) == 2
    told = json.loads(capsys.readouterr().out)
    assert not told["ok"]
    assert len(told["issues"]) == 10
    assert all(issue["place"].startswith("setup.yaml:") for issue in told["issues"])
    assert call(["plugs", "check", bad]) == 2
    captured = capsys.readouterr()
    assert len(captured.err.splitlines()) == 10
    assert "Traceback" not in captured.err
    assert not Path("state").exists()
    good = write("setup:\n  - {plug: './loud.py:Late'}\n", "good.yaml")
    assert call(["plugs", "check", good]) == 0
    hints = capsys.readouterr().err
    assert "`set_output` after `next()`" in hints
    assert "never calls `next`" in hints


@pytest.mark.plg("PLG-008", "PLG-094")
@pytest.mark.parametrize("command", [["check", "setup.yaml"], ["run", "setup.yaml", "--", "agent"]])
def test_a_missing_library_is_told_with_what_to_install(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """PLG-008 PLG-094 exit 2 and one sentence."""
    write("setup: []\n")
    monkeypatch.setitem(sys.modules, "yaml", None)
    assert call(["plugs", *command]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "A library that this needs is missing: pip install 'subharness[plugs]'\n"


@pytest.mark.plg("PLG-095")
def test_one_signal_ends_the_session_as_cancelled(tmp_path: Path) -> None:
    """PLG-095 SIGTERM pauses and tears down, exit 130."""
    setup = write(
        f"setup:\n  - {{plug: 'tests.plugs.sessions:Noting', id: a, with: {{notes: {tmp_path / 'notes'}}}}}\n"
    )
    with subprocess.Popen(
        command("run", setup, "--", *agent_of(tmp_path)), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(requests().encode())
        process.stdin.flush()
        process.stdout.readline()
        process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 130
    assert lines(tmp_path / "notes")[-2:] == ["a: pause cancelled", "a: teardown cancelled"]


HANGING = """
import asyncio
from jsrun.plugs import Plug

class Hangs(Plug, name="hangs"):
    async def session(self, next):
        await next()
        await asyncio.sleep(600)
"""


@pytest.mark.plg("PLG-095")
async def test_a_second_signal_makes_what_remains_short(tmp_path: Path) -> None:
    """PLG-095 limits are cut to 5 s; a plug that hangs in its pause fails with its limit."""
    Path("hangs.py").write_text(HANGING)  # noqa: ASYNC240  # once, before anything runs
    setup = write("setup:\n  - {plug: './hangs.py:Hangs'}\n")
    process = await asyncio.create_subprocess_exec(
        *command("run", setup, "--", *agent_of(tmp_path)),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(requests().encode())
    await process.stdout.readline()
    await process.stdout.readline()
    process.send_signal(signal.SIGINT)
    agent = int(lines(tmp_path / "asked")[0].split()[1])
    await eventually(lambda: not Path(f"/proc/{agent}").exists())  # from here on it is the plug that hangs
    process.send_signal(signal.SIGINT)
    _out, err = await asyncio.wait_for(process.communicate(), 40)
    assert process.returncode == 1, err
    assert b"Hangs" in err or b"hangs" in err


@pytest.mark.plg("PLG-096")
def test_sessions_are_listed_ended_and_traced_without_their_controller(tmp_path: Path) -> None:
    """PLG-096 `ls --json`, `end --expired` and `trace`; secrets of variables and inputs show nowhere."""
    setup = write(
        "policy: {expire_after: 0.1, on_disconnect: pause}\n"
        "agent: {inherit_env: [MY_API_KEY]}\n"
        "setup:\n  - {plug: './loud.py:Loud', with: {secret: '${{ env.MY_SECRET }}'}}\n"
    )
    done = plugs(
        "run", setup, "--id", "one", "--trace-bodies", "--", *agent_of(tmp_path),
        given=requests(f"tell {SECRET} and {SECRET}key"), MY_SECRET=SECRET, MY_API_KEY=SECRET + "key",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert SECRET not in done.stderr
    assert "the secret is [redacted]" in done.stderr
    listed = json.loads(plugs("ls", "--json").stdout)["sessions"]
    assert [(one["id"], one["state"], one["runs"], one["reason"]) for one in listed] == [("one", "paused", 1, "idle")]
    traced = plugs("trace", "one")
    assert traced.returncode == 0
    assert "session/prompt" in traced.stdout
    assert SECRET not in traced.stdout
    assert "[redacted]" in traced.stdout
    only = plugs("trace", "one", "--method", "session/n*").stdout
    assert "session/new" in only
    assert "session/prompt" not in only
    ended = plugs("end", "--expired", MY_SECRET=SECRET, MY_API_KEY=SECRET)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(plugs("ls", "--json").stdout)["sessions"] == []
    shown = json.loads(plugs("ls", "--all", "--json").stdout)["sessions"]
    assert [(one["state"], one["reason"]) for one in shown] == [("ended", "expired")]
    assert plugs("trace", "absent").returncode == 2


@pytest.mark.plg("PLG-096")
@pytest.mark.parametrize("fail", ["attach", "teardown"])
def test_a_secret_in_an_error_shows_nowhere(tmp_path: Path, fail: str) -> None:
    """PLG-096 neither on stderr nor in the record, when the run is over and when the clean-up is tried again."""
    setup = write("setup:\n  - {plug: './loud.py:Loud', with: {secret: " + SECRET + ", fail: " + fail + "}}\n")
    done = plugs("run", setup, "--id", "one", "--", *agent_of(tmp_path), given=requests())
    assert done.returncode == (1 if fail == "attach" else 3), done.stderr
    again = plugs("end", "one")
    told = done.stderr + again.stderr + again.stdout + plugs("ls", "--all", "--json").stdout
    assert SECRET not in told
    assert "[redacted]" in told


@pytest.mark.plg("PLG-096")
def test_a_paused_session_is_resumed_by_another_process(tmp_path: Path) -> None:
    """PLG-096 PLG-083 with a new client, which begins anew with the agent."""
    setup = write("policy: {on_disconnect: pause}\nsetup: []\n")
    assert plugs("run", setup, "--id", "one", "--", *agent_of(tmp_path), given=requests("one")).returncode == 0
    again = plugs("resume", "one", given=requests("two"))
    assert again.returncode == 0, again.stderr
    assert "got two" in again.stdout
    assert plugs("resume", "absent").returncode == 2
    assert plugs("end", "one").returncode == 0
    refused = plugs("resume", "one")
    assert refused.returncode == 2
    assert "only ended" in refused.stderr
