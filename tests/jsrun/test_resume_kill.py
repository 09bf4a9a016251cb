"""A host is killed with SIGKILL at every step of its journal, and the run is resumed."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform cannot fork")


@needs_fork
@pytest.mark.timeout(300)
@pytest.mark.parametrize("form", ["sync", "async"])
def test_a_host_killed_at_any_step_of_the_journal(form: str, tmp_path: Path) -> None:
    """JSR-102 JSR-103 JSR-095 the output is that of a run nobody disturbs, and no tool ran twice."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.jsrun.killed_runs", str(tmp_path), form],
        cwd=ROOT, capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    *attempts, whole = [json.loads(line) for line in done.stdout.splitlines()]
    assert whole["lived"]
    assert whole["lines"] == ["first about ants", "second", "last"]
    assert whole["output"]["lines"] == sorted(whole["lines"])
    assert len(attempts) > 2 * 20
    assert attempts[0] == {"nothing": True}  # before the run had a row
    assert attempts[-1] == {"complete": "finished"}  # after it had its ending
    resumed: list[dict[str, Any]] = attempts[1:-1]
    for attempt in resumed:
        assert attempt["status"] == "finished"
        assert attempt["output"] == whole["output"]
        assert sorted(attempt["lines"]) == sorted(whole["lines"])  # each once
        assert attempt["refused"] == bool(attempt["unsure"])
        assert attempt["tokens"] == attempt["ledger"] >= whole["tokens"]
        assert attempt["replayed"]
        assert attempt["open"] == 0
    unsure = {call for attempt in resumed for call in attempt["unsure"]}
    assert unsure == {"tool append", "remember asked about ants"}
