"""The README of the fuzzers: its example runs, its table has every target."""

import re
import subprocess
import sys
from pathlib import Path

import fuzz
from fuzz.targets import NAMES

README = Path(fuzz.__file__).with_name("README.md")


def test_the_example_gives_what_the_readme_says(tmp_path: Path) -> None:
    match = re.search(r"```python\n(.*?)```\s*```text\n(.*?)```", README.read_text(), re.DOTALL)
    assert match is not None
    done = subprocess.run(
        [sys.executable, "-c", match[1]], capture_output=True, text=True, cwd=README.parents[1], timeout=100
    )
    assert done.stderr == ""
    assert done.stdout == match[2]


def test_every_target_is_in_the_table() -> None:
    named = re.findall(r"^\| `(\w+)` \|", README.read_text(), re.MULTILINE)
    assert named == list(NAMES)
