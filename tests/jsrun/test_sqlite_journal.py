"""The journal in a SQLite file: what a kill leaves, other processes, damaged files."""

import asyncio
import gc
import json
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jsrun import _journal_file
from jsrun.errors import JournalError
from jsrun.journal import RunRecord, RunRow, export_rows
from jsrun.spend import Spend
from jsrun.sqlite_journal import SqliteJournal
from tests.jsrun.journal_rows import AT, entry_row, run_row

RUN_COLUMNS = (
    "run_id parent_run_id name bundle_hash program_hash engine form input started_at clock_ms seed fuel attempt owner"
    " status reason result ended_at"
)
ENTRY_COLUMNS = (
    "run_id attempt seq call ref input input_hash step state at answered clock_ms output err note spend elapsed_ms"
)


def query(path: Path, sql: str, *values: object) -> list[tuple[object, ...]]:
    """Ask the file through a connection of our own, as another program would."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql, values).fetchall()


def columns(path: Path, table: str) -> str:
    """The names of the table's columns, separated by blanks."""
    return " ".join(str(row[1]) for row in query(path, f"PRAGMA table_info({table})"))


def modes(folder: Path) -> dict[str, int]:
    """The files of a folder and their permissions."""
    return {file.name: stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()}


def start(program: str, path: Path) -> "subprocess.Popen[str]":
    """A Python process that runs this program on this path."""
    command = [sys.executable, "-c", program, str(path)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def change(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


async def written(path: Path) -> RunRecord:
    """A file with one run of two calls, closed again."""
    async with SqliteJournal(path) as journal:
        run = run_row()
        await journal.open_run(run)
        row = entry_row(run.run_id, input={"path": "a.md"})
        await journal.open(row)
        await journal.close(
            replace(row, state="ok", answered=1, clock_ms=5, output='"text"', spend=Spend("m", 1, 1, 1))
        )
        await journal.open(entry_row(run.run_id, 2))
        return await journal.read(run.run_id)


async def test_the_file_has_the_documented_form(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    umask = os.umask(0)  # the mode must not depend on a umask that hides more
    async with SqliteJournal(path) as journal:
        await journal.open_run(run_row())
        os.umask(umask)
        assert modes(tmp_path) == {"journal.db": 0o600, "journal.db-wal": 0o600, "journal.db-shm": 0o600}
    assert query(path, "PRAGMA journal_mode") == [("wal",)]
    assert query(path, "PRAGMA user_version") == [(1,)]
    assert columns(path, "run") == RUN_COLUMNS
    assert columns(path, "entry") == ENTRY_COLUMNS
    assert "ON DELETE CASCADE" in str(query(path, "SELECT sql FROM sqlite_master WHERE name = 'entry'"))
    assert modes(tmp_path) == {"journal.db": 0o600}


async def test_a_row_is_readable_elsewhere_as_soon_as_it_is_written(tmp_path: Path) -> None:
    """JSR-094 (the journal's part): committed before the call returns, in the opening and in the closing row."""
    path = tmp_path / "journal.db"
    async with SqliteJournal(path) as journal:
        run = run_row()
        await journal.open_run(run)
        row = entry_row(run.run_id, input={"é": 1})
        await journal.open(row)
        assert query(path, "SELECT state, input, output FROM entry") == [("open", '{"\\u00e9":1}', None)]
        await journal.close(
            replace(row, state="ok", output='"x"', spend=Spend("m", 1, 2, 3), answered=1, elapsed_ms=2.5)
        )
        ((state, output, spend, answered, elapsed),) = query(
            path, "SELECT state, output, spend, answered, elapsed_ms FROM entry"
        )
        assert (state, output, answered, elapsed) == ("ok", '"x"', 1, 2.5)
        assert json.loads(str(spend))["input"] == 2
        await journal.end_run(replace(run, status="finished", ended_at=AT))
        assert query(path, "SELECT status FROM run") == [("finished",)]


CHILD = """
import asyncio, sys
from dataclasses import replace
from jsrun.sqlite_journal import SqliteJournal
from tests.jsrun.journal_rows import entry_row, run_row

async def call(journal, seq):
    row = entry_row("run", seq, input={"seq": seq})
    await journal.open(row)
    print("opened", seq, flush=True)
    if seq % 10 == 0:
        await asyncio.sleep(3600)  # a tool call that never answers
    await journal.close(replace(row, state="ok", answered=seq, output='"%s"' % ("x" * 5000)))
    print("closed", seq, flush=True)

async def main():
    journal = SqliteJournal(sys.argv[1])
    await journal.open_run(run_row("run"))
    for first in range(1, 100_000, 4):
        await asyncio.wait([asyncio.ensure_future(call(journal, first + n)) for n in range(4)], timeout=0.05)

asyncio.run(main())
"""


@pytest.mark.parametrize("lines", [1, 7, 60, 223])
async def test_a_killed_host_leaves_every_answered_call_complete(tmp_path: Path, lines: int) -> None:
    """JSR-095 (the journal's part): the call in flight is `open`, what was answered is there in full."""
    path = tmp_path / "journal.db"
    child = start(CHILD, path)
    assert child.stdout is not None
    seen = [child.stdout.readline() for _ in range(lines)]
    child.kill()
    seen += child.stdout.readlines()  # not communicate(): it would pass over what has been read ahead
    child.communicate()
    said = [line.split() for line in seen if line.endswith("\n")]
    opened = {int(seq) for word, seq in said if word == "opened"}
    closed = {int(seq) for word, seq in said if word == "closed"}
    async with SqliteJournal(path) as journal:
        record = await journal.read("run")
        states = {row.seq: row.state for row in record.entries}
        assert opened <= set(states)
        assert closed <= {seq for seq, state in states.items() if state == "ok"}
        for row in record.entries:
            assert row.input == f'{{"seq":{row.seq}}}'
            assert row.output == (None if row.state == "open" else f'"{"x" * 5000}"')
        assert all(states[seq] == "open" for seq in states if seq % 10 == 0)
        # What is left can be taken up and ended.
        await journal.open_run(replace(record.run, attempt=2))
        await journal.end_run(replace(record.run, attempt=2, status="finished", ended_at=AT))


WRITER = """
import asyncio, sys
from dataclasses import replace
from jsrun.sqlite_journal import SqliteJournal
from tests.jsrun.journal_rows import entry_row, run_row

async def main():
    async with SqliteJournal(sys.argv[1]) as journal:
        run = run_row()
        await journal.open_run(run)
        for seq in range(1, 101):
            row = entry_row(run.run_id, seq)
            await journal.open(row)
            await journal.close(replace(row, state="ok", output="1"))
        await journal.end_run(replace(run, status="finished"))

asyncio.run(main())
"""


async def test_several_processes_write_one_file_they_all_make(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    children = [start(WRITER, path) for _ in range(4)]
    for child in children:
        _, errors = child.communicate(timeout=60)
        assert child.returncode == 0, errors
    async with SqliteJournal(path) as journal:
        runs = await journal.runs()
        assert len(runs) == 4
        assert {row.status for row in runs} == {"finished"}
        for run in runs:
            record = await journal.read(run.run_id)
            assert [(row.seq, row.state) for row in record.entries] == [(seq, "ok") for seq in range(1, 101)]


async def test_parallel_calls_are_all_written(tmp_path: Path) -> None:
    async with SqliteJournal(tmp_path / "journal.db") as journal:
        run = run_row()
        await journal.open_run(run)

        async def call(seq: int) -> None:
            row = entry_row(run.run_id, seq)
            await journal.open(row)
            await journal.close(replace(row, state="ok", output=str(seq)))

        await asyncio.gather(*(call(seq) for seq in range(1, 401)))
        entries = (await journal.read(run.run_id)).entries
        assert [row.output for row in entries] == [str(seq) for seq in range(1, 401)]


async def test_a_bad_row_does_not_take_its_neighbours_along(tmp_path: Path) -> None:
    async with SqliteJournal(tmp_path / "journal.db") as journal:
        run = run_row()
        await journal.open_run(run)
        rows = [entry_row(run.run_id, seq) for seq in range(1, 8)]
        rows[1] = replace(rows[1], at="\ud800")  # no UTF-8 text
        rows[2] = replace(rows[2], step=2**70)  # no 64-bit number
        rows[3] = replace(rows[3], call="other")  # type: ignore[arg-type]  # refused by the table
        rows[4] = replace(rows[4], seq=1)  # already there
        outcomes = await asyncio.gather(*(journal.open(row) for row in rows), return_exceptions=True)
        assert [isinstance(outcome, JournalError) for outcome in outcomes] == [False] + [True] * 4 + [False] * 2
        assert [row.seq for row in (await journal.read(run.run_id)).entries] == [1, 6, 7]


async def test_a_cancelled_writer_does_not_disturb_the_next(tmp_path: Path) -> None:
    async with SqliteJournal(tmp_path / "journal.db") as journal:
        run = run_row()
        await journal.open_run(run)
        task = asyncio.ensure_future(journal.open(entry_row(run.run_id, 1)))
        await asyncio.sleep(0)
        task.cancel()
        await journal.open(entry_row(run.run_id, 2))
        with pytest.raises(asyncio.CancelledError):
            await task
        assert 2 in [row.seq for row in (await journal.read(run.run_id)).entries]


async def test_closing_commits_what_waits_and_ends_the_thread(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    journal = SqliteJournal(path, durable=True)
    run = run_row()
    await journal.open_run(run)
    waiting = [asyncio.ensure_future(journal.open(entry_row(run.run_id, seq))) for seq in range(1, 50)]
    await asyncio.sleep(0)
    await journal.aclose()
    await asyncio.gather(*waiting)
    await journal.aclose()
    assert query(path, "SELECT count(*) FROM entry") == [(49,)]
    with pytest.raises(JournalError, match="has been closed"):
        await journal.open(entry_row(run.run_id, 50))
    assert not journal_threads()


def journal_threads() -> list[str]:
    """Writer threads that are still there after a moment's patience."""
    for thread in threading.enumerate():
        if thread.name.startswith("journal "):
            thread.join(timeout=5)
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("journal ")]


def test_a_forgotten_journal_ends_its_thread(tmp_path: Path) -> None:
    async def main() -> None:
        await SqliteJournal(tmp_path / "journal.db").open_run(run_row())

    asyncio.run(main())
    gc.collect()
    assert not journal_threads()


def test_one_journal_serves_several_event_loops(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "journal.db")
    runs = [run_row(), run_row()]
    for run in runs:
        asyncio.run(journal.open_run(run))
    assert {row.run_id for row in asyncio.run(_runs_and_close(journal))} == {run.run_id for run in runs}


async def _runs_and_close(journal: SqliteJournal) -> list[RunRow]:
    async with journal:
        return list(await journal.runs())


async def test_pruning_deletes_runs_that_ended_before_a_time_with_their_rows(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with SqliteJournal(path) as journal:
        for name, ended in (("old", "2026-01-01T00:00:00Z"), ("new", "2026-02-01T00:00:00Z"), ("open", None)):
            run = run_row(name)
            await journal.open_run(run)
            await journal.open(entry_row(name))
            if ended:
                await journal.end_run(replace(run, status="finished", ended_at=ended))
        assert await journal.prune("2026-01-15T00:00:00Z") == 1
        assert {row.run_id for row in await journal.runs()} == {"new", "open"}
    assert query(path, "SELECT DISTINCT run_id FROM entry ORDER BY 1") == [("new",), ("open",)]


# Files that are no journal


async def fails(path: Path) -> str:
    """The message with which reading and writing this path fail; both must, and quickly."""
    async with SqliteJournal(path) as journal:
        with pytest.raises(JournalError) as reading:
            await journal.runs()
        with pytest.raises(JournalError) as writing:
            await journal.open_run(run_row())
    for message in (str(reading.value), str(writing.value)):
        assert message.startswith(f"{path}: ")
        assert "Traceback" not in message
        assert "Error" not in message
    return str(writing.value)


async def test_a_folder_is_no_journal(tmp_path: Path) -> None:
    assert "this is a folder" in await fails(tmp_path)


async def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    assert "folder for the journal is not there" in await fails(tmp_path / "no" / "such" / "journal.db")
    assert modes(tmp_path) == {}


async def test_a_fifo_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "journal.db")
    assert "not a regular file" in await fails(tmp_path / "journal.db")


@pytest.mark.parametrize("content", [b"not a database, though long enough to have a header " * 20, os.urandom(5000)])
async def test_another_file_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "journal.db"
    path.write_bytes(content)
    assert "is not a journal" in await fails(path)
    assert path.read_bytes() == content


async def test_the_database_of_another_program_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    change(path, "CREATE TABLE run(x)")
    before = path.read_bytes()
    assert "another program" in await fails(path)
    assert path.read_bytes() == before
    change(path, "PRAGMA user_version = 1")
    assert "table run is not the one" in await fails(path)


async def test_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    await written(path)
    change(path, "PRAGMA user_version = 2")
    assert "version 2" in await fails(path)


async def test_reading_a_path_without_a_journal_makes_none(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    async with SqliteJournal(path) as journal:
        for attempt in (journal.runs, lambda: journal.read("x"), lambda: journal.open(entry_row("x"))):
            with pytest.raises(JournalError, match="no journal here"):
                await attempt()
    assert not path.exists()
    path.touch(mode=0o644)
    async with SqliteJournal(path) as journal:
        with pytest.raises(JournalError, match="file is empty"):
            await journal.runs()
        await journal.open_run(run_row())
        assert modes(tmp_path)["journal.db"] == 0o600


async def test_a_path_no_system_can_open_is_refused(tmp_path: Path) -> None:
    for name in ("a\0b", "x" * 5000):
        await fails(tmp_path / name)


async def test_a_file_locked_by_another_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "journal.db"
    record = await written(path)
    monkeypatch.setattr(_journal_file, "BUSY_SECONDS", 0.2)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        async with SqliteJournal(path) as journal:
            with pytest.raises(JournalError, match="another process kept the journal locked"):
                await journal.open_run(run_row())
            assert await journal.read(record.run.run_id) == record  # readers do not wait for a writer
            other.execute("COMMIT")
            await journal.open_run(run_row())  # and the journal works on


async def test_the_event_loop_goes_on_while_a_write_waits(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    await written(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        async with SqliteJournal(path) as journal:
            writing = asyncio.ensure_future(journal.open_run(run_row()))
            for _ in range(20):  # the loop turns although the write cannot go on
                await asyncio.sleep(0.005)
                assert not writing.done()
            other.execute("COMMIT")
            await writing


# Rows that were tampered with

BAD_COLUMNS = [
    ("entry", "state = 'opne'", '"state" must be one of open, ok'),
    ("entry", "call = 'eval'", '"call" must be one of ai, tool'),
    ("entry", "input = '{'", '"input" is not JSON'),
    ("entry", "input = 'NaN'", "NaN is not a JSON number"),
    ("entry", "input = '[1,' || char(10) || '2]'", "on one line"),
    ("entry", "input = '\"é\"'", "in ASCII"),
    ("entry", f"output = '{'[' * 5000}{']' * 5000}'", "deeper than 512 levels"),
    ("entry", "output = x'00ff'", '"output" must be text'),
    ("entry", "ref = cast(x'ff' AS TEXT)", '"ref" must be text'),
    ("entry", "ref = x'6162'", '"ref" must be text'),
    ("entry", "input_hash = 'abc'", "64 hexadecimal digits"),
    ("entry", "step = 'many'", '"step" must be a whole number'),
    ("entry", "at = 'yesterday'", '"at" must be a time'),
    ("entry", "answered = 0", '"answered" must be a whole number, 1 or more'),
    ("entry", "clock_ms = 1.5", '"clock_ms" must be a whole number'),
    ("entry", "elapsed_ms = -1", '"elapsed_ms" must be a number, 0 or more'),
    ("entry", "elapsed_ms = 9e999", '"elapsed_ms" must be a number, 0 or more'),
    ("entry", "spend = '[]'", '"spend" must be a JSON object'),
    ("entry", "spend = '{\"input\":-1}'", '"spend" is not a spend'),
    ("entry", "spend = '{\"cost\":1}'", '"spend" is not a spend'),
    ("entry", "attempt = 0", '"attempt" must be a whole number, 1 or more'),
    ("run", "form = 'maybe'", '"form" must be one of sync, async'),
    ("run", "status = 'done'", '"status" must be one of finished'),
    ("run", "input = ''", '"input" is not JSON'),
    ("run", "fuel = x'7b7d'", '"fuel" must be text'),
    ("run", "attempt = 'x'", '"attempt" must be a whole number'),
    ("run", "started_at = ''", '"started_at" must be a time'),
    ("run", "result = '{\"a\":}'", '"result" is not JSON'),
]


@pytest.mark.parametrize(("table", "assignment", "complaint"), BAD_COLUMNS)
async def test_a_row_that_was_changed_is_refused_by_file_and_place(
    tmp_path: Path, table: str, assignment: str, complaint: str
) -> None:
    path = tmp_path / "journal.db"
    record = await written(path)
    change(
        path,
        "PRAGMA ignore_check_constraints = ON",
        f"UPDATE {table} SET {assignment} WHERE rowid_or_seq = 1".replace(
            "rowid_or_seq", "seq" if table == "entry" else "1"
        ),
    )
    async with SqliteJournal(path) as journal:
        with pytest.raises(JournalError) as caught:
            await journal.read(record.run.run_id)
    message = str(caught.value)
    assert complaint in message
    assert message.startswith(f'{path}: run "{record.run.run_id}"')
    assert ("row 1:" in message) == (table == "entry")


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_damaged_file_is_refused_or_read_but_never_a_surprise(tmp_path: Path, seed: int) -> None:
    good = tmp_path / "good.db"
    if not good.exists():
        asyncio.run(written(good))
    rng = Random(seed)
    data = bytearray(good.read_bytes())
    for _ in range(rng.randint(1, 30)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    path = tmp_path / "bad.db"
    for left in tmp_path.glob("bad.db*"):
        left.unlink()
    path.write_bytes(data[: rng.randint(1, len(data))] if rng.random() < 0.3 else data)

    async def use() -> None:
        async with SqliteJournal(path) as journal:
            steps: list[Callable[[], object]] = [journal.runs, lambda: journal.open_run(run_row())]
            for step in steps:
                try:
                    await step()  # type: ignore[misc]
                except JournalError as error:
                    assert str(error).startswith(str(path))
            try:
                for run in await journal.runs():
                    list(export_rows(await journal.read(run.run_id)))
            except JournalError as error:
                assert str(error).startswith(str(path))

    asyncio.run(use())
