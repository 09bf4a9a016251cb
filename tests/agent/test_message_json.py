"""Messages as JSON, errors as values."""

import copy
import json
import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jsrun.agent import errors
from jsrun.agent.errors import (
    AgentError,
    AgentUnavailable,
    ApiError,
    InferenceError,
    IterationLimit,
    ParentConflict,
    RateLimited,
    RunCancelled,
    RuntimeFault,
    SessionFailure,
    SessionLoad,
    SupervisorFailed,
    Unavailable,
)
from jsrun.agent.message_json import message_from_json, message_to_json
from jsrun.agent.messages import AssistantMessage, SystemMessage, ToolCall, ToolMessage, UserMessage
from jsrun.canonical import json_text

# Lone surrogates included: what was stored once is read as it was.
_TEXT = st.text(st.characters(), max_size=8)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=8,
)
_CALLS = st.lists(st.builds(ToolCall, _TEXT, _TEXT, _TEXT), max_size=3).map(tuple)
_ANY_CALL = st.fixed_dictionaries({"id": _JSON, "name": _JSON, "arguments_json": _JSON})
_MESSAGES = st.one_of(
    st.builds(UserMessage, _TEXT),
    st.builds(SystemMessage, _TEXT),
    st.builds(ToolMessage, _TEXT, _TEXT, st.booleans()),
    st.builds(AssistantMessage, _TEXT, _CALLS, st.none() | _TEXT, st.none() | _TEXT, _JSON),
)


@settings(max_examples=150, deadline=None)
@given(_MESSAGES)
def test_a_message_comes_back_from_its_json(message: Any) -> None:
    """AGT-047 Every field, in ASCII."""
    text = json_text(message_to_json(message))
    assert text.isascii()
    assert message_from_json(json.loads(text)) == message


@settings(max_examples=150, deadline=None)
@given(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant", "tool", "system", "wizard"]) | _JSON},
        optional={
            "content": _JSON,
            "tool_call_id": _JSON,
            "is_error": _JSON,
            "tool_calls": st.lists(st.fixed_dictionaries({"id": _JSON, "name": _JSON, "arguments_json": _JSON}))
            | _JSON,
            "thinking": _JSON,
            "stop_reason": _JSON,
            "more": _JSON,
        },
    )
    | _JSON
)
def test_any_other_json_is_a_message_or_a_value_error(data: Any) -> None:
    """AGT-052 And what is accepted is exactly what would be written."""
    try:
        message = message_from_json(data)
    except ValueError as error:
        assert str(error)
    else:
        again = message_to_json(message)
        assert {key: value for key, value in data.items() if value not in (None, [], False)} == again


SAMPLES: tuple[AgentError, ...] = (
    ApiError("no", 500),
    IterationLimit(3),
    RateLimited(1.5),
    InferenceError(IterationLimit(3)),
    SessionFailure(ParentConflict(None, "x")),
    SessionLoad(Unavailable("gone")),
    RuntimeFault("busy"),
    RunCancelled("deadline"),
    AgentUnavailable("stopped"),
    SupervisorFailed("a", Unavailable("gone")),
)


@pytest.mark.parametrize("error", SAMPLES, ids=repr)
def test_errors_are_values(error: AgentError) -> None:
    """AGT-037 Equal by class and fields, and so are their copies; raising one leaves no mark on its bare copy."""
    for other in (copy.copy(error), pickle.loads(pickle.dumps(error)), error.bare()):
        assert other == error
        assert hash(other) == hash(error)
        assert str(other) == str(error)
    with pytest.raises(type(error)) as caught:
        raise error
    assert caught.value.bare().__traceback__ is None
    assert error != "text"
    assert sum(error == sample for sample in SAMPLES) == 1


def test_errors_of_another_class_or_with_other_fields_differ() -> None:
    """AGT-037 A subclass is another class."""
    assert ApiError("no", 500) != ApiError("no", 501)
    assert ApiError("no", 500) != errors.AuthFailed("no", 500)
    assert Unavailable("x") != errors.Corrupt("x")
    assert RuntimeFault("busy") == RuntimeFault("busy", RuntimeFault("busy").detail)


def test_errors_are_one_line_of_encodable_text() -> None:
    """AGT-037 Whatever a provider or store put into them."""
    text = str(InferenceError(ApiError("two\nlines \ud800", None)))
    assert text == "two lines \ufffd"
    text.encode()
    assert "\n" not in repr(ApiError("two\nlines"))
