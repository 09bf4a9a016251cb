"""A caller that gives up: at any moment, and nothing is left behind."""

import asyncio
import threading
import time
from typing import Any

import pytest

import ptc
from tests.ptc.processes import images_of, needs_proc, runs_of, until
from tests.ptc.programs import Slow, echo, kind

pytestmark = pytest.mark.asyncio(loop_scope="session")


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
    slow = Slow(stubborn=30.0)
    image = await runtime.load("t.f(1); throw new Error('x')", {"t": {"f": slow.f}}, form="async")
    for stop in ("timeout", "cancel"):
        slow.entered.clear()
        began = time.monotonic()
        caller = asyncio.create_task(
            image.run(timeout=0.3 if stop == "timeout" else 5, limits=ptc.Limits(cancel_grace=0.2))
        )
        await slow.entered.wait()
        if stop == "cancel":
            caller.cancel()
            with pytest.raises(asyncio.CancelledError):
                await caller
        else:
            assert kind(await caller) == "timeout"
        assert 0.19 < time.monotonic() - began < 3
    assert slow.ended == []
    await image.unload()


async def test_cancelling_during_the_grace(runtime: ptc.Runtime) -> None:
    """PTC-123 a caller cancelled while functions wind up still waits for them, however often it is cancelled."""
    slow = Slow(stubborn=1.0)
    events: list[ptc.Event] = []
    image = await runtime.load("return t.f(1)", {"t": {"f": slow.f}}, form="async")
    caller = asyncio.create_task(image.run(timeout=0.3, on_event=events.append))
    await slow.entered.wait()
    await asyncio.sleep(0.5)
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
