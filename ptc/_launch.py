"""Starting processes of ours: where an engine is, what a process inherits, what it prints while it starts."""

import importlib.util
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from ptc.errors import UsageError

_BOOTSTRAP = Path(__file__).parent / "guest" / "bootstrap.py"
# All a process of ours inherits: with it dates and texts are the same on every machine.
_ENVIRONMENT = {"TZ": "UTC0", "LC_ALL": "C"}
# Found by the dynamic linker, which also knows where; without it runs are confined less, and say so.
_SECCOMP_LIBRARY = "libseccomp.so.2"
# What is printed before a run begins is for diagnosis only.
_DIAGNOSTICS_BYTES = 8 * 1024

# Engine name → the distribution that brings it and its module.
ENGINES = {"quickjs": ("quickjs-ng", "_quickjs"), "v8": ("mini-racer", "py_mini_racer")}
# The shared library of mini-racer lies beside its Python code.
_V8_LIBRARIES = {"darwin": "libmini_racer.dylib", "win32": "mini_racer.dll"}


class StartError(Exception):
    """A process of ours could not be started or died while starting. The text is for the outcome."""


class GoneError(StartError):
    """The process that should have served was gone already. Another one may do."""


def engine_library(engine: str) -> str:
    """The path of an engine's library. UsageError if the engine is unknown or not installed."""
    if engine not in ENGINES:
        raise UsageError(f'no engine is called "{engine}"; there are {", ".join(sorted(ENGINES))}')
    distribution, module = ENGINES[engine]
    spec = importlib.util.find_spec(module)
    path = Path(spec.origin) if spec is not None and spec.origin is not None else None
    if path is not None and engine == "v8":
        path = path.with_name(_V8_LIBRARIES.get(sys.platform, "libmini_racer.so"))
        path = path if path.is_file() else None
    if path is None:
        raise UsageError(f'the engine "{engine}" is not installed; run: pip install {distribution}')
    return str(path)


def launch(
    role: str, engine: str, library: str, descriptors: Sequence[int], *, output: int
) -> "subprocess.Popen[bytes]":
    """Start a process of ours as `root` or as `spawned`, with these descriptors and its output going to `output`.

    OSError if it cannot be started. Blocks for the milliseconds of a fork; asyncio's own way would add a watcher
    thread.
    """
    numbers = [str(number) for number in (*descriptors, os.getpid())]
    return subprocess.Popen(
        [sys.executable, "-I", "-S", str(_BOOTSTRAP), role, engine, library, _SECCOMP_LIBRARY, *numbers],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        env=_ENVIRONMENT,
        cwd="/",
        pass_fds=descriptors,
        start_new_session=True,
    )


class Diagnostics:
    """The last of what processes have printed before any run began."""

    def __init__(self) -> None:
        self.size = 0
        """Bytes so far."""
        self._tail = bytearray()

    def add(self, data: bytes) -> None:
        """More of it."""
        self.size += len(data)
        self._tail += data
        del self._tail[:-_DIAGNOSTICS_BYTES]

    def text(self, since: int = 0) -> str:
        """What is kept, but nothing before byte `since`."""
        wanted = min(self.size - since, len(self._tail))
        return self._tail[len(self._tail) - wanted :].decode("utf-8", "replace").strip()
