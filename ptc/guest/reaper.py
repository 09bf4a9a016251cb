"""Noticing that children have ended, in a process that otherwise waits for messages."""

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass


class Waker:
    """A descriptor that becomes readable when a child has ended. One a process."""

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._reading, False)
        os.set_blocking(self._writing, False)
        signal.signal(signal.SIGCHLD, _nothing)
        signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)

    def fileno(self) -> int:
        """The descriptor to poll."""
        return self._reading

    def drain(self) -> None:
        """Forget the wake-ups so far; call before `reap`, so that none is lost."""
        while True:
            try:
                if len(os.read(self._reading, 512)) < 512:
                    return
            except BlockingIOError:
                return

    def disable(self) -> None:
        """For a forked child: signals no longer reach the parent's pipe."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)


def _nothing(_number: int, _frame: object) -> None:
    """A handler must be set for the wake-up descriptor to be written."""


@dataclass(frozen=True, slots=True)
class End:
    """How a child ended: exit code or signal number, CPU time in milliseconds, peak resident size in KiB."""

    pid: int
    code: int | None
    signal: int | None
    cpu_ms: float
    max_rss_kb: int


def reap() -> Iterator[End]:
    """Every child that has ended, without waiting."""
    while True:
        try:
            pid, status, usage = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        killed = os.WIFSIGNALED(status)
        yield End(
            pid=pid,
            code=None if killed else os.WEXITSTATUS(status),
            signal=os.WTERMSIG(status) if killed else None,
            cpu_ms=(usage.ru_utime + usage.ru_stime) * 1000.0,
            max_rss_kb=usage.ru_maxrss,
        )
