"""Processes: who lives when, who dies with whom, and that nothing is left behind."""

import asyncio
import contextlib
import os
import random
import signal
from pathlib import Path
from typing import Any

import pytest

import ptc
from tests.ptc.processes import (
    images_of,
    is_dead,
    is_gone,
    kill_unseen,
    needs_proc,
    root_of,
    runs_of,
    spares_ready,
    until,
)
from tests.ptc.programs import Gate, waiting_program, waiting_run

pytestmark = [pytest.mark.asyncio(loop_scope="session"), needs_proc]

SPIN = "for (;;);"


# --- spares ---


async def test_a_spare_is_used_and_replaced(engine: str) -> None:
    """PTC-053 a spare is used, and replaced."""
    async with ptc.Runtime(engine=engine, spares=2) as runtime:
        gate = Gate()
        image = await runtime.load(*waiting_program())
        await spares_ready(image, runtime.spares)
        waiting = set(runs_of(runtime))
        assert len(waiting) == runtime.spares
        run = await waiting_run(image, gate)
        await spares_ready(image, runtime.spares)
        now = set(runs_of(runtime))
        assert len(now) == runtime.spares + 1
        assert waiting < now, "the run took one of those that waited"
        gate.open.set()
        assert (await run.outcome()).value == 1
        await until(lambda: len(runs_of(runtime)) == runtime.spares, "the used run is gone")


async def test_spares_are_released_when_nobody_runs(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """PTC-053 spares are released when idle, and the next run makes new ones."""
    monkeypatch.setattr("ptc.image._IDLE_S", 0.05)
    async with ptc.Runtime(engine=engine, spares=2) as runtime:
        image = await runtime.load("return 1")
        assert (await image.run()).ok
        await until(lambda: not runs_of(runtime), "all spares are gone")
        if runtime.process == "fork":
            assert len(images_of(runtime)) == 1
        assert (await image.run()).ok


async def test_a_run_succeeds_when_every_spare_was_killed(engine: str) -> None:
    """PTC-053 a run succeeds when every spare has been killed, noticed or not."""
    async with ptc.Runtime(engine=engine, spares=3) as runtime:
        image = await runtime.load("return 1")
        for _ in range(3):
            await spares_ready(image, runtime.spares)
            kill_unseen(runs_of(runtime))
            outcome = await image.run()
            assert outcome.ok, outcome.failure


async def test_no_spares_means_none(engine: str) -> None:
    """PTC-053 without spares an idle image has no run."""
    async with ptc.Runtime(engine=engine, spares=0) as runtime:
        image = await runtime.load("return 1")
        assert (await image.run()).ok
        await until(lambda: not runs_of(runtime), "the run is gone")


# --- deaths ---


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
async def test_a_killed_run_is_named_and_not_repeated(engine: str, number: signal.Signals) -> None:
    """PTC-054 PTC-116 a run killed after boot ends as `worker-exit` with its signal and is not run again."""
    async with ptc.Runtime(engine=engine, spares=0) as runtime:
        gate = Gate()
        image = await runtime.load(*waiting_program())
        run = await waiting_run(image, gate)
        (pid,) = runs_of(runtime)
        os.kill(pid, number)
        outcome = await run.outcome()
        assert outcome.failure is not None
        assert outcome.failure.kind == "worker-exit"
        assert number.name in outcome.failure.message
        assert outcome.exit == ptc.ExitStatus(signal=number)
        assert outcome.unfinished == ((1, "t", "wait"),)
        assert gate.calls == 1
        gate.open.set()
        assert (await image.run()).ok


@pytest.mark.needs("fork")
@pytest.mark.parametrize("spares", [0, 2])
@pytest.mark.parametrize("noticed", [True, False])
async def test_a_killed_image_ends_its_runs_and_is_loaded_again(engine: str, spares: int, noticed: bool) -> None:
    """PTC-055 a killed image gives `worker-exit` to its booted runs and reloads for the next."""
    async with ptc.Runtime(engine=engine, spares=spares) as runtime:
        gate = Gate()
        image = await runtime.load(*waiting_program())
        runs = [await waiting_run(image, gate) for _ in range(3)]
        (victim,) = images_of(runtime)
        processes = runs_of(runtime)
        kill_unseen([victim], processes)
        if noticed:
            outcomes = [await run.outcome() for run in runs]
        following = await image.run()
        assert following.ok, following.failure
        outcomes = [await run.outcome() for run in runs]
        for outcome in outcomes:
            assert outcome.failure is not None
            assert outcome.failure.kind == "worker-exit"
            assert outcome.exit == ptc.ExitStatus(signal=signal.SIGKILL)
            assert outcome.calls == 1
        await until(lambda: all(is_gone(pid) for pid in processes), "the runs are gone with their image")
        assert gate.calls == 3


@pytest.mark.needs("fork")
@pytest.mark.parametrize("noticed", [True, False])
async def test_a_killed_root_ends_all_runs_and_is_started_again(engine: str, noticed: bool) -> None:
    """PTC-055 a killed root gives `worker-exit` to the booted runs of every image, and all images run again."""
    async with ptc.Runtime(engine=engine, spares=1) as runtime:
        gate = Gate()
        images = [await runtime.load(*waiting_program()) for _ in range(2)]
        runs = [await waiting_run(image, gate) for image in images]
        root = root_of(runtime)
        processes = [*images_of(runtime), *runs_of(runtime)]
        kill_unseen([root], processes)
        if noticed:
            outcomes = [await run.outcome() for run in runs]
        for image in images:
            following = await image.run()
            assert following.ok, following.failure
        assert (await runtime.run("return 2")).value == 2
        outcomes = [await run.outcome() for run in runs]
        for outcome in outcomes:
            assert outcome.failure is not None
            assert outcome.failure.kind == "worker-exit"
            assert outcome.exit == ptc.ExitStatus(signal=signal.SIGKILL)
        assert root_of(runtime) != root
        await until(lambda: is_gone(root), "the old root is reaped")
        await until(lambda: all(is_dead(pid) for pid in processes), "everything of the old root is dead")


@pytest.mark.needs("fork")
async def test_a_reload_that_fails_is_the_outcome(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """PTC-055 if root cannot be started again, that is the outcome and no exception; later it may work again."""
    async with ptc.Runtime(engine=engine, spares=0) as runtime:
        image = await runtime.load("return 1")
        kill_unseen([root_of(runtime)], images_of(runtime))
        with monkeypatch.context() as patch:
            patch.setattr("ptc._launch._BOOTSTRAP", Path("/nonexistent/ptc/guest/bootstrap.py"))
            outcome = await image.run()
        assert outcome.failure is not None
        assert outcome.failure.kind == "worker-exit"
        assert "No such file" in outcome.failure.message, "what the interpreter printed is in the message"
        assert outcome.isolation is None
        assert (await image.run()).ok


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who does not report a death in time is taken to hang after a shorter time than usual."""
    monkeypatch.setattr("ptc._run_process.REAP_S", 0.3)
    monkeypatch.setattr("ptc._processes.REAP_S", 0.3)


@pytest.mark.usefixtures("impatient")
@pytest.mark.needs("fork")
async def test_an_image_that_hangs_is_killed_after_its_run(engine: str) -> None:
    """PTC-057 a run ends although its image has stopped; so does one whose root has stopped, too."""
    async with ptc.Runtime(engine=engine, spares=0) as runtime:
        gate = Gate()
        image = await runtime.load(*waiting_program())
        run = await waiting_run(image, gate)
        (stopped,) = images_of(runtime)
        processes = runs_of(runtime)
        os.kill(stopped, signal.SIGSTOP)
        run.abort("enough")
        outcome = await asyncio.wait_for(run.outcome(), 5)
        assert outcome.failure == ptc.Failure("abort", "enough")
        await until(lambda: all(is_gone(pid) for pid in [stopped, *processes]), "image and run are gone")
        gate.open.set()
        assert (await image.run()).ok


@pytest.mark.usefixtures("impatient")
@pytest.mark.needs("fork")
async def test_a_root_that_hangs_is_killed_after_its_image(engine: str) -> None:
    """PTC-057 a run ends although image and root have stopped."""
    async with ptc.Runtime(engine=engine, spares=0) as runtime:
        gate = Gate()
        image = await runtime.load(*waiting_program())
        run = await waiting_run(image, gate)
        root = root_of(runtime)
        processes = [*images_of(runtime), *runs_of(runtime)]
        for pid in [root, *images_of(runtime)]:
            os.kill(pid, signal.SIGSTOP)
        run.abort("enough")
        outcome = await asyncio.wait_for(run.outcome(), 8)
        assert outcome.failure == ptc.Failure("abort", "enough")
        await until(lambda: all(is_dead(pid) for pid in [root, *processes]), "all are dead")
        gate.open.set()
        assert (await image.run()).ok


@pytest.mark.needs("fork")
async def test_the_tree_survives_random_kills(engine: str) -> None:
    """PTC-054 PTC-055 whatever is killed whenever, a run is ok or `worker-exit`, never repeated, and the next works."""
    chance = random.Random(7)
    called: dict[int, int] = {}

    async def work(number: Any) -> Any:
        called[number] = called.get(number, 0) + 1
        await asyncio.sleep(0.003)
        return number

    async with ptc.Runtime(engine=engine, spares=2) as runtime:
        image = await runtime.load(
            "for (let i = 0; i < 3; i++) t.work(id * 10 + i); return id", {"t": {"work": work}}, input_name="id"
        )
        count = 0
        for _ in range(25):
            runs = []
            for _ in range(4):
                count += 1
                runs.append(image.start(input=count))
            await asyncio.sleep(chance.random() * 0.015)
            root = root_of(runtime)
            victims = [root]
            if not is_dead(root):
                victims += [*images_of(runtime) * 3, *runs_of(runtime)]
            with contextlib.suppress(ProcessLookupError):
                os.kill(chance.choice(victims), signal.SIGKILL)
            for outcome in await asyncio.wait_for(asyncio.gather(*(run.outcome() for run in runs)), 10):
                assert outcome.failure is None or outcome.failure.kind == "worker-exit", outcome.failure
            following = await image.run(input=0)
            assert following.ok, following.failure
            called.pop(0), called.pop(1), called.pop(2)
        assert set(called.values()) == {1}, "no booted run was repeated"
