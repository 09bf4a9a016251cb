"""Supervision: agents that are restarted when they die, each alone, and given up when they die too often."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from jsrun.agent.actor import STOPPED, Actor
from jsrun.agent.config import RuntimeConfig
from jsrun.agent.core import AgentState
from jsrun.agent.errors import AgentUnavailable, InvalidConfiguration, SupervisorFailed
from jsrun.agent.guarded import name_of, stripped
from jsrun.agent.mailbox import RuntimeMsg, Stop, refuse
from jsrun.agent.messages import Message
from jsrun.agent.runtime import Agent, RuntimeState, launch, loaded_state
from jsrun.agent.session import SessionDisabled, SessionState, SessionStore

_log = logging.getLogger("jsrun.agent")

# What a call in flight reads when its agent dies; it may call again at once.
RESTARTED = "restarted"


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """One agent to supervise: its name and configuration, and the states it begins in, first and after a restart."""

    name: str
    config: RuntimeConfig
    first: Callable[[], Awaitable[RuntimeState]]
    again: Callable[[], Awaitable[RuntimeState]]


def supervised(
    config: RuntimeConfig,
    *,
    name: str,
    initial_history: Sequence[Message] = (),
    session: SessionState = SessionDisabled(),  # noqa: B008  # a frozen value without fields
) -> ChildSpec:
    """An agent that begins with what is given; after a restart with what its store holds, or anew if it has none."""

    async def first() -> RuntimeState:
        return RuntimeState(AgentState(tuple(initial_history)), config, session)

    async def again() -> RuntimeState:
        return await first() if isinstance(session, SessionDisabled) else await loaded_state(config, session.store)

    return ChildSpec(name, config, first, again)


def supervised_with_session_store(config: RuntimeConfig, *, name: str, store: SessionStore) -> ChildSpec:
    """An agent that loads its session whenever it starts."""

    async def loaded() -> RuntimeState:
        return await loaded_state(config, store)

    return ChildSpec(name, config, loaded, loaded)


class Supervisor:
    """Runs agents while its `async with` block runs.

    Entering starts them in order; the first that fails stops those before it and raises its StartError. An agent that
    ends other than by `stop` is started again. More than `max_restarts` restarts of one agent `within` seconds stop all
    of them; then leaving the block and `wait` raise SupervisorFailed.
    """

    def __init__(self, specs: Sequence[ChildSpec], max_restarts: int = 2, within: float = 5.0) -> None:
        names = [spec.name for spec in specs]
        for name in names:
            if names.count(name) > 1:
                raise InvalidConfiguration(f"specs: the name {name!r} stands twice")
        if max_restarts < 0 or not within > 0:
            raise InvalidConfiguration("max_restarts must be 0 or more, and within above 0")
        self._specs = tuple(specs)
        self._max_restarts = max_restarts
        self._within = within
        self._children: dict[str, _Child] = {}
        self._watchers: list[asyncio.Task[None]] = []
        self._ended = asyncio.Event()
        self._failure: SupervisorFailed | None = None

    async def __aenter__(self) -> Self:
        try:
            for spec in self._specs:
                child = _Child(spec)
                await child.launch(spec.first)
                self._children[spec.name] = child
        except BaseException:
            await self._stop_all()
            raise
        for child in self._children.values():
            child.watched = True
            self._watchers.append(asyncio.create_task(self._watch(child)))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stop_all()
        if self._watchers:
            await asyncio.wait(self._watchers)
        self._ended.set()
        if self._failure is not None and (error is None or isinstance(error, Exception)):
            raise self._failure.bare() from None

    def agent(self, name: str) -> Agent:
        """The agent of that name; it stays valid over restarts. Raises KeyError."""
        return self._children[name].agent

    async def wait(self) -> None:
        """Wait until the supervisor ends. Raises SupervisorFailed if an agent was given up."""
        await self._ended.wait()
        if self._failure is not None:
            raise self._failure.bare()

    async def _watch(self, child: "_Child") -> None:
        restarts: deque[float] = deque()
        while (cause := await child.death()) is not None:
            restarted = False
            while not restarted and not child.stopping:
                if self._too_many(restarts):
                    await self._give_up(child, cause)
                    return
                try:
                    await child.launch(child.spec.again)
                    restarted = True
                except Exception as error:
                    stripped(error)
                    cause = error
                    _log.warning("the agent %s could not be restarted: %s", child.spec.name, name_of(error))
            if not restarted:
                break
        child.close(STOPPED)
        child.ended.set()

    def _too_many(self, restarts: "deque[float]") -> bool:
        """Count a restart that is about to be tried; is it one too many?"""
        now = asyncio.get_running_loop().time()
        restarts.append(now)
        while restarts[0] <= now - self._within:
            restarts.popleft()
        return len(restarts) > self._max_restarts

    async def _give_up(self, child: "_Child", cause: BaseException) -> None:
        failure = self._failure = self._failure or SupervisorFailed(child.spec.name, cause)
        _log.error("%s; all agents of the supervisor stop", failure)
        for each in self._children.values():
            each.close(str(failure))
        child.ended.set()
        await self._stop_all()
        self._ended.set()

    async def _stop_all(self) -> None:
        for child in reversed(self._children.values()):
            await child.stop()


class _Child:
    """One supervised agent: the port that outlives its actors, with a waiting room for the time between two of them."""

    def __init__(self, spec: ChildSpec) -> None:
        self.spec = spec
        self.stopping = False
        self.watched = False
        self.ended = asyncio.Event()
        self._actor: Actor | None = None
        self._waiting: list[RuntimeMsg] = []
        self._closed: str | None = None
        self.agent = Agent(spec.config, self)

    async def launch(self, state: Callable[[], Awaitable[RuntimeState]]) -> None:
        """Start an actor, and give it what has waited. Raises StartError, and what a state or a hook raises."""
        actor = await launch(self.spec.config, await state(), RESTARTED)
        self._actor = actor
        waiting, self._waiting = self._waiting, []
        for message in waiting:
            actor.post(message)
        if self.stopping:
            actor.post(Stop())

    async def death(self) -> BaseException | None:
        """Wait for the end of the actor: what killed it, or None if it was stopped."""
        assert self._actor is not None and self._actor.task is not None  # launched before it is watched
        await asyncio.wait({self._actor.task})
        if self._actor.crash is not None:
            stripped(self._actor.crash)
        return self._actor.crash

    def post(self, message: RuntimeMsg) -> None:
        """Hand over a message; between two actors it waits."""
        if self._closed is not None:
            refuse(message, AgentUnavailable(self._closed))
        elif self._actor is None or (self._actor.over and self._actor.crash is not None):
            self._waiting.append(message)
        else:
            self._actor.post(message)

    async def stop(self) -> None:
        """Stop for good, and wait for the end of the actor, one that is just being started included."""
        self.stopping = True
        if self._actor is None or self._actor.task is None:
            return
        self._actor.post(Stop())
        if self._actor.keeper.hooks.calls_me():
            await asyncio.sleep(0)  # the actor hears of it before the hook goes on
        elif self.watched:
            await self.ended.wait()
        else:
            await asyncio.wait({self._actor.task})

    def close(self, detail: str) -> None:
        """Refuse what waits and all that still comes."""
        self._closed = self._closed or detail
        waiting, self._waiting = self._waiting, []
        for message in waiting:
            refuse(message, AgentUnavailable(self._closed))
