"""Random lives of the host's machine, against a small model of what must hold whatever happens."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz.targets.machine import Lives
from ptc.protocol.machine import CallRequested, Event
from tests.ptc.machines import DECLARED, call, machine, names, sent

LIMITS: dict[str, Any] = {
    "max_calls": 6,
    "max_pending_calls": 3,
    "max_message_bytes": 400,
    "max_output_bytes": 120,
    "max_log_entries": 5,
    "max_value_tokens": 6,
    "memory": 1000,
}

JSON_ODDS = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.floats(0, 2) | st.text('aé\ud800"', max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["kind", "length", "keys", "a"]), inner)
    ),
    max_leaves=6,
)
TOKENS = st.lists(
    st.sampled_from([1, "x", None, 0.5])
    | st.builds(lambda n: {"kind": "array", "length": n}, st.integers(0, 2))
    | st.builds(lambda keys: {"kind": "object", "keys": keys}, st.lists(st.sampled_from("ab"), max_size=2))
    | JSON_ODDS,
    min_size=1,
    max_size=4,
)
TEXT = st.text("aé\x00\ud800", max_size=20)


@st.composite
def odd_messages(draw: st.DrawFn) -> object:
    """A message that is often valid, sometimes nearly, sometimes nonsense."""
    kind = draw(st.sampled_from(["call", "call", "log", "log", "done", "output-limit", "ready", "odd"]))
    message: dict[str, object] = {"type": kind}
    if kind == "call":
        message = call(
            draw(st.integers(1, 4) | st.sampled_from([True, 1.0, "1", None])),
            draw(st.just([1]) | TOKENS),
            **{"global": draw(st.sampled_from(["tools", "more", "__proto__"]))},
            name=draw(st.sampled_from(["echo", "search", "toString"])),
        )
    elif kind == "log":
        message["text"] = draw(TEXT)
        message["level"] = draw(st.sampled_from(["log", "warn", "trace"]))
    elif kind == "done":
        message["value"] = draw(TOKENS)
        if draw(st.booleans()):
            message["error"] = {"kind": draw(st.sampled_from(["exception", "stuck", "timeout"])), "message": draw(TEXT)}
    elif kind == "odd":
        return draw(JSON_ODDS)
    if draw(st.integers(0, 9)) == 0:
        message[draw(st.sampled_from(["id", "text", "error", "type", "more"]))] = draw(JSON_ODDS)
    return message


BYTES = st.lists(odd_messages().map(json.dumps).map(sent) | st.binary(max_size=12), max_size=8).map(b"".join)


def check_events(events: list[Event]) -> None:
    """What holds of every list of events of one machine, whatever was fed."""
    kinds = names(events)
    assert kinds.count("KillRequested") <= 1
    assert kinds.count("Settled") <= 1
    calls = [event for event in events if isinstance(event, CallRequested)]
    assert [event.id for event in calls] == list(range(1, len(calls) + 1))
    assert all(event.name in DECLARED.get(event.global_, ()) for event in calls)
    if "KillRequested" in kinds:
        assert set(kinds[kinds.index("KillRequested") + 1 :]) <= {"Settled"}


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(["new", "running"]), BYTES, st.lists(st.integers(0, 2000), max_size=10))
def test_arbitrary_bytes_in_arbitrary_splits(state: Any, data: bytes, cuts: list[int]) -> None:
    """PTC-043 nothing raises, only declared functions are called, and the split makes no difference."""
    made = machine(state, **LIMITS)
    whole = made.feed(data)
    check_events(whole)
    for edges in (sorted({cut % (len(data) + 1) for cut in cuts}), range(len(data))):
        other = machine(state, **LIMITS)
        events: list[Event] = []
        start = 0
        for end in [*edges, len(data)]:
            events += other.feed(data[start:end])
            start = end
        assert events == whole
        assert other.state == made.state
        assert other.eof() + other.exited(None) == machine_end(state, data)


def machine_end(state: Any, data: bytes) -> list[Event]:
    made = machine(state, **LIMITS)
    made.feed(data)
    return made.eof() + made.exited(None)


TestLives = Lives.TestCase
TestLives.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)
TestLives.__doc__ = "PTC-043 one outcome, no call after the end, the first terminal event decides, one answer a call."
