"""What the program runtime costs, beside its peers."""

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, TypeVar

import ptc
from tests.bench import peers, samples
from tests.bench.measure import OURS, Measure
from tests.bench.peers import timed

T = TypeVar("T")

_ECHO: dict[str, dict[str, Callable[[Any], Any]]] = {"tools": {"echo": lambda value: value}}


class Contenders:
    """The peers that are there, and the names of those that are not. Close it."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self.missing: list[str] = []
        self.monty = self._try(peers.Monty)
        if self.monty is not None:
            self._stack.enter_context(self.monty)
        self.quickjs_rs = self._try(peers.QuickJSRs)
        self.node = self._try(peers.Node)
        self.in_process = peers.InProcess()
        self.pipe = peers.Pipe()
        self._stack.callback(self.pipe.close)

    def close(self) -> None:
        """End every peer's processes."""
        self._stack.close()

    def _try(self, peer: Callable[[], T]) -> T | None:
        try:
            return peer()
        except ImportError as error:
            self.missing.append(str(error.name or error))
            return None

    def rounds(self, question: str, *others: Any, **options: Any) -> dict[str, Any]:
        """Everybody's round for a question, ours left out."""
        asked: dict[str, Any] = {}
        for peer in (self.monty, self.quickjs_rs, *others):
            if peer is not None:
                method = getattr(peer, question)
                asked[peer.name] = lambda method=method: method(**options)
        return asked


async def measures(runtime: ptc.Runtime, contenders: Contenders) -> list[Measure]:
    """Every row about `ptc`. The runtime's root is warm."""
    one = await runtime.load("return 1")
    long = await runtime.load(samples.program_50kb())
    calls = await runtime.load(f"for (let i = 0; i < {samples.CALLS}; i++) await tools.echo(i);", _ECHO)
    batches = await runtime.load(
        f"for (let i = 0; i < {samples.CALLS // 100}; i++)\n"
        "  await Promise.all(Array.from({length: 100}, (_, k) => tools.echo(k)));",
        _ECHO,
        form="async",
    )
    big = await runtime.load("return tools.big(null).length", {"tools": {"big": lambda _argument: samples.OBJECTS}})
    three = await runtime.load("return [tools.echo(1), tools.echo(2), tools.echo(3)]", _ECHO)
    bare = await _without_spares("return 1")

    async def warm(image: ptc.Image = one, pause: float = 0.002, count: int = 100) -> list[float]:
        times = []
        for _ in range(count):
            if pause:
                await asyncio.sleep(pause)
            start = time.perf_counter()
            outcome = await image.run()
            times.append(timed(start))
            assert outcome.ok, outcome.failure
        return times

    async def load() -> list[float]:
        start = time.perf_counter()
        image = await runtime.load(samples.program_50kb())
        spent = timed(start)
        await image.unload()
        return [spent]

    async def call(image: ptc.Image = calls) -> list[float]:
        outcome = await image.run()
        assert outcome.ok, outcome.failure
        return [outcome.elapsed / samples.CALLS]

    async def objects() -> list[float]:
        outcome = await big.run()
        assert outcome.value == len(samples.OBJECTS), outcome.failure
        return [outcome.elapsed]

    async def rate(count: int = 400) -> list[float]:
        left = iter(range(count))

        async def work() -> None:
            for _ in left:
                outcome = await three.run()
                assert outcome.ok, outcome.failure

        start = time.perf_counter()
        await asyncio.gather(*(work() for _ in range(2 * (os.cpu_count() or 1))))
        return [count / timed(start)]

    rows = [
        Measure("warm run of `return 1`", "ms", 1e3, {OURS: warm} | contenders.rounds("warm", count=100),
                {"quickjs-rs": 0.75, "pydantic-monty": 3.0}),
        Measure("the same without spares", "ms", 1e3,
                {OURS: lambda: warm(bare)} | contenders.rounds("warm", count=100), {"quickjs-rs": 1.8}),
        Measure("the same back to back", "ms", 1e3,
                {OURS: lambda: warm(pause=0.0)} | contenders.rounds("back_to_back", count=100), {"quickjs-rs": 2.0}),
        Measure("warm run of a 50 KB program", "ms", 1e3,
                {OURS: lambda: warm(long), "return 1": warm}, {"return 1": 1.3}),
        Measure("load of a 50 KB program", "ms", 1e3,
                {OURS: load} | contenders.rounds("load", contenders.node), {"node -e 1": 0.4}, rounds=15),
        Measure("call, in sequence", "µs", 1e6, {OURS: call} | contenders.rounds("calls", contenders.pipe),
                {"pydantic-monty": 0.6, "quickjs-rs": 0.75, "bare pipe": 3.0}),
        Measure("call, 100 under Promise.all", "µs", 1e6,
                {OURS: lambda: call(batches), "in sequence": call}, {"in sequence": 1.0}),
        Measure("118 KB as a call's result", "ms", 1e3,
                {OURS: objects} | contenders.rounds("big", contenders.in_process),
                {"quickjs-ng in process": 3.0}, rounds=15),
        Measure("runs with three calls, all cores", "1/s", 1.0,
                {OURS: rate} | contenders.rounds("rate", count=400), rounds=5, higher=True),
    ]  # fmt: skip
    return rows + await _compute(contenders)


async def _compute(contenders: Contenders) -> list[Measure]:
    """V8 beside node; nothing without either."""
    node = contenders.node
    try:
        runtime = ptc.Runtime(engine="v8", spares=0)  # the start of a spare would compete with what is measured
    except ptc.UsageError:
        contenders.missing.append("mini-racer")
        return []
    if node is None:
        return []
    _kept.append(runtime)
    rows = []
    for name, code in (("fib(30) on V8", samples.FIB), ("loop of 1e7 on V8", samples.LOOP)):
        image = await runtime.load(code, form="async")

        async def run(image: ptc.Image = image) -> list[float]:
            outcome = await image.run()
            assert outcome.ok, outcome.failure
            return [outcome.elapsed]

        async def compare(code: str = code) -> list[float]:
            return await node.compute(code)

        rows.append(Measure(name, "ms", 1e3, {OURS: run, "node": compare}, {"node": 1.5}))
    return rows


async def waiting_run_bytes() -> int:
    """The unshared memory of one waiting run, in bytes."""
    async with ptc.Runtime(spares=1) as runtime:
        image = await runtime.load("return 1")
        await image.run()
        before = time.monotonic()
        while time.monotonic() - before < 5:
            await asyncio.sleep(0.05)
            waiting = [pid for root in peers.children(os.getpid()) for img in peers.children(root)
                       for pid in peers.children(img)]  # fmt: skip
            if waiting:
                await asyncio.sleep(0.2)
                return peers.unshared_bytes(waiting[0])
    raise RuntimeError("no run waits")


async def _without_spares(code: str) -> ptc.Image:
    runtime = ptc.Runtime(spares=0)
    _kept.append(runtime)
    return await runtime.load(code)


_kept: list[ptc.Runtime] = []


async def close() -> None:
    """End the runtimes made on the side."""
    for runtime in _kept:
        await runtime.aclose()
