"""Opening the SQLite files of sessions: private, with a write-ahead log, durable at every commit."""

import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path

# How long another process may hold the file before a write gives up.
BUSY_SECONDS = 5.0


def connect(path: Path, schema: Sequence[str], version: int) -> sqlite3.Connection:
    """Open the database at `path`, making it, with mode 0600, and its tables if need be; in autocommit mode.

    sqlite3.Error or OSError if it cannot be opened, ValueError if it is a database of another kind or version.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Made before SQLite opens it, so that it never has other rights; SQLite gives its side files the same.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        _make(path, connection, schema, version)
    except BaseException:
        connection.close()
        raise
    return connection


def _make(path: Path, connection: sqlite3.Connection, schema: Sequence[str], version: int) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        found = connection.execute("PRAGMA user_version").fetchone()[0]
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if found == 0 and tables == 0:
            for statement in schema:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {version}")
        elif found != version:
            raise ValueError(f"{path}: this database has version {found}; this program reads version {version}.")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
