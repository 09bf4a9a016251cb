"""`jsrun check`: everything that can be known before a run."""

import asyncio
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Final

import typer

from jsrun._second_opinion import second_opinion
from jsrun.bundle import Bundle
from jsrun.bundle_files import PROGRAM, read_folder
from jsrun.cli.finding import find_bundle
from jsrun.cli.formats import FORMATS, github, sarif
from jsrun.cli.output import Refusal, diagnostic_json, print_json, print_problem
from jsrun.cli.watching import watch
from jsrun.diagnostics import Diagnostic, arrange, nearest
from jsrun.errors import BundleError, EvalError, JsrunError
from jsrun.evals import load_cases
from jsrun.runner import check
from ptc.command_line import printable
from ptc.errors import PtcError
from ptc.runtime import Runtime

_ENGINES: Final = ("quickjs", "v8")
# How an EvalError begins each of its lines.
_EVAL: Final = re.compile(r"(evals/.+?\.jsonl?)(?::(\d+))?(?::(\d+))?: (?:error \[[a-z-]+\] )?(.+)")


@dataclass(frozen=True, slots=True)
class _Report:
    """What there is to say about one bundle; `name` is what the user called it."""

    name: str
    path: Path
    bundle: Bundle | None
    diagnostics: tuple[Diagnostic, ...]

    def count(self, severity: str) -> int:
        return sum(diagnostic.severity == severity for diagnostic in self.diagnostics)


def command(
    paths: Annotated[
        list[str], typer.Argument(metavar="NAME|PATH...", help="Bundles: names out of the stores, or directories.")
    ],
    strict: Annotated[bool, typer.Option("--strict", help="Warnings count as errors.")] = False,
    engine: Annotated[
        str | None, typer.Option("--engine", metavar="ENGINE", help="Compile with this engine: quickjs or v8.")
    ] = None,
    form: Annotated[
        str, typer.Option("--format", metavar="FORMAT", help="text, github (annotations) or sarif.")
    ] = "text",
    keep_watching: Annotated[
        bool, typer.Option("--watch", help="Check again whenever a file changes, until Ctrl-C.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> int:
    """Check bundles: manifest, prompts, program (also compiled by the engine) and evals."""
    _check_options(engine, form, keep_watching, as_json)
    code = 0

    def once() -> None:
        nonlocal code
        reports = asyncio.run(_check_all([(name, find_bundle(name)) for name in paths], engine))
        code = 0 if all(_is_ok(report, strict) for report in reports) else 1
        _FORMS["json" if as_json else form](reports, strict)

    if not keep_watching:
        once()
        return code

    def again() -> None:
        nonlocal code
        try:
            once()
        except Refusal as refusal:  # a directory may be away for a moment
            print_problem(str(refusal))
            code = 1
        print(f"checked at {time.strftime('%H:%M:%S')}, waiting for changes (Ctrl-C ends)", flush=True)

    watch([find_bundle(name) for name in paths], again)
    return code


def _check_options(engine: str | None, form: str, keep_watching: bool, as_json: bool) -> None:
    for option, value, known in (("--engine", engine, _ENGINES), ("--format", form, FORMATS)):
        if value is not None and value not in known:
            meant = nearest(value, known)
            hint = f'Did you mean "{meant}"?' if meant else f"Use one of {', '.join(known)}."
            raise Refusal(f'{option} "{value}" is not known. {hint}', code="usage")
    if as_json and form != "text":
        raise Refusal("--json and --format exclude each other.", code="usage")
    if keep_watching and (as_json or form == "sarif"):
        raise Refusal("--watch goes on and on, so it cannot print one document.", code="usage")


# --- checking ---


async def _check_all(found: list[tuple[str, Path]], engine: str | None) -> list[_Report]:
    return [_Report(name, path, *await check_bundle(path, engine)) for name, path in found]


async def check_bundle(path: Path, engine: str | None = None) -> tuple[Bundle | None, tuple[Diagnostic, ...]]:
    """A bundle, None if it cannot be used, and all that is to be said about it. `engine`: else the bundle's.

    Raises Refusal if the engine is not installed.
    """
    try:
        bundle = Bundle.load(path)
    except BundleError as error:
        return None, await _asked(error.diagnostics, path, engine or "quickjs")
    try:
        diagnostics = await check(bundle, engine)
    except JsrunError as error:
        raise Refusal.of(error) from None
    try:
        load_cases(bundle)
    except EvalError as error:
        diagnostics = arrange((*diagnostics, *_eval_diagnostics(error)))
    refused = any(one.severity == "error" and not one.file.startswith("evals/") for one in diagnostics)
    return None if refused else bundle, diagnostics


async def _asked(diagnostics: tuple[Diagnostic, ...], path: Path, engine: str) -> tuple[Diagnostic, ...]:
    """The diagnostics of a bundle that cannot be used, with what the engine says of a program that does not parse."""
    if not any(diagnostic.code == "syntax" for diagnostic in diagnostics):
        return diagnostics
    program = read_folder(path).program
    try:
        async with Runtime(engine=engine, spares=0) as runtime:
            return arrange(await second_opinion(diagnostics, PROGRAM, program or "", runtime))
    except PtcError:  # without an engine the parser's word has to do
        return diagnostics


def _eval_diagnostics(error: EvalError) -> list[Diagnostic]:
    found = []
    for line in str(error).splitlines():
        match = _EVAL.fullmatch(line)
        file, row, column, text = match.groups() if match else ("evals", None, None, line)
        place = (None if row is None else int(row), None if column is None else int(column))
        found.append(Diagnostic("eval-invalid", "error", file, *place, text, ""))
    return found


# --- what is shown ---


def _is_ok(report: _Report, strict: bool) -> bool:
    return report.count("error") == 0 and not (strict and report.diagnostics)


def _placed(report: _Report) -> list[Diagnostic]:
    return [replace(diagnostic, file=str(report.path / diagnostic.file)) for diagnostic in report.diagnostics]


def _print_text(reports: list[_Report], strict: bool) -> None:
    for report in reports:
        for diagnostic in _placed(report):
            print(printable(str(diagnostic)))
        print(_verdict(report, strict))


def _print_github(reports: list[_Report], strict: bool) -> None:
    for report in reports:
        for diagnostic in _placed(report):
            print(printable(github(diagnostic)))
        print(_verdict(report, strict))


def _print_sarif(reports: list[_Report], strict: bool) -> None:
    print_json(sarif(diagnostic for report in reports for diagnostic in _placed(report)))


def _print_json(reports: list[_Report], strict: bool) -> None:
    documents = [
        {
            "path": report.name,
            "ok": _is_ok(report, strict),
            "name": report.bundle.manifest.name if report.bundle is not None else None,
            "hash": report.bundle.hash if report.bundle is not None else None,
            "diagnostics": [diagnostic_json(diagnostic) for diagnostic in _placed(report)],
        }
        for report in reports
    ]
    print_json({"ok": all(_is_ok(report, strict) for report in reports), "bundles": documents})


_FORMS: Final[dict[str, Callable[[list[_Report], bool], None]]] = {
    "text": _print_text,
    "github": _print_github,
    "sarif": _print_sarif,
    "json": _print_json,
}


def _verdict(report: _Report, strict: bool) -> str:
    parts = [_count(report.count("error"), "error"), _count(report.count("warning"), "warning")]
    text = ", ".join(part for part in parts if part)
    return f"{report.name}: {'ok' if _is_ok(report, strict) else 'failed'}{f' ({text})' if text else ''}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number > 1 else ''}" if number else ""
