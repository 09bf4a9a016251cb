"""What an actor is sent: the calls of its users, and the reports of its workers."""

import asyncio
import contextvars
import threading
from dataclasses import dataclass, field
from typing import TypeAlias

from jsrun.agent.dispatcher import EventQueue
from jsrun.agent.errors import CancelReason, RunError
from jsrun.agent.messages import AssistantMessage, Message
from jsrun.agent.session import ReloadReport
from jsrun.spend import Spend


@dataclass(frozen=True, slots=True)
class RunOutcome:
    """How a run ended: exactly one of `message` and `error` is set. `usage` is what it cost."""

    message: AssistantMessage | None
    error: RunError | None
    usage: Spend


class Meter:
    """The usage of a run, added to from the loop and from the threads of tools until it is closed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spend = Spend()
        self._closed = False

    @property
    def spend(self) -> Spend:
        """What was added so far."""
        return self._spend

    def add(self, spend: Spend) -> None:
        """Add what a part of the run cost. What comes after the end of the run is ignored."""
        with self._lock:
            if not self._closed:
                self._spend += spend

    def close(self) -> Spend:
        """Take nothing more, and say what there is."""
        with self._lock:
            self._closed = True
            return self._spend


@dataclass(slots=True, eq=False)
class Ticket:
    """What one run is asked for, and where it can be watched.

    `timeout` seconds and `max_tokens` are None without a limit. `context` is the caller's, so that spans nest.
    """

    run_id: str
    timeout: float | None
    max_tokens: int | None
    context: contextvars.Context
    meter: Meter = field(default_factory=Meter)
    queues: list[EventQueue] = field(default_factory=list)
    over: bool = False

    def close(self) -> Spend:
        """The run is over: its watchers come to their end. The final usage."""
        self.over = True
        for queue in self.queues:
            queue.close()
        self.queues.clear()
        return self.meter.close()


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """Start a run with a prompt."""

    prompt: str
    reply_to: asyncio.Future[RunOutcome]
    ticket: Ticket


@dataclass(frozen=True, slots=True, eq=False)
class Continue:
    """Start a run from the history, or from a pending commit."""

    reply_to: asyncio.Future[RunOutcome]
    ticket: Ticket


@dataclass(frozen=True, slots=True, eq=False)
class GetHistory:
    """Tell what is committed."""

    reply_to: asyncio.Future[tuple[Message, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class Reload:
    """Take over what the store holds."""

    reply_to: asyncio.Future[ReloadReport]


@dataclass(frozen=True, slots=True)
class Cancel:
    """Cancel the run `run_id` if it is the one in progress."""

    run_id: str
    reason: CancelReason


@dataclass(frozen=True, slots=True)
class Stop:
    """End, after the run in progress has been cut short."""


@dataclass(frozen=True, slots=True)
class Report:
    """A worker's: step `step` of run `run_id` ended with `payload`."""

    run_id: str
    step: int
    payload: object


RuntimeMsg: TypeAlias = Run | Continue | GetHistory | Reload | Cancel | Stop


def refuse(message: RuntimeMsg | Report, error: RunError) -> None:
    """Answer a message that nobody will handle."""
    if isinstance(message, Run | Continue):
        reply(message.reply_to, RunOutcome(None, error, message.ticket.close()))
    elif isinstance(message, GetHistory | Reload) and not message.reply_to.done():
        message.reply_to.set_exception(error.bare())


def reply(future: "asyncio.Future[RunOutcome]", outcome: RunOutcome) -> None:
    """Answer a run; nobody may be waiting any more."""
    if not future.done():
        future.set_result(outcome)
