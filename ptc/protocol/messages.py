"""The messages of a run's channel, as frozen strict models.

What comes from a program is validated with `Ready`, `Call`, `Log`, `OutputLimit` and `Done`: members not named here are
ignored and never copied. What goes to a program is built by `boot_frame`, `reply_frame` and `failed_reply_frame`; the
models `Boot` and `Reply` say what those frames hold, for tests and for other hosts.
"""

import json
from bisect import bisect_right
from collections.abc import Mapping
from json.encoder import encode_basestring_ascii
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ptc.errors import NotJson, UsageError
from ptc.frames import frame
from ptc.limits import FAILURE_TEXT_CHARS, Limits
from ptc.outcome import UNSET, Level, Unset
from ptc.plain import plain_text
from ptc.wire import WIRE_VERSION, encode

__all__ = [
    "Boot",
    "BootLimits",
    "Call",
    "Done",
    "DoneError",
    "FailedReply",
    "Log",
    "OutputLimit",
    "ProgramBootData",
    "Ready",
    "Reply",
    "boot_frame",
    "cut_text",
    "failed_reply_frame",
    "problem",
    "reply_frame",
    "shown",
    "shown_type",
]

# Where a member may be absent but not null, `Unset` stands for absent: strict validation makes it of no JSON value.
_SHOWN_CHARS: Final = 80
"""As much of a text that a program sent is repeated in a message about it."""

_Natural: TypeAlias = Annotated[int, Field(ge=0)]
_Positive: TypeAlias = Annotated[int, Field(ge=1)]


class _Incoming(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="ignore")


class Ready(_Incoming):
    """The first message of a run. `wire` is the version of wire values it speaks."""

    type: Literal["ready"]
    wire: Annotated[int, Field(ge=WIRE_VERSION, le=WIRE_VERSION)] = WIRE_VERSION


class Call(_Incoming):
    """A call of a host function. `args` are the tokens of its one argument, not yet looked at."""

    type: Literal["call"]
    id: int
    global_: Annotated[str, Field(alias="global")]
    name: str
    args: Any = UNSET


class Log(_Incoming):
    """One console entry. `cut`: characters the guest left out."""

    type: Literal["log"]
    text: str
    level: Level = "log"
    cut: _Natural = 0


class OutputLimit(_Incoming):
    """The guest's own ledger is full."""

    type: Literal["output-limit"]


class Place(_Incoming):
    """Where an error came from, from 1, column in code points."""

    line: _Positive
    column: _Positive


class DoneError(_Incoming):
    """Why the program failed. Other kinds are seen by the host alone, so a program may not claim them."""

    kind: Literal["exception", "invalid-output", "output-limit", "stuck"]
    message: str
    at: Place | Unset = UNSET
    stack: str | Unset = UNSET


class Done(_Incoming):
    """The end of the program: an error, or the tokens of its value, or neither."""

    type: Literal["done"]
    value: Any = UNSET
    error: DoneError | Unset = UNSET
    cpuMs: Annotated[float, Field(ge=0)] | Unset = UNSET


class _Outgoing(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


class ErrorClassDeclaration(_Outgoing):
    """The class of a namespace's failed calls."""

    name: str
    memberNameProperty: str


class NamespaceDeclaration(_Outgoing):
    """A namespace by the names of its functions."""

    global_: Annotated[str, Field(alias="global")]
    names: list[str]
    errorClass: ErrorClassDeclaration | None = None


class ProgramBootData(_Outgoing):
    """The program. `code` and `namespaces` are empty for a run that was forked with them."""

    code: str
    namespaces: list[NamespaceDeclaration]
    maxOutputBytes: _Positive


class BootLimits(_Outgoing):
    """The limits the guest keeps itself. `timeoutMs`, None for none, sets the run's own backstop timer."""

    maxPendingCalls: _Positive
    maxMessageBytes: _Positive
    maxValueTokens: _Positive
    maxLogChars: _Positive
    maxLogEntries: _Positive
    timeoutMs: float | None


class Boot(_Outgoing):
    """The first frame to a run, sent once. The input, if any, is `inputJson` (see `ptc.plain`) or `input`, tokens."""

    type: Literal["boot"]
    data: ProgramBootData
    limits: BootLimits
    input: Any = UNSET
    inputJson: Any = UNSET


class Reply(_Outgoing):
    """The good answer to one call: either `json`, a plain value (see `ptc.plain`), or `value`, tokens."""

    type: Literal["reply"]
    id: _Positive
    ok: Literal[True]
    value: Any = UNSET
    json_: Any = Field(default=UNSET, alias="json")


class FailedReply(_Outgoing):
    """The failed answer to one call: an error of the program, which may catch it."""

    type: Literal["reply"]
    id: _Positive
    ok: Literal[False]
    message: str


def problem(error: ValidationError) -> str:
    """What is wrong with a message, without any of its data."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    names = [str(name) for name in first["loc"] if name in _MEMBERS]
    return f"{'.'.join(names) or 'message'}: {first['msg']}"


# A location names the branches of a union too; only members of a message are worth showing.
_MEMBERS: Final = frozenset(
    field.alias or name
    for model in (
        Ready,
        Call,
        Log,
        Done,
        DoneError,
        Place,
        ProgramBootData,
        NamespaceDeclaration,
        ErrorClassDeclaration,
    )
    for name, field in model.model_fields.items()
)


def boot_frame(data: Mapping[str, object], input: object, limits: Limits, timeout: float | None) -> bytes:
    """The boot frame. `input` may be `UNSET`; `timeout` is in seconds, None for none.

    Raises `UsageError` if `data` is not the three members of `ProgramBootData`, if `input` has no wire form (with its
    path), or if the whole does not fit a frame. It depends on its arguments only, so it may be built ahead of a run.
    """
    try:
        ProgramBootData.model_validate(data)
    except ValidationError as error:
        raise UsageError(f"boot data: {problem(error)}") from None
    bounds = {**guest_limits(limits), "timeoutMs": None if timeout is None else timeout * 1000}
    text = f'{{"type":"boot","data":{_json(data)},"limits":{_json(bounds)}'
    if not isinstance(input, Unset):
        try:
            plain = plain_text(input, limits.max_value_tokens)
            if plain is not None:
                text += f',"inputJson":{plain}'
            else:
                text += f',"input":{encode(input, "input", limits.max_value_tokens)}'
        except NotJson as error:
            raise UsageError(str(error)) from None
    text += "}"
    if len(text) > limits.max_message_bytes:
        raise UsageError(
            f"boot: {len(text)} bytes of program and input do not fit a message of {limits.max_message_bytes} bytes"
        )
    return frame(text)


def guest_limits(limits: Limits) -> dict[str, object]:
    """The limits that the guest keeps by itself, under their names on the channel."""
    return {
        "maxPendingCalls": limits.max_pending_calls,
        "maxMessageBytes": limits.max_message_bytes,
        "maxValueTokens": limits.max_value_tokens,
        "maxLogChars": limits.max_log_chars,
        "maxLogEntries": limits.max_log_entries,
    }


def _json(value: Mapping[str, object]) -> str:
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def reply_frame(call_id: int, value: object, max_tokens: int) -> bytes:
    """The good answer to a call. Raises `NotJson` for a value that cannot cross."""
    plain = plain_text(value, max_tokens)
    member = f'"json":{plain}' if plain is not None else f'"value":{encode(value, "result", max_tokens)}'
    return frame(f'{{"type":"reply","id":{call_id},"ok":true,{member}}}')


def failed_reply_frame(call_id: int, message: str, max_bytes: int) -> tuple[bytes, str]:
    """The failed answer to a call, and its message as sent: cut to `FAILURE_TEXT_CHARS` and to what a frame holds."""
    head, tail = f'{{"type":"reply","id":{call_id},"ok":false,"message":', "}"
    room = max_bytes - len(head) - len(tail)
    text = cut_text(message, FAILURE_TEXT_CHARS)
    if len(encode_basestring_ascii(text)) > room:
        kept = range(min(len(message), FAILURE_TEXT_CHARS))
        most = bisect_right(kept, room, key=lambda count: len(encode_basestring_ascii(cut_text(message, count)))) - 1
        text = cut_text(message, max(most, 0))
    return frame(head + encode_basestring_ascii(text) + tail), text


def cut_text(text: str, characters: int) -> str:
    """`text` if it has no more characters, else that many of them and a mark with the number of the others."""
    if len(text) <= characters:
        return text
    return f"{text[:characters]}… [+{len(text) - characters} characters]"


def shown(name: str) -> str:
    """The start of a text a program sent, in ASCII, for a message about it."""
    return ascii(name[:_SHOWN_CHARS])[1:-1][:_SHOWN_CHARS]


def shown_type(kind: object) -> str:
    """A message by its type, for a message about it."""
    if not isinstance(kind, str):
        return "a message without a type"
    if kind in ("ready", "call", "log", "output-limit", "done"):
        return kind
    return f"a message of unknown type {shown(kind)}"
