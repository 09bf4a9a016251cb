"""machine: random lives of the host's machine, against a small model of what must hold whatever happens."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from fuzz.machines import BOOT_DATA, DECLARED, LIMITS, READY, call, check_events, messages, names, sent
from fuzz.strategies import TEXT, frames
from fuzz.targets import Target
from ptc.errors import LocalProtocolError
from ptc.limits import Limits
from ptc.outcome import KINDS, UNSET, ExitStatus
from ptc.protocol.machine import CallRequested, Event, HostMachine, KillRequested, Logged, Ready, Settled

BYTES = frames()


class Lives(RuleBasedStateMachine):
    """One outcome, no call after the end, the first terminal event decides, answers once per call."""

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


TARGET = Target(
    about="any order of frames, replies, exits and deadlines: one outcome, exact ids, budgets kept",
    lives=Lives,
    batch=20,
)
