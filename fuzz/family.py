"""Root, images and runs as the host holds them, with the ends of their processes in the hands of a fuzzer."""

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Any, Final

from fuzz.health import descriptors
from ptc._control import ControlStream
from ptc._launch import GoneError
from ptc._processes import ImageProcess, RootProcess
from ptc._run_process import RunProcess
from ptc.frames import encode
from ptc.outcome import ExitStatus

__all__ = ["Family"]

_PATIENCE_S: Final = 5.0
_BEGINNING: Final = ("fork", "attach", "fork")
"""What has happened before the first step: one run that somebody follows, one that waits."""


class Listener:
    """The sink of a run: counts what it is told once only."""

    def __init__(self) -> None:
        self.losses = 0
        self.ends: list[ExitStatus | None] = []

    def received(self, data: bytes) -> None:
        assert self.losses == 0, "bytes came after the end of the channel"

    def native(self, data: bytes) -> None:
        pass

    def lost(self) -> None:
        self.losses += 1

    def exited(self, status: ExitStatus | None, grown: int, cpu: float | None) -> None:
        assert grown >= 0 and (cpu is None or cpu >= 0), (grown, cpu)
        self.ends.append(status)

    def writable(self) -> None:
        pass


class Family:
    """A root with an image and its runs. Their processes are sockets that say and close what the steps tell."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._raised: list[Any] = []
        self._loop.set_exception_handler(lambda _loop, context: self._raised.append(context))
        self._descriptors = descriptors()
        self._root = RootProcess(self._loop, "quickjs")
        host_end, self._root_end = _pair()
        self._root._control = ControlStream(self._loop, host_end, self._root._message, self._root._lost)
        self._image: ImageProcess = self._root.fork_image()
        self._image_end = socket.socket(fileno=socket.dup(self._image.child_end.fileno()))
        self._image_end.setblocking(False)
        self._image.load(encode({"type": "load"}))
        self._runs: list[RunProcess] = []
        self._run_ends: list[socket.socket] = []
        self._listeners: dict[int, Listener] = {}

    async def begin(self) -> None:
        """Start what steps are about."""
        for action in _BEGINNING:
            await self.act(action, 0, b"")

    async def act(self, action: str, number: int, data: bytes) -> None:
        """One step of a process or of the host: `root says`, `image closes`, `fork`, `kill` and so on."""
        run = self._runs[number % len(self._runs)] if self._runs else None
        channel = self._run_ends[number % len(self._run_ends)] if self._run_ends else None
        actions: dict[str, Callable[[], object]] = {
            "root says": lambda: _say(self._root_end, data),
            "image says": lambda: _say(self._image_end, data),
            "root closes": self._root_end.close,
            "image closes": self._image_end.close,
            "kill image": self._image.kill,
            "unload": self._image.unload,
        }
        if channel is not None:
            actions |= {"run says": lambda: _say(channel, data), "run closes": channel.close}
        if run is not None:
            actions |= {
                "attach": lambda: self._attach(run),
                "release": lambda: self._release(run),
                "kill": run.kill,
            }
        if action == "fork":
            await self._fork()
        elif action in actions:
            actions[action]()
        for _ in range(3):
            await asyncio.sleep(0)
        self._take_descriptors()

    async def end(self) -> None:
        """Root dies. Whatever was said before: all end, each end is told once, nothing was raised or stays open."""
        self._root_end.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_S):
                await self._image.gone
        for run in self._runs:
            if run.number not in self._listeners:
                self._attach(run)
        for channel in (self._image_end, *self._run_ends):
            channel.close()
        deadline = self._loop.time() + _PATIENCE_S
        while self._problems() and self._loop.time() < deadline:  # noqa: ASYNC110 - many conditions, no event
            await asyncio.sleep(0)
        assert not self._problems(), self._problems()
        assert not self._raised, self._raised

    def _problems(self) -> list[str]:
        found = []
        if not (self._root.dead and self._image.dead and self._image.gone.done()):
            found.append("root or image lives on")
        for run in self._runs:
            listener = self._listeners[run.number]
            if not run.ended or not run.ready.done():
                found.append(f"run {run.number} lives on")
            if listener is not _RELEASED and (listener.losses, len(listener.ends)) != (1, 1):
                found.append(f"run {run.number} was told {listener.losses} losses and the ends {listener.ends}")
        if descriptors() != self._descriptors:
            found.append(f"{descriptors() - self._descriptors} descriptors are left")
        return found

    async def _fork(self) -> None:
        try:
            self._runs.append(await self._image.fork(spare=False))
        except GoneError:
            assert self._image.dead, "the image is said to be gone, and lives"

    def _attach(self, run: RunProcess) -> None:
        if run.number not in self._listeners:
            listener = self._listeners[run.number] = Listener()
            run.attach(listener)

    def _release(self, run: RunProcess) -> None:
        self._listeners[run.number] = _RELEASED  # it hears no more
        run.release()

    def _take_descriptors(self) -> None:
        """What the host sends to root and image: ends of channels are kept, all else is closed."""
        for end in (self._root_end, self._image_end):
            with contextlib.suppress(OSError):
                while True:
                    data, received, _flags, _address = socket.recv_fds(end, 65_536, 16)
                    if end is self._image_end and len(received) == 2:
                        channel = socket.socket(fileno=received[0])
                        channel.setblocking(False)
                        self._run_ends.append(channel)
                        del received[0]
                    for descriptor in received:
                        socket.close(descriptor)
                    if not data:
                        break


_RELEASED: Final = Listener()


def _pair() -> tuple[socket.socket, socket.socket]:
    host, peer = socket.socketpair()
    peer.setblocking(False)
    return host, peer


def _say(end: socket.socket, data: bytes) -> None:
    with contextlib.suppress(OSError):  # it is closed here, or the host has heard enough
        end.send(data)
