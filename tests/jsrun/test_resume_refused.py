"""Resume: what nobody may take up, or not without asking, and what happens then: nothing."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from jsrun import (
    AskAnswer,
    Belt,
    DivergenceError,
    InFlightError,
    JournalError,
    JsrunError,
    ResumeError,
    RunResult,
    tool,
)
from ptc.wire import Json
from tests.jsrun.playing import Play
from tests.jsrun.recording import (
    ASYNC,
    PARTS,
    SYNC,
    Doer,
    Writer,
    recorded,
    resume,
)

session = pytest.mark.asyncio(loop_scope="session")


@session
async def test_in_flight_calls_that_may_have_been_done(play: Play) -> None:
    """JSR-103 refuse raises with the call, fail is a DoorError, retry calls again."""
    program = """
    function run() {
      try { return { wrote: tool("write", { id: 1 }) } }
      catch (error) { return { name: error.name, message: error.message } }
    }
    """
    whole, journal = await recorded(play, program)
    with pytest.raises(InFlightError, match=r'tool "write" \(call 1\)'):
        await resume(play, program, whole.run_id, Writer(), journal.at(2))
    env = Writer()
    failed = await resume(play, program, whole.run_id, env, journal.at(2), in_flight="fail")
    output: Any = failed.output
    assert output["name"] == "DoorError"
    assert "nobody knows whether it was done" in output["message"]
    assert env.calls == []
    retried = await resume(play, program, whole.run_id, env, journal.at(2), in_flight="retry")
    assert retried.output == {"wrote": {"id": 1}}
    assert env.calls == ["tool write"]
    with pytest.raises(ValueError, match="in_flight"):
        await resume(play, program, whole.run_id, env, journal.at(2), in_flight="again")


@session
async def test_a_failed_in_flight_call_stays_failed(play: Play) -> None:
    """JSR-103 once a program was told that nobody knows, that is its answer for good."""
    program = "function run() { try { tool('write', {id: 1}) } catch { log('so be it') } return 1 }"
    whole, journal = await recorded(play, program)
    left = journal.at(2)
    await resume(play, program, whole.run_id, Writer(), left, in_flight="fail")
    rows = (await left.read(whole.run_id)).current()
    assert [(row.call, row.state, row.attempt) for row in rows] == [("tool", "err", 2), ("log", "ok", 2)]


@session
@pytest.mark.parametrize("door", ["ai('sum', 1)", "recall('x')", "ask('Well?')", "log('on')"])
async def test_calls_that_may_be_made_again_are_made_again(play: Play, door: str) -> None:
    """JSR-103 what changes nothing is asked again without asking."""
    program = f"function run() {{ {door}; return 1 }}"
    parts = {**PARTS, "whitelist": []}
    whole, journal = await recorded(play, program, parts=parts)
    env = Writer()
    result = await resume(play, program, whole.run_id, env, journal.at(2), parts=parts)
    assert result.status == "finished"
    assert len(env.calls) == 1


@session
async def test_a_read_only_tool_in_flight_is_called_again(play: Play) -> None:
    """JSR-103 the Env's belt says which tools change nothing."""

    @tool(read_only=True)
    def look() -> int:
        """Look."""
        return 1

    @tool
    def touch() -> int:
        """Touch."""
        return 2

    class Belted(Doer):
        belt = Belt([look, touch])

        async def tool(self, name: str, args: dict[str, Json]) -> Any:
            self.calls.append(name)
            return await self.belt.call(name, args)

    for name, asks in (("look", False), ("touch", True)):
        program = f"function run() {{ return tool('{name}') }}"
        parts = {"whitelist": [name]}
        whole, journal = await recorded(play, program, env=Belted(), parts=parts)
        env = Belted()
        if asks:
            with pytest.raises(InFlightError):
                await resume(play, program, whole.run_id, env, journal.at(2), parts=parts)
        else:
            assert (await resume(play, program, whole.run_id, env, journal.at(2), parts=parts)).output == 1
        assert len(env.calls) == (0 if asks else 1)


@session
async def test_what_cannot_be_resumed(play: Play) -> None:
    """JSR-104 another program, a run that has ended, one that is going on; the message says what to do."""
    whole, journal = await recorded(play, SYNC, {"text": "a"})
    with pytest.raises(ResumeError, match="has ended as finished"):
        await resume(play, SYNC, whole.run_id, Writer(), journal)
    with pytest.raises(ResumeError, match="another version of the program"):
        await resume(play, SYNC + "\n// new", whole.run_id, Writer(), journal.at(3))
    ours = (await journal.read(whole.run_id)).run.owner
    with pytest.raises(ResumeError, match="may still be going on"):
        await resume(play, SYNC, whole.run_id, Writer(), journal.at(3, owner=ours))
    with pytest.raises(ResumeError, match="may still be going on"):
        await resume(play, SYNC, whole.run_id, Writer(), journal.at(3, owner="1@elsewhere"))
    with pytest.raises(JournalError, match='no run "X"'):
        await resume(play, SYNC, "X", Writer(), journal)
    forced = await resume(play, SYNC, whole.run_id, Writer(), journal.at(3, owner=ours), force=True)
    assert forced.status == "finished"
    with pytest.raises(TypeError):
        await resume(play, SYNC, whole.run_id, None, journal.at(3))


@session
@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("function run() { ask('Well?'); return 1 }", "taken_over"),
        ("function run() { throw 1 }", "threw"),
        ("async function run() { await new Promise(() => {}) }", "stuck"),
        ("function run() {}", "no_output"),
    ],
)
async def test_endings_that_are_final(play: Play, program: str, reason: str) -> None:
    """JSR-104 what the program or a person decided is not taken up again."""
    env = Writer()
    env.answer = AskAnswer("mine", taking_over=True)
    whole, journal = await recorded(play, program, env=env, parts={})
    assert whole.reason == reason
    with pytest.raises(ResumeError, match=reason):
        await resume(play, program, whole.run_id, env, journal, parts={})


@session
async def test_two_resumes_at_once(play: Play) -> None:
    """JSR-104 one goes on, the other is refused before it has done anything."""
    whole, journal = await recorded(play, ASYNC, {"text": "abc"})
    left = journal.at(4)
    envs = [Writer(), Writer()]
    async with play.runner(ASYNC, **PARTS) as runner:
        work = [runner.resume(whole.run_id, env, "retry", journal=left) for env in envs]
        results = await asyncio.gather(*work, return_exceptions=True)
        with pytest.raises(ResumeError, match="finished"):
            await runner.resume(whole.run_id, Writer(), journal=left)
    refused = [result for result in results if isinstance(result, ResumeError)]
    assert len(refused) == 1
    assert [result.status for result in results if isinstance(result, RunResult)] == ["finished"]
    assert sorted(len(env.calls) for env in envs)[0] == 0


@session
async def test_a_resumed_run_is_live(play: Play) -> None:
    """JSR-104 while one process works on a resumed run nobody else takes it."""
    whole, journal = await recorded(play, SYNC, {"text": "abc"})
    left = journal.at(3)
    entered, go_on = asyncio.Event(), asyncio.Event()

    class Slow(Writer):
        async def write(self, args: dict[str, Json]) -> Json:
            entered.set()
            await go_on.wait()
            return args

    async with play.runner(SYNC, **PARTS) as runner:
        first = asyncio.create_task(runner.resume(whole.run_id, Slow(), journal=left))
        await entered.wait()
        with pytest.raises(ResumeError, match="may still be going on"):
            await runner.resume(whole.run_id, Writer(), "retry", journal=left)
        go_on.set()
        assert (await first).status == "finished"


ROUTE = "function run(input) { const a = tool('write', { id: input.id }); tool('write', { id: 9 }); return a }"


def with_default(number: int) -> dict[str, Any]:
    """A manifest in which the input has a default, so that the same program goes another way."""
    return {**PARTS, "input": {"properties": {"id": {"type": "integer", "default": number}}}}


@session
@pytest.mark.parametrize("form", ["sync", "async"])
async def test_a_diverging_resume_does_nothing(play: Play, form: str) -> None:
    """JSR-106 the first call that differs is named before anything live happens, and the journal stays as it was."""
    program = ROUTE if form == "sync" else ROUTE.replace("function", "async function").replace("= tool", "= await tool")
    whole, journal = await recorded(play, program, {}, parts=with_default(1))
    left = journal.at(3)
    before = await left.read(whole.run_id)

    class Prompted(Writer):
        def use_prompts(self, _prompts: Mapping[str, str]) -> None:
            self.calls.append("prompts")

    env = Prompted()
    with pytest.raises(DivergenceError, match=r"call 1 differs at input\.id: recorded 1, now 2") as caught:
        await resume(play, program, whole.run_id, env, left, parts=with_default(2))
    difference: Any = caught.value.difference
    assert (difference.kind, difference.seq, difference.path) == ("call", 1, "input.id")
    assert env.calls == []
    assert await left.read(whole.run_id) == before
    result = await resume(play, program, whole.run_id, env, left, parts=with_default(1))
    assert result.status == "finished"
    assert env.calls == ["prompts", "tool write"]


@session
async def test_a_later_call_that_differs_is_found_before_an_earlier_one_goes_live(play: Play) -> None:
    """JSR-106 with calls in parallel the one in flight waits until all recorded ones have been compared."""
    program = """
    async function run(input) {
      const slow = tool("write", { id: 1 });
      await ai("sum", 1);
      await ai("sum", input.id);
      return [await slow];
    }
    """

    class Slow(Writer):
        async def write(self, args: dict[str, Json]) -> Json:
            await asyncio.sleep(0.1)
            return args

    whole, journal = await recorded(play, program, {}, Slow(), with_default(1))
    assert whole.status == "finished"
    left = journal.at(journal.writes - 2)
    assert [row.state for row in (await left.read(whole.run_id)).entries] == ["open", "ok", "ok"]
    env = Writer()
    with pytest.raises(DivergenceError, match=r"call 3 differs at input\.input: recorded 1, now 2"):
        await resume(play, program, whole.run_id, env, left, with_default(2), in_flight="retry")
    assert env.calls == []
    result = await resume(play, program, whole.run_id, env, left, with_default(1), in_flight="retry")
    assert result.output == [{"id": 1}]
    assert env.calls == ["tool write"]


@session
async def test_a_recorded_call_that_is_not_made_any_more(play: Play) -> None:
    """JSR-106 also when the program ends without it."""
    program = "function run(input) { for (let n = 0; n < input.id; n++) tool('write', { id: n }); return 1 }"
    whole, journal = await recorded(play, program, {}, parts=with_default(3))
    env = Writer()
    left = journal.at(5)
    with pytest.raises(DivergenceError, match="call 2 is missing"):
        await resume(play, program, whole.run_id, env, left, parts=with_default(1))
    assert env.calls == []
    assert (await left.read(whole.run_id)).run.attempt == 1


@session
async def test_a_damaged_record_is_refused(play: Play) -> None:
    whole, journal = await recorded(play, SYNC, {"text": "abc"})
    record = await journal.at(3).read(whole.run_id)
    broken = replace(record, run=replace(record.run, fuel='{"steps":-1}'))
    async with play.runner(SYNC, **PARTS) as runner:
        with pytest.raises(JsrunError, match="fuel"):
            await runner.replay_record(broken)
