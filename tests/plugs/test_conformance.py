"""The conformance suite passes on plugs that keep to the rules, and finds each planted breach of one."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from jsrun.plugs.api import NextMessage, NextSession, NextTeardown, Plug
from jsrun.plugs.errors import NextMisuse, RequestError
from jsrun.plugs.host_api import AgentSpawnSpec
from jsrun.plugs.hosts import MemoryHost
from jsrun.plugs.hosts.memory import ExecCall, MemoryIO, Ran
from jsrun.plugs.message import Message
from jsrun.plugs.persist import PersistedState
from jsrun.plugs.testing.conformance import (
    CHECKS,
    Case,
    a_handed_host_is_handed_again,
    cancellation_is_heeded,
    conformance,
    crash_then_resume,
    crash_then_teardown,
    errors_end_without_a_hang,
    next_is_called_once_per_phase,
    nothing_is_left_running,
    order_is_kept,
    params_are_not_changed_in_place,
    stored_state_is_small,
    teardown_twice,
    teardown_without_a_session,
    teardown_without_stored_state,
    unknown_messages_pass,
)


class State(BaseModel):
    """What a machine is called."""

    name: str
    note: str = ""


class Good(Plug, name="sample/good"):
    """Makes a machine, works on it, keeps its name, and removes it."""

    Persisted = State
    persisted: PersistedState[State]
    keep = ""

    async def session(self, next: NextSession) -> None:
        if self.persisted.value is None:
            # A name that a second try finds again.
            await self.ctx.host.exec(f"make {self.ctx.session.id}")
            await self.persisted.set(State(name=self.ctx.session.id, note=self.keep))
        server = await self.ctx.host.spawn(AgentSpawnSpec("server"))
        try:
            await next()
        finally:
            await self.stop(server)

    async def stop(self, server: Any) -> None:
        await server.kill()
        await server.wait()

    async def teardown(self, next: NextTeardown) -> None:
        await next()
        await self.ctx.host.exec(f"destroy {self.ctx.session.id}")
        await self.persisted.clear()

    async def message(self, message: Message, next: NextMessage) -> Any:
        return await next(message)


def world() -> MemoryHost:
    """A cloud with the commands above: what is there can be made again, and what is gone destroyed again."""
    host = MemoryHost()
    made: set[str] = set()

    def make(call: ExecCall) -> Ran:
        made.add(str(call.command).split()[1])
        return Ran()

    def destroy(call: ExecCall) -> Ran:
        made.discard(str(call.command).split()[1])
        return Ran()

    async def server(io: MemoryIO) -> int:
        await asyncio.sleep(1e9)
        return 0

    host.on("make harness", make)
    host.on("destroy harness", destroy)
    host.program("server", server)
    return host


CASE = Case(host=world)

test_a_plug_that_does_nothing = pytest.mark.plg("PLG-099")(
    conformance(type("Nothing", (Plug,), {}, name="sample/nothing"), [Case()])
)
test_a_plug_that_keeps_to_the_rules = pytest.mark.plg("PLG-099")(conformance(Good, [CASE]))


class SecondTeardown(Good, name="sample/second-teardown"):
    """Destroys only what it knows, and fails if it knows nothing."""

    async def teardown(self, next: NextTeardown) -> None:
        await next()
        assert self.persisted.value is not None
        await self.ctx.host.exec(f"destroy {self.persisted.value.name}")
        await self.persisted.clear()


class NoResume(Good, name="sample/no-resume"):
    """Cannot be resumed after a crash before it stored something."""

    async def session(self, next: NextSession) -> None:
        if self.ctx.run.kind == "resume" and self.persisted.value is None:
            raise RuntimeError("there must be a name")
        await super().session(next)


class ForgetsAfterCrash(Good, name="sample/forgets-after-crash"):
    """Leaves a mark that makes a teardown after a crash fail."""

    async def session(self, next: NextSession) -> None:
        await self.ctx.runner.path("/tmp/busy").write_text("")
        await super().session(next)
        await self.ctx.runner.path("/tmp/busy").unlink()

    async def teardown(self, next: NextTeardown) -> None:
        await super().teardown(next)
        if await self.ctx.runner.path("/tmp/busy").exists():
            raise RuntimeError("busy")


class LeavesMark(Good, name="sample/leaves-mark"):
    """An error leaves a mark that no teardown gets over."""

    async def session(self, next: NextSession) -> None:
        try:
            await super().session(next)
        except Exception:
            await self.ctx.runner.path("/tmp/broken").write_text("")
            raise

    async def teardown(self, next: NextTeardown) -> None:
        await super().teardown(next)
        if await self.ctx.runner.path("/tmp/broken").exists():
            raise RuntimeError("broken")


class Deaf(Good, name="sample/deaf"):
    """Ignores its cancellation."""

    async def session(self, next: NextSession) -> None:
        try:
            await super().session(next)
        except asyncio.CancelledError:
            for _ in range(5):
                try:
                    await asyncio.sleep(1000)
                except asyncio.CancelledError:
                    continue
            raise


class Strict(Good, name="sample/strict"):
    """Refuses methods it does not know."""

    async def message(self, message: Message, next: NextMessage) -> Any:
        if message.method.startswith("_"):
            raise RequestError(-32601, "unknown")
        return await next(message)


class Swallows(Good, name="sample/swallows"):
    """Makes results of error answers."""

    async def message(self, message: Message, next: NextMessage) -> Any:
        try:
            return await next(message)
        except RequestError as error:
            return {"error": error.message}


class Overtakes(Good, name="sample/overtakes"):
    """Lets messages overtake."""

    async def message(self, message: Message, next: NextMessage) -> Any:
        if message.method == "_check/n" and message.params["n"] % 3 == 0:
            next.release()
            await asyncio.sleep(1)
        return await next(message)


class InPlace(Good, name="sample/in-place"):
    """Changes params in place."""

    async def message(self, message: Message, next: NextMessage) -> Any:
        if message.method == "session/prompt":
            message.params["prompt"].insert(0, {"type": "text", "text": "first"})
        return await next(message)


class NextTwice(Good, name="sample/next-twice"):
    """Tries again when the inside failed."""

    async def session(self, next: NextSession) -> None:
        info = await next()
        if info.reason == "failed":
            await next()


class NextNever(Good, name="sample/next-never"):
    """Removes nothing further in."""

    async def teardown(self, next: NextTeardown) -> None:
        await self.persisted.clear()


class HandsOnce(Plug, name="sample/hands-once"):
    """Hands a machine inwards, but not for its removal."""

    async def session(self, next: NextSession) -> None:
        await next(MemoryHost(kind="machine"))


class LeavesServer(Good, name="sample/leaves-server"):
    """Leaves a process running over a pause."""

    async def stop(self, server: Any) -> None:
        return None


class Hoards(Good, name="sample/hoards"):
    """Stores too much."""

    keep = "x" * 5000


FAULTS: list[tuple[Callable[..., Any], type[Plug], str]] = [
    (teardown_twice, SecondTeardown, "the second teardown"),
    (teardown_without_stored_state, SecondTeardown, "without stored state"),
    (teardown_without_a_session, SecondTeardown, "without a session"),
    (crash_then_teardown, ForgetsAfterCrash, "after a crash at exec, number 1 in the session"),
    (crash_then_resume, NoResume, "after a crash at exec, number 1 in the session"),
    (errors_end_without_a_hang, LeavesMark, "after an error at exec, number 1 in the session"),
    (cancellation_is_heeded, Deaf, "a cancellation at exec, number 1"),
    (unknown_messages_pass, Strict, ""),
    (unknown_messages_pass, Swallows, "an error answer became a result"),
    (order_is_kept, Overtakes, "change their order"),
    (params_are_not_changed_in_place, InPlace, "session/prompt"),
    (next_is_called_once_per_phase, NextTwice, "next()"),
    (next_is_called_once_per_phase, NextNever, ""),
    (a_handed_host_is_handed_again, HandsOnce, "not handed again"),
    (nothing_is_left_running, LeavesServer, "still runs after the pause"),
    (stored_state_is_small, Hoards, "bytes are stored"),
]


@pytest.mark.plg("PLG-099")
@pytest.mark.parametrize(
    ("check", "plug", "text"), FAULTS, ids=[f"{plug.name[7:]}-{check.__name__}" for check, plug, _ in FAULTS]
)
async def test_each_planted_fault_is_found(check: Any, plug: type[Plug], text: str) -> None:
    """PLG-099 It fails on sample plugs with one planted fault each, and says what is wrong."""
    with pytest.raises((AssertionError, RequestError, NextMisuse)) as caught:
        await check(plug, CASE)
    assert text in str(caught.value)
    if text:
        assert plug.name in str(caught.value)


@pytest.mark.plg("PLG-099")
def test_every_check_has_a_plug_that_breaks_it() -> None:
    """PLG-099 No check is without a sample that it fails on."""
    assert {check.__name__ for check in CHECKS} == {check.__name__ for check, _, _ in FAULTS}
