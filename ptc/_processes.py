"""Root and images as the host holds them: started, told apart by how they ended, never left behind."""

import asyncio
import os
import socket
import subprocess
from collections.abc import Mapping
from typing import Any

from ptc._control import ControlStream
from ptc._launch import Diagnostics, GoneError, StartError, engine_library, launch
from ptc._memory import resident_bytes
from ptc._run_process import PIPE_BYTES, REAP_S, RunProcess
from ptc.outcome import ExitStatus
from ptc.protocol import control

_POLL_S = 0.005
# An image that is asked to ends at once; root waits for it so long, that it may be reaped.
_UNLOAD_S = 1.0


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

    def load(self, frame: bytes) -> None:
        """Send a `load` frame. The answer comes as `loaded`, or as `gone` if the process dies of it."""
        self._child_end.close()
        self._control.send_frame(frame)

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
        run.let_go()
        await run.connect()
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
            self._insist = self.loop.call_later(REAP_S, self._root.kill)

    def unload(self) -> None:
        """Ask the image to end its runs and itself."""
        self._control.send({"type": "unload"})

    def measure(self, pid: int | None) -> None:
        """Take the size of the first ready run as that of all: they are forks of one heap."""
        if self.baseline == 0 and pid is not None:
            self.baseline = resident_bytes(pid) or 0

    def exited(self, status: ExitStatus | None) -> None:
        """The process is gone, and its runs with it."""
        self.dead = True
        self._control.finish()
        if not self.gone.done():
            self.gone.set_result(status)
        if self._insist is not None:
            self._insist.cancel()
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
        self._diagnostics = Diagnostics()
        self._diagnostics_read = -1
        self._process: subprocess.Popen[bytes] | None = None
        self._control: ControlStream | None = None

    async def start(self, timeout: float) -> None:
        """Start the process and wait up to `timeout` seconds for its first message. StartError if it does not come."""
        try:
            self._diagnostics_read, writing = os.pipe()
        except OSError as error:
            raise StartError(f"the process could not be started: {error.strerror}") from None
        try:
            host_end, child_end = socket.socketpair()
        except OSError as error:
            os.close(writing)
            self._close_diagnostics()
            raise StartError(f"the process could not be started: {error.strerror}") from None
        os.set_blocking(self._diagnostics_read, False)
        self.loop.add_reader(self._diagnostics_read, self._read_diagnostics)
        try:
            descriptors = [child_end.fileno()]
            self._process = launch("root", self._engine, self._library, descriptors, output=writing)
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

    @property
    def printed(self) -> int:
        """Bytes of diagnostics so far, those included that nobody has read yet."""
        self._read_diagnostics()
        return self._diagnostics.size

    async def describe(self, timeout: float) -> Mapping[str, Any]:
        """What this machine has, as root told when it started."""
        assert self.report is not None
        return self.report.model_dump(exclude={"type"})

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
        return self._diagnostics.text(since)

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
        self._await_end(self.loop.time() + REAP_S)

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
            data = os.read(self._diagnostics_read, PIPE_BYTES)
        except BlockingIOError:
            return
        if data:
            self._diagnostics.add(data)
        else:
            self._close_diagnostics()

    def _close_diagnostics(self) -> None:
        if self._diagnostics_read >= 0:
            self.loop.remove_reader(self._diagnostics_read)
            os.close(self._diagnostics_read)
            self._diagnostics_read = -1
