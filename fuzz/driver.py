"""Running a target: rounds of inputs until the time is over, findings kept as files, findings replayed from files."""

import hashlib
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from fuzz.inputs import from_text, to_text
from fuzz.targets import Target, target

CORPUS: Final = Path(__file__).with_name("corpus")
_STEPS: Final = 40
_SETTINGS: Final[dict[str, Any]] = {
    "database": None,
    "deadline": None,
    "suppress_health_check": list(HealthCheck),
    "phases": [Phase.generate, Phase.target, Phase.shrink],
    "report_multiple_bugs": False,
    "print_blob": False,
}


@dataclass(frozen=True, slots=True)
class Finding:
    """An input that broke something. `text` is the input as `fuzz.inputs` has it, made as small as it gets."""

    target: str
    text: str
    error: str


@dataclass(frozen=True, slots=True)
class Report:
    """What a session did. `coverage`: edges of Python code reached, None if nobody counted."""

    target: str
    executions: int
    seconds: float
    finding: Finding | None
    coverage: int | None = None


def run(name: str, seconds: float, first_seed: int, progress: Callable[[int, float], None]) -> Report:
    """Fuzz a target for so long, or until there is a finding. `progress` is told executions and seconds as they go."""
    chosen = target(name)
    started = time.monotonic()
    with ExitStack() as stack:
        session = _Session(name, chosen, stack.enter_context(chosen.open()), started + seconds)
        number = first_seed
        while time.monotonic() < session.deadline and session.finding is None:
            session.round(number)
            number += 1
            progress(session.executions, time.monotonic() - started)
    return Report(name, session.executions, time.monotonic() - started, session.finding)


def replay(name: str, text: str) -> Finding | None:
    """Try one input again; the finding if it still breaks something. ValueError for text that is no input."""
    chosen = target(name)
    value = from_text(text)
    with ExitStack() as stack:
        place = stack.enter_context(chosen.open())
        try:
            if chosen.lives is not None:
                _live(chosen, value["seed"], value["lives"])
            else:
                assert chosen.check is not None
                chosen.check(value, place)
        except Exception as error:
            return Finding(name, text, told(error))
    return None


def keep(finding: Finding, folder: Path) -> Path:
    """Write a finding's input into a file of its own; its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{finding.target}-{hashlib.sha256(finding.text.encode()).hexdigest()[:12]}.json"
    path.write_text(finding.text + "\n", encoding="ascii")
    return path


class _Session:
    """One session of one target."""

    def __init__(self, name: str, chosen: Target, place: Any, deadline: float) -> None:
        self.name = name
        self.deadline = deadline
        self.executions = 0
        self.finding: Finding | None = None
        self._chosen = chosen
        self._place = place

    def round(self, number: int) -> None:
        """One batch of inputs, made from this seed."""
        if self._chosen.lives is not None:
            self._lives(number)
        else:
            self._inputs(number)

    def _lives(self, number: int) -> None:
        self.executions += self._chosen.batch
        try:
            _live(self._chosen, number, self._chosen.batch)
        except Exception as error:
            text = to_text({"seed": number, "lives": self._chosen.batch})
            self.finding = Finding(self.name, text, told(error))

    def _inputs(self, number: int) -> None:
        chosen = self._chosen
        failed: list[Any] = []
        assert chosen.inputs is not None
        assert chosen.check is not None
        check = chosen.check

        @seed(number)
        @settings(max_examples=chosen.batch, **_SETTINGS)
        @given(chosen.inputs)
        def attempt(value: Any) -> None:
            if not failed and time.monotonic() > self.deadline:
                return  # the rest of the round is not worth the overtime
            self.executions += 1
            try:
                check(value, self._place)
            except Exception:
                failed.append(value)
                raise

        try:
            attempt()
        except Exception as error:
            if not failed:
                raise
            self.finding = Finding(self.name, to_text(failed[-1]), told(error))


def _live(chosen: Target, number: int, lives: int) -> None:
    assert chosen.lives is not None
    machine = type(chosen.lives.__name__, (chosen.lives,), {})
    run_state_machine_as_test(
        seed(number)(machine), settings=settings(max_examples=lives, stateful_step_count=_STEPS, **_SETTINGS)
    )


def told(error: BaseException) -> str:
    """The kind and the text of an error, and what Hypothesis noted of it."""
    notes = [str(note) for note in getattr(error, "__notes__", ())]
    return "\n".join([f"{type(error).__name__}: {error}", *notes])
