"""The wire to one side: bytes in, messages and errors out, bytes out. It knows no socket, clock or task.

JSON-RPC 2.0 in UTF-8, one object per line. Every line that comes in is untrusted. The numbers of requests are the
wire's own, in both directions: what the far side calls its request stays here and is used again in the answer.
"""

import json
import math
from dataclasses import dataclass
from typing import Any, Final, Literal, NoReturn, TypeAlias

from jsrun.plugs.errors import InvalidLine, LineTooLong, RequestError
from jsrun.plugs.message import CANCEL_REQUEST

SideName: TypeAlias = Literal["client", "agent"]

# A line of 64 MiB holds any file an agent edits; a smaller limit than 64 KiB would refuse ordinary prompts.
LINE_BYTES: Final = 64 * 1024 * 1024
MIN_LINE_BYTES: Final = 64 * 1024
# Deeper than any message of the protocol, and shallow enough for every later step, deep copies included, to recurse.
MAX_DEPTH: Final = 128
# Nobody means a longer number, and CPython refuses to convert those of more than 4,300 digits.
MAX_DIGITS: Final = 4_000

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
INTERNAL_ERROR: Final = -32603
REQUEST_CANCELLED: Final = -32800

_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class Call:
    """A request (`number` is the wire's own name for it) or a notification (`number` is None); `size` in bytes."""

    method: str
    params: Any
    number: int | None
    size: int


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to request `number` of ours: its result, or its error. `number` is None if it answers nothing of ours.

    `size` in bytes.
    """

    number: int | None
    result: Any
    error: RequestError | None
    size: int


@dataclass(frozen=True, slots=True)
class Cancel:
    """The far side cancels its request `number`; None if no such request is open. `size` in bytes."""

    number: int | None
    size: int


@dataclass(frozen=True, slots=True)
class Invalid:
    """A line that is no message: `code` is PARSE_ERROR or INVALID_REQUEST, `reason` a sentence. `size` in bytes."""

    code: int
    reason: str
    size: int


Item: TypeAlias = Call | Answer | Cancel | Invalid
_Id: TypeAlias = int | str | None


class Wire:
    """One side's line. `line_bytes` is how many bytes a line may have, its end not counted.

    ValueError for a limit under 64 KiB.
    """

    def __init__(self, side: SideName, line_bytes: int = LINE_BYTES) -> None:
        if line_bytes < MIN_LINE_BYTES:
            raise ValueError(f"line_bytes must be at least {MIN_LINE_BYTES:,}, not {line_bytes:,}.")
        self.side = side
        self._limit = line_bytes
        self._buffer = bytearray()
        self._searched = 0  # how far the buffer is known to hold no line end
        self._ended = False
        self._too_long = False
        self._next_number = 0
        # Requests of the far side that are not answered yet: our number → its id, and back.
        self._theirs: dict[int, _Id] = {}
        self._numbers: dict[_Id, int] = {}
        # Requests of ours that the far side has not answered yet.
        self._ours: set[int] = set()

    @property
    def open(self) -> int:
        """How many requests of the far side are not answered yet."""
        return len(self._theirs)

    @property
    def asked(self) -> int:
        """How many requests of ours are not answered yet."""
        return len(self._ours)

    def receive(self, data: bytes) -> None:
        """Take bytes from the far side; `next_item` tells what they are."""
        if not self._too_long:
            self._buffer += data

    def end(self) -> None:
        """The far side sends no more; what is left without a line end counts as a line."""
        self._ended = True

    def next_item(self) -> Item | None:
        """The next message, or what is wrong with the next line; None while more bytes are needed.

        LineTooLong once a line has more bytes than it may have, and from then on.
        """
        line = self._next_line()
        if line is None:
            return None
        try:
            return self._item(_read(line), len(line))
        except _Refused as refused:
            return Invalid(refused.code, str(refused), len(line))

    def request(self, method: str, params: Any) -> tuple[int, bytes]:
        """Our number for a new request, and its line. Raises as `notification` does, and then nothing is open."""
        number = self._next_number
        line = self._line({"id": number, "method": method}, params)
        self._next_number += 1
        self._ours.add(number)
        return number, line

    def notification(self, method: str, params: Any) -> bytes:
        """The line of a notification.

        TypeError or ValueError for params that are not JSON, LineTooLong for a line that is too long.
        """
        return self._line({"method": method}, params)

    def result(self, number: int, result: Any) -> bytes:
        """The line that answers request `number` of the far side. Raises as `notification` does; it stays open then."""
        line = self._encode({"jsonrpc": "2.0", "id": self._theirs[number], "result": result})
        self._answered(number)
        return line

    def error(self, number: int, error: RequestError) -> bytes:
        """The line that answers request `number` with an error. Raises as `result` does."""
        line = self._encode({"jsonrpc": "2.0", "id": self._theirs[number], "error": _error(error)})
        self._answered(number)
        return line

    def refusal(self, code: int, reason: str) -> bytes:
        """The line that answers what is no message."""
        return self._encode({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": reason}})

    def cancel(self, number: int) -> bytes:
        """The line that asks the far side to cancel request `number` of ours."""
        return self._line({"method": CANCEL_REQUEST}, {"requestId": number})

    def _answered(self, number: int) -> None:
        del self._numbers[self._theirs.pop(number)]

    def _line(self, members: dict[str, Any], params: Any) -> bytes:
        whole: dict[str, Any] = {"jsonrpc": "2.0", **members}
        if params is not None:
            if not isinstance(params, dict | list):
                raise TypeError(f"The params of a message are an object or a list, not {type(params).__name__}.")
            whole["params"] = params
        return self._encode(whole)

    def _encode(self, value: dict[str, Any]) -> bytes:
        """A value as a line with its end.

        TypeError or ValueError for what is not JSON; LineTooLong, naming the side it comes from, for too many bytes.
        """
        try:
            text = _ENCODER.encode(value)
        except RecursionError as error:
            raise ValueError("The message nests too deeply.") from error
        # Only lone surrogates cannot be encoded, and Python's escape for them is JSON's.
        data = text.encode("utf-8", "backslashreplace")
        if len(data) > self._limit:
            raise LineTooLong("client" if self.side == "agent" else "agent", self._limit)
        return data + b"\n"

    def _next_line(self) -> bytes | None:
        if self._too_long:
            raise LineTooLong(self.side, self._limit)
        at = self._buffer.find(b"\n", self._searched)
        if at < 0:
            self._searched = len(self._buffer)
            if len(self._buffer) > self._limit:
                self._overflow()
            if not self._ended or not self._buffer:
                return None
            at = len(self._buffer)
        if at > self._limit:
            self._overflow()
        line = bytes(self._buffer[:at])
        del self._buffer[: at + 1]
        self._searched = 0
        return line

    def _overflow(self) -> NoReturn:
        self._too_long = True
        self._buffer.clear()
        raise LineTooLong(self.side, self._limit)

    def _item(self, value: dict[str, Any], size: int) -> Item:
        if value.get("jsonrpc") != "2.0":
            raise _Refused(INVALID_REQUEST, 'The member jsonrpc is not "2.0".')
        if "method" not in value:
            return self._answer(value, size)
        method, params = value["method"], value.get("params")
        if not isinstance(method, str):
            raise _Refused(INVALID_REQUEST, "The method is not a text.")
        if params is not None and not isinstance(params, dict | list):
            raise _Refused(INVALID_REQUEST, "The params are neither an object nor a list.")
        if "id" in value:
            if method == CANCEL_REQUEST:
                raise _Refused(INVALID_REQUEST, "A cancel is no request.")
            return Call(method, params, self._opened(_id(value["id"])), size)
        if method == CANCEL_REQUEST:
            return Cancel(self._cancelled(params), size)
        return Call(method, params, None, size)

    def _opened(self, theirs: _Id) -> int:
        if theirs in self._numbers:
            raise _Refused(INVALID_REQUEST, "A request with this id is still open.")
        number = self._next_number
        self._next_number += 1
        self._theirs[number] = theirs
        self._numbers[theirs] = number
        return number

    def _cancelled(self, params: Any) -> int | None:
        if not isinstance(params, dict) or "requestId" not in params:
            raise _Refused(INVALID_REQUEST, "The cancel names no request.")
        return self._numbers.get(_id(params["requestId"]))

    def _answer(self, value: dict[str, Any], size: int) -> Answer:
        if "id" not in value or ("result" not in value and value.get("error") is None):
            raise _Refused(INVALID_REQUEST, "It is neither a request, a notification nor an answer.")
        number = _id(value["id"])
        error = value.get("error")
        failure = None
        if error is not None:
            if (
                not isinstance(error, dict)
                or not _is_code(error.get("code"))
                or not isinstance(error.get("message"), str)
            ):
                raise _Refused(INVALID_REQUEST, "The error of an answer has no code or no message.")
            failure = RequestError(error["code"], error["message"], error.get("data"))
        if not isinstance(number, int) or number not in self._ours:
            # Also a second answer to one request; nobody can be waiting for it.
            return Answer(None, None, None, size)
        self._ours.discard(number)
        return Answer(number, value.get("result") if failure is None else None, failure, size)


class _Refused(InvalidLine):
    """What is wrong with a line, for the answer to it."""

    def __init__(self, code: int, reason: str) -> None:
        self.code = code
        super().__init__(reason)


def _read(line: bytes) -> dict[str, Any]:
    """The object that is a line; _Refused if it is none."""
    try:
        text = line.decode()
    except UnicodeDecodeError:
        raise _Refused(PARSE_ERROR, "The line is not UTF-8.") from None
    try:
        value = _DECODER.decode(text)
    except _Refused:
        raise
    except RecursionError:
        raise _Refused(PARSE_ERROR, "The line nests too deeply.") from None
    except ValueError:
        raise _Refused(PARSE_ERROR, "The line is not JSON.") from None
    if not isinstance(value, dict):
        raise _Refused(INVALID_REQUEST, "The line is not a JSON object.")
    if text.count("{") + text.count("[") > MAX_DEPTH and _depth(value) > MAX_DEPTH:
        raise _Refused(PARSE_ERROR, "The line nests too deeply.")
    return value


def _depth(value: Any) -> int:
    """How many containers are inside each other; one more than MAX_DEPTH stands for any more."""
    depth = 0
    level: list[Any] = [value]
    while level and depth <= MAX_DEPTH:
        depth += 1
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
    return depth


def _int(text: str) -> int:
    _check_digits(text)
    return int(text)


def _float(text: str) -> float:
    _check_digits(text)
    value = float(text)
    if not math.isfinite(value):
        raise _Refused(PARSE_ERROR, "The line holds a number that is not finite.")
    return value


def _constant(text: str) -> NoReturn:
    raise _Refused(PARSE_ERROR, "The line holds a number that is not finite.")


def _check_digits(text: str) -> None:
    if len(text) > MAX_DIGITS and sum(map(str.isdigit, text)) > MAX_DIGITS:
        raise _Refused(PARSE_ERROR, f"The line holds a number of more than {MAX_DIGITS:,} digits.")


def _id(value: Any) -> _Id:
    if value is None or isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise _Refused(INVALID_REQUEST, "The id is neither a number without fraction, a text, nor null.")


def _is_code(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _error(error: RequestError) -> dict[str, Any]:
    shown = {"code": error.code, "message": error.message}
    return shown if error.data is None else {**shown, "data": error.data}


_DECODER: Final = json.JSONDecoder(parse_int=_int, parse_float=_float, parse_constant=_constant)
