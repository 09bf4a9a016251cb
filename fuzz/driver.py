"""Running a target: rounds of inputs until the time is over, findings kept as files, findings replayed from files."""

import hashlib
import time
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from fuzz.inputs import from_text, to_text
from fuzz.patience import patience
from fuzz.targets import Target, target, try_input

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
# Hypothesis complains of the size of the strategies, which it would print; findings show the input itself.
warnings.filterwarnings("ignore", "Generating overly large repr")


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


def run(
    name: str, seconds: float, first_seed: int, progress: Callable[[int, float], None], *, alarmed: bool = False
) -> Report:
    """Fuzz a target for so long, or until there is a finding. `progress` is told executions and seconds as they go.

    alarmed: an input that hangs is a finding; for the main thread of a process that has no other use for SIGALRM.
    """
    chosen = target(name)
    started = time.monotonic()
    with ExitStack() as stack:
        session = _Session(name, chosen, stack.enter_context(chosen.open()), started + seconds, alarmed)
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
    if chosen.lives is not None and not (isinstance(value, dict) and value.keys() == {"seed", "lives"}):
        raise ValueError("seed and lives are what a state machine is replayed from")
    with chosen.open() as place:
        error = attempt(chosen, value, place)
    return None if error is None else Finding(name, text, told(error))


def attempt(chosen: Target, value: Any, place: Any) -> Exception | None:
    """Try one input of a target in its open place; what was raised."""
    try:
        if chosen.lives is not None:
            _live(chosen, value["seed"], value["lives"])
        else:
            assert chosen.check is not None
            try_input(chosen.check, value, place)
    except Exception as error:
        return error
    return None


def keep(finding: Finding, folder: Path) -> Path:
    """Write a finding's input into a file of its own; its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{finding.target}-{hashlib.sha256(finding.text.encode()).hexdigest()[:12]}.json"
    path.write_text(finding.text + "\n", encoding="ascii")
    return path


class _Session:
    """One session of one target."""

    def __init__(self, name: str, chosen: Target, place: Any, deadline: float, alarmed: bool) -> None:
        self.name = name
        self.deadline = deadline
        self.executions = 0
        self.finding: Finding | None = None
        self._chosen = chosen
        self._place = place
        self._patience: Callable[[], AbstractContextManager[None]] = patience if alarmed else nullcontext

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
        def once(value: Any) -> None:
            if not failed and time.monotonic() > self.deadline:
                return  # the rest of the round is not worth the overtime
            self.executions += 1
            try:
                with self._patience():
                    try_input(check, value, self._place)
            except Exception:
                failed.append(value)
                raise

        try:
            once()
        except Exception as error:
            if not failed:
                raise
            self.finding = Finding(self.name, to_text(failed[-1]), f"{type(error).__name__}: {error}")


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
