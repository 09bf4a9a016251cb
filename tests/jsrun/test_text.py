"""The small text helpers."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jsrun._text import compact_json, cut, printable, quoted


def test_a_long_text_is_cut_and_says_how_much_is_missing() -> None:
    """JSR-052"""
    assert cut("x" * 2000) == "x" * 2000
    assert cut("x" * 3234) == "x" * 2000 + "… (1,234 more characters)"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", '"plain"'),
        ('a "b"\n\tc', '"a \\"b\\"\\n\\tc"'),
        ("\x1b[2J\x9b\u2028\ud800", '"\\u001b[2J\\u009b\\u2028\\ud800"'),
        ("größe 😀", '"größe 😀"'),
        ("x" * 81, '"' + "x" * 80 + '…"'),
    ],
)
def test_quoted_text_is_one_harmless_line(text: str, shown: str) -> None:
    """JSR-056"""
    assert quoted(text) == shown


def test_printable_text_keeps_layout_and_nothing_else_that_a_terminal_obeys() -> None:
    """JSR-056"""
    assert printable("a\tb\nc\r\x07\x7f\udfff😀") == "a\tb\nc\\u000d\\u0007\\u007f\ufffd😀"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@settings(max_examples=100)
@given(json_values)
def test_compact_json_is_the_same_value_with_whole_floats_as_integers(value: object) -> None:
    """JSR-073"""
    text = compact_json(value)
    assert json.loads(text) == value
    assert compact_json(json.loads(text)) == text


def test_any_text_can_be_quoted_and_printed_as_utf8() -> None:
    """JSR-056"""
    everything = "".join(map(chr, range(0x3000))) + "\ud800\udfff\U0010ffff"
    quoted(everything, 100_000).encode()
    printable(everything).encode()
