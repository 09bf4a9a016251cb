"""Running made programs and bundles of yours, on every engine, and what holds of every run."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import cycle
from typing import Any, Final

import ptc
from fuzz.engines import WAYS
from jsrun import (
    Bundle,
    CallbackEnv,
    DoorFailure,
    Env,
    Fuel,
    MemoryJournal,
    Runner,
    RunRecord,
    RunResult,
    ToolResult,
)
from jsrun.env import ToolBelt
from jsrun.errors import BundleError, InputError
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
    """Runtimes of the engines that are asked for, each of `fuzz.engines`, and the loop they live on."""

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

    def run_bundle(self, bundle: Bundle, input: object, env: Env) -> Ran | None:
        """Run a bundle of yours against an Env of yours; None if the bundle does not take the input."""
        return self._loop.run(self._bundle(bundle, input, env, bundle.manifest.engine))

    def run_program(self, program: str, env: Env, engine: str = "quickjs") -> Ran | None:
        """Run a made program against an Env of yours; None if the checker or the engine refuses it."""
        try:
            return self._loop.run(self._bundle(made(engine, program), {"n": 1}, env, engine))
        except BundleError:
            return None

    def call(self, belt: ToolBelt, name: str, arguments: dict[str, Json]) -> ToolResult | None:
        """Call a tool of yours; None if it fails in a way that is meant for the program."""

        async def once() -> ToolResult | None:
            async with asyncio.timeout(PATIENCE_S):
                try:
                    return await belt.call(name, arguments)
                except DoorFailure:
                    return None

        return self._loop.run(once())

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
        name, process = WAYS[engine]
        runtime = ptc.Runtime(engine=name, process=process, spares=1)
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
        try:
            ran = await self._bundle(bundle, {"n": 1}, env, engine)
        except BundleError:  # the engine refuses what the checker's parser takes
            return None
        return None if ran is None else replace(ran, asked=tuple(asked))

    async def _bundle(self, bundle: Bundle, input: object, env: Env, engine: str) -> Ran | None:
        journal = MemoryJournal()
        async with Runner(bundle, runtime=self.runtimes[engine], parallel=1) as runner:
            try:
                async with asyncio.timeout(PATIENCE_S):
                    result = await runner.run(
                        input, env, fuel=FUEL, journal=journal, seed="seed", started_at="2026-01-01T00:00:00Z"
                    )
            except InputError:
                return None
            record = await journal.read(result.run_id)
        return Ran(result, record, ())


def answering(answers: Sequence[Json]) -> CallbackEnv:
    """An Env that answers every call with the next of these, over and over; None is a call that fails.

    For a bundle that must stand whatever models, tools and people say.
    """
    rest = cycle(answers or [None])

    def answer() -> Json:
        value = next(rest)
        if value is None:
            raise DoorFailure("the answer to this call is a failure")
        return value

    return CallbackEnv(
        ai=lambda prompt, input, options: answer(),
        tool=lambda name, arguments: answer(),
        ask=lambda question, options: str(answer()),
        remember=lambda note: None,
        recall=lambda query: [str(answer())],
        log=lambda status: None,
    )


def made(engine: str, program: str) -> Bundle:
    """The bundle of a made program. BundleError if the checker refuses it."""
    manifest: dict[str, Json] = {"name": "made", "purpose": "Fuzz.", "whitelist": ["echo", "fail"]}
    return Bundle(manifest | {"engine": WAYS[engine][0]}, program)


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
    # Not one by one: a blank status is answered, and has no row.
    answered = [row.answered for row in rows if row.answered is not None]
    assert len(set(answered)) == len(answered) and all(number >= 1 for number in answered), answered
    total = record.spend()
    assert total == result.spend, (total, result.spend)
    calls = sum(row.step for row in rows)  # what the runtime writes of its own, such as of a guard, is no step
    assert result.calls == calls, (result.calls, calls)
    steps = FUEL.steps or 0
    assert calls <= steps, f"{calls} calls with {steps} steps"
