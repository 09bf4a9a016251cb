"""Small things for tests that run programs."""

import asyncio
from collections.abc import Callable
from typing import Any

import ptc
from ptc._run import Run

Tables = dict[str, dict[str, Callable[[Any], Any]]]

KIB, MIB = 1024, 1024 * 1024

# The most a stop may come late.
LATE_S = 1.0


async def ended(
    runtime: ptc.Runtime, code: str, limits: ptc.Limits, timeout: float | None = 20, **options: Any
) -> ptc.Outcome:
    """Run a program, and see that the runtime works on."""
    outcome = await runtime.run(code, limits=limits, timeout=timeout, **options)
    assert (await runtime.run("return 1")).value == 1
    return outcome


def kind(outcome: ptc.Outcome) -> str:
    """The kind of a failed outcome."""
    assert outcome.failure is not None, outcome
    return outcome.failure.kind


def echo() -> Tables:
    """A namespace whose function gives what it gets."""
    return {"t": {"f": lambda value: value}}


async def for_ever(_argument: Any) -> None:
    """A host function that never answers."""
    await asyncio.sleep(3600)


class Slow:
    """An async host function that notes how it ended, and may take its time to."""

    def __init__(self, stubborn: float = 0.0) -> None:
        self.entered = asyncio.Event()
        self.ended: list[str] = []
        self.started = 0
        self._stubborn = stubborn

    async def f(self, argument: Any) -> Any:
        self.started += 1
        self.entered.set()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            if self._stubborn:
                await asyncio.sleep(self._stubborn)
            self.ended.append("cancelled")
            raise
        return argument


class Gate:
    """A host function that tells when it is called and answers when it is let."""

    def __init__(self) -> None:
        self.calls = 0
        self.entered = asyncio.Event()
        self.open = asyncio.Event()

    async def pass_through(self, argument: Any) -> Any:
        self.calls += 1
        self.entered.set()
        await self.open.wait()
        return argument


async def waiting_run(image: ptc.Image, gate: Gate) -> Run:
    """A run of `return t.wait(1)` that is inside its call."""
    gate.entered.clear()
    run = image.start(functions={"t": {"wait": gate.pass_through}})
    await asyncio.wait_for(gate.entered.wait(), 5)
    return run


def waiting_program() -> tuple[str, Tables]:
    """A program for `waiting_run`; alone it ends at once."""
    return "return t.wait(1)", {"t": {"wait": lambda _argument: None}}
