"""`run_code` as a tool of an agent: programs that the model writes call the other tools."""

from collections.abc import Callable
from typing import Any, Final, Literal, TypeAlias

from jsrun.agent.errors import InvalidConfiguration, ToolError
from jsrun.agent.execute import PREFIX
from jsrun.agent.tools import Tool, ToolContext, ToolDefinition, ToolRegistry
from jsrun.canonical import json_text
from ptc.errors import CallError, UsageError
from ptc.outcome import Unset
from ptc.runtime import Runtime
from ptc.tools import CodeTools
from ptc.tools import Tool as ProgramTool
from ptc.tools.model import RUN_CODE
from ptc.wire import Json

CodeMode: TypeAlias = Literal["both", "only"]

# What a program may give; the registry's own schema is the one that counts, and its verdict is part of the events.
_ANY_OBJECT: Final[dict[str, Json]] = {"type": "object"}


def code_tool(registry: ToolRegistry, mode: CodeMode = "both", *, runtime: Runtime | None = None) -> ToolRegistry:
    """The tools of an agent that may also write programs, which call the tools of `registry` as functions.

    mode: `both` offers the tools and `run_code`, `only` just `run_code`. runtime: where programs run; without one each
    call starts and ends an engine of its own. The limits of programs are the runtime's. A call that a program makes
    goes through all that a call of the model goes through; no program can call `run_code`.
    InvalidConfiguration for tools that cannot be functions of a program, and for another mode.
    """
    if mode not in ("both", "only"):
        raise InvalidConfiguration('mode must be "both" or "only"')

    async def handler(arguments: dict[str, Json], context: ToolContext) -> Json:
        if runtime is not None:
            return await _run(runtime, registry, arguments, context)
        async with Runtime(spares=0) as own:
            return await _run(own, registry, arguments, context)

    try:
        functions = _functions(registry, lambda tool: tool.parameters, _unbound)
        shown = CodeTools(runtime or Runtime(spares=0), functions, "ptc" if mode == "only" else "both")
    except UsageError as error:
        raise InvalidConfiguration(f"the tools of programs: {error}") from None
    offered = next(schema for schema in shown.schemas() if schema["name"] == RUN_CODE)
    definition = ToolDefinition(RUN_CODE, f"{offered['description']}\n\n{shown.prompt()}", offered["parameters"])
    run_code = Tool(definition, handler, timeout=None, repeatable=False)
    return ToolRegistry([run_code] if mode == "only" else [*registry, run_code])


async def _run(runtime: Runtime, registry: ToolRegistry, arguments: dict[str, Json], context: ToolContext) -> Json:
    def bound(name: str) -> Callable[[Any], Any]:
        async def call(given: Json) -> Json:
            assert context.nested is not None  # the runtime gives every handler one
            answer = await context.nested(name, json_text(given), registry)
            if isinstance(answer.value, Unset):
                raise CallError(answer.message.content.removeprefix(PREFIX))
            return answer.value

        return call

    tools = CodeTools(runtime, _functions(registry, lambda tool: _ANY_OBJECT, bound), "ptc")
    result = await tools.call(RUN_CODE, arguments, context.call_id)
    if result.is_error:
        raise ToolError(result.text)
    return result.text


def _functions(
    registry: ToolRegistry, parameters: Callable[[ToolDefinition], Any], call: Callable[[str], Callable[[Any], Any]]
) -> list[ProgramTool]:
    return [
        ProgramTool(
            name=tool.definition.name,
            description=tool.definition.description,
            parameters=parameters(tool.definition),
            call=call(tool.definition.name),
            safe=tool.repeatable,
        )
        for tool in registry
    ]


def _unbound(_name: str) -> Callable[[Any], Any]:
    """In place of a function that is only shown."""
    return lambda _arguments: None
