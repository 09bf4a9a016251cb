"""The small state a plug keeps from one run of a session to the next, and the stores that hold it."""

import asyncio
import json
import sqlite3
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from jsrun.plugs import _sqlite
from jsrun.plugs.api import PlugLogger
from jsrun.plugs.errors import (
    Issue,
    SchemaError,
    StateClosed,
    StateCorrupt,
    StateInvalid,
    StateTooLarge,
    StateUnavailable,
)
from jsrun.plugs.schema import Validator

# State is for what a provider assigned, an id or an address; more belongs on a host.
MAX_BYTES = 16 * 1024
# From here on the log warns.
MANY_BYTES = 4 * 1024

P = TypeVar("P")
T = TypeVar("T")
_ROWS_VERSION = 1
_ROWS_SCHEMA = (
    "CREATE TABLE state(session TEXT NOT NULL, plug TEXT NOT NULL, value BLOB NOT NULL, PRIMARY KEY(session, plug))",
)


class StateStore(Protocol):
    """Where states lie, by session and plug id. What returned is durable; StateUnavailable if it fails."""

    async def get(self, session: str, plug: str) -> bytes | None:
        """The stored bytes, None if there are none. StateCorrupt if they are damaged."""
        ...

    async def put(self, session: str, plug: str, value: bytes) -> None:
        """Store the bytes in place of earlier ones."""
        ...

    async def delete(self, session: str, plug: str) -> None:
        """Forget them, if there are any."""
        ...

    async def delete_session(self, session: str) -> None:
        """Forget the states of all plugs of a session."""
        ...


class MemoryStore:
    """A store that lives as long as the object, for tests."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, str], bytes] = {}

    async def get(self, session: str, plug: str) -> bytes | None:
        """See StateStore."""
        return self.values.get((session, plug))

    async def put(self, session: str, plug: str, value: bytes) -> None:
        """See StateStore."""
        self.values[session, plug] = value

    async def delete(self, session: str, plug: str) -> None:
        """See StateStore."""
        self.values.pop((session, plug), None)

    async def delete_session(self, session: str) -> None:
        """See StateStore."""
        for key in [key for key in self.values if key[0] == session]:
            del self.values[key]


class SqliteStore:
    """A store in one SQLite file with mode 0600, made when it is first used. Several processes may use it."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._connection: sqlite3.Connection | None = None
        self._closed = False
        # One thread: it owns the connection, and calls come in the order in which they were made.
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="jsrun-plugs-state")

    async def get(self, session: str, plug: str) -> bytes | None:
        """See StateStore."""
        rows = await self._do("SELECT value FROM state WHERE session = ? AND plug = ?", session, plug)
        if not rows:
            return None
        value = rows[0][0]
        if not isinstance(value, bytes):
            raise StateCorrupt(f"{self.path}: the state of the plug {plug!r} is damaged.")
        return value

    async def put(self, session: str, plug: str, value: bytes) -> None:
        """See StateStore."""
        await self._do("INSERT OR REPLACE INTO state VALUES(?, ?, ?)", session, plug, value)

    async def delete(self, session: str, plug: str) -> None:
        """See StateStore."""
        await self._do("DELETE FROM state WHERE session = ? AND plug = ?", session, plug)

    async def delete_session(self, session: str) -> None:
        """See StateStore."""
        await self._do("DELETE FROM state WHERE session = ?", session)

    def close(self) -> None:
        """Finish what was begun and close the file; later calls raise StateUnavailable, closing again does nothing."""
        if self._closed:
            return
        self._closed = True
        self._thread.submit(self._disconnect).result()
        self._thread.shutdown()

    async def _do(self, statement: str, *values: str | bytes) -> list[Any]:
        if self._closed:
            raise StateUnavailable(f"{self.path}: the store is closed.")
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._execute, statement, values)

    def _execute(self, statement: str, values: tuple[str | bytes, ...]) -> list[Any]:
        try:
            if self._connection is None:
                self._connection = _sqlite.connect(self.path, _ROWS_SCHEMA, _ROWS_VERSION)
            return self._connection.execute(statement, values).fetchall()
        except (sqlite3.Error, OSError, ValueError) as error:
            raise StateUnavailable(f"{self.path}: the state of plugs cannot be read or written: {error}") from None

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class PersistedState(Generic[P]):
    """The state of one plug id in one session.

    `value` is what was stored last, validated; None if nothing is. Writes land in the order of their calls.
    """

    def __init__(
        self, store: StateStore, session: str, plug: str | None, validator: Validator | None, log: PlugLogger
    ) -> None:
        self._store = store
        self._session = session
        self._plug = plug
        self._validator = validator
        self._log = log
        self._value: P | None = None
        self._open = False
        self._order = asyncio.Lock()
        self._writes: set[asyncio.Task[None]] = set()

    @property
    def value(self) -> P | None:
        """What is stored, None if nothing is."""
        return self._value

    async def set(self, value: P) -> None:
        """Store `value`; durable on return. `self.value` becomes the validated copy.

        StateInvalid or StateTooLarge before anything is written; StateUnavailable if writing failed; StateClosed in
        `migrate` and after the plug's last handler.
        """
        plug = self._check_open()
        data, copy = self._prepared(value)
        await self._write(lambda: self._store.put(self._session, plug, data), copy)

    async def clear(self) -> None:
        """Forget what is stored; durable on return. Errors as for `set`."""
        plug = self._check_open()
        await self._write(lambda: self._store.delete(self._session, plug), None)

    async def load(self, migrate: Callable[[Any], Awaitable[Any]] | None) -> None:
        """For the runner, before the plug's `load`: read what is stored, and let `migrate` turn an outdated value.

        StateCorrupt if it is not JSON; StateInvalid if it does not fit and cannot be migrated, the stored value is kept
        then. What `migrate` raises is passed on.
        """
        if self._validator is not None and self._plug is not None:
            raw = await self._store.get(self._session, self._plug)
            if raw is not None:
                self._value = await self._current(self._plug, raw, self._validator, migrate)
        self._open = True

    async def close(self) -> None:
        """For the runner, after the plug's last handler: refuse writes, and wait for those that were begun."""
        self._open = False
        if self._writes:
            await asyncio.wait(self._writes)

    def give_up(self) -> None:
        """For the runner, where `close` takes too long: wait for no write any more, and begin none that still waits."""
        for task in self._writes:
            task.cancel()

    async def _current(
        self, plug: str, raw: bytes, validator: Validator, migrate: Callable[[Any], Awaitable[Any]] | None
    ) -> P | None:
        try:
            stored = json.loads(raw, parse_constant=_refuse)
        except (ValueError, RecursionError):
            raise StateCorrupt(f"The stored state of the plug {plug!r} is not JSON.") from None
        try:
            return self._validated(validator, stored)
        except SchemaError as error:
            if migrate is None:
                raise StateInvalid(
                    f"The stored state of the plug {plug!r} does not fit `Persisted`, and it has no `migrate`:",
                    error.issues,
                ) from None
        migrated = await migrate(stored)
        if migrated is None:
            await self._store.delete(self._session, plug)
            return None
        data, copy = self._prepared(migrated)
        await self._store.put(self._session, plug, data)
        return copy

    def _check_open(self) -> str:
        if not self._open:
            raise StateClosed("State cannot be written inside `migrate` or after the plug's last handler.")
        if self._validator is None:
            raise StateInvalid("This plug declares no `Persisted`, so it has no state.")
        if self._plug is None:
            raise StateInvalid("This plug has no `id` in the setup, so it has no state.")
        return self._plug

    def _prepared(self, value: Any) -> tuple[bytes, P]:
        """The bytes to store and the validated copy of `value`."""
        assert self._validator is not None
        try:
            data = self._validator.dump(value)
            copy = self._validated(self._validator, json.loads(data, parse_constant=_refuse))
        except SchemaError as error:
            raise StateInvalid("The state does not fit `Persisted`:", error.issues) from None
        except (ValueError, RecursionError) as error:
            raise StateInvalid("The state does not fit `Persisted`:", [Issue(str(error))]) from None
        if len(data) > MAX_BYTES:
            raise StateTooLarge(
                f"The state has {len(data):,} bytes as JSON; {MAX_BYTES:,} is the limit. Keep it on a host instead."
            )
        if len(data) > MANY_BYTES:
            self._log.warning("the persisted state is large", bytes=len(data))
        return data, copy

    @staticmethod
    def _validated(validator: Validator, value: Any) -> P:
        validated: P = validator.validate(value)
        return validated

    async def _write(self, write: Callable[[], Awaitable[None]], after: P | None) -> None:
        # In a task of its own: whoever waits may be cancelled, the write goes on.
        task = asyncio.create_task(self._in_order(write, after))
        self._writes.add(task)
        task.add_done_callback(self._written)
        await asyncio.shield(task)

    async def _in_order(self, write: Callable[[], Awaitable[None]], after: P | None) -> None:
        async with self._order:
            await write()
            self._value = after

    def _written(self, task: "asyncio.Task[None]") -> None:
        self._writes.discard(task)
        if not task.cancelled() and task.exception() is not None:  # its waiter may be gone
            self._log.error("the state could not be written", error=str(task.exception()))


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
