"""A guest whose engine has been taken over: images and runs do what the program's first line says, past any engine.

Started in place of the real `ptc/guest/bootstrap.py`, with the same arguments; it lies in a folder of that name so that
it counts as a process of ours. Everything is real up to the takeover: root, fork, descriptors, limits, filters. The
first line of a program is `// hostile: ` and a JSON object: lists of steps under `image` (once loaded, on the control
stream), `early` (in the run, instead of `ready`), `late` (after the boot frame came). When the steps are done, the
process waits until its stream ends.
"""

import ctypes
import json
import os
import signal
import sys
import time
import types
from pathlib import Path
from typing import Any

_MARK = "// hostile: "
_CHANNEL = 3

package = types.ModuleType("ptc")
package.__path__ = [str(Path(__file__).resolve().parents[4] / "ptc")]
sys.modules["ptc"] = package

from ptc.guest import image, root, run, spawned  # noqa: E402

_plan: dict[str, list[list[Any]]] = {}


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _for_ever(descriptor: int, data: bytes) -> None:
    data *= max(1, 65_536 // len(data))
    while True:
        _write(descriptor, data)


def _perform(steps: list[list[Any]], peer: int = _CHANNEL) -> None:
    kept = []
    for step in steps:
        match step:
            case ["send", data]:
                _write(peer, bytes.fromhex(data))
            case ["send bytewise", data]:
                for byte in bytes.fromhex(data):
                    _write(peer, bytes([byte]))
            case ["flood", data]:
                _for_ever(peer, bytes.fromhex(data))
            case ["print", data]:
                _write(1, bytes.fromhex(data))
            case ["print for ever", data]:
                _for_ever(1, bytes.fromhex(data))
            case ["read"]:
                os.read(peer, 65_536)
            case ["close", descriptor]:
                os.close(descriptor)
            case ["exit", code]:
                os._exit(code)
            case ["wait", seconds]:
                time.sleep(seconds)
            case ["spin"]:
                while True:
                    pass
            case ["crash"]:
                ctypes.string_at(0)
            case ["eat", mebibytes]:
                kept.append(b"x" * (mebibytes * 1024 * 1024))
            case ["ignore signals"]:
                for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
                    signal.signal(number, signal.SIG_IGN)
            case ["signal", number]:
                if number not in (signal.SIGKILL, signal.SIGSTOP):
                    signal.signal(number, signal.SIG_DFL)
                    signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
                os.kill(os.getpid(), number)
            case ["child", below]:
                if os.fork() == 0:
                    _perform(below, peer)
            case _:
                raise ValueError(f"no step is called {step}")
    while os.read(peer, 65_536):
        pass
    os._exit(0)


def _take_plan(message: dict[str, Any]) -> None:
    first, _, _ = message["data"]["code"].partition("\n")
    _plan.update(json.loads(first.removeprefix(_MARK)) if first.startswith(_MARK) else {})


def _load(self: Any, message: dict[str, Any], *rest: Any) -> bool:
    _take_plan(message)
    loaded = bool(_honest_load(self, message, *rest))
    if loaded and "image" in _plan:
        _perform(_plan["image"])
    return loaded


def _load_spawned(self: Any, message: dict[str, Any]) -> bool:
    _take_plan(message)
    loaded = bool(_honest_load_spawned(self, message))
    if loaded and "image" in _plan:
        _perform(_plan["image"], spawned._CONTROL)
    return loaded


def _send(self: Any, text: str) -> str:
    if "early" in _plan and '"ready"' in text:
        _perform(_plan["early"])
    return str(_honest_send(self, text))


def _execute(engine: Any, port: Any) -> None:
    if "late" in _plan:
        port.receive()
        _perform(_plan["late"])
    _honest_execute(engine, port)


_honest_load, _honest_load_spawned = image._Image._load, spawned._Spawned._load
_honest_send, _honest_execute = run.Port.send, run.execute
setattr(image._Image, "_load", _load)  # noqa: B010
setattr(spawned._Spawned, "_load", _load_spawned)  # noqa: B010
setattr(run.Port, "send", _send)  # noqa: B010
setattr(run, "execute", _execute)  # noqa: B010

if __name__ == "__main__":
    role, engine, library, seccomp, *numbers = sys.argv[1:]
    if role == "spawned":
        control, channel, host = map(int, numbers)
        spawned.main(engine, library, seccomp, control, channel, host)
    else:
        control, host = map(int, numbers)
        root.main(engine, library, seccomp, control, host)
