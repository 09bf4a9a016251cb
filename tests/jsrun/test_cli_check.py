"""`jsrun check` as a user meets it: formats for others, the engine's opinion, evals, and watching."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from jsrun.cli import call
from jsrun.cli.watching import state

OK = "function run() { return 1 }"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Every test works in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JSRUN_HOME", str(tmp_path / "home"))
    yield tmp_path


def write_bundle(folder: str, program: str, files: dict[str, str] | None = None, /, **manifest: object) -> Path:
    """A bundle in the current folder."""
    path = Path(folder)
    texts = {
        "manifest.json": json.dumps({"name": folder, "purpose": "A test.", **manifest}),
        "program.js": program,
        **(files or {}),
    }
    for file, text in texts.items():
        (path / file).parent.mkdir(parents=True, exist_ok=True)
        (path / file).write_text(text)
    return path


def checked(*arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    code = call(["check", *arguments])
    captured = capsys.readouterr()
    assert "Traceback" not in captured.out + captured.err
    return code, captured.out.splitlines()


# --- formats ----------------------------------------------------------------------------------------------------------

# Of the schema of SARIF 2.1.0, what these logs use.
POSITIVE = {"type": "integer", "minimum": 1}
SARIF: dict[str, Any] = {
    "type": "object",
    "required": ["version", "runs"],
    "properties": {
        "$schema": {"type": "string", "format": "uri"},
        "version": {"const": "2.1.0"},
        "runs": {"type": "array", "items": {"$ref": "#/$defs/run"}},
    },
    "additionalProperties": False,
    "$defs": {
        "run": {
            "type": "object",
            "required": ["tool"],
            "properties": {
                "tool": {
                    "type": "object",
                    "required": ["driver"],
                    "properties": {"driver": {"$ref": "#/$defs/driver"}},
                },
                "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
                "results": {"type": "array", "items": {"$ref": "#/$defs/result"}},
            },
            "additionalProperties": False,
        },
        "driver": {
            "type": "object",
            "required": ["name"],
            "properties": {
                "name": {"type": "string"},
                "version": {"type": "string"},
                "rules": {
                    "type": "array",
                    "uniqueItems": True,
                    "items": {
                        "type": "object",
                        "required": ["id"],
                        "properties": {"id": {"type": "string"}, "name": {"type": "string"}},
                        "additionalProperties": False,
                    },
                },
            },
            "additionalProperties": False,
        },
        "result": {
            "type": "object",
            "required": ["message"],
            "properties": {
                "ruleId": {"type": "string"},
                "ruleIndex": {"type": "integer", "minimum": -1},
                "level": {"enum": ["none", "note", "warning", "error"]},
                "message": {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}},
                "locations": {"type": "array", "items": {"$ref": "#/$defs/location"}},
            },
            "additionalProperties": False,
        },
        "location": {
            "type": "object",
            "properties": {
                "physicalLocation": {
                    "type": "object",
                    "properties": {
                        "artifactLocation": {"type": "object", "properties": {"uri": {"type": "string"}}},
                        "region": {
                            "type": "object",
                            "properties": {"startLine": POSITIVE, "startColumn": POSITIVE},
                            "additionalProperties": False,
                        },
                    },
                    "additionalProperties": False,
                }
            },
            "additionalProperties": False,
        },
    },
}


def test_sarif(capsys: pytest.CaptureFixture[str]) -> None:
    """JSR-127 one log for all bundles, valid for those who read it; the exit code stays that of the check"""
    write_bundle("one", 'function run() {\n  const ü = "😀"; return tool("lst")\n}', whitelist=["list"])
    write_bundle("two with a blank", OK, {"notes.txt": "x"}, name="two")
    code, lines = checked("one", "two with a blank", "--format", "sarif", capsys=capsys)
    assert code == 1
    log = json.loads("\n".join(lines))
    jsonschema.Draft202012Validator(SARIF).validate(log)
    (run,) = log["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    found = []
    for result in run["results"]:
        assert rules[result["ruleIndex"]] == result["ruleId"]
        place = result["locations"][0]["physicalLocation"]
        region = place.get("region", {})
        uri = place["artifactLocation"]["uri"]
        found.append((result["ruleId"], result["level"], uri, region.get("startLine"), region.get("startColumn")))
    assert found == [
        ("unused-whitelist", "warning", "one/manifest.json", 1, 53),
        ("tool-not-whitelisted", "error", "one/program.js", 2, 30),
        ("ignored-file", "warning", "two%20with%20a%20blank/notes.txt", None, None),
    ]
    assert run["columnKind"] == "unicodeCodePoints"
    assert 'Did you mean "list"?' in run["results"][1]["message"]["text"]
    _, lines = checked(str(Path("one").absolute()), "--format", "sarif", capsys=capsys)
    assert '"uri": "file:///' in "\n".join(lines)


def test_github_annotations(capsys: pytest.CaptureFixture[str]) -> None:
    """JSR-127 one line each, with what is special in it escaped"""
    write_bundle("a,b", 'function run() {\n  return tool("l%\\n:s")\n}', name="one")
    code, lines = checked("a,b", "--format", "github", capsys=capsys)
    assert code == 1
    assert lines[0].startswith("::error file=a%2Cb/program.js,line=2,col=15,title=jsrun tool-not-whitelisted::The tool")
    assert '"l%25\\n:s"' in lines[0]
    assert lines[-1] == "a,b: failed (1 error)"


def test_formats_and_engines_are_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    """JSR-127 a wrong one is refused with the nearest; what cannot go together is told"""
    write_bundle("one", OK)
    for options, message in (
        (["--format", "sarf"], 'Did you mean "sarif"?'),
        (["--engine", "node"], "Use one of quickjs, v8."),
        (["--format", "sarif", "--json"], "exclude each other"),
        (["--watch", "--json"], "cannot print one document"),
    ):
        assert call(["check", "one", *options]) == 1
        captured = capsys.readouterr()
        assert message in (json.loads(captured.out)["error"]["message"] if captured.out else captured.err)


# --- the engine and the evals -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("program", "place", "message"),
    [
        ("function run() {\n  const a = {b: 1 c: 2}\n}", "2:19", 'Unexpected identifier near "c".'),
        ("function run() {\n  return 1\n/* never closed\n\n", "3:1", "unexpected end of comment"),
        ("function run() {\n  return [1,\n\n", "2:12", "ends too early"),
        ("function run() {\n  const x\n}", "2:10", "Missing initializer"),
        ("function run() {\n  return /(/.test('a')\n}", "2:10", "SyntaxError: expecting ')'"),
        ("function run() {\n  return /a/ && /b/gg\n}", "2:17", "invalid regular expression flags"),
        ("class A {\n  m() { return this.#p }\n}\nfunction run() { return 1 }", "2:21", "undefined private field '#p'"),
        ("function run() {\n  let a\n  let a\n  return a\n}", "3:7", '"a" is declared already, on line 2.'),
        ("export default async function () {\n  return `${1`\n}", "2:14", "unexpected end of string"),
    ],
)
def test_what_does_not_parse_or_compile_has_its_place(
    program: str, place: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """JSR-019 the engine's where it is nearer to the mistake, also of what the engine is silent about"""
    write_bundle("one", program)
    code, lines = checked("one", capsys=capsys)
    assert code == 1
    assert lines[0].startswith(f"one/program.js:{place}: error [syntax] ")
    assert message in lines[0]


def test_what_only_the_checker_cannot_read_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """JSR-019 the hint says that the engine takes the text"""
    write_bundle("deep", f"function run() {{ return {'(' * 500}1{')' * 500} }}")
    monkeypatch.setattr("ptc.deep.FRAMES", 2_000)
    code, lines = checked("deep", capsys=capsys)
    assert code == 1
    assert "[syntax]" in lines[0] and "The engine takes this text, but the checker cannot read it." in lines[0]


def test_another_engine_can_be_asked(capsys: pytest.CaptureFixture[str]) -> None:
    """JSR-027 a sync program has no place on v8"""
    write_bundle("one", OK)
    write_bundle("two", f"async {OK}")
    code, lines = checked("one", "--engine", "v8", capsys=capsys)
    assert code == 1
    assert lines[0].startswith("one/manifest.json: error [engine-form] ")
    assert checked("one", "--engine", "quickjs", capsys=capsys)[0] == 0
    pytest.importorskip("py_mini_racer")
    assert checked("two", "--engine", "v8", capsys=capsys)[0] == 0


def test_mistakes_in_evals_have_their_place(capsys: pytest.CaptureFixture[str]) -> None:
    """JSR-127 of every file, each at the value or key that is wrong"""
    cases = {
        "evals/a.json": '{\n  "expect": {\n    "status": "done" } }',
        "evals/b.json": '{ "expect": {},\n  "doors": [\n    { "door": "tool" },\n    { "door": "tol" } ] }',
        "evals/c.json": '{ "expect": {}, "imput": 1 }',
        "evals/d.json": '{ "expect": {} ',
        "evals/e.json": '{ "expect": {},\n  "cassette": "none.jsonl" }',
        "evals/f.json": '{ "expect": { "calls": [1] } }',
    }
    write_bundle("one", OK, cases)
    code, lines = checked("one", capsys=capsys)
    assert code == 1
    assert [line.partition(": error [eval-invalid] ")[0] for line in lines[:-1]] == [
        "one/evals/a.json:3:15",
        "one/evals/b.json:4:5",
        "one/evals/c.json:1:17",
        "one/evals/d.json:1:16",
        "one/evals/e.json",
        "one/evals/f.json:1:24",
    ]


# --- watching ---------------------------------------------------------------------------------------------------------


def test_what_is_watched(folder: Path) -> None:
    """JSR-127 every file of a bundle, new and removed ones too, and nothing else"""
    path = write_bundle("one", OK, {"prompts/a.md": "x", ".git/x": "y"})
    before = state([path])
    assert len(before) == 3
    (path / "prompts" / "b.md").write_text("y")
    assert len(state([path])) == 4
    (path / "prompts" / "b.md").unlink()
    (path / "program.js").write_text(OK + " ")
    assert state([path]) != before
    assert state([folder / "nowhere"]) == {}


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is no signal there")
def test_a_watch_checks_again_after_a_change_and_ends_on_ctrl_c(folder: Path) -> None:
    """JSR-127 its exit code is that of the last check"""
    path = write_bundle("one", "function run() {")
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "jsrun", "check", "one", "--watch"],
        cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ),
    )  # fmt: skip
    lines: list[str] = []

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:  # one at a time: they are waited for
            lines.append(line)

    reader = threading.Thread(target=read)
    reader.start()

    def wait_for(count: int) -> None:
        deadline = time.monotonic() + 60
        while sum("waiting for changes" in line for line in lines) < count:
            assert time.monotonic() < deadline and process.poll() is None, lines
            time.sleep(0.05)

    try:
        wait_for(1)
        (path / "program.js").write_text(OK)
        wait_for(2)
        (path / "manifest.json").unlink()
        wait_for(3)
        (path / "manifest.json").write_text(json.dumps({"name": "one", "purpose": "Again."}))
        wait_for(4)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        reader.join()
        assert process.stderr is not None
        problems = process.stderr.read()
        process.stderr.close()
        assert process.stdout is not None
        process.stdout.close()
    verdicts = [line.strip() for line in lines if line.startswith("one: ")]
    assert verdicts == ["one: failed (1 error)", "one: ok", "one: failed (1 error)", "one: ok"]
    assert "Traceback" not in problems
