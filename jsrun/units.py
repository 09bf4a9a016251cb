"""Units: durations in nanoseconds and sizes in bytes, as a manifest writes them."""

import re
from decimal import Decimal, localcontext

NANOSECOND = 1
SECOND = 1_000_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE

_DURATION_UNITS = {
    "h": HOUR,
    "m": MINUTE,
    "s": SECOND,
    "ms": 1_000_000,
    "us": 1_000,
    "ns": NANOSECOND,
}
_SIZE_UNITS = {
    "KiB": 1024,
    "MiB": 1024**2,
    "GiB": 1024**3,
    "kB": 1000,
    "MB": 1000**2,
    "GB": 1000**3,
}
# Nineteen digits hold every 64-bit number; more are a mistake, and slow to read.
_NUMBER = r"(\d{1,19}(?:\.\d{1,19})?)"
# "ms" before "m": the first unit that fits is taken.
_PART = re.compile(rf"{_NUMBER}(ms|us|ns|h|m|s)", re.ASCII)
_SIZE = re.compile(rf"{_NUMBER}(KiB|MiB|GiB|kB|MB|GB)", re.ASCII)
# What a signed 64-bit number holds: about 292 years, or 8 EiB.
MOST = 2**63 - 1


def parse_duration(value: object) -> int | None:
    """Nanoseconds, or None if `value` is no duration.

    A duration is a whole number of nanoseconds, or text such as "1h30m" or "2.5s": decimals with units
    `h m s ms us ns`, each unit once, joined without blanks, in all a whole number of nanoseconds. A whole number may be
    negative; it is for the caller to refuse it.
    """
    if not isinstance(value, str):
        return _whole(value)
    parts = [match.groups() for match in _PART.finditer(value)]
    units = [unit for _, unit in parts]
    if "".join(number + unit for number, unit in parts) != value or not parts or len(set(units)) != len(units):
        return None
    return _total([(number, _DURATION_UNITS[unit]) for number, unit in parts])


def parse_size(value: object) -> int | None:
    """Bytes, or None if `value` is no size: a whole number, or a decimal with one of `KiB MiB GiB kB MB GB`."""
    if not isinstance(value, str):
        return _whole(value)
    match = _SIZE.fullmatch(value)
    return _total([(match[1], _SIZE_UNITS[match[2]])]) if match else None


def parse_whole(value: object) -> int | None:
    """A whole number (`5`, `5.0`, `5e3`; not `true`), or None."""
    return _whole(value)


def duration_text(nanoseconds: int) -> str:
    """A duration as text that `parse_duration` reads back: 5_400_000_000_000 is "1h30m"."""
    if nanoseconds <= 0:
        return f"{nanoseconds}ns"
    text = ""
    for unit, size in _DURATION_UNITS.items():
        count, nanoseconds = divmod(nanoseconds, size)
        text += f"{count}{unit}" if count else ""
    return text


def _whole(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    # JSON does not tell 5.0 from 5, so neither do we.
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and abs(value) <= MOST else None


def _total(parts: list[tuple[str, int]]) -> int | None:
    with localcontext() as context:
        context.prec = 60  # 19 digits on either side of the point, times the largest unit, fit exactly
        total = sum((Decimal(number) * size for number, size in parts), Decimal(0))
        return int(total) if total == int(total) and total <= MOST else None
