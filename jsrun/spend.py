"""Spend: what model calls cost, and how the figures of many calls add up to a ledger."""

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields

_COUNTS = ("calls", "input", "output", "cache_read", "cache_write")
# Prices are given per million tokens, so no real cost has more digits; rounding sums to this keeps the order in which
# parallel calls are added from showing in the last bit of the ledger.
_COST_DIGITS = 12


@dataclass(frozen=True, slots=True)
class Spend:
    """Tokens and cost of one call or of many.

    `calls` model calls, `input`, `output`, `cache_read`, `cache_write` tokens, `cost_usd` US dollars. `model` is the
    model's name, empty if unknown or if several took part (`mixed`). Raises ValueError, naming the field, for figures
    that are negative, not finite or, for counts, not whole.
    """

    model: str = ""
    calls: int = 0
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cost_usd: float = 0.0
    mixed: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.model, str):
            raise ValueError(f"spend model must be a text, got {self.model!r}")
        if not isinstance(self.mixed, bool):
            raise ValueError(f"spend mixed must be true or false, got {self.mixed!r}")
        if self.mixed and self.model:
            raise ValueError("spend model must be empty when mixed is true")
        for name in _COUNTS:
            value: object = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                raise ValueError(f"spend {name} must be a whole number, 0 or more, got {value!r}")
        _check_cost(self.cost_usd)

    @property
    def tokens(self) -> int:
        """What the token ceiling counts: input plus output, without cache traffic."""
        return self.input + self.output

    def reported(self) -> bool:
        """Is any figure but `calls` non-zero?"""
        return bool(self.input or self.output or self.cache_read or self.cache_write or self.cost_usd)

    def __add__(self, other: "Spend") -> "Spend":
        if not isinstance(other, Spend):
            return NotImplemented
        mixed = self.mixed or other.mixed or bool(self.model and other.model and self.model != other.model)
        return Spend(
            model="" if mixed else self.model or other.model,
            calls=self.calls + other.calls,
            input=self.input + other.input,
            output=self.output + other.output,
            cache_read=self.cache_read + other.cache_read,
            cache_write=self.cache_write + other.cache_write,
            cost_usd=min(round(self.cost_usd + other.cost_usd, _COST_DIGITS), sys.float_info.max),
            mixed=mixed,
        )

    def to_json(self) -> dict[str, str | int | float | bool]:
        """Every field under its name."""
        return {name: getattr(self, name) for name in _ORDER}

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> "Spend":
        """The inverse of `to_json`; absent keys mean zero. ValueError for an unknown key or a bad figure."""
        unknown = sorted(set(data) - _NAMES)
        if unknown:
            raise ValueError(f"spend has no field {unknown[0]!r}")
        return cls(**data)  # type: ignore[arg-type]  # every field is checked by the constructor


_ORDER = tuple(field.name for field in fields(Spend))
_NAMES = frozenset(_ORDER)


def _check_cost(value: object) -> None:
    good = isinstance(value, int | float) and not isinstance(value, bool)
    try:
        good = good and math.isfinite(value) and value >= 0  # type: ignore[arg-type, operator]
    except OverflowError:  # an int beyond the range of a float
        good = False
    if not good:
        raise ValueError(f"spend cost_usd must be a finite number, 0 or more, got {value!r}")
