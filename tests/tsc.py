"""The TypeScript compiler, for tests that check types with the real thing.

It is the program in the environment variable SUBHARNESS_TSC, or `tsc` on the path. `.ci/run` brings one; elsewhere the
tests that need it are skipped if there is none.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

_HELP = (
    "no TypeScript compiler: npm install --no-save --prefix DIR typescript@5, then set"
    " SUBHARNESS_TSC=DIR/node_modules/.bin/tsc"
)
_ERROR = re.compile(r"(?P<file>[^\s(]+)\((?P<line>\d+),(?P<column>\d+)\): error (?P<code>TS\d+): (?P<text>.*)")
_SECONDS = 100


def compiler() -> str:
    """The compiler. Skips the test if there is none, fails it in CI."""
    found = os.environ.get("SUBHARNESS_TSC") or shutil.which("tsc")
    if found and Path(found).exists():
        return found
    if os.environ.get("CI"):
        pytest.fail(_HELP)
    pytest.skip(_HELP)


def check_types(folder: Path, files: Sequence[str], *options: str) -> list[tuple[str, int, int, str]]:
    """The errors in some files of a folder: file, line, column, message; the first of each line."""
    command = [compiler(), "--noEmit", "--checkJs", "--strict", "--pretty", "false", *options, *files]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_SECONDS, check=False)
    errors: dict[tuple[str, int], tuple[str, int, int, str]] = {}
    for match in _ERROR.finditer(run.stdout):
        file, line = match["file"], int(match["line"])
        errors.setdefault((file, line), (file, line, int(match["column"]), match["text"]))
    assert run.returncode == 0 or errors, run.stdout + run.stderr
    return sorted(errors.values())
