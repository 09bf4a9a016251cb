"""`CodeTools`: tools for a model, to be called one by one, from programs it writes, or both ways."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal, get_args

from ptc._functions import failure_text
from ptc.errors import CallError, NotJson, UsageError
from ptc.outcome import UNSET, Unset
from ptc.runtime import Runtime
from ptc.tools.arguments import Arguments
from ptc.tools.calls import MAX_PARALLEL, CheckedTool, ProgramTools, checked
from ptc.tools.declarations import declarations
from ptc.tools.model import RUN_CODE, NestedCall, Tool, ToolResult, call_tool, copy_json
from ptc.tools.prompts import prompt, run_code_description, run_code_parameters
from ptc.tools.render import MIN_RESULT_CHARS, cut_middle, result_text, short_json, value_text
from ptc.wire import Json, joined

__all__ = ["CodeTools", "Mode"]

Mode = Literal["native", "ptc", "both"]

MAX_RESULT_CHARS: Final = 40_000
"""About 10,000 tokens: more than a model needs of one result, little enough for a conversation of many."""


class CodeTools:
    """The tools of one model.

    mode: `native` offers the tools themselves; `ptc` only `run_code`, whose programs call them; `both` all of it.
    max_parallel: safe calls of one program at work at once. max_result_chars: longer results lose their middle.
    on_call: is told of every call a program makes, with a copy of its arguments. Raises `UsageError` for tools or
    options that cannot be used. The deadlines and limits of programs are those of the runtime.
    """

    def __init__(
        self,
        runtime: Runtime,
        tools: Iterable[Tool],
        mode: Mode = "ptc",
        max_parallel: int = MAX_PARALLEL,
        max_result_chars: int = MAX_RESULT_CHARS,
        *,
        on_call: Callable[[NestedCall], object] | None = None,
    ) -> None:
        if mode not in get_args(Mode):
            raise UsageError("mode: native, ptc or both is needed")
        _check_count("max_parallel", max_parallel, 1)
        _check_count("max_result_chars", max_result_chars, MIN_RESULT_CHARS)
        self._runtime = runtime
        self._tools = checked(tools)
        self._mode: Mode = mode
        self._max_parallel = max_parallel
        self._max_result_chars = max_result_chars
        self._on_call = on_call
        self._run_code_arguments = Arguments(run_code_parameters(runtime.limits))

    def schemas(self) -> list[dict[str, Any]]:
        """What to offer the model as tools: `name`, `description` and `parameters` (JSON Schema) of each."""
        limits = self._runtime.limits
        offered: list[dict[str, Any]] = []
        if self._mode != "native":
            description = run_code_description(limits, self._max_result_chars)
            offered.append(_schema(RUN_CODE, description, run_code_parameters(limits)))
        if self._mode != "ptc":
            for name, entry in self._tools.items():
                parameters = {"type": "object", **entry.tool.parameters}
                offered.append(_schema(name, entry.tool.description, copy_json(parameters)))
        return offered

    def prompt(self) -> str:
        """What to tell the model beside the schemas; empty if it only has the tools themselves."""
        if self._mode == "native":
            return ""
        return prompt(self.declarations(), only_programs=self._mode == "ptc", max_parallel=self._max_parallel)

    def declarations(self) -> str:
        """The tools as TypeScript."""
        return declarations(entry.tool for entry in self._tools.values())

    async def call(self, name: str, arguments: object, call_id: str) -> ToolResult:
        """Do a call of the model and return its answer; whatever the model did wrong is an answer too.

        call_id: begins the ids of the calls a program makes. Returns, or is cancelled, when every call the program made
        has ended; a tool that does not end when it is cancelled is waited for.
        """
        if name == RUN_CODE and self._mode != "native":
            return await self._run_code(arguments, call_id)
        entry = self._tools.get(joined(name))
        if entry is None:
            return self._error(f"There is no tool {short_json(name)}.")
        if self._mode == "ptc":
            return self._error(
                f"{short_json(name)} cannot be called directly. "
                f"Call `{RUN_CODE}` with a program that calls it as a function of `tools`."
            )
        return await self._direct(entry, arguments)

    async def _direct(self, entry: CheckedTool, arguments: object) -> ToolResult:
        try:
            given = _copy_arguments(arguments)
            await entry.arguments.check(given)
            value = copy_json(await call_tool(entry.tool, given), "result")
        except Exception as error:
            is_plain = isinstance(error, NotJson)
            return self._error(str(error) if is_plain else failure_text(error, self._runtime.describe_error))
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            return self._error(failure_text(error, self._runtime.describe_error))  # it was the tool's own
        return ToolResult(cut_middle(value_text(value), self._max_result_chars))

    async def _run_code(self, arguments: object, call_id: str) -> ToolResult:
        try:
            given = _copy_arguments(arguments)
            await self._run_code_arguments.check(given)
        except CallError as error:
            return self._error(str(error))
        assert isinstance(given, dict)
        if not str(given["description"]).strip():
            return self._error("invalid arguments: args.description is blank; say what the program does")
        timeout, note = self._timeout(given.get("timeout"))
        async with ProgramTools(
            self._tools, call_id=call_id, max_parallel=self._max_parallel, on_call=self._on_call
        ) as tools:
            outcome = await self._runtime.run(
                str(given["code"]),
                [tools.namespace],
                language="typescript",
                form="async",
                name="run_code.ts",
                timeout=timeout,
            )
        text = cut_middle(note + result_text(outcome), self._max_result_chars)
        return ToolResult(text, is_error=not outcome.ok, outcome=outcome)

    def _timeout(self, wanted: Json) -> tuple[float | Unset, str]:
        """The deadline in seconds, and what to tell the model about it."""
        if not isinstance(wanted, (int, float)):
            return UNSET, ""
        most = self._runtime.limits.max_timeout
        if wanted <= most:
            return float(wanted), ""
        return most, f"[timeout cut from {short_json(wanted)} to {most:g} seconds, the most there is]\n"

    def _error(self, text: str) -> ToolResult:
        return ToolResult(cut_middle(text, self._max_result_chars), is_error=True)


def _check_count(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UsageError(f"{name}: a whole number from {least} is needed")


def _schema(name: str, description: str, parameters: Json) -> dict[str, Any]:
    return {"name": name, "description": description, "parameters": parameters}


def _copy_arguments(arguments: object) -> Json:
    """The arguments as a program would hold them. CallError if they are no JSON data."""
    try:
        return copy_json(dict(arguments) if isinstance(arguments, Mapping) else arguments, "args")
    except NotJson as error:
        raise CallError(f"invalid arguments: {error}") from None
