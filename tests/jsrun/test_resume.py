"""Resume: an interrupted run goes on where its record ends, and nothing that was done is done again."""

import asyncio
import inspect
import json
from typing import Any

import pytest

from jsrun import (
    Answer,
    AskAnswer,
    Fuel,
    InFlightError,
    JournalError,
    Memory,
    MemoryJournal,
    Runner,
    RunRow,
    SqliteJournal,
)
from jsrun.journal import EntryRow
from jsrun.testing import FakeLook, FakeMemory
from ptc.wire import Json
from tests.jsrun.playing import Play
from tests.jsrun.recording import (
    ASYNC,
    PARALLEL,
    PARTS,
    SYNC,
    Doer,
    Snapshots,
    Writer,
    in_flight,
    noted,
    recorded,
    resume,
)

session = pytest.mark.asyncio(loop_scope="session")


@session
@pytest.mark.parametrize("program", [SYNC, ASYNC, PARALLEL], ids=["sync", "async", "parallel"])
async def test_a_run_that_stopped_anywhere_comes_to_the_same_output(play: Play, program: str) -> None:
    """JSR-102 for every state a journal was in: only what is missing is made, and nothing is done twice."""
    first = Writer()
    whole, journal = await recorded(play, program, {"text": "abc"}, first)
    assert whole.status == "finished", whole.sentence
    assert journal.writes > 12
    runner = play.runner(program, **PARTS)
    for write in range(1, journal.writes):
        left = journal.at(write)
        before = await left.read(whole.run_id)
        flying = [row for row in in_flight(before.entries) if row.call in ("tool", "remember")]
        if flying:
            with pytest.raises(InFlightError) as caught:
                await runner.resume(whole.run_id, Writer(), journal=left)
            assert [call.key for call in caught.value.calls] == [row.key for row in flying]
            assert await left.read(whole.run_id) == before
        answered = {row.seq for row in before.entries if row.state in ("ok", "err", "refused")}
        env = Writer(noted(before.entries))
        result = await runner.resume(whole.run_id, env, "retry", journal=left)
        assert (result.status, result.output) == ("finished", whole.output)
        assert result.calls == whole.calls
        made = sorted(
            f"{row.call} {row.note if row.call == 'log' else row.ref}".rstrip()
            for row in (await journal.read(whole.run_id)).entries
            if row.seq not in answered and row.state != "refused"
        )
        if program != PARALLEL:  # else the seq of a call may be another one after the resume
            assert sorted(env.calls) == made
        record = await left.read(whole.run_id)
        assert record.run.attempt == 2
        assert record.run.status == "finished"
        assert {row.seq for row in record.entries if row.attempt == 2}.isdisjoint(answered)
        assert result.spend == record.spend()
        report = await runner.replay(whole.run_id, left)
        assert report.same, report.difference
        assert report.result.output == result.output
    await runner.aclose()


@session
async def test_a_run_that_was_resumed_and_stopped_is_resumed_again(play: Play) -> None:
    """JSR-102 JSR-096 answers of every attempt are fed; the ledger is the sum of all of them."""
    whole, journal = await recorded(play, ASYNC, {"text": "abc"})
    attempts = set()
    async with play.runner(ASYNC, **PARTS) as runner:

        async def finish(left: Snapshots) -> None:
            env = Writer(noted((await left.read(whole.run_id)).current()))
            result = await runner.resume(whole.run_id, env, "retry", journal=left)
            assert result.output == whole.output
            record = await left.read(whole.run_id)
            assert result.spend == record.spend()
            attempts.add(record.run.attempt)

        for write in (3, 8, 13):
            second = journal.at(write)
            await finish(second)
            for later in range(1, second.writes, 2):
                third = second.at(later)
                await finish(third)
                await finish(third.at(third.writes // 2))
    assert attempts == {2, 3, 4}


@session
async def test_a_run_stopped_on_steps_goes_on_with_more(play: Play) -> None:
    """JSR-105 steps go on counting; with as many as before it ends at the same place again."""
    program = "function run() { for (let n = 0; n < 6; n++) tool('write', { id: n }); return 'done' }"
    first = Writer()
    whole, journal = await recorded(play, program, env=first, parts={**PARTS, "fuel": {"steps": 4}})
    assert (whole.reason, whole.calls) == ("steps", 4)
    parts = {**PARTS, "fuel": {"steps": 4}}
    env = Writer()
    again = await resume(play, program, whole.run_id, env, journal, parts=parts)
    assert (again.reason, again.calls, env.calls) == ("steps", 4, [])
    more = await resume(play, program, whole.run_id, env, journal, parts=parts, fuel=Fuel(steps=6))
    assert (more.status, more.calls, more.usage.steps) == ("finished", 6, 6)
    assert [*first.written, *env.written] == [0, 1, 2, 3, 4, 5]
    assert (await journal.read(whole.run_id)).run.attempt == 3


@session
async def test_a_run_stopped_on_tokens_goes_on_with_more(play: Play) -> None:
    """JSR-105 JSR-096 tokens go on counting; the ledger has all attempts."""
    program = "function run() { for (let n = 0; n < 5; n++) ai('sum', n); return 'done' }"
    parts = {**PARTS, "whitelist": []}
    whole, journal = await recorded(play, program, parts=parts, fuel=Fuel(tokens=30))
    assert (whole.reason, whole.spend.tokens) == ("tokens", 30)
    env = Writer()
    again = await resume(play, program, whole.run_id, env, journal, parts=parts)
    assert (again.reason, again.spend.tokens, env.calls) == ("tokens", 30, [])
    more = await resume(play, program, whole.run_id, env, journal, parts=parts, fuel=Fuel(tokens=60))
    assert (more.reason, more.spend.tokens, len(env.calls)) == ("tokens", 60, 2)
    rest = await resume(play, program, whole.run_id, env, journal, parts=parts, fuel=Fuel(tokens=1000))
    assert (rest.status, rest.spend.tokens, len(env.calls)) == ("finished", 75, 3)
    assert rest.spend == (await journal.read(whole.run_id)).spend()


@session
async def test_an_unanswered_question_is_asked_again(play: Play) -> None:
    """JSR-105"""
    program = "function run() { const a = ask('First?'); const b = ask('Second?'); return [a, b] }"
    env = Writer()

    class Leaves(Writer):
        async def ask(self, question: str, _options: Any) -> AskAnswer:
            return AskAnswer("a") if question == "First?" else AskAnswer(unanswered=True)

    whole, journal = await recorded(play, program, env=Leaves(), parts={})
    assert whole.reason == "unanswered"
    result = await resume(play, program, whole.run_id, env, journal, parts={})
    assert result.output == ["a", "yes"]
    assert env.calls == ["ask Second?"]


@session
@pytest.mark.parametrize("reason", ["wall", "compute", "cancelled", "crashed"])
async def test_time_starts_anew(play: Play, reason: str) -> None:
    """JSR-105 a run stopped by a limit of its process, by somebody or by an accident is taken up as well."""
    program = """
    function run() {
      const { busy } = tool("write", { id: 1 });
      for (let end = 0; busy && end < 1e12; end++);
      const { again } = tool("write", { id: 2 });
      return again;
    }
    """

    class Env(Writer):
        async def write(self, args: dict[str, Json]) -> Json:
            self.written.append(args["id"])
            if args["id"] == 1:
                return {"busy": reason == "compute"}
            if reason in ("wall", "cancelled"):
                waiting.set()
                await asyncio.sleep(60)
            if reason == "crashed":
                journal.broken = True
            return {}

    class Breaking(MemoryJournal):
        broken = False

        async def close(self, row: EntryRow) -> None:
            if self.broken:
                self.broken = False
                raise JournalError("the disk is full")
            await super().close(row)

    journal = Breaking()
    waiting = asyncio.Event()
    fuel = Fuel(wall=0.3) if reason == "wall" else Fuel(compute=0.3)
    async with play.runner(program, **PARTS) as runner:
        run = runner.start(None, Env(), journal=journal, fuel=fuel)
        if reason == "cancelled":
            await waiting.wait()
            run.cancel()
        first = await run.result()
        assert first.reason == reason

        class Second(Writer):
            async def write(self, args: dict[str, Json]) -> Json:
                await super().write(args)
                await asyncio.sleep(0.2)
                return {"again": "yes"}

        env = Second()
        more = Fuel(wall=30, compute=0.3)
        result = await runner.resume(first.run_id, env, "retry", more, journal=journal)
    if reason == "compute":
        assert result.reason == "compute"  # it begins at the beginning, so it runs into the same loop
        assert env.written == []
    else:
        assert result.output == "yes"
        assert env.written == [2]


@session
async def test_free_guards_are_not_asked_again(play: Play) -> None:
    """JSR-102 what has passed has passed; a run that died before anything was recorded asks them."""
    parts = {**PARTS, "guards": [{"kind": "file", "file": "a.md"}, {"kind": "judgement", "question": "Is it?"}]}

    class Judge(Writer):
        async def ai(self, *args: Any) -> Any:
            await super().ai(*args)
            return Answer("yes", spend=(await super().ai(*args)).spend)

    program = "function run() { return tool('write', { id: 1 }) }"
    whole, journal = await recorded(play, program, env=Judge(), parts=parts, look=FakeLook(["a.md"]))
    assert whole.status == "finished"
    env = Judge()
    result = await resume(play, program, whole.run_id, env, journal.at(3), parts=parts, look=FakeLook([]))
    assert result.status == "finished"
    assert env.calls == ["tool write"]
    result = await resume(play, program, whole.run_id, env, journal.at(1), parts=parts, look=FakeLook([]))
    assert result.reason == "guard"
    fallen, journal = await recorded(play, program, env=Judge(), parts=parts, look=FakeLook([]))
    assert fallen.reason == "guard"
    late = await resume(play, program, fallen.run_id, env, journal.at(2), parts=parts, look=FakeLook(["a.md"]))
    assert (late.reason, late.fell_back) == ("guard", fallen.fell_back)


@session
async def test_the_clock_goes_on_from_the_record(play: Play) -> None:
    """JSR-099 it never goes back, and the time in which nobody worked on the run does not count."""
    program = """
    function run() {
      const times = [Date.now()];
      for (let n = 0; n < 4; n++) { ai("sum", n); times.push(Date.now()); }
      return times;
    }
    """

    class Slow(Writer):
        async def ai(self, *args: Any) -> Any:
            await asyncio.sleep(0.03)
            return await super().ai(*args)

    parts = {**PARTS, "whitelist": []}
    started = "2020-01-01T00:00:00Z"
    whole, journal = await recorded(play, program, env=Slow(), parts=parts, started_at=started)
    result = await resume(play, program, whole.run_id, Slow(), journal.at(6), parts=parts)
    before: Any = whole.output
    after: Any = result.output
    assert after[:3] == before[:3]
    assert after == sorted(after)
    assert after[2] + 25 <= after[3]
    assert after[4] - after[0] < 30_000


@session
async def test_a_resumed_run_makes_no_more_calls_at_once(play: Play) -> None:
    """JSR-102 JSR-067 the record may hold many calls in flight; they are made again in order, a few at once."""
    program = """
    async function run() {
      const parts = await Promise.all(Array.from({ length: 30 }, (_, n) => ai("sum", n)));
      return parts;
    }
    """
    at_work, most, order = 0, 0, []

    class Counting(Doer):
        async def ai(self, prompt: Any, input: Json, options: Any) -> Any:
            nonlocal at_work, most
            at_work += 1
            most = max(most, at_work)
            order.append(input)
            await asyncio.sleep(0.002)
            at_work -= 1
            return await super().ai(prompt, input, options)

    parts = {"prompts": PARTS["prompts"]}
    whole, journal = await recorded(play, program, parts=parts)
    left = journal.at(20)
    answered = [row.seq for row in (await left.read(whole.run_id)).entries if row.state == "ok"]
    async with play.runner(program, options={"parallel": 3}, **parts) as runner:
        result = await runner.resume(whole.run_id, Counting(), journal=left)
    assert result.output == list(range(30))
    assert most == 3
    assert order == [n for n in range(30) if n + 1 not in answered]


@session
async def test_events_of_a_resumed_run_are_those_of_live_calls(play: Play) -> None:
    """JSR-102 whoever watches sees what is made."""
    whole, journal = await recorded(play, SYNC, {"text": "abc"})
    events: list[Any] = []
    async with play.runner(SYNC, **PARTS) as runner:
        await runner.resume(whole.run_id, Writer(), journal=journal.at(5), on_event=events.append)
    assert events[0].kind == "started"
    assert events[-1].kind == "ended"
    opened = [event.seq for event in events if event.kind == "opened"]
    assert opened == list(range(3, whole.calls + 1))


@session
async def test_cancelling_a_resume(play: Play) -> None:
    """JSR-092 JSR-104 it is closed as cancelled, and can be taken up again."""
    whole, journal = await recorded(play, SYNC, {"text": "abc"})
    left = journal.at(3)
    entered = asyncio.Event()

    class Slow(Writer):
        async def write(self, args: dict[str, Json]) -> Json:
            entered.set()
            await asyncio.sleep(60)
            return args

    async with play.runner(SYNC, **PARTS) as runner:
        task = asyncio.create_task(runner.resume(whole.run_id, Slow(), journal=left))
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        record = await left.read(whole.run_id)
        assert (record.run.attempt, record.run.reason) == (2, "cancelled")
        run = await runner.start_resume(whole.run_id, Writer(), "retry", journal=left)
        assert (await run.result()).output == whole.output


@session
async def test_a_journal_that_cannot_be_written_ends_a_resume(play: Play) -> None:
    """JSR-098 before anything is done."""
    whole, journal = await recorded(play, SYNC, {"text": "abc"})
    left = journal.at(3)

    class Full(MemoryJournal):
        async def open_run(self, row: RunRow) -> None:
            raise JournalError("the disk is full")

    full = Full()
    full.__dict__.update(left.__dict__)
    env = Writer()
    result = await resume(play, SYNC, whole.run_id, env, full)
    assert (result.reason, env.calls) == ("crashed", [])
    assert "the disk is full" in result.incomplete


@session
async def test_the_bundles_memory_serves_a_resumed_run(play: Play) -> None:
    """JSR-065 notes go where they went before."""
    memory: Memory = FakeMemory()
    program = "function run() { remember('one'); remember('two'); return recall('').length }"
    whole, journal = await recorded(play, program, parts={"memory": memory})
    assert whole.output == 2
    again = FakeMemory(["one"])
    result = await resume(play, program, whole.run_id, Writer(), journal.at(3), parts={"memory": again})
    assert result.output == 2


@session
async def test_a_run_in_a_file_is_resumed_by_another_runner(play: Play, tmp_path: Any) -> None:
    """JSR-102 with SQLite: the claim, the rows of the new attempt, and the ending."""
    path = tmp_path / "journal.db"
    async with SqliteJournal(path) as journal, play.runner(SYNC, **PARTS) as runner:
        first = await runner.run({"text": "abc"}, Writer(), journal=journal, fuel=Fuel(steps=4))
        assert first.reason == "steps"
    async with SqliteJournal(path) as journal, play.runner(SYNC, options={"journal": journal}, **PARTS) as runner:
        result = await runner.resume(first.run_id, Writer(), fuel=Fuel(steps=50))
        assert result.status == "finished"
        record = await journal.read(first.run_id)
    assert record.run.attempt == 2
    assert json.loads(record.run.result or "")["output"] == result.output
    assert [row.attempt for row in record.current()] == [1] * 4 + [2] * (len(record.current()) - 4)


def test_runner_has_a_parameter_for_everything() -> None:
    """The documented order of the arguments."""
    assert list(inspect.signature(Runner.resume).parameters)[1:6] == ["run_id", "env", "in_flight", "fuel", "force"]
