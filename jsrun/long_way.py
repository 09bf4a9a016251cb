"""The long way: a generalist does the job that a program does not apply to.

The generalist is the host's, an agent perhaps. It gets the job as a `LongWay` and an Env in which it can reach what the
program could reach, and nothing more. What it gives is checked like the output of a program.
"""

import asyncio
import inspect
import json
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from jsrun._text import cut
from jsrun.belt import Belt, ToolSpec
from jsrun.bundle import Bundle
from jsrun.canonical import json_text
from jsrun.doors import not_allowed
from jsrun.endings import Ending, crashed, ending, invalid_output, one_line
from jsrun.env import AIOptions, Answer, AskAnswer, AskOptions, Env, Memory, Note, ToolResult
from jsrun.errors import DoorFailure
from jsrun.fuel import Fuel
from jsrun.manifest import Manifest
from jsrun.prompts import Prompt
from jsrun.regex import EngineRegexTester
from jsrun.result import LogEntry, Reason, RunResult, Usage
from jsrun.schemas import Schema
from jsrun.spend import Spend
from jsrun.values import levels_problem
from jsrun.whitelist import matches, trimmed
from ptc.errors import NotJson
from ptc.wire import Json, encode

T = TypeVar("T")

# A field of fuel that is used up cannot be 0; this is the least it can say, seconds.
_LEAST_SECONDS = 0.001


@dataclass(frozen=True, slots=True)
class LongWay:
    """A job for the generalist.

    input: as the caller gave it, without the schema's defaults. reason and sentence: why the program does not apply.
    tools: those of the whitelist that the Env has. report, logs: what the program had shown until then. fuel: what it
    left; a field it used up is the least there can be. run_id: its run, for the journal.
    """

    manifest: Manifest
    input: Json
    reason: Reason
    sentence: str
    tools: tuple[ToolSpec, ...]
    report: str
    logs: tuple[LogEntry, ...]
    fuel: Fuel
    run_id: str


class Generalist(Protocol):
    """Takes the long way."""

    async def take(self, job: LongWay, env: Env) -> RunResult:
        """Do the job with the tools of `env` and say how it ended, with the run's own id and spend."""
        ...


async def take_long_way(
    bundle: Bundle,
    manifest: Manifest,
    input: Json,
    env: Env,
    generalist: Generalist,
    fast: RunResult,
    fuel: Fuel,
) -> RunResult:
    """Give the job of a run that fell back to the generalist.

    `manifest` is what the generalist is told of the bundle, `input` a copy of the run's that nobody else has, `fast`
    its result, `fuel` what it was allowed, resolved.
    Returns the generalist's result with what the run had gathered added to it. Raises nothing but what ends the process
    or the task.
    """
    confined = WhitelistedEnv(env, bundle.manifest.whitelist, bundle.memory)
    job = LongWay(
        manifest=manifest,
        input=input,
        reason=fast.reason or "threw",
        sentence=fast.fell_back,
        tools=tool_specs(env, bundle.manifest.whitelist),
        report=fast.report,
        logs=fast.logs,
        fuel=fuel_left(fuel, fast),
        run_id=fast.run_id,
    )
    try:
        result: object = generalist.take(job, confined)
        result = await result if inspect.isawaitable(result) else result
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        return _stopped(fast, "The long way was cancelled.", confined.spend)
    except Exception as error:
        text = one_line(str(error))
        sentence = f"The long way stopped with an error: {text}" if text else "The long way stopped with an error."
        return _stopped(fast, sentence, confined.spend)
    if not isinstance(result, RunResult):
        return _stopped(fast, "The long way ended without a result.", confined.spend)
    return await _joined(bundle, fast, result)


def copy_input(input: object) -> Json:
    """A copy of an input as it is now; None for what is no JSON, with which no run will ever begin."""
    try:
        copy: Json = json.loads(json_text(input))
    except (ValueError, RecursionError):
        return None
    return copy


def tool_specs(env: Env, whitelist: Iterable[str]) -> tuple[ToolSpec, ...]:
    """What is known of the tools on the whitelist: those on the Env's belt, or just the names if it has none."""
    allowed = trimmed(whitelist)
    belt = getattr(env, "belt", None)
    if belt is None:
        return tuple(_open_spec(name) for name in allowed)
    specs = belt.specs() if hasattr(belt, "specs") else map(_open_spec, belt.names())
    return tuple(spec for spec in specs if matches(spec.name, allowed))


def fuel_left(fuel: Fuel, result: RunResult) -> Fuel:
    """What a run left of its fuel. Memory and output are those of a process, and stay as they were."""
    used = result.usage
    return replace(
        fuel,
        steps=None if fuel.steps is None else max(1, fuel.steps - used.steps),
        tokens=None if fuel.tokens is None else max(1, fuel.tokens - result.spend.tokens),
        wall=None if fuel.wall is None else max(_LEAST_SECONDS, fuel.wall - used.wall_s),
        compute=None if fuel.compute is None else max(_LEAST_SECONDS, fuel.compute - (used.compute_s or 0.0)),
    )


class WhitelistedEnv:
    """An Env that passes on what `env` does, but refuses every tool off the whitelist, and keeps count of the spend.

    `belt` holds the tools of the Env's belt that are on the whitelist, None if it has none. `memory`, if there is one,
    serves `remember` and `recall`, as it does for the program.
    """

    def __init__(self, env: Env, whitelist: Iterable[str], memory: Memory | None = None) -> None:
        self._env = env
        self._memory: Memory | Env = env if memory is None else memory
        self._whitelist = trimmed(whitelist)
        belt = getattr(env, "belt", None)
        self.belt = belt.only(self._whitelist) if isinstance(belt, Belt) else None
        self.spend = Spend()

    async def ai(self, prompt: Prompt, input: Json, options: AIOptions) -> Answer:
        return await self._billed(self._env.ai(prompt, input, options))

    async def tool(self, name: str, args: dict[str, Json]) -> ToolResult:
        if not isinstance(name, str) or not matches(name, self._whitelist):
            raise DoorFailure(not_allowed(str(name).strip(), self._whitelist))
        return await self._billed(self._env.tool(name.strip(), args))

    async def ask(self, question: str, options: AskOptions) -> AskAnswer:
        return await self._billed(self._env.ask(question, options))

    async def remember(self, note: str) -> None:
        await self._billed(self._memory.remember(note))

    async def recall(self, query: str) -> Sequence[Note]:
        return await self._billed(self._memory.recall(query))

    async def log(self, status: str) -> None:
        await self._billed(self._env.log(status))

    async def _billed(self, answer: Awaitable[T]) -> T:
        try:
            given = await answer
        except DoorFailure as failure:
            self._count(failure.spend)
            raise
        self._count(getattr(given, "spend", None))
        return given

    def _count(self, spend: object) -> None:
        if isinstance(spend, Spend):
            self.spend += spend


def _open_spec(name: str) -> ToolSpec:
    """A tool of which only the name is known: it may take anything."""
    return ToolSpec(name.strip(), "", {"type": "object"})


async def _joined(bundle: Bundle, fast: RunResult, long: RunResult) -> RunResult:
    """The generalist's result, its output checked, with what the fast path had gathered."""
    output, problem = await _checked(bundle, long.output)
    end: Ending | None = None
    if long.status == "fell_back":
        end = crashed(f"The long way did not go on: {one_line(long.fell_back)}")
    elif long.status == "finished":
        end = problem
    elif not long.incomplete.strip():
        end = ending(long.reason or "crashed", "The long way did not finish.")
    if end is not None:
        long = replace(long, status="incomplete", reason=end.reason, incomplete=end.sentence)
    return replace(
        long,
        output=output if long.status == "finished" else None,
        report=long.report or fast.report,
        incomplete=long.incomplete if long.status == "incomplete" else "",
        fell_back=fast.fell_back,
        spend=fast.spend + long.spend,
        logs=(*fast.logs, *long.logs),
        calls=fast.calls + long.calls,
        run_id=fast.run_id,
        path="long",
        long_run_id=long.run_id or None,
        usage=_added(fast.usage, long.usage),
        truncated=(*fast.truncated, *long.truncated),
        sandbox=fast.sandbox,
    )


def _added(used: Usage, more: Usage) -> Usage:
    """What two runs used, one after the other."""
    known = [seconds for seconds in (used.compute_s, more.compute_s) if seconds is not None]
    grown = [size for size in (used.memory_bytes, more.memory_bytes) if size is not None]
    return Usage(
        steps=used.steps + more.steps,
        wall_s=used.wall_s + more.wall_s,
        compute_s=sum(known) if known else None,
        memory_bytes=max(grown) if grown else None,
    )


async def _checked(bundle: Bundle, output: Json) -> tuple[Json, Ending | None]:
    """An output as a program's would be, shared with nobody, and why it is none."""
    if output is None:
        return None, ending("no_output", "The long way ended without an output.")
    try:
        encode(output, "output")
    except NotJson as error:
        return None, invalid_output((str(error),))
    text = json_text(output)
    if problem := levels_problem(output, text, "output"):
        return None, invalid_output((problem,))
    copy: Json = json.loads(text)
    schema = bundle.manifest.output
    problems = () if schema is None else await Schema(schema).problems(copy, "output", EngineRegexTester())
    return copy, invalid_output(problems) if problems else None


def _stopped(fast: RunResult, sentence: str, spend: Spend) -> RunResult:
    """The result of a long way that did not come to its end; what the fast path had gathered stays."""
    return replace(
        fast,
        status="incomplete",
        reason="crashed",
        incomplete=cut(sentence),
        spend=fast.spend + spend,
        path="long",
    )
