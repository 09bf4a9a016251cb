"""`jsrun agent` as a user meets it: streams, exit codes, sessions, a chat at a terminal, bad options."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from jsrun.cli import call

PATIENCE_S = 30.0
LOOK = {"calls": [{"name": "list", "arguments": {"path": "."}}]}
TOOLS = """
import asyncio
import sys
from jsrun.agent.tools import Tool, ToolDefinition
from jsrun.belt import Belt, tool

async def hang(arguments, context):
    await asyncio.sleep(600)

async def hang_on(arguments, context):
    while True:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            print("no", file=sys.stderr, flush=True)

stubborn = Tool(ToolDefinition("stubborn", "Hangs, whatever happens.", {"type": "object"}), hang_on)
slow = Tool(ToolDefinition("slow", "Hangs.", {"type": "object"}), hang)

@tool
def add(a: int, b: int) -> int:
    return a + b

several = [slow, Belt([add])]
number = 5
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Every test works in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JSRUN_HOME", str(tmp_path / "home"))
    (tmp_path / "agent_test_tools.py").write_text(TOOLS)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("agent_test_tools", None)
    yield tmp_path


def write(name: str, *steps: object) -> str:
    """A script; its value for `--model`."""
    Path(name).write_text(json.dumps(steps))
    return f"script:{name}"


def test_one_shot_answers_on_stdout_and_tells_the_rest_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    """AGT-085 exit 0; tools are told on stderr."""
    model = write("s.json", LOOK, "two files")
    assert call(["agent", "--model", model, "--belt", "workspace", "--prompt", "what is here?"]) == 0
    captured = capsys.readouterr()
    assert captured.out == "two files\n"
    assert captured.err == '  list {"path":"."}\n'


def test_a_piped_prompt_and_events_as_json(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """AGT-085 one record a line, all of them, and nothing else on stdout."""
    with (Path("in.txt")).open("w+") as piped:
        piped.write("hello")
        piped.seek(0)
        monkeypatch.setattr("sys.stdin", piped)
        assert call(["agent", "--model", write("s.json", "hi"), "--json"]) == 0
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [record["event"]["type"] for record in records] == [
        "session_started", "run_started", "inference_started", "inference_completed", "run_finished", "session_ended",
    ]  # fmt: skip
    assert [record["seq"] for record in records] == [1, 2, 3, 4, 5, 6]
    assert records[3]["event"]["sent"] == [{"role": "user", "content": "hello"}]


def test_a_failed_and_a_limited_run_exit_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    """AGT-085 the run failed: one sentence on stderr, nothing on stdout."""
    assert call(["agent", "--model", write("s.json"), "--prompt", "x"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "The provider's answer cannot be used: the script s.json has no step after number 0.\n"
    model = write("t.json", LOOK, LOOK, "never")
    arguments = ["agent", "--model", model, "--belt", "workspace", "--prompt", "x", "--max-iterations", "1"]
    assert call(arguments) == 2
    assert "Exceeded maximum iterations (1)" in capsys.readouterr().err


def test_tools_of_every_kind(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    """AGT-085 a bundle, a directory of bundles, functions of a module, and programs over them all."""
    Path("bundles").mkdir()
    os.chdir("bundles")
    assert call(["new", "counter"]) == 0
    os.chdir(folder)
    code = "return [await tools.add({ a: 2, b: 3 }), (await tools.counter({ path: '.' })).files.length > 0]"
    model = write(
        "s.json", {"calls": [{"name": "run_code", "arguments": {"description": "Adds.", "code": code}}]}, "added"
    )
    capsys.readouterr()
    belt = ["--belt", "bundles", "--belt", "agent_test_tools:several", "--belt", "code"]
    assert call(["agent", "--model", model, *belt, "--prompt", "go", "--session", "s"]) == 0
    captured = capsys.readouterr()
    assert captured.out == "added\n"
    assert call(["agent", "--show-session", "s", "--json"]) == 0
    messages = json.loads(capsys.readouterr().out)["messages"]
    assert messages[2]["role"] == "tool"
    assert json.loads(messages[2]["content"]) == [5, True]


def test_a_session_is_listed_continued_and_deleted_by_other_processes(folder: Path) -> None:
    """AGT-086 each command is a process of its own."""

    def jsrun(*arguments: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "jsrun", "agent", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, stdin=subprocess.DEVNULL)

    first = jsrun("--model", write("a.json", "one"), "--prompt", "remember the lighthouse", "--session", "talk")
    assert (first.returncode, first.stdout) == (0, "one\n"), first.stderr
    listed = json.loads(jsrun("--list-sessions", "--json").stdout)["sessions"]
    assert [(one["id"], one["messages"], one["title"]) for one in listed] == [("talk", 2, "remember the lighthouse")]
    failed = jsrun("--model", write("b.json"), "--prompt", "and now?", "--session", "talk")
    assert failed.returncode == 2
    announced = jsrun("--model", write("c.json", "again"), "--prompt", "third", "--session", "talk")
    assert 'The session "talk" has unfinished work; --continue goes on with it.' in announced.stderr
    jsrun("--model", write("d.json"), "--prompt", "fourth", "--session", "talk")
    continued = jsrun("--model", write("e.json", "fifth"), "--continue", "--session", "talk")
    assert (continued.returncode, continued.stdout) == (0, "fifth\n"), continued.stderr
    shown = jsrun("--show-session", "talk").stdout
    assert shown.splitlines()[:2] == ["user: remember the lighthouse", "assistant: one"]
    assert jsrun("--delete-session", "talk").returncode == 0
    gone = jsrun("--show-session", "talk")
    assert gone.returncode == 1
    assert 'There is no session "talk"' in gone.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "--model is missing"),
        (["--model", "script:absent.json"], "--model: the script absent.json cannot be read"),
        (["--model", "script:bad.json"], "--model: the script bad.json, step 1"),
        (["--model", "nonsense:x"], "--model: "),
        (["--model", "script:ok.json", "--session", "../x"], "--session: a session id begins with"),
        (["--model", "script:ok.json", "--belt", "absent"], '--belt: There is no bundle "absent"'),
        (["--model", "script:ok.json", "--belt", "absent:tool"], '--belt "absent:tool"'),
        (["--model", "script:ok.json", "--belt", "agent_test_tools:number"], "a Tool, a Belt or a list of them"),
        (["--model", "script:ok.json", "--belt", "workspace", "--belt", "workspace"], "two tools are called 'read'"),
        (["--model", "script:ok.json", "--system", "absent.md"], '--system: "absent.md" cannot be read'),
        (["--model", "script:ok.json", "--timeout", "0"], "--timeout: seconds above 0"),
        (["--model", "script:ok.json", "--timeout", "x"], "--timeout"),
        (["--model", "script:ok.json", "--max-iterations", "0"], "--max-iterations"),
        (["--model", "script:ok.json", "--continue"], "--continue"),
        (["--model", "script:ok.json", "--session", "s", "--db", "no.db"], "--db: no.db: "),
        (["--list-sessions", "--db", "no.db"], "--db: no.db: "),
        (["--show-session", "absent"], 'There is no session "absent"'),
        (["--delete-session", "absent"], 'There is no session "absent"'),
        (["--model", "script:ok.json", "--prompt", " "], "--prompt: the prompt is blank"),
        (["--model", "script:ok.json", "--prompt", "\udcff"], "--prompt: the prompt is not text"),
    ],
)
def test_a_bad_option_is_one_sentence(options: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """AGT-086 exit 1, which option and what to do, no traceback."""
    write("ok.json", "fine")
    Path("bad.json").write_text('[{"text": 5}]')
    Path("no.db").write_text("this is no database " * 100)
    prompt = [] if not options or "session" in options[0] or "--prompt" in options else ["--prompt", "go"]
    assert call(["agent", *options, *prompt]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Traceback" not in captured.err
    assert said in captured.err, captured.err
    assert len(captured.err.strip().splitlines()) == 1


def test_a_command_without_standard_input_is_told_to_give_a_prompt(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """AGT-086 Whoever started it closed the input."""
    monkeypatch.setattr("sys.stdin", None)
    assert call(["agent", "--model", write("ok.json", "fine")]) == 1
    assert capsys.readouterr().err == "--prompt is missing, and there is no standard input to read one from.\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no device here that is always full")
def test_an_answer_that_cannot_be_written_is_one_sentence() -> None:
    """AGT-085 The run is over, but nobody got its answer."""
    command = [sys.executable, "-m", "jsrun", "agent", "--model", write("ok.json", "fine"), "--prompt", "go"]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stderr) == (1, "The answer cannot be written: No space left on device.\n")


class Terminal:
    """A chat at a real pseudo-terminal."""

    def __init__(self, *arguments: str) -> None:
        self._pid, self._descriptor = pty.fork()
        if self._pid == 0:
            os.execv(sys.executable, [sys.executable, "-m", "jsrun", "agent", *arguments])
        self.text = ""

    def expect(self, pattern: str) -> None:
        """Read until this is on the screen, then forget what was there."""
        deadline = time.monotonic() + PATIENCE_S
        while (found := re.search(pattern, self.text)) is None:
            assert time.monotonic() < deadline, f"{pattern!r} did not come: {self.text!r}"
            if select.select([self._descriptor], [], [], 0.1)[0]:
                try:
                    data = os.read(self._descriptor, 4096)
                except OSError:  # the other side has ended
                    data = b""
                assert data or re.search(pattern, self.text), f"{pattern!r} did not come: {self.text!r}"
                self.text += data.decode(errors="replace")
        self.text = self.text[found.end() :]

    def send(self, text: str) -> None:
        """Type."""
        os.write(self._descriptor, text.encode())

    def exit_code(self) -> int:
        """Wait for the end."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                os.close(self._descriptor)
                return os.waitstatus_to_exitcode(status)
            if select.select([self._descriptor], [], [], 0.05)[0]:
                try:
                    self.text += os.read(self._descriptor, 4096).decode(errors="replace")
                except OSError:
                    time.sleep(0.02)
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._descriptor)
        raise AssertionError(f"it did not end: {self.text!r}")


def test_a_chat_at_a_terminal() -> None:
    """AGT-085 prompts, commands, an unknown command, and leaving."""
    chat = Terminal("--model", write("s.json", "first", LOOK, "second"), "--belt", "workspace", "--session", "c")
    chat.expect("/continue goes on")
    chat.expect("> ")
    chat.send("hello\n")
    chat.expect("first\r\n> ")
    chat.send("look\n")
    chat.expect("second\r\n> ")
    chat.send("/history\n")
    chat.expect("assistant: second\r\n> ")
    chat.send("/bogus\n")
    chat.expect('There is no command "/bogus"')
    chat.send("/reload\n")
    chat.expect("The session was read again")
    chat.send("/quit\n")
    assert chat.exit_code() == 0


def test_ctrl_c_cancels_the_run_and_a_second_one_leaves() -> None:
    """AGT-085 the session keeps what was done, and goes on."""
    model = write("s.json", {"calls": [{"name": "slow"}]}, "went on")
    chat = Terminal("--model", model, "--belt", "agent_test_tools:slow", "--session", "c")
    chat.expect("> ")
    chat.send("go\n")
    chat.expect("slow {}")
    chat.send("\x03")
    chat.expect("Cancelled. The session keeps what was done.")
    chat.expect("> ")
    chat.send("/continue\n")
    chat.expect("went on\r\n> ")
    chat.send("\x03")
    assert chat.exit_code() == 0


def test_ctrl_c_in_a_single_run_exits_with_2(folder: Path) -> None:
    """AGT-085 cancelled, and the session keeps what was done."""
    model = write("s.json", {"calls": [{"name": "slow"}]})
    command = [sys.executable, "-m", "jsrun", "agent", "--model", model, "--belt", "agent_test_tools:slow"]
    process = subprocess.Popen(
        [*command, "--prompt", "go", "--session", "c"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    assert "slow" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out) == (2, "")
    assert "Cancelled. The session keeps what was done." in err


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_ends_the_command_though_a_tool_ignores_it(times: int) -> None:
    """AGT-085 the first cancels the run, the second leaves at once; what ignores both is left behind."""
    model = write("s.json", {"calls": [{"name": "stubborn"}]})
    command = [sys.executable, "-m", "jsrun", "agent", "--model", model, "--belt", "agent_test_tools:stubborn"]
    process = subprocess.Popen(
        [*command, "--prompt", "go", "--session", "c"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    assert "stubborn" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    if times == 2:
        assert process.stderr.readline() == "no\n"  # it has heard of the first
        process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out) == (2, "")
    *_, last = (line for line in err.splitlines() if line != "no")
    assert last == ("Cancelled. The session keeps what was done." if times == 1 else "Interrupted.")
    assert "Traceback" not in err
