"""The journal's SQLite file: opening it with care, and the one thread that writes to it."""

import asyncio
import contextlib
import os
import queue
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path

from jsrun.errors import JournalError
from jsrun.journal import EntryRow, RunRow

VERSION = 1
# How long another process may hold the file before a write gives up.
BUSY_SECONDS = 5.0
# Pause between attempts where SQLite does not wait by itself.
_RETRY_SECONDS = 0.01
# A commit covers at most this many changes, so that the first of them does not wait long for its answer.
MAX_BATCH = 128
# No text of ours comes near: an answer is at most 8 MiB, at most three times that in ASCII. A forged one may.
MAX_TEXT_BYTES = 128 * 1024 * 1024

_SCHEMA = (
    """
CREATE TABLE run(run_id TEXT PRIMARY KEY, parent_run_id TEXT, name TEXT NOT NULL, bundle_hash TEXT NOT NULL,
  program_hash TEXT NOT NULL, engine TEXT NOT NULL, form TEXT NOT NULL, input TEXT NOT NULL, started_at TEXT NOT NULL,
  clock_ms INTEGER NOT NULL, seed TEXT NOT NULL, fuel TEXT NOT NULL, attempt INTEGER NOT NULL, owner TEXT NOT NULL,
  status TEXT, reason TEXT, result TEXT, ended_at TEXT)
""",
    """
CREATE TABLE entry(run_id TEXT NOT NULL REFERENCES run ON DELETE CASCADE, attempt INTEGER NOT NULL,
  seq INTEGER NOT NULL, call TEXT NOT NULL CHECK(call IN ('ai','tool','ask','remember','recall','log')),
  ref TEXT NOT NULL, input TEXT, input_hash TEXT NOT NULL, step INTEGER NOT NULL,
  state TEXT NOT NULL CHECK(state IN ('open','ok','err','refused','stopped','abandoned')), at TEXT NOT NULL,
  answered INTEGER, clock_ms INTEGER, output TEXT, err TEXT, note TEXT, spend TEXT, elapsed_ms REAL,
  PRIMARY KEY(run_id, attempt, seq)) WITHOUT ROWID
""",
)

# Between making an empty file with the right mode and handing it to SQLite no other thread may open it: closing any
# descriptor of a file drops every lock the process holds on it.
_creating = threading.Lock()


# What reading a database may raise; UnicodeDecodeError where SQLite quotes a damaged file in its own message.
DATABASE_ERRORS = (sqlite3.Error, UnicodeDecodeError)


class BadText(bytes):
    """A text column whose bytes are not UTF-8; no check takes it for text."""


def connect(path: Path, *, create: bool, durable: bool = False, read_only: bool = False) -> sqlite3.Connection:
    """Open the journal at `path`, making it if `create`; JournalError, naming the path, for anything unsound."""
    try:
        _check_file(path, create)
        uri = f"{path.absolute().as_uri()}?mode=rw"
        connection = sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
    except sqlite3.Error as error:
        raise explain(path, error) from None
    except (OSError, ValueError) as error:  # ValueError: a NUL or a lone surrogate in the path
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise JournalError(f"{path}: the journal cannot be opened: {reason}.") from None
    try:
        connection.text_factory = _decode
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_TEXT_BYTES)
        # The file may come from elsewhere: nothing written in its schema may run a function.
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
        _check_contents(path, connection, create)
        if read_only:
            connection.execute("PRAGMA query_only = ON")
    except BaseException as error:
        connection.close()
        if isinstance(error, DATABASE_ERRORS):
            raise explain(path, error) from None
        raise
    return connection


@contextlib.contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection for reads, closed afterwards; a database error inside becomes JournalError."""
    connection = connect(path, create=False, read_only=True)
    try:
        yield connection
    except DATABASE_ERRORS as error:
        raise explain(path, error) from None
    finally:
        connection.close()


def explain(path: Path, error: Exception) -> JournalError:
    """What a database error means for the one who must act."""
    reason = "malformed text" if isinstance(error, UnicodeDecodeError) else str(error)
    if "locked" in reason or "busy" in reason:
        return JournalError(
            f"{path}: another process kept the journal locked for {BUSY_SECONDS:g} seconds. Try again when it is done."
        )
    if "not a database" in reason or "malformed" in reason:
        return JournalError(f"{path}: this file is not a journal, or it is damaged. Move it away to start a new one.")
    if "readonly" in reason:
        return JournalError(f"{path}: the journal is read-only. Allow this user to write the file and its folder.")
    if "disk is full" in reason:
        return JournalError(f"{path}: the disk is full. Make room, or delete old runs from the journal.")
    return JournalError(f"{path}: the journal cannot be used: {reason}.")


def _check_file(path: Path, create: bool) -> None:
    with _creating:
        try:
            info = path.stat()
        except FileNotFoundError:
            if not create:
                raise JournalError(f"{path}: there is no journal here.") from None
            try:
                path.parent.mkdir(mode=0o700, exist_ok=True)  # one level: a mistyped path makes no tree of folders
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            except FileExistsError:  # another process made it in this moment
                return
            except FileNotFoundError:
                raise JournalError(f"{path}: the folder for the journal is not there. Make it first.") from None
            return
        if not stat.S_ISREG(info.st_mode):
            kind = "a folder" if stat.S_ISDIR(info.st_mode) else "not a regular file"
            raise JournalError(f"{path}: this is {kind}, not a journal. Give the path of a file.")
        if create and info.st_size == 0:
            path.chmod(0o600)


def _check_contents(path: Path, connection: sqlite3.Connection, create: bool) -> None:
    version = _version(connection)
    if version == 0:
        if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            # The schema and its version come in one transaction, so this is nothing of ours half-made.
            if _version(connection) == 0:
                raise JournalError(f"{path}: this is the database of another program, not a journal.")
        elif not create:
            raise JournalError(f"{path}: there is no journal here, the file is empty.")
        else:
            _make(path, connection)
    elif version != VERSION:
        raise JournalError(
            f"{path}: the journal has version {version}, this program reads version {VERSION}. Use a newer jsrun."
        )
    for table, row in (("run", RunRow), ("entry", EntryRow)):
        found = {column[1] for column in connection.execute(f"PRAGMA table_info({table})")}
        if not found.issuperset(column.name for column in fields(row)):
            raise JournalError(f"{path}: the journal's table {table} is not the one of version {VERSION}.")


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _make(path: Path, connection: sqlite3.Connection) -> None:
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
        raise JournalError(f"{path}: the file system here cannot hold a journal (SQLite has no write-ahead log on it).")
    connection.execute("BEGIN IMMEDIATE")
    try:
        if _version(connection) == 0:  # else another process was faster
            for statement in _SCHEMA:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        _roll_back(connection)
        raise


def _decode(data: bytes) -> str | BadText:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return BadText(data)


def _roll_back(connection: sqlite3.Connection) -> None:
    with contextlib.suppress(*DATABASE_ERRORS):
        if connection.in_transaction:
            connection.execute("ROLLBACK")


@dataclass(slots=True, eq=False)
class Change:
    """One change on its way to the writer, and the future of the one who waits for it.

    `apply` raises JournalError before it has changed anything, or makes its change whole. `creates`: it may make the
    file. `last`: the writer ends after it.
    """

    apply: Callable[[sqlite3.Connection], None]
    loop: asyncio.AbstractEventLoop
    creates: bool = False
    last: bool = False
    error: JournalError | None = None
    future: asyncio.Future[None] = field(init=False)

    def __post_init__(self) -> None:
        self.future = self.loop.create_future()


class Writer:
    """Owns the connection; `work` is the body of its thread. None in the queue ends it too."""

    def __init__(self, path: Path, durable: bool, changes: "queue.SimpleQueue[Change | None]") -> None:
        self._path = path
        self._durable = durable
        self._changes = changes
        self._connection: sqlite3.Connection | None = None

    def work(self) -> None:
        """Commit changes until told to end; each waiter hears of its change when it is committed."""
        going = True
        while going:
            batch, going = self._gather()
            try:
                self._commit(batch)
            except Exception as error:  # whatever it is, nobody may be left waiting
                for change in batch:
                    change.error = JournalError(f"{self._path}: the journal cannot be used: {error}.")
            if not going:
                self._disconnect()
            _tell(batch)
            batch.clear()  # a change refers to its journal, which could not be collected while this thread waits

    def _gather(self) -> tuple[list[Change], bool]:
        """What waits in the queue, at least one item of it, and whether to go on after it."""
        batch: list[Change] = []
        item = self._changes.get()
        while item is not None:
            batch.append(item)
            if item.last:
                return batch, False
            if len(batch) == MAX_BATCH:
                return batch, True
            try:
                item = self._changes.get_nowait()
            except queue.Empty:
                return batch, True
        return batch, False

    def _commit(self, batch: Sequence[Change]) -> None:
        work = [change for change in batch if not change.last]
        if not work:
            return
        try:
            if self._connection is None:
                create = any(change.creates for change in work)
                self._connection = connect(self._path, create=create, durable=self._durable)
            self._transact(self._connection, work)
        except JournalError as error:  # the file cannot be opened
            for change in work:
                change.error = error
        except (sqlite3.Error, ValueError, OverflowError) as error:  # the latter: a text or number SQLite cannot hold
            if self._connection is not None:
                _roll_back(self._connection)
            if len(work) > 1:  # one bad change must not take the others along
                for change in work:
                    self._commit([change])
                return
            self._disconnect()  # a fresh connection next time, in case this one is spoilt
            if isinstance(error, DATABASE_ERRORS):
                work[0].error = explain(self._path, error)
            else:
                work[0].error = JournalError(f"{self._path}: the row cannot be stored: {error}.")

    @staticmethod
    def _transact(connection: sqlite3.Connection, work: Sequence[Change]) -> None:
        connection.execute("BEGIN IMMEDIATE")
        for change in work:
            change.error = None
            try:
                change.apply(connection)
            except JournalError as error:
                change.error = error
        connection.execute("COMMIT")

    def _disconnect(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(*DATABASE_ERRORS):
                self._connection.close()
            self._connection = None


def _tell(batch: Sequence[Change]) -> None:
    for loop in {change.loop for change in batch}:
        mine = [change for change in batch if change.loop is loop]
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(_settle, mine)


def _settle(changes: Sequence[Change]) -> None:
    for change in changes:
        if change.future.done():  # the waiter was cancelled
            continue
        if change.error is not None:
            change.future.set_exception(change.error)
        else:
            change.future.set_result(None)
