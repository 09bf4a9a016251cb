"""The journal in one SQLite file, written by one thread, readable by any process at any moment.

Writers put their change into a queue; the thread commits whatever has gathered as one transaction and then tells each
writer, so the event loop never waits for the disk and parallel calls share a commit. Reads use a connection of their
own in another thread. SQLite keeps a committed transaction whole when a process is killed; `durable=True` keeps it
through a power cut too.
"""

import asyncio
import os
import queue
import sqlite3
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from jsrun._journal_file import Change, Writer, reading
from jsrun._text import quoted
from jsrun._threads import in_thread
from jsrun.canonical import json_text
from jsrun.errors import JournalError, ResumeError
from jsrun.journal import (
    EntryRow,
    RunRecord,
    RunRow,
    already_there,
    not_claimed,
    not_open,
    not_open_row,
    row_there,
    unknown_run,
)
from jsrun.row_checks import entry_row, run_row

T = TypeVar("T")

_RUN_COLUMNS = tuple(field.name for field in fields(RunRow))
_ENTRY_COLUMNS = tuple(field.name for field in fields(EntryRow))
_ANSWER_COLUMNS = ("state", "answered", "clock_ms", "output", "err", "note", "spend", "elapsed_ms")

_INSERT_RUN = f"INSERT INTO run({', '.join(_RUN_COLUMNS)}) VALUES ({', '.join('?' * len(_RUN_COLUMNS))})"
_CLAIM_RUN = (
    "UPDATE run SET engine = ?, fuel = ?, attempt = ?, owner = ?, status = NULL, reason = NULL, result = NULL,"
    " ended_at = NULL WHERE run_id = ? AND attempt = ? AND (status IS NULL OR status = 'incomplete')"
)
# A row goes in only while its run goes on in this attempt: a process whose run was taken over cannot write any more.
_OPEN_ENTRY = (
    f"INSERT INTO entry({', '.join(_ENTRY_COLUMNS)}) SELECT {', '.join('?' * len(_ENTRY_COLUMNS))}"
    " WHERE EXISTS (SELECT 1 FROM run WHERE run_id = ? AND attempt = ? AND status IS NULL)"
)
_CLOSE_ENTRY = (
    f"UPDATE entry SET {', '.join(f'{name} = ?' for name in _ANSWER_COLUMNS)}"
    " WHERE run_id = ? AND attempt = ? AND seq = ? AND state = 'open'"
)
_END_RUN = (
    "UPDATE run SET status = ?, reason = ?, result = ?, ended_at = ?"
    " WHERE run_id = ? AND attempt = ? AND status IS NULL"
)
_ABANDON = "UPDATE entry SET state = 'abandoned' WHERE run_id = ? AND attempt = ? AND state = 'open'"


class SqliteJournal:
    """A `Journal` in the file `path`, made (mode 0600, with its folder) by the first run that is opened.

    Any number of journals, in any number of processes, may use one file. `durable` waits for the disk at each commit.
    Use it as an async context manager, or call `aclose()`; an abandoned one closes when it is collected. Every method
    raises JournalError, with the file's path, for what cannot be read or written.
    """

    def __init__(self, path: str | os.PathLike[str], durable: bool = False) -> None:
        self.path = Path(path)
        self.durable = durable
        self._lock = threading.Lock()
        self._queue: queue.SimpleQueue[Change | None] | None = None
        self._pid = 0
        self._closed = False
        self._finalizer: weakref.finalize[[queue.SimpleQueue[Change | None]], SqliteJournal] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Commit what is waiting, then close the file. Closing twice is fine."""
        with self._lock:
            self._closed = True
            changes, self._queue = self._queue, None
        if changes is None or self._pid != os.getpid():
            return
        if self._finalizer is not None:
            self._finalizer.detach()
        done = Change(lambda connection: None, asyncio.get_running_loop(), last=True)
        changes.put(done)
        await done.future

    async def open_run(self, row: RunRow) -> None:
        """Record a run that begins, or claim one for a resume (`attempt` above 1)."""

        def change(connection: sqlite3.Connection) -> None:
            if row.attempt == 1:
                try:
                    connection.execute(_INSERT_RUN, [getattr(row, name) for name in _RUN_COLUMNS])
                except sqlite3.IntegrityError:
                    raise JournalError(f"{self.path}: {already_there(row)}") from None
            else:
                values = (row.engine, row.fuel, row.attempt, row.owner, row.run_id, row.attempt - 1)
                if connection.execute(_CLAIM_RUN, values).rowcount != 1:
                    raise ResumeError(f"{self.path}: {not_claimed(row)}")

        await self._write(change, creates=row.attempt == 1)

    async def open(self, row: EntryRow) -> None:
        """Record a call before it is made, or a refusal."""

        def change(connection: sqlite3.Connection) -> None:
            values = [_column(row, name) for name in _ENTRY_COLUMNS]
            try:
                written = connection.execute(_OPEN_ENTRY, [*values, row.run_id, row.attempt]).rowcount
            except sqlite3.IntegrityError:
                raise JournalError(f"{self.path}: {row_there(row)}") from None
            if written != 1:
                raise JournalError(f"{self.path}: {not_open(row.run_id, row.attempt)}")

        await self._write(change)

    async def close(self, row: EntryRow) -> None:
        """Record the answer to an open call."""

        def change(connection: sqlite3.Connection) -> None:
            values = [_column(row, name) for name in _ANSWER_COLUMNS]
            if connection.execute(_CLOSE_ENTRY, [*values, *row.key]).rowcount != 1:
                raise JournalError(f"{self.path}: {not_open_row(row)}")

        await self._write(change)

    async def end_run(self, row: RunRow) -> None:
        """Record how the run ended; its open rows become `abandoned`."""

        def change(connection: sqlite3.Connection) -> None:
            values = (row.status, row.reason, row.result, row.ended_at, row.run_id, row.attempt)
            if connection.execute(_END_RUN, values).rowcount != 1:
                raise JournalError(f"{self.path}: {not_open(row.run_id, row.attempt)}")
            connection.execute(_ABANDON, (row.run_id, row.attempt))

        await self._write(change)

    async def read(self, run_id: str) -> RunRecord:
        """The run and all its rows, every column checked."""
        return await in_thread(self._read, run_id)

    async def runs(self, on_damaged: Callable[[str], None] | None = None) -> Sequence[RunRow]:
        """All runs, the newest first.

        A row that was damaged is a JournalError; with `on_damaged` it is left out, and the function told, so that one
        bad row does not hide the good ones.
        """
        rows, damaged = await in_thread(self._runs, on_damaged is not None)
        for problem in damaged:
            if on_damaged is not None:
                on_damaged(problem)
        return rows

    async def verify(self) -> None:
        """Nothing is written: JournalError if the file is there and no journal this version can use."""
        if self.path.exists():
            await in_thread(self._verify)

    async def prune(self, before: str) -> int:
        """Delete the runs that ended before this time (RFC 3339, UTC), with their rows; how many there were."""
        removed: list[int] = []

        def change(connection: sqlite3.Connection) -> None:
            removed.append(connection.execute("DELETE FROM run WHERE ended_at < ?", (before,)).rowcount)

        await self._write(change)
        return removed[-1]  # of the transaction that was committed

    async def _write(self, change: Callable[[sqlite3.Connection], None], creates: bool = False) -> None:
        waiting = Change(change, asyncio.get_running_loop(), creates=creates)
        self._put(waiting)
        await waiting.future

    def _put(self, change: Change) -> None:
        """Hand a change to the writer thread, started when it is first needed, and anew in a forked process."""
        with self._lock:  # so that nothing gets into the queue after the change that ends the thread
            if self._closed:
                raise JournalError(f"{self.path}: this journal has been closed.")
            if self._queue is None or self._pid != os.getpid():
                self._pid = os.getpid()
                self._queue = queue.SimpleQueue()
                writer = Writer(self.path, self.durable, self._queue)
                threading.Thread(target=writer.work, name=f"journal {self.path.name}", daemon=True).start()
                # Should nobody call `aclose`, the thread ends with the object; it must not refer back to it.
                self._finalizer = weakref.finalize(self, _end, self._queue)
            self._queue.put(change)

    def _read(self, run_id: str) -> RunRecord:
        with reading(self.path) as connection:
            # One transaction: the run and its rows as of one moment.
            connection.execute("BEGIN")
            found = _select(connection, f"SELECT {', '.join(_RUN_COLUMNS)} FROM run WHERE run_id = ?", run_id)
            columns = next(found, None)
            if columns is None:
                raise JournalError(f"{self.path}: {unknown_run(run_id)}")
            run = self._checked(run_row, columns)
            query = f"SELECT {', '.join(_ENTRY_COLUMNS)} FROM entry WHERE run_id = ? ORDER BY attempt, seq"
            return RunRecord(run, tuple(self._checked(entry_row, row) for row in _select(connection, query, run_id)))

    def _runs(self, forgiving: bool) -> tuple[tuple[RunRow, ...], list[str]]:
        rows: list[RunRow] = []
        damaged: list[str] = []
        with reading(self.path) as connection:
            query = f"SELECT {', '.join(_RUN_COLUMNS)} FROM run ORDER BY started_at DESC, run_id DESC"
            for columns in _select(connection, query):
                try:
                    rows.append(self._checked(run_row, columns))
                except JournalError as error:
                    if not forgiving:
                        raise
                    damaged.append(str(error))
        return tuple(rows), damaged

    def _verify(self) -> None:
        with reading(self.path):
            pass

    def _checked(self, check: Callable[[dict[str, object]], T], columns: dict[str, object]) -> T:
        try:
            return check(columns)
        except ValueError as error:
            place = f"run {_shown(columns['run_id'])}"
            if "seq" in columns:
                place += f", attempt {_shown(columns['attempt'])}, row {_shown(columns['seq'])}"
            raise JournalError(f"{self.path}: {place}: {error}. The file was changed or damaged.") from None


def _end(changes: "queue.SimpleQueue[Change | None]") -> None:
    changes.put(None)


def _column(row: EntryRow, name: str) -> object:
    if name == "spend":
        return None if row.spend is None else json_text(row.spend.to_json())
    return getattr(row, name)


def _select(connection: sqlite3.Connection, query: str, *values: object) -> Iterator[dict[str, object]]:
    cursor = connection.execute(query, values)
    names = [column[0] for column in cursor.description]
    return (dict(zip(names, row, strict=True)) for row in cursor)


def _shown(value: object) -> str:
    """A column of a broken row, in a message."""
    return quoted(value) if isinstance(value, str) else str(value) if isinstance(value, int) else "unreadable"
