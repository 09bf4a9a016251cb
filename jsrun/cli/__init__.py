"""The command line: `jsrun new | check | run | replay | resume | test | types | map | journal | store | doctor`.

Output goes to stdout, progress and problems to stderr.
Exit codes: 0 it went well (of `run`: finished), 1 it could not be done (bad bundle, input or usage; nothing ran),
2 the run is incomplete, 3 it fell back and no long way was taken.
"""

import os
import sys
from importlib.metadata import version
from typing import Annotated

import typer

from jsrun.cli import check, doctor, journal, mapping, new, record, replay, run, store, test, types
from jsrun.cli.output import Refusal, print_json, print_problem

__all__ = ["app", "main"]

# typer does not export the class of all its usage errors, only those below it.
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]

app = typer.Typer(
    name="jsrun",
    help="Run small JavaScript programs for LLM agents, safely and fast.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("new")(new.command)
app.command("check")(check.command)
app.command("run")(run.command)
app.command("replay")(replay.replay)
app.command("resume")(replay.resume)
app.command("test")(test.command)
app.command("types")(types.command)
app.command("map")(mapping.command)
journal.app.command("record")(record.record)
journal.app.command("prune")(record.prune)
app.add_typer(journal.app, name="journal")
app.add_typer(store.app, name="store")
app.command("doctor")(doctor.command)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"jsrun (subharness {version('subharness')})")
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Run small JavaScript programs for LLM agents, safely and fast."""


def main() -> None:
    """The entry point: run the command of `sys.argv` and exit. Bad input is one message, never a traceback."""
    sys.exit(call(sys.argv[1:]))


def call(arguments: list[str]) -> int:
    """Run one command line and return its exit code."""
    wants_json = "--json" in arguments
    try:
        result = app(arguments, prog_name="jsrun", standalone_mode=False)
        sys.stdout.flush()
    except Refusal as refusal:
        return _refused(refusal, wants_json)
    except _UsageError as error:
        return _refused(Refusal(_usage_text(error), code="usage"), wants_json)
    except (typer.Abort, KeyboardInterrupt):
        return _refused(Refusal("Interrupted.", code="interrupted"), wants_json)
    except (BrokenPipeError, SystemExit):
        # Whoever reads our output has enough. Python would complain at the end, when it flushes what is left.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return result if isinstance(result, int) else 0


def _usage_text(error: Exception) -> str:
    """The message of a usage error, and where to find help. Without any argument the message is the help itself."""
    text = str(getattr(error, "message", error))
    format_message = getattr(error, "format_message", None)
    if callable(format_message):
        text = format_message()
    context = getattr(error, "ctx", None)
    if context is None or text.startswith("Usage:"):
        return text
    return f'{text} Try "{context.command_path} --help".'


def _refused(refusal: Refusal, wants_json: bool) -> int:
    if wants_json:
        print_json({"error": refusal.to_json()})
    else:
        print_problem(str(refusal))
    return 1
