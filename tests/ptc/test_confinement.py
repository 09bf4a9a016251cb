"""The lists of system calls: complete for what every run does, and found out where they are not."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ptc.processes import needs_filter, needs_proc

pytestmark = [needs_proc, needs_filter]


def _confine(*missing: str) -> dict[str, object]:
    """What root would find if these calls were not on the lists."""
    script = Path(__file__).parent / "guest" / "confine.py"
    command = [sys.executable, "-I", "-S", str(script), "libseccomp.so.2", *missing]
    answer: dict[str, object] = json.loads(subprocess.run(command, check=True, capture_output=True, timeout=30).stdout)
    return answer


def test_the_lists_hold_what_every_run_does() -> None:
    """PTC-062 the trial that finds the lists of the next test wanting finds ours right."""
    found = _confine()
    assert found["level"] == "filter"
    assert found["problem"] == ""


@pytest.mark.parametrize("call", ["read", "write", "mmap", "mremap", "munmap", "setitimer", "exit_group"])
def test_a_call_that_is_missing_from_the_list_of_runs_is_found_out(call: str) -> None:
    """PTC-063 where the filter forbids what every run needs, there is no filter, and runs work without it."""
    found = _confine(f"RUN.{call}")
    assert found["level"] == "no-new-privs"
    assert found["problem"] == "the filter forbids what the interpreter or the C library needs here"


@pytest.mark.parametrize("call", ["clone", "wait4", "openat"])
def test_a_call_that_is_missing_from_the_list_of_images_is_found_out(call: str) -> None:
    """PTC-063 the same for what every image needs."""
    if call == "openat" and sys.version_info < (3, 12):
        pytest.skip("before 3.12 Python opens nothing when it forks")
    found = _confine(f"IMAGE.{call}")
    assert found["level"] == "no-new-privs"
    assert found["problem"] == "the process that tried the filter died of it"
