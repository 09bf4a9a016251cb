"""V8 at work: what differs from QuickJS inside of a run, and what must not."""

import ctypes
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

import ptc
from ptc.guest import v8
from ptc.namespaces import GLOBALS
from tests.ptc.programs import kind

pytestmark = pytest.mark.asyncio(loop_scope="module")

pytest.importorskip("py_mini_racer")

MIB = 1024 * 1024


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def runtime() -> AsyncIterator[ptc.Runtime]:
    async with ptc.Runtime(engine="v8", spares=0) as runtime:
        yield runtime


async def run(runtime: ptc.Runtime, code: str, **options: Any) -> ptc.Outcome:
    """Run a program with the functions `echo` and `fail`."""
    return await runtime.run(code, {"t": {"echo": lambda value: value, "fail": fail}}, form="async", **options)


def fail(text: Any) -> None:
    raise ptc.CallError(text)


# --- form ---


async def test_a_sync_program_is_refused(runtime: ptc.Runtime) -> None:
    """PTC-071 a program whose form is sync is a `LoadError` that says what to do, `form="sync"` a `UsageError`."""
    with pytest.raises(ptc.LoadError) as caught:
        await runtime.load("return 1")
    assert caught.value.failure.kind == "exception"
    assert 'form="async"' in caught.value.failure.message
    with pytest.raises(ptc.UsageError, match="form"):
        await runtime.load("return await 1", form="sync")
    outcome = await runtime.run("return 1")
    assert kind(outcome) == "exception"
    assert (await runtime.run("return 1", form="async")).value == 1


# --- realm ---


async def test_the_global_object_holds_exactly_the_list(runtime: ptc.Runtime) -> None:
    """PTC-072 nothing of V8's own is there: no Intl, WebAssembly, Atomics, weak references, no function of ours."""
    outcome = await run(runtime, "return Reflect.ownKeys(globalThis).map(String)")
    assert set(outcome.value) == set(GLOBALS)


async def test_code_from_text_reaches_nothing(runtime: ptc.Runtime) -> None:
    """PTC-073 PTC-074 neither constructors of functions nor `import` reach more."""
    code = """
    const found = [];
    for (const make of [Function, (async () => 0).constructor, (function* () {}).constructor]) {
      for (const name of ['process', 'require', '__ptc_send', 'std', 'os', 'Intl', 'SharedArrayBuffer']) {
        found.push(await new (Object.getPrototypeOf(async () => 0).constructor)(`return typeof ${name}`)());
      }
      found.push(typeof make('return 1'));
    }
    try { await import('fs'); found.push('imported'); } catch (e) { found.push(e.message.includes('/')); }
    return [...new Set(found)];
    """
    assert (await run(runtime, code)).value == ["undefined", "function", False]


async def test_nothing_a_program_overwrites_changes_what_crosses(runtime: ptc.Runtime) -> None:
    """PTC-075 with every global and every method replaced, calls, logs and the value cross unchanged."""
    code = """
    const {echo} = t;
    const names = ['Object', 'Array', 'String', 'JSON', 'Promise', 'RegExp', 'Map', 'Symbol', 'Function', 'Uint8Array'];
    const places = names.flatMap((name) => [globalThis[name], globalThis[name].prototype])
      .flatMap((holder) => holder ? Reflect.ownKeys(holder).map((key) => [holder, key]) : []);
    Object.defineProperty(Array.prototype, '9', {set() { throw 1 }, get() { return 'wrong' }, configurable: true});
    const wrong = () => { throw new Error('overwritten') };
    for (let i = 0; i < places.length; i++) {
      try { places[i][0][places[i][1]] = wrong; } catch { }
    }
    for (let i = 0; i < names.length; i++) globalThis[names[i]] = undefined;
    console.log('entry', {a: 1});
    return [await echo('é'), await echo({a: [1, 2]})];
    """
    outcome = await run(runtime, code)
    assert outcome.failure is None
    assert outcome.value == ["é", {"a": [1, 2]}]
    assert [entry.text for entry in outcome.logs] == ["entry {a: 1}"]


# --- crossing ---


@pytest.mark.parametrize("size", [0, 1, 65_519, 65_520, 65_521, 131_040, 1_000_000])
async def test_texts_of_every_size_cross(runtime: ptc.Runtime, size: int) -> None:
    """PTC-013 what is longer than the shared block goes through it in pieces, both ways."""
    outcome = await run(runtime, "return await t.echo(n)", input="é" + "x" * size, input_name="n")
    assert outcome.value == "é" + "x" * size


async def test_an_entry_before_a_busy_loop_survives(runtime: ptc.Runtime) -> None:
    """PTC-101 an entry is sent when it is made."""
    outcome = await run(runtime, "console.log('here'); for (;;);", limits=ptc.Limits(cpu=0.1))
    assert kind(outcome) == "compute-limit"
    assert outcome.logs == (ptc.LogEntry("here"),)


# --- rejections ---


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("t.fail('a'); await t.echo(1)", "Error: a"),
        ("t.fail(1, 2); await 0", "Error: args: one argument expected, got 2"),
        ("const p = t.fail('a'); await t.echo(1); await t.echo(2); try { await p } catch { }", None),
        ("await Promise.allSettled([t.fail('a'), t.fail('b')])", None),
        ("await Promise.race([t.echo(1), t.fail('a')]); await t.echo(2)", None),
        ("t.fail('a').catch(() => 0); await 0", None),
        ("await (async () => t.fail('a'))().catch(() => 0)", None),
        ("t.fail('a').finally(() => 0).then(() => 0, () => 0); await 0", None),
        ("const p = t.fail('a'); p.constructor = Object; await t.echo(1); p.catch(() => 0)", None),
        ("t.fail('a'); t.fail('b'); throw new Error('own')", "Error: own"),
        ("queueMicrotask(() => { throw new Error('late') }); await t.echo(1)", "Error: late"),
        ("Promise.reject(new Error('not of a call')); await t.echo(1)", None),
    ],
)
async def test_rejections_of_calls(runtime: ptc.Runtime, code: str, message: str | None) -> None:
    """PTC-085 PTC-089 a call that fails with nobody looking is `exception`; one handled before the end is not."""
    outcome = await run(runtime, code)
    assert (outcome.failure.message if outcome.failure is not None else None) == message
    if message == "Error: a":
        assert outcome.failure is not None
        assert outcome.failure.position == ptc.Position(1, 3)


async def test_a_promise_of_a_call_looks_like_any(runtime: ptc.Runtime) -> None:
    """PTC-092 that somebody looks at it is not to be seen on the promise."""
    code = "const p = t.echo(1); return [p instanceof Promise, p.constructor === Promise, Object.keys(p), await p]"
    assert (await run(runtime, code)).value == [True, True, [], 1]


# --- places ---


@pytest.mark.parametrize(
    ("code", "line", "column"),
    [
        ("await 0;\nlet a b;", 2, 7),
        ("/*é😀*/ let a b;", 1, 14),
        ("let a;\r\nlet a;", 2, 5),
        ("let s = '\u2028\u2029';\n let c d;", 2, 8),
        ("if (true) {", 1, 11),
        ("}); (function () {", 1, 2),
        ("const a = /(/;", 1, 11),
        ("for (;;) { break nowhere; }", 1, 18),
        ("import x from 'y';", 1, 1),
    ],
)
async def test_places_of_syntax_errors(runtime: ptc.Runtime, code: str, line: int, column: int) -> None:
    """PTC-051 a syntax error has its exact line, and a column in code points inside of it."""
    with pytest.raises(ptc.LoadError) as caught:
        await runtime.load(code, form="async")
    failure = caught.value.failure
    assert failure.kind == "exception"
    assert failure.message.startswith("SyntaxError: ")
    assert failure.position == ptc.Position(line, column)


@pytest.mark.parametrize(
    ("code", "line", "column"),
    [
        ("await 0;\n\nnull.x", 3, 6),
        ("await 0;\r\n'é😀'; null.x", 2, 12),
        ("await '\u2028\u2029';\nnull.x", 2, 6),
        ("await 0;\n\n  t.echo()", 3, 5),
    ],
)
async def test_places_of_errors(runtime: ptc.Runtime, code: str, line: int, column: int) -> None:
    """PTC-095 the line is exact, the column is in code points."""
    outcome = await run(runtime, code)
    assert outcome.failure is not None
    assert outcome.failure.position == ptc.Position(line, column)
    assert outcome.failure.stack == f"    at program.js:{line}:{column}"


async def test_stacks_show_no_frame_of_ours(runtime: ptc.Runtime) -> None:
    """PTC-076 whatever the program does to Error, and wherever the error is made."""
    code = """
    const texts = [];
    Error.prepareStackTrace = (error, sites) => String(sites.map((site) => site.getFileName()));
    Error.stackTraceLimit = 1000;
    const note = (error) => texts.push(error.stack);
    try { t.echo(Symbol()); await t.echo(() => 0) } catch (e) { note(e) }
    try { console.log({get a() { throw 1 }}); JSON.parse('{') } catch (e) { note(e) }
    try { eval('null.x') } catch (e) { note(e) }
    try { [3, 1].sort(() => null.x) } catch (e) { note(e) }
    await t.fail('x').catch(note);
    return texts;
    """
    outcome = await run(runtime, "t.echo(1);" + code.replace("t.echo(Symbol()); ", ""))
    assert len(outcome.value) == 5
    for text in outcome.value:
        lines = [line for line in text.split("\n") if line]
        assert lines
        assert all("program.js:" in line for line in lines), text


# --- limits ---


async def test_a_full_heap_is_a_memory_limit(runtime: ptc.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    """PTC-104 where the host cannot look, V8's own limit ends the run, and its last words tell the reason."""
    monkeypatch.setattr("ptc._memory.resident_bytes", lambda _pid: None)
    code = "const all = []; for (;;) all.push(new Array(1000).fill(1.5))"
    outcome = await run(runtime, code, limits=ptc.Limits(memory=32 * MIB))
    assert kind(outcome) == "memory-limit"
    assert outcome.exit is not None
    assert outcome.exit.signal is not None
    assert "out of memory" in outcome.native


async def test_garbage_is_no_growth(runtime: ptc.Runtime) -> None:
    """PTC-104 a program that drops what it makes stays below the limit, however much it makes."""
    code = """
    let sum = 0;
    for (let i = 0; i < 300; i++) {
      sum += new Array(100_000).fill(i).length + new Uint8Array(1_000_000).length + ('x'.repeat(1_000_000) + i).length;
      await t.echo(1);
    }
    return sum;
    """
    outcome = await run(runtime, code, limits=ptc.Limits(memory=64 * MIB))
    assert outcome.ok, outcome.failure


@pytest.mark.parametrize("stack", [128 * 1024, 1 * MIB, 16 * MIB])
async def test_recursion_ends_with_the_stack(runtime: ptc.Runtime, stack: int) -> None:
    """PTC-106 the engine's stack is as large as it was asked to be, and its end is a RangeError."""
    code = """
    let depth = 0;
    const f = () => { depth += 1; f(); };
    try { f() } catch (e) { console.log(e instanceof RangeError) }
    return depth;
    """
    outcome = await run(runtime, code, limits=ptc.Limits(stack=stack))
    assert [entry.text for entry in outcome.logs] == ["true"]
    assert stack / 400 < outcome.value < stack / 16


# --- the adapter ---


@pytest.mark.parametrize(
    ("said", "place"),
    [
        ("<anonymous>:4097: SyntaxError: x\nlet a b\n      ^\n\nSyntaxError: x\n", {"line": 4097, "column": 7}),
        ("<anonymous>:3: SyntaxError: x\n", {"line": 3, "column": 1}),
        ("<anonymous>:3: SyntaxError: x", {"line": 3, "column": 1}),
        ("something else", None),
        ("", None),
    ],
)
async def test_the_place_is_read_out_of_what_the_library_says(said: str, place: object) -> None:
    """PTC-051 a text without a place gives none."""
    assert v8._problem_place(said) == place


async def test_a_thread_whose_size_cannot_be_chosen_gets_a_small_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    """PTC-106 then the engine's stack must fit the smallest thread there is."""
    assert v8._reserve_stack(4 * MIB) == 4 * MIB
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: object())
    assert v8._reserve_stack(4 * MIB) == v8._SMALL_STACK
