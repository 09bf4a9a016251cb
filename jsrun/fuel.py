"""Fuel: what a run may use, and how the layers that speak about it are put together."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields

MIB = 1024 * 1024

_COUNTS = ("steps", "tokens", "memory", "output")
_SECONDS = ("wall", "compute")


def _check_count(name: str, value: object) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"fuel {name} must be a whole number, got {value!r}")
    if value <= 0:
        raise ValueError(f"fuel {name} must be greater than 0, got {value!r}")


def _check_seconds(name: str, value: object) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"fuel {name} must be a number of seconds, got {value!r}")
    try:
        finite = math.isfinite(value)
    except OverflowError:  # an int beyond the range of a float
        finite = False
    if not finite:
        raise ValueError(f"fuel {name} must be a finite number of seconds")
    if value <= 0:
        raise ValueError(f"fuel {name} must be greater than 0, got {value!r}")


@dataclass(frozen=True, slots=True)
class Fuel:
    """Limits of one run; None means "not set here", so that another layer decides.

    `steps` door calls, `tokens` input plus output, `wall` and `compute` seconds, `memory` and `output` bytes.
    Raises ValueError, naming the field, for zero, negative numbers, NaN, infinity, booleans, and fractions of a count.
    """

    steps: int | None = None
    tokens: int | None = None
    wall: float | None = None
    compute: float | None = None
    memory: int | None = None
    output: int | None = None

    def __post_init__(self) -> None:
        for name in _COUNTS:
            _check_count(name, getattr(self, name))
        for name in _SECONDS:
            _check_seconds(name, getattr(self, name))

    def to_json(self) -> dict[str, int | float | None]:
        """Every field under its name, null where it is not set."""
        return asdict(self)


# Nobody has to configure anything to be safe: an orchestrating program needs milliseconds of compute and a few MiB,
# and 500 door calls are far more than a job that fits one program makes. Tokens have no natural default, and the wall
# follows from the manifest's deadline (see `resolve`).
DEFAULT = Fuel(steps=500, compute=10.0, memory=128 * MIB, output=MIB)

# The most a manifest, which is text from somebody else, may grant itself.
CEILING = Fuel(steps=10_000, wall=24 * 3600.0, compute=3600.0, memory=2048 * MIB, output=16 * MIB)


def merge(*layers: Fuel | None) -> Fuel:
    """Field by field the first layer that sets it; None layers are passed over."""
    present = [layer for layer in layers if layer is not None]
    chosen = {}
    for name in _NAMES:
        values = (getattr(layer, name) for layer in present)
        chosen[name] = next((value for value in values if value is not None), None)
    return Fuel(**chosen)


def exceeding(fuel: Fuel, ceiling: Fuel = CEILING) -> tuple[str, ...]:
    """The names of the fields of `fuel` that are above `ceiling`, in field order."""
    return tuple(name for name in _NAMES if _above(getattr(fuel, name), getattr(ceiling, name)))


def clamp(fuel: Fuel, ceiling: Fuel = CEILING) -> Fuel:
    """`fuel` with every field above `ceiling` lowered to it; what is not set stays not set."""
    lowered = {name: getattr(ceiling, name) for name in exceeding(fuel, ceiling)}
    return merge(Fuel(**lowered), fuel)


def resolve(
    run: Fuel | None,
    bundle: Fuel | None,
    manifest: Fuel | None,
    deadline: Callable[[int], float],
    ceiling: Fuel = CEILING,
) -> Fuel:
    """The fuel of one run: run argument over bundle over manifest over default, field by field.

    `deadline` gives the manifest's wall in seconds for a token budget (0 = none). What the host states itself (`run`,
    `bundle`) is not clamped; what comes from the manifest or by default is, and a field only the ceiling bounds takes
    the ceiling. Every field but `tokens` is set in the answer, unless a host ceiling leaves a field open on purpose.
    """
    host = merge(run, bundle)
    stated = clamp(manifest or Fuel(), ceiling)
    tokens = merge(host, stated, ceiling).tokens
    by_deadline = Fuel(wall=deadline(tokens or 0))
    return merge(host, stated, clamp(merge(by_deadline, DEFAULT), ceiling), ceiling)


_NAMES = tuple(field.name for field in fields(Fuel))


def _above(value: float | None, bound: float | None) -> bool:
    return value is not None and bound is not None and value > bound
