"""What a run leaves behind: one frozen `Outcome`, whatever happened."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, Literal, get_args

__all__ = [
    "KINDS",
    "UNSET",
    "EngineInfo",
    "ExitStatus",
    "Failure",
    "Isolation",
    "Kind",
    "Level",
    "LogEntry",
    "Outcome",
    "Position",
    "Truncation",
    "Unset",
]

Kind = Literal[
    "exception",
    "timeout",
    "abort",
    "worker-exit",
    "invalid-output",
    "output-limit",
    "protocol",
    "sandbox-unavailable",
    "memory-limit",
    "compute-limit",
    "call-limit",
    "stuck",
]
"""Why a run did not end well. Nothing else is ever reported."""

KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

Level = Literal["log", "info", "warn", "error", "debug"]
"""The console method an entry came from."""


class Unset(Enum):
    """The type of `UNSET`, an enum so that type checkers narrow `x is UNSET`."""

    UNSET = "UNSET"

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = Unset.UNSET
"""Stands for "not given" where `None` already means something (`timeout=None`, `input=None`)."""


@dataclass(frozen=True, slots=True)
class Position:
    """A place in the program's own text: 1-based line, 1-based column in code points."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a run or a load failed. `stack` holds frames of the program only."""

    kind: Kind
    message: str
    position: Position | None = None
    stack: str | None = None


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One console call. `cut` is the number of characters that were left out of `text`."""

    text: str
    level: Level = "log"
    cut: int = 0


@dataclass(frozen=True, slots=True)
class ExitStatus:
    """How a process ended: an exit code, or the number of the signal that ended it."""

    code: int | None = None
    signal: int | None = None


@dataclass(frozen=True, slots=True)
class Truncation:
    """What an outcome leaves out.

    `entries`: log entries missing as a whole. `characters`: characters missing from the entries that are there (the sum
    of their `cut`) and from the failure's message. `output_limit`: the output limit is what made things missing.
    `native_bytes`: bytes of native output beyond those kept.
    """

    entries: int = 0
    characters: int = 0
    output_limit: bool = False
    native_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Isolation:
    """The measures that were in force around the run; what is not named was not."""

    process: Literal["fork", "spawn"]
    rlimits: tuple[str, ...]
    seccomp: Literal["filter", "no-new-privs", "off"]


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """The JavaScript engine that ran the program."""

    name: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Everything a run gave, gathered up to its end.

    `value` counts only if `has_value`: a program that returns `undefined` finishes without one. `calls` is the number
    of accepted calls, `unfinished` the `(id, global, name)` of those not answered. `elapsed` (from boot to settlement)
    and `cpu` are seconds; `cpu` is None if unknown. `exit` is None after a normal end. `isolation` is None if no
    process was started.
    """

    ok: bool = field(init=False)
    value: Any = None  # JSON data, for the caller to index without casts
    has_value: bool = False
    failure: Failure | None = None
    logs: tuple[LogEntry, ...] = ()
    calls: int = 0
    unfinished: tuple[tuple[int, str, str], ...] = ()
    elapsed: float = 0.0
    cpu: float | None = None
    exit: ExitStatus | None = None
    native: str = ""
    truncated: Truncation | None = None
    isolation: Isolation | None = None
    engine: EngineInfo

    def __post_init__(self) -> None:
        object.__setattr__(self, "ok", self.failure is None)
