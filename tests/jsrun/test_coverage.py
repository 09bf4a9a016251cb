"""Coverage: what is counted, that nothing is lost when a run is stopped, and that a watched program is the same one."""

import json
import re
from typing import Any

import pytest

from jsrun import Fuel, Runner, RunResult, load_cases, run_case
from jsrun._probes import plan
from jsrun.analysis import analyse
from jsrun.coverage import Coverage, CoverageReport, lcov
from jsrun.positions import Lines
from jsrun.program import Probes, Program
from jsrun.testing import ScriptedEnv, assert_finished, assert_incomplete, bundle
from tests.jsrun.playing import Play, echo, playing_env, skip_without_sync_doors
from tests.jsrun.test_cassette import PROGRAM as RECORDED
from tests.jsrun.test_cassette import recorded, with_cassette

session = pytest.mark.asyncio(loop_scope="session")


async def watch(
    play: Play, program: str, input: Any = None, *, fuel: Fuel | None = None, parallel: int = 16, **parts: Any
) -> tuple[RunResult, CoverageReport]:
    """Run a program once, watched."""
    try:
        made = bundle(program, engine=play.runtime.engine, whitelist=["t"], **parts)
    except Exception as error:
        skip_without_sync_doors(error)  # type: ignore[arg-type]
        raise
    coverage = Coverage(made)
    with coverage.case(made) as watched:
        async with Runner(watched, runtime=play.runtime, parallel=parallel) as runner:
            result = await runner.run(input, playing_env({"t": echo}), fuel=fuel)
    return result, coverage.report()


def missed(report: CoverageReport) -> list[str]:
    return [f"{line}:{column} {text}" for line, column, text in report.missed()]


# --- what is counted --------------------------------------------------------------------------------------------------

# Programs, with their input. Behind `//!` stands what is missed on a line: that it never runs, or what, and where.
COUNTED: list[tuple[Any, str]] = [
    ({}, """
function run() {
  const a = 1
  return a
}"""),
    ({}, """
function run(i) {
  if (i.a) { //! 3 the condition never holds
    return 1 //! never runs
  }
  return 2
}"""),
    ({}, """
function run(i) {
  if (i.a) //! 3 the condition never holds
    return 1 //! never runs
  else if (i.b) //! 8 the condition never holds
    return 2; //! never runs
  else
    return 3
}"""),
    ({}, """
function run(i) {
  if (!i.a) return 1 //! 3 the condition always holds
  else if (i.b) return 2 //! never runs
  else return 3 //! never runs
}"""),
    ({}, """
function run(i) {
  log(i.a ? 1 : 2) //! 7 the condition never holds
  log(i.a && i.b || 3) //! 7 the right side of && is never evaluated, 7 the right side of || is always evaluated
  log(i.a ?? 5) //! 7 the right side of ?? is always evaluated
  log(3 || (i.c && 4)) //! 7 the right side of || is never evaluated, 13 the condition is never evaluated
  return 1
}"""),
    ({}, """
function run() {
  let a = 1, b = 0, c = null
  a ||= 2 //! 3 the right side of ||= is never evaluated
  b ||= 3
  a &&= 4; b &&= 5; c ??= 6
  a ??= 7 //! 3 the right side of ??= is never evaluated
  return a
}"""),
    ({"list": []}, """
function run(i) {
  for (const x of i.list) log(x) //! 3 the body of the loop never runs
  while (false) { log('w') } //! 3 the body of the loop never runs
  for (let n = 0; n < 2; n++) ;
  for (const k in {}) //! 3 the body of the loop never runs
    log(k) //! never runs
  do i.list = 1; while (false)
  return 1
}"""),
    ({"a": 2}, """
function run(i) {
  switch (i.a) {
    case 1: //! 5 this case is never chosen
    case 2: return 'few'
    case 3: { return 'three' } //! never runs
    default: //! 5 this default is never chosen
      return 'many' //! never runs
  }
}"""),
    ({}, """
function run(i) {
  try { i.a.b } catch { return 1 }
  return 2 //! never runs
}"""),
    ({}, """
function run(i) {
  try { i.a } catch (e) { //! 15 nothing is ever caught
    return e //! never runs
  } finally { i.b }
  return 2
}"""),
    ({"a": 5}, """
function run(
  { a = 1, //! 5 the default is never used
    b: { c = 2 } = {} }, [d = 3] = []) {
  const f = (x = 4) => x //! 14 the default is never used
  return f(a + c + d)
}"""),
    ({}, """
const double = (x) => x * 2
const half = (x) => { //! 14 half is never called
  return x / 2 //! never runs
}
function run(i) {
  return double(4)
}"""),
    ({}, """
class A {
  #p = 1
  get q() { return this.#p } //! never runs
  static s() { //! 11 s is never called
    return 1 //! never runs
  }
  constructor() { this.r = 2 }
}
function run() {
  const o = { m() { return 1 },
    n: () => 2, //! never runs
  }
  let late
  late = function () {} //! 10 late is never called
  o.x = async () => {}; [1].map(function () {}); (() => {}) //! 9 x is never called, 51 this function is never called
  return new A().r + o.m()
}"""),
    ({}, """
const unused = 1
log('x')
;[1, 2].map((x) => x)"""),
    ({}, """
function run(i) {
  outer: for (const a of [1, 2])
    for (const b of [1, 2])
      if (b === 2) continue outer
      else if (a === 3) break outer //! 12 the condition never holds
  return 1
}"""),
]  # fmt: skip


def marks(program: str) -> tuple[set[int], set[tuple[int, int, str]]]:
    """The lines that never run, and all else that is missed: line, column, what."""
    lines, others = set(), set()
    for number, line in enumerate(program.split("\n"), start=1):
        _, _, text = line.partition("//! ")
        for mark in filter(None, text.split(", ")):
            if mark == "never runs":
                lines.add(number)
            else:
                column, _, what = mark.partition(" ")
                others.add((number, int(column), what))
    return lines, others


@session
@pytest.mark.parametrize("form", ["sync", "async"])
@pytest.mark.parametrize(("input", "program"), COUNTED)
async def test_statements_functions_and_branches_are_counted(program: str, input: Any, form: str, play: Play) -> None:
    """JSR-126 by what ran, not by guessing"""
    if form == "async":
        program = program.replace("function run", "async function run")
    _, report = await watch(play, program.strip(), input)
    lines, others = marks(program.strip())
    assert {line for line, cases in report.lines.items() if cases == 0} == lines
    assert {found for found in report.missed() if found[1]} == others


def test_missed_lines_that_follow_each_other_are_told_together() -> None:
    """JSR-126 with or without blank lines between them"""
    made = bundle("function run() {\n  return 1\n}\nfunction f() {\n  log(1)\n\n  log(2)\n}\nfunction g() {}")
    assert missed(Coverage(made).report()) == [
        "1:1 run is never called",
        "2:0 lines 2–7 never run",
        "4:1 f is never called",
        "9:1 g is never called",
    ]


@session
async def test_what_a_script_says_last_is_still_its_value(play: Play) -> None:
    """JSR-038 also when the value is a branch, one of several expressions, or a text"""
    for program, value in (
        ("const a = 1\n;1, a ? 'yes' : 'no'", "yes"),
        ("'text'", "text"),
        ("null ?? 5 // no line end", 5),
        ("function f() {}\nlet x = 2\nx ||= 3", 2),
        ("#!/usr/bin/env jsrun\n(1, 2)", 2),
    ):
        result, _ = await watch(play, program)
        assert_finished(result, value)


@session
async def test_cases_are_added_up(play: Play) -> None:
    """JSR-126 the count of a line is that of the cases that reached it"""
    made = bundle("async function run(i) {\n  if (i) return 1\n  return 2\n}", engine=play.runtime.engine)
    coverage = Coverage(made)
    for input in (0, 0, 1):
        with coverage.case(made) as watched:
            async with Runner(watched, runtime=play.runtime) as runner:
                await runner.run(input, ScriptedEnv())
    report = coverage.report()
    assert (report.cases, dict(report.lines)) == (3, {2: 3, 3: 2})
    assert [[arm.cases for arm in branch.arms] for branch in report.branches] == [[1, 2]]
    assert list(report.missed()) == []
    assert (str(report.line_share), report.branch_share.reached, report.function_share.of) == ("2 of 2", 2, 1)
    assert json.loads(json.dumps(report.to_json()))["summary"]["lines"] == {"reached": 2, "of": 2}


@session
async def test_cases_of_both_kinds_are_measured(play: Play) -> None:
    """JSR-126 scripted ones and recorded ones"""
    case = {"input": {"a": 1}, "doors": [{"door": "tool", "ref": "t", "output": 1}], "expect": {"status": "finished"}}
    program = "async function run({ a }) {\n  if (a) await tool('t')\n  else await log('x')\n  return 1\n}"
    files = {
        "manifest.json": json.dumps({"name": "a", "purpose": "b", "whitelist": ["t"], "engine": play.runtime.engine}),
        "program.js": program,
        "evals/a.json": json.dumps(case),
    }
    made = type(bundle("1")).from_files(files)
    coverage = Coverage(made)
    (loaded,) = load_cases(made)
    assert (await run_case(made, loaded, runtime=play.runtime, coverage=coverage)).problems == ()
    assert missed(coverage.report()) == ["2:3 the condition always holds", "3:0 line 3 never runs"]
    _, record = await recorded(play)
    made, loaded = with_cassette(play, record)
    coverage = Coverage(made)
    assert (await run_case(made, loaded, runtime=play.runtime, coverage=coverage)).problems == ()
    assert missed(coverage.report()) == []
    assert coverage.report().line_share.of > RECORDED.count("await") > 5


# --- stops ------------------------------------------------------------------------------------------------------------


@session
@pytest.mark.parametrize(
    ("ending", "reason"),
    [
        ("throw new Error('x')", "threw"),
        ("null.x", "threw"),
        ("await ask('Well?')", "unanswered"),
        ("for (;;) ;", "compute"),
        ("for (;;) await log('x')", "steps"),
        ("await new Promise(() => {})", "stuck"),
        ("const b = []; for (;;) b.push(Array(1e4).fill(b.length + 0.5))", "memory"),
    ],
)
async def test_a_run_that_is_stopped_has_told_what_it_reached(ending: str, reason: str, play: Play) -> None:
    """JSR-126 whatever stops it: an error, a door, fuel"""
    program = f"async function run() {{\n  const a = 1\n  {ending}\n  return a\n}}\n"
    made = bundle(program, engine=play.runtime.engine)
    coverage = Coverage(made)
    with coverage.case(made) as watched:
        async with Runner(watched, runtime=play.runtime) as runner:
            env = ScriptedEnv([{"door": "ask"}])
            result = await runner.run({}, env, fuel=Fuel(steps=20, compute=0.5, memory=30_000_000))
    assert result.reason == reason
    reached = coverage.report().lines
    assert reached[2] == reached[3] == 1 and reached[4] == 0


@session
async def test_work_that_goes_on_after_the_end_is_counted(play: Play) -> None:
    """JSR-042 handlers that run after the entry has returned or thrown"""
    program = (
        "async function run() {\n  tool('t').then(() => {\n    late(1)\n  })\n  throw new Error('x')\n}\n"
        "function late(a) {\n  return a\n}"
    )
    result, report = await watch(play, program)
    assert result.reason == "threw"
    assert missed(report) == []


@session
async def test_watching_takes_no_steps_and_no_places(play: Play) -> None:
    """JSR-041 the same calls go out in the same order, as many as the fuel allows and no more"""
    program = (
        "async function run() {\n  const all = []\n"
        "  for (let i = 0; i < 40; i++) all.push(i % 2 ? tool('t', { i }) : ai('p', { i }))\n"
        "  return (await Promise.all(all)).map((x) => x?.i ?? 0)\n}"
    )
    for parallel in (1, 16):
        result, report = await watch(play, program, fuel=Fuel(steps=40), parallel=parallel, prompts={"p": "x"})
        assert_finished(result, list(range(40)))
        assert result.calls == result.usage.steps == 40
        assert missed(report) == ["4:46 the right side of ?? is never evaluated"]
        result, _ = await watch(play, program, fuel=Fuel(steps=39), parallel=parallel, prompts={"p": "x"})
        assert_incomplete(result, "steps")


# --- a watched program is the same program ----------------------------------------------------------------------------

SAME = r"""
const names = [];
const keep = (value) => (names.push(value), value);
function named({ a = () => 1, b = class {}, c = function () {}, d = async () => 2 } = {}) {
  return [a.name, b.name, c.name, d.name];
}
let later; later ??= () => 3; later &&= function () {}; later ||= class {};
class Counter {
  static made = 0; #count = 0; static { Counter.made += this === Counter ? 1 : 0 }
  static of(n) { return Object.assign(new Counter(), { n }) }
  get count() { return this.#count } set count(v) { this.#count = v ?? 0 }
  has(o) { return #count in o && o.#count >= 0 }
  *each(n = 2) { for (let i = 0; i < n; i++) yield i || -1 }
  async *later() { for await (const x of this.each(3)) yield x ? x * 2 : await keep(0) }
}
class Special extends Counter { constructor(x = 1) { super(); this.x = x ? super.has(this) : false } }
function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2) }
function loose(a) { if (a) if (a > 1) return "big"; else return "one"; else for (;;) break; return "none" }
function jump(list) {
  let out = ""
  outer: for (const a of list) {
    switch (a) { case 0: continue outer; case 1: out += "1"; case 2: { out += "2"; break } default: break outer }
    do out += a
    while (false)
    out += "."
  }
  return out
}
const tagged = (parts, ...rest) => parts.raw.join("|") + rest.map((r) => r ?? "-").join();
const lost = function () { return this === undefined }
async function run(input) {
  const o = { m() { return this.v && this.v.length }, v: [1, 2], f: () => ({ a: 1 }),
    "q r": async () => { await 1; return 2 } }
  const { m, v: [first, second = 5, third = 6], ...rest } = o
  const it = []; for await (const x of new Counter().later()) it.push(x)
  let e; try { null.x } catch ({ message, constructor: { name } }) { e = name } finally { keep("finally") }
  let caught; try { try { throw 1 } finally { caught = "f" } } catch { caught += "c" }
  var [x, y = x || 2] = [0]; ({ a: x = 7, ...y } = { b: 1 }); [x, y] = [y, x]
  const c = new Special(0); c.count = null; c.count ||= 9
  const z = (1, 2) ? [..."ab"].map((s) => s === "a" ? s : s + s) : []
  const g = [...new Counter().each()], t = tagged`a${1}\n${null}b`
  const deep = o?.v?.[0] ?? o?.w?.() ?? 3, not = !(input.nothing && input.nothing.more)
  const big = 2n ** 3n, pow = (-2) ** 2, sum = [1, 2, 3].reduce((a, b) => a + b, 0)
  const when = typeof undeclared === "undefined" ? "not" : "is"
  await log(`${o.m()}`)
  return { named: named(), later: [later.name, Counter.made, Counter.of(1).n], c: [c.x, c.count, c.has(c), c.has({})],
    fib: fib(12), loose: [loose(0), loose(1), loose(2)], jump: jump([0, 1, 2, 3, 1]), it, e, caught, x, y, z, g, t,
    deep, not, big: String(big), pow, sum, when, names, first, second, third, rest: Object.keys(rest), lost: lost(),
    f: o.f(), qr: await o["q r"](), m: m.name, keys: Object.keys(o), length: [named.length, jump.length],
    order: await Promise.all([2, 1].map(async (n) => { await tool("t", { n }); return n })) }
}
"""


@session
async def test_a_watched_program_does_the_same(play: Play) -> None:
    """JSR-126 names of functions, `this`, fall-through, generators, patterns, jumps"""
    plain = await play(SAME, {}, tools={"t": echo})
    result, report = await watch(play, SAME, {})
    assert plain.status == "finished", plain.sentence
    assert result.output == plain.output
    assert [entry.text for entry in result.logs] == [entry.text for entry in plain.logs]
    assert str(report.line_share) == "38 of 39"


ERRORS = [
    "async function run(i) { const a = i && 1; if (a) { return i.x.y.z } }",
    "async function run(i) {\n  return (i.a ?? 1) && [1].map((x) => x || i.b).concat(i.c ? 1 : null.x)\n}",
    "export default async function (i) { log('x'); if (i) throw new TypeError('here') }",
    "const f = (x = undefined.y) => x\nexport default async (i) => { for (const a of [1]) f() }",
    "await 1\nlet a = 1; a ||= 2; a && null.b",
    "async function run(i) {\r\n  try { i() } finally { log('x') } }",
    "async function run(i) { '😀'; await tool('nope' + i); }",
    "async function run() { const e = new Error('made'); await 1; throw e }",
    "async function run(i) { switch (i.a) { case undefined: i.b.c } }",
]


@session
@pytest.mark.parametrize("program", ERRORS)
async def test_errors_of_a_watched_program_have_the_place_of_the_file(program: str, play: Play) -> None:
    """JSR-039 line and column"""
    plain = await play(program, {}, tools={"t": echo})
    result, _ = await watch(play, program, {})
    assert plain.reason == "threw"
    assert result.sentence == plain.sentence


@pytest.mark.parametrize("source", [SAME, RECORDED, *(program for _, program in COUNTED), *ERRORS])
def test_every_place_leads_back_to_the_file(source: str) -> None:
    """JSR-037 whatever was put in front of it"""
    facts = analyse(source)
    found = plan(source, facts.value)
    program = Program.of(source, facts, Probes(found.edits, {}, found.counters))
    edits = sorted([*found.edits], key=lambda edit: edit.start)
    inside, outside = Lines(program.body), Lines(source)
    assert "export" in source or program.body.count("\n") == source.count("\n") + 1
    for token in re.finditer(r"\w+|[^\w\s]", source):
        if "export default" in source and token.start() < source.index("export default") + 30:
            continue
        offset = token.start() + sum(len(edit.text) for edit in edits if edit.start <= token.start())
        assert program.body[offset] == source[token.start()]
        assert program.position(*inside.position(offset)) == outside.position(token.start())


@session
async def test_names_the_program_has_are_left_to_it(play: Play) -> None:
    """JSR-126 the counters' names are none of the program's"""
    program = (
        "const $hit = 1, $hit_if = 2, jsrun_probe = 3\nasync function run() { return $hit + $hit_if + jsrun_probe }"
    )
    result, report = await watch(play, program)
    assert_finished(result, 6)
    assert missed(report) == []
    result, _ = await watch(
        play, "async function run() { return [typeof $hi, typeof jsrun_prob, Object.keys(globalThis)] }"
    )
    assert_finished(result, ["undefined", "undefined", []])


@session
async def test_a_program_that_replaces_built_ins_is_watched_all_the_same(play: Play) -> None:
    """JSR-058 nothing is looked up at run time"""
    program = (
        "async function run() {\n  Array.prototype.push = Object.defineProperty = Promise.prototype.then = () => 5\n"
        "  globalThis.Promise = null; Object.prototype.told = 1; Object.defineProperty\n  return 1\n}"
    )
    result, report = await watch(play, program)
    assert_finished(result, 1)
    assert missed(report) == ["2:75 then is never called"]


@session
async def test_forged_counts_are_ignored(play: Play) -> None:
    """JSR-126 what a process says is not believed blindly"""
    made = bundle("async function run() { return 1 }", engine=play.runtime.engine)
    coverage = Coverage(made)
    with coverage.case(made) as watched:
        probes = watched.prepared.probes
        assert probes is not None
        ((_, functions),) = probes.namespaces.items()
        for odd in (-1, 10**9, "0", None, [0], 1.5):
            functions["tell"](odd)
    assert coverage.report().line_share.reached == 0


# --- lcov -------------------------------------------------------------------------------------------------------------


@session
async def test_lcov(play: Play) -> None:
    """JSR-126 one record in the format that editors and services read"""
    program = (
        "async function run(i) {\n  if (i.a) return 1\n  const f = () => 2\n  return i.b ? f() : 3\n}\n"
        "function never(a) {\n  return a && 1\n}"
    )
    _, report = await watch(play, program, {})
    assert lcov(report, "a/program.js").splitlines() == [
        "TN:", "SF:a/program.js",
        "FN:1,run:1:1", "FN:3,f:3:13", "FN:6,never:6:1",
        "FNDA:1,run:1:1", "FNDA:0,f:3:13", "FNDA:0,never:6:1", "FNF:3", "FNH:1",
        "BRDA:2,0,0,0", "BRDA:2,0,1,1", "BRDA:4,1,0,0", "BRDA:4,1,1,1", "BRDA:7,2,0,-", "BRDA:7,2,1,-",
        "BRF:6", "BRH:2",
        "DA:2,1", "DA:3,1", "DA:4,1", "DA:7,0", "LF:4", "LH:3", "end_of_record",
    ]  # fmt: skip
