"""Outcomes: whatever ended a run, when it did, and that the next run knows nothing of it."""

import asyncio
import os
import signal
import time
from datetime import datetime
from typing import Any

import pytest

import ptc
from tests.ptc.processes import images_of, is_gone, needs_proc, runs_of, until
from tests.ptc.programs import kind

pytestmark = pytest.mark.asyncio(loop_scope="session")

KIB, MIB = 1024, 1024 * 1024


ENDINGS = {
    "exception": "throw new Error('x')",
    "timeout": "return new Promise((resolve) => t.wait(1).then(resolve))",
    "abort": "return t.abort(1)",
    "worker-exit": "t.kill(1); for (;;);",
    "invalid-output": "return () => 0",
    "output-limit": "for (;;) console.log('x'.repeat(1000))",
    "memory-limit": "const all = []; for (;;) all.push('x'.repeat(100000) + all.length)",
    "compute-limit": "for (;;);",
    "call-limit": "for (;;) t.f(1)",
    "stuck": "return new Promise(() => 0)",
}


@needs_proc
async def test_after_every_ending_the_next_run_succeeds(engine: str) -> None:
    """PTC-067 after every kind of ending the next run on the same image succeeds; every failure tells all it has."""
    limits = ptc.Limits(cpu=1.0, memory=32 * MIB, max_output_bytes=100 * KIB, max_calls=50)
    runs: list[Any] = []

    async def wait(_argument: Any) -> None:
        await asyncio.sleep(30)

    def abort(_argument: Any) -> None:
        runs[-1].abort("because")

    def kill(_argument: Any) -> None:
        for pid in runs_of(runtime):  # one of them, and perhaps what is left of the one before
            os.kill(pid, signal.SIGKILL)

    table = {"wait": wait, "abort": abort, "kill": kill, "f": lambda value: value}
    cases = "".join(f"case {name!r}: {{ {code}; }} break;\n" for name, code in ENDINGS.items())
    async with ptc.Runtime(engine=engine, spares=0) as runtime:
        image = await runtime.load(
            f"console.log('began', how);\nswitch (how) {{\n{cases}}}\nreturn how",
            {"t": table},
            input_name="how",
            limits=limits,
        )
        for how in ENDINGS:
            runs.append(image.start(input=how, timeout=0.2 if how == "timeout" else 5))
            outcome = await runs[-1].outcome()
            assert kind(outcome) == how, outcome.failure
            assert outcome.logs[0] == ptc.LogEntry(f"began {how}")
            assert not outcome.ok
            assert not outcome.has_value
            assert outcome.value is None
            assert outcome.elapsed > 0
            assert outcome.isolation is not None
            assert outcome.engine.name == engine
            assert outcome.engine.version
            by_guest = how in ("exception", "invalid-output", "stuck")
            assert (outcome.exit is None) == by_guest or how == "output-limit"
            if by_guest:
                assert outcome.cpu is not None
            fine = await image.run(input="fine")
            assert fine.value == "fine", fine.failure
            assert fine.exit is None
            assert fine.truncated is None
            assert fine.native == ""
        await until(lambda: not runs_of(runtime), "no run is left")
        if runtime.process == "fork":
            assert len(images_of(runtime)) == 1


async def test_an_outcome_without_a_process_says_so(runtime: ptc.Runtime) -> None:
    """PTC-115 a program that could not be loaded has an outcome of the same form."""
    outcome = await runtime.run("return (")
    assert kind(outcome) == "exception"
    assert outcome.isolation is None
    assert outcome.exit is None
    assert outcome.elapsed == 0.0
    assert outcome.logs == ()
    assert outcome.engine.version


# --- abort ---


async def test_abort_before_the_start(engine: str) -> None:
    """PTC-110 a run aborted before it began is `abort` with its reason, and called nothing."""
    called: list[Any] = []
    async with ptc.Runtime(engine=engine) as runtime:
        image = await runtime.load("t.f(1)", {"t": {"f": called.append}})
        run = image.start()
        run.abort("never mind")
        run.abort("too late")
        outcome = await run.outcome()
        assert outcome.failure == ptc.Failure("abort", "never mind")
        assert outcome.isolation is None
        assert called == []
        assert (await image.run()).ok


async def test_abort_while_waiting_its_turn(engine: str) -> None:
    """PTC-110 a run aborted while it waits for its turn ends at once, and the others keep their order."""
    gate = asyncio.Event()
    order: list[Any] = []

    async def wait(number: Any) -> Any:
        order.append(number)
        await gate.wait()
        return number

    async with ptc.Runtime(engine=engine, max_runs=1) as runtime:
        image = await runtime.load("return t.wait(n)", {"t": {"wait": wait}}, input_name="n")
        runs = [image.start(input=number) for number in range(4)]
        await until(lambda: order == [0], "the first runs")
        runs[1].abort("changed my mind")
        outcome = await asyncio.wait_for(runs[1].outcome(), 1)
        assert outcome.failure == ptc.Failure("abort", "changed my mind")
        assert order == [0]
        gate.set()
        assert [(await run.outcome()).value for run in (runs[0], runs[2], runs[3])] == [0, 2, 3]
        assert order == [0, 2, 3]


@needs_proc
async def test_abort_while_waiting_for_a_process(engine: str) -> None:
    """PTC-110 a run aborted while its process is being made ends at once, and the process is not left over."""
    async with ptc.Runtime(engine=engine, spares=0) as runtime:
        image = await runtime.load("return 1")
        (pid,) = images_of(runtime)
        os.kill(pid, signal.SIGSTOP)
        run = image.start()
        await asyncio.sleep(0.05)
        run.abort("no patience")
        began = time.monotonic()
        outcome = await run.outcome()
        assert time.monotonic() - began < 1
        assert outcome.failure == ptc.Failure("abort", "no patience")
        os.kill(pid, signal.SIGCONT)
        assert (await image.run()).ok
        await until(lambda: not runs_of(runtime), "no run is left")


@needs_proc
async def test_abort_while_the_program_is_loaded_again(engine: str) -> None:
    """PTC-110 a run aborted while its image is being loaded again ends at once."""
    async with ptc.Runtime(engine=engine, spares=0) as runtime:
        image = await runtime.load("return 1", setup="const end = Date.now() + 300; while (Date.now() < end);")
        (pid,) = images_of(runtime)
        os.kill(pid, signal.SIGKILL)
        await until(lambda: is_gone(pid), "the image is gone")
        run = image.start()
        await asyncio.sleep(0.05)
        run.abort("no patience")
        began = time.monotonic()
        assert (await run.outcome()).failure == ptc.Failure("abort", "no patience")
        assert time.monotonic() - began < 0.2
        assert (await image.run()).ok


@pytest.mark.parametrize("code", ["for (;;);", "return t.wait(1)", "new Array(4294967295).sort()"])
async def test_abort_while_running(runtime: ptc.Runtime, code: str) -> None:
    """PTC-110 a running program is aborted at once, whatever it does."""

    async def wait(_argument: Any) -> None:
        await asyncio.sleep(30)

    image = await runtime.load("console.log('here'); " + code, {"t": {"wait": wait}})
    run = image.start()
    async for event in run:
        if isinstance(event, ptc.Logged):
            await asyncio.sleep(0.02)
            run.abort()
    outcome = await run.outcome()
    assert outcome.failure == ptc.Failure("abort", "aborted")
    assert outcome.logs == (ptc.LogEntry("here"),)
    await image.unload()


async def test_abort_while_draining(runtime: ptc.Runtime) -> None:
    """PTC-110 a program whose body is over, but not its calls, is aborted like any other."""
    entered = asyncio.Event()
    cancelled: list[Any] = []

    async def wait(argument: Any) -> None:
        entered.set()
        try:
            await asyncio.sleep(30)
        finally:
            cancelled.append(argument)

    image = await runtime.load("t.wait(1); return 5", {"t": {"wait": wait}}, form="async")
    run = image.start()
    await entered.wait()
    await asyncio.sleep(0.02)
    run.abort("done waiting")
    outcome = await run.outcome()
    assert outcome.failure == ptc.Failure("abort", "done waiting")
    assert outcome.unfinished == ((1, "t", "wait"),)
    assert not outcome.has_value
    assert cancelled == [1]
    await image.unload()


async def test_abort_after_the_end_changes_nothing(runtime: ptc.Runtime) -> None:
    """PTC-110 PTC-039 an abort after the end changes nothing."""
    image = await runtime.load("return 1")
    run = image.start()
    outcome = await run.outcome()
    run.abort("late")
    assert await run.outcome() is outcome
    assert outcome.value == 1
    await image.unload()


@pytest.mark.parametrize("where", [ptc.RunStarted, ptc.Logged, ptc.CallStarted, ptc.CallFinished])
async def test_abort_from_an_observer(runtime: ptc.Runtime, where: type[ptc.Event]) -> None:
    """PTC-110 PTC-037 an observer may abort: from then on no function is called, whatever has arrived already."""
    called: list[Any] = []

    def watch(event: ptc.Event) -> None:
        if isinstance(event, where):
            run.abort("seen enough")

    code = "console.log('x'); return Promise.all(Array.from({length: 50}, (_, i) => t.f(i)))"
    image = await runtime.load(code, {"t": {"f": called.append}}, form="async")
    run = image.start(on_event=watch)
    outcome = await run.outcome()
    assert outcome.failure == ptc.Failure("abort", "seen enough")
    assert called == ([0] if where is ptc.CallFinished else [])
    assert (await image.run()).ok
    await image.unload()


async def test_abort_from_a_host_function(runtime: ptc.Runtime) -> None:
    """PTC-110 a host function may abort its run: its answer is dropped, and nothing else is called."""
    called: list[Any] = []

    def stop(argument: Any) -> Any:
        called.append(argument)
        run.abort("stop")
        return argument

    code = "return Promise.all(Array.from({length: 50}, (_, i) => t.stop(i)))"
    image = await runtime.load(code, {"t": {"stop": stop}}, form="async")
    run = image.start()
    outcome = await run.outcome()
    assert outcome.failure == ptc.Failure("abort", "stop")
    assert called == [0]
    assert outcome.unfinished[0] == (1, "t", "stop")
    await image.unload()


# --- answers that cannot be sent ---


async def test_an_answer_that_cannot_be_sent_fails_its_call(runtime: ptc.Runtime) -> None:
    """PTC-046 an oversized result and one that is not JSON each fail one call catchably, and the run finishes."""
    answers = ["x" * 2_000_000, {"when": datetime(2024, 1, 1)}, {1: 2}, {"a": [1, float("nan")]}, b"x", "fine"]
    code = """
    const seen = [];
    for (let i = 0; i < 6; i++) try { seen.push(await t.answer(i)); } catch (e) { seen.push(e.message); }
    return seen;
    """
    outcome = await runtime.run(
        code, {"t": {"answer": lambda number: answers[number]}}, limits=ptc.Limits(max_message_bytes=MIB)
    )
    assert outcome.failure is None
    assert outcome.value[0].startswith("result: 2")
    assert str(MIB) in outcome.value[0]
    assert outcome.value[1:] == [
        "result.when: datetime is not JSON",
        "result: key of type int is not a string",
        "result.a[1]: NaN is not JSON",
        "result: bytes is not JSON",
        "fine",
    ]


async def test_a_full_backlog_fails_calls_and_the_run_finishes(runtime: ptc.Runtime) -> None:
    """PTC-046 what does not fit the backlog while the program computes fails catchably, and the run finishes."""
    code = """
    const calls = Array.from({length: 60}, () => t.big(1));
    const end = Date.now() + 300;
    while (Date.now() < end);
    const all = await Promise.allSettled(calls);
    const lost = all.filter((one) => one.status === 'rejected');
    return [all.length, lost.length, lost[0]?.reason.message, (await t.big(2)).length];
    """
    limits = ptc.Limits(max_message_bytes=MIB, memory=256 * MIB)
    outcome = await runtime.run(code, {"t": {"big": lambda _argument: "x" * 900_000}}, limits=limits)
    assert outcome.failure is None, outcome.failure
    total, lost, message, after = outcome.value
    assert total == 60
    assert 40 < lost < 60
    assert "wait to be sent" in message
    assert after == 900_000


async def test_a_long_failure_message_is_cut(runtime: ptc.Runtime) -> None:
    """PTC-047 a failure message above 4,096 characters is cut with its omitted count."""

    def fail(length: Any) -> None:
        raise ptc.CallError("é" * length)

    code = "try { await t.fail(n) } catch (e) { return e.message }"
    image = await runtime.load(code, {"t": {"fail": fail}}, input_name="n")
    assert (await image.run(input=4096)).value == "é" * 4096
    cut = (await image.run(input=100_000)).value
    assert len(cut) <= 4096 + 40
    assert cut.startswith("é" * 4000)
    kept = cut.count("é")
    assert str(100_000 - kept) in cut
    await image.unload()


# --- limits of one run ---


async def test_limits_of_one_run(runtime: ptc.Runtime) -> None:
    """PTC-117 a run may have its own limits, but not those built into its image."""
    image = await runtime.load("for (let i = 0; i < 5; i++) t.f(i); return 'x'.repeat(100)", {"t": {"f": lambda v: v}})
    assert (await image.run()).ok
    assert kind(await image.run(limits=ptc.Limits(max_calls=4))) == "call-limit"
    assert kind(await image.run(limits=ptc.Limits(max_output_bytes=50))) == "output-limit"
    assert (await image.run()).ok
    for other in (
        ptc.Limits(memory=1 * MIB),
        ptc.Limits(cpu=1),
        ptc.Limits(stack=1 * KIB),
        ptc.Limits(max_source_bytes=10),
    ):
        with pytest.raises(ptc.UsageError, match=r"memory|cpu|stack|max_source_bytes"):
            await image.run(limits=other)
    await image.unload()


async def test_a_source_that_is_too_long_is_refused_first(runtime: ptc.Runtime) -> None:
    """PTC-117 source above `max_source_bytes`, in UTF-8, is refused before anything reads it."""
    limits = ptc.Limits(max_source_bytes=100)
    assert (await runtime.run("return '" + "é" * 40 + "'", limits=limits)).ok
    outcome = await runtime.run("return '" + "é" * 50 + "'", limits=limits)
    assert kind(outcome) == "exception"
    assert "100" in (outcome.failure.message if outcome.failure else "")


@pytest.mark.parametrize("limit", [4, 8, 40, 80])
async def test_failures_fit_the_smallest_output(runtime: ptc.Runtime, limit: int) -> None:
    """PTC-111 the diagnostic of a stop, logs and message together never exceed the limit, down to 4 bytes."""
    limits = ptc.Limits(max_output_bytes=limit, cpu=0.1)
    for code in ("console.log('abc'); for (;;);", "for (;;) console.log('é𝒳');", "throw new Error('long message')"):
        outcome = await runtime.run(code, limits=limits, timeout=5)
        assert outcome.failure is not None
        size = len(outcome.failure.message.encode()) + sum(len(entry.text.encode()) for entry in outcome.logs)
        assert size <= limit
