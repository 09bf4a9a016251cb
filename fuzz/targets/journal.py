"""journal: arbitrary rows read back from a journal's file."""

import asyncio
import contextlib
import sqlite3
import tempfile
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from fuzz.strategies import rows
from fuzz.targets import Target
from jsrun.errors import JournalError
from jsrun.explain_html import explain_html
from jsrun.journal import EntryRow, RunRow, export_rows
from jsrun.row_checks import entry_row, run_row
from jsrun.sqlite_journal import SqliteJournal
from jsrun.timeline import timeline
from jsrun.timeline_text import timeline_lines

_RUN = tuple(field.name for field in fields(RunRow))
_ENTRY = tuple(field.name for field in fields(EntryRow))
_SOUND = RunRow(
    run_id="r", name="n", bundle_hash="h", program_hash="p", engine="quickjs 1", form="async", input="{}",
    started_at="2026-01-31T12:00:00Z", clock_ms=0, seed="s", fuel="{}", owner="1@host", attempt=1,
)  # fmt: skip

_CALL = EntryRow(
    run_id="r", attempt=1, seq=1, call="tool", ref="echo", input="{}", input_hash="a" * 64,
    at="2026-01-31T12:00:00Z", step=1, state="ok", answered=1, clock_ms=1, output="{}", err=None, note=None,
    spend=None, elapsed_ms=1.0,
)  # fmt: skip
_INSERT = f"INSERT INTO entry ({', '.join(_ENTRY)}) VALUES ({', '.join(f':{name}' for name in _ENTRY)})"


def check(given: Any, _place: None) -> None:
    """A row is what it says or a ValueError; a damaged file is a JournalError or a record that can be shown."""
    run, entry, cells, *more = given  # a finding from before entries were damaged too has three parts
    for read, columns in ((run_row, run), (entry_row, entry)):
        with contextlib.suppress(ValueError):
            read(columns)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "journal.db")
        asyncio.run(_file(path, cells, more[0] if more else []))


async def _file(path: Path, cells: dict[str, Any], entries: list[dict[str, Any]]) -> None:
    async with SqliteJournal(path) as journal:
        await journal.open_run(_SOUND)
        await journal.end_run(replace(_SOUND, status="finished", result="{}", ended_at="2026-01-31T12:00:01Z"))
        connection = sqlite3.connect(path)
        with contextlib.suppress(sqlite3.Error, UnicodeEncodeError), connection:
            for name, value in cells.items():
                connection.execute(f"UPDATE run SET {name} = ?", (value,))
        for seq, entry in enumerate(entries, 1):
            with contextlib.suppress(sqlite3.Error, UnicodeEncodeError), connection:
                connection.execute(_INSERT, {**asdict(_CALL), "seq": seq, "answered": seq, **entry})
        connection.close()
        damaged: list[str] = []
        await journal.runs(damaged.append)
        try:
            record = await journal.read("r")
        except JournalError as error:
            assert "Traceback" not in str(error)
            return
        shown = timeline(record)
        list(timeline_lines(shown))
        explain_html(shown)
        list(export_rows(record))


def _damage(columns: tuple[str, ...]) -> SearchStrategy[dict[str, Any]]:
    """Other values for a few columns, though not for the run's id."""
    return st.lists(st.sampled_from(columns[1:]), max_size=3).flatmap(lambda names: rows(tuple(names)))


TARGET = Target(
    about="arbitrary rows read back: checked, refused in words, or shown",
    guided=True,
    inputs=st.tuples(
        rows(_RUN),
        rows(_ENTRY),
        _damage(_RUN),
        st.lists(_damage(_ENTRY), max_size=3),
    ).map(list),
    check=check,
    batch=20,
)
