"""RunResult: everything a caller learns about one run, whatever way it ended."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, Literal, TypeAlias, TypeVar, cast, get_args

from jsrun.spend import Spend
from ptc.outcome import Isolation
from ptc.wire import Json

Status: TypeAlias = Literal["finished", "fell_back", "incomplete"]
Reason: TypeAlias = Literal[
    "guard",
    "threw",
    "steps",
    "tokens",
    "wall",
    "compute",
    "memory",
    "output",
    "cancelled",
    "unanswered",
    "taken_over",
    "stuck",
    "no_output",
    "invalid_output",
    "crashed",
]
Path: TypeAlias = Literal["fast", "long"]
Level: TypeAlias = Literal["log", "info", "warn", "error", "debug", "status"]

STATUSES: tuple[str, ...] = get_args(Status)
REASONS: tuple[str, ...] = get_args(Reason)
FALL_BACK_REASONS: tuple[str, ...] = ("guard", "threw")

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One console call, or one status (level `status`); `cut` is how many characters of its text were left out."""

    text: str
    level: Level = "log"
    cut: int = 0


@dataclass(frozen=True, slots=True)
class Artifact:
    """Something the long way left behind: its name, where it is, and a word about it."""

    name: str
    path: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """What the run used of its fuel: door calls, seconds of wall and of CPU, bytes its process grew (None: unknown)."""

    steps: int = 0
    wall_s: float = 0.0
    compute_s: float | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Truncation:
    """Something cut: `what`, the bytes kept, and the bytes dropped (None: nobody could count them)."""

    what: str
    kept: int
    dropped: int | None = None


@dataclass(frozen=True, slots=True)
class RunResult:
    """The ending of a run and all that was gathered until then.

    `status` says how it ended and `reason` why (None if finished); `fell_back` or `incomplete` is the sentence for
    people. `output` is JSON or None. `report` is the last status that `log` showed. `logs` holds console lines and
    statuses (level `status`) in order, `calls` counts the program's journaled door calls. `path` is `long` if the
    generalist did the job, then `long_run_id` is its run. `sandbox` holds the protective measures that were in force
    (None: no process was started). Whatever was cut is in `truncated`.

    ValueError if status and reason do not belong together.
    """

    status: Status
    reason: Reason | None = None
    output: Json = None
    report: str = ""
    artifacts: tuple[Artifact, ...] = ()
    incomplete: str = ""
    fell_back: str = ""
    spend: Spend = field(default_factory=Spend)
    logs: tuple[LogEntry, ...] = ()
    calls: int = 0
    run_id: str = ""
    path: Path = "fast"
    long_run_id: str | None = None
    usage: Usage = field(default_factory=Usage)
    truncated: tuple[Truncation, ...] = ()
    sandbox: Isolation | None = None

    def __post_init__(self) -> None:
        if self.status not in STATUSES:
            raise ValueError(f"status must be one of {', '.join(STATUSES)}, got {self.status!r}")
        if self.status == "finished" and self.reason is not None:
            raise ValueError(f"a finished run has no reason, got {self.reason!r}")
        if self.status != "finished" and self.reason not in REASONS:
            raise ValueError(f"reason must be one of {', '.join(REASONS)}, got {self.reason!r}")
        if self.status != "finished" and (self.status == "fell_back") != (self.reason in FALL_BACK_REASONS):
            raise ValueError(f"{self.reason!r} is not a reason of {self.status!r}")

    def finished(self) -> bool:
        """Did the run give an output? A job the long way finished counts, so `fell_back` is not looked at."""
        return not self.incomplete and self.output is not None

    @property
    def sentence(self) -> str:
        """Why there is no output from the fast path, for people; empty if there is one."""
        return self.incomplete or self.fell_back

    def to_json(self) -> dict[str, Json]:
        """Every field under its name, always all of them."""
        data = _members(self)
        data["spend"] = self.spend.to_json()
        data["usage"] = _members(self.usage)
        for name in ("artifacts", "logs", "truncated"):
            data[name] = [_members(item) for item in data[name]]
        if self.sandbox is not None:
            data["sandbox"] = _members(self.sandbox) | {"rlimits": list(self.sandbox.rlimits)}
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "RunResult":
        """The inverse of `to_json`. ValueError, naming the part, if `data` is not what `to_json` gives."""
        known = dict(data)
        known["spend"] = Spend.from_json(_object("spend", data.get("spend")))
        known["usage"] = _build("usage", Usage, data.get("usage"))
        known["artifacts"] = _build_all("artifacts", Artifact, data.get("artifacts"))
        known["logs"] = _build_all("logs", LogEntry, data.get("logs"))
        known["truncated"] = _build_all("truncated", Truncation, data.get("truncated"))
        if known.get("sandbox") is not None:
            sandbox: dict[str, Any] = dict(_object("sandbox", known["sandbox"]))
            sandbox["rlimits"] = tuple(sandbox.get("rlimits") or ())
            known["sandbox"] = _build("sandbox", Isolation, sandbox)
        return _build("result", cls, known)


def _members(item: object) -> dict[str, Any]:
    """The fields of a dataclass; not by `asdict`, which copies deeply and would be most of the cost of a short run."""
    kind: Any = type(item)
    return {name: getattr(item, name) for name in _names(kind)}


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(item.name for item in fields(kind))


def _object(name: str, data: object) -> Mapping[str, object]:
    if not isinstance(data, Mapping):
        raise ValueError(f"{name} must be an object")
    return cast(Mapping[str, object], data)


def _build(name: str, kind: type[T], data: object) -> T:
    try:
        return kind(**_object(name, data))
    except TypeError as error:
        raise ValueError(f"{name} has missing or unknown keys") from error


def _build_all(name: str, kind: type[T], data: object) -> tuple[T, ...]:
    if not isinstance(data, Sequence) or isinstance(data, str):
        raise ValueError(f"{name} must be a list")
    return tuple(_build(name, kind, item) for item in data)
