"""Prompt references: what counts as a name, and what is said of what does not."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jsrun.prompts import Prompt, RefProblem, find_prompt, normalize_ref

NAMES = ["tag", "summarise", "a.b"]


@pytest.mark.parametrize(
    "ref",
    ["summarise", "summarise.md", "prompts/summarise.md", "./prompts/summarise.md", "./summarise", "  summarise\n"],
)
def test_every_way_to_write_a_name_is_found(ref: str) -> None:
    """JSR-022"""
    assert find_prompt(ref, NAMES) == "summarise"


@pytest.mark.parametrize(
    ("ref", "bare"),
    [
        ("././a", "./a"),
        ("prompts/prompts/a", "prompts/a"),
        ("prompts/./a", "./a"),
        ("a.md.md", "a.md"),
        ("PROMPTS/a.MD", "PROMPTS/a.MD"),
        ("prompts/.md", ""),
        ("a.b", "a.b"),
        ("größe", "größe"),
    ],
)
def test_each_decoration_is_taken_off_once_and_case_sensitively(ref: str, bare: str) -> None:
    """JSR-022"""
    assert normalize_ref(ref) == bare


@pytest.mark.parametrize("ref", ["", " ", "\t\r\n", "\u2003"])
def test_a_blank_reference_needs_a_name(ref: str) -> None:
    """JSR-051"""
    problem = normalize_ref(ref)
    assert isinstance(problem, RefProblem) and problem.code == "blank"
    assert "name" in problem.message and "prompts/" in problem.hint


@pytest.mark.parametrize("ref", ["two words", "a\tb", "a\rb", "a\nb", "x" * 121, "ü" * 61, "\ud800" * 41])
def test_an_inline_text_is_pointed_to_the_prompts_folder(ref: str) -> None:
    """JSR-023 inner blanks, or more than 120 bytes of UTF-8"""
    problem = normalize_ref(ref)
    assert isinstance(problem, RefProblem) and problem.code == "inline"
    assert "name" in problem.message and "prompts/NAME.md" in problem.hint
    assert "\n" not in str(problem) and len(str(problem)) < 400
    str(problem).encode("utf-8")


@pytest.mark.parametrize("ref", ["x" * 120, "ü" * 60, "a\u00a0b"])
def test_a_long_or_odd_name_is_still_a_name(ref: str) -> None:
    """JSR-023"""
    assert normalize_ref(ref) == ref


def test_an_unknown_name_is_quoted_and_the_others_are_listed_in_order() -> None:
    """JSR-051"""
    problem = find_prompt(" prompts/sumarise.md ", NAMES)
    assert isinstance(problem, RefProblem) and problem.code == "unknown"
    assert str(problem) == 'There is no prompt "prompts/sumarise.md". Use one of: a.b, summarise, tag.'


def test_without_prompts_it_is_said_that_there_are_none() -> None:
    """JSR-051"""
    problem = find_prompt("x", [])
    assert isinstance(problem, RefProblem)
    assert "no prompts" in problem.hint


def test_a_bare_name_that_is_empty_is_unknown() -> None:
    """JSR-051"""
    problem = find_prompt("prompts/.md", NAMES)
    assert isinstance(problem, RefProblem) and problem.code == "unknown"


def test_prompts_are_plain_text() -> None:
    """JSR-013"""
    assert Prompt("a", "{{x}} ${y} <%= z %>").text == "{{x}} ${y} <%= z %>"


@settings(max_examples=100)
@given(st.text(max_size=140))
def test_any_text_is_a_name_or_a_problem_in_one_line(ref: str) -> None:
    """JSR-051"""
    answer = normalize_ref(ref)
    if isinstance(answer, RefProblem):
        assert len(str(answer).splitlines()) == 1
    else:
        assert not set(answer) & set(" \t\r\n")
        assert normalize_ref(f"./prompts/{answer}.md") == answer or len(answer.encode("utf-8", "surrogatepass")) > 107
