"""Limits with real programs: what runs for ever, eats, recurses or talks without end is over in good time."""

import asyncio
import re
import resource
from typing import Any

import pytest

import ptc
from tests.ptc.processes import needs_proc, proc, runs_of, spares_ready
from tests.ptc.programs import KIB, LATE_S, MIB, ended, kind

pytestmark = pytest.mark.asyncio(loop_scope="session")

# --- CPU ---

LOOPS = {
    "bare": "for (;;);",
    "in try and catch": "for (;;) { try { for (;;); } catch (e) { console.log('caught'); } }",
    "in finally": """
        const f = () => { try { f(); } finally { console.log('handled'); f(); } };
        try { for (;;); } finally { f(); }
    """,
    "in a getter": "const o = { get x() { for (;;); } }; try { o.x; } catch { console.log('caught'); }",
    "in a sort comparator": "try { [3, 1, 2].sort(() => { for (;;); }); } catch { console.log('caught'); }",
    "in a replace callback": "try { 'aaa'.replace(/a/g, () => { for (;;); }); } catch { console.log('caught'); }",
    "in a Proxy trap": "try { new Proxy({}, { get() { for (;;); } }).x; } catch { console.log('caught'); }",
    "in a promise executor": "return new Promise(() => { for (;;); }).catch(() => console.log('caught'));",
    "in a microtask chain": "const again = () => Promise.resolve().then(again); await again();",
    "in a generator's return": "function* g() { try { yield 1; } finally { for (;;); } } for (const x of g()) break;",
    "in toJSON": "try { JSON.stringify({ toJSON() { for (;;); } }); } catch { console.log('caught'); }",
    "in toString": "try { '' + { toString() { for (;;); } }; } catch { console.log('caught'); }",
    "in a getter of the value": "return { get x() { for (;;); } };",
    "in a getter of what is logged": "console.log(new Proxy({}, { get() { for (;;); }, ownKeys() { for (;;); } }));",
    "in a thenable": "return { then() { for (;;); } };",
    "in an iterator": "new Map({ [Symbol.iterator]() { for (;;); } });",
    "in a catch of an await": "await Promise.reject(1).catch(() => { for (;;); });",
    "in the then of a call nobody awaits": "t.f(1).then(() => { for (;;); }); return await 1;",
    "in queueMicrotask": "const again = () => queueMicrotask(again); again();",
    "in a species": "class P extends Promise { static get [Symbol.species]() { for (;;); } } new P(() => 0).then();",
}


@pytest.mark.parametrize("code", LOOPS.values(), ids=LOOPS.keys())
async def test_an_endless_loop_is_a_compute_limit(runtime: ptc.Runtime, code: str) -> None:
    """PTC-102 an endless loop ends as `compute-limit` wherever it is, and no handler runs."""
    outcome = await ended(runtime, code, ptc.Limits(cpu=0.1), namespaces={"t": {"f": lambda value: value}})
    assert kind(outcome) == "compute-limit"
    assert outcome.logs == ()
    assert outcome.elapsed < 0.1 + LATE_S
    assert outcome.cpu is not None
    assert outcome.cpu > 0.05, "the timer counts in ticks"


@pytest.mark.parametrize(
    "code",
    [
        "throw { get message() { for (;;); } };",
        "throw { toString() { for (;;); } };",
        "const e = new Error('m'); Object.defineProperty(e, 'stack', { get() { for (;;); } }); throw e;",
        "const e = new Error('m'); Object.defineProperty(e, 'message', { get() { for (;;); } }); throw e;",
        "const e = new Error('m'); Object.defineProperty(e, 'name', { get() { throw e; } }); throw e;",
        "throw new Proxy(new Error('m'), { get() { for (;;); }, getPrototypeOf() { throw 1; } });",
        "throw new Proxy(function () {}, { get() { for (;;); }, ownKeys() { throw 1; } });",
        "const r = Proxy.revocable({}, {}); r.revoke(); throw r.proxy;",
        "throw { toString() { throw { toString() { throw 1; } }; } };",
        "throw null;",
        "throw undefined;",
        "throw 'text';",
        "throw 5n;",
        "throw Symbol('s');",
    ],
)
@pytest.mark.parametrize("form", ["sync", "async"])
async def test_whatever_is_thrown_is_one_exception(runtime: ptc.Runtime, code: str, form: str) -> None:
    """PTC-096 whatever is thrown gives one `exception`, or a stop by limit."""
    outcome = await ended(runtime, code, ptc.Limits(cpu=0.1), form=form)
    assert kind(outcome) in ("exception", "compute-limit")
    assert outcome.logs == ()


NATIVES = {
    "a backtracking regular expression": "/^(a+)+$/.test('a'.repeat(34) + 'b')",
    "sort of an enormous array": "new Array(4294967295).sort()",
    "reverse of an enormous array": "new Array(4294967295).reverse()",
    "join of an enormous array-like": "[].join.call({ length: 2 ** 32 - 1 })",
    "an enormous array as text": "for (;;) Array(2e8) + ''",
    "localeCompare": "const s = 'é'.repeat(1e6); for (;;) s.localeCompare(s + 'x')",
    "a BigInt power": "for (let b = 3n; ; b = b ** 2n);",
    "indexOf": "const s = 'a'.repeat(1e6); for (;;) s.indexOf('a'.repeat(1000) + 'b')",
    "Array.from": "Array.from({ length: 2 ** 32 - 1 }, () => 0)",
    "normalize": "const s = 'e\\u0301'.repeat(1e6); for (;;) s.normalize('NFD')",
    "String.raw": "String.raw({ raw: { length: 2 ** 32 } })",
    "JSON.parse": "const s = '[' + '1,'.repeat(1e6) + '1]'; for (;;) JSON.parse(s)",
    "split": "const s = 'a'.repeat(1e6); for (;;) s.split('')",
}


@pytest.mark.parametrize("code", NATIVES.values(), ids=NATIVES.keys())
async def test_a_native_that_does_not_poll_is_stopped(runtime: ptc.Runtime, code: str) -> None:
    """PTC-103 engine functions that run for ever end by the CPU limit at most 1 s late, or by the memory limit."""
    limits = ptc.Limits(cpu=0.15, memory=64 * MIB)
    outcome = await ended(runtime, "try { " + code + " } catch { for (;;); }", limits)
    assert kind(outcome) in ("compute-limit", "memory-limit")
    assert outcome.elapsed < 0.15 + LATE_S


async def test_cpu_of_waiting_is_not_charged(runtime: ptc.Runtime) -> None:
    """PTC-102 waiting for host functions costs no CPU time."""

    async def slow(argument: Any) -> Any:
        await asyncio.sleep(0.3)
        return argument

    outcome = await ended(runtime, "return t.slow(1)", ptc.Limits(cpu=0.1), namespaces={"t": {"slow": slow}})
    assert outcome.value == 1
    assert outcome.elapsed >= 0.29
    assert outcome.cpu is not None
    assert outcome.cpu < 0.1


# --- the deadline ---


async def test_the_deadline_does_not_count_the_start(engine: str) -> None:
    """PTC-107 a first run with a 0.3 s deadline on a cold runtime finishes, and its host calls count."""
    async with ptc.Runtime(engine=engine) as runtime:
        outcome = await runtime.run("return 1", timeout=0.3)
        assert outcome.value == 1

        async def slow(_argument: Any) -> None:
            await asyncio.sleep(10)

        outcome = await runtime.run("return t.slow(1)", {"t": {"slow": slow}}, timeout=0.2)
        assert kind(outcome) == "timeout"
        assert outcome.unfinished == ((1, "t", "slow"),)
        assert 0.19 <= outcome.elapsed < 0.2 + LATE_S


async def test_the_default_deadline_is_that_of_the_limits(runtime: ptc.Runtime) -> None:
    """PTC-108 None means no deadline; omitted means the default of the limits."""
    image = await runtime.load("for (;;);", limits=ptc.Limits(timeout=0.1, cpu=0.5))
    assert kind(await image.run()) == "timeout"
    assert kind(await image.run(timeout=None)) == "compute-limit"
    assert kind(await image.run(limits=ptc.Limits(timeout=0.2, cpu=0.5))) == "timeout"
    await image.unload()


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), True, 601, "1", 10**400])
async def test_a_bad_timeout_is_misuse(runtime: ptc.Runtime, timeout: Any) -> None:
    """PTC-108 timeout 0, negative, NaN, infinite, boolean or above the maximum is `UsageError`."""
    image = await runtime.load("return 1")
    with pytest.raises(ptc.UsageError, match="timeout"):
        await image.run(timeout=timeout)
    with pytest.raises(ptc.UsageError, match="timeout"):
        image.start(timeout=timeout)
    assert (await image.run()).ok
    await image.unload()


@needs_proc
async def test_with_no_option_given_everything_ends(engine: str) -> None:
    """PTC-109 with no option given, a loop, an allocation loop, a call loop and a log loop all end."""
    async with ptc.Runtime(engine=engine) as runtime:
        outcomes = await asyncio.gather(
            runtime.run("const all = []; for (;;) all.push('x'.repeat(1e6) + all.length);"),
            runtime.run("for (;;) await t.f(1);", {"t": {"f": lambda value: value}}),
            runtime.run("for (;;) console.log('x');"),
        )
        assert [kind(outcome) for outcome in outcomes] == ["memory-limit", "call-limit", "output-limit"]
        # A bare loop takes its 10 s of CPU time; here it is enough that both bounds on it are there.
        image = await runtime.load("for (;;);")
        await spares_ready(image, runtime.spares)
        run = image.start()
        bounds = {re.findall(r"Max cpu time +(\d+) +(\d+)", proc(pid, "limits"))[0] for pid in runs_of(runtime)}
        # What a spawned process has used to start and load is on top.
        assert bounds == {("11", "12") if runtime.process == "fork" else ("12", "13")}
        run.abort()
        await run.outcome()
    assert ptc.Limits().cpu == 10
    assert ptc.Limits().timeout == 120


# --- calls and output ---


async def test_a_call_loop_is_a_call_limit_nobody_catches(runtime: ptc.Runtime) -> None:
    """PTC-036 PTC-115 call `max_calls` + 1 ends the run, is not executed, and cannot be caught by the program."""
    made: list[int] = []
    code = "for (let i = 1; ; i++) { try { await t.f(i); } catch (e) { console.log('caught'); } finally { continue; } }"
    outcome = await ended(runtime, code, ptc.Limits(max_calls=20), namespaces={"t": {"f": made.append}})
    assert kind(outcome) == "call-limit"
    assert made == list(range(1, 21))
    assert outcome.calls == 20
    assert outcome.logs == ()


async def test_a_run_stopped_in_its_900th_call_tells_the_number(runtime: ptc.Runtime) -> None:
    """PTC-115 every failure carries logs, calls, unfinished, elapsed, cpu, exit and truncation."""

    async def f(number: Any) -> Any:
        if number == 900:
            asyncio.get_running_loop().call_later(0.02, run.abort, "enough")
            await asyncio.sleep(60)
        return number

    code = "for (let i = 1; ; i++) { if (i % 300 === 1) console.log(`call ${i}`); await t.f(i); }"
    image = await runtime.load(code, {"t": {"f": f}})
    run = image.start()
    outcome = await run.outcome()
    await image.unload()
    assert outcome.failure == ptc.Failure("abort", "enough")
    assert outcome.calls == 900
    assert outcome.unfinished == ((900, "t", "f"),)
    assert [entry.text for entry in outcome.logs] == ["call 1", "call 301", "call 601"]
    assert outcome.elapsed >= 0.02
    assert outcome.cpu is not None
    assert outcome.exit == ptc.ExitStatus(signal=9)
    assert outcome.truncated is None
    assert outcome.isolation is not None


def peak_memory() -> int:
    """The most memory this process has ever held, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB


async def test_a_million_lines_are_an_output_limit(runtime: ptc.Runtime) -> None:
    """PTC-113 a million console lines end as `output-limit` with host memory bounded and the first entries kept."""
    before = peak_memory()
    outcome = await ended(runtime, "for (let i = 0; i < 1e6; i++) console.log('line', i);", ptc.Limits())
    assert kind(outcome) == "output-limit"
    assert outcome.logs[0].text == "line 0"
    assert outcome.logs[999].text == "line 999"
    assert 50_000 < len(outcome.logs) <= 100_000
    assert outcome.truncated is not None
    assert outcome.truncated.output_limit
    assert peak_memory() - before < 100 * MIB


async def test_a_line_of_100_mb_is_cut(runtime: ptc.Runtime) -> None:
    """PTC-113 one line of 100 MB is cut, and the run finishes."""
    limits = ptc.Limits(memory=512 * MIB)
    outcome = await ended(runtime, "console.log('é'.repeat(1e8)); return 1", limits)
    assert outcome.failure is None
    (entry,) = outcome.logs
    assert entry.text.startswith("ééé")
    assert len(entry.text) <= 65_536 + len("… [+100000000 characters]")
    assert entry.text.endswith(f"… [+{entry.cut} characters]")
    assert outcome.truncated is not None
    assert outcome.truncated.characters == entry.cut


async def test_a_value_that_fits_the_output_but_no_frame_is_an_output_limit(runtime: ptc.Runtime) -> None:
    """PTC-114 a value within the output limit but too large for a frame is `output-limit`."""
    limits = ptc.Limits(max_message_bytes=100 * KIB, max_output_bytes=1 * MIB)
    outcome = await ended(runtime, "return 'x'.repeat(200 * 1024)", limits)
    assert kind(outcome) == "output-limit"
    assert (await runtime.run("return 'x'.repeat(90 * 1024)", limits=limits)).ok


@pytest.mark.parametrize("limit", [4, 8, 40, 80, 1000])
@pytest.mark.parametrize("text", ["x", "é", "𝒳", '"', "\n", "\0", "\ud800"], ids=ascii)
async def test_output_ends_on_the_exact_byte(runtime: ptc.Runtime, limit: int, text: str) -> None:
    """PTC-111 `output-limit` falls on the exact byte for logs, value and message, multi-byte included."""
    size = {"x": 1, "é": 2, "𝒳": 4, '"': 2, "\n": 2, "\0": 6, "\ud800": 6}[text]
    most = (limit - 4) // size  # 2 to begin and 2 quotes
    limits = ptc.Limits(max_output_bytes=limit)
    image = await runtime.load(
        "const s = c.repeat(n); if (how === 'log') console.log(s); else if (how === 'value') return s; else throw s;",
        input_name="input",
        setup="host.onStart((input) => { ({c: globalThis.c, n: globalThis.n, how: globalThis.how} = input); });",
        limits=limits,
    )
    for how in ("log", "value"):
        fits = await image.run(input={"c": text, "n": most, "how": how})
        assert fits.failure is None, fits.failure
        over = await image.run(input={"c": text, "n": most + 1, "how": how})
        assert kind(over) == "output-limit"
        assert over.failure is not None
        assert sum(len(entry.text.encode("utf-8", "surrogatepass")) for entry in over.logs) <= limit
        assert len(over.failure.message) <= limit
    fits = await image.run(input={"c": text, "n": most, "how": "throw"})
    assert kind(fits) == "exception"
    over = await image.run(input={"c": text, "n": most + 1, "how": "throw"})
    assert kind(over) == "output-limit"
    await image.unload()


async def test_a_long_message_and_stack_stay_within_the_ledger(runtime: ptc.Runtime) -> None:
    """PTC-097 a message or stack of 1 MB stays within the ledger and never crosses whole."""
    outcome = await ended(runtime, "throw new Error('x'.repeat(1e6))", ptc.Limits(max_output_bytes=100_000))
    assert outcome.failure is not None
    assert len(outcome.failure.message) <= 100_000
    assert kind(outcome) in ("exception", "output-limit")
    outcome = await ended(runtime, "const e = new Error('m'); e.stack = 'x'.repeat(1e6); throw e", ptc.Limits())
    assert outcome.failure is not None
    assert outcome.failure.message == "Error: m"
    assert len(outcome.failure.stack or "") <= 65_536
