"""One ACP session as its server sees it: updates to the client, questions to a person, one prompt at a time."""

import contextlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Final, Literal, Protocol, TypeAlias, TypeVar

import acp
from acp import schema

from jsrun._text import cut
from jsrun.agent.messages import clean_text

T = TypeVar("T")
StopReason: TypeAlias = Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"]

INVALID_REQUEST: Final = -32600
INVALID_PARAMS: Final = -32602
# Shown of one call: enough to follow what happens, not a second copy of every file.
SHOWN_CHARS: Final = 10_000


class Client(Protocol):
    """What a session needs of the client's side of the connection."""

    async def session_update(self, session_id: str, update: Any) -> None:
        """Send an update."""
        ...

    async def request_permission(self, session_id: str, tool_call: Any, options: Any) -> Any:
        """Ask for a choice."""
        ...

    async def create_elicitation(self, message: str, mode: Any) -> Any:
        """Ask for a form."""
        ...


class Session:
    """Updates and questions of one session. `forms`: does the client show forms?"""

    def __init__(self, client: Client, session_id: str, cwd: str, *, forms: bool) -> None:
        self.id = session_id
        self.cwd = cwd
        self._client = client
        self._forms = forms
        self._calls = 0
        self._busy = False
        self._cancel: Callable[[], object] | None = None

    async def message(self, text: str) -> None:
        """Show a piece of the answer."""
        if text:
            await self._update(acp.update_agent_message_text(clean_text(text)))

    async def thought(self, text: str) -> None:
        """Show what is being done."""
        if text:
            await self._update(acp.update_agent_thought_text(clean_text(text)))

    async def said(self, text: str) -> None:
        """Show what the person said in an earlier life of the session."""
        await self._update(acp.update_user_message_text(clean_text(text)))

    async def call(self, title: str, kind: Literal["think", "other"], work: Awaitable[T], shown: Any = None) -> T:
        """Do a piece of work as a tool call the client sees; it ends as `completed`, or `failed` if it raises."""
        self._calls += 1
        call_id = f"call-{self._calls}"
        await self.call_started(call_id, title, kind, shown)
        ended = False
        try:
            result = await work
            ended = True
            return result
        finally:
            with contextlib.suppress(ConnectionError):
                await self.call_ended(call_id, ended)

    async def call_started(self, call_id: str, title: str, kind: Literal["think", "other"], shown: Any = None) -> None:
        """A call begins."""
        start = acp.start_tool_call(call_id, clean_text(title), kind=kind, status="in_progress", raw_input=shown)
        await self._update(start)

    async def call_ended(self, call_id: str, ok: bool, text: str = "") -> None:
        """A call has ended."""
        content = [acp.tool_content(acp.text_block(clean_text(cut(text, SHOWN_CHARS))))] if text else None
        await self._update(acp.update_tool_call(call_id, status="completed" if ok else "failed", content=content))

    async def choose(self, question: str, options: Sequence[tuple[str, schema.PermissionOptionKind]]) -> int | None:
        """The number of the option that the person chose, None if none was."""
        self._calls += 1
        shown = [
            schema.PermissionOption(option_id=str(number), name=clean_text(name), kind=kind)
            for number, (name, kind) in enumerate(options)
        ]
        asked = schema.ToolCallUpdate(tool_call_id=f"ask-{self._calls}", title=clean_text(question))
        try:
            answer = await self._client.request_permission(session_id=self.id, tool_call=asked, options=shown)
        except acp.RequestError:  # the client has no way to ask
            return None
        outcome = answer.outcome
        if not isinstance(outcome, schema.AllowedOutcome) or outcome.option_id not in map(str, range(len(options))):
            return None
        return int(outcome.option_id)

    async def ask(self, question: str) -> str | None:
        """What the person wrote into a form; None if the client has no forms, or nothing was written."""
        if not self._forms:
            return None
        field = schema.ElicitationStringPropertySchema(type="string", title="Answer")
        form = schema.ElicitationSchema(type="object", properties={"answer": field}, required=["answer"])
        mode = schema.ElicitationFormSessionMode(session_id=self.id, requested_schema=form)
        try:
            answer = await self._client.create_elicitation(message=clean_text(question), mode=mode)
        except acp.RequestError:
            return None
        content = getattr(answer, "content", None)
        if getattr(answer, "action", "") != "accept" or not isinstance(content, dict):
            return None
        text = content.get("answer")
        return text if isinstance(text, str) and text.strip() else None

    async def prompted(self, work: Callable[["Session"], Awaitable[StopReason]]) -> schema.PromptResponse:
        """Answer one prompt by `work`, all updates before the answer. RequestError while another one is in progress."""
        if self._busy:
            raise acp.RequestError(INVALID_REQUEST, "A prompt of this session is in progress.")
        self._busy = True
        try:
            return schema.PromptResponse(stop_reason=await work(self))
        finally:
            self._busy = False

    @contextlib.contextmanager
    def cancelled_by(self, cancel: Callable[[], object]) -> Iterator[None]:
        """While this goes on, `session/cancel` calls this function."""
        self._cancel = cancel
        try:
            yield
        finally:
            self._cancel = None

    def cancel(self) -> None:
        """`session/cancel`; no effect between prompts."""
        if self._cancel is not None:
            self._cancel()

    async def _update(self, update: Any) -> None:
        await self._client.session_update(session_id=self.id, update=update)


def text_of(prompt: Sequence[Any]) -> str:
    """The text of a prompt: its text blocks, a line each. RequestError if there is none."""
    texts = [block.text for block in prompt if isinstance(block, schema.TextContentBlock)]
    if not texts:
        raise acp.RequestError(INVALID_PARAMS, "The prompt has no text.")
    return "\n".join(texts)
