"""The command line: `ptc run` and `ptc doctor`. Results go to stdout; logs, as they come, and problems to stderr.

Exit codes: 0 success, 1 the program failed, 2 usage (nothing was run), 3 the engine or a required isolation measure is
missing, 130 interrupted.
"""

import asyncio
import sys
from collections.abc import Iterator
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Final

import typer

from ptc import _doctor
from ptc._launch import engine_library
from ptc._printing import outcome_json, print_json, print_line, print_value
from ptc.command_line import USAGE_ERROR, drop_output, usage_text
from ptc.errors import UsageError
from ptc.limits import Limits, resolve_timeout
from ptc.outcome import UNSET, LogEntry, Outcome, Unset
from ptc.runtime import Runtime
from ptc.typescript import FormChoice, Language

__all__ = ["app", "call", "main"]

FAILED: Final = 1
USAGE: Final = 2
MISSING: Final = 3
INTERRUPTED: Final = 130  # what shells report for SIGINT


class _Engine(StrEnum):
    quickjs = "quickjs"
    v8 = "v8"


class _Refusal(Exception):
    """A command that cannot be done: what to print, and the exit code."""

    def __init__(self, message: str, code: int = USAGE) -> None:
        super().__init__(message)
        self.code = code


app = typer.Typer(
    name="ptc",
    help="Run one JavaScript program in a process of its own, against Python functions.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"ptc (subharness {version('subharness')})")
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Run one JavaScript program in a process of its own, against Python functions."""


@app.command("run")
def _run(
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="The program, a function body. FILE.ts is TypeScript.")],
    tools: Annotated[
        str | None, typer.Option(metavar="MODULE:NAME", help="Its `tools`: a dict of functions or a list of Tool.")
    ] = None,
    timeout: Annotated[float | None, typer.Option(metavar="SECONDS", help="Stop the program after this time.")] = None,
    engine: Annotated[_Engine, typer.Option(help="What runs it.")] = _Engine.quickjs,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole outcome as one JSON object.")] = False,
) -> int:
    """Run a program and print the value it returns as JSON; what it logs goes to stderr."""
    deadline = _deadline(timeout)
    code = _read(file)
    found = _find(tools)
    _need(engine.value)
    try:
        outcome = asyncio.run(_outcome(code, file, found, deadline, engine.value))
    except UsageError as error:
        raise _Refusal(f'--tools "{tools}": {error}' if tools is not None else str(error)) from None
    except KeyboardInterrupt:  # the run and its processes are gone by now
        raise _Refusal("interrupted", INTERRUPTED) from None
    if as_json:
        print_json(outcome_json(outcome))
    elif outcome.failure is None:
        if outcome.has_value:
            print_value(outcome.value)
    else:
        print_line(_failure_line(file, outcome))
    for note in _notes(outcome) if not as_json else ():
        print_line(f"{file}: {note}")
    if outcome.failure is None:
        return 0
    return MISSING if outcome.failure.kind == "sandbox-unavailable" else FAILED


@app.command("doctor")
def _show_doctor(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False) -> int:
    """Show what this machine has, as runs prove it: engines, isolation, times."""
    report = asyncio.run(_doctor.examine())
    if as_json:
        print_json(report)
    else:
        for line in _doctor.lines(report):
            print(line)
    return 0 if report["ok"] else MISSING


def main() -> None:
    """The entry point: run the command of `sys.argv` and exit. Bad input is one message, never a traceback."""
    sys.exit(call(sys.argv[1:]))


def call(arguments: list[str]) -> int:
    """Run one command line and return its exit code."""
    try:
        result = app(arguments, prog_name="ptc", standalone_mode=False)
        sys.stdout.flush()
    except _Refusal as refusal:
        print_line(str(refusal))
        return refusal.code
    except UsageError as error:
        print_line(str(error))
        return USAGE
    except USAGE_ERROR as error:
        print_line(usage_text(error))
        return USAGE
    except (typer.Abort, KeyboardInterrupt):
        print_line("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        drop_output()
        return FAILED
    return result if isinstance(result, int) else 0


def _deadline(timeout: float | None) -> float | Unset | None:
    if timeout is None:
        return UNSET
    try:
        return resolve_timeout(timeout, Limits())
    except UsageError as error:
        raise _Refusal(f"--{error}") from None


def _read(file: str) -> str:
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return data.decode("utf-8-sig")
    except OSError as error:
        raise _Refusal(f"{file}: {error.strerror or 'cannot be read'}; give the path of a program, or -") from None
    except UnicodeDecodeError as error:
        raise _Refusal(f"{file}: not UTF-8 text, at byte {error.start + 1}; save it as UTF-8") from None


def _find(tools: str | None) -> object:
    """What `--tools` names, or None."""
    if tools is None:
        return None
    from ptc.tools import reference  # it imports what most programs do not need

    try:
        return reference.find(tools)
    except UsageError as error:
        raise _Refusal(f"--tools {error}") from None


def _need(engine: str) -> None:
    try:
        engine_library(engine)
    except UsageError as error:
        raise _Refusal(str(error), MISSING) from None


async def _outcome(code: str, file: str, tools: object, deadline: float | Unset | None, engine: str) -> Outcome:
    language: Language = "typescript" if file.endswith(".ts") else "javascript"
    form: FormChoice = "async" if engine == _Engine.v8.value else "auto"  # V8 has no other form
    async with Runtime(engine=engine, spares=0) as runtime:
        if tools is None:
            return await runtime.run(
                code, language=language, form=form, name=file, timeout=deadline, on_log=_print_entry
            )
        from ptc.tools import reference

        async with reference.namespaces(tools) as namespaces:
            return await runtime.run(
                code, namespaces, language=language, form=form, name=file, timeout=deadline, on_log=_print_entry
            )


def _print_entry(entry: LogEntry) -> None:
    print_line(entry.text)


def _failure_line(file: str, outcome: Outcome) -> str:
    failure = outcome.failure
    assert failure is not None
    place = f"{file}:{failure.position.line}:{failure.position.column}" if failure.position is not None else file
    return f"{place}: {failure.kind}: {failure.message}"


def _notes(outcome: Outcome) -> Iterator[str]:
    """What else is to be known of a run: what did not come to an end, and what is not shown."""
    if outcome.unfinished:
        calls = ", ".join(f"{global_name}.{name} (call {number})" for number, global_name, name in outcome.unfinished)
        yield f"without an answer: {calls}"
    cut = outcome.truncated
    if cut is not None and cut.entries:
        yield f"{cut.entries:,} log entries were left out"
    if cut is not None and cut.characters:
        yield f"{cut.characters:,} characters were cut off"
