"""What a program must never change in its host: processes, threads, descriptors, tasks, limits. Linux tells most."""

import asyncio
import contextlib
import gc
import resource
import signal
import sys
import threading
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final, Self

__all__ = ["Health", "descendants", "descriptors", "recovered"]

_PATIENCE_S: Final = 5.0
"""A process that has been told to end gets this long on a busy machine."""

_LIMITS: Final = (
    "RLIMIT_AS",
    "RLIMIT_CORE",
    "RLIMIT_CPU",
    "RLIMIT_DATA",
    "RLIMIT_FSIZE",
    "RLIMIT_NOFILE",
    "RLIMIT_NPROC",
)
_TIMERS: Final = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
_SIGNALS: Final = (signal.SIGALRM, signal.SIGPROF, signal.SIGXCPU, signal.SIGTERM, signal.SIGINT, signal.SIGPIPE)


@dataclass(frozen=True, slots=True)
class Health:
    """The host at one moment, as far as a program could have changed it."""

    processes: int
    descriptors: int
    threads: int
    tasks: int
    limits: tuple[tuple[int, int], ...]
    timers: tuple[bool, ...]
    handlers: tuple[str, ...]
    interpreter: tuple[int, ...]

    @classmethod
    def now(cls) -> Self:
        """Look at this process and its descendants. To be called on the event loop."""
        return cls(
            processes=len(descendants()),
            descriptors=descriptors(),
            threads=threading.active_count(),
            tasks=len(asyncio.all_tasks()),
            limits=tuple(resource.getrlimit(getattr(resource, name)) for name in _LIMITS if hasattr(resource, name)),
            timers=tuple(signal.getitimer(timer) != (0.0, 0.0) for timer in _TIMERS),
            handlers=tuple(str(signal.getsignal(number)) for number in _SIGNALS),
            interpreter=(sys.getrecursionlimit(), sys.get_int_max_str_digits(), int(gc.isenabled())),
        )

    def problems(self, before: "Health") -> list[str]:
        """What has been left behind or changed since `before`: one text each, none for a healthy host."""
        found = []
        for field in fields(self):
            old, new = getattr(before, field.name), getattr(self, field.name)
            if isinstance(new, int) and isinstance(old, int):
                if new > old:
                    found.append(f"{new - old} {field.name} left behind")
            elif new != old:
                found.append(f"{field.name} changed from {old} to {new}")
        return found


def descendants() -> list[int]:
    """Every process below this one, zombies included."""
    found: list[int] = []
    waiting = ["self"]
    while waiting:
        below = _children(waiting.pop())
        found += map(int, below)
        waiting += below
    return found


def _children(process: str) -> list[str]:
    found: list[str] = []
    with contextlib.suppress(OSError):  # it ended meanwhile, or this system tells nothing
        for task in Path(f"/proc/{process}/task").iterdir():
            found += (task / "children").read_text().split()
    return found


async def recovered(before: Health) -> list[str]:
    """Wait until nothing is left behind since `before`; what still is after some seconds is the answer."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + _PATIENCE_S
    while True:
        problems = Health.now().problems(before)
        if not problems or loop.time() > deadline:
            return problems
        await asyncio.sleep(0.005)  # processes end, and descriptors close, without anything that could be awaited


def descriptors() -> int:
    """How many descriptors this process has open. Linux; 0 elsewhere."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir()) if Path("/proc/self/fd").exists() else 0
