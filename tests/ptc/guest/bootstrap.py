"""A stand-in for `ptc/guest/bootstrap.py` whose processes do on request what no program can: make system calls.

Everything else is the real thing. A program asks with `console.log("!socket")`; the image is asked, while it loads a
program, by the comment `//!socket` in it. The other requests are listed in `main`.
"""

import _thread
import ctypes
import os
import resource
import signal
import socket
import sys
import types
from collections.abc import Callable
from pathlib import Path


def _fail() -> None:
    raise RuntimeError("a fault of the guest")


def _calls() -> dict[str, Callable[[], object]]:
    libc = ctypes.CDLL(None)
    return {
        "open": lambda: os.open("/etc/passwd", os.O_RDONLY),
        "create": lambda: os.open("/tmp/ptc-test", os.O_WRONLY | os.O_CREAT),
        "stat": lambda: os.stat("/etc/passwd"),  # noqa: PTH116
        "unlink": lambda: os.unlink("/tmp/ptc-test"),  # noqa: PTH108
        "socket": lambda: socket.socket(socket.AF_INET),
        "socket-unix": lambda: socket.socket(socket.AF_UNIX),
        "fork": os.fork,
        "execve": lambda: os.execv("/bin/true", ["true"]),
        "kill": lambda: os.kill(os.getppid(), 0),
        "kill-all": lambda: os.kill(-1, 0),
        "kill-group": lambda: os.killpg(os.getppid(), 0),
        "tgkill-other": lambda: libc.tgkill(os.getppid(), os.getppid(), signal.SIGABRT),
        "ptrace": lambda: libc.ptrace(0, 0, None, None),
        "mmap-executable": lambda: libc.mmap(None, 65_536, 1 | 4, 2 | 32, -1, 0),
        "namespace": lambda: libc.unshare(0x1000_0000),
        "thread": lambda: _thread.start_new_thread(int, ()),
        "setrlimit": lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)),
        "pipe": os.pipe,
        "abort": os.abort,
        "fault": _fail,
    }


def main() -> None:
    """Like the real one; never returns."""
    package = types.ModuleType("ptc")
    package.__path__ = [str(Path(__file__).resolve().parents[3] / "ptc")]
    sys.modules["ptc"] = package
    from ptc.guest import quickjs, root, run, seccomp, spawned

    calls = _calls()
    send, call = run.Port.send, quickjs.QuickJS.call

    def send_or_do(self: run.Port, text: str) -> str:
        for name, do in calls.items():
            if f'"!{name}"' in text:
                do()
        return send(self, text)

    def call_or_do(self: quickjs.QuickJS, entry: str, text: str) -> str:
        if entry == "load":
            if "//!no-filter" in text:  # from here on no filter can be loaded
                seccomp.Filter.load = lambda self: False  # type: ignore[method-assign]
            for name, do in calls.items():
                if f"//!{name}\\n" in text:
                    do()
        return call(self, entry, text)

    run.Port.send = send_or_do  # type: ignore[method-assign]
    quickjs.QuickJS.call = call_or_do  # type: ignore[method-assign]
    role, engine, library, libseccomp, *numbers = sys.argv[1:]
    if role == "spawned":
        control, channel, host = map(int, numbers)
        spawned.main(engine, library, libseccomp, control, channel, host)
    else:
        control, host = map(int, numbers)
        root.main(engine, library, libseccomp, control, host)


if __name__ == "__main__":
    main()
