"""Cassettes: recorded runs as files beside the cases that play them."""

import json
from typing import Any

import pytest

from jsrun import AskAnswer, Bundle, Case, CaseReport, EvalError, RunRecord, RunResult, load_cases, run_case
from jsrun.cassette import case_json, read_cassette, write_cassette
from jsrun.journal import export_rows
from jsrun.testing import FakeLook, bundle
from ptc.wire import Json
from tests.jsrun.playing import Play
from tests.jsrun.recording import PROMPTS, Doer, Recording, Snapshots, noted

session = pytest.mark.asyncio(loop_scope="session")

PROGRAM = """
async function run({ text }) {
  const order = [];
  const parts = await Promise.all([20, 1, 10].map((ms) => tool("wait", { ms }).then(() => order.push(ms))));
  const label = await ai("sum", { text });
  const nothing = await ai("sum", null);
  await log("");
  await remember("a note");
  await tool("fail", {}).catch((error) => order.push(error.message));
  await tool("un" + "listed").catch((error) => order.push(error.message));
  await log("done");
  const rest = { notes: await recall(""), answer: await ask("Sure?"), random: Math.random(), at: Date.now() };
  return { order, label, nothing, rest };
}
"""


async def recorded(play: Play, program: str = PROGRAM, input: Json = None, **parts: Any) -> tuple[RunResult, RunRecord]:
    """A run and its record."""
    recording = Recording(play, program, **parts)
    result = await recording.run({"text": "abc"} if input is None else input)
    return result, await recording.record()


def with_cassette(play: Play, record: RunRecord, program: str = PROGRAM, **changes: Any) -> tuple[Bundle, Case]:
    """A bundle with the record as a case, and the case."""
    parts: dict[str, Any] = {"whitelist": ["wait", "fail", "other"], "engine": play.runtime.engine}
    parts.update({key: changes.pop(key) for key in ("guards", "output", "input_schema") if key in changes})
    plain = bundle(program, prompts=PROMPTS, **parts)
    case = {**case_json(record, "seen"), **changes}
    case = {key: value for key, value in case.items() if value != "absent"}
    evals = {"seen.json": json.dumps(case), "seen.jsonl": write_cassette(record)}
    made = Bundle(plain.manifest, program, prompts=PROMPTS, evals=evals)
    (loaded,) = load_cases(made)
    return made, loaded


async def played(play: Play, record: RunRecord, program: str = PROGRAM, **changes: Any) -> CaseReport:
    made, case = with_cassette(play, record, program, **changes)
    return await run_case(made, case, runtime=play.runtime)


@session
async def test_a_recorded_case_passes_without_a_model(play: Play) -> None:
    """JSR-126 order of answers, clock and randomness are in the cassette, so the output is equal to the last digit."""
    result, record = await recorded(play)
    assert result.status == "finished", result.sentence
    report = await played(play, record)
    assert report.problems == ()
    assert report.passed
    assert report.result is not None
    assert report.result.output == result.output
    assert report.result.spend == result.spend


@session
async def test_the_text_is_the_export_with_a_head(play: Play) -> None:
    """JSR-126 the format that is documented."""
    _result, record = await recorded(play)
    text = write_cassette(record)
    head, *rows = text.splitlines()
    assert rows == list(export_rows(record))
    header = json.loads(head)
    assert list(header) == [
        "cassette", "run_id", "name", "program_hash", "engine", "form", "started_at", "clock_ms", "seed", "fuel",
        "input", "status", "reason", "output", "sentence", "answers", "checks",
    ]  # fmt: skip
    assert header["answers"].count(None) == 1  # the blank status
    assert [answer[0] for answer in header["answers"][:3]] == [2, 3, 1]
    assert text.isascii()


@session
async def test_a_record_survives_the_way_into_a_file_and_back(play: Play) -> None:
    """JSR-126"""
    _result, record = await recorded(play)
    again = read_cassette(write_cassette(record), "evals/seen.jsonl")
    assert [
        (row.key, row.call, row.ref, row.input_hash, row.output, row.answered, row.clock_ms) for row in again.entries
    ] == [
        (row.key, row.call, row.ref, row.input_hash, row.output, row.answered, row.clock_ms) for row in record.entries
    ]
    assert again.spend() == record.spend()
    assert write_cassette(again) == write_cassette(record)


@session
async def test_a_case_fails_where_the_program_goes_another_way(play: Play) -> None:
    """JSR-126 JSR-101 with the call and the path."""
    _result, record = await recorded(play)
    changed = await played(play, record, PROGRAM.replace('"sum", { text }', '"sum", { text, more: 1 }'))
    assert changed.problems == (
        "The run is not as recorded: call 4 differs at input.input.more: recorded nothing, now 1.",
    )
    other_input = await played(play, record, input={"text": "abcd"})
    assert 'input.input.text: recorded "abc", now "abcd"' in other_input.problems[0]
    ending = await played(play, record, PROGRAM.replace("return { order", "return { sorted: order"))
    assert ending.problems[0].startswith("The run is not as recorded: the ending differs at output.order")


@session
async def test_expectations_of_a_recorded_case_are_looked_at(play: Play) -> None:
    """JSR-126 what an author adds to a case must hold too."""
    _result, record = await recorded(play)
    wrong = await played(play, record, expect={"status": "finished", "calls": 3, "report": "gone"})
    assert len(wrong.problems) == 2
    right = await played(play, record, expect={"output": {"subset": {"label": {"text": "abc"}}}, "report": "done"})
    assert right.passed
    assert (await played(play, record, input="absent")).passed


@session
@pytest.mark.parametrize(
    ("program", "reason", "parts"),
    [
        ("async function run() { await log('x'); throw new Error('odd') }", "threw", {}),
        ("async function run() { await log('x'); await ask('Well?') }", "unanswered", {}),
        ("async function run() { for (;;) await log('x') }", "steps", {"fuel": {"steps": 3}}),
        ("async function run() { await tool('wait', {ms: 60000}) }", "wall", {"fuel": {"wall": "200ms"}}),
        ("async function run() { await log('x'); return 1 }", "invalid_output", {"output": {"type": "object"}}),
    ],
)
async def test_runs_that_did_not_finish_are_cases_too(
    play: Play, program: str, reason: str, parts: dict[str, Any]
) -> None:
    """JSR-126 a recorded failure passes as recorded."""
    recording = Recording(play, program, **parts)
    env = Doer({"wait": recording_wait})
    env.answer = AskAnswer(unanswered=True)
    result = await recording.run({}, env)
    assert result.reason == reason
    report = await played(play, await recording.record(), program, **{k: v for k, v in parts.items() if k == "output"})
    assert report.problems == ()
    assert report.result is not None
    assert report.result.sentence == result.sentence


async def recording_wait(_args: dict[str, Json]) -> Json:
    import asyncio

    await asyncio.sleep(60)
    return None


@session
async def test_a_run_that_did_not_take_the_quick_way_is_a_case_too(play: Play) -> None:
    """JSR-126 what the guards saw is in the cassette."""
    guards = [{"kind": "file", "file": "a.md"}, {"kind": "judgement", "question": "Is it so?"}]
    program = "async function run() { return 1 }"
    for files in ([], ["a.md"]):
        recording = Recording(play, program, guards=guards)
        result = await recording.run(None, look=FakeLook(files))
        assert result.reason == "guard"
        report = await played(play, await recording.record(), program, guards=guards)
        assert report.problems == ()
        assert report.result is not None
        assert report.result.fell_back == result.fell_back
        assert report.result.spend == result.spend


@session
async def test_a_resumed_run_is_a_case_too(play: Play) -> None:
    """JSR-126 rows of all attempts are kept; those that count are played, all are billed."""
    program = "async function run() { await ai('sum', 1); await ai('sum', 2); await remember('n'); return 1 }"
    journal = Snapshots()
    async with play.runner(program, prompts=PROMPTS) as runner:
        first = await runner.run(None, Doer(), journal=journal)
        left = journal.at(4)
        env = Doer()
        env.notes = noted((await left.read(first.run_id)).entries)
        await runner.resume(first.run_id, env, journal=left)
    record = await left.read(first.run_id)
    assert {row.attempt for row in record.entries} == {1, 2}
    assert read_cassette(write_cassette(record), "x").current()[1].attempt == 2
    report = await played(play, record, program)
    assert report.problems == ()
    assert report.result is not None
    assert report.result.spend == record.spend()


# --- cassettes that are none ---


async def a_cassette(play: Play) -> str:
    program = "async function run() { await ai('sum', 1); return 1 }"
    return write_cassette((await recorded(play, program))[1])


@session
@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda lines: [], "evals/seen.jsonl:1: this line of the cassette is not JSON"),
        (lambda lines: ["[]", *lines[1:]], "evals/seen.jsonl:1: this line is not the head of a cassette"),
        (lambda lines: lines[1:], "evals/seen.jsonl:1: this line is not the head of a cassette"),
        (lambda lines: [lines[0].replace('"cassette":1', '"cassette":2'), *lines[1:]], "cassettes of version 1"),
        (lambda lines: [lines[0].replace('"form":"async"', '"form":7'), *lines[1:]], '"form" must be text'),
        (lambda lines: [lines[0].replace('"status":"finished"', '"status":null'), *lines[1:]], '"status" must say'),
        (lambda lines: [changed(lines[0], answers=[[1]]), *lines[1:]], '"answers" must be a list'),
        (lambda lines: [changed(lines[0], answers=[[1, 2], [1, 3]]), *lines[1:]], '"answers" must be a list'),
        (lambda lines: [changed(lines[0], answers=7), *lines[1:]], '"answers" must be a list'),
        (lambda lines: [changed(lines[0], answers=[]), *lines[1:]], "when call 1 was answered"),
        (lambda lines: [changed(lines[0], fuel={"steps": -1}), *lines[1:]], '"fuel" is not the fuel of a run'),
        (
            lambda lines: [lines[0].replace('"input":{"text":"abc"}', '"input":1e999'), *lines[1:]],
            "evals/seen.jsonl:1:",
        ),
        (lambda lines: [*lines, "{}"], "evals/seen.jsonl:3: this line is not a call of a cassette"),
        (lambda lines: [*lines, "{"], "evals/seen.jsonl:3: this line of the cassette is not JSON"),
        (lambda lines: [lines[0], changed(lines[1], call="shell")], 'evals/seen.jsonl:2: "call" must be one of'),
        (lambda lines: [lines[0], changed(lines[1], seq="1")], '"seq" must be a whole number'),
        (lambda lines: [lines[0], changed(lines[1], elapsed=-1)], '"elapsed_ms" must be a number'),
        (lambda lines: [lines[0], changed(lines[1], spend={"input": -3})], '"spend" is not a spend'),
    ],
)
async def test_a_cassette_that_cannot_be_read_is_refused_with_its_place(play: Play, change: Any, says: str) -> None:
    """JSR-126 by `load_cases` already, so by `jsrun check`."""
    lines = (await a_cassette(play)).splitlines()
    with pytest.raises(EvalError) as caught:
        load(play, "\n".join(change(lines)) + "\n")
    assert says in str(caught.value)
    assert "Traceback" not in str(caught.value)


@session
async def test_a_missing_cassette_is_refused(play: Play) -> None:
    with pytest.raises(EvalError, match=r'there is no cassette "evals/seen\.jsonl"'):
        load(play, None)


def load(play: Play, text: str | None) -> None:
    program = "async function run() { await ai('sum', 1); return 1 }"
    plain = bundle(program, prompts=PROMPTS, engine=play.runtime.engine)
    evals = {"seen.json": json.dumps({"cassette": "seen.jsonl", "expect": {}})}
    if text is not None:
        evals["seen.jsonl"] = text
    load_cases(Bundle(plain.manifest, program, prompts=PROMPTS, evals=evals))


def changed(line: str, **values: Any) -> str:
    return json.dumps({**json.loads(line), **values})
