"""The Python API with real programs: host functions, events, concurrency, misuse."""

import asyncio
import contextvars
import multiprocessing
import os
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio

import ptc
from ptc._run import Run
from tests.ptc.processes import images_of, needs_proc, root_of, runs_of, until

pytestmark = pytest.mark.asyncio(loop_scope="session")

KIB, MIB = 1024, 1024 * 1024

Tables = dict[str, dict[str, Callable[[Any], Any]]]


def kind(outcome: ptc.Outcome) -> str:
    """The kind of a failed outcome."""
    assert outcome.failure is not None, outcome
    return outcome.failure.kind


def echo() -> Tables:
    return {"t": {"f": lambda value: value}}


async def for_ever(_argument: Any) -> None:
    await asyncio.sleep(3600)


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
    try { t.fail(1) } catch (e) {
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
        code = "return ['x', 'break', 'call'].map((w) => { try { t.fail(w) } catch (e) { return e.message } })"
        outcome = await runtime.run(code, {"t": {"fail": fail}})
    assert outcome.value == ["<KeyError>", "the host function failed", "call"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
async def test_what_ends_python_kills_the_run_and_propagates(runtime: ptc.Runtime, error: type[BaseException]) -> None:
    """PTC-122 `KeyboardInterrupt` and `SystemExit` from a host function kill the run and propagate."""
    events: list[ptc.Event] = []

    def fail(_argument: Any) -> None:
        raise error

    image = await runtime.load("try { t.fail(1) } catch { } for (;;) t.fail(2);", {"t": {"fail": fail}})
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
    outcome = await runtime.run("return [Object.keys(t).length, t.f0(1), t.f9999(1)]", table)
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


# --- events ---


async def test_events_come_in_order(runtime: ptc.Runtime) -> None:
    """PTC-124 events come in the stated order, `CallStarted` before the function."""
    happened: list[Any] = []

    def f(value: Any) -> Any:
        happened.append("function")
        if value == "bad":
            raise ptc.CallError("no")
        return value

    code = "console.log('a'); t.f(1); console.warn('b'); try { t.f('bad') } catch {} return 1"
    image = await runtime.load(code, {"t": {"f": f}})
    outcome = await image.run(on_event=happened.append, on_log=lambda entry: happened.append(entry.text))
    elapsed = [event.elapsed for event in happened if isinstance(event, ptc.CallFinished)]
    assert all(0 <= seconds < 5 for seconds in elapsed)
    assert happened == [
        ptc.RunStarted(),
        ptc.Logged(ptc.LogEntry("a")),
        "a",
        ptc.CallStarted(1, "t", "f"),
        "function",
        ptc.CallFinished(1, True, elapsed[0]),
        ptc.Logged(ptc.LogEntry("b", "warn")),
        "b",
        ptc.CallStarted(2, "t", "f"),
        "function",
        ptc.CallFinished(2, False, elapsed[1], "no"),
        ptc.RunEnded(outcome),
    ]
    await image.unload()


async def test_a_callback_that_raises_changes_nothing(runtime: ptc.Runtime, caplog: pytest.LogCaptureFixture) -> None:
    """PTC-124 a raising callback is logged and changes nothing."""

    def fail(_what: object) -> None:
        raise ValueError("observer")

    outcome = await runtime.run("console.log('a'); return t.f(1)", echo(), on_event=fail, on_log=fail)
    assert outcome.value == 1
    assert len(outcome.logs) == 1
    assert "observer" in caplog.text


async def test_entries_are_seen_while_the_program_runs(runtime: ptc.Runtime) -> None:
    """PTC-101 entries keep their order, reach `on_log` while the program runs, and survive the kill."""
    seen: list[str] = []
    image = await runtime.load("for (let i = 0; i < 500; i++) console.log('n', i); console.error('last'); for (;;);")
    run = image.start(on_log=lambda entry: seen.append(entry.text))
    await until(lambda: len(seen) == 501, "all entries are here")
    run.abort()
    outcome = await run.outcome()
    assert kind(outcome) == "abort"
    assert [entry.text for entry in outcome.logs] == seen == [*(f"n {i}" for i in range(500)), "last"]
    assert outcome.logs[-1].level == "error"
    await image.unload()


async def test_an_entry_right_before_a_loop_survives(runtime: ptc.Runtime) -> None:
    """PTC-101 an entry written just before a busy loop survives the kill."""
    outcome = await runtime.run("console.log('here'); for (;;);", limits=ptc.Limits(cpu=0.05))
    assert kind(outcome) == "compute-limit"
    assert outcome.logs == (ptc.LogEntry("here"),)


@pytest.mark.parametrize(
    ("code", "how"),
    [
        ("console.log('a'); await Promise.all([t.f(1), t.f(2), t.bad(3).catch(() => 0)]); return 1", None),
        ("t.f(1); console.log('x'); throw new Error('no')", "exception"),
        ("for (let i = 0; ; i++) { await t.f(i); console.log(i); }", "call-limit"),
        ("for (let i = 0; ; i++) { console.log('x'.repeat(500)); await t.f(i); }", "output-limit"),
        ("t.slow(1); t.f(1); console.log('x'); await t.slow(2)", "timeout"),
        ("t.f(1); await t.f(2); return -0", "invalid-output"),
    ],
)
async def test_events_and_outcome_agree(runtime: ptc.Runtime, code: str, how: str | None) -> None:
    """PTC-130 calls, log entries and kind counted from events equal those in the outcome."""

    def bad(_argument: Any) -> None:
        raise ValueError("bad")

    table: Tables = {"t": {"f": lambda value: value, "bad": bad, "slow": for_ever}}
    limits = ptc.Limits(max_calls=10, max_output_bytes=3000)
    image = await runtime.load(code, table, limits=limits, form="async")
    run = image.start(timeout=0.3)
    events = [event async for event in run]
    outcome = await run.outcome()
    assert (outcome.failure.kind if outcome.failure else None) == how
    assert events[0] == ptc.RunStarted()
    assert events[-1] == ptc.RunEnded(outcome)
    assert sum(isinstance(event, ptc.RunEnded) for event in events) == 1
    started = {event.id for event in events if isinstance(event, ptc.CallStarted)}
    finished = {event.id for event in events if isinstance(event, ptc.CallFinished)}
    assert len(started) == outcome.calls
    assert started - finished == {number for number, _, _ in outcome.unfinished}
    logged = [event.entry for event in events if isinstance(event, ptc.Logged)]
    assert [entry.text for entry in logged][: len(outcome.logs)] == [entry.text for entry in outcome.logs]
    assert len(logged) == len(outcome.logs)
    assert [event async for event in run] == []
    await image.unload()


async def test_several_may_watch_a_run(runtime: ptc.Runtime) -> None:
    """PTC-124 several may iterate over the events; who stops early disturbs nobody."""

    async def all_of(run: Run) -> list[ptc.Event]:
        return [event async for event in run]

    async def first_of(run: Run) -> ptc.Event | None:
        async for event in run:
            return event
        return None

    image = await runtime.load("console.log(1); return t.f(1)", echo())
    run = image.start()
    first, second, third = await asyncio.gather(all_of(run), first_of(run), all_of(run))
    assert first == third
    assert second == ptc.RunStarted()
    assert isinstance(first[-1], ptc.RunEnded)
    await image.unload()


# --- cancelling ---


class Slow:
    """An async host function that notes how it ended, and may take its time to."""

    def __init__(self, stubborn: float = 0.0) -> None:
        self.entered = asyncio.Event()
        self.ended: list[str] = []
        self.started = 0
        self._stubborn = stubborn

    async def f(self, argument: Any) -> Any:
        self.started += 1
        self.entered.set()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            if self._stubborn:
                await asyncio.sleep(self._stubborn)
            self.ended.append("cancelled")
            raise
        return argument


@needs_proc
@pytest.mark.parametrize("code", ["return t.f(1)", "t.f(1); return 1", "t.f(1); for (;;) await 1"])
async def test_cancelling_the_caller(engine: str, code: str) -> None:
    """PTC-123 cancelling the caller kills the run, cancels and awaits pending functions, then raises."""
    async with ptc.Runtime(engine=engine, spares=0) as runtime:
        slow = Slow(stubborn=0.1)
        events: list[ptc.Event] = []
        image = await runtime.load(code, {"t": {"f": slow.f}}, form="async")
        caller = asyncio.create_task(image.run(on_event=events.append))
        await slow.entered.wait()
        await asyncio.sleep(0.01)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        assert slow.ended == ["cancelled"], "the function had ended before the caller went on"
        assert runs_of(runtime) == []
        assert isinstance(events[-1], ptc.RunEnded)
        assert events[-1].outcome.failure == ptc.Failure("abort", "cancelled")


async def test_functions_get_a_grace(runtime: ptc.Runtime) -> None:
    """PTC-123 pending functions are waited for within `cancel_grace`, and no longer."""
    slow = Slow(stubborn=2.0)
    image = await runtime.load("t.f(1); throw new Error('x')", {"t": {"f": slow.f}}, form="async")
    for stop in ("timeout", "cancel"):
        slow.entered.clear()
        began = time.monotonic()
        caller = asyncio.create_task(
            image.run(timeout=0.1 if stop == "timeout" else 5, limits=ptc.Limits(cancel_grace=0.2))
        )
        await slow.entered.wait()
        if stop == "cancel":
            caller.cancel()
            with pytest.raises(asyncio.CancelledError):
                await caller
        else:
            assert kind(await caller) == "timeout"
        assert 0.19 < time.monotonic() - began < 1.5
    assert slow.ended == []
    await image.unload()


async def test_cancelling_during_the_grace(runtime: ptc.Runtime) -> None:
    """PTC-123 a caller cancelled while functions wind up still waits for them, however often it is cancelled."""
    slow = Slow(stubborn=0.3)
    events: list[ptc.Event] = []
    image = await runtime.load("return t.f(1)", {"t": {"f": slow.f}}, form="async")
    caller = asyncio.create_task(image.run(timeout=0.05, on_event=events.append))
    await slow.entered.wait()
    await asyncio.sleep(0.15)
    for _ in range(3):
        caller.cancel()
        await asyncio.sleep(0.01)
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert slow.ended == ["cancelled"]
    assert isinstance(events[-1], ptc.RunEnded)
    assert kind(events[-1].outcome) == "timeout", "the run was over before"
    await image.unload()


async def test_waiting_calls_never_start(runtime: ptc.Runtime) -> None:
    """PTC-123 calls that wait inside the run are never started once it is stopped."""
    slow = Slow()
    code = "return Promise.all(Array.from({length: 10}, () => t.f(1)))"
    image = await runtime.load(code, {"t": {"f": slow.f}}, form="async", limits=ptc.Limits(max_pending_calls=3))
    caller = asyncio.create_task(image.run())
    await until(lambda: slow.started == 3, "as many as may have started")
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    await asyncio.sleep(0.05)
    assert slow.started == 3
    assert len(slow.ended) == 3
    await image.unload()


async def test_cancelling_while_waiting_its_turn(engine: str) -> None:
    """PTC-123 a caller cancelled while it waits its turn takes no turn from the others."""
    async with ptc.Runtime(engine=engine, max_runs=1) as runtime:
        slow = Slow()
        image = await runtime.load("return t.f(1)", {"t": {"f": slow.f}})
        first = asyncio.create_task(image.run())
        await slow.entered.wait()
        events: list[ptc.Event] = []
        others = [asyncio.create_task(image.run(on_event=events.append)) for _ in range(3)]
        await asyncio.sleep(0.01)
        for other in others:
            other.cancel()
        for other in others:
            with pytest.raises(asyncio.CancelledError):
                await other
        assert [type(event) for event in events] == [ptc.RunEnded] * 3
        assert slow.started == 1
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert (await image.run(functions=echo())).value == 1


@needs_proc
async def test_cancelling_at_any_moment_leaves_nothing(engine: str) -> None:
    """PTC-123 PTC-070 wherever the cancellation falls, no process, turn or function is lost."""
    async with ptc.Runtime(engine=engine, spares=1, max_runs=2) as runtime:
        going = 0

        async def f(value: Any) -> Any:
            nonlocal going
            going += 1
            try:
                await asyncio.sleep(0.002)
            finally:
                going -= 1
            return value

        image = await runtime.load("await t.f(1); return await t.f(2)", {"t": {"f": f}})
        for step in range(60):
            callers = [asyncio.create_task(image.run()) for _ in range(3)]
            for _ in range(step % 20):
                await asyncio.sleep(0)
            await asyncio.sleep(0.0002 * step)
            for caller in callers:
                caller.cancel()
            for result in await asyncio.gather(*callers, return_exceptions=True):
                assert isinstance(result, asyncio.CancelledError) or (isinstance(result, ptc.Outcome) and result.ok)
            assert going == 0
        outcomes = await asyncio.wait_for(asyncio.gather(*(image.run() for _ in range(4))), 5)
        assert all(outcome.ok for outcome in outcomes)
        await until(lambda: len(runs_of(runtime)) == 1, "one spare is left")


@needs_proc
async def test_cancelling_a_load_leaves_nothing(engine: str) -> None:
    """PTC-123 PTC-070 a cancelled `load` or `run`, cold or warm, leaves no image, and the runtime works."""
    async with ptc.Runtime(engine=engine, spares=1) as runtime:
        for step in range(30):
            if step % 2:
                caller: asyncio.Task[Any] = asyncio.create_task(runtime.load("return 1"))
            else:
                caller = asyncio.create_task(runtime.run("return 1"))
            await asyncio.sleep(0.004 * step % 0.05)
            caller.cancel()
            result = (await asyncio.gather(caller, return_exceptions=True))[0]
            if isinstance(result, ptc.Image):
                await result.unload()
        assert (await runtime.run("return 1")).value == 1
        await until(lambda: images_of(runtime) == [], "no image is left")


async def test_cancelling_who_waits_for_a_started_run(runtime: ptc.Runtime) -> None:
    """PTC-123 cancelling the wait for a started run aborts it."""
    slow = Slow()
    image = await runtime.load("return t.f(1)", {"t": {"f": slow.f}})
    run = image.start()
    waiter = asyncio.create_task(run.outcome())
    await slow.entered.wait()
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    assert slow.ended == ["cancelled"]
    await image.unload()


async def test_late_results_are_dropped(runtime: ptc.Runtime) -> None:
    """PTC-123 a result that comes after the run is over is dropped."""
    entered = threading.Event()
    release = threading.Event()

    def wait(value: Any) -> Any:
        entered.set()
        release.wait(5)
        return value

    outcome = await runtime.run("return t.wait(1)", {"t": {"wait": ptc.blocking(wait)}}, timeout=0.1)
    assert kind(outcome) == "timeout"
    release.set()
    assert (await runtime.run("return 1")).value == 1


# --- functions of one run ---


async def test_functions_of_one_run(runtime: ptc.Runtime) -> None:
    """PTC-125 `functions` replaces declared functions for one run; an undeclared or missing one is `UsageError`."""
    image = await runtime.load("return [t.f(1), t.g(1), u.f(1)]", {
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


# --- closing ---


@needs_proc
async def test_closing_aborts_and_waits(engine: str) -> None:
    """PTC-127 `aclose` aborts, waits, is idempotent; later use raises `ClosedError`."""
    runtime = ptc.Runtime(engine=engine, max_runs=2)
    slow = Slow(stubborn=0.1)
    image = await runtime.load("return t.f(1)", {"t": {"f": slow.f}})
    runs = [image.start() for _ in range(4)]
    await until(lambda: slow.started == 2, "two run, two wait")
    root = root_of(runtime)
    processes = [root, *images_of(runtime), *runs_of(runtime)]
    await asyncio.gather(runtime.aclose(), runtime.aclose())
    assert not [pid for pid in processes if os.path.exists(f"/proc/{pid}")]  # noqa: ASYNC240, PTH110
    assert slow.ended == ["cancelled", "cancelled"]
    for run in runs:
        assert (await run.outcome()).failure == ptc.Failure("abort", "runtime closed")
    await runtime.aclose()
    with pytest.raises(ptc.ClosedError):
        await runtime.load("return 1")
    with pytest.raises(ptc.ClosedError):
        await runtime.run("return 1")
    with pytest.raises(ptc.ClosedError):
        await image.run()
    with pytest.raises(ptc.ClosedError):
        async with runtime:
            pass
    await image.unload()


async def test_closing_at_once_after_a_start(engine: str) -> None:
    """PTC-127 a run that was only just started is aborted too, and nothing is started for it."""
    runtime = ptc.Runtime(engine=engine)
    image = await runtime.load("return 1")
    run = image.start()
    await runtime.aclose()
    assert (await run.outcome()).failure == ptc.Failure("abort", "runtime closed")
    assert runtime._root is None


@pytest.mark.parametrize("wait", [0.0, 0.02, 0.2])
async def test_closing_during_a_load(engine: str, wait: float) -> None:
    """PTC-127 a load that is going on when the runtime closes ends as `ClosedError`, and no process is left."""
    runtime = ptc.Runtime(engine=engine)
    loading = asyncio.create_task(runtime.load("return 1", setup="for (;;);"))
    running = asyncio.create_task(runtime.run("for (;;);"))
    await asyncio.sleep(wait)
    began = time.monotonic()
    await runtime.aclose()
    assert time.monotonic() - began < 2
    with pytest.raises(ptc.ClosedError):
        await loading
    try:
        outcome = await running
    except ptc.ClosedError:
        pass
    else:
        assert outcome.failure == ptc.Failure("abort", "runtime closed")
    assert runtime._root is None


async def test_a_closing_that_is_cancelled_goes_on(engine: str) -> None:
    """PTC-127 a cancelled `aclose` goes on behind, and a second one waits for it."""
    runtime = ptc.Runtime(engine=engine)
    image = await runtime.load("for (;;);")
    run = image.start()
    await asyncio.sleep(0.01)
    closing = asyncio.create_task(runtime.aclose())
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    await runtime.aclose()
    assert runtime._root is None
    assert kind(await run.outcome()) == "abort"


async def test_a_host_function_may_close_the_runtime(engine: str) -> None:
    """PTC-127 a host function that closes its own runtime, or unloads its image, does not hang."""
    runtime = ptc.Runtime(engine=engine)

    async def unload(_argument: Any) -> None:
        await image.unload()

    async def close(_argument: Any) -> None:
        await runtime.aclose()

    image = await runtime.load("await t.unload(1)", {"t": {"unload": unload}})
    outcome = await asyncio.wait_for(image.run(), 5)
    assert outcome.failure == ptc.Failure("abort", "image unloaded")
    outcome = await asyncio.wait_for(runtime.run("await t.close(1)", {"t": {"close": close}}), 5)
    assert outcome.failure == ptc.Failure("abort", "runtime closed")
    await asyncio.wait_for(runtime.aclose(), 5)
    assert runtime._root is None


async def test_a_runtime_that_was_never_used_is_closed(engine: str) -> None:
    """PTC-127 closing a runtime that started nothing is fine."""
    runtime = ptc.Runtime(engine=engine)
    await runtime.aclose()
    with pytest.raises(ptc.ClosedError):
        await runtime.load("return 1")


async def test_another_loop_is_refused(runtime: ptc.Runtime) -> None:
    """PTC-127 another loop raises `UsageError`, and harms nothing."""
    image = await runtime.load("return 1")

    def elsewhere() -> list[str]:
        async def attempt() -> list[str]:
            refused = []
            for action in (
                lambda: runtime.load("return 1"),
                lambda: runtime.run("return 1"),
                lambda: image.run(),
                lambda: image.unload(),
                lambda: runtime.aclose(),
            ):
                try:
                    await action()
                except ptc.UsageError as error:
                    refused.append(str(error))
            return refused

        return asyncio.run(attempt())

    refused = await asyncio.to_thread(elsewhere)
    assert len(refused) == 5
    assert (await image.run()).value == 1
    await image.unload()


def _in_a_copy(runtime: ptc.Runtime, image: ptc.Image, found: Any) -> None:
    async def attempt() -> None:
        for action in (lambda: runtime.load("return 1"), lambda: image.run(), lambda: runtime.aclose()):
            try:
                await action()
            except (ptc.ClosedError, ptc.UsageError) as error:
                found.put(type(error).__name__)
            else:
                found.put("worked")

    asyncio.set_event_loop(None)
    asyncio._set_running_loop(None)
    asyncio.run(attempt())


@needs_proc
async def test_a_forked_copy_is_refused(runtime: ptc.Runtime) -> None:
    """PTC-127 a forked copy of the host raises `ClosedError`, and the original goes on."""
    image = await runtime.load("return 1")
    context = multiprocessing.get_context("fork")
    found: Any = context.SimpleQueue()
    copy = context.Process(target=_in_a_copy, args=(runtime, image, found))
    copy.start()
    await asyncio.to_thread(copy.join, 10)
    assert [found.get() for _ in range(3)] == ["ClosedError"] * 3
    assert (await image.run()).value == 1
    await image.unload()


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
        await asyncio.sleep(0.05)
        going -= 1
        return number

    image = await narrow.load("return t.work(n)", {"t": {"work": work}}, input_name="n")
    runs = [image.start(input=number, timeout=0.3) for number in range(20)]
    outcomes = [await run.outcome() for run in runs]
    assert [outcome.value for outcome in outcomes] == list(range(20))
    assert most == 2
    assert all(abs(place - number) <= 1 for place, number in enumerate(order))
    assert all(outcome.elapsed < 0.3 for outcome in outcomes)


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
async def test_the_form_comes_from_the_syntax_tree(runtime: ptc.Runtime, code: str, form: str) -> None:
    """PTC-079 `await` inside a nested function, a string or a comment does not make a program async."""
    image = await runtime.load(code, echo())
    assert image.form == form
    assert (await image.run()).ok
    await image.unload()


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
