"""Messages pass plugs both ways, may be changed there, and every request is answered once."""

import asyncio
import dataclasses
import json
from typing import Any

import pytest

from jsrun.plugs.api import NextMessage, Plug
from jsrun.plugs.errors import AgentExited, AgentNotRunning, RequestError
from jsrun.plugs.message import Message
from jsrun.plugs.testing.peer import Peer
from tests.plugs.talk import LOST, Through, With, lines, talk


def note(log: list[str], name: str) -> Plug:
    async def handler(plug: Any, message: Message, next: NextMessage) -> Any:
        log.append(f"{message.method} {name}")
        result = await next(message)
        log.append(f"{message.method} {name} back")
        return result

    return With(handler)


@pytest.mark.plg("PLG-039")
async def test_both_directions_pass_the_plugs_in_order_and_results_return_in_reverse() -> None:
    """PLG-039 Both directions pass the plugs in the stated order; results return in reverse."""
    log: list[str] = []
    async with talk(note(log, "0"), note(log, "1"), client=lambda *_: {"ok": 1}) as talking:
        await talking.run(talking.client.request("initialize", {}))
        await talking.run(talking.agent.request("fs/read_text_file", {}))
    assert log == [
        "initialize 0",
        "initialize 1",
        "initialize 1 back",
        "initialize 0 back",
        "fs/read_text_file 1",
        "fs/read_text_file 0",
        "fs/read_text_file 0 back",
        "fs/read_text_file 1 back",
    ]


@pytest.mark.plg("PLG-040")
async def test_what_nobody_changes_arrives_as_it_was() -> None:
    """PLG-040 Unknown methods, members, enum values and `_meta` arrive unchanged in order, surrogates as escapes."""
    written: list[bytes] = []
    async with talk(Through(), Through()) as talking:
        accept = talking.agent.accept

        async def note_bytes(data: bytes) -> None:
            written.append(data)
            await accept(data)

        talking.agent_side._write = note_bytes
        params = (
            '{"z":1,"a":{"_meta":{"k":[1,2.5,null,true]},"kind":"odd"},"text":"\\ud800 ü","big":12345678901234567890}'
        )
        line = f'{{"jsonrpc":"2.0","extra":1,"params":{params},"method":"_acme/odd"}}\n'
        await talking.run(talking.client.raw(line.encode()))
        await talking.run(talking.client.raw(b'{"jsonrpc":"2.0","method":"_acme/none","params":null}\n'))
        await talking.time.settle()
    assert written[0].decode() == f'{{"jsonrpc":"2.0","method":"_acme/odd","params":{params}}}\n'
    assert json.loads(written[1]) == {"jsonrpc": "2.0", "method": "_acme/none"}


@pytest.mark.plg("PLG-041")
async def test_ids_of_any_kind_are_matched_in_any_order() -> None:
    """PLG-041 Integer and string client ids, answered in any order, are matched."""
    doors = {"first": asyncio.Event(), "second": asyncio.Event()}

    async def agent(peer: Peer, method: str, params: Any) -> Any:
        await doors[method].wait()
        return method

    answers: list[bytes] = []
    async with talk(Through(), agent=agent) as talking:

        async def keep(data: bytes) -> None:
            answers.extend(data.splitlines())

        talking.client_side._write = keep
        await talking.client.raw(
            b'{"jsonrpc":"2.0","id":1,"method":"first"}\n{"jsonrpc":"2.0","id":"1","method":"second"}\n'
        )
        await talking.time.settle()
        doors["second"].set()
        await talking.time.settle()
        doors["first"].set()
        await talking.time.settle()
    assert [json.loads(line) for line in answers] == [
        {"jsonrpc": "2.0", "id": "1", "result": "second"},
        {"jsonrpc": "2.0", "id": 1, "result": "first"},
    ]


@pytest.mark.plg("PLG-041")
async def test_every_open_request_is_answered_when_the_session_fails() -> None:
    """PLG-041 Each request is answered exactly once, also when the session fails."""

    async def handler(plug: Any, message: Message, next: NextMessage) -> Any:
        if message.method == "bad":
            raise ValueError("the secret")
        if message.method == "slow":
            await asyncio.sleep(1e6)
        return await next(message)

    async def never(peer: Peer, method: str, params: Any) -> Any:
        await asyncio.sleep(1e6)

    async with talk(With(handler), agent=never) as talking:
        asked = [await talking.client.ask(method) for method in ("at the agent", "at the agent", "bad", "slow")]
        await talking.time.settle()
        await talking.run(talking.chain.close(talking.failures[0]))
        asked.append(await talking.client.ask("later"))
        for _, answer in asked:
            with pytest.raises(RequestError) as caught:
                await talking.run(_wait(answer))
            assert (caught.value.code, caught.value.message) == (-32603, "The plug with-0 failed.")
        numbers = [number for kind, number, _ in talking.client.got if kind == "answer"]
        assert sorted(numbers) == sorted(number for number, _ in asked)
    assert [str(error) for error in talking.failures] == ["the secret"]


@pytest.mark.plg("PLG-041")
async def test_a_handler_that_does_not_end_keeps_no_answer(caplog: pytest.LogCaptureFixture) -> None:
    """PLG-041 A request is answered at the end of the session though its handler ignores its cancellation."""
    door = asyncio.Event()

    async def handler(plug: Any, message: Message, next: NextMessage) -> Any:
        while not door.is_set():
            try:
                await door.wait()
            except asyncio.CancelledError:
                continue
        return "late"

    async with talk(With(handler)) as talking:
        _, answer = await talking.client.ask("slow")
        await talking.time.settle()
        await talking.run(talking.chain.close())
        with pytest.raises(RequestError, match="The session is over"):
            await talking.run(_wait(answer))
        door.set()
        await talking.time.settle()
        assert len([1 for kind, _, _ in talking.client.got if kind == "answer"]) == 1
    assert "left behind" in lines(caplog)


@pytest.mark.plg("PLG-042")
async def test_a_handler_may_answer_drop_change_and_ask_again() -> None:
    """PLG-042 Short-circuit, dropped notification, changed result, re-prompt and changed method work."""

    async def handler(plug: Any, message: Message, next: NextMessage) -> Any:
        match message.method:
            case "short":
                return "mine"
            case "drop":
                return None
            case "result":
                return {**await next(message), "more": 1}
            case "again":
                return [await next(message), await next(message.replace(n=2))]
            case "method":
                return await next(dataclasses.replace(message, method="renamed"))
        return await next(message)

    async with talk(With(handler), Through()) as talking:

        async def ask(method: str) -> Any:
            return await talking.run(talking.client.request(method, {"n": 1}))

        assert await ask("short") == "mine"
        await talking.client.notify("drop", {})
        assert await ask("result") == {"method": "result", "params": {"n": 1}, "more": 1}
        assert [each["params"]["n"] for each in await ask("again")] == [1, 2]
        assert (await ask("method"))["method"] == "renamed"
        assert talking.agent.methods() == ["result", "again", "again", "renamed"]


@pytest.mark.plg("PLG-042")
@pytest.mark.parametrize("change", [{"direction": "from_agent"}, {"kind": "notification"}])
async def test_direction_and_kind_cannot_be_changed(change: dict[str, str]) -> None:
    """PLG-042 Changed direction or kind raises TypeError."""
    caught: list[BaseException] = []

    async def handler(plug: Any, message: Message, next: NextMessage) -> Any:
        for wrong in (dataclasses.replace(message, **change), "text"):  # type: ignore[arg-type]  # wrong on purpose
            try:
                await next(wrong)  # type: ignore[arg-type]  # wrong on purpose
            except TypeError as error:
                caught.append(error)
        return await next(message)

    async with talk(With(handler)) as talking:
        await talking.prompt()
    assert len(caught) == 2 and not talking.failures


@pytest.mark.plg("PLG-042")
async def test_a_handler_may_be_a_plain_function() -> None:
    """PLG-042 A plain handler returns what is awaited, or the result itself."""

    class Plain(Plug, name="plain"):
        def message(self, message: Message, next: NextMessage) -> Any:
            return {"plain": True} if message.method == "short" else next(message)

    async with talk(Plain()) as talking:
        assert await talking.run(talking.client.request("short")) == {"plain": True}
        assert await talking.run(talking.client.request("long")) == {"method": "long", "params": None}


@pytest.mark.plg("PLG-043")
async def test_two_parallel_calls_of_next_both_return() -> None:
    """PLG-043 Two parallel `next` calls for one request both return, without a stall."""

    async def handler(plug: Any, message: Message, next: NextMessage) -> Any:
        return await asyncio.gather(next(message), next(message))

    async def agent(peer: Peer, method: str, params: Any) -> Any:
        peer.reply = lambda *_: "second"
        await asyncio.sleep(1)
        return "first"

    async with talk(With(handler), agent=agent) as talking:
        started = talking.time.now()
        assert await talking.prompt() == ["first", "second"]
        assert talking.time.now() - started < 2


@pytest.mark.plg("PLG-044")
async def test_error_answers_of_plugs_and_of_the_far_side_reach_the_caller() -> None:
    """PLG-044 `RequestError` of a plug and of the far side reach the caller with code, message and data."""
    caught: list[int] = []

    async def handler(plug: Any, message: Message, next: NextMessage) -> Any:
        if message.method == "plug":
            raise RequestError(-32001, "not here", {"why": [1]})
        try:
            return await next(message)
        except RequestError as error:
            caught.append(error.code)
            raise

    def agent(peer: Peer, method: str, params: Any) -> Any:
        if method == "far":
            raise RequestError(-32002, "far away", {"km": 3})
        return "fine"

    async with talk(With(handler), agent=agent) as talking:
        for method, code, message, data in (
            ("plug", -32001, "not here", {"why": [1]}),
            ("far", -32002, "far away", {"km": 3}),
        ):
            with pytest.raises(RequestError) as error:
                await talking.run(talking.client.request(method))
            assert (error.value.code, error.value.message, error.value.data) == (code, message, data)
        assert await talking.run(talking.client.request("later")) == "fine"
    assert caught == [-32002] and not talking.failures


@pytest.mark.plg("PLG-044")
async def test_a_refused_notification_is_logged_and_dropped(caplog: pytest.LogCaptureFixture) -> None:
    """PLG-044 On a notification RequestError is logged and drops it; the session goes on."""

    async def handler(plug: Any, message: Message, next: NextMessage) -> Any:
        if message.kind == "notification":
            raise RequestError(-32001, "no")
        return await next(message)

    async with talk(With(handler)) as talking:
        await talking.client.notify("session/cancel", {"sessionId": "s"})
        await talking.prompt()
        assert talking.agent.methods() == ["session/prompt"]
    assert "session/cancel" in lines(caplog) and not talking.failures


@pytest.mark.plg("PLG-045")
@pytest.mark.parametrize(
    "error", [ValueError("the secret"), SystemExit("the secret"), asyncio.CancelledError("the secret")]
)
async def test_any_other_exception_fails_the_session(error: BaseException) -> None:
    """PLG-045 Any other exception fails the session; the caller gets -32603 without the exception's text."""

    async def handler(plug: Any, message: Message, next: NextMessage) -> Any:
        raise error

    async with talk(Through(), With(handler)) as talking:
        with pytest.raises(RequestError) as caught:
            await talking.prompt()
        assert caught.value.code == -32603 and "with-1" in caught.value.message
        assert "secret" not in str(caught.value) and caught.value.data is None
        assert talking.failures == [error]


@pytest.mark.plg("PLG-045")
@pytest.mark.parametrize("result", [object(), {1: float("nan")}, {"x": {2}}])
async def test_an_answer_that_is_not_json_fails_the_session(result: Any) -> None:
    """PLG-045 A result that is not JSON is a failure of the session, and the request is answered."""

    async def handler(plug: Any, message: Message, next: NextMessage) -> Any:
        return result

    async with talk(With(handler)) as talking:
        with pytest.raises(RequestError) as caught:
            await talking.prompt()
        assert caught.value.code == -32603 and len(talking.failures) == 1


@pytest.mark.plg("PLG-059")
async def test_send_passes_only_the_plugs_beyond_the_sender() -> None:
    """PLG-059 `ctx.send` passes only the plugs inside or outside the sender; without an agent it raises."""
    outer, inner = Through(), Through()

    async def handler(plug: Any, message: Message, next: NextMessage) -> Any:
        return await next(message)

    sender = With(handler)
    async with talk(outer, sender, inner, client=lambda *_: "seen", start=False) as talking:
        with pytest.raises(AgentNotRunning):
            await sender.ctx.send(Message("to_agent", "early"))
        talking.chain.start()
        talking.chain.admit()
        assert (await talking.run(_send(sender, Message("to_agent", "in"))))["method"] == "in"
        assert await talking.run(_send(sender, Message("from_agent", "out"))) == "seen"
        await talking.run(_send(sender, Message("from_agent", "told", kind="notification")))
        await talking.time.settle()
        assert (outer.seen, inner.seen) == (["out", "told"], ["in"])
        talking.chain.agent_lost(LOST)
        with pytest.raises(AgentNotRunning):
            await sender.ctx.send(Message("to_agent", "late"))


async def test_a_lost_agent_makes_next_raise_and_a_handler_may_answer_all_the_same() -> None:
    """A lost agent makes pending `next` calls raise AgentExited; uncaught it is -32603 and no failure of a plug."""
    caught: list[AgentExited] = []

    async def handler(plug: Any, message: Message, next: NextMessage) -> Any:
        try:
            return await next(message)
        except AgentExited as error:
            caught.append(error)
            if message.method == "saved":
                return "saved"
            raise

    async def never(peer: Peer, method: str, params: Any) -> Any:
        await asyncio.sleep(1e6)

    async with talk(Through(), With(handler), agent=never) as talking:
        (_, saved), (_, lost) = [await talking.client.ask(method) for method in ("saved", "lost")]
        await talking.time.settle()
        talking.chain.agent_lost(LOST)
        assert await talking.run(_wait(saved)) == "saved"
        with pytest.raises(RequestError) as error:
            await talking.run(_wait(lost))
        assert error.value.code == -32603 and caught == [LOST, LOST] and not talking.failures


async def test_a_lost_client_answers_the_agent() -> None:
    """A client that is gone answers the agent's requests -32603."""

    async def never(peer: Peer, method: str, params: Any) -> Any:
        await asyncio.sleep(1e6)

    async with talk(Through(), client=never, agent=never) as talking:
        await talking.client.ask("session/prompt", {})  # never answered, so the client is not gone, but it is silent
        _, pending = await talking.agent.ask("session/request_permission")
        await talking.time.settle()
        await talking.client_side.end()
        await talking.time.settle()
        _, later = await talking.agent.ask("session/request_permission")
        for answer in (pending, later):
            with pytest.raises(RequestError) as error:
                await talking.run(_wait(answer))
            assert error.value.code == -32603


async def test_what_the_client_is_still_asked_is_cancelled_at_the_end() -> None:
    """A question that nobody waits for any more is taken back."""

    async def never(peer: Peer, method: str, params: Any) -> Any:
        await asyncio.sleep(1e6)

    async with talk(Through(), client=never) as talking:
        await talking.agent.ask("session/request_permission", {})
        await talking.time.settle()
        await talking.run(talking.chain.close())
        assert [kind for kind, _, _ in talking.client.got] == ["request", "cancel"]


async def test_hidden_messages_pass_plugs_and_not_the_client() -> None:
    """While ACP sessions are re-attached the client sees none of it, and its own lines wait."""
    through = Through()

    async def agent(peer: Peer, method: str, params: Any) -> Any:
        await peer.notify("session/update", {"n": 1})
        with pytest.raises(RequestError):
            await peer.request("session/request_permission", {})
        return {"method": method}

    async with talk(through, agent=agent, start=False) as talking:
        talking.chain.start()
        talking.chain.hidden = True
        _, waiting = await talking.client.ask("later")
        load = talking.chain.send(-1, Message("to_agent", "session/load", {"sessionId": "s"}))
        assert await talking.run(load) == {"method": "session/load"}
        assert talking.client.got == [] and talking.client_side.queued == 1
        assert through.seen == ["session/load", "session/update", "session/request_permission"]
        talking.chain.hidden = False
        talking.agent.reply = lambda peer, method, params: method
        talking.chain.admit()
        assert await talking.run(_wait(waiting)) == "later"


@pytest.mark.plg("PLG-041")
async def test_more_open_requests_than_allowed_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """PLG-041 Up to a number of requests are in flight; the next is answered -32603."""
    monkeypatch.setattr("jsrun.plugs._side.MAX_OPEN", 3)

    async def slow(peer: Peer, method: str, params: Any) -> Any:
        await asyncio.sleep(10)
        return method

    async with talk(agent=slow) as talking:
        asked = [await talking.client.ask("m") for _ in range(4)]
        with pytest.raises(RequestError) as caught:
            await talking.run(_wait(asked[3][1]))
        assert caught.value.code == -32603
        assert await talking.run(_wait(asked[0][1])) == "m"


async def test_every_message_that_is_done_is_told() -> None:
    """Direction, method, size, times and outcome, as the side that sent it sees them."""
    async with talk(Through(), With(_slow_and_refusing)) as talking:
        _, answer = await talking.client.ask("fine", {"a": 1})
        assert talking.chain.quiet_since() is None  # it waits
        await talking.time.settle()
        assert talking.chain.quiet_since() is None  # it is under way
        assert await talking.run(_wait(answer))
        with pytest.raises(RequestError):
            await talking.run(talking.client.request("refused"))
        await talking.agent.notify("session/update", {"n": 1})
        await talking.time.settle()
        fine, refused, update = talking.passed
        assert (fine.message.method, fine.message.params, fine.result) == (
            "fine",
            {"a": 1},
            {"method": "fine", "params": {"a": 1}},
        )
        assert fine.ended - fine.began == pytest.approx(2) and fine.reached and fine.size > 20
        assert refused.error is not None and refused.error.code == -32001 and not refused.reached
        assert (update.message.direction, update.message.kind, update.error) == ("from_agent", "notification", None)
        assert talking.chain.quiet_since() == talking.time.now()


async def _slow_and_refusing(plug: Any, message: Message, next: NextMessage) -> Any:
    if message.method == "fine":
        await asyncio.sleep(2)
    if message.method == "refused":
        raise RequestError(-32001, "no")
    return await next(message)


async def _wait(future: "asyncio.Future[Any]") -> Any:
    return await future


async def _send(plug: Plug, message: Message) -> Any:
    return await plug.ctx.send(message)
