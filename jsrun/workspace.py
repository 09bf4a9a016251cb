"""A folder of files that untrusted programs may look at, and nothing outside it.

A path is resolved first, `..` and links included, and refused if it leads out. What it resolved to is then opened one
name at a time from the root's own descriptor, never through a link: if somebody swaps a name for a link in between,
the open fails instead of following it. Only regular files are ever opened, so nothing can block.
"""

import contextlib
import errno
import heapq
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal, TypeAlias

from jsrun._text import quoted
from jsrun.errors import BeltError, DoorFailure

Kind: TypeAlias = Literal["file", "directory", "link", "other"]
Parts: TypeAlias = tuple[str, ...]

# Version control and our own journals: bulky, not written for readers, and possibly secret.
PASSED_OVER = frozenset({".git", ".jsrun"})
# A walk ends after this many names, whatever it found: a tree may hold millions.
MAX_NAMES = 100_000

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Should a FIFO take the file's place in the last moment, O_NONBLOCK keeps the open from waiting for a writer.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


@dataclass(frozen=True, slots=True, order=True)
class Found:
    """A name met on a walk: its path from the root, with `/`; entries are ordered by it."""

    path: str
    parts: Parts
    kind: Kind


class Workspace:
    """The folder `root`. BeltError if it is not there. All paths in messages are those the caller gave."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        try:
            self._root = os.path.realpath(os.fspath(root), strict=True)
            os.close(os.open(self._root, _FOLDER))
        except (OSError, ValueError):
            raise BeltError(f"{os.fspath(root)}: a workspace must be a folder that is there.") from None

    def resolve(self, path: str) -> Parts:
        """The names from the root to where `path` leads, none of them a link; DoorFailure if that is outside."""
        try:
            real = os.path.realpath(Path(self._root, path))
        except ValueError:  # a NUL, or a lone surrogate no file name holds
            raise DoorFailure(f"{quoted(path)} is not a possible path.") from None
        except OSError as error:  # a link was taken away in this moment
            raise _refusal(error, path) from None
        if real == self._root:
            return ()
        prefix = self._root.rstrip("/") + "/"
        if not real.startswith(prefix):
            raise DoorFailure(f"{quoted(path)} leads outside the workspace.")
        return tuple(real.removeprefix(prefix).split("/"))

    def open_file(self, parts: Parts, path: str) -> tuple[int, int]:
        """Open a regular file: its descriptor, which the caller closes, and its size. DoorFailure for all else."""
        if not parts:
            raise DoorFailure(f"{quoted(path)} is a directory, not a file.")
        with self._opened(parts[:-1], path) as folder:
            try:
                _check_regular(os.stat(parts[-1], dir_fd=folder, follow_symlinks=False), path)
                descriptor = os.open(parts[-1], _FILE, dir_fd=folder)
            except OSError as error:
                raise _refusal(error, path) from None
        try:
            info = os.fstat(descriptor)
            _check_regular(info, path)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor, info.st_size

    def kind(self, parts: Parts, path: str) -> Kind:
        """What is at this place."""
        if not parts:
            return "directory"
        with self._opened(parts[:-1], path) as folder:
            try:
                return _kind(os.stat(parts[-1], dir_fd=folder, follow_symlinks=False).st_mode)
            except OSError as error:
                raise _refusal(error, path) from None

    def size(self, found: Found) -> int:
        """Bytes of a file, 0 for anything else and for what is gone."""
        if found.kind != "file":
            return 0
        with contextlib.suppress(OSError, DoorFailure), self._opened(found.parts[:-1], found.path) as folder:
            return os.stat(found.parts[-1], dir_fd=folder, follow_symlinks=False).st_size
        return 0

    def walk(self, parts: Parts, path: str, depth: int | None = None) -> Iterator[Found]:
        """Everything under a folder, ordered by path, `depth` levels deep (None: all); links are not followed.

        Folders are read when their turn comes, so a caller who stops early has read little. `.git` and `.jsrun` are
        passed over; a folder in between that cannot be read counts as empty. Ends after `MAX_NAMES` names.
        """
        # A path sorts before everything under it, so the smallest path waiting is the smallest of all to come.
        waiting = self._children(parts, path)
        heapq.heapify(waiting)
        names = len(waiting)
        while waiting:
            found = heapq.heappop(waiting)
            yield found
            deeper = depth is None or len(found.parts) - len(parts) < depth
            if found.kind == "directory" and deeper and names < MAX_NAMES:
                with contextlib.suppress(DoorFailure):
                    for child in self._children(found.parts, found.path):
                        heapq.heappush(waiting, child)
                        names += 1

    def _children(self, parts: Parts, path: str) -> list[Found]:
        prefix = "".join(f"{part}/" for part in parts)
        with self._opened(parts, path) as folder:
            try:
                with os.scandir(folder) as entries:
                    return [
                        Found(prefix + entry.name, (*parts, entry.name), _entry_kind(entry))
                        for entry in islice(entries, MAX_NAMES)
                        if entry.name not in PASSED_OVER
                    ]
            except OSError as error:
                raise _refusal(error, path) from None

    @contextlib.contextmanager
    def _opened(self, parts: Parts, path: str) -> Iterator[int]:
        """The descriptor of a folder, reached name by name, closed afterwards."""
        try:
            descriptor = os.open(self._root, _FOLDER)
        except OSError as error:
            raise _refusal(error, path) from None
        try:
            for part in parts:
                try:
                    inner = os.open(part, _FOLDER, dir_fd=descriptor)
                except OSError as error:
                    raise _refusal(error, path) from None
                os.close(descriptor)
                descriptor = inner
            yield descriptor
        finally:
            os.close(descriptor)


def _check_regular(info: os.stat_result, path: str) -> None:
    kind = _kind(info.st_mode)
    if kind == "directory":
        raise DoorFailure(f"{quoted(path)} is a directory, not a file.")
    if kind == "link":
        raise DoorFailure(f"{quoted(path)} is a link that leads nowhere.")
    if kind == "other":
        raise DoorFailure(f"{quoted(path)} is not a regular file, so it is not read.")


def _kind(mode: int) -> Kind:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "directory"
    return "link" if stat.S_ISLNK(mode) else "other"


def _entry_kind(entry: "os.DirEntry[str]") -> Kind:
    if entry.is_symlink():
        return "link"
    if entry.is_dir(follow_symlinks=False):
        return "directory"
    return "file" if entry.is_file(follow_symlinks=False) else "other"


def _refusal(error: OSError, path: str) -> DoorFailure:
    """A system error in words, without the place it happened at."""
    if error.errno == errno.ENOENT:
        return DoorFailure(f"{quoted(path)} is not there.")
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return DoorFailure(f"{quoted(path)} leads through something that is not a directory.")
    if error.errno in (errno.EACCES, errno.EPERM):
        return DoorFailure(f"{quoted(path)} may not be read.")
    return DoorFailure(f"{quoted(path)} cannot be read: {error.strerror}.")
