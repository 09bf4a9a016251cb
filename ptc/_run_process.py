"""The process of one run as the host holds it, however it was made: its channel, its native output, its end."""

import asyncio
import os
import socket
from collections.abc import Callable
from typing import Protocol

from ptc.limits import NATIVE_OUTPUT_BYTES
from ptc.outcome import ExitStatus

# An honest run exits by itself after `done`; a dishonest one gets this long.
_AFTER_DONE_S = 0.1
# A killed process is gone and reaped within milliseconds. If nobody has told so after this long, whoever should have
# told is taken to hang and is killed in its turn: the image of a run, the root of an image.
REAP_S = 2.0
# The channel of a process that is gone ends as soon as its last bytes are read, unless something else holds it open.
_LAST_BYTES_S = 1.0
# Native output is read in pieces of a pipe's size, one for each turn of the loop: whoever prints for ever must not
# keep the loop for ever.
PIPE_BYTES = 65_536
# An honest run says 30 bytes before it is booted.
_BEFORE_BOOT_BYTES = 65_536


class RunSink(Protocol):
    """Who hears of one run's process. `lost` comes once, after all bytes; `exited` comes once, before or after that."""

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


class RunOwner(Protocol):
    """What has made the process of a run and tells of its end: its image, or what started it alone."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop of it all."""

    @property
    def dead(self) -> bool:
        """The process cannot be alive any more."""

    @property
    def baseline(self) -> int:
        """Resident bytes of the process when it had only said `ready`; 0 if not known."""

    def measure(self, pid: int | None) -> None:
        """The process is ready: take its baseline."""

    def kill_run(self, number: int) -> None:
        """End the process of this run."""

    def kill(self) -> None:
        """The end of the process has not been told in time: end whatever should have told it."""


class RunProcess(asyncio.Protocol):
    """The process of one run. It keeps what arrives until somebody attaches, so a waiting run needs no reader."""

    def __init__(self, image: RunOwner, number: int) -> None:
        self.image = image
        self.number = number
        self.pid: int | None = None
        self.writing = True
        """False while the channel is full."""
        self.ended = False
        """The process is gone."""
        self.peak = 0
        """The most bytes the process was seen to have grown by."""
        self.is_connected = False
        """The channel is being read."""
        self.ready: asyncio.Future[bool] = image.loop.create_future()
        """True once its first bytes are here and its process id is known, False if it died first."""
        self._sink: RunSink | None = None
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._native = bytearray()
        self._lost = False
        self._exit: tuple[ExitStatus | None, int, float | None] | None = None
        self._host_end, self._child_end = socket.socketpair()
        try:
            self._native_read, self._native_write = os.pipe()
        except OSError:
            self._host_end.close()
            self._child_end.close()
            raise
        self._timer: asyncio.TimerHandle | None = None
        """What is done if the process does not do it in time: die, be reaped, let go of its channel."""

    def let_go(self) -> None:
        """Whoever starts the process has the other ends, so ours can go. Native output is read from here on."""
        self._close_child_ends()
        os.set_blocking(self._native_read, False)
        self.image.loop.add_reader(self._native_read, self._read_native)

    async def connect(self) -> None:
        """Start reading the channel."""
        self.is_connected = True
        await self.image.loop.create_connection(lambda: self, sock=self._host_end)

    def discard(self) -> None:
        """Close what is open of a process that was never connected."""
        if not self.is_connected:
            self._host_end.close()
        self._close_child_ends()
        self._close_native()

    def take_native(self) -> bytes:
        """What has been printed before anybody attached. It will not be delivered."""
        self._read_native()
        printed, self._native = bytes(self._native), bytearray()
        return printed

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
            self._after(REAP_S, self.image.kill)

    def release(self) -> None:
        """The run is over: close the channel, and see to it that the process ends. The sink hears no more."""
        self._sink = None
        self._close_channel()
        if not self.ended:
            self._after(_AFTER_DONE_S, self.kill)

    def grown(self, resident: int) -> int:
        """By how many bytes the process, of this resident size now, has grown since it was ready."""
        grown = max(0, resident - self.image.baseline)
        self.peak = max(self.peak, grown)
        return grown

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
            data = os.read(self._native_read, PIPE_BYTES)
        except BlockingIOError:
            return
        if not data:
            self._close_native()
        elif self._sink is not None:
            self._sink.native(data)
        elif len(self._native) <= NATIVE_OUTPUT_BYTES:
            self._native += data

    def _close_child_ends(self) -> None:
        self._child_end.close()
        if self._native_write >= 0:
            os.close(self._native_write)
            self._native_write = -1

    def _close_native(self) -> None:
        if self._native_read >= 0:
            self.image.loop.remove_reader(self._native_read)
            os.close(self._native_read)
            self._native_read = -1
