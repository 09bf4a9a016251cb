"""V8 through the shared library of mini-racer.

Its Python package is not imported: it brings asyncio and converts values, while only text must cross. The library's C
interface runs every piece of JavaScript as a task on a thread of its own and calls back with the result. It also makes
functions for JavaScript that call back at once, on that thread, but from in there nothing can be asked of the engine.
So the text of a call to a host function, and the answer, go through a block of memory that both sides see.

A task is followed by all jobs it has caused before the next one begins. So there is never a job left to be run here.
"""

import ctypes
import json
import os
import re
import sys
from _queue import SimpleQueue
from collections.abc import Callable
from typing import Any

from ptc.guest.engine import EngineFault, Rejections

_MIB = 1024 * 1024

# Kinds of values, as the library numbers them. From 200 on they are errors, with a text.
_INTEGER, _TEXT, _UNDEFINED = 3, 5, 11
_ERRORS, _PARSE_ERROR, _OUT_OF_MEMORY = 200, 201, 202

# Who is called back: whoever waits for a result, or a host function.
_RESULT, _HOST_CALL = 1, 2

# The block: three numbers of four bytes, then text. See _GLUE.
_BLOCK_BYTES = 64 * 1024
_TEXT_AT = 16

# The realm alone takes some of V8's heap, and below a few MiB it does not start.
_REALM_BYTES = 16 * _MIB
# Of the engine's thread beyond the engine's own stack: what the library, the interpreter and our functions need.
_STACK_MARGIN = 2 * _MIB
_MAX_STACK = 512 * _MIB
# Where a thread's size cannot be chosen: fits the smallest there is, 512 KiB on macOS.
_SMALL_STACK = 256 * 1024

# Makes `bind(name, index)`, which puts a host function on the global object. Numbers in the block: the function's
# index, the characters that are there, and whether that is all (to the host: 1; to us: 0).
_GLUE = """(function (notify, bytes) {
'use strict';
const apply = Reflect.apply;
const call = Function.prototype.call;
const codeAt = apply(Function.prototype.bind, call, [String.prototype.charCodeAt]);
const fromCode = String.fromCharCode;
const words = new Int32Array(bytes.buffer, 0, 3);
const room = bytes.length - 16;
const target = globalThis;
return function bind(name, index) {
  target[name] = (text) => {
    const length = text.length;
    let at = 0;
    do {
      const end = length - at < room ? length : at + room;
      words[0] = index;
      words[1] = end - at;
      words[2] = end === length ? 1 : 0;
      for (let to = 16; at < end; at++, to++) bytes[to] = codeAt(text, at);
      notify();
    } while (at < length);
    let answer = '';
    for (;;) {
      const end = 16 + words[1];
      for (let from = 16; from < end; from++) answer += fromCode(bytes[from]);
      if (words[2] === 0) return answer;
      words[1] = -1;
      notify();
    }
  };
};
})"""

# The first line of what the library says of an error, and the line under the source line.
_PLACE = re.compile(r"<anonymous>:(\d{1,9}): ")
_MARK = re.compile(r" *\^")


class _Value(ctypes.Structure):
    """A value as the library hands it out: a pointer or a number, a length, a kind."""

    _pack_ = 1
    _fields_ = (("data", ctypes.c_void_p), ("length", ctypes.c_size_t), ("kind", ctypes.c_uint8))


_Handle = ctypes.POINTER(_Value)
_Callback = ctypes.CFUNCTYPE(None, ctypes.c_uint64, _Handle)


class V8:
    """The adapter. One realm a process; see `ptc.guest.engine.Engine`.

    library: the path of mini-racer's shared library; its data lies beside it.
    """

    name = "v8"
    forms = frozenset({"async"})
    rejections: Rejections = "calls"

    def __init__(self, library: str) -> None:
        self._lib = _declare(ctypes.CDLL(library))
        self._data = f"{library.rpartition(os.sep)[0]}{os.sep}icudtl.dat"
        self.version = self._lib.mr_v8_version().decode("ascii")
        self._results: SimpleQueue[Any] = SimpleQueue()
        self._callback = _Callback(self._called)  # kept: the library holds only its address
        self._functions: list[Callable[[str], str]] = []
        self._received: list[bytes] = []
        self._answer = b""
        self._entries: dict[str, Any] = {}

    def open(self, memory: int, stack: int) -> None:
        # One thread: nothing is compiled or collected beside it, so the clocks see it all and no other is started.
        flags = (
            "--single-threaded",
            f"--max-heap-size={(memory + _REALM_BYTES) // _MIB}",
            f"--stack-size={_reserve_stack(stack) // 1024}",
        )
        self._lib.mr_init_v8(" ".join(flags).encode(), self._data.encode())
        self._context = self._lib.mr_init_context(self._callback)
        self._undefined = self._lib.mr_alloc_int_val(self._context, 0, _UNDEFINED)
        self._first = self._lib.mr_alloc_int_val(self._context, 0, _INTEGER)
        self._second = self._lib.mr_alloc_int_val(self._context, 1, _INTEGER)
        # Arguments are own elements of an array that exists before any program: storing one asks nobody.
        self._one = self._evaluate("[0]")
        self._two = self._evaluate("[0, 0]")
        self._memory = self._evaluate(f"new Uint8Array({_BLOCK_BYTES})")
        block = (ctypes.c_ubyte * _BLOCK_BYTES).from_address(self._memory.contents.data)
        self._block = memoryview(block).cast("B")
        self._numbers = self._block[:12].cast("i")
        notify = self._lib.mr_make_js_callback(self._context, _HOST_CALL)
        self._bind = self._call(self._evaluate(_GLUE), self._two, notify, self._memory)

    def bind(self, name: str, function: Callable[[str], str]) -> None:
        index = self._lib.mr_alloc_int_val(self._context, len(self._functions), _INTEGER)
        self._functions.append(function)
        self._free(self._call(self._bind, self._two, self._text(name), index))

    def evaluate(self, source: str) -> None:
        self._prelude = self._evaluate(source)

    def call(self, entry: str, text: str) -> str:
        function = self._entries.get(entry)
        if function is None:
            function = self._checked(self._lib.mr_get_object_item(self._context, self._prelude, self._text(entry)))
            self._entries[entry] = function
        argument = self._text(text)
        result = self._call(function, self._one, argument)
        self._free(argument)
        answer = _string(result)
        self._free(result)
        return self._place(answer) if entry == "load" else answer

    def jobs(self) -> bool:
        return False

    def _place(self, answer: str) -> str:
        """The answer to `load`. To a text that does not compile only the library tells the place, so it is asked."""
        source = json.loads(answer).get("source")
        if source is None:
            return answer
        code = self._text(source)
        self._lib.mr_eval(self._context, code, _RESULT)
        result = self._results.get()
        place = _problem_place(_string(result)) if result.contents.kind == _PARSE_ERROR else None
        self._free(code)
        self._free(result)
        return self.call("place", json.dumps(place))

    def _called(self, who: int, value: Any) -> None:
        """Called by the library, on the engine's thread."""
        if who != _HOST_CALL:
            self._results.put(value)
            return
        self._free(value)
        index, size, is_all = self._numbers
        if size >= 0:
            self._received.append(bytes(self._block[_TEXT_AT : _TEXT_AT + size]))
            if not is_all:
                return
            text = b"".join(self._received).decode("ascii")
            self._received.clear()
            self._answer = self._functions[index](text).encode("ascii")
        piece = self._answer[: _BLOCK_BYTES - _TEXT_AT]
        self._answer = self._answer[len(piece) :]
        self._block[_TEXT_AT : _TEXT_AT + len(piece)] = piece
        self._numbers[1], self._numbers[2] = len(piece), int(bool(self._answer))

    def _evaluate(self, source: str) -> Any:
        code = self._text(source)
        self._lib.mr_eval(self._context, code, _RESULT)
        result = self._checked(self._results.get())
        self._free(code)
        return result

    def _call(self, function: Any, arguments: Any, *values: Any) -> Any:
        """Call a function; `arguments` is the array for so many values."""
        for place, value in zip((self._first, self._second), values, strict=False):
            self._free(self._lib.mr_set_object_item(self._context, arguments, place, value))
        self._lib.mr_call_function(self._context, function, self._undefined, arguments, _RESULT)
        return self._checked(self._results.get())

    def _checked(self, value: Any) -> Any:
        kind = value.contents.kind
        if kind >= _ERRORS:
            text = _string(value)
            self._free(value)
            raise EngineFault(text, out_of_memory=kind == _OUT_OF_MEMORY)
        return value

    def _text(self, text: str) -> Any:
        data = text.encode()
        return self._lib.mr_alloc_string_val(self._context, data, len(data), _TEXT)

    def _free(self, value: Any) -> None:
        self._lib.mr_free_value(self._context, value)


def _string(value: Any) -> str:
    raw = value.contents
    return ctypes.string_at(raw.data, raw.length).decode("utf-8", "replace") if raw.kind >= _TEXT else ""


def _problem_place(text: str) -> dict[str, int] | None:
    """Line and column, from 1 and in UTF-16 units, out of what the library says of a text that does not compile."""
    lines = text.split("\n", 3)
    place = _PLACE.match(lines[0])
    if place is None:
        return None
    mark = _MARK.match(lines[2]) if len(lines) > 2 else None
    return {"line": int(place[1]), "column": mark.end() if mark is not None else 1}


def _reserve_stack(wanted: int) -> int:
    """Have the thread that will be started be large enough for this stack, in bytes. Gives what the engine may use."""
    wanted = min(wanted, _MAX_STACK)
    try:
        libc = ctypes.CDLL(None)
        attributes = ctypes.create_string_buffer(256)  # pthread_attr_t has 64 bytes at most
        libc.pthread_attr_init(attributes)
        libc.pthread_attr_setstacksize(attributes, ctypes.c_size_t(wanted + _STACK_MARGIN))
        if libc.pthread_setattr_default_np(attributes) == 0:
            return wanted
    except (AttributeError, OSError, TypeError):
        if sys.platform == "win32":  # the library's threads have the interpreter's size, 2 MB
            return min(wanted, _MIB)
    return min(wanted, _SMALL_STACK)


def _declare(library: Any) -> Any:
    """Tell the types of the functions that are used."""
    number, size, byte = ctypes.c_uint64, ctypes.c_size_t, ctypes.c_uint8
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "mr_v8_version": (ctypes.c_char_p, []),
        "mr_init_v8": (None, [ctypes.c_char_p, ctypes.c_char_p]),
        "mr_init_context": (number, [_Callback]),
        "mr_alloc_int_val": (_Handle, [number, ctypes.c_int64, byte]),
        "mr_alloc_string_val": (_Handle, [number, ctypes.c_char_p, size, byte]),
        "mr_free_value": (None, [number, _Handle]),
        "mr_eval": (number, [number, _Handle, number]),
        "mr_call_function": (number, [number, _Handle, _Handle, _Handle, number]),
        "mr_get_object_item": (_Handle, [number, _Handle, _Handle]),
        "mr_set_object_item": (_Handle, [number, _Handle, _Handle, _Handle]),
        "mr_make_js_callback": (_Handle, [number, number]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
