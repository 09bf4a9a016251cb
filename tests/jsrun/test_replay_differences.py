"""Replay: whatever is not as recorded is named, by the number of the call and its path."""

import pytest

from jsrun.replay import first_difference
from ptc.outcome import UNSET
from ptc.wire import Json
from tests.jsrun.playing import Play
from tests.jsrun.recording import (
    STEPS,
    Recording,
)

session = pytest.mark.asyncio(loop_scope="session")


@session
@pytest.mark.parametrize(
    ("old", "new", "kind", "seq", "path", "recorded", "actual"),
    [
        ('deep: "a"', 'deep: "b"', "call", 1, "input.list[1].deep", "a", "b"),
        ("[1, {", "[1, 7, {", "call", 1, "input.list[1]", {"deep": "a"}, 7),
        ("id: 1, ", "", "call", 1, "input.id", 1, None),
        ('tool("other"', 'tool("wait"', "call", 3, "ref", "other", "wait"),
        ('tool("other", { n: 3 })', "recall()", "call", 3, "call", "tool", "recall"),
        (
            '[ai("sum", { n: 2.0 }), tool("other", { n: 3 })]',
            '[tool("other", { n: 3 }), ai("sum", { n: 2.0 })]',
            "call",
            2,
            "call",
            "ai",
            "tool",
        ),
        ("{ n: 2.0 }", '{ n: 2 }, { effort: "low" }', "call", 2, "input.effort", None, "low"),
        ('"nearly"', '"almost"', "call", 4, "status", "nearly", "almost"),
        ('  await log("nearly");', "", "missing", 4, "", {"call": "log", "status": "nearly"}, None),
        (', tool("other", { n: 3 })', "", "call", 3, "call", "tool", "log"),
        ('("nearly");', '("nearly"); await recall("x");', "extra", 5, "", None, {"call": "recall", "ref": "x"}),
        (
            "return { one",
            "return { none: one",
            "ending",
            None,
            "output.one",
            {"id": 1, "list": [1, {"deep": "a"}]},
            None,
        ),
        ("return {", "throw {", "ending", None, "status", "finished", "fell_back"),
        ("return {", "await new Promise(() => {}); return {", "ending", None, "status", "finished", "incomplete"),
        ('tool("other"', 'tool("fail", {}), tool("other"', "call", 3, "ref", "other", "fail"),
        ("{ n: 3 }", "[3]", "call", 3, "refused", False, True),
    ],
)
async def test_the_first_difference_is_named(
    play: Play, old: str, new: str, kind: str, seq: int | None, path: str, recorded: Json, actual: Json
) -> None:
    """JSR-101 a changed argument, door or order, an extra and a missing call, by number and path."""
    assert STEPS.count(old) == 1
    recording = Recording(play, STEPS)
    assert (await recording.run()).status == "finished"
    report = await recording.replay(STEPS.replace(old, new))
    assert not report.same
    assert report.difference is not None
    assert report.difference.to_json() == {
        "kind": kind, "seq": seq, "path": path, "recorded": recorded, "actual": actual,
    }  # fmt: skip
    assert "\n" not in str(report.difference)


@session
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('{ id: 1, list: [1, { deep: "a" }] }', '{ list: [1, { deep: "a" }], id: 1.0 }'),
        ("n: 2.0", "n: 2"),
        ("{ one, two, three }", "{ three, two, one }"),
        ('await log("nearly");', 'await log(""); await log("nearly");'),
        ("const one", "// another line\nconst one"),
    ],
)
async def test_what_makes_no_difference(play: Play, old: str, new: str) -> None:
    """JSR-101 key order, `1` versus `1.0`, and what leaves no trace in the journal."""
    assert STEPS.count(old) == 1
    recording = Recording(play, STEPS)
    await recording.run()
    report = await recording.replay(STEPS.replace(old, new))
    assert report.same, report.difference


@session
async def test_a_program_that_never_makes_the_call_it_is_to_be_answered_first(play: Play) -> None:
    """JSR-101 the answer of a call waits for one that came earlier and will not come: missing, and no hanging."""
    program = "async function run() { await Promise.all([tool('wait', {ms: 20}), tool('wait', {ms: 1})]); return 1 }"
    recording = Recording(play, program)
    await recording.run()
    report = await recording.replay("async function run() { await tool('wait', {ms: 20}); return 1 }")
    assert report.difference is not None
    assert (report.difference.kind, report.difference.seq) == ("missing", 2)
    assert report.result.usage.wall_s < 30


@session
async def test_a_sync_program_is_compared_with_an_async_one(play: Play) -> None:
    """JSR-101 the form is not part of what is compared."""
    recording = Recording(play, "async function run() { const a = await tool('other', {n: 1}); return [a] }")
    await recording.run()
    assert (await recording.replay("function run() { const a = tool('other', {n: 1}); return [a] }")).same
    report = await recording.replay("function run() { tool('other', {n: 1}); tool('other', {n: 2}); return 1 }")
    assert report.difference is not None
    assert (report.difference.kind, report.difference.seq) == ("extra", 2)


@session
async def test_a_version_that_runs_into_a_limit_is_a_different_ending(play: Play) -> None:
    """JSR-101 the recorded run came to an end, this one does not."""
    recording = Recording(play, "async function run() { await log('x'); return 1 }", fuel={"memory": "16MiB"})
    await recording.run()
    report = await recording.replay("async function run() { await log('x'); const a = []; for (;;) a.push([a]) }")
    assert report.difference is not None
    assert (report.difference.kind, report.result.reason) == ("ending", "memory")


def test_first_difference_knows_values_from_absence() -> None:
    """JSR-101"""
    assert first_difference({"a": 1, "b": [True]}, {"b": [True], "a": 1.0}) is None
    assert first_difference({"a": None}, {}) == (("a",), None, UNSET)
    assert first_difference([1], [1, 2]) == ((1,), UNSET, 2)
    assert first_difference([True], [1]) == ((0,), True, 1)
    assert first_difference({"a": {"b": 1}}, {"a": [1]}) == (("a",), {"b": 1}, [1])
    deep: Json = 1
    for _ in range(5000):
        deep = [deep]
    assert first_difference(deep, deep) is None
