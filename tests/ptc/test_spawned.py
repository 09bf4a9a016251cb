"""Spawned runs: a process each, child of the host, that loads the program and runs it once."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

import ptc
from ptc._spawned import SpawnedImage, SpawnedProcess
from ptc.guest import harden
from ptc.outcome import ExitStatus
from tests.ptc.processes import (
    children,
    descriptors,
    is_dead,
    is_gone,
    needs_proc,
    processes_of,
    runs_of,
    spares_ready,
    tree_of,
    until,
)
from tests.ptc.programs import Gate, kind, waiting_program, waiting_run

pytestmark = needs_proc

MIB = 1024 * 1024


@pytest.fixture(params=["quickjs", "v8"])
def spawned(request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of an engine, to be used with process="spawn"."""
    yield request.param


# --- choosing ---


async def test_a_run_says_that_it_was_spawned(spawned: str) -> None:
    """PTC-071 the outcome says `process: "spawn"`, with the measures that are in force."""
    async with ptc.Runtime(engine=spawned, process="spawn", spares=0) as runtime:
        outcome = await runtime.run("return await t.f(1)", {"t": {"f": lambda value: value + 1}})
        report = await runtime.report()
    assert outcome.value == 2
    assert outcome.isolation is not None
    assert outcome.isolation.process == "spawn"
    assert set(outcome.isolation.rlimits) >= {"core", "cpu", "fsize", "nofile"}
    assert outcome.engine == ptc.EngineInfo(**report["engine"])
    assert sorted(outcome.isolation.rlimits) == report["rlimits"]
    assert report["rejections"] == ("calls" if spawned == "v8" else "all")
    assert report["seccomp"]["level"] == outcome.isolation.seccomp


def test_only_what_can_be_forked_is_forked() -> None:
    """PTC-126 a way of making processes that cannot be had is misuse, named."""
    assert ptc.Runtime().process == "fork"
    assert ptc.Runtime(engine="v8").process == "spawn"
    assert ptc.Runtime(process="spawn").process == "spawn"
    with pytest.raises(ptc.UsageError, match='process: the engine "v8" cannot fork'):
        ptc.Runtime(engine="v8", process="fork")
    with pytest.raises(ptc.UsageError, match=r"process: .* auto, fork, spawn"):
        ptc.Runtime(process="thread")  # type: ignore[arg-type]


async def test_a_required_fork_is_missing(spawned: str) -> None:
    """PTC-063 `require={"fork"}` is not met by a spawned run."""
    async with ptc.Runtime(engine=spawned, process="spawn", require={"fork"}) as runtime:
        outcome = await runtime.run("return await 1")
    assert kind(outcome) == "sandbox-unavailable"


# --- processes ---


async def test_one_process_loads_runs_and_ends(spawned: str) -> None:
    """PTC-048 the process that answers `load` becomes the first run; the next run has another."""
    async with ptc.Runtime(engine=spawned, process="spawn", spares=0) as runtime:
        seen: list[list[int]] = []
        image = await runtime.load(
            "globalThis.count = (globalThis.count ?? 0) + 1; await t.look(null); return count",
            {"t": {"look": lambda _argument: seen.append(runs_of(runtime))}},
        )
        first = tree_of(runtime)
        assert len(first) == 1
        for _ in range(3):
            assert (await image.run()).value == 1
            await until(lambda: not tree_of(runtime), "the process is gone")
        assert seen[0] == first
        assert len({pid for (pid,) in seen}) == 3


async def test_one_spare_at_most(spawned: str) -> None:
    """PTC-053 at most one loaded process waits per image, whatever was asked for; it has said `ready`."""
    async with ptc.Runtime(engine=spawned, process="spawn", spares=5) as runtime:
        gate = Gate()
        image = await runtime.load(*waiting_program(), form="async")
        await spares_ready(image, 1)
        (waiting,) = runs_of(runtime)
        run = await waiting_run(image, gate)
        await spares_ready(image, 1)
        assert len(runs_of(runtime)) == 2
        assert waiting in runs_of(runtime)
        assert sorted(descriptors(waiting)) == [0, 1, 2, 3]
        gate.open.set()
        assert (await run.outcome()).ok
        await until(lambda: len(tree_of(runtime)) == 1, "the used process is gone")
        assert is_gone(waiting)


async def test_a_loaded_process_that_dies_is_replaced(spawned: str) -> None:
    """PTC-054 a process that dies before it was booted is nobody's loss."""
    async with ptc.Runtime(engine=spawned, process="spawn", spares=0) as runtime:
        image = await runtime.load("return await 1")
        (pid,) = tree_of(runtime)
        os.kill(pid, signal.SIGKILL)
        assert (await image.run()).value == 1
        await until(lambda: is_gone(pid), "it is reaped")


@pytest.mark.parametrize("has_pidfd", [True, False])
async def test_a_killed_run_is_named(spawned: str, has_pidfd: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """PTC-116 the host is the parent and reports how a run ended, whether the kernel tells it or it has to ask."""
    if not has_pidfd:
        monkeypatch.delattr("os.pidfd_open")
    async with ptc.Runtime(engine=spawned, process="spawn", spares=0) as runtime:
        gate = Gate()
        image = await runtime.load(*waiting_program(), form="async")
        run = await waiting_run(image, gate)
        (pid,) = runs_of(runtime)
        os.kill(pid, signal.SIGTERM)
        outcome = await asyncio.wait_for(run.outcome(), 5)
        assert kind(outcome) == "worker-exit"
        assert outcome.exit == ptc.ExitStatus(signal=signal.SIGTERM)
        assert outcome.cpu is not None
        assert outcome.cpu < 0.5, "the start of the process is not the program's"
        assert is_gone(pid)


async def test_a_process_that_cannot_start_is_the_outcome(spawned: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """PTC-055 a process that does not start is a failure with what it printed."""
    async with ptc.Runtime(engine=spawned, process="spawn") as runtime:
        with monkeypatch.context() as patch:
            patch.setattr("ptc._launch._BOOTSTRAP", "/nonexistent/ptc/guest/bootstrap.py")
            outcome = await runtime.run("return await 1")
            assert kind(outcome) == "worker-exit"
            assert outcome.failure is not None
            assert "No such file" in outcome.failure.message
        assert (await runtime.run("return await 1")).ok


async def test_many_runs_leave_nothing_over(spawned: str) -> None:
    """PTC-070 after many runs no process, zombie, descriptor or thread is left over."""
    async with ptc.Runtime(engine=spawned, process="spawn", spares=1) as runtime:
        image = await runtime.load("if (await t.f(n) % 5 === 2) throw new Error(); return n",
                                   {"t": {"f": lambda value: value}}, input_name="n")  # fmt: skip
        await image.run(input=0)
        await spares_ready(image, 1)

        def state() -> tuple[int, ...]:
            host = os.getpid()
            return len(tree_of(runtime)), len(children(host)), len(descriptors(host)), threading.active_count()

        await until(lambda: len(tree_of(runtime)) == 1, "the first run is reaped and only the spare waits")
        before = state()
        outcomes = await asyncio.gather(*(image.run(input=number) for number in range(20)))
        assert [outcome.ok for outcome in outcomes] == [number % 5 != 2 for number in range(20)]
        await spares_ready(image, 1)
        await until(lambda: state() == before, "everything is as before")


# --- the host dies ---

HOST = """
import asyncio, sys
import ptc

async def main():
    runtime = ptc.Runtime(engine=sys.argv[1], process="spawn", spares=1)
    image = await runtime.load("await t.spinning(1); for (;;);", {"t": {"spinning": spinning}},
                               limits=ptc.Limits(cpu=60))
    other = await runtime.load("return await 1")
    await asyncio.gather(*(image.run() for _ in range(3)))

count = 0
def spinning(_argument):
    global count
    count += 1
    if count == 3:
        print("spinning", flush=True)

asyncio.run(main())
"""


def test_nothing_outlives_a_killed_host(spawned: str) -> None:
    """PTC-056 with the host killed while three runs spin and others wait, no process of ours is left after 2 s."""
    with subprocess.Popen([sys.executable, "-c", HOST, spawned], stdout=subprocess.PIPE, text=True) as host:
        assert host.stdout is not None
        assert host.stdout.readline() == "spinning\n"
        ours = processes_of(host.pid)
        assert len(ours) >= 4
        host.kill()
    deadline = threading.Event()
    for _ in range(200):
        if all(is_dead(pid) for pid in ours):
            break
        deadline.wait(0.01)
    assert [pid for pid in ours if not is_dead(pid)] == []


def test_a_process_can_end_with_its_peer() -> None:
    """PTC-056 where the death of a parent tells nobody, the end of a stream does; what was sent on it stays there."""
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        ours.close()
        harden.end_with_peer(theirs.fileno())
    theirs.close()
    ours.send(b"boot")
    assert os.waitpid(child, os.WNOHANG) == (0, 0)
    ours.close()
    assert os.waitpid(child, 0) == (child, 0)


async def test_a_process_that_refuses_its_program_ends_by_itself(spawned: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """PTC-051 and not of a system call the filter forbids."""
    ends: list[ExitStatus | None] = []
    ended = SpawnedImage.ended

    def record(image: SpawnedImage, process: SpawnedProcess, status: ExitStatus | None) -> None:
        ends.append(status)
        ended(image, process, status)

    monkeypatch.setattr(SpawnedImage, "ended", record)
    async with ptc.Runtime(engine=spawned, process="spawn") as runtime:
        with pytest.raises(ptc.LoadError):
            await runtime.load("return ((1);", form="async")
    assert ends == [ExitStatus(code=0)]
