"""Every line of the conformance list has a test, and no test names another."""

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
FILES = [*Path(__file__).parent.glob("test_*.py"), TESTS / "test_acp.py"]
NUMBERS = {f"PLG-{number:03}" for number in range(1, 101)}


def marked(path: Path) -> set[str]:
    """The ids in the `plg` marks of a file."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.plg":
            found |= {str(ast.literal_eval(argument)) for argument in node.args}
    return found


def test_every_number_has_a_test_and_no_other_is_named() -> None:
    """The list has a hundred lines."""
    named = {number for path in FILES for number in marked(path)}
    assert sorted(NUMBERS - named) == []
    assert sorted(named - NUMBERS) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_mark_holds_numbers_as_they_are_written(path: Path) -> None:
    """So that they can be searched for."""
    assert all(number.startswith("PLG-") and len(number) == 7 for number in marked(path))
