"""`python -m fuzz TARGET`: fuzz one target for a while, or replay a finding.

Exit codes: 0 nothing found, 1 a finding, 2 usage.
"""

import importlib.util
import json
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from fuzz.driver import Finding, Report, keep, replay, run
from fuzz.guided_session import GuidedError, run_guided
from fuzz.smaller import smaller
from fuzz.targets import NAMES, target
from ptc.command_line import USAGE_ERROR, usage_text

FOUND: Final = 1
USAGE: Final = 2

# How often a long session says how far it is, in seconds, where nobody watches a terminal.
_TELL_S: Final = 30.0

# Characters of an input that are shown; all of it is in its file.
_SHOWN: Final = 4000

app = typer.Typer(name="fuzz", add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


class _Refusal(Exception):
    """A command that cannot be done."""


@app.command()
def fuzz(
    name: Annotated[str | None, typer.Argument(metavar="TARGET", help="What to fuzz; see --list.")] = None,
    seconds: Annotated[float, typer.Option(min=0.1, metavar="N", help="How long.")] = 60.0,
    seed: Annotated[int, typer.Option(min=0, metavar="S", help="Equal seeds make equal inputs.")] = 0,
    replay_file: Annotated[
        Path | None, typer.Option("--replay", metavar="FILE", help="Try the input of a finding again.")
    ] = None,
    minimise: Annotated[
        Path | None, typer.Option("--minimise", metavar="FILE", help="Make the input of a finding smaller.")
    ] = None,
    findings: Annotated[Path, typer.Option(metavar="DIR", help="Where the input of a finding is kept.")] = Path(
        "findings"
    ),
    plain: Annotated[bool, typer.Option("--plain", help="Without coverage, also where atheris is installed.")] = False,
    list_targets: Annotated[bool, typer.Option("--list", help="List the targets.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> int:
    """Fuzz one target. Exit 0 nothing found, 1 a finding, 2 usage."""
    if list_targets:
        about = {one: target(one).about for one in NAMES}
        print(json.dumps(about, indent=2) if as_json else "\n".join(f"{one:13} {text}" for one, text in about.items()))
        return 0
    if name is None:
        raise _Refusal("Name a target; --list shows them.")
    if name not in NAMES:
        raise _Refusal(f'There is no target "{name}"; there are: {", ".join(NAMES)}.')
    if replay_file is not None or minimise is not None:
        file = minimise or replay_file or Path()
        finding = _again(name, file)
        if finding is not None and minimise is not None:
            finding = smaller(finding)
            file = keep(finding, findings)
        return _show(name, finding, file, as_json)
    if target(name).guided and not plain and importlib.util.find_spec("atheris") is not None:
        report, path = run_guided(name, seconds, seed, findings, _Progress(name))
        if report.finding is not None:  # coverage finds inputs, and leaves them as large as they came
            path = keep(smaller(report.finding), findings)
    else:
        report = run(name, seconds, seed, _Progress(name), alarmed=True)
        path = None if report.finding is None else keep(report.finding, findings)
    _tell(report, as_json)
    return 0 if report.finding is None else _show(name, report.finding, path, as_json)


def main() -> None:
    """The entry point."""
    sys.exit(call(sys.argv[1:]))


def call(arguments: list[str]) -> int:
    """Run one command line and return its exit code."""
    try:
        result = app(arguments, prog_name="python -m fuzz", standalone_mode=False)
    except _Refusal as refusal:
        print(refusal, file=sys.stderr)
        return USAGE
    except USAGE_ERROR as error:
        print(usage_text(error), file=sys.stderr)
        return USAGE
    except GuidedError as error:
        print(error, file=sys.stderr)
        return FOUND
    except OSError as error:
        print(f"{error.filename or 'a file'}: {error.strerror or error}.", file=sys.stderr)
        return USAGE
    except (typer.Abort, KeyboardInterrupt):
        print("interrupted", file=sys.stderr)
        return 130
    return result if isinstance(result, int) else 0


def _again(name: str, path: Path) -> Finding | None:
    try:
        return replay(name, path.read_text(encoding="utf-8"))
    except OSError as error:
        raise _Refusal(f"{path}: {error.strerror or 'cannot be read'}.") from None
    except (ValueError, KeyError, TypeError) as error:
        raise _Refusal(f"{path}: this is no input of the target {name}: {error}.") from None


def _show(name: str, finding: Finding | None, path: Path | None, as_json: bool) -> int:
    if as_json and finding is not None:
        print(json.dumps({"target": name, "file": str(path), "error": finding.error}, indent=2))
    elif finding is None:
        print("nothing is found any more")
    else:
        print(finding.error)
        print("\nthe input:\n" + (finding.text if len(finding.text) <= _SHOWN else finding.text[:_SHOWN] + " …"))
        print(f"\nreplay it: python -m fuzz {name} --replay {path}")
    return 0 if finding is None else FOUND


def _tell(report: Report, as_json: bool) -> None:
    covered = "" if report.coverage is None else f", {report.coverage:,} edges covered"
    if sys.stderr.isatty():
        print(file=sys.stderr)  # after the line of progress
    told = f"{report.target}: {report.executions:,} executions in {report.seconds:.0f} s{covered}"
    print(told if report.finding is None else f"{told}, and a finding", file=sys.stderr)
    if as_json and report.finding is None:
        print(
            json.dumps(
                {
                    "target": report.target,
                    "executions": report.executions,
                    "seconds": round(report.seconds, 1),
                    "coverage": report.coverage,
                    "finding": None,
                },
                indent=2,
            )
        )


class _Progress:
    """Says how far a session is: a line that is written over on a terminal, else a line now and then."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._told = 0.0

    def __call__(self, executions: int, seconds: float) -> None:
        if sys.stderr.isatty():
            print(f"\r{self._name}: {executions:,} executions, {seconds:.0f} s ", end="", file=sys.stderr, flush=True)
        elif seconds - self._told >= _TELL_S:
            self._told = seconds
            print(f"{self._name}: {executions:,} executions, {seconds:.0f} s", file=sys.stderr, flush=True)
