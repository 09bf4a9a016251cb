"""Machines in each state, and what holds of the events of any machine."""

import json
from typing import Any

from ptc.frames import FrameReader, frame, loads
from ptc.limits import Limits
from ptc.outcome import UNSET
from ptc.protocol.machine import CallRequested, Event, HostMachine, State

DECLARED = {"tools": frozenset({"echo", "search"}), "more": frozenset({"echo"})}
BOOT_DATA: dict[str, object] = {"code": "", "namespaces": [], "maxOutputBytes": 8 << 20}
READY = {"type": "ready", "wire": 1}

LIMITS: dict[str, Any] = {
    "max_calls": 6,
    "max_pending_calls": 3,
    "max_message_bytes": 400,
    "max_output_bytes": 120,
    "max_log_entries": 5,
    "max_value_tokens": 6,
    "memory": 1000,
}


def sent(message: object) -> bytes:
    """The frame of a message, or of raw JSON text."""
    return frame(message if isinstance(message, (str, bytes)) else json.dumps(message))


def call(number: object = 1, args: object = (1,), **more: object) -> dict[str, object]:
    """The message of a call of `tools.echo`."""
    return {"type": "call", "id": number, "global": "tools", "name": "echo", "args": args, **more}


def machine(state: State = "running") -> HostMachine:
    """A machine with small limits, in state `new` or `running`."""
    made = HostMachine(DECLARED, Limits(**LIMITS))
    if state != "new":
        made.feed(sent(READY))
        made.boot(BOOT_DATA, UNSET, 1.0)
        made.take_frames()
    return made


def names(events: list[Event]) -> list[str]:
    """The types of events, in order."""
    return [type(event).__name__ for event in events]


def messages(data: bytes) -> list[Any]:
    """What the host wrote."""
    reader = FrameReader(1 << 30)
    reader.feed(data)
    return [loads(body) for body in reader]


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
