"""What a run can see: of other runs nothing, of the machine as good as nothing."""

import asyncio
import os
import re
import socket
import time
from pathlib import Path
from typing import Any

import pytest

import ptc
from ptc._control import ControlStream
from ptc._memory import resident_bytes
from tests.ptc.processes import (
    descriptors,
    images_of,
    needs_proc,
    proc,
    processes_of,
    root_of,
    runs_of,
    spares_ready,
    tree_of,
    working_directory,
)

pytestmark = [pytest.mark.asyncio(loop_scope="session"), needs_proc]

MIB = 1024 * 1024

# Looks for the traces of an earlier run, then leaves every trace it can.
LEAVES_TRACES = """
const found = [];
if ('leak' in globalThis) found.push('global');
if (Object.prototype.leak || [].leak || ''.leak || (() => 0).leak) found.push('prototype');
if (JSON.parse('1') !== 1 || Math.max(1) !== 1) found.push('replaced');
if (shared.n !== 0) found.push('setup object');
if (shared.re.lastIndex !== 0) found.push('lastIndex');
if (t.self.leak || console.leak) found.push('namespace');
for (const place of [globalThis, Object.prototype, Array.prototype, String.prototype, Function.prototype])
  Object.defineProperty(place, 'leak', {value: 1, configurable: true});
JSON.parse = () => 7;
Math.max = () => 7;
shared.n += 1;
shared.re.test('aaa');
(async () => { for (;;) { await 0; shared.n += 1; if (shared.n > 1000) break; } })();
t.self(1);
Promise.reject(new Error('late')).catch(() => { globalThis.leak2 = 1; });
return found;
"""


async def test_nothing_of_a_run_reaches_the_next(runtime: ptc.Runtime) -> None:
    """PTC-048 globals, prototypes, `lastIndex` and pending jobs of one run never reach the next."""
    image = await runtime.load(
        LEAVES_TRACES, {"t": {"self": lambda value: value}}, setup="return {shared: {n: 0, re: /a/g}}"
    )
    for _ in range(4):
        outcome = await image.run()
        assert outcome.value == [], outcome.failure
    await image.unload()


async def test_each_run_has_its_own_process(engine: str) -> None:
    """PTC-048 each run has its own process."""
    async with ptc.Runtime(engine=engine, spares=0) as runtime:
        seen: list[int] = []
        image = await runtime.load("t.look(null)", {"t": {"look": lambda _argument: seen.extend(runs_of(runtime))}})
        for _ in range(5):
            assert (await image.run()).ok
        assert len(set(seen)) == 5


async def test_two_runs_at_the_same_time_do_not_see_each_other(runtime: ptc.Runtime) -> None:
    """PTC-049 two runs of one image at the same time do not see each other."""
    both = asyncio.Barrier(2)

    async def meet(argument: Any) -> Any:
        await both.wait()
        return argument

    code = """
    const before = [globalThis.mine ?? null, shared.n];
    globalThis.mine = id; shared.n = id; Array.prototype.mine = id;
    const answer = await t.meet(id);
    return [before, answer, globalThis.mine, shared.n, [].mine];
    """
    image = await runtime.load(code, {"t": {"meet": meet}}, input_name="id", setup="return {shared: {n: 0}}")
    first, second = await asyncio.gather(image.run(input=1), image.run(input=2))
    assert first.failure is None
    assert second.failure is None
    assert first.value == [[None, 0], 1, 1, 1, 1]
    assert second.value == [[None, 0], 2, 2, 2, 2]
    await image.unload()


# --- loading runs nothing ---

CLOSERS = [
    "} for (;;); {",
    "}} for (;;); {{",
    "}}) for (;;); (function () {{",
    "}}); for (;;); (function () { x: {",
    "}}); for (;;); (async function () { x: {",
    "}}})(); for (;;); (function () {{{",
    "} })(); for (;;); //",
    "} }); for (;;); /*",
    "*/ } }); for (;;); /*",
    "`${1}` } }); for (;;); (function () { x: { `",
    "return 1 } }), function () { for (;;); }(), (function () { {",
    "}, x = (() => { for (;;); })()) => { {",
]


@pytest.mark.parametrize("body", CLOSERS)
@pytest.mark.parametrize("form", ["sync", "async"])
async def test_a_body_that_closes_its_wrapper_is_a_syntax_error(runtime: ptc.Runtime, body: str, form: str) -> None:
    """PTC-050 a body that closes its wrapper and opens another is a syntax error, and nothing of it runs."""
    with pytest.raises(ptc.LoadError) as caught:
        await runtime.load(body, form=form, limits=ptc.Limits(cpu=5))  # type: ignore[arg-type]
    assert caught.value.failure.kind == "exception"  # what runs would end by its limit
    assert "SyntaxError" in caught.value.failure.message


@pytest.mark.parametrize("form", ["sync", "async"])
async def test_loading_executes_nothing_of_the_body(runtime: ptc.Runtime, form: str) -> None:
    """PTC-050 `load` executes nothing of the body, hoisted or not."""
    body = """
    t.called(1);
    class A { static { t.called(2); for (;;); } }
    var x = t.called(3);
    function f(y = t.called(4)) {}
    for (;;);
    """
    called: list[Any] = []
    image = await runtime.load(body, {"t": {"called": called.append}}, form=form)  # type: ignore[arg-type]
    assert called == []
    outcome = await image.run(timeout=0.1)
    assert outcome.failure is not None
    assert outcome.failure.kind == "timeout"
    assert called[0] == 1, "it is the run that executes it"
    await image.unload()


@pytest.mark.parametrize(
    ("code", "line", "columns"),
    [
        ("let 1x;", 1, (1, 7)),
        ("return ((1);", 1, (8, 12)),
        ("\n\nreturn 1 +* 2;", 3, (1, 14)),
        ("let a;\r\nlet b;\r\nlet a;\r\n", 3, (1, 6)),
        ("'é𝒳'; let 2;", 1, (1, 13)),
        ("if (true) {\n  return 1;\n", 2, (1, 11)),
        ("return `abc", 1, (1, 11)),
        ("return /abc", 1, (1, 11)),
        ("/* never\nclosed", 1, (1, 8)),
        ("return 1;\n}", 2, (1, 1)),
        ("import x from 'y';", 1, (1, 18)),
        ("export const x = 1;", 1, (1, 19)),
        ("with (x) {}", 1, (1, 11)),
        ("return 08;", 1, (1, 10)),
        ("await = 1; await t;", 1, (1, 19)),
    ],
)
async def test_a_syntax_error_has_its_place(
    runtime: ptc.Runtime, code: str, line: int, columns: tuple[int, int]
) -> None:
    """PTC-051 a syntax error is a `LoadError` with exact line and a column inside the line."""
    with pytest.raises(ptc.LoadError) as caught:
        await runtime.load(code)
    failure = caught.value.failure
    assert failure.kind == "exception"
    assert failure.position is not None
    assert failure.position.line == line
    assert columns[0] <= failure.position.column <= columns[1]
    outcome = await runtime.run(code)
    assert outcome.failure == failure
    assert outcome.isolation is None


async def test_a_refusal_counts_though_the_end_of_its_process_is_told_first(
    runtime: ptc.Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PTC-051 The two come by different ways, so the loop may see them in either order."""
    readable = ControlStream._readable
    held = 0

    def held_back(stream: ControlStream) -> None:
        nonlocal held
        if b'"refused"' in stream._socket.recv(65536, socket.MSG_PEEK):
            held += 1
        else:
            readable(stream)

    monkeypatch.setattr(ControlStream, "_readable", held_back)
    with pytest.raises(ptc.LoadError) as caught:
        await runtime.load("return ((1);")
    assert held > 0
    assert caught.value.failure.kind == "exception", caught.value.failure


async def test_a_syntax_error_about_a_long_name_is_still_one(runtime: ptc.Runtime) -> None:
    """PTC-051 an engine that repeats the name whole does not make the answer too large."""
    name = "a" * 100_000
    with pytest.raises(ptc.LoadError) as caught:
        await runtime.load(f"let {name} = await 1;\nlet {name};")
    failure = caught.value.failure
    assert (failure.kind, failure.position and failure.position.line) == ("exception", 2)
    assert len(failure.message) < 5000


BOMBS = {
    "parentheses": "(" * 500_000 + ")" * 500_000,
    "open parentheses": "(" * 1_000_000,
    "brackets": "x = " + "[" * 500_000 + "]" * 499_990,
    "blocks": "{" * 500_000 + "}" * 500_000,
    "functions": "()=>" * 250_000 + "1",
    "templates": "`${" * 330_000,
    "conditions": "1?" * 330_000 + "1" + ":1" * 100_000,
    "negations": "!" * 1_000_000 + "1",
    "constants": "return [" + ",".join(str(i) + ".5" for i in range(120_000)) + "]",
    "names": "".join(f"var a{i};" for i in range(90_000)),
    "switch": "switch (1) {" + "".join(f"case {i}:" for i in range(90_000)) + "}",
    "one string": "return '" + "x" * 1_000_000 + "'",
    "one regular expression": "return /" + "(a|b)*" * 160_000 + "/.test('')",
    "a nested regular expression": "return /" + "(" * 400_000 + ")" * 400_000 + "/.test('')",
    "one template": "return `" + "${1}" * 240_000 + "`",
    "one number": "return '' + " + "9" * 1_000_000,
    "one BigInt": "return 0x" + "f" * 1_000_000 + "n",
    "spread": "f(" + "...[" * 240_000,
    "destructuring": "let " + "[" * 500_000,
    "commas": "return 1" + ",1" * 490_000,
    "additions": "return 1" + "+1" * 490_000,
    "members": "return x" + ".x" * 490_000,
}


@pytest.mark.parametrize("code", BOMBS.values(), ids=BOMBS.keys())
async def test_a_compile_bomb_ends(runtime: ptc.Runtime, code: str) -> None:
    """PTC-052 a compile bomb ends within the load limits with its kind, and the runtime stays usable."""
    limits = ptc.Limits(cpu=1, load_timeout=3, memory=64 * MIB)
    began = time.monotonic()
    try:
        image = await runtime.load(code, limits=limits)
        outcome = await image.run(timeout=2)
        await image.unload()
        failure = outcome.failure
    except ptc.LoadError as error:
        failure = error.failure
    assert time.monotonic() - began < 8
    if failure is not None:
        assert failure.kind in {
            "exception", "timeout", "compute-limit", "memory-limit", "output-limit", "invalid-output",
        }, failure  # fmt: skip
    assert (await runtime.run("return 1")).value == 1


async def test_a_load_that_takes_too_long_is_a_timeout(runtime: ptc.Runtime) -> None:
    """PTC-052 a load has its own deadline."""
    with pytest.raises(ptc.LoadError) as caught:
        await runtime.load("return 1", setup="for (;;);", limits=ptc.Limits(load_timeout=0.2))
    assert caught.value.failure.kind == "timeout"
    assert "0.2" in caught.value.failure.message


async def test_a_load_that_computes_too_much_is_a_compute_limit(runtime: ptc.Runtime) -> None:
    """PTC-052 a load has the CPU and memory limits of its image."""
    with pytest.raises(ptc.LoadError) as caught:
        await runtime.load("return 1", setup="for (;;);", limits=ptc.Limits(cpu=0.1))
    assert caught.value.failure.kind == "compute-limit"
    with pytest.raises(ptc.LoadError) as caught:
        await runtime.load(
            "return 1",
            setup="const all = []; for (;;) all.push('x'.repeat(100000) + all.length)",
            limits=ptc.Limits(memory=16 * MIB),
        )
    assert caught.value.failure.kind == "memory-limit"


async def test_what_one_load_printed_is_not_told_of_another(runtime: ptc.Runtime) -> None:
    """PTC-052 the failure of one load holds nothing of the diagnostics of another."""
    messages = []
    for limits in (ptc.Limits(memory=1 * MIB, stack=MIB), ptc.Limits(cpu=0.1)):
        with pytest.raises(ptc.LoadError) as caught:
            await runtime.load("return 1", setup="const all = []; for (;;) all.push([])", limits=limits)
        messages.append(caught.value.failure.message)
    assert "memory" not in messages[1]


# --- what a process of ours has ---


async def test_a_run_has_two_environment_entries_and_four_descriptors(engine: str, tmp_path: Path) -> None:
    """PTC-059 a run sees exactly two environment entries, and its descriptors are exactly 0-3."""
    with (tmp_path / "open").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        async with ptc.Runtime(engine=engine, spares=2) as runtime:
            image = await runtime.load("return 1")
            await spares_ready(image, runtime.spares)
            for pid in runs_of(runtime):
                assert sorted(proc(pid, "environ").rstrip("\0").split("\0")) == ["LC_ALL=C", "TZ=UTC0"]
                held = descriptors(pid)
                assert sorted(held) == [0, 1, 2, 3]
                assert held[0] == "/dev/null"
                assert held[1] == held[2]
                assert held[1].startswith("pipe:")
                assert held[3].startswith("socket:")
                assert working_directory(pid) == "/"
            for pid in tree_of(runtime):
                assert not any("open" in target for target in descriptors(pid).values())


_LIMIT_NAMES = {
    "as": "Max address space",
    "core": "Max core file size",
    "cpu": "Max cpu time",
    "data": "Max data size",
    "fsize": "Max file size",
    "nofile": "Max open files",
    "nproc": "Max processes",
}


def limits_of(pid: int) -> dict[str, tuple[str, str]]:
    """Soft and hard limits of a process by our names."""
    text = proc(pid, "limits")
    found = {}
    for name, shown in _LIMIT_NAMES.items():
        match = re.search(rf"^{shown} +(\S+) +(\S+)", text, re.MULTILINE)
        assert match is not None
        found[name] = (match[1], match[2])
    return found


async def test_memory_of_v8_is_bounded_while_nobody_looks() -> None:
    """PTC-061 a host function that blocks the loop does not let a program have all memory."""
    pytest.importorskip("py_mini_racer")
    code = """
    t.block(1);
    await 0;
    const all = [];
    for (let i = 0; i < 64; i++) all.push(new Uint8Array(2 ** 24).fill(1));
    """
    most = 0

    def block(_argument: Any) -> None:
        nonlocal most
        end = time.monotonic() + 1.0
        while time.monotonic() < end:
            time.sleep(0.05)
            most = max(most, *(resident_bytes(pid) or 0 for pid in processes_of(os.getpid())))

    async with ptc.Runtime(engine="v8", spares=0) as runtime:
        outcome = await runtime.run(code, {"t": {"block": block}}, limits=ptc.Limits(memory=64 * MIB))
    assert outcome.isolation is not None
    assert "data" in outcome.isolation.rlimits
    assert 64 * MIB < most < 512 * MIB


async def test_reported_limits_are_in_force(engine: str) -> None:
    """PTC-061 every reported rlimit is in force in the run, and none that is not in force is reported."""
    limits = ptc.Limits(cpu=2.5, memory=32 * MIB)
    async with ptc.Runtime(engine=engine, spares=1) as runtime:
        image = await runtime.load("return 1", limits=limits)
        await spares_ready(image, 1)
        (pid,) = runs_of(runtime)
        sample = images_of(runtime)[0] if runtime.process == "fork" else pid
        image_size = int(proc(sample, "statm").split()[0]) * os.sysconf("SC_PAGE_SIZE")
        ours = limits_of(pid)
        unbounded = limits_of(root_of(runtime) if runtime.process == "fork" else os.getpid())
        outcome = await image.run()
        assert outcome.isolation is not None
        assert outcome.isolation.process == runtime.process
        reported = outcome.isolation.rlimits
        assert list(reported) == sorted(reported)
        memory = "data" if engine == "v8" else "as"
        assert set(reported) >= {"core", "cpu", "fsize", "nofile", memory}
        assert ours["core"] == ours["fsize"] == ("0", "0")
        assert ours["cpu"] == ("4", "5")
        assert ours["nofile"] == ("16", "16")
        if memory == "as":
            bound = int(ours["as"][0])
            assert abs(bound - (image_size + 2 * 32 * MIB + 64 * MIB)) < 2 * MIB
        assert ours[memory][1] == ours[memory][0]
        assert ("nproc" in reported) == (os.geteuid() != 0)
        for name in set(_LIMIT_NAMES) - set(reported):
            assert ours[name] == unbounded[name]


async def test_no_new_privileges_are_in_force(engine: str) -> None:
    """PTC-063 what is reported of system calls is in force: no-new-privs at least."""
    async with ptc.Runtime(engine=engine, spares=1) as runtime:
        image = await runtime.load("return 1")
        await spares_ready(image, 1)
        (pid,) = runs_of(runtime)
        status = proc(pid, "status")
        outcome = await image.run()
        assert outcome.isolation is not None
        assert outcome.isolation.seccomp in ("filter", "no-new-privs")
        assert re.search(r"^NoNewPrivs:\s+1$", status, re.MULTILINE)


async def test_a_missing_measure_that_is_required_is_the_outcome(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """PTC-063 a required measure that is not in force is `sandbox-unavailable`; nothing of the program runs."""
    monkeypatch.setattr("ptc.image._RLIMITS", frozenset({"as", "core", "cpu", "fsize", "nofile", "imagined"}))
    async with ptc.Runtime(engine=engine, require={"rlimits"}) as runtime:
        outcome = await runtime.run("return 1")
        assert outcome.failure is not None
        assert outcome.failure.kind == "sandbox-unavailable"
        assert "rlimits" in outcome.failure.message
        assert images_of(runtime) == []


@pytest.mark.needs("fork")
async def test_available_measures_may_be_required(engine: str) -> None:
    """PTC-063 what is there may be required."""
    async with ptc.Runtime(engine=engine, require={"fork", "rlimits"}) as runtime:
        assert (await runtime.run("return 1")).value == 1
    with pytest.raises(ptc.UsageError, match="chroot"):
        ptc.Runtime(engine=engine, require={"chroot"})


DATES = """
const d = new Date(0), n = 1234567.891;
return [d.toString(), d.toLocaleString(), d.toLocaleDateString(), d.getTimezoneOffset(),
        new Date(2024, 6, 1, 12).toISOString(), n.toLocaleString(), 'ä'.localeCompare('z'),
        ['ä', 'a', 'z'].sort((a, b) => a.localeCompare(b)).join(''), 'I'.toLocaleLowerCase()];
"""


@pytest.mark.parametrize(
    ("zone", "locale"), [("America/St_Johns", "de_DE.UTF-8"), ("Asia/Tokyo", "tr_TR.UTF-8"), ("UTC", "C")]
)
async def test_dates_and_locales_are_the_same_everywhere(
    engine: str, monkeypatch: pytest.MonkeyPatch, zone: str, locale: str
) -> None:
    """PTC-068 dates and `toLocaleString` give the same text under any time zone and locale of the host."""
    for name in ("LC_ALL", "LANG", "LC_TIME", "LANGUAGE"):
        monkeypatch.setenv(name, locale)
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        async with ptc.Runtime(engine=engine, spares=0) as runtime:
            outcome = await runtime.run(DATES)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert outcome.failure is None
    assert outcome.value[0].startswith("Thu Jan 01 1970 00:00:00 GMT+0000")
    assert outcome.value[3] == 0
    assert outcome.value[4] == "2024-07-01T12:00:00.000Z"
    _DATES_SEEN.setdefault(engine, outcome.value)
    assert outcome.value == _DATES_SEEN[engine]


_DATES_SEEN: dict[str, Any] = {}
