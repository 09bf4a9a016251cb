"""The test kit: a plug is attached for real, in a world where time jumps and faults happen where they are planted."""

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel

from jsrun.plugs.api import EndReason, NextMessage, NextSession, NextTeardown, Plug
from jsrun.plugs.errors import HostError, PhaseTimeout
from jsrun.plugs.hosts import MemoryHost
from jsrun.plugs.hosts.memory import Ran
from jsrun.plugs.message import Message
from jsrun.plugs.persist import PersistedState
from jsrun.plugs.testing.faults import Planted, crash, fail, hang
from jsrun.plugs.testing.harness import PlugHarness


class State(BaseModel):
    """What the machine is called."""

    name: str


class Machine(Plug, name="test/machine"):
    """Makes a machine by a command, and removes it by another."""

    class Inputs(BaseModel):
        """The machine's size."""

        size: int = 1

    Persisted = State
    persisted: PersistedState[State]

    async def session(self, next: NextSession) -> None:
        if self.persisted.value is None:
            made = await self.ctx.host.exec(f"make {self.inputs.size}")
            await self.persisted.set(State(name=made.stdout.strip()))
        self.ctx.agent.env["MACHINE"] = self.persisted.value.name if self.persisted.value else ""
        await next()
        await self.ctx.host.exec("sleep-machine")

    async def teardown(self, next: NextTeardown) -> None:
        await next()
        if self.persisted.value is not None:
            await self.ctx.host.exec(["destroy", self.persisted.value.name])
            await self.persisted.clear()

    async def message(self, message: Message, next: NextMessage) -> Any:
        return await next(message)


def machines() -> MemoryHost:
    host = MemoryHost()
    host.on("make 2", Ran(stdout="m-1\n"))
    host.on("sleep-machine", Ran())
    host.on(["destroy", "m-1"], Ran())
    return host


def commands(harness: PlugHarness) -> list[Any]:
    return [call.args[0].command for call in harness.calls if call.op == "exec"]


async def test_a_session_from_attach_to_teardown() -> None:
    """Attach, messages both ways, pause, resume, teardown; everything can be looked at."""
    async with PlugHarness(Machine, inputs={"size": 2}, host=machines(), client=lambda *_: "allowed") as harness:
        await harness.attach()
        assert harness.persisted == {"name": "m-1"}
        assert harness.draft is not None and harness.draft.env["MACHINE"] == "m-1"
        assert await harness.prompt("hi") == {"stopReason": "end_turn"}
        assert await harness.agent_request("session/request_permission", {}) == "allowed"
        await harness.notify("session/cancel", {"sessionId": "acp-1"})
        await harness.agent_notify("session/update", {"n": 1})
        shown = [(side, what) for side, kind, what, _ in harness.wire if kind != "answer"]
        assert shown == [
            ("agent", "session/new"),
            ("agent", "session/prompt"),
            ("client", "session/update"),
            ("client", "session/request_permission"),
            ("agent", "session/cancel"),
            ("client", "session/update"),
        ]
        end = await harness.pause()
        assert end is not None and end.state == "paused"
        await harness.resume()
        assert await harness.prompt("again") == {"stopReason": "end_turn"}
        end = await harness.teardown()
        assert end is not None and end.state == "ended" and harness.persisted is None
        assert commands(harness) == ["make 2", "sleep-machine", "sleep-machine", ("destroy", "m-1")]


async def test_a_run_that_fails_raises_its_error() -> None:
    """`attach` raises what the run failed with, after it has been torn down."""
    async with PlugHarness(Machine, inputs={"size": 2}, host=machines(), faults=[fail("exec")]) as harness:
        with pytest.raises(HostError, match="planted: exec, number 1"):
            await harness.attach()
        assert harness.end is not None and harness.end.state == "ended"


async def test_a_hang_runs_into_the_limit_without_waiting_for_it() -> None:
    """Ten minutes pass at once."""
    async with PlugHarness(Machine, inputs={"size": 2}, host=machines(), faults=[hang("exec")]) as harness:
        before = harness.time.now()
        with pytest.raises(PhaseTimeout):
            await harness.attach()
        assert harness.time.now() - before >= 600


async def test_next_can_fail() -> None:
    """A fault at `next` is a failure of the inside."""
    async with PlugHarness(Machine, inputs={"size": 2}, host=machines(), faults=[fail("next")]) as harness:
        with pytest.raises(Planted):
            await harness.attach()
        assert ("destroy", "m-1") in commands(harness)


@pytest.mark.parametrize("op", ["exec", "persisted.set", "next"])
@pytest.mark.parametrize("then", ["resume", "teardown"])
async def test_after_a_crash_a_run_goes_on_from_what_was_durable(op: str, then: str) -> None:
    """No plug code takes effect after the crash; `resume()` and `teardown()` go on from what was durable."""
    async with PlugHarness(Machine, inputs={"size": 2}, host=machines(), faults=[crash(op)]) as harness:
        await harness.attach()
        assert harness.crashed and harness.agent.starts == 0
        made = commands(harness)
        assert made == ([] if op == "exec" else ["make 2"])
        assert (harness.persisted is not None) is (op == "next")
        harness.faults = ()
        if then == "resume":
            await harness.resume()
            assert harness.agent.starts == 1
        end = await harness.teardown()
        assert end is not None and end.state == "ended"
        assert (("destroy", "m-1") in commands(harness)) is (then == "resume" or op == "next")


async def test_a_stored_value_of_an_earlier_run_is_there() -> None:
    """`persisted=` is what an earlier run stored; `kind=` is the kind of the first run."""
    async with PlugHarness(
        Machine, inputs={"size": 2}, host=machines(), kind="resume", persisted={"name": "m-1"}
    ) as harness:
        await harness.attach()
        await harness.teardown("cancelled")
        assert commands(harness) == ["sleep-machine", ("destroy", "m-1")]


async def test_nothing_is_left_running() -> None:
    """However the harness is left, its tasks end with it."""
    before = asyncio.all_tasks()
    async with PlugHarness(Machine, inputs={"size": 2}, host=machines()) as harness:
        await harness.attach()
    assert asyncio.all_tasks() == before


@pytest.mark.parametrize("reason", ["closed", "idle"])
async def test_a_harness_may_be_used_without_a_block(reason: EndReason) -> None:
    """Its world begins with the first run and ends with the session: time is the loop's own again, nothing runs."""
    loop = asyncio.get_running_loop()
    harness = PlugHarness(Machine, inputs={"size": 2}, host=machines())
    await harness.attach()
    await harness.prompt("hello")
    assert "time" in vars(loop)
    await harness.pause(reason)
    if reason == "idle":
        await harness.resume()
    end = await harness.teardown("cancelled")
    assert end is not None and end.state == "ended" and harness.persisted is None
    assert "time" not in vars(loop) and asyncio.all_tasks() == {asyncio.current_task()}
