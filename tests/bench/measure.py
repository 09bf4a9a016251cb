"""Rounds, medians and ratios. A contender is a name and an async function: one round, as samples in seconds."""

import statistics
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

Round = Callable[[], Awaitable[list[float]]]

OURS = "subharness"


@dataclass(frozen=True, slots=True)
class Measure:
    """One row: contenders by name, ours first. `unit` is what a sample is shown in, `scale` how many a second has.

    `higher` tells that more is better; samples are then rates and not times.
    """

    name: str
    unit: str
    scale: float
    contenders: dict[str, Round]
    bars: dict[str, float] = field(default_factory=dict)
    """Contender → the most that ours may be as a multiple of it (with `higher`: the least)."""
    rounds: int = 7
    higher: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """The medians of one measure, by contender."""

    measure: Measure
    medians: dict[str, float]

    def ratio(self, peer: str) -> float:
        """Ours divided by the peer's."""
        return self.medians[OURS] / self.medians[peer]

    def missed(self) -> list[str]:
        """The peers whose bar ours does not hold."""
        over = []
        for peer, bar in self.measure.bars.items():
            if peer in self.medians:
                ratio = self.ratio(peer)
                if (ratio < bar) if self.measure.higher else (ratio > bar):
                    over.append(peer)
        return over


async def measure(what: Measure) -> Row:
    """Measure all contenders in turn, round by round, so that a drift of the machine meets all alike."""
    samples: dict[str, list[float]] = {name: [] for name in what.contenders}
    for run in what.contenders.values():
        await run()  # one round to warm up, not counted
    for _ in range(what.rounds):
        for name, run in what.contenders.items():
            samples[name] += await run()
    return Row(what, {name: statistics.median(values) * what.scale for name, values in samples.items()})
