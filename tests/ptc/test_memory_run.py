"""Memory and stack with real programs: what eats or recurses without end is over, and nothing crashes."""

import asyncio
from typing import Any

import pytest

import ptc
from tests.ptc.processes import needs_proc
from tests.ptc.programs import KIB, MIB, ended, kind

pytestmark = pytest.mark.asyncio(loop_scope="session")

EATERS = {
    "doubling strings": "let s = 'x'; for (;;) { s += s; s.charCodeAt(s.length - 1); }",
    "strings of 1 MiB": "const all = []; for (;;) all.push('x'.repeat(1048576) + all.length);",
    "array buffers": "const all = []; for (;;) all.push(new Uint8Array(1048576).fill(1));",
    "map keys": "const m = new Map(); for (let i = 0; i < 1e7; i++) m.set(i, { i });",
    "closures": "let f = () => 0; for (;;) { const g = f; f = () => g; }",
    "property names": "const o = {}; for (let i = 0; ; i++) o['name' + i] = i;",
    "arrays": "const all = []; for (;;) all.push([1, 2, 3]);",
    "pending promises": "const all = []; for (;;) all.push(new Promise(() => 0));",
    "a growing array": "const a = []; for (;;) a.push(1);",
    "BigInts": "const all = []; for (;;) all.push((1n << 800000n) + 1n);",
    "symbols": "const all = []; for (;;) all.push(Symbol('x'.repeat(1000) + all.length));",
    "microtasks": "for (;;) Promise.resolve().then(() => 0);",
    "compiled text": "const all = []; for (let i = 0; ; i++) all.push(eval('(x) => x + ' + i));",
}


@needs_proc
@pytest.mark.parametrize("catches", [False, True], ids=["", "caught"])
@pytest.mark.parametrize("code", EATERS.values(), ids=EATERS.keys())
async def test_what_eats_memory_is_a_memory_limit(runtime: ptc.Runtime, code: str, catches: bool) -> None:
    """PTC-104 every way to hold memory ends as `memory-limit`, also when the program catches the engine's error."""
    if catches:
        code = (
            "const kept = []; for (;;) { try { " + code + " } catch (e) { kept.push(new Uint8Array(1e6).fill(1)); } }"
        )
    outcome = await ended(runtime, code, ptc.Limits(memory=32 * MIB, cpu=10))
    assert kind(outcome) == "memory-limit"
    assert outcome.elapsed < 10


async def test_a_doubling_string_nobody_reads_costs_nothing(runtime: ptc.Runtime) -> None:
    """PTC-104 an engine that only notes down what a string is made of refuses it by its length."""
    outcome = await ended(runtime, "let s = 'x'; for (;;) s += s;", ptc.Limits(memory=32 * MIB))
    assert kind(outcome) in ("exception", "memory-limit")


@needs_proc
async def test_memory_that_is_allowed_may_be_used(runtime: ptc.Runtime) -> None:
    """PTC-104 the whole of the limit may be used, in the first run of an image as in any other."""
    limits = ptc.Limits(memory=48 * MIB)
    image = await runtime.load("const a = new Uint8Array(40 * 1048576).fill(1); return a[a.length - 1];", limits=limits)
    for _ in range(3):
        assert (await image.run()).value == 1
    await image.unload()


@needs_proc
async def test_memory_is_per_run(runtime: ptc.Runtime) -> None:
    """PTC-104 two runs at the same time do not share the limit, and a stopped one stops no other."""
    code = "const a = new Uint8Array(n * 1048576).fill(1); return await t.wait(a.length);"
    gate = asyncio.Event()

    async def wait(argument: Any) -> Any:
        await gate.wait()
        return argument

    image = await runtime.load(code, {"t": {"wait": wait}}, input_name="n", limits=ptc.Limits(memory=32 * MIB))
    runs = [image.start(input=size) for size in (24, 24, 100)]
    assert kind(await runs[2].outcome()) == "memory-limit"
    gate.set()
    assert [(await run.outcome()).value for run in runs[:2]] == [24 * MIB, 24 * MIB]
    await image.unload()


@pytest.mark.parametrize(
    "code",
    [
        "new ArrayBuffer(2 ** 40)",
        "new ArrayBuffer(2 ** 33)",
        "'x'.repeat(2 ** 31)",
        "new Uint8Array(2 ** 32)",
        "'x'.padEnd(2 ** 31)",
        "new Array(2 ** 31).fill(0).length; throw 1",
    ],
)
async def test_a_refused_reservation_does_not_end_the_run(runtime: ptc.Runtime, code: str) -> None:
    """PTC-105 a single reservation that is refused is an error the program may catch, and the run goes on."""
    limits = ptc.Limits(memory=32 * MIB, cpu=2)
    outcome = await ended(runtime, "try { " + code + " } catch (e) { return 'caught' } return 'made'", limits)
    if outcome.failure is None:
        assert outcome.value == "caught"
    else:
        assert "fill" in code
        assert kind(outcome) == "memory-limit"


@pytest.mark.parametrize(
    "code",
    [
        "new Uint8Array(2 ** 30)",
        # In V8 that is longer than any text may be, and the error is about that.
        pytest.param("'x'.repeat(2 ** 29) + 'y'.repeat(2 ** 29)", marks=pytest.mark.needs("address limit")),
    ],
)
async def test_an_uncaught_allocation_error_is_a_memory_limit(runtime: ptc.Runtime, code: str) -> None:
    """PTC-105 a refused reservation nobody catches ends the run as `memory-limit`."""
    outcome = await ended(runtime, code, ptc.Limits(memory=32 * MIB))
    assert kind(outcome) == "memory-limit"


# --- recursion ---

RECURSIONS = {
    "a function": "const f = () => f() + 1; f()",
    "a getter": "const o = { get x() { return this.x + 1; } }; o.x",
    "a Proxy": "const p = new Proxy({}, { get: (t, k, r) => r[k] }); p.x",
    "toString": "const o = { toString() { return '' + this; } }; '' + o",
    "JSON.parse": "JSON.parse('['.repeat(1e5) + ']'.repeat(1e5))",
    "JSON.stringify": "let a = []; for (let i = 0; i < 1e5; i++) a = [a]; JSON.stringify(a)",
    "a regular expression": "new RegExp('('.repeat(1e5) + ')'.repeat(1e5))",
    "eval": "eval('('.repeat(1e5) + ')'.repeat(1e5))",
    "compiled templates": "eval('`${'.repeat(1e5))",
    "an array as text": "let a = []; for (let i = 0; i < 1e5; i++) a = [a]; '' + a",
    "flat": "let a = []; for (let i = 0; i < 1e5; i++) a = [a]; a.flat(Infinity)",
    "a class": "class A { constructor() { new A(); } } new A()",
    "a bound function": "let f = () => 1; for (let i = 0; i < 1e5; i++) f = f.bind(null); f()",
    "an iterator": "const o = { *[Symbol.iterator]() { yield* o; } }; [...o]",
    "a sort comparator": "const f = () => [2, 1].sort(f); f()",
    "structure of destructuring": "eval('let ' + '['.repeat(1e5))",
    "console": "let a = {}; a.toString = () => { console.log(a); return '' + a; }; '' + a",
}


@pytest.mark.parametrize("form", ["sync", "async"])
@pytest.mark.parametrize("code", RECURSIONS.values(), ids=RECURSIONS.keys())
async def test_deep_recursion_is_an_error_or_a_limit(runtime: ptc.Runtime, code: str, form: str) -> None:
    """PTC-106 deep recursion gives a catchable error or a limit, never a crash, and the same run goes on."""
    program = f"""
    const seen = [];
    for (let i = 0; i < 3; i++) try {{ {code}; seen.push('fine'); }} catch (e) {{ seen.push(e.name); }}
    return [seen, (() => [1, 2].map((x) => x + 1))()];
    """
    outcome = await ended(runtime, program, ptc.Limits(cpu=3), form=form)
    if outcome.failure is not None:
        assert kind(outcome) in ("compute-limit", "memory-limit", "output-limit")
        return
    seen, after = outcome.value
    assert set(seen) <= {"fine", "RangeError", "SyntaxError", "InternalError", "TypeError"}
    assert after == [2, 3]


async def test_an_uncaught_overflow_has_its_place(runtime: ptc.Runtime) -> None:
    """PTC-106 an overflow nobody catches is an exception of the program."""
    outcome = await ended(runtime, "const f = () =>\n f() + 1;\nf();", ptc.Limits())
    assert kind(outcome) == "exception"
    assert outcome.failure is not None
    assert outcome.failure.position is not None
    assert outcome.failure.position.line in (1, 2)


@pytest.mark.parametrize("stack", [64 * KIB, 256 * KIB, 1 * MIB, 4 * MIB])
async def test_the_stack_limit_gives_more_or_less_depth(runtime: ptc.Runtime, stack: int) -> None:
    """PTC-106 the stack of the engine is that of the limits, and no size of it lets the process crash."""
    code = "let n = 0; const f = () => { n++; f(); }; try { f(); } catch (e) { return [n, e.name]; }"
    outcome = await ended(runtime, code, ptc.Limits(stack=stack))
    assert outcome.failure is None
    depth, name = outcome.value
    assert name == "RangeError"
    assert stack / 4000 < depth < stack / 50
