"""Bytes to frames and back. Pure: no stream is read or written here.

A frame is a 4-byte big-endian length followed by that many bytes of JSON in UTF-8. We write ASCII only and accept any
strict UTF-8. Everything that arrives is untrusted: a program can write to its own channel.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Final, NoReturn

from ptc.errors import FrameError
from ptc.wire import BAD_NUMBER, MAX_SAFE_INTEGER, BadNumber, number_text

__all__ = ["BAD_NUMBER", "HEADER_BYTES", "BadNumber", "FrameError", "FrameReader", "encode", "frame", "loads"]

HEADER_BYTES: Final = 4

_LITERAL_CHARS: Final = 400
"""The longest number literal: no double needs more than 309 digits, and `int()` is quick at this length."""

_SAFE_CHARS: Final = 15
"""An integer literal of so few characters is always within ±(2**53 - 1)."""


def encode(message: Mapping[str, object]) -> bytes:
    """The frame of a message of plain JSON data."""
    return frame(json.dumps(message, ensure_ascii=True, allow_nan=False, separators=(",", ":")))


def frame(text: str | bytes) -> bytes:
    """The frame whose body is `text`, which is already JSON (ASCII if a str)."""
    body = text.encode("ascii") if isinstance(text, str) else text
    return len(body).to_bytes(HEADER_BYTES, "big") + body


class FrameReader:
    """Cuts a byte stream into bodies. Holds received bytes only: an announced length allocates nothing.

    `next_frame` raises `FrameError` as soon as a header is complete and its length is 0 or above `max_bytes`; the
    frames before it come out first, and nothing comes after it.
    """

    __slots__ = ("_buffer", "_max_bytes", "_start")

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._buffer = bytearray()
        self._start = 0  # where the next frame begins; what lies before has been handed out

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Adds bytes, in any split."""
        self._buffer += data

    def next_frame(self) -> bytes | None:
        """The body of the next complete frame, or None until more bytes come."""
        buffer, start = self._buffer, self._start
        body = start + HEADER_BYTES
        if len(buffer) < body:
            self._compact()
            return None
        length = int.from_bytes(buffer[start:body], "big")
        if not 0 < length <= self._max_bytes:
            raise FrameError(f"frame of {length} bytes; 1 to {self._max_bytes} are allowed")
        end = body + length
        if len(buffer) < end:
            self._compact()
            return None
        with memoryview(buffer) as view:
            found = bytes(view[body:end])
        if end == len(buffer):
            buffer.clear()
            self._start = 0
        else:
            self._start = end
        return found

    def _compact(self) -> None:
        """Drop what has been handed out; done once all complete frames are, so that no byte is moved often."""
        if self._start:
            del self._buffer[: self._start]
            self._start = 0

    def __iter__(self) -> Iterator[bytes]:
        while (body := self.next_frame()) is not None:
            yield body


def loads(body: bytes) -> object:
    """The JSON value of a body. Raises `FrameError` unless it is one strict JSON text in strict UTF-8.

    Refused: a byte-order mark, `NaN` and `Infinity`, a key that occurs twice in one object, nesting beyond the parser,
    a number literal of more than 400 characters. A number is an int within ±(2**53 - 1), else a float; a literal that
    no JavaScript program can have written becomes `BAD_NUMBER`, for its reader to refuse.
    """
    try:
        return _DECODER.decode(body.decode())
    except UnicodeDecodeError as error:
        raise FrameError(f"body is not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise FrameError(f"body is not JSON at character {error.pos}: {error.msg}") from None
    except RecursionError:
        raise FrameError("body is nested too deeply") from None


def _parse_int(literal: str) -> int | float | BadNumber:
    if len(literal) <= _SAFE_CHARS:
        return int(literal) if literal != "-0" else BAD_NUMBER
    _check_length(literal)
    value = int(literal)
    if -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER:
        return value
    # JavaScript has only the double; the literal stands if it is what JavaScript prints for it.
    double = float(literal)
    return double if number_text(double) == literal else BAD_NUMBER


def _parse_float(literal: str) -> float | BadNumber:
    _check_length(literal)
    value = float(literal)
    if value in (float("inf"), float("-inf")) or (value == 0.0 and literal.startswith("-")):
        return BAD_NUMBER
    return value


def _check_length(literal: str) -> None:
    if len(literal) > _LITERAL_CHARS:
        raise FrameError(f"number literal of {len(literal)} characters; {_LITERAL_CHARS} are allowed")


def _parse_constant(literal: str) -> NoReturn:
    raise FrameError(f"body is not JSON: {literal}")


def _parse_object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        name = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise FrameError(f"key {json.dumps(name[:80])[:80]} occurs twice in one object")
    return members


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_parse_object,
    parse_int=_parse_int,
    parse_float=_parse_float,
    parse_constant=_parse_constant,
)
