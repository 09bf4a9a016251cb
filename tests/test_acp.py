"""`jsrun acp` as a process, driven by the protocol's own library as its client."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import acp
import pytest
from acp import schema

from jsrun import RunResult
from jsrun.acp.bundle_agent import told
from jsrun.acp.session import Session

PATIENCE_S = 60.0
pytestmark = pytest.mark.plg("PLG-097")

TOOLS = """
import asyncio
from jsrun.agent.tools import Tool, ToolDefinition

def boom() -> str:
    "Fails."
    raise RuntimeError("the secret text of an exception")

async def hang() -> str:
    "Hangs."
    await asyncio.sleep(600)
    return ""

async def _note(arguments, context):
    print("printed by a tool")
    return "noted"

note = Tool(ToolDefinition("note", "Writes.", {"type": "object"}), _note, repeatable=False)

async def _wait(arguments, context):
    await asyncio.sleep(600)

wait = Tool(ToolDefinition("wait", "Hangs.", {"type": "object"}), _wait)
"""


class Client:
    """A client that notes its updates, and answers questions with what it was told to."""

    def __init__(self) -> None:
        self.updates: list[Any] = []
        self.questions: list[tuple[str, list[str]]] = []
        self.choose: Callable[[list[schema.PermissionOption]], str | None] = lambda options: options[0].option_id
        self.write: Callable[[str], Any] = lambda message: schema.CancelElicitationResponse(action="cancel")
        self.came = asyncio.Event()

    def on_connect(self, conn: Any) -> None:
        """The connection is made."""

    async def session_update(self, session_id: str, update: Any, **_more: Any) -> None:
        """An update came."""
        self.updates.append(update)
        self.came.set()

    async def request_permission(self, session_id: str, tool_call: Any, options: Any, **_more: Any) -> Any:
        """A choice is asked for."""
        self.questions.append((tool_call.title, [option.name for option in options]))
        chosen = self.choose(options)
        if chosen is None:
            return schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))
        return schema.RequestPermissionResponse(outcome=schema.AllowedOutcome(outcome="selected", option_id=chosen))

    async def create_elicitation(self, message: str, mode: Any, **_more: Any) -> Any:
        """A form is asked for."""
        self.questions.append((message, ["form"]))
        return self.write(message)

    def texts(self, kind: Any = schema.AgentMessageChunk) -> str:
        """The text of all updates of a kind."""
        return "".join(str(update.content.text) for update in self.updates if type(update) is kind)

    def calls(self) -> list[tuple[str, str, str]]:
        """Title, kind and ending of every call, in the order they began."""
        ends = {one.tool_call_id: one.status for one in self.updates if isinstance(one, schema.ToolCallProgress)}
        starts = [one for one in self.updates if isinstance(one, schema.ToolCallStart)]
        return [(one.title, str(one.kind), str(ends.get(one.tool_call_id))) for one in starts]


class Served:
    """A connection with one session."""

    def __init__(self, conn: Any, client: Client, session_id: str, info: schema.InitializeResponse) -> None:
        self.conn = conn
        self.client = client
        self.session_id = session_id
        self.info = info

    async def prompt(self, text: str) -> str:
        """Why the turn stopped."""
        blocks = [acp.text_block(text)]
        answer = await asyncio.wait_for(self.conn.prompt(session_id=self.session_id, prompt=blocks), PATIENCE_S)
        return str(answer.stop_reason)

    async def refused(self, text: str) -> acp.RequestError:
        """The error of a prompt."""
        with pytest.raises(acp.RequestError) as caught:
            await self.prompt(text)
        return caught.value


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with tools, in which the servers run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "acp_test_tools.py").write_text(TOOLS)
    return tmp_path


@asynccontextmanager
async def serving(*arguments: str, forms: bool = False) -> AsyncIterator[Served]:
    """`jsrun acp` with these arguments, initialized, with one session."""
    client = Client()
    environment = {"JSRUN_HOME": str(Path.cwd() / "home")}
    command = (sys.executable, "-m", "jsrun", "acp", *arguments)
    connecting: Any = acp.spawn_agent_process
    async with connecting(client, *command, env=environment, use_unstable_protocol=True) as (conn, process):
        elicitation = schema.ElicitationCapabilities(form=schema.ElicitationFormCapabilities()) if forms else None
        info = await asyncio.wait_for(
            conn.initialize(
                protocol_version=acp.PROTOCOL_VERSION,
                client_capabilities=schema.ClientCapabilities(elicitation=elicitation),
            ),
            PATIENCE_S,
        )
        session = await conn.new_session(cwd=str(Path.cwd()), mcp_servers=[])
        yield Served(conn, client, session.session_id, info)
    assert process.returncode == 0


def write_bundle(program: str, **manifest: Any) -> str:
    """A bundle in the current folder."""
    path = Path("made")
    (path / "prompts").mkdir(parents=True)
    (path / "prompts" / "ask.md").write_text("Answer.")
    (path / "manifest.json").write_text(json.dumps({"name": "made", "purpose": "A test.", **manifest}))
    (path / "program.js").write_text(program)
    return "made"


async def test_a_bundle_answers_a_prompt_with_one_run(folder: Path) -> None:
    """PLG-097 the text is the input; calls and statuses are shown; the output is the answer, after its updates."""
    (folder / "script.json").write_text('["hello"]')
    made = write_bundle(
        """async function run({ question }) {
          await log("looking");
          const { entries } = await tool("list", { path: "." });
          return { said: await ai("ask", question), question, found: entries.length > 0 };
        }""",
        input={"type": "object", "properties": {"question": {"type": "string"}}, "required": ["question"]},
        whitelist=["list"],
    )
    async with serving(made, "--model", "script:script.json") as served:
        assert served.info.agent_info is not None
        assert served.info.agent_info.name == "made"
        assert await served.prompt("what is here?") == "end_turn"
        assert json.loads(served.client.texts()) == {"said": "hello", "question": "what is here?", "found": True}
        assert served.client.texts(schema.AgentThoughtChunk) == "looking\n"
        assert served.client.calls() == [("list", "other", "completed"), ("ask", "think", "completed")]
        assert isinstance(served.client.updates[-1], schema.AgentMessageChunk)


async def test_the_prompt_of_a_schema_that_is_no_single_text_is_json(folder: Path) -> None:
    """PLG-097 a misfit is -32602 with the issues."""
    made = write_bundle(
        "function run({ n }) { return n * 2 }",
        input={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
    )
    async with serving(made) as served:
        assert await served.prompt('{"n": 21}') == "end_turn"
        assert served.client.texts() == "42"
        for text in ("no json", '{"n": "x"}', "{}"):
            error = await served.refused(text)
            assert error.code == -32602
            assert isinstance(error.data, dict)
            assert error.data["issues"], text
        with pytest.raises(acp.RequestError) as caught:
            await served.conn.prompt(session_id=served.session_id, prompt=[acp.resource_link_block("a", "file:///a")])
        assert caught.value.code == -32602
        with pytest.raises(acp.RequestError) as caught:
            await served.conn.prompt(session_id="absent", prompt=[acp.text_block("x")])
        assert caught.value.code == -32602


async def test_every_ending_has_its_stop_reason(folder: Path) -> None:
    """PLG-097 without an input schema the text is the input; fallen back, out of steps or of time."""
    (folder / "script.json").write_text('["a", "b", "c"]')
    made = write_bundle(
        """async function run(how) {
          if (how === "throw") throw new Error("cannot do it");
          if (how === "steps") for (;;) await log("step");
          if (how === "wall") await tool("hang", {});
          if (how === "boom") await tool("boom", {});
          return how;
        }""",
        whitelist=["hang", "boom"],
        fuel={"steps": 20, "wall": "1s"},
    )
    async with serving(made, "--tool", "acp_test_tools:boom", "--tool", "acp_test_tools:hang") as served:
        assert await served.prompt("plain") == "end_turn"
        assert served.client.texts() == "plain"
        served.client.updates.clear()
        assert await served.prompt("throw") == "end_turn"
        assert "cannot do it" in served.client.texts()
        assert await served.prompt("steps") == "max_turn_requests"
        assert await served.prompt("wall") == "max_turn_requests"
        assert served.client.calls()[-1] == ("hang", "other", "failed")
        assert await served.prompt("boom") == "end_turn"
        assert served.client.calls()[-1] == ("boom", "other", "failed")


async def test_a_question_with_options_is_a_permission_and_another_one_a_form(folder: Path) -> None:
    """PLG-097 chosen, written, cancelled; without forms it is unanswered."""
    made = write_bundle(
        """async function run(how) {
          const options = how === "choose" ? { options: ["red", "blue"] } : { default: "" };
          return { said: await ask("Which?", options) };
        }"""
    )
    async with serving(made, forms=True) as served:
        served.client.choose = lambda options: options[1].option_id
        assert await served.prompt("choose") == "end_turn"
        assert json.loads(served.client.texts()) == {"said": "blue"}
        assert served.client.questions == [("Which?", ["red", "blue"])]
        served.client.updates.clear()
        served.client.write = lambda message: schema.AcceptElicitationResponse(
            action="accept", content={"answer": "green"}
        )
        assert await served.prompt("write") == "end_turn"
        assert json.loads(served.client.texts()) == {"said": "green"}
        served.client.updates.clear()
        served.client.choose = lambda options: None
        assert await served.prompt("choose") == "end_turn"
        assert "Nobody answered" in served.client.texts()
    async with serving(made) as served:
        assert await served.prompt("write") == "end_turn"
        assert "Nobody answered" in served.client.texts()
        assert served.client.questions == []


async def test_a_cancelled_prompt_and_a_second_one(folder: Path) -> None:
    """PLG-097 `session/cancel` is answered `cancelled`; a second prompt meanwhile is -32600."""
    made = write_bundle("async function run() { return await tool('hang', {}) }", whitelist=["hang"])
    async with serving(made, "--tool", "acp_test_tools:hang") as served:
        first = asyncio.create_task(served.prompt("x"))
        await asyncio.wait_for(served.client.came.wait(), PATIENCE_S)
        assert (await served.refused("y")).code == -32600
        await served.conn.cancel(session_id=served.session_id)
        assert await first == "cancelled"
        assert served.client.calls() == [("hang", "other", "failed")]


async def test_what_is_not_offered_is_not_found(folder: Path) -> None:
    """PLG-097 -32601, never an empty result."""
    made = write_bundle("function run(x) { return x }")
    async with serving(made) as served:
        for request in (
            served.conn.set_session_mode(session_id=served.session_id, mode_id="fast"),
            served.conn.load_session(cwd="/", session_id="x", mcp_servers=[]),
            served.conn.list_sessions(),
            served.conn.authenticate(method_id="x"),
            served.conn.ext_method("other/method", {}),
        ):
            with pytest.raises(acp.RequestError) as caught:
                await request
            assert caught.value.code == -32601


async def test_the_agent_takes_over_when_a_bundle_falls_back(folder: Path) -> None:
    """PLG-097 with `--fallback`: its output is the answer."""
    steps = [{"calls": [{"name": "submit_result", "arguments": {"output": {"by": "agent"}}}]}, "done"]
    (folder / "script.json").write_text(json.dumps(steps))
    made = write_bundle("function run(x) { throw new Error('not mine') }")
    async with serving(made, "--model", "script:script.json", "--fallback") as served:
        assert await served.prompt("x") == "end_turn"
        assert json.loads(served.client.texts()) == {"by": "agent"}
        assert "not mine" in served.client.texts(schema.AgentThoughtChunk)


async def test_the_agent_serves_durable_sessions(folder: Path) -> None:
    """PLG-097 turns, permissions, listing, and loading in another process; what tools print is not on stdout."""
    steps = [{"calls": [{"name": "note"}]}, "first", {"calls": [{"name": "note"}]}, "second"]
    (folder / "script.json").write_text(json.dumps(steps))
    arguments = ("--agent", "--model", "script:script.json", "--belt", "acp_test_tools:note")
    async with serving(*arguments) as served:
        assert await served.prompt("write it down") == "end_turn"
        assert served.client.texts() == "first"
        assert served.client.questions == [("note {}", ["Allow", "Allow in this session", "Reject"])]
        assert served.client.calls() == [("note", "other", "completed")]
        served.client.choose = lambda options: options[2].option_id
        assert await served.prompt("again") == "end_turn"
        assert served.client.calls()[-1] == ("note", "other", "failed")
        session_id = served.session_id
    (folder / "script.json").write_text('["third"]')
    async with serving(*arguments) as served:
        listed = (await served.conn.list_sessions()).sessions
        assert [(one.session_id, one.title) for one in listed] == [(session_id, "write it down")]
        await served.conn.load_session(cwd=str(folder), session_id=session_id, mcp_servers=[])
        assert served.client.texts(schema.UserMessageChunk) == "write it downagain"
        assert served.client.texts() == "firstsecond"
        served.session_id = session_id
        assert await served.prompt("and now?") == "end_turn"
        assert served.client.texts().endswith("third")
        with pytest.raises(acp.RequestError):
            await served.conn.load_session(cwd=str(folder), session_id="absent", mcp_servers=[])


async def test_a_turn_of_the_agent_is_cancelled_and_a_failure_tells_nothing(folder: Path) -> None:
    """PLG-097 `cancelled` after its updates; a provider that fails is -32603 without its text."""
    (folder / "script.json").write_text(json.dumps([{"calls": [{"name": "wait"}]}]))
    async with serving("--agent", "--model", "script:script.json", "--belt", "acp_test_tools:wait") as served:
        turn = asyncio.create_task(served.prompt("x"))
        await asyncio.wait_for(served.client.came.wait(), PATIENCE_S)
        assert (await served.refused("y")).code == -32600
        await served.conn.cancel(session_id=served.session_id)
        assert await turn == "cancelled"
        assert served.client.calls() == [("wait", "other", "failed")]
        error = await served.refused("again")
        assert (error.code, str(error), error.data) == (-32603, "Internal error", None)


def test_the_streams_may_be_files(folder: Path) -> None:
    """PLG-097 what a client would write comes from a file, and the answers go to one."""
    made = write_bundle("function run(x) { return x + '!' }")
    asked = [
        ("initialize", {"protocolVersion": 1}),
        ("session/new", {"cwd": str(folder), "mcpServers": []}),
    ]
    given = "".join(
        json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}) + "\n"
        for number, (method, params) in enumerate(asked)
    )
    (folder / "in.jsonl").write_text(given)
    with (folder / "in.jsonl").open("rb") as source, (folder / "out.jsonl").open("wb") as target:
        command = [sys.executable, "-m", "jsrun", "acp", made]
        done = subprocess.run(command, stdin=source, stdout=target, stderr=subprocess.PIPE, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]
    assert sorted(one["id"] for one in answers) == [0, 1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "Name a bundle to serve, or use --agent"),
        (["made", "--agent"], "one of the two"),
        (["--agent"], "--model is missing"),
        (["absent"], 'no bundle "absent"'),
        (["made", "--model", "nonsense"], "--model: "),
        (["made", "--tool", "absent:f"], '--tool "absent:f"'),
    ],
)
async def test_bad_options_are_one_sentence(folder: Path, arguments: list[str], said: str) -> None:
    """PLG-097 exit 1 before a client waits."""
    write_bundle("function run(x) { return x }")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "jsrun", "acp", *arguments,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    assert (process.returncode, out) == (1, b"")
    assert said in err.decode()
    assert "Traceback" not in err.decode()


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("tokens", "max_tokens"),
        ("steps", "max_turn_requests"),
        ("wall", "max_turn_requests"),
        ("compute", "max_turn_requests"),
        ("cancelled", "cancelled"),
        ("stuck", "end_turn"),
        ("memory", "end_turn"),
    ],
)
async def test_a_reason_is_told_by_its_stop_reason(reason: Any, expected: str) -> None:
    """PLG-097 also those that a test program does not come to."""
    client = Client()
    result = RunResult(status="incomplete", reason=reason, incomplete="It stopped.", report="half way")
    assert await told(Session(client, "s", "/", forms=False), result) == expected
    assert client.texts() == ("" if reason == "cancelled" else "It stopped.\n\nhalf way")
