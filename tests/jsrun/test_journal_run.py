"""The journal of a run: written before the host is called, closed before the program goes on, summing to the ledger."""

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jsrun import (
    AIOptions,
    Answer,
    CallbackEnv,
    EntryRow,
    Fuel,
    JournalError,
    MemoryJournal,
    Prompt,
    RunRow,
    Spend,
    SqliteJournal,
)
from jsrun.canonical import input_hash
from jsrun.journal import export_rows
from ptc.wire import Json
from tests.jsrun.playing import Play, echo, playing_env

session = pytest.mark.asyncio(loop_scope="session")


def rows_of(path: Path) -> list[tuple[Any, ...]]:
    """The rows as another connection sees them."""
    with sqlite3.connect(path) as connection:
        return connection.execute("SELECT call, ref, state, output FROM entry ORDER BY seq").fetchall()


@session
async def test_rows_are_written_ahead(play: Play, tmp_path: Path) -> None:
    """JSR-094 the opening row can be read inside the host function, the closing row before the program goes on."""
    path = tmp_path / "journal.db"
    seen: list[list[tuple[Any, ...]]] = []

    async def look(_args: dict[str, Json]) -> Json:
        seen.append(rows_of(path))
        return {"ok": 1}

    program = "function run() { tool('look', {n: 1}); tool('look', {n: 2}); return 1 }"
    async with SqliteJournal(path) as journal:
        result = await play(program, tools={"look": look}, run={"journal": journal})
        record = await journal.read(result.run_id)
    closed = ("tool", "look", "ok", '{"ok":1}')
    opened = ("tool", "look", "open", None)
    assert seen == [[opened], [closed, opened]]
    run = record.run
    assert (run.name, run.form, run.status, run.attempt) == ("test", "sync", "finished", 1)
    assert run.engine.startswith(f"{play.runtime.engine} ")
    assert json.loads(run.result or "") == result.to_json()
    assert json.loads(run.fuel)["steps"] == 500
    assert run.bundle_hash.startswith("sha256:")
    assert record.entries[0].input_hash == input_hash({"n": 1})
    assert all(row.elapsed_ms is not None and row.clock_ms is not None for row in record.entries)


HOST = """
import asyncio, os, sys
from jsrun import Bundle, CallbackEnv, Runner, SqliteJournal

async def die(args):
    if args["n"] == 3:
        print("here", flush=True)
        await asyncio.Event().wait()
    return args["n"]

async def main():
    bundle = Bundle({"name": "x", "purpose": "Test.", "whitelist": ["die"]},
                    "function run() { for (let n = 1;; n++) tool('die', {n}) }")
    async with SqliteJournal(sys.argv[1]) as journal, Runner(bundle, journal=journal) as runner:
        await runner.run(None, CallbackEnv(tools={"die": die}), run_id="killed")

asyncio.run(main())
"""


def test_a_killed_host_leaves_the_call_open(tmp_path: Path) -> None:
    """JSR-095 and all earlier ones complete."""
    path = tmp_path / "journal.db"
    with subprocess.Popen([sys.executable, "-c", HOST, str(path)], stdout=subprocess.PIPE) as host:
        assert host.stdout is not None
        assert host.stdout.readline() == b"here\n"
        host.send_signal(signal.SIGKILL)
    assert rows_of(path) == [
        ("tool", "die", "ok", "1"), ("tool", "die", "ok", "2"), ("tool", "die", "open", None),
    ]  # fmt: skip
    record = asyncio.run(SqliteJournal(path).read("killed"))
    assert (record.run.status, record.run.ended_at) == (None, None)


@session
async def test_rows_sum_to_the_spend(play: Play, tmp_path: Path) -> None:
    """JSR-096 with failures, a judgement and parallel calls; two models make the name empty for good."""
    count = 0

    async def ai(prompt: Prompt, input: Json, _options: AIOptions) -> Answer:
        nonlocal count
        count += 1
        spend = Spend(model="big" if count == 2 else "small", calls=1, input=count, output=10, cost_usd=0.1 * count)
        await asyncio.sleep(0.001 * (20 - count))
        if input == 3:
            return Answer(json={"no": 1}, spend=spend)
        return Answer("yes", spend=spend)

    program = """
    async function run() {
      const calls = [1, 2, 3, 4, 5].map(n => ai('p', n, n === 3 ? {schema: {required: ['x']}} : null))
      return (await Promise.allSettled(calls)).map(call => call.status)
    }"""
    guards = [{"kind": "judgement", "question": "Go?"}]
    async with SqliteJournal(tmp_path / "journal.db") as journal:
        result = await play(
            program, env=CallbackEnv(ai=ai), prompts={"p": "Hello"}, guards=guards, run={"journal": journal}
        )
        record = await journal.read(result.run_id)
    assert result.output == ["fulfilled", "fulfilled", "rejected", "fulfilled", "fulfilled"]
    assert record.spend() == result.spend
    assert (result.spend.calls, result.spend.input, result.spend.output) == (6, 21, 60)
    assert (result.spend.model, result.spend.mixed) == ("", True)
    assert sorted(row.answered or 0 for row in record.entries) == [1, 2, 3, 4, 5, 6]


class JournalEnv(CallbackEnv, MemoryJournal):
    """An Env that is a journal too."""

    def __init__(self) -> None:
        async def nothing(_text: str) -> None:
            return None

        CallbackEnv.__init__(self, log=nothing, remember=nothing)
        MemoryJournal.__init__(self)

    # The door `recall`, `log` and the journal's methods have different names, so nothing else is in the way.


@session
async def test_one_recorder_a_run(play: Play) -> None:
    """JSR-097 the run's journal, else the runner's, else the Env; each call is written once."""
    program = "function run() { log('x'); remember('y'); return 1 }"

    async def written(journal: MemoryJournal) -> int:
        return sum([len((await journal.read(run.run_id)).entries) for run in await journal.runs()])

    env, own, runners = JournalEnv(), MemoryJournal(), MemoryJournal()
    async with play.runner(program, options={"journal": runners}) as runner:
        await runner.run(None, env, journal=own)
        assert (await written(own), await written(runners), await written(env)) == (2, 0, 0)
        await runner.run(None, env)
        assert (await written(own), await written(runners), await written(env)) == (2, 2, 0)
    async with play.runner(program) as runner:
        await runner.run(None, env)
        assert await written(env) == 2
        run = runner.start(None, playing_env())
        assert (await run.result()).output == 1
        assert isinstance(run.journal, MemoryJournal)
        assert await written(run.journal) == 2


class Failing(MemoryJournal):
    """A journal that cannot be written at one point."""

    def __init__(self, at: str) -> None:
        super().__init__()
        self.at = at

    async def open_run(self, row: RunRow) -> None:
        self._fail("open_run")
        await super().open_run(row)

    async def open(self, row: EntryRow) -> None:
        self._fail("open")
        await super().open(row)

    async def close(self, row: EntryRow) -> None:
        self._fail("close")
        await super().close(row)

    async def end_run(self, row: RunRow) -> None:
        self._fail("end_run")
        await super().end_run(row)

    def _fail(self, at: str) -> None:
        if at == self.at:
            raise JournalError("the disk is full")


@pytest.mark.parametrize(("at", "calls"), [("open_run", 0), ("open", 0), ("close", 1), ("end_run", 1)])
@session
async def test_a_journal_that_cannot_be_written(play: Play, at: str, calls: int) -> None:
    """JSR-098 stops the run as `crashed`, at the opening row before the host function."""
    called: list[Json] = []

    async def take(args: dict[str, Json]) -> Json:
        called.append(args)
        return None

    program = "function run() { try { tool('take') } catch {} return 1 }"
    result = await play(program, tools={"take": take}, run={"journal": Failing(at)})
    assert (result.status, result.reason, result.output) == ("incomplete", "crashed", None)
    assert result.sentence == "The journal cannot be written: the disk is full"
    assert len(called) == calls


@session
async def test_a_refusal_is_one_row(play: Play) -> None:
    """Section 13: refused calls are written once, complete."""
    journal = MemoryJournal()
    program = "function run(no) { try { tool(no) } catch {} try { tool('echo', {x: NaN}) } catch {} return 1 }"
    result = await play(program, "no", tools={"echo": echo}, run={"journal": journal})
    rows = (await journal.read(result.run_id)).entries
    assert [(row.ref, row.state, row.answered, row.input, row.output) for row in rows] == [
        ("no", "refused", 1, None, None), ("echo", "refused", 2, None, None),
    ]  # fmt: skip
    assert rows[1].err == "args.x: NaN is not JSON"


@session
async def test_exported_rows_have_the_original_keys(play: Play) -> None:
    """Section 13"""
    journal = MemoryJournal()
    result = await play(
        "function run() { return tool('echo', {a: 1}) }", tools={"echo": echo}, run={"journal": journal}
    )
    (line,) = export_rows(await journal.read(result.run_id))
    row = json.loads(line)
    assert (row["seq"], row["call"], row["ref"], row["input"], row["output"]) == (1, "tool", "echo", {"a": 1}, {"a": 1})
    assert isinstance(row["elapsed"], int)


@session
async def test_very_many_calls_leave_memory_bounded(play: Play) -> None:
    """JSR-107 100,000 cheap calls without a journal; the first rows and all totals are kept."""
    resident = _resident()
    program = "function run(n) { for (let i = 0; i < n; i++) log(i); return n }"
    async with play.runner(program) as runner:
        run = runner.start(100_000, playing_env(), fuel=Fuel(steps=100_000, wall=600, compute=600))
        result = await run.result()
    assert result.output == 100_000, result.sentence
    assert (result.calls, result.report) == (100_000, "99999")
    assert isinstance(run.journal, MemoryJournal)
    assert len((await run.journal.read(run.run_id)).entries) == 10_000
    assert run.journal.calls(run.run_id) == 100_000
    if resident is not None:
        assert (_resident() or 0) - resident < 150 * 2**20


def _resident() -> int | None:
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None


ZONE = """
import asyncio, json
from jsrun import Bundle, CallbackEnv, Runner

async def main():
    bundle = Bundle({"name": "x", "purpose": "Test."}, '''
function run() {
  const day = new Date(2020, 5, 1, 12)
  return [String(day), day.toLocaleString(), day.getTimezoneOffset(), (1234567.891).toLocaleString(), Date.now(),
          Math.random(), new Date().toString(), new Date('2020-06-01T00:00').getTime()]
}''')
    async with Runner(bundle) as runner:
        result = await runner.run(None, CallbackEnv(), seed="x", started_at="2026-01-31T12:00:00Z")
    print(json.dumps(result.output))

asyncio.run(main())
"""


def test_nothing_depends_on_the_machines_zone_or_locale() -> None:
    """JSR-099 equal under TZ=Asia/Tokyo and UTC."""
    outputs = set()
    for zone, locale in (("UTC", "C"), ("Asia/Tokyo", "de_DE.UTF-8")):
        environment = {**os.environ, "TZ": zone, "LC_ALL": locale, "LANG": locale}
        done = subprocess.run([sys.executable, "-c", ZONE], env=environment, capture_output=True, text=True, check=True)
        outputs.add(done.stdout)
    assert len(outputs) == 1
    assert json.loads(outputs.pop())[2] == 0
