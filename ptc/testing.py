"""Scripted programs: they drive a `HostMachine` without a process, for tests and fuzzers of the bridge protocol.

A script is what a program would send, well-formed or not, in order. `play` feeds it to a machine, calls host functions
as a run would, and returns how it ended together with everything the machine asked for.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from ptc import frames, wire
from ptc.errors import CallError
from ptc.limits import Limits
from ptc.namespaces import HostFunction
from ptc.outcome import UNSET, ExitStatus
from ptc.protocol.events import CallRequested, Event, Ready, Result, Settled
from ptc.protocol.machine import HostMachine

__all__ = ["Frame", "Played", "call", "done", "log", "play", "ready"]

Frame: TypeAlias = Mapping[str, Any] | bytes
"""One message of a program, or raw bytes that are sent as they are, without a length in front."""


@dataclass(frozen=True, slots=True)
class Played:
    """How a script ended. `calls` are (global, name, argument) of the functions called, `replies` what came back."""

    result: Result
    calls: tuple[tuple[str, str, Any], ...]
    events: tuple[Event, ...]
    replies: tuple[Any, ...]


def ready() -> dict[str, Any]:
    """The handshake."""
    return {"type": "ready", "wire": wire.WIRE_VERSION}


def call(number: int, global_name: str, name: str, argument: object = None) -> dict[str, Any]:
    """A call with a JSON value as its argument. Raises `NotJson` for another."""
    args = json.loads(wire.encode(argument, "args"))
    return {"type": "call", "id": number, "global": global_name, "name": name, "args": args}


def log(text: str, level: str = "log") -> dict[str, Any]:
    """A console entry."""
    return {"type": "log", "text": text, "level": level}


def done(value: object = UNSET) -> dict[str, Any]:
    """The end of a program, with or without a value."""
    return {"type": "done"} if value is UNSET else {"type": "done", "value": json.loads(wire.encode(value))}


def play(
    script: Iterable[Frame],
    functions: Mapping[str, Mapping[str, HostFunction]] | None = None,
    *,
    limits: Limits | None = None,
    status: ExitStatus | None = None,
    pieces: int | None = None,
) -> Played:
    """Feed a script to a machine; after its last frame the program's process ends with `status` (default: exit 0).

    functions: plain host functions by global and name. pieces: bytes fed at a time, all of a frame if None.
    """
    functions = functions or {}
    machine = HostMachine({name: frozenset(table) for name, table in functions.items()}, limits or Limits())
    host = _Host(machine, functions)
    for data in map(_bytes, script):
        size = pieces or len(data) or 1
        for at in range(0, len(data), size):
            host.handle(machine.feed(data[at : at + size]))
    host.handle(machine.eof())
    host.handle(machine.exited(status or ExitStatus(code=0)))
    assert host.result is not None, "a machine settles when its process has ended"
    return Played(host.result, tuple(host.calls), tuple(host.events), tuple(host.replies))


class _Host:
    """The embedding side of one played run."""

    def __init__(self, machine: HostMachine, functions: Mapping[str, Mapping[str, HostFunction]]) -> None:
        self._machine = machine
        self._functions = functions
        self._reader = frames.FrameReader(2**32 - 1)
        self.result: Result | None = None
        self.calls: list[tuple[str, str, Any]] = []
        self.events: list[Event] = []
        self.replies: list[Any] = []

    def handle(self, happened: Iterable[Event]) -> None:
        """Do what the events ask for, and what follows from it."""
        for event in happened:
            self.events.append(event)
            match event:
                case Ready():
                    data = {"code": "", "namespaces": [], "maxOutputBytes": 8 * 1024 * 1024}
                    self.handle(self._machine.boot(data, UNSET, None))
                case CallRequested():
                    self.handle(self._answer(event))
                case Settled(result):
                    self.result = result
        self.replies.extend(self._written())

    def _answer(self, event: CallRequested) -> list[Event]:
        self.calls.append((event.global_, event.name, event.args))
        try:
            value = self._functions[event.global_][event.name](event.args)
        except CallError as error:
            return self._machine.reply_error(event.id, str(error))
        return self._machine.reply(event.id, value)

    def _written(self) -> Iterator[Any]:
        self._reader.feed(self._machine.take_frames())
        for body in self._reader:
            message = frames.loads(body)
            if isinstance(message, dict) and message.get("type") == "reply":
                yield message


def _bytes(message: Frame) -> bytes:
    return message if isinstance(message, bytes) else frames.encode(message)
