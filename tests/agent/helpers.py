"""What the tests of the agent share: short ways to say messages, tools and stores, and the wait for a condition."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from jsrun.agent.config import RuntimeConfig, RuntimeLimits
from jsrun.agent.dispatcher import EventDispatcher
from jsrun.agent.events import EventRecord
from jsrun.agent.hooks import Hooks
from jsrun.agent.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from jsrun.agent.provider import InferenceMetadata, InferenceRequest, InferenceResult
from jsrun.agent.session import CommitAck, Session, SessionCommit, SessionStore
from jsrun.agent.testing import ScriptedProvider
from jsrun.agent.tools import Tool, ToolContext, ToolDefinition, ToolRegistry

# The longest a test waits for what it waits for; only a failing one waits so long.
PATIENCE_S = 20.0
HI = UserMessage("hi")
DONE = AssistantMessage("done", stop_reason="stop")
# Limits under which a failing test fails soon.
QUICK = RuntimeLimits(cancel_grace=0.2)

POINTS = (
    "on_session_start",
    "on_before_inference",
    "on_after_inference",
    "on_tool_call",
    "on_tool_result",
    "on_error",
    "on_complete",
    "on_session_shutdown",
)


def call(id: str, name: str = "look", arguments: str = "{}") -> ToolCall:
    """A call the model makes."""
    return ToolCall(id, name, arguments)


def asks(*calls: ToolCall) -> AssistantMessage:
    """What the model says when it wants tools."""
    return AssistantMessage("", calls, stop_reason="tool_use")


def costing(message: AssistantMessage, tokens: int) -> InferenceResult:
    """An answer that tells what it cost: `tokens` in and one out."""
    return InferenceResult(message, InferenceMetadata(input_tokens=tokens, output_tokens=1))


def tool(handler: Callable[[dict[str, Any], ToolContext], object], name: str = "look", **options: Any) -> Tool:
    """A tool that takes any object."""
    return Tool(ToolDefinition(name, "Look.", {"type": "object"}), handler, **options)


async def seen(arguments: dict[str, Any], ctx: ToolContext) -> str:
    """A handler that answers at once."""
    return f"seen {ctx.call_id}"


def config(provider: Any, *tools: Tool, **options: Any) -> RuntimeConfig:
    """A configuration with quick limits, and the tool `look` if none is given."""
    options.setdefault("limits", QUICK)
    return RuntimeConfig(provider, ToolRegistry(tools or (tool(seen),)), model="test", **options)


def script(*steps: Any) -> ScriptedProvider:
    """A provider that plays these steps."""
    return ScriptedProvider(steps)


def results(request: InferenceRequest) -> dict[str, str]:
    """The tool results in a request, by call."""
    return {message.tool_call_id: message.content for message in request.messages if isinstance(message, ToolMessage)}


class Hang:
    """A provider or a tool that hangs until released, and notes how it was left.

    `stubborn`: it ignores being cancelled until it is released.
    """

    def __init__(self, answer: Any = None, stubborn: bool = False) -> None:
        self.answer = answer
        self.stubborn = stubborn
        self.entered = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.released = asyncio.Event()
        self.left = asyncio.Event()

    async def __call__(self, *given: object) -> Any:
        """Hang, as a provider or a handler."""
        self.entered.set()
        try:
            while not self.released.is_set():
                try:
                    await self.released.wait()
                except asyncio.CancelledError:
                    self.cancelled.set()
                    if not self.stubborn:
                        raise
            return self.answer
        finally:
            self.left.set()

    async def wait_entered(self) -> None:
        """Wait until it hangs."""
        await asyncio.wait_for(self.entered.wait(), PATIENCE_S)


@dataclass
class Store:
    """A store around another that notes its calls and can fail, hang, or answer wrongly, one commit at a time.

    `faults`: number of the commit from 0 → what happens instead of, or before, the real one.
    """

    inner: SessionStore
    faults: dict[int, Callable[[SessionCommit], Awaitable[CommitAck | None]]] = field(default_factory=dict)
    load_fault: Exception | None = None
    commits: list[SessionCommit] = field(default_factory=list)
    loads: int = 0

    @property
    def session_id(self) -> str:
        """The inner store's."""
        return self.inner.session_id

    async def load(self) -> Session:
        """Load, or fail."""
        self.loads += 1
        if self.load_fault is not None:
            raise self.load_fault
        return await self.inner.load()

    async def commit(self, commit: SessionCommit) -> CommitAck:
        """Commit, or do what is planned for this one; a plan that answers None is followed by the real commit."""
        self.commits.append(commit)
        fault = self.faults.get(len(self.commits) - 1)
        answer = None if fault is None else await fault(commit)
        return answer if answer is not None else await self.inner.commit(commit)


def failing(error: BaseException) -> Callable[[SessionCommit], Awaitable[CommitAck | None]]:
    """A fault that raises."""

    async def fault(commit: SessionCommit) -> CommitAck | None:
        raise error

    return fault


class Seen:
    """A dispatcher that collects all records."""

    def __init__(self) -> None:
        self.records: list[EventRecord] = []
        self.dispatcher = EventDispatcher()
        self.dispatcher.add(self._take, name="seen")

    async def _take(self, record: EventRecord) -> None:
        self.records.append(record)

    async def names(self) -> list[str]:
        """The names of the events so far, all of them delivered."""
        await self.dispatcher.aclose()
        return [type(record.event).__name__ for record in self.records]

    async def events(self, kind: type) -> list[Any]:
        """The events of one kind so far, all of them delivered."""
        await self.dispatcher.aclose()
        return [record.event for record in self.records if isinstance(record.event, kind)]


async def eventually(condition: Callable[[], bool]) -> None:
    """Wait for a condition, with patience."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110  # conditions of foreign code, which sets no event
            await asyncio.sleep(0.005)


def no_tasks_left() -> bool:
    """Is the current task the only one?"""
    return asyncio.all_tasks() == {asyncio.current_task()}


def noting(notes: list[str], name: str = "note", **points: Any) -> Hooks:
    """Hooks that note each point they see, and do what is given for some."""

    def note(point: str) -> Any:
        def seen(*given: object) -> object:
            notes.append(point)
            return points[point](*given) if point in points else None

        return seen

    return Hooks(name, **{point: note(point) for point in POINTS})
