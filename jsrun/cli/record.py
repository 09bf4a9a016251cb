"""`jsrun journal record` and `jsrun journal prune`: what becomes of old runs."""

import asyncio
import contextlib
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from jsrun.bundle import Bundle
from jsrun.cassette import case_json, write_cassette
from jsrun.cli.journal import DEFAULT_JOURNAL, JournalOption, JsonOption, RunArgument, app, read_run, require_journal
from jsrun.cli.output import Refusal, print_json
from jsrun.cli.replay import BundleOption, bundle_of
from jsrun.errors import JournalError, JsrunError
from jsrun.evals import CaseReport, load_cases, run_case
from jsrun.sqlite_journal import SqliteJournal

# What is a name for a file on every system.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@app.command("record")
def record(
    run: RunArgument,
    name: Annotated[str, typer.Option("--as", metavar="NAME", help="The name of the case.")],
    bundle: BundleOption = None,
    journal: JournalOption = DEFAULT_JOURNAL,
    as_json: JsonOption = False,
) -> int:
    """Make an eval case of a run: evals/NAME.json, and beside it NAME.jsonl with all it was asked and answered."""
    if _NAME.fullmatch(name) is None:
        raise Refusal(f'--as "{name}": use letters, digits, ".", "_" and "-", 64 at most.', code="usage")
    recorded = asyncio.run(read_run(journal, run))
    if recorded.run.status is None:
        raise Refusal(f"The run {recorded.run.run_id} has no ending. Resume it first, then record it.")
    loaded, place = bundle_of(recorded, bundle)
    if place.store is not None:
        raise Refusal(
            f'The bundle "{loaded.manifest.name}" is in a store, whose versions do not change.'
            " Name a directory with --bundle, and mint it afterwards."
        )
    texts = {
        f"{name}.json": json.dumps(case_json(recorded, name), indent=2) + "\n",
        f"{name}.jsonl": write_cassette(recorded),
    }
    try:
        report = asyncio.run(_try(loaded, texts, name))
    except JsrunError as error:
        raise Refusal.of(error) from None
    if not report.passed:
        raise Refusal(
            f"The case would not pass with the bundle as it is now: {' '.join(report.problems)}"
            " Record a run of this bundle, or name the bundle that ran with --bundle."
        )
    folder = place.path / "evals"
    paths = _write(folder, texts)
    if as_json:
        print_json({"run_id": recorded.run.run_id, "case": name, "files": [str(path) for path in paths]})
    else:
        for path in paths:
            print(f"wrote {path}")
    return 0


async def _try(bundle: Bundle, texts: dict[str, str], name: str) -> CaseReport:
    """Play the case before it is written: what does not pass as recorded is no case."""
    evals = {f"{name}.json": texts[f"{name}.json"], f"{name}.jsonl": texts[f"{name}.jsonl"]}
    made = Bundle(
        bundle.manifest, bundle.program, bundle.source, bundle.prompts, memory_seed=bundle.memory_seed, evals=evals
    )
    (case,) = load_cases(made)
    return await run_case(made, case)


def _write(folder: Path, texts: dict[str, str]) -> list[Path]:
    """Write files that are not there yet, all or none."""
    written: list[Path] = []
    try:
        folder.mkdir(exist_ok=True)
        for file, text in texts.items():
            path = folder / file
            with path.open("x", encoding="utf-8") as opened:
                written.append(path)
                opened.write(text)
    except OSError as error:
        for path in written:
            with contextlib.suppress(OSError):
                path.unlink()
        if isinstance(error, FileExistsError):
            raise Refusal(f'"{error.filename}" is there already. Remove it first, or choose another name.') from None
        raise Refusal(f'"{error.filename}" cannot be written: {error.strerror}.') from None
    return written


@app.command("prune")
def prune(
    before: Annotated[
        str | None, typer.Option("--before", metavar="DATE", help="Runs that ended before, such as 2026-01-31.")
    ] = None,
    days: Annotated[
        int | None,
        typer.Option("--days", metavar="N", min=0, max=100_000, help="Runs that ended more than N days ago."),
    ] = None,
    journal: JournalOption = DEFAULT_JOURNAL,
    as_json: JsonOption = False,
) -> int:
    """Delete old runs and their calls from the journal. Runs without an ending stay."""
    if (before is None) == (days is None):
        raise Refusal('Say which runs: either "--before DATE" or "--days N".', code="usage")
    when = datetime.now(UTC) - timedelta(days=days) if days is not None else _moment(before or "")
    require_journal(journal)
    limit = when.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    try:
        count = asyncio.run(_prune(journal, limit))
    except JournalError as error:
        raise Refusal.of(error) from None
    if as_json:
        print_json({"deleted": count, "before": limit})
    else:
        print(f"deleted {count} {'run' if count == 1 else 'runs'} that ended before {limit}")
    return 0


async def _prune(path: Path, before: str) -> int:
    async with SqliteJournal(path) as journal:
        return await journal.prune(before)


def _moment(text: str) -> datetime:
    """A date or time; UTC unless it says otherwise."""
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise Refusal(f'--before "{text}": write a date such as 2026-01-31.', code="usage") from None
    return when if when.tzinfo is not None else when.replace(tzinfo=UTC)
