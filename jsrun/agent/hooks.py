"""Hooks: what a host may watch, change or refuse, and the rules by which they are run."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from jsrun.agent.errors import AiError, InvalidConfiguration, one_line
from jsrun.agent.events import EndReason, ErrorEnd, Event, HookActed, HookFailed, HookPoint
from jsrun.agent.guarded import Raised, TimeUp, guarded, name_of
from jsrun.agent.messages import AssistantMessage, Message, clean_text
from jsrun.agent.provider import InferenceMetadata
from jsrun.spend import Spend

if TYPE_CHECKING:
    from jsrun.agent.config import AgentIdentity
    from jsrun.agent.tools import ToolDefinition
    from ptc.wire import Json

FAILED: Final = "hook failed"


@dataclass(frozen=True, slots=True)
class KeepMessages:
    """The request goes as it is."""


@dataclass(frozen=True, slots=True)
class ReplaceMessages:
    """This request, and only this one, has these messages instead."""

    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class AllowTool:
    """The call may go on to the next hook."""


@dataclass(frozen=True, slots=True)
class BlockTool:
    """The call does not happen; the model reads `reason`."""

    reason: str


@dataclass(frozen=True, slots=True)
class KeepResult:
    """The result goes on as it is."""


@dataclass(frozen=True, slots=True)
class ReplaceResult:
    """The call has this result instead, for model, history and events."""

    content: str
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class ToolArguments:
    """The arguments of a call: as the model wrote them, and parsed."""

    text: str
    value: "dict[str, Json]"


_Point: TypeAlias = Callable[..., Any] | None


@dataclass(frozen=True, slots=True)
class Hooks:
    """A named set of hooks. Each is optional, async or plain; plain ones run inline and must not block.

    - `on_session_start(identity, model, history)`; failing stops the start.
    - `on_before_inference(model, system_prompt, tools, messages)` → KeepMessages or ReplaceMessages.
    - `on_after_inference(model, message, metadata, duration)`.
    - `on_tool_call(tool_name, call_id, arguments)`, arguments as ToolArguments → AllowTool or BlockTool.
    - `on_tool_result(tool_name, call_id, content, is_error, duration)` → KeepResult or ReplaceResult.
    - `on_error(model, error)`, an AiError of the provider.
    - `on_complete(model, message, iterations, usage)`.
    - `on_session_shutdown(history, iterations, reason)`.

    None counts as keep or allow. `timeout` in seconds for each, None for no limit. InvalidConfiguration for a blank
    name, a hook that cannot be called, or a bad timeout.
    """

    name: str
    _: KW_ONLY
    on_session_start: _Point = None
    on_before_inference: _Point = None
    on_after_inference: _Point = None
    on_tool_call: _Point = None
    on_tool_result: _Point = None
    on_error: _Point = None
    on_complete: _Point = None
    on_session_shutdown: _Point = None
    timeout: float | None = 10.0

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise InvalidConfiguration("hooks: a name is needed, text that is not blank")
        for point in _POINTS:
            function = getattr(self, point)
            if function is not None and not callable(function):
                raise InvalidConfiguration(f"hooks {self.name!r}: {point} cannot be called")
        timeout = self.timeout
        if timeout is not None and (
            isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0
        ):
            raise InvalidConfiguration(f"hooks {self.name!r}: timeout must be None or seconds above 0")


_POINTS: Final[tuple[HookPoint, ...]] = (
    "on_session_start",
    "on_before_inference",
    "on_after_inference",
    "on_tool_call",
    "on_tool_result",
    "on_error",
    "on_complete",
    "on_session_shutdown",
)


class HookFailure(Exception):
    """A hook failed where that stops what it was asked about; the text names it."""


@dataclass(frozen=True, slots=True)
class Blocked:
    """A call was refused, by which hook and why."""

    hook_name: str
    reason: str


class _Failed(Exception):
    """One hook failed; it has been told."""


@dataclass(slots=True, eq=False)
class _AtWork:
    """A hook of a runner, until it is over."""

    runner: "HookRunner"
    over: bool = False


# The hooks that the code asking was called from, outermost first.
_callers: ContextVar[tuple[_AtWork, ...]] = ContextVar("jsrun.agent.hooks", default=())


class HookRunner:
    """Runs the hooks of one agent, in order, and tells what they did and how they failed.

    A hook that is cancelled gets `grace` seconds to end.
    """

    def __init__(self, hooks: Sequence[Hooks], emit: Callable[[Event], None], grace: float) -> None:
        self._hooks = tuple(hooks)
        self._emit = emit
        self._grace = grace

    async def session_start(self, identity: "AgentIdentity", model: str, history: tuple[Message, ...]) -> None:
        """Raises HookFailure; hooks that had started get their shutdown before."""
        for index, hooks in enumerate(self._hooks):
            try:
                await self._call(hooks, "on_session_start", identity, model, history)
            except _Failed as failed:
                detail = f"hook '{hooks.name}' failed: {failed}"
                await self._shut_down(self._hooks[:index], history, 0, ErrorEnd(error=one_line(detail)))
                raise HookFailure(detail) from None
            except asyncio.CancelledError:  # whoever starts the agent has gone away
                await self._shut_down(self._hooks[:index], history, 0, ErrorEnd(error="the start was cancelled"))
                raise

    async def before_inference(
        self,
        model: str,
        system_prompt: str | None,
        tools: "tuple[ToolDefinition, ...]",
        messages: tuple[Message, ...],
    ) -> tuple[Message, ...]:
        """The messages to send. Raises HookFailure."""
        point: HookPoint = "on_before_inference"
        for hooks in self._hooks:
            try:
                decision = await self._call(hooks, point, model, system_prompt, tools, messages)
                if isinstance(decision, ReplaceMessages):
                    messages = self._sound(hooks, decision)
                    self._emit(HookActed(hook_name=hooks.name, point=point, action="replaced_messages"))
                else:
                    self._expect(hooks, point, decision, KeepMessages)
            except _Failed as failed:
                raise HookFailure(f"hook '{hooks.name}' failed: {failed}") from None
        return messages

    async def after_inference(
        self, model: str, message: AssistantMessage, metadata: InferenceMetadata, duration: float
    ) -> None:
        """Watching only; `duration` in seconds."""
        await self._watch(self._hooks, "on_after_inference", model, message, metadata, duration)

    async def tool_call(self, tool_name: str, call_id: str, arguments: ToolArguments) -> Blocked | None:
        """Whether the call is refused: the first that blocks decides, one that fails blocks."""
        point: HookPoint = "on_tool_call"
        for hooks in self._hooks:
            try:
                decision = await self._call(hooks, point, tool_name, call_id, arguments)
                if isinstance(decision, BlockTool) and isinstance(decision.reason, str):
                    return Blocked(hooks.name, clean_text(decision.reason))
                self._expect(hooks, point, decision, AllowTool)
            except _Failed:
                return Blocked(hooks.name, FAILED)
        return None

    async def tool_result(
        self, tool_name: str, call_id: str, content: str, is_error: bool, duration: float
    ) -> tuple[str, bool]:
        """Content and flag as the hooks leave them; `duration` in seconds."""
        point: HookPoint = "on_tool_result"
        for hooks in self._hooks:
            try:
                decision = await self._call(hooks, point, tool_name, call_id, content, is_error, duration)
                if isinstance(decision, ReplaceResult):
                    if not isinstance(decision.content, str) or not isinstance(decision.is_error, bool):
                        raise self._failed(hooks, point, "it replaced a result by what is none")
                    content, is_error = clean_text(decision.content), decision.is_error
                    self._emit(HookActed(hook_name=hooks.name, point=point, action="replaced_result"))
                else:
                    self._expect(hooks, point, decision, KeepResult)
            except _Failed:
                return f"Tool error: the result is withheld, because hook '{hooks.name}' failed", True
        return content, is_error

    async def error(self, model: str, error: AiError) -> None:
        """Watching only."""
        await self._watch(self._hooks, "on_error", model, error)

    async def complete(self, model: str, message: AssistantMessage, iterations: int, usage: Spend) -> None:
        """Watching only."""
        await self._watch(self._hooks, "on_complete", model, message, iterations, usage)

    async def session_shutdown(self, history: tuple[Message, ...], iterations: int, reason: EndReason) -> None:
        """Watching only, in reverse order."""
        await self._shut_down(self._hooks, history, iterations, reason)

    async def _shut_down(
        self, hooks: tuple[Hooks, ...], history: tuple[Message, ...], iterations: int, reason: EndReason
    ) -> None:
        await self._watch(hooks[::-1], "on_session_shutdown", history, iterations, reason)

    async def _watch(self, hooks: tuple[Hooks, ...], point: HookPoint, *seen: object) -> None:
        for one in hooks:
            try:
                await self._call(one, point, *seen)
            except _Failed:
                continue

    def calls_me(self) -> bool:
        """Is the code that asks part of a hook of this runner? Then it must not wait for what waits for the hook."""
        return any(hook.runner is self and not hook.over for hook in _callers.get())

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        hook = _AtWork(self)
        token = _callers.set((*_callers.get(), hook))
        try:
            yield
        finally:
            hook.over = True
            _callers.reset(token)

    async def _call(self, hooks: Hooks, point: HookPoint, *seen: object) -> object:
        """What the hook returns, None if there is none. Raises _Failed for a hook that raises or takes too long."""
        function = getattr(hooks, point)
        if function is None:
            return None
        with self._at_work():
            return await self._ask(hooks, point, function, seen)

    async def _ask(
        self, hooks: Hooks, point: HookPoint, function: Callable[..., object], seen: tuple[object, ...]
    ) -> object:
        try:
            answer = function(*seen)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise self._failed(hooks, point, name_of(error)) from None
        if not inspect.isawaitable(answer):
            return answer
        waiting: Awaitable[object] = answer
        try:
            return await guarded(lambda: waiting, hooks.timeout, self._grace)
        except TimeUp:
            raise self._failed(hooks, point, f"it did not end within {hooks.timeout:g} s") from None
        except Raised as raised:
            raise self._failed(hooks, point, name_of(raised.error)) from None

    def _sound(self, hooks: Hooks, decision: ReplaceMessages) -> tuple[Message, ...]:
        messages = decision.messages
        if not isinstance(messages, tuple | list) or not all(isinstance(item, Message) for item in messages):
            raise self._failed(hooks, "on_before_inference", "it replaced the messages by what are none")
        return tuple(messages)

    def _expect(self, hooks: Hooks, point: HookPoint, decision: object, kind: type) -> None:
        if decision is not None and not isinstance(decision, kind):
            raise self._failed(hooks, point, f"it returned a {type(decision).__name__}, which decides nothing here")

    def _failed(self, hooks: Hooks, point: HookPoint, error: str) -> _Failed:
        error = one_line(error)
        self._emit(HookFailed(hook_name=hooks.name, point=point, error=error))
        return _Failed(error)
