"""What the chain of plugs costs: `python -m tests.bench.plugs [--json] [--check]`.

Five plugs that pass everything on stand between an agent and a client; both are bytes in memory, so that what is
measured is the chain: reading lines, five handlers, writing lines.
"""

import argparse
import asyncio
import gc
import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from jsrun.plugs._side import Side
from jsrun.plugs.api import NextMessage, Plug, PlugPlace
from jsrun.plugs.chain import MessageChain
from jsrun.plugs.message import Message

PLUGS = 5
# A streamed word, as agents send them.
UPDATE = {
    "sessionId": "sess_0123456789abcdef",
    "update": {
        "sessionUpdate": "agent_message_chunk",
        "content": {"type": "text", "text": "a few words of an answer "},
    },
}
WARM = 10_000
MESSAGES = 100_000
TURNS = 300
# What a pipe gives in one read.
READ_BYTES = 64 * 1024

# The bars of the specification, on two cores.
MIN_PER_SECOND = 2_000.0
MAX_TURN_MS = 5.0
# Freed memory is not always given back; a leak of one small object a message would be ten times this.
MAX_GROWTH_KIB = 2_048


class Through(Plug, name="bench/through"):
    """Passes everything on."""

    async def message(self, message: Message, next: NextMessage) -> Any:
        return await next(message)


@dataclass(frozen=True, slots=True)
class Costs:
    """Notifications a second, milliseconds (median) added to a turn, KiB of memory gained over 90,000 messages."""

    per_second: float
    turn_ms: float
    growth_kib: int
    in_order: bool

    def held(self) -> bool:
        """Whether all bars are held."""
        return (
            self.per_second >= MIN_PER_SECOND
            and self.turn_ms < MAX_TURN_MS
            and self.growth_kib <= MAX_GROWTH_KIB
            and self.in_order
        )


class World:
    """A chain between two ends that are functions."""

    def __init__(self, to_client: Callable[[bytes], Awaitable[None]], to_agent: Callable[[bytes], Awaitable[None]]):
        plugs: list[Plug] = []
        for index in range(PLUGS):
            plug = Through()
            plug.ctx = SimpleNamespace(plug=PlugPlace(None, index, plug.name))  # type: ignore[assignment]  # all it needs
            plugs.append(plug)
        self.client = Side("client", to_client)
        self.agent = Side("agent", to_agent)
        self.chain = MessageChain(plugs, self.client, self.agent, on_failure=_fail)

    async def __aenter__(self) -> "World":
        self.chain.start()
        self.chain.admit()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.chain.close()
        self.client.close()
        self.agent.close()


async def stream(messages: int = MESSAGES, warm: int = WARM) -> tuple[float, int, bool]:
    """Notifications a second, the memory that they gain in KiB, and whether they came out in order.

    The first `warm` of them are not measured.
    """
    got = 0
    in_order = True
    everything = asyncio.Event()

    async def to_client(data: bytes) -> None:
        nonlocal got, in_order
        for line in data.splitlines():
            in_order = in_order and line.startswith(
                b'{"jsonrpc":"2.0","method":"session/update","params":{"n":%d,' % got
            )
            got += 1
        if got == messages:
            everything.set()

    async def to_agent(data: bytes) -> None:
        raise AssertionError("nothing is sent to the agent")

    async with World(to_client, to_agent) as world:
        before = skipped = 0
        started = 0.0
        for data in _reads(messages):
            await world.agent.receive(data)
            if got >= warm and not before:
                before = memory_kib()
                skipped, started = got, time.perf_counter()
        await everything.wait()
        seconds = time.perf_counter() - started
        return (messages - skipped) / seconds, memory_kib() - before, in_order


async def turns() -> float:
    """The median of what the chain adds to a turn of one request, in milliseconds."""
    answered = asyncio.Event()

    async def to_client(data: bytes) -> None:
        answered.set()

    async def to_agent(data: bytes) -> None:
        number = json.loads(data)["id"]
        await world.agent.receive(b'{"jsonrpc":"2.0","id":%d,"result":{"stopReason":"end_turn"}}\n' % number)

    times = []
    async with World(to_client, to_agent) as world:
        for turn in range(TURNS):
            params = {"sessionId": "sess_0123456789abcdef", "prompt": [{"type": "text", "text": "a question"}]}
            line = json.dumps({"jsonrpc": "2.0", "id": turn, "method": "session/prompt", "params": params}).encode()
            answered.clear()
            started = time.perf_counter()
            await world.client.receive(line + b"\n")
            await answered.wait()
            times.append(time.perf_counter() - started)
    return statistics.median(times) * 1e3


def memory_kib() -> int:
    """Resident memory of this process in KiB; 0 where the system does not tell."""
    gc.collect()
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * 4 if statm.exists() else 0


async def measure() -> Costs:
    """All of it."""
    turn_ms = await turns()
    per_second, growth_kib, in_order = await stream()
    return Costs(per_second, turn_ms, growth_kib, in_order)


def main() -> int:
    """Exit 1 if `--check` was given and a bar is not held."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.plugs", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--check", action="store_true", help="exit 1 if a bar is not held")
    options = parser.parse_args()
    costs = asyncio.run(measure())
    if options.json:
        print(json.dumps({**asdict(costs), "held": costs.held()}))
    else:
        print(f"{costs.per_second:,.0f} notifications/s through {PLUGS} plugs (at least {MIN_PER_SECOND:,.0f})")
        print(f"{costs.turn_ms:.2f} ms added to a turn, median (under {MAX_TURN_MS:g})")
        print(f"{costs.growth_kib:,} KiB gained over {MESSAGES - WARM:,} messages (at most {MAX_GROWTH_KIB:,})")
        print("in order" if costs.in_order else "OUT OF ORDER")
    return 0 if costs.held() or not options.check else 1


def _reads(messages: int) -> Iterator[bytes]:
    """The agent's output in pieces of one read; a line may lie in two of them."""
    pending = bytearray()
    for n in range(messages):
        message = {"jsonrpc": "2.0", "method": "session/update", "params": {"n": n, **UPDATE}}
        pending += json.dumps(message).encode() + b"\n"
        if len(pending) >= READ_BYTES:
            yield bytes(pending[:READ_BYTES])
            del pending[:READ_BYTES]
    yield bytes(pending)


def _fail(error: BaseException) -> None:
    raise AssertionError("the chain fails") from error


if __name__ == "__main__":
    sys.exit(main())
