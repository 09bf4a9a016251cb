"""What is fuzzed. Each module here has one target, under its own name, as `TARGET`."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from hypothesis.stateful import RuleBasedStateMachine
from hypothesis.strategies import SearchStrategy

NAMES: Final = (
    "wire",
    "frames",
    "machine",
    "control",
    "program",
    "differential",
    "bundle",
    "manifest",
    "journal",
    "schema",
    "evals",
)


@dataclass(frozen=True, slots=True)
class Target:
    """Something to fuzz.

    `inputs` makes inputs of JSON data and bytes. `check(input, place)` raises for a finding; `place` is what `open()`
    gives: engines, a folder. `lives` in place of both: a state machine, whose every life is an input. `guided`: the
    code under test is Python in this process, so that coverage can guide. `batch`: inputs of one round.
    """

    about: str
    inputs: SearchStrategy[Any] | None = None
    check: Callable[[Any, Any], None] | None = None
    open: Callable[[], AbstractContextManager[Any]] = nullcontext
    lives: type[RuleBasedStateMachine] | None = None
    guided: bool = False
    batch: int = 40


class PanicError(Exception):
    """Something was raised that is neither an `Exception` nor a wish to end: a panic of extension code."""


def try_input(check: Callable[[Any, Any], None], value: Any, place: Any) -> None:
    """Check one input. Whatever the code under test raises is an `Exception` here."""
    try:
        check(value, place)
    except (Exception, GeneratorExit, KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        raise PanicError(f"{type(error).__name__}: {error}") from error


def target(name: str) -> Target:
    """The target of a name. KeyError if there is none."""
    if name not in NAMES:
        raise KeyError(name)
    found: Target = import_module(f"fuzz.targets.{name}").TARGET
    return found
