"""What every journal does, in memory or in a file; ids, owners and exported rows."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from jsrun.env import UnwiredEnv
from jsrun.errors import JournalError, ResumeError
from jsrun.journal import (
    EntryRow,
    Journal,
    MemoryJournal,
    RunRecord,
    RunRow,
    encode_id,
    export_rows,
    new_run_id,
    owner,
    owner_gone,
    storable,
)
from jsrun.spend import Spend
from jsrun.sqlite_journal import SqliteJournal
from tests.jsrun.journal_rows import AT, entry_row, run_row


@pytest_asyncio.fixture(params=["memory", "sqlite"])
async def journal(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Journal]:
    if request.param == "memory":
        yield MemoryJournal()
    else:
        async with SqliteJournal(tmp_path / "journal.db") as made:
            yield made


async def test_rows_come_back_as_they_were_written(journal: Journal) -> None:
    run = run_row()
    await journal.open_run(run)
    first = entry_row(run.run_id, 1, call="ai", input={"input": {"b": 1, "a": "\ud800"}, "effort": "low"})
    await journal.open(first)
    closed = replace(
        first,
        state="ok",
        answered=1,
        clock_ms=1_769_860_800_010,
        output='{"z":1,"a":2}',
        spend=Spend("model-a", 1, 10, 5, 3, 2, 0.25),
        elapsed_ms=12.5,
    )
    await journal.close(closed)
    refused = replace(entry_row(run.run_id, 2, state="refused"), err="not on the whitelist", answered=2, clock_ms=1)
    await journal.open(refused)
    assert await journal.read(run.run_id) == RunRecord(run, (closed, refused))
    ended = replace(run, status="incomplete", reason="steps", result='{"output":null}', ended_at=AT)
    await journal.end_run(ended)
    assert await journal.read(run.run_id) == RunRecord(ended, (closed, refused))
    assert list(await journal.runs()) == [ended]


async def test_texts_with_lone_surrogates_and_nul_are_kept_readable(journal: Journal) -> None:
    """JSR-056 (the journal's part): nothing raises, and every reader can read it."""
    run = run_row()
    await journal.open_run(run)
    row = entry_row(run.run_id, call="remember", ref="a\ud800b\0c\u2028d😀")
    await journal.open(row)
    await journal.close(replace(row, state="err", err="\udfff", note="\ud800"))
    (back,) = (await journal.read(run.run_id)).entries
    assert (back.ref, back.err, back.note) == ("a\ufffdb\0c\u2028d😀", "\ufffd", "\ufffd")
    assert back.ref == storable("a\ud800b\0c\u2028d😀")


async def test_the_end_abandons_what_is_open(journal: Journal) -> None:
    run = run_row()
    await journal.open_run(run)
    rows = [entry_row(run.run_id, seq) for seq in (1, 2, 3)]
    for row in rows:
        await journal.open(row)
    await journal.close(replace(rows[1], state="ok", output="1", answered=1))
    await journal.end_run(replace(run, status="incomplete", reason="wall", ended_at=AT))
    assert [row.state for row in (await journal.read(run.run_id)).entries] == ["abandoned", "ok", "abandoned"]
    with pytest.raises(JournalError, match="Row 1 of run"):
        await journal.close(replace(rows[0], state="ok"))
    with pytest.raises(JournalError, match="not going on"):
        await journal.open(entry_row(run.run_id, 4))
    with pytest.raises(JournalError, match="not going on"):
        await journal.end_run(run)


async def test_misuse_is_refused_and_changes_nothing(journal: Journal) -> None:
    run = run_row()
    with pytest.raises(JournalError, match=r"not going on|no journal here"):
        await journal.open(entry_row(run.run_id))
    await journal.open_run(run)
    with pytest.raises(JournalError, match="already in the journal"):
        await journal.open_run(replace(run, name="other"))
    row = entry_row(run.run_id)
    await journal.open(row)
    with pytest.raises(JournalError, match="already in the journal"):
        await journal.open(replace(row, ref="other"))
    with pytest.raises(JournalError, match="not open"):
        await journal.close(entry_row(run.run_id, 2, state="ok"))
    await journal.close(replace(row, state="ok", output="1"))
    with pytest.raises(JournalError, match="not open"):
        await journal.close(replace(row, state="ok", output="2"))
    with pytest.raises(JournalError, match='no run "nobody"'):
        await journal.read("nobody")
    record = await journal.read(run.run_id)
    assert record.run == run
    assert record.entries == (replace(row, state="ok", output="1"),)


async def test_a_resume_claims_the_next_attempt_once(journal: Journal) -> None:
    """JSR-104 (the journal's part): of two claims of one attempt the second is refused, so is a finished run."""
    run = run_row()
    with pytest.raises(JournalError):
        await journal.open_run(replace(run, attempt=2))
    await journal.open_run(run)
    lost = entry_row(run.run_id, 1)
    await journal.open(lost)
    again = replace(run, attempt=2, owner="1@elsewhere", fuel='{"steps":900}')
    await journal.open_run(again)
    with pytest.raises(ResumeError, match="cannot be taken up as attempt 2"):
        await journal.open_run(again)
    with pytest.raises(JournalError):  # the first attempt has lost its run
        await journal.open(entry_row(run.run_id, 2))
    answer = entry_row(run.run_id, 1, attempt=2, state="ok", output="1")
    await journal.open(answer)
    await journal.end_run(replace(again, status="incomplete", reason="steps", ended_at=AT))
    await journal.open_run(replace(again, attempt=3))
    third = (await journal.read(run.run_id)).run
    assert (third.attempt, third.status, third.reason, third.ended_at) == (3, None, None, None)
    await journal.end_run(replace(again, attempt=3, status="finished", ended_at=AT))
    with pytest.raises(ResumeError):
        await journal.open_run(replace(again, attempt=4))
    record = await journal.read(run.run_id)
    assert record.run.fuel == '{"steps":900}'
    assert [(row.attempt, row.state) for row in record.entries] == [(1, "open"), (2, "ok")]
    assert record.current() == (answer,)


async def test_runs_are_listed_newest_first(journal: Journal) -> None:
    days = [run_row(started_at=f"2026-01-0{day}T00:00:00Z") for day in (2, 3, 1)]
    for row in days:
        await journal.open_run(row)
    assert [row.started_at[9] for row in await journal.runs()] == ["3", "2", "1"]


def test_the_ledger_sums_all_rows_and_the_latest_attempt_counts() -> None:
    """JSR-096 (the journal's part): every row's spend is in the sum; two models leave the name empty."""
    rows = (
        entry_row("r", 1, spend=Spend("a", 1, 10, 1), state="err"),
        entry_row("r", 2, state="open"),
        entry_row("r", 3, spend=Spend("a", 1, 5, 1), state="ok"),
        entry_row("r", 2, attempt=2, spend=Spend("b", 1, 1, 1), state="ok"),
    )
    record = RunRecord(run_row("r"), rows)
    assert record.spend() == Spend("", 3, 16, 3, mixed=True)
    assert record.current() == (rows[0], rows[3], rows[2])


async def test_the_recorder_in_memory_keeps_the_first_rows_and_all_totals() -> None:
    recorder = MemoryJournal(max_rows=3)
    run = run_row()
    await recorder.open_run(run)
    for seq in range(1, 6):
        row = entry_row(run.run_id, seq)
        await recorder.open(row)
        await recorder.close(replace(row, state="ok", spend=Spend("m", 1, 2, 1)))
    with pytest.raises(JournalError, match="not open"):
        await recorder.close(entry_row(run.run_id, 5))
    await recorder.open(entry_row(run.run_id, 6))
    await recorder.end_run(replace(run, status="finished"))
    assert [row.seq for row in (await recorder.read(run.run_id)).entries] == [1, 2, 3]
    assert recorder.dropped == 3
    assert recorder.calls(run.run_id) == 6
    assert recorder.spend(run.run_id) == Spend("m", 5, 10, 5)
    assert recorder.calls("other") == 0
    assert recorder.spend("other") == Spend()


async def test_ten_thousand_rows_are_kept_by_default() -> None:
    """JSR-107 (the journal's part): a run of very many calls does not fill the memory."""
    recorder = MemoryJournal()
    run = run_row()
    await recorder.open_run(run)
    row = entry_row(run.run_id)
    for seq in range(1, 10_101):
        await recorder.open(replace(row, seq=seq, state="refused"))
    assert len((await recorder.read(run.run_id)).entries) == 10_000
    assert recorder.dropped == 100
    assert recorder.calls(run.run_id) == 10_100


def test_an_env_may_be_a_journal() -> None:
    """JSR-097 (the protocol's part): whoever has the six methods is a Journal, and nobody else."""

    class RecordingEnv(UnwiredEnv, MemoryJournal):
        pass

    assert isinstance(RecordingEnv(), Journal)
    assert isinstance(MemoryJournal(), Journal)
    assert isinstance(SqliteJournal("unused.db"), Journal)
    assert not isinstance(UnwiredEnv(), Journal)


def test_exported_rows_are_json_lines_with_every_key() -> None:
    row = entry_row("r", 1, call="ai", input={"input": "é"}, output='{"b":1,"a":"x"}', state="ok")
    full = replace(row, spend=Spend("m", 1, 2, 3), elapsed_ms=1.5, note="default taken")
    failed = replace(row, seq=2, attempt=2, input=None, output=None, state="err", err="a\nb\u2028")
    lines = list(export_rows(RunRecord(run_row("r"), (full, failed))))
    assert all(line.isascii() and "\n" not in line for line in lines)
    first, second = (json.loads(line) for line in lines)
    keys = ["seq", "at", "call", "ref", "input", "output", "spend", "note", "err", "elapsed", "state", "attempt"]
    assert list(first) == list(second) == keys
    assert first["input"] == {"input": "é"}
    assert list(first["output"]) == ["b", "a"]
    assert first["spend"] == Spend("m", 1, 2, 3).to_json()
    assert (first["elapsed"], first["note"], first["err"]) == (1_500_000, "default taken", None)
    assert (second["input"], second["output"], second["spend"], second["elapsed"]) == (None, None, None, None)
    assert (second["err"], second["state"], second["attempt"]) == ("a\nb\u2028", "err", 2)


def test_ids_of_a_process_are_26_characters_and_sorted_by_time() -> None:
    ids = [new_run_id() for _ in range(5_000)]
    assert all(len(run_id) == 26 for run_id in ids)
    assert ids == sorted(set(ids))
    assert set("".join(ids)) <= set("0123456789ABCDEFGHJKMNPQRSTVWXYZ")


def test_ids_stay_ordered_when_the_clock_steps_back(monkeypatch: pytest.MonkeyPatch) -> None:
    before = new_run_id()
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    after = new_run_id()
    assert before < after


@given(st.integers(0, 2**128 - 1), st.integers(0, 2**128 - 1))
def test_the_text_of_an_id_sorts_as_its_number(one: int, other: int) -> None:
    assert (encode_id(one) < encode_id(other)) == (one < other)
    assert len(encode_id(one)) == 26


def test_ids_of_forked_processes_differ() -> None:
    """A fork takes the last id along; both sides must still go on differently."""
    program = (
        "import os\n"
        "from jsrun import journal\n"
        "import time\n"
        "time.time_ns = lambda: 0\n"  # the same millisecond on both sides
        "journal.new_run_id()\n"
        "pid = os.fork()\n"
        "os.write(1, (journal.new_run_id() + '\\n').encode())\n"
        "if pid: os.waitpid(pid, 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    ids = done.stdout.split()
    assert len(ids) == 2
    assert ids[0] != ids[1]


def test_an_owner_is_gone_only_when_it_surely_is() -> None:
    child = subprocess.run(
        [sys.executable, "-c", "from jsrun.journal import owner; print(owner())"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert owner() == f"{os.getpid()}@{socket.gethostname()}"
    assert owner_gone(child.stdout.strip())
    assert not owner_gone(owner())
    for unknown in ("1@another-host", "", "x@" + socket.gethostname(), f"{2**80}@{socket.gethostname()}"):
        assert not owner_gone(unknown)


def test_rows_are_frozen() -> None:
    row: EntryRow | RunRow
    for row in (entry_row("r"), run_row()):
        with pytest.raises(AttributeError):
            row.run_id = "other"  # type: ignore[misc]
