"""Run: forked from an image, executes the program once over its own channel, and exits.

The descriptors of a run: 0 the null device, 1 and 2 the pipe for native output, 3 the channel.
"""

import os
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass

from ptc.guest import fault, harden
from ptc.guest.engine import Engine, EngineFault
from ptc.guest.seccomp import Filter

_CHANNEL = 3
# Exit statuses the host understands; see `ptc.protocol.exits`.
OUT_OF_MEMORY, GUEST_FAULT, MEASURE_FAILED = 65, 70, 77


@dataclass(frozen=True, slots=True)
class RunConfig:
    """What every run of an image gets: resource limits as (name, soft, hard), its filter of system calls if there is
    one, CPU seconds, where its program lies."""

    limits: list[tuple[str, int, int]]
    filter: Filter | None
    cpu: float
    program: harden.HeapSpan


class Port:
    """The host functions the prelude is bound to. Bound in the image, connected to a channel only in a run."""

    def __init__(self) -> None:
        self._cpu_limit = 0.0
        self._cpu_began = 0.0
        self._buffer = b""

    def bind(self, engine: Engine) -> None:
        """Make the functions globals for the prelude to take away."""
        functions: dict[str, Callable[[str], str]] = {
            "__ptc_send": self.send,
            "__ptc_exchange": self.exchange,
            "__ptc_exit": self.exit,
            "__ptc_start": self.start,
            "__ptc_cpu": self.cpu,
        }
        for name, function in functions.items():
            engine.bind(name, _sealed(function))

    def connect(self, config: RunConfig) -> None:
        """From here on the process is a run with descriptor 3 as its channel."""
        self._cpu_limit = config.cpu

    def send(self, text: str) -> str:
        """Write one frame."""
        body = text.encode("ascii")
        data = struct.pack(">I", len(body)) + body
        sent = os.write(_CHANNEL, data)
        while sent < len(data):
            sent += os.write(_CHANNEL, memoryview(data)[sent:])
        return ""

    def receive(self) -> str:
        """Wait for one frame. A host that is gone ends the process."""
        while True:
            have = len(self._buffer)
            if have >= 4:
                length = int.from_bytes(self._buffer[:4], "big")
                if have >= 4 + length:
                    text = self._buffer[4 : 4 + length].decode("ascii")
                    self._buffer = self._buffer[4 + length :]
                    return text
                self._fill(4 + length - have)
            else:
                self._fill(4 - have)

    def exchange(self, text: str) -> str:
        """Write one frame and wait for the next one from the host."""
        self.send(text)
        return self.receive()

    def exit(self, status: str) -> str:
        """End the process at once."""
        os._exit(int(status))

    def start(self, timeout: str) -> str:
        """The program begins now: start the clocks. The text is milliseconds, empty for no deadline."""
        # The run is one thread. The clock of the process would step with the timer's ticks once that is armed.
        self._cpu_began = time.thread_time()
        harden.arm_timers(float(timeout) / 1000.0 if timeout else None, self._cpu_limit)
        return ""

    def cpu(self, _text: str) -> str:
        """CPU milliseconds since `start`."""
        return repr((time.thread_time() - self._cpu_began) * 1000.0)

    def _fill(self, missing: int) -> None:
        parts = [self._buffer]
        while missing > 0:
            data = os.read(_CHANNEL, max(65_536, min(missing, 1_048_576)))
            if not data:
                os._exit(0)
            parts.append(data)
            missing -= len(data)
        self._buffer = b"".join(parts)


def _sealed(function: Callable[[str], str]) -> Callable[[str], str]:
    """A host function whose failure ends the process: an exception must not reach JavaScript."""

    def call(text: str) -> str:
        try:
            return function(text)
        except MemoryError:
            os._exit(OUT_OF_MEMORY)
        except BrokenPipeError:
            os._exit(0)
        except BaseException as error:
            fault.report(error)
            os._exit(GUEST_FAULT)

    return call


def main(engine: Engine, port: Port, config: RunConfig, channel: int, native: int, is_spare: bool) -> None:
    """Confine this process, report ready, wait for the boot, run the program, exit. Never returns."""
    status = GUEST_FAULT
    try:
        os.dup2(native, 1)
        os.dup2(native, 2)
        harden.keep_only(channel)
        _confine(config)
        port.connect(config)
        if is_spare:
            # Touch now what the program will touch, so that the pages are copied while nobody waits.
            harden.populate(config.program)
            engine.call("warm", "")
        port.send('{"type":"ready","wire":1}')
        execute(engine, port)
        status = 0
    except MemoryError:
        status = OUT_OF_MEMORY
    except EngineFault as error:
        status = OUT_OF_MEMORY if error.out_of_memory else GUEST_FAULT
        fault.report(error)
    except BrokenPipeError:
        status = 0
    except BaseException as error:
        fault.report(error)
    finally:
        os._exit(status)


def _confine(config: RunConfig) -> None:
    """Put every measure in force. A run without one that was promised does not begin."""
    try:
        harden.apply_limits(config.limits)
        # Before `ready`, while nobody waits: loading it takes the kernel longer than all the rest of a short run.
        if config.filter is not None and not config.filter.load():
            raise OSError("the kernel did not take the filter of system calls")
    except (OSError, ValueError) as error:
        fault.report(error)
        os._exit(MEASURE_FAILED)


def execute(engine: Engine, port: Port) -> None:
    """From the boot frame to the `done` frame."""
    engine.call("boot", port.receive())
    while True:
        while engine.jobs():
            pass
        state = engine.call("turn", "")
        if state == "done":
            return
        if state == "wait":
            engine.call("deliver", port.receive())
