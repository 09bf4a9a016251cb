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
import sys
import types
from pathlib import Path
from typing import Any

_MARK = "// hostile: "
_PEER = 3

package = types.ModuleType("ptc")
package.__path__ = [str(Path(__file__).resolve().parents[5] / "ptc")]
sys.modules["ptc"] = package

from ptc.guest import image, root, run  # noqa: E402

_plan: dict[str, list[list[Any]]] = {}


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _for_ever(descriptor: int, data: bytes) -> None:
    data *= max(1, 65_536 // len(data))
    while True:
        _write(descriptor, data)


def _perform(steps: list[list[Any]]) -> None:
    kept = []
    for step in steps:
        match step:
            case ["send", data]:
                _write(_PEER, bytes.fromhex(data))
            case ["flood", data]:
                _for_ever(_PEER, bytes.fromhex(data))
            case ["print", data]:
                _write(1, bytes.fromhex(data))
            case ["print for ever", data]:
                _for_ever(1, bytes.fromhex(data))
            case ["read"]:
                os.read(_PEER, 65_536)
            case ["exit", code]:
                os._exit(code)
            case ["spin"]:
                while True:
                    pass
            case ["crash"]:
                ctypes.string_at(0)
            case ["eat", mebibytes]:
                kept.append(b"x" * (mebibytes * 1024 * 1024))
            case _:
                raise ValueError(f"no step is called {step}")
    while os.read(_PEER, 65_536):
        pass
    os._exit(0)


def _load(self: Any, message: dict[str, Any], *rest: Any) -> bool:
    first, _, _ = message["data"]["code"].partition("\n")
    _plan.update(json.loads(first.removeprefix(_MARK)) if first.startswith(_MARK) else {})
    loaded = bool(_honest_load(self, message, *rest))
    if loaded and "image" in _plan:
        _perform(_plan["image"])
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


_honest_load, _honest_send, _honest_execute = image._Image._load, run.Port.send, run.execute
setattr(image._Image, "_load", _load)  # noqa: B010
setattr(run.Port, "send", _send)  # noqa: B010
setattr(run, "execute", _execute)  # noqa: B010

if __name__ == "__main__":
    engine, library, seccomp, control, host = sys.argv[-5:]
    root.main(engine, library, seccomp, int(control), int(host))
