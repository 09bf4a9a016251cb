"""Spawned runs as the host holds them: each a process of its own that loads the program, then runs it once.

The same outside as root and images of `ptc._processes`, where a fork is not to be had.
"""

import asyncio
import contextlib
import os
import signal
import socket
from collections.abc import Mapping
from typing import Any

from ptc import frames
from ptc._control import ControlStream
from ptc._launch import Diagnostics, GoneError, StartError, engine_library, launch
from ptc._memory import resident_bytes
from ptc._run_process import RunProcess
from ptc.outcome import ExitStatus
from ptc.protocol import control

# Where the kernel does not tell that a process has ended, it is asked.
_POLL_S = 0.01
# A loaded process nobody uses is given back after this long.
_IDLE_S = 60.0
# The program of the process that only tells what this machine has.
_NOTHING = frames.encode({
    "type": "load",
    "data": {"code": "", "namespaces": [], "maxOutputBytes": 4},
    "form": "async",
    "name": "program.js",
    "setup": "",
    "inputName": None,
    "limits": {"memory": 128 * 1024 * 1024, "cpu": 10.0, "stack": 1024 * 1024},
})  # fmt: skip


class Spawner:
    """Makes images whose runs are spawned. It has no process of its own."""

    def __init__(self, loop: asyncio.AbstractEventLoop, engine: str) -> None:
        self.loop = loop
        self.engine = engine
        self.library = engine_library(engine)
        self.dead = False
        self.report: control.RootReady | None = None
        self._diagnostics = Diagnostics()
        self._images: set[SpawnedImage] = set()

    async def start(self, timeout: float) -> None:
        """Nothing is needed before a program is loaded."""

    async def describe(self, timeout: float) -> Mapping[str, Any]:
        """What this machine has, as a process that loads an empty program tells it. StartError if none can."""
        image = self.fork_image()
        image.load(_NOTHING)
        try:
            answers: set[asyncio.Future[Any]] = {image.loaded, image.gone}
            await asyncio.wait(answers, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if not image.loaded.done() or self.report is None:
                raise StartError(f"the process did not become ready: {self.diagnostics()}".rstrip(": "))
            answer = image.loaded.result()
        finally:
            image.kill()
            await image.gone
        rlimits = answer.isolation.rlimits if isinstance(answer, control.Loaded) else []
        return {**self.report.model_dump(exclude={"type"}), "rlimits": rlimits}

    def fork_image(self) -> "SpawnedImage":
        """A new image, with the process it will be loaded into. StartError if there can be none."""
        image = SpawnedImage(self)
        self._images.add(image)
        return image

    def kill(self) -> None:
        """End every process."""
        for image in list(self._images):
            image.kill()

    @property
    def printed(self) -> int:
        """Bytes of diagnostics so far."""
        return self._diagnostics.size

    def note(self, printed: bytes) -> None:
        """Something was printed while a program was loaded."""
        self._diagnostics.add(printed)

    def diagnostics(self, since: int = 0) -> str:
        """The last of what was printed while programs were loaded, but nothing before byte `since`."""
        return self._diagnostics.text(since)

    def forget(self, image: "SpawnedImage") -> None:
        """All processes of the image are gone."""
        self._images.discard(image)

    async def stop(self) -> None:
        """End every process and wait until they are reaped."""
        self.dead = True
        images = list(self._images)
        self.kill()
        for image in images:
            await image.gone


class SpawnedImage:
    """A program and the processes it is loaded into. The first one answers for all and then waits for a run."""

    def __init__(self, spawner: Spawner) -> None:
        self.loop = spawner.loop
        self.spawner = spawner
        self.dead = False
        self.loaded: asyncio.Future[control.Loaded | control.Refused] = self.loop.create_future()
        self.gone: asyncio.Future[ExitStatus | None] = self.loop.create_future()
        self._load_frame = b""
        self._processes: set[SpawnedProcess] = set()
        self._next = 1
        self._idle: asyncio.TimerHandle | None = None
        self._first: SpawnedProcess | None = self._spawn()
        """Not given to any run yet."""

    def load(self, frame: bytes) -> None:
        """Send a `load` frame to the first process. The answer comes as `loaded`, or as `gone` if it dies of it."""
        self._load_frame = frame
        if self._first is not None:
            self._first.load(frame)
            self._idle = self.loop.call_later(_IDLE_S, self._drop_first)

    async def fork(self, *, spare: bool) -> RunProcess:
        """A process that loads the program and waits to run it. GoneError after the end, StartError if it cannot be."""
        if self.dead:
            raise GoneError("the image is gone")
        process, self._first = self._first, None
        if process is None or process.dead:
            process = self._spawn()
            process.load(self._load_frame)
        await process.begin(spare)
        return process.run

    def kill(self) -> None:
        """End every process."""
        self._end(None)
        for process in list(self._processes):
            process.kill()

    def unload(self) -> None:
        """End every process: there is nothing to be asked first."""
        self.kill()

    # --- what the processes tell ---

    def answered(self, process: "SpawnedProcess", answer: control.Loaded | control.Refused) -> None:
        """A process has loaded the program or refused it."""
        if not self.loaded.done():
            self.loaded.set_result(answer)
            if isinstance(answer, control.Refused):
                self._end(None)

    def ended(self, process: "SpawnedProcess", status: ExitStatus | None) -> None:
        """A process is gone and reaped."""
        self._processes.discard(process)
        if process is self._first:
            self._first = None
        if self.dead or not self.loaded.done():
            self._end(status)

    def _end(self, status: ExitStatus | None) -> None:
        """No more runs. With the last process the image is gone; its status stands for all."""
        self.dead = True
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        if not self._processes and not self.gone.done():
            self.gone.set_result(status)
            self.spawner.forget(self)

    def _spawn(self) -> "SpawnedProcess":
        process = SpawnedProcess(self, self._next)
        self._next += 1
        self._processes.add(process)
        return process

    def _drop_first(self) -> None:
        self._idle = None
        process, self._first = self._first, None
        if process is not None:
            process.kill()


class SpawnedProcess:
    """One process, from its start to its end. To its `run` it is the image."""

    def __init__(self, image: SpawnedImage, number: int) -> None:
        self.loop = image.loop
        self.dead = False
        self.baseline = 0
        self._image = image
        self._cpu_before = 0.0
        self._pidfd = -1
        try:
            host_end, child_end = socket.socketpair()
        except OSError as error:
            raise StartError(f"no process could be started: {error.strerror}") from None
        try:
            self.run = RunProcess(self, number)
            channel, native = self.run.descriptors
            numbers = [child_end.fileno(), channel.fileno()]
            spawner = image.spawner
            self._process = launch("spawned", spawner.engine, spawner.library, numbers, output=native)
        except OSError as error:
            host_end.close()
            if hasattr(self, "run"):
                self.run.discard()
            raise StartError(f"no process could be started: {error.strerror}") from None
        finally:
            child_end.close()
        self.pid = self._process.pid
        self.run.let_go()
        self._control = ControlStream(self.loop, host_end, self._message, self._lost)
        self._watch()

    def load(self, frame: bytes) -> None:
        """Send the program: the frame of a `load` message."""
        self._control.send_frame(frame)

    async def begin(self, spare: bool) -> None:
        """Have it become a run as soon as it has loaded. What it printed until then is not the run's."""
        self._control.send({"type": "run", "run": self.run.number, "spare": spare})
        await self.run.connect()

    def kill(self) -> None:
        """End the process at once."""
        if not self.run.ended:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)

    def kill_run(self, _number: int) -> None:
        """End the process at once."""
        self.kill()

    def measure(self, pid: int | None) -> None:
        """Its size now, ready to run, is what its growth counts from."""
        if pid is not None:
            self.baseline = resident_bytes(pid) or 0

    def _message(self, value: object) -> None:
        match control.spawned_message(value):
            case control.RootReady() as report:
                self._image.spawner.report = report
            case control.Loaded() | control.Refused() as answer:
                self._image.spawner.note(self.run.take_native())
                self._image.answered(self, answer)
            case control.RunStarted() as started:
                self._cpu_before = started.cpuMs / 1000.0
                self._control.close()  # it has closed its end as well
                self.run.started(self.pid)

    def _lost(self) -> None:
        """The control stream broke before the run began: the process is dead, or talks nonsense."""
        self.dead = True
        self.kill()

    # --- its end ---

    def _watch(self) -> None:
        if hasattr(os, "pidfd_open"):
            with contextlib.suppress(OSError):
                self._pidfd = os.pidfd_open(self.pid)
                self.loop.add_reader(self._pidfd, self._reap)
                return
        self.loop.call_later(_POLL_S, self._poll)

    def _end_group(self) -> None:
        """End what a process that has ended may have started: it led a group of its own.

        Before it is reaped, for until then its number, which is that of the group, is nobody else's. ChildProcessError
        if it has been reaped.
        """
        if not hasattr(os, "waitid"):
            return
        ended = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    def _poll(self) -> None:
        self._reap()
        if not self.run.ended:
            self.loop.call_later(_POLL_S, self._poll)

    def _reap(self) -> None:
        status: ExitStatus | None = None
        cpu: float | None = None
        grown = 0
        try:
            self._end_group()
            pid, raw, usage = os.wait4(self.pid, os.WNOHANG)
        except ChildProcessError:  # somebody else in this program waits for children that are not theirs
            self._process.returncode = 0
        else:
            if pid == 0:
                return
            self._process.returncode = os.waitstatus_to_exitcode(raw)
            code = self._process.returncode
            status = ExitStatus(code, None) if code >= 0 else ExitStatus(None, -code)
            cpu = max(0.0, usage.ru_utime + usage.ru_stime - self._cpu_before)
            # Not the peak the system tells of: that counts from before the process became ours, as a copy of this one.
            grown = self.run.peak
        if self._pidfd >= 0:
            self.loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1
        self.dead = True
        self._control.finish()
        if not self.run.is_connected:  # it died before it could become a run
            self._image.spawner.note(self.run.take_native())
            self.run.discard()
        self.run.reaped(status, grown, cpu)
        self._image.ended(self, status)
