"""What `jsrun` has, as tools of an agent: the tools of a belt, and a bundle."""

from collections.abc import Awaitable

from jsrun.agent.errors import ToolError
from jsrun.agent.tools import Tool, ToolContext, ToolDefinition
from jsrun.belt import Belt, ToolSpec
from jsrun.env import Env, ToolResult
from jsrun.errors import DoorFailure, JsrunError
from jsrun.result import RunResult
from jsrun.runner import Runner
from ptc.outcome import Unset
from ptc.wire import Json


def belt_tools(belt: Belt) -> tuple[Tool, ...]:
    """The tools of a belt, under their names and schemas; the read-only ones may be repeated after a crash."""
    return tuple(_belt_tool(belt, spec) for spec in belt.specs())


def bundle_tool(runner: Runner, env: Env) -> Tool:
    """A subharness under its name: it is told by its purpose, takes its input, and gives its output.

    A run that falls back or is incomplete is an error result; nothing takes the long way, because the agent is it.
    The bundle's fuel bounds the run. Cancelling the call cancels it.
    """
    manifest = runner.bundle.manifest

    async def handler(arguments: dict[str, Json], context: ToolContext) -> Json:
        try:
            result = await runner.run(arguments, env)
        except JsrunError as error:
            raise ToolError(str(error)) from None
        context.add_usage(result.spend)
        if not result.finished():
            raise ToolError(_ending(result))
        return result.output

    parameters = {"type": "object"} if manifest.input is None else manifest.input
    definition = ToolDefinition(manifest.name, manifest.purpose, parameters)
    return Tool(definition, handler, timeout=None, repeatable=False)


async def door_answer(called: Awaitable[ToolResult], context: ToolContext) -> Json:
    """What a tool of a belt or an Env gives, its spend counted.

    Raises ToolError if it fails, or says that it has failed.
    """
    try:
        result = await called
    except DoorFailure as failure:
        context.add_usage(failure.spend)
        raise ToolError(failure.message) from None
    context.add_usage(result.spend)
    if result.failed:
        raise ToolError(result.text or "the tool says that it failed")
    return result.text if isinstance(result.json, Unset) else result.json


def _belt_tool(belt: Belt, spec: ToolSpec) -> Tool:
    async def handler(arguments: dict[str, Json], context: ToolContext) -> Json:
        return await door_answer(belt.call(spec.name, arguments), context)

    return Tool(ToolDefinition(spec.name, spec.description, spec.input_schema), handler, repeatable=spec.read_only)


def _ending(result: RunResult) -> str:
    """Why a run has no output, what it had to report, and how far it came."""
    calls = "1 call" if result.calls == 1 else f"{result.calls} calls"
    report = f" Its last report: {result.report}" if result.report else ""
    return f"{result.status.replace('_', ' ')} ({result.reason}) after {calls}: {result.sentence}{report}"
