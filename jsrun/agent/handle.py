"""A run as its caller holds it."""

import asyncio
import math
from collections.abc import AsyncIterator
from typing import Protocol

from jsrun.agent.dispatcher import EventQueue
from jsrun.agent.errors import CancelReason, RunCancelled
from jsrun.agent.events import EventRecord
from jsrun.agent.mailbox import Cancel, RunOutcome, RuntimeMsg, Ticket
from jsrun.agent.messages import AssistantMessage, has_surrogate
from jsrun.spend import Spend


class Port(Protocol):
    """The way to an actor, whichever serves the agent at the moment."""

    def post(self, message: RuntimeMsg) -> None:
        """Hand over a message; it is refused if the agent is gone."""
        ...

    async def stop(self) -> None:
        """Stop the agent and wait for its end."""
        ...


class RunHandle:
    """A run that was started: its id, its result, its events, its usage."""

    def __init__(self, port: Port, ticket: Ticket, reply_to: "asyncio.Future[RunOutcome]") -> None:
        self._port = port
        self._ticket = ticket
        self._reply_to = reply_to

    @property
    def run_id(self) -> str:
        """The id under which events tell of the run."""
        return self._ticket.run_id

    @property
    def usage(self) -> Spend:
        """What the run has cost so far."""
        return self._ticket.meter.spend

    async def outcome(self) -> RunOutcome:
        """How the run ended. Cancelling this wait does not cancel the run."""
        return await asyncio.shield(self._reply_to)

    async def result(self) -> AssistantMessage:
        """The answer. Raises RunError; cancelling this wait does not cancel the run."""
        return answer_of(await self.outcome())

    async def cancel(self) -> bool:
        """Cut the run short and wait for its end: was it this that ended it? An answer that is durable stands."""
        self.request_cancel("caller")
        return (await self.outcome()).error == RunCancelled("caller")

    def request_cancel(self, reason: CancelReason) -> None:
        """Ask for the run to be cut short, without waiting."""
        self._port.post(Cancel(self.run_id, reason))

    def events(self) -> AsyncIterator[EventRecord]:
        """The events of the run from now on, up to `RunFinished`; a slow reader loses some, and is told how many."""
        queue = EventQueue()
        if self._ticket.over:
            queue.close()
        else:
            self._ticket.queues.append(queue)
        return queue

    async def outcome_or_cancel(self) -> RunOutcome:
        """How the run ended; cancelling this wait cancels the run, and is raised again when the run has ended."""
        try:
            return await self.outcome()
        except asyncio.CancelledError:
            self.request_cancel("caller")
            while not self._reply_to.done():
                try:
                    await asyncio.wait({self._reply_to})
                except asyncio.CancelledError:  # once more does not make it faster: the end is bounded as it is
                    continue
            raise


def answer_of(outcome: RunOutcome) -> AssistantMessage:
    """The answer of a run. Raises the RunError of one that has none."""
    if outcome.error is not None:
        raise outcome.error.bare()
    assert outcome.message is not None  # exactly one of the two is set
    return outcome.message


def check_prompt(prompt: str) -> str:
    """The prompt itself. ValueError if it is blank, or text that no encoding can carry."""
    if not isinstance(prompt, str) or not prompt.strip():
        raise ValueError("the prompt is blank; say what the agent is to do")
    if has_surrogate(prompt):
        raise ValueError("the prompt holds a lone surrogate; give text that can be encoded")
    return prompt


def check_timeout(timeout: float | None) -> float | None:
    """The timeout in seconds. ValueError unless it is None or above 0."""
    if timeout is None:
        return None
    if not isinstance(timeout, int | float) or isinstance(timeout, bool) or not timeout > 0:
        raise ValueError(f"timeout must be None or a number of seconds above 0, got {timeout!r}")
    return None if math.isinf(timeout) else float(timeout)


def check_max_tokens(max_tokens: int | None) -> int | None:
    """The ceiling. ValueError unless it is None or a whole number above 0."""
    if max_tokens is None:
        return None
    if not isinstance(max_tokens, int) or isinstance(max_tokens, bool) or max_tokens < 1:
        raise ValueError(f"max_tokens must be None or a whole number above 0, got {max_tokens!r}")
    return max_tokens
