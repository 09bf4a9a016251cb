"""`jsrun run`: one run of one bundle."""

import asyncio
import contextlib
import importlib
import signal
import sys
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from jsrun import strictjson
from jsrun.belt import Belt, Tool, tool
from jsrun.bundle import Bundle
from jsrun.cli.finding import Place, load_bundle
from jsrun.cli.journal import DEFAULT_JOURNAL
from jsrun.cli.output import Refusal, print_json, print_problem
from jsrun.cli.progress import Progress, Quiet, progress
from jsrun.endings import cancelled
from jsrun.env import AIOptions, Answer, Env
from jsrun.errors import BeltError, DoorFailure, JsrunError, StoreError
from jsrun.events import Observer
from jsrun.fuel import Fuel, resolve
from jsrun.local_env import LocalEnv
from jsrun.long_way import Generalist, copy_input, take_long_way
from jsrun.look import WorkspaceLook
from jsrun.registry import note_result, stamped
from jsrun.result import RunResult
from jsrun.runner import Run, Runner
from jsrun.sqlite_journal import SqliteJournal
from jsrun.store import PROJECT, Store
from jsrun.units import parse_duration, parse_size, parse_whole
from ptc.wire import Json

# One frame of `ptc` and the spec's bound on an input; nothing longer is read.
_MAX_INPUT_BYTES = 8 * 1024 * 1024
_EXIT_CODES = {"finished": 0, "incomplete": 2, "fell_back": 3}
_DOOR_METHODS = ("ai", "tool", "ask", "remember", "recall", "log")


ModelOption = Annotated[
    str | None,
    typer.Option("--model", metavar="MODEL", help='"PROVIDER:NAME", or offline "script:FILE" or "echo:".'),
]
ToolsOption = Annotated[
    list[str] | None,
    typer.Option("--tool", metavar="MODULE:FUNCTION", help="A Python function as a tool; may be repeated."),
]
WorkspaceOption = Annotated[
    Path, typer.Option("--workspace", metavar="DIR", help="What the tools read, list and search may see.")
]
EnvOption = Annotated[
    str | None, typer.Option("--env", metavar="MODULE:FACTORY", help="Your own Env instead of the local one.")
]
GeneralistOption = Annotated[
    str | None,
    typer.Option("--generalist", metavar="MODULE:FACTORY", help="What takes the long way if the run falls back."),
]
FuelOption = Annotated[
    list[str] | None,
    typer.Option(
        "--fuel", metavar="KEY=VALUE", help="A limit, such as steps=50, tokens=9000, wall=30s; may be repeated."
    ),
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the whole result as one JSON document.")]


def command(
    bundle: Annotated[
        str, typer.Argument(metavar="NAME|PATH", help="A name out of the stores, or the bundle's directory.")
    ],
    input: Annotated[
        str, typer.Option("--input", metavar="JSON|@FILE|-", help='The input: JSON, "@FILE", or "-" for stdin.')
    ] = "{}",
    model: ModelOption = None,
    tools: ToolsOption = None,
    workspace: WorkspaceOption = Path(),
    env: EnvOption = None,
    generalist: GeneralistOption = None,
    journal: Annotated[
        Path, typer.Option("--journal", metavar="FILE", help="Where the run is recorded.")
    ] = DEFAULT_JOURNAL,
    fuel: FuelOption = None,
    quiet: QuietOption = False,
    as_json: JsonOption = False,
) -> int:
    """Run a bundle once. Exit 0 finished, 1 could not happen, 2 incomplete, 3 fell back and no long way was taken."""
    loaded, place = load_bundle(bundle)
    value = read_input(input)
    limits = read_fuel(fuel or [])
    if not journal.parent.absolute().parent.is_dir():
        raise Refusal(f'--journal: there is no directory "{journal.parent}".', code="not-found")
    host = make_host(loaded, model=model, tools=tools, workspace=workspace, env=env, generalist=generalist)
    work = Work(loaded, place, value, host, limits, journal)

    async def begin(runner: Runner, journal: SqliteJournal, watch: Observer) -> Run:
        return runner.start(value, host.env, fuel=limits, look=host.look, journal=journal, on_event=watch)

    return carry_out(work, begin, quiet=quiet, as_json=as_json)


@dataclass(frozen=True, slots=True)
class Host:
    """The host's side of a run, made of the options."""

    env: Env
    look: WorkspaceLook
    generalist: Generalist | None


@dataclass(frozen=True, slots=True)
class Work:
    """What one command is about. `input` and `fuel` are what the long way would get."""

    bundle: Bundle
    place: Place
    input: object
    host: Host
    fuel: Fuel
    journal: Path


Begin: TypeAlias = Callable[[Runner, SqliteJournal, Observer], Awaitable[Run]]


def make_host(
    bundle: Bundle,
    *,
    model: str | None,
    tools: list[str] | None,
    workspace: Path,
    env: str | None,
    generalist: str | None,
) -> Host:
    """What the options say of the host. Refusal if one of them names what is not there."""
    if not workspace.is_dir():
        raise Refusal(f'--workspace: there is no directory "{workspace}".', code="not-found")
    belt = load_belt(workspace, tools or [])
    chosen = _env(env, model, belt, bundle)
    return Host(chosen, WorkspaceLook(workspace, belt), None if generalist is None else _generalist(generalist))


def carry_out(work: Work, begin: Begin, *, quiet: bool, as_json: bool) -> int:
    """Begin a run, show its progress, wait for its end, print it, and return the exit code."""
    with progress(work.bundle.manifest.name, quiet=quiet or as_json) as watch:
        try:
            result = asyncio.run(_run(work, begin, watch))
        except JsrunError as error:
            raise Refusal.of(error) from None
    _note(work, result)
    return show(result, as_json=as_json)


def show(result: RunResult, *, as_json: bool) -> int:
    """Print how a run ended and return the exit code."""
    if as_json:
        print_json(result.to_json())
    elif result.finished():
        print_json(result.output)
    if not as_json and result.path == "long" and result.status == "finished":
        print_problem(f"took the long way: {result.fell_back}")
    elif not as_json and result.sentence:
        print_problem(f"{result.status.replace('_', ' ')} ({result.reason}): {result.sentence}")
        for entry in result.logs[-10:]:
            if entry.level in ("warn", "error"):
                print_problem(f"  {entry.level}: {entry.text}")
    return _EXIT_CODES[result.status]


async def _run(work: Work, begin: Begin, watch: Progress | Quiet) -> RunResult:
    given = copy_input(work.input)
    async with Runner(work.bundle) as runner:
        await runner.compile()
        # Only now, when nothing stands in the way of the run: a refused bundle leaves no file behind.
        async with SqliteJournal(work.journal) as journal:
            await journal.verify()
            run = await begin(runner, journal, watch)
            with _interrupt_cancels(run.cancel):
                result = await run.result()
    if result.status != "fell_back" or work.host.generalist is None:
        return result
    return await _take_long_way(work, work.host.generalist, given, result, watch)


async def _take_long_way(
    work: Work, generalist: Generalist, given: Json, fast: RunResult, watch: Progress | Quiet
) -> RunResult:
    manifest = stamped(work.bundle.manifest, work.place.layer)
    fuel = resolve(work.fuel, work.bundle.fuel, manifest.fuel, manifest.deadline)
    task = asyncio.ensure_future(
        take_long_way(work.bundle, manifest, given, work.host.env, generalist, fast, fuel),
    )
    with _interrupt_cancels(task.cancel):
        watch.say("taking the long way")
        try:
            return await task
        except asyncio.CancelledError:
            sentence = cancelled("interrupted").sentence
            return replace(fast, status="incomplete", reason="cancelled", incomplete=sentence, path="long")


def _note(work: Work, result: RunResult) -> None:
    """Note the run in the store that its bundle is from. The run stays what it is if that cannot be done."""
    if work.place.store is not None:
        try:
            note_result(work.place.store, work.bundle, result)
        except StoreError as error:
            print_problem(f"This run is not noted: {error}")


@contextlib.contextmanager
def _interrupt_cancels(cancel: Any) -> Any:
    """While the run goes on, Ctrl-C ends it as `cancelled`; a second one ends the command."""
    loop = asyncio.get_running_loop()

    def interrupted() -> None:
        loop.remove_signal_handler(signal.SIGINT)
        cancel("interrupted")

    try:
        loop.add_signal_handler(signal.SIGINT, interrupted)
    except (NotImplementedError, RuntimeError, ValueError):  # no signals on this platform or thread
        yield
        return
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)


def read_input(argument: str) -> object:
    """The JSON value of `--input`. Refusal with its place for text that is no JSON."""
    if argument == "-":
        name, data = "standard input", sys.stdin.buffer.read(_MAX_INPUT_BYTES + 1)
    elif argument.startswith("@"):
        name = argument[1:]
        try:
            with Path(name).open("rb") as file:
                data = file.read(_MAX_INPUT_BYTES + 1)
        except OSError as error:
            raise Refusal(f'--input: "{name}" cannot be read: {error.strerror}.', code="input") from None
    else:
        name, data = "--input", argument.encode("utf-8", "surrogateescape")
    if len(data) > _MAX_INPUT_BYTES:
        raise Refusal(f"{name}: the input is longer than {_MAX_INPUT_BYTES:,} bytes.", code="input")
    try:
        text = data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise Refusal(f"{name}: not UTF-8 text at byte {error.start}.", code="input") from None
    document, problems = strictjson.read(text, name, "input-json", max_depth=512)
    if document is None or problems:
        raise Refusal("\n".join(map(str, problems)), code="input", diagnostics=problems)
    return document.value


def read_fuel(settings: Iterable[str]) -> Fuel:
    """`--fuel KEY=VALUE` as Fuel. Refusal for an unknown key or a bad value."""
    values: dict[str, float] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        kind = _FUEL_KINDS.get(key)
        if kind is None or not equals:
            raise Refusal(f'--fuel "{setting}": write KEY=VALUE with one of {", ".join(_FUEL_KINDS)}.', code="usage")
        value = _FUEL_READERS[kind](text)
        if value is None:
            raise Refusal(f'--fuel "{setting}": {_FUEL_HINTS[kind]}', code="usage")
        values[key] = value
    try:
        return Fuel(**values)  # type: ignore[arg-type]  # the readers give ints for counts
    except ValueError as error:
        raise Refusal(f"--fuel: {error}", code="usage") from None


def _read_whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None


def _read_seconds(text: str) -> float | None:
    """A duration with units, or a bare number of seconds."""
    with contextlib.suppress(ValueError):
        return float(text)
    nanoseconds = parse_duration(text)
    return None if nanoseconds is None else nanoseconds / 1e9


def _read_size(text: str) -> int | None:
    return parse_whole(_read_whole(text)) if text.isdigit() else parse_size(text)


_FUEL_KINDS = {
    "steps": "count",
    "tokens": "count",
    "wall": "time",
    "compute": "time",
    "memory": "size",
    "output": "size",
}
_FUEL_READERS = {"count": _read_whole, "time": _read_seconds, "size": _read_size}
_FUEL_HINTS = {
    "count": "a whole number is needed, such as 500.",
    "time": 'a duration is needed, such as "30s" or "1m30s"; a bare number counts seconds.',
    "size": 'a size is needed, such as "64MiB"; a bare number counts bytes.',
}


def load_belt(workspace: Path, names: Iterable[str]) -> Belt:
    """The workspace's tools and those that `--tool` names. Refusal for what is no tool."""
    extra: list[Tool] = []
    for name in names:
        function = load_object(name, "--tool")
        try:
            extra.append(function if isinstance(function, Tool) else tool(function))
        except (BeltError, TypeError) as error:
            raise Refusal(f'--tool "{name}": {error}', code="usage") from None
    try:
        return Belt([*Belt.workspace(workspace), *extra])
    except BeltError as error:
        raise Refusal(f"--tool: {error}", code="usage") from None


def _env(name: str | None, model: str | None, belt: Belt, bundle: Bundle) -> Env:
    if name is None:
        # Where a version of this name would have its notes; a bundle out of a store brings its own.
        memory = Store(PROJECT).memory(bundle.manifest.name, bundle.memory_seed)
        try:
            return LocalEnv(_NoModel() if model is None else model, belt, memory=memory, log=None)
        except JsrunError as error:
            raise Refusal(f"--model: {error}", code="usage") from None
    if model is not None:
        raise Refusal("--model and --env cannot be used together; the Env has its own model.", code="usage")
    env: Env = _made(name, "--env", _DOOR_METHODS)
    missing = [door for door in _DOOR_METHODS if not callable(getattr(env, door, None))]
    if missing:
        raise Refusal(f'--env "{name}": the Env has no {", ".join(missing)}.', code="usage")
    return env


class _NoModel:
    """In place of a model nobody named: says how to name one."""

    async def answer(self, system: str, user: str, options: AIOptions) -> Answer:
        raise DoorFailure('No model was named. Give one with --model: "PROVIDER:NAME", or offline "script:FILE".')


def _generalist(name: str) -> Generalist:
    generalist: Generalist = _made(name, "--generalist", ("take",))
    if not callable(getattr(generalist, "take", None)):
        raise Refusal(f'--generalist "{name}": a generalist has a method take(job, env).', code="usage")
    return generalist


def _made(name: str, option: str, methods: Iterable[str]) -> Any:
    """The object that `MODULE:ATTRIBUTE` names, if it has the methods; else what its class or factory makes."""
    found = load_object(name, option)
    if not callable(found) or (not isinstance(found, type) and all(hasattr(found, method) for method in methods)):
        return found
    try:
        return found()
    except (Exception, SystemExit) as error:
        raise Refusal(f'{option} "{name}": it cannot be made: {error}.', code="usage") from None


def load_object(name: str, option: str) -> Any:
    """What `MODULE:ATTRIBUTE` names; modules of the current directory count. Refusal if it is not there."""
    module_name, colon, attribute = name.partition(":")
    if not colon or not module_name or not attribute:
        raise Refusal(f'{option} "{name}": write MODULE:NAME.', code="usage")
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        raise Refusal(f'{option} "{name}": "{module_name}" cannot be imported: {error}.', code="usage") from None
    found: Any = module
    for part in attribute.split("."):
        found = getattr(found, part, None)
        if found is None:
            raise Refusal(f'{option} "{name}": "{module_name}" has no "{attribute}".', code="usage")
    return found
