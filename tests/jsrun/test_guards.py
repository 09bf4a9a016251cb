"""Guards: what passes, what is asked, what is said when one does not."""

import asyncio
import threading

import pytest

from jsrun.env import Answer
from jsrun.guards import check_guards, field_mentions, is_yes
from jsrun.look import Look
from jsrun.manifest import Guard
from jsrun.spend import Spend
from jsrun.testing import FakeLook
from ptc.wire import Json

FILE = Guard(kind="file", file="docs/a.md")
TOOL = Guard(kind="tool", tool="grep")
FIELD = Guard(kind="field", field="topic", pattern="sql")
JUDGEMENT = Guard(kind="judgement", question="Is this about billing?")


class Judge:
    """Answers every question alike and keeps what it was asked."""

    def __init__(self, answer: Answer | None = None) -> None:
        self.asked: list[str] = []
        self._answer = answer

    async def __call__(self, question: str) -> Answer | None:
        self.asked.append(question)
        return self._answer


async def check(*guards: Guard, input: Json = None, look: Look | None = None, judge: Judge | None = None) -> str:
    failure = await check_guards(guards, input, look, judge or Judge())
    return "" if failure is None else failure.sentence


async def test_no_guards_means_go() -> None:
    """JSR-072"""
    assert await check_guards([], None, None, Judge()) is None


async def test_a_missing_file_falls_back_in_the_authors_words() -> None:
    """JSR-072"""
    said = await check(Guard(kind="file", file="a", because="  The docs are not checked out. "), look=FakeLook())
    assert said == "Not taking the quick way: The docs are not checked out."


@pytest.mark.parametrize(
    ("guard", "sentence"),
    [
        (FILE, 'Not taking the quick way: "docs/a.md" is not there'),
        (TOOL, 'Not taking the quick way: the tool "grep" is not available'),
        (FIELD, 'Not taking the quick way: "topic" does not mention "sql"'),
        (JUDGEMENT, 'Not taking the quick way: "Is this about billing?" was not answered with yes'),
        (Guard(kind="file", file="a", because=" \n"), 'Not taking the quick way: "a" is not there'),
    ],
)
async def test_without_because_the_fact_is_named(guard: Guard, sentence: str) -> None:
    """JSR-072"""
    said = await check(guard, input={}, look=FakeLook())
    assert said == sentence
    assert "guard" not in said


async def test_a_very_long_reason_is_cut_and_marked() -> None:
    """JSR-072"""
    said = await check(Guard(kind="file", file="a", because="x" * 5_000), look=FakeLook())
    assert len(said) < 2_100 and said.endswith("more characters)")


async def test_the_number_of_the_failing_check_is_that_of_the_manifest() -> None:
    """JSR-072"""
    failure = await check_guards([JUDGEMENT, FILE, TOOL], None, FakeLook(files=["docs/a.md"]), Judge())
    assert failure is not None and failure.number == 3


@pytest.mark.parametrize(
    ("input", "passes"),
    [
        ({"topic": "Learn SQL today"}, True),
        ({"topic": {"tags": ["PostgreSQL"]}}, True),
        ({"topic": {"sql": None}}, True),
        ({"topic": "graphs"}, False),
        ({"topic": None}, False),
        ({"Topic": "sql"}, False),
        ({}, False),
        (None, False),
        ("sql", False),
        (["topic", "sql"], False),
    ],
)
async def test_a_field_must_be_there_and_mention_the_pattern(input: Json, passes: bool) -> None:
    """JSR-073"""
    assert (await check(FIELD, input=input) == "") is passes


@pytest.mark.parametrize(
    ("value", "pattern", "mentions"),
    [
        (42, "42", True),
        (1.0, "1", True),
        (1.0, ".", False),
        (1.5, "1.5", True),
        (True, "TRUE", True),
        (False, "false", True),
        ([1, 2.0], "[1,2]", True),
        ({"a": "ü"}, '{"a":"Ü"}', True),
        ("v1.0", "v1.0", True),
        (["v1.0", 2.5], '["v1.0",2.5]', True),
        ("STRASSE", "straße", True),
        ("abc", "a.c", False),
        ("a.c", "a.c", True),
        ("aaa", "(a+)+$", False),
        (2512292042121000001, "2512292042121000001", True),
    ],
)
def test_the_pattern_is_literal_and_ignores_case(value: Json, pattern: str, mentions: bool) -> None:
    """JSR-073"""
    assert field_mentions({"f": value}, "f", pattern) is mentions


def test_a_deeply_nested_value_can_be_searched() -> None:
    """JSR-073"""
    value: Json = "needle"
    for _ in range(500):
        value = [value, 1.0]
    assert field_mentions({"f": value}, "f", "NEEDLE")


class AsyncLook:
    async def file_exists(self, path: str) -> bool:
        await asyncio.sleep(0)
        return path == "docs/a.md"

    async def tool_on_belt(self, name: str) -> bool:
        await asyncio.sleep(0)
        return name == "grep"


class RaisingLook:
    def file_exists(self, path: str) -> bool:
        raise OSError("the disk is gone")

    async def tool_on_belt(self, name: str) -> bool:
        raise KeyError(name)


class WorkingOnlyOffTheLoop:
    """Says yes when it is asked in a thread of its own: a plain look may block."""

    def __init__(self) -> None:
        self._loop_thread = threading.get_ident()

    def file_exists(self, path: str) -> bool:
        return threading.get_ident() != self._loop_thread

    tool_on_belt = file_exists


@pytest.mark.parametrize("look", [None, RaisingLook()])
async def test_nobody_could_tell_is_not_passed(look: Look | None) -> None:
    """JSR-074"""
    assert "is not there" in await check(FILE, look=look)
    assert "is not available" in await check(TOOL, look=look)


async def test_plain_and_async_looks_agree() -> None:
    """JSR-074"""
    other = Guard(kind="file", file="docs/b.md")
    for look in (AsyncLook(), FakeLook(files=["docs/a.md"], tools=["grep"])):
        assert await check(FILE, TOOL, look=look) == ""
        assert await check(other, look=look) == 'Not taking the quick way: "docs/b.md" is not there'
    assert await check(FILE, TOOL, look=WorkingOnlyOffTheLoop()) == ""


async def test_a_free_check_that_fails_after_the_judgement_keeps_the_model_out() -> None:
    """JSR-075"""
    judge = Judge(Answer(text="yes"))
    assert "is not there" in await check(JUDGEMENT, FILE, look=FakeLook(), judge=judge)
    assert judge.asked == []


async def test_nothing_is_looked_at_after_the_first_failure() -> None:
    """JSR-075"""
    seen: list[str] = []

    class Recorder(AsyncLook):
        async def file_exists(self, path: str) -> bool:
            seen.append(path)
            return path == "1"

    guards = [Guard(kind="file", file=name) for name in ("1", "2", "3")]
    assert '"2" is not there' in await check(*guards, look=Recorder())
    assert seen == ["1", "2"]


async def test_the_judgement_is_asked_once_after_the_free_checks() -> None:
    """JSR-076"""
    judge = Judge(Answer(text="Yes.", spend=Spend("m", 1, 5, 1)))
    assert await check(Guard(kind="judgement", question=" Really? "), TOOL, look=AsyncLook(), judge=judge) == ""
    assert judge.asked == ["Really?"]


@pytest.mark.parametrize(
    ("answer", "passes"),
    [
        (Answer(text="Yes."), True),
        (Answer(text=" y\n"), True),
        (Answer(text='"OK!"'), True),
        (Answer(text="`true`"), True),
        (Answer(text="'YES'"), True),
        (Answer(json=True), True),
        (Answer(json="yes"), True),
        (Answer(text="yes", json=False), False),
        (Answer(json=1), False),
        (Answer(json=None), False),
        (Answer(json={"answer": "yes"}), False),
        (Answer(text="no"), False),
        (Answer(text="yes, but"), False),
        (Answer(text="Yes, this is about billing."), False),
        (Answer(text=""), False),
        (Answer(text="..."), False),
        (None, False),
    ],
)
def test_only_a_plain_yes_is_a_yes(answer: Answer | None, passes: bool) -> None:
    """JSR-076"""
    assert is_yes(answer) is passes


async def test_a_stop_during_the_judgement_passes_through() -> None:
    """JSR-077"""

    class Stop(Exception):
        pass

    async def judge(question: str) -> Answer | None:
        raise Stop

    with pytest.raises(Stop):
        await check_guards([JUDGEMENT], None, None, judge)
