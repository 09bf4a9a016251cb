"""The benchmark's own machinery: medians, ratios, bars, and that a bar is missed only twice in a row."""

import pytest

import ptc
from tests.bench import samples
from tests.bench.measure import OURS, Measure, Round, Row, measure


def rounds(*samples_of_each: float) -> Round:
    """A contender whose rounds take these values in turn, the last one for ever."""
    values = list(samples_of_each)

    async def run() -> list[float]:
        return [values.pop(0) if len(values) > 1 else values[0]]

    return run


async def test_medians_are_of_the_counted_rounds_only() -> None:
    """PTC-147 one round warms up; the median of the others counts, in the unit of the row."""
    contenders = {OURS: rounds(9.0, 0.001, 0.003, 0.002), "peer": rounds(0.004)}
    row = await measure(Measure("x", "ms", 1e3, contenders, rounds=3))
    assert row.medians == {OURS: 2.0, "peer": 4.0}
    assert row.ratio("peer") == 0.5


@pytest.mark.parametrize(
    ("ours", "higher", "missed"),
    [(1.0, False, []), (1.3, False, ["peer"]), (1.3, True, []), (1.0, True, ["peer"])],
)
def test_a_bar_is_an_upper_bound_or_for_rates_a_lower_one(ours: float, higher: bool, missed: list[str]) -> None:
    """PTC-147"""
    what = Measure("x", "s", 1.0, {}, {"peer": 1.2, "not installed": 0.1}, higher=higher)
    assert Row(what, {OURS: ours, "peer": 1.0}).missed() == missed


def test_the_samples_are_what_the_rows_say() -> None:
    """PTC-147 a 50 KB program, and 118 KB in 2,000 small objects."""
    assert 50_000 <= len(samples.program_50kb()) < 51_000
    assert len(samples.OBJECTS) == 2000
    assert 110_000 < len(samples.OBJECTS_JSON) < 140_000


async def test_a_run_does_not_compile_its_program_again() -> None:
    """PTC-148 a run of a program that takes long to compile uses a small part of that time."""
    functions = samples.program_50kb().replace("return 1;", "")
    program = "".join(functions.replace("helper", f"part{number}_") for number in range(12)) + "return 7;"
    async with ptc.Runtime(spares=1) as runtime:
        start = runtime.loop.time()
        image = await runtime.load(program, form="sync")
        loading = runtime.loop.time() - start
        outcomes = [await image.run() for _ in range(5)]
    assert [outcome.value for outcome in outcomes] == [7] * 5
    least = min(outcome.cpu or 0.0 for outcome in outcomes)
    assert least < loading / 3, (least, loading)
