"""The command line as a user meets it: what it prints where, and what it exits with."""

import json
import os
import pty
import re
import select
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from jsrun.cli import call

BUNDLES = Path(__file__).parents[2] / "bundles"
CONTROL_CODE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Every test works in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JSRUN_HOME", str(tmp_path / "home"))
    yield tmp_path


def write_bundle(name: str, program: str, **manifest: object) -> Path:
    """A bundle in the current folder."""
    path = Path(name)
    path.mkdir()
    text = json.dumps({"name": name, "purpose": "A test.", **manifest})
    (path / "manifest.json").write_text(text)
    (path / "program.js").write_text(program)
    return path


def fails(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one message of a command that cannot be done; it exits 1, prints nothing else and leaves no journal."""
    assert call(arguments) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Traceback" not in captured.err
    assert not Path(".jsrun").exists()
    return captured.err.strip()


class TestNew:
    @pytest.mark.parametrize("options", [[], ["--async"]])
    def test_a_new_bundle_checks_strictly_and_runs(
        self, options: list[str], capsys: pytest.CaptureFixture[str], folder: Path
    ) -> None:
        """JSR-128 the scaffold passes `check --strict` and runs at once."""
        assert call(["new", "hello", *options]) == 0
        assert call(["check", "--strict", "hello"]) == 0
        capsys.readouterr()
        assert call(["run", "hello", "--input", '{"path": "hello"}', "--quiet"]) == 0
        assert len(json.loads(capsys.readouterr().out)["files"]) == 2

    def test_new_never_overwrites(self, capsys: pytest.CaptureFixture[str]) -> None:
        """JSR-128 an existing path is refused and left as it is."""
        Path("there").mkdir()
        assert "there already" in fails(["new", "there"], capsys)
        assert list(Path("there").iterdir()) == []

    def test_a_bad_name_is_refused_with_a_good_one_and_leaves_nothing(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert 'Write "hello"' in fails(["new", "Hello"], capsys)
        assert list(Path().iterdir()) == []


class TestCheck:
    def test_diagnostics_have_file_line_and_column(self, capsys: pytest.CaptureFixture[str]) -> None:
        """JSR-127 a broken bundle exits 1 and prints `file:line:column` and a count."""
        write_bundle("broken", "function run() {\n  return tool('lst');\n}\n", whitelist=["list"])
        assert call(["check", "broken"]) == 1
        lines = capsys.readouterr().out.splitlines()
        assert lines[-2].startswith("broken/program.js:2:15: error [tool-not-whitelisted]")
        assert '"list"' in lines[-2]
        assert lines[-1] == "broken: failed (1 error, 1 warning)"

    def test_a_syntax_error_on_the_last_line_is_placed_there(self, capsys: pytest.CaptureFixture[str]) -> None:
        """JSR-019"""
        write_bundle("last", "function run() {\n  return 1;\n}\nlet x = ;")
        assert call(["check", "last"]) == 1
        assert capsys.readouterr().out.startswith("last/program.js:4:9: error [syntax]")

    def test_warnings_fail_only_under_strict(self, capsys: pytest.CaptureFixture[str]) -> None:
        """JSR-016"""
        write_bundle("warned", "function run() { return 1; }", whitelist=["list"])
        assert call(["check", "warned"]) == 0
        assert call(["check", "--strict", "warned"]) == 1
        assert "[unused-whitelist]" in capsys.readouterr().out

    def test_json_is_one_document(self, capsys: pytest.CaptureFixture[str]) -> None:
        """JSR-127"""
        write_bundle("broken", "function run( {")
        assert call(["check", "--json", "broken", str(BUNDLES / "todos")]) == 1
        captured = capsys.readouterr()
        document = json.loads(captured.out)
        assert [bundle["ok"] for bundle in document["bundles"]] == [False, True]
        assert document["bundles"][0]["diagnostics"][0]["code"] == "syntax"
        assert captured.err == ""

    def test_a_broken_eval_is_an_error(self, capsys: pytest.CaptureFixture[str]) -> None:
        call(["new", "hello"])
        Path("hello/evals/files.json").write_text('{"name": "x", "nonsense": 1}')
        capsys.readouterr()
        assert call(["check", "hello"]) == 1
        assert "[eval-invalid]" in capsys.readouterr().out


class TestBadInput:
    """Every message is one text on stderr, with its place where there is one; exit 1, nothing written."""

    def test_a_bundle_that_is_not_there_offers_the_nearest(self, capsys: pytest.CaptureFixture[str]) -> None:
        write_bundle("sizes", "function run() { return 1; }")
        assert 'Did you mean "sizes"?' in fails(["run", "size"], capsys)
        assert "Did you mean" in fails(["run", str(BUNDLES / "todo")], capsys)

    def test_no_manifest(self, capsys: pytest.CaptureFixture[str]) -> None:
        """JSR-002"""
        Path("empty").mkdir()
        message = fails(["run", "empty"], capsys)
        assert "empty/manifest.json: error [bundle-file]" in message
        assert "empty/program.js: error [bundle-file]" in message

    def test_a_duplicate_key(self, capsys: pytest.CaptureFixture[str]) -> None:
        """JSR-003"""
        path = write_bundle("twice", "function run() { return 1; }")
        (path / "manifest.json").write_text('{"name": "twice",\n "purpose": "x",\n "name": "twice"}')
        assert "twice/manifest.json:3:2: error [manifest-duplicate-key]" in fails(["run", "twice"], capsys)

    def test_a_directory_instead_of_a_file(self, capsys: pytest.CaptureFixture[str]) -> None:
        path = write_bundle("folder", "function run() { return 1; }")
        (path / "program.js").unlink()
        (path / "program.js").mkdir()
        assert "folder/program.js: error [bundle-file]" in fails(["run", "folder"], capsys)

    def test_a_prompt_that_is_a_symlink(self, capsys: pytest.CaptureFixture[str]) -> None:
        """JSR-012"""
        path = write_bundle("linked", "function run() { return ai('secret'); }")
        (path / "prompts").mkdir()
        (path / "prompts" / "secret.md").symlink_to("/etc/passwd")
        assert "linked/prompts/secret.md: error [bundle-file]" in fails(["run", "linked"], capsys)

    def test_a_file_instead_of_a_bundle(self, capsys: pytest.CaptureFixture[str]) -> None:
        write_bundle("hello", "function run() { return 1; }")
        assert 'Use "hello"' in fails(["run", "hello/program.js"], capsys)

    def test_an_unknown_tool_on_the_whitelist_falls_back_at_the_call(self, capsys: pytest.CaptureFixture[str]) -> None:
        """A whitelisted tool nobody has is known only at the run; the program sees a DoorError that names it."""
        write_bundle("unknown", "function run() { return tool('lsit'); }", whitelist=["lsit"])
        assert call(["run", "unknown", "--quiet"]) == 3
        assert "lsit" in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ('{"path": }', "--input:1:10: error [input-json]"),
            ('{"path": 1} x', "--input:1:13: error [input-json]"),
            ('{"a": 1,\n "a": 2}', "--input:2:2: error [input-json]"),
            ("NaN", "--input:1:1: error [input-json]"),
            ("", "--input:1:1: error [input-json]"),
        ],
    )
    def test_an_input_that_is_not_json(self, text: str, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert fails(["run", str(BUNDLES / "todos"), "--input", text], capsys).startswith(expected)

    def test_an_input_file_is_named_in_the_message(self, capsys: pytest.CaptureFixture[str]) -> None:
        Path("in.json").write_text("{\n  nope\n}")
        Path("bytes.json").write_bytes(b'{"a": "\xff"}')
        run = ["run", str(BUNDLES / "todos"), "--input"]
        assert fails([*run, "@in.json"], capsys).startswith("in.json:2:3: error [input-json]")
        assert "not UTF-8 text at byte 7" in fails([*run, "@bytes.json"], capsys)
        assert "cannot be read" in fails([*run, "@absent.json"], capsys)

    def test_an_input_that_breaks_its_schema(self, capsys: pytest.CaptureFixture[str]) -> None:
        """JSR-078"""
        message = fails(["run", str(BUNDLES / "todos"), "--input", '{"path": 5}'], capsys)
        assert message == "input.path: must be a string, got 5."

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            (["--fuel", "step=3"], "write KEY=VALUE"),
            (["--fuel", "steps=many"], "a whole number"),
            (["--fuel", "steps=0"], "steps must be greater than 0"),
            (["--fuel", "wall=soon"], "a duration is needed"),
            (["--fuel", "wall=nan"], "finite"),
            (["--fuel", "memory=64 apples"], "a size is needed"),
            (["--model", "nonsense"], "There is no model"),
            (["--model", "script:absent.json"], "absent.json"),
            (["--tool", "os"], "write MODULE:NAME"),
            (["--tool", "no_such_module:x"], "cannot be imported"),
            (["--tool", "os:no_such_name"], 'has no "no_such_name"'),
            (["--env", "os:path"], "the Env has no ai"),
            (["--env", "json:dumps"], '--env "json:dumps": it cannot be made: '),
            (["--generalist", "json:dumps"], '--generalist "json:dumps": it cannot be made: '),
            (["--env", "sys:exit"], '--env "sys:exit": it cannot be made'),
            (["--workspace", "absent"], "there is no directory"),
            (["--journal", "not/there/x.db"], "there is no directory"),
            (["--frobnicate"], "No such option"),
        ],
    )
    def test_a_bad_option(self, options: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
        assert expected in fails(["run", str(BUNDLES / "todos"), *options], capsys)

    def test_with_json_a_refusal_is_a_document_on_stdout(self, capsys: pytest.CaptureFixture[str]) -> None:
        """JSR-127 errors included, `--json` prints exactly one JSON document."""
        for arguments in (["run", "absent", "--json"], ["run", "--json"], ["journal", "list", "--json"]):
            assert call(arguments) == 1
            captured = capsys.readouterr()
            assert set(json.loads(captured.out)["error"]) == {"code", "message", "diagnostics"}
            assert captured.err == ""

    def test_a_journal_that_is_no_journal(self, capsys: pytest.CaptureFixture[str]) -> None:
        Path("notes.db").write_text("hello")
        assert "not a journal" in fails(["journal", "list", "--journal", "notes.db"], capsys)


class TestRun:
    @pytest.mark.parametrize(
        ("program", "options", "code", "sentence"),
        [
            ("function run() { return 1; }", [], 0, ""),
            ("function run() { for (;;); }", ["--fuel", "wall=0.2"], 2, "incomplete (wall)"),
            ("function run() { null.x; }", [], 3, "program.js:1:"),
            ("function run() { }", [], 2, "incomplete (no_output)"),
        ],
    )
    def test_the_exit_code_tells_the_ending(
        self, program: str, options: list[str], code: int, sentence: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """JSR-127"""
        write_bundle("ends", program)
        assert call(["run", "ends", *options]) == code
        captured = capsys.readouterr()
        assert sentence in captured.err
        assert captured.out == ("1\n" if code == 0 else "")

    def test_progress_without_a_terminal_is_plain_lines(self, capsys: pytest.CaptureFixture[str]) -> None:
        """JSR-127 off a terminal there is no control code."""
        write_bundle(
            "plain", "function run() { log('half \\u001b[31mway'); return tool('list').truncated; }", whitelist=["list"]
        )
        assert call(["run", "plain"]) == 0
        captured = capsys.readouterr()
        assert captured.out == "false\n"
        assert "plain: half \\x1b[31mway" in captured.err
        assert "tool list: ok" in captured.err
        assert not CONTROL_CODE.search(captured.err)

    def test_json_is_the_whole_result_and_nothing_else(self, capsys: pytest.CaptureFixture[str]) -> None:
        """JSR-114 every key on every ending."""
        write_bundle("ends", "function run() { throw new Error('lost'); }")
        assert call(["run", "ends", "--json"]) == 3
        captured = capsys.readouterr()
        document = json.loads(captured.out)
        assert (document["status"], document["reason"], document["path"]) == ("fell_back", "threw", "fast")
        assert captured.err == ""

    def test_a_lone_surrogate_in_the_output_breaks_nothing(self, capsys: pytest.CaptureFixture[str]) -> None:
        """JSR-056"""
        write_bundle("odd", "function run() { log('\\ud800'); return 'a\\ud800b'; }")
        assert call(["run", "odd"]) == 0
        captured = capsys.readouterr()
        assert json.loads(captured.out) == "a\ud800b"
        assert "odd: \ufffd" in captured.err

    def test_tools_of_a_module_and_a_scripted_model(self, capsys: pytest.CaptureFixture[str]) -> None:
        Path("my_tools.py").write_text('def double(n: int) -> int:\n    """Twice the number."""\n    return 2 * n\n')
        Path("answers.json").write_text('["seven", {"eight": 8}]')
        path = write_bundle(
            "wired", "function run({n}) { return [tool('double', {n}), ai('p'), ai('p')]; }", whitelist=["double"]
        )
        (path / "prompts").mkdir()
        (path / "prompts" / "p.md").write_text("Answer.")
        arguments = [
            "run",
            "wired",
            "--tool",
            "my_tools:double",
            "--model",
            "script:answers.json",
            "--input",
            '{"n": 4}',
        ]
        assert call([*arguments, "--quiet"]) == 0
        assert json.loads(capsys.readouterr().out) == [8, "seven", {"eight": 8}]

    def test_what_is_remembered_is_recalled_by_the_next_run(self, capsys: pytest.CaptureFixture[str]) -> None:
        program = "function run() { const n = recall('').length; remember('note ' + n); return n; }"
        write_bundle("notes", program)
        for expected in ("0", "1", "2"):
            assert call(["run", "notes", "--quiet"]) == 0
            assert capsys.readouterr().out.strip() == expected
        assert Path(".jsrun/subharnesses/notes/memory.md").is_file()

    def test_interrupting_cancels_the_run_and_closes_the_journal(self) -> None:
        """JSR-092 Ctrl-C is `cancelled`, exit 2."""
        write_bundle("spins", "function run() { log('spinning'); for (;;); }")
        command = [sys.executable, "-m", "jsrun", "run", "spins"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        while "spinning" not in (line := process.stderr.readline()):
            assert line, "the run has not begun"
        process.send_signal(signal.SIGINT)
        _out, err = process.communicate(timeout=20)
        assert process.returncode == 2
        assert "incomplete (cancelled)" in err
        with sqlite3.connect(".jsrun/journal.db") as database:
            assert database.execute("SELECT status, reason FROM run").fetchall() == [("incomplete", "cancelled")]

    def test_a_reader_that_has_enough_is_no_error(self) -> None:
        write_bundle("long", "function run() { return Array.from({length: 50000}, (_, i) => i); }")
        script = f"{sys.executable} -m jsrun run long --quiet | head -1"
        done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=60, check=True)
        assert done.stdout == "[\n"
        assert done.stderr == ""

    def test_on_a_terminal_there_is_a_live_line_and_a_question_can_be_answered(self) -> None:
        """The live line stops while a person types."""
        write_bundle("asks", "function run() { return ask('Which?', {options: ['red', 'blue']}); }")
        terminal, other = pty.openpty()
        command = [sys.executable, "-m", "jsrun", "run", "asks"]
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
        process = subprocess.Popen(command, stdin=other, stdout=subprocess.PIPE, stderr=other, env=environment)
        os.close(other)
        try:
            shown = _read_until(terminal, "blue")
            os.write(terminal, b"2\n")
            assert process.stdout is not None
            assert json.loads(process.stdout.read()) == "blue"
            assert process.wait(timeout=20) == 0
            assert "\x1b" in shown
        finally:
            process.kill()
            process.wait()
            os.close(terminal)


class TestJournal:
    def test_runs_are_listed_shown_and_exported(self, capsys: pytest.CaptureFixture[str]) -> None:
        write_bundle("first", "function run() { log('hi'); return 1; }")
        write_bundle("second", "function run() { throw new Error('lost'); }")
        call(["run", "first", "--quiet"])
        call(["run", "second", "--quiet"])
        capsys.readouterr()

        assert call(["journal", "list"]) == 0
        rows = capsys.readouterr().out.splitlines()
        assert [row.split()[1] for row in rows[1:]] == ["second", "first"]
        first = rows[2].split()[0]

        assert call(["journal", "show", first[:14] if rows[1].split()[0][:14] != first[:14] else first]) == 0
        shown = capsys.readouterr().out
        assert "ending   finished" in shown
        assert re.search(r"^1\s+log\s+ok", shown, re.MULTILINE)

        assert call(["journal", "export", first]) == 0
        entries = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [(entry["call"], entry["note"], entry["state"]) for entry in entries] == [("log", "hi", "ok")]

        assert call(["journal", "export", first, "-o", "out.jsonl"]) == 0
        assert call(["journal", "export", first, "-o", "out.jsonl"]) == 1
        assert "there already" in capsys.readouterr().err

    def test_json_documents(self, capsys: pytest.CaptureFixture[str]) -> None:
        write_bundle("one", "function run() { return {a: 1}; }")
        call(["run", "one", "--quiet"])
        capsys.readouterr()
        assert call(["journal", "list", "--json"]) == 0
        listed = json.loads(capsys.readouterr().out)
        assert listed["total"] == 1
        assert call(["journal", "show", "last", "--json"]) == 0
        shown = json.loads(capsys.readouterr().out)
        assert shown["run"]["result"]["output"] == {"a": 1}

    def test_an_unknown_run_offers_help(self, capsys: pytest.CaptureFixture[str]) -> None:
        write_bundle("one", "function run() { return 1; }")
        call(["run", "one", "--quiet"])
        capsys.readouterr()
        assert call(["journal", "show", "nonsense"]) == 1
        assert "There is no run" in capsys.readouterr().err


class TestDoctor:
    def test_it_proves_the_engine_with_a_run(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert call(["doctor", "--json"]) == 0
        report = json.loads(capsys.readouterr().out)
        engine = report["engines"]["quickjs"]
        assert engine["ok"]
        assert engine["warm_ms"] > 0
        assert call(["doctor"]) == 0
        text = capsys.readouterr().out
        assert "sandbox" in text
        assert "smoke run" in text

    def test_a_missing_engine_is_named_with_its_package(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """JSR-132"""
        import importlib.util

        monkeypatch.setattr(importlib.util, "find_spec", lambda name, package=None: None)
        assert call(["doctor"]) == 1
        assert "pip install quickjs-ng" in capsys.readouterr().out


def test_version_and_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["--version"]) == 0
    assert "subharness" in capsys.readouterr().out
    for command in ([], ["new"], ["check"], ["run"], ["journal"], ["journal", "show"], ["doctor"]):
        assert call([*command, "--help"]) == 0
        assert "Usage: jsrun" in capsys.readouterr().out


def _read_until(terminal: int, text: str) -> str:
    """What the terminal shows until `text` has come; fails if it does not within 20 seconds."""
    shown = ""
    deadline = time.monotonic() + 20
    while text not in shown:
        ready, _, _ = select.select([terminal], [], [], max(0, deadline - time.monotonic()))
        assert ready, f"{text!r} did not come: {shown!r}"
        shown += os.read(terminal, 4096).decode("utf-8", "replace")
    return shown


class TestJournalFiles:
    """What is no journal, or a damaged one."""

    def test_a_run_into_a_file_that_is_no_journal_does_not_happen(
        self, capsys: pytest.CaptureFixture[str], folder: Path
    ) -> None:
        """Exit 1, because nothing ran."""
        write_bundle("one", 'function run() { log("ran"); return 1; }')
        (folder / "notes.txt").write_text("no journal\n" * 100)
        assert call(["run", "one", "--journal", "notes.txt"]) == 1
        captured = capsys.readouterr()
        assert captured.out == ""
        assert "notes.txt: this file is not a journal" in captured.err
        assert "ran" not in captured.err

    def test_a_damaged_run_does_not_hide_the_others(self, capsys: pytest.CaptureFixture[str], folder: Path) -> None:
        """Rows read back are checked, each for itself."""
        write_bundle("one", "function run() { return 1; }")
        for _ in range(2):
            assert call(["run", "one", "--quiet"]) == 0
        with sqlite3.connect(folder / ".jsrun" / "journal.db") as connection:
            connection.execute("UPDATE run SET clock_ms = 'x' WHERE rowid = 1")
        connection.close()
        capsys.readouterr()
        assert call(["journal", "list"]) == 0
        captured = capsys.readouterr()
        assert captured.out.count("finished") == 1
        assert '"clock_ms" must be a whole number' in captured.err
        assert call(["journal", "list", "--json"]) == 0
        listed = json.loads(capsys.readouterr().out)
        assert (listed["total"], len(listed["damaged"])) == (1, 1)
        assert call(["journal", "show", listed["runs"][0]["run_id"]]) == 0

    def test_a_missing_model_is_named_with_its_option(self, capsys: pytest.CaptureFixture[str], folder: Path) -> None:
        """A message says what to do."""
        bundle = write_bundle("one", 'function run() { return ai("p", 1); }')
        (bundle / "prompts").mkdir()
        (bundle / "prompts" / "p.md").write_text("Answer.")
        assert call(["run", "one", "--quiet"]) == 3
        assert "Give one with --model" in capsys.readouterr().err
