"""Stops and ends: a run that is over is gone, and nothing of it is left."""

import asyncio
import gc
import os
import signal
import threading
import time

import pytest

import ptc
from ptc._processes import ImageProcess
from ptc._run import Run
from tests.ptc.processes import (
    children,
    descriptors,
    images_of,
    is_gone,
    needs_proc,
    root_of,
    runs_of,
    spares_ready,
    tree_of,
    until,
)
from tests.ptc.programs import Gate, waiting_program, waiting_run

pytestmark = [pytest.mark.asyncio(loop_scope="session"), needs_proc]

SPIN = "for (;;);"


# --- stops ---


@pytest.mark.parametrize("how", ["abort", "timeout", "compute-limit", "memory-limit", "output-limit", "call-limit"])
async def test_a_stopped_run_is_gone_when_its_outcome_is_there(engine: str, how: str) -> None:
    """PTC-057 when `run` returns after abort, timeout or a limit, the run's process is gone and reaped."""
    programs = {
        "memory-limit": "const all = []; for (;;) all.push('x'.repeat(100000) + all.length);",
        "output-limit": "for (;;) console.log('x'.repeat(10000));",
        "call-limit": "for (;;) await t.seen(null);",
    }
    limits = ptc.Limits(cpu=0.1 if how == "compute-limit" else 10, memory=32 * 1024 * 1024, max_output_bytes=100_000)
    async with ptc.Runtime(engine=engine, spares=0) as runtime:
        pids: list[int] = []
        run: list[Run] = []

        def seen(_argument: object) -> None:
            pids[:] = runs_of(runtime)
            if how == "abort":
                asyncio.get_running_loop().call_later(0.02, run[0].abort)

        image = await runtime.load("t.seen(null); " + programs.get(how, SPIN), {"t": {"seen": seen}}, limits=limits)
        run.append(image.start(timeout=0.1 if how == "timeout" else 10))
        outcome = await run[0].outcome()
        gone = [is_gone(pid) for pid in pids]
        assert outcome.failure is not None
        assert outcome.failure.kind == how
        assert gone == [True]


@pytest.mark.parametrize("how", ["deadline", "abort", "cpu"])
async def test_an_engine_that_does_not_poll_is_stopped(engine: str, how: str, runtime: ptc.Runtime) -> None:
    """PTC-058 a run stuck in `new Array(4294967295).sort()` is stopped by deadline, abort and CPU limit."""
    image = await runtime.load("new Array(4294967295).sort()", limits=ptc.Limits(cpu=0.1 if how == "cpu" else 5))
    began = time.monotonic()
    run = image.start(timeout=0.1 if how == "deadline" else 5)
    if how == "abort":
        asyncio.get_running_loop().call_later(0.1, run.abort, "enough")
    outcome = await run.outcome()
    assert time.monotonic() - began < 1.1
    assert outcome.failure is not None
    assert outcome.failure.kind == {"deadline": "timeout", "abort": "abort", "cpu": "compute-limit"}[how]
    await image.unload()


@pytest.mark.parametrize(
    "body",
    [
        SPIN,
        "new Array(4294967295).sort()",
        "/^(a+)+$/.test('a'.repeat(34) + 'b')",
        "for (;;) { try { t.fail(null); } catch { continue; } finally { continue; } }",
        "for (;;) { try { for (;;); } catch { continue; } finally { continue; } }",
    ],
    ids=["loop", "sort", "regex", "catches and calls", "catches everything"],
)
async def test_nothing_outlives_the_deadline_by_a_second(body: str, runtime: ptc.Runtime) -> None:
    """PTC-058 PTC-109 a run is over within the deadline and a second, whatever its program does."""

    def fail(_argument: object) -> None:
        raise ValueError("no")

    image = await runtime.load(body, {"t": {"fail": fail}}, limits=ptc.Limits(max_calls=10**9))
    began = time.monotonic()
    outcome = await image.run(timeout=0.3)
    assert time.monotonic() - began < 1.3
    assert outcome.failure is not None
    assert outcome.failure.kind == "timeout"
    await image.unload()


async def test_the_runs_own_timer_ends_it_when_the_host_is_held_up(runtime: ptc.Runtime) -> None:
    """PTC-058 a sync host function that blocks holds the host's clock; the timer inside the run still acts."""

    def block_soon(_argument: object) -> None:
        asyncio.get_running_loop().call_later(0.02, time.sleep, 2)

    began = time.monotonic()
    outcome = await runtime.run(
        "t.block_soon(null); for (;;);",
        {"t": {"block_soon": block_soon}},
        timeout=0.2,
    )
    assert time.monotonic() - began < 4
    assert outcome.failure is not None
    assert outcome.failure.kind == "timeout"
    assert outcome.exit == ptc.ExitStatus(signal=signal.SIGALRM)


# --- channels ---


async def test_no_process_holds_the_channel_of_another(engine: str) -> None:
    """PTC-066 every run's channel and pipe are its own: neither its image nor a sibling has them open."""
    async with ptc.Runtime(engine=engine, spares=3) as runtime:
        gate = Gate()
        images = [await runtime.load(*waiting_program()) for _ in range(2)]
        runs = [await waiting_run(image, gate) for image in images for _ in range(3)]
        for image in images:
            await spares_ready(image, runtime.spares)
        seen: dict[str, int] = {}
        for pid in tree_of(runtime):
            for number, target in descriptors(pid).items():
                if number >= 3:
                    assert seen.get(target, pid) == pid, (pid, number, seen[target])
                    seen[target] = pid
        pipes = [descriptors(pid)[1] for pid in runs_of(runtime)]
        assert len(set(pipes)) == len(pipes)
        gate.open.set()
        assert all([(await run.outcome()).ok for run in runs])


async def test_a_death_is_noticed_while_siblings_are_forked(engine: str) -> None:
    """PTC-066 end-of-file on a channel follows its run's death even while siblings are being forked."""
    async with ptc.Runtime(engine=engine, spares=0) as runtime:
        gate = Gate()
        image = await runtime.load(*waiting_program())
        for _ in range(10):
            run = await waiting_run(image, gate)
            await until(lambda: len(runs_of(runtime)) == 1, "the siblings of before are gone")
            (pid,) = runs_of(runtime)
            siblings = [image.start() for _ in range(8)]
            await asyncio.sleep(0)
            os.kill(pid, signal.SIGKILL)
            outcome = await asyncio.wait_for(run.outcome(), 1)
            assert outcome.failure is not None
            assert outcome.failure.kind == "worker-exit"
            assert all([(await sibling.outcome()).ok for sibling in siblings])


@pytest.mark.needs("fork")
async def test_killing_a_reaped_run_signals_nobody(engine: str) -> None:
    """PTC-064 `kill` for a reaped run signals nobody: its siblings, whatever their ids, go on."""
    async with ptc.Runtime(engine=engine, spares=0) as runtime:
        gate = Gate()
        image = await runtime.load(*waiting_program())
        for _ in range(5):
            assert (await image.run()).ok
        run = await waiting_run(image, gate)
        assert isinstance(image._process, ImageProcess)
        for number in range(6):
            image._process.kill_run(number)
        await until(lambda: len(runs_of(runtime)) == 1, "only the waiting run is left")
        gate.open.set()
        assert (await run.outcome()).ok
        assert len(images_of(runtime)) == 1


# --- endings ---


async def test_unload_ends_the_image_and_its_runs(engine: str) -> None:
    """PTC-069 `unload` ends the image and its runs; a second is harmless; running it again raises `ClosedError`."""
    async with ptc.Runtime(engine=engine, spares=2) as runtime:
        gate = Gate()
        image = await runtime.load(*waiting_program())
        other = await runtime.load("return 2")
        run = await waiting_run(image, gate)
        await spares_ready(image, runtime.spares)
        await spares_ready(other, runtime.spares)
        processes = set(images_of(runtime)) | set(runs_of(runtime))
        await asyncio.gather(image.unload(), image.unload())
        left = set(images_of(runtime)) | set(runs_of(runtime))
        has_images = runtime.process == "fork"
        assert len(processes) == 1 + 2 * (has_images + runtime.spares)
        assert len(left) == has_images + runtime.spares
        assert left < processes
        assert all(is_gone(pid) for pid in processes - left)
        assert (await run.outcome()).failure == ptc.Failure("abort", "image unloaded")
        await image.unload()
        with pytest.raises(ptc.ClosedError):
            await image.run()
        with pytest.raises(ptc.ClosedError):
            image.start()
        assert (await other.run()).value == 2


async def test_a_program_that_was_refused_leaves_no_process(engine: str) -> None:
    """PTC-070 neither a refused program nor a bad setup leaves an image."""
    async with ptc.Runtime(engine=engine, spares=1) as runtime:
        for _ in range(3):
            with pytest.raises(ptc.LoadError):
                await runtime.load("return (")
            with pytest.raises(ptc.UsageError):
                await runtime.load("return 1", setup="throw new Error('x')")
            assert (await runtime.run("return (")).failure is not None
        assert images_of(runtime) == []


def live_timers(loop: asyncio.AbstractEventLoop) -> int:
    return sum(not handle.cancelled() for handle in loop._scheduled)  # type: ignore[attr-defined]


def kept_by(process: object) -> int:
    return len(process._runs) if isinstance(process, ImageProcess) else 0


@pytest.mark.needs("fork")  # and of the other kind there is a test with fewer
async def test_a_thousand_runs_leave_nothing_over(engine: str) -> None:
    """PTC-070 after 1,000 runs no process, zombie, descriptor, thread or timer is left over."""
    loop = asyncio.get_running_loop()
    async with ptc.Runtime(engine=engine, spares=2) as runtime:
        image = await runtime.load("await t.echo(1); if (n % 50 === 7) throw new Error(); return n",
                                   {"t": {"echo": lambda value: value}}, input_name="n")  # fmt: skip
        assert (await image.run(input=0)).ok
        await spares_ready(image, 2)

        def state() -> dict[str, object]:
            return {
                "processes": len(runs_of(runtime)),
                "children": children(os.getpid()),
                "descriptors": len(descriptors(os.getpid())),
                "image": len(descriptors(images_of(runtime)[0])),
                "root": len(descriptors(root_of(runtime))),
                "threads": threading.active_count(),
                "timers": live_timers(loop),
                "tasks": len(asyncio.all_tasks()),
                "kept": (
                    len(image._runs),
                    len(image._process._runs) if isinstance(image._process, ImageProcess) else 0,
                ),
            }

        await asyncio.sleep(0.01)
        before = state()
        left = iter(range(1000))

        async def work() -> int:
            good = 0
            for number in left:
                outcome = await image.run(input=number)
                assert outcome.ok or (outcome.failure and outcome.failure.kind == "exception"), outcome.failure
                good += outcome.ok
            return good

        assert sum(await asyncio.gather(work(), work(), work())) == 980
        await spares_ready(image, 2)
        await until(lambda: state() == before, "everything is as before")
    assert not any(not handle.cancelled() and "ptc" in repr(handle) for handle in loop._scheduled)  # type: ignore[attr-defined]


async def test_a_closed_runtime_leaves_no_garbage(engine: str) -> None:
    """PTC-070 a closed runtime has closed everything: no descriptor, no warning about an open one."""
    before = descriptors(os.getpid())
    for _ in range(3):
        async with ptc.Runtime(engine=engine, spares=1) as runtime:
            image = await runtime.load("return 1")
            assert (await image.run()).ok
            run = (await runtime.load(SPIN)).start()
            await asyncio.sleep(0.01)
        assert (await run.outcome()).failure == ptc.Failure("abort", "runtime closed")
    gc.collect()
    assert descriptors(os.getpid()).keys() == before.keys()
