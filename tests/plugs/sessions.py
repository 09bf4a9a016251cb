"""What the tests of sessions share: a plug that notes its phases, setups, a client, and controllers in a folder."""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from jsrun.plugs import Plug
from jsrun.plugs.config import Policy, Setup, parse_setup
from jsrun.plugs.controller import SessionController
from jsrun.plugs.journal import SessionJournal
from jsrun.plugs.persist import SqliteStore
from jsrun.plugs.testing.peer import Peer

# The longest a test waits; only a failing one waits so long.
PATIENCE_S = 30.0
AGENT = Path(__file__).with_name("plain_agent.py")


class Noting(Plug, name="noting"):
    """Makes a place, a file, and removes it; notes every phase in a file."""

    class Inputs(BaseModel):
        """Where to note, and what to fail at."""

        notes: str
        fail: str = ""

    class Persisted(BaseModel):
        """What it made."""

        place: str

    async def load(self) -> None:
        """Note it."""
        self._note("load")

    async def session(self, next: Any) -> None:
        """Make the place, or find it again."""
        self._note(f"attach {self.ctx.run.kind}")
        place = Path(self.inputs.notes).with_suffix(f".{self.ctx.plug.id}.place")
        if self.persisted.value is None:
            await self.persisted.set(Noting.Persisted(place=str(place)))
            place.touch()
        info = await next()
        self._note(f"pause {info.reason}")

    async def teardown(self, next: Any) -> None:
        """Remove the place; nothing to remove is fine."""
        info = await next()
        self._note(f"teardown {info.reason}")
        if self.inputs.fail == "teardown":
            raise RuntimeError("cannot be removed")
        Path(self.inputs.notes).with_suffix(f".{self.ctx.plug.id}.place").unlink(missing_ok=True)

    def _note(self, text: str) -> None:
        with Path(self.inputs.notes).open("a") as file:
            file.write(f"{self.ctx.plug.id}: {text}\n")


class Stiff(Noting, name="stiff"):
    """Cannot be resumed."""

    resumable = False


def setup_of(folder: Path, policy: str = "{}", plugs: tuple[str, ...] = ("Noting", "Noting"), fail: str = "") -> Setup:
    """A setup with these plugs of this module, called a, b, …"""
    entries = "\n".join(
        f"  - {{plug: 'tests.plugs.sessions:{name}', id: {'abc'[index]}, with: {{notes: {folder / 'notes'},"
        f" fail: '{fail}'}}}}"
        for index, name in enumerate(plugs)
    )
    text = f"policy: {policy}\nsetup:\n{entries}\n"
    path = folder / "setup.yaml"
    path.write_text(text)
    return parse_setup(text, str(path), folder)


def agent_of(folder: Path, *more: str) -> tuple[str, ...]:
    """The command of the agent without a library."""
    return (sys.executable, str(AGENT), str(folder / "asked"), *more)


class Client:
    """A client of the protocol in this process, with the streams a controller takes."""

    def __init__(self) -> None:
        self.peer = Peer("client", lambda peer, method, params: {"outcome": "yes"})
        self._reader = asyncio.StreamReader()
        self.peer.feed = self._feed

    @property
    def streams(self) -> Any:
        """Reader and writer."""
        return self._reader, self

    async def write(self, data: bytes, /) -> None:
        """What the controller writes."""
        await self.peer.accept(data)

    async def _feed(self, data: bytes) -> None:
        self._reader.feed_data(data)

    def leave(self) -> None:
        """The client is gone."""
        self._reader.feed_eof()

    async def open(self) -> None:
        """The handshake and one ACP session."""
        await self.ask("initialize", {"protocolVersion": 1})
        await self.ask("session/new", {"cwd": "/", "mcpServers": []})

    async def prompt(self, text: str) -> str:
        """One turn; why it stopped."""
        result = await self.ask("session/prompt", {"sessionId": "acp-1", "prompt": [{"type": "text", "text": text}]})
        return str(result["stopReason"])

    async def ask(self, method: str, params: Any) -> Any:
        """One request."""
        return await asyncio.wait_for(self.peer.request(method, params), PATIENCE_S)

    def updates(self) -> list[str]:
        """The updates so far."""
        return [params["update"] for kind, method, params in self.peer.got if method == "session/update"]


@asynccontextmanager
async def controlling(folder: Path, **options: Any) -> AsyncIterator[SessionController]:
    """A controller with journal and states in `folder`."""
    journal, store = SessionJournal(folder / "state"), SqliteStore(folder / "state" / "state.db")
    try:
        async with SessionController(journal, store, workspace=folder, **options) as controller:
            yield controller
    finally:
        store.close()
        journal.close()


def lines(path: Path) -> list[str]:
    """The lines of a file, none if it is not there."""
    return path.read_text().splitlines() if path.exists() else []


async def eventually(condition: Callable[[], Any]) -> None:
    """Wait for a condition, with patience."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110  # conditions of files and processes, which set no event
            await asyncio.sleep(0.02)


def policy(**parts: Any) -> Policy:
    """A policy."""
    return Policy.model_validate(parts)
