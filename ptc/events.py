"""What a host can watch while a program runs. All frozen; delivered in the order things happened."""

from dataclasses import dataclass

from ptc.outcome import LogEntry, Outcome

__all__ = ["CallFinished", "CallStarted", "Event", "Logged", "RunEnded", "RunStarted"]


@dataclass(frozen=True, slots=True)
class RunStarted:
    """The program begins."""


@dataclass(frozen=True, slots=True)
class Logged:
    """One console entry arrived."""

    entry: LogEntry


@dataclass(frozen=True, slots=True)
class CallStarted:
    """A call was accepted; its host function is about to be called."""

    id: int
    global_name: str
    name: str


@dataclass(frozen=True, slots=True)
class CallFinished:
    """A call was answered, well or with a failure (`message`). `elapsed` is seconds since it started."""

    id: int
    ok: bool
    elapsed: float
    message: str | None = None


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The last event of every run."""

    outcome: Outcome


Event = RunStarted | Logged | CallStarted | CallFinished | RunEnded
