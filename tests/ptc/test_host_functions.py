"""Host functions: where they are called, how they fail, how many of them at once, and what nobody waits for."""

import asyncio
import contextvars
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import ptc
from tests.ptc.programs import Tables, echo, for_ever, kind

pytestmark = pytest.mark.asyncio(loop_scope="session")


# --- host functions ---


async def test_async_functions_overlap(runtime: ptc.Runtime) -> None:
    """PTC-077 PTC-120 ten calls under `Promise.all` are all unfinished at the host together."""
    all_there = asyncio.Barrier(10)

    async def meet(number: Any) -> Any:
        await all_there.wait()
        return number * 2

    code = "return await Promise.all(Array.from({length: 10}, (_, i) => t.meet(i)))"
    outcome = await runtime.run(code, {"t": {"meet": meet}}, timeout=5)
    assert outcome.value == [number * 2 for number in range(10)]


async def test_where_functions_are_called(engine: str) -> None:
    """PTC-120 sync functions run on the loop, `blocking` ones in a thread; all of them, and observers, in the context
    of the caller, whoever's run the process was made for."""
    caller: contextvars.ContextVar[str] = contextvars.ContextVar("caller", default="nobody")
    loop = asyncio.get_running_loop()
    seen: list[tuple[str, bool, str]] = []

    def note(where: Any) -> Any:
        try:
            on_loop = asyncio.get_running_loop() is loop
        except RuntimeError:
            on_loop = False
        seen.append((where, on_loop, caller.get()))
        caller.set("changed")
        return where

    async def note_later(where: Any) -> Any:
        await asyncio.sleep(0)
        return note(where)

    table: Tables = {"t": {"sync": note, "later": note_later, "thread": ptc.blocking(note)}}
    async with ptc.Runtime(engine=engine) as runtime:
        image = await runtime.load(
            "console.log(1); return [await t.sync('a'), await t.later('b'), await t.thread('c')]", table
        )
        for name in ("first", "second", "third"):
            caller.set(name)
            outcome = await image.run(on_log=lambda _entry: note("log"))
            assert outcome.value == ["a", "b", "c"]
            assert seen == [("log", True, name), ("a", True, name), ("b", True, name), ("c", False, name)]
            assert caller.get() == name
            seen.clear()


async def test_blocking_functions_hold_up_nobody(runtime: ptc.Runtime) -> None:
    """PTC-120 blocking functions overlap, and the loop goes on."""
    both = threading.Barrier(3)

    def meet(value: Any) -> Any:
        both.wait(5)
        return value

    code = "return await Promise.all([t.meet(1), t.meet(2), t.later(3)])"
    later = asyncio.Event()

    async def release(value: Any) -> Any:
        await asyncio.to_thread(both.wait, 5)
        later.set()
        return value

    table: Tables = {"t": {"meet": ptc.blocking(meet), "later": release}}
    outcome = await runtime.run(code, table, timeout=8)
    assert outcome.value == [1, 2, 3]


async def test_a_blocking_function_may_raise_anything(runtime: ptc.Runtime) -> None:
    """PTC-120 PTC-121 an exhausted iterator in a thread fails its call like any other exception."""
    empty: list[int] = []
    outcome = await runtime.run(
        "try { await t.next(1) } catch (e) { return 'failed' }",
        {"t": {"next": ptc.blocking(lambda _argument: next(iter(empty)))}},
        timeout=3,
    )
    assert outcome.value == "failed"


async def test_a_host_function_may_start_another_run(runtime: ptc.Runtime) -> None:
    """PTC-120 a host function may start another run, of its own image too."""

    async def again(depth: Any) -> Any:
        if depth == 0:
            return 0
        inner = await image.run(input=depth - 1)
        return inner.value + 1

    image = await runtime.load("return await t.again(n)", {"t": {"again": again}}, input_name="n")
    assert (await image.run(input=5)).value == 5
    await image.unload()


class Secret(Exception):
    """Its name must not be seen."""


async def test_an_exception_crosses_as_its_text_only(runtime: ptc.Runtime) -> None:
    """PTC-121 a host exception crosses as its text only; class, path, traceback and cause never."""

    def fail(_argument: Any) -> None:
        try:
            open("/no/such/file")  # noqa: SIM115, PTH123
        except OSError as cause:
            raise Secret("it did not work") from cause

    code = """
    try { await t.fail(1) } catch (e) {
      const all = [e.message, String(e), e.stack, JSON.stringify(Object.getOwnPropertyDescriptors(e)), e.cause, e.name];
      return all.join(' | ');
    }
    """
    text = (await runtime.run(code, {"t": {"fail": fail}})).value
    assert "it did not work" in text
    for secret in ("Secret", "Traceback", ".py", "no/such/file", "site-packages", "ptc/"):
        assert secret not in text


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("plain"), "plain"),
        (ptc.CallError("verbatim: é 𝒳 \0 \u2028"), "verbatim: é 𝒳 \0 \u2028"),
        (ptc.CallError("\ud800"), "\ud800"),
        (ValueError(), "the host function failed"),
        (ptc.CallError(), "the host function failed"),
        (StopIteration(), "the host function failed"),
        (asyncio.CancelledError(), "the host function was cancelled"),
        (ValueError("a", "b"), "('a', 'b')"),
    ],
)
@pytest.mark.parametrize("how", ["sync", "async"])
async def test_the_text_of_a_failed_call(runtime: ptc.Runtime, error: BaseException, text: str, how: str) -> None:
    """PTC-121 PTC-122 the text is that of the exception; an empty one becomes a fixed text."""

    def fail(_argument: Any) -> None:
        raise error

    async def fail_later(_argument: Any) -> None:
        await asyncio.sleep(0)
        raise error

    if how == "async" and isinstance(error, StopIteration):
        pytest.skip("Python itself forbids it")
    function = fail if how == "sync" else fail_later
    outcome = await runtime.run("try { await t.fail(1) } catch (e) { return e.message }", {"t": {"fail": function}})
    assert outcome.value == text


async def test_errors_may_be_described(engine: str) -> None:
    """PTC-121 `describe_error` decides on the text, except of a `CallError`; if it fails, the text is a fixed one."""

    def describe(error: BaseException) -> str:
        if "break" in str(error):
            raise RuntimeError("broken")
        return f"<{type(error).__name__}>"

    def fail(what: Any) -> None:
        raise (ptc.CallError if what == "call" else KeyError)(what)

    async with ptc.Runtime(engine=engine, describe_error=describe) as runtime:
        code = "return await Promise.all(['x', 'break', 'call'].map((w) => t.fail(w).catch((e) => e.message)))"
        outcome = await runtime.run(code, {"t": {"fail": fail}})
    assert outcome.value == ["<KeyError>", "the host function failed", "call"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
async def test_what_ends_python_kills_the_run_and_propagates(runtime: ptc.Runtime, error: type[BaseException]) -> None:
    """PTC-122 `KeyboardInterrupt` and `SystemExit` from a host function kill the run and propagate."""
    events: list[ptc.Event] = []

    def fail(_argument: Any) -> None:
        raise error

    image = await runtime.load("try { await t.fail(1) } catch { } for (;;) await t.fail(2);", {"t": {"fail": fail}})
    with pytest.raises(error):
        await image.run(on_event=events.append)
    assert isinstance(events[-1], ptc.RunEnded)
    assert kind(events[-1].outcome) == "abort"
    assert sum(isinstance(event, ptc.CallStarted) for event in events) == 1
    await image.unload()


async def test_an_awaitable_of_any_kind_is_awaited(runtime: ptc.Runtime) -> None:
    """PTC-120 a function may give a future, a task or any other awaitable."""
    loop = asyncio.get_running_loop()

    class Later:
        def __await__(self) -> Any:
            yield from asyncio.sleep(0).__await__()
            return "awaitable"

    def future(_argument: Any) -> asyncio.Future[str]:
        made: asyncio.Future[str] = loop.create_future()
        loop.call_later(0.01, made.set_result, "future")
        return made

    def task(_argument: Any) -> asyncio.Task[str]:
        return loop.create_task(asyncio.sleep(0.01, "task"))

    table: Tables = {"t": {"future": future, "task": task, "other": lambda _argument: Later()}}
    outcome = await runtime.run("return [await t.future(1), await t.task(1), await t.other(1)]", table)
    assert outcome.value == ["future", "task", "awaitable"]


# --- calls in numbers ---


async def test_four_hundred_calls_at_once(runtime: ptc.Runtime) -> None:
    """PTC-084 400 calls at once all succeed with never more than 128 unfinished at the host, numbered in call order."""
    going = 0
    most = 0
    full = asyncio.Event()
    order: list[Any] = []

    async def f(number: Any) -> Any:
        nonlocal going, most
        going += 1
        most = max(most, going)
        order.append(number)
        if going == 128:
            full.set()
        await full.wait()
        await asyncio.sleep(0.001 * (number % 7))
        going -= 1
        return number

    ids: list[tuple[int, str, str]] = []

    def watch(event: ptc.Event) -> None:
        if isinstance(event, ptc.CallStarted):
            ids.append((event.id, event.global_name, event.name))

    image = await runtime.load(
        "return Promise.all(Array.from({length: 400}, (_, i) => t.f(i)))", {"t": {"f": f}}, form="async"
    )
    outcome = await image.run(on_event=watch)
    assert outcome.value == list(range(400))
    assert most == 128
    assert order == list(range(400))
    assert ids == [(number, "t", "f") for number in range(1, 401)]
    await image.unload()


async def test_a_thousand_calls_in_sequence(runtime: ptc.Runtime) -> None:
    """PTC-085 1,000 sequential awaits with discarded values finish; rejecting after a lost race is no failure."""
    outcome = await runtime.run("for (let i = 0; i < 1000; i++) await t.f(i); return 'done'", echo())
    assert outcome.value == "done"
    assert outcome.calls == 1000

    async def fail(_argument: Any) -> None:
        await asyncio.sleep(0.02)
        raise ptc.CallError("late")

    code = "return await Promise.race([t.fail(1), t.f('first')])"
    outcome = await runtime.run(code, {"t": {"fail": fail, "f": lambda value: value}})
    assert outcome.value == "first", outcome.failure


async def test_large_calls_wait_in_turn(runtime: ptc.Runtime) -> None:
    """PTC-087 calls whose frames exceed the byte sum wait in turn; a single frame above the cap fails alone."""
    held = 0
    most = 0

    async def f(text: Any) -> Any:
        nonlocal held, most
        held += len(text)
        most = max(most, held)
        await asyncio.sleep(0.002)
        held -= len(text)
        return len(text)

    code = """
    const sizes = [30000, 60000, 70000, 10, 95000, 50000, 50000, 1];
    const calls = sizes.map((n) => t.f('x'.repeat(n)));
    let big;
    try { await t.f('x'.repeat(100001)) } catch (e) { big = e.message }
    return [await Promise.all(calls), big];
    """
    outcome = await runtime.run(code, {"t": {"f": f}}, limits=ptc.Limits(max_message_bytes=100_000))
    assert outcome.failure is None, outcome.failure
    sizes, message = outcome.value
    assert sizes == [30000, 60000, 70000, 10, 95000, 50000, 50000, 1]
    assert "100000" in message
    assert most <= 100_000
    assert outcome.calls == 8


async def test_ten_thousand_functions(runtime: ptc.Runtime) -> None:
    """PTC-086 a namespace of 10,000 functions works."""

    def adder(number: int) -> Callable[[Any], Any]:
        return lambda value: value + number

    table: Tables = {"t": {f"f{number}": adder(number) for number in range(10_000)}}
    outcome = await runtime.run("return [Object.keys(t).length, await t.f0(1), await t.f9999(1)]", table)
    assert outcome.value == [10_000, 1, 10_000]


# --- what nobody waits for ---


async def test_a_call_nobody_awaits_is_finished(runtime: ptc.Runtime) -> None:
    """PTC-088 a call nobody awaits is finished before the run ends and the log line of its `.then` is kept."""

    async def slow(value: Any) -> Any:
        await asyncio.sleep(0.05)
        return value

    code = "t.slow(1).then((v) => { console.log('then', v); t.slow(2).then(() => console.log('again')); }); return 7"
    outcome = await runtime.run(code, {"t": {"slow": slow}}, form="async")
    assert outcome.value == 7
    assert [entry.text for entry in outcome.logs] == ["then 1", "again"]
    assert outcome.calls == 2
    assert outcome.unfinished == ()
    outcome = await runtime.run("t.f(1); return 7", {"t": {"f": for_ever}}, form="async", timeout=0.1)
    assert kind(outcome) == "timeout"


async def test_a_failure_nobody_looks_at(runtime: ptc.Runtime) -> None:
    """PTC-089 a call that fails with nobody looking is `exception`; one handled before the run drains is not."""

    def fail(_argument: Any) -> None:
        raise ptc.CallError("nobody looks")

    async def slow(value: Any) -> Any:
        await asyncio.sleep(0.03)
        return value

    table: Tables = {"t": {"fail": fail, "slow": slow}}
    outcome = await runtime.run("\nt.fail(1);\nreturn 7", table, form="async")
    assert kind(outcome) == "exception"
    assert outcome.failure is not None
    assert "nobody looks" in outcome.failure.message
    assert outcome.failure.position is not None
    assert outcome.failure.position.line == 2
    outcome = await runtime.run("const p = t.fail(1); await t.slow(1); try { await p } catch { return 'seen' }", table)
    assert outcome.value == "seen"


async def test_a_body_that_can_never_settle_is_stuck(runtime: ptc.Runtime) -> None:
    """PTC-091 a body that can never settle is `stuck` within 1 s; not while a call is open."""
    for code in ("await new Promise(() => 0)", "return new Promise(() => 0)", "await { then() {} }"):
        began = time.monotonic()
        outcome = await runtime.run(code)
        assert kind(outcome) == "stuck"
        assert time.monotonic() - began < 1

    async def slow(value: Any) -> Any:
        await asyncio.sleep(0.2)
        return value

    code = "let done; const p = new Promise((r) => { done = r; }); t.slow(5).then(done); return await p"
    assert (await runtime.run(code, {"t": {"slow": slow}})).value == 5
