"""`turn-limit`: limits the turns of a session, and the tool calls and seconds of each turn."""

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, Field

from jsrun.plugs.api import NextMessage, Plug
from jsrun.plugs.errors import PlugError
from jsrun.plugs.message import Message

if TYPE_CHECKING:
    from jsrun.plugs.persist import PersistedState

# How ACP says that a turn ended because it was allowed no more.
_PAST = {"stopReason": "max_turn_requests"}


class TurnLimitInputs(BaseModel):
    """Limits: turns of the session, over all its runs; tool calls and seconds of one turn. None is no limit."""

    max_turns: Annotated[int, Field(ge=0)] | None = None
    max_tool_calls: Annotated[int, Field(ge=0)] | None = None
    max_seconds: Annotated[float, Field(gt=0)] | None = None


class Turns(BaseModel):
    """What is kept of a session: how many turns it has had."""

    turns: int = 0


@dataclass(slots=True)
class _Turn:
    """A turn that is under way."""

    calls: set[str] = field(default_factory=set)
    stopped: bool = False  # by this plug
    cancelled: bool = False  # by the client


class TurnLimitPlug(Plug, name="jsrun/turn-limit", description="limits turns and what is done in one", api=(1, 0)):
    """See the module. A prompt past the limit is answered without reaching the agent.

    A turn past its limits gets `session/cancel`; its `cancelled` becomes `max_turn_requests`.
    """

    Inputs = TurnLimitInputs
    Persisted = Turns
    if TYPE_CHECKING:
        inputs: TurnLimitInputs
        persisted: PersistedState[Turns]

    def load(self) -> None:
        """No turn is under way."""
        self._turns: dict[str, _Turn] = {}

    async def message(self, message: Message, next: NextMessage) -> Any:
        """Count, and stop what is past its limits."""
        params = message.params if isinstance(message.params, dict) else {}
        session = params.get("sessionId")
        if not isinstance(session, str):
            return await next(message)
        if message.method == "session/prompt":
            return await self._prompt(session, message, next)
        turn = self._turns.get(session)
        if turn is not None and message.method == "session/cancel":
            turn.cancelled = True
        if turn is not None and message.method == "session/update":
            self._count(turn, params.get("update"))
            limit = self.inputs.max_tool_calls
            if limit is not None and len(turn.calls) > limit:
                await self._stop(session, turn)
        return await next(message)

    async def _prompt(self, session: str, message: Message, next: NextMessage) -> Any:
        had = self.persisted.value.turns if self.persisted.value is not None else 0
        if self.inputs.max_turns is not None:
            if had >= self.inputs.max_turns:
                self.log.info("a prompt past the limit of turns is answered", turns=had)
                return dict(_PAST)
            await self.persisted.set(Turns(turns=had + 1))
        turn = self._turns[session] = _Turn()
        timer = asyncio.create_task(self._expire(session, turn, self.inputs.max_seconds))
        try:
            result = await next(message)
        finally:
            timer.cancel()
            await asyncio.wait([timer])
            if self._turns.get(session) is turn:
                del self._turns[session]
        cancelled = isinstance(result, dict) and result.get("stopReason") == "cancelled"
        return {**result, **_PAST} if cancelled and turn.stopped and not turn.cancelled else result

    async def _expire(self, session: str, turn: _Turn, seconds: float | None) -> None:
        if seconds is not None:
            await asyncio.sleep(seconds)
            await self._stop(session, turn)

    async def _stop(self, session: str, turn: _Turn) -> None:
        if turn.stopped:
            return
        turn.stopped = True
        self.log.info("a turn past its limits is cancelled", calls=len(turn.calls))
        try:
            await self.ctx.send(Message("to_agent", "session/cancel", {"sessionId": session}, "notification"))
        except PlugError as error:
            self.log.debug("the agent is gone before its turn could be cancelled", error=error)

    @staticmethod
    def _count(turn: _Turn, update: Any) -> None:
        if isinstance(update, dict) and update.get("sessionUpdate") == "tool_call":
            turn.calls.add(str(update.get("toolCallId")))
