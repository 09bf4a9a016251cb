"""`jsrun check`: everything that can be known before a run."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from jsrun.bundle import Bundle
from jsrun.cli.finding import find_bundle
from jsrun.cli.output import Refusal, diagnostic_json, print_json, printable
from jsrun.diagnostics import Diagnostic
from jsrun.errors import BundleError, EvalError, JsrunError
from jsrun.evals import load_cases
from jsrun.runner import Runner


def command(
    paths: Annotated[list[str], typer.Argument(metavar="PATH...", help="Directories of bundles.")],
    strict: Annotated[bool, typer.Option("--strict", help="Warnings count as errors.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> int:
    """Check bundles: manifest, prompts, program (also compiled by the engine) and evals."""
    found = [(path, find_bundle(path)) for path in paths]
    reports = asyncio.run(_check_all([path for _name, path in found]))
    failed = False
    documents = []
    for (name, path), (bundle, diagnostics) in zip(found, reports, strict=True):
        errors = sum(diagnostic.severity == "error" for diagnostic in diagnostics)
        warnings = len(diagnostics) - errors
        ok = errors == 0 and not (strict and warnings)
        failed = failed or not ok
        documents.append({
            "path": name,
            "ok": ok,
            "name": bundle.manifest.name if bundle is not None else None,
            "hash": bundle.hash if bundle is not None else None,
            "diagnostics": [diagnostic_json(_placed(diagnostic, path)) for diagnostic in diagnostics],
        })  # fmt: skip
        if not as_json:
            for diagnostic in diagnostics:
                print(printable(str(_placed(diagnostic, path))))
            print(f"{name}: {'ok' if ok else 'failed'}{_counts(errors, warnings)}")
    if as_json:
        print_json({"ok": not failed, "bundles": documents})
    return 1 if failed else 0


async def _check_all(paths: list[Path]) -> list[tuple[Bundle | None, tuple[Diagnostic, ...]]]:
    return [await check_bundle(path) for path in paths]


async def check_bundle(path: Path) -> tuple[Bundle | None, tuple[Diagnostic, ...]]:
    """A bundle, None if it cannot be used, and all that is to be said about it."""
    try:
        bundle = Bundle.load(path)
    except BundleError as error:
        return None, error.diagnostics
    diagnostics = list(bundle.warnings)
    try:
        async with Runner(bundle) as runner:
            await runner.compile()
    except BundleError as error:
        return None, (*diagnostics, *error.diagnostics)
    except JsrunError as error:
        raise Refusal.of(error) from None
    try:
        load_cases(bundle)
    except EvalError as error:
        diagnostics.append(Diagnostic("eval-invalid", "error", "evals", None, None, str(error), ""))
    return bundle, tuple(diagnostics)


def _placed(diagnostic: Diagnostic, path: Path) -> Diagnostic:
    return replace(diagnostic, file=str(path / diagnostic.file))


def _counts(errors: int, warnings: int) -> str:
    parts = [_count(errors, "error"), _count(warnings, "warning")]
    text = ", ".join(part for part in parts if part)
    return f" ({text})" if text else ""


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number > 1 else ''}" if number else ""
