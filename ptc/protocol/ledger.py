"""What a run may say: log entries, then a value or an error, counted as the guest counts them.

The sum begins with 2. An entry costs the size of its text as a JSON string, and 1 more after the first. The value costs
its compact JSON, an error the sizes of message and stack. Sizes are bytes of UTF-8. `max_output_bytes` bounds the sum.
"""

from dataclasses import dataclass, replace
from typing import Final

from ptc.limits import Limits
from ptc.outcome import LogEntry
from ptc.wire import Json, json_size, prefix_within, string_size

__all__ = ["Closing", "Ledger"]

_BEGIN: Final = 2


@dataclass(frozen=True, slots=True)
class Closing:
    """What a failed run keeps: its message and entries, `lost` entries missing, `cut` characters of message missing."""

    message: str
    logs: tuple[LogEntry, ...]
    lost: int
    cut: int


class Ledger:
    """Counts one run's output. Entries are taken in order; the end is asked for once."""

    __slots__ = ("_entries", "_limit", "_most", "_used")

    def __init__(self, limits: Limits) -> None:
        self._limit = limits.max_output_bytes
        self._most = limits.max_log_entries
        self._used = _BEGIN
        self._entries: list[LogEntry] = []

    @property
    def logs(self) -> tuple[LogEntry, ...]:
        """The entries taken so far."""
        return tuple(self._entries)

    @property
    def used(self) -> int:
        """Bytes counted so far."""
        return self._used

    def add(self, entry: LogEntry) -> str | None:
        """Take an entry. If it does not fit nothing is taken, and what it would exceed is the answer."""
        if len(self._entries) >= self._most:
            return f"more than {self._most} log entries"
        size = string_size(entry.text) + (1 if self._entries else 0)
        if not self._fits(size):
            return self.excess
        self._used += size
        self._entries.append(entry)
        return None

    @property
    def excess(self) -> str:
        """The fixed text of an output that is too long."""
        return f"output exceeds {self._limit} bytes"

    def fits_value(self, value: Json) -> bool:
        """Whether the value fits beside the entries."""
        return self._fits(json_size(value))

    def fits_error(self, message: str, stack: str | None = None) -> bool:
        """Whether an error's message, and its stack if there is one, fit beside the entries."""
        return self._fits(string_size(message) + (string_size(stack) if stack is not None else 0))

    def close(self, message: str, following: LogEntry | None = None, details: str = "") -> Closing:
        """The end of a run that failed: everything that fits.

        The message comes first, cut if it must be; then whole entries in order, `following` (an entry that did not fit)
        last; then the longest start of the next one, with its `cut`; then as much of `details`, added to the message,
        as there is still room for.
        """
        head = message
        room = self._limit - _BEGIN
        if string_size(head) > room:
            head = prefix_within(head, room)
        room -= string_size(head)
        if following is None and self._used - _BEGIN <= room:
            kept = list(self._entries)
            room -= self._used - _BEGIN
            offered = len(kept)
        else:
            entries = self._entries if following is None else [*self._entries, following]
            offered = len(entries)
            kept, room = _fitting(entries[: self._most], room)
        if details and head == message and len(kept) == offered:
            head += prefix_within(details, room + 2)
        return Closing(head, tuple(kept), offered - len(kept), len(message) + len(details) - len(head))

    def _fits(self, size: int) -> bool:
        return self._used + size <= self._limit


def _fitting(entries: list[LogEntry], room: int) -> tuple[list[LogEntry], int]:
    """The entries that fit `room` bytes, the last one cut if it must be, and the room that is left."""
    kept: list[LogEntry] = []
    for entry in entries:
        comma = 1 if kept else 0
        size = string_size(entry.text) + comma
        if size > room:
            start = prefix_within(entry.text, room - comma)
            if start:
                room -= string_size(start) + comma
                kept.append(replace(entry, text=start, cut=entry.cut + len(entry.text) - len(start)))
            break
        room -= size
        kept.append(entry)
    return kept, room
