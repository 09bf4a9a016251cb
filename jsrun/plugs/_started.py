"""When a process was started: what tells it from a later one with the same id."""

import subprocess
import sys
from pathlib import Path

# Fields of /proc/PID/stat after the name in parentheses; the start, in ticks since boot, is the 22nd of all.
_START_FIELD = 22 - 3
_PS_SECONDS = 5.0


def started(pid: int) -> str | None:
    """A text that no other process with this id ever has; None if there is no such process, or a dead one."""
    if sys.platform == "linux":
        return _from_proc(pid)
    return _from_ps(pid)


def _from_proc(pid: int) -> str | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None
    return None if fields[0] in "ZX" else f"{boot}/{fields[_START_FIELD]}"


def _from_ps(pid: int) -> str | None:
    try:
        done = subprocess.run(
            ["/bin/ps", "-o", "stat=,lstart=", "-p", str(pid)],
            capture_output=True,
            text=True,
            timeout=_PS_SECONDS,
            env={"LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    state, _, start = done.stdout.strip().partition(" ")
    return start.strip() or None if not state.startswith("Z") else None
