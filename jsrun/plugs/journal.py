"""The journal of sessions: what each is, how far its runs came, and who owns it. Written before each step is made.

One SQLite file, for any number of processes. A session is owned by an open file with a lock, which dies with the
process: whoever has it performs the session's run.
"""

import asyncio
import contextlib
import fcntl
import json
import os
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, TypeVar, get_args

from jsrun.plugs import _sqlite
from jsrun.plugs._steps import History
from jsrun.plugs.errors import ControllerError, SessionBusy, UnknownSession
from jsrun.plugs.infos import EndReason, RunInfo
from jsrun.plugs.runner import RunEnd

T = TypeVar("T")

State: TypeAlias = Literal["running", "paused", "interrupted", "ending", "leftover", "ended"]
Ask: TypeAlias = Literal["pause", "end"]

_STATES: Final[tuple[str, ...]] = get_args(State)
_VERSION: Final = 1
_SCHEMA: Final = (
    "CREATE TABLE session(id TEXT PRIMARY KEY, execution_id TEXT, state TEXT NOT NULL, reason TEXT, error TEXT,"
    " setup TEXT NOT NULL, agent TEXT NOT NULL, policy TEXT NOT NULL, runs INTEGER NOT NULL, ran REAL NOT NULL,"
    " created REAL NOT NULL, changed REAL NOT NULL, tearing INTEGER NOT NULL, loaded TEXT NOT NULL,"
    " handed TEXT NOT NULL, agent_pid INTEGER, agent_started TEXT, attached TEXT NOT NULL)",
    "CREATE TABLE event(session TEXT NOT NULL REFERENCES session ON DELETE CASCADE, seq INTEGER NOT NULL,"
    " at REAL NOT NULL, run INTEGER NOT NULL, step TEXT NOT NULL, plug TEXT, PRIMARY KEY(session, seq))",
    "CREATE TABLE request(session TEXT PRIMARY KEY, ask TEXT NOT NULL, reason TEXT NOT NULL)",
    "CREATE TABLE trace(session TEXT NOT NULL, at REAL NOT NULL, direction TEXT NOT NULL, kind TEXT NOT NULL,"
    " method TEXT NOT NULL, size INTEGER NOT NULL, elapsed REAL, outcome TEXT NOT NULL, body TEXT)",
    "CREATE INDEX trace_of ON trace(session)",
)


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """A session as recorded. Times are seconds since 1970, `ran` the seconds its runs took; `attached` open sessions
    of the protocol and what is needed to take them up again.
    """

    id: str
    execution_id: str | None
    state: State
    reason: EndReason | None
    error: str | None
    setup: dict[str, Any]
    agent: dict[str, Any]
    policy: dict[str, Any]
    runs: int
    ran: float
    created: float
    changed: float
    tearing: bool
    history: History
    agent_pid: int | None
    agent_started: str | None
    attached: dict[str, Any]

    @property
    def age(self) -> float:
        """Seconds since its state changed."""
        return time.time() - self.changed


def default_folder() -> Path:
    """Where journals are, unless somebody says otherwise."""
    base = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local" / "state")
    return Path(base) / "jsrun" / "plugs"


class SessionJournal:
    """The journal in `folder`, made when it is first used. ControllerError if it cannot be used."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self.path = self.folder / "sessions.db"
        self._connection: sqlite3.Connection | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="jsrun-plugs-journal")

    def close(self) -> None:
        """Finish what was begun and close the file."""
        self._thread.submit(self._disconnect).result()
        self._thread.shutdown()

    def lock(self, session: str) -> "SessionLock":
        """Own a session. SessionBusy if another process does."""
        return SessionLock(self.folder, session)

    async def create(self, record: SessionRecord) -> None:
        """Record a new session. ControllerError if its id is taken."""

        def work(connection: sqlite3.Connection) -> None:
            try:
                connection.execute(
                    "INSERT INTO session VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
                    (record.id, record.execution_id, record.state, None, None, json.dumps(record.setup),
                     json.dumps(record.agent), json.dumps(record.policy), 0, 0.0, record.created, record.changed, 0,
                     "[]", "[]", None, None, "{}"),
                )  # fmt: skip
            except sqlite3.IntegrityError:
                raise ControllerError(f"There is a session {record.id} already; give another id.") from None

        await self.do(work)

    async def get(self, session: str) -> SessionRecord:
        """A session. UnknownSession if there is none."""
        for record in await self.do(lambda connection: _select(connection, "WHERE id = ?", session)):
            return record
        raise UnknownSession(f"There is no session {session}.")

    async def all(self) -> list[SessionRecord]:
        """Every session, the oldest first."""
        return await self.do(lambda connection: _select(connection, "ORDER BY created, id"))

    async def update(self, session: str, **columns: Any) -> None:
        """Change columns; a new `state` also sets `changed`."""
        if "state" in columns:
            columns["changed"] = time.time()
        names = ", ".join(f"{name} = ?" for name in columns)
        values = tuple(columns.values())
        await self.do(
            lambda connection: connection.execute(f"UPDATE session SET {names} WHERE id = ?", (*values, session))
        )

    async def step(self, session: str, run: int, step: str, plug: str | None = None, **columns: Any) -> None:
        """Record a step, and what it changes of the session, at once."""

        def work(connection: sqlite3.Connection) -> None:
            (seq,) = connection.execute("SELECT count(*) FROM event WHERE session = ?", (session,)).fetchone()
            connection.execute("INSERT INTO event VALUES(?,?,?,?,?,?)", (session, seq, time.time(), run, step, plug))
            if columns:
                names = ", ".join(f"{name} = ?" for name in columns)
                connection.execute(f"UPDATE session SET {names} WHERE id = ?", (*columns.values(), session))

        if "state" in columns:
            columns["changed"] = time.time()
        await self.do(work)

    async def steps(self, session: str) -> list[tuple[int, str, str | None]]:
        """The steps of a session: run, step and plug, in order."""
        query = "SELECT run, step, plug FROM event WHERE session = ? ORDER BY seq"
        return await self.do(lambda connection: connection.execute(query, (session,)).fetchall())

    async def ask(self, session: str, ask: Ask, reason: str) -> None:
        """Leave a request for the process that owns a session."""
        await self.do(
            lambda connection: connection.execute(
                "INSERT OR REPLACE INTO request VALUES(?,?,?)", (session, ask, reason)
            )
        )

    async def asked(self, session: str) -> tuple[str, str] | None:
        """Take the request that was left for the owner, None if there is none."""

        def work(connection: sqlite3.Connection) -> tuple[str, str] | None:
            found: tuple[str, str] | None = connection.execute(
                "SELECT ask, reason FROM request WHERE session = ?", (session,)
            ).fetchone()
            if found is not None:
                connection.execute("DELETE FROM request WHERE session = ?", (session,))
            return found

        return await self.do(work)

    async def do(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do something as one transaction that is durable on return."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._transaction, work)

    def _transaction(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            if self._connection is None:
                self._connection = _sqlite.connect(self.path, _SCHEMA, _VERSION)
            connection = self._connection
            connection.execute("BEGIN IMMEDIATE")
            try:
                result = work(connection)
                connection.execute("COMMIT")
                return result
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        except (sqlite3.Error, OSError, ValueError) as error:
            raise ControllerError(f"{self.path}: the journal cannot be used: {error}") from None

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class SessionLock:
    """The ownership of a session, until it is let go or the process is gone."""

    def __init__(self, folder: Path, session: str) -> None:
        locks = folder / "locks"
        locks.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file = os.open(locks / session, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._file)
            raise SessionBusy(f"The session {session} belongs to another process.") from None

    def release(self) -> None:
        """Let the session go. Twice is fine."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class JournalRecorder:
    """Writes the steps of one run of one session; see RunRecorder. `hide` takes secrets out of an error's text."""

    def __init__(
        self, journal: SessionJournal, record: SessionRecord, run: RunInfo, hide: Callable[[str], str] = str
    ) -> None:
        self._hide = hide
        self._journal = journal
        self._session = record.id
        self._run = run
        self._ran = record.ran
        self._started = time.monotonic()
        self._loaded = set(record.history.loaded)
        self._handed = set(record.history.handed)

    async def run_started(self, run: RunInfo) -> None:
        """See RunRecorder."""
        state = "ending" if run.kind == "teardown" else "running"
        await self._step(f"run {run.kind}", state=state, runs=run.number, agent_pid=None, agent_started=None)

    async def loaded(self, plug: str) -> None:
        """See StepRecorder."""
        self._loaded.add(plug)
        await self._step("load", plug, loaded=json.dumps(sorted(self._loaded)))

    async def attached(self, plug: str) -> None:
        """See StepRecorder."""
        await self._step("attach", plug)

    async def handed(self, plug: str, host: bool) -> None:
        """See StepRecorder."""
        (self._handed.add if host else self._handed.discard)(plug)
        await self._step("handed" if host else "not handed", plug, handed=json.dumps(sorted(self._handed)))

    async def agent_started(self, pid: int | None, started: str | None) -> None:
        """See RunRecorder."""
        await self._step("agent", agent_pid=pid, agent_started=started)

    async def stopping(self, reason: EndReason) -> None:
        """See StepRecorder."""
        await self._step("stopping", reason=reason)

    async def paused(self, plug: str) -> None:
        """See StepRecorder."""
        await self._step("pause", plug)

    async def tearing(self, reason: EndReason) -> None:
        """See RunRecorder."""
        await self._step("tearing", state="ending", reason=reason, tearing=1)

    async def torn(self, plug: str) -> None:
        """See StepRecorder."""
        await self._step("teardown", plug)

    async def ended(self, end: RunEnd) -> None:
        """See RunRecorder."""
        ran = self._ran + time.monotonic() - self._started
        error = None if end.error is None else self._hide(f"{type(end.error).__name__}: {end.error}")
        more = {"attached": "{}"} if end.state != "paused" else {}
        await self._step("ended", state=end.state, reason=end.reason, error=error, ran=ran, agent_pid=None, **more)

    async def _step(self, step: str, plug: str | None = None, **columns: Any) -> None:
        await self._journal.step(self._session, self._run.number, step, plug, **columns)


def _select(connection: sqlite3.Connection, where: str, *values: str) -> list[SessionRecord]:
    rows = connection.execute(
        "SELECT id, execution_id, state, reason, error, setup, agent, policy, runs, ran, created, changed, tearing,"
        f" loaded, handed, agent_pid, agent_started, attached FROM session {where}",
        values,
    )
    return [_record(row) for row in rows]


def _record(row: tuple[Any, ...]) -> SessionRecord:
    """A row, checked: the file may be damaged. ValueError for what is no record."""
    setup, agent, policy, loaded, handed, attached = (json.loads(row[at]) for at in (5, 6, 7, 13, 14, 17))
    if row[2] not in _STATES or not all(isinstance(part, dict) for part in (setup, agent, policy, attached)):
        raise ValueError(f"the session {row[0]!r} is damaged")
    return SessionRecord(
        id=str(row[0]), execution_id=row[1], state=row[2], reason=row[3], error=row[4], setup=setup, agent=agent,
        policy=policy, runs=int(row[8]), ran=float(row[9]), created=float(row[10]), changed=float(row[11]),
        tearing=bool(row[12]), history=History(frozenset(loaded), frozenset(handed)), agent_pid=row[15],
        agent_started=row[16], attached=attached,
    )  # fmt: skip


def is_locked(journal: SessionJournal, session: str) -> bool:
    """Does a living process own the session?"""
    with contextlib.suppress(SessionBusy):
        journal.lock(session).release()
        return False
    return True
