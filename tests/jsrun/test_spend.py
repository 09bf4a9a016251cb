"""Spend: figures that add up, whatever the order."""

import json
import math
from functools import reduce
from operator import add

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jsrun.spend import Spend


def test_figures_add_up() -> None:
    """JSR-096"""
    total = Spend("m", 1, 100, 20, 5, 3, 0.1) + Spend("m", 2, 1, 2, 3, 4, 0.2)
    assert total == Spend("m", 3, 101, 22, 8, 7, 0.3)
    assert total.tokens == 123, "cache tokens are not counted"


def test_two_models_make_the_name_empty_for_good() -> None:
    """JSR-096"""
    mixed = Spend("a") + Spend("b")
    assert (mixed.model, mixed.mixed) == ("", True)
    assert (mixed + Spend("a")).model == ""
    assert (Spend("a") + mixed).model == ""
    assert Spend.from_json(mixed.to_json()) + Spend("c") == mixed


def test_an_entry_without_a_model_does_not_change_the_name() -> None:
    """JSR-096"""
    assert (Spend("a", 1) + Spend("", 1, 5)).model == "a"
    assert (Spend() + Spend("a")).model == "a"
    assert not (Spend() + Spend("a") + Spend()).mixed


@pytest.mark.parametrize(
    ("spend", "reported"),
    [
        (Spend(), False),
        (Spend("m", calls=3), False),
        (Spend(input=1), True),
        (Spend(output=1), True),
        (Spend(cache_read=1), True),
        (Spend(cache_write=1), True),
        (Spend(cost_usd=0.001), True),
    ],
)
def test_calls_alone_are_not_a_report(spend: Spend, reported: bool) -> None:
    """JSR-096"""
    assert spend.reported() is reported


@pytest.mark.parametrize("name", ["calls", "input", "output", "cache_read", "cache_write", "cost_usd"])
@pytest.mark.parametrize("value", [-1, math.nan, math.inf, True, "1", None, -(10**400)])
def test_a_figure_that_cannot_be_is_refused_by_name(name: str, value: object) -> None:
    """JSR-096"""
    with pytest.raises(ValueError, match=rf"\b{name}\b"):
        Spend(**{name: value})  # type: ignore[arg-type]


def test_other_fields_are_checked_too() -> None:
    """JSR-096"""
    with pytest.raises(ValueError, match="model"):
        Spend(model=None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="mixed"):
        Spend(mixed=1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="mixed"):
        Spend("a", mixed=True)
    with pytest.raises(ValueError, match="tokens"):
        Spend.from_json({"tokens": 1})
    with pytest.raises(ValueError, match="cost_usd"):
        Spend(cost_usd=10**400)


def test_a_sum_beyond_all_numbers_stays_a_number() -> None:
    """JSR-096"""
    assert math.isfinite((Spend(cost_usd=1.7e308) + Spend(cost_usd=1.7e308)).cost_usd)


def test_only_spend_can_be_added() -> None:
    """JSR-096"""
    with pytest.raises(TypeError):
        Spend() + 1  # type: ignore[operator]


prices = st.integers(0, 10**9).map(lambda millionths: millionths / 1e7)
spends = st.builds(
    Spend,
    st.sampled_from(["", "a", "b"]),
    st.integers(0, 3),
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    prices,
)


@settings(max_examples=80)
@given(st.lists(spends, max_size=6), st.randoms(use_true_random=False))
def test_the_order_of_the_entries_does_not_show_in_the_sum(entries: list[Spend], random: object) -> None:
    """JSR-096"""
    shuffled = list(entries)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    total = reduce(add, entries, Spend())
    assert reduce(add, shuffled, Spend()) == total
    assert Spend.from_json(json.loads(json.dumps(total.to_json()))) == total
