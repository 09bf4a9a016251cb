"""Random lives of the host's machine, against a small model of what must hold whatever happens."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ptc.errors import LocalProtocolError
from ptc.limits import Limits
from ptc.outcome import KINDS, UNSET, ExitStatus
from ptc.protocol.machine import CallRequested, Event, HostMachine, KillRequested, Logged, Ready, Settled
from tests.ptc.machines import BOOT_DATA, DECLARED, READY, call, machine, messages, names, sent

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


class Lives(RuleBasedStateMachine):
    """PTC-043 one outcome, no call after the end, the first terminal event decides, answers once per call."""

    def __init__(self) -> None:
        super().__init__()
        self.events: list[Event] = []
        self.open: set[int] = set()
        self.answered: set[int] = set()
        self.written = b""
        self.decided: str | None = None
        """What the first terminal event made of the run: a kind, `eof` or `done`."""
        self.exit_told = False
        self.eof_told = False
        self.clean = True
        self.calm = 0
        """For so many more steps nothing ends the run on purpose, so that lives get long enough to be interesting."""

    @initialize(state=st.sampled_from(["new", "ready", "running", "running", "running"]), calm=st.integers(0, 25))
    def start(self, state: str, calm: int) -> None:
        self.made = HostMachine(DECLARED, Limits(**LIMITS))
        self.calm = calm
        if state != "new":
            self.happened(self.made.feed(sent(READY)))
        if state == "running":
            self.made.boot(BOOT_DATA, UNSET, 1.0)

    def happened(self, events: list[Event]) -> None:
        before = "settled" if any(isinstance(event, Settled) for event in self.events) else "open"
        if before == "settled":
            assert events == []
        for event in events:
            if isinstance(event, CallRequested):
                self.open.add(event.id)
            elif isinstance(event, KillRequested):
                assert self.decided is None
                self.decided = event.why
        self.events += events

    # --- the process ---

    @rule()
    def says_ready(self) -> None:
        expected = self.made.state == "new"
        events = self.made.feed(sent(READY))
        assert not self.clean or (events == [Ready()]) == expected
        self.happened(events)

    @precondition(lambda self: self.clean and self.made.state == "running")
    @rule(text=TEXT)
    def logs(self, text: str) -> None:
        events = self.made.feed(sent({"type": "log", "text": text}))
        assert isinstance(events[0], (Logged, KillRequested))
        self.happened(events)

    @precondition(lambda self: self.clean and self.made.state == "running")
    @rule(name=st.sampled_from(["echo", "search"]))
    def calls(self, name: str) -> None:
        number = len(self.open | self.answered) + 1
        pending = len(self.open)
        events = self.made.feed(sent(call(number, name=name)))
        if number > LIMITS["max_calls"]:
            assert events[0] == KillRequested("call-limit")
        elif pending == LIMITS["max_pending_calls"]:
            assert events[0] == KillRequested("protocol")
        else:
            assert events[0] in (CallRequested(number, "tools", name, 1), KillRequested("protocol"))
        self.happened(events)

    @precondition(lambda self: self.calm == 0)
    @rule(data=BYTES)
    def says_anything(self, data: bytes) -> None:
        self.clean = False  # part of a frame may be left over, which makes something else of the next one
        self.happened(self.made.feed(data))

    @precondition(lambda self: self.calm == 0 and self.made.state == "running")
    @rule(tokens=st.sampled_from([None, [5], ["x" * 60], [[]]]))
    def finishes(self, tokens: object) -> None:
        message = {"type": "done", "cpuMs": 1} if tokens is None else {"type": "done", "value": tokens}
        self.happened(self.made.feed(sent(message)))

    @precondition(lambda self: self.calm == 0)
    @rule()
    def channel_ends(self) -> None:
        self.eof_told = True
        self.happened(self.made.eof())

    @rule(status=st.sampled_from([None, ExitStatus(code=0), ExitStatus(code=65), ExitStatus(signal=9)]))
    def process_ends(self, status: ExitStatus | None) -> None:
        self.exit_told = True
        self.happened(self.made.exited(status))

    @rule(data=st.binary(max_size=30))
    def prints(self, data: bytes) -> None:
        assert self.made.native(data) == []

    # --- the host ---

    @rule()
    def boots(self) -> None:
        state = self.made.state
        try:
            events = self.made.boot(BOOT_DATA, UNSET, 1.0)
        except LocalProtocolError:
            assert state != "ready"
        else:
            assert (state, events, self.made.state) == ("ready", [], "running")

    @rule(number=st.integers(0, 4), value=st.sampled_from([None, "x" * 390, "x" * 100, {1: 2}, [1] * 9]))
    def replies(self, number: int, value: object) -> None:
        self.answer(number, lambda: self.made.reply(number, value))

    @rule(number=st.integers(0, 4), text=st.text(max_size=50))
    def fails_a_call(self, number: int, text: str) -> None:
        self.answer(number, lambda: self.made.reply_error(number, text))

    def answer(self, number: int, act: Any) -> None:
        closed = self.made.state in ("ending", "settled")
        try:
            events = act()
        except LocalProtocolError:
            assert not closed
            assert number not in self.open
            return
        if closed:
            assert events == []
            return
        assert number in self.open
        assert names(events) == ["Replied"]
        self.open.remove(number)
        self.answered.add(number)

    @rule()
    def takes(self) -> None:
        data = self.made.take_frames()
        frame = LIMITS["max_message_bytes"] + 4
        assert len(data) <= 4 * frame + LIMITS["max_pending_calls"] * frame
        self.written += data

    @precondition(lambda self: self.calm == 0)
    @rule()
    def time_is_up(self) -> None:
        expected = self.made.state == "running"
        events = self.made.deadline()
        assert bool(events) == expected
        self.happened(events)

    @precondition(lambda self: self.calm == 0)
    @rule(size=st.sampled_from([0, 1000, 1001, 10**9]))
    def grows(self, size: int) -> None:
        self.happened(self.made.memory(size))

    @precondition(lambda self: self.calm == 0)
    @rule()
    def is_aborted(self) -> None:
        self.happened(self.made.abort("enough"))

    @precondition(lambda self: self.calm == 0)
    @rule()
    def start_is_late(self) -> None:
        expected = self.made.state == "new"
        events = self.made.start_expired()
        assert bool(events) == expected
        self.happened(events)

    # --- what always holds ---

    @invariant()
    def holds(self) -> None:
        if not hasattr(self, "made"):
            return
        self.calm = max(0, self.calm - 1)
        check_events(self.events)
        state = self.made.state
        assert (self.decided is None) == (state in ("new", "ready", "running"))
        settled = [event.result for event in self.events if isinstance(event, Settled)]
        assert (state == "settled") == (len(settled) == 1)
        if state in ("ending", "settled"):
            assert self.made.take_frames() == b""
        if state == "ending":
            assert not self.exit_told
        if self.exit_told and self.eof_told:
            assert state == "settled"
        for result in settled:
            assert result.calls == len(self.open | self.answered)
            assert {entry[0] for entry in result.unfinished} == self.open
            if self.decided == "done":
                assert result.exit is None
                assert result.kind in (None, "exception", "stuck", "invalid-output", "output-limit")
            elif self.decided == "eof":
                assert result.kind in ("worker-exit", "memory-limit")
            else:
                assert result.kind == self.decided
                assert result.kind in KINDS

    def teardown(self) -> None:
        if hasattr(self, "made"):
            ids = [message["id"] for message in messages(self.written) if message["type"] == "reply"]
            assert len(ids) == len(set(ids))
            assert set(ids) <= self.answered


TestLives = Lives.TestCase
TestLives.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)
