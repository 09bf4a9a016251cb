"""What a `HostMachine` answers its inputs with, and the result it ends with. All frozen."""

from dataclasses import dataclass
from typing import TypeAlias

from ptc.outcome import ExitStatus, Failure, Kind, LogEntry, Truncation
from ptc.wire import Json

__all__ = ["CallRequested", "Event", "KillRequested", "Logged", "Ready", "Replied", "Result", "Settled"]


@dataclass(frozen=True, slots=True)
class Result:
    """How a run ended and what it gave. `cpu` is in seconds, None if nobody has told."""

    failure: Failure | None
    value: Json = None
    has_value: bool = False
    logs: tuple[LogEntry, ...] = ()
    calls: int = 0
    unfinished: tuple[tuple[int, str, str], ...] = ()
    exit: ExitStatus | None = None
    truncated: Truncation | None = None
    native: str = ""
    cpu: float | None = None

    @property
    def kind(self) -> Kind | None:
        """The kind of the failure, None if the program finished."""
        return self.failure.kind if self.failure is not None else None


@dataclass(frozen=True, slots=True)
class Ready:
    """The process is there and may be booted."""


@dataclass(frozen=True, slots=True)
class CallRequested:
    """Call this declared host function once, with `args`, and answer with `reply` or `reply_error`."""

    id: int
    global_: str
    name: str
    args: Json


@dataclass(frozen=True, slots=True)
class Logged:
    """A console entry arrived."""

    entry: LogEntry


@dataclass(frozen=True, slots=True)
class Replied:
    """A call has been answered. `message` is the text the program gets of a failed one."""

    id: int
    ok: bool
    message: str | None = None


@dataclass(frozen=True, slots=True)
class KillRequested:
    """The process has nothing left to do: end it. `why` is the kind of the failure, `eof` if unknown yet, or `done`."""

    why: str


@dataclass(frozen=True, slots=True)
class Settled:
    """The one final result. No event follows."""

    result: Result


Event: TypeAlias = Ready | CallRequested | Logged | Replied | KillRequested | Settled
