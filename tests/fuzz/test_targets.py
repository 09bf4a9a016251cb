"""Every target for a second, with a fixed seed; the command line; what a finding becomes."""

import asyncio
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from fuzz import targets
from fuzz.cli import call
from fuzz.driver import keep, replay, run
from fuzz.health import Health, recovered
from fuzz.inputs import from_text, to_text
from fuzz.smaller import smaller
from fuzz.targets import NAMES, Target


@pytest.mark.parametrize("name", NAMES)
def test_a_target_finds_nothing_and_leaves_nothing(name: str) -> None:
    async def look() -> Health:
        return Health.now()

    # Not `asyncio.run`, which has a handler of its own for SIGINT each time.
    loop = asyncio.new_event_loop()
    before = loop.run_until_complete(look())
    told: list[int] = []
    report = run(name, 1.0, 20, lambda executions, seconds: told.append(executions))
    assert report.finding is None, report.finding
    assert report.executions > 0
    assert told[-1] == report.executions
    assert loop.run_until_complete(recovered(before)) == []
    loop.close()


def fragile(value: Any, _place: None) -> None:
    if isinstance(value, list) and len([item for item in value if item == "bad"]) > 1:
        raise AssertionError(f"two bad ones among {len(value)}")


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> str:
    """The target `manifest` with a check that fails for some lists, and no coverage to guide it."""
    made = Target("lists", st.lists(st.sampled_from(["bad", "good", b"x"])), fragile)
    monkeypatch.setattr("fuzz.driver.target", lambda name: made)
    monkeypatch.setattr("fuzz.smaller.target", lambda name: made)
    monkeypatch.setattr("fuzz.cli.target", lambda name: made)
    return "manifest"


def test_a_finding_is_kept_small_and_replayed(broken: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    findings = tmp_path / "findings"
    assert call([broken, "--seconds", "30", "--findings", str(findings)]) == 1
    (path,) = findings.iterdir()
    assert from_text(path.read_text()) == ["bad", "bad"]
    out = capsys.readouterr().out
    assert "AssertionError: two bad ones among 2" in out
    command = out.strip().splitlines()[-1]
    assert command == f"replay it: python -m fuzz {broken} --replay {path}"
    assert call(command.removeprefix("replay it: python -m fuzz ").split()) == 1
    path.write_text(to_text(["bad"]))
    assert call([broken, "--replay", str(path)]) == 0
    assert "nothing is found any more" in capsys.readouterr().out


def test_equal_seeds_find_the_same(broken: str) -> None:
    one, two = (run(broken, 30.0, 5, lambda executions, seconds: None) for _ in range(2))
    assert one.finding is not None
    assert two.finding is not None
    assert (one.finding.text, one.executions) == (two.finding.text, two.executions)


def test_a_large_input_is_made_smaller(broken: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    finding = replay(broken, to_text(["good", "bad", {"a": [1, 2]}, b"12", "bad", "bad"]))
    assert finding is not None
    assert from_text(smaller(finding).text) == ["bad", "bad"]
    path = keep(finding, tmp_path / "large")
    assert call([broken, "--minimise", str(path), "--findings", str(tmp_path / "small"), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert from_text(Path(told["file"]).read_text()) == ["bad", "bad"]


def test_targets_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["--list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(NAMES)
    assert call(["--list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {name: targets.target(name).about for name in NAMES}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "Name a target"),
        (["nothing"], 'There is no target "nothing"'),
        (["wire", "--seconds", "0"], "--seconds"),
        (["wire", "--replay", "no-such-file"], "no-such-file: No such file"),
        (["wire", "--replay", "BROKEN"], "this is no input of the target wire"),
        (["machine", "--replay", "LIST"], "this is no input of the target machine"),
    ],
)
def test_bad_usage_is_said_in_a_line(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broken").write_text("{")
    (tmp_path / "list").write_text("[1]")
    places = {"BROKEN": str(tmp_path / "broken"), "LIST": str(tmp_path / "list")}
    assert call([places.get(word, word) for word in words]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert said in captured.err
    assert "Traceback" not in captured.err


def test_help_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["--help"]) == 0
    assert "--minimise" in capsys.readouterr().out


@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="needs atheris: pip install atheris")
def test_a_session_is_guided_by_coverage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["manifest", "--seconds", "2", "--json", "--findings", str(tmp_path / "findings")]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["executions"] > 1
    assert told["coverage"] > 100
    assert told["finding"] is None
