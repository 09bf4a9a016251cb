"""AgentGeneralist: an agent takes the long way, with the tools of the job and nothing else."""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from jsrun.agent.bundle_tool import door_answer
from jsrun.agent.config import RuntimeConfig
from jsrun.agent.errors import InferenceError, IterationLimit, RunCancelled, RunError, StartError, ToolError
from jsrun.agent.handle import check_max_tokens
from jsrun.agent.messages import clean_text
from jsrun.agent.runtime import start
from jsrun.agent.tools import Tool, ToolContext, ToolDefinition, ToolRegistry
from jsrun.belt import ToolSpec
from jsrun.canonical import json_text
from jsrun.env import Env
from jsrun.long_way import LongWay
from jsrun.regex import EngineRegexTester
from jsrun.result import Reason, RunResult, Usage
from jsrun.schema_checks import IN_VALUES
from jsrun.schemas import Schema
from jsrun.spend import Spend
from jsrun.values import json_in
from ptc.outcome import UNSET, Unset
from ptc.wire import Json

SUBMIT: Final = "submit_result"
"""The tool by which the agent hands in its output."""

# Schema keywords whose values are data, so that a "$ref" in them is none.
_DATA: Final = frozenset({"const", "default", "enum", "examples"})

_CANCELLED: Final[dict[str, Reason]] = {"deadline": "wall", "tokens": "tokens"}


class AgentGeneralist:
    """A `jsrun.Generalist`: one fresh agent for each job, made of `config` with the tools of the job.

    max_tokens: the budget of a job, input plus output; the manifest's deadline follows from it. ValueError unless it is
    None or a whole number above 0.
    """

    def __init__(self, config: RuntimeConfig, max_tokens: int | None = None) -> None:
        self._config = config
        self._max_tokens = check_max_tokens(max_tokens)

    async def take(self, job: LongWay, env: Env) -> RunResult:
        """Do the job; every ending is a result. Cancelling it cancels the agent."""
        attempt = _Attempt(job, env)
        started = time.monotonic()
        usage = Spend()
        text = ""
        try:
            async with await start(self._of(attempt)) as agent:
                deadline = job.manifest.deadline(self._max_tokens or 0)
                handle = agent.start_run(_prompt(job), deadline, max_tokens=self._max_tokens)
                try:
                    outcome = await handle.outcome_or_cancel()
                finally:
                    usage = handle.usage
            if outcome.message is not None:
                text = outcome.message.content
                reason, sentence, output = await attempt.output(text)
            else:
                reason, sentence, output = *_ending(outcome.error), None
        except StartError as error:
            reason, sentence, output = "crashed", f"The agent could not be started: {error}.", None
        return RunResult(
            status="finished" if reason is None else "incomplete",
            reason=reason,
            output=output,
            incomplete=sentence,
            report=text,
            spend=usage,
            calls=attempt.calls,
            usage=Usage(wall_s=time.monotonic() - started),
        )

    def _of(self, attempt: "_Attempt") -> RuntimeConfig:
        identity = replace(self._config.identity, id=None)  # each agent has its own
        return replace(self._config, tools=ToolRegistry(attempt.tools()), identity=identity)


class _Attempt:
    """One job: its tools, what was submitted, and how many calls were made."""

    def __init__(self, job: LongWay, env: Env) -> None:
        self._job = job
        self._env = env
        self._submitted: Json | Unset = UNSET
        self.calls = 0

    def tools(self) -> list[Tool]:
        """The tools of the job, and the one that takes the output."""
        schema: Mapping[str, Json] = self._job.manifest.output or {}
        parameters: dict[str, Json] = {
            "type": "object",
            "properties": {"output": _moved(schema)},
            "required": ["output"],
            "additionalProperties": False,
        }
        description = "Hand in the output of the job. The last one that is valid counts."
        submit = Tool(ToolDefinition(SUBMIT, description, parameters), self._submit)
        return [*map(self._tool, self._job.tools), submit]

    async def output(self, text: str) -> tuple[Reason | None, str, Json]:
        """Reason and sentence (none for success), and the output: as submitted, else the JSON of the last text."""
        if not isinstance(self._submitted, Unset):
            return None, "", self._submitted
        value = json_in(text)
        if isinstance(value, Unset) or value is None:
            return "no_output", "The agent ended without an output.", None
        schema = self._job.manifest.output
        problems = () if schema is None else await Schema(schema).problems(value, "output", EngineRegexTester())
        if problems:
            return "invalid_output", f"The output does not fit: {' '.join(problems)}", None
        return None, "", value

    def _tool(self, spec: ToolSpec) -> Tool:
        async def handler(arguments: dict[str, Json], context: ToolContext) -> Json:
            self.calls += 1
            return await door_answer(self._env.tool(spec.name, arguments), context)

        return Tool(ToolDefinition(spec.name, spec.description, spec.input_schema), handler, repeatable=spec.read_only)

    async def _submit(self, arguments: dict[str, Json], _context: ToolContext) -> Json:
        if arguments["output"] is None:
            raise ToolError("the output is null; hand in a value")
        self._submitted = arguments["output"]
        return "The output is taken. Say in one sentence what you did."


def _ending(error: RunError | None) -> tuple[Reason, str]:
    """Reason and sentence of a run without an answer."""
    match error:
        case RunCancelled(reason=reason):
            return _CANCELLED.get(reason, "cancelled"), f"The agent's work ended: {error}."
        case InferenceError(error=IterationLimit(limit=limit)):
            return "steps", f"The agent used up its {limit} rounds of tools."
        case _:
            return "crashed", f"The agent stopped with an error: {error}."


def _prompt(job: LongWay) -> str:
    """The job in words. A lone surrogate in it becomes U+FFFD: no encoding could carry it to a model."""
    return clean_text(
        f"{job.manifest.purpose}\n\n"
        f"The input, as JSON:\n{json_text(job.input)}\n\n"
        f"A program made for this job does not apply ({job.reason}): {job.sentence}\n\n"
        f"Do the job with the tools you have. Hand in the output with {SUBMIT}."
    )


def _moved(schema: Any) -> Any:
    """A schema that becomes the one of `output`: its references lead to where its parts are now."""
    if isinstance(schema, list):
        return [_moved(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    moved: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "$ref" and isinstance(value, str) and value.startswith("#"):
            moved[key] = "#/properties/output" + value.removeprefix("#")
        elif key in IN_VALUES and isinstance(value, Mapping):  # names, which may be anything, and their schemas
            moved[key] = {name: _moved(inner) for name, inner in value.items()}
        elif key != "$schema":
            moved[key] = value if key in _DATA else _moved(value)
    return moved
