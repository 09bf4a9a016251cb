"""Coverage: which lines, functions and branches of a program its evals reach.

`Coverage(bundle)` makes bundles whose program tells the host what it reaches, once each, at the moment it does, so
that a run that throws or is stopped has told everything up to there. Everything is counted in cases: how many of them
reached a line, not how often they did.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from jsrun._probes import TELL, Arm, Branch, Function, Plan, plan
from jsrun.analysis import analyse
from jsrun.bundle import Bundle
from jsrun.program import Probes, Program

__all__ = ["Coverage", "CoverageReport", "CoveredArm", "CoveredBranch", "CoveredFunction", "Share", "lcov"]

_HIDDEN: Final = ("\n", "\r", ",")


@dataclass(frozen=True, slots=True)
class Share:
    """So many of so many."""

    reached: int
    of: int

    def __str__(self) -> str:
        return f"{self.reached} of {self.of}"


@dataclass(frozen=True, slots=True)
class CoveredFunction:
    """A function, "" if it has no name, and how many cases called it."""

    name: str
    line: int
    column: int
    cases: int


@dataclass(frozen=True, slots=True)
class CoveredArm:
    """One way a branch may go, how many cases went that way, and what it means, in words, if none did."""

    name: str
    line: int
    column: int
    cases: int
    missed: str


@dataclass(frozen=True, slots=True)
class CoveredBranch:
    """A branch and its arms."""

    kind: str
    line: int
    column: int
    arms: tuple[CoveredArm, ...]

    @property
    def came_up(self) -> bool:
        """Whether any case came to it, as far as its arms tell."""
        return any(arm.cases for arm in self.arms)


@dataclass(frozen=True, slots=True)
class CoverageReport:
    """What `cases` cases reached of a program; its lines are those on which a statement begins."""

    source: str
    cases: int
    lines: Mapping[int, int]
    functions: tuple[CoveredFunction, ...]
    branches: tuple[CoveredBranch, ...]

    @property
    def line_share(self) -> Share:
        """Lines reached."""
        return _share(self.lines.values())

    @property
    def function_share(self) -> Share:
        """Functions called."""
        return _share(function.cases for function in self.functions)

    @property
    def branch_share(self) -> Share:
        """Arms of branches taken."""
        return _share(arm.cases for branch in self.branches for arm in branch.arms)

    def missed(self) -> Iterator[tuple[int, int, str]]:
        """Line, column and one sentence for everything that no case reached, in order.

        Lines that follow each other are one; what is only missed because its line is, is left out.
        """
        found = [*self._missed_lines(), *self._missed_functions(), *self._missed_arms()]
        yield from sorted(found)

    def to_json(self) -> dict[str, object]:
        """The report as a JSON object."""
        return {
            "source": self.source,
            "cases": self.cases,
            "summary": {
                name: {"reached": share.reached, "of": share.of}
                for name, share in (
                    ("lines", self.line_share),
                    ("functions", self.function_share),
                    ("branches", self.branch_share),
                )
            },
            "lines": {str(line): cases for line, cases in self.lines.items()},
            "functions": [
                {"name": each.name, "line": each.line, "column": each.column, "cases": each.cases}
                for each in self.functions
            ],
            "branches": [
                {
                    "kind": branch.kind,
                    "line": branch.line,
                    "column": branch.column,
                    "arms": [
                        {"name": arm.name, "line": arm.line, "column": arm.column, "cases": arm.cases}
                        for arm in branch.arms
                    ],
                }
                for branch in self.branches
            ],
            "missed": [{"line": line, "column": column, "message": text} for line, column, text in self.missed()],
        }

    def _missed_lines(self) -> Iterator[tuple[int, int, str]]:
        group: list[int] = []
        for line, cases in (*self.lines.items(), (0, 1)):
            if cases == 0:
                group.append(line)
            elif group:
                what = f"line {group[0]} never runs" if len(group) == 1 else f"lines {group[0]}–{group[-1]} never run"
                yield group[0], 0, what
                group = []

    def _missed_functions(self) -> Iterator[tuple[int, int, str]]:
        for function in self.functions:
            if function.cases == 0 and self.lines.get(function.line, 1):
                yield function.line, function.column, f"{function.name or 'this function'} is never called"

    def _missed_arms(self) -> Iterator[tuple[int, int, str]]:
        for branch in self.branches:
            if self.lines.get(branch.line, 1) == 0:
                continue
            if len(branch.arms) == 2 and branch.kind != "switch" and not branch.came_up:
                yield branch.line, branch.column, "the condition is never evaluated"
                continue
            for arm in branch.arms:
                if arm.cases == 0 and self.lines.get(arm.line, 1):
                    yield arm.line, arm.column, arm.missed


class Coverage:
    """Collects what cases reach of one bundle's program."""

    def __init__(self, bundle: Bundle) -> None:
        facts = analyse(bundle.program)
        self._facts = facts
        self._source = bundle.source
        self._plan: Plan = plan(bundle.program, facts.value)
        self._reached: Counter[int] = Counter()
        self._cases = 0

    @contextmanager
    def case(self, bundle: Bundle) -> Iterator[Bundle]:
        """The same bundle (its program must be that of ours), watched: what is run of it in the block is one case."""
        reached: set[int] = set()
        counters = self._plan.counters

        def tell(number: object) -> None:
            # It comes from the program's process, so it may be anything.
            if isinstance(number, int) and 0 <= number < counters:
                reached.add(int(number))

        probes = Probes(self._plan.edits, {self._plan.namespace: {TELL: tell}}, counters)
        try:
            yield bundle.with_prepared(Program.of(bundle.program, self._facts, probes))
        finally:
            self._cases += 1
            self._reached.update(reached)

    def report(self) -> CoverageReport:
        """What the cases so far have reached."""
        cases = self._reached
        return CoverageReport(
            source=self._source,
            cases=self._cases,
            lines={line: max(cases[each] for each in counters) for line, counters in self._plan.lines.items()},
            functions=tuple(self._function(each) for each in self._plan.functions),
            branches=tuple(self._branch(each) for each in self._plan.branches),
        )

    def _function(self, function: Function) -> CoveredFunction:
        return CoveredFunction(function.name, function.line, function.column, self._reached[function.counter])

    def _branch(self, branch: Branch) -> CoveredBranch:
        arms = tuple(self._arm(arm) for arm in branch.arms)
        return CoveredBranch(branch.kind, branch.line, branch.column, arms)

    def _arm(self, arm: Arm) -> CoveredArm:
        return CoveredArm(arm.name, arm.line, arm.column, self._reached[arm.counter], arm.missed)


def _share(counts: Iterable[int]) -> Share:
    values = list(counts)
    return Share(sum(value > 0 for value in values), len(values))


def lcov(report: CoverageReport, path: str) -> str:
    """The report in the format of lcov, one record; `path` is what tools are to show as the program's file."""
    lines = ["TN:", f"SF:{path}"]
    names = [
        f"{_lcov_name(function.name) or '(anonymous)'}:{function.line}:{function.column}"
        for function in report.functions
    ]
    lines += [f"FN:{function.line},{name}" for function, name in zip(report.functions, names, strict=True)]
    lines += [f"FNDA:{function.cases},{name}" for function, name in zip(report.functions, names, strict=True)]
    lines += [f"FNF:{report.function_share.of}", f"FNH:{report.function_share.reached}"]
    for number, branch in enumerate(report.branches):
        for index, arm in enumerate(branch.arms):
            # Of a branch that never came up the format wants to know just that.
            taken = arm.cases if branch.came_up or len(branch.arms) == 1 else "-"
            lines.append(f"BRDA:{branch.line},{number},{index},{taken}")
    lines += [f"BRF:{report.branch_share.of}", f"BRH:{report.branch_share.reached}"]
    lines += [f"DA:{line},{cases}" for line, cases in report.lines.items()]
    lines += [f"LF:{report.line_share.of}", f"LH:{report.line_share.reached}", "end_of_record"]
    return "\n".join(lines) + "\n"


def _lcov_name(name: str) -> str:
    return "".join(character for character in name if character not in _HIDDEN)
