"""Fuel at work: every limit ends the run, uncatchably, and the result tells what was gathered."""

import asyncio
import threading
import time
from typing import Any

import pytest

import ptc
from jsrun import AIOptions, Answer, CallbackEnv, Fuel, MemoryJournal, Prompt, RunResult, Spend, ToolResult
from jsrun.fuel import CEILING
from ptc.wire import Json
from tests.jsrun.playing import Play, echo, playing_env

pytestmark = pytest.mark.asyncio(loop_scope="session")

# Generous: a stop takes milliseconds, but the machine may be busy.
SOON_S = 5.0


async def test_steps(play: Play) -> None:
    """JSR-079 two happen, the third does not; the sentence names the limit."""
    shown: list[str] = []
    journal = MemoryJournal()
    program = "function run() { log('1'); log('2'); log('3') }"
    env = CallbackEnv(log=shown.append)
    result = await play(program, env=env, run_fuel=Fuel(steps=2), run={"journal": journal})
    assert (result.status, result.reason, shown) == ("incomplete", "steps", ["1", "2"])
    assert "2 steps" in result.sentence
    assert (result.calls, result.usage.steps, result.report) == (2, 2, "2")
    assert len((await journal.read(result.run_id)).entries) == 2


@pytest.mark.parametrize(
    "call", ["log(' ')", "tool(input.none)", "ai(input.none)", "tool(input.none, {x: NaN})", "ask()", "remember()"]
)
@pytest.mark.parametrize("form", ["", "async "])
async def test_refused_and_blank_calls_use_up_steps(play: Play, call: str, form: str) -> None:
    """JSR-079 a loop of them ends too."""
    wait = "await " if form else ""
    program = f"{form}function run(input) {{ for (;;) {{ try {{ {wait}{call} }} catch {{}} }} }}"
    result = await play(program, {"none": "x"}, run_fuel=Fuel(steps=50))
    assert (result.reason, result.usage.steps) == ("steps", 50)


async def test_a_thousand_retries_are_one_stop(play: Play) -> None:
    """JSR-087 no handler, `finally` or host call happens after it."""
    called: list[Json] = []

    async def take(args: dict[str, Json]) -> Json:
        called.append(args)
        return None

    program = """
    async function run() {
      for (let i = 0; i < 1000; i++) {
        try { await tool('take', {i}) }
        catch { await tool('take', {caught: i}) }
        finally { if (i >= 3) await tool('take', {after: i}) }
      }
      return 'done'
    }"""
    result = await play(program, tools={"take": take}, run_fuel=Fuel(steps=4))
    assert (result.status, result.reason, len(called)) == ("incomplete", "steps", 4)
    assert called == [{"i": 0}, {"i": 1}, {"i": 2}, {"i": 3}]


def spending(amount: int) -> tuple[CallbackEnv, list[int | None]]:
    left: list[int | None] = []

    async def ai(_prompt: Prompt, _input: Json, options: AIOptions) -> Answer:
        left.append(options.tokens_left)
        return Answer("x", spend=Spend(model="m", calls=1, input=amount - 100, output=100, cache_read=10_000))

    return CallbackEnv(ai=ai, log=lambda _status: None), left


@pytest.mark.parametrize(
    "body", ["for (;;) try { ai('p') } catch {}", "ai('p'); return ai('p')", "ai('p'); ai('p'); log('x'); return 1"]
)
async def test_tokens(play: Play, body: str) -> None:
    """JSR-080 two calls, also when the second was the last statement."""
    env, left = spending(500)
    program = f"function run() {{ {body} }}"
    result = await play(program, env=env, prompts={"p": "Hello"}, run_fuel=Fuel(tokens=900))
    assert (result.status, result.reason, result.output) == ("incomplete", "tokens", None)
    assert (result.spend.tokens, result.spend.calls) == (1000, 2)
    assert left == [900, 400]
    assert "1,000" in result.sentence
    assert "900" in result.sentence


async def test_tokens_of_tools_and_failures_count(play: Play) -> None:
    """JSR-080"""

    async def costly(_args: dict[str, Json]) -> ToolResult:
        return ToolResult("failed", spend=Spend(input=60), failed=True)

    program = "function run() { for (;;) { try { tool('costly') } catch {} } }"
    result = await play(program, tools={"costly": costly}, run_fuel=Fuel(tokens=100))
    assert (result.reason, result.spend.input) == ("tokens", 120)


BUSY = {
    "loop": "for (;;);",
    "catch": "for (;;) { try { for (;;); } catch {} }",
    "finally": "const f = () => { try { for (;;); } finally { f() } }; f()",
    "getter": "return {get a() { for (;;); }}",
    "comparator": "[3, 2, 1].sort(() => { for (;;); })",
    "executor": "new Promise(() => { for (;;); })",
    "microtasks": "return (async () => { for (;;) await null })()",
    "rejections": "return (async () => { for (;;) await (async () => { for (;;); })().catch(() => {}) })()",
    "regex": "/^(a+)+$/.test('a'.repeat(40) + '!')",
    "sort": "new Array(4294967295).sort()",
    "message": "throw Object.defineProperty(new Error(), 'message', {get() { for (;;); }})",
}


@pytest.mark.parametrize("body", BUSY.values(), ids=BUSY)
async def test_the_wall_ends_every_busy_program(play: Play, body: str) -> None:
    """JSR-081 within 2 s, JSR-082, JSR-113 for a looping message"""
    async with play.runner(f"function run() {{ {body} }}") as runner:
        await runner.compile()
        began = time.monotonic()
        result = await runner.run(None, playing_env(), fuel=Fuel(wall=0.05))
        took = time.monotonic() - began
    assert (result.status, result.reason) == ("incomplete", "wall")
    assert "ran out of time after 50 milliseconds" in result.sentence
    assert took < SOON_S


@pytest.mark.parametrize(
    "body",
    [
        "return (Array(2e8) + '').length",
        "return String(10n ** (10n ** 7n)).length",
        "const a = 'a'.repeat(1e5); for (;;) a.localeCompare(a + 'b')",
        "return [].join.call({length: 2 ** 32 - 1}).length",
        "return 'x'.repeat(2 ** 30).length",
    ],
)
async def test_natives_that_never_poll_end_by_fuel_or_as_an_error(play: Play, body: str) -> None:
    """JSR-082"""
    began = time.monotonic()
    result = await play(f"function run() {{ {body} }}", run_fuel=Fuel(wall=0.3, memory=64 * 2**20))
    assert result.status in ("incomplete", "fell_back")
    assert result.reason in ("wall", "memory", "compute", "threw")
    assert time.monotonic() - began < SOON_S


async def test_the_wall_cancels_async_calls_and_leaves_blocking_ones(play: Play) -> None:
    """JSR-083"""
    cancelled = asyncio.Event()
    release = threading.Event()

    async def waiting(_args: dict[str, Json]) -> Json:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return None

    def blocking(_args: dict[str, Json]) -> Json:
        release.wait(10)
        return "late"

    program = "async function run() { return Promise.all([tool('waiting'), tool('blocking')]) }"
    began = time.monotonic()
    try:
        result = await play(program, tools={"waiting": waiting, "blocking": blocking}, run_fuel=Fuel(wall=0.2))
        took = time.monotonic() - began
    finally:
        release.set()
    assert (result.reason, cancelled.is_set()) == ("wall", True)
    assert took < SOON_S


async def test_starting_an_engine_does_not_count(engine: str) -> None:
    """JSR-084 the wall is 100 ms, the engine is cold."""
    async with ptc.Runtime(engine=engine) as cold:
        result = await Play(cold)("1", run_fuel=Fuel(wall=0.1))
    assert (result.status, result.output) == ("finished", 1)


async def test_compute(play: Play) -> None:
    """JSR-085 ends a busy program; waiting for a door as long does not use it up."""
    busy = await play("function run() { for (;;); }", run_fuel=Fuel(compute=0.2))
    assert (busy.status, busy.reason) == ("incomplete", "compute")
    assert "compute time" in busy.sentence

    async def slow(_args: dict[str, Json]) -> Json:
        await asyncio.sleep(0.4)
        return 1

    waiting = await play("function run() { return tool('slow') }", tools={"slow": slow}, run_fuel=Fuel(compute=0.2))
    assert waiting.output == 1
    assert waiting.usage.compute_s is not None
    assert waiting.usage.compute_s < 0.2
    assert waiting.usage.wall_s >= 0.4


@pytest.mark.parametrize(
    "body",
    [
        "const a = []; for (;;) a.push({x: a.length})",
        "const m = new Map(); for (let i = 0;; i++) m.set(i, i)",
        "const a = []; for (;;) a.push(new ArrayBuffer(1 << 20).slice(0))",
        "const a = []; for (let i = 0;; i++) a.push('x'.repeat(1000) + i)",
        "const a = []; for (;;) { try { a.push(new Array(1000).fill(a.length)) } catch {} }",
    ],
)
async def test_memory(play: Play, body: str) -> None:
    """JSR-086 growing ends as `memory`, and the next run works."""
    async with play.runner(
        f"function run(grow) {{ if (!grow) return 'fine'; {body} }}", fuel=Fuel(memory=48 * 2**20)
    ) as runner:
        result = await runner.run(True, playing_env(), fuel=Fuel(wall=20))
        assert (result.status, result.reason) == ("incomplete", "memory"), result.sentence
        assert "48 MiB" in result.sentence
        assert (await runner.run(False, playing_env())).output == "fine"


async def test_a_doubling_string_ends(play: Play) -> None:
    """JSR-086 so, or by the engine's length error."""
    result = await play("function run() { let s = 'x'; for (;;) s += s }", run_fuel=Fuel(memory=48 * 2**20))
    assert result.reason in ("memory", "threw")


async def test_a_flood_of_console_lines_ends_as_output(play: Play) -> None:
    """JSR-088 with kept logs and truncated sizes."""
    program = "function run() { for (let i = 0; i < 1e6; i++) console.log('line ' + i); return 1 }"
    result = await play(program, run_fuel=Fuel(output=10_000))
    assert (result.status, result.reason) == ("incomplete", "output")
    assert "9.77 KiB" in result.sentence
    assert result.logs[0].text == "line 0"
    kept = sum(len(entry.text.encode()) for entry in result.logs)
    assert 9_000 < kept + 3 * len(result.logs) <= 10_000
    (cut,) = result.truncated
    assert (cut.what, cut.dropped) == ("console", None)
    assert cut.kept == kept


async def test_one_huge_line_is_cut_and_the_run_goes_on(play: Play) -> None:
    """JSR-088"""
    result = await play("function run() { console.warn('x'.repeat(1e7)); return 1 }")
    assert (result.status, result.output) == ("finished", 1)
    (entry,) = result.logs
    assert entry.level == "warn"
    assert len(entry.text) < 66_000
    assert entry.cut > 9_900_000
    assert [cut.what for cut in result.truncated] == ["console"]


async def test_the_output_cap(play: Play) -> None:
    """JSR-089 exactly at the cap it finishes. The ledger begins with two bytes."""
    program = "function run(n) { return 'x'.repeat(n) }"
    fits = await play(program, 996, run_fuel=Fuel(output=1000))
    assert (fits.status, len(str(fits.output))) == ("finished", 996)
    over = await play(program, 997, run_fuel=Fuel(output=1000))
    assert (over.status, over.reason, over.output) == ("incomplete", "output", None)


async def test_statuses_and_logs_keep_their_order(play: Play) -> None:
    """Section 15: console lines and statuses, in order."""
    program = """
    async function run() {
      console.log('a'); await log('b'); console.error('c'); console.debug('d'); await log('e'); console.info('f')
    }"""
    result = await play(program)
    assert [(entry.level, entry.text) for entry in result.logs] == [
        ("log", "a"), ("status", "b"), ("error", "c"), ("debug", "d"), ("status", "e"), ("info", "f"),
    ]  # fmt: skip


async def test_without_any_fuel_a_run_still_ends(play: Play) -> None:
    """JSR-090 a loop of quick doors by steps, a busy loop by compute."""
    program = "function run() { for (;;) tool('echo', {}) }"
    steps = await play(program, tools={"echo": echo})
    assert (steps.reason, steps.usage.steps) == ("steps", 500)
    busy = await play("function run() { for (;;); }", fuel={"compute": "1s"})
    assert busy.reason == "compute"


STOPS: list[tuple[str, str, Fuel | None]] = [
    ("steps", "for (;;) await ai('p')", Fuel(steps=5)),
    ("tokens", "for (;;) await ai('p')", Fuel(tokens=100)),
    ("wall", "await new Promise(() => { for (;;); })", Fuel(wall=0.3)),
    ("compute", "for (;;);", Fuel(compute=0.2)),
    ("memory", "const a = []; for (;;) a.push([a.length])", Fuel(memory=32 * 2**20)),
    ("output", "for (;;) console.log('x')", Fuel(output=1000)),
    ("stuck", "await new Promise(() => {})", None),
    ("unanswered", "await ask('Why?')", None),
    ("no_output", "return null", None),
    ("invalid_output", "return new Date()", None),
    ("threw", "throw new Error('x')", None),
]


@pytest.mark.parametrize(("reason", "body", "fuel"), STOPS, ids=[stop[0] for stop in STOPS])
async def test_every_ending_carries_what_was_gathered(play: Play, reason: str, body: str, fuel: Fuel | None) -> None:
    """JSR-091, JSR-114"""

    async def ai(_prompt: Prompt, _input: Json, _options: AIOptions) -> Answer:
        return Answer("x", spend=Spend(model="m", calls=1, input=30, cost_usd=0.5))

    env = CallbackEnv(ai=ai, log=lambda _status: None, ask=lambda _question, _options: None)
    program = f"async function run() {{ console.log('line'); await log('status'); await ai('p'); {body} }}"
    journal = MemoryJournal()
    result = await play(
        program, env=env, prompts={"p": "Hello"}, run_fuel=fuel, run={"journal": journal, "run_id": f"run-{reason}"}
    )
    assert result.reason == reason, result.sentence
    assert (result.report, result.run_id, result.output) == ("status", f"run-{reason}", None)
    assert [entry.text for entry in result.logs[:2]] == ["line", "status"]
    assert result.spend.input >= 30
    assert result.calls >= 2
    assert result.usage.steps >= 2
    assert result.sandbox is not None
    assert not result.finished()
    data = result.to_json()
    assert set(data) == {
        "output", "report", "artifacts", "incomplete", "fell_back", "spend", "status", "reason", "logs", "calls",
        "run_id", "path", "long_run_id", "usage", "truncated", "sandbox",
    }  # fmt: skip
    assert RunResult.from_json(data) == result
    record = await journal.read(result.run_id)
    assert (record.run.status, record.run.reason) == (result.status, reason)
    assert record.spend() == result.spend


async def test_cancel(play: Play) -> None:
    """JSR-092 `Run.cancel` is `cancelled`; cancelling twice or late changes nothing."""
    entered = asyncio.Event()

    async def waiting(_args: dict[str, Json]) -> Json:
        entered.set()
        await asyncio.Event().wait()
        return None

    journal = MemoryJournal()
    async with play.runner("function run() { return tool('waiting') }", whitelist=["waiting"]) as runner:
        run = runner.start(None, playing_env({"waiting": waiting}), journal=journal)
        await asyncio.wait_for(entered.wait(), SOON_S)
        run.cancel("enough")
        run.cancel("again")
        result = await run.result()
        run.cancel("late")
        assert await run.result() is result
    assert (result.status, result.reason) == ("incomplete", "cancelled")
    assert result.sentence == "The run was cancelled: enough"
    (row,) = (await journal.read(run.run_id)).entries
    assert row.state == "abandoned"


async def test_cancelling_the_waiting_task(play: Play) -> None:
    """JSR-092 re-raises, when the run has been killed and the journal closed."""
    entered = asyncio.Event()
    ended = asyncio.Event()

    async def waiting(_args: dict[str, Json]) -> Json:
        entered.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return None

    journal = MemoryJournal()
    program = "function run() { try { return tool('waiting') } finally { log('after') } }"
    async with play.runner(program, whitelist=["waiting"]) as runner:
        task = asyncio.create_task(runner.run(None, playing_env({"waiting": waiting}), journal=journal))
        await asyncio.wait_for(entered.wait(), SOON_S)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended.is_set()
        (run,) = await journal.runs()
        assert (run.status, run.reason) == ("incomplete", "cancelled")
        assert [row.state for row in (await journal.read(run.run_id)).entries] == ["abandoned"]


async def test_fuel_is_put_together_field_by_field(play: Play) -> None:
    """JSR-093 run argument over bundle over manifest over default."""
    fuels: list[Any] = []

    class Watching(MemoryJournal):
        async def open_run(self, row: Any) -> None:
            fuels.append(row.fuel)
            await super().open_run(row)

    engine = play.runtime.engine
    manifest = {"steps": 7, "compute": "3s", "wall": "30s", "output": 2000}
    program = "async function run() { return 1 }"
    from jsrun import Bundle, Runner

    bundle = Bundle(
        {"name": "x", "purpose": "Test.", "fuel": manifest, "deadline_floor": "90s", "engine": engine},  # type: ignore[dict-item]
        program,
        fuel=Fuel(steps=8, compute=4.0),
    )
    async with Runner(bundle, runtime=play.runtime, journal=Watching()) as runner:
        await runner.run(None, playing_env(), fuel=Fuel(steps=9))
    assert fuels == ['{"steps":9,"tokens":null,"wall":30.0,"compute":4.0,"memory":134217728,"output":2000}']
    wild = Bundle(
        {"name": "x", "purpose": "Test.", "fuel": {"steps": 10**6}, "deadline_floor": "90s", "engine": engine},
        program,
    )
    fuels.clear()
    async with Runner(wild, runtime=play.runtime, journal=Watching()) as runner:
        await runner.run(None, playing_env())
    assert f'"steps":{CEILING.steps}' in fuels[0]
    assert '"wall":90.0' in fuels[0]


async def test_other_limits_of_memory_use_a_second_image(play: Play) -> None:
    """Section 11: made once for each pair of memory and compute."""
    async with play.runner("function run() { return 1 }") as runner:
        for fuel in (None, Fuel(memory=64 * 2**20), Fuel(memory=64 * 2**20, steps=5), Fuel(compute=1.0), None):
            assert (await runner.run(None, playing_env(), fuel=fuel)).output == 1
        assert len(runner._images._loading) == 3
