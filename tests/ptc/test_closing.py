"""Closing a runtime, and using it where it does not belong."""

import asyncio
import multiprocessing
import os
import time
from typing import Any

import pytest

import ptc
from tests.ptc.processes import needs_proc, tree_of, until
from tests.ptc.programs import Slow, kind

pytestmark = pytest.mark.asyncio(loop_scope="session")


@needs_proc
async def test_closing_aborts_and_waits(engine: str) -> None:
    """PTC-127 `aclose` aborts, waits, is idempotent; later use raises `ClosedError`."""
    runtime = ptc.Runtime(engine=engine, max_runs=2)
    slow = Slow(stubborn=0.1)
    image = await runtime.load("return t.f(1)", {"t": {"f": slow.f}})
    runs = [image.start() for _ in range(4)]
    await until(lambda: slow.started == 2, "two run, two wait")
    processes = tree_of(runtime)
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
