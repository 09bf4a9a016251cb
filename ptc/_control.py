"""The host's end of a control stream: checked frames in, frames with descriptors out, never blocking the loop."""

import asyncio
import contextlib
import socket
from collections import deque
from collections.abc import Callable, Sequence

from ptc import frames
from ptc.errors import PtcError
from ptc.limits import CONTROL_FRAME_BYTES

_CHUNK = 262_144


class ControlStream:
    """Owns one non-blocking socket.

    `on_message` gets the parsed JSON of each frame and raises ValueError for one that is not valid; `on_lost` is called
    once, when the peer is gone or has sent something that is no frame or no valid message.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        on_message: Callable[[object], None],
        on_lost: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._socket = sock
        self._on_message = on_message
        self._on_lost = on_lost
        self._reader = frames.FrameReader(CONTROL_FRAME_BYTES)
        self._unsent: deque[tuple[bytes, tuple[int, ...]]] = deque()
        self._closed = False
        sock.setblocking(False)
        loop.add_reader(sock.fileno(), self._readable)

    def send(self, message: dict[str, object], descriptors: Sequence[socket.socket | int] = ()) -> bool:
        """Send one message. The descriptors are duplicated at once, so the caller may close its own.

        False if the peer is known to be gone.
        """
        return self.send_frame(frames.encode(message), descriptors)

    def send_frame(self, data: bytes, descriptors: Sequence[socket.socket | int] = ()) -> bool:
        """The same with a message that has been made a frame."""
        if self._closed:
            return False
        # Duplicates, because a full socket delays the sending past the caller's own closing.
        numbers = [d if isinstance(d, int) else d.fileno() for d in descriptors]
        if self._unsent:
            self._unsent.append((data, tuple(socket.dup(n) for n in numbers)))
            return True
        sent = self._try(data, numbers)
        if sent < 0:
            return False
        if sent < len(data):
            kept = tuple(socket.dup(n) for n in numbers) if sent == 0 else ()
            self._unsent.append((data[sent:], kept))
            self._loop.add_writer(self._socket.fileno(), self._writable)
        return True

    def finish(self) -> None:
        """The peer's process has ended: hear what it still said, then close. `on_lost` is not called.

        Its end is told by another way, and may be heard of before its last words.
        """
        if self._closed:
            return
        with contextlib.suppress(OSError, ValueError, PtcError):
            self._receive(self._socket.recv(_CHUNK))  # more than a socket holds
        self.close()

    def close(self) -> None:
        """Close the stream; `on_lost` is not called."""
        if self._closed:
            return
        self._closed = True
        self._loop.remove_reader(self._socket.fileno())
        self._loop.remove_writer(self._socket.fileno())
        self._socket.close()
        for _data, kept in self._unsent:
            for fd in kept:
                socket.close(fd)
        self._unsent.clear()

    def _try(self, data: bytes, numbers: Sequence[int]) -> int:
        """Bytes sent, 0 if the socket is full, -1 if the peer is gone."""
        try:
            if numbers:
                return socket.send_fds(self._socket, [data], list(numbers))
            return self._socket.send(data)
        except BlockingIOError:
            return 0
        except OSError:
            return -1

    def _writable(self) -> None:
        while self._unsent:
            data, kept = self._unsent[0]
            sent = self._try(data, kept)
            if sent == 0:
                return
            self._unsent.popleft()
            for fd in kept:
                socket.close(fd)
            if sent < 0:
                self._lose()
                return
            if sent < len(data):
                self._unsent.appendleft((data[sent:], ()))
                return
        self._loop.remove_writer(self._socket.fileno())

    def _readable(self) -> None:
        try:
            data = self._socket.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lose()
            return
        try:
            self._receive(data)
        except (ValueError, PtcError):
            self._lose()

    def _receive(self, data: bytes) -> None:
        self._reader.feed(data)
        while (body := self._reader.next_frame()) is not None:
            self._on_message(frames.loads(body))
            if self._closed:
                return

    def _lose(self) -> None:
        if not self._closed:
            self.close()
            self._on_lost()
