"""What is read first comes out first, whatever plugs do on the way, and nothing waits for itself."""

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jsrun.plugs._side import READ_AHEAD_ITEMS, WRITE_AHEAD_BYTES
from jsrun.plugs.api import NextMessage, Plug
from jsrun.plugs.errors import ChainStalled, RequestError
from jsrun.plugs.message import Message
from jsrun.plugs.testing.peer import Peer
from tests.plugs.talk import Through, With, lines, talk


def waits(before: float = 0.0, after: float = 0.0, only: str | None = None) -> Plug:
    """Waits before and after `next`."""

    async def handler(plug: Any, message: Message, next: NextMessage) -> Any:
        chosen = only is None or message.method == only
        if chosen and before:
            await asyncio.sleep(before)
        result = await next(message)
        if chosen and after:
            await asyncio.sleep(after)
        return result

    return With(handler)


async def turn(peer: Peer, method: str, params: Any) -> Any:
    """An agent whose turn has five updates."""
    if method == "session/new":
        await peer.notify("session/update", {"n": 0})
        return {"sessionId": "s"}
    if method == "session/prompt":
        for n in range(1, 6):
            await peer.notify("session/update", {"n": n})
        return {"stopReason": "end_turn"}
    return {}


@pytest.mark.plg("PLG-046")
@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(st.integers(0, 3), min_size=3, max_size=3), min_size=1, max_size=12))
def test_notifications_come_out_in_read_order(delays: list[list[int]]) -> None:
    """PLG-046 Notifications through plugs that wait unevenly come out in read order."""

    async def uneven(plug: Any, message: Message, next: NextMessage) -> Any:
        await asyncio.sleep(delays[message.params["n"]][plug.ctx.plug.index])
        return await next(message)

    async def talking() -> None:
        async with talk(With(uneven), With(uneven), With(uneven)) as each:
            for n in range(len(delays)):
                await each.agent.notify("session/update", {"n": n})
            await each.time.pass_by(1000)
            assert each.updates() == list(range(len(delays)))

    asyncio.run(talking())


@pytest.mark.plg("PLG-047")
@pytest.mark.parametrize(
    "slow",
    [
        pytest.param(lambda: waits(after=2), id="after"),
        pytest.param(lambda: waits(before=2), id="before"),
        pytest.param(lambda: waits(before=1, only="session/update"), id="updates"),
        pytest.param(lambda: waits(after=3, only="session/new"), id="new"),
    ],
)
async def test_updates_and_answers_keep_their_order(slow: Any) -> None:
    """PLG-047 All updates of a turn precede its answer, a `session/new` answer precedes that session's updates."""

    async def new_first(peer: Peer, method: str, params: Any) -> Any:
        if method == "session/new":
            # Written right behind the answer, as agents do.
            asyncio.get_running_loop().call_soon(lambda: follow.append(asyncio.ensure_future(late(peer))))
            return {"sessionId": "s"}
        return await turn(peer, method, params)

    async def late(peer: Peer) -> None:
        await peer.notify("session/update", {"n": 0})

    follow: list[asyncio.Future[None]] = []
    async with talk(Through(), slow(), Through(), agent=new_first) as talking:
        await talking.run(talking.client.request("session/new", {}))
        await talking.time.pass_by(10)
        await talking.prompt()
        kinds = [what if kind == "notification" else kind for kind, what, _ in talking.client.got]
    assert kinds == ["answer", *["session/update"] * 6, "answer"] and len(follow) == 1


@pytest.mark.plg("PLG-048")
async def test_a_prompt_under_way_holds_nothing_back() -> None:
    """PLG-048 A prompt that waits for its result does not hold back `session/cancel`."""
    cancelled = asyncio.Event()

    async def agent(peer: Peer, method: str, params: Any) -> Any:
        if method == "session/cancel":
            cancelled.set()
            return None
        await cancelled.wait()
        return {"stopReason": "cancelled"}

    async with talk(Through(), agent=agent) as talking:
        _, answer = await talking.client.ask("session/prompt", {"sessionId": "s"})
        await talking.client.notify("session/cancel", {"sessionId": "s"})
        assert await talking.run(_wait(answer)) == {"stopReason": "cancelled"}


@pytest.mark.plg("PLG-049")
@pytest.mark.parametrize("kind", ["notification", "request", "answer", "own"])
async def test_a_handler_may_ask_through_the_queue_it_holds(kind: str) -> None:
    """PLG-049 A handler that asks the far side through the queue it holds does not stall."""

    async def handler(plug: Any, message: Message, next: NextMessage) -> Any:
        if kind == "own" and message.method == "session/prompt":
            # Before it is sent on, it asks the client, whose answer comes behind this very prompt.
            assert await plug.ctx.send(Message("from_agent", "elicitation/create")) == "yes"
        if message.method in ("session/update", "session/request_permission") and kind != "answer":
            assert (await plug.ctx.send(Message("to_agent", "session/list")))["method"] == "session/list"
        result = await next(message)
        if kind == "answer" and message.method == "session/prompt":
            assert (await plug.ctx.send(Message("to_agent", "session/list")))["method"] == "session/list"
            await next(message)
        return result

    async def agent(peer: Peer, method: str, params: Any) -> Any:
        if method != "session/prompt":
            return {"method": method}
        if kind == "request":
            await peer.request("session/request_permission")
        await peer.notify("session/update", {"n": 1})
        return {}

    async with talk(With(handler), Through(), client=lambda *_: "yes", agent=agent) as talking:
        before = talking.time.now()
        await talking.prompt()
        await talking.time.settle()
        assert talking.time.now() - before < 1 and not talking.failures
        assert talking.updates() in ([1], [1, 1])


@pytest.mark.plg("PLG-049")
async def test_an_answer_to_a_message_that_is_over_holds_nothing() -> None:
    """PLG-049 A second `next` whose message is answered already does not hold the queue with its late answer."""

    async def both(plug: Any, message: Message, next: NextMessage) -> Any:
        if message.kind == "notification":
            return await next(message)
        return await asyncio.gather(next(message), next(message))

    async def refuse_first(plug: Any, message: Message, next: NextMessage) -> Any:
        refused.append(1)
        if len(refused) == 1:
            raise RequestError(-32001, "no")
        return await next(message)

    refused: list[int] = []
    async with talk(With(both), With(refuse_first)) as talking:
        with pytest.raises(RequestError, match="no"):
            await talking.prompt()
        await talking.agent.notify("session/update", {"n": 1})
        await talking.time.settle()
        assert talking.updates() == [1]


@pytest.mark.plg("PLG-050")
async def test_after_release_later_messages_overtake() -> None:
    """PLG-050 After `next.release()` later messages overtake."""

    async def handler(plug: Any, message: Message, next: NextMessage) -> Any:
        if message.params["n"] == 0:
            next.release()
            await asyncio.sleep(60)
        return await next(message)

    async with talk(With(handler)) as talking:
        for n in range(3):
            await talking.agent.notify("session/update", {"n": n})
        await talking.time.settle()
        assert talking.updates() == [1, 2]
        await talking.time.pass_by(61)
        assert talking.updates() == [1, 2, 0]


@pytest.mark.plg("PLG-051")
async def test_a_held_place_is_logged_and_at_the_limit_fails_the_session(caplog: pytest.LogCaptureFixture) -> None:
    """PLG-051 A held place is logged at 5 s and fails the session with `ChainStalled`, naming plug and method."""
    async with talk(Through(), waits(before=1e6)) as talking:
        await talking.agent.notify("session/update", {"n": 0})
        await talking.time.pass_by(4.9)
        assert "held" not in lines(caplog)
        await talking.time.pass_by(0.2)
        assert "with-1" in lines(caplog) and "session/update" in lines(caplog)
        assert len(caplog.records) == 1
        await talking.time.pass_by(294.8)
        assert not talking.failures
        await talking.time.pass_by(0.2)
        (failure,) = talking.failures
    assert isinstance(failure, ChainStalled) and "with-1" in str(failure) and "session/update" in str(failure)
    assert len([record for record in caplog.records if "held by a plug" in record.getMessage()]) == 1


@pytest.mark.plg("PLG-051")
async def test_time_blocked_on_writing_is_not_held() -> None:
    """PLG-051 Time blocked on writing does not count as held."""
    door = asyncio.Event()

    async def write(data: bytes) -> None:
        await door.wait()

    async with talk(Through(), client_write=write) as talking:
        await talking.agent.notify("session/update", {"n": 0, "text": "x" * (2 * WRITE_AHEAD_BYTES)})
        await talking.agent.notify("session/update", {"n": 1})
        await talking.time.pass_by(1000)
        assert not talking.failures
        door.set()
        await talking.time.settle()


@pytest.mark.plg("PLG-058")
async def test_agent_lines_after_the_stop_reach_no_plug() -> None:
    """PLG-058 Agent lines after the stop began reach no plug, answers to requests in flight do."""
    through = Through()

    async def agent(peer: Peer, method: str, params: Any) -> Any:
        await asyncio.sleep(5)
        await peer.notify("session/update", {"n": 1})
        with pytest.raises(RequestError):
            await peer.request("session/request_permission", {})
        return {"stopReason": "cancelled"}

    async with talk(through, agent=agent) as talking:
        _, answer = await talking.client.ask("session/prompt", {"sessionId": "s"})
        await talking.time.settle()
        talking.chain.stop()
        await talking.client.notify("session/cancel", {"sessionId": "s"})
        assert await talking.run(_wait(answer)) == {"stopReason": "cancelled"}
        assert through.seen == ["session/prompt"] and talking.agent_side.skipped == 2
        assert talking.client_side.queued == 1


async def test_prompts_in_flight_are_cancelled_through_the_chain() -> None:
    """A stop sends session/cancel for each prompt through the plugs, and waits for the answer."""
    through = Through()
    cancelled = asyncio.Event()

    async def agent(peer: Peer, method: str, params: Any) -> Any:
        if method == "session/cancel":
            cancelled.set()
            return None
        await cancelled.wait()
        return {"stopReason": "cancelled"}

    async with talk(through, agent=agent) as talking:
        _, answer = await talking.client.ask("session/prompt", {"sessionId": "s"})
        await talking.time.settle()
        talking.chain.stop()
        await talking.run(talking.chain.cancel_prompts(5))
        assert answer.done() and answer.result() == {"stopReason": "cancelled"}
        assert through.seen == ["session/prompt", "session/cancel"]


async def test_a_prompt_that_is_not_answered_does_not_hold_up_the_stop() -> None:
    """Five seconds are given for the answer, not more."""

    async def agent(peer: Peer, method: str, params: Any) -> Any:
        await asyncio.sleep(1e6)

    async with talk(agent=agent) as talking:
        await talking.client.ask("session/prompt", {"sessionId": "s"})
        await talking.time.settle()
        talking.chain.stop()
        before = talking.time.now()
        await talking.run(talking.chain.cancel_prompts(5))
        assert talking.time.now() - before == pytest.approx(5)


@pytest.mark.plg("PLG-060")
async def test_a_slow_client_slows_the_agent_down() -> None:
    """PLG-060 A slow client slows the agent down; memory stays within the read-ahead."""
    written = 0
    door = asyncio.Semaphore(0)

    async def write(data: bytes) -> None:
        nonlocal written
        await door.acquire()
        written += data.count(b"\n")

    sent = 0
    text = "x" * 1000

    async def chatter() -> None:
        nonlocal sent
        for n in range(2000):
            await talking.agent.notify("session/update", {"n": n, "text": text})
            sent += 1

    async with talk(Through(), Through(), client_write=write) as talking:
        chattering = asyncio.create_task(chatter())
        await talking.time.pass_by(10)
        ahead = READ_AHEAD_ITEMS + 2 * WRITE_AHEAD_BYTES // 1000
        assert sent <= ahead and talking.agent_side.queued <= READ_AHEAD_ITEMS
        for _ in range(2000):
            door.release()
        await talking.run(_wait(chattering))
        await talking.time.settle()
        assert written == 2000


@pytest.mark.plg("PLG-060")
async def test_big_lines_are_read_ahead_by_bytes() -> None:
    """PLG-060 Reading runs ahead by eight MiB at most, whatever the number of lines."""
    async with talk(waits(before=1e6), line_bytes=4 << 20) as talking:

        async def chatter() -> None:
            for n in range(20):
                await talking.agent.notify("session/update", {"n": n, "text": "x" * (3 << 20)})

        chattering = asyncio.create_task(chatter())
        await talking.time.settle()
        assert talking.agent_side.queued in (2, 3)
        chattering.cancel()


async def _wait(future: "asyncio.Future[Any]") -> Any:
    return await future
