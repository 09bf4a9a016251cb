"""Cassettes: recorded runs as text files, beside the eval cases that play them.

A cassette is JSON Lines. Its lines after the first are the run's rows as `jsrun journal export` prints them. These say
what was called and answered, not when; so the first line, one object, adds what else a replay needs:

- `cassette`: the version of this format, 1;
- `run_id name program_hash engine form started_at clock_ms seed fuel input`: those of the run, JSON as values;
- `status reason output sentence`: how it ended; `sentence` is that of an ending without output;
- `answers`: of each answer, in the order they were given, `[seq, clock_ms]`, the call's number and the program's clock
  after it; null for one without a row, that of a blank status;
- `checks`: the numbers of the rows that are no steps of the program, those of guards.

Whoever can write a bundle can write its cassettes, so all of it is checked before it is believed.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final, cast

from jsrun._feed import ANSWERED
from jsrun.canonical import input_hash, json_text, parse_json
from jsrun.errors import EvalError
from jsrun.journal import EntryRow, RunRecord, RunRow, export_rows
from jsrun.replay import recorded_sentence
from jsrun.row_checks import entry_row, run_row
from ptc.wire import Json

__all__ = ["case_json", "read_cassette", "write_cassette"]

VERSION: Final = 1

_RUN_KEYS: Final = ("run_id", "name", "program_hash", "engine", "form", "started_at", "clock_ms", "seed")
_HEADER_KEYS: Final = (
    "cassette", *_RUN_KEYS, "fuel", "input", "status", "reason", "output", "sentence", "answers", "checks",
)  # fmt: skip
_ROW_KEYS: Final = (
    "seq", "at", "call", "ref", "input", "output", "spend", "note", "err", "elapsed", "state", "attempt",
)  # fmt: skip
# The doors whose answer is a value; an output of null is JSON null for these, and nothing for the others.
_GIVING: Final = ("ai", "tool", "ask", "recall")
_HINT: Final = 'Make it anew with "jsrun journal record".'


def write_cassette(record: RunRecord) -> str:
    """The cassette of a run that has ended."""
    return "\n".join([json_text(_header(record)), *export_rows(record)]) + "\n"


def case_json(record: RunRecord, name: str) -> dict[str, Json]:
    """The eval case that plays the cassette `NAME.jsonl` and expects what was recorded."""
    run = record.run
    result = _result(run)
    expect: dict[str, Json] = {"status": run.status}
    if run.reason is not None:
        expect["reason"] = run.reason
    if run.status == "finished":
        expect["output"] = {"exact": result.get("output")}
    calls: list[Json] = [f"{row.call} {row.ref}".rstrip() for row in record.current() if row.step]
    expect["calls"] = calls
    return {"name": name, "input": _value(run.input), "cassette": f"{name}.jsonl", "expect": expect}


def read_cassette(text: str, file: str) -> RunRecord:
    """The run of a cassette. EvalError, with file and line, for what is none."""
    lines = text.split("\n")
    header = _object(lines[0], file, 1, _HEADER_KEYS)
    if header["cassette"] != VERSION:
        raise EvalError(f"{file}:1: this program reads cassettes of version {VERSION}. {_HINT}")
    run = _run(header, file)
    answers = _answers(header["answers"], file)
    checks = header["checks"] if isinstance(header["checks"], list) else []
    rows = []
    for number, line in enumerate(lines[1:], start=2):
        if line.strip():
            columns = _object(line, file, number, _ROW_KEYS)
            rows.append(_row(columns, f"{file}:{number}", run.run_id, columns["seq"] in checks))
    current = RunRecord(run, tuple(rows)).current()
    placed = {row.key: _placed(row, answers, file) for row in current}
    entries = sorted((placed.get(row.key, row) for row in rows), key=lambda row: row.key)
    return RunRecord(replace(run, attempt=max((row.attempt for row in rows), default=1)), tuple(entries))


# --- writing ---


def _header(record: RunRecord) -> dict[str, Json]:
    run = record.run
    numbered = {row.answered: row for row in record.current() if row.answered is not None and row.state in ANSWERED}
    answers: list[Json] = []
    for number in range(1, max(numbered, default=0) + 1):
        row = numbered.get(number)
        answers.append(None if row is None else [row.seq, row.clock_ms])
    header: dict[str, Json] = {"cassette": VERSION}
    header |= {key: cast(Json, getattr(run, key)) for key in _RUN_KEYS}
    return header | {
        "fuel": _value(run.fuel),
        "input": _value(run.input),
        "status": run.status,
        "reason": run.reason,
        "output": _result(run).get("output"),
        "sentence": recorded_sentence(run),
        "answers": answers,
        "checks": [row.seq for row in record.current() if not row.step],
    }


def _result(run: RunRow) -> Mapping[str, Json]:
    value = None if run.result is None else _value(run.result)
    return value if isinstance(value, dict) else {}


def _value(text: str) -> Json:
    value: Json = parse_json(text)  # type: ignore[assignment]  # what JSON text holds is JSON
    return value


# --- reading ---


def _object(line: str, file: str, number: int, keys: tuple[str, ...]) -> dict[str, Json]:
    """One line, with just these keys."""
    try:
        value = _value(line)
    except ValueError as error:
        raise EvalError(f"{file}:{number}: this line of the cassette {error}. {_HINT}") from None
    if not isinstance(value, dict) or set(value) != set(keys):
        wanted = "the head of a cassette" if number == 1 else "a call of a cassette"
        raise EvalError(f"{file}:{number}: this line is not {wanted}, with {', '.join(keys)}. {_HINT}")
    return value


def _run(header: Mapping[str, Json], file: str) -> RunRow:
    status, sentence = header["status"], header["sentence"]
    result: dict[str, Json] = {"output": header["output"], "incomplete": "", "fell_back": ""}
    if status in ("incomplete", "fell_back"):
        result[str(status)] = sentence
    columns: dict[str, object] = {key: header[key] for key in (*_RUN_KEYS, "status", "reason")}
    columns |= {"bundle_hash": "", "owner": "", "attempt": 1, "parent_run_id": None, "ended_at": None}
    try:
        if status is None:
            raise ValueError('"status" must say how the run ended')
        columns |= {"fuel": json_text(header["fuel"]), "input": json_text(header["input"]), "result": json_text(result)}
        return run_row(columns)
    except ValueError as error:
        raise EvalError(f"{file}:1: {error}. {_HINT}") from None


def _answers(value: Json, file: str) -> dict[int, tuple[int, int]]:
    """The number of the answer of a call, and the clock after it, by the call's own number."""
    answers: dict[int, tuple[int, int]] = {}
    for number, item in enumerate(value if isinstance(value, list) else [0], start=1):
        match item:
            case None:
                continue
            case [int(seq), int(clock_ms)] if seq not in answers:
                answers[seq] = (number, clock_ms)
            case _:
                raise EvalError(f'{file}:1: "answers" must be a list of [number of the call, clock] or null. {_HINT}')
    return answers


def _row(line: Mapping[str, Json], place: str, run_id: str, is_check: bool) -> EntryRow:
    given, output, elapsed = line["input"], line["output"], line["elapsed"]
    has_output = output is not None or (line["state"] == "ok" and line["call"] in _GIVING)
    columns: dict[str, object] = {key: line[key] for key in _ROW_KEYS if key != "elapsed"}
    columns |= {"run_id": run_id, "step": int(not is_check), "answered": None, "clock_ms": None}
    columns["elapsed_ms"] = elapsed / 1e6 if isinstance(elapsed, int | float) else elapsed
    try:
        columns["input"] = None if given is None else json_text(given)
        columns["input_hash"] = input_hash(given)
        columns["output"] = json_text(output) if has_output else None
        columns["spend"] = None if line["spend"] is None else json_text(line["spend"])
        return entry_row(columns)
    except ValueError as error:
        raise EvalError(f"{place}: {error}. {_HINT}") from None


def _placed(row: EntryRow, answers: Mapping[int, tuple[int, int]], file: str) -> EntryRow:
    """The row with the number of its answer and the clock after it."""
    if row.state not in ANSWERED:
        return row
    if row.seq not in answers:
        raise EvalError(f'{file}:1: "answers" does not say when call {row.seq} was answered. {_HINT}')
    answered, clock_ms = answers[row.seq]
    return replace(row, answered=answered, clock_ms=clock_ms)
