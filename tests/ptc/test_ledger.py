"""The arithmetic of a run's output."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptc.limits import Limits
from ptc.outcome import LogEntry
from ptc.protocol.ledger import Closing, Ledger
from ptc.wire import prefix_within, string_size

TEXTS = ["", "a", "é", "😀", '"', "\\", "\n", "\x01", "\ud800", "aé😀\n\x7f"]
SIZES = [2, 3, 4, 6, 4, 4, 4, 8, 8, 12]
SIZED = list(zip(TEXTS, SIZES, strict=True))


def ledger(limit: int, *texts: str, **more: int) -> Ledger:
    made = Ledger(Limits(max_output_bytes=limit, **more))
    for text in texts:
        assert made.add(LogEntry(text)) is None
    return made


def measured(logs: tuple[LogEntry, ...], message: str) -> int:
    """The size of an outcome, by the definition: compact JSON of the entries, then the message."""
    return 2 + sum(string_size(entry.text) for entry in logs) + max(len(logs) - 1, 0) + string_size(message)


@pytest.mark.parametrize(("text", "size"), SIZED, ids=ascii)
def test_an_entry_fits_on_the_exact_byte(text: str, size: int) -> None:
    """PTC-111 one entry at its limit and one byte below."""
    assert ledger(max(2 + size, 4), text).used == 2 + size
    if size > 2:
        assert Ledger(Limits(max_output_bytes=1 + size)).add(LogEntry(text)) == f"output exceeds {1 + size} bytes"


@pytest.mark.parametrize(("text", "size"), SIZED, ids=ascii)
def test_later_entries_cost_one_byte_more(text: str, size: int) -> None:
    """PTC-111 the comma."""
    limit = 2 + 3 + 1 + size
    assert ledger(limit, "a", text).used == limit
    refused = ledger(limit - 1, "a")
    assert refused.add(LogEntry(text)) == f"output exceeds {limit - 1} bytes"
    assert refused.logs == (LogEntry("a"),)
    assert refused.used == 5


@pytest.mark.parametrize(
    ("value", "size"),
    [
        (None, 4),
        (12, 2),
        ("é", 4),
        ([], 2),
        ({}, 2),
        ([1, 2], 5),
        ({"a": 1, "é": None}, 17),
        (10**20, 21),
        (1e300, 6),
        (True, 4),
        (False, 5),
    ],
    ids=repr,
)
def test_a_value_fits_on_the_exact_byte(value: Any, size: int) -> None:
    """PTC-111 values beside entries."""
    assert ledger(2 + 3 + size, "a").fits_value(value)
    assert not ledger(1 + 3 + size, "a").fits_value(value)


def test_message_and_stack_fit_on_the_exact_byte() -> None:
    """PTC-111 messages and stacks, multi-byte and escaped."""
    assert ledger(4).fits_error("")
    assert not ledger(4).fits_error("a")
    assert ledger(2 + 3 + 4 + 8, "a").fits_error("é", "\x01")
    assert not ledger(2 + 3 + 4 + 7, "a").fits_error("é", "\x01")
    assert ledger(2 + 4 + 2).fits_error("é", "")
    assert not ledger(2 + 4 + 1).fits_error("é", "")


def test_the_number_of_entries_is_bounded() -> None:
    """PTC-111 too many small entries."""
    full = ledger(100, "a", "b", max_log_entries=2)
    assert full.add(LogEntry("")) == "more than 2 log entries"
    end = full.close("more than 2 log entries", LogEntry("c"))
    assert end == Closing("more than 2 log entries", (LogEntry("a"), LogEntry("b")), 1, 0)


@pytest.mark.parametrize("limit", [4, 8, 40, 80])
@given(
    st.lists(st.text(st.sampled_from('aé😀\n\x01"\ud800'), max_size=12), max_size=8),
    st.sampled_from(["", "m", "output exceeds 40 bytes", "é" * 30]),
    st.sampled_from(["", "; it printed: xyz é"]),
)
def test_a_closing_keeps_all_that_fits_and_never_more(limit: int, texts: list[str], message: str, details: str) -> None:
    """PTC-111 tiny limits: message first, whole entries, the longest start of the next, then details."""
    made = Ledger(Limits(max_output_bytes=limit))
    following: LogEntry | None = None
    for text in texts:
        if made.add(LogEntry(text, "warn", 5)) is not None:
            following = LogEntry(text, "warn", 5)
            break
    offered = [*made.logs, following] if following is not None else list(made.logs)
    end = made.close(message, following, details)

    assert measured(end.logs, end.message) <= limit
    fixed = prefix_within(message, limit - 2)
    assert end.message.startswith(fixed)
    assert (message + details).startswith(end.message)
    assert end.cut == len(message + details) - len(end.message)
    assert end.lost == len(offered) - len(end.logs)

    *whole, last = [*end.logs, None]
    if end.logs and end.logs[-1] != offered[len(end.logs) - 1]:
        *whole, last = end.logs
    assert list(whole) == offered[: len(whole)]
    if last is not None:
        source = offered[len(whole)]
        assert last.text == prefix_within(source.text, string_size(last.text))
        assert last.cut == 5 + len(source.text) - len(last.text)
        assert last.level == "warn"
    if len(whole) < len(offered):  # nothing more would have fitted
        source = offered[len(whole)]
        longer = source.text[: len(last.text if last is not None else "") + 1]
        more = (*whole, LogEntry(longer))
        assert measured(more, fixed) > limit


def test_details_come_last_and_only_as_far_as_they_fit() -> None:
    """PTC-111 what a process printed never costs an entry."""
    assert ledger(40, "a").close("gone", details="; it printed: x").message == "gone; it printed: x"
    end = ledger(16, "a").close("gone", details="; it printed: x")
    assert end == Closing("gone; it ", (LogEntry("a"),), 0, 10)
    assert measured(end.logs, end.message) == 16
    full = ledger(11, "abcdefg")
    assert full.close("", details="x") == Closing("", (LogEntry("abcdefg"[:5], cut=2),), 0, 1)


def test_many_entries_are_closed_without_measuring_them_again() -> None:
    """PTC-113 a full ledger keeps its entries as they are."""
    made = ledger(8 << 20, *["x"] * 100_000)
    end = made.close("stopped")
    assert end.logs == made.logs
    assert (end.lost, end.cut) == (0, 0)


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=20), max_size=6))
def test_the_sum_is_the_size_of_the_entries_as_one_json_array(texts: list[str]) -> None:
    """PTC-112 against Python's own JSON writer."""
    made = ledger(1 << 20, *texts)
    assert made.used == len(json.dumps(texts, ensure_ascii=False, separators=(",", ":")).encode())
