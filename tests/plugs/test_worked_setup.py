"""The worked setup of the README, as a reader runs it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "jsrun" / "plugs" / "README.md").read_text(encoding="utf-8")


@pytest.mark.plg("PLG-098")
def test_the_worked_setup_does_what_the_readme_says(tmp_path: Path) -> None:
    """PLG-098 env, redact, permissions and transcript together, against the agent that ships."""
    for name, text in re.findall(r"<!-- file: (\S+) -->\n```\w+\n(.*?)```", README, re.DOTALL):
        (tmp_path / name).write_text(text)
    found = re.search(r"<!-- command: plugs -->\n```sh\n(.*?)```", README, re.DOTALL)
    assert found is not None
    script = re.sub(r"^jsrun ", "python -m jsrun ", found[1], flags=re.MULTILINE)
    script = script.replace("-- python", f'-- "{sys.executable}"')
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", f'python() {{ "{sys.executable}" "$@"; }}; export -f python; {script}'],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "setup.yaml: fine" in done.stdout
    for said in ("hello, the token is [redacted]", "edit docs/a.md: allow", "edit keys.txt: reject"):
        assert f'"text":"{said}"' in done.stdout
    assert done.stdout.count('"stopReason":"end_turn"') == 3
    assert "demo  ended  1 runs" in done.stdout
    assert "session/request_permission" not in done.stdout.split("demo  ended")[0], "the plug has answered it"
    assert "sesame" not in done.stdout + done.stderr
    assert len((tmp_path / "transcript.jsonl").read_text().splitlines()) == 8
