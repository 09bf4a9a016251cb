"""The agent as its users call it: starting, running, continuing, watching, reloading, stopping."""

import asyncio
import contextvars
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

from jsrun.agent.actor import Actor
from jsrun.agent.config import RuntimeConfig
from jsrun.agent.core import IDLE, AgentState
from jsrun.agent.effects import load
from jsrun.agent.errors import AgentUnavailable, Corrupt, InvalidConfiguration, RunCancelled, SessionError, SessionLoad
from jsrun.agent.handle import Port, RunHandle, answer_of, check_max_tokens, check_prompt, check_timeout
from jsrun.agent.keeper import Keeper
from jsrun.agent.mailbox import (
    Continue,
    GetHistory,
    Reload,
    Run,
    RunOutcome,
    RuntimeMsg,
    Stop,
    Ticket,
)
from jsrun.agent.messages import AssistantMessage, Message
from jsrun.agent.session import (
    ReloadReport,
    SessionDisabled,
    SessionPending,
    SessionReady,
    SessionState,
    SessionStore,
    entering,
)

# Seconds. Enough for a job of a few rounds; longer ones say so.
DEFAULT_TIMEOUT = 120.0
# Seconds. The mailbox is served at all times, so this passes only if the loop is blocked.
HISTORY_TIMEOUT = 5.0


@dataclass(frozen=True, slots=True)
class RuntimeState:
    """An agent at rest: its conversation, its configuration, its session."""

    agent_state: AgentState
    config: RuntimeConfig
    session: SessionState


class Agent:
    """A running agent. It belongs to the event loop that started it; `async with agent:` stops it on exit."""

    def __init__(self, config: RuntimeConfig, port: Port) -> None:
        self.config = config
        self._port = port
        self._loop = asyncio.get_running_loop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    def start_run(
        self, prompt: str, timeout: float | None = DEFAULT_TIMEOUT, *, max_tokens: int | None = None
    ) -> RunHandle:
        """Start a run and return at once. `timeout` in seconds, None for no limit; `max_tokens` input plus output.

        Raises ValueError for a blank prompt and bad limits; how the run ends, refusal included, is told by the handle.
        """
        check_prompt(prompt)
        return self._start(lambda reply_to, ticket: Run(prompt, reply_to, ticket), timeout, max_tokens)

    def start_continue(self, timeout: float | None = DEFAULT_TIMEOUT, *, max_tokens: int | None = None) -> RunHandle:
        """Start a run that goes on from the history or retries a pending commit, and return at once."""
        return self._start(Continue, timeout, max_tokens)

    async def run(
        self, prompt: str, timeout: float | None = DEFAULT_TIMEOUT, *, max_tokens: int | None = None
    ) -> AssistantMessage:
        """The answer to a prompt. Raises RunError, ValueError as `start_run` does.

        Cancelling the task that waits here cancels the run; the cancellation goes on when the run has ended.
        """
        handle = self.start_run(prompt, timeout, max_tokens=max_tokens)
        return answer_of(await handle.outcome_or_cancel())

    async def run_continue(
        self, timeout: float | None = DEFAULT_TIMEOUT, *, max_tokens: int | None = None
    ) -> AssistantMessage:
        """The answer the history leads to, or the pending commit. Otherwise as `run`."""
        handle = self.start_continue(timeout, max_tokens=max_tokens)
        return answer_of(await handle.outcome_or_cancel())

    async def try_run(
        self, prompt: str, timeout: float | None = DEFAULT_TIMEOUT, *, max_tokens: int | None = None
    ) -> RunOutcome | None:
        """How the run ended, as a value; None when the deadline passed or the agent is gone."""
        handle = self.start_run(prompt, timeout, max_tokens=max_tokens)
        return _known(await handle.outcome_or_cancel())

    async def try_run_continue(
        self, timeout: float | None = DEFAULT_TIMEOUT, *, max_tokens: int | None = None
    ) -> RunOutcome | None:
        """How the continued run ended, as a value; None when the deadline passed or the agent is gone."""
        handle = self.start_continue(timeout, max_tokens=max_tokens)
        return _known(await handle.outcome_or_cancel())

    async def history(self, timeout: float = HISTORY_TIMEOUT) -> tuple[Message, ...]:
        """What is committed, without the system prompt. Raises TimeoutError, AgentUnavailable."""
        seconds = check_timeout(timeout)
        self._check_loop()
        reply_to: asyncio.Future[tuple[Message, ...]] = self._loop.create_future()
        self._port.post(GetHistory(reply_to))
        return await asyncio.wait_for(reply_to, seconds)

    async def reload(self) -> ReloadReport:
        """Take over what the store holds, dropping a pending commit; nothing is written.

        Raises SessionFailure (and changes nothing), RuntimeFault `busy` or `no_session`, AgentUnavailable.
        """
        self._check_loop()
        reply_to: asyncio.Future[ReloadReport] = self._loop.create_future()
        self._port.post(Reload(reply_to))
        return await reply_to

    async def stop(self) -> None:
        """End the agent, cutting a run short, and wait for its end. Stopping twice is fine.

        A hook of the agent does not wait: the agent ends when the hook has ended.
        """
        self._check_loop()
        await self._port.stop()

    def _start(
        self,
        message: Callable[["asyncio.Future[RunOutcome]", Ticket], Run | Continue],
        timeout: float | None,
        max_tokens: int | None,
    ) -> RunHandle:
        seconds, ceiling = check_timeout(timeout), check_max_tokens(max_tokens)
        self._check_loop()
        ticket = Ticket(f"run-{self.config.new_id()}", seconds, ceiling, contextvars.copy_context())
        reply_to: asyncio.Future[RunOutcome] = self._loop.create_future()
        self._port.post(message(reply_to, ticket))
        return RunHandle(self._port, ticket, reply_to)

    def _check_loop(self) -> None:
        if asyncio.get_running_loop() is not self._loop:
            raise RuntimeError("the agent belongs to another event loop; call it from the loop that started it")


class ActorPort:
    """The way to one actor."""

    def __init__(self, actor: Actor) -> None:
        self.actor = actor

    def post(self, message: RuntimeMsg) -> None:
        """Hand over a message."""
        self.actor.post(message)

    async def stop(self) -> None:
        """Stop the actor and wait for its end."""
        self.actor.post(Stop())
        if self.actor.keeper.hooks.calls_me():
            await asyncio.sleep(0)  # the actor hears of it before the hook goes on
        elif self.actor.task is not None:
            await asyncio.wait({self.actor.task})


async def start(config: RuntimeConfig) -> Agent:
    """An agent with an empty history that keeps nothing. Raises StartError."""
    return await start_with_state(config, RuntimeState(AgentState(), config, SessionDisabled()))


async def start_with_state(config: RuntimeConfig, initial_state: RuntimeState) -> Agent:
    """An agent that begins in `initial_state`, whose configuration must be the same. Raises StartError."""
    return Agent(config, ActorPort(await launch(config, initial_state)))


async def start_with_session_store(config: RuntimeConfig, store: SessionStore) -> Agent:
    """An agent with the history the store holds; work it left open waits for `run_continue`. Raises StartError."""
    return Agent(config, ActorPort(await launch(config, await loaded_state(config, store))))


async def loaded_state(config: RuntimeConfig, store: SessionStore) -> RuntimeState:
    """The state an agent begins in with this store. Raises SessionLoad."""
    session = await load(store, config.limits.load_timeout, config.limits.cancel_grace)
    if isinstance(session, SessionError):
        raise SessionLoad(session)
    return RuntimeState(AgentState(session.messages), config, SessionReady(store, session.head))


async def launch(config: RuntimeConfig, state: RuntimeState, crash_detail: str | None = None) -> Actor:
    """An actor that serves, its start hooks done. Raises StartError."""
    if state.config is not config:
        raise InvalidConfiguration("initial_state.config must be the config the agent is started with")
    if state.agent_state.phase is not IDLE:
        raise InvalidConfiguration("initial_state.agent_state must be idle; a run cannot be taken over")
    session = state.session
    try:
        agent_state = _entered(config, state.agent_state)
        if isinstance(session, SessionPending):
            session = replace(session, candidate=_entered(config, session.candidate))
    except Corrupt as error:
        raise SessionLoad(error.bare()) from None
    actor = Actor(Keeper(config, agent_state, session), crash_detail)
    await actor.start()
    return actor


def _entered(config: RuntimeConfig, state: AgentState) -> AgentState:
    # The one limit is that of the configuration.
    return replace(state, history=entering(state.history), max_iterations=config.max_iterations)


def _known(outcome: RunOutcome) -> RunOutcome | None:
    if outcome.error == RunCancelled("deadline") or isinstance(outcome.error, AgentUnavailable):
        return None
    return outcome


async def run(
    agent: Agent, prompt: str, timeout: float | None = DEFAULT_TIMEOUT, *, max_tokens: int | None = None
) -> AssistantMessage:
    """`Agent.run`."""
    return await agent.run(prompt, timeout, max_tokens=max_tokens)


async def run_continue(
    agent: Agent, timeout: float | None = DEFAULT_TIMEOUT, *, max_tokens: int | None = None
) -> AssistantMessage:
    """`Agent.run_continue`."""
    return await agent.run_continue(timeout, max_tokens=max_tokens)


async def try_run(
    agent: Agent, prompt: str, timeout: float | None = DEFAULT_TIMEOUT, *, max_tokens: int | None = None
) -> RunOutcome | None:
    """`Agent.try_run`."""
    return await agent.try_run(prompt, timeout, max_tokens=max_tokens)


async def try_run_continue(
    agent: Agent, timeout: float | None = DEFAULT_TIMEOUT, *, max_tokens: int | None = None
) -> RunOutcome | None:
    """`Agent.try_run_continue`."""
    return await agent.try_run_continue(timeout, max_tokens=max_tokens)


async def history(agent: Agent, timeout: float = HISTORY_TIMEOUT) -> tuple[Message, ...]:
    """`Agent.history`."""
    return await agent.history(timeout)


async def stop(agent: Agent) -> None:
    """`Agent.stop`."""
    await agent.stop()
