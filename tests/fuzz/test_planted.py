"""Each target finds a fault that is planted into the code it is about, and keeps an input that shows it."""

from collections.abc import Callable
from typing import Any

import pytest

from fuzz import driver
from fuzz.running import Ground
from jsrun.errors import EvalError
from jsrun.keywords import BoundedValidator
from ptc import wire
from ptc._control import ControlStream
from ptc._processes import ImageProcess
from ptc.outcome import ExitStatus
from ptc.protocol.machine import HostMachine

# Seconds; a target that does not find what is planted here in this time finds nothing.
PATIENCE_S = 40.0


def _raises(*_arguments: object, **_options: object) -> Any:
    raise KeyError("planted")


def _wire(patch: pytest.MonkeyPatch) -> None:
    real = wire.encode
    patch.setattr(wire, "encode", lambda value, *more: real([value] if isinstance(value, str) else value, *more))


def _machine(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(HostMachine, "eof", lambda self: [])


def _control(patch: pytest.MonkeyPatch) -> None:
    real = ControlStream._lose

    def twice(self: ControlStream) -> None:
        real(self)
        self._on_lost()

    patch.setattr(ControlStream, "_lose", twice)


def _family(patch: pytest.MonkeyPatch) -> None:
    def exited(self: ImageProcess, status: ExitStatus | None) -> None:  # and its runs are forgotten
        self.dead = True
        self._control.finish()
        if not self.gone.done():
            self.gone.set_result(status)

    patch.setattr(ImageProcess, "exited", exited)


def _manifest(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("jsrun.manifest_reader._check_whitelist", _raises)


def _journal(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("jsrun.sqlite_journal.run_row", _raises)


def _schema(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("fuzz.targets.schema.schema_type", lambda schema: "{")


def _verdict(patch: pytest.MonkeyPatch) -> None:
    fits_all: Any = lambda *_: iter(())  # noqa: E731
    patch.setitem(BoundedValidator.VALIDATORS, "type", fits_all)  # type: ignore[attr-defined]


def _evals(patch: pytest.MonkeyPatch) -> None:
    def nameless(file: str, text: str) -> Any:
        raise EvalError("it cannot be read")

    patch.setattr("fuzz.targets.evals.read_case", nameless)


def _program(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Ground, "replay", lambda self, engine, program, record: "another call")


def _differential(patch: pytest.MonkeyPatch) -> None:
    real = Ground.run

    def run(self: Ground, engine: str, program: str, **more: Any) -> Any:
        return real(self, engine, program if engine == "quickjs" else program.replace("'c'", "'d'"), **more)

    patch.setattr(Ground, "run", run)


PLANTED: list[tuple[str, Callable[[pytest.MonkeyPatch], None]]] = [
    ("wire", _wire),
    ("frames", _machine),
    ("machine", _machine),
    ("control", _control),
    ("control", _family),
    ("manifest", _manifest),
    ("bundle", _manifest),
    ("journal", _journal),
    ("schema", _schema),
    ("schema", _verdict),
    ("evals", _evals),
    ("program", _program),
    ("differential", _differential),
]


@pytest.mark.parametrize(("name", "plant"), [pytest.param(*one, id=f"{one[0]}-{one[1].__name__}") for one in PLANTED])
def test_a_planted_fault_is_found(
    name: str, plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And its input shows it again, until the fault is gone."""
    with monkeypatch.context() as patch:
        plant(patch)
        report = driver.run(name, PATIENCE_S, 7, lambda executions, seconds: None)
        assert report.finding is not None, f"{report.executions} executions found nothing"
        assert driver.replay(name, report.finding.text) is not None
    if name != "differential":  # whose program may well differ for another reason once it is whole
        assert driver.replay(name, report.finding.text) is None
