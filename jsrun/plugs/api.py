"""What a plug is made of: the class it derives from, the context it gets, and the `next` functions it calls."""

import inspect
import logging
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Protocol, TypeGuard, TypeVar, runtime_checkable

from jsrun.plugs.host_api import (
    MAX_OUTPUT,
    AgentSpawnSpec,
    ExecResult,
    FileStat,
    Forward,
    ForwardSpec,
    Host,
    HostFs,
    HostInfo,
    HostProcess,
    ProcessInput,
    ProcessOutput,
)
from jsrun.plugs.infos import AgentName, EndReason, PauseInfo, RunInfo, RunKind, SessionInfo, Stopping, TeardownInfo

if TYPE_CHECKING:
    from jsrun.plugs.draft import AgentDraft
    from jsrun.plugs.message import Message
    from jsrun.plugs.persist import PersistedState

__all__ = [
    "GONE",
    "MAX_OUTPUT",
    "PLUG_API_VERSION",
    "AgentName",
    "AgentSpawnSpec",
    "ContextSource",
    "EndReason",
    "ExecResult",
    "FileStat",
    "Forward",
    "ForwardSpec",
    "Gone",
    "Host",
    "HostFs",
    "HostInfo",
    "HostProcess",
    "NextMessage",
    "NextSession",
    "NextTeardown",
    "PauseInfo",
    "Plug",
    "PlugApi",
    "PlugContext",
    "PlugLogger",
    "PlugPlace",
    "ProcessInput",
    "ProcessOutput",
    "RunInfo",
    "RunKind",
    "Schema",
    "SessionInfo",
    "SetupPlace",
    "Stopping",
    "TeardownInfo",
]

HANDLERS: Final = ("load", "migrate", "session", "teardown", "message")
T_co = TypeVar("T_co", covariant=True)


class PlugApi(NamedTuple):
    """A version of the Plug API: another `major` does not fit, a newer `minor` may."""

    major: int
    minor: int


PLUG_API_VERSION: Final = PlugApi(major=1, minor=0)


def is_stamp(value: object) -> TypeGuard[tuple[int, int]]:
    """Whether `value` is a version: two numbers in a tuple, which another copy of this package may have made."""
    return isinstance(value, tuple) and len(value) == 2 and all(type(part) is int for part in value)


class Gone:
    """The type of GONE."""

    def __repr__(self) -> str:
        return "GONE"


# Given to `next(host=…)` in teardown: the machine handed inwards in an earlier run no longer exists.
GONE: Final = Gone()


@runtime_checkable
class Schema(Protocol[T_co]):
    """Anything that can be `Inputs` or `Persisted` without being a type that pydantic adapts."""

    def validate(self, value: Any) -> T_co:
        """The validated value; SchemaError with issues if it does not fit."""
        ...


class NextSession(Protocol):
    """Goes on inwards: the inner plugs, then the agent. May be called once."""

    async def __call__(self, host: Host | None = None) -> PauseInfo:
        """Hand `host` (if given) inwards; return when everything inside has paused, never raising for it."""
        ...


class NextTeardown(Protocol):
    """Goes on inwards with the removal. May be called once."""

    async def __call__(self, host: Host | Gone | None = None) -> TeardownInfo:
        """Hand `host` (if given) inwards, or say with GONE that it is no more; return when the inside is removed."""
        ...


class NextMessage(Protocol):
    """Sends a message on; a request may be sent on several times."""

    async def __call__(self, message: "Message") -> Any:
        """The result of a request, None for a notification. RequestError is the error answer of the far side."""
        ...

    def release(self) -> None:
        """Let later messages of the same direction overtake this one from here on."""
        ...


@dataclass(frozen=True, slots=True)
class PlugPlace:
    """Where a plug stands: its id in the setup (if any), its index from outside, and the name of its class."""

    id: str | None
    index: int
    name: str


@dataclass(frozen=True, slots=True)
class SetupPlace:
    """What an earlier plug published: `outputs` by name."""

    outputs: Mapping[str, str] = field(default_factory=dict)


class PlugLogger:
    """A plug's log. Every line carries session, run, plug and phase; more fields are given as keywords.

    An exception given as `error` is shown as its type and text, with its traceback where debugging is on. Lines
    go to the logger "jsrun.plugs"; the record's `plug` attribute has all fields as a dict.
    """

    def __init__(self, fields: Mapping[str, Any], logger: logging.Logger | None = None) -> None:
        self._fields = dict(fields)
        self._logger = logger if logger is not None else logging.getLogger("jsrun.plugs")

    def bind(self, **fields: Any) -> "PlugLogger":
        """A logger with more fields."""
        return PlugLogger({**self._fields, **fields}, self._logger)

    def debug(self, message: str, **fields: Any) -> None:
        """For whoever looks into the plug itself."""
        self._log(logging.DEBUG, message, fields)

    def info(self, message: str, **fields: Any) -> None:
        """What happened."""
        self._log(logging.INFO, message, fields)

    def warning(self, message: str, **fields: Any) -> None:
        """What may be wrong."""
        self._log(logging.WARNING, message, fields)

    def error(self, message: str, **fields: Any) -> None:
        """What is wrong."""
        self._log(logging.ERROR, message, fields)

    def _log(self, level: int, message: str, fields: Mapping[str, Any]) -> None:
        if not self._logger.isEnabledFor(level):
            return
        everything = {**self._fields, **fields}
        shown = " ".join(f"{name}={_shown(value)}" for name, value in everything.items() if value is not None)
        cause = everything.get("error") if self._logger.isEnabledFor(logging.DEBUG) else None
        trace = cause if isinstance(cause, BaseException) else None
        self._logger.log(level, "%s [%s]", message, shown, extra={"plug": everything}, exc_info=trace)


def _shown(value: object) -> str:
    if isinstance(value, BaseException):
        return f"{type(value).__name__}: {value}" if str(value) else type(value).__name__
    return str(value)


class ContextSource(Protocol):
    """Where a context gets its members from; the runner has one for each plug of a run."""

    @property
    def plug(self) -> PlugPlace: ...
    @property
    def session(self) -> SessionInfo: ...
    @property
    def run(self) -> RunInfo: ...
    @property
    def inputs(self) -> Any: ...
    @property
    def persisted(self) -> "PersistedState[Any]": ...
    @property
    def setup(self) -> Mapping[str, SetupPlace]: ...
    @property
    def agent(self) -> "AgentDraft": ...
    @property
    def runner_env(self) -> Mapping[str, str]: ...
    @property
    def log(self) -> PlugLogger: ...
    @property
    def host(self) -> Host: ...
    @property
    def runner(self) -> Host: ...
    @property
    def stopping(self) -> Stopping: ...
    def set_output(self, name: str, value: str) -> None: ...
    async def send(self, message: "Message") -> Any: ...


class PlugContext:
    """What a plug can see and do: one object for all handlers of a plug in a run."""

    __slots__ = ("_source",)

    def __init__(self, source: ContextSource) -> None:
        self._source = source

    @property
    def inputs(self) -> Any:
        """What `with:` gave, validated; None without `Inputs`."""
        return self._source.inputs

    @property
    def persisted(self) -> "PersistedState[Any]":
        """The small state of this plug id in this session."""
        return self._source.persisted

    @property
    def session(self) -> SessionInfo:
        """Which session this is."""
        return self._source.session

    @property
    def run(self) -> RunInfo:
        """Which run this is."""
        return self._source.run

    @property
    def plug(self) -> PlugPlace:
        """The plug's own id and index."""
        return self._source.plug

    @property
    def setup(self) -> Mapping[str, SetupPlace]:
        """What earlier plugs published, by their id."""
        return self._source.setup

    @property
    def agent(self) -> "AgentDraft":
        """This level's draft of the agent; it may be changed until `next()` is called."""
        return self._source.agent

    @property
    def runner_env(self) -> Mapping[str, str]:
        """The environment of the runner, without the names that begin with `JSRUN_`."""
        return self._source.runner_env

    @property
    def log(self) -> PlugLogger:
        """The plug's log."""
        return self._source.log

    @property
    def host(self) -> Host:
        """Where the inside works, seen from this level: a view bound to the draft."""
        return self._source.host

    @property
    def runner(self) -> Host:
        """The machine and folder of the runner itself."""
        return self._source.runner

    @property
    def stopping(self) -> Stopping:
        """Notice that this phase is being stopped."""
        return self._source.stopping

    def set_output(self, name: str, value: str) -> None:
        """Publish a value for later plugs; before `next()`, and only with an id, else it warns and does nothing.

        ValueError for a name other than `[A-Za-z_][A-Za-z0-9_-]{0,63}` or a value that is no text of 16 KiB at most.
        """
        self._source.set_output(name, value)

    async def send(self, message: "Message") -> Any:
        """Start a message at this plug's place, as `next` would; AgentNotRunning while no agent runs."""
        return await self._source.send(message)


class Plug:
    """The class a plug derives from: `class VmPlug(Plug, name="acme/vm", description="…", api=(1, 0))`.

    Every handler is optional. There is one new instance per run, so handlers keep what they need on `self`; `__init__`
    takes nothing and has no context yet. `Inputs` and `Persisted` may be given as types that pydantic adapts, or as
    objects with a `validate` method (see `Schema`).
    """

    # The stamp: set on every subclass, not here, so that Plug itself is not taken for a plug.
    plug_api: ClassVar[PlugApi]
    name: ClassVar[str]
    description: ClassVar[str]
    # The handlers that the class really has.
    handlers: ClassVar[frozenset[str]]
    resumable: ClassVar[bool] = True
    Inputs: ClassVar[Any] = None
    Persisted: ClassVar[Any] = None

    ctx: PlugContext
    if TYPE_CHECKING:
        inputs: Any
        persisted: Any
        log: PlugLogger
    else:

        @property
        def inputs(self) -> Any:
            """`ctx.inputs`."""
            return self.ctx.inputs

        @property
        def persisted(self) -> "PersistedState[Any]":
            """`ctx.persisted`."""
            return self.ctx.persisted

        @property
        def log(self) -> PlugLogger:
            """`ctx.log`."""
            return self.ctx.log

    def __init_subclass__(
        cls,
        *,
        name: str | None = None,
        description: str | None = None,
        api: tuple[int, int] = PLUG_API_VERSION,
        **rest: Any,
    ) -> None:
        """Stamp the class. `name` is by default `module:Class`.

        TypeError for an `api` that is not two numbers, and for a handler of the wrong kind.
        """
        super().__init_subclass__(**rest)
        if not is_stamp(api):
            raise TypeError(f"{cls.__qualname__}: api= is two numbers, (major, minor), not {api!r}.")
        cls.plug_api = PlugApi(*api)
        cls.name = name if name is not None else f"{cls.__module__}:{cls.__qualname__}"
        cls.description = description if description is not None else ""
        cls.handlers = frozenset(handler for handler in HANDLERS if getattr(cls, handler) is not getattr(Plug, handler))
        for handler in ("session", "teardown"):
            if not inspect.iscoroutinefunction(getattr(cls, handler)):
                raise TypeError(f"{cls.__qualname__}.{handler} must be declared with `async def`.")

    def load(self) -> Awaitable[None] | None:
        """Called once per run before the plug's other handlers but `migrate`; plain or async."""
        return None

    def migrate(self, stored: Any) -> Any:
        """Turn a stored value that no longer fits `Persisted` into one that does; None drops it. Plain or async."""
        raise NotImplementedError

    async def session(self, next: NextSession) -> None:
        """Wrap a start or resume: attach, `await next()`, pause."""
        await next()

    async def teardown(self, next: NextTeardown) -> None:
        """Wrap the removal: restore access, `await next()`, destroy. Must do no harm when called again."""
        await next()

    def message(self, message: "Message", next: NextMessage) -> Any:
        """See every message, both ways; plain or async. A plain one returns what is awaited, or the result itself."""
        return next(message)
