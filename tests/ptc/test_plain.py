"""The quick carriage of host values: taken only where it gives what the wire would give."""

import json
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ptc
from ptc import wire
from ptc.frames import loads
from ptc.plain import MAX_PLAIN_DEPTH, plain_text

BUDGET = 1_000

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: repr(x) != "-0.0")
    | st.text(alphabet=st.characters(), max_size=10),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=30,
)


@given(st.lists(values, max_size=3) | st.dictionaries(st.text(max_size=6), values, max_size=4))
@settings(max_examples=60)
def test_plain_and_wire_mean_the_same_value(value: Any) -> None:
    """PTC-001 a value that may go plain is, read back, what its wire tokens decode to."""
    text = plain_text(value, BUDGET)
    if text is None:
        return
    assert text.isascii()
    assert _as_javascript(json.loads(text)) == _as_javascript(wire.decode(loads(wire.encode(value).encode())))


@pytest.mark.parametrize(
    "value",
    [
        {"x": float("nan")},
        {"x": float("inf")},
        {"x": -0.0},
        [2**53],
        [-(2**53)],
        {1: 2},
        {"x": {True: 1}},
        [{1, 2}],
        [b"bytes"],
        {"\ud83d\ude00": 1, "😀": 2},
        [type("Text", (str,), {})("x")],
        [type("Number", (int,), {})(1)],
        [type("Table", (dict,), {})()],
    ],
    ids=lambda value: ascii(value)[:30],
)
def test_what_the_wire_refuses_or_marks_never_goes_plain(value: Any) -> None:
    """PTC-014 subclasses, other types, -0, NaN, BigInts and doubtful keys are left to the wire."""
    assert plain_text(value, BUDGET) is None


def test_cycles_depth_and_budget_are_left_to_the_wire() -> None:
    """PTC-007 a cycle, a deep value and one with too many parts end quickly and without a text."""
    cycle: list[Any] = []
    cycle.append(cycle)
    deep: Any = 1
    for _ in range(MAX_PLAIN_DEPTH + 1):
        deep = [deep]
    doubling: Any = [1]
    for _ in range(64):
        doubling = [doubling, doubling]
    assert plain_text(cycle, BUDGET) is None
    assert plain_text(deep, BUDGET) is None
    assert plain_text(doubling, BUDGET) is None
    assert plain_text([0] * BUDGET, BUDGET) is None
    assert plain_text([0] * (BUDGET - 1), BUDGET) is not None


@pytest.mark.parametrize("form", ["sync", "async"])
def test_plain_results_and_inputs_arrive_as_ordinary_values(form: Literal["sync", "async"]) -> None:
    """PTC-002 key order, own `__proto__` keys and exact numbers survive the quick carriage; nothing is polluted."""
    result = json.loads('{"b": 1, "a": [0.1, 9007199254740991], "__proto__": {"p": 1}, "s": "\\ud800\\u0000\\u2028"}')
    assert plain_text(result, BUDGET) is not None
    code = (
        "const r = await tools.read(null), i = input;"
        "return [Object.keys(r), r.a, ({}).p === undefined, Object.getPrototypeOf(r) === Object.prototype,"
        " r.s === '\\ud800\\0\\u2028', Object.isFrozen(r), Object.keys(i)]"
    )
    if form == "sync":
        code = code.replace("await ", "")
    outcome = ptc.run(code, {"tools": {"read": lambda _argument: result}}, form=form, input=result)
    keys = ["b", "a", "__proto__", "s"]
    assert outcome.value == [keys, [0.1, 9007199254740991], True, True, True, False, keys], outcome.failure


def _as_javascript(value: Any) -> Any:
    """Numbers as doubles and strings with joined pairs, as the program sees them."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, (int, float)):
        return float(value)
    if isinstance(value, str):
        return wire.joined(value)
    if isinstance(value, list):
        return [_as_javascript(item) for item in value]
    return {wire.joined(key): _as_javascript(item) for key, item in value.items()}
