"""When the calls of a program run, and that none outlives it, with real programs."""

import asyncio
import threading
from typing import Any

import pytest

import ptc
from ptc.tools import CodeTools, ProgramTools, Tool, checked
from tests.ptc.tools.toolbox import run, soon, tool

pytestmark = pytest.mark.asyncio(loop_scope="session")


class Recorder:
    """A tool whose calls write down when they start and end. `hold` keeps those with these numbers waiting."""

    def __init__(self, hold: set[int] | None = None) -> None:
        self.log: list[tuple[str, int]] = []
        self.running = self.most = 0
        self.released = asyncio.Event()
        self._hold = hold or set()

    async def __call__(self, arguments: Any) -> int:
        number: int = arguments["n"]
        self.log.append(("start", number))
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            if number in self._hold:
                await self.released.wait()
            else:
                await asyncio.sleep(0)
        finally:
            self.running -= 1
            self.log.append(("end", number))
        return number

    def tool(self, **options: Any) -> Tool:
        return tool("note", self, {"type": "object", "properties": {"n": {"type": "integer"}}}, **options)

    @property
    def started(self) -> list[int]:
        return [number for what, number in self.log if what == "start"]


def calls(count: int) -> str:
    """A program that makes so many calls at once and returns what they answered."""
    return f"return await Promise.all(Array.from({{length: {count}}}, (_, n) => tools.note({{n}})))"


class TestOrder:
    async def test_safe_calls_overlap_up_to_the_cap(self, runtime: ptc.Runtime) -> None:
        """PTC-140 four at once, never five, all in order."""
        recorder = Recorder(hold=set(range(25)))
        tools = CodeTools(runtime, [recorder.tool(safe=True)], max_parallel=4)
        task = asyncio.create_task(run(tools, calls(25)))
        await soon(lambda: recorder.running == 4)
        recorder.released.set()
        result = await task
        assert result.outcome is not None
        assert result.outcome.value == list(range(25))
        assert recorder.most == 4
        assert recorder.started == list(range(25))

    async def test_unsafe_calls_run_one_by_one(self, runtime: ptc.Runtime) -> None:
        """PTC-140 a tool is unsafe unless it says otherwise."""
        recorder = Recorder()
        result = await run(CodeTools(runtime, [recorder.tool()]), calls(12))
        assert not result.is_error
        assert recorder.log == [(what, number) for number in range(12) for what in ("start", "end")]

    async def test_an_unsafe_call_waits_for_all_before_it_and_holds_all_after_it(self, runtime: ptc.Runtime) -> None:
        """PTC-140 until its answer has been handed over."""
        recorder = Recorder(hold={0, 1})
        log: list[tuple[str, int]] = recorder.log
        alone = {2, 5, 6}

        def watch(event: ptc.Event) -> None:
            if isinstance(event, ptc.CallFinished):
                log.append(("answered", event.id - 1))

        mine = checked([recorder.tool(safe=lambda arguments: arguments["n"] not in alone)])
        async with ProgramTools(mine) as tools:
            running = asyncio.create_task(runtime.run(calls(9), [tools.namespace], on_event=watch))
            await soon(lambda: recorder.running == 2)
            assert recorder.started == [0, 1]
            recorder.released.set()
            outcome = await running
        assert outcome.value == list(range(9))
        for number in alone:
            start, end = log.index(("start", number)), log.index(("answered", number))
            assert log[start : end + 1] == [("start", number), ("end", number), ("answered", number)]
            assert {answered for what, answered in log[:start] if what == "answered"} == set(range(number))

    async def test_answers_arrive_in_the_order_of_the_calls(self, runtime: ptc.Runtime) -> None:
        """PTC-140 also one that is there before those of earlier calls."""
        recorder = Recorder(hold={0})

        async def release(_: Any) -> str:
            await soon(lambda: ("end", 1) in recorder.log)
            recorder.released.set()
            return "released"

        code = """
            const order = [];
            const note = p => p.then(x => order.push(x));
            await Promise.all([note(tools.note({n: 0})), note(tools.note({n: 1})), note(tools.release({}))]);
            return order;
        """
        result = await run(CodeTools(runtime, [recorder.tool(safe=True), tool("release", release, safe=True)]), code)
        assert result.outcome is not None
        assert result.outcome.value == [0, 1, "released"]
        assert recorder.log.index(("end", 1)) < recorder.log.index(("end", 0))

    async def test_a_refused_call_keeps_its_place(self, runtime: ptc.Runtime) -> None:
        """PTC-140 its failure is handed over in order too, and it holds up nobody."""
        recorder = Recorder()
        code = """
            const order = [];
            await Promise.all(["a", 1, "b", 2].map(n => tools.note({n}).then(x => order.push(x), () => order.push(n))));
            return order;
        """
        result = await run(CodeTools(runtime, [recorder.tool()]), code)
        assert result.outcome is not None
        assert result.outcome.value == ["a", 1, "b", 2]
        assert recorder.started == [1, 2]

    async def test_a_slow_check_keeps_the_place_of_its_call(self, runtime: ptc.Runtime) -> None:
        """PTC-140 arguments that are checked in a thread start in order as well."""
        recorder = Recorder()
        parameters = {"type": "object", "properties": {"list": {"items": {"type": "integer"}}}}
        note = tool("note", recorder, parameters, safe=True)
        code = """
            const list = Array.from({length: 20000}, () => 1);
            return await Promise.all([tools.note({n: 0, list}), tools.note({n: 1, list: []})]);
        """
        result = await run(CodeTools(runtime, [note]), code)
        assert result.outcome is not None
        assert result.outcome.value == [0, 1]
        assert recorder.started == [0, 1]

    async def test_safe_may_be_asked_of_the_arguments(self, runtime: ptc.Runtime) -> None:
        """PTC-140 when the call's turn has come, and only of arguments that fit; anything but True means alone."""
        recorder = Recorder()
        asked: list[int] = []

        def is_safe(arguments: Any) -> Any:
            asked.append(arguments["n"])
            return [True, 1, "yes", None][arguments["n"]] if arguments["n"] < 4 else 1 / 0

        code = "await Promise.allSettled([0, 'x', 1, 2, 3, 4].map(n => tools.note({n})))"
        await run(CodeTools(runtime, [recorder.tool(safe=is_safe)]), code)
        assert asked == recorder.started == [0, 1, 2, 3, 4]
        assert recorder.most == 1


class TestEnding:
    @pytest.mark.parametrize("options", [{"safe": True}, {"safe": False}])
    async def test_queued_calls_of_a_settled_run_never_start(
        self, runtime: ptc.Runtime, options: dict[str, Any]
    ) -> None:
        """PTC-140 a deadline drops them."""
        recorder = Recorder(hold=set(range(9)))
        tools = CodeTools(runtime, [recorder.tool(**options)], max_parallel=1)
        result = await run(tools, calls(5), timeout=0.3)
        assert result.text.startswith("timeout: ")
        assert result.text.endswith("\ncalls finished: 0 of 5")
        recorder.released.set()
        await asyncio.sleep(0.02)
        assert recorder.log == [("start", 0), ("end", 0)]

    async def test_a_stopped_program_starts_no_more_calls(self, engine: str) -> None:
        """PTC-140 stopped for its computing, with calls queued."""
        recorder = Recorder(hold={0})
        async with ptc.Runtime(engine=engine, limits=ptc.Limits(cpu=0.3), spares=0) as runtime:
            code = "for (let n = 0; n < 5; n++) tools.note({n}); await null; for (;;);"
            result = await run(CodeTools(runtime, [recorder.tool()]), code)
        assert result.text.startswith("compute-limit: ")
        assert recorder.log == [("start", 0), ("end", 0)]

    async def test_call_returns_after_the_last_nested_call_has_ended(self, runtime: ptc.Runtime) -> None:
        """PTC-141 one that takes its time to be cancelled is waited for, past any deadline."""
        cleaning, may_end, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def slow(_: Any) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                cleaning.set()
                await may_end.wait()
                ended.set()

        tools = CodeTools(runtime, [tool("slow", slow, safe=True)])
        call = asyncio.create_task(run(tools, "await tools.slow({})", timeout=0.2))
        await asyncio.wait_for(cleaning.wait(), 10)
        await asyncio.wait({call}, timeout=0.3)
        assert not call.done()
        may_end.set()
        result = await call
        assert result.text.startswith("timeout: ")
        assert ended.is_set()

    async def test_a_thread_is_waited_for(self, runtime: ptc.Runtime) -> None:
        """PTC-141 it cannot be stopped."""
        started, may_end, ended = threading.Event(), threading.Event(), threading.Event()

        def work(_: Any) -> None:
            started.set()
            may_end.wait(30)
            ended.set()

        tools = CodeTools(runtime, [tool("work", ptc.blocking(work))])
        call = asyncio.create_task(run(tools, "await tools.work({})", timeout=0.2))
        await soon(started.is_set)
        await asyncio.wait({call}, timeout=0.5)
        assert not call.done()
        may_end.set()
        result = await call
        assert result.text.startswith("timeout: ")
        assert ended.is_set()

    async def test_cancelling_the_call_cancels_the_nested_ones(self, runtime: ptc.Runtime) -> None:
        """PTC-141 however often; it ends when they have."""
        started, may_end = asyncio.Event(), asyncio.Event()
        log: list[str] = []

        async def slow(_: Any) -> None:
            started.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                log.append("cancelled")
                await may_end.wait()
                log.append("ended")
                raise

        queued = Recorder()
        tools = CodeTools(runtime, [tool("slow", slow), queued.tool()])
        call = asyncio.create_task(run(tools, "await Promise.all([tools.slow({}), tools.note({n: 1})])"))
        await asyncio.wait_for(started.wait(), 10)
        for _ in range(3):
            call.cancel()
            await asyncio.wait({call}, timeout=0.1)
            assert not call.done()
        assert log == ["cancelled"]
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert log == ["cancelled", "ended"]
        assert queued.log == []
        assert (await run(tools, "return 1")).text == "1"

    async def test_a_cancelled_direct_call_waits_for_its_thread(self, runtime: ptc.Runtime) -> None:
        """PTC-141."""
        started, may_end, ended = threading.Event(), threading.Event(), threading.Event()

        def work(_: Any) -> None:
            started.set()
            may_end.wait(30)
            ended.set()

        tools = CodeTools(runtime, [tool("work", ptc.blocking(work))], "native")
        call = asyncio.create_task(tools.call("work", {}, "c1"))
        await soon(started.is_set)
        call.cancel()
        await asyncio.wait({call}, timeout=0.1)
        assert not call.done()
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert ended.is_set()

    async def test_a_cancellation_of_its_own_fails_only_that_call(self, runtime: ptc.Runtime) -> None:
        """PTC-139 a tool that says it was cancelled."""

        async def cancelled(_: Any) -> None:
            raise asyncio.CancelledError

        tools = CodeTools(runtime, [tool("cancelled", cancelled), Recorder().tool()])
        code = "try { await tools.cancelled({}) } catch (e) { return [e.message, await tools.note({n: 3})] }"
        result = await run(tools, code)
        assert result.outcome is not None
        assert result.outcome.value == ["the host function was cancelled", 3]

    async def test_a_wish_to_end_the_process_is_passed_on(self, runtime: ptc.Runtime) -> None:
        """PTC-141 at once, also with an earlier call unanswered, which is cancelled."""
        recorder = Recorder(hold={0})

        async def leave(_: Any) -> None:
            raise SystemExit(3)

        tools = CodeTools(runtime, [recorder.tool(safe=True), tool("leave", leave, safe=True)])
        with pytest.raises(SystemExit):
            await run(tools, "await Promise.all([tools.note({n: 0}), tools.leave({})])")
        assert recorder.log == [("start", 0), ("end", 0)]

    async def test_closing_the_runtime_ends_the_call(self, engine: str) -> None:
        """PTC-141 as an aborted run."""
        recorder = Recorder(hold={0})
        runtime = ptc.Runtime(engine=engine, spares=0)
        call = asyncio.create_task(run(CodeTools(runtime, [recorder.tool()]), calls(1)))
        await soon(lambda: recorder.running == 1)
        await runtime.aclose()
        assert (await call).text == "abort: runtime closed\ncalls finished: 0 of 1"
        assert recorder.log == [("start", 0), ("end", 0)]
