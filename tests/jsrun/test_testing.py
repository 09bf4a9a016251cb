"""jsrun.testing: scripts, fakes and assertions."""

import json
from collections.abc import Awaitable, Callable, Mapping

import pytest

from jsrun.env import AIOptions, Answer, AskAnswer, AskOptions, Note, ToolResult
from jsrun.errors import DoorFailure, EvalError
from jsrun.guards import is_yes
from jsrun.prompts import Prompt
from jsrun.result import RunResult
from jsrun.spend import Spend
from jsrun.testing import (
    FakeLook,
    FakeMemory,
    ScriptedEnv,
    assert_calls,
    assert_fell_back,
    assert_finished,
    assert_incomplete,
    contained,
)

TAG = Prompt("tag", "Tag it.")
NO_OPTIONS = AIOptions()


async def test_every_door_answers_from_its_item() -> None:
    """JSR-126"""
    env = ScriptedEnv(
        [
            {"door": "ai", "ref": "tag", "output": {"tags": ["a"]}, "spend": {"model": "m", "input": 3}},
            {"door": "tool", "ref": "read", "input": {"path": "a"}, "text": "content"},
            {"door": "ask", "ref": "Which?", "text": "blue"},
            {"door": "ask", "ref": "Sure?", "output": {"text": "mine", "taking_over": True}},
            {"door": "ask", "ref": "Anyone?"},
            {"door": "remember", "ref": "a note"},
            {"door": "recall", "output": [{"text": "old", "at": "t"}, "older"]},
            {"door": "recall"},
            {"door": "log", "ref": "ready"},
        ]
    )
    assert await env.ai(TAG, {"x": 1}, NO_OPTIONS) == Answer(json={"tags": ["a"]}, spend=Spend("m", input=3))
    assert await env.tool("read", {"path": "a", "lines": 3}) == ToolResult(text="content")
    assert await env.ask("Which?", AskOptions()) == AskAnswer("blue")
    assert await env.ask("Sure?", AskOptions()) == AskAnswer("mine", taking_over=True)
    assert await env.ask("Anyone?", AskOptions()) == AskAnswer(unanswered=True)
    await env.remember("a note")
    assert await env.recall("x") == (Note("old", "t"), Note("older"))
    assert await env.recall("x") == ()
    await env.log("ready")
    assert env.problems() == []
    assert [str(call) for call in env.calls] == [
        "ai tag",
        "tool read",
        "ask Which?",
        "ask Sure?",
        "ask Anyone?",
        "remember a note",
        "recall x",
        "recall x",
        "log ready",
    ]


@pytest.mark.parametrize(
    ("item", "takes"),
    [
        ({}, True),
        ({"ref": "tag"}, True),
        ({"ref": " tag "}, True),
        ({"ref": "Tag"}, False),
        ({"input": {"a": {"b": 1}}}, True),
        ({"input": {"input": {"a": {"b": 1}}, "effort": "low"}}, True),
        ({"input": {"effort": "high"}}, False),
        ({"input": {"a": {"b": 1, "c": 1}}}, False),
        ({"input": {"list": [1]}}, False),
        ({"input": None}, False),
    ],
)
async def test_an_item_takes_calls_of_its_ref_that_contain_its_input(item: Mapping[str, object], takes: bool) -> None:
    """JSR-126"""
    env = ScriptedEnv([{"door": "ai", "text": "yes", **item}])
    call = env.ai(TAG, {"a": {"b": 1, "d": 2}, "list": [1, 2]}, AIOptions(effort="low", schema={"type": "object"}))
    if takes:
        assert (await call).text == "yes"
    else:
        with pytest.raises(DoorFailure):
            await call
    assert bool(env.problems()) is not takes


async def test_items_are_used_in_order_and_as_often_as_they_say() -> None:
    """JSR-126"""
    env = ScriptedEnv(
        [
            {"door": "tool", "ref": "t", "text": "twice", "times": 2},
            {"door": "tool", "ref": "t", "input": {"n": 9}, "text": "nine"},
            {"door": "tool", "ref": "t", "text": "ever", "times": "any"},
        ]
    )
    got = [(await env.tool("t", {"n": n})).text for n in (9, 1, 1, 9, 1)]
    assert got == ["twice", "twice", "ever", "nine", "ever"]
    assert env.problems() == []


async def test_a_left_over_item_is_a_problem() -> None:
    """JSR-126"""
    env = ScriptedEnv([{"door": "tool", "times": 3}, {"door": "ai", "times": "any"}])
    await env.tool("t", {})
    assert len(env.problems()) == 1
    assert "2 more expected" in env.problems()[0] and '{"door": "tool", "times": 3}' in env.problems()[0]


@pytest.mark.parametrize(
    ("door", "item"),
    [
        ("ai", {"door": "ai", "ref": "tag", "input": {"x": 1}, "text": ""}),
        ("judgement", {"door": "ai", "ref": "Is it?", "input": None, "text": ""}),
        ("tool", {"door": "tool", "ref": "read", "input": {"path": "a"}, "text": ""}),
        ("ask", {"door": "ask", "ref": "Which?", "text": ""}),
        ("remember", {"door": "remember", "ref": "note"}),
        ("recall", {"door": "recall", "output": []}),
    ],
)
async def test_an_unexpected_call_shows_the_item_to_paste_and_the_item_works(
    door: str, item: dict[str, object]
) -> None:
    """JSR-126"""

    async def make(env: ScriptedEnv) -> object:
        calls: dict[str, Callable[[], Awaitable[object]]] = {
            "ai": lambda: env.ai(TAG, {"x": 1}, NO_OPTIONS),
            "judgement": lambda: env.ai(Prompt(None, "Is it?"), None, NO_OPTIONS),
            "tool": lambda: env.tool("read", {"path": "a"}),
            "ask": lambda: env.ask("Which?", AskOptions(("a",), "b")),
            "remember": lambda: env.remember("note"),
            "recall": lambda: env.recall(""),
        }
        return await calls[door]()

    env = ScriptedEnv()
    with pytest.raises(DoorFailure) as caught:
        await make(env)
    assert env.problems() == [str(caught.value)]
    text = str(caught.value)
    pasted = json.loads(text[text.index("{") :])
    assert pasted == item
    again = ScriptedEnv([pasted])
    await make(again)
    assert again.problems() == []


async def test_log_needs_no_item_unless_the_script_speaks_of_it() -> None:
    """JSR-126"""
    env = ScriptedEnv()
    await env.log("a")
    assert env.problems() == [] and [str(call) for call in env.calls] == ["log a"]
    strict = ScriptedEnv([{"door": "log", "ref": "a"}])
    with pytest.raises(DoorFailure):
        await strict.log("b")
    assert len(strict.problems()) == 2


async def test_an_error_fails_the_door_with_its_spend() -> None:
    """JSR-126"""
    env = ScriptedEnv([{"door": "ai", "error": "overloaded", "spend": {"input": 7}}])
    with pytest.raises(DoorFailure, match="overloaded") as caught:
        await env.ai(TAG, None, NO_OPTIONS)
    assert caught.value.spend == Spend(input=7)
    assert env.problems() == []


async def test_a_judgement_is_scripted_by_its_question() -> None:
    """JSR-076"""
    env = ScriptedEnv([{"door": "ai", "ref": "Is it?", "text": "Yes."}])
    assert is_yes(await env.ai(Prompt(None, "Is it?"), {}, NO_OPTIONS))


@pytest.mark.parametrize(
    ("item", "problem"),
    [
        ({}, '"door" must be one of'),
        ({"door": "email"}, '"door" must be one of'),
        ({"door": "ai", "answer": 1}, 'unknown key "answer"'),
        ({"door": "ai", "text": "a", "output": 1}, "exclude each other"),
        ({"door": "ai", "text": 1}, '"text" must be a text'),
        ({"door": "ai", "ref": 1}, '"ref" must be a text'),
        ({"door": "ai", "times": 0}, '"times" must be'),
        ({"door": "ai", "times": True}, '"times" must be'),
        ({"door": "ai", "times": "many"}, '"times" must be'),
        ({"door": "ai", "spend": {"tokens": 1}}, '"spend" is wrong'),
        ({"door": "ai", "spend": {"input": -1}}, '"spend" is wrong'),
        ({"door": "ask", "output": {"said": "x"}}, "the output of an ask"),
    ],
)
def test_an_item_that_cannot_be_one_is_refused_by_number(item: Mapping[str, object], problem: str) -> None:
    """JSR-126"""
    with pytest.raises(EvalError, match=f"item 2 of the doors: .*{problem}"):
        ScriptedEnv([{"door": "log"}, item])


@pytest.mark.parametrize(
    ("part", "whole", "is_contained"),
    [
        ({}, {"a": 1}, True),
        ({"a": {}}, {"a": {"b": 1}}, True),
        ({"a": 1}, {}, False),
        ([1], [1, 2], False),
        ([{}], [{"a": 1}], True),
        (1, 1.0, True),
        (1, True, False),
        (0, False, False),
        (None, None, True),
        (None, 0, False),
        ("a", "a", True),
        ({"a": 1}, [1], False),
    ],
)
def test_containment(part: object, whole: object, is_contained: bool) -> None:
    """JSR-126"""
    assert contained(part, whole) is is_contained


def test_a_fake_look_knows_what_it_was_given() -> None:
    """JSR-072"""
    look = FakeLook(["docs/a.md"], ["grep"])
    assert look.file_exists("docs/a.md") and look.tool_on_belt(" grep ")
    assert not look.file_exists("grep") and not look.tool_on_belt("Grep")
    assert not FakeLook().file_exists("")


async def test_a_fake_memory_gives_the_newest_first() -> None:
    """JSR-065"""
    memory = FakeMemory(["one"])
    await memory.remember(" Two ")
    await memory.remember("  ")
    notes = await memory.recall()
    assert notes == [Note("Two", "2000-01-01T00:00:01Z"), Note("one", "2000-01-01T00:00:00Z")]
    assert [note.text for note in await memory.recall("ONE")] == ["one"]
    assert [note.text for note in await memory.recall("three")] == []


FINISHED = RunResult("finished", output={"a": 1}, calls=2)
FELL = RunResult("fell_back", "guard", fell_back="Not taking the quick way: no docs", run_id="RUN")
STOPPED = RunResult("incomplete", "steps", incomplete="ran out of steps", run_id="RUN")


def test_assertions_pass_on_what_they_name() -> None:
    """JSR-126"""
    assert_finished(FINISHED)
    assert_finished(FINISHED, {"a": 1.0})
    assert_fell_back(FELL)
    assert_fell_back(FELL, "guard", "no docs")
    assert_incomplete(STOPPED, "steps", "ran out")
    assert_calls(FINISHED, 2)


async def test_calls_may_be_listed() -> None:
    """JSR-126"""
    env = ScriptedEnv([{"door": "tool"}])
    await env.tool("read", {})
    await env.log("done")
    assert_calls(FINISHED, ["tool read", "log done"], env)
    with pytest.raises(AssertionError, match="tool read"):
        assert_calls(FINISHED, ["tool read"], env)
    with pytest.raises(TypeError, match="env="):
        assert_calls(FINISHED, ["tool read"])


def test_assertions_print_the_whole_result_when_they_fail() -> None:
    """JSR-126"""
    failing: list[Callable[[], None]] = [
        lambda: assert_finished(FELL),
        lambda: assert_fell_back(STOPPED),
        lambda: assert_fell_back(FELL, "threw"),
        lambda: assert_incomplete(STOPPED, "steps", "tokens"),
        lambda: assert_incomplete(FELL),
        lambda: assert_calls(STOPPED, 3),
    ]
    for check in failing:
        with pytest.raises(AssertionError, match='"run_id": "RUN"'):
            check()
    with pytest.raises(AssertionError, match="expected the output"):
        assert_finished(FINISHED, {"a": 1, "b": 2})
    with pytest.raises(AssertionError, match="expected the output"):
        assert_finished(FINISHED, {})
