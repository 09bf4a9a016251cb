"""`HostMachine`: the host's half of one run's protocol, as a pure object. Bytes in, events out, frames out.

It knows no socket, clock, thread or loop: whoever drives it moves bytes, keeps time, calls host functions and kills the
process, and tells the machine what happened. Every input returns the events it caused, in order; `take_frames` hands
out what is to be written. How the bytes were split makes no difference.

    new ──ready──► ready ──boot──► running ──done──► settled
     └───────────────┴────────────────┴──anything else──► ending ──exited──► settled

`ending` means that the run must die and its exit is awaited. The first terminal event decides the kind; what comes
later changes nothing. Everything a program sends is untrusted.
"""

from collections.abc import Mapping
from typing import Literal

from pydantic import ValidationError

from ptc.errors import FrameError, LocalProtocolError, NotJson, WireError
from ptc.frames import HEADER_BYTES, FrameReader, loads
from ptc.limits import BACKLOG_FACTOR, FAILURE_TEXT_CHARS, Limits
from ptc.outcome import ExitStatus, Failure, LogEntry, Position, Truncation, Unset
from ptc.protocol import messages
from ptc.protocol.events import CallRequested, Event, KillRequested, Logged, Ready, Replied, Result, Settled
from ptc.protocol.exits import NativeOutput, Verdict, classify
from ptc.protocol.ledger import Ledger
from ptc.wire import Json, decode

__all__ = [
    "CallRequested",
    "Event",
    "HostMachine",
    "KillRequested",
    "Logged",
    "Ready",
    "Replied",
    "Result",
    "Settled",
    "State",
]

State = Literal["new", "ready", "running", "ending", "settled"]


class _Violation(Exception):
    """A rule of the protocol was broken; the text says which, with little of the program's data."""


class HostMachine:
    """One run. `namespaces` maps each declared global to the names of its functions."""

    def __init__(self, namespaces: Mapping[str, frozenset[str]], limits: Limits) -> None:
        self._declared = dict(namespaces)
        self._limits = limits
        self._state: State = "new"
        self._closed = False  # the channel: nothing is read or written any more
        self._reader = FrameReader(limits.max_message_bytes)
        self._ledger = Ledger(limits)
        self._following: LogEntry | None = None  # the entry that did not fit
        self._timeout: float | None = None
        self._calls = 0
        self._pending: dict[int, tuple[str, str, int]] = {}  # id -> global, name, size of the call's frame
        self._pending_bytes = 0
        self._outgoing: list[bytes] = []
        self._unsent = 0
        self._verdict: Verdict | None = None
        self._exited = False
        self._exit: ExitStatus | None = None
        self._grown = 0
        self._cpu: float | None = None
        self._native = NativeOutput()

    @property
    def state(self) -> State:
        """Where the run is."""
        return self._state

    @property
    def exit_status(self) -> ExitStatus | None:
        """How the process ended, as far as reported; after a settled `done` this is not in the result."""
        return self._exit

    @property
    def unsent_bytes(self) -> int:
        """The backlog: bytes that `take_frames` would hand out."""
        return self._unsent

    # --- what the embedding code does ---

    def boot(self, data: Mapping[str, object], input: object, timeout: float | None) -> list[Event]:
        """Start the program. `input` may be `UNSET`; `timeout` is in seconds, None for none.

        Raises `UsageError` (see `boot_frame`) and `LocalProtocolError` outside `ready`; nothing has happened then.
        """
        self._check_bootable()
        return self.boot_with(messages.boot_frame(data, input, self._limits, timeout), timeout)

    def boot_with(self, frame: bytes, timeout: float | None) -> list[Event]:
        """The same with a frame that `boot_frame` made earlier, of these limits and this timeout."""
        self._check_bootable()
        self._state = "running"
        self._timeout = timeout
        self._send(frame)
        return []

    def reply(self, call_id: int, value: object) -> list[Event]:
        """Answer a call. A value that cannot be sent makes the answer a failed one, which the program may catch."""
        if self._closed:
            return []
        self._finish_call(call_id)
        limits = self._limits
        try:
            frame = messages.reply_frame(call_id, value, limits.max_value_tokens)
        except NotJson as error:
            return self._send_failure(call_id, str(error))
        size = len(frame) - HEADER_BYTES
        if size > limits.max_message_bytes:
            return self._send_failure(
                call_id, f"result: {size} bytes do not fit a message of {limits.max_message_bytes} bytes"
            )
        most = BACKLOG_FACTOR * limits.max_message_bytes
        if self._unsent + size > most:
            return self._send_failure(
                call_id, f"result: {size} bytes do not fit, {self._unsent} of {most} bytes wait to be sent"
            )
        self._send(frame)
        return [Replied(call_id, True)]

    def reply_error(self, call_id: int, message: str) -> list[Event]:
        """Answer a call with a failure. The text is cut if it is long."""
        if self._closed:
            return []
        self._finish_call(call_id)
        return self._send_failure(call_id, message)

    def take_frames(self) -> bytes:
        """What is to be written now. Bytes not taken are the backlog that bounds further replies."""
        if not self._outgoing:
            return b""
        data = b"".join(self._outgoing) if len(self._outgoing) > 1 else self._outgoing[0]
        self._outgoing.clear()
        self._unsent = 0
        return data

    # --- what the embedding code tells ---

    def feed(self, data: bytes | bytearray | memoryview) -> list[Event]:
        """Bytes came from the channel."""
        events: list[Event] = []
        if self._closed:
            return events
        reader = self._reader
        reader.feed(data)
        try:
            while (body := reader.next_frame()) is not None:
                self._receive(loads(body), len(body), events)
                if self._closed:
                    break
        except FrameError as error:
            self._end(Verdict("protocol", str(error)), events)
        except ValidationError as error:
            self._end(Verdict("protocol", f"bad {error.title.lower()} message: {messages.problem(error)}"), events)
        except _Violation as violation:
            self._end(Verdict("protocol", str(violation)), events)
        return events

    def eof(self) -> list[Event]:
        """The channel is at its end. Why is read from the exit status."""
        events: list[Event] = []
        if not self._closed:
            self._end(None, events)
        return events

    def exited(self, status: ExitStatus | None, grown_bytes: int = 0, cpu: float | None = None) -> list[Event]:
        """The process is gone: its status (None if nobody can tell), growth at its peak, and CPU seconds if known."""
        events: list[Event] = []
        if self._exited:
            return events
        self._exited = True
        self._exit = status
        self._grown = grown_bytes
        if self._cpu is None:
            self._cpu = cpu
        if self._state == "ending":
            self._settle_failed(events)
        return events

    def start_expired(self, reason: str | None = None) -> list[Event]:
        """The process has not become ready in time, or could not be started for `reason`."""
        if self._state != "new":
            return []
        if reason is None:
            reason = f"the process did not become ready within {self._limits.start_timeout:g} s"
        return self._stop(Verdict("worker-exit", reason))

    def abort(self, reason: str) -> list[Event]:
        """The caller wants the run to end."""
        if self._closed:
            return []
        return self._stop(Verdict("abort", reason))

    def deadline(self) -> list[Event]:
        """The run's time is over."""
        if self._state != "running":
            return []
        within = f" within {self._timeout:g} s" if self._timeout is not None else " in time"
        return self._stop(Verdict("timeout", f"the program did not finish{within}"))

    def memory(self, bytes_used: int) -> list[Event]:
        """The process has grown by so many bytes since it was ready."""
        most = self._limits.memory
        if self._state != "running" or bytes_used <= most:
            return []
        return self._stop(Verdict("memory-limit", f"the process grew by {bytes_used} bytes, {most} are allowed"))

    def native(self, data: bytes) -> list[Event]:
        """The process printed something past us. Kept in every state, never an event, never a change of kind."""
        self._native.add(data)
        return []

    # --- frames of the program ---

    def _receive(self, message: object, size: int, events: list[Event]) -> None:
        if type(message) is not dict:
            raise _Violation("a message that is no object")
        kind = message.get("type")
        if self._state == "new":
            if kind != "ready":
                raise _Violation(f"{messages.shown_type(kind)} before ready")
            messages.Ready.model_validate(message)
            self._state = "ready"
            events.append(Ready())
        elif self._state == "ready":
            raise _Violation(f"{messages.shown_type(kind)} before boot")
        elif kind == "call":
            self._receive_call(messages.Call.model_validate(message), size, events)
        elif kind == "log":
            log = messages.Log.model_validate(message)
            self._receive_entry(LogEntry(log.text, log.level, log.cut), events)
        elif kind == "done":
            self._receive_done(messages.Done.model_validate(message), events)
        elif kind == "output-limit":
            messages.OutputLimit.model_validate(message)
            self._end(Verdict("output-limit", self._ledger.excess), events)
        else:
            raise _Violation(f"{messages.shown_type(kind)} after boot")

    def _receive_call(self, call: messages.Call, size: int, events: list[Event]) -> None:
        limits, pending = self._limits, self._pending
        expected = self._calls + 1
        if call.id != expected:
            raise _Violation(f"call id {call.id}, expected {expected}")
        names = self._declared.get(call.global_)
        if names is None or call.name not in names:
            raise _Violation(
                f"call {expected} of {messages.shown(call.global_)}.{messages.shown(call.name)}, which is not declared"
            )
        if expected > limits.max_calls:
            self._end(Verdict("call-limit", f"more than {limits.max_calls} calls"), events)
            return
        if isinstance(call.args, Unset):
            raise _Violation(f"call {expected} without args")
        try:
            args = decode(call.args, limits.max_value_tokens)
        except WireError as error:
            raise _Violation(f"call {expected} with bad args: {error}") from None
        if len(pending) >= limits.max_pending_calls:
            raise _Violation(f"call {expected} while {len(pending)} are unfinished, {limits.max_pending_calls} may be")
        unfinished = self._pending_bytes + size
        if unfinished > limits.max_message_bytes:
            raise _Violation(
                f"call {expected} makes {unfinished} bytes of unfinished calls, {limits.max_message_bytes} may be"
            )
        self._calls = expected
        pending[expected] = (call.global_, call.name, size)
        self._pending_bytes = unfinished
        events.append(CallRequested(expected, call.global_, call.name, args))

    def _receive_entry(self, entry: LogEntry, events: list[Event]) -> None:
        excess = self._ledger.add(entry)
        if excess is None:
            events.append(Logged(entry))
            return
        self._following = entry
        kept = self._ledger.close(excess, entry).logs
        if len(kept) > len(self._ledger.logs):  # its start is in the result, so it is an event too
            events.append(Logged(kept[-1]))
        self._end(Verdict("output-limit", excess), events)

    def _receive_done(self, done: messages.Done, events: list[Event]) -> None:
        if not isinstance(done.cpuMs, Unset):
            self._cpu = done.cpuMs / 1000
        if not isinstance(done.error, Unset):
            self._settle(self._done_result(done.error), events)
        elif isinstance(done.value, Unset):
            self._settle(self._result(None), events)
        else:
            self._settle(self._value_result(done.value), events)

    # --- endings ---

    def _value_result(self, tokens: object) -> Result:
        try:
            value = decode(tokens, self._limits.max_value_tokens)
        except WireError as error:
            return self._failed_result(Verdict("invalid-output", f"value: no wire value: {error}"))
        if not self._ledger.fits_value(value):
            return self._failed_result(Verdict("output-limit", self._ledger.excess, ": the value does not fit"))
        return self._result(None, value, has_value=True)

    def _done_result(self, error: messages.DoneError) -> Result:
        ledger = self._ledger
        if error.kind == "output-limit":
            return self._failed_result(Verdict("output-limit", messages.cut_text(error.message, FAILURE_TEXT_CHARS)))
        if not ledger.fits_error(error.message):
            return self._failed_result(Verdict("output-limit", ledger.excess, ": the error's message does not fit"))
        stack = None if isinstance(error.stack, Unset) else error.stack
        if stack is not None and not ledger.fits_error(error.message, stack):
            stack = None
        at = None if isinstance(error.at, Unset) else Position(error.at.line, error.at.column)
        return self._result(Failure(error.kind, error.message, at, stack))

    def _stop(self, verdict: Verdict) -> list[Event]:
        events: list[Event] = []
        self._end(verdict, events)
        return events

    def _end(self, verdict: Verdict | None, events: list[Event]) -> None:
        """Enter `ending`; without a verdict the exit status gives one."""
        self._state = "ending"
        self._verdict = verdict
        self._close_channel()
        events.append(KillRequested(verdict.kind if verdict is not None else "eof"))
        if self._exited:
            self._settle_failed(events)

    def _settle_failed(self, events: list[Event]) -> None:
        verdict = self._verdict or classify(self._exit, self._grown, self._limits, self._native)
        result = self._failed_result(verdict)
        self._state = "settled"
        events.append(Settled(result))

    def _settle(self, result: Result, events: list[Event]) -> None:
        """`done` settles at once; the process is told to end and reaped behind the scenes."""
        self._state = "settled"
        self._close_channel()
        events.append(KillRequested("done"))
        events.append(Settled(result))

    def _close_channel(self) -> None:
        self._closed = True
        self._reader = FrameReader(1)  # drops what has arrived
        self._outgoing.clear()
        self._unsent = 0

    def _failed_result(self, verdict: Verdict) -> Result:
        kind, message, details = verdict
        end = self._ledger.close(message, self._following, details)
        over = kind == "output-limit" or end.lost > 0 or end.cut > 0
        return self._result(Failure(kind, end.message), logs=end.logs, lost=end.lost, cut=end.cut, over=over)

    def _result(
        self,
        failure: Failure | None,
        value: Json = None,
        *,
        has_value: bool = False,
        logs: tuple[LogEntry, ...] | None = None,
        lost: int = 0,
        cut: int = 0,
        over: bool = False,
    ) -> Result:
        logs = self._ledger.logs if logs is None else logs
        characters = cut + sum(entry.cut for entry in logs)
        missing = self._native.missing
        truncated = Truncation(lost, characters, over, missing) if lost or characters or over or missing else None
        return Result(
            failure=failure,
            value=value,
            has_value=has_value,
            logs=logs,
            calls=self._calls,
            unfinished=tuple((call_id, *names[:2]) for call_id, names in self._pending.items()),
            exit=self._exit if self._state == "ending" else None,
            truncated=truncated,
            native=self._native.text(),
            cpu=self._cpu,
        )

    # --- small parts ---

    def _check_bootable(self) -> None:
        if self._state != "ready":
            raise LocalProtocolError(f"boot in state {self._state}; it may be called once, in state ready")

    def _finish_call(self, call_id: int) -> None:
        """Take a call off the list; it is answered now."""
        call = self._pending.pop(call_id, None)
        if call is None:
            known = isinstance(call_id, int) and 0 < call_id <= self._calls
            raise LocalProtocolError(f"reply to call {call_id}, which {'is answered' if known else 'was never made'}")
        self._pending_bytes -= call[2]

    def _send(self, frame: bytes) -> None:
        self._outgoing.append(frame)
        self._unsent += len(frame)

    def _send_failure(self, call_id: int, message: str) -> list[Event]:
        # Not bound by the backlog: failures are short and there is at most one for each unfinished call.
        frame, text = messages.failed_reply_frame(call_id, message, self._limits.max_message_bytes)
        self._send(frame)
        return [Replied(call_id, False, text)]
