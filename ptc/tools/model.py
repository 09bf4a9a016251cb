"""`Tool` and what becomes of a call to one: the frozen data of `ptc.tools`, and how a tool's function is called."""

import asyncio
import contextlib
import contextvars
import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from ptc import frames
from ptc.errors import UsageError
from ptc.namespaces import Blocking, HostFunction
from ptc.outcome import Outcome
from ptc.wire import Json, decode, encode, joined

__all__ = ["RUN_CODE", "NestedCall", "Tool", "ToolResult", "call_tool", "copy_json", "wait_out"]

RUN_CODE: Final = "run_code"
"""The tool that runs a program. No other tool may have its name."""


@dataclass(frozen=True, slots=True)
class Tool:
    """Something a model may call, directly or from a program.

    parameters: JSON Schema (Draft 2020-12) of the one object `call` gets. call: a host function, sync, async or
    `ptc.blocking`; what it gives must be JSON data, the text of what it raises is what the caller is told. output: JSON
    Schema of what it gives, to be shown and never checked. safe: whether the call may overlap with other safe ones; a
    function of the arguments (sync, quick, gives True or False) is asked when the turn of the call has come.
    Raises `UsageError` for a name, description or function that cannot be used.
    """

    name: str
    description: str
    parameters: Any  # JSON
    call: HostFunction
    output: Any = None  # JSON
    safe: bool | Callable[[Any], bool] = False

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise UsageError("tool: a name is needed, a text that is not empty")
        object.__setattr__(self, "name", joined(self.name))  # as a program holds it
        shown = f'tool "{ascii(self.name)[1:-1]:.100}"'
        if self.name == RUN_CODE:
            raise UsageError(f"{shown}: this name belongs to the tool that runs programs; choose another")
        if not isinstance(self.description, str):
            raise UsageError(f"{shown}: a description is needed, as text")
        if not callable(self.call):
            raise UsageError(f"{shown}: its call is no function")
        if not isinstance(self.safe, bool) and not callable(self.safe):
            raise UsageError(f"{shown}: safe is True, False or a function of the arguments")


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The answer to a model's call: the text to show it. `outcome` is that of the program, None if none was run."""

    text: str
    is_error: bool = False
    outcome: Outcome | None = None


@dataclass(frozen=True, slots=True)
class NestedCall:
    """A call a program made. `id` is `<id of the run_code call>:ptc:<n>`; the arguments are a copy."""

    id: str
    name: str
    arguments: Json


async def call_tool(tool: Tool, arguments: Json) -> object:
    """Call the tool's function and return what it gives. Whatever ends the wait, the function has ended then too."""
    function = tool.call
    if isinstance(function, Blocking):
        return await _in_thread(function, arguments)
    result = function(arguments)
    return await result if inspect.isawaitable(result) else result


async def _in_thread(function: Blocking, arguments: Json) -> object:
    context = contextvars.copy_context()

    def call() -> tuple[object, BaseException | None]:
        # As a value, because a future cannot hold every exception (StopIteration).
        try:
            return context.run(function, arguments), None
        except BaseException as error:
            return None, error

    future = asyncio.get_running_loop().run_in_executor(None, call)
    try:
        result, error = await asyncio.shield(future)
    except asyncio.CancelledError:
        await wait_out([future])  # a thread cannot be stopped, so it is waited for
        raise
    if error is not None:
        raise error
    return result


async def wait_out(futures: Iterable["asyncio.Future[Any]"]) -> None:
    """Wait until all have ended, however often we are cancelled meanwhile; then that is raised."""
    waiting = set(futures)
    cancelled = False
    while waiting:
        with contextlib.suppress(asyncio.CancelledError):
            _, waiting = await asyncio.wait(waiting)
            continue
        cancelled = True
        waiting = {future for future in waiting if not future.done()}
    if cancelled:
        raise asyncio.CancelledError


def copy_json(value: object, root: str = "value") -> Json:
    """A copy of JSON data as a program would hold it (`1.0` is `1`, a tuple is an array). Raises `NotJson`."""
    return decode(frames.loads(encode(value, root).encode()))
