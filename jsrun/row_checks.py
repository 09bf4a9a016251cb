"""Rows read back from a file are untrusted: every column is checked before a row is believed.

Each check takes what the database gave and returns it with its real type, or raises ValueError with the end of a
sentence that starts with the column's name.
"""

import math
import re
from collections.abc import Mapping
from typing import TypeVar

from jsrun._text import quoted
from jsrun.canonical import parse_json
from jsrun.journal import CALLS, STATES, EntryRow, RunRow
from jsrun.spend import Spend

T = TypeVar("T", bound=str)

STATUSES = ("finished", "fell_back", "incomplete")
FORMS = ("sync", "async")

_HASH = re.compile(r"[0-9a-f]{64}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)


def run_row(columns: Mapping[str, object]) -> RunRow:
    """A checked run row; ValueError names the first bad column."""
    read = _Columns(columns)
    return RunRow(
        run_id=read.text("run_id"),
        name=read.text("name"),
        bundle_hash=read.text("bundle_hash"),
        program_hash=read.text("program_hash"),
        engine=read.text("engine"),
        form=read.one_of("form", FORMS),
        input=read.json("input"),
        started_at=read.time("started_at"),
        clock_ms=read.whole("clock_ms"),
        seed=read.text("seed"),
        fuel=read.json("fuel"),
        owner=read.text("owner"),
        attempt=read.whole("attempt", least=1),
        parent_run_id=read.text("parent_run_id") if read.given("parent_run_id") else None,
        status=read.one_of("status", STATUSES) if read.given("status") else None,
        reason=read.text("reason") if read.given("reason") else None,
        result=read.json("result") if read.given("result") else None,
        ended_at=read.time("ended_at") if read.given("ended_at") else None,
    )


def entry_row(columns: Mapping[str, object]) -> EntryRow:
    """A checked entry row; ValueError names the first bad column."""
    read = _Columns(columns)
    return EntryRow(
        run_id=read.text("run_id"),
        attempt=read.whole("attempt", least=1),
        seq=read.whole("seq", least=1),
        call=read.one_of("call", CALLS),
        ref=read.text("ref"),
        input=read.json("input") if read.given("input") else None,
        input_hash=read.hash("input_hash"),
        at=read.time("at"),
        step=read.whole("step", least=0),
        state=read.one_of("state", STATES),
        answered=read.whole("answered", least=1) if read.given("answered") else None,
        clock_ms=read.whole("clock_ms") if read.given("clock_ms") else None,
        output=read.json("output") if read.given("output") else None,
        err=read.text("err") if read.given("err") else None,
        note=read.text("note") if read.given("note") else None,
        spend=read.spend("spend") if read.given("spend") else None,
        elapsed_ms=read.real("elapsed_ms") if read.given("elapsed_ms") else None,
    )


class _Columns:
    """Reads one row's columns, each by the check its meaning asks for."""

    def __init__(self, columns: Mapping[str, object]) -> None:
        self._columns = columns

    def given(self, name: str) -> bool:
        return self._columns[name] is not None

    def text(self, name: str) -> str:
        value = self._columns[name]
        if not isinstance(value, str):
            raise ValueError(f'"{name}" must be text')
        return value

    def whole(self, name: str, *, least: int | None = None) -> int:
        value = self._columns[name]
        if not isinstance(value, int) or isinstance(value, bool) or (least is not None and value < least):
            raise ValueError(f'"{name}" must be a whole number' + ("" if least is None else f", {least} or more"))
        return value

    def real(self, name: str) -> float:
        value = self._columns[name]
        if not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
            raise ValueError(f'"{name}" must be a number, 0 or more')
        return float(value)

    def one_of(self, name: str, choices: tuple[T, ...]) -> T:
        value = self.text(name)
        for choice in choices:
            if value == choice:
                return choice
        raise ValueError(f'"{name}" must be one of {", ".join(choices)}, got {quoted(value)}')

    def hash(self, name: str) -> str:
        value = self.text(name)
        if _HASH.fullmatch(value) is None:
            raise ValueError(f'"{name}" must be 64 hexadecimal digits, got {quoted(value)}')
        return value

    def time(self, name: str) -> str:
        value = self.text(name)
        if _TIME.fullmatch(value) is None:
            raise ValueError(f'"{name}" must be a time such as 2026-01-31T12:00:00Z, got {quoted(value)}')
        return value

    def json(self, name: str) -> str:
        value = self.text(name)
        if not value.isascii() or "\n" in value or "\r" in value:
            raise ValueError(f'"{name}" must be JSON in ASCII on one line')
        self._parsed(name, value)
        return value

    def spend(self, name: str) -> Spend:
        value = self._parsed(name, self.text(name))
        if not isinstance(value, dict):
            raise ValueError(f'"{name}" must be a JSON object')
        try:
            return Spend.from_json(value)
        except ValueError as error:
            raise ValueError(f'"{name}" is not a spend: {error}') from None

    @staticmethod
    def _parsed(name: str, text: str) -> object:
        try:
            return parse_json(text)
        except ValueError as error:
            raise ValueError(f'"{name}" {error}') from None
