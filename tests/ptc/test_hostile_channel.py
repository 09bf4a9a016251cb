"""The other end of a channel is not the guest any more: the host stays whole, and tells what happened.

The processes are real, started by the real root; `fuzz/hostile_guest` does what an exploited engine would.
"""

import asyncio
import gc
import resource
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

import ptc
from fuzz.hostile import BOOTSTRAP, hostile
from fuzz.violations import DONE, READY, call
from ptc.frames import encode, frame
from tests.ptc.processes import images_of, is_gone, needs_proc, runs_of, spares_ready, until

pytestmark = [pytest.mark.asyncio(loop_scope="session"), needs_proc, pytest.mark.needs("fork")]

KIB, MIB = 1024, 1024 * 1024


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def taken(engine: str) -> AsyncIterator[ptc.Runtime]:
    """A runtime whose guest can be taken over."""
    async with ptc.Runtime(engine=engine, spares=0) as runtime:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("ptc._launch._BOOTSTRAP", BOOTSTRAP)
            await runtime.report()
        yield runtime


class Calls:
    """A host function that counts."""

    def __init__(self) -> None:
        self.arguments: list[Any] = []

    def f(self, argument: Any) -> Any:
        self.arguments.append(argument)
        return argument


async def run(
    runtime: ptc.Runtime,
    *,
    calls: Calls | None = None,
    limits: ptc.Limits | None = None,
    timeout: float = 3,
    **steps: Any,
) -> ptc.Outcome:
    """Run a hostile program, and an honest one after it on the same runtime."""
    table = {"t": {"f": (calls or Calls()).f}}
    outcome = await runtime.run(hostile(**steps), table, timeout=timeout, limits=limits)
    assert (await runtime.run("return 1", timeout=3)).value == 1
    return outcome


async def test_an_honest_program_runs_in_the_hostile_guest(taken: ptc.Runtime) -> None:
    """What the other tests stand on: without a takeover the guest is the real one."""
    calls = Calls()
    outcome = await taken.run("return t.f(1) + 1", {"t": {"f": calls.f}})
    assert outcome.value == 2
    assert (await taken.run(hostile(late=[("send", DONE)]))).ok


VIOLATIONS = {
    "no frame": b"\0\0\0\0",
    "header above the cap": b"\xff\xff\xff\xff",
    "no JSON": frame(b"{"),
    "no UTF-8": frame(b'"\xff"'),
    "a byte-order mark": frame(b"\xef\xbb\xbf{}"),
    "text after the value": frame(b"{} {}"),
    "NaN": frame(b'{"type":"done","value":[NaN]}'),
    "a key twice": frame(b'{"type":"done","type":"done"}'),
    "deep nesting": frame(b"[" * 100_000),
    "null": frame(b"null"),
    "no type": frame(b"{}"),
    "unknown type": encode({"type": "boot"}),
    "ready again": READY,
    "a reply": encode({"type": "reply", "id": 1, "ok": True, "value": [1]}),
    "call 0": call(0),
    "call 2 first": call(2),
    "call true": call(True),
    "call 1.0": frame(b'{"type":"call","id":1.0,"global":"t","name":"f","args":[1]}'),
    "call of an undeclared function": call(1, "g"),
    "call of a method of objects": call(1, "__class__"),
    "call without args": encode({"type": "call", "id": 1, "global": "t", "name": "f"}),
    "call with two args": call(1, "f", [1, 2]),
    "call with a length of 2**53": call(1, "f", [{"kind": "array", "length": 2**53}]),
    "a level that is none": encode({"type": "log", "text": "x", "level": "fatal"}),
    "a kind only the host sees": encode({"type": "done", "error": {"kind": "timeout", "message": "x"}}),
    "null as error": encode({"type": "done", "error": None}),
}


@pytest.mark.parametrize("data", VIOLATIONS.values(), ids=VIOLATIONS.keys())
async def test_a_violation_ends_the_run(taken: ptc.Runtime, data: bytes) -> None:
    """PTC-028 PTC-037 a violation ends the run as `protocol`; nothing of it, or after it, is dispatched."""
    calls = Calls()
    outcome = await run(taken, calls=calls, late=[("send", data + call(1) + DONE)])
    assert outcome.failure is not None
    assert outcome.failure.kind == "protocol"
    assert calls.arguments == []
    assert outcome.exit is not None


async def test_a_call_before_a_violation_has_run_once(taken: ptc.Runtime) -> None:
    """PTC-029 the function of an earlier good call has run exactly once when a repeated id ends the run."""
    calls = Calls()
    outcome = await run(taken, calls=calls, late=[("send", call(1) + call(1))])
    assert outcome.failure is not None
    assert outcome.failure.kind == "protocol"
    assert calls.arguments == [1]
    assert outcome.calls == 1


async def test_nothing_after_done_counts(taken: ptc.Runtime) -> None:
    """PTC-037 nothing is dispatched after `done`, and the run is over although its process goes on."""
    calls = Calls()
    began = time.monotonic()
    outcome = await run(taken, calls=calls, late=[("send", DONE + call(1)), "spin"])
    assert outcome.ok
    assert calls.arguments == []
    assert time.monotonic() - began < 2


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("last", [DONE, b"\0\0\0\0"], ids=["done", "a violation"])
async def test_a_call_right_before_the_end_is_dropped(taken: ptc.Runtime, last: bytes) -> None:
    """PTC-037 PTC-123 an async function called in the same breath as the end is dropped, begun or not."""
    begun: list[Any] = []

    async def f(argument: Any) -> None:
        begun.append(argument)
        await asyncio.sleep(3600)

    outcome = await taken.run(hostile(late=[("send", call(1) + last)]), {"t": {"f": f}}, timeout=3)
    assert outcome.calls == 1
    assert outcome.unfinished == ((1, "t", "f"),)
    assert outcome.elapsed < 2
    gc.collect()  # a coroutine that was never awaited would be told of now


async def test_a_process_that_goes_on_after_done_is_killed(taken: ptc.Runtime) -> None:
    """PTC-070 a process that does not end after `done` is ended."""
    image = await taken.load(hostile(late=[("send", DONE), "spin"]))
    assert (await image.run()).ok
    await until(lambda: not runs_of(taken), "the spinning process is gone", within=2)
    await image.unload()


@pytest.mark.parametrize("number", range(1, 5))
async def test_frames_arrive_in_any_split(taken: ptc.Runtime, number: int) -> None:
    """PTC-019 a frame that comes in pieces, with pauses, is the same frame."""
    data = call(1) + DONE
    pieces = [data[at : at + number] for at in range(0, len(data), number)]
    calls = Calls()
    outcome = await run(taken, calls=calls, late=[("send", piece) for piece in pieces])
    assert outcome.ok
    assert calls.arguments == [1]


async def test_half_a_frame_and_silence_is_a_timeout(taken: ptc.Runtime) -> None:
    """PTC-021 a frame that never ends holds nobody up beyond the deadline."""
    outcome = await run(taken, timeout=0.2, late=[("send", b"\0\xff\0\0{"), "spin"])
    assert outcome.failure is not None
    assert outcome.failure.kind == "timeout"


# --- before the boot ---


@pytest.mark.parametrize(
    "data",
    [call(1), DONE, b"\xff\xff\xff\xff", frame(b"nonsense"), encode({"type": "ready", "wire": 2}), READY + READY],
    ids=["call", "done", "header", "nonsense", "wire 2", "ready twice"],
)
async def test_a_bad_start_is_a_violation(taken: ptc.Runtime, data: bytes) -> None:
    """PTC-026 PTC-027 any frame but one good `ready` before the boot is a violation; no host function is called."""
    calls = Calls()
    outcome = await run(taken, calls=calls, early=[("send", data)])
    assert outcome.failure is not None
    assert outcome.failure.kind == "protocol"
    assert calls.arguments == []


@pytest.mark.parametrize("code", [0, 1, 70])
async def test_dying_before_ready_keeps_what_was_printed(taken: ptc.Runtime, code: int) -> None:
    """PTC-116 dying before `ready` is `worker-exit` and keeps native output."""
    outcome = await run(taken, early=[("print", b"sorry"), ("exit", code)])
    assert outcome.failure is not None
    assert outcome.failure.kind == "worker-exit"
    assert f"exit code {code}" in outcome.failure.message
    assert outcome.native == "sorry"
    assert outcome.exit == ptc.ExitStatus(code=code)
    assert outcome.elapsed == 0.0


async def test_a_measure_that_fails_in_the_run_is_told(taken: ptc.Runtime) -> None:
    """PTC-041 exit 77 before `ready` is `sandbox-unavailable`."""
    outcome = await run(taken, early=[("exit", 77)])
    assert outcome.failure is not None
    assert outcome.failure.kind == "sandbox-unavailable"


@pytest.mark.parametrize("steps", [["spin"], [("send", READY[:3]), "spin"]], ids=["silence", "a piece of it"])
async def test_no_ready_in_time_is_a_worker_exit(taken: ptc.Runtime, steps: list[Any]) -> None:
    """PTC-041 no `ready` within `start_timeout` is `worker-exit`, and the process is gone."""
    began = time.monotonic()
    outcome = await run(taken, early=steps, limits=ptc.Limits(start_timeout=0.2))
    assert outcome.failure is not None
    assert outcome.failure.kind == "worker-exit"
    assert "0.2 s" in outcome.failure.message
    assert time.monotonic() - began < 3
    await until(lambda: not runs_of(taken), "the process is gone")


async def test_a_waiting_run_that_floods_is_dropped(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """PTC-118 a waiting run that floods its channel costs the host next to nothing and is killed."""
    monkeypatch.setattr("ptc._launch._BOOTSTRAP", BOOTSTRAP)
    async with ptc.Runtime(engine=engine, spares=1) as runtime:
        before = peak_memory()
        image = await runtime.load(hostile(early=[("flood", READY)]))
        await until(lambda: not runs_of(runtime), "the flooding run is gone")
        assert peak_memory() - before < 16 * MIB
        outcome = await image.run()
        assert outcome.failure is not None
        assert outcome.failure.kind in ("protocol", "worker-exit")


# --- native output ---


async def test_native_output_is_kept_and_changes_nothing(taken: ptc.Runtime) -> None:
    """PTC-060 native output is decoded with replacement and never changes a kind."""
    outcome = await run(taken, late=[("print", b"a\xffb\xc3\xa9"), ("send", DONE)])
    assert outcome.ok
    assert outcome.native == "a\ufffdbé"


@pytest.mark.parametrize("size", [64 * KIB, 64 * KIB + 1, 400_000])
async def test_native_output_is_cut(taken: ptc.Runtime, size: int) -> None:
    """PTC-060 native output is cut at 64 KiB with a count, and never blocks the run."""
    # A call at the end, so that all that was printed has been read before the run ends.
    pieces = [("print", b"x" * 64 * KIB)] * (size // (64 * KIB))
    rest = ("print", b"x" * (size % (64 * KIB)))
    outcome = await run(taken, late=[*pieces, rest, ("send", call(1)), "read", ("exit", 3)])
    assert outcome.failure is not None
    assert outcome.failure.kind == "worker-exit"
    assert outcome.native == "x" * 64 * KIB
    missing = outcome.truncated.native_bytes if outcome.truncated is not None else 0
    assert missing == size - 64 * KIB


async def test_endless_native_output_does_not_hold_the_loop(taken: ptc.Runtime) -> None:
    """PTC-060 PTC-119 a process that prints for ever is stopped by its deadline, and the loop goes on meanwhile."""
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    ticking = asyncio.create_task(tick())
    before = peak_memory()
    outcome = await run(taken, timeout=0.5, late=[("print for ever", b"y" * 65_536)])
    ticking.cancel()
    assert outcome.failure is not None
    assert outcome.failure.kind == "timeout"
    assert outcome.native == "y" * 64 * KIB
    assert ticks > 15
    assert peak_memory() - before < 16 * MIB


async def test_text_in_the_form_of_a_frame_never_reaches_the_channel(taken: ptc.Runtime) -> None:
    """PTC-065 a frame printed to standard output is native output; exit 0 without `done` is `worker-exit`."""
    calls = Calls()
    outcome = await run(taken, calls=calls, late=[("print", call(1) + DONE), ("exit", 0)])
    assert outcome.failure is not None
    assert outcome.failure.kind == "worker-exit"
    assert "exit code 0" in outcome.failure.message
    assert calls.arguments == []
    assert outcome.native == (call(1) + DONE).decode("utf-8", "replace")


# --- ends ---


async def test_done_followed_by_an_exit_counts(taken: ptc.Runtime) -> None:
    """PTC-040 an exit reported before end-of-file waits until the bytes in flight are read: a `done` there counts."""
    image = await taken.load(
        hostile(late=[("send", encode({"type": "log", "text": "x" * 60_000})), ("send", DONE), ("exit", 1)])
    )
    for _ in range(20):
        outcome = await image.run()
        assert outcome.ok, outcome.failure
        assert outcome.exit is None
        assert len(outcome.logs) == 1
    await image.unload()


@pytest.mark.parametrize(
    ("steps", "kind", "words"),
    [
        ([("exit", 65)], "memory-limit", "memory"),
        ([("exit", 70)], "worker-exit", "fault of the guest"),
        ([("exit", 71)], "worker-exit", "unreadable host frame"),
        ([("exit", 77)], "sandbox-unavailable", "isolation"),
        ([("exit", 9)], "worker-exit", "exit code 9"),
        (["crash"], "worker-exit", "SIGSEGV"),
        (["spin"], "compute-limit", "0.1 s"),
        ([("eat", 100), "spin"], "memory-limit", "bytes"),
    ],
)
async def test_every_end_has_its_kind(taken: ptc.Runtime, steps: list[Any], kind: str, words: str) -> None:
    """PTC-041 PTC-116 how a process ended gives the kind; a signal is named."""
    # The hostile guest arms no timer, so the loop is ended by the resource limit behind it, 2 s.
    outcome = await run(taken, late=steps, limits=ptc.Limits(cpu=0.1, memory=32 * MIB), timeout=30)
    assert outcome.failure is not None
    assert outcome.failure.kind == kind
    assert words in outcome.failure.message


# --- floods ---


def peak_memory() -> int:
    """The most memory this process has ever held, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB


async def test_a_flood_of_logs_is_an_output_limit(taken: ptc.Runtime) -> None:
    """PTC-113 PTC-118 an endless flood of entries ends as `output-limit`, the first ones kept, memory bounded."""
    before = peak_memory()
    outcome = await run(taken, timeout=20, late=[("flood", encode({"type": "log", "text": ""}))])
    assert outcome.failure is not None
    assert outcome.failure.kind == "output-limit"
    assert len(outcome.logs) == 100_000
    assert peak_memory() - before < 100 * MIB


async def test_a_flood_of_calls_is_a_violation(taken: ptc.Runtime) -> None:
    """PTC-035 PTC-118 calls past `max_pending_calls`, with functions that never answer, are a violation."""
    before = peak_memory()

    async def never(_argument: Any) -> None:
        await asyncio.Event().wait()

    code = hostile(late=[("send", b"".join(call(number) for number in range(1, 400)))])
    outcome = await taken.run(code, {"t": {"f": never}}, timeout=5)
    assert outcome.failure is not None
    assert outcome.failure.kind == "protocol"
    assert outcome.calls == 128
    assert len(outcome.unfinished) == 128
    assert peak_memory() - before < 16 * MIB


async def test_calls_whose_answers_nobody_reads_are_bounded(taken: ptc.Runtime) -> None:
    """PTC-046 PTC-118 answers that nobody reads fill the backlog, no more: what does not fit fails its call."""
    limits = ptc.Limits(max_message_bytes=1 * MIB)
    replies: list[ptc.CallFinished] = []

    def watch(event: ptc.Event) -> None:
        if isinstance(event, ptc.CallFinished):
            replies.append(event)

    before = peak_memory()
    code = hostile(late=[("send", b"".join(call(number) for number in range(1, 101))), "spin"])
    image = await taken.load(code, {"t": {"f": lambda _argument: "x" * 1_000_000}}, limits=limits)
    outcome = await image.run(timeout=1, on_event=watch)
    await image.unload()
    assert outcome.failure is not None
    assert outcome.failure.kind == "timeout"
    assert len(replies) == 100
    refused = [reply for reply in replies if not reply.ok]
    assert len(refused) > 90
    assert refused[0].message is not None
    assert "wait to be sent" in refused[0].message
    assert peak_memory() - before < 32 * MIB


async def test_a_flood_of_nonsense_ends_at_once(taken: ptc.Runtime) -> None:
    """PTC-118 forged frames without end are over with the first of them."""
    before = peak_memory()
    began = time.monotonic()
    outcome = await run(taken, timeout=20, late=[("flood", frame(b"{}"))])
    assert outcome.failure is not None
    assert outcome.failure.kind == "protocol"
    assert time.monotonic() - began < 2
    assert peak_memory() - before < 16 * MIB


async def test_a_large_frame_costs_what_it_is(taken: ptc.Runtime) -> None:
    """PTC-021 PTC-118 an announced frame of 16 MiB that comes slowly costs the host what has come of it."""
    before = peak_memory()
    outcome = await run(taken, timeout=0.5, late=[("send", b"\x01\x00\x00\x00" + b" " * 100_000)])
    assert outcome.failure is not None
    assert outcome.failure.kind == "timeout"
    assert peak_memory() - before < 16 * MIB


# --- the image ---

BAD_NEWS = {
    "no frame": b"\0\0\0\0",
    "header above the cap": b"\xff\xff\xff\xff",
    "nonsense": frame(b"nonsense"),
    "deep nesting": frame(b"[" * 100_000),
    "no type": frame(b"{}"),
    "a negative run": encode({"type": "started", "run": -1, "pid": 1}),
    "run true": encode({"type": "started", "run": True, "pid": 1}),
    "negative time": encode({"type": "exited", "run": 1, "code": 0, "signal": None, "cpuMs": -1.0, "maxRssKb": 1}),
    "members missing": encode({"type": "exited", "run": 1}),
    "root's message": encode({"type": "root"}),
    "a second answer to load": encode({"type": "refused", "kind": "exception", "message": "x"}),
}


@pytest.mark.parametrize("data", BAD_NEWS.values(), ids=BAD_NEWS.keys())
async def test_a_malformed_control_frame_kills_that_image_only(taken: ptc.Runtime, data: bytes) -> None:
    """PTC-064 a malformed control frame from an image kills that image only."""
    other = await taken.load("return 2")
    (spared,) = images_of(taken)
    image = await taken.load(hostile(image=[("send", data), "spin"]), limits=ptc.Limits(cpu=60))
    await until(lambda: images_of(taken) == [spared], "the image is gone")
    outcome = await image.run(timeout=3)  # it is loaded again, and misbehaves again
    assert outcome.failure is not None
    assert outcome.failure.kind == "worker-exit"
    assert (await other.run()).value == 2
    await until(lambda: images_of(taken) == [spared], "the image is gone again")
    await other.unload()
    await image.unload()


async def test_an_image_that_tells_of_unknown_runs_harms_nobody(taken: ptc.Runtime) -> None:
    """PTC-064 well-formed news about runs there are not is ignored."""
    news = b"".join(
        encode({"type": "exited", "run": number, "code": 0, "signal": None, "cpuMs": 0.0, "maxRssKb": 1})
        for number in range(1, 2000)
    )
    image = await taken.load(hostile(image=[("send", news)]))
    other = await taken.load("return 2")
    assert (await other.run()).value == 2
    await image.unload()
    await other.unload()


async def test_an_image_that_serves_no_run_is_a_worker_exit(taken: ptc.Runtime) -> None:
    """PTC-057 an image that hears nothing any more: the run ends by `start_timeout`, and the image with it."""
    image = await taken.load(hostile(image=["spin"]), limits=ptc.Limits(start_timeout=0.2, cpu=60))
    (pid,) = images_of(taken)
    outcome = await asyncio.wait_for(image.run(), 5)
    assert outcome.failure is not None
    assert outcome.failure.kind == "worker-exit"
    await asyncio.wait_for(image.unload(), 5)
    assert is_gone(pid)


async def test_spares_of_a_taken_over_image_change_nothing(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """PTC-053 waiting runs that say nothing good are dropped, and no more are made than were asked for."""
    monkeypatch.setattr("ptc._launch._BOOTSTRAP", BOOTSTRAP)
    async with ptc.Runtime(engine=engine, spares=2) as runtime:
        image = await runtime.load(hostile(early=[("exit", 1)]))
        await asyncio.sleep(0.1)
        assert len(image._spares) == 0
        honest = await runtime.load("return 1")
        await spares_ready(honest, 2)
        assert (await honest.run()).ok


async def test_an_image_that_prints_for_ever_harms_nobody(taken: ptc.Runtime) -> None:
    """PTC-118 what an image prints is kept to its last 8 KiB, the loop goes on, and no other failure tells it."""
    before = peak_memory()
    image = await taken.load(hostile(image=[("print for ever", b"noise ")]), limits=ptc.Limits(cpu=60))
    for _ in range(5):
        assert (await taken.run("return 1", timeout=3)).value == 1
        await asyncio.sleep(0.02)
    assert len(taken._root.diagnostics()) <= 8 * KIB if taken._root is not None else True
    await asyncio.wait_for(image.unload(), 5)
    with pytest.raises(ptc.LoadError) as caught:
        await taken.load("return 1", setup="for (;;);", limits=ptc.Limits(cpu=0.1))
    assert caught.value.failure.kind == "compute-limit"
    assert "noise" not in caught.value.failure.message
    assert peak_memory() - before < 16 * MIB
