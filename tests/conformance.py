"""`python -m tests.conformance`: run the tests of `ptc` and write what they covered into `ptc/README.md`.

A test carries the ids of the conformance lines it covers in its docstring, and the engine it runs on as its parameter
`engine`. A line counts for an engine if at least one test with its id passed on it and none failed.
"""

import re
import sys
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = ROOT / "ptc" / "README.md"
BEGIN, END = "<!-- conformance: written by python -m tests.conformance -->", "<!-- conformance: end -->"
ID = re.compile(r"PTC-(\d{3})(?:\.\.(\d{3}))?")

GROUPS = (
    ("wire values", 1, 18),
    ("frames", 19, 25),
    ("messages and machine", 26, 47),
    ("processes and isolation", 48, 71),
    ("realm and calls", 72, 94),
    ("errors and console", 95, 101),
    ("limits and outcomes", 102, 118),
    ("Python API", 119, 131),
    ("type stripping", 132, 136),
    ("tools", 137, 143),
    ("command line and speed", 144, 149),
)


def line_numbers(text: str) -> set[int]:
    """The conformance lines that a docstring names; `PTC-048..052` names a range."""
    found: set[int] = set()
    for first, last in ID.findall(text):
        found.update(range(int(first), int(last or first) + 1))
    return found


class Recorder:
    """A pytest plugin that notes which lines passed and failed on which engine."""

    def __init__(self) -> None:
        self._lines: dict[str, tuple[str, set[int]]] = {}
        self.passed: dict[str, set[int]] = defaultdict(set)
        self.failed: dict[str, set[int]] = defaultdict(set)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Note the ids and the engine of each test."""
        for item in items:
            function = getattr(item, "obj", None)
            owner = getattr(item, "cls", None)
            text = " ".join(filter(None, (getattr(function, "__doc__", ""), getattr(owner, "__doc__", ""))))
            specification = getattr(item, "callspec", None)
            engine = str(specification.params.get("engine", "")) if specification is not None else ""
            self._lines[item.nodeid] = (engine, line_numbers(text))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note how it ended."""
        engine, lines = self._lines.get(report.nodeid, ("", set()))
        if report.failed:
            self.failed[engine].update(lines)
        elif report.when == "call" and report.passed:
            self.passed[engine].update(lines)


def table(recorder: Recorder) -> str:
    """The table in Markdown. Tests without an engine count for every engine."""
    engines = sorted(engine for engine in {*recorder.passed, *recorder.failed} if engine)
    columns = engines or ["all"]
    rows = [
        f"| lines | | {' | '.join(columns)} | not tested |",
        f"|---|---|{'---|' * (len(columns) + 1)}",
    ]
    for name, first, last in GROUPS:
        lines = set(range(first, last + 1))
        cells = []
        tested: set[int] = set()
        for column in columns:
            engine = column if engines else ""
            bad = (recorder.failed[engine] | recorder.failed[""]) & lines
            good = ((recorder.passed[engine] | recorder.passed[""]) & lines) - bad
            tested |= good
            cells.append(f"{len(good)} of {len(lines)}" + (f", failing {_ids(bad)}" if bad else ""))
        rows.append(f"| {_ids({first})}–{last:03} | {name} | {' | '.join(cells)} | {_ids(lines - tested)} |")
    return "\n".join(rows)


def write(text: str) -> None:
    """Put the table between the two marks of the README."""
    readme = README.read_text()
    before, _, rest = readme.partition(BEGIN)
    _, _, after = rest.partition(END)
    README.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")


def _ids(numbers: set[int]) -> str:
    return " ".join(f"PTC-{number:03}" for number in sorted(numbers))


def main() -> int:
    """Run, write, and return pytest's exit code."""
    recorder = Recorder()
    tests = [ROOT / "tests" / name for name in ("ptc", "test_cases.py", "test_bench.py", "test_readme.py")]
    names = [*map(str, tests)]
    # The processes that run the tests collect them, so what they are about is noted before.
    pytest.main(["--collect-only", "-qq", "-n", "0", *names], plugins=[recorder])
    code = pytest.main(["-q", *names], plugins=[recorder])
    write(table(recorder))
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
