"""Feed: which recorded answer goes out when. No input or output of its own.

Answers are given in the order in which they were given when the run was recorded, whatever the order of the calls, so
that a program that races its calls takes the same way again. An answer therefore may have to wait for one whose call
has not been made yet, and never will be if the program is another one. To tell the two apart, one has to know when the
program is at rest: it has taken every answer and made every call that follows from them.

A sync program rests with each call it makes. An async one has a pulse: a call made by the guest half of the doors,
again and again. What the program sends comes in order, and it takes one answer at a time to its end; so when the pulse
comes back after the last answer that was given, everything that follows from that answer has been seen.

A blank status is answered, and takes a number, but has no row: numbers without a row are those of blank statuses, or of
answers that did not get into the journal any more.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from jsrun.journal import EntryRow
from jsrun.replay import Difference, Made, compare, missing

__all__ = ["Beat", "Differs", "Exhausted", "Feed", "Give", "GiveBlank", "Step"]


@dataclass(frozen=True, slots=True)
class Give:
    """Answer the call that has this row's number with what the row says."""

    row: EntryRow


@dataclass(frozen=True, slots=True)
class GiveBlank:
    """Answer the blank status that has waited longest."""


@dataclass(frozen=True, slots=True)
class Beat:
    """Answer the pulse; `again` asks it to come back."""

    again: bool


@dataclass(frozen=True, slots=True)
class Differs:
    """The program takes another way than recorded."""

    difference: Difference


@dataclass(frozen=True, slots=True)
class Exhausted:
    """Every recorded call has been made and every recorded answer given, and the program waits for more.

    `waiting`: the calls it waits for, in its order, each with its row if it has one. The feed is done.
    """

    waiting: tuple[tuple[int, Made, EntryRow | None], ...]


Step: TypeAlias = Give | GiveBlank | Beat | Differs | Exhausted

ANSWERED = ("ok", "err", "refused")


class Feed:
    """Tell it what the program does; each method returns the steps to take, in order.

    `rows` are those of a record that count. Until `use_pulse` the program is taken to rest with each call it makes.
    After `Differs` or `Exhausted` nothing more may be told.
    """

    def __init__(self, rows: Sequence[EntryRow]) -> None:
        self._rows = {row.seq: row for row in rows}
        self._by_number = _numbered(rows)
        self._numbers = sorted(self._by_number)
        self.number = 1
        """The number of the next answer."""
        self._undecided = 0
        self._made: dict[int, Made] = {}
        self._next_seq = 1  # of the next call to compare
        self._waiting: dict[int, Made] = {}  # compared, not answered
        self._blanks = 0
        self._pulses = False
        self._pulse_here = False
        self._moved = True  # since the pulse was sent on its way: more may follow
        self._over = False

    @property
    def over(self) -> bool:
        """Has it come to its end?"""
        return self._over

    def use_pulse(self) -> None:
        """From now on the program is async and has a pulse."""
        self._pulses = True

    def announce(self) -> None:
        """A call has come that is still being looked at; `call` follows."""
        self._undecided += 1

    def call(self, seq: int, made: Made) -> list[Step]:
        """An announced call: its number in the program's order, and what it is."""
        self._undecided -= 1
        self._made[seq] = made
        return self._go_on()

    def blank(self) -> list[Step]:
        """A blank status has come, which waits to be answered."""
        self._blanks += 1
        return self._go_on()

    def pulse(self) -> list[Step]:
        """The pulse has come."""
        self._pulse_here = True
        return self._go_on()

    def left_over(self) -> Difference | None:
        """The first recorded call that has not been made, if there is one; for a program that has ended."""
        seq = min((seq for seq in self._rows if seq >= self._next_seq), default=None)
        return None if seq is None else missing(self._rows[seq])

    # --- what follows ---

    def _go_on(self) -> list[Step]:
        steps: list[Step] = []
        difference = self._compare()
        if difference is not None:
            return self._end(steps, Differs(difference))
        self._give(steps)
        if self._undecided:
            return steps
        if not self._pulses:
            # It made a call that is not answered, so it rests. Giving what it waits for wakes it up.
            while (self._waiting or self._blanks) and not self._over:
                self._rest(steps)
        elif self._pulse_here:
            while self._pulse_here and not self._moved and not self._over:
                self._rest(steps)
            if self._pulse_here and not self._over:
                self._beat(steps, again=True)
        return steps

    def _compare(self) -> Difference | None:
        """Compare calls in the order of the program, as far as they are known."""
        while (made := self._made.pop(self._next_seq, None)) is not None:
            row = self._rows.get(self._next_seq)
            difference = None if row is None else compare(row, made)
            if difference is not None:
                return difference
            self._waiting[self._next_seq] = made
            self._next_seq += 1
        return None

    def _give(self, steps: list[Step]) -> None:
        """Give the answers whose turn it is."""
        while True:
            row = self._by_number.get(self.number)
            if row is not None and row.seq in self._waiting:
                del self._waiting[row.seq]
                steps.append(Give(row))
            elif row is None and self._blanks:
                self._blanks -= 1
                steps.append(GiveBlank())
            else:
                return
            self.number += 1
            self._moved = True

    def _rest(self, steps: list[Step]) -> None:
        """The program is at rest and has not been given anything: why, and what now?"""
        if not self._waiting and not self._blanks:
            self._beat(steps, again=False)  # it waits for nothing, so it ends
        elif (number := self._number_after_gap()) is not None:
            self.number = number  # skip answers that got lost, or blank statuses that are not shown any more
            self._give(steps)
        elif self._blanks:
            self._blanks -= 1  # one that it did not show then
            self._moved = True
            steps.append(GiveBlank())
        elif (lost := self.left_over()) is not None:
            self._end(steps, Differs(lost))
        else:
            waiting = tuple((seq, made, self._rows.get(seq)) for seq, made in sorted(self._waiting.items()))
            self._end(steps, Exhausted(waiting))

    def _number_after_gap(self) -> int | None:
        """The next number that has a row, if there is none for the number whose turn it is."""
        if self.number in self._by_number:
            return None
        at = bisect_left(self._numbers, self.number)
        return self._numbers[at] if at < len(self._numbers) else None

    def _beat(self, steps: list[Step], again: bool) -> None:
        self._pulse_here = False
        self._moved = False
        steps.append(Beat(again))

    def _end(self, steps: list[Step], last: Step) -> list[Step]:
        self._over = True
        steps.append(last)
        return steps


def _numbered(rows: Sequence[EntryRow]) -> dict[int, EntryRow]:
    """The rows with an answer by the number of it. A number that is missing or taken, which no journal of ours has, is
    replaced by one behind all others: an answer that is known must not be asked for again."""
    answered = [row for row in rows if row.state in ANSWERED]
    numbered: dict[int, EntryRow] = {}
    odd = []
    for row in answered:
        if row.answered is None or row.answered in numbered:
            odd.append(row)
        else:
            numbered[row.answered] = row
    last = max(numbered, default=0)
    return numbered | {last + place: row for place, row in enumerate(odd, start=1)}
