"""The command line: `jsrun new | check | run | replay | resume | test | types | map | journal | store | doctor`.

Output goes to stdout, progress and problems to stderr.
Exit codes: 0 it went well (of `run`: finished), 1 it could not be done (bad bundle, input or usage; nothing ran),
2 the run is incomplete, 3 it fell back and no long way was taken.
"""

import sys
from importlib.metadata import version
from typing import Annotated

import typer

from jsrun.cli.commands import Commands
from jsrun.cli.output import Refusal, print_json, print_problem
from ptc.command_line import USAGE_ERROR, drop_output, usage_text

__all__ = ["app", "main"]

app = typer.Typer(
    name="jsrun",
    cls=Commands,
    help="Run small JavaScript programs for LLM agents, safely and fast.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


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
    except USAGE_ERROR as error:
        return _refused(Refusal(usage_text(error), code="usage"), wants_json)
    except (typer.Abort, KeyboardInterrupt):
        return _refused(Refusal("Interrupted.", code="interrupted"), wants_json)
    except (BrokenPipeError, SystemExit):
        drop_output()
        return 1
    return result if isinstance(result, int) else 0


def _refused(refusal: Refusal, wants_json: bool) -> int:
    if wants_json:
        print_json({"error": refusal.to_json()})
    else:
        print_problem(str(refusal))
    return 1
