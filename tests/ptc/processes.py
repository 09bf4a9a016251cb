"""Looking at the processes of a runtime from outside, by what the operating system tells. Linux only."""

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import ptc
from ptc._processes import RootProcess
from ptc._spawned import Spawner
from tests.conftest import our_processes


def _has_libseccomp() -> bool:
    try:
        ctypes.CDLL("libseccomp.so.2")
    except OSError:
        return False
    return True


# The machine of CI has it: .ci/run sees to it and sets CI, and then nothing is skipped.
needs_filter = pytest.mark.skipif(
    not _has_libseccomp() and "CI" not in os.environ, reason="needs libseccomp: apt-get install libseccomp2"
)
needs_proc = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")

# Far more than any of these things takes on a busy machine.
PATIENCE_S = 5.0


def children(pid: int) -> list[int]:
    """The children of a process, zombies included."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [int(child) for child in (task / "children").read_text().split()]
    return sorted(found)


def root_of(runtime: ptc.Runtime) -> int:
    """The process id of a started runtime's root."""
    root = runtime._root
    assert isinstance(root, RootProcess)
    assert root._process is not None
    return root._process.pid


def images_of(runtime: ptc.Runtime) -> list[int]:
    """The image processes of a runtime; where runs are spawned, the processes nobody has asked to run yet."""
    if isinstance(spawner := runtime._root, Spawner):
        return [
            process.pid for image in spawner._images for process in image._processes if not process.run.is_connected
        ]
    return children(root_of(runtime))


def runs_of(runtime: ptc.Runtime) -> list[int]:
    """The run processes of all images of a runtime, waiting ones included."""
    if isinstance(spawner := runtime._root, Spawner):
        return [process.pid for image in spawner._images for process in image._processes if process.run.is_connected]
    return [run for image in images_of(runtime) for run in children(image)]


def tree_of(runtime: ptc.Runtime) -> list[int]:
    """Every process of a runtime."""
    root = [root_of(runtime)] if runtime.process == "fork" else []
    return [*root, *images_of(runtime), *runs_of(runtime)]


def is_gone(pid: int) -> bool:
    """Whether nothing is left of a process, not even a zombie."""
    return not Path(f"/proc/{pid}").exists()


def is_dead(pid: int) -> bool:
    """Whether a process, with all its threads, runs no more; a zombie may be left of it."""
    try:
        states = [(task / "stat").read_text().rpartition(")")[2].split()[0] for task in _tasks(pid)]
    except OSError:  # a thread or all of them ended meanwhile
        return is_gone(pid)
    return all(state in "ZX" for state in states)


def _tasks(pid: int) -> list[Path]:
    return list(Path(f"/proc/{pid}/task").iterdir())


def kill_unseen(victims: list[int], others: list[int] | None = None) -> None:
    """Kill, and hold the event loop until they and the others that die with them are dead: it gets to see it later."""
    for pid in victims:
        os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + PATIENCE_S
    while not all(is_dead(pid) for pid in [*victims, *(others or ())]):
        assert time.monotonic() < deadline
        time.sleep(0.001)


def processes_of(host: int) -> list[int]:
    """Living processes of ours that belong to a host."""
    return [pid for pid, owner in our_processes().items() if owner == host]


def descriptors(pid: int) -> dict[int, str]:
    """Open descriptors of a process and what they lead to."""
    found = {}
    for entry in list(Path(f"/proc/{pid}/fd").iterdir()):
        with contextlib.suppress(FileNotFoundError):  # the one the listing itself was read from
            found[int(entry.name)] = str(entry.readlink())
    return found


def proc(pid: int, name: str) -> str:
    """One file of what the system tells of a process."""
    return Path(f"/proc/{pid}/{name}").read_text()


def working_directory(pid: int) -> str:
    """Where a process is."""
    return str(Path(f"/proc/{pid}/cwd").readlink())


async def until(condition: Callable[[], bool], what: str, within: float = PATIENCE_S) -> None:
    """Wait for a condition that must come true."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within
    while not condition():
        assert loop.time() < deadline, f"not within {within} s: {what}"
        await asyncio.sleep(0.005)


async def spares_ready(image: ptc.Image, count: int) -> None:
    """Wait until so many runs wait."""
    await until(lambda: len(image._spares) == count, f"{count} spares")
