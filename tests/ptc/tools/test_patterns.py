"""Patterns of schemas: they mean what they mean in JavaScript, or are refused, and matching takes bounded time."""

import json
import re
import time

import _quickjs
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ptc.errors import UsageError
from ptc.tools.patterns import MAX_WORK, Pattern, TooLongError, pattern


def in_javascript(source: str, text: str) -> bool | None:
    """What the engine says; None for what is no regular expression in Unicode mode."""
    code = f"try {{ new RegExp({json.dumps(source)}, 'u').test({json.dumps(text)}) }} catch {{ null }}"
    found = _quickjs.Context().eval(code)
    return None if found is None else bool(found)


CASES = [
    (r"^\d{4}-\d{2}$", ["2024-05", "2024-5", "٢٠٢٤-٠٥"]),
    (r"^[A-Za-z_][\w.\-]*$", ["a.b-c", "é", "1"]),
    (r"^[^@\s]+@[^@\s]+\.[a-z]{2,}$", ["a@b.cd", "a b@c.de", "@"]),
    (r"\bfoo\b", ["a foo b", "food", "éfooé"]),
    (r"^.$", ["\u2028", "\n", "\r", "x", "😀"]),
    (r"^[^]$", ["\n", "ab"]),
    (r"[]", ["", "a"]),
    (r"^[[\]&~^-]+$", ["[]&~^-", "a"]),
    (r"^\p{Lu}\P{Lu}$", ["Éa", "éA"]),
    (r"^\u{1F600}\x41\u0042$", ["😀AB"]),
    (r"^\ud83d\ude00$", ["😀"]),
    (r"^(?<year>\d+)(?:-)$", ["12-"]),
    (r"^[\b\0\t\/\.]$", ["\b", "\0", "/", "b"]),
    (r"^((25[0-5]|(2[0-4]|1\d|[1-9]|)\d)\.?\b){4}$", ["1.2.3.4", "256.1.1.1", "1.2.3"]),
    (r"^a$", ["a\n", "a"]),
    (r"", ["", "a"]),
    (r"a|", ["b"]),
    (r"^\s$", [" ", "\u00a0", "\u3000", "x"]),
]


@pytest.mark.parametrize(("source", "texts"), CASES)
def test_a_pattern_means_what_it_means_in_javascript(source: str, texts: list[str]) -> None:
    """PTC-139 classes, dots, escapes, ends and Unicode."""
    for text in texts:
        assert Pattern(source).is_in(text) is in_javascript(source, text), text


_TOKENS = r"a b é 😀 . ^ $ | ( ) (?: [ [^ ] - \d \D \w \W \b \. \- \/ \\ * + ? {2} {1,3} {0,} *? & ~ # \x61 \u{62}"
TOKENS = st.sampled_from(_TOKENS.split(" "))


@settings(max_examples=500, deadline=None)
@given(source=st.lists(TOKENS, max_size=8).map("".join), text=st.text("ab12-.&~#[]^\\/é😀 \n", max_size=6))
def test_any_pattern_agrees_with_javascript_or_is_refused(source: str, text: str) -> None:
    """PTC-139 what JavaScript takes and we take finds the same."""
    try:
        ours = Pattern(source).is_in(text)
    except UsageError:
        assume(False)
    theirs = in_javascript(source, text)
    assume(theirs is not None)
    assert ours is theirs


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("(?=a)", "look-around"),
        ("(?<!a)b", "look-around"),
        ("(?i)a", "flags"),
        (r"(a)\1", "back reference"),
        (r"(?<x>a)\k<x>", "back reference"),
        ("((a|b){0,300}){0,100}", "too large"),
        ("a{99999999999999999999}", "too large"),
        ("a" * 10_000, "too large"),
        ("(", "no regular expression"),
        (")", "a ) too many"),
        ("[a", "without its ]"),
        ("*a", "no regular expression"),
        ("\\", "ends with a backslash"),
        (r"\q", "unknown escape"),
        (r"\ud800", "surrogate"),
        (r"\ud800\u0041", "surrogate"),
        ("\ud800", "surrogate"),
        ("[\ud800]", "surrogate"),
        ("[a--z]", "two dashes"),
    ],
)
def test_what_cannot_be_matched_is_refused_with_the_reason(source: str, reason: str) -> None:
    """PTC-139 before any call."""
    with pytest.raises(UsageError, match=re.escape(reason)):
        Pattern(source)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("^(a+)+$", "a" * 40 + "!"),
        ("^(a|a)*$", "a" * 100_000 + "!"),
        (r"(x+x+)+y", "x" * 100_000),
        (r"^(([a-z])+.)+[A-Z]([a-z])+$", "a" * 50_000),
        (r"(?:a?){30}a{30}", "a" * 30),
        (r"((ab?|b|c|aa){0,10}){0,60}[^x]d", "abc" * 150),
    ],
)
def test_no_text_takes_long(source: str, text: str) -> None:
    """PTC-139 patterns that keep a backtracking engine busy for ever."""
    started = time.perf_counter()
    Pattern(source).is_in(text)
    assert time.perf_counter() - started < 2


def test_a_text_too_long_for_its_pattern_is_not_searched() -> None:
    """PTC-139 and plain ones may be long."""
    assert pattern("^[A-Za-z0-9+/=]*$").is_in("A" * 400_000)
    with pytest.raises(TooLongError):
        pattern("a{1000}").is_in("b" * MAX_WORK)


def test_half_a_surrogate_pair_is_some_character() -> None:
    """PTC-139 in a text."""
    assert pattern("^a.b$").is_in("a\ud800b")
    assert not pattern("^ab$").is_in("a\ud800b")
