"""How runs end: exit statuses, native output, output limits."""

import tracemalloc
from typing import Any

import pytest

from ptc.limits import Limits
from ptc.outcome import ExitStatus, Failure, LogEntry, Truncation
from ptc.protocol.events import Event, KillRequested, Logged
from ptc.protocol.exits import NativeOutput, classify
from tests.ptc.machines import call, machine, names, sent, settle

# --- exit statuses ----------------------------------------------------------------------------------------------------

MEMORY = 1000
OUT_OF_MEMORY = b"<--- Last few GCs --->\n#\n# Fatal JavaScript out of memory: Reached heap limit\n#\n"
EXITS: list[tuple[str, ExitStatus | None, int, bytes, str, str]] = [
    ("engine out of memory", ExitStatus(code=65), 0, b"", "memory-limit", "1000 bytes"),
    ("SIGPROF", ExitStatus(signal=27), 0, b"", "compute-limit", "10 s of CPU"),
    ("SIGXCPU", ExitStatus(signal=24), 0, b"", "compute-limit", "10 s of CPU"),
    ("SIGALRM", ExitStatus(signal=14), 0, b"", "timeout", "deadline"),
    ("a measure failed", ExitStatus(code=77), 0, b"no seccomp", "sandbox-unavailable", "no seccomp"),
    ("SIGKILL at 90 % of the memory", ExitStatus(signal=9), 900, b"", "memory-limit", "900 bytes"),
    ("SIGKILL below 90 %", ExitStatus(signal=9), 899, b"", "worker-exit", "SIGKILL"),
    ("SIGABRT of V8", ExitStatus(signal=6), 0, OUT_OF_MEMORY, "memory-limit", "out of memory"),
    ("SIGTRAP of V8", ExitStatus(signal=5), 0, OUT_OF_MEMORY, "memory-limit", "out of memory"),
    ("SIGILL of V8", ExitStatus(signal=4), 0, b"x: JavaScript heap out of memory", "memory-limit", "out of memory"),
    (
        "SIGABRT without the line",
        ExitStatus(signal=6),
        0,
        b"assertion",
        "worker-exit",
        "SIGABRT; it printed: assertion",
    ),
    ("SIGTRAP without the line", ExitStatus(signal=5), 0, b"", "worker-exit", "SIGTRAP"),
    ("SIGILL without the line", ExitStatus(signal=4), 0, b"", "worker-exit", "SIGILL"),
    ("SIGSEGV with the line", ExitStatus(signal=11), 0, OUT_OF_MEMORY, "worker-exit", "SIGSEGV"),
    ("SIGSYS", ExitStatus(signal=31), 0, b"", "worker-exit", "forbidden system call"),
    ("SIGTERM", ExitStatus(signal=15), 0, b"", "worker-exit", "SIGTERM"),
    ("a signal without a name", ExitStatus(signal=99), 0, b"", "worker-exit", "signal 99"),
    ("exit 0", ExitStatus(code=0), 0, b"", "worker-exit", "exit code 0 before it was done"),
    ("exit 1", ExitStatus(code=1), 0, b"Traceback", "worker-exit", "exit code 1; it printed: Traceback"),
    ("guest fault", ExitStatus(code=70), 0, b"", "worker-exit", "exit code 70 (fault of the guest)"),
    ("unreadable host frame", ExitStatus(code=71), 0, b"", "worker-exit", "exit code 71 (unreadable host frame)"),
    ("unknown", None, 5000, b"", "worker-exit", "nobody knows"),
    ("nothing told", ExitStatus(), 0, b"", "worker-exit", "nobody knows"),
]


@pytest.mark.parametrize(
    ("status", "grown", "native", "kind", "text"), [row[1:] for row in EXITS], ids=[row[0] for row in EXITS]
)
@pytest.mark.parametrize("state", ["new", "ready", "running"])
def test_an_exit_status_is_classified(
    state: Any, status: ExitStatus | None, grown: int, native: bytes, kind: str, text: str
) -> None:
    """PTC-041 PTC-116 every row of 9.2, where nothing else has decided."""
    made = machine(state, memory=MEMORY)
    made.native(native)
    result = settle(made, status, grown_bytes=grown, cpu=0.25)
    assert result.failure is not None
    assert result.failure.kind == kind
    assert text in result.failure.message
    assert result.exit == status
    assert result.cpu == 0.25
    assert result.native == native.decode()


def test_the_last_2_kib_of_native_output_are_in_the_message() -> None:
    """PTC-041 PTC-116 from whole characters, and beyond the 64 KiB that are kept."""
    native = NativeOutput()
    native.add("é".encode() * 1500)
    message = classify(ExitStatus(code=1), 0, Limits(), native)
    assert message.details == f"; it printed: {'é' * 1024}"
    native.add(b"z")
    assert classify(ExitStatus(code=1), 0, Limits(), native).details == f"; it printed: {'é' * 1023}z"
    native.add(b"\n" + b"y" * 100_000 + b"end\n")
    assert classify(ExitStatus(code=1), 0, Limits(), native).details == f"; it printed: {'y' * 2044}end"


def test_native_output_is_cut_at_64_kib_with_a_count() -> None:
    """PTC-060 whatever the pieces, decoded with replacement."""
    made = machine()
    for _ in range(100):
        made.native(b"\xffbc" * 300)
    result = settle(made)
    assert result.native == ("\ufffdbc" * 21846)[:65536]
    assert result.truncated == Truncation(native_bytes=90_000 - 65_536)


def test_a_failure_message_leaves_room_for_the_entries() -> None:
    """PTC-111 PTC-115 what a dying process printed never costs an entry."""
    made = machine(max_output_bytes=80)
    made.feed(sent({"type": "log", "text": "l" * 30}))
    made.native(b"n" * 500)
    result = settle(made, ExitStatus(code=3))
    assert result.logs == (LogEntry("l" * 30),)
    assert result.failure == Failure("worker-exit", "the process ended with exit code 3; it print")
    assert result.truncated is not None
    assert result.truncated.output_limit


# --- output -----------------------------------------------------------------------------------------------------------


def test_an_entry_that_does_not_fit_ends_the_run_with_its_start_kept() -> None:
    """PTC-111 PTC-130 the cut entry is an event too, and sizes are marked."""
    made = machine(max_output_bytes=80)
    made.feed(sent({"type": "log", "text": "a" * 30}))
    events = made.feed(sent({"type": "log", "text": "é" * 30, "level": "warn"}) + sent({"type": "log", "text": "late"}))
    # 2 to begin, 25 for the message, 32 for the entry, 3 for comma and quotes: 18 bytes are left.
    entry = LogEntry("é" * 9, "warn", 21)
    assert events == [Logged(entry), KillRequested("output-limit")]
    result = settle(made)
    assert result.failure == Failure("output-limit", "output exceeds 80 bytes")
    assert result.logs == (LogEntry("a" * 30), entry)
    assert result.truncated == Truncation(entries=0, characters=21, output_limit=True)


@pytest.mark.parametrize("limit", [4, 8, 40, 80])
def test_tiny_limits_hold(limit: int) -> None:
    """PTC-111 logs and message never exceed the limit."""
    for text in ("", "a", "é" * 50, "\x00" * 20):
        made = machine(max_output_bytes=limit)
        events: list[Event] = []
        while made.state == "running":
            events += made.feed(sent({"type": "log", "text": text}))
        result = settle(made)
        assert result.failure is not None
        assert result.kind == "output-limit"
        assert "output exceeds".startswith(result.failure.message[:14])
        total = 2 + sum(len(entry.text.encode()) * (6 if "\x00" in text else 1) + 3 for entry in result.logs)
        assert total - (1 if result.logs else 0) + len(result.failure.message) + 2 <= limit


def test_too_many_entries_end_the_run() -> None:
    """PTC-113 the first ones are kept."""
    made = machine(max_log_entries=3)
    events = made.feed(b"".join(sent({"type": "log", "text": str(number)}) for number in range(10)))
    assert names(events) == ["Logged"] * 3 + ["KillRequested"]
    result = settle(made)
    assert [entry.text for entry in result.logs] == ["0", "1", "2"]
    assert result.failure == Failure("output-limit", "more than 3 log entries")
    assert result.truncated == Truncation(entries=1, output_limit=True)


def test_a_flood_after_the_end_costs_no_memory() -> None:
    """PTC-118 bytes that come after a violation are dropped at once."""
    made = machine()
    made.feed(b"\x00" * 4)
    chunk = b"x" * 65_536
    tracemalloc.start()
    try:
        for _ in range(500):
            made.feed(chunk)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_results_of_equal_runs_are_equal() -> None:
    """PTC-043 equal inputs, equal outputs."""

    def run() -> tuple[list[Event], bytes]:
        made = machine()
        events = made.feed(sent(call(1)) + sent({"type": "log", "text": "x"}))
        events += made.reply(1, {"a": 1})
        data = made.take_frames()
        return events + made.deadline() + made.exited(ExitStatus(signal=9)), data

    assert run() == run()
