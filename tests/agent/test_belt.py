"""Bundles, belts and programs as tools of an agent, and the agent as the generalist of a registry."""

import asyncio
import json
from typing import Any

import pytest

import jsrun
from jsrun import CallbackEnv, Fuel, Runner, Spend, ToolResult, UnwiredEnv
from jsrun.agent.bundle_tool import belt_tools, bundle_tool
from jsrun.agent.code_tool import code_tool
from jsrun.agent.config import RuntimeConfig
from jsrun.agent.errors import ApiError, InvalidConfiguration
from jsrun.agent.events import HookActed, ToolBlocked, ToolExecuted, ToolStarted
from jsrun.agent.generalist import SUBMIT, AgentGeneralist
from jsrun.agent.hooks import BlockTool, Hooks, ReplaceResult
from jsrun.agent.messages import AssistantMessage, ToolCall, ToolMessage
from jsrun.agent.runtime import start
from jsrun.agent.tools import Tool, ToolContext, ToolRegistry
from jsrun.belt import Belt
from jsrun.belt import tool as belt_function
from jsrun.long_way import LongWay
from jsrun.testing import bundle
from tests.agent.helpers import DONE, Hang, Seen, asks, call, config, costing, eventually, results, script, seen, tool

OUTPUT = {
    "type": "object",
    "properties": {"n": {"$ref": "#/$defs/n"}},
    "required": ["n"],
    "$defs": {"n": {"type": "integer"}},
}


async def told(tools: ToolRegistry, *calls: ToolCall, **options: Any) -> tuple[dict[str, str], Spend]:
    """The results that a model gets for these calls, and what the run cost."""
    provider = script(asks(*calls), DONE)
    async with await start(RuntimeConfig(provider, tools, **options)) as agent:
        handle = agent.start_run("go")
        await handle.result()
        return results(provider.requests[-1]), handle.usage


# --- belts and bundles ---


async def test_a_belt_gives_its_tools_their_results_and_their_spend() -> None:
    """AGT-082 names, schemas and repeatability are the belt's; a failed result is an error; spend is counted."""

    @belt_function(read_only=True)
    def add(a: int, b: int) -> ToolResult:
        """Adds."""
        return ToolResult(json=a + b, spend=Spend(input=5, calls=1))

    @belt_function
    def fail() -> ToolResult:
        return ToolResult(text="no luck", failed=True, spend=Spend(output=2, calls=1))

    @belt_function
    def refuse() -> ToolResult:
        raise jsrun.DoorFailure("not today")

    tools = belt_tools(Belt([add, fail, refuse]))
    assert [(one.definition.name, one.repeatable) for one in tools] == [
        ("add", True),
        ("fail", False),
        ("refuse", False),
    ]
    assert tools[0].definition.description == "Adds."
    got, usage = await told(
        ToolRegistry(tools), call("1", "add", '{"a":1,"b":2}'), call("2", "fail"), call("3", "refuse")
    )
    assert got == {"1": "3", "2": "Tool error: no luck", "3": "Tool error: not today"}
    assert (usage.input, usage.output) == (5, 2)


async def test_a_bundle_tool_maps_each_ending_and_adds_its_spend() -> None:
    """AGT-082 output, fall-back and incomplete run, each with its spend; nothing takes the long way."""

    async def ai(prompt: object, input: object, options: object) -> jsrun.Answer:
        return jsrun.Answer(text="yes", spend=Spend(input=10, output=1, calls=1))

    program = """
    async function run({ how }) {
      const said = await ai("ask", how);
      await log("asked");
      if (how === "throw") throw new Error("cannot");
      if (how === "stop") { for (let i = 0; ; i++) await log("again " + i); }
      return { said };
    }"""
    made = bundle(
        program,
        name="asker",
        purpose="Asks.",
        prompts={"ask": "Answer."},
        input={"type": "object", "properties": {"how": {"type": "string"}}, "required": ["how"]},
        fuel={"steps": 5},
    )
    async with Runner(made) as runner:
        one = bundle_tool(runner, CallbackEnv(ai=ai, log=lambda status: None))
        assert (one.definition.name, one.definition.description, one.repeatable) == ("asker", "Asks.", False)
        calls = [call(how, "asker", json.dumps({"how": how})) for how in ("answer", "throw", "stop")]
        got, usage = await told(ToolRegistry([one]), *calls, call("bad", "asker", "{}"))
    assert json.loads(got["answer"]) == {"said": "yes"}
    assert got["throw"].startswith("Tool error: fell back (threw) after 2 calls: ")
    assert "cannot" in got["throw"]
    assert got["throw"].endswith("Its last report: asked")
    assert got["stop"].startswith("Tool error: incomplete (steps) after ")
    assert "how" in got["bad"]
    assert usage.input == 30


async def test_a_bundle_run_is_stopped_with_its_call() -> None:
    """AGT-082 cancelling the call cancels the run, whose host function is cancelled too."""
    hang = Hang()
    made = bundle("async function run() { return await tool('hang', {}) }", name="waiter", whitelist=["hang"])
    async with Runner(made) as runner:
        one = bundle_tool(runner, CallbackEnv(tool=lambda name, args: hang()))
        async with await start(config(script(asks(call("1", "waiter"))), one)) as agent:
            handle = agent.start_run("go")
            await hang.wait_entered()
            assert await handle.cancel()
            await asyncio.wait_for(hang.left.wait(), 10)
            assert (await agent.history())[-1] == ToolMessage("1", "Tool error: cancelled", is_error=True)


# --- programs ---


def doubling(asked: list[Any]) -> Tool:
    """A tool that doubles, and notes what it was asked."""

    async def double(arguments: dict[str, Any], context: ToolContext) -> Any:
        asked.append((context.call_id, arguments))
        context.add_usage(Spend(input=1, calls=1))
        return arguments["n"] * 2

    made = tool(double, "double")
    schema: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    return Tool(type(made.definition)("double", "Doubles.", schema), double)


def run_code(code: str, id: str = "p") -> ToolCall:
    """A call of the model that runs a program."""
    return call(id, "run_code", json.dumps({"description": "Computes.", "code": code}))


async def test_calls_of_a_program_go_through_what_calls_of_the_model_do() -> None:
    """AGT-083 checks, hooks, events and usage, under the parent's id; a bad call throws in the program."""
    asked: list[Any] = []
    hooks = Hooks(
        "watch",
        on_tool_call=lambda name, id, arguments: BlockTool("13") if arguments.value.get("n") == 13 else None,
        on_tool_result=lambda name, id, content, is_error, duration: ReplaceResult("66") if content == "6" else None,
    )
    code = """
    const said = [await tools.double({ n: 1 }), await tools.double({ n: 3 })];
    for (const n of [13, "x"]) {
      try { said.push(await tools.double({ n })) } catch (e) { said.push(e.message) }
    }
    said.push(typeof tools.run_code);
    return said;"""
    seen = Seen()
    registry = code_tool(ToolRegistry([doubling(asked)]))
    got, usage = await told(registry, run_code(code), hooks=(hooks,), dispatcher=seen.dispatcher)
    said = json.loads(got["p"])
    assert said[:2] == [2, "66"]
    assert said[2] == "Tool blocked by 'watch': 13"
    assert "/n" in said[3]
    assert said[4] == "undefined"
    assert asked == [("p:1", {"n": 1}), ("p:2", {"n": 3})]
    assert usage.input == 2
    executed = [(event.call.id, event.parent_id) for event in await seen.events(ToolExecuted)]
    assert executed == [("p:1", "p"), ("p:2", "p"), ("p:4", "p"), ("p", None)]
    started = [(event.call.id, event.parent_id) for event in await seen.events(ToolStarted)]
    assert started == [("p", None), ("p:1", "p"), ("p:2", "p")]
    assert [event.call.id for event in await seen.events(ToolBlocked)] == ["p:3"]
    assert {event.hook_name for event in await seen.events(HookActed)} == {"watch"}


async def test_a_nested_call_has_its_timeout_and_ends_with_its_program() -> None:
    """AGT-083 a tool that hangs times out inside the program; a cancelled run leaves nothing of it."""
    hang = Hang()
    registry = code_tool(ToolRegistry([tool(hang, "hang", timeout=0.1)]))
    code = "try { return await tools.hang({}) } catch (e) { return e.message }"
    got, _usage = await told(registry, run_code(code))
    assert got["p"] == "timed out after 0.1 s"
    later = Hang()
    provider = script(asks(run_code("return await tools.hang({})")))
    async with await start(RuntimeConfig(provider, code_tool(ToolRegistry([tool(later, "hang")])))) as agent:
        handle = agent.start_run("go")
        await later.wait_entered()
        assert await handle.cancel()
        await eventually(later.left.is_set)


async def test_a_program_that_fails_is_an_error_result() -> None:
    """AGT-083 a program that throws, and one that is none."""
    registry = code_tool(ToolRegistry([doubling([])]))
    got, _usage = await told(registry, run_code("throw new Error('oh')", "1"), run_code("return (", "2"))
    assert got["1"].startswith("Tool error: ")
    assert "oh" in got["1"]
    assert got["2"].startswith("Tool error: ")


async def test_in_mode_only_the_other_tools_are_hidden() -> None:
    """AGT-083 the model is shown `run_code` alone, and a direct call of another tool is unknown."""
    asked: list[Any] = []
    registry = code_tool(ToolRegistry([doubling(asked)]), "only")
    assert [one.name for one in registry.definitions] == ["run_code"]
    assert "double" in registry.definitions[0].description
    got, _usage = await told(registry, call("1", "double", '{"n":1}'), run_code("return await tools.double({ n: 4 })"))
    assert got["1"] == "Tool error: there is no tool 'double'; there are: run_code"
    assert got["p"] == "8"
    assert [id for id, _arguments in asked] == ["p:1"]
    with pytest.raises(InvalidConfiguration, match="both"):
        code_tool(ToolRegistry(), "other")  # type: ignore[arg-type]


@pytest.mark.parametrize(("mode", "rule"), [("both", "directly when one call will do"), ("only", "refused")])
def test_the_model_is_told_whether_it_may_call_tools_directly(mode: Any, rule: str) -> None:
    """AGT-083 As it is in this mode."""
    (told,) = [one for one in code_tool(ToolRegistry([tool(seen)]), mode).definitions if one.name == "run_code"]
    assert rule in told.description
    assert "look" in told.description
    assert ("refused" in told.description) == (mode == "only")


# --- the generalist ---


class Jobs:
    """A registry with one subharness that never applies, and an Env that notes the calls of its tools."""

    def __init__(self, **manifest: Any) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        program = "function run() { log('looked'); throw new Error('not like this') }"
        self.bundle = bundle(program, name="job", purpose="Count things.", whitelist=["look"], **manifest)
        look = belt_function(name="look", read_only=True)(self._look)
        other = belt_function(name="other")(lambda: "never")
        self.env = jsrun.LocalEnv(None, Belt([look, other]), ask=None, log=None)

    def _look(self, where: str) -> ToolResult:
        self.calls.append(("look", {"where": where}))
        return ToolResult(text=f"3 in {where}", spend=Spend(input=7, calls=1))

    async def run(self, provider: Any, max_tokens: int | None = None, **options: Any) -> jsrun.RunResult:
        """From the registry through the failing program to the agent's answer."""
        registry = jsrun.Registry()
        registry.use(jsrun.Layer.BUILT_IN, self)
        generalist = AgentGeneralist(config(provider, **options), max_tokens)
        return await registry.run("job", {"of": "things"}, self.env, generalist=generalist)

    def names(self) -> tuple[str, ...]:
        """Of the one subharness."""
        return ("job",)

    def load(self, name: str) -> jsrun.Bundle:
        """The bundle."""
        return self.bundle


def submits(value: Any, id: str = "s") -> AssistantMessage:
    """The model hands in an output."""
    return asks(call(id, SUBMIT, json.dumps({"output": value})))


async def test_the_agent_finishes_a_job_with_its_tools_alone() -> None:
    """AGT-084 from `Registry.run` through the program that throws to a valid output, with the whitelisted tool only."""
    jobs = Jobs(output=OUTPUT)
    provider = script(
        asks(call("1", "look", '{"where":"box"}'), call("2", "other")),
        submits({"n": "three"}, "3"),
        submits({"n": 3}, "4"),
        costing(DONE, 100),
    )
    result = await jobs.run(provider)
    assert (result.status, result.output, result.path) == ("finished", {"n": 3}, "long")
    assert jobs.calls == [("look", {"where": "box"})]
    assert [one.name for one in provider.requests[0].tools] == ["look", SUBMIT]
    prompt = provider.requests[0].messages[0]
    assert all(text in prompt.content for text in ("Count things.", '{"of":"things"}', "threw", "not like this"))
    assert results(provider.requests[1])["2"].startswith("Tool error: there is no tool 'other'")
    assert "/output/n" in results(provider.requests[2])["3"]
    assert result.spend.input == 107
    assert result.calls == 1 + 1  # the program's and the agent's
    assert result.report == "done"


@pytest.mark.parametrize(
    ("steps", "options", "expected"),
    [
        ((AssistantMessage('```json\n{"n": 4}\n```', stop_reason="stop"),), {}, ("finished", None)),
        ((AssistantMessage("four", stop_reason="stop"),), {}, ("incomplete", "no_output")),
        ((AssistantMessage('{"n": "x"}', stop_reason="stop"),), {}, ("incomplete", "invalid_output")),
        ((asks(call("1", "look", '{"where":"a"}')),), {"max_iterations": 1}, ("incomplete", "steps")),
        ((costing(asks(call("1", "look", '{"where":"a"}')), 500),), {"max_tokens": 100}, ("incomplete", "tokens")),
        ((ApiError("broken", 500),), {}, ("incomplete", "crashed")),
    ],
)
async def test_every_ending_of_the_agent_has_its_reason(
    steps: tuple[Any, ...], options: dict[str, Any], expected: tuple[str, str | None]
) -> None:
    """AGT-084 the final text counts if nothing was submitted; each other ending has its reason."""
    result = await Jobs(output=OUTPUT).run(script(*steps), **options)
    assert (result.status, result.reason) == expected
    assert result.finished() == (expected[1] is None)
    assert result.path == "long"
    if expected[1] == "crashed":
        assert "broken" in result.incomplete


async def test_the_deadline_of_the_manifest_ends_the_agent() -> None:
    """AGT-084 `wall`."""
    hang = Hang()
    jobs = Jobs(deadline_floor="200ms")
    result = await jobs.run(hang)
    assert (result.status, result.reason) == ("incomplete", "wall")
    assert hang.left.is_set()


async def test_cancelling_the_long_way_cancels_the_agent() -> None:
    """AGT-084 nothing of it goes on."""
    hang = Hang()
    running = asyncio.create_task(Jobs().run(hang))
    await hang.wait_entered()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert hang.left.is_set()


async def test_any_json_is_a_job() -> None:
    """AGT-084 any input is accepted, a lone surrogate too, and each job has an agent of its own."""
    generalist = AgentGeneralist(config(script(submits(1), DONE, submits(2), DONE)))
    manifest = bundle("function run() { return 1 }", name="job", purpose="Do.").manifest
    inputs: list[Any] = [None, ["\ud800", 1.5, {"a": []}]]
    for number, given in enumerate(inputs, 1):
        job = LongWay(manifest, given, "threw", "It threw.", (), "", (), Fuel(), "r")
        result = await generalist.take(job, UnwiredEnv())
        assert (result.status, result.output) == ("finished", number)


@pytest.mark.parametrize("ceiling", [0, -1, True, 1.5])
def test_a_bad_budget_of_a_generalist_is_refused(ceiling: Any) -> None:
    """AGT-084 When it is made, not when a job has already fallen back."""
    with pytest.raises(ValueError, match="max_tokens"):
        AgentGeneralist(config(script()), ceiling)
