"""`Limits`: bad values are refused by name, before anything runs."""

from dataclasses import fields

import pytest

from ptc.errors import UsageError
from ptc.limits import IMAGE_LIMITS, Limits, check_run_limits, resolve_timeout
from ptc.outcome import UNSET

SECONDS = ["timeout", "max_timeout", "cpu", "start_timeout", "load_timeout", "cancel_grace"]
COUNTS = [field.name for field in fields(Limits) if field.name not in SECONDS]
INFINITY = float("inf")


@pytest.mark.parametrize("name", SECONDS)
@pytest.mark.parametrize(
    "value", [0, -1, float("nan"), INFINITY, -INFINITY, True, False, "5", 10**400, 2**40], ids=repr
)
def test_bad_seconds_are_refused_by_name(name: str, value: object) -> None:
    """PTC-117 times."""
    with pytest.raises(UsageError, match=f"^{name}: "):
        Limits(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", COUNTS)
@pytest.mark.parametrize("value", [0, -1, 1.0, 5.5, float("nan"), INFINITY, True, "5", None, 2**53, 10**400], ids=repr)
def test_bad_counts_are_refused_by_name(name: str, value: object) -> None:
    """PTC-117 sizes and counts."""
    with pytest.raises(UsageError, match=f"^{name}: "):
        Limits(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [("max_output_bytes", 4, 2**53 - 1), ("max_message_bytes", 256, 2**32 - 1), ("max_calls", 1, 2**53 - 1)],
)
def test_bounds_are_inclusive(name: str, low: int, high: int) -> None:
    """PTC-117 the values at and beyond the bounds."""
    for value in (low, high):
        assert getattr(Limits(**{name: value}), name) == value
    for value in (low - 1, high + 1):
        with pytest.raises(UsageError, match=f"^{name}: "):
            Limits(**{name: value})


def test_the_default_timeout_may_be_none_but_not_above_the_maximum() -> None:
    """PTC-117 PTC-108 the default itself."""
    assert Limits(timeout=None).timeout is None
    with pytest.raises(UsageError, match=r"^timeout: 601 is above max_timeout"):
        Limits(timeout=601)


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), INFINITY, True, 600.5, "1"], ids=repr)
def test_a_bad_timeout_of_a_run_is_misuse(timeout: float) -> None:
    """PTC-108 zero, negative, NaN, infinite, boolean, above the maximum."""
    with pytest.raises(UsageError, match=r"^timeout: "):
        resolve_timeout(timeout, Limits())


def test_none_means_no_deadline_and_omitted_the_default() -> None:
    """PTC-108 what is allowed."""
    assert resolve_timeout(None, Limits()) is None
    assert resolve_timeout(UNSET, Limits(timeout=7)) == 7
    assert resolve_timeout(UNSET, Limits(timeout=None)) is None
    assert resolve_timeout(600, Limits()) == 600


@pytest.mark.parametrize("name", IMAGE_LIMITS)
def test_what_belongs_to_the_image_cannot_change_for_one_run(name: str) -> None:
    """PTC-117 memory, CPU, stack and source per run."""
    image = Limits()
    changed = Limits(**{name: getattr(image, name) + 1})
    with pytest.raises(UsageError, match=f"^{name}: belongs to the image"):
        check_run_limits(image, changed)


def test_other_limits_may_change_for_one_run() -> None:
    """PTC-117 everything else."""
    check_run_limits(Limits(), Limits(timeout=1, max_calls=2, max_output_bytes=4, max_message_bytes=256))
