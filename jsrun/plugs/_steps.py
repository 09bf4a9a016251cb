"""What a lifecycle is given by the one who performs the run: limits, the past, a recorder, and the agent's part."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from jsrun.plugs.api import AgentSpawnSpec, Host
from jsrun.plugs.infos import EndReason, PauseInfo

if TYPE_CHECKING:
    from jsrun.plugs.lifecycle import Lifecycle


@dataclass(frozen=True, slots=True)
class PhaseLimits:
    """How long a plug's own code may take, in seconds: to be prepared, and in each phase on each side of `next`."""

    prepare: float = 60.0
    attach: float = 600.0
    pause: float = 120.0
    teardown: float = 300.0


@dataclass(frozen=True, slots=True)
class History:
    """What earlier runs of the session did: keys of the plugs ever loaded, and of those that handed a host inwards."""

    loaded: frozenset[str] = frozenset()
    handed: frozenset[str] = frozenset()


class StepRecorder(Protocol):
    """Where the steps of plugs are written down. Each is called, and must be durable, before the step is made.

    `plug` is the id of the plug, or `#` and its index if it has none.
    """

    async def loaded(self, plug: str) -> None:
        """The plug's `load` is about to be called."""
        ...

    async def attached(self, plug: str) -> None:
        """The plug's `session` is about to be called."""
        ...

    async def handed(self, plug: str, host: bool) -> None:
        """In `session` the plug goes on inwards, with a host of its own or without one; the last word counts."""
        ...

    async def stopping(self, reason: EndReason) -> None:
        """The stop was decided; what follows is stopping the agent and pausing."""
        ...

    async def paused(self, plug: str) -> None:
        """The plug is about to pause."""
        ...

    async def torn(self, plug: str) -> None:
        """The plug's `teardown` is about to be called."""
        ...


class AgentStep(Protocol):
    """Runs the agent, innermost: starts it, lets messages flow, and returns when it is stopped or gone.

    It waits for `lifecycle.stopped()`, or calls `stop` or `fail` itself when the agent ends. What it raises fails the
    run.
    """

    async def __call__(self, spec: AgentSpawnSpec, host: Host, lifecycle: "Lifecycle") -> PauseInfo:
        """Run the agent as `spec` says on `host`; how that ended."""
        ...
