"""One plug of a run: its instance, and what its context shows."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from jsrun.plugs.api import Host, Plug, PlugContext, PlugLogger, PlugPlace, RunInfo, SessionInfo, SetupPlace, Stopping
from jsrun.plugs.draft import AgentDraft
from jsrun.plugs.errors import AgentNotRunning, HostClosed, NextMisuse, PlugCancelled
from jsrun.plugs.host_api import Env
from jsrun.plugs.infos import EndReason, PauseInfo, TeardownInfo
from jsrun.plugs.persist import PersistedState, StateStore
from jsrun.plugs.schema import check_inputs, persisted_of

if TYPE_CHECKING:
    from jsrun.plugs._watch import Watch
    from jsrun.plugs.message import Message

# An output is an address or an id, not a document.
MAX_OUTPUT_BYTES = 16 * 1024
_OUTPUT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


class Bind(Protocol):
    """Makes the view that `ctx.host` is: relative paths and commands start at `cwd()`, `env()` lies under theirs."""

    def __call__(self, host: Host, cwd: Callable[[], str], env: Callable[[], Env]) -> Host:
        """The view of `host`; both are called at each use of it."""
        ...


@dataclass(frozen=True, slots=True)
class PlugEntry:
    """An entry of a setup: a stamped class, its id, and its `with:`.

    `inputs` gives the value of `with:` when the chain reaches the plug, from what expressions may name: `env`,
    `session`, `run` and `setup`, as plain dicts. It may raise ExpressionError.
    """

    plug: type[Plug]
    id: str | None = None
    inputs: Callable[[Mapping[str, Any]], Any] = lambda names: None


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What is the same for all plugs of a run."""

    session: SessionInfo
    run: RunInfo
    runner_env: Mapping[str, str]
    runner: Host
    store: StateStore
    bind: Bind


@dataclass(slots=True, eq=False)
class Phase:
    """One phase of a level: where its handler is and what came of it. A handler that is left behind keeps its own."""

    watch: "Watch"
    entered: bool = False  # `next` was called
    concluded: bool = False  # the handler has ended or is abandoned
    inner: "asyncio.Task[Any] | None" = None
    paused: PauseInfo | None = None  # what `next` returned
    torn: TeardownInfo | None = None
    failure: BaseException | None = None
    cancelled: BaseException | None = None  # given to the inside when the plug was cancelled in `next`


class Level:
    """A plug at its place in the chain; its lifecycle moves it from phase to phase."""

    def __init__(self, facts: RunFacts, entry: PlugEntry, index: int, outer: "tuple[Level, ...]") -> None:
        self.facts = facts
        self.entry = entry
        self.outer = outer
        self.plug = PlugPlace(entry.id, index, entry.plug.name)
        # How the journal names the plug; `#` begins no id.
        self.key = entry.id if entry.id is not None else f"#{index}"
        self.label = f"{entry.plug.name} ({entry.id})" if entry.id is not None else entry.plug.name
        self.instance: Plug | None = None
        self.loaded = False
        self.state_unread = False  # what is stored could not be read, so it is not known what it stands for
        self.outputs: dict[str, str] = {}
        self.inputs: Any = None
        self.persisted: PersistedState[Any]
        self.agent: AgentDraft
        self.host: Host
        self.outside: Host  # what `host` is a view of
        self.stopping = Stopping()
        self.log: PlugLogger
        self.phase: Phase | None = None
        self.send_message: Callable[[int, Message], Awaitable[Any]] | None = None
        self._forget()

    @property
    def session(self) -> SessionInfo:
        """See PlugContext."""
        return self.facts.session

    @property
    def run(self) -> RunInfo:
        """See PlugContext."""
        return self.facts.run

    @property
    def runner_env(self) -> Mapping[str, str]:
        """See PlugContext."""
        return self.facts.runner_env

    @property
    def runner(self) -> Host:
        """See PlugContext."""
        return self.facts.runner

    @property
    def setup(self) -> Mapping[str, SetupPlace]:
        """See PlugContext."""
        return {level.entry.id: SetupPlace(dict(level.outputs)) for level in self.outer if level.entry.id is not None}

    def begin(self, name: str, draft: AgentDraft, host: Host, phase: Phase) -> None:
        """Start a phase with this draft, this host of the level outside, and a new notice."""
        self.agent = draft
        self.outside = host
        self.host = self.facts.bind(host, lambda: draft.cwd, lambda: draft.env)
        self.stopping = Stopping()
        self.phase = phase
        self.enter(name)

    def enter(self, phase: str) -> None:
        """Name the phase in log lines."""
        self.log = PlugLogger(
            {"session": self.session.id, "run": self.run.number, "plug": self.label, "phase": phase},
        )

    def stop(self, reason: EndReason) -> None:
        """Give the plug notice that its phase is being stopped."""
        self.stopping.set(reason)

    def names(self) -> dict[str, Any]:
        """What the expressions of `with:` may name."""
        session = self.session
        return {
            "env": dict(self.runner_env),
            "session": {
                "id": session.id,
                "execution_id": session.execution_id,
                "agent": {"name": session.agent.name},
            },
            "run": {"kind": self.run.kind, "number": self.run.number},
            "setup": {plug: {"outputs": dict(place.outputs)} for plug, place in self.setup.items()},
        }

    async def prepare(self, on_load: Callable[[], Awaitable[None]]) -> None:
        """Evaluate and validate the inputs, read the state, make the instance and load it; `on_load` before `load`.

        Raises what is wrong with any of it. Each call makes a new instance.
        """
        if self.instance is not None:
            await self.persisted.close()
        self._forget()
        plug = self.entry.plug
        self.inputs = check_inputs(plug, self.entry.inputs(self.names()))
        validator = persisted_of(plug)
        self.persisted = PersistedState(self.facts.store, self.session.id, self.entry.id, validator, self.log)
        instance = plug()
        instance.ctx = PlugContext(self)
        self.instance = instance
        self.state_unread = True
        await self.persisted.load(self._migrate if "migrate" in plug.handlers else None)
        self.state_unread = False
        await on_load()
        loading = instance.load()
        if loading is not None:
            await loading
        if self.instance is instance:  # else it was left behind, and another has its place
            self.loaded = True

    def set_output(self, name: str, value: str) -> None:
        """See PlugContext."""
        if not isinstance(name, str) or _OUTPUT_NAME.fullmatch(name) is None:
            raise ValueError(f"An output is named by a letter and up to 63 letters, digits, - or _, not {name!r}.")
        if not isinstance(value, str) or len(value.encode(errors="surrogatepass")) > MAX_OUTPUT_BYTES:
            raise ValueError(f"The output {name!r} must be a text of {MAX_OUTPUT_BYTES:,} bytes at most.")
        if self.entry.id is None:
            self.log.warning("an output of a plug without id is not published", output=name)
        elif self.phase is None or self.phase.entered or self.phase.concluded:
            self.log.warning("an output set after next() is not published", output=name)
        else:
            self.outputs[name] = value

    async def send(self, message: "Message") -> Any:
        """See PlugContext."""
        if self.send_message is None:
            raise AgentNotRunning("A message can be sent only while the agent runs.")
        return await self.send_message(self.plug.index, message)

    def check_handed(self, host: Host) -> None:
        """Refuse a host that cannot be handed inwards: NextMisuse for a bound view, HostClosed for a closed one."""
        if host.bound:
            raise NextMisuse(f"The plug {self.label} handed on a view bound to a draft, `ctx.host` say, not a host.")
        if host.closed:
            raise HostClosed(f"The plug {self.label} handed on a host that is closed.")

    async def guard(self, phase: Phase, handler: Coroutine[Any, Any, None]) -> None:
        """Run a handler; what it raises is the failure of its phase, the first that is.

        Nothing leaves: SystemExit and its like would end the event loop.
        """
        try:
            await handler
        except asyncio.CancelledError:
            if phase.failure is None:
                phase.failure = phase.cancelled or PlugCancelled(f"The plug {self.label} cancelled itself.")
        except BaseException as error:
            if phase.failure is None:
                phase.failure = error
            else:
                self.log.error("the plug failed while it was being cancelled", error=error)
        finally:
            phase.watch.stop()

    async def _migrate(self, stored: Any) -> Any:
        assert self.instance is not None
        migrated = self.instance.migrate(stored)
        return await migrated if isinstance(migrated, Awaitable) else migrated

    def _forget(self) -> None:
        self.instance = None
        self.loaded = False
        self.state_unread = False
        self.inputs = None
        self.outputs.clear()
