"""`jsrun test` as a user meets it: what passes, what a failure says, what is covered, and the exit codes."""

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jsrun.cli import call

BUNDLES = Path(__file__).parents[2] / "bundles"
CONTROL_CODE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")

PROGRAM = """\
function run({ a }) {
  const said = tool("t", { a });
  if (said === "loud") {
    console.warn("so loud");
    log("shouted");
  }
  return { said, list: [1, 2, { deep: a }] };
}
"""
CASE: dict[str, Any] = {
    "name": "quiet",
    "input": {"a": 1},
    "doors": [{"door": "tool", "ref": "t", "text": "hush"}],
    "expect": {"status": "finished", "output": {"exact": {"said": "hush", "list": [1, 2, {"deep": 1}]}}},
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Every test works in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JSRUN_HOME", str(tmp_path / "home"))
    yield tmp_path


def write_bundle(name: str, program: str = PROGRAM, /, **cases: Any) -> None:
    """A bundle in the current folder; `cases` are its evals by file name."""
    path = Path(name)
    (path / "evals").mkdir(parents=True)
    (path / "manifest.json").write_text(json.dumps({"name": name, "purpose": "A test.", "whitelist": ["t"]}))
    (path / "program.js").write_text(program)
    for file, case in cases.items():
        (path / "evals" / f"{file}.json").write_text(case if isinstance(case, str) else json.dumps(case))


def test_cases_that_pass(capsys: pytest.CaptureFixture[str]) -> None:
    """JSR-126 JSR-127 exit 0, one line each with its file, and nothing on stderr off a terminal"""
    write_bundle("one", a=CASE, b={**CASE, "name": "again"})
    write_bundle("none")
    assert call(["test", "one", "none"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert captured.out.splitlines() == [
        "one",
        "  ok      quiet  one/evals/a.json",
        "  ok      again  one/evals/b.json",
        "none",
        "  no cases",
        "2 passed",
    ]


def test_a_failure_says_what_differs(capsys: pytest.CaptureFixture[str]) -> None:
    """JSR-126 JSR-127 by path, with the file of the case, what was called, and what the program warned of"""
    output = {"exact": {"said": "hush", "list": [1, 2, {"deep": 2}, 3], "more": True}}
    doors = [{"door": "tool", "text": "loud"}, {"door": "ask"}]
    expect = {"status": "incomplete", "output": output, "calls": ["tool t", "ask"], "report": "done"}
    write_bundle("one", a={**CASE, "doors": doors, "expect": expect}, b=CASE)
    assert call(["test", "one"]) == 1
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert lines[1] == "failed  quiet  one/evals/a.json"
    for expected in (
        'The status should be "incomplete", it ended as finished',
        'The report should be "done", it is "shouted".',
        'The calls should be ["tool t","ask"], they were ["tool t","log"].',
        'call 2: expected "ask", got "log"',
        "output.more: expected true, is missing",
        'output.said: expected "hush", got "loud"',
        "output.list: expected 4 items, got 3",
        "output.list[2].deep: expected 2, got 1",
        'never called (1 more expected): {"door": "ask"}',
        "console.warn: so loud",
    ):
        assert expected in lines
    assert lines[-1] == "1 passed, 1 failed"


def test_long_texts_are_shown_where_they_part(capsys: pytest.CaptureFixture[str]) -> None:
    """JSR-126 not from their beginning"""
    program = "function run() { return { text: 'x'.repeat(500) + 'right' + 'y'.repeat(500) } }"
    expect = {"output": {"subset": {"text": "x" * 500 + "wrong" + "y" * 500}}}
    write_bundle("one", program, a={"expect": expect})
    assert call(["test", "one"]) == 1
    assert "output.text: from character 501 on, expected …" in capsys.readouterr().out


def test_one_case_by_name_or_file(capsys: pytest.CaptureFixture[str]) -> None:
    """JSR-127 of all bundles; one that is not there is refused with the nearest"""
    write_bundle("one", a=CASE, b={**CASE, "name": "again", "expect": {"status": "incomplete"}})
    write_bundle("two", c=CASE)
    for wanted in ("quiet", "a", "a.json", "evals/a.json", "one/evals/a.json"):
        assert call(["test", "one", "--case", wanted]) == 0
        assert capsys.readouterr().out.endswith("1 passed\n")
    assert call(["test", "one", "two", "--case", "quiet"]) == 0
    assert capsys.readouterr().out.endswith("2 passed\n")
    assert call(["test", "one", "--case", "quite"]) == 1
    assert 'Did you mean "quiet"?' in capsys.readouterr().err
    assert call(["test", "one", "--case", "entirely different"]) == 1
    assert 'There are: "again", "quiet".' in capsys.readouterr().err


@pytest.mark.parametrize(
    ("program", "case", "message"),
    [
        ("function run() { return nothing( }", CASE, "broken/program.js:1:34: error [syntax]"),
        ("function run() { return /(/ }", CASE, "broken/program.js:1:25: error [syntax]"),
        (PROGRAM, {**CASE, "expects": {}}, 'The case has the unknown key "expects".'),
        (PROGRAM, '{\n  "name": }', "broken/evals/a.json:2:11"),
        (PROGRAM, {**CASE, "cassette": "none.jsonl", "doors": "absent"}, "broken/evals/a.json"),
    ],
)
def test_what_cannot_be_tested_fails_and_the_others_go_on(
    program: str, case: Any, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """JSR-127 a broken program, one the engine refuses, a broken case: exit 1, no traceback"""
    write_bundle("broken", program, a=case)
    write_bundle("well", b=CASE)
    assert call(["test", "broken", "well", "--coverage"]) == 1
    captured = capsys.readouterr()
    assert message in captured.out
    assert "1 passed, 1 failed" in captured.out and "ok      quiet  well/evals/b.json" in captured.out
    assert "Traceback" not in captured.out + captured.err
    assert call(["test", "nowhere"]) == 1
    assert "There is no bundle" in capsys.readouterr().err


def test_coverage_tells_what_is_missed(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    """JSR-126 in words on stdout, in lcov's format in a file; all cases of a bundle together"""
    write_bundle("one", a=CASE)
    assert call(["test", "one", "--coverage"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2:5] == [
        "  coverage: 3 of 5 lines, 1 of 1 functions, 1 of 2 branches",
        "    one/program.js:3:3: the condition never holds",
        "    one/program.js:4: lines 4–5 never run",
    ]
    loud = {**CASE, "name": "loud", "doors": [{"door": "tool", "text": "loud"}], "expect": {"status": "finished"}}
    (folder / "one" / "evals" / "b.json").write_text(json.dumps(loud))
    assert call(["test", "one", str(BUNDLES / "todos"), "--lcov", "covered.info"]) == 0
    assert "  coverage: 5 of 5 lines, 1 of 1 functions, 2 of 2 branches" in capsys.readouterr().out
    text = Path("covered.info").read_text()
    assert text.startswith("TN:\nSF:one/program.js\n") and text.count("end_of_record\n") == 2
    assert "DA:2,2\n" in text and "DA:4,1\n" in text
    assert call(["test", "one", "--lcov", "nowhere/covered.info"]) == 1
    assert "cannot be written" in capsys.readouterr().err


def test_json_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    """JSR-127 with every case, its problems, its whole result, and the coverage if it is asked for"""
    write_bundle("one", a=CASE, b={**CASE, "name": "wrong", "doors": []})
    write_bundle("broken", "function run( {", c=CASE)
    assert call(["test", "one", "broken", "--json", "--coverage"]) == 1
    captured = capsys.readouterr()
    assert captured.err == ""
    document = json.loads(captured.out)
    assert (document["ok"], document["passed"], document["failed"]) == (False, 1, 2)
    one, broken = document["bundles"]
    assert [(case["name"], case["file"], case["passed"]) for case in one["cases"]] == [
        ("quiet", "one/evals/a.json", True),
        ("wrong", "one/evals/b.json", False),
    ]
    assert one["cases"][0]["result"]["status"] == "finished"
    assert "no item left" in one["cases"][1]["problems"][-1]
    assert one["coverage"]["summary"]["lines"] == {"reached": 3, "of": 5}
    assert one["coverage"]["lines"]["4"] == 0
    assert broken["cases"] == [] and broken["coverage"] is None
    assert broken["diagnostics"][0]["file"] == "broken/program.js"
    assert call(["test", "nowhere", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "not-found"


def test_what_programs_write_cannot_reach_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """JSR-127 no control code, whatever a program or a case says"""
    program = "function run() { console.error('\\x1b[31m red \\ud800'); return { a: '\\x1b[0m' } }"
    write_bundle("one", program, a={"name": "\u001b[1mbold", "expect": {"output": {"exact": {"a": "\u0007"}}}})
    assert call(["test", "one"]) == 1
    assert CONTROL_CODE.search(capsys.readouterr().out) is None


def test_progress_is_for_terminals_only(folder: Path) -> None:
    """JSR-127 a live line on a terminal's stderr; stdout is the same in any case"""
    write_bundle("one", a=CASE)
    command = [sys.executable, "-m", "jsrun", "test", "one"]
    plain = subprocess.run(command, capture_output=True, cwd=folder, timeout=60, check=True)
    assert plain.stderr == b""
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb") as terminal:
        shown = subprocess.run(command, stdout=subprocess.PIPE, stderr=theirs, cwd=folder, timeout=60, check=True)
        os.close(theirs)
        live = b""
        try:
            while chunk := terminal.read1(4096):
                live += chunk
        except OSError:  # how Linux says that the other side is closed
            pass
    assert b"quiet" in live
    assert shown.stdout == plain.stdout


@pytest.mark.parametrize("options", [[], ["--async"]])
def test_the_scaffold_passes_its_own_case(options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """JSR-128 and its program is covered whole"""
    assert call(["new", "hello", *options]) == 0
    capsys.readouterr()
    assert call(["test", "hello", "--coverage", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["bundles"][0]["coverage"]["missed"] == []


def test_the_shipped_bundles_pass_with_coverage(capsys: pytest.CaptureFixture[str]) -> None:
    """JSR-126 every line of them is reached"""
    paths = sorted(str(path) for path in BUNDLES.iterdir() if path.is_dir())
    assert call(["test", *paths, "--coverage", "--json"]) == 0
    for each in json.loads(capsys.readouterr().out)["bundles"]:
        share = each["coverage"]["summary"]["lines"]
        assert share["reached"] == share["of"] > 20
