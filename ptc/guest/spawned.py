"""A spawned run: a process that loads one program and then runs it once. For V8, and where there is no `fork`.

To the host it is image and run in one: it answers `load` and then `run` on its control stream, gives that up, and goes
on as any run does, on its channel. The host is its parent and sees its end.
"""

import os
import select
import signal
import time

from ptc.guest import harden, prelude, run, serving
from ptc.guest.confinement import Confinement, Level, confine
from ptc.guest.control import Control, Message
from ptc.guest.engine import Engine
from ptc.guest.run import Port, RunConfig

_NATIVE_OUTPUT = 1
_CHANNEL, _CONTROL = 3, 4


def main(engine: str, library: str, seccomp: str, control_fd: int, channel_fd: int, host: int) -> None:
    """Serve the host until it is gone. Never returns.

    channel_fd: the run's end of its channel. The others are as for root.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    harden.die_with_parent(host)
    harden.keep_both(channel_fd, control_fd)
    harden.die_with_peer(_CHANNEL)
    spawned: list[_Spawned] = []  # kept to the end: to collect an open socket takes calls the filter forbids

    def serve() -> int:
        spawned.append(_Spawned(serving.open_engine(engine, library), seccomp))
        return spawned[0].serve()

    serving.end_with(serve)


class _Spawned:
    def __init__(self, engine: Engine, seccomp: str) -> None:
        self._engine = engine
        self._confinement = _confine(engine, seccomp)
        self._prelude = prelude.source()
        self._control = Control(_CONTROL)
        self._port = Port()
        self._config: RunConfig | None = None

    def serve(self) -> int:
        # Its resource limits are not known before a program is loaded.
        self._control.send(serving.hello(self._engine, [], self._confinement))
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        # A host that gives up a process before it runs closes both.
        poll.register(_CHANNEL, 0)
        while True:
            if any(fd == _CHANNEL for fd, _ in poll.poll()):
                return 0
            messages = self._control.receive()
            if messages is None:
                return 0
            for message in messages:
                match message["type"]:
                    case "load":
                        if not self._load(message):
                            return 0
                    case "run":
                        self._run(message)
                    case "unload":
                        return 0

    def _load(self, message: Message) -> bool:
        began = time.perf_counter()
        limits = message["limits"]
        memory, cpu = int(limits["memory"]), float(limits["cpu"])
        has_cage = self._engine.name == "v8"  # V8 reserves a terabyte of addresses, so their number says nothing
        address_space = harden.AddressSpace()
        size = address_space.size()
        harden.limit_image(memory, cpu, None if has_cage else size)
        # V8 collects garbage by what it may use at most: only a bound at the limit itself keeps it below.
        heap = memory if has_cage else serving.heap_limit(memory, bool(size))
        self._engine.open(heap, int(limits["stack"]))
        self._port.bind(self._engine)
        self._engine.evaluate(self._prelude)
        level, run_filter = serving.confine_image(self._confinement)
        # From here on there is program text in the engine.
        refusal = serving.compile_program(self._engine, message)
        harden.end_load()
        if refusal is not None:
            self._control.send(refusal)
            return False
        # What the process has used so far is not the program's.
        wanted = harden.run_limits(memory, cpu + time.process_time(), address_space.size())
        if has_cage:
            wanted = [limit for limit in wanted if limit[0] != "as"]
            if writable := address_space.writable():
                wanted.append(harden.writable_limit(memory, writable))
        address_space.close()
        in_force = harden.supported_limits(wanted)
        self._config = RunConfig(limits=[], filter=run_filter, cpu=cpu, program=harden.HeapSpan(0, 0))
        harden.freeze_heap()
        self._control.send(serving.loaded(self._engine, "spawn", in_force, level, began))
        return True

    def _run(self, message: Message) -> None:
        """Never returns."""
        assert self._config is not None
        self._control.send(
            {"type": "started", "run": message["run"], "pid": os.getpid(), "cpuMs": time.process_time() * 1e3}
        )
        run.main(self._engine, self._port, self._config, _CHANNEL, _NATIVE_OUTPUT, bool(message["spare"]))


def _confine(engine: Engine, seccomp: str) -> Confinement:
    if engine.name == "v8":
        level: Level = "no-new-privs" if harden.forbid_new_privileges() else "off"
        return Confinement(level, None, [], "V8 makes machine code, which the filter forbids")
    return confine(seccomp)
