"""`jsrun journal list | show | html | export`: reading the journal of past runs. See also `record`."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from jsrun.cli import journal_show
from jsrun.cli.output import Refusal, print_json, print_problem
from jsrun.diagnostics import nearest
from jsrun.errors import JournalError
from jsrun.journal import RunRecord, RunRow, export_rows
from jsrun.sqlite_journal import SqliteJournal
from jsrun.timeline_text import ending_text
from ptc.command_line import printable

DEFAULT_JOURNAL = Path(".jsrun") / "journal.db"

app = typer.Typer(
    help="Read the journal of past runs.", no_args_is_help=True, add_completion=False, rich_markup_mode=None
)

JournalOption = Annotated[Path, typer.Option("--journal", metavar="FILE", help="The journal's file.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
RunArgument = Annotated[
    str, typer.Argument(metavar="RUN", help='A run\'s id, the beginning of one, or "last" for the newest.')
]


@app.command("list")
def list_runs(
    journal: JournalOption = DEFAULT_JOURNAL,
    as_json: JsonOption = False,
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many runs at most, the newest first.")] = 50,
) -> int:
    """List runs, the newest first."""
    rows, damaged = asyncio.run(_runs(journal))
    if as_json:
        print_json({"runs": [run_json(row) for row in rows[:limit]], "total": len(rows), "damaged": damaged})
        return 0
    for problem in damaged:
        print_problem(problem)
    if not rows:
        print(f"{journal} holds no runs")
        return 0
    table = Table(box=None, pad_edge=False)
    for column in ("run", "name", "ending", "started"):
        table.add_column(column, no_wrap=True)
    for row in rows[:limit]:
        table.add_row(row.run_id, printable(row.name), ending_text(row.status, row.reason), row.started_at)
    _console().print(table)
    if len(rows) > limit:
        print(f"… and {len(rows) - limit} older ones; see --limit")
    return 0


@app.command("show")
def show(run: RunArgument = "last", journal: JournalOption = DEFAULT_JOURNAL, as_json: JsonOption = False) -> int:
    """Show one run: how it ended, what it used, and every door call on a time axis."""
    record = asyncio.run(read_run(journal, run))
    if as_json:
        entries = [json.loads(line) for line in export_rows(record)]
        spend, fuel = record.spend().to_json(), journal_show.fuel_json(record)
        print_json({"run": run_json(record.run), "entries": entries, "spend": spend, "fuel": fuel})
        return 0
    journal_show.print_timeline(record)
    return 0


@app.command("html")
def html(
    run: RunArgument,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="Write here.")],
    journal: JournalOption = DEFAULT_JOURNAL,
    bundle: Annotated[
        str | None, typer.Option("--bundle", metavar="NAME|PATH", help="The bundle that ran, to show its program.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE if it is there.")] = False,
    as_json: JsonOption = False,
) -> int:
    """Explain a run on one HTML page."""
    record = asyncio.run(read_run(journal, run))
    shown = journal_show.write_page(record, output, bundle, force=force)
    if as_json:
        print_json({"run_id": record.run.run_id, "path": str(output), "program": shown})
    else:
        print(f"wrote {output}", file=sys.stderr)
    return 0


@app.command("export")
def export(
    run: RunArgument,
    journal: JournalOption = DEFAULT_JOURNAL,
    output: Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write here.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document instead of JSON Lines.")] = False,
) -> int:
    """Export a run's door calls as JSON Lines."""
    record = asyncio.run(read_run(journal, run))
    lines = list(export_rows(record))
    if as_json:
        text = json.dumps([json.loads(line) for line in lines], indent=2) + "\n"
    else:
        text = "".join(line + "\n" for line in lines)
    if output is None:
        sys.stdout.write(text)
        return 0
    try:
        with output.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise Refusal(f'"{output}" is there already. Remove it first, or choose another file.') from None
    except OSError as error:
        raise Refusal(f'"{output}" cannot be written: {error.strerror}.') from None
    print(f"wrote {len(lines)} calls to {output}", file=sys.stderr)
    return 0


def run_json(row: RunRow) -> dict[str, object]:
    """A run's row as a JSON object, its JSON columns as values."""
    return {
        "run_id": row.run_id,
        "parent_run_id": row.parent_run_id,
        "name": row.name,
        "bundle_hash": row.bundle_hash,
        "program_hash": row.program_hash,
        "engine": row.engine,
        "form": row.form,
        "input": json.loads(row.input),
        "started_at": row.started_at,
        "attempt": row.attempt,
        "status": row.status,
        "reason": row.reason,
        "result": None if row.result is None else json.loads(row.result),
        "ended_at": row.ended_at,
    }


async def _runs(path: Path) -> tuple[list[RunRow], list[str]]:
    """The runs that can be read, and what is to be said of those that cannot."""
    require_journal(path)
    damaged: list[str] = []
    try:
        async with SqliteJournal(path) as journal:
            return list(await journal.runs(damaged.append)), damaged
    except JournalError as error:
        raise Refusal.of(error) from None


async def read_run(path: Path, wanted: str) -> RunRecord:
    """The run of an id, of the beginning of one, or "last". Refusal, with the nearest id, if there is none."""
    rows, _damaged = await _runs(path)
    run_id = _choose(rows, wanted, path)
    try:
        async with SqliteJournal(path) as journal:
            return await journal.read(run_id)
    except JournalError as error:
        raise Refusal.of(error) from None


def _choose(rows: list[RunRow], wanted: str, path: Path) -> str:
    ids = [row.run_id for row in rows]
    if not ids:
        raise Refusal(f"{path} holds no runs.", code="not-found")
    if wanted == "last":
        return ids[0]
    matching = [run_id for run_id in ids if run_id.startswith(wanted.upper())]
    if wanted in ids:
        return wanted
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise Refusal(
            f'"{wanted}" is the beginning of {len(matching)} runs: {", ".join(matching[:5])}. Write more of it.'
        )
    near = nearest(wanted.upper(), ids)
    hint = f'Did you mean "{near}"?' if near else f'The newest is "{ids[0]}"; "jsrun journal list" shows more.'
    raise Refusal(f'There is no run "{wanted}" in {path}. {hint}', code="not-found")


def require_journal(path: Path) -> None:
    """Refusal if there is no journal."""
    if not path.exists():
        raise Refusal(
            f'There is no journal "{path}". A first "jsrun run" makes it; --journal names another.', code="not-found"
        )


def _console() -> Console:
    # A pipe has no width; what is cut there would be lost to whoever reads it.
    return Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else 1000)
