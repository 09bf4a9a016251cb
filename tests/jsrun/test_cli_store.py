"""The command line over stores: minting, listing, showing, comparing, and running by name with the long way."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jsrun import Store
from jsrun.cli import call
from jsrun.store import home

GENERALISTS = """
import asyncio
from jsrun import RunResult, Spend

class Taker:
    async def take(self, job, env):
        return RunResult("finished", output={"by": "generalist", "input": job.input}, spend=Spend(input=5), run_id="L")

ready = Taker()
nothing = 5

def make():
    return Taker()

def broken():
    raise RuntimeError("no key")

class Fails:
    async def take(self, job, env):
        raise RuntimeError("no idea")

class Waits:
    async def take(self, job, env):
        await asyncio.Event().wait()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Every test works in a folder and with a home of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JSRUN_HOME", str(tmp_path / "home"))
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("takers", None)


def texts(name: str, program: str, **manifest: object) -> dict[str, str]:
    return {"manifest.json": json.dumps({"name": name, "purpose": "A test.", **manifest}), "program.js": program}


def write(path: str, files: dict[str, str]) -> Path:
    """A bundle in a directory."""
    for name, text in files.items():
        target = Path(path) / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text.encode())
    return Path(path)


def project() -> Store:
    return Store(".jsrun")


def document(capsys: pytest.CaptureFixture[str]) -> Any:
    """The one JSON document on stdout; nothing is on stderr."""
    captured = capsys.readouterr()
    assert captured.err == ""
    return json.loads(captured.out)


def fails(arguments: list[str], capsys: pytest.CaptureFixture[str], code: str = "") -> str:
    """The one message of a command that cannot be done; with `--json` it is the one document, with this code."""
    assert call(arguments) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Traceback" not in captured.err
    assert call([*arguments, "--json"]) == 1
    error = document(capsys)["error"]
    assert error["message"] == captured.err.strip()
    assert error["code"] == (code or error["code"])
    return captured.err.strip()


RUNS = "function run() { return { by: 'program' }; }\n"
THROWS = "function run() { throw new Error('lost'); }\n"


class TestMint:
    def test_a_bundle_becomes_a_version(self, capsys: pytest.CaptureFixture[str]) -> None:
        """JSR-122 from the command line: new, unchanged, changed."""
        path = write("alpha", texts("alpha", RUNS))
        assert call(["store", "mint", "alpha", "--json"]) == 0
        made = document(capsys)
        assert (made["name"], made["new"], made["version"]["version"]) == ("alpha", True, 1)
        assert Path(made["path"]) == Path(".jsrun/subharnesses/alpha/v1")
        assert call(["store", "mint", "alpha"]) == 0
        assert "already version 1" in capsys.readouterr().out
        (path / "program.js").write_text("function run() { return 2; }\n")
        message = fails(["store", "mint", "alpha"], capsys, "exists")
        assert "--parent head --why" in message
        assert "needs a reason" in fails(["store", "mint", "alpha", "--parent", "head"], capsys)
        for parent in ("1", "v1", "head", made["version"]["hash"]):
            assert call(["store", "mint", "alpha", "--parent", parent, "--why", "More."]) == 0
        assert "is now version 2" in capsys.readouterr().out
        assert [version.why for version in project().versions("alpha")] == ["", "More."]
        (path / "program.js").write_text("function run() { return 3; }\n")
        assert "newest" in fails(["store", "mint", "alpha", "--parent", "1", "--why", "Again."], capsys, "stale-parent")
        assert "no version 9" in fails(["store", "mint", "alpha", "--parent", "9", "--why", "x"], capsys, "not-found")

    def test_what_is_wrong_is_placed_in_the_directory(self, capsys: pytest.CaptureFixture[str]) -> None:
        """JSR-122 also what only the engine refuses; nothing is made."""
        write("alpha", texts("alpha", "function run() {\n  return ai('x');\n}"))
        assert fails(["store", "mint", "alpha"], capsys, "bundle").startswith("alpha/program.js:2:13: error")
        write("beta", texts("beta", "let a;\nlet a;\nfunction run() { return 1; }"))
        assert fails(["store", "mint", "beta"], capsys, "bundle").startswith("beta/program.js:2:")
        assert not Path(".jsrun").exists()
        assert "no bundle" in fails(["store", "mint", "absent"], capsys, "not-found")

    def test_into_the_users_store(self, capsys: pytest.CaptureFixture[str]) -> None:
        write("alpha", texts("alpha", RUNS))
        assert call(["store", "mint", "alpha", "--home"]) == 0
        assert str(home()) in capsys.readouterr().out
        assert Store(home()).names() == ("alpha",)
        assert not Path(".jsrun").exists()
        assert call(["store", "mint", "gamma"]) == 1
        # A version is a bundle like any other: from the user's store into the project's.
        assert call(["store", "mint", str(Store(home()).path("alpha"))]) == 0
        assert project().head("alpha").hash == Store(home()).head("alpha").hash


class TestListAndShow:
    def test_nothing_yet(self, capsys: pytest.CaptureFixture[str]) -> None:
        """JSR-123 reading creates nothing."""
        assert call(["store", "list"]) == 0
        assert "jsrun store mint" in capsys.readouterr().out
        assert call(["store", "list", "--json"]) == 0
        assert document(capsys) == {"subharnesses": [], "notices": []}
        assert list(Path().iterdir()) == []

    def test_both_stores_are_listed_with_what_is_shadowed_or_broken(self, capsys: pytest.CaptureFixture[str]) -> None:
        """JSR-124"""
        first = project().mint(texts("alpha", RUNS))
        Store(home()).mint(texts("alpha", RUNS))
        project().mint(texts("beta", RUNS))
        (project().path("beta") / "program.js").unlink()
        (Path(".jsrun/subharnesses/alpha") / "v2.json").write_text("{}")
        assert call(["store", "list", "--json"]) == 0
        listed = document(capsys)
        rows = [(row["name"], row["from"], row["shadowed"]) for row in listed["subharnesses"]]
        assert rows == [
            ("alpha", "from this project", False),
            ("beta", "from this project", False),
            ("alpha", "yours", True),
        ]
        assert listed["subharnesses"][0]["version"] == first.to_json()
        assert "program.js" in listed["subharnesses"][1]["problem"]
        assert "v2 is left out" in listed["notices"][0]
        assert call(["store", "list"]) == 0
        captured = capsys.readouterr()
        assert [line.split()[:2] for line in captured.out.splitlines()[1:]] == [
            ["alpha", "1"],
            ["beta", "1"],
            ["alpha", "1"],
        ]
        assert "broken: program.js" in captured.out
        assert "v2 is left out" in captured.err

    def test_one_is_shown_with_its_versions_and_its_last_run(self, capsys: pytest.CaptureFixture[str]) -> None:
        first = project().mint(texts("alpha", "function run() { }"))
        second = project().mint(texts("alpha", THROWS), first.hash, "To throw.\n\x1b[31mRed.")
        assert call(["run", "alpha", "--quiet"]) == 3
        capsys.readouterr()
        assert call(["store", "show", "alpha"]) == 0
        shown = capsys.readouterr()
        assert shown.err == ""
        assert f"* 2  {second.at}  {second.hash} from 1" in shown.out
        assert "To throw. \\x1b[31mRed." in shown.out
        assert "version 2, not finished: The quick way stopped with an error: program.js:1:" in shown.out
        assert call(["store", "show", "alpha", "1", "--json"]) == 0
        data = document(capsys)
        assert data["version"] == first.to_json()
        assert data["versions"] == [first.to_json(), second.to_json()]
        assert data["manifest"]["name"] == "alpha"
        assert (data["last_run"]["version"], data["last_run"]["finished"]) == (2, False)

    def test_a_broken_one_is_shown_with_its_problems(self, capsys: pytest.CaptureFixture[str]) -> None:
        """JSR-124 it does not give way to the one in the user's store."""
        project().mint(texts("alpha", RUNS))
        Store(home()).mint(texts("alpha", RUNS))
        (project().path("alpha") / "program.js").write_text("function run( {")
        assert call(["store", "show", "alpha"]) == 1
        captured = capsys.readouterr()
        assert ".jsrun/subharnesses/alpha/v1/program.js:1:" in captured.err
        assert call(["store", "show", "alpha", "--json"]) == 1
        assert document(capsys)["diagnostics"][0]["code"] == "syntax"
        assert call(["store", "show", "alpha", "--home"]) == 0

    def test_what_is_not_there_offers_the_nearest(self, capsys: pytest.CaptureFixture[str]) -> None:
        """JSR-124"""
        project().mint(texts("alpha", RUNS))
        assert 'mean "alpha"' in fails(["store", "show", "alhpa"], capsys, "not-found")
        assert "The newest is 1" in fails(["store", "show", "alpha", "2"], capsys, "not-found")
        assert "is no version" in fails(["store", "show", "alpha", "two"], capsys, "usage")
        assert "no subharness" in fails(["store", "show", "alpha", "--home"], capsys, "not-found")
        assert "no subharness" in fails(["store", "diff", "../alpha"], capsys, "not-found")

    def test_a_store_that_cannot_be_read_is_one_message(self, capsys: pytest.CaptureFixture[str]) -> None:
        Path(".jsrun").mkdir()
        Path(".jsrun/subharnesses").write_text("x")
        for arguments in (["store", "list"], ["store", "show", "alpha"], ["run", "alpha"]):
            assert ".jsrun/subharnesses" in fails(arguments, capsys)
        Path(".jsrun/subharnesses").unlink()
        project().mint(texts("alpha", RUNS))
        Path(".jsrun/subharnesses/alpha/v1.json").write_text("{")
        assert call(["store", "list", "--json"]) == 0
        assert "cannot be used" in document(capsys)["subharnesses"][0]["problem"]


class TestDiff:
    def test_what_changed_since_the_parent(self, capsys: pytest.CaptureFixture[str]) -> None:
        old = texts("alpha", "function run() {\r\n  return ai('a');\n}") | {"prompts/a.md": "A.\n"}
        new = texts("alpha", "function run() {\n  return ai('b');\n}\n") | {"prompts/b.md": "B.\n"}
        first = project().mint(old)
        project().mint(new, first.hash, "B is better.")
        assert call(["store", "diff", "alpha", "--json"]) == 0
        data = document(capsys)
        assert (data["old"], data["new"]) == ("v1", "v2")
        assert [(file["path"], file["change"]) for file in data["files"]] == [
            ("program.js", "changed"),
            ("prompts/a.md", "removed"),
            ("prompts/b.md", "added"),
        ]
        assert call(["store", "diff", "alpha", "1", "2"]) == 0
        shown = capsys.readouterr().out
        assert "--- v1/program.js\n+++ v2/program.js\n" in shown
        assert "-function run() {\\x0d\n" in shown
        assert "-}\n\\ No newline at end of file\n+function run() {\n" in shown
        assert "--- /dev/null\n+++ v2/prompts/b.md\n@@ -0,0 +1 @@\n+B.\n" in shown
        assert call(["store", "diff", "alpha", "2", "1"]) == 0
        assert "+++ v1/prompts/a.md" in capsys.readouterr().out

    def test_a_first_version_is_all_new_and_equal_ones_say_so(self, capsys: pytest.CaptureFixture[str]) -> None:
        project().mint(texts("alpha", RUNS))
        assert call(["store", "diff", "alpha", "--json"]) == 0
        data = document(capsys)
        assert [(file["path"], file["change"]) for file in data["files"]] == [
            ("manifest.json", "added"),
            ("program.js", "added"),
        ]
        assert call(["store", "diff", "alpha", "1", "1"]) == 0
        captured = capsys.readouterr()
        assert (captured.out, captured.err) == ("", "alpha: no difference between v1 and v1\n")

    def test_a_directory_is_compared_with_the_newest_version(self, capsys: pytest.CaptureFixture[str]) -> None:
        """What an author wants to see before minting; the directory need not be a sound bundle."""
        project().mint(texts("alpha", RUNS))
        write("work", texts("alpha", "function run( {\n"))
        assert call(["store", "diff", "alpha", "1", "work"]) == 0
        assert "+++ work/program.js" in capsys.readouterr().out
        assert call(["store", "diff", "alpha", "", "./work"]) == 0
        assert "--- v1/program.js" in capsys.readouterr().out
        (Path("work") / "program.js").unlink()
        assert "work/program.js: error" in fails(["store", "diff", "alpha", "1", "./work"], capsys, "bundle")


class TestRunByName:
    def test_the_project_comes_before_the_user_and_a_path_before_both(self, capsys: pytest.CaptureFixture[str]) -> None:
        """JSR-124"""
        arguments = ["run", "alpha", "--quiet"]
        for expected, make in (
            ("home", lambda files: Store(home()).mint(files)),
            ("project", lambda files: project().mint(files)),
            ("path", lambda files: write("alpha", files)),
        ):
            make(texts("alpha", f"function run() {{ return '{expected}'; }}"))
            assert call(arguments) == 0
            assert json.loads(capsys.readouterr().out) == expected

    def test_a_directory_that_is_no_bundle_does_not_hide_a_name(self, capsys: pytest.CaptureFixture[str]) -> None:
        project().mint(texts("docs", RUNS))
        Path("docs").mkdir()
        assert call(["run", "docs", "--quiet"]) == 0
        assert json.loads(capsys.readouterr().out) == {"by": "program"}
        assert "bundle-file" in fails(["run", "./docs"], capsys, "bundle")

    def test_a_broken_project_bundle_is_told_with_its_place(self, capsys: pytest.CaptureFixture[str]) -> None:
        """JSR-124 the one in the user's store does not run instead."""
        project().mint(texts("alpha", RUNS))
        Store(home()).mint(texts("alpha", RUNS))
        (project().path("alpha") / "manifest.json").write_text("{")
        message = fails(["run", "alpha"], capsys, "bundle")
        assert message.startswith(".jsrun/subharnesses/alpha/v1/manifest.json:1:")

    def test_a_typo_offers_the_nearest_name_or_path(self, capsys: pytest.CaptureFixture[str]) -> None:
        """JSR-124"""
        Store(home()).mint(texts("summarise", RUNS))
        assert 'mean "summarise"' in fails(["run", "sumarise"], capsys, "not-found")
        write("bundles/translate", texts("translate", RUNS))
        assert 'mean "bundles/translate"' in fails(["run", "transalte"], capsys, "not-found")

    def test_names_can_be_checked(self, capsys: pytest.CaptureFixture[str]) -> None:
        project().mint(texts("alpha", RUNS))
        assert call(["check", "alpha", "--strict"]) == 0
        assert "alpha: ok" in capsys.readouterr().out

    def test_notes_live_in_the_store_whatever_the_version(self, capsys: pytest.CaptureFixture[str]) -> None:
        """JSR-123 a named bundle keeps its notes where it is, one by path in the project's store."""
        program = "function run() { remember('note'); return recall().map((note) => note.text); }"
        store = Store(home())
        first = store.mint(texts("alpha", program) | {"memory.md": "Seed."})
        assert call(["run", "alpha", "--quiet"]) == 0
        store.mint(texts("alpha", program + "\n") | {"memory.md": "Other seed."}, first.hash, "A line.")
        capsys.readouterr()
        assert call(["run", "alpha", "--quiet"]) == 0
        assert json.loads(capsys.readouterr().out) == ["note", "note", "Seed."]
        assert not Path(".jsrun/subharnesses").exists()
        write("alpha", texts("alpha", program) | {"memory.md": "Seed of a path."})
        assert call(["run", "./alpha", "--quiet"]) == 0
        assert json.loads(capsys.readouterr().out) == ["note", "Seed of a path."]
        assert Path(".jsrun/subharnesses/alpha/memory.md").is_file()
        last = store.last_run("alpha")
        assert last is not None
        assert (last.version, last.finished) == (2, True)


class TestGeneralist:
    @pytest.mark.parametrize("name", ["takers:Taker", "takers:ready", "takers:make"])
    def test_the_long_way_is_taken(self, name: str, capsys: pytest.CaptureFixture[str]) -> None:
        """JSR-125 (and JSR-127) a job the generalist finished exits 0 and says why on stderr."""
        Path("takers.py").write_text(GENERALISTS)
        project().mint(texts("alpha", THROWS))
        arguments = ["run", "alpha", "--input", '{"n": 1}', "--generalist", name]
        assert call(arguments) == 0
        captured = capsys.readouterr()
        assert json.loads(captured.out) == {"by": "generalist", "input": {"n": 1}}
        assert "alpha: taking the long way\n" in captured.err
        assert "took the long way: The quick way stopped with an error: program.js:1:" in captured.err
        assert call([*arguments, "--json"]) == 0
        result = document(capsys)
        assert (result["path"], result["long_run_id"], result["spend"]["input"]) == ("long", "L", 5)

    def test_a_bundle_by_path_takes_it_too(self, capsys: pytest.CaptureFixture[str]) -> None:
        Path("takers.py").write_text(GENERALISTS)
        write("alpha", texts("alpha", THROWS))
        assert call(["run", "./alpha", "--generalist", "takers:Taker", "--quiet"]) == 0
        assert json.loads(capsys.readouterr().out)["by"] == "generalist"

    def test_it_is_not_taken_without_need(self, capsys: pytest.CaptureFixture[str]) -> None:
        """JSR-125"""
        Path("takers.py").write_text(GENERALISTS)
        write("runs", texts("runs", RUNS))
        write("stops", texts("stops", "function run() { }"))
        assert call(["run", "runs", "--generalist", "takers:Taker", "--quiet"]) == 0
        assert json.loads(capsys.readouterr().out) == {"by": "program"}
        assert call(["run", "stops", "--generalist", "takers:Taker", "--quiet"]) == 2
        assert "no_output" in capsys.readouterr().err

    def test_one_that_fails_is_incomplete(self, capsys: pytest.CaptureFixture[str]) -> None:
        """JSR-125 (and JSR-127) exit 2"""
        Path("takers.py").write_text(GENERALISTS)
        write("alpha", texts("alpha", THROWS))
        assert call(["run", "alpha", "--generalist", "takers:Fails", "--quiet"]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert "incomplete (crashed): The long way stopped with an error: no idea" in captured.err

    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            ("takers", "write MODULE:NAME"),
            ("takers:absent", 'has no "absent"'),
            ("takers:nothing", "a method take"),
            ("takers:broken", "no key"),
        ],
    )
    def test_a_bad_generalist_is_told_before_the_run(
        self, name: str, expected: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        Path("takers.py").write_text(GENERALISTS)
        write("alpha", texts("alpha", THROWS))
        message = fails(["run", "alpha", "--generalist", name], capsys, "usage")
        assert message.startswith("--generalist")
        assert expected in message
        assert not Path(".jsrun").exists()

    def test_interrupting_the_long_way_cancels_it(self, folder: Path) -> None:
        """JSR-092 (long way) Ctrl-C is `cancelled`, exit 2, with what the run had gathered."""
        Path("takers.py").write_text(GENERALISTS)
        project().mint(texts("alpha", THROWS))
        command = [sys.executable, "-m", "jsrun", "run", "alpha", "--generalist", "takers:Waits"]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": "."}
        )
        assert process.stderr is not None
        while "taking the long way" not in (line := process.stderr.readline()):
            assert line, "the long way was not taken"
        process.send_signal(signal.SIGINT)
        _out, err = process.communicate(timeout=30)
        assert process.returncode == 2
        assert "incomplete (cancelled): The run was cancelled: interrupted" in err
        note = project().last_run("alpha")
        assert note is not None
        assert not note.finished


def test_help() -> None:
    for command in (["store"], ["store", "list"], ["store", "show"], ["store", "mint"], ["store", "diff"]):
        assert call([*command, "--help"]) == 0
