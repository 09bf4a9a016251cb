"""The command line: `jsrun new | check | run | journal | doctor`. Output to stdout, progress and problems to stderr.

Exit codes: 0 it went well (of `run`: finished), 1 it could not be done (bad bundle, input or usage; nothing ran),
2 the run is incomplete, 3 it fell back.
"""

import sys
from importlib.metadata import version
from typing import Annotated

import typer
from typer import _click as click  # the copy of click that typer brings

from jsrun.cli import check, doctor, journal, new, run
from jsrun.cli.output import Refusal, print_json, print_problem

__all__ = ["app", "main"]

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
app.add_typer(journal.app, name="journal")
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
    except Refusal as refusal:
        return _refused(refusal, wants_json)
    except click.exceptions.ClickException as error:
        return _refused(Refusal(error.format_message(), code="usage"), wants_json)
    except (click.exceptions.Abort, KeyboardInterrupt):
        return _refused(Refusal("interrupted", code="interrupted"), wants_json)
    except BrokenPipeError:
        # Whoever read our output has enough; python would complain when it flushes.
        sys.stdout = None  # type: ignore[assignment]
        return 1
    return result if isinstance(result, int) else 0


def _refused(refusal: Refusal, wants_json: bool) -> int:
    if wants_json:
        print_json({"error": refusal.to_json()})
    else:
        print_problem(str(refusal))
    return 1
