"""Watching how much memory running processes hold, from outside."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

# Allocation goes on between two looks, so this is also the overshoot: about 5 ms of it.
_INTERVAL_S = 0.005

_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


def resident_bytes(pid: int) -> int | None:
    """The resident size of a process in bytes; None if it is gone or the platform does not tell."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_bytes().split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        return None


class Watched(Protocol):
    """A process whose id becomes known at some time."""

    pid: int | None


class MemoryWatch:
    """Looks at every watched process each 5 ms and reports its size. No timer runs while nothing is watched."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._watched: dict[Watched, Callable[[int], None]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, process: Watched, report: Callable[[int], None]) -> None:
        """Call `report` with the resident bytes of the process until `forget`."""
        self._watched[process] = report
        if self._timer is None:
            self._timer = self._loop.call_later(_INTERVAL_S, self._look)

    def forget(self, process: Watched) -> None:
        """Stop watching."""
        self._watched.pop(process, None)

    def close(self) -> None:
        """Stop watching everything."""
        self._watched.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        for process, report in list(self._watched.items()):
            size = resident_bytes(process.pid) if process.pid is not None else None
            if size is not None and process in self._watched:
                report(size)
        self._timer = self._loop.call_later(_INTERVAL_S, self._look) if self._watched else None
