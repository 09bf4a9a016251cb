"""Executing one batch of tool calls, in five steps: checks, decisions of hooks, handlers, contents, results."""

import asyncio
import functools
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Final

from jsrun._text import compact_json
from jsrun._threads import call as call_function
from jsrun._threads import is_async
from jsrun.agent.config import RuntimeLimits
from jsrun.agent.errors import ToolError
from jsrun.agent.events import Event, HookActed, ToolBlocked, ToolExecuted, ToolStarted
from jsrun.agent.guarded import Raised, TimeUp, guarded, name_of
from jsrun.agent.hooks import HookRunner, ToolArguments
from jsrun.agent.instrumentation import Instrumentation
from jsrun.agent.messages import ToolCall, ToolMessage, clean_text
from jsrun.agent.tools import NestedAnswer, Tool, ToolContext, ToolRegistry
from jsrun.canonical import json_text
from jsrun.schemas import copy_json
from jsrun.spend import Spend
from ptc.errors import NotJson
from ptc.outcome import UNSET, Unset
from ptc.wire import Json, encode

PREFIX: Final = "Tool error: "
CANCELLED: Final = "Tool error: cancelled"
OUTCOME_UNKNOWN: Final = "Tool error: outcome unknown, it may have run"


async def execute_batch(
    calls: tuple[ToolCall, ...],
    *,
    recovered: bool,
    registry: ToolRegistry,
    hooks: HookRunner,
    emit: Callable[[Event], None],
    limits: RuntimeLimits,
    add_usage: Callable[[Spend], None],
    instrumentation: Instrumentation,
    run_id: str,
) -> tuple[ToolMessage, ...]:
    """Execute the calls of one batch; one message for each, in their order. Nothing a tool does is raised.

    recovered: the calls may have run before. Cancelled, it ends every handler (within `limits.cancel_grace`), keeps
    what was finished, and returns the messages all the same, so that the batch can be closed.
    """
    environment = _Environment(hooks, emit, limits, add_usage, instrumentation, run_id)
    entries = [_Entry(call) for call in calls]
    try:
        await _work(environment, registry, entries, recovered=recovered)
    except asyncio.CancelledError:
        _uncancel()  # what follows closes the batch
    await _finish(environment, entries)
    return tuple(entry.message() for entry in entries)


@dataclass(frozen=True, slots=True)
class _Environment:
    """What every call of a run has around it."""

    hooks: HookRunner
    emit: Callable[[Event], None]
    limits: RuntimeLimits
    add_usage: Callable[[Spend], None]
    instrumentation: Instrumentation
    run_id: str


@dataclass(slots=True)
class _Entry:
    """One call on its way. `content` is None until it has a result; `value` is what the handler gave."""

    call: ToolCall
    parent_id: str | None = None
    arguments: "dict[str, Json]" = field(default_factory=dict)
    content: str | None = None
    is_error: bool = False
    value: "Json | Unset" = UNSET
    blocked: bool = False
    ran: bool = False
    timed_out: bool = False
    abandoned: bool = False
    duration: float = 0.0
    error_type: str | None = None

    def fail(self, text: str, error_type: str | None = None) -> None:
        """The call ends as an error, of a class if its handler had begun."""
        self.content, self.is_error, self.value, self.error_type = text, True, UNSET, error_type

    def message(self) -> ToolMessage:
        """What model and history get."""
        return ToolMessage(self.call.id, self.content or "", self.is_error)


async def _work(environment: _Environment, registry: ToolRegistry, entries: list[_Entry], *, recovered: bool) -> None:
    """Steps 1 to 4. Cancelled, every handler has ended or is abandoned before that goes on."""
    places = asyncio.Semaphore(environment.limits.max_parallel_tools)
    for entry in entries:
        await _check(registry, entry, recovered)
    for entry in entries:
        if entry.content is None:
            await _decide(environment, entry)
    await _all([_handle(environment, registry, entry, places) for entry in entries if entry.content is None])


async def _check(registry: ToolRegistry, entry: _Entry, recovered: bool) -> None:
    """Step 1: what is wrong with the call itself."""
    call = entry.call
    tool = registry.get(call.name)
    if tool is None:
        known = ", ".join(registry.names()) or "none"
        entry.fail(f"{PREFIX}there is no tool {call.name!r:.200}; there are: {known}")
        return
    arguments = await registry.read_arguments(call.name, call.arguments_json)
    if isinstance(arguments, str):
        entry.fail(PREFIX + arguments)
    elif recovered and not tool.repeatable:
        entry.fail(OUTCOME_UNKNOWN)
    else:
        entry.arguments = arguments


async def _decide(environment: _Environment, entry: _Entry) -> None:
    """Step 2: whether a hook refuses the call."""
    call = entry.call
    # A copy: a hook decides whether the call is made, not with what.
    arguments = ToolArguments(call.arguments_json, {key: copy_json(part) for key, part in entry.arguments.items()})
    blocked = await environment.hooks.tool_call(call.name, call.id, arguments)
    if blocked is None:
        return
    entry.blocked = True
    entry.fail(f"{PREFIX}Tool blocked by '{blocked.hook_name}': {blocked.reason}")
    environment.emit(
        ToolBlocked(call=call, parent_id=entry.parent_id, hook_name=blocked.hook_name, reason=blocked.reason)
    )
    environment.emit(HookActed(hook_name=blocked.hook_name, point="on_tool_call", action="blocked_tool"))


async def _all(handlers: list[Coroutine[object, object, None]]) -> None:
    """Run all of these at once; cancelled, cancel all, wait for all, and go on being cancelled."""
    tasks = {asyncio.create_task(handler) for handler in handlers}
    if not tasks:
        return
    try:
        await asyncio.wait(tasks)
    except asyncio.CancelledError:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        raise


async def _handle(environment: _Environment, registry: ToolRegistry, entry: _Entry, places: asyncio.Semaphore) -> None:
    """Steps 3 and 4: the handler at work, and its content."""
    tool = registry.get(entry.call.name)
    assert tool is not None  # it has been checked
    async with places:
        timeout = environment.limits.tool_timeout if isinstance(tool.timeout, Unset) else tool.timeout
        environment.emit(ToolStarted(call=entry.call, parent_id=entry.parent_id))
        entry.ran = True
        clock = asyncio.get_running_loop().time
        started = clock()
        running = _Running(tool, entry.arguments, _context(environment, entry))
        try:
            with environment.instrumentation.tool(entry.call, tool.definition.description) as span:
                await _attempt(environment, entry, tool, running, timeout)
                span.answered(entry.content or "", entry.is_error, entry.error_type)
        finally:
            entry.duration = clock() - started
            entry.abandoned = running.at_work


async def _attempt(
    environment: _Environment, entry: _Entry, tool: Tool, running: "_Running", timeout: float | None
) -> None:
    limits = environment.limits
    most = limits.max_result_chars if isinstance(tool.max_result_chars, Unset) else tool.max_result_chars
    try:
        value = await guarded(running.run, timeout, limits.cancel_grace)
        entry.content = content_of(value, most)
        entry.value = value  # type: ignore[assignment]  # it has been written as JSON
    except TimeUp:
        entry.timed_out = True
        entry.fail(f"{PREFIX}timed out after {timeout:g} s", "TimeoutError")
    except NotJson as problem:
        entry.fail(f"{PREFIX}the result is not JSON: {problem}", "NotJson")
    except Raised as raised:
        error = raised.error
        text = cut(str(error.message), most) if isinstance(error, ToolError) else name_of(error)
        entry.fail(PREFIX + clean_text(text), type(error).__name__)


async def _finish(environment: _Environment, entries: list[_Entry]) -> bool:
    """Step 5, in call order; was this task cancelled meanwhile?

    A cancellation waits for it and is taken back, because what has been done is kept as hooks leave it.
    """

    async def settle() -> None:
        for entry in entries:
            await _settle(environment, entry)

    cut_short = False
    task = asyncio.create_task(settle())
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            cut_short = True
            _uncancel()
    task.result()
    return cut_short


def _uncancel() -> None:
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()


async def _settle(environment: _Environment, entry: _Entry) -> None:
    """The result of one call as hooks leave it, told to all."""
    if entry.blocked:
        return
    if entry.content is None:
        entry.fail(CANCELLED)
    else:  # a call that was cut short has nothing a hook could change
        before = entry.content, entry.is_error
        entry.content, entry.is_error = await environment.hooks.tool_result(
            entry.call.name, entry.call.id, entry.content, entry.is_error, entry.duration
        )
        if (entry.content, entry.is_error) != before:
            entry.value = UNSET if entry.is_error else entry.content
    environment.emit(
        ToolExecuted(
            call=entry.call,
            parent_id=entry.parent_id,
            content=entry.content or "",
            is_error=entry.is_error,
            ran=entry.ran,
            timed_out=entry.timed_out,
            abandoned=entry.abandoned,
            duration=entry.duration,
        )
    )


class _Running:
    """A handler at work. `at_work` stays true if it does not end, even in a thread nobody waits for any more."""

    def __init__(self, tool: Tool, arguments: "dict[str, Json]", context: ToolContext) -> None:
        self._tool = tool
        self._arguments = arguments
        self._context = context
        self.at_work = False

    async def run(self) -> object:
        """What the handler gives."""
        handler = self._tool.handler
        if not is_async(handler):
            return await call_function(functools.partial(self._plain, handler), self._arguments, self._context)
        self.at_work = True
        try:
            return await handler(self._arguments, self._context)  # type: ignore[misc]  # an async function
        finally:
            self.at_work = False

    def _plain(
        self,
        handler: "Callable[[dict[str, Json], ToolContext], object]",
        arguments: "dict[str, Json]",
        context: ToolContext,
    ) -> object:
        self.at_work = True
        try:
            return handler(arguments, context)
        finally:
            self.at_work = False


def _context(environment: _Environment, entry: _Entry) -> ToolContext:
    count = 0

    async def nested(name: str, arguments_json: str, registry: ToolRegistry) -> NestedAnswer:
        nonlocal count
        count += 1
        call = ToolCall(f"{entry.call.id}:{count}", clean_text(name), arguments_json)
        inner = _Entry(call, parent_id=entry.call.id)
        try:
            await _work(environment, registry, [inner], recovered=False)
        finally:
            if await _finish(environment, [inner]):
                raise asyncio.CancelledError  # it was meant for the handler that waits here
        return NestedAnswer(inner.message(), inner.value)

    return ToolContext(environment.run_id, entry.call.id, entry.call.name, environment.add_usage, nested)


def content_of(value: object, most: int) -> str:
    """The text of a result: a text as it is, else compact JSON; over `most` characters it is cut and says so.

    Raises NotJson for what JSON cannot hold.
    """
    if isinstance(value, str):
        return clean_text(cut(value, most))
    encode(value, "result")
    return cut(clean_text(_text_of(value)), most)


def _text_of(value: object) -> str:
    try:
        return compact_json(value)
    except RecursionError:  # deeper than the usual way can go
        return json_text(value)


def cut(text: str, most: int) -> str:
    """The text, or its beginning and a line that gives both sizes."""
    return text if len(text) <= most else f"{text[:most]}\n[cut: {most:,} of {len(text):,} characters are shown]"
