"""Replay: a recorded run is made again on what it was answered, and is the same."""

import asyncio
import random
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jsrun import (
    Answer,
    AskAnswer,
    JournalError,
    MemoryJournal,
)
from jsrun.journal import RunRecord, export_rows
from jsrun.testing import FakeLook
from ptc.wire import Json
from tests.jsrun.playing import Play
from tests.jsrun.recording import (
    PROMPTS,
    STEPS,
    Doer,
    Recording,
    alike,
    doer,
)

session = pytest.mark.asyncio(loop_scope="session")


async def same(play: Play, program: str, input: Json = None, **parts: Any) -> Recording:
    """Record a run, replay it, and see that nothing differs."""
    recording = Recording(play, program, **parts)
    result = await recording.run(input)
    report = await recording.replay()
    assert report.difference is None
    assert report.same
    assert alike(report.result) == alike(result)
    return recording


ALL_DOORS = """
{
  const out = [];
  const found = WAIT ai("sum", { text: input.text });
  out.push(found);
  out.push(WAIT tool("wait", { id: 1 }));
  try { WAIT tool("fail", {}); } catch (error) { out.push(error.message, error.door, error.ref); }
  try { WAIT tool("un" + "listed", {}); } catch (error) { out.push(error.message); }
  try { WAIT ai("sum", 1, { schema: { type: 1 } }); } catch (error) { out.push(error.message); }
  out.push(WAIT ask("Sure?", { options: ["yes", "no"], default: "no" }));
  WAIT remember("a note");
  out.push(WAIT recall("note"));
  WAIT log("half-way");
  WAIT log("");
  out.push(Date.now(), Math.random(), new Date().toString(), (1234567.5).toLocaleString());
  WAIT log("done");
  console.log("seen", out.length);
  return out;
}
"""
ALL_SYNC = "function run(input) " + ALL_DOORS.replace("WAIT ", "")
ALL_ASYNC = "async function run(input) " + ALL_DOORS.replace("WAIT", "await")


@session
@pytest.mark.parametrize("program", [ALL_SYNC, ALL_ASYNC], ids=["sync", "async"])
async def test_a_run_through_every_door_is_the_same_again(play: Play, program: str) -> None:
    """JSR-100 JSR-099 no host function is called, and output, report, logs, calls and spend are the same."""
    recording = Recording(play, program)
    env = doer()
    result = await recording.run({"text": "abc"}, env)
    made = list(env.calls)
    assert result.status == "finished"
    report = await recording.replay()
    assert env.calls == made
    assert report.same
    assert alike(report.result) == alike(result)
    assert (await recording.record()).entries == (await recording.record()).current()


@session
async def test_answers_out_of_order_come_in_the_order_they_came_in(play: Play) -> None:
    """JSR-100 the same call wins the race again, and every later turn is the same."""
    program = """
    async function run() {
      const order = [];
      const calls = [30, 1, 20, 10].map((ms) => tool("wait", { ms }).then((got) => (order.push(got.ms), got.ms)));
      const first = await Promise.race(calls);
      order.push("raced");
      const inner = await Promise.any([tool("wait", { ms: 25 }), tool("fail", {}), tool("wait", { ms: 2 })]);
      await Promise.all(calls);
      return { first, inner: inner.ms, order, at: Date.now() };
    }
    """
    recording = await same(play, program)
    output: Any = recording.result.output
    assert output["first"] == 1
    assert output["order"][:2] == [1, "raced"]
    answered = [row.answered for row in (await recording.record()).entries]
    assert answered != sorted(answered, key=lambda number: number or 0)


@session
async def test_the_number_of_host_calls_at_once_makes_no_difference(play: Play) -> None:
    """JSR-100 of 40 calls at once the 16th answered first; a runner that allows two at once replays that."""
    program = """
    async function run() {
      const order = [];
      await Promise.all(Array.from({ length: 40 }, (_, n) =>
        tool("wait", { ms: (40 - n) / 4, n }).then(() => order.push(n))));
      return order;
    }
    """
    recording = await same(play, program)
    report = await recording.replay(options={"parallel": 2})
    assert report.same
    assert report.result.output == recording.result.output


@session
async def test_blank_statuses_keep_their_place(play: Play) -> None:
    """JSR-100 a blank status has no row, but when it was answered makes a difference to the program."""
    program = """
    async function run() {
      const order = [];
      const slow = tool("wait", { ms: 5 }).then(() => order.push("slow"));
      for (let i = 0; i < 5; i++) { await log(" "); order.push(i); }
      const both = [tool("other", {}).then(() => order.push("other")), log("").then(() => order.push("blank"))];
      await Promise.all(both);
      await slow;
      return order;
    }
    """
    for _ in range(3):
        await same(play, program)


@session
async def test_a_program_that_does_not_wait_is_the_same_again(play: Play) -> None:
    """JSR-100 work that nobody awaits is done, handlers that call again included."""
    await same(
        play,
        """
        async function run() {
          tool("wait", { ms: 3 }).then(() => tool("wait", { ms: 1 })).then(() => log("late"));
          tool("fail", {}).catch(() => log("failed"));
          return 1;
        }
        """,
    )


WORKER = st.lists(
    st.sampled_from(["wait", "fail", "ai", "fits", "misfits", "log", "blank", "race", "unlisted"]),
    min_size=1,
    max_size=5,
)


@session
@pytest.mark.needs("fork")
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(workers=st.lists(WORKER, min_size=1, max_size=5), seed=st.integers(0, 2**16))
async def test_any_interleaving_is_the_same_again(play: Play, workers: list[list[str]], seed: int) -> None:
    """JSR-100 several workers race through doors that answer at random times; the replay takes the same turns."""
    program = """
    const order = [];
    const doors = {
      wait: () => tool("wait", { ms: 1 }),
      fail: () => tool("fail", {}).catch(() => 0),
      ai: () => ai("sum", order.length),
      fits: () => ai("sum", order.length, { schema: { type: "number", minimum: -1 - order.length } }),
      misfits: () => ai("sum", 1, { schema: { type: ["x" + order.length] } }).catch((error) => error.message),
      log: () => log("at " + order.length),
      blank: () => log(""),
      race: () => Promise.race([tool("wait", { ms: 2, n: order.length }), tool("other", { n: order.length })]),
      unlisted: () => tool("un" + "listed", { n: order.length }).catch((error) => error.message),
    };
    async function work(name, steps) {
      for (const step of steps) {
        const got = await doors[step]();
        order.push([name, step, got === undefined ? null : got, Math.random(), Date.now()]);
      }
    }
    async function run({ workers }) {
      await Promise.all(workers.map((steps, name) => work(name, steps)));
      return order;
    }
    """
    chance = random.Random(seed)

    async def tool(args: dict[str, Json]) -> Json:
        for _ in range(chance.randrange(4)):
            await asyncio.sleep(chance.choice([0, 0, 0.001]))
        return args

    recording = Recording(play, program)
    env = Doer({"wait": tool, "other": tool, "fail": lambda _args: ValueError("no luck")})
    result = await recording.run({"workers": workers}, env)  # type: ignore[dict-item]  # lists of texts are JSON
    assert result.status == "finished", result.sentence
    report = await recording.replay()
    assert report.same, report.difference
    assert alike(report.result) == alike(result)


ENDINGS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "threw": ("run = async () => { await tool('other', {}); throw new TypeError('odd'); }", {}),
    "stuck": ("run = async () => { await tool('other', {}); await new Promise(() => {}); }", {}),
    "no_output": ("run = async () => { await tool('other', {}); }", {}),
    "invalid_output": ("run = async () => { await log('x'); return 1 }", {"output": {"type": "object"}}),
    "steps": ("run = async () => { for (;;) await log('on'); }", {"fuel": {"steps": 3}}),
    "tokens": (
        "run = async () => { for (;;) await Promise.all([ai('sum', 1), ai('sum', 2), tool('wait', {ms: 2})]) }",
        {"fuel": {"tokens": 70}},
    ),
    "output": ("run = async () => { await log('x'); for (;;) console.log('on and on'); }", {"fuel": {"output": 2000}}),
    "wall": ("run = async () => { await log('x'); await tool('wait', {ms: 60000}) }", {"fuel": {"wall": "200ms"}}),
    "compute": ("run = async () => { await log('x'); for (;;); }", {"fuel": {"compute": "200ms"}}),
    "unanswered": ("run = async () => { await Promise.all([tool('wait', {ms: 1}), ask('Well?')]); return 1 }", {}),
    "taken_over": ("run = async () => { await log('x'); await ask('Well?'); return 1 }", {}),
}


@session
@pytest.mark.parametrize("reason", ENDINGS)
async def test_every_ending_is_the_same_again(play: Play, reason: str) -> None:
    """JSR-100 also one that stopped the run, with what was gathered until then."""
    program, parts = ENDINGS[reason]
    recording = Recording(play, f"const {program}", **parts)
    env = doer()
    env.answer = AskAnswer(text="I do it", taking_over=True) if reason == "taken_over" else AskAnswer(unanswered=True)
    result = await recording.run(None, env)
    assert result.reason == reason
    report = await recording.replay()
    assert report.difference is None
    assert (report.result.status, report.result.reason) == (result.status, result.reason)
    assert report.result.sentence == result.sentence
    assert report.result.report == result.report
    if reason not in ("output", "compute"):
        assert report.result.calls == result.calls


@session
async def test_guards_are_not_asked_again(play: Play) -> None:
    """JSR-100 what a look saw and what a judgement was answered come from the record."""
    guards = [{"kind": "file", "file": "a.md"}, {"kind": "judgement", "question": "Is it so?"}]

    class Judge(Doer):
        async def ai(self, *_args: Any) -> Any:
            return Answer("Yes.")

    recording = Recording(play, "async function run() { return await tool('other', {n: 1}) }", guards=guards)
    result = await recording.run(None, Judge({"other": lambda args: args}), look=FakeLook(["a.md"]))
    assert result.status == "finished"
    assert (await recording.replay()).same

    fallen = Recording(play, recording.program, guards=guards)
    result = await fallen.run(None, look=FakeLook([]))
    assert result.reason == "guard"
    report = await fallen.replay()
    assert report.same
    assert report.result.fell_back == result.fell_back

    unjudged = Recording(play, recording.program, guards=guards)
    result = await unjudged.run(None, look=FakeLook(["a.md"]))  # the model gives its input back, which is no yes
    assert result.reason == "guard"
    report = await unjudged.replay()
    assert report.same
    assert report.result.spend == result.spend
    report = await unjudged.replay(guards=[])
    assert report.difference is not None
    assert (report.difference.kind, report.difference.seq, report.difference.path) == ("call", 1, "call")


@session
async def test_hidden_errors_stay_hidden(play: Play) -> None:
    """JSR-100 a program that did not see an error's text does not see it in the replay."""

    def fail(_args: dict[str, Json]) -> Json:
        raise RuntimeError("a secret")

    program = "async function run() { try { await tool('fail', {}) } catch (error) { return error.message } }"
    recording = Recording(play, program, options={"show_errors": False})
    result = await recording.run(None, Doer({"fail": fail}))
    assert "secret" not in str(result.output)
    assert (await recording.record()).entries[0].err == "a secret"
    report = await recording.replay()
    assert report.same
    assert report.result.output == result.output


@session
async def test_a_run_that_was_cut_off_is_replayed_as_far_as_it_goes(play: Play) -> None:
    """JSR-100 what has no answer ends the replay, and is no difference."""
    recording = Recording(play, STEPS)
    await recording.run()
    record = await recording.record()
    cut = [
        replace(row, state="open", answered=None, output=None) if row.seq == 3 else row for row in record.entries[:3]
    ]
    run = replace(record.run, status=None, reason=None, result=None)
    async with play.runner(STEPS, **recording.parts) as runner:
        report = await runner.replay_record(RunRecord(run, tuple(cut)))
    assert report.same
    assert report.result.status == "incomplete"
    assert report.result.calls == 3


@session
async def test_replay_needs_the_run(play: Play) -> None:
    async with play.runner(STEPS, prompts=PROMPTS, whitelist=["wait", "other"]) as runner:
        with pytest.raises(JournalError, match='no run "X"'):
            await runner.replay("X", MemoryJournal())
        with pytest.raises(JournalError, match="no journal"):
            await runner.replay("X")


@session
async def test_a_run_that_memory_did_not_keep_is_not_replayed(play: Play) -> None:
    recording = Recording(play, "async function run() { for (let i = 0; i < 5; i++) await log('x' + i); return 1 }")
    recording.journal = MemoryJournal(max_rows=3)
    await recording.run()
    with pytest.raises(JournalError, match="more calls than a journal in memory keeps"):
        await recording.replay()


@session
@pytest.mark.parametrize("form", ["sync", "async"])
async def test_a_long_run_is_replayed_quickly(play: Play, form: str) -> None:
    """JSR-100 a thousand calls; nothing is written to the journal."""
    program = """
    FORM function run() {
      let sum = 0;
      for (let n = 0; n < 1000; n++) sum += (WAIT tool("other", { n })).n;
      return sum;
    }
    """
    words = ("async", "await") if form == "async" else ("", "")
    program = program.replace("FORM", words[0]).replace("WAIT", words[1])
    recording = Recording(play, program, fuel={"steps": 2000})
    await recording.run()
    rows = list(export_rows(await recording.record()))
    async with play.runner(program, **recording.parts) as runner:
        await runner.compile()
        began = time.perf_counter()
        report = await runner.replay(recording.result.run_id, recording.journal)
        elapsed = time.perf_counter() - began
    assert report.same
    assert report.result.output == 499_500
    assert elapsed < 20, "it hangs; how fast it is, tests/bench/jsrun.py measures"
    assert list(export_rows(await recording.record())) == rows
