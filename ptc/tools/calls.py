"""The tools of one program: a namespace of functions that check, announce and schedule every call.

async with ProgramTools(checked(tools)) as mine:
    outcome = await runtime.run(code, [mine.namespace])
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from ptc.errors import UsageError
from ptc.namespaces import ErrorClass, HostFunction, Namespace
from ptc.tools.arguments import Arguments
from ptc.tools.declarations import ERROR_CLASS, MEMBER_NAME
from ptc.tools.model import NestedCall, Tool, call_tool, copy_json
from ptc.tools.render import short_json
from ptc.tools.schedule import Schedule
from ptc.wire import Json

__all__ = ["MAX_PARALLEL", "NAMESPACE", "CheckedTool", "ProgramTools", "checked"]

NAMESPACE: Final = "tools"
MAX_PARALLEL: Final = 10
"""Safe calls at work at once: as many as a service takes from one client without complaint."""
_LOGGED_CHARS: Final = 500

_log = logging.getLogger("ptc")


@dataclass(frozen=True, slots=True)
class CheckedTool:
    """A tool with the compiled check of its arguments."""

    tool: Tool
    arguments: Arguments


def checked(tools: Iterable[Tool]) -> dict[str, CheckedTool]:
    """The tools by name, in the order of their names. `UsageError` if two have one name or a schema cannot be used."""
    result: dict[str, CheckedTool] = {}
    for number, tool in enumerate(tools, 1):
        if not isinstance(tool, Tool):
            raise UsageError(f"tools: entry {number} is no Tool")
        shown = f'tool "{ascii(tool.name)[1:-1]:.100}"'
        if tool.name in result:
            raise UsageError(f"{shown}: this name is used twice")
        try:
            result[tool.name] = CheckedTool(tool, Arguments(tool.parameters))
        except UsageError as error:
            raise UsageError(f"{shown}: {error}") from None
    return dict(sorted(result.items()))


class ProgramTools:
    """The namespace `tools` for one run. An async context manager: at its end no call of the run is at work any more.

    call_id: the beginning of the ids of its calls. on_call: is told of every call that has passed its check, before it
    waits for its turn; what it raises is logged.
    """

    def __init__(
        self,
        tools: Mapping[str, CheckedTool],
        *,
        call_id: str = "",
        max_parallel: int = MAX_PARALLEL,
        on_call: Callable[[NestedCall], object] | None = None,
    ) -> None:
        self._schedule = Schedule(max_parallel)
        self._call_id = call_id
        self._on_call = on_call
        self._count = 0
        functions = {name: self._function(tool) for name, tool in tools.items()}
        self.namespace: Final = Namespace(NAMESPACE, functions, ErrorClass(ERROR_CLASS, MEMBER_NAME))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._schedule.close()

    def _function(self, checked_tool: CheckedTool) -> HostFunction:
        tool = checked_tool.tool

        def submit(arguments: Json) -> Awaitable[object]:
            self._count += 1
            number = f"{self._call_id}:ptc:{self._count}"

            async def check() -> None:
                await checked_tool.arguments.check(arguments)
                self._announce(number, tool.name, arguments)

            return self._schedule.submit(
                check=check,
                is_safe=lambda: tool.safe is True or (callable(tool.safe) and tool.safe(arguments)),
                work=lambda: call_tool(tool, arguments),
            )

        return submit

    def _announce(self, number: str, name: str, arguments: Json) -> None:
        if _log.isEnabledFor(logging.DEBUG):
            _log.debug("call %s: %s(%s)", number, ascii(name)[1:-1], short_json(arguments, _LOGGED_CHARS))
        if self._on_call is None:
            return
        try:
            self._on_call(NestedCall(number, name, copy_json(arguments)))
        except Exception:
            _log.exception("an observer of calls raised")
