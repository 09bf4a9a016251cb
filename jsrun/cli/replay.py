"""`jsrun replay` and `jsrun resume`: a run out of the journal, made again or gone on with."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from jsrun._resuming import recorded_fuel
from jsrun.bundle import Bundle
from jsrun.canonical import parse_json
from jsrun.cli.finding import Place, load_bundle
from jsrun.cli.journal import DEFAULT_JOURNAL, JournalOption, JsonOption, RunArgument, read_run
from jsrun.cli.output import Refusal, print_json
from jsrun.cli.run import (
    EnvOption,
    FuelOption,
    GeneralistOption,
    ModelOption,
    QuietOption,
    ToolsOption,
    Work,
    WorkspaceOption,
    carry_out,
    make_host,
    read_fuel,
)
from jsrun.cli.run import JsonOption as ResultOption
from jsrun.errors import InFlightError, JsrunError
from jsrun.events import Observer
from jsrun.fuel import merge
from jsrun.journal import RunRecord
from jsrun.replay import InFlight, ReplayReport
from jsrun.runner import Run, Runner
from jsrun.sqlite_journal import SqliteJournal
from ptc.command_line import printable

BundleOption = Annotated[
    str | None,
    typer.Option("--bundle", metavar="NAME|PATH", help="The bundle; else that of the run's name."),
]

SAME, COULD_NOT, DIFFERS = 0, 1, 2


def replay(
    run: RunArgument,
    bundle: BundleOption = None,
    journal: JournalOption = DEFAULT_JOURNAL,
    as_json: JsonOption = False,
) -> int:
    """Make a run again on what it was answered, and compare; nothing is called. Exit 0 same, 1 could not, 2 differs."""
    record = asyncio.run(read_run(journal, run))
    loaded, _place = bundle_of(record, bundle)
    try:
        report = asyncio.run(_replay(loaded, record))
    except JsrunError as error:
        raise Refusal.of(error) from None
    difference = report.difference
    if as_json:
        print_json({
            "run_id": record.run.run_id,
            "same": report.same,
            "difference": None if difference is None else difference.to_json(),
            "result": report.result.to_json(),
        })  # fmt: skip
    elif difference is not None:
        print(printable(f"differs: {difference}"))
    else:
        ending = report.result.status.replace("_", " ")
        reason = f" ({report.result.reason})" if report.result.reason else ""
        print(f"same: {report.result.calls} calls, {ending}{reason}")
    return SAME if report.same else DIFFERS


async def _replay(bundle: Bundle, record: RunRecord) -> ReplayReport:
    async with Runner(bundle) as runner:
        return await runner.replay_record(record)


def resume(
    run: RunArgument,
    bundle: BundleOption = None,
    in_flight: Annotated[
        InFlight,
        typer.Option("--in-flight", help="Calls that may have been done: refuse to go on, fail them, or retry them."),
    ] = "refuse",
    force: Annotated[
        bool, typer.Option("--force", help="Believe that the process that worked on the run is gone.")
    ] = False,
    model: ModelOption = None,
    tools: ToolsOption = None,
    workspace: WorkspaceOption = Path(),
    env: EnvOption = None,
    generalist: GeneralistOption = None,
    journal: JournalOption = DEFAULT_JOURNAL,
    fuel: FuelOption = None,
    quiet: QuietOption = False,
    as_json: ResultOption = False,
) -> int:
    """Go on with a run that was interrupted; what was answered is not asked again. Exits as run does."""
    limits = read_fuel(fuel or [])
    record = asyncio.run(read_run(journal, run))
    loaded, place = bundle_of(record, bundle)
    host = make_host(loaded, model=model, tools=tools, workspace=workspace, env=env, generalist=generalist)
    try:
        had = merge(limits, recorded_fuel(record.run))
    except JsrunError as error:
        raise Refusal.of(error) from None

    async def begin(runner: Runner, opened: SqliteJournal, watch: Observer) -> Run:
        try:
            return await runner.start_resume(
                record.run.run_id,
                host.env,
                in_flight,
                limits,
                force,
                look=host.look,
                journal=opened,
                on_event=watch,
            )
        except InFlightError as error:
            calls = "\n".join(f"  {call.seq} {call.call} {call.ref}".rstrip() for call in error.calls)
            raise Refusal(
                "Nobody knows whether these calls were done when the run was interrupted:\n"
                f'{calls}\nWrite "--in-flight retry" to make them again, or "--in-flight fail" to have the program'
                " told that they failed.",
                code="in-flight",
            ) from None

    work = Work(loaded, place, parse_json(record.run.input), host, had, journal)
    return carry_out(work, begin, quiet=quiet, as_json=as_json)


def bundle_of(record: RunRecord, wanted: str | None) -> tuple[Bundle, Place]:
    """The bundle of a run: the one that is wanted, else that of its name in a store, here or in `bundles`."""
    if wanted is not None:
        return load_bundle(wanted)
    name = record.run.name
    here = Path("bundles") / name
    try:
        return load_bundle(name)
    except Refusal as refusal:
        if refusal.code != "not-found":
            raise
        if here.is_dir():
            return load_bundle(str(here))
        raise Refusal(
            f'The bundle "{name}" of this run is not in a store, here or in "bundles". Name it with --bundle.',
            code="not-found",
        ) from None
