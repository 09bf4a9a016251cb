"""`Limits`: every number that bounds a run, checked when it is built.

All have defaults that end an honest mistake soon and never disturb an honest program. Sizes are bytes, times seconds.
"""

import math
from dataclasses import dataclass, fields
from typing import Final

from ptc.errors import UsageError
from ptc.outcome import Unset

__all__ = [
    "BACKLOG_FACTOR",
    "BIGINT_DIGITS",
    "CONTROL_FRAME_BYTES",
    "FAILURE_TEXT_CHARS",
    "IMAGE_LIMITS",
    "NATIVE_OUTPUT_BYTES",
    "PATH_CHARS",
    "Limits",
    "check_run_limits",
    "resolve_timeout",
]

KIB: Final = 1024
MIB: Final = 1024 * KIB

BACKLOG_FACTOR: Final = 4
"""Replies that wait unsent may fill this many frames of the largest size: room for a burst, still a bound."""

NATIVE_OUTPUT_BYTES: Final = 64 * KIB
"""What is kept of text an engine prints past us: enough for any crash report."""

FAILURE_TEXT_CHARS: Final = 4096
"""The longest message of a failed call: an error is to be read, data belongs into results."""

PATH_CHARS: Final = 200
"""The longest path in a refusal; above it the middle goes, since both ends tell where one is."""

CONTROL_FRAME_BYTES: Final = 16 * MIB
"""The cap of a control frame: a program of the largest size with every character escaped, and its namespaces."""

BIGINT_DIGITS: Final = 4300
"""The most digits of a BigInt: what Python converts at its default setting, and still cheap at quadratic cost."""

IMAGE_LIMITS: Final = ("cpu", "memory", "stack", "max_source_bytes")
"""The fields that are built into an image's processes, so that a single run cannot change them."""

_MAX_SECONDS: Final = 2**31 - 1
"""What the timers of every platform can hold; 68 years."""

_MAX_COUNT: Final = 2**53 - 1
"""The largest integer that crosses to JavaScript exactly."""

_MAX_FRAME_BYTES: Final = 2**32 - 1
"""What the 4-byte length of a frame can say."""

_SECONDS: Final = frozenset({"timeout", "max_timeout", "cpu", "start_timeout", "load_timeout", "cancel_grace"})

_BOUNDS: Final[dict[str, tuple[int, int]]] = {
    # 4 bytes hold the smallest outcome there is: no entries and an empty message.
    "max_output_bytes": (4, _MAX_COUNT),
    # 256 bytes hold a call or a failed reply with a short text.
    "max_message_bytes": (256, _MAX_FRAME_BYTES),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The bounds of a run. A bad value is a `UsageError` that names its field.

    `cpu`, `memory`, `stack` and `max_source_bytes` belong to an image; the others may differ from run to run.
    """

    timeout: float | None = 120.0
    """Wall time from boot; None asks for no deadline. Room for a few dozen model calls."""
    max_timeout: float = 600.0
    """The largest `timeout` anyone may ask for."""
    cpu: float = 10.0
    """CPU time of the run. Orchestration needs milliseconds, so this stops loops without a second thought."""
    memory: int = 128 * MIB
    """Growth of the process after its start. Sampled, so it may be passed for about 5 ms."""
    stack: int = 1 * MIB
    """Stack of the engine; beyond it the program sees a RangeError."""
    max_source_bytes: int = 1 * MIB
    """UTF-8 size of a program: room for a bundled library, small enough to parse at once."""
    max_output_bytes: int = 8 * MIB
    """Log entries plus value or message, measured as JSON."""
    max_log_entries: int = 100_000
    """Number of entries: a small one costs the host far more than its bytes."""
    max_log_chars: int = 65_536
    """One entry; the guest cuts what is longer."""
    max_message_bytes: int = 16 * MIB
    """One frame, and the frames of all unfinished calls together."""
    max_value_tokens: int = 1_000_000
    """Tokens of one value: a structure that doubles ends here."""
    max_calls: int = 1_000
    """Calls in a run."""
    max_pending_calls: int = 128
    """Calls unfinished at once; more wait inside the run."""
    start_timeout: float = 10.0
    """From asking for a process to its `ready`."""
    load_timeout: float = 10.0
    """Compiling a program."""
    cancel_grace: float = 5.0
    """How long cancelled host functions are waited for."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value: object = getattr(self, field.name)
            if field.name == "timeout" and value is None:
                continue
            if field.name in _SECONDS:
                _check_seconds(field.name, value)
            else:
                _check_count(field.name, value)
        if self.timeout is not None and self.timeout > self.max_timeout:
            raise UsageError(f"timeout: {self.timeout} is above max_timeout ({self.max_timeout} seconds)")


def _check_seconds(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise UsageError(f"{name}: a number of seconds is needed, not {value!r:.100}")
    # Comparisons between int and float are exact in Python, so a huge int is refused and never converted.
    if not 0 < value <= _MAX_SECONDS:
        state = "not finite" if isinstance(value, float) and not math.isfinite(value) else "out of range"
        raise UsageError(f"{name}: {state}; a number of seconds above 0 and up to {_MAX_SECONDS} is needed")


def _check_count(name: str, value: object) -> None:
    low, high = _BOUNDS.get(name, (1, _MAX_COUNT))
    if isinstance(value, bool) or not isinstance(value, int):
        raise UsageError(f"{name}: a whole number is needed, not {value!r:.100}")
    if not low <= value <= high:
        raise UsageError(f"{name}: out of range; a whole number from {low} to {high} is needed")


def check_run_limits(image: Limits, run: Limits) -> None:
    """Refuse `run` (`UsageError`) if it changes a limit that the processes of an image with `image` already have."""
    for name in IMAGE_LIMITS:
        if getattr(image, name) != getattr(run, name):
            raise UsageError(
                f"{name}: belongs to the image and cannot be changed for one run; load the program with it"
            )


def resolve_timeout(timeout: float | Unset | None, limits: Limits) -> float | None:
    """The deadline of a run in seconds, None for none. Unset gives the default; above `max_timeout` is misuse."""
    if isinstance(timeout, Unset):
        return limits.timeout
    if timeout is None:
        return None
    _check_seconds("timeout", timeout)
    if timeout > limits.max_timeout:
        raise UsageError(f"timeout: {timeout} is above max_timeout ({limits.max_timeout} seconds)")
    return float(timeout)
