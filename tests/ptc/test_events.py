"""Watching a run: events and log entries, in order, as they happen."""

import asyncio
from typing import Any

import pytest

import ptc
from ptc._run import Run
from tests.ptc.processes import until
from tests.ptc.programs import Tables, echo, for_ever, kind

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_events_come_in_order(runtime: ptc.Runtime) -> None:
    """PTC-124 events come in the stated order, `CallStarted` before the function."""
    happened: list[Any] = []

    def f(value: Any) -> Any:
        happened.append("function")
        if value == "bad":
            raise ptc.CallError("no")
        return value

    code = "console.log('a'); t.f(1); console.warn('b'); try { t.f('bad') } catch {} return 1"
    image = await runtime.load(code, {"t": {"f": f}})
    outcome = await image.run(on_event=happened.append, on_log=lambda entry: happened.append(entry.text))
    elapsed = [event.elapsed for event in happened if isinstance(event, ptc.CallFinished)]
    assert all(0 <= seconds < 5 for seconds in elapsed)
    assert happened == [
        ptc.RunStarted(),
        ptc.Logged(ptc.LogEntry("a")),
        "a",
        ptc.CallStarted(1, "t", "f"),
        "function",
        ptc.CallFinished(1, True, elapsed[0]),
        ptc.Logged(ptc.LogEntry("b", "warn")),
        "b",
        ptc.CallStarted(2, "t", "f"),
        "function",
        ptc.CallFinished(2, False, elapsed[1], "no"),
        ptc.RunEnded(outcome),
    ]
    await image.unload()


async def test_a_callback_that_raises_changes_nothing(runtime: ptc.Runtime, caplog: pytest.LogCaptureFixture) -> None:
    """PTC-124 a raising callback is logged and changes nothing."""

    def fail(_what: object) -> None:
        raise ValueError("observer")

    outcome = await runtime.run("console.log('a'); return t.f(1)", echo(), on_event=fail, on_log=fail)
    assert outcome.value == 1
    assert len(outcome.logs) == 1
    assert "observer" in caplog.text


async def test_entries_are_seen_while_the_program_runs(runtime: ptc.Runtime) -> None:
    """PTC-101 entries keep their order, reach `on_log` while the program runs, and survive the kill."""
    seen: list[str] = []
    image = await runtime.load("for (let i = 0; i < 500; i++) console.log('n', i); console.error('last'); for (;;);")
    run = image.start(on_log=lambda entry: seen.append(entry.text))
    await until(lambda: len(seen) == 501, "all entries are here")
    run.abort()
    outcome = await run.outcome()
    assert kind(outcome) == "abort"
    assert [entry.text for entry in outcome.logs] == seen == [*(f"n {i}" for i in range(500)), "last"]
    assert outcome.logs[-1].level == "error"
    await image.unload()


async def test_an_entry_right_before_a_loop_survives(runtime: ptc.Runtime) -> None:
    """PTC-101 an entry written just before a busy loop survives the kill."""
    outcome = await runtime.run("console.log('here'); for (;;);", limits=ptc.Limits(cpu=0.05))
    assert kind(outcome) == "compute-limit"
    assert outcome.logs == (ptc.LogEntry("here"),)


@pytest.mark.parametrize(
    ("code", "how"),
    [
        ("console.log('a'); await Promise.all([t.f(1), t.f(2), t.bad(3).catch(() => 0)]); return 1", None),
        ("t.f(1); console.log('x'); throw new Error('no')", "exception"),
        ("for (let i = 0; ; i++) { await t.f(i); console.log(i); }", "call-limit"),
        ("for (let i = 0; ; i++) { console.log('x'.repeat(500)); await t.f(i); }", "output-limit"),
        ("t.slow(1); t.f(1); console.log('x'); await t.slow(2)", "timeout"),
        ("t.f(1); await t.f(2); return -0", "invalid-output"),
    ],
)
async def test_events_and_outcome_agree(runtime: ptc.Runtime, code: str, how: str | None) -> None:
    """PTC-130 calls, log entries and kind counted from events equal those in the outcome."""

    def bad(_argument: Any) -> None:
        raise ValueError("bad")

    table: Tables = {"t": {"f": lambda value: value, "bad": bad, "slow": for_ever}}
    limits = ptc.Limits(max_calls=10, max_output_bytes=3000)
    image = await runtime.load(code, table, limits=limits, form="async")
    run = image.start(timeout=0.3 if how == "timeout" else 10)
    events = [event async for event in run]
    outcome = await run.outcome()
    assert (outcome.failure.kind if outcome.failure else None) == how
    assert events[0] == ptc.RunStarted()
    assert events[-1] == ptc.RunEnded(outcome)
    assert sum(isinstance(event, ptc.RunEnded) for event in events) == 1
    started = {event.id for event in events if isinstance(event, ptc.CallStarted)}
    finished = {event.id for event in events if isinstance(event, ptc.CallFinished)}
    assert len(started) == outcome.calls
    assert started - finished == {number for number, _, _ in outcome.unfinished}
    logged = [event.entry for event in events if isinstance(event, ptc.Logged)]
    assert [entry.text for entry in logged][: len(outcome.logs)] == [entry.text for entry in outcome.logs]
    assert len(logged) == len(outcome.logs)
    assert [event async for event in run] == []
    await image.unload()


async def test_several_may_watch_a_run(runtime: ptc.Runtime) -> None:
    """PTC-124 several may iterate over the events; who stops early disturbs nobody."""

    async def all_of(run: Run) -> list[ptc.Event]:
        return [event async for event in run]

    async def first_of(run: Run) -> ptc.Event | None:
        async for event in run:
            return event
        return None

    image = await runtime.load("console.log(1); return t.f(1)", echo())
    run = image.start()
    first, second, third = await asyncio.gather(all_of(run), first_of(run), all_of(run))
    assert first == third
    assert second == ptc.RunStarted()
    assert isinstance(first[-1], ptc.RunEnded)
    await image.unload()
