"""The conformance suite passes on every stock plug."""

from pathlib import Path
from typing import Any

import pytest

from jsrun.plugs.hosts import MemoryHost
from jsrun.plugs.stock import __file__ as stock_file
from jsrun.plugs.stock.env import EnvPlug
from jsrun.plugs.stock.permissions import PermissionsPlug
from jsrun.plugs.stock.preamble import PreamblePlug
from jsrun.plugs.stock.redact import RedactPlug
from jsrun.plugs.stock.transcript import TranscriptPlug
from jsrun.plugs.stock.turn_limit import TurnLimitPlug
from jsrun.plugs.testing.conformance import Case, conformance
from jsrun.plugs.testing.harness import PlugHarness

PERMISSION = {
    "sessionId": "acp-1",
    "toolCall": {"toolCallId": "t", "kind": "edit", "locations": [{"path": "/work/a"}]},
    "options": [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}],
}


def with_text() -> MemoryHost:
    """A machine with a text to put before prompts."""
    host = MemoryHost()
    host.files.write("/work/before.md", b"Be brief.")
    return host


async def asked(harness: PlugHarness) -> None:
    """A turn, and a question for permission."""
    await harness.prompt("a turn")
    await harness.agent_request("session/request_permission", PERMISSION)


def shown(plug: Any, *cases: Case) -> Any:
    """The suite over a stock plug."""
    return pytest.mark.plg("PLG-099")(conformance(plug, cases))


test_env = shown(
    EnvPlug,
    Case({"set": {"A": "1"}, "unset": ["HOME"], "from_runner": ["KEY"]}, env={"KEY": "k"}),
)
test_permissions = shown(
    PermissionsPlug,
    Case({"rules": [{"kind": "edit", "path": "/work/**", "answer": "allow"}]}, drive=asked),
)
test_preamble = shown(
    PreamblePlug,
    Case({"text": "Be brief."}, "text"),
    Case({"file": "/work/before.md", "when": "every"}, "file", host=with_text, runner=with_text),
)
test_redact = shown(
    RedactPlug,
    Case({"secrets": ["hunter2hunter2"], "patterns": ["[0-9]{12}"]}),
)
test_transcript = shown(
    TranscriptPlug,
    Case({"path": "/work/log.jsonl", "on_error": "warn"}, "warn"),
    Case({"path": "/work/log.jsonl", "on_error": "fail", "bodies": True}, "fail"),
)
test_turn_limit = shown(
    TurnLimitPlug,
    Case({"max_turns": 5, "max_tool_calls": 10, "max_seconds": 60}),
)


@pytest.mark.plg("PLG-099")
def test_no_stock_plug_is_left_out() -> None:
    """PLG-099 Every module of the stock folder is above."""
    stock = {path.stem for path in Path(stock_file).parent.glob("[a-z]*.py")}
    assert {f"test_{name}" for name in stock} <= set(globals())
