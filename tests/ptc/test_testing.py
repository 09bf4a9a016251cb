"""`ptc.testing`: scripted programs against a machine, without a process."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptc import CallError
from ptc.testing import Frame, call, done, log, play, ready

FUNCTIONS = {"tools": {"double": lambda value: 2 * value}}


def test_a_script_plays_like_a_run() -> None:
    """PTC-037 calls are answered in order, entries and the value arrive."""
    played = play([ready(), log("hi"), call(1, "tools", "double", 21), done([1, 2])], FUNCTIONS)
    assert played.result.failure is None
    assert played.result.value == [1, 2]
    assert [entry.text for entry in played.result.logs] == ["hi"]
    assert played.calls == (("tools", "double", 21),)
    assert played.replies == ({"type": "reply", "id": 1, "ok": True, "value": [42]},)


def test_a_forged_call_reaches_no_function() -> None:
    """PTC-030"""
    played = play([ready(), call(1, "tools", "constructor")], FUNCTIONS)
    assert played.result.kind == "protocol"
    assert played.calls == ()


def test_a_failing_function_is_a_failed_reply() -> None:
    """PTC-121"""

    def fail(_argument: object) -> object:
        raise CallError("not today")

    played = play([ready(), call(1, "tools", "double"), done()], {"tools": {"double": fail}})
    assert played.replies == ({"type": "reply", "id": 1, "ok": False, "message": "not today"},)


def test_a_program_that_just_ends_has_no_result() -> None:
    """PTC-065"""
    assert play([ready()]).result.kind == "worker-exit"


frames_of_a_program = st.lists(
    st.sampled_from([ready(), log("x"), call(1, "tools", "double", 1), call(2, "tools", "double", 2), done(1)])
    | st.binary(max_size=12),
    max_size=6,
)


@given(frames_of_a_program, st.integers(1, 7))
@settings(max_examples=60)
def test_how_the_bytes_are_split_makes_no_difference(script: list[Frame], pieces: int) -> None:
    """PTC-043"""
    whole, split = play(script, FUNCTIONS), play(script, FUNCTIONS, pieces=pieces)
    assert whole.events == split.events
    assert whole.result == split.result


@pytest.mark.parametrize("value", [None, 0, "", [], {"a": [1, {"b": None}]}])
def test_values_survive_the_script(value: object) -> None:
    """PTC-034"""
    assert play([ready(), done(value)]).result.value == value
