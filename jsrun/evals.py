"""Evals: the executable cases of a bundle. A case scripts the doors and says what must come of the run."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, fields, replace
from typing import Final, Literal, TypeAlias, cast, get_args

from jsrun import strictjson
from jsrun._resuming import recorded_fuel
from jsrun._text import compact_json, quoted
from jsrun.bundle import Bundle
from jsrun.canonical import MAX_LEVELS, json_text
from jsrun.cassette import read_cassette
from jsrun.coverage import Coverage
from jsrun.diagnostics import nearest
from jsrun.errors import EvalError, InputError, JournalError
from jsrun.eval_differences import call_difference, differences
from jsrun.fuel import Fuel, merge
from jsrun.journal import EntryRow, MemoryJournal, RunRecord
from jsrun.memory import parse_notes
from jsrun.result import REASONS, STATUSES, RunResult
from jsrun.runner import Runner
from jsrun.schemas import Schema
from jsrun.testing import FakeLook, FakeMemory, ScriptedEnv, contained
from jsrun.units import SECOND, parse_duration, parse_size, parse_whole
from ptc.outcome import UNSET, Unset
from ptc.runtime import Runtime
from ptc.wire import Json

__all__ = ["Case", "CaseReport", "Expectation", "load_cases", "run_case"]

OutputForm: TypeAlias = Literal["exact", "schema", "subset"]

_KEYS: Final = ("name", "input", "look", "memory", "fuel", "doors", "cassette", "expect")
_EXPECT_KEYS: Final = ("status", "reason", "output", "report", "calls")
_LOOK_KEYS: Final = ("files", "tools")
_FUEL_KEYS: Final = tuple(item.name for item in fields(Fuel))

# A case runs at the same moment with the same randomness every time, so its outcome cannot depend on when it runs.
_SEED: Final = "eval"
_STARTED_AT: Final = "2000-01-01T00:00:00Z"
_SHOWN_CHARS: Final = 500


@dataclass(frozen=True, slots=True)
class Expectation:
    """What must hold of the result; None, or UNSET where null is a value, is not looked at.

    `output` is compared as `form` says: `exact` equality, `schema` it must fit, `subset` it must contain.
    """

    status: str | None = None
    reason: str | None = None
    form: OutputForm | None = None
    output: "Json | Unset" = UNSET
    report: str | None = None
    calls: int | tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """One case. `file` is where it stands; of `doors`, a script, and `cassette`, a recorded run, there is one.

    `cassette` is the name of a file beside it. UNSET as `input` is that of the cassette.
    """

    file: str
    name: str
    input: "Json | Unset"
    expect: Expectation
    doors: tuple[Mapping[str, Json], ...] = ()
    cassette: str | None = None
    files: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    memory: str | None = None
    fuel: Fuel = field(default_factory=Fuel)


@dataclass(frozen=True, slots=True)
class CaseReport:
    """How a case went: it passed if there are no `problems`. `result` is None if the run could not happen.

    A problem is a sentence; lines below it, if there are any, say where the difference is.
    """

    passed: bool
    problems: tuple[str, ...]
    result: RunResult | None


def load_cases(bundle: Bundle) -> tuple[Case, ...]:
    """The cases of a bundle, by file name. EvalError, with file and place, for one that cannot be read, or whose
    cassette cannot be."""
    texts = sorted((name, text) for name, text in bundle.evals.items() if name.endswith(".json"))
    cases = tuple(_Reader(f"evals/{name}").case(text) for name, text in texts)
    for case in cases:
        if case.cassette is not None:
            _cassette(bundle, case, case.cassette)
    return cases


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
            problems.append(
                f"The calls should be {_shown(list(expect.calls))}, they were {_shown(calls)}.\n{difference}"
            )
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
    return ["\n".join([f"The output should {word} {_shown(wanted)}, it is {_shown(output)}.", *details])]


def _shown(value: object) -> str:
    text = compact_json(value)
    return text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "…"


class _Reader:
    """Reads one file; every refusal names it."""

    def __init__(self, file: str) -> None:
        self._file = file

    def case(self, text: str) -> Case:
        document, problems = strictjson.read(text, self._file, "eval-invalid", MAX_LEVELS)
        if document is None or problems:
            raise EvalError("\n".join(map(str, problems)))
        raw = self._object(document.value, "The case", _KEYS)
        if "doors" in raw and "cassette" in raw:
            raise self._refuse('"doors" and "cassette" exclude each other.')
        if "expect" not in raw:
            raise self._refuse('The case needs "expect", what must come of the run.')
        look = self._object(raw.get("look", {}), '"look"', _LOOK_KEYS)
        case = Case(
            file=self._file,
            name=self._text(raw, "name") or self._file.removeprefix("evals/").removesuffix(".json"),
            input=raw.get("input", UNSET if "cassette" in raw else None),
            expect=self._expectation(self._object(raw["expect"], '"expect"', _EXPECT_KEYS)),
            doors=self._doors(raw.get("doors", [])),
            cassette=self._text(raw, "cassette"),
            files=self._texts(look.get("files", []), '"look.files"'),
            tools=self._texts(look.get("tools", []), '"look.tools"'),
            memory=self._text(raw, "memory"),
            fuel=self._fuel(self._object(raw.get("fuel", {}), '"fuel"', _FUEL_KEYS)),
        )
        try:
            ScriptedEnv(case.doors)
        except EvalError as error:
            raise self._refuse(f"{error}.") from None
        return case

    def _expectation(self, raw: Mapping[str, Json]) -> Expectation:
        output: Mapping[str, Json] = {}
        if "output" in raw:
            output = self._object(raw["output"], '"expect.output"', get_args(OutputForm))
            if len(output) != 1:
                raise self._refuse('"expect.output" needs exactly one of "exact", "schema" and "subset".')
        form, wanted = next(iter(output.items()), (None, UNSET))
        if form == "schema" and not isinstance(wanted, dict):
            raise self._refuse('"expect.output.schema" must be an object.')
        calls: Json = raw.get("calls")
        if isinstance(calls, bool) or (isinstance(calls, int) and calls < 0):
            calls = ""
        if isinstance(calls, list):
            counted: int | tuple[str, ...] | None = self._texts(calls, '"expect.calls"')
        elif calls is None or isinstance(calls, int):
            counted = calls
        else:
            raise self._refuse('"expect.calls" must be a count, or a list such as ["ai summarise", "log"].')
        return Expectation(
            status=self._one_of(raw, "status", STATUSES),
            reason=self._one_of(raw, "reason", REASONS),
            form=cast("OutputForm | None", form),
            output=wanted,
            report=self._text(raw, "report", "expect."),
            calls=counted,
        )

    def _fuel(self, raw: Mapping[str, Json]) -> Fuel:
        values: dict[str, float] = {}
        for key, value in raw.items():
            if key in ("wall", "compute"):
                duration = parse_duration(value)
                amount = None if duration is None else duration / SECOND
            else:
                amount = parse_size(value) if key in ("memory", "output") else parse_whole(value)
            if amount is None or amount <= 0:
                raise self._refuse(f'"fuel.{key}" is no amount; write it as in a manifest, such as 5, "30s" or "1MiB".')
            values[key] = amount
        return Fuel(**values)  # type: ignore[arg-type]  # counts are whole numbers

    def _doors(self, value: Json) -> tuple[Mapping[str, Json], ...]:
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self._refuse('"doors" must be a list of objects such as {"door": "ai", "text": "yes"}.')
        return tuple(cast("list[dict[str, Json]]", value))

    def _object(self, value: Json, what: str, keys: Iterable[str]) -> Mapping[str, Json]:
        if not isinstance(value, dict):
            raise self._refuse(f"{what} must be an object.")
        known = tuple(keys)
        for key in value:
            if key not in known:
                meant = nearest(key, known)
                hint = f"Did you mean {quoted(meant)}?" if meant else f"Known are {', '.join(known)}."
                raise self._refuse(f"{what} has the unknown key {quoted(key)}. {hint}")
        return value

    def _text(self, raw: Mapping[str, Json], key: str, where: str = "") -> str | None:
        value = raw.get(key)
        if value is not None and not isinstance(value, str):
            raise self._refuse(f'"{where}{key}" must be a text.')
        return value

    def _texts(self, value: Json, what: str) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self._refuse(f"{what} must be a list of texts.")
        return tuple(cast("list[str]", value))

    def _one_of(self, raw: Mapping[str, Json], key: str, known: Sequence[str]) -> str | None:
        value = self._text(raw, key, "expect.")
        if value is not None and value not in known:
            raise self._refuse(f'"expect.{key}" must be one of {", ".join(known)}, got {quoted(value)}.')
        return value

    def _refuse(self, problem: str) -> EvalError:
        return EvalError(f"{self._file}: {problem}")
