"""Starting `fuzz.guided` and reading how it goes from what libFuzzer prints."""

import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Final

from fuzz.driver import Finding, Report
from fuzz.guided import MAX_LEN

_COUNTED: Final = re.compile(r"#(\d+)\s.*?cov: (\d+)")
_TOTAL: Final = re.compile(r"stat::number_of_executed_units:\s*(\d+)")
# Lines of libFuzzer's that are shown when it ends in a way of its own.
_LAST: Final = 30


# Inputs to begin with. From an empty one libFuzzer takes minutes to come to any that Hypothesis can use.
_FIRST: Final = 48


class GuidedError(Exception):
    """The guided session came to no result; the text says what it printed."""


def run_guided(
    name: str, seconds: float, seed: int, findings: Path, progress: Callable[[int, float], None]
) -> tuple[Report, Path | None]:
    """A session in a process that libFuzzer ends; its report, and where the input of a finding is. GuidedError."""
    started = time.monotonic()
    executions = 0
    coverage: int | None = None
    last: deque[str] = deque(maxlen=_LAST)
    # Seed 0 would be another one each time.
    settings = [str(max(1, round(seconds))), str(seed + 1), str(findings)]
    with (
        tempfile.TemporaryDirectory() as folder,
        tempfile.TemporaryFile() as out,
        subprocess.Popen(
            [sys.executable, "-m", "fuzz.guided", name, *settings, _filled(Path(folder, "first"), seed)],
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        ) as child,
    ):
        try:
            assert child.stderr is not None
            for line in child.stderr:
                last.append(line)
                counted, total = _COUNTED.match(line), _TOTAL.match(line)
                if total:
                    executions = int(total[1])
                elif counted:
                    executions, coverage = int(counted[1]), int(counted[2])
                    progress(executions, time.monotonic() - started)
        except BaseException:
            child.kill()
            raise
        code = child.wait()
        out.seek(0)
        found = out.read().decode("utf-8", "replace").strip().splitlines()
        crash = _kept(Path(folder), findings) if code not in (0, 1) else ""
    finding: Finding | None = None
    path: Path | None = None
    if found and found[-1].startswith("{"):
        told = json.loads(found[-1])
        path = Path(told["file"])
        finding = Finding(name, path.read_text(encoding="ascii"), told["error"])
    elif code != 0:
        raise GuidedError(f"the guided session ended with {code}. {crash}{''.join(last)}")
    return Report(name, executions, time.monotonic() - started, finding, coverage), path


def _filled(folder: Path, seed: int) -> str:
    folder.mkdir()
    random = Random(seed)
    for number in range(_FIRST):
        (folder / str(number)).write_bytes(random.randbytes(MAX_LEN >> number % 6))
    return str(folder)


def _kept(folder: Path, findings: Path) -> str:
    """Keep what libFuzzer left of a crash; a sentence that says where, or nothing."""
    left = [path for path in folder.iterdir() if path.is_file()]
    if not left:
        return ""
    findings.mkdir(parents=True, exist_ok=True)
    for path in left:
        shutil.copy(path, findings)
    return f"The bytes Hypothesis made its input of are in {findings / left[0].name}.\n"
