"""`jsrun replay`, `jsrun resume`, `jsrun journal record` and `prune`, as a user meets them."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jsrun.cli import call

PROGRAM = """
async function run({ words }) {
  const out = [];
  for (const word of words) {
    out.push(await tool("list", { path: word }).then((got) => got.entries.length, (error) => error.name));
    await log("looked at " + word);
  }
  return { out, at: Date.now(), chance: Math.random() };
}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Every test works in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JSRUN_HOME", str(tmp_path / "home"))
    yield tmp_path


def write_bundle(path: Path, program: str = PROGRAM, **manifest: object) -> Path:
    """A bundle in that folder."""
    path.mkdir(parents=True)
    (path / "manifest.json").write_text(
        json.dumps({"name": path.name, "purpose": "A test.", "whitelist": ["list"], **manifest})
    )
    (path / "program.js").write_text(program)
    return path


def run(*arguments: str) -> int:
    return call(["run", *arguments, "--quiet", "--input", '{"words": [".", "gone"]}'])


def fails(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The message of a command that cannot be done; it exits 1 and prints nothing else."""
    capsys.readouterr()
    assert call(arguments) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Traceback" not in captured.err
    return captured.err.strip()


def printed(arguments: list[str], capsys: pytest.CaptureFixture[str], exits: int = 0) -> str:
    """What a command prints."""
    capsys.readouterr()
    code = call(arguments)
    captured = capsys.readouterr()
    assert code == exits, captured
    return captured.out


class TestReplay:
    def test_the_same(self, capsys: pytest.CaptureFixture[str]) -> None:
        """JSR-127 JSR-100 exit 0; the bundle is found by the run's name."""
        write_bundle(Path("look"))
        assert run("look") == 0
        assert printed(["replay", "last"], capsys) == "same: 4 calls, finished\n"

    def test_another_version(self, capsys: pytest.CaptureFixture[str]) -> None:
        """JSR-127 JSR-101 exit 2, with the call and the path."""
        write_bundle(Path("look"))
        write_bundle(Path("other/look"), PROGRAM.replace("path: word", 'path: "./" + word'))
        assert run("look") == 0
        out = printed(["replay", "last", "--bundle", "other/look"], capsys, exits=2)
        assert out == 'differs: call 1 differs at input.path: recorded ".", now "./.".\n'

    def test_json_is_one_document(self, capsys: pytest.CaptureFixture[str]) -> None:
        """JSR-127"""
        write_bundle(Path("look"))
        write_bundle(Path("other"), PROGRAM.replace('"looked at "', '"saw "'))
        assert run("look") == 0
        document = json.loads(printed(["replay", "last", "--json"], capsys))
        assert document["same"]
        assert document["result"]["status"] == "finished"
        document = json.loads(printed(["replay", "last", "--json", "--bundle", "other"], capsys, exits=2))
        assert document["difference"] == {
            "kind": "call", "seq": 2, "path": "status", "recorded": "looked at .", "actual": "saw .",
        }  # fmt: skip

    def test_what_cannot_be_replayed(self, capsys: pytest.CaptureFixture[str], folder: Path) -> None:
        """JSR-127 exit 1, and nothing is printed but why."""
        assert "There is no journal" in fails(["replay", "last"], capsys)
        path = write_bundle(Path("look"))
        assert run("look") == 0
        assert "There is no run" in fails(["replay", "XYZ"], capsys)
        (path / "program.js").write_text("function run( {")
        assert "[syntax]" in fails(["replay", "last"], capsys)
        path.rename(folder / "elsewhere")
        assert "Name it with --bundle" in fails(["replay", "last"], capsys)
        assert "There is no bundle" in fails(["replay", "last", "--bundle", "gone"], capsys)

    def test_an_input_the_bundle_does_not_take_any_more(self, capsys: pytest.CaptureFixture[str]) -> None:
        """JSR-127"""
        write_bundle(Path("look"))
        write_bundle(Path("other"), input={"required": ["more"]})
        assert run("look") == 0
        assert "more" in fails(["replay", "last", "--bundle", "other"], capsys)

    def test_bundles_beside_are_found(self, capsys: pytest.CaptureFixture[str]) -> None:
        """A bundle in `bundles`, as they are kept in a repository."""
        write_bundle(Path("bundles/look"))
        assert run("bundles/look") == 0
        assert printed(["replay", "last"], capsys).startswith("same")


class TestResume:
    def test_a_run_that_ran_out_of_steps(self, capsys: pytest.CaptureFixture[str]) -> None:
        """JSR-105 JSR-127 exits as `run` does; with more steps it finishes."""
        write_bundle(Path("look"))
        assert run("look", "--fuel", "steps=2") == 2
        assert printed(["resume", "last", "--quiet"], capsys, exits=2) == ""
        document = json.loads(printed(["resume", "last", "--fuel", "steps=9", "--json"], capsys))
        assert document["calls"] == 4
        assert len(document["output"]["out"]) == 2
        assert printed(["replay", "last"], capsys).startswith("same: 4 calls")
        assert "has ended as finished" in fails(["resume", "last"], capsys)

    def test_a_host_that_was_killed_in_a_tool(self, capsys: pytest.CaptureFixture[str]) -> None:
        """JSR-103 JSR-095 the message names the call and the two ways to go on."""
        Path("deadly.py").write_text(
            "import os, signal\n"
            "from pathlib import Path\n"
            "from jsrun import CallbackEnv\n"
            "def strike(args):\n"
            "    if not Path('struck').exists():\n"
            "        Path('struck').write_text('x')\n"
            "        os.kill(os.getpid(), signal.SIGKILL)\n"
            "    return {'struck': True}\n"
            "def env():\n"
            "    return CallbackEnv(tools={'strike': strike}, log=print)\n"
        )
        program = "function run() { try { return tool('strike') } catch (error) { return error.message } }"
        write_bundle(Path("war"), program, whitelist=["strike"])
        command = [sys.executable, "-m", "jsrun", "run", "war", "--env", "deadly:env", "--quiet"]
        root = str(Path(__file__).parents[2])
        done = subprocess.run(command, env={**os.environ, "PYTHONPATH": root}, check=False, timeout=60)
        assert done.returncode == -signal.SIGKILL
        shown = json.loads(printed(["journal", "show", "last", "--json"], capsys))
        assert (shown["run"]["status"], shown["entries"][0]["state"]) == (None, "open")
        message = fails(["resume", "last", "--env", "deadly:env"], capsys)
        assert "  1 tool strike\n" in message
        assert "--in-flight retry" in message
        document = json.loads(
            printed(["resume", "last", "--env", "deadly:env", "--in-flight", "fail", "--json"], capsys)
        )
        assert "nobody knows" in document["output"]

    def test_usage(self, capsys: pytest.CaptureFixture[str]) -> None:
        """JSR-127"""
        write_bundle(Path("look"))
        assert run("look", "--fuel", "steps=2") == 2
        assert "in-flight" in fails(["resume", "last", "--in-flight", "maybe"], capsys)
        assert "--fuel" in fails(["resume", "last", "--fuel", "steps=x"], capsys)
        document = json.loads(printed(["resume", "nothing", "--json"], capsys, exits=1))
        assert document["error"]["code"] == "not-found"
        other = write_bundle(Path("other/look"), PROGRAM + "\n// another")
        assert "another version of the program" in fails(["resume", "last", "--bundle", str(other)], capsys)

    def test_the_long_way_is_taken_after_a_resume(self, capsys: pytest.CaptureFixture[str]) -> None:
        """JSR-125 as after a run."""
        Path("longer.py").write_text(
            "from jsrun import RunResult\n"
            "class Taker:\n"
            "    async def take(self, job, env):\n"
            "        return RunResult('finished', output={'long': job.input})\n"
        )
        write_bundle(Path("look"), "async function run() { await log('x'); await log('y'); throw new Error('odd') }")
        assert run("look", "--fuel", "steps=1") == 2
        arguments = ["resume", "last", "--fuel", "steps=5", "--generalist", "longer:Taker", "--json"]
        document = json.loads(printed(arguments, capsys))
        assert document["path"] == "long"
        assert document["output"] == {"long": {"words": [".", "gone"]}}


class TestRecord:
    def test_a_run_becomes_a_case_that_passes(self, capsys: pytest.CaptureFixture[str]) -> None:
        """JSR-126 case and cassette beside each other; `check` reads both."""
        write_bundle(Path("look"))
        assert run("look") == 0
        out = printed(["journal", "record", "last", "--as", "two-words"], capsys)
        assert out == "wrote look/evals/two-words.json\nwrote look/evals/two-words.jsonl\n"
        case = json.loads(Path("look/evals/two-words.json").read_text())
        assert case["cassette"] == "two-words.jsonl"
        assert case["expect"]["calls"] == ["tool list", "log", "tool list", "log"]
        assert call(["check", "--strict", "look"]) == 0
        Path("look/evals/two-words.jsonl").write_text("{}\n")
        assert "evals/two-words.jsonl:1" in printed(["check", "look"], capsys, exits=1)

    def test_nothing_is_overwritten(self, capsys: pytest.CaptureFixture[str]) -> None:
        write_bundle(Path("look"))
        assert run("look") == 0
        evals = Path("look/evals")
        evals.mkdir()
        (evals / "seen.jsonl").write_text("mine")
        assert "is there already" in fails(["journal", "record", "last", "--as", "seen"], capsys)
        assert [path.name for path in evals.iterdir()] == ["seen.jsonl"]
        assert (evals / "seen.jsonl").read_text() == "mine"

    def test_a_run_of_another_version_is_no_case(self, capsys: pytest.CaptureFixture[str]) -> None:
        """JSR-126 what does not pass as recorded is not written."""
        path = write_bundle(Path("look"))
        assert run("look") == 0
        (path / "program.js").write_text(PROGRAM.replace("return { out", "return { found: out"))
        assert "would not pass" in fails(["journal", "record", "last", "--as", "seen"], capsys)
        assert not (path / "evals").exists()

    @pytest.mark.parametrize("name", ["", "../up", ".hidden", "a b", "a/b"])
    def test_names(self, name: str, capsys: pytest.CaptureFixture[str]) -> None:
        write_bundle(Path("look"))
        assert run("look") == 0
        assert "--as" in fails(["journal", "record", "last", "--as", name], capsys)

    def test_json(self, capsys: pytest.CaptureFixture[str]) -> None:
        """JSR-127"""
        write_bundle(Path("look"))
        assert run("look") == 0
        document: Any = json.loads(printed(["journal", "record", "last", "--as", "seen", "--json"], capsys))
        assert document["files"] == ["look/evals/seen.json", "look/evals/seen.jsonl"]

    def test_versions_in_a_store_do_not_change(self, capsys: pytest.CaptureFixture[str]) -> None:
        write_bundle(Path("work/look"))
        assert call(["store", "mint", "work/look"]) == 0
        assert run("look") == 0
        assert "is in a store" in fails(["journal", "record", "last", "--as", "seen"], capsys)
        assert printed(["journal", "record", "last", "--as", "seen", "--bundle", "work/look"], capsys)


class TestPrune:
    def test_runs_that_ended_before_are_deleted(self, capsys: pytest.CaptureFixture[str]) -> None:
        write_bundle(Path("look"))
        assert run("look") == 0
        assert run("look") == 0
        assert "deleted 0 runs" in printed(["journal", "prune", "--days", "1"], capsys)
        assert json.loads(printed(["journal", "list", "--json"], capsys))["total"] == 2
        document = json.loads(printed(["journal", "prune", "--before", "2999-01-01", "--json"], capsys))
        assert document == {"deleted": 2, "before": "2999-01-01T00:00:00.000Z"}
        assert json.loads(printed(["journal", "list", "--json"], capsys))["total"] == 0

    def test_times_have_a_zone(self, capsys: pytest.CaptureFixture[str]) -> None:
        write_bundle(Path("look"))
        assert run("look") == 0
        out = printed(["journal", "prune", "--before", "2020-01-01T01:00:00+02:00"], capsys)
        assert re.fullmatch(r"deleted 0 runs that ended before 2019-12-31T23:00:00\.000Z\n", out)

    def test_usage(self, capsys: pytest.CaptureFixture[str]) -> None:
        """JSR-127"""
        assert "either" in fails(["journal", "prune"], capsys)
        assert "either" in fails(["journal", "prune", "--days", "1", "--before", "2020-01-01"], capsys)
        assert "such as 2026-01-31" in fails(["journal", "prune", "--before", "yesterday"], capsys)
        assert "There is no journal" in fails(["journal", "prune", "--days", "1"], capsys)
