"""Hosts in trouble: killed, or out of descriptors. Each is a process of its own."""

import os
import signal
import subprocess
import sys
import time

import pytest

import ptc
from tests.ptc.processes import is_dead, needs_proc, processes_of

pytestmark = needs_proc

HOST = """
import asyncio, os, sys, time
import ptc

async def main():
    runtime = ptc.Runtime(engine=sys.argv[1], process=sys.argv[2], spares=2)
    image = await runtime.load("t.spinning(null); for (;;);", {"t": {"spinning": spinning}},
                               form="async", limits=ptc.Limits(cpu=60))
    other = await runtime.load("return 1", form="async")
    runs = [image.start() for _ in range(3)]
    await asyncio.gather(*(run.outcome() for run in runs))

count = 0
def spinning(_argument):
    global count
    count += 1
    if count == 3:
        copy = os.fork() if "copy" in sys.argv else None
        if copy == 0:
            time.sleep(30)  # holds every descriptor of the host
            os._exit(0)
        print(copy, flush=True)

asyncio.run(main())
"""


@pytest.mark.parametrize("forked", [False, True], ids=["alone", "with a forked copy"])
def test_nothing_outlives_a_killed_host(engine: str, forked: bool) -> None:
    """PTC-056 with the host killed while three runs spin, no process of ours is left after 2 s."""
    process = ptc.Runtime(engine=engine).process
    command = [sys.executable, "-c", HOST, engine, process, *(["copy"] if forked else [])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as host:
        assert host.stdout is not None
        copy = host.stdout.readline().strip()
        ours = processes_of(host.pid)
        assert len(ours) >= (6 if process == "fork" else 4)
        host.kill()
        killed = time.monotonic()
        try:
            while any(not is_dead(pid) for pid in ours):
                assert time.monotonic() - killed < 2.0, processes_of(host.pid)
                time.sleep(0.01)
        finally:
            if forked:
                os.kill(int(copy), signal.SIGKILL)


POOR_HOST = """
import asyncio, os, resource, sys
import ptc

async def main():
    runtime = ptc.Runtime(engine=sys.argv[1], process=sys.argv[2], spares=0)
    image = await runtime.load("return 1", form="async")
    assert (await image.run()).ok
    held = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    try:
        while True:
            held.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        pass
    kinds = set()
    for _ in range(14):
        for attempt in (image.run, lambda: runtime.run("return 2", form="async"), cold):
            outcome = await asyncio.wait_for(attempt(), 10)
            kinds.add(outcome.failure and outcome.failure.kind)
            assert outcome.ok or "Too many open files" in outcome.failure.message, outcome.failure
        os.close(held.pop())
    assert kinds == {None, "worker-exit"}, kinds
    await runtime.aclose()
    for number in held:
        os.close(number)

async def cold():
    async with ptc.Runtime(engine=sys.argv[1], process=sys.argv[2]) as other:
        return await other.run("return 3", form="async")

asyncio.run(main())
"""


def test_a_host_without_descriptors_goes_on(engine: str) -> None:
    """PTC-055 a process that cannot be started for want of descriptors is `worker-exit`; later ones are, none leaks."""
    command = [sys.executable, "-W", "error", "-X", "dev", "-c", POOR_HOST, engine, ptc.Runtime(engine=engine).process]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr
    assert "ResourceWarning" not in result.stderr
