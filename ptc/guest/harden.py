"""What the operating system enforces on a process of ours, applied and reported in one place.

Every platform branch of the guest is here. What is reported was really put in force: each limit is read back.
"""

import _thread
import contextlib
import ctypes
import gc
import math
import os
import select
import signal
import sys
from collections.abc import Callable
from typing import NamedTuple

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

_LINUX = sys.platform == "linux"

# <sys/mman.h>, Linux 5.14: fault pages in for writing, all at once.
_MADV_POPULATE_WRITE = 23
# Above this a waiting run would cost more memory than the faults cost time.
_MAX_POPULATED = 1024 * 1024

# <sys/prctl.h>
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 1, 4, 36, 38

# Room beside twice the program's memory: the interpreter's own growth and one large copy of a value.
ADDRESS_MARGIN = 64 * 1024 * 1024
# Descriptors of a run are 0-3; the rest is room for the C library.
_MAX_DESCRIPTORS = 16
# Descriptors an image may hold while it forks.
_MAX_IMAGE_DESCRIPTORS = 64

_libc = ctypes.CDLL(None, use_errno=True) if _LINUX else None
if _libc is not None:
    _libc.sbrk.restype = ctypes.c_void_p
    _libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]


def die_with_parent(parent: int) -> None:
    """Have this process killed when `parent` dies; at once, if it is dead already. Linux only."""
    if _libc is not None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(0)


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent died, so that they are reaped. Linux only."""
    if _libc is not None:
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def forbid_new_privileges() -> bool:
    """Have this process and all it forks or executes never gain privileges. False where that cannot be. Linux only."""
    return _libc is not None and _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0


def leave_no_core() -> None:
    """For a process that is going to crash on purpose: nothing of it is written or reported anywhere. Linux only."""
    if _libc is not None:
        _libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def die_with_peer(descriptor: int) -> None:
    """Have this process end when the other end of a stream is closed, whatever it does by then.

    Nothing on Linux, where the parent's death is enough.
    """
    if not _LINUX:
        _thread.start_new_thread(end_with_peer, (descriptor,))


def end_with_peer(descriptor: int) -> None:
    """Wait until the other end of a stream is closed, and end the process. What comes on the stream stays there."""
    poll = select.poll()
    poll.register(descriptor, 0)
    poll.poll()
    os._exit(0)


def keep_only(descriptor: int) -> None:
    """Make `descriptor` number 3 and close everything above. 0, 1 and 2 stay."""
    os.dup2(descriptor, 3)
    _close_from(4)


def keep_both(first: int, second: int) -> None:
    """Make these descriptors number 3 and 4 and close everything above. 0, 1 and 2 stay."""
    # Copies, because either may have the number the other is to get. The first copy is never 4 unless 3 is taken.
    first, second = os.dup(first), os.dup(second)
    os.dup2(first, 3)
    os.dup2(second, 4)
    _close_from(5)


def _close_from(low: int) -> None:
    if resource is None:
        return
    soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    os.closerange(low, min(soft, 65_536))


def limit_image(memory: int, cpu: float, image_size: int | None) -> None:
    """Bounds for the time of a load, lifted again by `end_load`. cpu in seconds; memory, image_size in bytes.

    image_size: of the address space now; None if that is not to be bounded.
    """
    if resource is None:
        return
    signal.setitimer(signal.ITIMER_PROF, cpu)
    _lower(resource.RLIMIT_CORE, 0, 0)
    _lower(resource.RLIMIT_FSIZE, 0, 0)
    _lower(resource.RLIMIT_NOFILE, _MAX_IMAGE_DESCRIPTORS, _MAX_IMAGE_DESCRIPTORS)
    if image_size is None:
        return
    bound = image_size + 2 * memory + ADDRESS_MARGIN
    _lower(resource.RLIMIT_AS, bound, resource.getrlimit(resource.RLIMIT_AS)[1])


def end_load() -> None:
    """Lift the bounds on the load: what the image does from here on is only ours."""
    if resource is None:
        return
    signal.setitimer(signal.ITIMER_PROF, 0)
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def run_limits(memory: int, cpu: float, image_size: int) -> list[tuple[str, int, int]]:
    """The resource limits of a run as (name, soft, hard): memory in bytes, cpu in seconds, image_size in bytes."""
    seconds = math.ceil(cpu) + 1
    limits = [
        ("as", image_size + 2 * memory + ADDRESS_MARGIN, image_size + 2 * memory + ADDRESS_MARGIN),
        ("core", 0, 0),
        # One second apart: the soft limit tells the reason by its signal, the hard one only kills.
        ("cpu", seconds, seconds + 1),
        ("fsize", 0, 0),
        ("nofile", _MAX_DESCRIPTORS, _MAX_DESCRIPTORS),
    ]
    if hasattr(os, "geteuid") and os.geteuid() != 0:  # a privileged user is exempt, so it would be no limit
        limits.append(("nproc", 0, 0))
    return limits


def writable_limit(memory: int, writable: int) -> tuple[str, int, int]:
    """A bound, in bytes, for a process whose address space tells nothing: of what it may write to. Linux only."""
    bound = writable + 2 * memory + ADDRESS_MARGIN
    return ("data", bound, bound)


def apply_limits(limits: list[tuple[str, int, int]]) -> None:
    """Put the limits in force. OSError or ValueError where the platform refuses one."""
    for name, soft, hard in limits:
        resource.setrlimit(_number(name), (soft, hard))


def supported_limits(limits: list[tuple[str, int, int]]) -> list[str]:
    """Which of the limits hold here, by trying each. For a throw-away process: what is applied stays."""
    held = []
    if resource is None:
        return held
    for name, soft, hard in limits:
        with contextlib.suppress(OSError, ValueError):
            apply_limits([(name, soft, hard)])
            if resource.getrlimit(_number(name)) == (soft, hard):
                held.append(name)
    return sorted(held)


def arm_timers(timeout: float | None, cpu: float) -> None:
    """Start the run's own clocks, in seconds: SIGPROF after `cpu`, SIGALRM one second after `timeout`."""
    signal.setitimer(signal.ITIMER_PROF, cpu)
    if timeout is not None:
        signal.setitimer(signal.ITIMER_REAL, timeout + 1.0)


class AddressSpace:
    """The size of this process's address space, to be asked also where no file can be opened any more."""

    def __init__(self) -> None:
        self._statm = -1
        with contextlib.suppress(OSError):
            self._statm = os.open("/proc/self/statm", os.O_RDONLY)

    def size(self) -> int:
        """Bytes; 0 where the platform does not tell."""
        return self._field(0)

    def writable(self) -> int:
        """Bytes of it that may be written to and are this process's own; 0 where the platform does not tell."""
        return self._field(5)

    def _field(self, number: int) -> int:
        if self._statm < 0:
            return 0
        try:
            pages = int(os.pread(self._statm, 256, 0).split()[number])
        except (OSError, ValueError, IndexError):
            return 0
        return pages * os.sysconf("SC_PAGE_SIZE")

    def close(self) -> None:
        """Give the descriptor back. The size is 0 from here on."""
        if self._statm >= 0:
            os.close(self._statm)
            self._statm = -1


class HeapSpan(NamedTuple):
    """A stretch of the C heap by addresses, page-wise from `start` up to `end`."""

    start: int
    end: int


def heap_end() -> int:
    """The address where the C heap ends now; 0 where that cannot be asked. Linux only."""
    return (_libc.sbrk(0) or 0) if _libc is not None else 0


def populate(span: HeapSpan) -> None:
    """Copy the shared pages of a span in one step: after a fork each would be a fault of its own. Best effort."""
    page = os.sysconf("SC_PAGE_SIZE")
    start = span.start - span.start % page
    size = min(span.end - start, _MAX_POPULATED)
    if _libc is not None and span.start and size > 0:
        _libc.madvise(start, size, _MADV_POPULATE_WRITE)


def freeze_heap() -> None:
    """No collection from here on, and none of today's objects touched by a later one: forks share their pages."""
    gc.collect()
    gc.freeze()
    gc.disable()


def in_child(attempt: Callable[[], bytes]) -> bytes:
    """Run `attempt` in a throw-away child and return what it gave; empty if the child died."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            os.write(writing, attempt())
        finally:
            os._exit(0)
    os.close(writing)
    data = b""
    while chunk := os.read(reading, 4096):
        data += chunk
    os.close(reading)
    os.waitpid(child, 0)
    return data


def _number(name: str) -> int:
    number: int = getattr(resource, f"RLIMIT_{name.upper()}")
    return number


def _lower(which: int, soft: int, hard: int) -> None:
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(which, (soft, hard))
