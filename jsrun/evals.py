"""Evals: the executable cases of a bundle. A case scripts the doors and says what must come of the run."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Final, cast

from jsrun._resuming import recorded_fuel
from jsrun._text import quoted
from jsrun.bundle import Bundle
from jsrun.canonical import json_text
from jsrun.cassette import read_cassette
from jsrun.coverage import Coverage
from jsrun.errors import EvalError, InputError, JournalError
from jsrun.eval_cases import Case, Expectation, OutputForm, read_case
from jsrun.eval_differences import call_difference, differences, shown
from jsrun.fuel import merge
from jsrun.journal import EntryRow, MemoryJournal, RunRecord
from jsrun.memory import parse_notes
from jsrun.result import RunResult
from jsrun.runner import Runner
from jsrun.schemas import Schema
from jsrun.testing import FakeLook, FakeMemory, ScriptedEnv, contained
from ptc.outcome import Unset
from ptc.runtime import Runtime
from ptc.wire import Json

__all__ = ["Case", "CaseReport", "Expectation", "load_cases", "run_case"]

# A case runs at the same moment with the same randomness every time, so its outcome cannot depend on when it runs.
_SEED: Final = "eval"
_STARTED_AT: Final = "2000-01-01T00:00:00Z"
_LONG: Final = 500  # characters


@dataclass(frozen=True, slots=True)
class CaseReport:
    """How a case went: it passed if there are no `problems`. `result` is None if the run could not happen.

    A problem is a sentence; lines below it, if there are any, say where the difference is.
    """

    passed: bool
    problems: tuple[str, ...]
    result: RunResult | None


def load_cases(bundle: Bundle) -> tuple[Case, ...]:
    """The cases of a bundle, by file name.

    EvalError for those that cannot be read, or whose cassette cannot be: a line each, with file and place.
    """
    cases: list[Case] = []
    problems: list[str] = []
    for name in sorted(name for name in bundle.evals if name.endswith(".json")):
        try:
            case = read_case(f"evals/{name}", bundle.evals[name])
            if case.cassette is not None:
                _cassette(bundle, case, case.cassette)
            cases.append(case)
        except EvalError as error:
            problems.append(str(error))
    if problems:
        raise EvalError("\n".join(problems))
    return tuple(cases)


async def run_case(
    bundle: Bundle, case: Case, *, runtime: Runtime | None = None, coverage: Coverage | None = None
) -> CaseReport:
    """Run one case, in `runtime` if there is one. EvalError for a case that cannot be run.

    coverage: that of the bundle, to which what the case reaches is added.
    """
    with nullcontext(bundle) if coverage is None else coverage.case(bundle) as watched:
        if case.cassette is not None:
            return await _play(watched, case, _cassette(bundle, case, case.cassette), runtime)
        return await _play_script(watched, case, runtime)


async def _play_script(bundle: Bundle, case: Case, runtime: Runtime | None) -> CaseReport:
    """Run a case against its script of the doors."""
    env = ScriptedEnv(case.doors)
    journal = MemoryJournal()
    memory = None if case.memory is None else FakeMemory(parse_notes(case.memory))
    async with Runner(bundle.with_memory(memory), runtime=runtime, journal=journal) as runner:
        try:
            result = await runner.run(
                None if isinstance(case.input, Unset) else case.input,
                env,
                fuel=case.fuel,
                look=FakeLook(case.files, case.tools),
                seed=_SEED,
                started_at=_STARTED_AT,
            )
        except InputError as error:
            return CaseReport(False, (f"The input is refused: {error}",), None)
    rows = (await journal.read(result.run_id)).entries
    problems = (*await _compare(case.expect, result, rows), *env.problems())
    return CaseReport(not problems, problems, result)


def _cassette(bundle: Bundle, case: Case, name: str) -> RunRecord:
    text = bundle.evals.get(name)
    if text is None:
        raise EvalError(f'{case.file}: there is no cassette "evals/{name}". Make it with "jsrun journal record".')
    record = read_cassette(text, f"evals/{name}")
    try:
        recorded_fuel(record.run)
    except JournalError:
        raise EvalError(f'evals/{name}:1: "fuel" is not the fuel of a run.') from None
    return record


async def _play(bundle: Bundle, case: Case, record: RunRecord, runtime: Runtime | None) -> CaseReport:
    """Replay the cassette of a case, with the case's own input and fuel over those of the recording."""
    run = replace(record.run, fuel=json_text(merge(case.fuel, recorded_fuel(record.run)).to_json()))
    if not isinstance(case.input, Unset):
        run = replace(run, input=json_text(case.input))
    async with Runner(bundle, runtime=runtime) as runner:
        try:
            report = await runner.replay_record(replace(record, run=run))
        except InputError as error:
            return CaseReport(False, (f"The input is refused: {error}",), None)
    if report.difference is not None:
        return CaseReport(False, (f"The run is not as recorded: {report.difference}",), report.result)
    problems = tuple(await _compare(case.expect, report.result, record.current()))
    return CaseReport(not problems, problems, report.result)


async def _compare(expect: Expectation, result: RunResult, rows: Sequence[EntryRow]) -> list[str]:
    problems = []
    ending = f"it ended as {result.status}" + (f" ({result.reason}): {result.sentence}" if result.reason else "")
    if expect.status is not None and expect.status != result.status:
        problems.append(f'The status should be "{expect.status}", {ending}')
    if expect.reason is not None and expect.reason != result.reason:
        problems.append(f'The reason should be "{expect.reason}", {ending}')
    if expect.report is not None and expect.report != result.report:
        problems.append(f"The report should be {quoted(expect.report)}, it is {quoted(result.report)}.")
    if isinstance(expect.calls, int) and expect.calls != result.calls:
        problems.append(f"There should be {expect.calls} door calls, there were {result.calls}.")
    elif isinstance(expect.calls, tuple):
        calls = [f"{row.call} {row.ref}".rstrip() for row in rows if row.step]
        if calls != list(expect.calls):
            difference = call_difference(expect.calls, calls)
            should, were = shown(list(expect.calls), _LONG), shown(calls, _LONG)
            problems.append(f"The calls should be {should}, they were {were}.\n{difference}")
    if expect.form is not None and not isinstance(expect.output, Unset):
        problems += await _compare_output(expect.form, expect.output, result.output)
    return problems


async def _compare_output(form: OutputForm, wanted: Json, output: Json) -> list[str]:
    if form == "schema":
        schema = await Schema.load(cast(dict[str, Json], wanted), "expect.output.schema")
        if not isinstance(schema, Schema):
            return [str(problem) for problem in schema]
        return list(await schema.problems(output, "output", object_root=False))
    if contained(wanted, output) and (form == "subset" or contained(output, wanted)):
        return []
    word = "be" if form == "exact" else "contain"
    details = differences(wanted, output, exact=form == "exact")
    return ["\n".join([f"The output should {word} {shown(wanted, _LONG)}, it is {shown(output, _LONG)}.", *details])]
