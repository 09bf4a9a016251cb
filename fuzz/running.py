"""Running made programs as bundles, on every engine, against one host that notes what it is asked."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import ptc
from jsrun import Bundle, CallbackEnv, DoorFailure, Fuel, MemoryJournal, Runner, RunRecord, RunResult
from jsrun.errors import BundleError
from ptc.errors import UsageError
from ptc.wire import Json

# What a made program may take, in seconds, with room for a machine that is busy; its own limits are far lower.
PATIENCE_S: Final = 30.0
FUEL: Final = Fuel(steps=60, wall=8.0, compute=3.0)


@dataclass(frozen=True, slots=True)
class Ran:
    """One run: its result, its record, and what the host's tools were asked, in order."""

    result: RunResult
    record: RunRecord
    asked: tuple[Any, ...]


class Ground:
    """Runtimes of every engine there is, and the loop they live on."""

    def __init__(self, engines: tuple[str, ...]) -> None:
        self._loop = asyncio.Runner()
        self.runtimes: dict[str, ptc.Runtime] = {}
        for engine in engines:
            try:
                self.runtimes[engine] = self._loop.run(self._open(engine))
            except UsageError:  # not installed
                continue

    def run(self, engine: str, program: str) -> Ran | None:
        """Run a program on an engine; None if the checker refuses it."""
        return self._loop.run(self._run(engine, program))

    def replay(self, engine: str, program: str, record: RunRecord) -> str:
        """How a replay of the record differs; empty if it does not."""

        async def again() -> str:
            async with Runner(made(engine, program), runtime=self.runtimes[engine]) as runner:
                report = await runner.replay_record(record)
                return "" if report.same else str(report.difference)

        return self._loop.run(again())

    def close(self) -> None:
        """End every process."""
        for runtime in self.runtimes.values():
            self._loop.run(runtime.aclose())
        self._loop.close()

    async def _open(self, engine: str) -> ptc.Runtime:
        runtime = ptc.Runtime(engine=engine, spares=1)
        await runtime.run("return 1", form="async")
        return runtime

    async def _run(self, engine: str, program: str) -> Ran | None:
        try:
            bundle = made(engine, program)
        except BundleError:
            return None
        asked: list[Any] = []
        notes: list[str] = []

        def echo(arguments: dict[str, Any]) -> Any:
            asked.append(arguments)
            return arguments

        def fail(arguments: dict[str, Any]) -> Any:
            asked.append(arguments)
            raise DoorFailure("it fails")

        env = CallbackEnv(
            tools={"echo": echo, "fail": fail},
            remember=notes.append,
            recall=lambda query: notes,
            log=lambda status: None,
        )
        journal = MemoryJournal()
        async with Runner(bundle, runtime=self.runtimes[engine], parallel=1) as runner:
            async with asyncio.timeout(PATIENCE_S):
                result = await runner.run(
                    {"n": 1}, env, fuel=FUEL, journal=journal, seed="seed", started_at="2026-01-01T00:00:00Z"
                )
            record = await journal.read(result.run_id)
        return Ran(result, record, tuple(asked))


def made(engine: str, program: str) -> Bundle:
    """The bundle of a made program. BundleError if the checker refuses it."""
    manifest: dict[str, Json] = {"name": "made", "purpose": "Fuzz.", "whitelist": ["echo", "fail"], "engine": engine}
    return Bundle(manifest, program)


@contextmanager
def ground(*engines: str) -> Iterator[Ground]:
    """A ground, closed afterwards."""
    opened = Ground(engines)
    try:
        yield opened
    finally:
        opened.close()


def check_ran(ran: Ran) -> None:
    """What holds of every run, whatever the program did."""
    result, record = ran.result, ran.record
    assert result.reason != "crashed", result.sentence
    assert record.run.status == result.status, (record.run.status, result.status)
    rows = record.entries
    assert [row.seq for row in rows] == list(range(1, len(rows) + 1)), "the rows are not numbered one by one"
    assert all(row.state != "open" for row in rows), "a row was left open"
    answered = sorted(row.answered for row in rows if row.answered is not None)
    assert answered == list(range(1, len(answered) + 1)), "the answers are not numbered one by one"
    total = record.spend()
    assert total == result.spend, (total, result.spend)
    assert result.calls == len(rows), (result.calls, len(rows))
    steps = FUEL.steps or 0
    assert len(rows) <= steps + 1, f"{len(rows)} calls with {steps} steps"
