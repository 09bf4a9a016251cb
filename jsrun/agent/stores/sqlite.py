"""Sessions in one SQLite file that any number of processes may use at once.

A commit that was acknowledged is on the disk: the file is written ahead (WAL) and fully synchronous.
"""

import os
import sqlite3
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from jsrun.agent.errors import Corrupt, InvalidCommit
from jsrun.agent.message_json import message_from_json, message_to_json
from jsrun.agent.messages import Message
from jsrun.agent.session import (
    CommitAck,
    Session,
    SessionCommit,
    SessionInfo,
    check_commit,
    check_session_id,
    title_of,
)
from jsrun.agent.sources import utc_now
from jsrun.agent.stores.sqlite_file import Worker, transaction
from jsrun.canonical import json_text, parse_json

_INFO = "SELECT id, head, messages, created_at, updated_at, title FROM sessions ORDER BY changed DESC"
_COMMITS = "SELECT id, parent, messages FROM commits WHERE session = ? ORDER BY seq"
_INSERT_SESSION = (
    "INSERT INTO sessions(id, head, messages, created_at, updated_at, changed, title) VALUES (?, ?, 0, ?, ?, 0, '')"
)
_INSERT_COMMIT = (
    "INSERT INTO commits(session, seq, id, parent, messages)"
    " SELECT ?1, 1 + coalesce(max(seq), 0), ?2, ?3, ?4 FROM commits WHERE session = ?1"
)
# `changed` orders the list where two times are equal or a clock went back.
_UPDATE_SESSION = (
    "UPDATE sessions SET head = ?, messages = messages + ?, updated_at = ?,"
    " changed = 1 + (SELECT max(changed) FROM sessions), title = CASE title WHEN '' THEN ? ELSE title END WHERE id = ?"
)


class SqliteSessions:
    """A `SessionCatalog` in the file `path`, made (mode 0600, with its folder) by the first operation.

    `now` gives the times in `list`. Use it as an async context manager, or call `aclose()`.
    """

    def __init__(self, path: str | os.PathLike[str], now: Callable[[], datetime] = utc_now) -> None:
        self.path = Path(path)
        self._now = now
        self._worker = Worker(self.path)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Finish what is waiting, close the file and end the thread. Closing twice is fine."""
        await self._worker.aclose()

    def open(self, session_id: str) -> "SqliteStore":
        """The store of a session, which need not exist yet. ValueError for a bad id."""
        return SqliteStore(check_session_id(session_id), self._worker, self._now)

    async def list(self) -> tuple[SessionInfo, ...]:
        """The sessions that were written, the one changed last first. Raises Unavailable or Corrupt."""
        return await self._worker.do(_list)

    async def delete(self, session_id: str) -> None:
        """Remove a session with its commits; one that is not there is fine. Raises Unavailable or Corrupt."""
        check_session_id(session_id)

        def work(connection: sqlite3.Connection) -> None:
            with transaction(connection):
                connection.execute("DELETE FROM commits WHERE session = ?", [session_id])
                connection.execute("DELETE FROM sessions WHERE id = ?", [session_id])

        await self._worker.do(work)


class SqliteStore:
    """The `SessionStore` of one session in a `SqliteSessions`."""

    def __init__(self, session_id: str, worker: Worker, now: Callable[[], datetime]) -> None:
        self._session_id = session_id
        self._worker = worker
        self._now = now

    @property
    def session_id(self) -> str:
        """The id of the session."""
        return self._session_id

    async def load(self) -> Session:
        """Head and messages, every one of them checked. Raises Unavailable or Corrupt."""
        return await self._worker.do(lambda connection: _load(connection, self._session_id))

    async def commit(self, commit: SessionCommit) -> CommitAck:
        """Append the commit if its parent is the head; when this returns, it is on the disk. Raises SessionError."""
        return await self._worker.do(lambda connection: CommitAck(self._append(connection, commit)))

    def _append(self, connection: sqlite3.Connection, commit: SessionCommit) -> str:
        text = _messages_text(commit)
        with transaction(connection):
            row = connection.execute("SELECT head FROM sessions WHERE id = ?", [self._session_id]).fetchone()
            head: str | None = None if row is None else row[0]

            def same(commit: SessionCommit) -> bool | None:
                known = connection.execute(
                    "SELECT parent, messages FROM commits WHERE session = ? AND id = ?", [self._session_id, commit.id]
                ).fetchone()
                return None if known is None else known == (commit.parent, text)

            if not check_commit(commit, head, same):
                return head or commit.id
            at = self._now().isoformat()
            if row is None:
                connection.execute(_INSERT_SESSION, [self._session_id, commit.id, at, at])
            connection.execute(_INSERT_COMMIT, [self._session_id, commit.id, commit.parent, text])
            title = title_of(commit.messages)
            connection.execute(_UPDATE_SESSION, [commit.id, len(commit.messages), at, title, self._session_id])
            return commit.id


def _messages_text(commit: SessionCommit) -> str:
    try:
        return json_text([message_to_json(message) for message in commit.messages])
    except ValueError as error:
        raise InvalidCommit(f"the messages cannot be stored: {error}") from None


def _list(connection: sqlite3.Connection) -> tuple[SessionInfo, ...]:
    found = []
    for id, head, messages, created, updated, title in connection.execute(_INFO):
        try:
            times = datetime.fromisoformat(created), datetime.fromisoformat(updated)
        except (TypeError, ValueError):
            raise Corrupt(f"session {id}: its times are not those of a session") from None
        found.append(SessionInfo(id, head, messages, *times, title))
    return tuple(found)


def _load(connection: sqlite3.Connection, session_id: str) -> Session:
    with transaction(connection, "DEFERRED"):
        row = connection.execute("SELECT head FROM sessions WHERE id = ?", [session_id]).fetchone()
        rows = connection.execute(_COMMITS, [session_id]).fetchall()
    head: str | None = None if row is None else row[0]
    messages: list[Message] = []
    before: str | None = None
    for id, parent, text in rows:
        if parent != before:
            raise Corrupt(f"session {session_id}: commit {id} does not follow {before or 'the beginning'}")
        messages += _messages(session_id, id, text)
        before = id
    if before != head:
        raise Corrupt(
            f"session {session_id}: the last commit is {before or 'missing'}, the head is {head or 'missing'}"
        )
    return Session(head, tuple(messages))


def _messages(session_id: str, commit_id: object, text: object) -> list[Message]:
    place = f"session {session_id}: commit {commit_id}"
    try:
        # What is written is ASCII, so anything else is damage.
        data = parse_json(text) if isinstance(text, str) and text.isascii() else None
    except ValueError as error:
        raise Corrupt(f"{place} {error}") from None
    if not isinstance(data, list) or not data:
        raise Corrupt(f"{place} is no list of messages")
    found = []
    for index, item in enumerate(data):
        try:
            found.append(message_from_json(item))
        except ValueError as error:
            raise Corrupt(f"{place}: message {index} {error}") from None
    return found
