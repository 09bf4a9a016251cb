"""Both session stores pass the shipped suite."""

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from jsrun.agent.session import SessionCatalog
from jsrun.agent.stores.memory import MemorySessions
from jsrun.agent.stores.sqlite import SqliteSessions
from jsrun.agent.testing_stores import SessionStoreContract


class TestMemory(SessionStoreContract):
    """AGT-047 AGT-048 AGT-049 AGT-050"""

    @asynccontextmanager
    async def catalog(self) -> AsyncIterator[SessionCatalog]:
        """A catalog in memory."""
        yield MemorySessions()


class TestSqlite(SessionStoreContract):
    """AGT-047 AGT-048 AGT-049 AGT-050"""

    @asynccontextmanager
    async def catalog(self) -> AsyncIterator[SessionCatalog]:
        """A catalog in a file of its own."""
        with tempfile.TemporaryDirectory() as folder:
            async with SqliteSessions(Path(folder) / "sessions.db") as sessions:
                yield sessions
