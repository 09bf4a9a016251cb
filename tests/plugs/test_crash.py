"""Runs killed at every step: what is durable is enough to go on, or to remove everything."""

import asyncio
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.plugs.crashing import PLUGS, history, perform

_ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for each moment at which a run was killed."""
    folder = tmp_path_factory.mktemp("killed")
    subprocess.run([sys.executable, "-m", "tests.plugs.crashing", str(folder)], cwd=_ROOT, check=True, timeout=100)
    return folder


def remains(folder: Path) -> list[str]:
    """The machines that are there."""
    return sorted(path.name for path in folder.glob("machine-*"))


@pytest.mark.plg("PLG-021", "PLG-026", "PLG-064")
@pytest.mark.parametrize("go_on", ["teardown", "resume"])
def test_after_a_kill_at_any_step_a_teardown_or_a_resume_leaves_nothing(
    killed: Path, tmp_path: Path, go_on: str
) -> None:
    """PLG-021, PLG-026, PLG-064"""
    moments = sorted(killed.iterdir(), key=lambda path: int(path.name))
    # Run, three loads and attaches, a host, the agent, stop, three pauses, teardown, three of them, end; and unharmed.
    assert len(moments) == 19
    with_machines = 0
    for moment in moments:
        folder = tmp_path / moment.name
        shutil.copytree(moment, folder)
        steps = [json.loads(line) for line in (folder / "steps").read_text().splitlines()]
        with_machines += bool(remains(folder))
        if go_on == "resume" and any(step[0] == "tearing" for step in steps):
            continue  # a teardown that was begun can only be finished
        end = asyncio.run(perform(folder, "teardown" if go_on == "teardown" else "resume", 2))
        assert (end.state, end.reason) == ("ended", "closed"), moment.name
        assert remains(folder) == [], moment.name
        assert history(folder / "steps").loaded == {f"p{index}" for index in range(PLUGS)}
    assert with_machines >= 10
