"""Whatever plugs, client and agent do, in whatever order: each request is answered once, and order is kept."""

import asyncio
from collections import Counter
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jsrun.plugs.api import NextMessage
from jsrun.plugs.errors import RequestError
from jsrun.plugs.message import Message
from jsrun.plugs.testing.peer import Peer
from tests.plugs.talk import LOST, Talk, With, talk

# What a plug may do with a message.
DEEDS = ["pass", "slow before", "slow after", "twice", "both", "send", "release", "refuse", "timeout", "short"]
# What happens, one after the other: the client asks, tells, cancels its latest, the agent tells, or time passes.
EVENTS = ["ask", "ask", "tell", "cancel", "agent tells", "agent asks", "wait"]


@dataclass(frozen=True)
class Plan:
    """Deeds of three plugs, what happens, and how long the agent takes for each answer."""

    deeds: list[list[str]]
    events: list[str]
    delays: list[float]


plans = st.builds(
    Plan,
    st.lists(st.lists(st.sampled_from(DEEDS), min_size=1, max_size=4), min_size=1, max_size=3),
    st.lists(st.sampled_from(EVENTS), min_size=1, max_size=14),
    st.lists(st.sampled_from([0.0, 0.5, 3.0, 20.0]), min_size=1, max_size=4),
)


def doing(deeds: list[str]) -> With:
    """A plug that does one deed after the other."""
    count = 0

    async def handler(plug: Any, message: Message, next: NextMessage) -> Any:
        nonlocal count
        deed = deeds[count % len(deeds)]
        count += 1
        if message.kind == "notification":
            if deed == "slow before":
                await asyncio.sleep(1)
            # What asks through its own queue may be overtaken, so updates do not.
            if deed == "send" and message.direction == "to_agent":
                await plug.ctx.send(Message("to_agent", "_asked/aside"))
            return await next(message)
        match deed:
            case "slow before":
                await asyncio.sleep(1)
            case "twice":
                await next(message)
            case "both":
                return (await asyncio.gather(next(message), next(message)))[0]
            case "send":
                await plug.ctx.send(Message("to_agent", "_asked/aside"))
            case "release":
                next.release()
            case "refuse":
                raise RequestError(-32001, "refused")
            case "short":
                return "short"
            case "timeout":
                try:
                    async with asyncio.timeout(2):
                        return await next(message)
                except TimeoutError:
                    return "gave up"
        result = await next(message)
        if deed == "slow after":
            await asyncio.sleep(1)
        return result

    return With(handler)


@pytest.mark.plg("PLG-041", "PLG-046", "PLG-049")
@settings(max_examples=60, deadline=None)
@given(plans)
def test_every_request_is_answered_once_and_order_is_kept(plan: Plan) -> None:
    """PLG-041 PLG-046 PLG-049 Each request is answered once, notifications keep their order, nothing stalls."""
    asyncio.run(_check(plan))


async def _check(plan: Plan) -> None:
    served = 0

    async def agent(peer: Peer, method: str, params: Any) -> Any:
        nonlocal served
        served += 1
        for _ in range(int(plan.delays[served % len(plan.delays)] * 2)):
            await asyncio.sleep(0.5)
            if peer.cancelled:
                raise RequestError(-32800, "cancelled")
        return "done"

    async with talk(*(doing(deeds) for deeds in plan.deeds), agent=agent, client=lambda *_: "allowed") as talking:
        asked: list[tuple[int, asyncio.Future[Any]]] = []
        by_agent: list[asyncio.Future[Any]] = []
        told = Counter[str]()
        for event in plan.events:
            await _happen(event, talking, asked, by_agent, told)
        await talking.time.pass_by(10_000)  # more than all that is asked aside, one after the other
        assert not talking.failures
        everything = [*(future for _, future in asked), *by_agent]
        assert all(future.done() for future in everything)
        await asyncio.gather(*everything, return_exceptions=True)
        answers = Counter(number for kind, number, _ in talking.client.got if kind == "answer")
        assert answers == Counter(number for number, _ in asked)
        assert talking.updates() == list(range(told["agent"]))
        at_agent = [params["n"] for kind, what, params in talking.agent.got if what == "_told"]
        assert at_agent == sorted(set(at_agent))  # some are dropped, with what their handlers asked aside
        assert talking.chain.in_flight == 0 and talking.chain.quiet_since() is not None
        assert talking.client_side.wire.open == talking.agent_side.wire.open == 0


@pytest.mark.plg("PLG-041")
@settings(max_examples=60, deadline=None)
@given(plans, st.sampled_from(["fail", "lost", "stop"]))
def test_every_request_is_answered_once_whenever_the_session_ends(plan: Plan, how: str) -> None:
    """PLG-041 Each request is answered exactly once, also when the session fails or ends at any moment."""
    asyncio.run(_check_end(plan, how))


async def _check_end(plan: Plan, how: str) -> None:
    async def agent(peer: Peer, method: str, params: Any) -> Any:
        await asyncio.sleep(plan.delays[0] * 100)
        return "done"

    async with talk(*(doing(deeds) for deeds in plan.deeds), agent=agent, client=lambda *_: "allowed") as talking:
        asked: list[tuple[int, asyncio.Future[Any]]] = []
        by_agent: list[asyncio.Future[Any]] = []
        for event in plan.events:
            await _happen(event, talking, asked, by_agent, Counter[str]())
        if how == "lost":
            talking.chain.agent_lost(LOST)
        if how == "stop":
            talking.chain.stop()
            await talking.run(talking.chain.cancel_prompts(5))
        await talking.run(talking.chain.close(ValueError("it fails") if how == "fail" else None))
        talking.client_side.refuse("The session is over.")
        await talking.time.settle()
        everything = [future for _, future in asked]
        assert all(future.done() for future in everything)
        await asyncio.gather(*everything, return_exceptions=True)
        answers = Counter(number for kind, number, _ in talking.client.got if kind == "answer")
        assert answers == Counter(number for number, _ in asked)
        assert talking.client_side.wire.open == 0 and talking.chain.in_flight == 0


async def _happen(
    event: str,
    talking: Talk,
    asked: list[tuple[int, "asyncio.Future[Any]"]],
    by_agent: list["asyncio.Future[Any]"],
    told: Counter[str],
) -> None:
    match event:
        case "ask":
            asked.append(await talking.client.ask("_asked", {"n": len(asked)}))
        case "tell":
            await talking.client.notify("_told", {"n": told["client"]})
            told["client"] += 1
        case "cancel" if asked:
            await talking.client.cancel(asked[-1][0])
        case "agent tells":
            await talking.agent.notify("session/update", {"n": told["agent"]})
            told["agent"] += 1
        case "agent asks":
            by_agent.append((await talking.agent.ask("session/request_permission", {}))[1])
        case "wait":
            await talking.time.pass_by(0.7)
