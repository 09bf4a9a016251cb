"""The one whitelist matcher."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsrun.belt import Belt, Tool
from jsrun.whitelist import matches, trimmed


@pytest.mark.parametrize(
    ("name", "whitelist", "allowed"),
    [
        (" read ", ["read"], True),
        ("read", ["\tread\n"], True),
        ("Read", ["read"], False),
        ("read", ["Read"], False),
        ("re ad", ["read"], False),
        ("read", [], False),
        ("", ["", " "], False),
        (" ", [" "], False),
        ("read", ["reader", "rea", "*"], False),
    ],
)
def test_names_are_compared_exactly_after_trimming_both_sides(name: str, whitelist: list[str], allowed: bool) -> None:
    """JSR-049 (the matcher)."""
    assert matches(name, whitelist) is allowed


@pytest.mark.parametrize("name", ["read", " read", "Read", "re ad"])
@pytest.mark.parametrize("entry", ["read", "read ", "READ"])
def test_the_belt_agrees_with_the_matcher(name: str, entry: str) -> None:
    """JSR-049 (the belt)."""
    belt = Belt([Tool(name, "", {}, lambda args: None)])
    assert bool(belt.only([entry]).names()) is matches(name, [entry])
    assert (belt.get(entry) is not None) is matches(name, [entry])


blanks = st.text(" \t\n", max_size=2)


@given(st.text(max_size=6), st.text(max_size=6), blanks, blanks)
def test_blanks_around_never_matter(name: str, other: str, before: str, after: str) -> None:
    assert matches(before + name + after, [other]) == matches(name, [before + other + after])
    assert matches(name, [other]) == (name.strip() == other.strip() != "")


def test_trimmed_names_are_unique_and_in_order() -> None:
    assert trimmed(["b ", "a", " b", "", " ", "c"]) == ("b", "a", "c")
