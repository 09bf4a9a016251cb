"""Program forms at work: entries, values of scripts, positions, promises, the end of a run."""

import asyncio
import time
from collections.abc import Mapping

import pytest

from jsrun import MemoryJournal
from ptc.wire import Json
from tests.jsrun.playing import Play, echo, playing_env

pytestmark = pytest.mark.asyncio(loop_scope="session")

ENTRIES = [
    "function run(input) { return {a: input.n + 1} }",
    "async function run(input) { return {a: input.n + 1} }",
    "const run = input => ({a: input.n + 1})",
    "const run = async (input) => ({a: input.n + 1});",
    "let run = function (input) { return {a: input.n + 1} }",
    "export default function (input) { return {a: input.n + 1} }",
    "export default async function (input) { return {a: input.n + 1} }",
    "export default function main(input) { return {a: input.n + 1} }",
    "export default (input) => ({a: input.n + 1})",
    "export default async (input) => ({a: input.n + 1})",
    "function main(input) { return {a: input.n + 1} }\nexport default main",
    "const make = () => (input) => ({a: input.n + 1})\nexport default make()",
    "globalThis.run = (input) => ({a: input.n + 1})",
]


@pytest.mark.parametrize("program", ENTRIES)
async def test_every_form_of_the_entry_gives_the_same_output(play: Play, program: str) -> None:
    """JSR-036"""
    result = await play(program, {"n": 1})
    assert (result.status, result.output) == ("finished", {"a": 2})


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("head", "line", "columns"),
    [
        ("export default function (input) {", 2, range(3, 11)),
        ("export default (input) => {", 2, range(3, 11)),
        ("export default async function main(input) {", 2, range(3, 11)),
    ],
)
async def test_positions_after_a_rewritten_export_are_those_of_the_file(
    play: Play, head: str, line: int, columns: range, line_end: str
) -> None:
    """JSR-037"""
    result = await play(line_end.join([head, "  null.x;", "}"]))
    assert result.reason == "threw"
    place = result.sentence.split("program.js:")[1].split(":")
    assert int(place[0]) == line
    assert int(place[1]) in columns


async def test_an_error_on_the_line_of_a_rewritten_export_has_its_column(play: Play) -> None:
    """JSR-037 on the same line."""
    result = await play("export default function (input) { return input.x }")
    line, column = result.sentence.split("program.js:")[1].split(":")[:2]
    assert line == "1"
    assert 36 <= int(column) <= 49


@pytest.mark.parametrize(
    ("program", "output"),
    [
        ("1 + 1", 2),
        ("const x = [1]; x[0] = 5; x", [5]),
        ("if (input) { 3 }\n({a: input})", {"a": 7}),
        ("const x = await ai('p', 4)\nx + 1", 5),
        ("await ai('p', 4)", 4),
        ("function f() {}\n'last';", "last"),
        ("(async () => 6)()", 6),
    ],
)
async def test_a_script_without_run_answers_with_its_last_expression(play: Play, program: str, output: Json) -> None:
    """JSR-038"""
    result = await play(program, 7, prompts={"p": "Say it."})
    assert (result.status, result.output) == ("finished", output), result.sentence


@pytest.mark.parametrize(
    "program",
    [
        "function run() {\n  const a = 1;\n  null.x;\n}",
        "async function run() {\n  await log('x');\n  null.x;\n}",
        "const a = 1;\nconst b = 2;\n  null.x;\na",
        "const a = 1;\nawait log('x');\n  null.x;\na",
    ],
    ids=["sync", "async", "sync script", "async script"],
)
async def test_an_error_is_reported_where_it_is(play: Play, program: str) -> None:
    """JSR-039"""
    result = await play(program)
    assert result.reason == "threw"
    line, column = result.sentence.split("program.js:")[1].split(":")[:2]
    assert line == "3"
    assert 3 <= int(column) <= 9


async def test_an_uncaught_failure_of_a_door_has_the_place_of_the_call(play: Play) -> None:
    """JSR-039 for doors, whose errors come from elsewhere."""

    async def bad(_args: dict[str, Json]) -> Json:
        raise ValueError("no")

    for program in ("function run() {\n\n  tool('bad');\n}", "async function run() {\n\n  await tool('bad');\n}"):
        result = await play(program, tools={"bad": bad})
        assert result.sentence.startswith("The quick way stopped with an error: program.js:3:"), result.sentence
        assert result.sentence.endswith("DoorError: no")


async def test_the_promise_of_a_sync_program_is_settled(play: Play) -> None:
    """JSR-040"""
    result = await play("function run() { return (async () => ({a: 1}))() }")
    assert result.output == {"a": 1}
    result = await play("function run() { return (async () => { throw new Error('late') })() }")
    assert (result.reason, "late" in result.sentence) == ("threw", True)


async def test_sequential_doors_keep_order_and_values(play: Play) -> None:
    """JSR-041"""
    program = """
    async function run() {
      const seen = []
      for (let i = 0; i < 100; i++) seen.push((await tool('echo', {i})).i)
      return seen
    }"""
    result = await play(program, tools={"echo": echo})
    assert result.output == list(range(100))


async def test_parallel_doors_overlap(play: Play) -> None:
    """JSR-041 `Promise.all` of two slow calls takes the time of one."""
    working = 0
    together = 0

    async def slow(args: dict[str, Json]) -> Json:
        nonlocal working, together
        working += 1
        together = max(together, working)
        await asyncio.sleep(0.2)
        working -= 1
        return args

    program = "async function run() { return Promise.all([tool('slow', {n: 1}), tool('slow', {n: 2})]) }"
    result = await play(program, tools={"slow": slow})
    assert result.output == [{"n": 1}, {"n": 2}]
    assert together == 2


@pytest.mark.parametrize("ending", ["return 1", "throw new Error('over')"])
async def test_work_nobody_awaits_is_done_and_journaled(play: Play, ending: str) -> None:
    """JSR-042 and its handlers run, also when `run` threw."""

    async def slow(_args: dict[str, Json]) -> Json:
        await asyncio.sleep(0.05)
        return 1

    journal = MemoryJournal()
    program = f"""
    async function run() {{
      tool('slow').then(() => log('after'))
      {ending}
    }}"""
    result = await play(program, tools={"slow": slow}, run={"journal": journal})
    assert result.status == ("finished" if ending == "return 1" else "fell_back")
    assert result.report == "after"
    rows = (await journal.read(result.run_id)).entries
    assert [(row.call, row.state) for row in rows] == [("tool", "ok"), ("log", "ok")]


async def test_waiting_for_nothing_is_stuck_at_once(play: Play) -> None:
    """JSR-043"""
    began = time.monotonic()
    result = await play("async function run() { await new Promise(() => {}) }")
    assert (result.status, result.reason) == ("incomplete", "stuck")
    assert time.monotonic() - began < 5


@pytest.mark.needs("all rejections")
async def test_an_unhandled_rejection_is_threw(play: Play) -> None:
    """JSR-044"""
    lost = await play("async function run() { Promise.reject(new Error('lost')); return 1 }")
    assert (lost.reason, "lost" in lost.sentence) == ("threw", True)


async def test_rejections_of_doors(play: Play) -> None:
    """JSR-044 one of a door counts on every engine, one handled later in the run on none."""
    handled = await play(
        """
        async function run() {
          const promise = tool('missing')
          await log('meanwhile')
          promise.catch(() => {})
          return 1
        }""",
        whitelist=["missing"],
    )
    assert handled.status == "finished"
    door = await play("async function run() { tool('missing'); return 1 }", whitelist=["missing"])
    assert (door.reason, "DoorError" in door.sentence) == ("threw", True)


async def test_code_is_strict_and_doors_are_fixed(play: Play) -> None:
    """JSR-045"""
    sloppy = await play("function run() { undeclared = 1 }")
    assert (sloppy.reason, "undeclared" in sloppy.sentence) == ("threw", True)
    for attack in (
        "const g = globalThis; g['ai'] = 1",
        "delete globalThis['tool']",
        "Reflect.ownKeys(globalThis); eval('log = 1')",
    ):
        result = await play(f"function run() {{ try {{ {attack} }} catch (e) {{ return e.name }} return 'no error' }}")
        assert result.output == "TypeError", (attack, result)
    changed = await play(
        """
        function run() {
          Reflect.defineProperty(globalThis, 'ai', {value: 1})
          return [typeof ai, Reflect.set(globalThis, 'tool', 1), Object.isFrozen(ask)]
        }"""
    )
    assert changed.output == ["function", False, True]


async def test_no_state_survives_a_run(play: Play) -> None:
    """JSR-046 100 runs compile once and share nothing."""
    program = """
    const pattern = /a/g
    let count = 0
    async function run() {
      count += 1
      globalThis.left = (globalThis.left ?? 0) + 1
      Array.prototype.left = (Array.prototype.left ?? 0) + 1
      pattern.test('aaa')
      queueMicrotask(() => { count = 100 })
      return [count, globalThis.left, Array.prototype.left, pattern.lastIndex]
    }"""
    async with play.runner(program) as runner:
        await runner.compile()
        env = playing_env()
        results = await asyncio.gather(*(runner.run(None, env) for _ in range(100)))
    assert {str(result.output) for result in results} == {"[1, 1, 1, 1]"}


async def test_a_fixed_world_gives_equal_runs(play: Play) -> None:
    """JSR-099 equal seed, start and answers give equal output, and another seed another one."""
    program = """
    async function run() {
      const before = [Date.now(), new Date().toISOString(), Date(), performance.now()]
      await log('x')
      return [...before, Math.random(), Math.random(), [3, 1, 2].sort(() => Math.random() - 0.5)]
    }"""
    options: Mapping[str, Json] = {"seed": "one", "started_at": "2026-01-31T12:00:00Z"}
    async with play.runner(program) as runner:
        first = await runner.run(None, playing_env(), **options)  # type: ignore[arg-type]
        second = await runner.run(None, playing_env(), **options)  # type: ignore[arg-type]
        other = await runner.run(None, playing_env(), seed="two", started_at="2026-01-31T12:00:00Z")
    assert first.output == second.output
    assert isinstance(first.output, list)
    now, iso, text, elapsed = first.output[:4]
    assert (now, iso, elapsed) == (1_769_860_800_000, "2026-01-31T12:00:00.000Z", 0)
    assert str(text).startswith("Sat Jan 31 2026 12:00:00 GMT+0000")
    assert isinstance(other.output, list)
    assert other.output[4] != first.output[4]


async def test_time_moves_with_answers_only(play: Play) -> None:
    """JSR-099 the clock stands still in between, and never goes back."""

    async def slow(_args: dict[str, Json]) -> Json:
        await asyncio.sleep(0.05)
        return None

    program = """
    async function run() {
      const at = [Date.now()]
      for (let i = 0; i < 3e5; i++);
      at.push(Date.now())
      await tool('slow')
      at.push(Date.now())
      await log('')
      at.push(Date.now())
      return at.map(time => time - at[0])
    }"""
    result = await play(program, tools={"slow": slow})
    assert isinstance(result.output, list)
    zero, still, moved, blank = (int(str(time)) for time in result.output)
    assert (zero, still) == (0, 0)
    assert moved >= 50
    assert blank == moved


async def test_dates_are_dates(play: Play) -> None:
    """JSR-099 the replaced Date behaves like the real one."""
    program = """
    function run() {
      class Day extends Date { name() { return 'day' } }
      const day = new Day(0)
      return [
        day instanceof Date, day.name(), new Date(2020, 1, 2).getTime(), Date.UTC(2020, 1), Date.parse('1970-01-02'),
        Date.prototype.constructor === Date, Object.prototype.toString.call(new Date()), Date.length, Date.name,
        new Date(NaN).getTime() !== new Date(NaN).getTime(), typeof Date(), new Date(new Date(5)).getTime(),
        new Date(0).toLocaleString(), (1234.5).toLocaleString(), new Date(0).getTimezoneOffset(),
      ]
    }"""
    result = await play(program)
    assert isinstance(result.output, list)
    assert result.output[:12] == [
        True, "day", 1580601600000, 1580515200000, 86400000, True, "[object Date]", 7, "Date", True, "string", 5,
    ]  # fmt: skip
    assert result.output[14] == 0
