"""The Python API with real programs: the loop, options, inputs, turns, forms."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

import ptc
from tests.ptc.programs import echo, for_ever, kind

pytestmark = pytest.mark.asyncio(loop_scope="session")


# --- the loop ---


@pytest.mark.parametrize("code", ["for (;;);", "new Array(4294967295).sort()", "await t.f(1)"])
async def test_the_loop_ticks_while_a_program_spins(runtime: ptc.Runtime, code: str) -> None:
    """PTC-119 the event loop keeps ticking every 10 ms while a program spins."""
    late: list[float] = []

    async def tick() -> None:
        while True:
            began = time.perf_counter()
            await asyncio.sleep(0.01)
            late.append(time.perf_counter() - began - 0.01)

    image = await runtime.load(code, {"t": {"f": for_ever}})
    ticking = asyncio.create_task(tick())
    outcome = await image.run(timeout=0.4)
    ticking.cancel()
    assert kind(outcome) == "timeout"
    assert len(late) > 20
    assert sorted(late)[len(late) // 2] < 0.01
    await image.unload()


# --- functions of one run ---


async def test_functions_of_one_run(runtime: ptc.Runtime) -> None:
    """PTC-125 `functions` replaces declared functions for one run; an undeclared or missing one is `UsageError`."""
    image = await runtime.load("return [await t.f(1), await t.g(1), await u.f(1)]", {
        "t": {"f": lambda _v: "tf", "g": lambda _v: "tg"}, "u": {"f": lambda _v: "uf"},
    })  # fmt: skip
    assert (await image.run()).value == ["tf", "tg", "uf"]
    assert (await image.run(functions={"t": {"g": lambda _v: "other"}})).value == ["tf", "other", "uf"]
    assert (await image.run(functions={})).value == ["tf", "tg", "uf"]
    assert (await image.run()).value == ["tf", "tg", "uf"]
    bad: list[Any] = [
        {"t": {"h": lambda _v: 1}},
        {"v": {}},
        {"t": {"f": None}},
        {"t": None},
        {"t": {"f": "text"}},
        [("t", {})],
        {"t": {1: lambda _v: 1}},
    ]
    for functions in bad:
        with pytest.raises(ptc.UsageError, match="functions"):
            await image.run(functions=functions)
    await image.unload()


# --- declarations ---


@pytest.mark.parametrize(
    "namespaces",
    [
        {"1x": {}},
        {"a-b": {}},
        {"class": {}},
        {"await": {}},
        {"arguments": {}},
        {"console": {}},
        {"Promise": {}},
        {"$": {}},
        {"é": {}},
        {"t": {"": print}},
        {"t": {"f": 1}},
        {"t": 5},
        5,
        [("t", {})],
        [ptc.Namespace("t", {}), ptc.Namespace("t", {})],
        [ptc.Namespace("t", {}, ptc.ErrorClass("t", "x"))],
        [ptc.Namespace("t", {}, ptc.ErrorClass("E", "message"))],
        [ptc.Namespace("t", {}, ptc.ErrorClass("E", "__x__"))],
    ],
)
async def test_bad_declarations_start_no_process(engine: str, namespaces: Any) -> None:
    """PTC-126 every bad declaration is refused before a process starts."""
    async with ptc.Runtime(engine=engine) as runtime:
        with pytest.raises(ptc.UsageError):
            await runtime.load("return 1", namespaces)
        with pytest.raises(ptc.UsageError):
            await runtime.run("return 1", namespaces)
        assert runtime._root is None


@pytest.mark.parametrize(
    "options",
    [
        {"input_name": "class"},
        {"input_name": "t"},
        {"form": "both"},
        {"language": "python"},
        {"limits": 5},
        {"setup": 5},
        {"name": 5},
    ],
)
async def test_bad_options_start_no_process(engine: str, options: Any) -> None:
    """PTC-126 bad options of a load are refused before a process starts."""
    async with ptc.Runtime(engine=engine) as runtime:
        with pytest.raises(ptc.UsageError):
            await runtime.load("return 1", {"t": {}}, **options)
        assert runtime._root is None


@pytest.mark.parametrize(
    ("code", "names"), [("// " + "x" * 2**24, 1), ("return 1", 90_000)], ids=["program", "function names"]
)
async def test_a_load_too_large_for_a_control_frame_is_refused(engine: str, code: str, names: int) -> None:
    """PTC-052 what does not fit a control frame is refused before a process starts."""
    functions = {f"{number}{'x' * 200}": len for number in range(names)}
    async with ptc.Runtime(engine=engine, limits=ptc.Limits(max_source_bytes=2**26)) as runtime:
        with pytest.raises(ptc.LoadError, match="of at most 16,777,216") as caught:
            await runtime.load(code, {"t": functions}, form="async")
        assert caught.value.failure.kind == "exception"
        outcome = await runtime.run(code, {"t": functions}, form="async")
        assert outcome.failure == caught.value.failure
        assert runtime._root is None


async def test_a_report_without_a_process_is_a_load_error(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """PTC-127 errors that reach the caller are those of the tree."""
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    async with ptc.Runtime(engine=engine) as runtime:
        with pytest.raises(ptc.LoadError, match="worker-exit"):
            await runtime.report()


@pytest.mark.parametrize(
    "options",
    [
        {"engine": "spidermonkey"},
        {"limits": 5},
        {"spares": -1},
        {"spares": True},
        {"max_runs": 0},
        {"max_runs": 1.5},
        {"require": {"chroot"}},
    ],
)
async def test_bad_options_of_a_runtime(options: Any) -> None:
    """PTC-126 bad options of a runtime are refused by name."""
    with pytest.raises(ptc.UsageError, match=next(iter(options))):
        ptc.Runtime(**options)


async def test_a_program_that_is_no_text_is_misuse(engine: str) -> None:
    """PTC-126 a program is a text."""
    async with ptc.Runtime(engine=engine) as runtime:
        for code in (None, b"return 1", 5):
            with pytest.raises(ptc.UsageError):
                await runtime.load(code)  # type: ignore[arg-type]
        assert runtime._root is None


# --- turns ---


@pytest_asyncio.fixture(loop_scope="session")
async def narrow(engine: str) -> AsyncIterator[ptc.Runtime]:
    async with ptc.Runtime(engine=engine, max_runs=2) as runtime:
        yield runtime


async def test_runs_take_turns_in_order(narrow: ptc.Runtime) -> None:
    """PTC-128 runs beyond `max_runs` start in order, and their waiting is not charged to the deadline."""
    going = 0
    most = 0
    order: list[Any] = []

    async def work(number: Any) -> Any:
        nonlocal going, most
        going += 1
        most = max(most, going)
        order.append(number)
        await asyncio.sleep(0.1)
        going -= 1
        return number

    image = await narrow.load("return t.work(n)", {"t": {"work": work}}, input_name="n")
    runs = [image.start(input=number, timeout=0.9) for number in range(20)]
    outcomes = [await run.outcome() for run in runs]
    assert [outcome.value for outcome in outcomes] == list(range(20))
    assert most == 2
    for place, number in enumerate(order):
        overtaken = set(range(number)) - set(order[:place])
        assert len(overtaken) <= 1, "only a run that had its turn, and whose process is slow, is overtaken"
    assert all(outcome.elapsed < 0.9 for outcome in outcomes)


# --- input ---


async def test_different_inputs_at_the_same_time(runtime: ptc.Runtime) -> None:
    """PTC-129 an image runs with different inputs at the same time."""
    image = await runtime.load("return [await t.f(n), n]", echo(), input_name="n")
    values: list[Any] = [1, "é", None, [1, {"a": 2**60}], {"__proto__": 1}, 0.5, True, "\ud800", [[[]]]]
    outcomes = await asyncio.gather(*(image.run(input=value) for value in values))
    assert [outcome.value for outcome in outcomes] == [[value, value] for value in values]
    outcome = await image.run()
    assert kind(outcome) == "exception", "an input that is not given is undefined, which is no argument"
    await image.unload()


async def test_a_bad_input_is_misuse(runtime: ptc.Runtime) -> None:
    """PTC-129 an input that is not JSON or does not fit is `UsageError` with its path."""
    limits = ptc.Limits(max_message_bytes=10_000)
    image = await runtime.load("return n", input_name="n", limits=limits)
    without = await runtime.load("return typeof n", limits=limits)
    cyclic: list[Any] = []
    cyclic.append(cyclic)
    for value, words in [
        ({"a": [1, {2}]}, r"input\.a\[1\]: set is not JSON"),
        (float("nan"), "input: NaN is not JSON"),
        (cyclic, "cycle"),
        ("x" * 20_000, "10000|10,000"),
    ]:
        with pytest.raises(ptc.UsageError, match=words):
            await image.run(input=value)
        with pytest.raises(ptc.UsageError, match=words):
            image.start(input=value)
    with pytest.raises(ptc.UsageError, match="input"):
        await without.run(input=1)
    assert (await image.run(input="fine")).value == "fine"
    assert (await without.run()).value == "undefined"
    await image.unload()
    await without.unload()


# --- forms ---


@pytest.mark.parametrize(
    ("code", "form"),
    [
        ("return await t.f(1)", "async"),
        ("for await (const x of []) {} return t.f(1)", "async"),
        ("return t.f(1)", "sync"),
        ("(async () => { await 1; })(); return t.f(1)", "sync"),
        ("return 'await ' + t.f(1)", "sync"),
        ("/* await x */ return t.f(1)", "sync"),
        ("return `${'await'}` + t.f(1)", "sync"),
    ],
)
@pytest.mark.needs("sync")
async def test_the_form_comes_from_the_syntax_tree(runtime: ptc.Runtime, code: str, form: str) -> None:
    """PTC-079 `await` inside a nested function, a string or a comment does not make a program async."""
    image = await runtime.load(code, echo())
    assert image.form == form
    assert (await image.run()).ok
    await image.unload()


@pytest.mark.needs("sync")
async def test_sync_calls_wait_and_throw(runtime: ptc.Runtime) -> None:
    """PTC-078 sync form: calls return values in order and throw on failure; nested async functions work too."""

    async def slow(value: Any) -> Any:
        await asyncio.sleep(0.01)
        if value == "bad":
            raise ptc.CallError("no")
        return value

    code = """
    const seen = [t.slow(1), t.slow(2)];
    try { t.slow('bad') } catch (e) { seen.push(e.message) }
    const later = async () => { const a = await t.slow(3); return a + await t.slow(4); };
    return later().then((sum) => [...seen, sum]);
    """
    outcome = await runtime.run(code, {"t": {"slow": slow}})
    assert outcome.value == [1, 2, "no", 7]


@pytest.mark.parametrize("thrown", ["'no '.repeat(300)", "new Error('\u00e9'.repeat(100000))"])
async def test_a_setup_that_fails_at_length_is_misuse(runtime: ptc.Runtime, thrown: str) -> None:
    """PTC-094 a setup that fails is misuse, however much it has to say."""
    with pytest.raises(ptc.UsageError, match=r"^setup: setup failed: ") as caught:
        await runtime.load("return 1", setup=f"throw {thrown}")
    assert 500 < len(str(caught.value)) < 5000


@pytest.mark.needs("fork")
async def test_setup_runs_once_and_on_start_every_time(runtime: ptc.Runtime) -> None:
    """PTC-094 `setup` runs once per image, `onStart` once per run before the body, extra parameters arrive."""
    setup = """
    const made = Math.random();
    let starts = 0;
    host.onStart((input) => { starts += 1; return {got: input, starts}; });
    return {made, twice: (v) => host.namespaces.t.f(v) * 2};
    """
    image = await runtime.load("return [made, twice(4), n]", echo(), setup=setup, input_name="n")
    first, second = (await image.run(input=1)).value, (await image.run(input=2)).value
    assert first[0] == second[0]
    assert first[1:] == [8, {"got": 1, "starts": 1}]
    assert second[1:] == [8, {"got": 2, "starts": 1}]
    await image.unload()
