"""`jsrun test`: the evals of bundles, and what they reach of the programs. Needs no model."""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from jsrun.bundle import Bundle
from jsrun.cli.finding import Place, find_place
from jsrun.cli.output import Refusal, diagnostic_json, print_json
from jsrun.coverage import Coverage, CoverageReport, lcov
from jsrun.diagnostics import Diagnostic, nearest
from jsrun.errors import BundleError, EvalError, JsrunError
from jsrun.evals import Case, CaseReport, load_cases, run_case
from ptc.command_line import printable
from ptc.errors import UsageError
from ptc.runtime import Runtime

# Console entries shown of a case that failed.
_MOST_LOGS = 10


@dataclass(slots=True)
class _Tested:
    """One bundle, as far as it could be tested. `problem` is why its cases did not run, if they did not."""

    path: Path
    bundle: Bundle | None = None
    cases: tuple[Case, ...] = ()
    reports: list[CaseReport] = field(default_factory=list)
    coverage: CoverageReport | None = None
    problem: JsrunError | None = None

    @property
    def failed(self) -> int:
        """How many cases failed; a bundle that cannot be tested counts as one."""
        return sum(not report.passed for report in self.reports) + (self.problem is not None)


def command(
    paths: Annotated[
        list[str], typer.Argument(metavar="NAME|PATH...", help="Bundles: names out of the stores, or directories.")
    ],
    case: Annotated[
        str | None, typer.Option("--case", metavar="CASE", help="Only this case, by its name or its file.")
    ] = None,
    coverage: Annotated[
        bool, typer.Option("--coverage", help="Also tell which lines and branches the cases do not reach.")
    ] = False,
    lcov_file: Annotated[
        Path | None, typer.Option("--lcov", metavar="FILE", help="Write the coverage to a file in lcov's format.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> int:
    """Run the evals of bundles. Exit 0 if all cases pass, 1 if one does not."""
    places = [find_place(path) for path in paths]
    tested = [_loaded(place, case) for place in places]
    if case is not None and not any(each.cases or each.problem for each in tested):
        raise Refusal(_no_case(case, [name for place in places for name in _names(place)]), code="not-found")
    asyncio.run(_run_all(tested, measured=coverage or lcov_file is not None, as_json=as_json))
    if lcov_file is not None:
        _write_lcov(lcov_file, tested)
    failed = sum(each.failed for each in tested)
    if as_json:
        print_json(_document(tested, failed))
    else:
        print(_summary(tested, failed))
    return 1 if failed else 0


# --- loading ---


def _loaded(place: Place, wanted: str | None) -> _Tested:
    tested = _Tested(place.path)
    try:
        tested.bundle = Bundle.load(place.path)
        cases = load_cases(tested.bundle)
        tested.cases = tuple(case for case in cases if wanted is None or _is(case, wanted, place.path))
    except (BundleError, EvalError) as error:
        tested.problem = error
    return tested


def _is(case: Case, wanted: str, path: Path) -> bool:
    file = Path(case.file)
    return wanted in (case.name, case.file, file.name, file.stem, str(path / file))


def _names(place: Place) -> list[str]:
    try:
        return [case.name for case in load_cases(Bundle.load(place.path))]
    except (BundleError, EvalError):
        return []


def _no_case(wanted: str, names: list[str]) -> str:
    meant = nearest(wanted, names)
    if meant is not None:
        return f'There is no case "{wanted}". Did you mean "{meant}"?'
    there = ", ".join(f'"{name}"' for name in sorted(names))
    return (
        f'There is no case "{wanted}". There are: {there}.' if there else f'There is no case "{wanted}", nor any other.'
    )


# --- running ---


async def _run_all(tested: list[_Tested], *, measured: bool, as_json: bool) -> None:
    """Run every case, and show each bundle when it is done."""
    runtimes: dict[str, Runtime] = {}
    total = sum(len(each.cases) for each in tested)
    done = 0
    try:
        with _progress(quiet=as_json) as show:
            for each in tested:
                coverage = Coverage(each.bundle) if measured and each.bundle is not None else None
                for case in each.cases:
                    show(f"{each.path}: {case.name} ({done + 1} of {total})")
                    await _run_one(each, case, coverage, runtimes)
                    done += 1
                    if each.problem is not None:
                        break
                if coverage is not None and each.problem is None:
                    each.coverage = coverage.report()
                if not as_json:
                    show("")
                    _print(each)
    finally:
        for runtime in runtimes.values():
            await runtime.aclose()


async def _run_one(tested: _Tested, case: Case, coverage: Coverage | None, runtimes: dict[str, Runtime]) -> None:
    assert tested.bundle is not None
    engine = tested.bundle.manifest.engine
    if engine not in runtimes:
        try:
            # Every case loads the program anew, so no process would ever wait for a second run.
            runtimes[engine] = Runtime(engine=engine, spares=0)
        except UsageError as error:
            raise Refusal(f'The engine "{engine}" cannot be used: {error}.') from None
    try:
        tested.reports.append(await run_case(tested.bundle, case, runtime=runtimes[engine], coverage=coverage))
    except BundleError as error:
        tested.problem = error
    except EvalError as error:
        tested.reports.append(CaseReport(False, (str(error),), None))
    except JsrunError as error:
        raise Refusal.of(error) from None


@contextmanager
def _progress(*, quiet: bool) -> Iterator["_Show"]:
    """A live line on a terminal, nothing elsewhere. Shown on stderr, away while there is nothing to say."""
    show = _Show(None if quiet or not sys.stderr.isatty() else Console(stderr=True, highlight=False, markup=False))
    try:
        yield show
    finally:
        show("")


class _Show:
    def __init__(self, console: Console | None) -> None:
        self._console = console
        self._status = None if console is None else console.status("")

    def __call__(self, text: str) -> None:
        if self._status is None:
            return
        if text:
            self._status.update(Text(printable(text)))
            self._status.start()
        else:
            self._status.stop()


# --- what is shown ---


def _print(tested: _Tested) -> None:
    lines = [str(tested.path)]
    if tested.problem is not None:
        lines += _problem_lines(tested)
    elif not tested.cases:
        lines.append("  no cases")
    for case, report in zip(tested.cases, tested.reports, strict=False):
        lines.append(f"  {'ok    ' if report.passed else 'failed'}  {case.name}  {tested.path / case.file}")
        if not report.passed:
            lines += _failure_lines(report)
    if tested.coverage is not None:
        lines += _coverage_lines(tested.coverage, tested.path)
    print(printable("\n".join(lines)))


def _problem_lines(tested: _Tested) -> list[str]:
    if isinstance(tested.problem, BundleError):
        return [f"  {placed}" for placed in _placed(tested)]
    return [f"  {tested.path}/{line}" for line in str(tested.problem).splitlines()]


def _placed(tested: _Tested) -> list[Diagnostic]:
    """The diagnostics of a bundle that cannot be used, with the paths of its files."""
    found = tested.problem.diagnostics if isinstance(tested.problem, BundleError) else ()
    return [replace(diagnostic, file=str(tested.path / diagnostic.file)) for diagnostic in found]


def _failure_lines(report: CaseReport) -> list[str]:
    lines = []
    for problem in report.problems:
        first, *details = problem.split("\n")
        lines += [f"          {first}", *(f"            {detail}" for detail in details)]
    entries = report.result.logs if report.result is not None else ()
    loud = [entry for entry in entries if entry.level in ("warn", "error")]
    lines += [f"          console.{entry.level}: {entry.text}" for entry in loud[-_MOST_LOGS:]]
    return lines


def _coverage_lines(report: CoverageReport, path: Path) -> list[str]:
    lines, functions, branches = report.line_share, report.function_share, report.branch_share
    file = path / report.source
    head = f"  coverage: {lines} lines, {functions} functions, {branches} branches"
    places = [
        (f"{file}:{line}:{column}" if column else f"{file}:{line}", text) for line, column, text in report.missed()
    ]
    return [head, *(f"    {place}: {text}" for place, text in places)]


def _summary(tested: list[_Tested], failed: int) -> str:
    passed = sum(report.passed for each in tested for report in each.reports)
    return f"{passed} passed, {failed} failed" if failed else f"{passed} passed"


def _document(tested: list[_Tested], failed: int) -> dict[str, object]:
    return {
        "ok": failed == 0,
        "passed": sum(report.passed for each in tested for report in each.reports),
        "failed": failed,
        "bundles": [_bundle_json(each) for each in tested],
    }


def _bundle_json(tested: _Tested) -> dict[str, object]:
    problem = tested.problem
    return {
        "path": str(tested.path),
        "name": tested.bundle.manifest.name if tested.bundle is not None else None,
        "ok": tested.failed == 0,
        "problem": None if problem is None else str(problem),
        "diagnostics": [diagnostic_json(diagnostic) for diagnostic in _placed(tested)],
        "cases": [
            {
                "name": case.name,
                "file": str(tested.path / case.file),
                "passed": report.passed,
                "problems": list(report.problems),
                "result": None if report.result is None else report.result.to_json(),
            }
            for case, report in zip(tested.cases, tested.reports, strict=False)
        ],
        "coverage": None if tested.coverage is None else tested.coverage.to_json(),
    }


def _write_lcov(path: Path, tested: list[_Tested]) -> None:
    records = [
        lcov(each.coverage, str(each.path / each.coverage.source)) for each in tested if each.coverage is not None
    ]
    try:
        path.write_text("".join(records), encoding="utf-8", newline="\n")
    except OSError as error:
        raise Refusal(f'--lcov: "{path}" cannot be written: {error.strerror}.') from None
