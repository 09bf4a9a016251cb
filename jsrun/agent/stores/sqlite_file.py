"""The file of the SQLite sessions: opening it with care, and the one thread that works on it."""

import asyncio
import contextlib
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal, TypeVar

from jsrun.agent.errors import Corrupt, SessionError, Unavailable

T = TypeVar("T")

VERSION = 1
# How long another process may hold the file before an operation gives up.
BUSY_SECONDS = 5.0
# Pause between attempts where SQLite does not wait by itself.
_RETRY_SECONDS = 0.01
# Far above any message of ours; a forged file may hold more.
_MAX_TEXT_BYTES = 256 * 1024 * 1024

_SCHEMA = (
    """
CREATE TABLE sessions(id TEXT PRIMARY KEY, head TEXT NOT NULL, messages INTEGER NOT NULL, created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL, changed INTEGER NOT NULL, title TEXT NOT NULL)
""",
    """
CREATE TABLE commits(session TEXT NOT NULL REFERENCES sessions ON DELETE CASCADE, seq INTEGER NOT NULL,
  id TEXT NOT NULL, parent TEXT, messages TEXT NOT NULL, UNIQUE(session, seq), UNIQUE(session, id))
""",
)

# Closing any descriptor of a file drops every lock the process holds on it, so nobody may open a file of ours between
# its making and the moment SQLite has it.
_creating = threading.Lock()


def connect(path: Path) -> sqlite3.Connection:
    """Open the file, making it (mode 0600) if it is not there. Raises Unavailable or Corrupt, naming the path."""
    try:
        with _creating:
            _make_file(path)
            connection = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode=rw",
                uri=True,
                timeout=BUSY_SECONDS,
                isolation_level=None,
            )
    except sqlite3.Error as error:
        raise explain(path, error) from None
    except (OSError, ValueError) as error:  # ValueError: a NUL or a lone surrogate in the path
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise Unavailable(f"{path}: the sessions cannot be opened: {reason}") from None
    try:
        connection.text_factory = _decode
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_TEXT_BYTES)
        # The file may come from elsewhere: nothing written in its schema may run a function.
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA foreign_keys = ON")
        _check_version(path, connection)
        _write_ahead(path, connection)
        connection.execute("PRAGMA synchronous = FULL")
        _make_tables(connection)
    except BaseException as error:
        connection.close()
        if isinstance(error, sqlite3.Error):
            raise explain(path, error) from None
        raise
    return connection


def explain(path: Path, error: sqlite3.Error) -> SessionError:
    """What a database error means for the one who must act."""
    reason = str(error)
    if "locked" in reason or "busy" in reason:
        return Unavailable(f"{path}: another process kept the sessions locked for {BUSY_SECONDS:g} s; try again later")
    if "not a database" in reason or "malformed" in reason:
        return Corrupt(f"{path}: the file is no session database, or it is damaged: {reason}")
    if "readonly" in reason:
        return Unavailable(f"{path}: the file is read-only; allow this user to write it and its folder")
    if "full" in reason:
        return Unavailable(f"{path}: the disk is full; make room or delete old sessions")
    return Unavailable(f"{path}: the sessions cannot be used: {reason}")


def _decode(data: bytes) -> str:
    """Text of the file; damaged bytes are shown as such, for the checks of its readers to find."""
    return data.decode("utf-8", "replace")


def _make_file(path: Path) -> None:
    try:
        info = path.stat()
    except FileNotFoundError:
        path.parent.mkdir(mode=0o700, exist_ok=True)  # one level: a mistyped path makes no tree of folders
        with contextlib.suppress(FileExistsError):  # another process made it in this moment
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        return
    if not stat.S_ISREG(info.st_mode):
        raise OSError(0, "it is not a regular file")
    if info.st_size == 0:
        path.chmod(0o600)


def _check_version(path: Path, connection: sqlite3.Connection) -> None:
    version = _version(connection)
    if version > VERSION:
        raise Corrupt(f"{path}: the sessions have version {version}, this program reads {VERSION}; use a newer jsrun")
    # Tables and version come in one transaction, so tables without a version are nothing of ours half-made.
    foreign = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] > 0
    if version < 0 or (version == 0 and foreign and _version(connection) == 0):
        raise Corrupt(f"{path}: this is the database of another program")


def _write_ahead(path: Path, connection: sqlite3.Connection) -> None:
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
            break
        except sqlite3.OperationalError as error:  # the busy timeout does not cover this change
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_SECONDS)
    if mode != "wal":
        raise Unavailable(f"{path}: the file system here cannot hold sessions (SQLite has no write-ahead log on it)")


def _make_tables(connection: sqlite3.Connection) -> None:
    if _version(connection) == VERSION:
        return
    with transaction(connection):
        if _version(connection) == 0:  # else another process was faster
            for statement in _SCHEMA:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {VERSION}")


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection, kind: Literal["IMMEDIATE", "DEFERRED"] = "IMMEDIATE") -> Iterator[None]:
    """A transaction, rolled back if its body raises. DEFERRED takes no lock: reads then see one moment."""
    connection.execute(f"BEGIN {kind}")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        raise


class Worker:
    """The one thread of a catalog and the connection it owns, both made at the first operation.

    An operation that has begun goes on to its end whatever becomes of the one who waits for it. Each is over after the
    busy time at the latest, so the interpreter may wait for the thread when it exits.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._executor: ThreadPoolExecutor | None = None
        self._connection: sqlite3.Connection | None = None

    async def do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """What `work` returns for the connection. Raises its SessionError, or what `explain` makes of a database's."""

        def run() -> T:
            try:
                if self._connection is None:
                    self._connection = connect(self._path)
                return work(self._connection)
            except sqlite3.Error as error:
                raise explain(self._path, error) from None

        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="jsrun sessions")
        return await asyncio.get_running_loop().run_in_executor(self._executor, run)

    async def aclose(self) -> None:
        """Close the file and end the thread. The next operation opens them again."""
        executor, self._executor = self._executor, None
        if executor is None:
            return
        await asyncio.get_running_loop().run_in_executor(executor, self._disconnect)
        executor.shutdown()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
