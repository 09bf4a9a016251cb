"""Messages as plugs see them, and the table of known methods."""

import dataclasses
import sys
from typing import Any

import pytest

from jsrun.plugs import METHODS, Message, MissingExtra, RequestError

acp_meta = pytest.importorskip("acp.meta", reason="pip install 'subharness[acp]'")


@pytest.mark.plg("PLG-009")
def test_the_table_knows_every_method_of_the_protocol() -> None:
    """PLG-009 METHODS has the methods of protocol version 1, with direction, kind and names of models that exist."""
    from acp import schema

    to_agent, from_agent = set(acp_meta.AGENT_METHODS.values()), set(acp_meta.CLIENT_METHODS.values())
    assert set(METHODS) == to_agent | from_agent
    for method, info in METHODS.items():
        assert ("to_agent" in info.directions, "from_agent" in info.directions) == (
            method in to_agent,
            method in from_agent,
        )
        names = [*info.params, *([info.result] if info.result is not None else [])]
        assert all(hasattr(schema, name) for name in names)
        assert ("request" in info.kinds) is any(name.endswith("Request") for name in info.params)
        assert ("notification" in info.kinds) is any(name.endswith("Notification") for name in info.params)
    with pytest.raises(TypeError):
        METHODS["mine"] = METHODS["initialize"]  # type: ignore[index]  # it is read only


@pytest.mark.plg("PLG-009")
def test_a_message_is_frozen_and_changed_by_making_another() -> None:
    """PLG-009 `replace()` sets members of params, `copy()` has params of its own, and the message itself stays."""
    params = {"sessionId": "s", "prompt": [{"type": "text", "text": "a"}]}
    message = Message("to_agent", "session/prompt", params)
    changed = message.replace(sessionId="t", self=1)
    assert changed.params == {**params, "sessionId": "t", "self": 1} and message.params["sessionId"] == "s"
    copied = message.copy()
    copied.params["prompt"][0]["text"] = "b"
    assert message.params["prompt"][0]["text"] == "a"
    assert Message("to_agent", "m").replace(a=1).params == {"a": 1}
    with pytest.raises(dataclasses.FrozenInstanceError):
        message.method = "other"  # type: ignore[misc]  # it is frozen
    with pytest.raises(TypeError):
        Message("to_agent", "m", [1]).replace(a=1)


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"direction": "inwards"}, ValueError),
        ({"kind": "answer"}, ValueError),
        ({"method": 3}, TypeError),
    ],
)
def test_what_is_no_message_cannot_be_made(fields: dict[str, Any], error: type[Exception]) -> None:
    """Direction, kind and method are checked."""
    with pytest.raises(error):
        Message(**{"direction": "to_agent", "method": "m", **fields})


@pytest.mark.plg("PLG-009")
def test_a_view_is_a_model_of_the_library() -> None:
    """PLG-009 `view()` gives the typed params; unknown methods have none."""
    prompt = Message("to_agent", "session/prompt", {"sessionId": "s", "prompt": [{"type": "text", "text": "a"}]})
    assert type(prompt.view()).__name__ == "PromptRequest" and prompt.view().prompt[0].text == "a"
    option = {"sessionId": "s", "configId": "c", "value": True, "type": "boolean"}
    assert type(Message("to_agent", "session/set_config_option", option).view()).__name__.endswith("BooleanRequest")
    told = Message("from_agent", "mcp/message", {"connectionId": "c", "method": "m"}, "notification")
    assert type(told.view()).__name__ == "MessageMcpNotification"
    with pytest.raises(LookupError, match="_mine"):
        Message("to_agent", "_mine").view()


@pytest.mark.plg("PLG-008")
def test_a_view_without_the_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """PLG-008 A missing extra raises `MissingExtra` with the pip command."""
    monkeypatch.setitem(sys.modules, "acp", None)
    with pytest.raises(MissingExtra, match=r"pip install 'subharness\[acp\]'"):
        Message("to_agent", "initialize", {"protocolVersion": 1}).view()


@pytest.mark.plg("PLG-044")
@pytest.mark.parametrize(("code", "message"), [("x", "no"), (1.5, "no"), (True, "no"), (1, None), (1, 3)])
def test_an_error_answer_nobody_could_read_cannot_be_made(code: Any, message: Any) -> None:
    """PLG-044 So a handler that tries fails its session, instead of leaving its caller without an answer."""
    with pytest.raises(TypeError, match="whole number as code and a text as message"):
        RequestError(code, message)
