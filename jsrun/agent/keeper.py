"""What an actor owns: the state, the session, the hooks, and the events that tell of it."""

from jsrun.agent.config import RuntimeConfig
from jsrun.agent.core import AgentState
from jsrun.agent.events import Event, EventRecord
from jsrun.agent.hooks import HookRunner
from jsrun.agent.instrumentation import NO_INSTRUMENTATION
from jsrun.agent.mailbox import Ticket
from jsrun.agent.session import SessionDisabled, SessionState


class Keeper:
    """The one mutable owner of what an agent knows. `agent_state` is always what is committed.

    `ticket` is that of the run in progress, whose events are also shown to those who watch it.
    """

    def __init__(self, config: RuntimeConfig, agent_state: AgentState, session: SessionState) -> None:
        self.config = config
        self.agent_state = agent_state
        self.session = session
        self.instrumentation = config.instrumentation or NO_INSTRUMENTATION
        self.hooks = HookRunner(config.hooks, self.emit, config.limits.cancel_grace)
        self.ticket: Ticket | None = None
        self._seq = 0

    @property
    def session_id(self) -> str | None:
        """The id of the session, None without a store."""
        return None if isinstance(self.session, SessionDisabled) else self.session.store.session_id

    def emit(self, event: Event) -> None:
        """Number an event and hand it to the dispatcher and to those who watch the run. Never blocks."""
        self._seq += 1
        ticket, dispatcher = self.ticket, self.config.dispatcher
        if dispatcher is None and (ticket is None or not ticket.queues):
            return
        record = EventRecord(
            agent_id=self.config.agent_id,
            seq=self._seq,
            at=self.config.now(),
            run_id=None if ticket is None else ticket.run_id,
            event=event,
        )
        if dispatcher is not None:
            dispatcher.emit(record)
        if ticket is not None:
            for queue in ticket.queues:
                queue.put(record)
