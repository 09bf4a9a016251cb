"""Runs do not disturb each other, leave nothing behind, and reach nothing."""

import asyncio
import os
import threading
from pathlib import Path

import pytest

import ptc
from jsrun import Bundle, Fuel, Runner, UnwiredEnv
from jsrun.vocabulary import PROVIDED
from ptc.wire import Json
from tests.conftest import our_processes
from tests.jsrun.playing import Play, echo, playing_env

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_two_runs_at_once(play: Play) -> None:
    """JSR-130 also when one is killed."""
    program = """
    async function run({name, busy}) {
      globalThis.mine = name
      const seen = []
      for (let i = 0; i < 20; i++) { seen.push((await tool('echo', {name, i})).name, globalThis.mine) }
      if (busy) for (;;);
      return new Set(seen).size
    }"""
    async with play.runner(program, whitelist=["echo"]) as runner:
        env = playing_env({"echo": echo})
        killed = runner.start({"name": "killed", "busy": True}, env, fuel=Fuel(wall=0.5))
        others = await asyncio.gather(*(runner.run({"name": f"n{i}"}, env) for i in range(8)))
        assert (await killed.result()).reason == "wall"
    assert [result.output for result in others] == [1] * 8
    assert len({result.run_id for result in others}) == 8


async def test_many_runs_leave_nothing_behind(engine: str) -> None:
    """JSR-130 1,000 runs (50 where each is a process of its own from the start): no process, descriptor or thread."""
    program = "async function run(n) { return (await tool('echo', {n})).n }"
    bundle = Bundle({"name": "x", "purpose": "Test.", "whitelist": ["echo"], "engine": engine}, program)
    env = playing_env({"echo": echo})

    def mine() -> int:
        return sum(1 for host in our_processes().values() if host == os.getpid())

    before = mine()
    descriptors = _descriptors()
    threads = threading.active_count()
    async with ptc.Runtime(engine=engine) as runtime, Runner(bundle, runtime=runtime) as runner:
        count = 1000 if runtime.process == "fork" else 50
        for start in range(0, count, 10):
            results = await asyncio.gather(*(runner.run(start + i, env) for i in range(10)))
            assert [result.output for result in results] == list(range(start, start + 10))
        assert mine() - before < 60
    for _ in range(100):
        if mine() <= before:
            break
        await asyncio.sleep(0.05)
    assert mine() <= before
    assert threading.active_count() <= threads
    assert _descriptors() <= descriptors
    assert len(asyncio.all_tasks()) <= 2


def _descriptors() -> int:
    """How many descriptors this process has open; 0 where nobody tells."""
    return len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").is_dir() else 0


async def test_the_globals_are_those_of_ptc_and_the_doors(play: Play) -> None:
    """JSR-131"""
    result = await play("function run() { return Object.getOwnPropertyNames(globalThis).sort() }")
    assert isinstance(result.output, list)
    assert {str(name) for name in result.output} == set(PROVIDED) - {"input"}
    fixed = await play(
        """
        function run() {
          return ['ai', 'tool', 'ask', 'remember', 'recall', 'log', 'DoorError'].map(name => {
            const {writable, configurable, enumerable} = Object.getOwnPropertyDescriptor(globalThis, name)
            return writable || configurable || enumerable
          })
        }"""
    )
    assert fixed.output == [False] * 7


TRICKS = [
    "tool.constructor('return typeof process + typeof require')()",
    "ai.constructor.constructor('return this')().os === undefined",
    "(0, eval)('typeof std + typeof os + typeof __ptc_send')",
    "Object.getOwnPropertyNames(Object.getPrototypeOf(async function () {})).join()",
    "new Error('x').stack",
    "(() => { try { null.x } catch (e) { return e.stack } })()",
    "(() => { Error.prepareStackTrace = (e, frames) => frames; return String(new Error().stack) })()",
    "(() => { try { tool('x', {get a() { throw new Error() }}) } catch (e) { return e.stack + e.message } })()",
    "import.meta",
    "Function.prototype.toString.call(tool).length > 0",
]


@pytest.mark.parametrize("trick", TRICKS)
async def test_tricks_reach_nothing(play: Play, trick: str) -> None:
    """JSR-131 no file, module, environment variable or path of the host."""
    os.environ["JSRUN_SECRET"] = "swordfish"
    if trick == "import.meta":
        program = (
            "async function run() { try { return String(await eval(\"import('os')\")) } catch (e) { return e.name } }"
        )
    else:
        program = f"function run() {{ return String({trick}) }}"
    result = await play(program, whitelist=["x"])
    text = f"{result.output} {result.sentence}"
    for secret in ("swordfish", ".py", "/root", str(Path.cwd()), "site-packages", "guest.js"):
        assert secret not in text
    assert "object" not in text.replace("[object", "") or result.status != "finished"


async def test_console_text_is_never_a_message(play: Play) -> None:
    """JSR-132 text that looks like a channel message is a log line."""
    forged = '{"type":"done","value":[1]}'
    result = await play(f"function run() {{ console.log({forged!r}); return 2 }}")
    assert (result.output, [entry.text for entry in result.logs]) == (2, [forged])


async def test_a_shell_command_as_a_program(play: Play) -> None:
    """JSR-132 `ls -la` warns of undeclared names and ends `threw`."""
    async with play.runner("ls -la") as runner:
        codes = [warning.code for warning in runner.bundle.warnings]
        assert codes == ["undeclared", "undeclared"]
        result = await runner.run(None, UnwiredEnv())
    assert (result.status, result.reason) == ("fell_back", "threw")
    assert "ls is not defined" in result.sentence


async def test_prototypes_of_answers_are_clean(play: Play) -> None:
    """JSR-046, JSR-131 what one run does to built-ins does not reach another that is going on."""
    gate = asyncio.Event()

    async def wait(args: dict[str, Json]) -> Json:
        if args.get("first"):
            await gate.wait()
        else:
            gate.set()
        return {"a": [1]}

    program = """
    async function run(first) {
      if (!first) { Array.prototype.pwn = 1; Object.prototype.pwn = 1 }
      const answer = await tool('wait', {first})
      return [answer.pwn === undefined, answer.a.pwn === undefined]
    }"""
    async with play.runner(program, whitelist=["wait"]) as runner:
        env = playing_env({"wait": wait})
        clean, dirty = await asyncio.gather(runner.run(True, env), runner.run(False, env))
    assert clean.output == [True, True]
    assert dirty.output == [False, False]
