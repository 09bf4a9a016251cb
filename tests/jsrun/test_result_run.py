"""The runner as a whole: endings, misuse, compiling, code without an event loop."""

import asyncio
import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest

import jsrun
import ptc
from jsrun import Bundle, BundleError, Fuel, InputError, JsrunError, MemoryJournal, Runner, RunResult, check
from jsrun.endings import of_failure
from jsrun.errors import __all__ as error_names
from ptc.outcome import Failure, Kind, Position
from ptc.wire import Json
from tests.conftest import our_processes
from tests.jsrun.playing import Play, echo, playing_env

session = pytest.mark.asyncio(loop_scope="session")

FUEL = Fuel(steps=5, tokens=None, wall=900.0, compute=10.0, memory=2**27, output=2**20)


@pytest.mark.parametrize(
    ("kind", "reason", "words"),
    [
        ("exception", "threw", "program.js:4:7: TypeError: no"),
        ("timeout", "wall", "ran out of time after 15 minutes"),
        ("compute-limit", "compute", "10 seconds of CPU"),
        ("memory-limit", "memory", "128 MiB"),
        ("output-limit", "output", "1 MiB"),
        ("call-limit", "steps", "5 steps"),
        ("invalid-output", "invalid_output", "output.a: Date is not JSON"),
        ("stuck", "stuck", "never come"),
        ("worker-exit", "crashed", "did not end well"),
        ("protocol", "crashed", "did not end well"),
        ("sandbox-unavailable", "crashed", "did not end well"),
        ("abort", "cancelled", "runtime closed"),
    ],
)
def test_every_kind_of_ptc_has_its_ending(kind: Kind, reason: str, words: str) -> None:
    """Section 12"""
    message = {"invalid-output": "value.a: Date is not JSON", "abort": "runtime closed"}.get(kind, "TypeError: no")
    failure = Failure(kind, message, Position(3, 5) if kind == "exception" else None)
    end = of_failure(failure, FUEL, "program.js", lambda line, column: (line + 1, column + 2), None)
    assert end.reason == reason
    assert words in end.sentence


def test_no_kind_is_forgotten() -> None:
    """Section 12 names them all."""
    for kind in get_args(Kind):
        end = of_failure(Failure(kind, "x"), FUEL, "program.js", lambda line, column: (line, column), None)
        assert RunResult(end.status, end.reason, incomplete=end.sentence).reason == end.reason


@session
async def test_finished_does_not_look_at_fell_back(play: Play) -> None:
    """JSR-114"""
    result = await play("function run() { return 1 }")
    assert result.finished()
    assert RunResult("finished", output=1, fell_back="The quick way stopped.").finished()
    assert not RunResult("incomplete", "wall", incomplete="late").finished()
    assert RunResult.from_json(result.to_json()) == result
    assert (result.path, result.long_run_id, result.artifacts) == ("fast", None, ())


@session
async def test_a_process_killed_from_outside_is_crashed(engine: str) -> None:
    """JSR-115 with its signal, told apart from wall, compute and memory."""
    others = _running()
    async with (
        ptc.Runtime(engine=engine, spares=0) as runtime,  # no spare dies with the run
        Play(runtime).runner("async function run() { return tool('kill') }", whitelist=["kill"]) as runner,
    ):

        async def kill(_args: dict[str, Json]) -> Json:
            (pid,) = _running() - others
            os.kill(pid, signal.SIGSEGV)
            await asyncio.Event().wait()
            return None

        run = runner.start(None, playing_env({"kill": kill}), fuel=Fuel(wall=20))
        result = await run.result()
        assert (result.status, result.reason) == ("incomplete", "crashed"), result.sentence
        assert "SIGSEGV" in result.sentence
        again = await runner.run(None, playing_env({"kill": echo}))
    assert again.output == {}


def _running() -> set[int]:
    """Our processes that have no children of their own: the runs."""
    ours = [pid for pid, host in our_processes().items() if host == os.getpid()]
    parents = {int((Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[1]) for pid in ours}
    return set(ours) - parents


@session
@pytest.mark.parametrize(
    ("attempt", "name"),
    [("(function f() { return f() + 1 })()", "RangeError"), ("JSON.parse('['.repeat(1e5))", "RangeError|SyntaxError")],
)
async def test_deep_recursion_is_an_ordinary_error(play: Play, attempt: str, name: str) -> None:
    """JSR-115 and the engine works on."""
    program = f"""
    function run() {{
      let caught
      try {{ {attempt} }} catch (e) {{ caught = e.name }}
      return [caught, tool('echo', {{a: [1, 2, 3].map(n => n * 2)}})]
    }}"""
    result = await play(program, tools={"echo": echo})
    assert isinstance(result.output, list), result.sentence
    assert str(result.output[0]) in name.split("|")
    assert result.output[1] == {"a": [2, 4, 6]}


@session
async def test_a_door_deep_in_recursion(play: Play) -> None:
    """JSR-115 for doors called where the stack is nearly used up."""
    program = """
    function run() {
      let reached = 0
      const f = depth => {
        try { f(depth + 1) } catch (e) { if (depth % 50 === 0) { tool('echo', {depth}); reached += 1 } throw e }
      }
      try { f(0) } catch {}
      return [reached > 0, tool('echo', {ok: 1})]
    }"""
    result = await play(program, tools={"echo": echo}, run_fuel=Fuel(steps=100_000))
    assert result.output == [True, {"ok": 1}], result.sentence


@session
async def test_misuse_raises(play: Play) -> None:
    """Section 12: only misuse raises."""
    async with play.runner("function run() { return 1 }") as runner:
        with pytest.raises(TypeError, match="env"):
            await runner.run(None, None)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="class"):
            await runner.run(None, jsrun.UnwiredEnv)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="time zone"):
            await runner.run(None, playing_env(), started_at="2026-01-01T00:00:00")
        with pytest.raises(ValueError, match="beyond the years"):
            await runner.run(None, playing_env(), started_at="0001-01-01T00:00:00+14:00")
        with pytest.raises(TypeError, match=r"Fuel\(steps=5\), got 5"):
            await runner.run(None, playing_env(), fuel=5)  # type: ignore[arg-type]
        with pytest.raises(InputError):
            await runner.run(object(), playing_env())
    with pytest.raises(JsrunError, match="closed"):
        await runner.run(None, playing_env())
    with pytest.raises(ValueError, match="parallel"):
        Runner(runner.bundle, parallel=0)


@session
async def test_what_the_engine_refuses_never_runs(play: Play) -> None:
    """Section 5: a program the checker takes and the engine does not."""
    program = "async function run() {\n  return 1\n}\nlet twice\nvar twice"
    try:
        bundle = Bundle({"name": "x", "purpose": "Test.", "engine": play.runtime.engine}, program)
    except BundleError:
        pytest.skip("the checker refuses it as well")
    async with Runner(bundle, runtime=play.runtime) as runner:
        for attempt in (runner.compile(), runner.run(None, playing_env())):
            with pytest.raises(BundleError) as caught:
                await attempt
            (found,) = caught.value.diagnostics
            assert (found.code, found.severity, found.file, found.line) == ("syntax", "error", "program.js", 5)
    assert [found.code for found in await check(bundle)] == ["syntax"]


@session
async def test_check_compiles_too(play: Play) -> None:
    """Section 5"""
    bundle = Bundle({"name": "x", "purpose": "Test.", "whitelist": ["unused"]}, "function run() { return 1 }")
    assert [found.code for found in await check(bundle)] == ["unused-whitelist"]


@session
async def test_a_program_of_the_largest_size_runs(play: Play) -> None:
    """Section 2: 1 MiB, with what is put around it."""
    program = "async function run() { return 1 }\n//"
    assert (await play(program + "x" * (2**20 - len(program)))).output == 1


@session
@pytest.mark.needs("fork")
async def test_a_program_too_large_to_compile_is_refused(play: Play) -> None:
    """JSR-021 for the engine: 100,000 nested blocks end in a diagnostic, never a hang."""
    try:
        runner = play.runner("function run() { return 1 }\n" + "{" * 100_000 + "}" * 100_000)
    except BundleError as error:
        assert {found.code for found in error.diagnostics} == {"syntax"}
        return
    async with runner:
        with pytest.raises(BundleError) as caught:
            await runner.compile()
    assert caught.value.diagnostics[0].code in ("syntax", "compile-failed")


@session
async def test_a_missing_engine_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """JSR-132"""
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    bundle = Bundle({"name": "x", "purpose": "Test."}, "function run() { return 1 }")
    async with Runner(bundle) as runner:
        with pytest.raises(JsrunError, match="pip install quickjs-ng"):
            await runner.run(None, playing_env())


@session
async def test_a_runtime_of_another_engine_is_misuse() -> None:
    """Section 12"""
    bundle = Bundle({"name": "x", "purpose": "Test.", "engine": "v8"}, "async function run() { return 1 }")
    async with ptc.Runtime() as quickjs:
        with pytest.raises(JsrunError, match='"v8"'):
            Runner(bundle, runtime=quickjs)


def test_code_without_an_event_loop() -> None:
    """Section 12: `run_sync`, more than once, compiled once."""
    journal = MemoryJournal()
    runner = Runner(Bundle({"name": "x", "purpose": "Test."}, "function run(n) { return n + 1 }"), journal=journal)
    try:
        assert runner.run_sync(1, playing_env()).output == 2
        assert runner.run_sync(2, playing_env(), run_id="second").output == 3
        assert len(runner._images._loading) == 1
        with pytest.raises(InputError):
            runner.run_sync(float("nan"), playing_env())
    finally:
        runner.close()
    runner.close()

    async def inside() -> None:
        with pytest.raises(JsrunError, match="await"):
            runner.run_sync(1, playing_env())

    asyncio.run(inside())


def test_an_interrupt_ends_a_sync_run(tmp_path: Path) -> None:
    """JSR-070 Ctrl-C closes the journal as `cancelled` and is raised again."""
    path = tmp_path / "journal.db"
    code = f"""
import asyncio
from jsrun import Bundle, CallbackEnv, Runner, SqliteJournal
async def wait(args):
    print("here", flush=True)
    await asyncio.Event().wait()
bundle = Bundle({{"name": "x", "purpose": "Test.", "whitelist": ["wait"]}}, "function run() {{ return tool('wait') }}")
try:
    Runner(bundle, journal=SqliteJournal({str(path)!r})).run_sync(None, CallbackEnv(tools={{"wait": wait}}), run_id="r")
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as host:
        assert host.stdout is not None
        assert host.stdout.readline() == b"here\n"
        host.send_signal(signal.SIGINT)
        assert host.stdout.readline() == b"interrupted\n"
    record = asyncio.run(jsrun.SqliteJournal(path).read("r"))
    assert (record.run.status, record.run.reason) == ("incomplete", "cancelled")
    assert [row.state for row in record.entries] == ["abandoned"]


def test_everything_is_importable_from_jsrun() -> None:
    """Section 1; nothing optional is imported on the way."""
    assert set(jsrun.__all__) <= set(dir(jsrun))
    assert set(error_names) <= set(jsrun.__all__)
    code = """
import sys, jsrun
optional = ("pydantic_ai", "mcp", "acp", "yaml", "asyncssh", "cryptography", "opentelemetry", "py_mini_racer", "dask")
print([name for name in optional if name in sys.modules], "jsrun.agent" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[] False\n"


@session
async def test_runs_and_their_ids(play: Play) -> None:
    """Section 13: ids are 26 characters and sort by time; a given one is taken."""
    async with play.runner("function run() { return 1 }") as runner:
        runs: list[Any] = [runner.start(None, playing_env()) for _ in range(3)]
        results = [await run.result() for run in runs]
        ids = [result.run_id for result in results]
        assert ids == sorted(ids) == [run.run_id for run in runs]
        assert {len(run_id) for run_id in ids} == {26}
        assert (await runner.run(None, playing_env(), run_id="mine")).run_id == "mine"
    assert runner.manifest.name == "test"
    assert dict(runner.prompts) == {}


async def test_a_runtime_closed_while_the_guards_are_asked_ends_the_run_and_its_row() -> None:
    """JSR-115 the host's own doing is `crashed`, and the journal does not keep an open run."""
    runtime = ptc.Runtime()
    journal = MemoryJournal()
    made = Bundle({"name": "late", "purpose": "A test.", "guards": [{"kind": "file", "file": "a"}]}, "1")

    class ClosingLook:
        async def file_exists(self, path: str) -> bool:
            await runtime.aclose()
            return True

        def tool_on_belt(self, name: str) -> bool:
            return True

    async with Runner(made, runtime=runtime, journal=journal) as runner:
        result = await runner.run(None, jsrun.UnwiredEnv(), look=ClosingLook())
    assert (result.status, result.reason) == ("incomplete", "crashed")
    assert [row.status for row in await journal.runs()] == ["incomplete"]
