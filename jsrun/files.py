"""Files that several processes share: a lock held by name, and replacing a file so that a kill never leaves it torn."""

import contextlib
import errno
import fcntl
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

# Pause between attempts to take a lock that another process holds.
_RETRY_SECONDS = 0.01


class Busy(Exception):
    """Another process held the lock for as long as the caller would wait."""


@contextlib.contextmanager
def locked(path: Path, seconds: float) -> Iterator[None]:
    """Hold the lock file `path` (made if absent, never removed); Busy if it cannot be had within `seconds`.

    The lock belongs to the open file, so it excludes threads of this process too, and ends with the process.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        deadline = time.monotonic() + seconds
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise Busy(str(path)) from None
                time.sleep(_RETRY_SECONDS)
        yield
    finally:
        os.close(descriptor)


def replace_file(path: Path, data: bytes, temporary: Path) -> None:
    """Give `path` the content `data` in one step: written to `temporary` beside it, synced, renamed.

    The caller holds a lock under which nobody else uses `temporary`; what a killed process left there is overwritten.
    An existing file keeps its mode, a new one gets 0600.
    """
    try:
        mode = path.stat().st_mode & 0o777
    except FileNotFoundError:
        mode = 0o600
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, mode)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, mode)
        file.write(data)
        file.flush()
        os.fsync(descriptor)
    temporary.replace(path)
    sync_folder(path.parent)


def write_new(path: Path, data: bytes) -> None:
    """Write a file that is not there yet, and wait until it is on the disk. FileExistsError rather than overwriting."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(descriptor)


def write_whole(path: Path, data: bytes, *, replace: bool = False) -> None:
    """Write a file that appears at `path` whole or not at all; mode 0600. With `replace` it may take another's place.

    FileExistsError, without `replace`, if anything is there; OSError as ever.
    """
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name[:64]}.", suffix=".tmp", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        if not replace:
            _claim(path, temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(path.parent)


def _claim(path: Path, temporary: Path) -> None:
    """Take a name that must be free. A link does it in one step; where there are no links, a look must do."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except OSError:
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from None


def read_file(path: Path, limit: int) -> bytes:
    """The content of a regular file, reached through no link, of at most `limit` bytes.

    OSError as ever; ValueError, in words that go on after "it cannot be used:", for any other kind of file.
    """
    if not stat.S_ISREG(os.lstat(path).st_mode):  # before it is opened: opening a device can already do something
        raise ValueError("it is not a regular file")
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("it is not a regular file")
        data = file.read(limit + 1)
    if len(data) > limit:
        raise ValueError(f"it has more than {limit:,} bytes")
    return data


def sync_folder(path: Path) -> None:
    """Make a rename in this folder last through a power cut, where the system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
