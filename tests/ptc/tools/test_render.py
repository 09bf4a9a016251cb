"""The text a model reads of a run."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptc.outcome import EngineInfo, Failure, LogEntry, Outcome, Position
from ptc.tools.render import MIN_RESULT_CHARS, cut_middle, json_text, result_text, short_json, value_text

ENGINE = EngineInfo("quickjs", "1")


def outcome(*logs: str, **fields: Any) -> Outcome:
    return Outcome(logs=tuple(LogEntry(text) for text in logs), engine=ENGINE, **fields)


@pytest.mark.parametrize(
    ("ended", "text"),
    [
        (outcome(), "(no output)"),
        (outcome("a", "b\nc", ""), "a\nb\nc\n"),
        (outcome(value=None, has_value=True), "null"),
        (outcome(value='raw "text"\n', has_value=True), 'raw "text"\n'),
        (outcome(value="", has_value=True), "(no output)"),
        (outcome("a", value=7, has_value=True), "a\n7"),
        (
            outcome("a", value={"x": [1, {}], "é": []}, has_value=True),
            'a\n{\n  "x": [\n    1,\n    {}\n  ],\n  "é": []\n}',
        ),
        (
            outcome(
                "a", "b", calls=5, unfinished=((4, "tools", "x"), (5, "tools", "y")), failure=Failure("timeout", "late")
            ),
            "timeout: late\ncalls finished: 3 of 5\na\nb",
        ),
        (
            outcome(calls=2, failure=Failure("exception", "Error: no", Position(3, 7), "at f")),
            "exception at 3:7: Error: no\ncalls finished: 2 of 2",
        ),
        (outcome("a", failure=Failure("stuck", "for ever")), "stuck: for ever\ncalls finished: 0 of 0\na"),
    ],
)
def test_the_text_of_an_outcome(ended: Outcome, text: str) -> None:
    """PTC-143 logs, value, both or neither; of a failure kind, position, calls and logs."""
    assert result_text(ended) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (1.5, "1.5"),
        (1e300, "1e+300"),
        (2**63, "9223372036854775808"),
        ([], "[]"),
        ({}, "{}"),
        ([[]], "[\n  []\n]"),
        ([1, [2, "a\nb"]], '[\n  1,\n  [\n    2,\n    "a\\nb"\n  ]\n]'),
        ({"a b": {"c": None}}, '{\n  "a b": {\n    "c": null\n  }\n}'),
    ],
)
def test_the_text_of_a_value(value: Any, text: str) -> None:
    """PTC-143 JSON by two spaces."""
    assert value_text(value) == text


def test_deep_values_stay_compact() -> None:
    """PTC-143 five levels have lines of their own; below, and 100,000 levels deep, it is compact."""
    assert value_text([[[[[[1, {"a": [2, 3]}]]]]]]) == "\n".join(
        [
            "[",
            "  [",
            "    [",
            "      [",
            "        [",
            '          [1,{"a":[2,3]}]',
            "        ]",
            "      ]",
            "    ]",
            "  ]",
            "]",
        ]
    )
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    text = value_text(deep)
    assert text.count("\n") == 10
    assert text.count("[") == 100_000


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(-1e15, 1e15) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=20,
)


@settings(max_examples=200, deadline=None)
@given(value=JSON, levels=st.integers(0, 6))
def test_the_text_is_the_value(value: Any, levels: int) -> None:
    """PTC-143 whatever is indented."""
    assert json.loads(json_text(value, levels)) == value
    assert "\n" not in json_text(value)


def test_what_is_fully_indented_looks_like_everybody_elses() -> None:
    """PTC-143 the layout of json.dumps with an indent of two."""
    value: Any = {"a": [1, {"b": [True, None, "x"], "c": {}}], "d": {"e": []}}
    assert value_text(value) == json.dumps(value, indent=2)


def test_a_cut_shows_both_sizes_and_both_ends() -> None:
    """PTC-143 and stays within the limit."""
    text = "".join(chr(ord("a") + number % 26) for number in range(1_000))
    shown = cut_middle(text, 200)
    assert len(shown) <= 200
    head, mark, tail = shown.split("\n")
    omitted = 1_000 - len(head) - len(tail)
    assert mark == f"[… {omitted} of 1000 characters omitted …]"
    assert text.startswith(head)
    assert text.endswith(tail)
    assert min(len(head), len(tail)) > 50
    assert cut_middle("x" * 200, 200) == "x" * 200


@settings(max_examples=100, deadline=None)
@given(text=st.text(st.characters(), max_size=400), limit=st.integers(MIN_RESULT_CHARS, 300))
def test_a_cut_text_fits_and_can_be_written(text: str, limit: int) -> None:
    """PTC-143 a lone surrogate is shown as U+FFFD, a split pair as its character."""
    shown = cut_middle(text, limit)
    shown.encode()
    assert len(shown) <= limit
    assert cut_middle("a\ud800b\ud83d\ude00", limit) == "a\ufffdb😀"


def test_a_value_in_a_message_is_short() -> None:
    """PTC-139 whatever its size and depth, and without writing all of it."""
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    assert short_json(deep) == "[" * 80 + "…"
    assert short_json("x" * 1000) == '"' + "x" * 79 + "…"
    assert short_json({"a": [1, "\ud800"]}) == '{"a":[1,"\ufffd"]}'
