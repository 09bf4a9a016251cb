"""Session stores: in memory and in one SQLite file."""

from jsrun.agent.stores.memory import MemorySessions
from jsrun.agent.stores.sqlite import SqliteSessions

__all__ = ["MemorySessions", "SqliteSessions"]
