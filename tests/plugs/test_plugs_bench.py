"""What the benchmark of the chain measures is what the specification asks for."""

import pytest

from tests.bench import plugs


@pytest.mark.plg("PLG-046", "PLG-060")
async def test_a_fast_agent_is_carried_in_order_and_without_growing() -> None:
    """PLG-046 PLG-060 Thousands of notifications pass five plugs in order, at the least rate, in flat memory."""
    per_second, growth_kib, in_order = await plugs.stream(messages=20_000, warm=8_000)
    assert in_order and per_second >= plugs.MIN_PER_SECOND and growth_kib <= plugs.MAX_GROWTH_KIB


def test_a_bar_that_is_not_held_is_seen() -> None:
    """Each of the four figures counts."""
    good = plugs.Costs(2_500.0, 1.0, 100, True)
    assert good.held()
    bad = [plugs.Costs(1_900.0, 1.0, 100, True), plugs.Costs(2_500.0, 5.0, 100, True)]
    bad += [plugs.Costs(2_500.0, 1.0, 9_000, True), plugs.Costs(2_500.0, 1.0, 100, False)]
    assert not any(costs.held() for costs in bad)
