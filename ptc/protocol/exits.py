"""Why a process ended, read from how it ended and what it printed, where nothing else has decided."""

import re
import signal
from typing import Final, NamedTuple

from ptc.limits import NATIVE_OUTPUT_BYTES, Limits
from ptc.outcome import ExitStatus, Kind

__all__ = [
    "EXIT_BAD_FRAME",
    "EXIT_GUEST_FAULT",
    "EXIT_MEASURE_FAILED",
    "EXIT_OUT_OF_MEMORY",
    "Verdict",
    "classify",
]

EXIT_OUT_OF_MEMORY: Final = 65
EXIT_GUEST_FAULT: Final = 70
EXIT_BAD_FRAME: Final = 71
EXIT_MEASURE_FAILED: Final = 77

_NEAR_LIMIT: Final = 0.9
"""A killed process that had used this share of its memory was killed for it: peaks are sampled and rounded to pages."""

_TAIL_BYTES: Final = 2048
"""As much native output goes into a message; the outcome has more."""

_CONTINUATION: Final = bytes(range(0x80, 0xC0))
"""Bytes that are never the first of a character in UTF-8."""

_V8_OUT_OF_MEMORY: Final = re.compile(rb"[Ff]atal[^\n]*out of memory|[Hh]eap out of memory|OOM error in V8")


class Verdict(NamedTuple):
    """Kind and message of a failure. `details` go after the message as far as the ledger has room for them."""

    kind: Kind
    message: str
    details: str = ""


class NativeOutput:
    """What a process printed past us: the first `NATIVE_OUTPUT_BYTES` for the outcome, the last bytes for a message."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail = b""
        self._size = 0

    def add(self, data: bytes) -> None:
        """More of it."""
        self._size += len(data)
        room = NATIVE_OUTPUT_BYTES - len(self._head)
        if room > 0:
            self._head += data[:room]
        self._tail = (self._tail + data[-_TAIL_BYTES:])[-_TAIL_BYTES:]

    @property
    def missing(self) -> int:
        """Bytes that were not kept."""
        return self._size - len(self._head)

    def text(self) -> str:
        """What is kept."""
        return self._head.decode("utf-8", "replace")

    def ending(self) -> str:
        """The last of it as the end of a message, empty if nothing was printed."""
        tail = self._tail.lstrip(_CONTINUATION) if self._size > len(self._tail) else self._tail
        text = tail.decode("utf-8", "replace").strip()
        return f"; it printed: {text}" if text else ""

    def is_out_of_memory(self) -> bool:
        """Whether V8 said that its memory is used up."""
        return _V8_OUT_OF_MEMORY.search(self._head) is not None or _V8_OUT_OF_MEMORY.search(self._tail) is not None


def classify(status: ExitStatus | None, grown_bytes: int, limits: Limits, native: NativeOutput) -> Verdict:
    """The failure of a run that ended by itself.

    status: None if nobody could tell. grown_bytes: growth of the process at its peak. native: what it printed.
    """
    code = status.code if status is not None else None
    name = _signal_name(status.signal) if status is not None and status.signal is not None else ""
    if code == EXIT_OUT_OF_MEMORY:
        return Verdict("memory-limit", f"the engine needs more memory than allowed ({limits.memory} bytes)")
    if name in ("SIGPROF", "SIGXCPU"):
        return Verdict("compute-limit", f"more than {limits.cpu:g} s of CPU time used")
    if name == "SIGALRM":
        return Verdict("timeout", "the deadline passed; the run's own timer ended it")
    if code == EXIT_MEASURE_FAILED:
        return Verdict("sandbox-unavailable", "an isolation measure failed in the run's process", native.ending())
    if name == "SIGKILL" and grown_bytes >= _NEAR_LIMIT * limits.memory:
        return Verdict(
            "memory-limit",
            f"killed (SIGKILL) after the process had grown by {grown_bytes} bytes, {limits.memory} are allowed",
        )
    if name in ("SIGABRT", "SIGTRAP", "SIGILL") and native.is_out_of_memory():
        return Verdict("memory-limit", f"the engine ran out of memory ({name})")
    if name == "SIGSYS":
        return Verdict("worker-exit", "forbidden system call (SIGSYS)", native.ending())
    if name:
        return Verdict("worker-exit", f"the process was ended by {name}", native.ending())
    if code is None:
        return Verdict("worker-exit", "the process is gone, nobody knows how it ended", native.ending())
    meaning = {
        0: " before it was done",
        EXIT_GUEST_FAULT: " (fault of the guest)",
        EXIT_BAD_FRAME: " (unreadable host frame)",
    }.get(code, "")
    return Verdict("worker-exit", f"the process ended with exit code {code}{meaning}", native.ending())


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
