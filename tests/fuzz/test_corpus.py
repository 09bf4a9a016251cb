"""Every input that ever broke something, tried again: `fuzz/corpus/TARGET/*.json`."""

from pathlib import Path

import pytest

from fuzz.driver import CORPUS, replay
from fuzz.targets import NAMES

KEPT = sorted(path for name in NAMES for path in (CORPUS / name).glob("*.json"))


@pytest.mark.parametrize("path", [pytest.param(path, id=f"{path.parent.name}-{path.stem}") for path in KEPT])
def test_an_input_that_broke_something_does_so_no_more(path: Path) -> None:
    finding = replay(path.parent.name, path.read_text(encoding="ascii"))
    assert finding is None, finding


def test_every_kept_input_belongs_to_a_target() -> None:
    kept = {path.parent.name for path in CORPUS.glob("*/*.json")}
    assert kept <= set(NAMES)
