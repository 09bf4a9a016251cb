"""The agent loop as an ACP agent: each prompt is one turn of a durable session."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import acp
from acp import schema

from jsrun.acp.errors import INTERNAL_ERROR, quietly
from jsrun.acp.session import INVALID_PARAMS, Client, Session, StopReason, text_of
from jsrun.agent.config import RuntimeConfig
from jsrun.agent.errors import InferenceError, IterationLimit, RunCancelled, RunError, StartError
from jsrun.agent.events import (
    EventRecord,
    InferenceCompleted,
    InferenceDelta,
    InferenceStarted,
    ToolBlocked,
    ToolExecuted,
    ToolStarted,
)
from jsrun.agent.hooks import AllowTool, BlockTool, Hooks, ToolArguments
from jsrun.agent.messages import AssistantMessage, ToolCall, UserMessage
from jsrun.agent.runtime import Agent, start_with_session_store
from jsrun.agent.session import SessionCatalog, check_session_id
from jsrun.canonical import parse_json

# What a person may say to a call that changes something.
_ALLOW, _ALWAYS, _REJECT = range(3)
_CHOICES: Final[list[tuple[str, schema.PermissionOptionKind]]] = [
    ("Allow", "allow_once"),
    ("Allow in this session", "allow_always"),
    ("Reject", "reject_once"),
]


class LoopAgent:
    """Serves the agent loop. `config` is what each session's agent is made of, `catalog` where sessions are kept.

    A tool that is not repeatable, so that a call of it may change something, is called only if the client permits it.
    """

    def __init__(self, config: RuntimeConfig, catalog: SessionCatalog) -> None:
        self._config = config
        self._catalog = catalog
        self._client: Client | None = None
        self._forms = False
        self._sessions: dict[str, tuple[Session, Agent]] = {}
        self._stack = AsyncExitStack()

    async def aclose(self) -> None:
        """Stop the agents of all sessions."""
        await self._stack.aclose()

    def on_connect(self, conn: Any) -> None:
        """The connection is made."""
        self._client = conn

    @quietly
    async def initialize(
        self, protocol_version: int, client_capabilities: Any = None, client_info: Any = None, **_more: Any
    ) -> schema.InitializeResponse:
        """Who this is and what it offers."""
        return schema.InitializeResponse(
            protocol_version=acp.PROTOCOL_VERSION,
            agent_capabilities=schema.AgentCapabilities(
                load_session=True,
                session_capabilities=schema.SessionCapabilities(list=schema.SessionListCapabilities()),
            ),
            agent_info=schema.Implementation(name="jsrun", title="The generalist of jsrun", version="1"),
        )

    @quietly
    async def new_session(self, cwd: str, **_more: Any) -> schema.NewSessionResponse:
        """A session of its own, kept from its first prompt on."""
        session, _agent = await self._open(f"acp-{uuid4().hex}", cwd)
        return schema.NewSessionResponse(session_id=session.id)

    @quietly
    async def load_session(self, cwd: str, session_id: str, **_more: Any) -> schema.LoadSessionResponse:
        """Take up a session; its conversation is shown to the client before the answer."""
        if session_id not in {info.id for info in await self._catalog.list()}:
            raise acp.RequestError.resource_not_found(session_id)
        session, agent = self._sessions.get(session_id) or await self._open(session_id, cwd)
        for message in await agent.history():
            if isinstance(message, UserMessage):
                await session.said(message.content)
            elif isinstance(message, AssistantMessage):
                await session.message(message.content)
        return schema.LoadSessionResponse()

    @quietly
    async def list_sessions(self, **_more: Any) -> schema.ListSessionsResponse:
        """The sessions that are kept, the one used last first."""
        return schema.ListSessionsResponse(
            sessions=[
                schema.SessionInfo(
                    session_id=info.id, cwd=str(Path.cwd()), title=info.title, updated_at=info.updated_at.isoformat()
                )
                for info in await self._catalog.list()
            ]
        )

    @quietly
    async def prompt(self, prompt: list[Any], session_id: str, **_more: Any) -> schema.PromptResponse:
        """One turn."""
        if session_id not in self._sessions:
            raise acp.RequestError(INVALID_PARAMS, "There is no such session.", {"sessionId": session_id})
        session, agent = self._sessions[session_id]
        text = text_of(prompt)
        if not text.strip():
            raise acp.RequestError(INVALID_PARAMS, "The prompt is blank.")
        return await session.prompted(lambda session: _turn(session, agent, text))

    async def cancel(self, session_id: str, **_more: Any) -> None:
        """Stop the turn of this session, if there is one."""
        if session_id in self._sessions:
            self._sessions[session_id][0].cancel()

    async def _open(self, session_id: str, cwd: str) -> tuple[Session, Agent]:
        assert self._client is not None
        session = Session(self._client, check_session_id(session_id), cwd, forms=False)
        config = replace(
            self._config,
            hooks=(*self._config.hooks, _permission(session, self._config)),
            identity=replace(self._config.identity, id=None),
        )
        try:
            agent = await start_with_session_store(config, self._catalog.open(session_id))
        except StartError as error:
            raise acp.RequestError(INTERNAL_ERROR, f"The session cannot be used: {error}.") from None
        await self._stack.enter_async_context(agent)
        self._sessions[session_id] = session, agent
        return session, agent


async def _turn(session: Session, agent: Agent, text: str) -> StopReason:
    """One run of the agent, shown as it goes; why the turn stops."""
    handle = agent.start_run(text, None)
    with session.cancelled_by(lambda: handle.request_cancel("caller")):
        await _show(session, handle.events())
        outcome = await handle.outcome_or_cancel()
    if outcome.message is not None:
        return "max_tokens" if outcome.message.stop_reason == "length" else "end_turn"
    return _stop_of(outcome.error)


async def _show(session: Session, events: AsyncIterator[EventRecord]) -> None:
    streamed = False
    async for record in events:
        match record.event:
            case InferenceStarted():
                streamed = False
            case InferenceDelta(kind="text", text=text):
                streamed = True
                await session.message(text)
            case InferenceDelta(kind="thinking", text=text):
                await session.thought(text)
            case InferenceCompleted(message=message) if not streamed:
                await session.message(message.content)
            case ToolStarted(call=call):
                await session.call_started(call.id, call.name, "other", _shown(call))
            case ToolExecuted(call=call, content=content, is_error=is_error, ran=ran):
                if not ran:
                    await session.call_started(call.id, call.name, "other", _shown(call))
                await session.call_ended(call.id, not is_error, content)
            case ToolBlocked(call=call, reason=reason):
                await session.call_started(call.id, call.name, "other", _shown(call))
                await session.call_ended(call.id, False, reason)


def _shown(call: ToolCall) -> object:
    """The arguments of a call, as JSON if they are some."""
    try:
        return parse_json(call.arguments_json)
    except ValueError:
        return call.arguments_json


def _stop_of(error: RunError | None) -> StopReason:
    match error:
        case RunCancelled(reason="tokens"):
            return "max_tokens"
        case RunCancelled():
            return "cancelled"
        case InferenceError(error=IterationLimit()):
            return "max_turn_requests"
        case _:
            raise RuntimeError(str(error))  # for the log; the client reads that something went wrong


def _permission(session: Session, config: RuntimeConfig) -> Hooks:
    """Asks the client before each call of a tool that is not repeatable."""
    always: set[str] = set()

    async def on_tool_call(name: str, call_id: str, arguments: ToolArguments) -> AllowTool | BlockTool:
        tool = config.tools.get(name)
        if tool is None or tool.repeatable or name in always:
            return AllowTool()
        chosen = await session.choose(f"{name} {arguments.text}", _CHOICES)
        if chosen == _ALWAYS:
            always.add(name)
        return AllowTool() if chosen in (_ALLOW, _ALWAYS) else BlockTool("the user did not permit it")

    return Hooks("permission", on_tool_call=on_tool_call, timeout=None)
