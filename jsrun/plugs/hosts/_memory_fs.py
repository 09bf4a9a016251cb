"""Files in a dict, with folders, symlinks and permission bits; errors as a POSIX system gives them."""

import errno
import os
import posixpath
import time
from dataclasses import dataclass, field

from jsrun.plugs.host_api import FileKind, FileStat

# As Linux: more symlinks in one path count as a loop.
_MAX_LINKS = 40


@dataclass(slots=True)
class Node:
    """What is at a path."""

    kind: FileKind
    data: bytes = b""
    mode: int = 0o644
    target: str = ""
    mtime: float = field(default_factory=time.time)


class MemoryFiles:
    """A file system; paths are absolute. `nodes` holds everything by its path without symlinks."""

    def __init__(self, *folders: str) -> None:
        self.nodes: dict[str, Node] = {"/": Node("dir", mode=0o755)}
        for folder in folders:
            path = ""
            for part in folder.strip("/").split("/"):
                path += f"/{part}"
                self.nodes.setdefault(path, Node("dir", mode=0o755))

    def read(self, path: str) -> bytes:
        """The contents of a file."""
        return self._file(path).data

    def write(self, path: str, data: bytes, *, append: bool = False) -> None:
        """Make or replace the contents of a file, or add to them."""
        real = self._resolve(path)
        node = self.nodes.get(real)
        if node is None:
            self.nodes[real] = Node("file", data)
            return
        if node.kind == "dir":
            raise _error(errno.EISDIR, path)
        node.data = node.data + data if append else data
        node.mtime = time.time()

    def stat(self, path: str, follow: bool) -> FileStat:
        """Facts about what is there."""
        node = self._node(path, follow)
        size = len(node.target.encode()) if node.kind == "symlink" else len(node.data)
        return FileStat(node.kind, size, node.mode, node.mtime)

    def listdir(self, path: str) -> list[str]:
        """The names in a folder."""
        real = self._resolve(path)
        if self._node(path).kind != "dir":
            raise _error(errno.ENOTDIR, path)
        return [posixpath.basename(other) for other in self.nodes if other != "/" and posixpath.dirname(other) == real]

    def mkdir(self, path: str, mode: int) -> None:
        """Make a folder."""
        self.nodes[self._free(path)] = Node("dir", mode=mode & ~0o022)

    def symlink(self, path: str, target: str) -> None:
        """Make a symlink."""
        self.nodes[self._free(path)] = Node("symlink", mode=0o777, target=target)

    def readlink(self, path: str) -> str:
        """Where a symlink points."""
        node = self._node(path, follow=False)
        if node.kind != "symlink":
            raise _error(errno.EINVAL, path)
        return node.target

    def chmod(self, path: str, mode: int) -> None:
        """Set the permission bits."""
        self._node(path).mode = mode

    def unlink(self, path: str) -> None:
        """Remove a file or symlink."""
        if self._node(path, follow=False).kind == "dir":
            raise _error(errno.EISDIR, path)
        del self.nodes[self._resolve(path, follow=False)]

    def rmdir(self, path: str) -> None:
        """Remove an empty folder."""
        if self._node(path, follow=False).kind != "dir":
            raise _error(errno.ENOTDIR, path)
        if self.listdir(path):
            raise _error(errno.ENOTEMPTY, path)
        del self.nodes[self._resolve(path, follow=False)]

    def rename(self, path: str, target: str) -> None:
        """Move what is at `path`, replacing a file or an empty folder."""
        source = self._resolve(path, follow=False)
        goal = self._resolve(target, follow=False)
        moved = self._node(path, follow=False)
        if goal == source:
            return
        # In the order in which Linux looks at what is wrong.
        if goal.startswith(f"{source}/"):
            raise _error(errno.EINVAL, target)
        if source.startswith(f"{goal}/"):
            raise _error(errno.ENOTEMPTY, target)
        there = self.nodes.get(goal)
        if there is not None and (there.kind == "dir") != (moved.kind == "dir"):
            raise _error(errno.EISDIR if there.kind == "dir" else errno.ENOTDIR, target)
        if there is not None and there.kind == "dir" and self.listdir(goal):
            raise _error(errno.ENOTEMPTY, target)
        for old in [old for old in self.nodes if old == source or old.startswith(f"{source}/")]:
            self.nodes[goal + old[len(source) :]] = self.nodes.pop(old)

    def _file(self, path: str) -> Node:
        node = self._node(path)
        if node.kind == "dir":
            raise _error(errno.EISDIR, path)
        return node

    def _node(self, path: str, follow: bool = True) -> Node:
        node = self.nodes.get(self._resolve(path, follow))
        if node is None:
            raise _error(errno.ENOENT, path)
        return node

    def _free(self, path: str) -> str:
        """Where something new is to be."""
        real = self._resolve(path, follow=False)
        if real in self.nodes:
            raise _error(errno.EEXIST, path)
        return real

    def _resolve(self, path: str, follow: bool = True) -> str:
        """`path` without symlinks; the last part need not exist, and is not followed unless `follow`."""
        left = [part for part in path.split("/") if part not in ("", ".")]
        real = "/"
        links = 0
        while left:
            part = left.pop(0)
            if part == "..":
                real = posixpath.dirname(real)
                continue
            here = posixpath.join(real, part)
            node = self.nodes.get(here)
            if node is None and left:
                raise _error(errno.ENOENT, path)
            if node is not None and node.kind == "symlink" and (left or follow):
                links += 1
                if links > _MAX_LINKS:
                    raise _error(errno.ELOOP, path)
                real = "/" if node.target.startswith("/") else real
                left = [part for part in node.target.split("/") if part not in ("", ".")] + left
                continue
            if node is not None and node.kind == "file" and left:
                raise _error(errno.ENOTDIR, path)
            real = here
        return real


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)
