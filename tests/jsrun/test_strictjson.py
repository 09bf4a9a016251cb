"""The strict JSON parser: what it takes, what it refuses, and where it says that things are."""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jsrun.strictjson import Document, JsonError, parse, read
from ptc.wire import Json

_json = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(10**30), 10**30),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=8),
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=4), inner, max_size=4)),
    max_leaves=20,
)


@given(_json, st.sampled_from([None, 1, "\t"]), st.booleans())
def test_every_value_reads_as_the_standard_parser_reads_it(value: Json, indent: int | str | None, ascii: bool) -> None:
    """JSR-003 valid JSON reads as with any parser, `__proto__` and all"""
    text = json.dumps(value, indent=indent, ensure_ascii=ascii)
    assert parse(text).value == json.loads(text)
    assert type(parse(text).value) is type(json.loads(text))


@given(st.text(alphabet='{}[]",:0123456789.eE+-truefalsn \n\\u/\t', max_size=24))
@settings(max_examples=300)
def test_every_text_is_taken_or_refused_like_by_the_standard_parser(text: str) -> None:
    """JSR-003 nothing is taken that the standard parser refuses, and the other way round"""

    def refuse(name: str) -> None:
        raise ValueError(name)

    try:
        expected = json.loads(text, parse_constant=refuse)
    except ValueError:
        with pytest.raises(JsonError):
            parse(text)
        return
    try:
        document = parse(text)
    except JsonError as error:
        assert "too large" in error.message and not _finite(expected)
    else:
        assert document.value == expected


def _finite(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(map(_finite, value.values()))
    return all(map(_finite, value)) if isinstance(value, list) else True


@given(_json, st.sampled_from([None, 1]))
def test_every_value_and_key_knows_its_place(value: Json, indent: int | None) -> None:
    """JSR-007 line and column of a value point at its first character"""
    text = json.dumps(value, indent=indent)
    document = parse(text)
    _check_places(document, text, (), value)


def _check_places(document: Document, text: str, path: tuple[str | int, ...], value: Json) -> None:
    place = document.place(path)
    assert place is not None
    found = text[document.lines.offset(*place) :]
    assert found.startswith(("{", "[") if isinstance(value, dict | list) else json.dumps(value))
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        _check_places(document, text, (*path, key), inner)
        if isinstance(key, str):
            spot = document.key_place((*path, key))
            assert spot is not None and text[document.lines.offset(*spot) :].startswith(json.dumps(key))


@pytest.mark.parametrize(
    ("text", "line", "column", "part"),
    [
        ("", 1, 1, "the end of the text"),
        ("{", 1, 2, "key"),
        ('{"a" 1}', 1, 6, "colon"),
        ('{"a": 1,}', 1, 9, "key"),
        ("[1,]", 1, 4, "value"),
        ("[1 2]", 1, 4, "comma"),
        ('{"a": 1\n "b": 2}', 2, 2, "comma"),
        ("{'a': 1}", 1, 2, "key"),
        ('{"a": NaN}', 1, 7, "NaN"),
        ("-Infinity", 1, 1, "Infinity"),
        ('{"a": 1} x', 1, 10, "goes on"),
        ("// no\n1", 1, 1, "comments"),
        ('{"a": 1, /* no */ "b": 2}', 1, 10, "comments"),
        ('["a\nb"]', 1, 4, "control character"),
        ('["\\x"]', 1, 3, "escape"),
        ('["\\ud8"]', 1, 3, "escape"),
        ('\r\n\r\n["abc', 3, 2, "no end"),
        ('["😀", 01]', 1, 7, "value"),
        ("[1.]", 1, 2, "value"),
        ("[+1]", 1, 2, "value"),
        ("[.5]", 1, 2, "value"),
        ("[1e999]", 1, 2, "too large"),
        ("[" + "1" * 5000 + "]", 1, 2, "5,000"),
        ("tru", 1, 1, "value"),
        ("nullx", 1, 1, "value"),
        ("\ufeff1", 1, 1, "value"),
        ("[\u00a01]", 1, 2, "value"),
    ],
)
def test_a_refusal_says_what_and_where(text: str, line: int, column: int, part: str) -> None:
    """JSR-015 every refusal has a line, a column in code points, a sentence and a hint"""
    with pytest.raises(JsonError) as caught:
        parse(text)
    error = caught.value
    assert (error.line, error.column) == (line, column)
    assert part in error.message
    assert error.message.endswith(".") and error.hint.endswith(".")


def test_duplicate_keys_are_named_with_both_places() -> None:
    """JSR-003 a duplicate key, at any level and however it is written, is told with both places"""
    document = parse('{"a": {"b": 1,\n  "\\u0062": 2}, "a": 3}')
    found = [(pair.key, pair.first, pair.second) for pair in document.duplicates]
    assert found == [("b", (1, 8), (2, 3)), ("a", (1, 2), (2, 17))]
    assert document.value == {"a": 3}
    _, diagnostics = read('{"a": 1, "a": 2}', "x.json", "bad")
    assert [str(diagnostic) for diagnostic in diagnostics] == [
        'x.json:1:10: error [bad] The key "a" is already at 1:2. Remove one of the two.'
    ]


def test_keys_of_object_prototypes_are_data() -> None:
    """JSR-003 `__proto__` and `constructor` are keys like others"""
    document = parse('{"__proto__": {"x": 1}, "constructor": 2}')
    assert document.value == {"__proto__": {"x": 1}, "constructor": 2}
    assert not document.duplicates


def test_depth_is_bounded_and_no_matter_of_the_stack() -> None:
    """JSR-003 64 levels are read, one more and 100,000 more are refused where they go too deep"""
    assert parse("[" * 64 + "]" * 64).value
    for depth in (65, 100_000):
        with pytest.raises(JsonError) as caught:
            parse("[" * depth + "]" * depth)
        assert (caught.value.line, caught.value.column) == (1, 65)
    assert parse('{"a":' * 512 + "1" + "}" * 512, max_depth=512).value


def test_text_beyond_the_basic_plane_and_halves_of_it_are_read() -> None:
    assert parse(r'"\ud83d\ude00 \ud800 \u0000"').value == "\U0001f600 \ud800 \0"
