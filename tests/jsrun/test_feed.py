"""Feed: which recorded answer goes out when, driven without any program."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from jsrun._feed import Beat, Differs, Exhausted, Feed, Give, GiveBlank, Step
from jsrun.canonical import input_hash
from jsrun.journal import EntryRow, State
from jsrun.replay import Made


def row(seq: int, answered: int | None = None, state: State = "ok", attempt: int = 1) -> EntryRow:
    """A recorded call of `recall`, whose ref tells it from others."""
    return EntryRow("R", attempt, seq, "recall", str(seq), None, input_hash(None), "", state=state, answered=answered)


def made(seq: int) -> Made:
    return Made("recall", str(seq))


def call(feed: Feed, seq: int) -> list[Step]:
    feed.announce()
    return feed.call(seq, made(seq))


def given_rows(steps: list[Step]) -> list[int]:
    return [step.row.seq for step in steps if isinstance(step, Give)]


def pulsing(*rows: EntryRow) -> Feed:
    """A feed of an async program that has just begun."""
    feed = Feed(rows)
    feed.use_pulse()
    assert feed.pulse() == [Beat(again=True)]  # what the program does first may still be on its way
    return feed


def test_a_sync_program_is_answered_call_by_call() -> None:
    """JSR-100"""
    feed = Feed([row(1, 1), row(2, 2)])
    assert given_rows(call(feed, 1)) == [1]
    assert given_rows(call(feed, 2)) == [2]
    (last,) = call(feed, 3)
    assert last == Exhausted(((3, made(3), None),))
    assert feed.over


def test_an_answer_waits_for_the_one_before_it() -> None:
    """JSR-100"""
    feed = pulsing(row(1, 2), row(2, 3), row(3, 1))
    assert call(feed, 1) == []
    assert call(feed, 2) == []
    assert given_rows(call(feed, 3)) == [3, 1, 2]


def test_a_program_at_rest_that_waits_for_an_answer_that_cannot_come() -> None:
    """JSR-101 the recorded call is missing; not before the pulse has come back after the last answer."""
    feed = pulsing(row(1, 2), row(2, 1))
    assert call(feed, 1) == []
    (last,) = feed.pulse()
    assert isinstance(last, Differs)
    assert (last.difference.kind, last.difference.seq) == ("missing", 2)


def test_the_pulse_is_asked_again_after_every_answer() -> None:
    """JSR-100 and is let go when the program waits for nothing, so that it can end."""
    feed = pulsing(row(1, 1))
    assert given_rows(call(feed, 1)) == [1]
    assert feed.pulse() == [Beat(again=True)]
    assert feed.pulse() == [Beat(again=False)]


def test_nothing_is_decided_while_a_call_is_being_looked_at() -> None:
    """JSR-106 an announced call may be the one that is waited for."""
    feed = pulsing(row(1, 2), row(2, 1))
    call(feed, 1)
    feed.announce()
    assert feed.pulse() == []
    steps = feed.call(2, made(2))
    assert given_rows(steps) == [2, 1]
    assert steps[-1] == Beat(again=True)


def test_calls_are_compared_in_the_order_of_the_program() -> None:
    """JSR-101 the first difference is named, whichever call has been looked at first."""
    feed = pulsing(row(1, 1), row(2, 2))
    feed.announce()
    feed.announce()
    assert feed.call(2, Made("recall", "other")) == []
    steps: list[Any] = feed.call(1, Made("recall", "another"))
    assert steps[-1].difference.seq == 1


def test_numbers_without_a_row_are_those_of_blank_statuses() -> None:
    """JSR-100"""
    feed = pulsing(row(1, 2), row(2, 4))
    assert feed.blank() == [GiveBlank()]
    assert given_rows(call(feed, 1)) == [1]
    assert call(feed, 2) == []
    assert feed.blank() == [GiveBlank(), Give(row(2, 4))]
    assert feed.number == 5


def test_a_lost_number_is_skipped_when_the_program_rests() -> None:
    """JSR-102 an answer that did not get into the journal; also one so far away that counting would take for ever."""
    feed = pulsing(row(1, None, "open"), row(2, 10**15))
    call(feed, 1)
    call(feed, 2)
    assert feed.pulse() == [Give(row(2, 10**15)), Beat(again=True)]
    (last,) = feed.pulse()
    assert isinstance(last, Exhausted)
    assert [seq for seq, _made, _row in last.waiting] == [1]


def test_a_blank_status_that_was_not_recorded_is_answered_at_rest() -> None:
    """JSR-101 it is no difference."""
    feed = pulsing(row(1, 1))
    assert feed.blank() == []
    assert feed.pulse() == [GiveBlank(), Beat(again=True)]
    assert given_rows(call(feed, 1)) == [1]


def test_an_answer_with_an_odd_number_is_given_all_the_same() -> None:
    """JSR-102 what is answered is never asked again, whatever a journal says of when."""
    feed = pulsing(row(1, 1), row(2, 1), row(3, None))
    assert given_rows(call(feed, 1)) == [1]
    assert given_rows(call(feed, 2)) == [2]
    assert given_rows(call(feed, 3)) == [3]


def test_a_program_that_has_ended_leaves_calls_over() -> None:
    """JSR-101"""
    feed = Feed([row(1, 1), row(2, 2), row(3, 3)])
    call(feed, 1)
    left = feed.left_over()
    assert left is not None
    assert (left.kind, left.seq) == ("missing", 2)
    call(feed, 2)
    call(feed, 3)
    assert feed.left_over() is None


@given(st.permutations(range(1, 9)), st.permutations(range(1, 9)), st.integers(0, 8), st.booleans())
def test_answers_come_in_their_order_whatever_the_calls_do(
    numbers: list[int], looked_at: list[int], cut: int, is_late: bool
) -> None:
    """JSR-100 JSR-102 each answer once, in the order of the numbers; the rest is told when all have been given."""
    rows = [
        row(seq, number if number > cut else None, "ok" if number > cut else "open")
        for seq, number in enumerate(numbers, 1)
    ]
    feed = pulsing(*rows)
    for _ in rows:
        feed.announce()
    steps: list[Step] = []
    if is_late:
        assert feed.pulse() == []  # it comes back while the calls are still being looked at
    for seq in looked_at:
        steps += feed.call(seq, made(seq))
    for _ in range(20):
        if feed.over or any(isinstance(step, Beat) and not step.again for step in steps):
            break
        steps += feed.pulse()
    wanted = [item.seq for item in sorted(rows, key=lambda item: item.answered or 0) if item.state == "ok"]
    assert given_rows(steps) == wanted
    if cut:
        last = steps[-1]
        assert isinstance(last, Exhausted)
        assert [seq for seq, _made, _row in last.waiting] == [item.seq for item in rows if item.state == "open"]
    else:
        assert steps[-1] == Beat(again=False)
