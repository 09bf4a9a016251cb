"""Guards before a run: what falls back, what is asked, what it costs."""

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from jsrun import (
    AIOptions,
    Answer,
    Belt,
    CallbackEnv,
    Fuel,
    InputError,
    LocalEnv,
    MemoryJournal,
    Prompt,
    RunResult,
    Spend,
    WorkspaceLook,
    tool,
)
from jsrun.testing import FakeLook, ScriptedEnv
from ptc.wire import Json
from tests.jsrun.playing import Play

pytestmark = pytest.mark.asyncio(loop_scope="session")

PROGRAM = "function run() { return 'ran' }"
SPENT = Spend(model="m", calls=1, input=300, output=200)


async def guarded(play: Play, guards: Sequence[Mapping[str, Json]], input: object = None, **more: Any) -> RunResult:
    return await play(PROGRAM, input, guards=list(guards), **more)


async def test_a_missing_file_falls_back_in_the_authors_words(play: Play) -> None:
    """JSR-072 without `because` the fact names file, tool or field; the word "guard" is absent."""
    look = FakeLook(files=["there"])
    said = await guarded(play, [{"kind": "file", "file": "a.md", "because": " No README here. "}], look=look)
    assert (said.status, said.reason, said.output) == ("fell_back", "guard", None)
    assert said.fell_back == "Not taking the quick way: No README here."
    facts = {
        ("file", "file", "docs/a.md"): '"docs/a.md" is not there',
        ("tool", "tool", "grep"): 'the tool "grep" is not available',
    }
    for (kind, key, value), fact in facts.items():
        result = await guarded(play, [{"kind": kind, key: value}], look=look, whitelist=["grep"])
        assert result.fell_back == f"Not taking the quick way: {fact}"
    field = await guarded(play, [{"kind": "field", "field": "topic", "pattern": "sql"}], {"topic": "cats"})
    assert field.fell_back == 'Not taking the quick way: "topic" does not mention "sql"'
    for result in (said, field):
        assert "guard" not in result.sentence
    assert (await guarded(play, [{"kind": "file", "file": "there"}], look=look)).output == "ran"


async def test_the_sentence_is_journaled_as_a_note(play: Play) -> None:
    """Section 10: one `log` row, without a step."""
    journal = MemoryJournal()
    result = await guarded(play, [{"kind": "file", "file": "a.md"}], run={"journal": journal})
    record = await journal.read(result.run_id)
    (row,) = record.entries
    assert (row.call, row.ref, row.note, row.state, row.step) == ("log", "", result.fell_back, "ok", 0)
    assert (result.calls, result.usage.steps, record.run.status, record.run.reason) == (0, 0, "fell_back", "guard")


@pytest.mark.parametrize(
    ("input", "pattern", "passes"),
    [
        ({"f": "About SQL joins"}, "sql", True),
        ({"f": "about"}, "a.o", False),
        ({"f": "a.o"}, "a.o", True),
        ({"f": {"x": [1, 2.0]}}, '"x":[1,2]', True),
        ({"f": 12345}, "234", True),
        ({"f": None}, "null", False),
        ({}, "x", False),
        ([], "x", False),
        (None, "x", False),
        ("text x", "x", False),
    ],
)
async def test_field_guards(play: Play, input: Json, pattern: str, passes: bool) -> None:
    """JSR-073"""
    result = await guarded(play, [{"kind": "field", "field": "f", "pattern": pattern}], input)
    assert (result.status == "finished") is passes


class RaisingLook:
    """Cannot tell anything."""

    def file_exists(self, path: str) -> bool:
        raise OSError("no disk")

    async def tool_on_belt(self, name: str) -> bool:
        raise OSError("no belt")


class AsyncLook:
    """Sees everything, asynchronously."""

    async def file_exists(self, path: str) -> bool:
        await asyncio.sleep(0)
        return True

    async def tool_on_belt(self, name: str) -> bool:
        return True


async def test_no_look_and_a_raising_look_do_not_pass(play: Play, tmp_path: Path) -> None:
    """JSR-074 plain and async Looks agree; the argument of the run goes before the bundle's."""
    guards: list[Mapping[str, Json]] = [{"kind": "file", "file": "a"}, {"kind": "tool", "tool": "t"}]
    (tmp_path / "a").write_text("x")

    @tool
    def t() -> str:
        """A tool."""
        return "x"

    assert (await guarded(play, guards, whitelist=["t"])).reason == "guard"
    assert (await guarded(play, guards, whitelist=["t"], look=RaisingLook())).reason == "guard"
    assert (await guarded(play, guards, whitelist=["t"], look=AsyncLook())).status == "finished"
    plain = WorkspaceLook(tmp_path, Belt([t]))
    assert (await guarded(play, guards, whitelist=["t"], look=plain)).status == "finished"
    over = await guarded(play, guards, whitelist=["t"], look=AsyncLook(), run={"look": RaisingLook()})
    assert over.reason == "guard"


async def test_free_guards_come_first(play: Play) -> None:
    """JSR-075 a failing one listed after the judgement means the model is never asked."""
    env = ScriptedEnv()
    guards: list[Mapping[str, Json]] = [
        {"kind": "judgement", "question": "Is it?"},
        {"kind": "field", "field": "f", "pattern": "x"},
    ]
    assert (await guarded(play, guards, {}, env=env)).reason == "guard"
    assert env.calls == []


def judging(answer: Answer | Exception, seen: list[Any] | None = None) -> CallbackEnv:
    async def ai(prompt: Prompt, input: Json, options: AIOptions) -> Answer:
        if seen is not None:
            seen.append((prompt, input, options))
        if isinstance(answer, Exception):
            raise answer
        return answer

    return CallbackEnv(ai=ai)


JUDGEMENT: list[Mapping[str, Json]] = [{"kind": "judgement", "question": " Is it? "}]


@pytest.mark.parametrize(
    ("answer", "passes"),
    [
        (Answer("Yes."), True),
        (Answer(" `OK!` "), True),
        (Answer(json=True), True),
        (Answer("true"), True),
        (Answer("no"), False),
        (Answer("yes, but"), False),
        (Answer(""), False),
        (Answer("yes", json=False), False),
        (ValueError("no model"), False),
    ],
)
async def test_judgements(play: Play, answer: Answer | Exception, passes: bool) -> None:
    """JSR-076"""
    result = await guarded(play, JUDGEMENT, env=judging(answer))
    assert (result.status == "finished") is passes
    if not passes:
        assert result.fell_back == 'Not taking the quick way: "Is it?" was not answered with yes'


async def test_a_judgement_is_asked_once_journaled_and_billed_without_a_step(play: Play) -> None:
    """JSR-076"""
    seen: list[Any] = []
    journal = MemoryJournal()
    env = judging(Answer("yes", spend=SPENT), seen)
    result = await guarded(play, JUDGEMENT, {"a": 1}, env=env, run={"journal": journal})
    assert seen == [(Prompt(None, "Is it?"), {"a": 1}, AIOptions())]
    (row,) = (await journal.read(result.run_id)).entries
    assert (row.call, row.ref, row.step, row.state, row.output) == ("ai", "Is it?", 0, "ok", '"yes"')
    assert json.loads(row.input or "") == {"input": {"a": 1}}
    assert (result.spend, row.spend) == (SPENT, SPENT)
    assert (result.calls, result.usage.steps) == (0, 0)


async def test_judgements_work_in_every_env(play: Play) -> None:
    """JSR-076 in `CallbackEnv` above, in `LocalEnv` and in `ScriptedEnv`."""

    class Model:
        async def answer(self, system: str, user: str, options: AIOptions) -> Answer:
            return Answer("Yes" if system == "Is it?" else "no")

    assert (await guarded(play, JUDGEMENT, env=LocalEnv(model=Model(), log=None))).status == "finished"
    scripted = ScriptedEnv([{"door": "ai", "ref": "Is it?", "text": "yes"}])
    assert (await guarded(play, JUDGEMENT, env=scripted)).status == "finished"


async def test_a_judgement_that_hangs_ends_by_the_wall(play: Play) -> None:
    """JSR-077 as does a Look that does."""

    async def ai(_prompt: Prompt, _input: Json, _options: AIOptions) -> Answer:
        await asyncio.Event().wait()
        raise AssertionError

    journal = MemoryJournal()
    began = time.monotonic()
    result = await guarded(play, JUDGEMENT, env=CallbackEnv(ai=ai), run_fuel=Fuel(wall=0.1), run={"journal": journal})
    assert (result.status, result.reason) == ("incomplete", "wall")
    (row,) = (await journal.read(result.run_id)).entries
    assert row.state == "abandoned"
    assert time.monotonic() - began < 5

    class SlowLook(FakeLook):
        def file_exists(self, path: str) -> bool:
            time.sleep(0.3)
            return True

    slow = await guarded(play, [{"kind": "file", "file": "a"}], look=SlowLook(), run_fuel=Fuel(wall=0.1))
    assert slow.reason == "wall"


async def test_a_judgement_may_cross_the_token_ceiling(play: Play) -> None:
    """JSR-077"""
    env = judging(Answer("yes", spend=SPENT))
    result = await guarded(play, JUDGEMENT, env=env, run_fuel=Fuel(tokens=500))
    assert (result.status, result.reason, result.spend) == ("incomplete", "tokens", SPENT)
    assert result.sandbox is None


async def test_a_run_may_be_cancelled_during_its_guards(play: Play) -> None:
    """JSR-092 before any program has started."""

    async def ai(_prompt: Prompt, _input: Json, _options: AIOptions) -> Answer:
        run.cancel("never mind")
        await asyncio.Event().wait()
        raise AssertionError

    async with play.runner(PROGRAM, guards=JUDGEMENT) as runner:
        run = runner.start(None, CallbackEnv(ai=ai))
        result = await run.result()
    assert (result.reason, result.sentence) == ("cancelled", "The run was cancelled: never mind")


async def test_a_judgement_has_an_input_of_its_own(play: Play) -> None:
    """JSR-076 what an Env does to the input it is asked about, the program does not see."""

    async def ai(_prompt: object, input: Json, _options: object) -> str:
        assert isinstance(input, dict)
        input["b"] = 2
        return "yes"

    program = "function run(input) { return input }"
    result = await play(program, {"a": 1}, guards=JUDGEMENT, env=CallbackEnv(ai=ai))
    assert result.output == {"a": 1}


async def test_invalid_input_raises_before_anything_is_touched(play: Play) -> None:
    """JSR-078"""
    touched: list[str] = []

    class Watching(FakeLook):
        def file_exists(self, path: str) -> bool:
            touched.append(path)
            return True

    env = ScriptedEnv()
    journal = MemoryJournal()
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n", "m"]}
    for input, says in (
        ({"n": "x"}, "input.n"),
        ({}, "`n`"),
        ([1], "input"),
        ({1, 2}, "input: set is not JSON"),
        ({"n": float("nan")}, "input.n: NaN is not JSON"),
        ({"n": 1, "m": "x" * 8_400_000}, "8,388,608"),
    ):
        with pytest.raises(InputError) as caught:
            await play(
                PROGRAM,
                input,
                input=schema,
                guards=[{"kind": "file", "file": "a"}],
                look=Watching(),
                env=env,
                run={"journal": journal},
            )
        assert says in str(caught.value)
        assert caught.value.problems
    assert (touched, env.calls, list(await journal.runs())) == ([], [], [])
