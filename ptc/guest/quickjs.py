"""QuickJS through the `_quickjs` extension module of quickjs-ng.

The extension is loaded by path: its Python wrapper `quickjs` starts a thread when imported, and a process with
threads cannot be forked safely. What the binding does not offer, the hook for rejected promises, is reached with
`ctypes` through the engine's exported C interface (quickjs.h of quickjs-ng). That depends on the layout of the
binding's context object, so root tries it in a throw-away child first.
"""

import ctypes
import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable
from typing import Any

from ptc.guest.engine import EngineFault, Rejections


class _JSValue(ctypes.Structure):
    """`JSValue` of quickjs.h on 64-bit platforms: a payload and a tag."""

    _fields_ = (("payload", ctypes.c_uint64), ("tag", ctypes.c_int64))


_TAG_BOOL, _TAG_UNDEFINED, _TAG_EXCEPTION = 1, 3, 6
_UNDEFINED = _JSValue(0, _TAG_UNDEFINED)
_BOOLEANS = (_JSValue(0, _TAG_BOOL), _JSValue(1, _TAG_BOOL))
_Tracker = ctypes.CFUNCTYPE(None, ctypes.c_void_p, _JSValue, _JSValue, ctypes.c_bool, ctypes.c_void_p)

# How the prelude hands over its entries: set, read by us, and deleted before anything else runs.
_HANDOVER = "__ptc_entries"


def load_library(path: str) -> Any:
    """Import the extension module `_quickjs` from its file, without its package."""
    loader = importlib.machinery.ExtensionFileLoader("_quickjs", path)
    spec = importlib.util.spec_from_file_location("_quickjs", path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    loader.exec_module(module)
    return module


class QuickJS:
    """The adapter. One realm a process; see `ptc.guest.engine.Engine`."""

    name = "quickjs"
    forms = frozenset({"sync", "async"})

    def __init__(self, library: str) -> None:
        self._module = load_library(library)
        self._c = _CInterface(library)
        self.version = self._c.version()
        self.rejections: Rejections = "calls"
        self._context: Any = None
        self._entries: dict[str, Any] = {}
        self._tracker: Any = None

    def can_track(self) -> bool:
        """Whether the rejection hook works. May crash the process: call it in a throw-away one."""
        self.open(0, 1024 * 1024)
        seen: list[bool] = []
        self._context.eval(f"globalThis.{_HANDOVER} = {{reject(p, r, h) {{ if (r === 7) __ptc_seen(String(h)); }}}}; 0")
        self._context.add_callable("__ptc_seen", lambda text: seen.append(text == "true"))
        self._track()
        self._context.eval("const p = Promise.reject(7); p.catch(() => 0); 0")
        while self.jobs():
            pass
        return seen == [False, True]

    def open(self, memory: int, stack: int) -> None:
        self._context = self._module.Context()
        self._context.set_max_stack_size(stack)
        if memory:
            self._context.set_memory_limit(memory)

    def bind(self, name: str, function: Callable[[str], str]) -> None:
        self._context.add_callable(name, function)

    def evaluate(self, source: str) -> None:
        # A script's completion value would reach us as an opaque object; its functions are fetched one by one.
        self._guard(self._context.eval, f"globalThis.{_HANDOVER} = {source}\n; 0")
        names = self._guard(self._context.eval, f"Object.keys({_HANDOVER}).join(' ')").split()
        for name in names:
            if name != "reject":
                self._entries[name] = self._guard(self._context.eval, f"{_HANDOVER}.{name}")
        if self.rejections == "all":
            self._track()
        self._guard(self._context.eval, f"delete globalThis.{_HANDOVER}; 0")

    def call(self, entry: str, text: str) -> str:
        result: str = self._guard(self._entries[entry], text)
        return result

    def jobs(self) -> bool:
        return bool(self._guard(self._context.execute_pending_job))

    def _guard(self, function: Callable[..., Any], *args: Any) -> Any:
        try:
            return function(*args)
        except MemoryError:
            raise EngineFault("out of memory", out_of_memory=True) from None
        except self._module.JSException as error:
            text = str(error)
            raise EngineFault(text, out_of_memory="out of memory" in text[:200]) from None

    def _track(self) -> None:
        self._tracker = self._c.track(self._context, _HANDOVER, "reject")


class _CInterface:
    """The few functions of quickjs.h that are called directly."""

    def __init__(self, library: str) -> None:
        self._lib = lib = ctypes.CDLL(library)
        lib.JS_GetVersion.restype = ctypes.c_char_p
        lib.JS_GetRuntime.argtypes, lib.JS_GetRuntime.restype = [ctypes.c_void_p], ctypes.c_void_p
        lib.JS_GetGlobalObject.argtypes, lib.JS_GetGlobalObject.restype = [ctypes.c_void_p], _JSValue
        lib.JS_GetPropertyStr.argtypes = [ctypes.c_void_p, _JSValue, ctypes.c_char_p]
        lib.JS_GetPropertyStr.restype = _JSValue
        lib.JS_Call.argtypes = [ctypes.c_void_p, _JSValue, _JSValue, ctypes.c_int, ctypes.POINTER(_JSValue)]
        lib.JS_Call.restype = _JSValue
        lib.JS_GetException.argtypes, lib.JS_GetException.restype = [ctypes.c_void_p], _JSValue
        lib.JS_SetHostPromiseRejectionTracker.argtypes = [ctypes.c_void_p, _Tracker, ctypes.c_void_p]
        lib.JS_SetHostPromiseRejectionTracker.restype = None

    def version(self) -> str:
        version: bytes = self._lib.JS_GetVersion()
        return version.decode("ascii")

    def track(self, context: Any, holder: str, name: str) -> object:
        """Report every rejection to `globalThis[holder][name]`. Returns what must be kept alive."""
        lib = self._lib
        # The binding's object holds the runtime and the context right after its header.
        header = object.__basicsize__
        runtime = ctypes.c_size_t.from_address(id(context) + header).value
        raw = ctypes.c_size_t.from_address(id(context) + header + ctypes.sizeof(ctypes.c_size_t)).value
        if not raw or lib.JS_GetRuntime(raw) != runtime:
            raise RuntimeError("the binding keeps its context elsewhere")
        entries = lib.JS_GetPropertyStr(raw, lib.JS_GetGlobalObject(raw), holder.encode())
        function = lib.JS_GetPropertyStr(raw, entries, name.encode())

        def report(context: int, promise: _JSValue, reason: _JSValue, handled: bool, _opaque: int) -> None:
            result = lib.JS_Call(context, function, _UNDEFINED, 3, (_JSValue * 3)(promise, reason, _BOOLEANS[handled]))
            if result.tag == _TAG_EXCEPTION:  # out of stack or memory; left pending it would surface anywhere
                lib.JS_GetException(context)

        tracker = _Tracker(report)
        lib.JS_SetHostPromiseRejectionTracker(runtime, tracker, None)
        return tracker


def is_supported() -> bool:
    """Whether the C interface can be used here: the layout above is that of 64-bit builds."""
    return sys.maxsize > 2**32
