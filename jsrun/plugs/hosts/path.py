"""A path on a host: pathlib's names with async calls, written once on the few operations that every host offers."""

from collections.abc import AsyncIterator, Sequence
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Protocol

from jsrun.plugs.host_api import FileStat, HostFs


class HasFs(Protocol):
    """What a path needs of its host."""

    @property
    def fs(self) -> HostFs:
        """Its files."""
        ...


class HostPath:
    """A POSIX path on one host. Making one does no I/O; errors are Python's own (FileNotFoundError, …).

    A relative path is resolved by its host at each call: a bound view starts at the draft's `cwd`.
    """

    __slots__ = ("_host", "_pure")

    def __init__(self, host: HasFs, path: str | PurePosixPath) -> None:
        self._host = host
        self._pure = PurePosixPath(path)

    # What needs no I/O

    @property
    def name(self) -> str:
        """The last part."""
        return self._pure.name

    @property
    def stem(self) -> str:
        """The last part without its suffix."""
        return self._pure.stem

    @property
    def suffix(self) -> str:
        """The end of the last part from its last dot on."""
        return self._pure.suffix

    @property
    def suffixes(self) -> list[str]:
        """All suffixes of the last part."""
        return self._pure.suffixes

    @property
    def parts(self) -> tuple[str, ...]:
        """All parts."""
        return self._pure.parts

    @property
    def parent(self) -> "HostPath":
        """The folder it is in."""
        return HostPath(self._host, self._pure.parent)

    @property
    def parents(self) -> "tuple[HostPath, ...]":
        """The folders it is in, the nearest first."""
        return tuple(HostPath(self._host, parent) for parent in self._pure.parents)

    def as_posix(self) -> str:
        """The path as text, as `str` gives it."""
        return str(self)

    def match(self, pattern: str) -> bool:
        """Whether its end matches a pattern with `*`, `?` and `[…]`; all of it for an absolute one."""
        return self._pure.match(pattern)

    def is_absolute(self) -> bool:
        """Whether it starts at the root."""
        return self._pure.is_absolute()

    def joinpath(self, *others: "str | HostPath") -> "HostPath":
        """This path and then the others; an absolute one replaces what is before it."""
        return HostPath(self._host, self._pure.joinpath(*map(str, others)))

    def with_name(self, name: str) -> "HostPath":
        """The same with another last part."""
        return HostPath(self._host, self._pure.with_name(name))

    def with_stem(self, stem: str) -> "HostPath":
        """The same with another stem."""
        return HostPath(self._host, self._pure.with_stem(stem))

    def with_suffix(self, suffix: str) -> "HostPath":
        """The same with another suffix."""
        return HostPath(self._host, self._pure.with_suffix(suffix))

    def relative_to(self, other: "str | HostPath") -> "HostPath":
        """The way from `other` to here; ValueError if `other` is not above it."""
        return HostPath(self._host, self._pure.relative_to(str(other)))

    def is_relative_to(self, other: "str | HostPath") -> bool:
        """Whether `other` is above it, or the same."""
        return self._pure.is_relative_to(str(other))

    def __truediv__(self, other: "str | HostPath") -> "HostPath":
        return self.joinpath(other)

    def __str__(self) -> str:
        return str(self._pure)

    def __repr__(self) -> str:
        return f"HostPath({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HostPath) and other._host is self._host and other._pure == self._pure

    def __hash__(self) -> int:
        return hash((id(self._host), self._pure))

    # Contents

    async def read_bytes(self) -> bytes:
        """The contents."""
        return await self._host.fs.read_bytes(str(self))

    async def read_text(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """The contents as text."""
        return (await self.read_bytes()).decode(encoding, errors)

    async def write_bytes(self, data: bytes) -> int:
        """Make or replace the contents; the number of bytes."""
        await self._host.fs.write_bytes(str(self), data)
        return len(data)

    async def write_text(self, text: str, encoding: str = "utf-8", errors: str = "strict") -> int:
        """Make or replace the contents; the number of bytes."""
        return await self.write_bytes(text.encode(encoding, errors))

    async def append_bytes(self, data: bytes) -> int:
        """Add to the end of the file, made if it is not there; the number of bytes."""
        await self._host.fs.append_bytes(str(self), data)
        return len(data)

    async def append_text(self, text: str, encoding: str = "utf-8", errors: str = "strict") -> int:
        """Add to the end of the file, made if it is not there; the number of bytes."""
        return await self.append_bytes(text.encode(encoding, errors))

    # Facts

    async def stat(self) -> FileStat:
        """Facts about what is there, through symlinks."""
        return await self._host.fs.stat(str(self))

    async def lstat(self) -> FileStat:
        """Facts about what is there, of a symlink itself."""
        return await self._host.fs.stat(str(self), follow=False)

    async def exists(self) -> bool:
        """Whether something is there; False for a symlink that leads to nothing."""
        return await self._kind() is not None

    async def is_file(self) -> bool:
        """Whether a file is there."""
        return await self._kind() == "file"

    async def is_dir(self) -> bool:
        """Whether a folder is there."""
        return await self._kind() == "dir"

    async def is_symlink(self) -> bool:
        """Whether a symlink is there."""
        return await self._kind(follow=False) == "symlink"

    async def readlink(self) -> "HostPath":
        """Where a symlink points."""
        return HostPath(self._host, await self._host.fs.readlink(str(self)))

    async def iterdir(self) -> AsyncIterator["HostPath"]:
        """What is in the folder, in the order of the names."""
        for name in sorted(await self._host.fs.listdir(str(self))):
            yield self / name

    async def glob(self, pattern: str) -> AsyncIterator["HostPath"]:
        """What matches `pattern` below this folder; `**` is the folder itself and all folders below, symlinks excepted.

        ValueError for a pattern that is empty or absolute.
        """
        parts = PurePosixPath(pattern).parts
        if not parts or parts[0] == "/":
            raise ValueError(f"A pattern is relative and not empty, unlike {pattern!r}.")
        seen = set()  # several `**` lead to one path in several ways
        async for path in self._matching(parts):
            if path not in seen:
                seen.add(path)
                yield path

    async def rglob(self, pattern: str) -> AsyncIterator["HostPath"]:
        """As `glob` with `**/` before the pattern."""
        async for path in self.glob(f"**/{pattern}"):
            yield path

    # Changes

    async def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        """Make a folder, with `parents` also those above it, which get the usual mode."""
        try:
            await self._host.fs.mkdir(str(self), mode)
        except FileNotFoundError:
            if not parents or self.parent == self:
                raise
            await self.parent.mkdir(parents=True, exist_ok=True)
            await self.mkdir(mode, exist_ok=exist_ok)
        except FileExistsError:
            if not exist_ok or not await self.is_dir():
                raise

    async def rename(self, target: "str | HostPath") -> "HostPath":
        """Move it to `target`, replacing a file there; the new path."""
        await self._host.fs.rename(str(self), str(target))
        return HostPath(self._host, str(target))

    async def replace(self, target: "str | HostPath") -> "HostPath":
        """As `rename`."""
        return await self.rename(target)

    async def touch(self, exist_ok: bool = True) -> None:
        """Make an empty file if nothing is there; FileExistsError if something is and `exist_ok` is false."""
        if not exist_ok and await self._kind(follow=False) is not None:
            raise FileExistsError(f"{self} is there already")
        await self.append_bytes(b"")

    async def chmod(self, mode: int) -> None:
        """Set the permission bits."""
        await self._host.fs.chmod(str(self), mode)

    async def symlink_to(self, target: "str | HostPath") -> None:
        """Make a symlink here that points to `target`."""
        await self._host.fs.symlink(str(self), str(target))

    async def unlink(self, missing_ok: bool = False) -> None:
        """Remove a file or symlink."""
        try:
            await self._host.fs.unlink(str(self))
        except FileNotFoundError:
            if not missing_ok:
                raise

    async def rmdir(self) -> None:
        """Remove an empty folder."""
        await self._host.fs.rmdir(str(self))

    async def rmtree(self, missing_ok: bool = False) -> None:
        """Remove a folder with all that is in it; symlinks inside are removed, not followed.

        NotADirectoryError for anything but a folder, also for a symlink to one.
        """
        try:
            kind = (await self.lstat()).kind
        except FileNotFoundError:
            if missing_ok:
                return
            raise
        if kind != "dir":
            raise NotADirectoryError(f"{self} is not a folder")
        async for child in self.iterdir():
            if (await child.lstat()).kind == "dir":
                await child.rmtree()
            else:
                await child.unlink()
        await self.rmdir()

    async def _matching(self, parts: Sequence[str]) -> AsyncIterator["HostPath"]:
        if not parts:
            yield self
            return
        first, rest = parts[0], parts[1:]
        if not await self.is_dir():
            return
        if first == "**":
            async for path in self._matching(rest):
                yield path
        async for child in self.iterdir():
            if first != "**":
                below = rest if fnmatchcase(child.name, first) else None
            else:
                below = parts if await child._kind(follow=False) == "dir" else None
            if below is not None:
                async for path in child._matching(below):
                    yield path

    async def _kind(self, *, follow: bool = True) -> str | None:
        try:
            return (await self._host.fs.stat(str(self), follow=follow)).kind
        except (FileNotFoundError, NotADirectoryError):
            return None
