"""How far system calls can be confined on this machine: tried out by root, once, in throw-away processes.

A filter counts only if it was seen to work: a process under it died of each forbidden call, and one that did what every
run does lived. So a kernel that accepts filters and ignores them, or a C library that needs other calls than those we
know, costs the filter and is said, and no run fails of it.
"""

import ctypes
import json
import os
import signal
import socket
import time
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from ptc.guest import harden
from ptc.guest.seccomp import IMAGE, RUN, Filter, UnavailableError, compile_filter

Level = Literal["filter", "no-new-privs", "off"]

# <sys/ptrace.h>, <sys/mman.h>
_PTRACE_TRACEME = 0
_READ_AND_EXECUTE, _PRIVATE_AND_ANONYMOUS = 1 | 4, 2 | 32


class Filters(NamedTuple):
    """The filters of an image and, on top of it, of its runs."""

    image: Filter
    run: Filter


class Confinement(NamedTuple):
    """What is in force. denied: forbidden calls that were tried. problem: why there is no filter, empty if there is."""

    level: Level
    filters: Filters | None
    denied: list[str]
    problem: str


def confine(library: str) -> Confinement:
    """Give up new privileges, for this process and all it forks, and find out whether filters work.

    library: name or path of libseccomp.
    """
    level: Level = "no-new-privs" if harden.forbid_new_privileges() else "off"
    if level == "off":
        return Confinement(level, None, [], "no-new-privileges cannot be set here")
    # In a child: the library, and whatever it does, stays out of the processes that see program text.
    found = harden.in_child(lambda: _attempt(library))
    answer: dict[str, Any] = json.loads(found) if found else {"problem": "the process that tried the filter died of it"}
    if answer["problem"]:
        return Confinement(level, None, [], answer["problem"])
    filters = Filters(Filter(bytes.fromhex(answer["image"])), Filter(bytes.fromhex(answer["run"])))
    return Confinement("filter", filters, answer["denied"], "")


def _attempt(library: str) -> bytes:
    try:
        image, run = compile_filter(library, IMAGE), compile_filter(library, RUN)
    except UnavailableError as error:
        return json.dumps({"problem": str(error)}).encode()
    problem, denied = prove(Filters(Filter(image), Filter(run)))
    return json.dumps({"problem": problem, "denied": denied, "image": image.hex(), "run": run.hex()}).encode()


def prove(filters: Filters) -> tuple[str, list[str]]:
    """Try the filters: what is wrong with them, empty if nothing, and the forbidden calls a run was seen to die of.

    Puts this process under the filter of an image, for good.
    """
    harden.leave_no_core()
    if not filters.image.load():
        return "the kernel takes no filters", []
    attempts = {"": _usual_calls, **_FORBIDDEN}
    # All at once: the wait for one process is the wait for all.
    children = {_begin(attempt, filters.run): call for call, attempt in attempts.items()}
    ended = {children[child]: status for child, status in (os.waitpid(child, 0) for child in children)}
    usual = ended.pop("")
    denied = [call for call, status in ended.items() if _died_of(status, signal.SIGSYS)]
    if usual != 0:
        return "the filter forbids what the interpreter or the C library needs here", denied
    if let_pass := sorted(ended.keys() - denied):
        return f"the filter does not forbid: {', '.join(let_pass)}", denied
    return "", denied


def _begin(attempt: Callable[[], object], run: Filter) -> int:
    """Start a process that does this under the filter of a run. Its exit code is 0 if it lives to the end."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            if run.load():
                attempt()
                status = 0
        finally:
            os._exit(status)
    return child


def _died_of(status: int, number: int) -> bool:
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == number


def _usual_calls() -> None:
    """What every run does. The engine is not asked: it has no system calls of its own."""
    os.read(0, 1)
    os.write(1, b"")
    harden.arm_timers(60.0, 60.0)
    time.thread_time()
    # A block large enough to be a mapping: made, grown, shrunk and given back.
    block = bytearray(1_000_000)
    block.extend(b"x" * 1_000_000)
    del block[10:]
    del block


# Harmless where they succeed.
_FORBIDDEN: dict[str, Callable[[], object]] = {
    "open": lambda: os.open("/dev/null", os.O_RDONLY),
    "socket": lambda: socket.socket(socket.AF_UNIX),
    "fork": os.fork,
    "execve": lambda: os.execv("/", ["/"]),
    "kill": lambda: os.kill(os.getppid(), 0),
    "ptrace": lambda: ctypes.CDLL(None).ptrace(_PTRACE_TRACEME, 0, None, None),
    "mmap (executable)": lambda: ctypes.CDLL(None).mmap(None, 65_536, _READ_AND_EXECUTE, _PRIVATE_AND_ANONYMOUS, -1, 0),
}
