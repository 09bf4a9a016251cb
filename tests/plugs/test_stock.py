"""The stock plugs, each attached for real between a client and a scripted agent."""

import asyncio
import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jsrun.plugs import RequestError
from jsrun.plugs.api import Plug
from jsrun.plugs.errors import SchemaError
from jsrun.plugs.hosts import MemoryHost
from jsrun.plugs.schema import check_inputs
from jsrun.plugs.stock._masking import Masker
from jsrun.plugs.stock.env import EnvPlug
from jsrun.plugs.stock.permissions import PermissionsPlug, glob_regex
from jsrun.plugs.stock.preamble import PreamblePlug
from jsrun.plugs.stock.redact import RedactPlug
from jsrun.plugs.stock.transcript import TranscriptPlug
from jsrun.plugs.stock.turn_limit import TurnLimitPlug
from jsrun.plugs.testing.agent import ScriptedAgent
from jsrun.plugs.testing.harness import PlugHarness

pytestmark = pytest.mark.plg("PLG-098")

SECRET = "tok-12345678"


def chunk(text: str, kind: str = "agent_message_chunk", session: str = "s", **more: Any) -> dict[str, Any]:
    """The params of an update with streamed text."""
    return {
        "sessionId": session,
        "update": {"sessionUpdate": kind, "content": {"type": "text", "text": text}, **more},
    }


def updates(harness: PlugHarness) -> list[dict[str, Any]]:
    """The updates that the client got, in order."""
    return [params["update"] for _, method, params in harness.client.got if method == "session/update"]


def said(harness: PlugHarness) -> str:
    """All streamed text that the client got."""
    return "".join(update["content"]["text"] for update in updates(harness) if "content" in update)


# env


async def test_env_sets_removes_and_passes_on() -> None:
    """PLG-098 From the runner by name and glob, then set, then unset; a missing plain name fails unless optional."""
    inputs = {"from_runner": ["KEY", "APP_*", "NONE_*"], "set": {"APP_B": "mine", "X": "1"}, "unset": ["HOME"]}
    runner = {"KEY": "k", "APP_A": "a", "APP_B": "b", "OTHER": "o", "JSRUN_APP": "no"}
    async with PlugHarness(EnvPlug, inputs=inputs, env=runner) as harness:
        await harness.attach()
        env = harness.agent.env
        assert {name: env[name] for name in ("KEY", "APP_A", "APP_B", "X")} == {
            "KEY": "k",
            "APP_A": "a",
            "APP_B": "mine",
            "X": "1",
        }
        assert "HOME" not in env and "OTHER" not in env
        end = await harness.teardown()
        assert end is not None and end.error is None
    async with PlugHarness(EnvPlug, inputs={"from_runner": ["NOPE"]}) as harness:
        with pytest.raises(Exception, match="NOPE"):
            await harness.attach()
    async with PlugHarness(EnvPlug, inputs={"from_runner": ["NOPE"], "optional": True}) as harness:
        await harness.attach()
        assert "NOPE" not in harness.agent.env


# redact


@pytest.mark.parametrize("position", range(len(SECRET) + 1))
async def test_redact_finds_a_secret_split_at_every_position(position: int) -> None:
    """PLG-098 Nothing of it shows, and no other text is lost."""
    text = f"before {SECRET} after to"
    cut = text.index(SECRET) + position

    async def turn(peer: Any, method: str, params: Any) -> Any:
        await peer.notify("session/update", chunk(text[:cut], session=params["sessionId"]))
        await peer.notify("session/update", chunk(text[cut:], session=params["sessionId"]))
        return {"stopReason": "end_turn"}

    agent = ScriptedAgent({"session/prompt": turn})
    async with PlugHarness(RedactPlug, inputs={"secrets": [SECRET]}, agent=agent) as harness:
        await harness.attach()
        await harness.prompt("go")
        # The answer of the prompt came after all text.
        assert said(harness) == "before [redacted] after to"
        assert not any(SECRET[:4] in json.dumps(update) for update in updates(harness))


async def test_redact_sends_what_it_holds_before_anything_else_of_the_session() -> None:
    """PLG-098 Before another stream, another kind of update, a request; other sessions are not touched."""
    asked = chunk("tok-", session="b")

    async def turn(peer: Any, method: str, params: Any) -> Any:
        await peer.notify("session/update", asked)
        await peer.notify("session/update", chunk("a tok-", session="s"))
        await peer.notify("session/update", chunk("12", "agent_thought_chunk"))
        await peer.notify("session/update", chunk("x tok"))
        plan = {"sessionUpdate": "plan", "entries": [{"content": f"use {SECRET}", "priority": "low"}]}
        await peer.notify("session/update", {"sessionId": "s", "update": plan})
        await peer.notify("session/update", chunk("y t", messageId="m1"))
        await peer.notify("session/update", chunk("ok", messageId="m2"))
        await peer.notify("session/update", chunk("t"))
        question = {"sessionId": "s", "toolCall": {"toolCallId": SECRET, "title": f"run {SECRET}"}, "options": []}
        await peer.request("session/request_permission", question)
        return {"stopReason": "end_turn"}

    agent = ScriptedAgent({"session/prompt": turn})

    def answer(peer: Any, method: str, params: Any) -> Any:
        return {"outcome": {"outcome": "cancelled"}}

    async with PlugHarness(RedactPlug, inputs={"secrets": [SECRET]}, agent=agent, client=answer) as harness:
        await harness.attach()
        await harness.request("session/prompt", {"sessionId": "s", "prompt": []})
        seen = [
            (params["update"]["sessionUpdate"], params["update"].get("content", {}).get("text"))
            if method == "session/update"
            else (method, params["toolCall"])
            for kind, method, params in harness.client.got
            if kind != "answer"
        ]
    assert seen == [
        ("agent_message_chunk", "a "),
        ("agent_message_chunk", "tok-"),
        ("agent_thought_chunk", "12"),
        ("agent_message_chunk", "x "),
        ("agent_message_chunk", "tok"),
        ("plan", None),
        ("agent_message_chunk", "y "),
        ("agent_message_chunk", "t"),
        ("agent_message_chunk", "ok"),
        ("agent_message_chunk", "t"),
        ("session/request_permission", {"toolCallId": SECRET, "title": "run [redacted]"}),
    ]


async def test_redact_leaves_ids_paths_and_files_alone() -> None:
    """PLG-098 Text for people is masked wherever it stands; what programs go by is not."""
    update: dict[str, Any] = {
        "sessionUpdate": "tool_call",
        "toolCallId": SECRET,
        "title": f"cat {SECRET}",
        "locations": [{"path": f"/{SECRET}"}],
        "content": [
            {"type": "content", "content": {"type": "text", "text": f"is {SECRET}"}},
            {"type": "diff", "path": f"/{SECRET}", "oldText": SECRET, "newText": SECRET},
        ],
        "rawOutput": {"out": [f"key={SECRET}"]},
    }
    form = {"message": f"is it {SECRET}?", "sessionId": "s", "mode": "form", "requestedSchema": {"enum": [SECRET]}}
    inputs = {"env": ["KEY", "NOT_THERE"], "patterns": [r"pw=\S+"], "mask": "***"}
    async with PlugHarness(RedactPlug, inputs=inputs, env={"KEY": SECRET}) as harness:
        await harness.attach()
        await harness.agent_notify("session/update", {"sessionId": "s", "update": update})
        with pytest.raises(RequestError):
            await harness.agent_request("elicitation/create", form)
        with pytest.raises(RequestError):
            await harness.agent_request("fs/write_text_file", {"sessionId": "s", "path": "/a", "content": SECRET})
        await harness.agent_notify("session/update", chunk("pw=hunter2 and pw=x"))
        await harness.agent_notify("session/update", chunk("yz."))
        await harness.agent_notify("session/update", {"sessionId": "s", "update": {"sessionUpdate": "plan"}})
        got = {method: params for _, method, params in harness.client.got if method != "session/update"}
        masked = updates(harness)[0]
        assert said_all(harness) == "*** and ***"
        assert any("NOT_THERE" in line and line.startswith("WARNING") for line in harness.logs)
    assert masked == {
        **update,
        "title": "cat ***",
        "content": [{"type": "content", "content": {"type": "text", "text": "is ***"}}, update["content"][1]],
        "rawOutput": {"out": ["key=***"]},
    }
    assert got["elicitation/create"]["message"] == "is it ***?"
    assert got["elicitation/create"]["requestedSchema"] == {"enum": [SECRET]}
    assert got["fs/write_text_file"]["content"] == SECRET


def said_all(harness: PlugHarness) -> str:
    """Streamed text only; contents of tool calls are lists."""
    return "".join(
        update["content"]["text"] for update in updates(harness) if update["sessionUpdate"] == "agent_message_chunk"
    )


async def test_redact_masks_prompts_if_asked() -> None:
    """PLG-098 To the agent, from it, or both."""
    for direction, to_agent, back in (("to_agent", False, False), ("from_agent", True, False), ("both", False, False)):
        inputs = {"secrets": [SECRET], "direction": direction}
        async with PlugHarness(RedactPlug, inputs=inputs) as harness:
            await harness.attach()
            await harness.prompt(f"use {SECRET}")
            prompt = next(params for _, method, params in harness.agent.got if method == "session/prompt")
            assert (SECRET in json.dumps(prompt)) == to_agent
            assert (SECRET in said(harness)) == back


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.text("abc ", min_size=1, max_size=4), max_size=3),
    st.lists(st.text("abc ", max_size=6), max_size=8),
)
def test_pieces_give_what_the_whole_text_gives(secrets: list[str], pieces: list[str]) -> None:
    """PLG-098 However a text is cut: the same is masked, nothing is lost, added or moved."""
    masker = Masker(secrets, [], "#")
    shown, held = "", ""
    for piece in pieces:
        part, held = masker.split(held + piece)
        shown += part
    assert shown + masker.mask(held) == masker.mask("".join(pieces))


@settings(max_examples=200, deadline=None)
@given(st.text("ab-", max_size=8), st.text("ab-", max_size=8), st.integers(0, 40))
def test_a_token_that_matches_is_found_however_it_is_cut(before: str, after: str, cut: int) -> None:
    """PLG-098 Up to 256 characters of the last token are held back."""
    text = f"{before} sk-{after}b {before}"
    masker = Masker([], [r"sk-[ab-]+"], "#")
    shown, held = masker.split(text[:cut])
    rest, held = masker.split(held + text[cut:])
    assert shown + rest + masker.mask(held) == masker.mask(text)
    assert len(masker.split("x" * 1000)[1]) == 256


# permissions

OPTIONS = [
    {"optionId": "aa", "kind": "allow_always", "name": "Always"},
    {"optionId": "a1", "kind": "allow_once", "name": "Once"},
    {"optionId": "r1", "kind": "reject_once", "name": "No"},
]


def question(
    kind: str | None = None, path: Any = None, title: str = "do", options: Any = OPTIONS, call: str = "c"
) -> dict[str, Any]:
    """The params of a question for permission."""
    paths = [path] if isinstance(path, str) else path or []
    tool = {"toolCallId": call, "title": title, "locations": [{"path": each} for each in paths]}
    return {"sessionId": "s", "toolCall": {**tool, **({"kind": kind} if kind else {})}, "options": options}


def chose(option: str) -> dict[str, Any]:
    """The answer that an option is chosen."""
    return {"outcome": {"outcome": "selected", "optionId": option}}


CANCELLED = {"outcome": {"outcome": "cancelled"}}
RULES = [
    {"kind": "execute", "title": r"^rm\b", "answer": "deny"},
    {"path": "/etc/**", "answer": "deny"},
    {"kind": "edit", "path": "src/**/*.py", "answer": "allow"},
    {"kind": "fetch", "answer": "ask"},
    {"kind": "read", "answer": "allow"},
]


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        (question("execute", title="rm -r /"), chose("r1")),
        (question("execute", title="ls; rm -r /"), "asked"),
        (question("edit", "src/a.py"), chose("a1")),
        (question("edit", "/work/src/x/y/a.py"), chose("a1")),
        (question("edit", "/work/src/../a.py"), "asked"),
        (question("edit", "src/x/../../../etc/passwd"), chose("r1")),
        (question("edit", "//etc//passwd"), chose("r1")),
        (question("edit", ["src/a.py", "/tmp/a.py"]), "asked"),
        (question("edit", ["src/a.py", "src/b.py"]), chose("a1")),
        (question("edit"), "asked"),
        (question("fetch"), "asked"),
        (question("read", options=OPTIONS[:1]), chose("aa")),
        (question("read", options=OPTIONS[2:]), "asked"),
        (question("execute", title="rm x", options=OPTIONS[:2]), CANCELLED),
        (question("read", options=[]), "asked"),
        (question("read", options=None), "asked"),
        (question(), "asked"),
    ],
)
async def test_permissions_answers_by_the_first_rule_that_fits(params: dict[str, Any], expected: Any) -> None:
    """PLG-098 Once before always; without a fitting option `allow` passes on and `deny` cancels."""
    asked: list[str] = []

    def answer(peer: Any, method: str, params: Any) -> Any:
        asked.append(method)
        return chose("client")

    async with PlugHarness(PermissionsPlug, inputs={"rules": RULES}, client=answer) as harness:
        await harness.attach()
        result = await harness.agent_request("session/request_permission", params)
    assert result == (chose("client") if expected == "asked" else expected)
    assert bool(asked) == (expected == "asked")


async def test_permissions_knows_what_a_tool_call_told_before() -> None:
    """PLG-098 A question may leave out what an update told; the default answers what no rule fits."""
    async with PlugHarness(PermissionsPlug, inputs={"rules": RULES, "default": "deny"}) as harness:
        await harness.attach()
        told = {"sessionUpdate": "tool_call", "toolCallId": "c", "kind": "read", "title": "x"}
        await harness.agent_notify("session/update", {"sessionId": "s", "update": told})
        short = {"sessionId": "s", "toolCall": {"toolCallId": "c"}, "options": OPTIONS}
        assert await harness.agent_request("session/request_permission", short) == chose("a1")
        other = {**short, "toolCall": {"toolCallId": "d"}}
        assert await harness.agent_request("session/request_permission", other) == chose("r1")


async def test_permissions_cancels_after_a_cancel_until_the_prompt_is_answered() -> None:
    """PLG-098 Whatever the rules say; other sessions and the next turn are not touched."""
    answers: list[Any] = []
    cancelled = asyncio.Event()

    async def turn(peer: Any, method: str, params: Any) -> Any:
        await cancelled.wait()
        for session in ("s", "other"):
            answers.append(await peer.request("session/request_permission", {**question("read"), "sessionId": session}))
        return {"stopReason": "cancelled"}

    agent = ScriptedAgent({"session/prompt": turn, "session/cancel": lambda *_: cancelled.set()})
    async with PlugHarness(PermissionsPlug, inputs={"default": "allow"}, agent=agent) as harness:
        await harness.attach()
        await harness.notify("session/cancel", {"sessionId": "s"})
        assert await harness.agent_request("session/request_permission", question()) == chose("a1")
        cancelled.clear()
        _, prompt = await harness.client.ask("session/prompt", {"sessionId": "s", "prompt": []})
        await harness.notify("session/cancel", {"sessionId": "s"})
        await harness.time.run(asyncio.wait_for(prompt, 60))
        assert answers == [CANCELLED, chose("a1")]
        assert await harness.agent_request("session/request_permission", question()) == chose("a1")


@pytest.mark.parametrize(
    ("glob", "path", "fits"),
    [
        ("/a/*", "/a/b", True),
        ("/a/*", "/a/b/c", False),
        ("/a/**", "/a/b/c", True),
        ("/**/c", "/c", True),
        ("/**/c", "/a/b/c", True),
        ("/a?c", "/abc", True),
        ("/a?c", "/a/c", False),
        ("/[ab].py", "/a.py", True),
        ("/[!ab].py", "/a.py", False),
        ("/[^a].py", "/^.py", True),
        ("/a.b", "/axb", False),
        ("/[", "/[", True),
    ],
)
def test_globs(glob: str, path: str, fits: bool) -> None:
    """PLG-098 A star stays within a part of the path, two do not."""
    assert bool(re.fullmatch(glob_regex(glob), path)) == fits


# transcript


def lines(host: MemoryHost, path: str = "/work/log") -> list[dict[str, Any]]:
    """The lines of a transcript."""
    return [json.loads(line) for line in host.files.read(path).splitlines()]


async def test_transcript_has_a_line_per_message_in_the_order_of_the_wire() -> None:
    """PLG-098 A prompt stands before its updates, with its result and duration."""
    async with PlugHarness(TranscriptPlug, inputs={"path": "log"}) as harness:
        await harness.attach()
        await harness.prompt("hello")
        with pytest.raises(RequestError):
            await harness.request("unknown/thing", {"a": 1})
        await harness.pause("idle")
        assert harness.runner.files.stat("/work/log", follow=True).mode == 0o600
        found = lines(harness.runner)
    assert [(line["direction"], line["kind"], line["method"]) for line in found] == [
        ("to_agent", "request", "session/new"),
        ("to_agent", "request", "session/prompt"),
        ("from_agent", "notification", "session/update"),
        ("to_agent", "request", "unknown/thing"),
    ]
    assert found[1]["result"] == {"stopReason": "end_turn"} and found[1]["seconds"] >= 0
    assert found[2]["params"]["update"]["content"]["text"] == "hello" and "result" not in found[2]
    assert found[3]["error"]["code"] == -32601 and found[3]["params"] == {"a": 1}


async def test_transcript_without_bodies_on_the_host() -> None:
    """PLG-098 Only methods, times and outcomes; a request in flight at the end is unanswered."""

    async def turn(peer: Any, method: str, params: Any) -> Any:
        await peer.notify("session/update", chunk("x"))
        await asyncio.Event().wait()

    host = MemoryHost(kind="vm", workspace="/vm")
    agent = ScriptedAgent({"session/prompt": turn})
    inputs = {"path": "log", "where": "host", "bodies": False}
    async with PlugHarness(TranscriptPlug, inputs=inputs, host=host, agent=agent) as harness:
        await harness.attach()
        await harness.client.ask("session/prompt", {"sessionId": "s", "prompt": []})
        await harness.time.settle()
        await harness.pause("idle")
        found = lines(host, "/vm/log")
    assert [line["method"] for line in found[:2]] == ["session/prompt", "session/update"]
    assert found[0].get("unanswered") or "error" in found[0]
    assert not any(name in line for line in found for name in ("params", "result"))


async def test_transcript_that_cannot_be_written_warns_or_fails() -> None:
    """PLG-098 As `on_error` says."""
    async with PlugHarness(TranscriptPlug, inputs={"path": "/none/log"}) as harness:
        await harness.attach()
        await harness.prompt("hello")
        assert any(line.startswith("WARNING") and "transcript" in line for line in harness.logs)
    async with PlugHarness(TranscriptPlug, inputs={"path": "/none/log", "on_error": "fail"}) as harness:
        with pytest.raises(Exception, match="cannot be written"):
            await harness.attach()


# preamble


def prompts(harness: PlugHarness) -> list[list[str]]:
    """The texts of the prompts that the agent got."""
    return [
        [block["text"] for block in params["prompt"]]
        for _, method, params in harness.agent.got
        if method == "session/prompt"
    ]


async def test_preamble_comes_before_the_first_prompt_or_every() -> None:
    """PLG-098 The first is the first after a `session/new` of this run, not after a load."""
    async with PlugHarness(PreamblePlug, inputs={"text": "be kind"}) as harness:
        await harness.attach()
        await harness.prompt("one")
        await harness.prompt("two")
        await harness.request("session/load", {"sessionId": "old"})
        await harness.request("session/prompt", {"sessionId": "old", "prompt": [{"type": "text", "text": "three"}]})
        assert prompts(harness) == [["be kind", "one"], ["two"], ["three"]]
    async with PlugHarness(PreamblePlug, inputs={"text": "be kind", "when": "every"}) as harness:
        await harness.attach()
        await harness.prompt("one")
        await harness.prompt("two")
        assert prompts(harness) == [["be kind", "one"], ["be kind", "two"]]


async def test_preamble_reads_a_file_where_it_is() -> None:
    """PLG-098 On the runner or on the agent's host; a missing file fails the run."""
    host, runner = MemoryHost(workspace="/vm"), MemoryHost()
    host.files.write("/vm/rules", b"there")
    runner.files.write("/work/rules", b"here")
    for where, text in (("runner", "here"), ("host", "there")):
        inputs = {"file": "rules", "where": where}
        async with PlugHarness(PreamblePlug, inputs=inputs, host=host, runner=runner) as harness:
            await harness.attach()
            await harness.prompt("one")
            assert prompts(harness) == [[text, "one"]]
    async with PlugHarness(PreamblePlug, inputs={"file": "none"}) as harness:
        with pytest.raises(FileNotFoundError):
            await harness.attach()
    for wrong in ({}, {"text": "a", "file": "b"}):
        with pytest.raises(SchemaError, match="either `text` or `file`"):
            check_inputs(PreamblePlug, wrong)


# turn-limit


async def test_turn_limit_counts_over_the_runs_of_a_session() -> None:
    """PLG-098 A prompt past the limit is answered without reaching the agent."""
    async with PlugHarness(TurnLimitPlug, inputs={"max_turns": 2}) as harness:
        await harness.attach()
        assert await harness.prompt("one") == {"stopReason": "end_turn"}
        await harness.pause("idle")
        assert harness.persisted == {"turns": 1}
        await harness.resume()
        assert await harness.prompt("two") == {"stopReason": "end_turn"}
        assert await harness.prompt("three") == {"stopReason": "max_turn_requests"}
        assert prompts(harness) == [["one"], ["two"]]
        assert harness.persisted == {"turns": 2}


def _busy(calls: int, cancelled: asyncio.Event) -> Any:
    async def turn(peer: Any, method: str, params: Any) -> Any:
        for number in range(calls):
            update = {"sessionUpdate": "tool_call", "toolCallId": f"c{number}", "title": "x"}
            await peer.notify("session/update", {"sessionId": params["sessionId"], "update": update})
        await cancelled.wait()
        return {"stopReason": "cancelled", "_meta": {"a": 1}}

    return turn


async def test_turn_limit_stops_a_turn_with_too_many_tool_calls() -> None:
    """PLG-098 It gets one `session/cancel`, and `cancelled` becomes `max_turn_requests`."""
    cancelled = asyncio.Event()
    agent = ScriptedAgent({"session/prompt": _busy(5, cancelled), "session/cancel": lambda *_: cancelled.set()})
    async with PlugHarness(TurnLimitPlug, inputs={"max_tool_calls": 2}, agent=agent) as harness:
        await harness.attach()
        assert await harness.prompt("go") == {"stopReason": "max_turn_requests", "_meta": {"a": 1}}
        assert [method for _, method, _ in harness.agent.got].count("session/cancel") == 1
        assert len(updates(harness)) == 5


async def test_turn_limit_stops_a_turn_that_takes_too_long() -> None:
    """PLG-098 After its seconds; a turn that the client cancelled itself stays `cancelled`."""
    cancelled = asyncio.Event()
    agent = ScriptedAgent({"session/prompt": _busy(0, cancelled), "session/cancel": lambda *_: cancelled.set()})
    async with PlugHarness(TurnLimitPlug, inputs={"max_seconds": 30}, agent=agent) as harness:
        await harness.attach()
        assert (await harness.prompt("go"))["stopReason"] == "max_turn_requests"
        cancelled.clear()
        _, prompt = await harness.client.ask("session/prompt", {"sessionId": "s", "prompt": []})
        await harness.notify("session/cancel", {"sessionId": "s"})
        assert (await harness.time.run(asyncio.wait_for(prompt, 60)))["stopReason"] == "cancelled"


def test_every_stock_plug_is_described() -> None:
    """PLG-098 Name, description and version are there for a list of plugs."""
    plugs: tuple[type[Plug], ...] = (
        EnvPlug,
        RedactPlug,
        PermissionsPlug,
        TranscriptPlug,
        PreamblePlug,
        TurnLimitPlug,
    )
    for plug in plugs:
        assert plug.name.startswith("jsrun/") and plug.description and plug.plug_api == (1, 0) and plug.resumable
