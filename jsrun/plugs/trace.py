"""The message log of sessions: what passed, when, how large, how long it took and how it ended; bodies if asked for."""

import asyncio
import json
import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass

from jsrun.plugs._answers import Passed
from jsrun.plugs.journal import SessionJournal


@dataclass(frozen=True, slots=True)
class Line:
    """One message. `at` in seconds since 1970, `size` in bytes, `elapsed` in seconds, None for a notification."""

    number: int
    at: float
    direction: str
    kind: str
    method: str
    size: int
    elapsed: float | None
    outcome: str
    body: str | None


class Tracer:
    """Writes what passes into the journal, behind the messages. `hide` takes secrets out of a text."""

    def __init__(self, journal: SessionJournal, *, bodies: bool, hide: Callable[[str], str]) -> None:
        self._journal = journal
        self._bodies = bodies
        self._hide = hide
        self._rows: list[tuple[object, ...]] = []
        self._writing: asyncio.Task[None] | None = None

    def __call__(self, session: str, passed: Passed) -> None:
        """See Observer."""
        message = passed.message
        elapsed = passed.ended - passed.began if message.kind == "request" else None
        outcome = "ok" if passed.error is None else f"error {passed.error.code}"
        body = None
        if self._bodies:
            whole = {"params": message.params, "result": passed.result}
            body = self._hide(json.dumps(whole))
        method = self._hide(message.method)
        self._rows.append(
            (session, time.time(), message.direction, message.kind, method, passed.size, elapsed, outcome, body)
        )
        if self._writing is None:
            self._writing = asyncio.create_task(self._write())

    async def aclose(self) -> None:
        """Write what is left."""
        while self._writing is not None:
            await asyncio.wait({self._writing})

    async def _write(self) -> None:
        try:
            while self._rows:
                rows, self._rows = self._rows, []
                await self._journal.do(
                    lambda connection, rows=rows: connection.executemany(  # type: ignore[misc]  # bound now
                        "INSERT INTO trace VALUES(?,?,?,?,?,?,?,?,?)", rows
                    )
                )
        finally:
            self._writing = None


async def lines(journal: SessionJournal, session: str, after: int = 0) -> list[Line]:
    """The messages of a session behind number `after`, in order."""

    def work(connection: sqlite3.Connection) -> list[Line]:
        query = (
            "SELECT rowid, at, direction, kind, method, size, elapsed, outcome, body FROM trace"
            " WHERE session = ? AND rowid > ? ORDER BY rowid"
        )
        return [Line(*row) for row in connection.execute(query, (session, after))]

    return await journal.do(work)
