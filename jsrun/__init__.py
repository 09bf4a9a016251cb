"""The subharness runtime: bundles, doors, guards, fuel, journal and result.

`Bundle` holds a program and what it needs, `Runner` runs it against an `Env`, and every run ends in a `RunResult`.
Helpers for tests are in `jsrun.testing`.

A name is imported when it is first asked for, so that a part of the package is loaded without the others.
"""

from typing import TYPE_CHECKING

from ptc._lazy import attach

if TYPE_CHECKING:
    from jsrun.belt import Belt, Tool, ToolSpec, tool
    from jsrun.bundle import Bundle
    from jsrun.diagnostics import Diagnostic
    from jsrun.env import (
        AIOptions,
        Answer,
        AskAnswer,
        AskOptions,
        CallbackEnv,
        Env,
        Note,
        Prompted,
        ToolResult,
        UnwiredEnv,
    )
    from jsrun.errors import (
        AlreadyExists,
        BeltError,
        BundleError,
        DivergenceError,
        DoorFailure,
        EvalError,
        InFlightError,
        InputError,
        JournalError,
        JsrunError,
        MintBusy,
        NotFound,
        NotWired,
        ResumeError,
        StaleParent,
        StoreError,
        UnknownSubharness,
    )
    from jsrun.evals import Case, CaseReport, load_cases, run_case
    from jsrun.events import RunEvent
    from jsrun.fuel import CEILING, Fuel
    from jsrun.journal import EntryRow, Journal, MemoryJournal, RunRecord, RunRow
    from jsrun.local_env import LocalEnv
    from jsrun.long_way import Generalist, LongWay
    from jsrun.look import Look, WorkspaceLook
    from jsrun.manifest import Guard, Manifest
    from jsrun.mapping import BadInput, MapError, MapLine, map_runs
    from jsrun.memory import FileMemory, Memory
    from jsrun.prompts import Prompt
    from jsrun.registry import Layer, Registry
    from jsrun.replay import Difference, InFlight, ReplayReport
    from jsrun.result import Artifact, LogEntry, RunResult, Truncation, Usage
    from jsrun.runner import Run, Runner, RunOptions, check
    from jsrun.spend import Spend
    from jsrun.sqlite_journal import SqliteJournal
    from jsrun.store import RunNote, Store, Version
    from ptc.outcome import UNSET

__all__ = [
    "CEILING",
    "UNSET",
    "AIOptions",
    "AlreadyExists",
    "Answer",
    "Artifact",
    "AskAnswer",
    "AskOptions",
    "BadInput",
    "Belt",
    "BeltError",
    "Bundle",
    "BundleError",
    "CallbackEnv",
    "Case",
    "CaseReport",
    "Diagnostic",
    "Difference",
    "DivergenceError",
    "DoorFailure",
    "EntryRow",
    "Env",
    "EvalError",
    "FileMemory",
    "Fuel",
    "Generalist",
    "Guard",
    "InFlight",
    "InFlightError",
    "InputError",
    "Journal",
    "JournalError",
    "JsrunError",
    "Layer",
    "LocalEnv",
    "LogEntry",
    "LongWay",
    "Look",
    "Manifest",
    "MapError",
    "MapLine",
    "Memory",
    "MemoryJournal",
    "MintBusy",
    "NotFound",
    "NotWired",
    "Note",
    "Prompt",
    "Prompted",
    "Registry",
    "ReplayReport",
    "ResumeError",
    "Run",
    "RunEvent",
    "RunNote",
    "RunOptions",
    "RunRecord",
    "RunResult",
    "RunRow",
    "Runner",
    "Spend",
    "SqliteJournal",
    "StaleParent",
    "Store",
    "StoreError",
    "Tool",
    "ToolResult",
    "ToolSpec",
    "Truncation",
    "UnknownSubharness",
    "UnwiredEnv",
    "Usage",
    "Version",
    "WorkspaceLook",
    "check",
    "load_cases",
    "map_runs",
    "run_case",
    "tool",
]

_HOMES = {
    "jsrun.belt": (
        "Belt",
        "Tool",
        "ToolSpec",
        "tool",
    ),
    "jsrun.bundle": ("Bundle",),
    "jsrun.diagnostics": ("Diagnostic",),
    "jsrun.env": (
        "AIOptions",
        "Answer",
        "AskAnswer",
        "AskOptions",
        "CallbackEnv",
        "Env",
        "Note",
        "Prompted",
        "ToolResult",
        "UnwiredEnv",
    ),
    "jsrun.errors": (
        "AlreadyExists",
        "BeltError",
        "BundleError",
        "DivergenceError",
        "DoorFailure",
        "EvalError",
        "InFlightError",
        "InputError",
        "JournalError",
        "JsrunError",
        "MintBusy",
        "NotFound",
        "NotWired",
        "ResumeError",
        "StaleParent",
        "StoreError",
        "UnknownSubharness",
    ),
    "jsrun.evals": (
        "Case",
        "CaseReport",
        "load_cases",
        "run_case",
    ),
    "jsrun.events": ("RunEvent",),
    "jsrun.fuel": (
        "CEILING",
        "Fuel",
    ),
    "jsrun.journal": (
        "EntryRow",
        "Journal",
        "MemoryJournal",
        "RunRecord",
        "RunRow",
    ),
    "jsrun.local_env": ("LocalEnv",),
    "jsrun.long_way": (
        "Generalist",
        "LongWay",
    ),
    "jsrun.look": (
        "Look",
        "WorkspaceLook",
    ),
    "jsrun.manifest": (
        "Guard",
        "Manifest",
    ),
    "jsrun.mapping": (
        "BadInput",
        "MapError",
        "MapLine",
        "map_runs",
    ),
    "jsrun.memory": (
        "FileMemory",
        "Memory",
    ),
    "jsrun.prompts": ("Prompt",),
    "jsrun.registry": (
        "Layer",
        "Registry",
    ),
    "jsrun.replay": (
        "Difference",
        "InFlight",
        "ReplayReport",
    ),
    "jsrun.result": (
        "Artifact",
        "LogEntry",
        "RunResult",
        "Truncation",
        "Usage",
    ),
    "jsrun.runner": (
        "Run",
        "Runner",
        "RunOptions",
        "check",
    ),
    "jsrun.spend": ("Spend",),
    "jsrun.sqlite_journal": ("SqliteJournal",),
    "jsrun.store": (
        "RunNote",
        "Store",
        "Version",
    ),
    "ptc.outcome": ("UNSET",),
}

__getattr__, __dir__ = attach(__name__, _HOMES)
