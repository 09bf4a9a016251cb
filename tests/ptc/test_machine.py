"""The states of the host's machine: every cell of its table, every pair of terminal events."""

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ptc
from ptc.errors import LocalProtocolError
from ptc.outcome import UNSET, ExitStatus, Failure
from ptc.protocol.events import CallRequested, Event, KillRequested, Result
from ptc.protocol.machine import HostMachine
from tests.ptc.machines import BOOT_DATA, READY, call, machine, names, result_of, sent, settle

# --- the transition table ---------------------------------------------------------------------------------------------

STATES: list[Any] = ["new", "ready", "running", "ending", "settled"]
RUNNING_CALL = call(2)


def oversized() -> bytes:
    return (2**32 - 1).to_bytes(4, "big")


INPUTS: dict[str, Callable[[HostMachine], list[Event]]] = {
    "frame ready": lambda m: m.feed(sent(READY)),
    "frame log": lambda m: m.feed(sent({"type": "log", "text": "x"})),
    "frame log that fails": lambda m: m.feed(sent({"type": "log", "text": 1})),
    "frame log that does not fit": lambda m: m.feed(sent({"type": "log", "text": "x" * 2000})),
    "frame call": lambda m: m.feed(sent(call(2))),
    "frame call that fails": lambda m: m.feed(sent(call(7))),
    "frame call above the limit": lambda m: m.feed(sent(call(2)) + sent(call(3))),
    "frame done": lambda m: m.feed(sent({"type": "done", "value": [5]})),
    "frame output-limit": lambda m: m.feed(sent({"type": "output-limit"})),
    "undecodable frame": lambda m: m.feed(sent("{")),
    "oversized frame": lambda m: m.feed(oversized()),
    "boot": lambda m: m.boot(BOOT_DATA, UNSET, None),
    "reply": lambda m: m.reply(1, "v"),
    "reply_error": lambda m: m.reply_error(1, "t"),
    "reply to an unknown id": lambda m: m.reply(9, "v"),
    "reply_error to an unknown id": lambda m: m.reply_error(9, "t"),
    "eof": lambda m: m.eof(),
    "exited": lambda m: m.exited(ExitStatus(code=65)),
    "eof after exited": lambda m: m.exited(ExitStatus(code=65)) + m.eof(),
    "start_expired": lambda m: m.start_expired(),
    "abort": lambda m: m.abort("second"),
    "deadline": lambda m: m.deadline(),
    "memory over the limit": lambda m: m.memory(1001),
    "memory at the limit": lambda m: m.memory(1000),
    "native": lambda m: m.native(b"n"),
}

# What an input does in the five states: `-` nothing; `misuse` LocalProtocolError; a kind: KillRequested, `ending`, and
# that kind once the process is gone; `eof` the same with the kind of the exit status; otherwise the events and the next
# state.
CELLS: dict[str, list[str]] = {
    "frame ready": ["Ready > ready", "protocol", "protocol", "-", "-"],
    "frame log": ["protocol", "protocol", "Logged > running", "-", "-"],
    "frame log that fails": ["protocol", "protocol", "protocol", "-", "-"],
    "frame log that does not fit": ["protocol", "protocol", "Logged + output-limit", "-", "-"],
    "frame call": ["protocol", "protocol", "CallRequested > running", "-", "-"],
    "frame call that fails": ["protocol", "protocol", "protocol", "-", "-"],
    "frame call above the limit": ["protocol", "protocol", "CallRequested + call-limit", "-", "-"],
    "frame done": ["protocol", "protocol", "KillRequested Settled > settled", "-", "-"],
    "frame output-limit": ["protocol", "protocol", "output-limit", "-", "-"],
    "undecodable frame": ["protocol", "protocol", "protocol", "-", "-"],
    "oversized frame": ["protocol", "protocol", "protocol", "-", "-"],
    "boot": ["misuse", "> running", "misuse", "misuse", "misuse"],
    "reply": ["misuse", "misuse", "Replied > running", "-", "-"],
    "reply_error": ["misuse", "misuse", "Replied > running", "-", "-"],
    "reply to an unknown id": ["misuse", "misuse", "misuse", "-", "-"],
    "reply_error to an unknown id": ["misuse", "misuse", "misuse", "-", "-"],
    "eof": ["eof", "eof", "eof", "-", "-"],
    "exited": ["-", "-", "-", "Settled > settled", "-"],
    "eof after exited": [*["KillRequested Settled > settled"] * 3, "Settled > settled", "-"],
    "start_expired": ["worker-exit", "-", "-", "-", "-"],
    "abort": ["abort", "abort", "abort", "-", "-"],
    "deadline": ["-", "-", "timeout", "-", "-"],
    "memory over the limit": ["-", "-", "memory-limit", "-", "-"],
    "memory at the limit": ["-", "-", "-", "-", "-"],
    "native": ["-", "-", "-", "-", "-"],
}


def prepared(state: Any) -> HostMachine:
    """A machine with one unfinished call where that is possible, and small limits."""
    made = machine(
        "ready" if state in ("running", "ending", "settled") else state,
        max_calls=2,
        memory=1000,
        max_output_bytes=1000,
        max_message_bytes=10_000,
    )
    if state in ("running", "ending", "settled"):
        made.boot(BOOT_DATA, UNSET, 1.0)
        made.take_frames()
        made.feed(sent(call(1)))
    if state == "ending":
        made.abort("first")
    if state == "settled":
        made.feed(sent({"type": "done", "value": ["first"]}))
    return made


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("what", INPUTS)
def test_every_cell_of_the_transition_table(what: str, state: Any) -> None:
    """PTC-042 one case per input and state."""
    expected = CELLS[what][STATES.index(state)]
    made = prepared(state)
    if expected == "misuse":
        with pytest.raises(LocalProtocolError):
            INPUTS[what](made)
        assert made.state == state
        assert made.take_frames() == b""
        return
    events = INPUTS[what](made)
    before, _, after = expected.rpartition("> ")
    if expected == "-":
        assert events == []
        assert made.state == state
    elif after in STATES:
        assert names(events) == before.split()
        assert made.state == after
    else:
        before, _, kind = expected.rpartition("+ ")
        assert names(events) == [*before.split(), "KillRequested"]
        assert events[-1] == KillRequested(kind)
        assert made.state == "ending"
        assert made.take_frames() == b""
    finish(made, expected, events, state)


def finish(made: HostMachine, expected: str, events: list[Event], state: str) -> None:
    """Let the process end and check what came out of it."""
    events = events + made.eof() + made.exited(ExitStatus(code=65)) + made.exited(ExitStatus(signal=9))
    assert made.state == "settled"
    assert made.exit_status == ExitStatus(code=65)
    assert names(events).count("KillRequested") == (0 if state in ("ending", "settled") else 1)
    if state == "settled":
        assert "Settled" not in names(events)
        return
    result = result_of(events)
    kind = expected.rpartition("+ ")[2]
    if state == "ending":
        assert result.failure == Failure("abort", "first")
    elif expected == "KillRequested Settled > settled" and result.exit is None:
        assert result == Result(None, 5, True, calls=1, unfinished=((1, "tools", "echo"),))
    elif kind in ("protocol", "output-limit", "call-limit", "worker-exit", "abort", "timeout", "memory-limit"):
        assert result.kind == kind
    else:
        assert result.kind == "memory-limit"  # exit code 65
    assert result.exit == (None if result.failure is None else ExitStatus(code=65))


def test_what_native_prints_is_kept_in_every_state() -> None:
    """PTC-042 PTC-060 from the first state to the last, without an event."""
    made = machine("new")
    made.native(b"a")
    made.feed(sent(READY))
    made.native(b"b")
    made.boot(BOOT_DATA, UNSET, None)
    made.native(b"c")
    made.abort("x")
    made.native(b"d\xff")
    assert settle(made).native == "abcd\ufffd"


def test_exit_before_end_of_file_waits_for_frames_in_flight() -> None:
    """PTC-040 a queued `done` counts, whatever the exit status says."""
    made = machine()
    assert made.exited(ExitStatus(code=0)) == []
    assert made.feed(sent(call(1))) == [CallRequested(1, "tools", "echo", 1)]
    result = result_of(made.feed(sent({"type": "done", "value": [5]})))
    assert (result.value, result.failure, result.exit) == (5, None, None)
    assert made.eof() == []


def test_a_known_exit_settles_a_later_ending_at_once() -> None:
    """PTC-040 the process is gone already, so nothing is awaited."""
    for what, kind in (("abort", "abort"), ("undecodable frame", "protocol")):
        made = machine()
        made.exited(ExitStatus(signal=11))
        events = INPUTS[what](made)
        assert names(events) == ["KillRequested", "Settled"]
        result = result_of(events)
        assert (result.kind, result.exit) == (kind, ExitStatus(signal=11))


# --- terminal events in pairs -----------------------------------------------------------------------------------------

TERMINAL: dict[str, tuple[Callable[[HostMachine], list[Event]], str | None]] = {
    "violation": (lambda m: m.feed(sent("7")), "protocol"),
    "oversized frame": (lambda m: m.feed(oversized()), "protocol"),
    "output-limit frame": (lambda m: m.feed(sent({"type": "output-limit"})), "output-limit"),
    "log that does not fit": (lambda m: m.feed(sent({"type": "log", "text": "x" * 2000})), "output-limit"),
    "call above the limit": (lambda m: m.feed(sent(call(2)) + sent(call(3))), "call-limit"),
    "done": (lambda m: m.feed(sent({"type": "done"})), None),
    "done with an error": (
        lambda m: m.feed(sent({"type": "done", "error": {"kind": "stuck", "message": "m"}})),
        "stuck",
    ),
    "done with a bad value": (lambda m: m.feed(sent({"type": "done", "value": []})), "invalid-output"),
    "done that does not fit": (lambda m: m.feed(sent({"type": "done", "value": ["x" * 2000]})), "output-limit"),
    "deadline": (lambda m: m.deadline(), "timeout"),
    "memory": (lambda m: m.memory(1001), "memory-limit"),
    "abort": (lambda m: m.abort("x"), "abort"),
    "end of file": (lambda m: m.eof(), "compute-limit"),
    "death": (lambda m: m.eof() + m.exited(ExitStatus(signal=27)), "compute-limit"),
    "death, exit first": (lambda m: m.exited(ExitStatus(signal=27)) + m.eof(), "compute-limit"),
}


@pytest.mark.parametrize("second", TERMINAL)
@pytest.mark.parametrize("first", TERMINAL)
def test_the_first_of_two_terminal_events_decides(first: str, second: str) -> None:
    """PTC-039 every ordered pair, with native output that looks like another kind in between."""
    made = prepared("running")
    events = TERMINAL[first][0](made)
    events += made.native(b"Fatal JavaScript out of memory")
    events += TERMINAL[second][0](made)
    events += made.eof() + made.exited(ExitStatus(signal=27)) + made.exited(None) + made.start_expired()
    assert names(events).count("KillRequested") == 1
    assert result_of(events).kind == TERMINAL[first][1]
    assert made.state == "settled"


EARLY = ("violation", "oversized frame", "abort", "end of file", "death", "death, exit first")


@pytest.mark.parametrize("state", ["new", "ready"])
@pytest.mark.parametrize("second", [*EARLY, "start_expired"])
@pytest.mark.parametrize("first", [*EARLY, "start_expired"])
def test_the_first_of_two_terminal_events_decides_before_boot(first: str, second: str, state: Any) -> None:
    """PTC-039 every ordered pair that is possible before boot."""
    table = {**TERMINAL, "start_expired": (lambda m: m.start_expired(), "worker-exit" if state == "new" else "")}
    made = machine(state)
    events = table[first][0](made) + table[second][0](made) + made.eof() + made.exited(ExitStatus(signal=27))
    expected = table[first][1] or table[second][1] or "compute-limit"
    assert names(events).count("KillRequested") == 1
    assert result_of(events).kind == expected


def test_the_machine_is_pure() -> None:
    """PTC-044 no socket, clock, thread or asyncio in the protocol or in what it uses of ours."""
    root = Path(ptc.__file__).parent
    pure = [
        *sorted((root / "protocol").glob("*.py")),
        *(root / f"{name}.py" for name in ("wire", "frames", "limits", "outcome", "errors")),
    ]
    allowed = {
        "ptc",
        "pydantic",
        "collections",
        "typing",
        "dataclasses",
        "enum",
        "json",
        "re",
        "math",
        "bisect",
        "signal",
    }
    for path in pure:
        if path.name == "control.py":  # messages of the control streams, not the machine's
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                modules = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                modules = [node.module or ""]
            else:
                continue
            assert {module.split(".")[0] for module in modules} <= allowed, f"{path.name}: {modules}"
