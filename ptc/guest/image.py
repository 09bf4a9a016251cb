"""Image: forked from root, holds one compiled program, never runs it. It forks runs, kills them and reaps them."""

import os
import select
import signal
import time

from ptc.guest import harden, reaper, run, serving
from ptc.guest.confinement import Confinement
from ptc.guest.control import Control, Message
from ptc.guest.engine import Engine
from ptc.guest.run import GUEST_FAULT, Port, RunConfig


def main(engine: Engine, prelude: str, control_fd: int, rlimits: list[str], confinement: Confinement) -> None:
    """Serve the host until it unloads the image or is gone. Never returns.

    rlimits: the names of the resource limits that hold here.
    """
    harden.keep_only(control_fd)
    serving.end_with(_Image(engine, prelude, Control(3), rlimits, confinement).serve)


class _Image:
    def __init__(
        self, engine: Engine, prelude: str, control: Control, rlimits: list[str], confinement: Confinement
    ) -> None:
        self._engine = engine
        self._prelude = prelude
        self._control = control
        self._rlimits = rlimits
        self._confinement = confinement
        self._port = Port()
        self._config: RunConfig | None = None
        self._runs: dict[int, int] = {}
        """Process id of every living run → its number at the host."""

    def serve(self) -> int:
        waker = reaper.Waker()
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(waker, select.POLLIN)
        while True:
            ready = {fd for fd, _ in poll.poll()}
            if waker.fileno() in ready:
                waker.drain()
                self._reap()
            if self._control.fileno() in ready:
                messages = self._control.receive()
                if messages is None:
                    return self._unload()
                for message in messages:
                    if message["type"] == "unload" or not self._handle(message, waker):
                        return self._unload()

    def _handle(self, message: Message, waker: reaper.Waker) -> bool:
        """Do what one message says; False when the image must end."""
        match message["type"]:
            case "load":
                return self._load(message)
            case "run":
                self._fork(int(message["run"]), bool(message["spare"]), waker)
            case "kill":
                for pid, number in self._runs.items():
                    if number == message["run"]:
                        os.kill(pid, signal.SIGKILL)
        return True

    def _load(self, message: Message) -> bool:
        began = time.perf_counter()
        limits = message["limits"]
        memory, cpu = int(limits["memory"]), float(limits["cpu"])
        address_space = harden.AddressSpace()
        harden.limit_image(memory, cpu, address_space.size())
        self._engine.open(serving.heap_limit(memory, bool(address_space.size())), int(limits["stack"]))
        self._port.bind(self._engine)
        self._engine.evaluate(self._prelude)
        before = harden.heap_end()
        level, run_filter = serving.confine_image(self._confinement)
        # From here on there is program text in the engine.
        refusal = serving.compile_program(self._engine, message)
        harden.end_load()
        if refusal is not None:
            self._control.send(refusal)
            return False
        wanted = harden.run_limits(memory, cpu, address_space.size())
        address_space.close()
        self._config = RunConfig(
            limits=[limit for limit in wanted if limit[0] in self._rlimits],
            filter=run_filter,
            cpu=cpu,
            program=harden.HeapSpan(before, harden.heap_end()),
        )
        harden.freeze_heap()
        in_force = sorted(limit[0] for limit in self._config.limits)
        self._control.send(serving.loaded(self._engine, "fork", in_force, level, began))
        return True

    def _fork(self, number: int, is_spare: bool, waker: reaper.Waker) -> None:
        channel, native = self._control.take_descriptors(2)
        assert self._config is not None
        image = os.getpid()
        try:
            pid = os.fork()
        except OSError:  # no process or no memory left on this machine
            os.close(channel)
            os.close(native)
            self._tell_end(number, reaper.End(0, GUEST_FAULT, None, 0.0, 0))
            return
        if pid == 0:
            waker.disable()
            harden.die_with_parent(image)
            run.main(self._engine, self._port, self._config, channel, native, is_spare)
        os.close(channel)
        os.close(native)
        self._runs[pid] = number
        self._control.send({"type": "started", "run": number, "pid": pid})

    def _reap(self) -> None:
        for end in reaper.reap():
            number = self._runs.pop(end.pid, None)
            if number is not None:
                self._tell_end(number, end)

    def _tell_end(self, number: int, end: reaper.End) -> None:
        self._control.send({
            "type": "exited", "run": number, "code": end.code, "signal": end.signal,
            "cpuMs": end.cpu_ms, "maxRssKb": end.max_rss_kb,
        })  # fmt: skip

    def _unload(self) -> int:
        """Kill and reap every run."""
        for pid in self._runs:
            os.kill(pid, signal.SIGKILL)
        while self._runs:
            pid, _status = os.wait()
            self._runs.pop(pid, None)
        return 0
