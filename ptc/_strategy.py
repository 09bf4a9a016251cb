"""What `Runtime` and `Image` need from the way processes are made. There are two: forked from one root, or spawned.

`ptc._processes` has the first, `ptc._spawned` the second.
"""

import asyncio
import os
from collections.abc import Mapping
from typing import Any, Literal, Protocol, cast

from ptc._processes import RootProcess
from ptc._run_process import RunProcess
from ptc._spawned import Spawner
from ptc.errors import LoadError, UsageError
from ptc.outcome import ExitStatus, Failure
from ptc.protocol import control

ProcessChoice = Literal["auto", "fork", "spawn"]
_CHOICES: tuple[str, ...] = ("auto", "fork", "spawn")

# V8 has threads from its start on, and of a process with threads a fork is no working copy.
_NEVER_FORKED = frozenset({"v8"})
# A host function has no way to wait inside of V8: there is nothing it could return but a promise.
_ASYNC_ONLY = frozenset({"v8"})
# A spawned spare is a whole process, with nothing shared: one must do.
_MAX_SPAWNED_SPARES = 1


class LoadedProgram(Protocol):
    """A loaded program that runs can be had from: an image process, or the recipe for spawned runs."""

    @property
    def dead(self) -> bool:
        """No runs come from here any more."""

    @property
    def loaded(self) -> asyncio.Future[control.Loaded | control.Refused]:
        """The answer to `load`."""

    @property
    def gone(self) -> asyncio.Future[ExitStatus | None]:
        """How its process ended, or the last of its processes, once there is none left; None if nobody could tell."""

    def load(self, frame: bytes) -> None:
        """Send a `load` frame. The answer comes as `loaded`, or as `gone` if the process dies of it."""

    async def fork(self, *, spare: bool) -> RunProcess:
        """A new run process; a spare prepares itself before it waits. GoneError or StartError if there is none."""

    def kill(self) -> None:
        """End it at once, with all its runs."""

    def unload(self) -> None:
        """Ask it to end its runs and itself."""


class Maker(Protocol):
    """Where programs are loaded: the root process, or the maker of spawned processes."""

    dead: bool
    report: control.RootReady | None
    """What is known of engine and machine; None until a process has told."""

    @property
    def printed(self) -> int:
        """Bytes of diagnostics so far."""

    async def start(self, timeout: float) -> None:
        """Get ready, within `timeout` seconds. StartError if it cannot be."""

    async def describe(self, timeout: float) -> Mapping[str, Any]:
        """What this machine has. StartError if it cannot be found out within `timeout` seconds."""

    def fork_image(self) -> LoadedProgram:
        """Where one program can be loaded. GoneError or StartError if there is no process for it."""

    def kill(self) -> None:
        """End everything at once."""

    def diagnostics(self, since: int = 0) -> str:
        """The last of what was printed while loading, but nothing before byte `since`."""

    async def stop(self) -> None:
        """End everything and wait until it is reaped."""


def choose(engine: str, process: str) -> Literal["fork", "spawn"]:
    """How processes are made for an engine. UsageError for a wish that cannot be met here."""
    if process not in _CHOICES:
        raise UsageError(f'process: "{process}" is no way to make one; there are {", ".join(_CHOICES)}')
    can_fork = engine not in _NEVER_FORKED and hasattr(os, "fork")
    if process == "fork" and not can_fork:
        where = f'the engine "{engine}"' if engine in _NEVER_FORKED else "this platform"
        raise UsageError(f'process: {where} cannot fork; use "spawn" or "auto"')
    if process == "auto":
        return "fork" if can_fork else "spawn"
    return cast('Literal["fork", "spawn"]', process)


def check_wanted_form(engine: str, form: str) -> None:
    """UsageError if a form is asked for that the engine does not have."""
    if form == "sync" and engine in _ASYNC_ONLY:
        raise UsageError(f'form: the engine "{engine}" runs async programs only')


def check_form(engine: str, form: str) -> None:
    """LoadError if a program has a form that the engine does not have."""
    if form == "sync" and engine in _ASYNC_ONLY:
        message = (
            f'the engine "{engine}" runs async programs only, and this one awaits nothing: await its host calls, '
            'or load it with form="async"'
        )
        raise LoadError(Failure("exception", message))


def make(process: Literal["fork", "spawn"], loop: asyncio.AbstractEventLoop, engine: str) -> Maker:
    """Where programs for an engine are loaded, not started yet."""
    return RootProcess(loop, engine) if process == "fork" else Spawner(loop, engine)


def most_spares(process: Literal["fork", "spawn"], wanted: int) -> int:
    """How many runs may wait per image when so many are wanted."""
    return wanted if process == "fork" else min(wanted, _MAX_SPAWNED_SPARES)
