"""JSON texts: the stored form and the canonical one."""

import json
import random
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jsrun.canonical import MAX_LEVELS, canonical_json, input_hash, json_text, parse_json

# Every text, lone surrogates included.
any_text = st.text(alphabet=st.characters(codec=None, exclude_categories=()), max_size=8)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | any_text
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(any_text, inner, max_size=4), max_leaves=12
)


def shuffled(value: object, rng: random.Random) -> object:
    """An equal value with another key order and, where it can be, another number type."""
    if isinstance(value, dict):
        keys = list(value)
        rng.shuffle(keys)
        return {key: shuffled(value[key], rng) for key in keys}
    if isinstance(value, list):
        return [shuffled(item, rng) for item in value]
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53 and rng.random() < 0.5:
        return float(value)
    return value


@settings(max_examples=150)
@given(values, st.randoms(use_true_random=False))
def test_equal_values_have_one_canonical_text_and_hash(value: object, rng: random.Random) -> None:
    other = shuffled(value, rng)
    text = canonical_json(value)
    assert text == canonical_json(other)
    assert input_hash(value) == input_hash(other)
    assert text.isascii()
    assert "\n" not in text
    assert json.loads(text) == value
    assert canonical_json(json.loads(text)) == text


@settings(max_examples=150)
@given(values)
def test_stored_text_gives_back_the_value_with_its_key_order(value: object) -> None:
    text = json_text(value)
    assert text.isascii()
    back = parse_json(text)
    assert back == value
    assert json_text(back) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1"),
        (-0.0, "0"),
        (1e16, "10000000000000000"),
        (1.5, "1.5"),
        (1e-7, "1e-07"),
        ({"b": [1.0, "1.0"], "a": 2**70}, '{"a":1180591620717411303424,"b":[1,"1.0"]}'),
        ("a\ud800é\0", '"a\\ud800\\u00e9\\u0000"'),
        ({"é": 1, "z": 2, "Z": 3}, '{"Z":3,"z":2,"\\u00e9":1}'),
        ([], "[]"),
        ({}, "{}"),
        ({"x": {}, "e": [[], 2.0]}, '{"e":[[],2],"x":{}}'),
    ],
)
def test_canonical_texts(value: object, text: str) -> None:
    assert canonical_json(value) == text


def test_different_values_have_different_hashes() -> None:
    different: list[object] = [
        None,
        False,
        0,
        "",
        "0",
        [],
        {},
        [0],
        {"0": 0},
        2**53,
        2**53 + 1,
        0.5,
        "\ud800",
        "\ufffd",
    ]
    assert len({input_hash(value) for value in different}) == len(different)


@pytest.mark.parametrize("leaf", [1, 1.0])
@pytest.mark.parametrize("levels", [MAX_LEVELS, 20_000])
def test_depth_is_no_limit_for_writing(levels: int, leaf: float) -> None:
    value: object = leaf
    for _ in range(levels // 2):
        value = {"a": [value]}
    expected = '{"a":[' * (levels // 2) + json.dumps(leaf) + "]}" * (levels // 2)
    assert json_text(value) == expected
    assert canonical_json(value) == expected.replace("1.0", "1")


def test_reading_takes_512_levels_and_no_more() -> None:
    def nested(levels: int) -> str:
        return "[" * levels + "]" * levels

    value = parse_json(nested(MAX_LEVELS))
    for _ in range(MAX_LEVELS - 1):
        value = cast(list[object], value)[0]
    assert value == []
    for levels in (MAX_LEVELS + 1, 100_000):
        with pytest.raises(ValueError, match="deeper than 512 levels"):
            parse_json(nested(levels))
    assert parse_json(json_text([{"a": []}] * 1_000)) == [{"a": []}] * 1_000  # wide is not deep


@pytest.mark.parametrize("text", ["", "nope", "[1", "NaN", "[Infinity]", "{'a':1}", "1 2", "1" * 5_000])
def test_text_that_is_not_json_is_refused_in_plain_words(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not JSON: \S") as caught:
        parse_json(text)
    assert "Traceback" not in str(caught.value)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1}, object(), b"x", [float("nan")]])
def test_a_value_that_is_not_json_is_refused(value: object) -> None:
    with pytest.raises(ValueError):
        json_text(value)
    with pytest.raises(ValueError):
        canonical_json(value)
