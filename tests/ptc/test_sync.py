"""`SyncRuntime` and `ptc.run`: the same without `await`."""

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import ptc


@pytest.fixture(scope="module")
def blocking_runtime(engine: str) -> Iterator[ptc.SyncRuntime]:
    """One runtime for the tests that need no other."""
    with ptc.SyncRuntime(engine=engine) as runtime:
        yield runtime


def test_it_runs_without_a_loop(blocking_runtime: ptc.SyncRuntime) -> None:
    """PTC-131 it works without a running loop in the calling thread."""
    outcome = blocking_runtime.run(
        "console.log(n); return t.f(n)", {"t": {"f": lambda value: value + 1}}, input=1, input_name="n"
    )
    assert outcome.value == 2
    assert outcome.logs == (ptc.LogEntry("1"),)


async def test_it_runs_inside_a_loop(blocking_runtime: ptc.SyncRuntime) -> None:
    """PTC-131 it works while another loop runs in the calling thread, with sync and async host functions."""

    async def later(value: Any) -> Any:
        await asyncio.sleep(0.01)
        return value

    assert blocking_runtime.run("return await t.later(3)", {"t": {"later": later}}).value == 3
    assert blocking_runtime.run("return t.now(4)", {"t": {"now": lambda value: value}}).value == 4


def test_images_are_run_and_unloaded(blocking_runtime: ptc.SyncRuntime) -> None:
    """PTC-131 a loaded program has the same options as anywhere."""
    image = blocking_runtime.load("console.log('x'); return t.f(n)", {"t": {"f": lambda value: value}}, input_name="n")
    entries: list[ptc.LogEntry] = []
    events: list[ptc.Event] = []
    assert image.run(input=1, on_log=entries.append, on_event=events.append).value == 1
    assert image.run(input=1, functions={"t": {"f": lambda value: value * 10}}).value == 10
    assert len(entries) == 1
    assert isinstance(events[-1], ptc.RunEnded)
    outcome = image.run(input=1, timeout=0.1, functions={"t": {"f": ptc.blocking(lambda _value: time.sleep(0.3))}})
    assert outcome.failure is not None
    assert outcome.failure.kind == "timeout"
    with pytest.raises(ptc.UsageError):
        image.run(timeout=-1)
    image.unload()
    image.unload()
    with pytest.raises(ptc.ClosedError):
        image.run(input=1)


def test_many_threads_may_use_one(blocking_runtime: ptc.SyncRuntime) -> None:
    """PTC-131 several threads may use it at the same time, and their runs overlap."""
    image = blocking_runtime.load("return t.meet(n)", {"t": {"meet": lambda value: value}}, input_name="n")
    both = threading.Barrier(4)
    meet = ptc.blocking(lambda value: both.wait(5) >= 0 and value)
    values: list[Any] = []

    def work(number: int) -> None:
        values.append(image.run(input=number, functions={"t": {"meet": meet}}).value)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(values) == [0, 1, 2, 3]
    image.unload()


def test_a_host_function_may_start_another_run_if_it_is_blocking(blocking_runtime: ptc.SyncRuntime) -> None:
    """PTC-120 PTC-131 a blocking host function may use the same runtime; any other is told why it cannot."""

    def again(value: Any) -> Any:
        return blocking_runtime.run("return n + 1", input=value, input_name="n").value

    assert blocking_runtime.run("return t.again(1)", {"t": {"again": ptc.blocking(again)}}).value == 2
    outcome = blocking_runtime.run("return t.again(1)", {"t": {"again": again}})
    assert outcome.failure is not None
    assert "ptc.blocking" in outcome.failure.message


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("how", ["sync", "async", "blocking"])
def test_what_ends_python_passes_through(
    blocking_runtime: ptc.SyncRuntime, error: type[BaseException], how: str
) -> None:
    """PTC-122 KeyboardInterrupt and SystemExit from a host function kill the run and reach the calling thread."""

    def fail(_argument: Any) -> None:
        raise error

    async def fail_later(_argument: Any) -> None:
        await asyncio.sleep(0)
        raise error

    functions: dict[str, Callable[[Any], Any]] = {"sync": fail, "async": fail_later, "blocking": ptc.blocking(fail)}
    with pytest.raises(error):
        blocking_runtime.run("try { t.fail(1) } catch { for (;;); }", {"t": {"fail": functions[how]}})
    assert blocking_runtime.run("return 1").value == 1


def test_run_is_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """PTC-131 `ptc.run` is one call: a runtime of its own that leaves nothing behind."""
    before = threading.active_count()
    assert ptc.run("return 1 + 1").value == 2
    outcome = ptc.run("return (")
    assert outcome.failure is not None
    assert outcome.failure.kind == "exception"
    assert ptc.run("return input", input=[1, {"a": None}]).value == [1, {"a": None}]
    with pytest.raises(ptc.UsageError):
        ptc.run("return 1", timeout=0)
    assert threading.active_count() == before


def test_closing_ends_it() -> None:
    """PTC-127 PTC-131 closing aborts the runs of other threads and may be done twice; then it is `ClosedError`."""
    runtime = ptc.SyncRuntime()
    outcomes: list[ptc.Outcome] = []
    started = threading.Event()

    def work() -> None:
        outcomes.append(runtime.run("t.started(1); for (;;);", {"t": {"started": lambda _value: started.set()}}))

    thread = threading.Thread(target=work)
    thread.start()
    assert started.wait(5)
    runtime.close()
    thread.join(5)
    assert outcomes[0].failure == ptc.Failure("abort", "runtime closed")
    runtime.close()
    with pytest.raises(ptc.ClosedError):
        runtime.run("return 1")
    with pytest.raises(ptc.ClosedError):
        runtime.load("return 1")


def test_an_interrupted_wait_cancels_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """PTC-131 interrupting the wait (Ctrl-C) cancels the run, and the runtime can be closed."""
    if not hasattr(os, "fork"):
        pytest.skip("signals")
    import signal

    cancelled = threading.Event()

    async def wait(_argument: Any) -> None:
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        try:
            await asyncio.sleep(30)
        finally:
            cancelled.set()

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with ptc.SyncRuntime() as runtime:
            with pytest.raises(KeyboardInterrupt):
                runtime.run("return t.wait(1)", {"t": {"wait": wait}})
            assert cancelled.wait(5)
            assert runtime.run("return 1").value == 1
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_bad_options_are_refused_before_a_thread_exists() -> None:
    """PTC-126 bad options raise at once and leave no thread."""
    before = threading.active_count()
    for options in ({"engine": "spidermonkey"}, {"spares": -1}, {"max_runs": 0}, {"require": ["magic"]}):
        with pytest.raises(ptc.UsageError):
            ptc.SyncRuntime(**options)
    assert threading.active_count() == before
