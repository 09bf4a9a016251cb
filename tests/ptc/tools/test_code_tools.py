"""`CodeTools`: modes, run_code, nested and direct calls, with real programs."""

import asyncio
import contextvars
import json
from typing import Any

import pytest

import ptc
from ptc.tools import CodeTools, NestedCall, Tool
from tests.ptc.tools.toolbox import OBJECT, is_typescript, run, tool

pytestmark = pytest.mark.asyncio(loop_scope="session")

ADD = Tool(
    "add",
    "Adds two numbers.",
    {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}, "required": ["a", "b"]},
    lambda arguments: arguments["a"] + arguments["b"],
    {"type": "number"},
    True,
)


def names(tools: CodeTools) -> list[str]:
    return [schema["name"] for schema in tools.schemas()]


class TestModes:
    async def test_each_mode_offers_its_schemas(self, runtime: ptc.Runtime) -> None:
        """PTC-137 native the tools, ptc run_code, both all; in the order of their names."""
        given = [tool("zip"), ADD]
        assert names(CodeTools(runtime, given, "native")) == ["add", "zip"]
        assert names(CodeTools(runtime, given)) == ["run_code"]
        assert names(CodeTools(runtime, given, "both")) == ["run_code", "add", "zip"]

    async def test_schemas_are_json_and_complete(self, runtime: ptc.Runtime) -> None:
        """PTC-137 name, description and the schema of an object; changing one changes nothing."""
        tools = CodeTools(runtime, [ADD, tool("bare", parameters={})], "both")
        schemas = tools.schemas()
        assert json.loads(json.dumps(schemas)) == schemas
        assert [set(schema) for schema in schemas] == [{"name", "description", "parameters"}] * 3
        assert schemas[1]["parameters"] == ADD.parameters
        assert schemas[2]["parameters"] == {"type": "object"}
        schemas[1]["parameters"]["properties"].clear()
        assert tools.schemas()[1]["parameters"] == ADD.parameters

    async def test_the_prompt_states_the_rule_first(self, runtime: ptc.Runtime) -> None:
        """PTC-137 only in ptc mode; native needs no prompt."""
        only = CodeTools(runtime, [ADD]).prompt()
        both = CodeTools(runtime, [ADD], "both").prompt()
        rule = "Call only `run_code` directly."
        assert only.startswith(rule)
        assert rule not in both
        assert both.startswith("`run_code` ")
        assert CodeTools(runtime, [ADD], "native").prompt() == ""

    async def test_the_prompt_holds_the_declarations(self, runtime: ptc.Runtime) -> None:
        """PTC-137 as a block of TypeScript."""
        tools = CodeTools(runtime, [ADD], max_parallel=7)
        assert f"```ts\n{tools.declarations()}```" in tools.prompt()
        assert "up to 7 " in tools.prompt()
        assert "add(args: { a: number; b: number }): Promise<number>;" in tools.declarations()
        assert is_typescript(tools.declarations())

    async def test_a_direct_call_is_refused_in_ptc_mode(self, runtime: ptc.Runtime) -> None:
        """PTC-137 before its arguments are looked at and before anything runs."""
        called: list[Any] = []
        tools = CodeTools(runtime, [tool("note", called.append, {"type": "object", "required": ["x"]})])
        for arguments in ({"x": 1}, {}, object()):
            result = await tools.call("note", arguments, "c1")
            assert result.text.startswith('"note" cannot be called directly. Call `run_code` ')
            assert (result.is_error, result.outcome) == (True, None)
        assert called == []

    async def test_an_unknown_tool_is_an_error_to_the_model(self, runtime: ptc.Runtime) -> None:
        """PTC-137 run_code too, where it is not offered."""
        tools = CodeTools(runtime, [ADD], "native")
        for name in ("nope", "run_code", "__proto__", "a\ud800"):
            result = await tools.call(name, {}, "c1")
            assert result.is_error
            assert result.text.startswith("There is no tool ")
            result.text.encode()

    async def test_bad_options_are_refused_by_name(self, runtime: ptc.Runtime) -> None:
        """PTC-138 before anything runs."""
        cases: list[tuple[dict[str, Any], str]] = [
            ({"mode": "all"}, "mode"),
            ({"max_parallel": 0}, "max_parallel"),
            ({"max_parallel": True}, "max_parallel"),
            ({"max_result_chars": 99}, "max_result_chars"),
        ]
        for options, name in cases:
            with pytest.raises(ptc.UsageError, match=f"^{name}: "):
                CodeTools(runtime, [ADD], **options)


class TestTools:
    async def test_run_code_is_no_name_for_a_tool(self) -> None:
        """PTC-138."""
        with pytest.raises(ptc.UsageError, match="this name belongs to the tool that runs programs"):
            tool("run_code")

    @pytest.mark.parametrize(
        ("values", "reason"),
        [
            ((1, "d", OBJECT, len), "a name is needed"),
            (("", "d", OBJECT, len), "a name is needed"),
            (("a", None, OBJECT, len), 'tool "a": a description is needed'),
            (("a", "d", OBJECT, None), 'tool "a": its call is no function'),
            (("a", "d", OBJECT, len, None, "yes"), 'tool "a": safe is True, False or a function'),
        ],
    )
    async def test_a_tool_that_cannot_be_used_is_refused(self, values: tuple[Any, ...], reason: str) -> None:
        """PTC-138 with the reason."""
        with pytest.raises(ptc.UsageError, match=reason):
            Tool(*values)

    @pytest.mark.parametrize(
        ("tools", "reason"),
        [
            ([tool("a"), tool("a")], 'tool "a": this name is used twice'),
            ([tool("\ud83d\ude00"), tool("😀")], "this name is used twice"),
            ([len], "entry 1 is no Tool"),
            ([tool("a", parameters={"type": "string"})], 'tool "a": parameters: the schema of an object is needed'),
            ([tool("a", parameters={"type": "strng"})], 'tool "a": parameters'),
        ],
    )
    async def test_a_set_of_tools_that_cannot_be_used_is_refused(
        self, runtime: ptc.Runtime, tools: list[Tool], reason: str
    ) -> None:
        """PTC-138 with the name of the tool."""
        with pytest.raises(ptc.UsageError, match=reason):
            CodeTools(runtime, tools)


class TestRunCode:
    async def test_a_program_calls_tools_and_returns(self, runtime: ptc.Runtime) -> None:
        """PTC-143 TypeScript, async at the top; the log, then the value."""
        tools = CodeTools(runtime, [ADD])
        code = """
            const sums: number[] = await Promise.all([1, 2].map(n => tools.add({ a: n, b: 10 })));
            for (const sum of sums) console.log("sum", sum);
            return sums.length as unknown;
        """
        result = await run(tools, code)
        assert (result.text, result.is_error) == ("sum 11\nsum 12\n2", False)
        assert result.outcome is not None
        assert (result.outcome.calls, result.outcome.value) == (2, 2)

    async def test_what_it_needs_and_its_limits_are_told(self) -> None:
        """PTC-137 the required arguments and the real limits of the runtime."""
        limits = ptc.Limits(timeout=7, max_timeout=77, cpu=3, memory=64 * 1024 * 1024, max_calls=1234)
        tools = CodeTools(ptc.Runtime(limits=limits), [ADD], max_result_chars=5_000)
        (schema,) = tools.schemas()
        assert schema["parameters"]["required"] == ["code", "description"]
        text = schema["description"]
        for told in (
            "`code` and `description` are required",
            "no imports, no timers",
            "are JSON",
            "more than 5,000 characters",
            "7 seconds unless `timeout` says otherwise, at most 77",
            "3 seconds of computing",
            "64 MiB of memory",
            "1,234 calls",
        ):
            assert told in text
        assert "at most 77" in schema["parameters"]["properties"]["timeout"]["description"]

    async def test_a_runtime_without_deadline_says_so(self) -> None:
        """PTC-137 the limit is the real one."""
        (schema,) = CodeTools(ptc.Runtime(limits=ptc.Limits(timeout=None)), []).schemas()
        assert "no deadline unless `timeout` sets one, at most 600 seconds" in schema["description"]

    @pytest.mark.parametrize(
        ("arguments", "reason"),
        [
            ({"code": "return 1"}, "args.description is missing"),
            ({"description": "x"}, "args.code is missing"),
            ({"code": "return 1", "description": ""}, "args.description is blank"),
            ({"code": "return 1", "description": " \n\t"}, "args.description is blank"),
            ({"code": 1, "description": "x"}, 'args.code: 1 does not fit {"type":"string"}'),
            ({"code": "", "description": "x", "timeout": 0}, "args.timeout: 0 does not fit"),
            ({"code": "", "description": "x", "timeout": "5"}, 'args.timeout: "5" does not fit'),
            ({"code": "", "description": "x", "timeout": float("inf")}, "args.timeout: Infinity is not JSON"),
            ({"code": "", "description": "x", "timeout": True}, "args.timeout: true does not fit"),
            ({"code": "", "description": "x", "more": 1}, "args.more is not a known property"),
            (["code"], "args: an object is needed"),
            (None, "args: an object is needed"),
        ],
    )
    async def test_bad_arguments_run_nothing(self, runtime: ptc.Runtime, arguments: Any, reason: str) -> None:
        """PTC-138 a blank description is refused like a missing one."""
        result = await CodeTools(runtime, []).call("run_code", arguments, "c1")
        assert result.text.startswith(f"invalid arguments: {reason}")
        assert (result.is_error, result.outcome) == (True, None)

    async def test_a_timeout_is_kept(self, runtime: ptc.Runtime) -> None:
        """PTC-138 one below the maximum is the deadline of the program."""
        tools = CodeTools(runtime, [tool("hang", lambda _: asyncio.Event().wait())])
        result = await run(tools, "await tools.hang({})", timeout=0.2)
        assert result.text.startswith("timeout: ")
        assert result.text.endswith("calls finished: 0 of 1")

    async def test_a_timeout_above_the_maximum_is_cut_and_said(self, engine: str) -> None:
        """PTC-138 the program runs with the maximum."""
        async with ptc.Runtime(engine=engine, limits=ptc.Limits(timeout=0.1, max_timeout=0.3), spares=0) as runtime:
            tools = CodeTools(runtime, [tool("hang", lambda _: asyncio.Event().wait())])
            assert (await run(tools, "return 1", timeout=0.3)).text == "1"
            told = "[timeout cut from 9000 to 0.3 seconds, the most there is]\n"
            assert (await run(tools, "return 1", timeout=9000)).text == f"{told}1"
            assert (await run(tools, "", timeout=9000)).text == f"{told}(no output)"
            result = await run(tools, "await tools.hang({})", timeout=9000)
            assert result.text.startswith(f"{told}timeout: ")
            huge = await run(tools, "return 1", timeout=10**400)
            assert huge.text.startswith("[timeout cut from 1000")

    async def test_run_code_cannot_be_called_from_a_program(self, runtime: ptc.Runtime) -> None:
        """PTC-138 there is no such function."""
        for mode in ("ptc", "both"):
            result = await run(CodeTools(runtime, [ADD], mode), "return [typeof tools.run_code, Object.keys(tools)]")
            assert json.loads(result.text) == ["undefined", ["add"]]

    async def test_a_program_that_cannot_be_loaded_is_an_error(self, runtime: ptc.Runtime) -> None:
        """PTC-143 kind and position."""
        result = await run(CodeTools(runtime, []), "let x = 1\nreturn x +;")
        assert result.is_error
        assert result.text.startswith("exception at 2:")
        result = await run(CodeTools(runtime, []), "\nenum A { x }")
        assert result.text.startswith("exception at 2:1: ")

    async def test_long_results_lose_their_middle(self, runtime: ptc.Runtime) -> None:
        """PTC-143 both sizes are told."""
        tools = CodeTools(runtime, [], max_result_chars=100)
        result = await run(tools, "return 'a'.repeat(500) + 'b'.repeat(500)")
        assert len(result.text) <= 100
        assert result.text.startswith("aaa")
        assert result.text.endswith("bbb")
        assert " of 1000 characters omitted …]" in result.text


class TestNestedCalls:
    async def test_invalid_arguments_fail_that_call_before_the_tool_runs(self, runtime: ptc.Runtime) -> None:
        """PTC-139 and the program may go on."""
        called: list[Any] = []
        parameters = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
        tools = CodeTools(runtime, [tool("note", called.append, parameters)])
        code = """
            const said = [];
            for (const args of [{}, { n: "1" }, { n: 1.5 }, null, [], "n", { n: 2 }]) {
                try { said.push(await tools.note(args)); } catch (e) { said.push(e.message); }
            }
            return said.join("\\n");
        """
        assert (await run(tools, code)).text.split("\n") == [
            "invalid arguments: args.n is missing",
            'invalid arguments: args.n: "1" does not fit {"type":"integer"}',
            'invalid arguments: args.n: 1.5 does not fit {"type":"integer"}',
            "invalid arguments: args: an object is needed, not null",
            "invalid arguments: args: an object is needed, not []",
            'invalid arguments: args: an object is needed, not "n"',
            "",
        ]
        assert called == [{"n": 2}]

    async def test_an_error_of_a_tool_is_a_tool_call_error(self, runtime: ptc.Runtime) -> None:
        """PTC-139 with the name of the tool, also when the arguments did not fit or the answer was no JSON."""

        def fail(_: Any) -> None:
            raise ValueError("not today")

        async def refuse(_: Any) -> None:
            raise ptc.CallError("not here")

        tools = CodeTools(runtime, [tool("odd name", fail), tool("refuse", refuse), tool("set", lambda _: {1}), ADD])
        code = """
            const said = [];
            for (const [name, args] of [["odd name", {}], ["refuse", {}], ["set", {}], ["add", {}]])
                try { await tools[name](args); } catch (e) {
                    said.push([e instanceof ToolCallError, e instanceof Error, e.name, e.toolName, e.message]);
                }
            return said;
        """
        assert json.loads((await run(tools, code)).text) == [
            [True, True, "ToolCallError", "odd name", "not today"],
            [True, True, "ToolCallError", "refuse", "not here"],
            [True, True, "ToolCallError", "set", "result: set is not JSON"],
            [True, True, "ToolCallError", "add", "invalid arguments: args.a is missing; args.b is missing"],
        ]
        result = await run(tools, "\n  await tools.refuse({})")
        assert result.text == "exception at 2:15: ToolCallError: not here\ncalls finished: 1 of 1"

    async def test_calls_are_numbered_by_submission_and_told_with_a_copy(self, runtime: ptc.Runtime) -> None:
        """PTC-139 an id from the call of run_code; what the tool does to its arguments does not show."""
        told: list[NestedCall] = []

        def spoil(arguments: Any) -> None:
            arguments["list"].append("spoiled")

        parameters = {"type": "object", "properties": {"list": {"type": "array"}}}
        tools = CodeTools(runtime, [tool("spoil", spoil, parameters, safe=True)], on_call=told.append)
        code = """
            await Promise.allSettled([tools.spoil({list: [1]}), tools.spoil({list: 1}), tools.spoil({list: [3]})]);
        """
        await tools.call("run_code", {"code": code, "description": "d"}, "call_7")
        assert told == [
            NestedCall("call_7:ptc:1", "spoil", {"list": [1]}),
            NestedCall("call_7:ptc:3", "spoil", {"list": [3]}),
        ]

    async def test_an_observer_that_raises_harms_nothing(self, runtime: ptc.Runtime) -> None:
        """PTC-139."""

        def observe(_: NestedCall) -> None:
            raise RuntimeError("broken")

        tools = CodeTools(runtime, [ADD], on_call=observe)
        assert (await run(tools, "return await tools.add({a: 1, b: 2})")).text == "3"

    async def test_tools_see_the_context_of_the_caller(self, runtime: ptc.Runtime) -> None:
        """PTC-140 async, blocking and waiting in the queue."""
        seen: list[str] = []
        caller = contextvars.ContextVar("caller", default="nobody")

        async def look(_: Any) -> None:
            seen.append(caller.get())
            caller.set("a tool")

        def look_in_thread(_: Any) -> None:
            seen.append(caller.get())

        tools = CodeTools(runtime, [tool("look", look), tool("thread", ptc.blocking(look_in_thread))])
        caller.set("me")
        await run(tools, "await Promise.all([tools.look({}), tools.thread({}), tools.look({}), tools.thread({})])")
        assert seen == ["me"] * 4

    async def test_a_tool_may_run_programs_itself(self, runtime: ptc.Runtime) -> None:
        """PTC-141 also with the same tools: the calls of different programs do not wait for each other."""

        async def nested(arguments: Any) -> str:
            code = "return await tools.add({a: 1, b: 1})"
            return (await tools.call("run_code", {"code": code, "description": "inner"}, "inner")).text

        tools = CodeTools(runtime, [ADD, tool("nested", nested)])
        assert (await run(tools, "return await tools.nested({})")).text == "2"


class TestDirectCalls:
    async def test_a_tool_is_called_and_its_result_shown(self, runtime: ptc.Runtime) -> None:
        """PTC-137 a string raw, else JSON; sync, async and blocking."""

        async def later(arguments: Any) -> Any:
            return arguments["x"]

        for call in (lambda arguments: arguments["x"], later, ptc.blocking(lambda arguments: arguments["x"])):
            tools = CodeTools(runtime, [tool("get", call)], "native")
            for value, text in [("raw\n", "raw\n"), (None, "null"), (1.0, "1"), ([1], "[\n  1\n]"), ((), "[]")]:
                result = await tools.call("get", {"x": value}, "c1")
                assert (result.text, result.is_error, result.outcome) == (text, False, None)

    async def test_invalid_arguments_do_not_reach_the_tool(self, runtime: ptc.Runtime) -> None:
        """PTC-139 in a direct call as well."""
        tools = CodeTools(runtime, [ADD], "both")
        for arguments, reason in [
            ({}, "args.a is missing; args.b is missing"),
            ({"a": {1}, "b": 1}, "args.a: set is not JSON"),
            ({1: 2}, "args: key of type int is not a string"),
            (None, "args: an object is needed, not null"),
        ]:
            result = await tools.call("add", arguments, "c1")
            assert (result.text, result.is_error) == (f"invalid arguments: {reason}", True)

    async def test_an_error_of_the_tool_is_its_text(self, engine: str) -> None:
        """PTC-139 as the runtime describes it; a CallError verbatim, never nothing."""

        def call(arguments: Any) -> Any:
            raise {"call": ptc.CallError, "value": ValueError, "cancel": asyncio.CancelledError}[arguments["kind"]](
                "why"
            )

        async def empty(arguments: Any) -> None:
            raise LookupError

        def describe(error: BaseException) -> str:
            return "" if str(error) == "" else f"<{error}>"

        async with ptc.Runtime(engine=engine, describe_error=describe) as runtime:
            tools = CodeTools(runtime, [tool("fail", call), tool("empty", empty)], "native")
            said = [(await tools.call("fail", {"kind": kind}, "c1")).text for kind in ("call", "value", "cancel")]
            assert said == ["why", "<why>", "the host function was cancelled"]
            assert (await tools.call("empty", {}, "c1")).text == "the host function failed"

    async def test_a_result_that_is_no_json_is_an_error(self, runtime: ptc.Runtime) -> None:
        """PTC-139 with its path."""
        tools = CodeTools(runtime, [tool("get", lambda _: {"a": [object()]})], "native")
        result = await tools.call("get", {}, "c1")
        assert (result.text, result.is_error) == ("result.a[0]: object is not JSON", True)

    async def test_a_long_result_loses_its_middle(self, runtime: ptc.Runtime) -> None:
        """PTC-143."""
        tools = CodeTools(runtime, [tool("get", lambda _: "x" * 1000)], "native", max_result_chars=200)
        result = await tools.call("get", {}, "c1")
        assert len(result.text) <= 200
        assert " of 1000 characters omitted" in result.text
