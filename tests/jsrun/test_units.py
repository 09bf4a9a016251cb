"""Durations and sizes as a manifest writes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsrun.units import MOST, duration_text, parse_duration, parse_size, parse_whole

NS = {"h": 3_600_000_000_000, "m": 60_000_000_000, "s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("15m", 900_000_000_000),
        ("1h30m", 5_400_000_000_000),
        ("2.5s", 2_500_000_000),
        (900_000_000_000, 900_000_000_000),
        (9e11, 900_000_000_000),
        ("30m1h", 5_400_000_000_000),
        ("0s", 0),
        ("1ms500us", 1_500_000),
        ("0.5us", 500),
        ("1m1ms", 60_001_000_000),
        (0, 0),
        (-1, -1),
    ],
)
def test_durations_are_read(text: object, nanoseconds: int) -> None:
    """JSR-007 text with units and whole nanoseconds parse"""
    assert parse_duration(text) == nanoseconds


@pytest.mark.parametrize(
    "value",
    ["15", "", "1m1m", "1 m", " 1m", "1m ", "-1m", "+1m", "m", "1d", "1M", ".5s", "5.s", "1e3s", "1,5s", "0.5ns",
     "1٣s", "1h 30m", "9999999999999999999h", True, False, None, [], {}, 1.5, float("inf"), float("nan"), 2**63],
)  # fmt: skip
def test_what_is_no_duration_is_refused(value: object) -> None:
    """JSR-007 a missing, unknown, repeated or separated unit, a fraction of a nanosecond and other types are refused"""
    assert parse_duration(value) is None


@given(st.permutations(list(NS)), st.lists(st.integers(0, 10**6), min_size=6, max_size=6), st.integers(1, 6))
def test_a_duration_is_the_sum_of_its_parts(units: list[str], numbers: list[int], count: int) -> None:
    """JSR-007 each unit once, in any order, gives the sum"""
    parts = list(zip(numbers, units, strict=True))[:count]
    text = "".join(f"{number}{unit}" for number, unit in parts)
    assert parse_duration(text) == sum(number * NS[unit] for number, unit in parts)


@given(st.integers(0, MOST))
def test_printed_durations_read_back(nanoseconds: int) -> None:
    assert parse_duration(duration_text(nanoseconds)) == nanoseconds


@given(st.text(alphabet="0123456789.hmsun ", max_size=12))
def test_any_text_is_a_duration_or_none(text: str) -> None:
    result = parse_duration(text)
    assert result is None or 0 <= result <= MOST


SIZES = {
    "1KiB": 1024,
    "128MiB": 134_217_728,
    "1.5GiB": 1_610_612_736,
    "2kB": 2000,
    "3MB": 3_000_000,
    "1GB": 10**9,
    "0.3kB": 300,
    "0.3KiB": None,  # not a whole number of bytes
    "512": None,
    "1 MiB": None,
    "1mib": None,
    "1KB": None,
}


@pytest.mark.parametrize(("text", "size"), SIZES.items())
def test_sizes_have_a_unit(text: str, size: int | None) -> None:
    assert parse_size(text) == size


def test_a_size_may_be_a_whole_number_of_bytes() -> None:
    assert [parse_size(value) for value in (5, 5.0, 5.5, True)] == [5, 5, None, None]


def test_whole_numbers_are_not_told_from_whole_floats() -> None:
    assert [parse_whole(value) for value in (5, 5.0, 5.5, True, "5", None)] == [5, 5, None, None, None, None]
