"""evals: arbitrary text as an eval case, and as a cassette."""

from typing import Any

from hypothesis import strategies as st

from fuzz.strategies import cases, json_texts
from fuzz.targets import Target
from jsrun.cassette import read_cassette
from jsrun.errors import EvalError, JsrunError
from jsrun.eval_cases import read_case


def check(given: Any, _place: None) -> None:
    """A case or an EvalError that names the file; a cassette or an error in words."""
    case, cassette = given
    try:
        read_case("evals/e.json", case)
    except EvalError as error:
        assert "evals/e.json" in str(error), str(error)
    try:
        read_cassette(cassette, "evals/e.jsonl")
    except JsrunError as error:
        assert "evals/e.jsonl" in str(error), str(error)


TARGET = Target(
    about="arbitrary text as an eval case and as a cassette: read, or refused with its place",
    inputs=st.tuples(cases(), st.lists(json_texts(), max_size=3).map("\n".join)).map(list),
    check=check,
    guided=True,
)
