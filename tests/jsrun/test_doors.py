"""The six doors at work: order, refusals, failures, endings, parallel calls."""

import asyncio
import json
import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest

from jsrun import (
    AIOptions,
    Answer,
    AskAnswer,
    AskOptions,
    CallbackEnv,
    DoorFailure,
    Env,
    Fuel,
    MemoryJournal,
    Prompt,
    RunEvent,
    Spend,
    ToolResult,
    UnwiredEnv,
)
from jsrun.doors import Refused, Rules, read_call
from jsrun.testing import FakeMemory, ScriptedEnv
from jsrun.whitelist import matches
from ptc.wire import Json
from tests.jsrun.playing import Play, echo, playing_env

pytestmark = pytest.mark.asyncio(loop_scope="session")

FORMS = ["", "async "]
PROMPTS = {"summarise": "Summarise: {{text}}", "other": "Other."}


def waits(form: str) -> str:
    return "await " if form else ""


@pytest.mark.parametrize("form", FORMS)
async def test_a_program_that_uses_all_doors(play: Play, form: str) -> None:
    """JSR-047"""
    env = ScriptedEnv(
        [
            {"door": "ai", "ref": "summarise", "input": {"t": 1}, "text": "short"},
            {"door": "tool", "ref": "read", "input": {"path": "a"}, "output": {"text": "x"}},
            {"door": "ask", "ref": "Sure?", "text": "yes"},
            {"door": "remember", "ref": "a note"},
            {"door": "recall", "ref": "note", "output": [{"text": "a note", "at": "2026-01-01T00:00:00Z"}]},
            {"door": "log"},
        ]
    )
    w = waits(form)
    program = f"""
    {form}function run() {{
      return [
        {w}ai('prompts/summarise.md', {{t: 1}}), {w}tool(' read ', {{path: 'a'}}),
        {w}ask('Sure?', {{options: ['yes', 'no']}}),
        {w}remember(' a note '), {w}recall('note'), {w}log('done'),
      ].map(value => value === undefined ? 'undefined' : value)
    }}"""
    journal = MemoryJournal()
    result = await play(program, env=env, whitelist=["read"], prompts=PROMPTS, run={"journal": journal})
    assert result.output == [
        "short", {"text": "x"}, "yes", "undefined", [{"text": "a note", "at": "2026-01-01T00:00:00Z"}], "undefined",
    ]  # fmt: skip
    assert env.problems() == []
    rows = (await journal.read(result.run_id)).entries
    assert [(row.seq, row.call, row.ref, row.state, row.answered) for row in rows] == [
        (1, "ai", "summarise", "ok", 1),
        (2, "tool", "read", "ok", 2),
        (3, "ask", "Sure?", "ok", 3),
        (4, "remember", "a note", "ok", 4),
        (5, "recall", "note", "ok", 5),
        (6, "log", "", "ok", 6),
    ]
    assert [json.loads(row.input) if row.input else None for row in rows] == [
        {"input": {"t": 1}}, {"path": "a"}, {"options": ["yes", "no"], "default": ""}, None, None, None,
    ]  # fmt: skip
    assert (rows[0].output, rows[1].output, rows[5].note) == ('"short"', '{"text":"x"}', "done")
    assert (result.report, result.calls, result.usage.steps) == ("done", 6, 6)


async def test_a_tool_off_the_whitelist_never_reaches_the_env(play: Play) -> None:
    """JSR-048 it costs a step, is journaled and lists what is allowed."""
    journal = MemoryJournal()
    env = ScriptedEnv()
    program = "function run(input) { try { tool(input) } catch (e) { return [e.ref, e.message] } }"
    result = await play(program, "rm", env=env, whitelist=["read", "list"], run={"journal": journal})
    assert result.output == ["rm", 'The tool "rm" is not on the whitelist. Allowed: read, list.']
    assert env.calls == []
    (row,) = (await journal.read(result.run_id)).entries
    assert (row.call, row.ref, row.state, row.step, row.answered) == ("tool", "rm", "refused", 1, 1)
    assert row.err == 'The tool "rm" is not on the whitelist. Allowed: read, list.'
    assert (result.calls, result.usage.steps) == (1, 1)
    none = await play(program, "rm", env=env, whitelist=[])
    assert isinstance(none.output, list)
    assert "spends only on the model" in str(none.output[1])


async def test_names_of_tools_are_trimmed_and_compared_exactly(play: Play) -> None:
    """JSR-049"""
    called: list[str] = []

    async def tool(name: str, _args: dict[str, Json]) -> ToolResult:
        called.append(name)
        return ToolResult("ok")

    program = "function run(input) { try { return tool(input) } catch (e) { return e.message } }"
    for name, allowed in ((" read ", True), ("read", True), ("Read", False), ("rea", False)):
        result = await play(program, name, env=CallbackEnv(tool=tool), whitelist=["  read"])
        assert (result.output == "ok") is allowed
        assert matches(name, ["  read"]) is allowed
    assert called == ["read", "read"]


async def test_refs_of_prompts(play: Play) -> None:
    """JSR-051 bad ones are refused without the Env."""
    env = ScriptedEnv()
    program = """
    function run() {
      const said = []
      for (const ref of [undefined, '  ', 'Please summarise this', 'sumarise', 'SUMMARISE', 'x'.repeat(121)]) {
        try { ai(ref) } catch (e) { said.push(e.message) }
      }
      return said
    }"""
    result = await play(program, env=env, prompts=PROMPTS)
    assert isinstance(result.output, list)
    missing, blank, inline, unknown, case, long = map(str, result.output)
    assert "needs the name of a prompt" in missing
    assert "needs the name of a prompt" in blank
    assert "prompts/" in inline
    assert '"sumarise"' in unknown
    assert "other, summarise" in unknown
    assert "other, summarise" in case
    assert "prompts/" in long
    assert env.calls == []
    none = await play("function run(input) { try { ai(input) } catch (e) { return e.message } }", "x", env=env)
    assert "has no prompts" in str(none.output)


@pytest.mark.parametrize("form", FORMS)
async def test_a_failing_door_is_a_door_error_without_traces_of_the_host(play: Play, form: str) -> None:
    """JSR-052"""

    async def bad(args: dict[str, Json]) -> Json:
        if args.get("how") == "failure":
            raise DoorFailure("chosen text")
        raise RuntimeError("no luck")

    program = f"""
    {form}function run(input) {{
      try {{ {waits(form)}tool('bad', input) }} catch (e) {{
        return {{
          name: e.name, door: e.door, ref: e.ref, message: e.message, own: Object.keys(e),
          is: [e instanceof DoorError, e instanceof Error, e.cause === undefined], stack: e.stack,
          text: String(e),
        }}
      }}
    }}"""
    result = await play(program, {}, tools={"bad": bad})
    assert isinstance(result.output, dict)
    stack = str(result.output.pop("stack"))
    assert result.output == {
        "name": "DoorError",
        "door": "tool",
        "ref": "bad",
        "message": "no luck",
        "own": ["name", "door", "ref"],
        "is": [True, True, True],
        "text": "DoorError: no luck",
    }
    assert "program.js:3" in stack
    assert ".py" not in stack
    chosen = await play(program, {"how": "failure"}, tools={"bad": bad}, options={"show_errors": False})
    assert isinstance(chosen.output, dict)
    assert chosen.output["message"] == "chosen text"
    hidden = await play(program, {}, tools={"bad": bad}, options={"show_errors": False})
    assert isinstance(hidden.output, dict)
    assert hidden.output["message"] == "The host's tool function failed."


async def test_the_journal_keeps_the_whole_text_of_a_failure(play: Play) -> None:
    """JSR-052 while the program sees 2,000 characters and a mark."""

    async def bad(_args: dict[str, Json]) -> Json:
        raise ValueError("x" * 5000)

    journal = MemoryJournal()
    program = "function run() { try { tool('bad') } catch (e) { return e.message } }"
    result = await play(program, tools={"bad": bad}, run={"journal": journal})
    assert result.output == "x" * 2000 + "… (3,000 more characters)"
    (row,) = (await journal.read(result.run_id)).entries
    assert row.err == "x" * 5000


def model(*answers: Answer | Exception) -> tuple[CallbackEnv, list[tuple[Prompt, Json, AIOptions]]]:
    """An Env whose model gives these answers in turn, and what it was asked."""
    asked: list[tuple[Prompt, Json, AIOptions]] = []

    async def ai(prompt: Prompt, input: Json, options: AIOptions) -> Answer:
        asked.append((prompt, input, options))
        answer = answers[len(asked) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer

    return CallbackEnv(ai=ai, log=lambda _status: None), asked


SCHEMA: dict[str, Json] = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
SPENT = Spend(model="m", calls=1, input=10, output=5)


async def test_ai_with_a_schema(play: Play) -> None:
    """JSR-062"""
    env, asked = model(
        Answer(json={"n": 1}, spend=SPENT),
        Answer('```json\n{"n": 2}\n```', spend=SPENT),
        Answer(' {"n": 3} '),
        Answer("no json", spend=SPENT),
        Answer(json={"n": "x"}, spend=SPENT),
    )
    program = """
    function run(schema) {
      const said = []
      const say = f => { try { said.push(f()) } catch (e) { said.push(e.message) } }
      for (let i = 0; i < 5; i++) say(() => ai('other', i, {schema, effort: 'low'}))
      say(() => ai('other', 0, {schema: {type: 'strange'}}))
      say(() => ai('other', 0, {schema: 'text'}))
      say(() => ai('other', 0, {schema: {enum: ['x'.repeat(70_000)]}}))
      say(() => ai('other', 0, {effort: 'extreme'}))
      say(() => ai('other', 0, {unknown: () => 1, effort: 5}))
      return said
    }"""
    journal = MemoryJournal()
    result = await play(program, SCHEMA, env=env, prompts=PROMPTS, run={"journal": journal})
    assert isinstance(result.output, list), result.sentence
    first, fenced, bare, none, mismatch, *refused = result.output
    assert (first, fenced, bare) == ({"n": 1}, {"n": 2}, {"n": 3})
    assert none == "The model's answer is not JSON, as the schema asks for."
    assert "answer.n" in str(mismatch)
    assert 'ai() takes "schema" as a valid JSON Schema.' in str(refused[0])
    assert refused[1] == 'ai() takes "schema" as a JSON Schema object, got a text.'
    assert "it has 70,013 characters as JSON, 65,536 is the most" in str(refused[2])
    assert refused[3] == 'ai() takes "effort" as one of off, low, medium, high, got "extreme".'
    assert refused[4] == 'ai() takes "effort" as one of off, low, medium, high, got 5.'
    assert len(asked) == 5
    assert (asked[0][0], asked[0][1], asked[0][2]) == (Prompt("other", "Other."), 0, AIOptions(SCHEMA, "low", None))
    assert (result.spend.calls, result.spend.input) == (4, 40)
    rows = (await journal.read(result.run_id)).entries
    assert [row.state for row in rows] == ["ok", "ok", "ok", "err", "err", *["refused"] * 5]
    assert json.loads(rows[0].input or "") == {"input": 0, "schema": SCHEMA, "effort": "low"}
    assert rows[4].spend == SPENT


async def test_a_schema_may_describe_any_value(play: Play) -> None:
    """JSR-062 for an answer, other than for an output, the root need not be an object."""
    env, _asked = model(Answer("[1, 2]"), Answer("null"))
    program = """
    function run() {
      return [ai('other', 0, {schema: {type: 'array'}}), ai('other', 0, {schema: {type: 'null'}})]
    }"""
    result = await play(program, env=env, prompts=PROMPTS)
    assert result.output == [[1, 2], None]


async def test_json_comes_before_text_and_null_is_json(play: Play) -> None:
    """JSR-062 without a schema."""
    env, _asked = model(Answer("text"), Answer("text", json=None), Answer("text", json=[1]), Answer())
    program = "function run() { return [ai('other'), ai('other'), ai('other'), ai('other')] }"
    result = await play(program, env=env, prompts=PROMPTS)
    assert result.output == ["text", None, [1], ""]


class Person:
    """An Env in which a person gives one answer."""

    def __init__(self, answer: AskAnswer) -> None:
        self.answer = answer
        self.asked: list[tuple[str, AskOptions]] = []
        self.after = 0

    def env(self) -> CallbackEnv:
        async def ask(question: str, options: AskOptions) -> AskAnswer:
            self.asked.append((question, options))
            return self.answer

        async def later(_args: dict[str, Json]) -> None:
            self.after += 1

        return CallbackEnv(ask=ask, tools={"later": later}, log=lambda _status: None)


ASKING = """
async function run() {
  await log('asking')
  try { return [await ask('Which?', {options: ['a', 2], default: DEFAULT})] } finally { await tool('later') }
}"""


async def ask_person(play: Play, answer: AskAnswer, default: str) -> tuple[Any, Person, Sequence[Any]]:
    person = Person(answer)
    journal = MemoryJournal()
    program = ASKING.replace("DEFAULT", json.dumps(default))
    result = await play(program, env=person.env(), whitelist=["later"], run={"journal": journal})
    return result, person, (await journal.read(result.run_id)).entries


async def test_ask_gets_options_and_default(play: Play) -> None:
    """JSR-063"""
    result, person, rows = await ask_person(play, AskAnswer("a"), " b ")
    assert result.output == ["a"]
    assert person.asked == [("Which?", AskOptions(("a", "2"), "b"))]
    assert person.after == 1
    assert rows[1].output == '"a"'


async def test_a_person_may_take_over(play: Play) -> None:
    """JSR-063 the run ends, and nothing runs after it."""
    result, person, rows = await ask_person(play, AskAnswer("I do it myself", taking_over=True), "b")
    assert (result.status, result.reason, result.report) == ("incomplete", "taken_over", "I do it myself")
    assert person.after == 0
    assert [(row.call, row.state) for row in rows] == [("log", "ok"), ("ask", "stopped")]


async def test_nobody_there(play: Play) -> None:
    """JSR-063 the default is taken, and without one the run ends, naming the question."""
    result, person, rows = await ask_person(play, AskAnswer(unanswered=True), "b")
    assert (result.output, person.after, rows[1].note) == (["b"], 1, "default taken")
    result, person, rows = await ask_person(play, AskAnswer(unanswered=True), " ")
    assert (result.status, result.reason) == ("incomplete", "unanswered")
    assert '"Which?"' in result.sentence
    assert (person.after, rows[1].state, result.report) == (0, "stopped", "asking")


async def test_log(play: Play) -> None:
    """JSR-064 a blank one costs a step, a failing one is swallowed, the last success is the report."""
    shown: list[str] = []

    async def show(status: str) -> None:
        if status == "fails":
            raise ValueError("no terminal")
        shown.append(status)

    journal = MemoryJournal()
    program = """
    function run() {
      const given = [log('  '), log(), log('one'), log('fails'), log({}), log(5, 6, 7)]
      return given.every(value => value === undefined)
    }"""
    result = await play(program, env=CallbackEnv(log=show), run={"journal": journal})
    assert (result.output, shown, result.report) == (True, ["one", "5"], "5")
    assert (result.usage.steps, result.calls) == (6, 4)
    rows = (await journal.read(result.run_id)).entries
    assert [(row.note, row.state) for row in rows] == [("one", "ok"), ("fails", "err"), (None, "refused"), ("5", "ok")]
    assert [(entry.level, entry.text) for entry in result.logs] == [("status", "one"), ("status", "5")]


@pytest.mark.parametrize("text", ["x" * 10240, "\u4e2d" * 4000, " " * 9000 + "y" * 5000, "z" * 3_000_000])
async def test_a_long_status_is_cut_and_marked(play: Play, text: str) -> None:
    """JSR-064"""
    shown: list[str] = []
    env = CallbackEnv(log=shown.append)
    result = await play("function run(input) { log(input); return 1 }", text, env=env)
    assert result.status == "finished"
    (status,) = shown
    head, _, mark = status.partition("… (")
    stripped = text.strip()
    assert stripped.startswith(head)
    assert 4090 < len(head.encode()) <= 4096
    dropped = len(stripped) - len(head)
    assert mark == f"{dropped:,} more characters)"
    assert result.report == status
    assert result.logs[0].cut == dropped
    assert [cut.what for cut in result.truncated] == ["statuses"]


async def test_memory_of_the_bundle_goes_before_the_env(play: Play) -> None:
    """JSR-065"""
    touched: list[str] = []
    env = playing_env()
    env._remember = touched.append
    env._recall = touched.append
    program = """
    function run() {
      remember('one'); remember(2); recall(' ')
      try { remember('x'.repeat(1024 * 1024)) } catch (e) { return [recall(), recall('ON').length, e.message] }
    }"""
    result = await play(program, env=env, memory=FakeMemory())
    assert isinstance(result.output, list), result.sentence
    notes, found, refused = result.output
    assert isinstance(notes, list)
    assert [note["text"] for note in notes if isinstance(note, dict)] == ["2", "one"]
    assert all(isinstance(note, dict) and set(note) == {"text", "at"} for note in notes)
    assert found == 1
    assert refused == "remember() takes notes of at most 65,536 bytes, this one has 1,048,576."
    assert touched == []


async def test_doors_as_callbacks(play: Play) -> None:
    """JSR-066 `map(ai)` is refused, `forEach(log)` works."""
    env = playing_env()
    program = """
    function run(items) {
      items.forEach(log)
      items.forEach(remember)
      try { items.map(ai) } catch (e) { return e.message }
    }"""
    result = await play(program, ["other", "summarise"], env=env, prompts=PROMPTS)
    assert "items.map(item => ai(item))" in str(result.output)
    assert result.report == "summarise"


async def test_many_parallel_calls(play: Play) -> None:
    """JSR-067 at most 16 at once, started in call order, all answered."""
    started: list[Json] = []
    working = 0
    most = 0

    async def work(args: dict[str, Json]) -> Json:
        nonlocal working, most
        started.append(args["i"])
        working += 1
        most = max(most, working)
        await asyncio.sleep(0)
        working -= 1
        return args["i"]

    program = "async function run(n) { return Promise.all(Array.from({length: n}, (_, i) => tool('work', {i}))) }"
    result = await play(program, 5000, tools={"work": work}, run_fuel=Fuel(steps=5000))
    assert result.output == list(range(5000)), result.sentence
    assert started == list(range(5000))
    assert most == 16
    few = await play(program, 50, tools={"work": work}, options={"parallel": 3})
    assert few.status == "finished"


async def test_answers_go_out_in_the_order_of_their_numbers(play: Play) -> None:
    """JSR-067 whatever a journal takes for each."""

    class Slow(MemoryJournal):
        async def close(self, row: Any) -> None:
            await asyncio.sleep(0.06 if row.ref == "fast" else 0)
            await super().close(row)

    async def work(args: dict[str, Json]) -> Json:
        await asyncio.sleep(float(str(args["s"])))
        return None

    program = """
    async function run() {
      const order = []
      await Promise.all([
        tool('slow', {s: 0.03}).then(() => order.push('slow')), tool('fast', {s: 0}).then(() => order.push('fast')),
      ])
      return order
    }"""
    journal = Slow()
    result = await play(program, tools={"fast": work, "slow": work}, run={"journal": journal})
    rows = (await journal.read(result.run_id)).entries
    by_number = [row.ref for row in sorted(rows, key=lambda row: row.answered or 0)]
    assert result.output == by_number == ["fast", "slow"]


async def test_a_late_answer_changes_nothing(play: Play) -> None:
    """JSR-068 a door that never answers ends by the wall, its row abandoned."""
    release = asyncio.Event()
    cancelled = asyncio.Event()

    async def stubborn(_args: dict[str, Json]) -> Json:
        try:
            await release.wait()
        except asyncio.CancelledError:
            cancelled.set()
            await asyncio.sleep(0.3)  # longer than anybody waits
        return "late"

    journal = MemoryJournal()
    program = "function run() { return tool('stubborn') }"
    began = time.monotonic()
    result = await play(program, tools={"stubborn": stubborn}, run={"journal": journal}, run_fuel=Fuel(wall=0.2))
    assert (result.status, result.reason) == ("incomplete", "wall")
    assert cancelled.is_set()
    assert time.monotonic() - began < 3
    await asyncio.sleep(0.4)
    record = await journal.read(result.run_id)
    (row,) = record.entries
    assert (row.state, row.output, record.run.status) == ("abandoned", None, "incomplete")


async def test_all_kinds_of_host_functions_work(play: Play) -> None:
    """JSR-069 async, plain, blocking, re-entering; the event loop's heartbeat goes on, also during a busy program."""
    beats = 0

    async def heartbeat() -> None:
        nonlocal beats
        while True:
            await asyncio.sleep(0.01)
            beats += 1

    def plain(_args: dict[str, Json]) -> Json:
        return threading.current_thread() is not threading.main_thread()

    def blocking(_args: dict[str, Json]) -> Json:
        time.sleep(0.2)
        return "blocked"

    program = """
    async function run(depth) {
      if (depth > 0) return [depth]
      return Promise.all([tool('again'), tool('plain'), tool('blocking'), tool('waiting')])
    }"""

    async def waiting(_args: dict[str, Json]) -> Json:
        await asyncio.sleep(0.01)
        return "waited"

    whitelist = ["again", "plain", "blocking", "waiting"]
    async with play.runner(program, whitelist=whitelist) as runner:

        async def again(_args: dict[str, Json]) -> Json:
            return (await runner.run(1, env)).output

        env = CallbackEnv(tools={"again": again, "plain": plain, "blocking": blocking, "waiting": waiting})
        task = asyncio.create_task(heartbeat())
        result = await runner.run(0, env)
        assert result.output == [[1], True, "blocked", "waited"]
        assert beats >= 5
        beats = 0
        busy = await play("function run() { for (;;); }", run_fuel=Fuel(wall=0.5))
        task.cancel()
    assert busy.reason == "wall"
    assert beats >= 10


class Ends:
    """An Env whose tool ends the host in some way."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def env(self) -> CallbackEnv:
        async def end(_args: dict[str, Json]) -> Json:
            raise self.error

        return CallbackEnv(tools={"end": end}, log=lambda _status: None)


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
async def test_a_host_function_that_ends_the_process(play: Play, error: BaseException) -> None:
    """JSR-070 the run is killed, the journal closed, the exception raised again."""
    journal = MemoryJournal()
    program = "function run() { try { tool('end') } finally { log('after') } }"
    with pytest.raises(type(error)):
        await play(program, env=Ends(error).env(), whitelist=["end"], run={"journal": journal})
    (run,) = await journal.runs()
    assert (run.status, run.reason) == ("incomplete", "cancelled")
    rows = (await journal.read(run.run_id)).entries
    assert [(row.call, row.state) for row in rows] == [("tool", "abandoned")]


async def test_a_host_function_that_raises_cancelled_error_only_fails(play: Play) -> None:
    """JSR-070 for its own CancelledError."""
    program = "function run() { try { tool('end') } catch (e) { return e.message } }"
    result = await play(program, env=Ends(asyncio.CancelledError()).env(), whitelist=["end"])
    assert result.output == "The host's tool function was cancelled."


async def test_unwired_doors_fail_by_name(play: Play) -> None:
    """JSR-116 catchably; uncaught it is `threw`."""
    program = """
    function run() {
      const said = []
      for (const call of [() => ai('other'), () => tool('t'), () => ask('q'), () => remember('n'), () => recall()]) {
        try { call() } catch (e) { said.push(e.door + ': ' + e.message) }
      }
      log('swallowed')
      return said
    }"""
    result = await play(program, env=UnwiredEnv(), whitelist=["t"], prompts=PROMPTS)
    assert isinstance(result.output, list)
    for said, door in zip(result.output, ("ai", "tool", "ask", "remember", "recall"), strict=True):
        assert str(said) == f"{door}: This host does not provide {door}()."
    assert result.report == ""
    uncaught = await play("function run() { recall() }", env=UnwiredEnv())
    assert (uncaught.status, uncaught.reason) == ("fell_back", "threw")
    assert "recall()" in uncaught.sentence


async def test_answers_of_a_callback_env(play: Play) -> None:
    """JSR-117 text, JSON and value types, plain and async; `failed` and raising look alike to the program."""

    def text(_args: dict[str, Json]) -> object:
        return "text"

    async def data(_args: dict[str, Json]) -> object:
        return [1, None]

    def result(_args: dict[str, Json]) -> object:
        return ToolResult("text", json={"a": 1})

    def failed(_args: dict[str, Json]) -> object:
        return ToolResult("broken", failed=True, spend=SPENT)

    async def raising(_args: dict[str, Json]) -> object:
        raise DoorFailure("broken", SPENT)

    tools = {"text": text, "data": data, "result": result, "failed": failed, "raising": raising}
    program = """
    function run() {
      const said = ['text', 'data', 'result'].map(name => tool(name))
      for (const name of ['failed', 'raising']) {
        try { tool(name) } catch (e) { said.push([e.name, e.door, e.message]) }
      }
      return said
    }"""
    ran = await play(program, tools=tools)
    broken = ["DoorError", "tool", "broken"]
    assert ran.output == ["text", [1, None], {"a": 1}, broken, broken]
    assert ran.spend == SPENT + SPENT


class Wrong:
    """An Env that answers with values of the wrong kind."""

    def ai(self, prompt: Prompt, input: Json, options: AIOptions) -> Any:
        return "text"

    async def tool(self, name: str, args: dict[str, Json]) -> Any:
        return {"json": 1}

    async def ask(self, question: str, options: AskOptions) -> Any:
        return None

    async def remember(self, note: str) -> None:
        return None

    async def recall(self, query: str) -> Any:
        return ["note"]

    async def log(self, status: str) -> None:
        return None


async def test_answers_of_the_wrong_kind_fail_the_door(play: Play) -> None:
    """JSR-117 an Env of somebody's own is checked."""
    program = """
    function run() {
      const said = []
      for (const call of [() => ai('other'), () => tool('t'), () => ask('q'), () => recall()]) {
        try { call() } catch (e) { said.push(e.message) }
      }
      return said
    }"""
    env: Env = Wrong()
    result = await play(program, env=env, whitelist=["t"], prompts=PROMPTS)
    assert result.output == [
        "The host's ai function must answer with an Answer.",
        "The host's tool function must answer with a ToolResult.",
        "The host's ask function must answer with an AskAnswer.",
        "The host's recall function must answer with a list of Notes.",
    ]


class PromptedEnv(UnwiredEnv):
    """An Env that wants the prompts."""

    def __init__(self) -> None:
        self.happened: list[object] = []

    async def use_prompts(self, prompts: Any) -> None:
        self.happened.append(dict(prompts))

    async def ai(self, prompt: Prompt, input: Json, options: AIOptions) -> Answer:
        self.happened.append(prompt)
        return Answer("yes")


async def test_use_prompts_comes_once_after_the_guards(play: Play) -> None:
    """JSR-118 and the Env gets the text in any case; JSR-013 nothing in it is expanded."""
    env = PromptedEnv()
    guards = [{"kind": "judgement", "question": "Go?"}]
    program = "function run() { ai('summarise'); return ai('other') }"
    result = await play(program, env=env, prompts=PROMPTS, guards=guards)
    assert result.status == "finished"
    assert env.happened == [
        Prompt(None, "Go?"), PROMPTS, Prompt("summarise", "Summarise: {{text}}"), Prompt("other", "Other."),
    ]  # fmt: skip


async def test_events(play: Play) -> None:
    """Section 12: names and sizes in order; a raising observer is left out and harms nothing."""
    events: list[RunEvent] = []
    env = playing_env({"echo": echo})
    program = """
    function run(input) {
      log('working')
      remember('secret')
      try { tool(input.no) } catch {}
      return tool('echo', {a: 1})
    }"""
    guards = [{"kind": "field", "field": "no", "pattern": "rm"}]
    parts: Any = {"env": env, "whitelist": ["echo"], "guards": guards}
    result = await play(program, {"no": "rm"}, run={"on_event": events.append}, **parts)
    assert [(event.kind, event.seq, event.door, event.ref, event.ok) for event in events] == [
        ("started", 0, "", "", True),
        ("guard", 0, "", "", True),
        ("opened", 1, "log", "", True),
        ("closed", 1, "log", "", True),
        ("status", 0, "log", "", True),
        ("opened", 2, "remember", "", True),
        ("closed", 2, "remember", "", True),
        ("opened", 3, "tool", "rm", True),
        ("closed", 3, "tool", "rm", False),
        ("opened", 4, "tool", "echo", True),
        ("closed", 4, "tool", "echo", True),
        ("ended", 0, "", "", True),
    ]
    assert {event.run_id for event in events} == {result.run_id}
    assert [event.text for event in events if event.text] == ["working"]
    assert (events[-3].size, events[-2].size) == (7, 7)

    def broken(_event: RunEvent) -> None:
        raise ValueError("observer")

    assert (await play(program, {"no": "rm"}, run={"on_event": broken}, **parts)).status == "finished"


@pytest.mark.parametrize(
    ("door", "message"),
    [
        ("tool", ["rm", {}]),
        ("tool", []),
        ("tool", "take"),
        ("tool", None),
        ("tool", ["take", {}, 1]),
        ("tool", {"x": 1}),
        ("tool", {"ref": 1, "refused": 2}),
        ("tool", [["take"]]),
        ("tool", ["take", [1]]),
        ("ai", ["x"]),
        ("ask", ["q", {"options": 5}]),
        ("remember", [None]),
    ],
)
async def test_a_forged_message_is_refused_by_the_host(door: Any, message: Json) -> None:
    """JSR-050 the host's half repeats every check: a program may have written to the channel itself."""
    with pytest.raises(Refused):
        read_call(door, message, Rules({}, ["take"]))


async def test_the_raw_functions_are_out_of_reach(play: Play) -> None:
    """JSR-050"""
    program = """
    function run() {
      return [eval('typeof jsrun_doors'), typeof globalThis.jsrun_doors, eval('typeof __ptc_send')]
    }"""
    assert (await play(program)).output == ["undefined", "undefined", "undefined"]
