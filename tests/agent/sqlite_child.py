"""A process of its own for the tests of the SQLite store: `forever PATH`, or `race PATH NAME`."""

import asyncio
import sys
from pathlib import Path

from jsrun.agent.errors import ParentConflict
from jsrun.agent.messages import UserMessage
from jsrun.agent.session import SessionCommit
from jsrun.agent.stores.sqlite import SqliteSessions


async def forever(path: Path) -> None:
    """Commit until killed, and tell of each commit that was answered."""
    async with SqliteSessions(path) as sessions:
        store, head = sessions.open("s"), None
        number = 0
        while True:
            id = f"c{number}"
            head = (await store.commit(SessionCommit(id, head, (UserMessage(id),)))).head
            print(head, flush=True)
            number += 1


async def race(path: Path, name: str) -> None:
    """Commit forty times on whatever head there is, and tell which landed."""
    async with SqliteSessions(path) as sessions:
        store = sessions.open("s")
        for number in range(40):
            id = f"{name}{number}"
            head = (await store.load()).head
            try:
                await store.commit(SessionCommit(id, head, (UserMessage(id),)))
            except ParentConflict:
                print(f"conflict-{id}")
            else:
                print(id)


if __name__ == "__main__":
    if sys.argv[1] == "forever":
        asyncio.run(forever(Path(sys.argv[2])))
    else:
        asyncio.run(race(Path(sys.argv[2]), sys.argv[3]))
