"""Root, images and runs as the host holds them: started, told apart by how they ended, never left behind."""

import asyncio
import importlib.util
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from ptc._control import ControlStream
from ptc._memory import resident_bytes
from ptc.errors import UsageError
from ptc.limits import NATIVE_OUTPUT_BYTES
from ptc.outcome import ExitStatus
from ptc.protocol import control

_BOOTSTRAP = Path(__file__).parent / "guest" / "bootstrap.py"
# All a process of ours inherits: with it dates and texts are the same on every machine.
_ENVIRONMENT = {"TZ": "UTC0", "LC_ALL": "C"}
# What root and images print is for diagnosis only.
_DIAGNOSTICS_BYTES = 8 * 1024
# An honest run exits by itself after `done`; a dishonest one gets this long.
_AFTER_DONE_S = 0.1
_POLL_S = 0.005
# Found by the dynamic linker, which also knows where; without it runs are confined less, and say so.
_SECCOMP_LIBRARY = "libseccomp.so.2"
# An image that is asked to ends at once; root waits for it so long, that it may be reaped.
_UNLOAD_S = 1.0
# A killed process is gone and reaped within milliseconds. If nobody has told so after this long, whoever should have
# told is taken to hang and is killed in its turn: the image of a run, the root of an image.
_REAP_S = 2.0
# The channel of a process that is gone ends as soon as its last bytes are read, unless something else holds it open.
_LAST_BYTES_S = 1.0
# Native output is read in pieces of a pipe's size, one for each turn of the loop: whoever prints for ever must not
# keep the loop for ever.
_PIPE_BYTES = 65_536
# An honest run says 30 bytes before it is booted.
_BEFORE_BOOT_BYTES = 65_536

# Engine name → the distribution that brings it and its extension module.
_ENGINES = {"quickjs": ("quickjs-ng", "_quickjs")}


def engine_library(engine: str) -> str:
    """The path of an engine's extension module. UsageError if the engine is unknown or not installed."""
    if engine not in _ENGINES:
        raise UsageError(f'no engine is called "{engine}"; there is {", ".join(sorted(_ENGINES))}')
    distribution, module = _ENGINES[engine]
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise UsageError(f'the engine "{engine}" is not installed; run: pip install {distribution}')
    return spec.origin


class StartError(Exception):
    """A process of ours could not be started or died while starting. The text is for the outcome."""


class GoneError(StartError):
    """The process that should have served was gone already. Another one may do."""


class RunSink(Protocol):
    """Who hears of one run's process. Calls come in this order: any of the first two, `lost`, `exited`."""

    def received(self, data: bytes) -> None:
        """Bytes from the channel."""

    def native(self, data: bytes) -> None:
        """Bytes from standard output or error."""

    def lost(self) -> None:
        """The channel is at its end."""

    def exited(self, status: ExitStatus | None, grown: int, cpu: float | None) -> None:
        """The process is gone and reaped: bytes of memory it grew by at its peak, CPU seconds. None: not known."""

    def writable(self) -> None:
        """The channel has room again."""


class RunProcess(asyncio.Protocol):
    """One forked run. It keeps what arrives until somebody attaches, so a waiting run needs no reader."""

    def __init__(self, image: "ImageProcess", number: int) -> None:
        self.image = image
        self.number = number
        self.pid: int | None = None
        self.writing = True
        """False while the channel is full."""
        self.ended = False
        """The process is gone."""
        self.ready: asyncio.Future[bool] = image.loop.create_future()
        """True once its first bytes are here and its process id is known, False if it died first."""
        self._sink: RunSink | None = None
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._native = bytearray()
        self._lost = False
        self._exit: tuple[ExitStatus | None, int, float | None] | None = None
        self._host_end, self._child_end = socket.socketpair()
        self._native_read, self._native_write = os.pipe()
        self._timer: asyncio.TimerHandle | None = None
        """What is done if the process does not do it in time: die, be reaped, let go of its channel."""

    async def open(self) -> None:
        """Start reading. The image has been told to fork and holds duplicates of the other ends."""
        loop = self.image.loop
        self._child_end.close()
        os.close(self._native_write)
        os.set_blocking(self._native_read, False)
        loop.add_reader(self._native_read, self._read_native)
        await loop.create_connection(lambda: self, sock=self._host_end)

    @property
    def descriptors(self) -> tuple[socket.socket, int]:
        """The ends that go to the process: channel and native output."""
        return self._child_end, self._native_write

    def is_alive(self) -> bool:
        """Whether the channel is open as of now, asked of the kernel rather than of what the loop has seen."""
        if self._lost or self.ended or self.image.dead:
            return False
        try:
            return self._host_end.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False

    def attach(self, sink: RunSink) -> None:
        """Deliver what has come so far, then everything as it comes."""
        self._sink = sink
        if self._native:
            sink.native(bytes(self._native))
        if self._received:
            data, self._received = bytes(self._received), bytearray()
            sink.received(data)
        if self._lost:
            sink.lost()
        if self._exit is not None:
            sink.exited(*self._exit)

    def write(self, data: bytes) -> None:
        """Send bytes on the channel. Nothing happens if it is gone."""
        if self._transport is not None:
            self._transport.write(data)

    def kill(self) -> None:
        """End the process at once. If the image does not report its end in time, the image goes too."""
        if not self.ended:
            self.image.kill_run(self.number)
            self._after(_REAP_S, self.image.kill)

    def release(self) -> None:
        """The run is over: close the channel, and see to it that the process ends. The sink hears no more."""
        self._sink = None
        self._close_channel()
        if not self.ended:
            self._after(_AFTER_DONE_S, self.kill)

    def grown(self, resident: int) -> int:
        """By how many bytes a process of this resident size has grown since it was ready."""
        return max(0, resident - self.image.baseline)

    # --- what the event loop tells ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._sink is not None:
            self._sink.received(data)
            return
        self._received += data
        self._check_ready()
        if len(self._received) > _BEFORE_BOOT_BYTES:
            self._close_channel()
            self.kill()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._lose()

    def pause_writing(self) -> None:
        self.writing = False

    def resume_writing(self) -> None:
        self.writing = True
        if self._sink is not None:
            self._sink.writable()

    # --- what the image tells ---

    def started(self, pid: int) -> None:
        """The image has forked the process."""
        self.pid = pid
        self._check_ready()

    def reaped(self, status: ExitStatus | None, grown: int, cpu: float | None) -> None:
        """The image reports the end of the process, or has died itself (status None)."""
        if self.ended:
            return
        self.ended = True
        self._forget_timer()
        if not self._lost:
            self._after(_LAST_BYTES_S, self._close_channel)
        if not self.ready.done():
            self.ready.set_result(False)
        self._exit = (status, grown, cpu)
        self._read_native()
        self._close_native()
        if self._sink is not None:
            self._sink.exited(status, grown, cpu)

    def _check_ready(self) -> None:
        if self._received and self.pid is not None and not self.ready.done():
            self.image.measure(self.pid)
            self.ready.set_result(True)

    def _lose(self) -> None:
        if self._lost:
            return
        self._lost = True
        if self.ended:
            self._forget_timer()
        if not self.ready.done():
            self.ready.set_result(False)
        if self._sink is not None:
            self._sink.lost()

    def _after(self, seconds: float, action: Callable[[], None]) -> None:
        """Do this after a while, instead of what was to be done."""
        self._forget_timer()
        self._timer = self.image.loop.call_later(seconds, action)

    def _forget_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close_channel(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _read_native(self) -> None:
        if self._native_read < 0:
            return
        try:
            data = os.read(self._native_read, _PIPE_BYTES)
        except BlockingIOError:
            return
        if not data:
            self._close_native()
        elif self._sink is not None:
            self._sink.native(data)
        elif len(self._native) <= NATIVE_OUTPUT_BYTES:
            self._native += data

    def _close_native(self) -> None:
        if self._native_read >= 0:
            self.image.loop.remove_reader(self._native_read)
            os.close(self._native_read)
            self._native_read = -1


class ImageProcess:
    """One image: a compiled program, ready to be forked."""

    def __init__(self, root: "RootProcess", number: int) -> None:
        self.loop = root.loop
        self.number = number
        self.dead = False
        self.baseline = 0
        """Resident bytes of a run that has only said `ready`; 0 until the first one did."""
        self.loaded: asyncio.Future[control.Loaded | control.Refused] = self.loop.create_future()
        self.gone: asyncio.Future[ExitStatus | None] = self.loop.create_future()
        """How the process ended, or root, which takes it along; None if nobody knows."""
        self._root = root
        self._insist: asyncio.TimerHandle | None = None
        self._runs: dict[int, RunProcess] = {}
        self._next = 1
        host_end, self._child_end = socket.socketpair()
        self._control = ControlStream(self.loop, host_end, self._message, self._lost)

    @property
    def child_end(self) -> socket.socket:
        """The control end that goes to the process."""
        return self._child_end

    def load(self, message: dict[str, object]) -> None:
        """Send the program. The answer comes as `loaded`, or `gone` if the process dies of it."""
        self._child_end.close()
        self._control.send({"type": "load", **message})

    async def fork(self, *, spare: bool) -> RunProcess:
        """A new run process; a spare prepares itself before it waits.

        GoneError if the image is gone, StartError if the host has no descriptors left.
        """
        try:
            run = RunProcess(self, self._next)
        except OSError as error:
            raise StartError(f"no process could be started: {error.strerror}") from None
        self._next += 1
        self._runs[run.number] = run
        sent = self._control.send({"type": "run", "run": run.number, "spare": spare}, run.descriptors)
        await run.open()
        if not sent or self.dead:
            self._lost()
            run.release()
            self._end_run(run, None, 0, None)
            raise GoneError("the image process is gone")
        return run

    def kill_run(self, number: int) -> None:
        """End one run, if it still lives."""
        self._control.send({"type": "kill", "run": number})

    def kill(self) -> None:
        """End the image and with it all its runs. If root does not report its end in time, root goes too."""
        self._root.kill_image(self.number)
        if self._insist is None and not self.gone.done():
            self._insist = self.loop.call_later(_REAP_S, self._root.kill)

    def unload(self) -> None:
        """Ask the image to end its runs and itself."""
        self._control.send({"type": "unload"})

    def measure(self, pid: int | None) -> None:
        """Take the size of the first ready run as that of all: they are forks of one heap."""
        if self.baseline == 0 and pid is not None:
            self.baseline = resident_bytes(pid) or 0

    def exited(self, status: ExitStatus | None) -> None:
        """The process is gone, and its runs with it."""
        if not self.gone.done():
            self.gone.set_result(status)
        if self._insist is not None:
            self._insist.cancel()
        self._lost()
        # The signal that ended the image stands for theirs: they die by the death of their parent.
        known = status if status is not None and status.signal is not None else None
        for run in list(self._runs.values()):
            self._end_run(run, known, 0, None)

    def _message(self, value: object) -> None:
        match control.image_message(value):
            case control.Loaded() | control.Refused() as answer:
                if self.loaded.done():
                    raise ValueError("a second answer to load")
                self.loaded.set_result(answer)
            case control.RunStarted(run=number, pid=pid):
                if (run := self._runs.get(number)) is not None:
                    run.started(pid)
            case control.RunExited() as end:
                if (run := self._runs.get(end.run)) is not None:
                    peak = end.maxRssKb * 1024
                    grown = peak - self.baseline if self.baseline else 0
                    self._end_run(run, ExitStatus(end.code, end.signal), max(0, grown), end.cpuMs / 1000.0)

    def _end_run(self, run: RunProcess, status: ExitStatus | None, grown: int, cpu: float | None) -> None:
        self._runs.pop(run.number, None)
        run.reaped(status, grown, cpu)

    def _lost(self) -> None:
        """The control stream broke: the image is dead or talks nonsense. Root tells when it is gone."""
        if not self.dead:
            self.dead = True
            self._control.close()
            self.kill()


class RootProcess:
    """The one process images are forked from. Made by `start`, ended by `stop`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, engine: str) -> None:
        self.loop = loop
        self.dead = False
        self.report: control.RootReady | None = None
        self._library = engine_library(engine)
        self._engine = engine
        self._images: dict[int, ImageProcess] = {}
        self._next = 1
        self._hello: asyncio.Future[bool] = loop.create_future()
        self._ended: asyncio.Future[None] = loop.create_future()
        self.printed = 0
        """Bytes of diagnostics so far."""
        self._diagnostics = bytearray()
        self._diagnostics_read = -1
        self._process: subprocess.Popen[bytes] | None = None
        self._control: ControlStream | None = None

    async def start(self, timeout: float) -> None:
        """Start the process and wait up to `timeout` seconds for its first message. StartError if it does not come."""
        try:
            host_end, child_end = socket.socketpair()
            self._diagnostics_read, writing = os.pipe()
        except OSError as error:
            raise StartError(f"the process could not be started: {error.strerror}") from None
        os.set_blocking(self._diagnostics_read, False)
        self.loop.add_reader(self._diagnostics_read, self._read_diagnostics)
        arguments = ["root", self._engine, self._library, _SECCOMP_LIBRARY, str(child_end.fileno()), str(os.getpid())]
        command = [sys.executable, "-I", "-S", str(_BOOTSTRAP), *arguments]
        try:
            # Blocks for the milliseconds of a fork; asyncio's own way would add a watcher thread.
            self._process = subprocess.Popen(  # noqa: ASYNC220
                command,
                stdin=subprocess.DEVNULL,
                stdout=writing,
                stderr=writing,
                env=_ENVIRONMENT,
                cwd="/",
                pass_fds=[child_end.fileno()],
                start_new_session=True,
            )
        except OSError as error:
            host_end.close()
            self._close_diagnostics()
            raise StartError(f"the process could not be started: {error.strerror}") from None
        finally:
            child_end.close()
            os.close(writing)
        self._control = ControlStream(self.loop, host_end, self._message, self._lost)
        try:
            await asyncio.wait([self._hello], timeout=timeout)
        except asyncio.CancelledError:
            self.kill()
            raise
        if self.report is None:
            await self.stop()
            raise StartError(f"the process did not become ready: {self.diagnostics()}".rstrip(": "))

    def kill(self) -> None:
        """End root at once and with it everything forked from it."""
        if self._process is not None:
            self._process.kill()
        self._lost()

    def fork_image(self) -> ImageProcess:
        """A new image process. It waits for `load`. GoneError if root is gone, StartError without descriptors."""
        try:
            image = ImageProcess(self, self._next)
        except OSError as error:
            raise StartError(f"no process could be started: {error.strerror}") from None
        self._next += 1
        self._images[image.number] = image
        if self._control is None or not self._control.send({"type": "image", "image": image.number}, [image.child_end]):
            image.child_end.close()
            image.exited(None)
            self._lost()
            raise GoneError("the root process is gone")
        return image

    def kill_image(self, number: int) -> None:
        """End one image, if it still lives."""
        if self._control is not None and number in self._images:
            self._control.send({"type": "kill", "image": number})

    def diagnostics(self, since: int = 0) -> str:
        """The last of what root and its images have printed, but nothing before byte `since` (see `printed`)."""
        self._read_diagnostics()
        wanted = min(self.printed - since, len(self._diagnostics))
        return self._diagnostics[len(self._diagnostics) - wanted :].decode("utf-8", "replace").strip()

    async def stop(self) -> None:
        """End root and everything forked from it, and wait until root is reaped. May be called twice."""
        for image in list(self._images.values()):
            image.unload()
        waiting = [image.gone for image in self._images.values()]
        if waiting and not self.dead:
            await asyncio.wait(waiting, timeout=_UNLOAD_S)
        self._lost()
        await asyncio.wait([self._ended])

    def _message(self, value: object) -> None:
        match control.root_message(value):
            case control.RootReady() as report:
                self.report = report
                if not self._hello.done():
                    self._hello.set_result(True)
            case control.ImageExited(image=number, code=code, signal=signal):
                if (image := self._images.pop(number, None)) is not None:
                    image.exited(ExitStatus(code, signal))
            case control.ImageStarted():
                pass

    def _lost(self) -> None:
        """The control stream broke, or we close it: root sees its end and kills its process group, itself included."""
        if self.dead:
            return
        self.dead = True
        if self._control is not None:
            self._control.close()
        if not self._hello.done():
            self._hello.set_result(False)
        self._await_end(self.loop.time() + _REAP_S)

    def _await_end(self, deadline: float) -> None:
        """Reap root and tell its images how it ended. It is killed if it does not end by itself."""
        status = None
        if self._process is not None:
            code = self._process.poll()
            if code is None:
                if self.loop.time() > deadline:
                    self._process.kill()
                self.loop.call_later(_POLL_S, self._await_end, deadline)
                return
            status = ExitStatus(code=code) if code >= 0 else ExitStatus(signal=-code)
        for image in list(self._images.values()):
            image.exited(status)
        self._images.clear()
        self._read_diagnostics()
        self._close_diagnostics()
        if not self._ended.done():
            self._ended.set_result(None)

    def _read_diagnostics(self) -> None:
        if self._diagnostics_read < 0:
            return
        try:
            data = os.read(self._diagnostics_read, _PIPE_BYTES)
        except BlockingIOError:
            return
        if data:
            self.printed += len(data)
            self._diagnostics += data
            del self._diagnostics[:-_DIAGNOSTICS_BYTES]
        else:
            self._close_diagnostics()

    def _close_diagnostics(self) -> None:
        if self._diagnostics_read >= 0:
            self.loop.remove_reader(self._diagnostics_read)
            os.close(self._diagnostics_read)
            self._diagnostics_read = -1
