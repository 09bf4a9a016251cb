"""The host dies: a process of its own, so that it can be killed."""

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.ptc.processes import is_dead, needs_proc, processes_of

pytestmark = needs_proc

HOST = """
import asyncio, os, sys, time
import ptc

async def main():
    runtime = ptc.Runtime(engine=sys.argv[1], spares=2)
    image = await runtime.load("t.spinning(null); for (;;);", {"t": {"spinning": spinning}}, limits=ptc.Limits(cpu=60))
    other = await runtime.load("return 1")
    runs = [image.start() for _ in range(3)]
    await asyncio.gather(*(run.outcome() for run in runs))

count = 0
def spinning(_argument):
    global count
    count += 1
    if count == 3:
        copy = os.fork() if "fork" in sys.argv else None
        if copy == 0:
            time.sleep(30)  # holds every descriptor of the host
            os._exit(0)
        print(copy, flush=True)

asyncio.run(main())
"""


@pytest.mark.parametrize("forked", [False, True], ids=["alone", "with a forked copy"])
def test_nothing_outlives_a_killed_host(engine: str, forked: bool) -> None:
    """PTC-056 with the host killed while three runs spin, no process of ours is left after 2 s."""
    command = [sys.executable, "-c", HOST, engine, *(["fork"] if forked else [])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as host:
        assert host.stdout is not None
        copy = host.stdout.readline().strip()
        ours = processes_of(host.pid)
        assert len(ours) >= 6
        host.kill()
        killed = time.monotonic()
        try:
            while any(not is_dead(pid) for pid in ours):
                assert time.monotonic() - killed < 2.0, processes_of(host.pid)
                time.sleep(0.01)
        finally:
            if forked:
                os.kill(int(copy), signal.SIGKILL)
