"""The SQLite store: what is in force, what survives, what is found damaged, what is out of reach."""

import asyncio
import signal
import sqlite3
import stat
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from jsrun.agent.errors import Corrupt, SessionError, Unavailable
from jsrun.agent.messages import UserMessage
from jsrun.agent.session import Session, SessionCommit
from jsrun.agent.stores import sqlite_file
from jsrun.agent.stores.sqlite import SqliteSessions
from tests.agent.helpers import PATIENCE_S

_CHILD = (sys.executable, "-m", "tests.agent.sqlite_child")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the file will be."""
    return tmp_path / "made" / "sessions.db"


@pytest.fixture
async def sessions(path: Path) -> AsyncIterator[SqliteSessions]:
    """A catalog with one session of two commits."""
    async with SqliteSessions(path) as catalog:
        store = catalog.open("s")
        await store.commit(SessionCommit("c1", None, (UserMessage("one"),)))
        await store.commit(SessionCommit("c2", "c1", (UserMessage("two"),)))
        yield catalog


def mode(path: Path) -> int:
    """The permissions of the file."""
    return stat.S_IMODE(path.stat().st_mode)


def contents(path: Path) -> bytes:
    """The bytes of the file."""
    return path.read_bytes()


def write(path: Path, content: bytes) -> None:
    """Make the file."""
    path.parent.mkdir()
    path.write_bytes(content)


def change(path: Path, statement: str) -> None:
    """Change the file behind the store's back, or make it."""
    path.parent.mkdir(exist_ok=True)
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(statement)
    connection.close()


async def test_the_file_is_private_and_fully_synchronous(sessions: SqliteSessions, path: Path) -> None:
    """AGT-051 Mode 0600, WAL and FULL are in force on the connection that commits."""
    assert mode(path) == 0o600
    asked = ("journal_mode", "synchronous", "foreign_keys", "trusted_schema", "busy_timeout")
    found = await sessions._worker.do(
        lambda connection: [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in asked]
    )
    assert found == ["wal", 2, 1, 0, 5000]


async def test_a_commit_survives_a_kill_right_after_its_answer(path: Path) -> None:
    """AGT-051 Every commit the killed process told of is there."""
    child = await asyncio.create_subprocess_exec(*_CHILD, "forever", str(path), stdout=asyncio.subprocess.PIPE)
    assert child.stdout is not None
    told: list[str] = []
    try:
        async with asyncio.timeout(PATIENCE_S):
            while len(told) < 25:
                told.append((await child.stdout.readline()).decode().strip())
    finally:
        child.send_signal(signal.SIGKILL)
        rest = await child.stdout.read()
        await child.wait()
    told += rest.decode().split()
    async with SqliteSessions(path) as catalog:
        stored = [message.content for message in (await catalog.open("s").load()).messages]
    assert stored[: len(told)] == told
    assert len(stored) <= len(told) + 1


async def test_two_processes_commit_on_one_session(path: Path) -> None:
    """AGT-049 Each commit lands or conflicts; those that landed are the session, in one chain."""
    children = [
        await asyncio.create_subprocess_exec(*_CHILD, "race", str(path), name, stdout=asyncio.subprocess.PIPE)
        for name in ("a", "b")
    ]
    async with asyncio.timeout(PATIENCE_S):
        outputs = [(await child.communicate())[0].decode().split() for child in children]
    assert [child.returncode for child in children] == [0, 0]
    landed = {id for output in outputs for id in output if not id.startswith("conflict")}
    conflicts = sum(id.startswith("conflict") for output in outputs for id in output)
    assert len(landed) + conflicts == 80
    async with SqliteSessions(path) as catalog:
        stored = [message.content for message in (await catalog.open("s").load()).messages]
    assert len(stored) == len(landed)
    assert set(stored) == landed


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE commits SET parent = 'c9' WHERE id = 'c2'", "commit c2"),
        ("UPDATE commits SET parent = 'c0' WHERE id = 'c1'", "commit c1"),
        ("DELETE FROM commits WHERE id = 'c1'", "commit c2"),
        ("DELETE FROM commits WHERE id = 'c2'", "c2"),
        ("UPDATE sessions SET head = 'c1'", "c1"),
        ("DELETE FROM sessions", "c2"),
        ("UPDATE commits SET messages = '[{\"role\": ' WHERE id = 'c2'", "commit c2"),
        ("UPDATE commits SET messages = '[NaN]' WHERE id = 'c2'", "commit c2"),
        ("UPDATE commits SET messages = '{}' WHERE id = 'c2'", "commit c2"),
        ("UPDATE commits SET messages = '[]' WHERE id = 'c2'", "commit c2"),
        ("UPDATE commits SET messages = '[{\"role\":\"user\"}]' WHERE id = 'c2'", "commit c2: message 0"),
        ('UPDATE commits SET messages = \'[{"role":"user","content":"x","more":1}]\' WHERE id = \'c2\'', "'more'"),
        ('UPDATE commits SET messages = \'[{"role":"user","content":1}]\' WHERE id = \'c2\'', "commit c2: message 0"),
        ('UPDATE commits SET messages = \'[{"role":"wizard","content":""}]\' WHERE id = \'c2\'', "'wizard'"),
        (
            'UPDATE commits SET messages = \'[{"role":"assistant","content":"","tool_calls":[{"id":"a"}]}]\''
            " WHERE id = 'c2'",
            "commit c2: message 0",
        ),
        ("UPDATE commits SET messages = CAST(x'5b22ff225d' AS TEXT) WHERE id = 'c2'", "commit c2"),
        ("UPDATE commits SET messages = x'5b5d' WHERE id = 'c2'", "commit c2"),
    ],
)
async def test_what_cannot_be_trusted_is_corrupt(
    sessions: SqliteSessions, path: Path, statement: str, words: str
) -> None:
    """AGT-052 A broken chain and bad JSON, each naming the commit."""
    change(path, statement)
    with pytest.raises(Corrupt, match=words):
        await sessions.open("s").load()


async def test_a_newer_file_is_corrupt_and_stays_as_it_is(sessions: SqliteSessions, path: Path) -> None:
    """AGT-052 The message names both versions."""
    await sessions.aclose()
    change(path, "PRAGMA user_version = 2")
    before = contents(path)
    with pytest.raises(Corrupt, match="version 2"):
        await sessions.open("s").load()
    with pytest.raises(Corrupt, match="version 2"):
        await sessions.open("s").commit(SessionCommit("c3", "c2", (UserMessage("x"),)))
    assert contents(path) == before


@pytest.mark.parametrize("content", [b"no database at all, but long enough to be looked at" * 100, None])
async def test_a_foreign_file_is_corrupt(path: Path, content: bytes | None) -> None:
    """AGT-052 Another program's database, or no database at all, is not touched."""
    if content is None:
        change(path, "CREATE TABLE theirs(x)")
    else:
        write(path, content)
    before = contents(path)
    async with SqliteSessions(path) as catalog:
        with pytest.raises(Corrupt, match=r"sessions\.db"):
            await catalog.list()
    assert contents(path) == before


async def test_a_locked_file_is_unavailable(
    sessions: SqliteSessions, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AGT-052 Once the holder lets go, the same commit lands."""
    await sessions.aclose()
    monkeypatch.setattr(sqlite_file, "BUSY_SECONDS", 0.05)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    commit = SessionCommit("c3", "c2", (UserMessage("x"),))
    with pytest.raises(Unavailable, match="locked"):
        await sessions.open("s").commit(commit)
    assert (await sessions.open("s").load()).head == "c2", "reading needs no lock"
    holder.execute("ROLLBACK")
    holder.close()
    assert (await sessions.open("s").commit(commit)).head == "c3"


@pytest.mark.parametrize(
    ("pragma", "undo", "words"),
    [
        ("query_only = ON", "query_only = OFF", "read-only"),
        ("max_page_count = 1", "max_page_count = 1000000", "full"),
    ],
)
async def test_a_read_only_or_full_file_is_unavailable(
    sessions: SqliteSessions, pragma: str, undo: str, words: str
) -> None:
    """AGT-052 Nothing has changed, and afterwards the same commit lands."""
    commit = SessionCommit("c3", "c2", (UserMessage("x" * 100_000),))
    await sessions._worker.do(lambda connection: connection.execute(f"PRAGMA {pragma}").fetchall())
    with pytest.raises(Unavailable, match=words):
        await sessions.open("s").commit(commit)
    assert await sessions.open("s").load() == Session("c2", (UserMessage("one"), UserMessage("two")))
    await sessions._worker.do(lambda connection: connection.execute(f"PRAGMA {undo}").fetchall())
    assert (await sessions.open("s").commit(commit)).head == "c3"


async def test_a_path_that_cannot_be_is_unavailable(tmp_path: Path) -> None:
    """AGT-052 A folder, a path below a file, a folder that is not there."""
    (tmp_path / "file").write_text("x")
    for path in (tmp_path, tmp_path / "file" / "x.db", tmp_path / "a" / "b" / "x.db", tmp_path / "nul\0"):
        async with SqliteSessions(path) as catalog:
            with pytest.raises(Unavailable):
                await catalog.list()


async def test_many_at_once_use_one_thread(sessions: SqliteSessions) -> None:
    """AGT-050 Sessions of one catalog are served in turn, and closing ends the thread."""

    async def fill(name: str) -> None:
        store, head = sessions.open(name), None
        for number in range(5):
            head = (await store.commit(SessionCommit(f"c{number}", head, (UserMessage(name),)))).head

    await asyncio.gather(*(fill(f"s{number}") for number in range(20)))
    assert len(await sessions.list()) == 21
    ours = [thread for thread in threading.enumerate() if thread.name.startswith("jsrun sessions")]
    assert len(ours) == 1
    await sessions.aclose()
    assert not ours[0].is_alive()
    assert (await sessions.open("s3").load()).messages == (UserMessage("s3"),) * 5


def test_session_errors_are_one_line() -> None:
    """AGT-052 Whatever SQLite says."""
    for text in ("database is locked", "file is not a database", "attempt to write a readonly database", "odd\nerror"):
        error = sqlite_file.explain(Path("x.db"), sqlite3.OperationalError(text))
        assert isinstance(error, SessionError)
        assert "\n" not in str(error)
