"""Batch: one batch of calls after another, outside of any run."""

from collections.abc import Sequence
from typing import Any

from jsrun.agent.config import RuntimeLimits
from jsrun.agent.events import Event
from jsrun.agent.execute import execute_batch
from jsrun.agent.hooks import HookRunner, Hooks
from jsrun.agent.instrumentation import NO_INSTRUMENTATION
from jsrun.agent.messages import ToolCall, ToolMessage
from jsrun.agent.tools import Tool, ToolRegistry
from jsrun.spend import Spend


class Batch:
    """Executes batches, and keeps what they tell."""

    def __init__(self, *tools: Tool, hooks: Sequence[Hooks] = (), **limits: Any) -> None:
        self.registry = ToolRegistry(tools)
        self.events: list[Event] = []
        self.spend = Spend()
        self._limits = RuntimeLimits(**{"cancel_grace": 0.2, **limits})
        self._hooks = HookRunner(hooks, self.events.append, self._limits.cancel_grace)

    async def __call__(self, *calls: ToolCall, recovered: bool = False) -> tuple[ToolMessage, ...]:
        """The results."""
        return await execute_batch(
            calls,
            recovered=recovered,
            registry=self.registry,
            hooks=self._hooks,
            emit=self.events.append,
            limits=self._limits,
            add_usage=self._add,
            instrumentation=NO_INSTRUMENTATION,
            run_id="run-1",
        )

    def _add(self, spend: Spend) -> None:
        self.spend += spend

    def of(self, kind: type) -> list[Any]:
        """The events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]
