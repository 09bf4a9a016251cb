"""What the hostile child does: each rule of the channel broken once, and everything a process can do besides."""

import signal
from collections.abc import Iterator
from typing import Any, Final

from fuzz.hostile import Attack
from fuzz.violations import DONE, FRAMES, MESSAGES, READY, WIRES, call, done, log
from ptc.frames import encode, frame

__all__ = ["ATTACKS"]

_SPIN_LIMITS: Final = {"timeout": 0.3}
# What ends a process and is no end by itself. SIGKILL is one of the rest.
_SIGNAL_KINDS: Final = {
    signal.SIGPROF: "compute-limit",
    signal.SIGXCPU: "compute-limit",
    signal.SIGALRM: "timeout",
}
_HARMLESS: Final = {signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH}
_STOPPING: Final = {signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}


def _violations() -> Iterator[Attack]:
    after = call(1) + DONE  # nothing that follows may be looked at
    for name, data in FRAMES.items():
        yield Attack(name=f"frame: {name}", lines="PTC-020 PTC-022 PTC-023 PTC-024", late=[("send", data + after)])
    for name, data in MESSAGES.items():
        yield Attack(
            name=f"message: {name}", lines="PTC-028 PTC-029 PTC-030 PTC-032 PTC-033", late=[("send", data + after)]
        )
    for name, value in WIRES.items():
        limits = {"max_value_tokens": 500}
        yield Attack(
            name=f"args: {name}", lines="PTC-016 PTC-031", late=[("send", call(1, args=value) + DONE)], limits=limits
        )
        yield Attack(
            name=f"value: {name}",
            lines="PTC-016 PTC-034",
            kind="invalid-output",
            late=[("send", done(value=value) + call(1))],
            limits=limits,
        )


def _orders() -> Iterator[Attack]:
    yield Attack(name="call twice with one id", lines="PTC-029", late=[("send", call(1) + call(1))], calls=[1])
    yield Attack(name="call skips an id", lines="PTC-029", late=[("send", call(1) + call(3))], calls=[1])
    yield Attack(
        name="id wraps at 2**32",
        lines="PTC-029",
        late=[("send", call(1)), "read", ("send", call(2**32 + 2))],
        calls=[1],
    )
    yield Attack(
        name="id goes back",
        lines="PTC-029",
        late=[("send", call(1) + call(2)), "read", ("send", call(1))],
        calls=[1, 1],
    )
    yield Attack(name="call after done", lines="PTC-037", kind=None, late=[("send", DONE + call(1)), "spin"])
    yield Attack(name="done twice", lines="PTC-037 PTC-039", kind=None, late=[("send", DONE + DONE + b"\0\0\0\0")])
    yield Attack(name="violation after done", lines="PTC-037 PTC-039", kind=None, late=[("send", DONE + b"\xff" * 9)])
    yield Attack(name="done after a violation", lines="PTC-037 PTC-039", late=[("send", b"\0\0\0\0" + DONE)])
    yield Attack(
        name="output-limit, then done",
        lines="PTC-039",
        kind="output-limit",
        late=[("send", encode({"type": "output-limit"}) + DONE)],
    )
    yield Attack(name="done, then death", lines="PTC-040", kind=None, late=[("send", DONE), ("exit", 3)])
    yield Attack(
        name="extra members",
        lines="PTC-028",
        kind=None,
        late=[("send", encode({"type": "done", "id": 1, "nonce": None, "cpuMs": 0}))],
    )
    yield Attack(
        name="error beside a value",
        lines="PTC-033",
        kind="exception",
        late=[("send", done(value=[1], error={"kind": "exception", "message": "x"}))],
    )
    yield Attack(
        name="calls past those allowed",
        lines="PTC-036",
        kind="call-limit",
        limits={"max_calls": 3},
        late=[("send", b"".join(call(at) for at in range(1, 6)) + DONE)],
        calls=[1, 1, 1],
    )
    yield Attack(
        name="unfinished calls past those allowed",
        lines="PTC-035",
        limits={"max_pending_calls": 3},
        late=[("send", b"".join(call(at) for at in range(1, 6)) + DONE)],
        calls=[1, 1, 1],
    )
    large = ["x" * 500]
    yield Attack(
        name="unfinished calls past their bytes",
        lines="PTC-035",
        limits={"max_message_bytes": 1000},
        late=[("send", call(1, args=large) + call(2, args=large) + DONE)],
        calls=large,
    )
    yield Attack(
        name="output past the ledger",
        lines="PTC-034",
        kind="output-limit",
        limits={"max_output_bytes": 100},
        late=[("send", done(value=["x" * 99]))],
    )
    yield Attack(
        name="frames byte by byte",
        lines="PTC-019",
        kind=None,
        late=[("send bytewise", call(1)), "read", ("send bytewise", DONE)],
        calls=[1],
    )


def _starts() -> Iterator[Attack]:
    """What is said before the boot."""
    bad = {
        "call": call(1),
        "log": log(text="x"),
        "done": DONE,
        "output-limit": encode({"type": "output-limit"}),
        "nonsense": frame(b"nonsense"),
        "length above the cap": b"\xff\xff\xff\xff",
        "wire 0": encode({"type": "ready", "wire": 0}),
        "wire 2": encode({"type": "ready", "wire": 2}),
        "wire true": encode({"type": "ready", "wire": True}),
        "wire as text": encode({"type": "ready", "wire": "1"}),
        "wire 1.0": frame(b'{"type":"ready","wire":1.0}'),
        "wire null": frame(b'{"type":"ready","wire":null}'),
        "ready twice": READY + READY,
        "ready and a call": READY + call(1),
        "ready and done": READY + DONE,
    }
    for name, data in bad.items():
        yield Attack(name=f"start: {name}", lines="PTC-026 PTC-027", early=[("send", data)])
    yield Attack(
        name="start: silence", lines="PTC-041", kind="worker-exit", early=["spin"], limits={"start_timeout": 0.3}
    )
    yield Attack(
        name="start: half a ready",
        lines="PTC-041",
        kind="worker-exit",
        early=[("send", READY[:7]), "spin"],
        limits={"start_timeout": 0.3},
    )
    yield Attack(
        name="start: a flood", lines="PTC-118", kinds=frozenset({"protocol", "worker-exit"}), early=[("flood", READY)]
    )
    yield Attack(name="start: death", lines="PTC-116", kind="worker-exit", early=[("exit", 0)])
    yield Attack(
        name="start: ready and death", lines="PTC-116", kind="worker-exit", early=[("send", READY), ("exit", 0)]
    )
    yield Attack(
        name="start: done before the boot was read",
        lines="PTC-026",  # if the boot was on its way already, it is the end of a run
        kinds=frozenset({"protocol", None}),
        early=[("send", READY), ("send", DONE), "spin"],
    )


def _floods_and_silence() -> Iterator[Attack]:
    yield Attack(name="silence", lines="PTC-058", kind="timeout", late=["spin"], limits=_SPIN_LIMITS)
    yield Attack(
        name="half a header and silence",
        lines="PTC-021",
        kind="timeout",
        late=[("send", b"\0\0"), "spin"],
        limits=_SPIN_LIMITS,
    )
    yield Attack(
        name="header of the cap and silence",
        lines="PTC-021",
        kind="timeout",
        late=[("send", b"\x01\0\0\0"), "spin"],
        limits=_SPIN_LIMITS,
    )
    yield Attack(
        name="half a frame and death", lines="PTC-041", kind="worker-exit", late=[("send", DONE[:9]), ("exit", 0)]
    )
    yield Attack(
        name="half a frame, channel closed",
        lines="PTC-041",
        kinds=frozenset({"worker-exit", "timeout"}),
        kind="worker-exit",
        late=[("send", DONE[:9]), ("close", 3), "spin"],
        limits=_SPIN_LIMITS,
    )
    yield Attack(
        name="flood of logs",
        lines="PTC-113 PTC-118",
        kind="output-limit",
        limits={"max_log_entries": 1000},
        late=[("flood", log(text=""))],
    )
    yield Attack(name="flood of nonsense", lines="PTC-118", late=[("flood", frame(b"{}"))])
    yield Attack(
        name="flood of one frame's bytes",
        lines="PTC-020 PTC-118",
        limits={"max_message_bytes": 65536},
        late=[("send", b"\0\1\0\0"), ("flood", b"[" * 1000)],
    )
    yield Attack(
        name="flood of calls",
        lines="PTC-036 PTC-118",
        kinds=frozenset({"protocol", "call-limit"}),
        limits={"max_calls": 1, "max_pending_calls": 1},
        late=[("send", call(1)), ("flood", call(2))],
        calls=[1],
    )
    yield Attack(
        name="flood of native output",
        lines="PTC-060",
        kind="timeout",
        late=[("print for ever", b"x" * 1000)],
        limits=_SPIN_LIMITS,
    )
    yield Attack(
        name="native output closed",
        lines="PTC-060",
        kind=None,
        late=[("close", 1), ("close", 2), ("send", DONE)],
        unfiltered=True,
    )
    yield Attack(
        name="frames on standard output",
        lines="PTC-065",
        kind="worker-exit",
        late=[("print", call(1) + DONE), ("exit", 0)],
    )
    yield Attack(
        name="a reply nobody reads",
        lines="PTC-046",
        kind="timeout",
        late=[("send", call(1, args=["x" * 400_000])), "spin"],
        calls=["x" * 400_000],
        limits=_SPIN_LIMITS,
    )


def _deaths() -> Iterator[Attack]:
    for code, kind in {
        0: "worker-exit",
        1: "worker-exit",
        65: "memory-limit",
        70: "worker-exit",
        71: "worker-exit",
        77: "sandbox-unavailable",
        255: "worker-exit",
    }.items():
        yield Attack(name=f"exit {code}", lines="PTC-041", kind=kind, late=[("exit", code)])
    yield Attack(name="crash", lines="PTC-116", kind="worker-exit", late=["crash"])
    for number in sorted(signal.valid_signals() - _HARMLESS - _STOPPING):
        name = number.name if isinstance(number, signal.Signals) else f"signal {number}"
        kind = _SIGNAL_KINDS.get(number, "worker-exit")
        if isinstance(number, signal.Signals):
            yield Attack(
                name=f"dies by {name}",
                lines="PTC-041 PTC-116",
                kind=kind,
                late=[("signal", int(number))],
                unfiltered=True,
            )
    for stop in sorted(_STOPPING):
        yield Attack(
            name=f"stops by {stop.name}",
            lines="PTC-057",
            kind="timeout",
            late=[("signal", int(stop)), "spin"],
            limits=_SPIN_LIMITS,
            unfiltered=True,
        )
    yield Attack(
        name="stops after done",
        lines="PTC-070",
        kind=None,
        late=[("send", DONE), ("signal", int(signal.SIGSTOP))],
        unfiltered=True,
    )
    yield Attack(
        name="ignores every signal",
        lines="PTC-057",
        kind="timeout",
        late=["ignore signals", "spin"],
        limits=_SPIN_LIMITS,
        unfiltered=True,
    )
    yield Attack(
        name="ignores every signal after done",
        lines="PTC-070",
        kind=None,
        late=["ignore signals", ("send", DONE), "spin"],
        unfiltered=True,
    )
    yield Attack(
        name="signals itself under the filter",
        lines="PTC-062",
        kind="worker-exit",
        late=[("signal", int(signal.SIGTERM))],
    )


def _grandchildren() -> Iterator[Attack]:
    spins: list[Any] = [("child", ["ignore signals", ("wait", 60)])]
    yield Attack(
        name="grandchild holds the channel, parent dies",
        lines="PTC-066 PTC-070",
        kind="worker-exit",
        late=[*spins, ("exit", 0)],
        unfiltered=True,
        orphans=True,
    )
    yield Attack(
        name="grandchild holds the channel after done",
        lines="PTC-066 PTC-070",
        kind=None,
        late=[*spins, ("send", DONE), ("exit", 0)],
        unfiltered=True,
        orphans=True,
    )
    yield Attack(
        name="grandchild outlives the deadline",
        lines="PTC-057 PTC-070",
        kind="timeout",
        late=[*spins, "spin"],
        limits=_SPIN_LIMITS,
        unfiltered=True,
        orphans=True,
    )
    yield Attack(
        name="grandchild speaks for its dead parent",
        lines="PTC-066 PTC-070",
        kinds=frozenset({"worker-exit", "output-limit"}),
        kind="worker-exit",
        late=[("child", [("flood", log(text=""))]), ("exit", 0)],
        unfiltered=True,
        orphans=True,
    )


ATTACKS: Final[tuple[Attack, ...]] = (
    *_violations(),
    *_orders(),
    *_starts(),
    *_floods_and_silence(),
    *_deaths(),
    *_grandchildren(),
)
"""Every attack, each with a name of its own."""
