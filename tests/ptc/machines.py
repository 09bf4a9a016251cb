"""Helpers of the machine's tests: frames, and machines in each state."""

import json
from typing import Any

from ptc.frames import FrameReader, frame, loads
from ptc.limits import Limits
from ptc.outcome import UNSET, ExitStatus
from ptc.protocol.machine import Event, HostMachine, KillRequested, Result, Settled, State

DECLARED = {"tools": frozenset({"echo", "search"}), "more": frozenset({"echo"})}
BOOT_DATA: dict[str, object] = {"code": "", "namespaces": [], "maxOutputBytes": 8 << 20}


def sent(message: object) -> bytes:
    """The frame of a message, or of raw JSON text."""
    return frame(message if isinstance(message, (str, bytes)) else json.dumps(message))


def call(number: object = 1, args: object = (1,), **more: object) -> dict[str, object]:
    return {"type": "call", "id": number, "global": "tools", "name": "echo", "args": args, **more}


EXIT_0 = ExitStatus(code=0)
READY = {"type": "ready", "wire": 1}


def machine(state: State = "running", **limits: Any) -> HostMachine:
    """A machine in a state; `ending` by abort("first"), `settled` by a `done` without a value."""
    made = HostMachine(DECLARED, Limits(**limits))
    if state != "new":
        made.feed(sent(READY))
    if state in ("running", "ending", "settled"):
        made.boot(BOOT_DATA, UNSET, 1.0)
        made.take_frames()
    if state == "ending":
        made.abort("first")
    if state == "settled":
        made.feed(sent({"type": "done"}))
    assert made.state == state
    return made


def settle(made: HostMachine, status: ExitStatus | None = EXIT_0, **more: Any) -> Result:
    """The result, after the process has ended by itself."""
    events = made.eof() + made.exited(status, **more)
    assert made.state == "settled"
    return result_of(events)


def result_of(events: list[Event]) -> Result:
    (settled,) = [event for event in events if isinstance(event, Settled)]
    assert events[-1] is settled
    return settled.result


def refused(made: HostMachine, message: object, kind: str = "protocol") -> str:
    """Feed a frame that ends the run with this kind and nothing else; the failure's message."""
    assert made.feed(sent(message)) == [KillRequested(kind)]
    assert made.state == "ending"
    failure = settle(made).failure
    assert failure is not None
    assert failure.kind == kind
    return failure.message


def names(events: list[Event]) -> list[str]:
    """The types of events, in order."""
    return [type(event).__name__ for event in events]


def messages(data: bytes) -> list[Any]:
    """What the host wrote."""
    reader = FrameReader(1 << 30)
    reader.feed(data)
    return [loads(body) for body in reader]
