"""Configuration: all that an agent is made of, in one checked record."""

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, fields, replace
from datetime import datetime
from typing import TYPE_CHECKING

from jsrun.agent.errors import InvalidConfiguration
from jsrun.agent.provider import InferenceSettings, Provider
from jsrun.agent.sources import random_id, utc_now
from jsrun.agent.tools import ToolRegistry

if TYPE_CHECKING:
    from jsrun.agent.dispatcher import EventDispatcher
    from jsrun.agent.hooks import Hooks
    from jsrun.agent.instrumentation import Instrumentation

_COUNTS = ("max_parallel_tools", "max_result_chars")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeLimits:
    """Limits of one agent, times in seconds. Raises InvalidConfiguration naming a field that is not above 0.

    `inference_timeout` and `tool_timeout` are per inference and per call. `cancel_grace`: what is cancelled and does
    not end within it is abandoned. `commit_timeout`, `load_timeout`: a store that is slower counts as unavailable.
    `max_parallel_tools` of one batch run at a time; a result longer than `max_result_chars` is cut.
    """

    inference_timeout: float = 600.0
    tool_timeout: float = 60.0
    cancel_grace: float = 2.0
    commit_timeout: float = 30.0
    load_timeout: float = 30.0
    max_parallel_tools: int = 16
    max_result_chars: int = 100_000

    def __post_init__(self) -> None:
        for item in fields(self):
            value: object = getattr(self, item.name)
            whole = item.name in _COUNTS
            if not isinstance(value, int if whole else int | float) or isinstance(value, bool):
                raise InvalidConfiguration(f"limits.{item.name} must be a {'whole ' if whole else ''}number")
            if not math.isfinite(value) or value <= 0:
                raise InvalidConfiguration(f"limits.{item.name} must be above 0 and finite, got {value!r}")


@dataclass(frozen=True, slots=True)
class AgentIdentity:
    """Who the agent is, in events and spans. A missing `id` is generated when the configuration is made."""

    id: str | None = None
    name: str | None = None
    description: str | None = None
    version: str | None = None
    provider_name: str | None = None


@dataclass(frozen=True, slots=True)
class RuntimeConfig:
    """All that an agent is made of.

    `model` is the label in events and spans. `max_iterations` is the number of tool rounds a run may take. `now` gives
    the time of event records. `new_id` gives fresh unguessable text of at most 100 printable ASCII characters; ids are
    `commit-`, `run-` or `agent-` and such a text. Raises InvalidConfiguration naming the field that is wrong.
    """

    provider: Provider
    tools: ToolRegistry = field(default_factory=lambda: ToolRegistry(()))
    hooks: "tuple[Hooks, ...]" = ()
    dispatcher: "EventDispatcher | None" = None
    model: str = ""
    max_iterations: int = 50
    _: KW_ONLY
    system_prompt: str | None = None
    settings: InferenceSettings = field(default_factory=InferenceSettings)
    identity: AgentIdentity = AgentIdentity()
    limits: RuntimeLimits = RuntimeLimits()
    stream: bool = True
    instrumentation: "Instrumentation | None" = None
    now: Callable[[], datetime] = utc_now
    new_id: Callable[[], str] = random_id

    def __post_init__(self) -> None:
        if not callable(self.provider):
            raise InvalidConfiguration("provider must be an async function of a request, or an object with such a call")
        if not isinstance(self.tools, ToolRegistry):
            raise InvalidConfiguration("tools must be a ToolRegistry")
        if not isinstance(self.max_iterations, int) or isinstance(self.max_iterations, bool) or self.max_iterations < 1:
            raise InvalidConfiguration(f"max_iterations must be a whole number, 1 or more, got {self.max_iterations!r}")
        if not isinstance(self.limits, RuntimeLimits):
            raise InvalidConfiguration("limits must be RuntimeLimits")
        object.__setattr__(self, "hooks", tuple(self.hooks))
        if not isinstance(self.settings, InferenceSettings):
            raise InvalidConfiguration("settings must be InferenceSettings")
        if not isinstance(self.identity, AgentIdentity):
            raise InvalidConfiguration("identity must be an AgentIdentity")
        if self.system_prompt is not None and not isinstance(self.system_prompt, str):
            raise InvalidConfiguration("system_prompt must be text or None")
        seen: set[str] = set()
        for hooks in self.hooks:
            if not isinstance(getattr(hooks, "name", None), str):
                raise InvalidConfiguration(f"hooks must be Hooks, got a {type(hooks).__name__}")
            if hooks.name in seen:
                raise InvalidConfiguration(f"hooks: the name {hooks.name!r} stands twice")
            seen.add(hooks.name)
        if self.identity.id is None:
            object.__setattr__(self, "identity", replace(self.identity, id=f"agent-{self.new_id()}"))

    @property
    def agent_id(self) -> str:
        """The id in `identity`, which is always there."""
        return self.identity.id or ""
