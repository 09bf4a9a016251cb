"""Sessions in memory: for tests, and for agents whose conversations may end with the process."""

import builtins
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

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


class MemorySessions:
    """A `SessionCatalog` that lives as long as this object. `now` gives the times in `list`."""

    def __init__(self, now: Callable[[], datetime] = utc_now) -> None:
        self._now = now
        self._records: dict[str, _Record] = {}
        self._changes = 0

    def open(self, session_id: str) -> "MemoryStore":
        """The store of a session, which need not exist yet. ValueError for a bad id."""
        return MemoryStore(self, check_session_id(session_id))

    async def list(self) -> tuple[SessionInfo, ...]:
        """The sessions that were written, the one changed last first."""
        newest = sorted(self._records.items(), key=lambda item: item[1].changed, reverse=True)
        return tuple(
            SessionInfo(id, record.head, len(record.messages), record.created, record.updated, title_of(record.all()))
            for id, record in newest
        )

    async def delete(self, session_id: str) -> None:
        """Remove a session; one that is not there is fine. ValueError for a bad id."""
        self._records.pop(check_session_id(session_id), None)

    def _append(self, session_id: str, commit: SessionCommit) -> str:
        record = self._records.get(session_id)
        known = {} if record is None else record.commits

        def same(commit: SessionCommit) -> bool | None:
            return None if commit.id not in known else known[commit.id] == commit

        if not check_commit(commit, None if record is None else record.head, same):
            return record.head if record is not None else commit.id
        at = self._now()
        if record is None:
            record = self._records[session_id] = _Record(created=at, updated=at, head=commit.id)
        record.commits[commit.id] = commit
        record.messages.extend(commit.messages)
        record.head, record.updated = commit.id, at
        self._changes += 1
        record.changed = self._changes
        return commit.id

    def _session(self, session_id: str) -> Session:
        record = self._records.get(session_id)
        return Session(None, ()) if record is None else Session(record.head, record.all())


@dataclass(slots=True)
class _Record:
    created: datetime
    updated: datetime
    head: str
    commits: dict[str, SessionCommit] = field(default_factory=dict)
    messages: builtins.list[Message] = field(default_factory=list)
    changed: int = 0

    def all(self) -> tuple[Message, ...]:
        return tuple(self.messages)


class MemoryStore:
    """The `SessionStore` of one session in a `MemorySessions`."""

    def __init__(self, sessions: MemorySessions, session_id: str) -> None:
        self._sessions = sessions
        self._session_id = session_id

    @property
    def session_id(self) -> str:
        """The id of the session."""
        return self._session_id

    async def load(self) -> Session:
        """Head and messages."""
        return self._sessions._session(self._session_id)

    async def commit(self, commit: SessionCommit) -> CommitAck:
        """Append the commit if its parent is the head. Raises InvalidCommit, Corrupt or ParentConflict."""
        return CommitAck(self._sessions._append(self._session_id, commit))
