"""Envs: what host functions may be and may return."""

import asyncio
import functools
import gc
import threading
from collections.abc import Mapping
from typing import cast

import pytest

from jsrun._threads import call, in_thread
from jsrun.env import (
    AIOptions,
    Answer,
    AskAnswer,
    AskOptions,
    CallbackEnv,
    Env,
    Note,
    Prompted,
    ToolResult,
    UnwiredEnv,
)
from jsrun.errors import DoorFailure, NotWired
from jsrun.prompts import Prompt
from jsrun.spend import Spend
from ptc.outcome import UNSET
from ptc.wire import Json

PROMPT = Prompt("tag", "Tag the text.")
OPTIONS = AIOptions()


async def every_door(env: Env) -> list[str]:
    """What each of the six doors of `env` said when it failed."""
    said = []
    for door in (
        env.ai(PROMPT, None, OPTIONS),
        env.tool("t", {}),
        env.ask("q", AskOptions()),
        env.remember("n"),
        env.recall(""),
        env.log("s"),
    ):
        with pytest.raises(NotWired) as caught:
            await door
        said.append(str(caught.value))
    return said


async def test_an_unwired_env_fails_each_door_by_name() -> None:
    """JSR-116"""
    said = await every_door(UnwiredEnv())
    assert len(set(said)) == 6
    for name, text in zip(["ai", "tool", "ask", "remember", "recall", "log"], said, strict=True):
        assert name in text


async def test_what_is_not_given_is_not_wired() -> None:
    """JSR-117"""
    assert await every_door(CallbackEnv()) == await every_door(UnwiredEnv())
    assert issubclass(NotWired, DoorFailure)


@pytest.mark.parametrize(
    ("returned", "answer"),
    [
        ("text", Answer(text="text")),
        ("", Answer(text="")),
        ({"a": 1}, Answer(json={"a": 1})),
        ([], Answer(json=[])),
        (0, Answer(json=0)),
        (False, Answer(json=False)),
        (None, Answer(json=None)),
        (Answer("t", spend=Spend("m", 1, 2, 3)), Answer("t", spend=Spend("m", 1, 2, 3))),
    ],
)
@pytest.mark.parametrize("kind", ["plain", "async"])
async def test_text_json_and_value_types_are_answers(returned: object, answer: Answer, kind: str) -> None:
    """JSR-117"""
    got: list[tuple[Prompt, Json, AIOptions]] = []

    def plain(prompt: Prompt, input: Json, options: AIOptions) -> object:
        got.append((prompt, input, options))
        return returned

    async def coroutine(prompt: Prompt, input: Json, options: AIOptions) -> object:
        return plain(prompt, input, options)

    env = CallbackEnv(ai=plain if kind == "plain" else coroutine)
    options = AIOptions(effort="low", tokens_left=7)
    assert await env.ai(PROMPT, {"x": 1}, options) == answer
    assert got == [(PROMPT, {"x": 1}, options)]


@pytest.mark.parametrize(
    ("returned", "result"),
    [
        ("text", ToolResult(text="text")),
        ({"a": 1}, ToolResult(json={"a": 1})),
        (None, ToolResult(json=None)),
        (ToolResult("no", failed=True), ToolResult("no", failed=True)),
    ],
)
async def test_tools_may_be_one_function_or_a_mapping(returned: object, result: ToolResult) -> None:
    """JSR-117"""

    async def one(name: str, args: Mapping[str, Json]) -> object:
        return returned if (name, args) == ("t", {"x": 1}) else "?"

    assert await CallbackEnv(tool=one).tool("t", {"x": 1}) == result
    assert (
        await CallbackEnv(tools={" t ": lambda args: returned if args == {"x": 1} else "?"}).tool("t", {"x": 1})
        == result
    )


async def test_names_the_mapping_lacks_go_to_the_tool_function() -> None:
    """JSR-117"""
    env = CallbackEnv(tool=lambda name, args: f"other {name}", tools={"t": lambda args: "mapped"})
    assert (await env.tool("t", {})).text == "mapped"
    assert (await env.tool("u", {})).text == "other u"


async def test_a_tool_nobody_has_is_refused_with_the_names_there_are() -> None:
    """JSR-117"""
    env = CallbackEnv(tools={"b": lambda args: "", "a": lambda args: ""})
    with pytest.raises(DoorFailure, match='no tool "c" here, only: a, b'):
        await env.tool("c", {})


class OneToolBelt:
    def names(self) -> list[str]:
        return ["t"]

    async def call(self, name: str, args: dict[str, Json]) -> ToolResult:
        return ToolResult(f"belt {name}")


async def test_tools_may_be_a_belt() -> None:
    """JSR-117"""
    belt = OneToolBelt()
    env = CallbackEnv(tools=belt)
    assert env.belt is belt
    assert (await env.tool("t", {})).text == "belt t"
    assert (await CallbackEnv(tools=belt, tool=lambda name, args: "f").tool("u", {})).text == "f"
    assert CallbackEnv(tools={"t": lambda args: ""}).belt is None


@pytest.mark.parametrize(
    ("returned", "answer"),
    [
        ("blue", AskAnswer("blue")),
        (3, AskAnswer("3")),
        (2.0, AskAnswer("2")),
        (True, AskAnswer("true")),
        (None, AskAnswer(unanswered=True)),
        (AskAnswer("mine", taking_over=True), AskAnswer("mine", taking_over=True)),
    ],
)
async def test_ask_takes_texts_and_answers(returned: object, answer: AskAnswer) -> None:
    """JSR-117"""
    assert await CallbackEnv(ask=lambda question, options: returned).ask("q", AskOptions()) == answer


async def test_ask_refuses_what_nobody_can_have_said() -> None:
    """JSR-117"""
    with pytest.raises(DoorFailure, match="must answer with a text"):
        await CallbackEnv(ask=lambda question, options: ["a"]).ask("q", AskOptions())


@pytest.mark.parametrize(
    ("returned", "notes"),
    [
        (None, ()),
        ([], ()),
        ("one", (Note("one"),)),
        (Note("one", "t"), (Note("one", "t"),)),
        (
            ["one", {"text": "two", "at": "t"}, {"text": "three"}, Note("four")],
            (Note("one"), Note("two", "t"), Note("three"), Note("four")),
        ),
        ({"text": "one"}, (Note("one"),)),
    ],
)
async def test_recall_takes_notes_texts_and_objects(returned: object, notes: tuple[Note, ...]) -> None:
    """JSR-117"""
    assert await CallbackEnv(recall=lambda query: returned).recall("") == notes


@pytest.mark.parametrize("returned", [3, [3], {"text": 1}, {"body": "x"}, {"text": "x", "at": None}])
async def test_recall_refuses_what_is_no_note(returned: object) -> None:
    """JSR-117"""
    with pytest.raises(DoorFailure, match="must answer with notes"):
        await CallbackEnv(recall=lambda query: returned).recall("")


async def test_remember_and_log_are_told_and_their_answers_ignored() -> None:
    """JSR-117"""
    told: list[str] = []

    def log(status: str) -> int:
        told.append(status)
        return 5

    env = CallbackEnv(remember=told.append, log=log)
    await env.remember("note")
    await env.log("status")
    assert told == ["note", "status"]


async def test_raising_and_a_failed_result_carry_the_same_text() -> None:
    """JSR-117"""

    def raising(args: Mapping[str, Json]) -> object:
        raise DoorFailure("no such page", spend=Spend("m", 1, 5))

    failed = await CallbackEnv(tools={"t": lambda args: ToolResult("no such page", failed=True)}).tool("t", {})
    with pytest.raises(DoorFailure, match="no such page") as caught:
        await CallbackEnv(tools={"t": raising}).tool("t", {})
    assert failed.failed and failed.text == str(caught.value)
    assert caught.value.spend == Spend("m", 1, 5)


async def test_a_plain_function_runs_off_the_loop_and_an_async_one_on_it() -> None:
    """JSR-069"""
    here = threading.get_ident()

    async def on_loop(args: Mapping[str, Json]) -> bool:
        return threading.get_ident() == here

    class Callable_:
        async def __call__(self, args: Mapping[str, Json]) -> bool:
            return threading.get_ident() == here

    env = CallbackEnv(
        tools={
            "plain": lambda args: threading.get_ident() == here,
            "async": on_loop,
            "partial": functools.partial(on_loop),
            "object": Callable_(),
            "lambda": lambda args: on_loop(args),
        }
    )
    got = {name: (await env.tool(name, {})).json for name in ("plain", "async", "partial", "object", "lambda")}
    assert got == {"plain": False, "async": True, "partial": True, "object": True, "lambda": True}


async def test_the_loop_goes_on_while_a_plain_function_blocks() -> None:
    """JSR-069"""
    release = threading.Event()
    env = CallbackEnv(tools={"wait": lambda args: release.wait(20)})
    pending = asyncio.ensure_future(env.tool("wait", {}))
    await asyncio.sleep(0)
    assert not pending.done()
    release.set()
    assert (await pending).json is True


async def test_a_cancelled_wait_drops_the_answer_and_nothing_waits_for_the_thread() -> None:
    """JSR-083"""
    release, done = threading.Event(), threading.Event()

    def block() -> None:
        release.wait(20)
        done.set()

    pending = asyncio.ensure_future(in_thread(block))
    await asyncio.sleep(0)
    pending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await pending
    threads = [thread for thread in threading.enumerate() if thread.name == "jsrun block"]
    assert threads and all(thread.daemon for thread in threads)
    release.set()
    assert done.wait(20)


def test_an_answer_after_the_loop_is_closed_harms_nobody(recwarn: pytest.WarningsRecorder) -> None:
    """JSR-068"""
    release, done = threading.Event(), threading.Event()

    async def leave() -> None:
        pending = asyncio.ensure_future(in_thread(block))
        await asyncio.sleep(0)
        pending.cancel()

    def block() -> None:
        release.wait(20)
        done.set()

    asyncio.run(leave())
    release.set()
    assert done.wait(20)
    gc.collect()
    assert [str(warning.message) for warning in recwarn] == []


@pytest.mark.parametrize("error", [ValueError("x"), SystemExit(3), KeyboardInterrupt()])
async def test_what_a_plain_function_raises_reaches_the_one_who_waits(error: BaseException) -> None:
    """JSR-070"""

    def fail() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        await call(fail)
    assert caught.value is error


async def test_a_plain_function_that_raises_stop_iteration_is_an_error_not_a_hang() -> None:
    """JSR-070"""
    with pytest.raises(RuntimeError, match="StopIteration"):
        await asyncio.wait_for(call(lambda: next(iter(()))), 20)


def test_use_prompts_makes_an_env_prompted() -> None:
    """JSR-118"""

    class WithPrompts(UnwiredEnv):
        def use_prompts(self, prompts: Mapping[str, str]) -> None: ...

    assert isinstance(WithPrompts(), Prompted)
    assert not isinstance(UnwiredEnv(), Prompted)


def test_null_and_no_json_are_told_apart() -> None:
    """JSR-117"""
    assert Answer().json is UNSET and ToolResult().json is UNSET
    assert cast(object, Answer(json=None).json) is None
