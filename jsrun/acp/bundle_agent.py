"""A bundle as an ACP agent: each prompt is one run."""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from uuid import uuid4

import acp
from acp import schema

from jsrun.acp.errors import quietly
from jsrun.acp.session import INVALID_PARAMS, Client, Session, StopReason, text_of
from jsrun.bundle import Bundle
from jsrun.canonical import parse_json
from jsrun.env import AIOptions, Answer, AskAnswer, AskOptions, Env, Note, ToolResult
from jsrun.errors import InputError
from jsrun.fuel import resolve
from jsrun.journal import Journal
from jsrun.long_way import Generalist, copy_input, take_long_way
from jsrun.look import Look
from jsrun.prompts import Prompt
from jsrun.result import RunResult
from jsrun.runner import Runner
from ptc.wire import Json

# How an incomplete run is told; other reasons end the turn like any answer.
_STOPS: dict[str, StopReason] = {
    "tokens": "max_tokens",
    "steps": "max_turn_requests",
    "wall": "max_turn_requests",
    "compute": "max_turn_requests",
    "cancelled": "cancelled",
}


class ClientEnv:
    """An Env that shows the client what the inner one does, and asks the person behind the client."""

    def __init__(self, inner: Env, session: Session) -> None:
        self._inner = inner
        self._session = session
        self.belt = getattr(inner, "belt", None)

    async def ai(self, prompt: Prompt, input: Json, options: AIOptions) -> Answer:
        return await self._session.call(prompt.name or "judgement", "think", self._inner.ai(prompt, input, options))

    async def tool(self, name: str, args: dict[str, Json]) -> ToolResult:
        return await self._session.call(name, "other", self._inner.tool(name, args), args)

    async def ask(self, question: str, options: AskOptions) -> AskAnswer:
        if options.options:
            chosen = await self._session.choose(question, [(text, "allow_once") for text in options.options])
            return AskAnswer(unanswered=True) if chosen is None else AskAnswer(text=options.options[chosen])
        text = await self._session.ask(question)
        return AskAnswer(unanswered=True) if text is None else AskAnswer(text=text)

    async def remember(self, note: str) -> None:
        await self._inner.remember(note)

    async def recall(self, query: str) -> Sequence[Note]:
        return await self._inner.recall(query)

    async def log(self, status: str) -> None:
        await self._session.thought(status + "\n")


class BundleAgent:
    """Serves one bundle.

    make_env: the Env and the Look of a session, from its working directory. generalist: takes the long way when a run
    falls back; None tells the client why it fell back. journal: where runs are recorded.
    """

    def __init__(
        self,
        bundle: Bundle,
        runner: Runner,
        make_env: Callable[[str], tuple[Env, Look]],
        *,
        generalist: Generalist | None = None,
        journal: Journal | None = None,
    ) -> None:
        self._bundle = bundle
        self._runner = runner
        self._make_env = make_env
        self._generalist = generalist
        self._journal = journal
        self._client: Client | None = None
        self._forms = False
        self._sessions: dict[str, Session] = {}

    def on_connect(self, conn: Any) -> None:
        """The connection is made."""
        self._client = conn

    @quietly
    async def initialize(
        self, protocol_version: int, client_capabilities: Any = None, client_info: Any = None, **_more: Any
    ) -> schema.InitializeResponse:
        """Who this is and what it offers."""
        elicitation = getattr(client_capabilities, "elicitation", None)
        self._forms = getattr(elicitation, "form", None) is not None
        manifest = self._bundle.manifest
        return schema.InitializeResponse(
            protocol_version=acp.PROTOCOL_VERSION,
            agent_capabilities=schema.AgentCapabilities(load_session=False),
            agent_info=schema.Implementation(name=manifest.name, title=manifest.purpose, version="1"),
        )

    @quietly
    async def new_session(self, cwd: str, **_more: Any) -> schema.NewSessionResponse:
        """A session; it remembers nothing but where it works."""
        assert self._client is not None
        session = Session(self._client, uuid4().hex, cwd, forms=self._forms)
        self._sessions[session.id] = session
        return schema.NewSessionResponse(session_id=session.id)

    @quietly
    async def prompt(self, prompt: list[Any], session_id: str, **_more: Any) -> schema.PromptResponse:
        """One run."""
        session = self._session(session_id)
        given = self._input(text_of(prompt))
        return await session.prompted(lambda session: self._answer(session, given))

    async def cancel(self, session_id: str, **_more: Any) -> None:
        """Stop the run of this session, if there is one."""
        if session_id in self._sessions:
            self._sessions[session_id].cancel()

    def _session(self, session_id: str) -> Session:
        if session_id not in self._sessions:
            raise acp.RequestError(INVALID_PARAMS, "There is no such session.", {"sessionId": session_id})
        return self._sessions[session_id]

    def _input(self, text: str) -> Json:
        """The input that a prompt means, by the bundle's input schema."""
        wanted = self._bundle.manifest.input
        if wanted is None:
            return text
        required = wanted.get("required")
        if isinstance(required, list) and len(required) == 1:
            properties = wanted.get("properties")
            only = properties.get(str(required[0])) if isinstance(properties, dict) else None
            if isinstance(only, dict) and only.get("type") == "string":
                return {str(required[0]): text}
        try:
            given: Json = parse_json(text)  # type: ignore[assignment]  # what JSON text holds is JSON
        except ValueError as error:
            raise acp.RequestError(
                INVALID_PARAMS, "The prompt must be the input as JSON.", {"issues": [f"the prompt {error}"]}
            ) from None
        return given

    async def _answer(self, session: Session, given: Json) -> StopReason:
        inner, look = self._make_env(session.cwd)
        env = ClientEnv(inner, session)
        kept = copy_input(given)
        run = self._runner.start(given, env, look=look, journal=self._journal)
        with session.cancelled_by(lambda: run.cancel("the client cancelled it")):
            try:
                result = await run.result()
            except InputError as error:
                raise acp.RequestError(
                    INVALID_PARAMS, "The prompt is no input of this bundle.", {"issues": list(error.problems)}
                ) from None
        if result.status == "fell_back" and self._generalist is not None:
            result = await self._take_over(session, env, kept, result)
        return await told(session, result)

    async def _take_over(self, session: Session, env: Env, given: Json, fast: RunResult) -> RunResult:
        assert self._generalist is not None
        manifest = self._bundle.manifest
        fuel = resolve(None, self._bundle.fuel, manifest.fuel, manifest.deadline)
        await session.thought(f"{fast.sentence}\n")
        work = asyncio.ensure_future(take_long_way(self._bundle, manifest, given, env, self._generalist, fast, fuel))
        with session.cancelled_by(work.cancel):
            try:
                return await work
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    work.cancel()
                    raise
                return replace(fast, status="incomplete", reason="cancelled", incomplete="The run was cancelled.")


async def told(session: Session, result: RunResult) -> StopReason:
    """Show how a run ended; why the turn stops."""
    if result.finished():
        output = result.output
        await session.message(output if isinstance(output, str) else json.dumps(output, ensure_ascii=False, indent=2))
        return "end_turn"
    if result.reason == "cancelled":
        return "cancelled"
    report = f"\n\n{result.report}" if result.report else ""
    await session.message(f"{result.sentence}{report}")
    return _STOPS.get(result.reason or "", "end_turn")
