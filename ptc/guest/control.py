"""The control stream as seen from inside: framed JSON over a Unix socket, with descriptors beside it.

The peer is the host, which is trusted; the checks here catch a torn stream, not an attacker.
"""

import array
import json
import os
import socket
import struct
from collections import deque
from typing import Any

Message = dict[str, Any]

# One control frame at most, as on the host's side.
MAX_FRAME = 16 * 1024 * 1024
# Read at a time. For more than 128 KiB the C library would map memory for each message, and unmap it.
_CHUNK = 65_536
# No message carries more than two descriptors; room for a few messages read at once.
_ANCILLARY = socket.CMSG_SPACE(16 * 4)


class Control:
    """One end of a control stream. Owns its socket and every descriptor received and not yet taken."""

    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(fileno=fd)
        self._buffer = bytearray()
        self._descriptors: deque[int] = deque()

    def fileno(self) -> int:
        """The descriptor of the stream, for polling."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close the stream and every descriptor nobody took."""
        self._socket.close()
        while self._descriptors:
            os.close(self._descriptors.popleft())

    def send(self, message: Message) -> None:
        """Write one message whole. A host that is gone is not an error here: end-of-file follows."""
        body = json.dumps(message, separators=(",", ":")).encode("ascii")
        try:
            self._socket.sendall(struct.pack(">I", len(body)) + body)
        except (BrokenPipeError, ConnectionResetError):
            return

    def receive(self) -> list[Message] | None:
        """Wait for bytes and return the messages they complete; None at end-of-file. ValueError for a broken stream."""
        try:
            data, ancillary, _flags, _address = self._socket.recvmsg(_CHUNK, _ANCILLARY)
        except ConnectionResetError:
            return None
        for level, kind, payload in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                received = array.array("i")
                received.frombytes(payload[: len(payload) - len(payload) % received.itemsize])
                self._descriptors.extend(received)
        if not data:
            return None
        self._buffer += data
        return self._complete()

    def take_descriptors(self, count: int) -> list[int]:
        """The next `count` descriptors, in the order sent. ValueError if they did not come."""
        if len(self._descriptors) < count:
            raise ValueError("a message came without its descriptors")
        return [self._descriptors.popleft() for _ in range(count)]

    def _complete(self) -> list[Message]:
        messages: list[Message] = []
        at = 0
        while len(self._buffer) - at >= 4:
            (length,) = struct.unpack_from(">I", self._buffer, at)
            if not 0 < length <= MAX_FRAME:
                raise ValueError(f"a control frame of {length} bytes")
            if len(self._buffer) - at - 4 < length:
                break
            message = json.loads(self._buffer[at + 4 : at + 4 + length])
            if not isinstance(message, dict):
                raise ValueError("a control frame that is no object")
            messages.append(message)
            at += 4 + length
        del self._buffer[:at]
        return messages
