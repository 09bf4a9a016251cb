"""Fuel: its checks, its layers, its ceiling."""

import math
from dataclasses import fields

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jsrun.fuel import CEILING, DEFAULT, Fuel, clamp, exceeding, merge, resolve

NAMES = [field.name for field in fields(Fuel)]
MIB = 1024 * 1024


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, -math.inf, True, False, "5", 10**400 * -1])
def test_a_value_that_is_no_limit_is_refused_by_the_name_of_its_field(name: str, value: object) -> None:
    """JSR-018 zero, negative, NaN, infinity, booleans and texts raise ValueError naming the field."""
    with pytest.raises(ValueError, match=rf"\b{name}\b"):
        Fuel(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["steps", "tokens", "memory", "output"])
def test_a_count_must_be_whole(name: str) -> None:
    """JSR-018"""
    with pytest.raises(ValueError, match=f"{name} must be a whole number"):
        Fuel(**{name: 2.5})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["wall", "compute"])
def test_seconds_may_be_fractions_but_not_beyond_all_numbers(name: str) -> None:
    """JSR-018"""
    assert getattr(Fuel(**{name: 0.25}), name) == 0.25  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=f"{name} must be a finite number"):
        Fuel(**{name: 10**400})


def test_none_means_the_default() -> None:
    """JSR-018 a field nobody sets takes the default; the wall takes the deadline."""
    fuel = resolve(None, Fuel(), None, deadline=lambda tokens: 900.0)
    assert fuel == Fuel(steps=500, tokens=None, wall=900.0, compute=10.0, memory=128 * MIB, output=MIB)


def test_each_field_comes_from_the_first_layer_that_sets_it() -> None:
    """JSR-093 run argument over bundle over manifest over default, field by field."""
    fuel = resolve(
        Fuel(steps=1),
        Fuel(steps=2, wall=2.0),
        Fuel(steps=3, wall=3.0, memory=3 * MIB),
        deadline=lambda tokens: 900.0,
    )
    assert fuel == Fuel(steps=1, wall=2.0, compute=10.0, memory=3 * MIB, output=MIB)


def test_the_deadline_is_asked_with_the_token_budget_in_force() -> None:
    """JSR-093"""
    asked: list[int] = []

    def deadline(tokens: int) -> float:
        asked.append(tokens)
        return 60.0

    assert resolve(Fuel(tokens=7), Fuel(tokens=8), Fuel(tokens=9), deadline).wall == 60.0
    assert resolve(None, None, Fuel(tokens=9), deadline).tokens == 9
    resolve(None, None, None, deadline)
    assert asked == [7, 9, 0]


def test_what_the_manifest_states_is_clamped_and_what_the_host_states_is_not() -> None:
    """JSR-018"""
    much = Fuel(steps=1_000_000, wall=10 * 86_400.0)
    stated = resolve(None, None, much, deadline=lambda tokens: 1.0)
    assert (stated.steps, stated.wall) == (10_000, 86_400.0)
    assert resolve(much, None, None, deadline=lambda tokens: 1.0).steps == 1_000_000
    assert resolve(None, None, None, deadline=lambda tokens: 1e9).wall == 86_400.0


def test_a_lower_ceiling_of_the_host_also_bounds_the_defaults() -> None:
    """JSR-018"""
    fuel = resolve(None, None, None, lambda tokens: 900.0, ceiling=Fuel(steps=10, tokens=100))
    assert (fuel.steps, fuel.tokens, fuel.compute) == (10, 100, 10.0)


def test_the_fields_above_the_ceiling_are_named_in_order() -> None:
    """JSR-018"""
    fuel = Fuel(output=17 * MIB, steps=10_001, wall=5.0)
    assert exceeding(fuel) == ("steps", "output")
    assert clamp(fuel) == Fuel(steps=10_000, wall=5.0, output=16 * MIB)
    assert exceeding(CEILING) == () and exceeding(DEFAULT) == ()


def test_json_has_every_field() -> None:
    """JSR-018"""
    assert Fuel(steps=3).to_json() == {
        "steps": 3,
        "tokens": None,
        "wall": None,
        "compute": None,
        "memory": None,
        "output": None,
    }


counts = st.none() | st.integers(1, 10**12)
seconds = st.none() | st.floats(0.001, 1e6)
fuels = st.builds(Fuel, steps=counts, tokens=counts, wall=seconds, compute=seconds, memory=counts, output=counts)


@settings(max_examples=60)
@given(fuels, fuels, fuels)
def test_merging_is_associative_and_clamping_never_raises_a_field(one: Fuel, two: Fuel, three: Fuel) -> None:
    """JSR-093"""
    assert merge(merge(one, two), three) == merge(one, merge(two, three)) == merge(one, None, two, three)
    lowered = clamp(one, two)
    assert exceeding(lowered, two) == () and exceeding(lowered, one) == ()
    assert clamp(lowered, two) == lowered
