"""The program runtime: one JavaScript program, in a fresh process, against named host functions.

A name is imported when it is first asked for.
"""

from typing import TYPE_CHECKING

from ptc._lazy import attach

if TYPE_CHECKING:
    from ptc._run import Run
    from ptc.errors import CallError, ClosedError, LoadError, LocalProtocolError, PtcError, UsageError
    from ptc.events import CallFinished, CallStarted, Event, Logged, RunEnded, RunStarted
    from ptc.image import Image, RunArguments
    from ptc.limits import Limits
    from ptc.namespaces import ErrorClass, Namespace, blocking
    from ptc.outcome import (
        UNSET,
        EngineInfo,
        ExitStatus,
        Failure,
        Isolation,
        LogEntry,
        Outcome,
        Position,
        Truncation,
    )
    from ptc.runtime import LoadArguments, Runtime
    from ptc.sync import SyncImage, SyncRuntime, run

__all__ = [
    "UNSET",
    "CallError",
    "CallFinished",
    "CallStarted",
    "ClosedError",
    "EngineInfo",
    "ErrorClass",
    "Event",
    "ExitStatus",
    "Failure",
    "Image",
    "Isolation",
    "Limits",
    "LoadArguments",
    "LoadError",
    "LocalProtocolError",
    "LogEntry",
    "Logged",
    "Namespace",
    "Outcome",
    "Position",
    "PtcError",
    "Run",
    "RunArguments",
    "RunEnded",
    "RunStarted",
    "Runtime",
    "SyncImage",
    "SyncRuntime",
    "Truncation",
    "UsageError",
    "blocking",
    "run",
]

_HOMES = {
    "ptc._run": ("Run",),
    "ptc.errors": (
        "CallError",
        "ClosedError",
        "LoadError",
        "LocalProtocolError",
        "PtcError",
        "UsageError",
    ),
    "ptc.events": (
        "CallFinished",
        "CallStarted",
        "Event",
        "Logged",
        "RunEnded",
        "RunStarted",
    ),
    "ptc.image": (
        "Image",
        "RunArguments",
    ),
    "ptc.limits": ("Limits",),
    "ptc.namespaces": (
        "ErrorClass",
        "Namespace",
        "blocking",
    ),
    "ptc.outcome": (
        "UNSET",
        "EngineInfo",
        "ExitStatus",
        "Failure",
        "Isolation",
        "LogEntry",
        "Outcome",
        "Position",
        "Truncation",
    ),
    "ptc.runtime": (
        "LoadArguments",
        "Runtime",
    ),
    "ptc.sync": (
        "SyncImage",
        "SyncRuntime",
        "run",
    ),
}

__getattr__, __dir__ = attach(__name__, _HOMES)
