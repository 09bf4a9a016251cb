"""The timeline of a run: where calls stand on the axis, what fuel was used, and rows nobody can believe."""

import json
import math
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from jsrun.called_lines import called_lines
from jsrun.ending_hints import ending_hint
from jsrun.journal import CALLS, STATES, EntryRow, RunRecord, RunRow
from jsrun.result import REASONS, RunResult, Usage
from jsrun.spend import Spend
from jsrun.testing import bundle
from jsrun.timeline import Gauge, Timeline, timeline
from jsrun.timeline_text import BAR, gauge_text, size_text, time_text, timeline_lines
from tests.jsrun.journal_rows import entry_row, run_row

FUEL = json.dumps({"steps": 500, "tokens": 1000, "wall": 60, "compute": 10, "memory": 1024**2, "output": None})


def moment(ms: int, hour: int = 12) -> str:
    """A time, `ms` milliseconds after the full hour; the runs here start at noon."""
    return f"2026-01-31T{hour:02}:00:{ms // 1000:02}.{ms % 1000:03}Z"


def a_run(**fields: object) -> RunRow:
    """An async run that began at noon, with a limit on everything."""
    row = replace(run_row("R", started_at=moment(0)), form="async", fuel=FUEL)
    return replace(row, **fields)  # type: ignore[arg-type]


def call(seq: int, start: int, took: float | None, *, hour: int = 12, attempt: int = 1, **fields: object) -> EntryRow:
    """A call that began `start` ms after the hour and took `took` ms; None: it has no answer."""
    row = entry_row("R", seq, attempt=attempt, state="abandoned" if took is None else "ok")
    return replace(row, at=moment(start, hour), elapsed_ms=took, **fields)  # type: ignore[arg-type]


def ended(ms: int, wall_s: float | None = None, **fields: object) -> RunRow:
    """The run, which was over after `ms`; its result says what it used."""
    usage = Usage(steps=3, wall_s=ms / 1000 if wall_s is None else wall_s, compute_s=0.5, memory_bytes=1024)
    result = RunResult(status="finished", output={"a": 1}, usage=usage, report="done")
    text = json.dumps(result.to_json())
    return a_run(status="finished", result=text, ended_at=moment(ms), **fields)


def of(run: RunRow, *rows: EntryRow) -> Timeline:
    """The timeline of a run with these rows."""
    return timeline(RunRecord(run, rows))


class TestAxis:
    def test_calls_stand_where_they_began(self) -> None:
        line = of(ended(1000), call(1, 100, 50.0), call(2, 200, 300.0))
        assert [(c.start_ms, c.end_ms) for c in line.calls] == [(100.0, 150.0), (200.0, 500.0)]
        assert line.span_ms == 1000.0

    def test_a_call_without_an_answer_lasts_until_the_end(self) -> None:
        line = of(ended(1000), call(1, 100, 50.0), call(2, 400, None))
        assert line.calls[1].end_ms == 1000.0
        assert not line.calls[1].answered

    def test_of_a_run_that_goes_on_the_axis_ends_with_its_last_call(self) -> None:
        line = of(a_run(), call(1, 100, 250.0), replace(call(2, 200, None), state="open"))
        assert line.span_ms == 350.0
        assert line.calls[1].end_ms == 350.0

    def test_a_start_the_caller_made_up_moves_no_call(self) -> None:
        """The clock of a run may be set to any time; its calls are recorded by the real one."""
        line = of(ended(1000, started_at="2001-01-01T00:00:00Z"), call(1, 100, 50.0), call(2, 300, 50.0))
        assert [c.start_ms for c in line.calls] == [0.0, 200.0]
        assert line.span_ms == 1000.0

    def test_a_run_without_calls_is_as_long_as_it_took(self) -> None:
        assert of(ended(1000)).span_ms == 1000.0
        assert of(ended(1000, started_at="2001-01-01T00:00:00Z")).span_ms == 1000.0
        assert of(a_run()).span_ms == 0.0

    def test_attempts_follow_each_other_without_the_pause(self) -> None:
        rows = (
            call(1, 100, 100.0),
            call(2, 200, None),
            call(2, 5000, 300.0, hour=18, attempt=2),
            call(3, 5400, 100.0, hour=18, attempt=2),
        )
        line = of(replace(ended(0), attempt=2, ended_at=moment(5500, 18)), *rows)
        first, second = line.attempts
        assert (first.start_ms, first.end_ms) == (0.0, 200.0)
        assert (second.start_ms, second.end_ms) == (200.0, 700.0)
        assert [c.start_ms for c in line.calls] == [100.0, 200.0, 200.0, 600.0]
        assert [c.superseded for c in line.calls] == [False, True, False, False]


class TestParallel:
    def test_calls_that_overlap_are_counted(self) -> None:
        line = of(ended(1000), call(1, 0, 100.0), call(2, 10, 100.0), call(3, 20, 30.0), call(4, 105, 100.0))
        assert line.parallel == 3

    def test_calls_that_touch_do_not_overlap(self) -> None:
        """Times of rows are whole milliseconds, so the end of one may seem to be after the start of the next."""
        line = of(ended(1000), call(1, 0, 100.9), call(2, 100, 50.0))
        assert line.parallel == 1

    def test_a_sync_program_makes_one_call_at_a_time(self) -> None:
        assert of(ended(1000, form="sync"), call(1, 0, 100.0), call(2, 50, 100.0)).parallel == 1
        assert of(ended(1000, form="sync")).parallel == 0


class TestGauges:
    def test_used_of_limit(self) -> None:
        spend = Spend("m", 1, 100, 23)
        line = of(ended(1000), call(1, 0, 1.0, spend=spend), call(2, 0, 1.0, step=0, spend=spend))
        used = {gauge.name: (gauge.used, gauge.limit) for gauge in line.gauges}
        assert used == {
            "steps": (1.0, 500.0),
            "tokens": (246.0, 1000.0),
            "wall": (1.0, 60.0),
            "compute": (0.5, 10.0),
            "memory": (1024.0, 1024.0**2),
        }

    def test_a_call_made_again_uses_one_step_but_its_tokens_stay_spent(self) -> None:
        spend = Spend("m", 1, 100, 0)
        line = of(ended(1000), call(1, 0, None, spend=spend), call(1, 0, 1.0, attempt=2, spend=spend))
        assert [gauge.used for gauge in line.gauges[:2]] == [1.0, 200.0]

    def test_what_is_not_known_is_said(self) -> None:
        assert gauge_text(Gauge("wall", None, 60.0)) == "not measured, limit 1 minute"
        assert gauge_text(Gauge("memory", None, None)) == "not measured"
        assert gauge_text(Gauge("tokens", 1234.0, None)) == "1,234, no limit"
        assert gauge_text(Gauge("steps", 3.0, 500.0)) == "3 of 500"
        assert Gauge("steps", 3.0, 0.0).share is None


class TestUntrusted:
    def test_a_result_that_is_none_leaves_the_rest(self) -> None:
        for text in ("[]", "null", '"x"', "{", '{"usage": 3, "logs": {"a": 1}, "truncated": [7], "incomplete": []}'):
            line = of(a_run(status="incomplete", reason="wall", result=text, fuel="[]"), call(1, 100, 50.0))
            assert (line.sentence, line.logs, line.cut, line.has_output) == ("", (), (), False)
            assert line.calls[0].end_ms == 150.0

    @given(
        started=st.sampled_from(["2026-01-31T12:00:00Z", "9999-99-99T99:99:99Z", "0001-01-01T00:00:00+23:59"]),
        at=st.lists(
            st.sampled_from(["2026-01-31T12:00:00.5Z", "2026-13-01T00:00:00Z", "9999-12-31T23:59:59.9-23:59", "1Z"]),
            max_size=4,
        ),
        took=st.one_of(st.none(), st.floats(0, allow_nan=False, allow_infinity=False)),
        number=st.one_of(st.integers(), st.floats(), st.booleans(), st.text(max_size=3)),
        state=st.sampled_from(STATES),
        door=st.sampled_from(CALLS),
        text=st.text(max_size=20),
        attempt=st.integers(1, 3),
    )
    @settings(max_examples=150, deadline=None)
    def test_nothing_in_a_row_stops_the_view(
        self,
        started: str,
        at: list[str],
        took: float | None,
        number: object,
        state: str,
        door: str,
        text: str,
        attempt: int,
    ) -> None:
        rows = [
            replace(call(n, 0, took, attempt=n % 3 + 1), at=when, state=state, call=door, ref=text, err=text)  # type: ignore[arg-type]
            for n, when in enumerate(at, start=1)
        ]
        fuel = json.dumps({"steps": number, "wall": number, "memory": 10**400})
        result = json.dumps({"usage": {"wall_s": number, "memory_bytes": number}, "incomplete": text})
        run = a_run(name=text, attempt=attempt, status="incomplete", reason=text, ended_at=at[0] if at else started)
        line = of(replace(run, started_at=started, fuel=fuel, result=result), *rows)
        for item in line.calls:
            assert 0 <= item.start_ms <= item.end_ms <= line.span_ms
            assert math.isfinite(item.end_ms)
        for gauge in line.gauges:
            assert gauge.share is None or gauge.share >= 0
        shown = list(timeline_lines(line, 100))
        assert not any(ord(character) < 32 for character in "".join(shown))


class TestText:
    def test_one_line_for_each_call_with_its_bar(self) -> None:
        rows = (call(1, 0, 500.0, ref="read"), call(2, 500, 500.0, ref="list", spend=Spend("m", 1, 9, 1)))
        lines = list(timeline_lines(of(ended(1000), *rows)))
        first = next(line for line in lines if line.lstrip().startswith("1  tool"))
        second = next(line for line in lines if line.lstrip().startswith("2  tool"))
        half = BAR // 2
        assert "█" * half + " " * half in first
        assert " " * half + "█" * half in second
        assert "500ms" in second
        assert lines[-1] == "2 door calls in 1.00s"

    def test_overlap_is_seen_and_said(self) -> None:
        lines = list(timeline_lines(of(ended(1000), call(1, 0, 1000.0), call(2, 0, None))))
        assert "█" * BAR in lines[-4]
        assert "░" * BAR in lines[-3]
        assert lines[-1].endswith("at most 2 at the same time")

    def test_a_terminal_that_knows_ascii_only(self) -> None:
        text = "\n".join(timeline_lines(of(ended(1000), call(1, 0, 10.0), call(2, 0, None)), ascii_only=True))
        assert text.isascii()

    def test_answers_are_cut_to_the_terminal(self) -> None:
        rows = (call(1, 0, 1.0, ref="文" * 90, output=json.dumps("宽" * 200)),)
        table = list(timeline_lines(of(ended(1000), *rows), 120))[-4:-2]
        assert all(cell_len(line) <= 120 for line in table)
        assert table[1].endswith("…")

    def test_an_error_that_does_not_fit_gets_its_own_line(self) -> None:
        rows = (call(1, 0, 5.0, state="err", err="the model refused to answer"), call(2, 0, 5.0, state="err", err="no"))
        lines = list(timeline_lines(of(ended(1000), *rows), 80))[-5:-2]
        assert lines[1] == "    the model refused to answer"
        assert lines[2].endswith("  no")

    def test_a_wide_terminal_has_room_for_the_bars(self) -> None:
        rows = (call(1, 0, 1000.0), call(2, 0, 1000.0, output=json.dumps("x" * 300)))
        narrow, wide = (list(timeline_lines(of(ended(1000), *rows), width))[-3] for width in (80, 200))
        assert 10 <= narrow.count("█") < BAR < wide.count("█")
        assert cell_len(narrow) <= 80
        assert cell_len(wide) == 200

    def test_control_characters_and_direction_marks_are_shown(self) -> None:
        text = "\n".join(timeline_lines(of(ended(1000), call(1, 0, 1.0, ref="a\x1b[2Jb\u202ec"))))
        assert "a\\u001b[2Jb\\u202ec" in text

    def test_a_resumed_run_says_where_the_next_attempt_begins(self) -> None:
        rows = (call(1, 0, None), call(1, 0, 1.0, attempt=2, hour=13))
        text = "\n".join(timeline_lines(of(replace(ended(10), attempt=2), *rows)))
        assert "abandoned (redone)" in text
        assert f"-- attempt 2, whose first call was at {moment(0, 13)}" in text

    def test_short_figures(self) -> None:
        assert [time_text(ms) for ms in (0, 9.94, 340, 1250, 125_000, 11_040_000)] == [
            "0.0ms",
            "9.9ms",
            "340ms",
            "1.25s",
            "2m05s",
            "3h04m",
        ]
        assert [size_text(n) for n in (0, 1023, 1536, 3 * 1024**2)] == ["0", "1023", "1.5K", "3.0M"]

    def test_every_reason_has_a_hint(self) -> None:
        assert all(ending_hint("incomplete", reason) for reason in REASONS)
        assert ending_hint(None, None)
        assert ending_hint("finished", None) == ""
        assert ending_hint("incomplete", "unheard of") == ""


class TestCalledLines:
    PROGRAM = (
        "const name = input.deep ? 'deep' : 'flat';\n"
        "async function run() {\n"
        "  await tool('read', {});\n"
        "  await ai(name);\n"
        "  for (const other of input.names) await tool(other);\n"
        "  log('x');\n"
        "}\n"
    )

    def lines_of(self, *rows: EntryRow, sentence: str = "") -> tuple[list[tuple[int, ...]], int | None]:
        """The lines each call is taken to be from, and the line of the ending."""
        made = bundle(self.PROGRAM, prompts={"deep": "D", "flat": "F"}, whitelist=["read", "list"])
        line = of(ended(1000), *rows)
        found = called_lines(made, line.calls, sentence)
        assert len(found.lines) == 7
        return [found.lines_of.get(row.key, ()) for row in rows], found.ended

    def test_by_door_and_name(self) -> None:
        rows = (
            call(1, 0, 1.0, call="tool", ref="read"),
            call(2, 0, 1.0, call="ai", ref="flat"),
            call(3, 0, 1.0, call="tool", ref="list"),
            call(4, 0, 1.0, call="log", ref=""),
            call(5, 0, 1.0, call="ask", ref="?"),
            call(6, 0, 1.0, call="ai", ref="flat", step=0),
        )
        assert self.lines_of(*rows)[0] == [(3,), (4,), (5,), (6,), (), ()]

    def test_the_line_of_the_ending(self) -> None:
        assert self.lines_of(sentence="It stopped: program.js:4:9: TypeError: x")[1] == 4
        assert self.lines_of(sentence="program.js:99:1: forged")[1] is None
        assert self.lines_of(sentence="no place")[1] is None
