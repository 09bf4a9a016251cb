"""Root: the process images are forked from. It holds the engine, forks, kills and reaps, and reads no program text."""

import os
import select
import signal
import traceback

from ptc.guest import harden, image, prelude, reaper, serving
from ptc.guest.confinement import Confinement, confine
from ptc.guest.control import Control, Message
from ptc.guest.engine import Engine
from ptc.guest.run import GUEST_FAULT

# How often root looks whether its host still lives. The end of the control stream tells it at once, unless a forked
# copy of the host keeps that stream open.
_LOOK_MS = 1000


def main(engine_name: str, library: str, seccomp: str, control_fd: int, host: int) -> None:
    """Serve the host until it is gone. Never returns.

    library: the path of the engine's extension module. seccomp: name or path of libseccomp. host: its process id.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    harden.keep_only(control_fd)
    harden.adopt_orphans()
    engine = serving.open_engine(engine_name, library)
    rlimits = _probe()
    confinement = confine(seccomp)
    source = prelude.source()
    # From here on no file is read any more, and the heap is what every image starts from.
    harden.freeze_heap()
    try:
        _Root(Control(3), engine, source, rlimits, confinement, host).serve()
    except Exception:
        traceback.print_exc()  # the diagnostics pipe
    _end()


def _probe() -> list[str]:
    """The resource limits this platform really enforces, as a run would have them."""
    address_space = harden.AddressSpace()
    limits = harden.run_limits(1024**3, 60.0, address_space.size())
    address_space.close()
    return harden.in_child(lambda: " ".join(harden.supported_limits(limits)).encode()).decode().split()


def _end() -> None:
    """Take the whole process group along, this process included."""
    os.killpg(0, signal.SIGKILL)


class _Root:
    def __init__(
        self,
        control: Control,
        engine: Engine,
        prelude: str,
        rlimits: list[str],
        confinement: Confinement,
        host: int,
    ) -> None:
        self._control = control
        self._host = host
        self._engine = engine
        self._prelude = prelude
        self._rlimits = rlimits
        self._confinement = confinement
        self._images: dict[int, int] = {}
        """Process id of every living image → its number at the host."""

    def serve(self) -> None:
        waker = reaper.Waker()
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(waker, select.POLLIN)
        self._control.send(serving.hello(self._engine, self._rlimits, self._confinement))
        while os.getppid() == self._host:
            ready = {fd for fd, _ in poll.poll(_LOOK_MS)}
            if waker.fileno() in ready:
                waker.drain()
                self._reap()
            if self._control.fileno() in ready:
                messages = self._control.receive()
                if messages is None:
                    return
                for message in messages:
                    self._handle(message, waker)

    def _handle(self, message: Message, waker: reaper.Waker) -> None:
        number = int(message["image"])
        if message["type"] == "image":
            (control_fd,) = self._control.take_descriptors(1)
            root = os.getpid()
            try:
                pid = os.fork()
            except OSError:  # no process or no memory left on this machine
                os.close(control_fd)
                self._control.send({"type": "exited", "image": number, "code": GUEST_FAULT, "signal": None})
                return
            if pid == 0:
                waker.disable()
                harden.die_with_parent(root)
                image.main(self._engine, self._prelude, control_fd, self._rlimits, self._confinement)
            os.close(control_fd)
            self._images[pid] = number
            self._control.send({"type": "started", "image": number, "pid": pid})
        elif message["type"] == "kill":
            for pid, known in self._images.items():
                if known == number:
                    os.kill(pid, signal.SIGKILL)

    def _reap(self) -> None:
        for end in reaper.reap():
            number = self._images.pop(end.pid, None)
            if number is not None:  # else an orphaned run, reaped in its dead image's place
                self._control.send({"type": "exited", "image": number, "code": end.code, "signal": end.signal})
