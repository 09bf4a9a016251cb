"""Hooks: what each point decides, and what a broken one does."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from jsrun.agent.config import AgentIdentity
from jsrun.agent.errors import ApiError, InvalidConfiguration, RuntimeFault
from jsrun.agent.events import Event, HookActed, HookFailed, NormalEnd, ToolBlocked, ToolExecuted, ToolStarted
from jsrun.agent.hooks import (
    AllowTool,
    BlockTool,
    HookFailure,
    HookRunner,
    Hooks,
    KeepMessages,
    KeepResult,
    ReplaceMessages,
    ReplaceResult,
    ToolArguments,
)
from jsrun.agent.messages import AssistantMessage, UserMessage
from jsrun.agent.provider import InferenceMetadata
from jsrun.agent.runtime import start
from jsrun.spend import Spend
from tests.agent.helpers import DONE, HI, PATIENCE_S, Hang, Seen, asks, call, config, results, script, seen, tool

IDENTITY = AgentIdentity(id="a")
ARGUMENTS = ToolArguments("{}", {})


class Runner(HookRunner):
    """A runner that keeps what it tells."""

    def __init__(self, *hooks: Hooks) -> None:
        self.events: list[Event] = []
        super().__init__(hooks, self.events.append, 0.2)


def broken(how: str) -> Callable[..., Any]:
    """A hook that raises, exits, hangs, or returns what decides nothing; async or plain."""

    def raises(*seen: object) -> None:
        raise RuntimeError("oops")

    def exits(*seen: object) -> None:
        raise SystemExit(1)

    async def raises_later(*seen: object) -> None:
        await asyncio.sleep(0)
        raise RuntimeError("oops")

    async def hangs(*seen: object) -> None:
        await Hang()()

    async def cancels(*seen: object) -> None:
        raise asyncio.CancelledError

    def odd(*seen: object) -> object:
        return 42

    return {"raises": raises, "exits": exits, "later": raises_later, "hangs": hangs, "cancels": cancels, "odd": odd}[
        how
    ]


BROKEN = ["raises", "exits", "later", "hangs", "cancels", "odd"]


def hooks(name: str = "bad", **points: Any) -> Hooks:
    """Hooks that have little time."""
    return Hooks(name, timeout=0.1, **points)


@pytest.mark.parametrize("how", BROKEN)
async def test_a_broken_tool_hook_blocks(how: str) -> None:
    """AGT-070 With the reason "hook failed"; the hooks after it are not asked."""
    asked: list[str] = []
    later = Hooks("later", on_tool_call=lambda name, id, arguments: asked.append(id))
    runner = Runner(hooks(on_tool_call=broken(how)), later)
    blocked = await runner.tool_call("look", "a", ARGUMENTS)
    assert blocked is not None
    assert (blocked.hook_name, blocked.reason) == ("bad", "hook failed")
    assert asked == []
    (failed,) = runner.events
    assert isinstance(failed, HookFailed)
    assert (failed.hook_name, failed.point) == ("bad", "on_tool_call")
    assert "\n" not in failed.error


@pytest.mark.parametrize("how", BROKEN)
async def test_a_broken_result_hook_withholds_the_content(how: str) -> None:
    """AGT-070 What it should have redacted reaches nobody."""
    runner = Runner(hooks(on_tool_result=broken(how)))
    content, is_error = await runner.tool_result("look", "a", "the secret", False, 0.1)
    assert is_error
    assert content.startswith("Tool error: ")
    assert "secret" not in content
    assert [type(event) for event in runner.events] == [HookFailed]


@pytest.mark.parametrize("how", BROKEN)
async def test_a_broken_message_hook_fails_the_inference(how: str) -> None:
    """AGT-070 The request that was to be redacted is not sent."""
    runner = Runner(hooks(on_before_inference=broken(how)))
    with pytest.raises(HookFailure, match="'bad'"):
        await runner.before_inference("m", None, (), (HI,))
    assert [type(event) for event in runner.events] == [HookFailed]


@pytest.mark.parametrize("how", [how for how in BROKEN if how != "odd"])
async def test_broken_watchers_are_ignored_but_told(how: str) -> None:
    """AGT-070 At each of the points that only watch; the hooks after them are called."""
    watched: list[str] = []
    points = ("on_after_inference", "on_error", "on_complete", "on_session_shutdown")
    watchers: dict[str, Any] = {point: lambda *seen, point=point: watched.append(point) for point in points}
    good = Hooks("good", **watchers)
    bad = {point: hooks(f"bad-{point}", **{point: broken(how)}) for point in points}
    runner = Runner(*bad.values(), good, hooks("first-to-end", on_session_shutdown=broken(how)))
    await runner.after_inference("m", DONE, InferenceMetadata(), 0.1)
    await runner.error("m", ApiError("x"))
    await runner.complete("m", DONE, 1, Spend())
    await runner.session_shutdown((), 0, NormalEnd())
    assert watched == list(points)
    failed = [(event.hook_name, event.point) for event in runner.events if isinstance(event, HookFailed)]
    assert failed == [
        *((f"bad-{point}", point) for point in points[:3]),
        ("first-to-end", points[3]),
        (f"bad-{points[3]}", points[3]),
    ]


async def test_a_start_hook_that_fails_ends_those_before_it() -> None:
    """AGT-070 In reverse order, and not itself."""
    order: list[str] = []

    def named(name: str) -> Hooks:
        return Hooks(
            name,
            on_session_start=lambda *seen: order.append(f"start {name}"),
            on_session_shutdown=lambda *seen: order.append(f"end {name}"),
        )

    bad = hooks(on_session_start=broken("raises"), on_session_shutdown=lambda *seen: order.append("end bad"))
    with pytest.raises(HookFailure, match="RuntimeError: oops"):
        await Runner(named("one"), named("two"), bad, named("never")).session_start(IDENTITY, "m", ())
    assert order == ["start one", "start two", "end two", "end one"]


async def test_messages_chain_and_each_change_is_told() -> None:
    """AGT-067 Each hook sees what the one before made of them."""

    def adding(text: str) -> Hooks:
        return Hooks(
            text, on_before_inference=lambda m, system, tools, given: ReplaceMessages((*given, UserMessage(text)))
        )

    keep = Hooks("keep", on_before_inference=lambda model, system, tools, messages: KeepMessages())
    runner = Runner(adding("one"), keep, adding("two"))
    messages = await runner.before_inference("m", "s", (), (HI,))
    assert messages == (HI, UserMessage("one"), UserMessage("two"))
    assert [(event.hook_name, event.action) for event in runner.events if isinstance(event, HookActed)] == [
        ("one", "replaced_messages"),
        ("two", "replaced_messages"),
    ]


@pytest.mark.parametrize("messages", ["text", ("text",), 7, (None,)])
async def test_messages_that_are_none_are_a_failure(messages: Any) -> None:
    """AGT-070 A hook that replaces them by something else fails closed."""
    bad = Hooks("bad", on_before_inference=lambda model, system, tools, given: ReplaceMessages(messages))
    with pytest.raises(HookFailure):
        await Runner(bad).before_inference("m", None, (), (HI,))


async def test_results_chain_and_each_change_is_told() -> None:
    """AGT-069 Content and flag; a lone surrogate of a hook is replaced too."""
    up = Hooks("up", on_tool_result=lambda name, id, content, is_error, s: ReplaceResult(content.upper(), True))
    keep = Hooks("keep", on_tool_result=lambda name, id, content, is_error, s: KeepResult())
    end = Hooks("end", on_tool_result=lambda name, id, content, is_error, s: ReplaceResult(content + "\ud800", False))
    runner = Runner(up, keep, end)
    assert await runner.tool_result("look", "a", "x", False, 0.1) == ("X\ufffd", False)
    assert [event.hook_name for event in runner.events if isinstance(event, HookActed)] == ["up", "end"]


async def test_the_first_block_wins() -> None:
    """AGT-068 Later hooks are not asked; earlier ones were."""
    asked: list[str] = []

    def allows(name: str, id: str, arguments: ToolArguments) -> AllowTool:
        asked.append(f"allow {arguments.text} {arguments.value}")
        return AllowTool()

    first = Hooks("first", on_tool_call=lambda name, id, arguments: BlockTool("not today"))
    second = Hooks("second", on_tool_call=lambda name, id, arguments: BlockTool("never"))
    blocked = await Runner(Hooks("zero", on_tool_call=allows), first, second).tool_call("look", "a", ARGUMENTS)
    assert blocked is not None
    assert (blocked.hook_name, blocked.reason) == ("first", "not today")
    assert asked == ["allow {} {}"]


async def test_the_model_reads_who_blocked_and_why() -> None:
    """AGT-068 No handler, no start, no result hook; the neighbour runs, and the run goes on."""
    ran: list[str] = []
    looked_at: list[str] = []

    async def handler(arguments: dict[str, Any], ctx: Any) -> str:
        ran.append(ctx.call_id)
        return "ran"

    def decide(name: str, id: str, arguments: ToolArguments) -> BlockTool | None:
        return BlockTool("not this one") if id == "b" else None

    def look_at(name: str, id: str, content: str, is_error: bool, duration: float) -> None:
        looked_at.append(id)

    watcher = Seen()
    provider = script(asks(call("a"), call("b"), call("c")), DONE)
    guard = Hooks("guard", on_tool_call=decide, on_tool_result=look_at)
    made = config(provider, tool(handler), hooks=(guard,), dispatcher=watcher.dispatcher)
    async with await start(made) as agent:
        assert await agent.run("hi", PATIENCE_S) == DONE
    assert results(provider.requests[1]) == {
        "a": "ran",
        "b": "Tool error: Tool blocked by 'guard': not this one",
        "c": "ran",
    }
    assert sorted(ran) == sorted(looked_at) == ["a", "c"]
    blocked = await watcher.events(ToolBlocked)
    assert [(event.call.id, event.hook_name, event.reason) for event in blocked] == [("b", "guard", "not this one")]
    assert sorted(event.call.id for event in await watcher.events(ToolStarted)) == ["a", "c"]
    assert [event.call.id for event in await watcher.events(ToolExecuted)] == ["a", "c"]


async def test_a_hook_may_wait_for_a_person() -> None:
    """AGT-066 `timeout=None` has no limit; cancelling the run ends the wait, and the call reads cancelled."""
    hang = Hang()
    approval = Hooks("approval", on_tool_call=hang, timeout=None)
    async with await start(config(script(asks(call("a")), DONE), hooks=(approval,))) as agent:
        handle = agent.start_run("hi")
        await hang.wait_entered()
        assert await handle.cancel()
        history = await agent.history()
    assert [message.content for message in history] == ["hi", "", "Tool error: cancelled"]
    assert hang.cancelled.is_set() or hang.left.is_set()


async def test_a_hook_may_call_the_agent_it_serves() -> None:
    """AGT-066 The mailbox is served while hooks run; a second run from inside one is refused."""
    heard: list[object] = []

    async def ask(*given: object) -> None:
        heard.append(await agent.history())
        try:
            await agent.run("from inside")
        except RuntimeFault as fault:
            heard.append(fault.code)

    made = config(script(AssistantMessage("done")), hooks=(Hooks("inside", on_after_inference=ask),))
    async with await start(made) as agent:
        await agent.run("hi", PATIENCE_S)
    assert heard == [(HI,), "busy"]


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": " "}, "name"),
        ({"name": "h", "on_error": 3}, "on_error"),
        ({"name": "h", "timeout": 0}, "timeout"),
        ({"name": "h", "timeout": True}, "timeout"),
        ({"name": "h", "timeout": float("nan")}, "timeout"),
    ],
)
def test_bad_hooks_are_refused(options: dict[str, Any], field: str) -> None:
    """AGT-066 When they are made, by the field."""
    with pytest.raises(InvalidConfiguration, match=field):
        Hooks(**options)


def test_a_name_stands_once() -> None:
    """AGT-066 Events name hooks by it."""
    with pytest.raises(InvalidConfiguration, match="'h'"):
        config(script(), tool(seen), hooks=(Hooks("h"), Hooks("h")))
