"""One realm with the prelude in this process: the test plays the engine adapter and the host.

`Guest` binds the three host functions to lists, loads a program, boots it, and answers its calls. Frames go through the
real codec of the host's side, so a frame the host would refuse fails here too.
"""

import ctypes
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import _quickjs

from ptc import frames, wire
from ptc.guest.prelude import source
from ptc.wire import Json

Frame = dict[str, Any]
Answer = Callable[[str, Json], Json]
"""(function name, argument) -> result. An exception becomes a failed reply with its text."""

TOOLS: Sequence[Frame] = ({"global": "tools", "names": ["echo", "fail", "other"]},)
TYPED_TOOLS: Sequence[Frame] = (
    {**TOOLS[0], "errorClass": {"name": "ToolCallError", "memberNameProperty": "toolName"}},
)
LIMITS: Mapping[str, int] = {
    "maxPendingCalls": 128,
    "maxMessageBytes": 16 * 1024 * 1024,
    "maxValueTokens": 1_000_000,
    "maxLogChars": 65_536,
    "maxLogEntries": 100_000,
}
OUTPUT_BYTES = 8 * 1024 * 1024
ENTRIES = ("load", "boot", "deliver", "turn", "warm")


class _JSValue(ctypes.Structure):
    _fields_ = (("u", ctypes.c_uint64), ("tag", ctypes.c_int64))


_TRACKER = ctypes.CFUNCTYPE(None, ctypes.c_void_p, _JSValue, _JSValue, ctypes.c_bool, ctypes.c_void_p)
_lib = ctypes.CDLL(_quickjs.__file__)
_lib.JS_GetRuntime.argtypes, _lib.JS_GetRuntime.restype = [ctypes.c_void_p], ctypes.c_void_p
_lib.JS_GetGlobalObject.argtypes, _lib.JS_GetGlobalObject.restype = [ctypes.c_void_p], _JSValue
_lib.JS_GetPropertyStr.argtypes = [ctypes.c_void_p, _JSValue, ctypes.c_char_p]
_lib.JS_GetPropertyStr.restype = _JSValue
_lib.JS_Call.argtypes = [ctypes.c_void_p, _JSValue, _JSValue, ctypes.c_int, ctypes.c_void_p]
_lib.JS_Call.restype = _JSValue
_lib.JS_SetHostPromiseRejectionTracker.argtypes = [ctypes.c_void_p, _TRACKER, ctypes.c_void_p]
_lib.JS_SetHostPromiseRejectionTracker.restype = None

_kept: list[object] = []  # trackers and contexts: the engine must not outlive one, nor be freed under the other


class Ended(Exception):
    """The guest asked for the end of its process."""


class Guest:
    """One realm. `sent` holds every frame of the guest, `texts` the same unparsed, `status` its exit status if any."""

    def __init__(self, *, cpu: bool = False, stack: int = 1024 * 1024) -> None:
        self.context = _quickjs.Context()
        self.context.set_max_stack_size(stack)
        self.sent: list[Frame] = []
        self.texts: list[str] = []
        self.status: str | None = None
        self.form = "async"
        self.answer: Answer = _no_answer
        self._namespaces: Sequence[Frame] = ()
        self.context.add_callable("__ptc_send", self._send)
        self.context.add_callable("__ptc_exchange", self._exchange)
        self.context.add_callable("__ptc_exit", self._exit)
        if cpu:
            self.context.add_callable("__ptc_cpu", lambda _text: "1.5")
        entries = self.context.eval(source())
        self.context.set("__entries", entries)
        self._entries = {name: self.context.eval(f"__entries.{name}") for name in ENTRIES}
        self._track()
        self.context.eval("delete globalThis.__entries; 0")

    def call(self, entry: str, text: str) -> str:
        """Call an entry function. `Ended` if the guest ended its process meanwhile."""
        try:
            result: str = self._entries[entry](text)
        except _quickjs.JSException:
            if self.status is not None:
                raise Ended from None
            raise
        if self.status is not None:
            raise Ended
        return result

    def load(
        self,
        code: str,
        namespaces: Sequence[Frame] = TOOLS,
        *,
        form: str = "async",
        setup: str = "",
        input_name: str = "",
        name: str = "program.js",
        limits: Mapping[str, int] | None = None,
    ) -> Frame:
        """The `load` entry; gives its answer."""
        self.form = form
        data = {"code": code, "namespaces": list(namespaces), "maxOutputBytes": OUTPUT_BYTES}
        message = {
            "data": data,
            "form": form,
            "name": name,
            "setup": setup,
            "inputName": input_name,
            "limits": limits or {},
        }
        answer: Frame = json.loads(self.call("load", json.dumps(message)))
        return answer

    def boot(self, *, data: Frame | None = None, max_output: int = OUTPUT_BYTES, **more: Any) -> None:
        """The `boot` entry. `input` is a Python value; every other keyword is a limit."""
        frame: Frame = {
            "type": "boot",
            "data": data or {"code": "", "namespaces": [], "maxOutputBytes": max_output},
            "limits": {**LIMITS, **{key: value for key, value in more.items() if key != "input"}},
        }
        text = json.dumps(frame)
        if "input" in more:
            text = f'{text[:-1]},"input":{wire.encode(more["input"], "input")}}}'
        self.call("boot", text)

    def jobs(self) -> None:
        """Run jobs until none is left."""
        while self.context.execute_pending_job():
            pass

    def open_calls(self) -> list[Frame]:
        """The calls the guest has sent, in order."""
        return [frame for frame in self.sent if frame["type"] == "call"]

    def reply(self, call: int, value: Json = None) -> None:
        """Answer a call, and run the jobs that follow from it."""
        self.call("deliver", f'{{"type":"reply","id":{call},"ok":true,"value":{wire.encode(value, "result")}}}')
        self.jobs()

    def reply_error(self, call: int, message: str) -> None:
        """Fail a call, and run the jobs that follow from it."""
        self.call("deliver", json.dumps({"type": "reply", "id": call, "ok": False, "message": message}))
        self.jobs()

    def drive(self) -> Frame:
        """Run to the end, answering every call in order. Gives the last frame, `done` or `output-limit`."""
        answered = 0
        try:
            self.jobs()
            while self.call("turn", "") == "wait":
                calls = self.open_calls()
                assert answered < len(calls), "the guest waits for an answer it has had"
                self._answer(calls[answered])
                answered += 1
        except Ended:
            pass
        return self.sent[-1]

    def _answer(self, call: Frame) -> None:
        try:
            value = self.answer(call["name"], wire.decode(call["args"]))
        except ValueError as error:
            self.reply_error(call["id"], str(error))
        else:
            self.reply(call["id"], value)

    def _send(self, text: str) -> str:
        assert self.status is None, "a frame after the end"
        assert text.isascii()
        self.texts.append(text)
        frame = frames.loads(text.encode())
        assert isinstance(frame, dict)
        self.sent.append(frame)
        return ""

    def _exchange(self, text: str) -> str:
        assert self.form == "sync"
        self._send(text)
        call = self.sent[-1]
        try:
            value = self.answer(call["name"], wire.decode(call["args"]))
        except ValueError as error:
            return json.dumps({"type": "reply", "id": call["id"], "ok": False, "message": str(error)})
        return f'{{"type":"reply","id":{call["id"]},"ok":true,"value":{wire.encode(value, "result")}}}'

    def _exit(self, status: str) -> str:
        self.status = status
        return ""

    def _track(self) -> None:
        """Report rejected promises to the prelude, as the engine adapter does (see ptc/guest/quickjs.py)."""
        header = object.__basicsize__
        runtime = ctypes.c_size_t.from_address(id(self.context) + header).value
        raw = ctypes.c_size_t.from_address(id(self.context) + header + 8).value
        assert _lib.JS_GetRuntime(raw) == runtime
        entries = _lib.JS_GetPropertyStr(raw, _lib.JS_GetGlobalObject(raw), b"__entries")
        reject = _lib.JS_GetPropertyStr(raw, entries, b"reject")

        def report(context: int, promise: _JSValue, reason: _JSValue, handled: bool, _opaque: int) -> None:
            arguments = (_JSValue * 3)(promise, reason, _JSValue(int(handled), 1))
            _lib.JS_Call(context, reject, _JSValue(0, 3), 3, arguments)

        tracker = _TRACKER(report)
        _lib.JS_SetHostPromiseRejectionTracker(runtime, tracker, None)
        _kept.append((tracker, self.context))


def _no_answer(name: str, argument: Json) -> Json:
    raise ValueError(f"no answer for {name}")


def tools(name: str, argument: Json) -> Json:
    """The usual host: `echo` and `other` give the argument back, `fail` fails with it."""
    if name == "fail":
        raise ValueError(str(argument))
    return argument


def run(code: str, namespaces: Sequence[Frame] = TOOLS, *, answer: Answer = tools, **options: Any) -> Guest:
    """Load, boot and drive one program. `form`, `setup`, `input_name`, `name` go to load, the rest to boot."""
    guest = Guest()
    guest.answer = answer
    loading = {key: options.pop(key) for key in ("form", "setup", "input_name", "name") if key in options}
    answered = guest.load(code, namespaces, **loading)
    assert answered == {}, answered
    try:
        guest.boot(**options)
    except Ended:
        return guest
    guest.drive()
    return guest


def value_of(guest: Guest) -> Any:
    """The value of a finished run, for the test to take apart."""
    last = guest.sent[-1]
    assert last["type"] == "done", last
    assert "error" not in last, last
    return wire.decode(last["value"])


def error_of(guest: Guest) -> Frame:
    """The error of a failed run: message, kind, at, stack."""
    last = guest.sent[-1]
    assert last["type"] == "done", last
    error: Frame = last["error"]
    return error


def logs_of(guest: Guest) -> list[str]:
    """The texts of the entries."""
    return [frame["text"] for frame in guest.sent if frame["type"] == "log"]
