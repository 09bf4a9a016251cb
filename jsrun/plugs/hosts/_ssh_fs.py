"""Files at the far end of an SSH connection, over SFTP. Imported only when a connection is made.

Version 3 of the protocol, the one that is spoken everywhere, has a single code for most failures. What really was
wrong is found out afterwards, so that errors are the same as on every other host.
"""

import contextlib
import errno
import os
import posixpath
import stat as modes

import asyncssh

from jsrun.plugs.errors import HostError
from jsrun.plugs.host_api import FileStat
from jsrun.plugs.hosts.local import kind_of

# Asked for at once, which the library splits into requests under way at the same time.
_READ_BYTES = 4 * 1024 * 1024
_GONE = (asyncssh.SFTPConnectionLost, asyncssh.SFTPNoConnection)
_DENIED = asyncssh.SFTPPermissionDenied
_MISSING = (asyncssh.SFTPNoSuchFile, asyncssh.SFTPNoSuchPath)
_IS_DIR = ("read", "write", "unlink")
_EXISTS = ("mkdir", "symlink")


async def read_bytes(sftp: asyncssh.SFTPClient, path: str) -> bytes:
    """See HostFs."""
    async with sftp.open(path, "rb") as file:
        data = bytearray()
        # Until nothing comes: a file may be longer than it says it is.
        while more := await file.read(_READ_BYTES):
            assert isinstance(more, bytes)
            data += more
        return bytes(data)


async def write_bytes(sftp: asyncssh.SFTPClient, path: str, data: bytes, mode: str) -> None:
    """Write with the mode "wb" or "ab"."""
    async with sftp.open(path, mode) as file:
        await file.write(data)


async def stat(sftp: asyncssh.SFTPClient, path: str, follow: bool) -> FileStat:
    """See HostFs."""
    found = await (sftp.stat(path) if follow else sftp.lstat(path))
    mode = found.permissions or 0
    return FileStat(kind_of(mode), found.size or 0, modes.S_IMODE(mode), float(found.mtime or 0))


async def listdir(sftp: asyncssh.SFTPClient, path: str) -> list[str]:
    """See HostFs."""
    return [str(name) for name in await sftp.listdir(path) if name not in (".", "..")]


async def translated(
    sftp: asyncssh.SFTPClient, error: asyncssh.SFTPError, what: str, path: str, target: str = ""
) -> Exception:
    """The error every other host would raise for `what`, done with `path`."""
    if isinstance(error, _GONE):
        return HostError("The SSH connection was lost.")
    return _os_error(await _number(sftp, error, what, path, target), path)


async def _number(sftp: asyncssh.SFTPClient, error: asyncssh.SFTPError, what: str, path: str, target: str) -> int:
    if isinstance(error, _DENIED):
        return errno.EACCES
    kind = await _kind(sftp, path)
    if isinstance(error, _MISSING):
        # "No such file" also stands for "not a folder".
        if what in ("listdir", "rmdir") and kind is not None:
            return errno.ENOTDIR
        if what == "rename" and kind == "dir" and await _kind(sftp, target) is not None:
            return errno.ENOTDIR
        return errno.ENOTDIR if await _below_file(sftp, target or path) else errno.ENOENT
    number = errno.EIO
    if what == "rename":
        number = _rename_number(kind, await _kind(sftp, target))
    elif what in _EXISTS and kind is not None:
        number = errno.EEXIST
    elif what in _IS_DIR and kind == "dir":
        number = errno.EISDIR
    elif what == "rmdir":
        number = errno.ENOTEMPTY if kind == "dir" else errno.ENOTDIR
    elif what == "readlink" and kind is not None:
        number = errno.EINVAL
    elif await _below_file(sftp, path):
        number = errno.ENOTDIR
    return number


def _rename_number(kind: str | None, target: str | None) -> int:
    if target == "dir":
        return errno.ENOTEMPTY if kind == "dir" else errno.EISDIR
    return errno.ENOTDIR if kind == "dir" and target is not None else errno.EIO


async def _kind(sftp: asyncssh.SFTPClient, path: str) -> str | None:
    with contextlib.suppress(asyncssh.SFTPError):
        return kind_of((await sftp.lstat(path)).permissions or 0)
    return None


async def _below_file(sftp: asyncssh.SFTPClient, path: str) -> bool:
    """Whether something above `path` is no folder."""
    above = posixpath.dirname(path.rstrip("/"))
    while above not in ("", "/"):
        with contextlib.suppress(asyncssh.SFTPError):
            return kind_of((await sftp.stat(above)).permissions or 0) != "dir"
        above = posixpath.dirname(above)
    return False


def _os_error(number: int, path: str) -> OSError:
    # The constructor picks the class that belongs to the number.
    return OSError(number, os.strerror(number), path)
