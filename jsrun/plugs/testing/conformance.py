"""What every plug must keep to, as test cases for any plug.

test_vm = conformance(VmPlug, [Case(inputs={"image": "x"}, host=make_host)])
"""

import copy
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from jsrun.plugs.api import NextMessage, NextSession, NextTeardown, Plug
from jsrun.plugs.errors import RequestError
from jsrun.plugs.hosts import MemoryHost
from jsrun.plugs.message import Message
from jsrun.plugs.runner import RunEnd
from jsrun.plugs.testing.agent import ScriptedAgent
from jsrun.plugs.testing.clock import Stuck
from jsrun.plugs.testing.faults import ANY, NEXT, STATE_OPERATIONS, Fault, crash, fail, hang
from jsrun.plugs.testing.harness import PLUG_ID, SESSION, PlugHarness
from jsrun.plugs.testing.peer import Peer

# Stored state above this gets a warning at run time; a plug that needs more stores what its configuration could tell.
STATE_BYTES: Final = 4 * 1024
# Numbered messages that must stay in order: more than any plug holds back.
MANY: Final = 40


@dataclass(frozen=True, slots=True)
class Case:
    """One way to use the plug. `host`, `runner` and `agent` are made anew for each check.

    `drive` does what makes the plug work between attach and pause, a turn if not given.
    """

    inputs: Any = None
    name: str = "plain"
    id: str | None = PLUG_ID
    host: Callable[[], MemoryHost] | None = None
    runner: Callable[[], MemoryHost] = MemoryHost
    agent: Callable[[], ScriptedAgent] = ScriptedAgent
    env: dict[str, str] = field(default_factory=dict)
    drive: Callable[[PlugHarness], Awaitable[Any]] = lambda harness: harness.prompt("a turn")


Check = Callable[[type[Plug], Case], Awaitable[None]]


def conformance(plug: type[Plug], cases: Sequence[Case]) -> Any:
    """A pytest function with a case for each check and each of `cases`; assign it to a name that begins with test_."""
    import pytest

    @pytest.mark.parametrize("case", cases, ids=[case.name for case in cases])
    @pytest.mark.parametrize("check", CHECKS, ids=[check.__name__ for check in CHECKS])
    async def test_conformance(check: Check, case: Case) -> None:
        await check(plug, case)

    return test_conformance


async def teardown_twice(plug: type[Plug], case: Case) -> None:
    """A second teardown does no harm."""
    async with _session(plug, case) as harness:
        await _attached(harness)
        await _ends(harness, "the first teardown")
        await _ends(harness, "the second teardown")


async def teardown_without_stored_state(plug: type[Plug], case: Case) -> None:
    """A teardown whose stored state is lost does no harm."""
    async with _session(plug, case) as harness:
        await _attached(harness)
        await _paused(harness)
        harness.store.values.clear()
        await _ends(harness, "teardown without stored state")


async def teardown_without_a_session(plug: type[Plug], case: Case) -> None:
    """A teardown before anything was made does no harm."""
    async with _session(plug, case) as harness:
        await _ends(harness, "teardown without a session")


async def crash_then_teardown(plug: type[Plug], case: Case) -> None:
    """After a crash at any operation a teardown ends the session."""
    for spot in await _spots(plug, case):
        async with _session(plug, case) as harness:
            await _through(harness, case, spot, crash(ANY, spot.nth))
            await _ends(harness, f"teardown after a crash at {spot}")


async def crash_then_resume(plug: type[Plug], case: Case) -> None:
    """After a crash at any operation before the teardown a resume attaches, and the session can be ended."""
    if not plug.resumable:
        return
    for spot in await _spots(plug, case):
        if spot.teardown:
            continue
        async with _session(plug, case) as harness:
            await _through(harness, case, spot, crash(ANY, spot.nth))
            try:
                await harness.resume()
            except Exception as error:
                raise AssertionError(f"{plug.name}: resume after a crash at {spot} fails: {error!r}") from error
            await _ends(harness, f"teardown after a crash at {spot} and a resume")


async def errors_end_without_a_hang(plug: type[Plug], case: Case) -> None:
    """An error at any operation ends in a run that ends, and a session that can be ended."""
    for spot in await _spots(plug, case):
        async with _session(plug, case) as harness:
            await _through(harness, case, spot, fail(ANY, spot.nth))
            await _ends(harness, f"teardown after an error at {spot}")


async def cancellation_is_heeded(plug: type[Plug], case: Case) -> None:
    """A handler that hangs in an operation ends within 5 s of its cancellation."""
    for spot in await _spots(plug, case):
        if spot.op in STATE_OPERATIONS:
            continue  # a write once begun is not undone by a cancellation, so it is not the plug that hangs
        async with _session(plug, case) as harness:
            await _through(harness, case, spot, hang(ANY, spot.nth))
            ignored = [line for line in harness.logs if "ignores its cancellation" in line or "left behind" in line]
            assert not ignored, f"{plug.name}: a cancellation at {spot} is ignored"


async def unknown_messages_pass(plug: type[Plug], case: Case) -> None:
    """Unknown methods, and error answers to them, pass unchanged both ways."""
    params = {"z": [1, {"_meta": None}], "a": "ü"}

    def client(peer: Peer, method: str, got: Any) -> Any:
        return _answer(method, got)

    async with _session(plug, case, client=client) as harness:
        for method in ("_check/result", "_check/error"):
            harness.agent.on[method] = lambda peer, method, got: _answer(method, got)
        await _attached(harness)
        for ask, side in ((harness.request, "agent"), (harness.agent_request, "client")):
            assert await ask("_check/result", params) == {"got": params}, f"{plug.name}: an unknown result was changed"
            try:
                await ask("_check/error", params)
            except RequestError as error:
                assert error.args == (-32042, "no", {"d": 1}), f"{plug.name}: an error answer was changed: {error!r}"
            else:
                raise AssertionError(f"{plug.name}: an error answer became a result")
            got = [value for who, _, what, value in harness.wire if (who, what) == (side, "_check/result")]
            assert got == [params] and list(got[0]) == ["z", "a"], f"{plug.name}: an unknown request was changed: {got}"
        for tell, side in ((harness.notify, "agent"), (harness.agent_notify, "client")):
            await tell("_check/told", params)
            got = [value for who, _, what, value in harness.wire if (who, what) == (side, "_check/told")]
            assert got == [params], f"{plug.name}: an unknown notification was changed or dropped: {got}"
        await _paused(harness)


async def order_is_kept(plug: type[Plug], case: Case) -> None:
    """Numbered messages come out in order, both ways, and an answer after those before it."""

    async def chatter(peer: Peer, method: str, params: Any) -> Any:
        for n in range(MANY):
            await peer.notify("_check/n", {"n": n})
        return {"n": MANY}

    async with _session(plug, case) as harness:
        harness.agent.on["_check/chatter"] = chatter
        await _attached(harness)
        await harness.request("_check/chatter")
        seen = [
            value["n"]
            for side, kind, what, value in harness.wire
            if side == "client"
            and isinstance(value, dict)
            and "n" in value
            and (what == "_check/n" or kind == "answer")
        ]
        assert seen == list(range(MANY + 1)), f"{plug.name}: messages of the agent change their order: {seen}"
        for n in range(MANY):
            await harness.time.run(harness.client.notify("_check/n", {"n": n}))
        await harness.time.settle()
        seen = [value["n"] for side, _, what, value in harness.wire if (side, what) == ("agent", "_check/n")]
        assert seen == list(range(MANY)), f"{plug.name}: messages of the client change their order: {seen}"
        await _paused(harness)


async def params_are_not_changed_in_place(plug: type[Plug], case: Case) -> None:
    """What a plug is given stays as it is."""
    changed: list[str] = []

    class Watch(Plug, name="conformance/watch"):
        """Compares what it gave to the plug with what it was."""

        async def message(self, message: Message, next: NextMessage) -> Any:
            before = copy.deepcopy(message.params)
            try:
                return await next(message)
            finally:
                if message.params != before:
                    changed.append(message.method)

    async with _session(plug, case, around=Watch) as harness:
        await _attached(harness)
        await case.drive(harness)
        for tell in (harness.notify, harness.agent_notify):
            await tell("_check/told", {"a": [1, {"b": 2}]})
        update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "a text"}}
        await harness.agent_notify("session/update", {"sessionId": "acp-1", "update": update})
        await _paused(harness)
    assert not changed, f"{plug.name}: params were changed in place: {', '.join(changed)}"


async def next_is_called_once_per_phase(plug: type[Plug], case: Case) -> None:
    """`session` and `teardown` call `next` once, whether the inside fails or not."""
    spots = await _spots(plug, case)
    for spot in [None, *(spot for spot in spots if spot.op == NEXT)]:
        async with _session(plug, case) as harness:
            await _through(harness, case, spot, None if spot is None else fail(ANY, spot.nth))
            misuse = [line for line in harness.logs if "next()" in line and "ERROR" in line]
            assert not misuse, f"{plug.name}: {misuse[0]}"


async def a_handed_host_is_handed_again(plug: type[Plug], case: Case) -> None:
    """A plug that hands a host inwards in `session` does so in a later `teardown`, or says that it is gone."""
    kinds: list[str] = []

    class Look(Plug, name="conformance/look"):
        """Looks at the host that the plug left it."""

        async def session(self, next: NextSession) -> None:
            await next()

        async def teardown(self, next: NextTeardown) -> None:
            kinds.append(self.ctx.host.info.kind)
            await next()

    async with _session(plug, case, inner=Look) as harness:
        await _attached(harness)
        await _paused(harness)
        await _ends(harness, "teardown after a pause")
    assert "unavailable" not in kinds, f"{plug.name}: the host handed in `session` is not handed again in `teardown`"


async def nothing_is_left_running(plug: type[Plug], case: Case) -> None:
    """After a pause no process of the plug runs, also where the host would let it."""
    async with _session(plug, case) as harness:
        await _attached(harness)
        await case.drive(harness)
        await _paused(harness)
        killed = [line for line in harness.logs if "left running" in line]
        assert not killed, f"{plug.name}: a process still runs after the pause"


async def stored_state_is_small(plug: type[Plug], case: Case) -> None:
    """Stored state has less than 4 KiB."""
    async with _session(plug, case) as harness:
        await _attached(harness)
        await case.drive(harness)
        await _paused(harness)
        size = len(harness.store.values.get((SESSION, case.id or ""), b""))
        assert size < STATE_BYTES, f"{plug.name}: {size:,} bytes are stored, more than {STATE_BYTES:,}"


CHECKS: Final[tuple[Check, ...]] = (
    teardown_twice,
    teardown_without_stored_state,
    teardown_without_a_session,
    crash_then_teardown,
    crash_then_resume,
    errors_end_without_a_hang,
    cancellation_is_heeded,
    unknown_messages_pass,
    order_is_kept,
    params_are_not_changed_in_place,
    next_is_called_once_per_phase,
    a_handed_host_is_handed_again,
    nothing_is_left_running,
    stored_state_is_small,
)


@asynccontextmanager
async def _session(
    plug: type[Plug],
    case: Case,
    *,
    around: type[Plug] | None = None,
    inner: type[Plug] | None = None,
    client: Any = None,
) -> AsyncIterator[PlugHarness]:
    options: dict[str, Any] = {} if client is None else {"client": client}
    harness = PlugHarness(
        plug,
        inputs=copy.deepcopy(case.inputs),
        id=case.id,
        host=case.host() if case.host is not None else None,
        runner=case.runner(),
        agent=case.agent(),
        env=case.env,
        outer=[around] if around is not None else [],
        inner=[each for each in (around, inner) if each is not None],
        **options,
    )
    async with harness:
        yield harness


async def _attached(harness: PlugHarness) -> None:
    try:
        await harness.attach()
    except Exception as error:
        raise AssertionError(f"{harness.plug.name}: attach fails: {error!r}") from error


async def _paused(harness: PlugHarness) -> None:
    end = await harness.pause()
    assert end is not None
    assert end.state == "paused", f"{harness.plug.name}: the pause fails: {end.error!r}"


async def _ends(harness: PlugHarness, what: str) -> RunEnd:
    try:
        end = await harness.teardown()
    except Stuck as error:
        raise AssertionError(f"{harness.plug.name}: {what} hangs") from error
    assert end is not None and end.state == "ended", (
        f"{harness.plug.name}: {what} leaves something: {end and end.error!r}"
    )
    return end


@dataclass(frozen=True, slots=True)
class _Spot:
    """An operation: the `nth` of its run, the session's or one that only tears down; `number` counts equal ones."""

    teardown: bool
    nth: int
    op: str
    number: int

    def __str__(self) -> str:
        return f"{self.op}, number {self.number} {'in teardown' if self.teardown else 'in the session'}"


async def _spots(plug: type[Plug], case: Case) -> list[_Spot]:
    """Every operation of a session that goes well, in order."""
    async with _session(plug, case) as harness:
        await _attached(harness)
        await case.drive(harness)
        await _paused(harness)
        session = harness.planted.operations
        await _ends(harness, "teardown")
        teardown = harness.planted.operations
    return [
        _Spot(in_teardown, nth, op, operations[:nth].count(op))
        for in_teardown, operations in ((False, session), (True, teardown))
        for nth, op in enumerate(operations, 1)
    ]


async def _through(harness: PlugHarness, case: Case, spot: _Spot | None, fault: Fault | None) -> None:
    """Attach, drive, pause and tear down, as far as the fault at `spot` lets it; then no fault is planted any more."""
    planted = (fault,) if fault is not None else ()
    try:
        if spot is not None and spot.teardown:
            await _attached(harness)
            await case.drive(harness)
            await _paused(harness)
        else:
            harness.faults = planted
            if not await _session_run(harness, case):
                return
        harness.faults = planted if spot is not None and spot.teardown else ()
        await harness.teardown()
    except Stuck as error:
        raise AssertionError(f"{harness.plug.name}: it hangs after a fault at {spot}") from error
    finally:
        harness.faults = ()


async def _session_run(harness: PlugHarness, case: Case) -> bool:
    """A run that may fail anywhere; whether it ended in a pause."""
    try:
        await harness.attach()
        if not harness.crashed:
            await case.drive(harness)
    except Stuck:
        raise
    except Exception:
        # What was planted, or what the plug or the runner made of it. The session may go on all the same.
        if not harness.running:
            return False
    if harness.crashed:
        return False
    end = await harness.pause()
    return end is not None and end.state == "paused"


def _answer(method: str, params: Any) -> Any:
    if method == "_check/error":
        raise RequestError(-32042, "no", {"d": 1})
    return {"got": params}
