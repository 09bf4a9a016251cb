"""A request can be cancelled wherever it is, and is answered once all the same."""

import asyncio
from typing import Any

import pytest

from jsrun.plugs.api import NextMessage
from jsrun.plugs.errors import RequestError
from jsrun.plugs.message import Message
from jsrun.plugs.testing.peer import Peer
from tests.plugs.talk import Talk, Through, With, lines, talk


async def polite(peer: Peer, method: str, params: Any) -> Any:
    """An agent that ends a turn when it is cancelled."""
    for _ in range(1000):
        await asyncio.sleep(0.1)
        if peer.cancelled:
            raise RequestError(-32800, "cancelled by the agent", {"n": 1})
    return "never cancelled"


async def deaf(peer: Peer, method: str, params: Any) -> Any:
    """An agent that does not answer."""
    await asyncio.sleep(1e6)


async def error_of(talking: Talk, answer: "asyncio.Future[Any]") -> RequestError:
    async def wait() -> Any:
        return await answer

    with pytest.raises(RequestError) as caught:
        await talking.run(wait())
    return caught.value


@pytest.mark.plg("PLG-052")
async def test_a_cancel_goes_on_under_the_far_sides_id_and_the_answer_passes_the_plugs() -> None:
    """PLG-052 `$/cancel_request` goes on under the far side's id, and its answer passes the plugs."""
    seen: list[Any] = []

    async def handler(plug: Any, message: Message, next: NextMessage) -> Any:
        try:
            return await next(message)
        except RequestError as error:
            seen.append((error.code, error.data))
            raise RequestError(error.code, error.message, "changed") from error

    async with talk(With(handler), agent=polite) as talking:
        number, answer = await talking.client.ask("session/prompt", {"sessionId": "s"})
        await talking.time.settle()
        await talking.client.cancel(number)
        error = await error_of(talking, answer)
        assert (error.code, error.message, error.data) == (-32800, "cancelled by the agent", "changed")
        at_agent = [what for kind, what, _ in talking.agent.got if kind == "cancel"]
        assert seen == [(-32800, {"n": 1})] and len(at_agent) == 1 and at_agent[0] is not None
        assert "$/cancel_request" not in talking.agent.methods()


@pytest.mark.plg("PLG-052")
async def test_an_agent_that_ignores_a_cancel_has_five_seconds() -> None:
    """PLG-052 Without an answer in 5 s the message's task is cancelled and answered -32800."""
    async with talk(Through(), agent=deaf) as talking:
        number, answer = await talking.client.ask("session/prompt", {"sessionId": "s"})
        await talking.time.settle()
        before = talking.time.now()
        await talking.client.cancel(number)
        error = await error_of(talking, answer)
        assert error.code == -32800 and talking.time.now() - before == pytest.approx(5)


@pytest.mark.plg("PLG-052")
async def test_a_request_of_the_agent_is_cancelled_at_the_client() -> None:
    """PLG-052 The agent may cancel what it asked the client."""
    async with talk(Through(), client=polite) as talking:
        number, answer = await talking.agent.ask("session/request_permission", {})
        await talking.time.settle()
        await talking.agent.cancel(number)
        assert (await error_of(talking, answer)).message == "cancelled by the agent"


@pytest.mark.plg("PLG-053")
async def test_cancelling_works_while_the_queue_is_held() -> None:
    """PLG-053 Requests not begun and handlers not in `next` are answered -32800."""
    begun = Through()

    async def handler(plug: Any, message: Message, next: NextMessage) -> Any:
        await asyncio.sleep(1e6)

    async with talk(begun, With(handler)) as talking:
        held, waiting = [await talking.client.ask(method) for method in ("held", "waiting")]
        await talking.time.settle()
        before = talking.time.now()
        await talking.client.cancel(waiting[0])
        assert (await error_of(talking, waiting[1])).code == -32800
        await talking.client.cancel(held[0])
        assert (await error_of(talking, held[1])).code == -32800
        assert begun.seen == ["held"] and talking.time.now() - before < 1 and not talking.agent.got


@pytest.mark.plg("PLG-053")
async def test_a_request_cancelled_in_the_same_read_is_answered() -> None:
    """PLG-053 A cancel right behind its request, before any handler ran, is answered -32800 once."""
    async with talk(Through(), agent=deaf) as talking:
        for _ in range(3):
            number, answer = await talking.client.ask("session/prompt", {"sessionId": "s"})
            await talking.client.cancel(number)
            assert (await error_of(talking, answer)).code == -32800
        assert len([1 for kind, _, _ in talking.client.got if kind == "answer"]) == 3
        assert talking.client_side.wire.open == 0


@pytest.mark.plg("PLG-053")
@pytest.mark.parametrize("turns", range(5))
async def test_a_request_cancelled_at_any_turn_of_the_loop_is_answered(turns: int) -> None:
    """PLG-053 Also one whose handlers were begun but did not run yet."""
    async with talk(Through(), agent=deaf) as talking:
        number, answer = await talking.client.ask("session/prompt", {"sessionId": "s"})
        for _ in range(turns):
            await asyncio.sleep(0)
        await talking.client.cancel(number)
        assert (await error_of(talking, answer)).code == -32800
        assert talking.client_side.wire.open == 0 and talking.chain.in_flight == 0


@pytest.mark.plg("PLG-053")
async def test_a_handler_that_ignores_its_cancellation_does_not_keep_the_answer(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """PLG-053 A handler that goes on is left behind after another 5 s; its late result is dropped."""

    async def handler(plug: Any, message: Message, next: NextMessage) -> Any:
        for _ in range(3):
            try:
                await asyncio.sleep(100)
            except asyncio.CancelledError:
                continue
        return "too late"

    async with talk(With(handler)) as talking:
        number, answer = await talking.client.ask("slow")
        await talking.time.settle()
        await talking.client.cancel(number)
        assert (await error_of(talking, answer)).code == -32800
        await talking.time.pass_by(1000)
        assert len([1 for kind, _, _ in talking.client.got if kind == "answer"]) == 1
    assert "ignores its cancellation" in lines(caplog)


@pytest.mark.plg("PLG-053")
async def test_a_new_next_after_a_cancel_raises_it() -> None:
    """PLG-053 A new `next` after a cancel raises the cancel's error; what was sent before is not sent again."""

    async def handler(plug: Any, message: Message, next: NextMessage) -> Any:
        try:
            return await next(message)
        except RequestError:
            return await next(message)

    async with talk(With(handler), agent=polite) as talking:
        number, answer = await talking.client.ask("session/prompt", {"sessionId": "s"})
        await talking.time.settle()
        await talking.client.cancel(number)
        error = await error_of(talking, answer)
        assert error.code == -32800 and error.data is None
        assert talking.agent.methods() == ["session/prompt"]


@pytest.mark.plg("PLG-054")
async def test_a_timeout_around_next_cancels_at_the_far_side() -> None:
    """PLG-054 A timeout around `next` cancels at the far side; the late answer is dropped."""

    async def handler(plug: Any, message: Message, next: NextMessage) -> Any:
        try:
            async with asyncio.timeout(10):
                return await next(message)
        except TimeoutError:
            return "gave up"

    async def late(peer: Peer, method: str, params: Any) -> Any:
        await asyncio.sleep(20)
        return "late"

    inner = Through()
    async with talk(With(handler), inner, agent=late) as talking:
        assert await talking.prompt() == "gave up"
        assert [kind for kind, _, _ in talking.agent.got] == ["request", "cancel"]
        await talking.time.pass_by(30)
        assert [result for kind, _, result in talking.client.got if kind == "answer"] == ["gave up"]
        assert talking.chain.in_flight == 0 and talking.chain.quiet_since() is not None and not talking.failures


async def test_what_a_handler_sent_is_cancelled_with_its_request() -> None:
    """A cancel reaches requests that handlers sent with `ctx.send`, too."""

    async def handler(plug: Any, message: Message, next: NextMessage) -> Any:
        return await plug.ctx.send(Message("to_agent", "session/list"))

    async with talk(With(handler), agent=polite) as talking:
        number, answer = await talking.client.ask("session/prompt", {"sessionId": "s"})
        await talking.time.settle()
        await talking.client.cancel(number)
        assert (await error_of(talking, answer)).message == "cancelled by the agent"
