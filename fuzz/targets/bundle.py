"""bundle: arbitrary files as a bundle's directory."""

import tempfile
from pathlib import Path
from typing import Any

from fuzz.strategies import bundles
from fuzz.targets import Target
from jsrun.bundle import Bundle
from jsrun.errors import BundleError
from jsrun.typings import typings


def check(files: Any, _place: None) -> None:
    """A bundle or a BundleError whose findings have a code, a file and sound places; the second look says the same."""
    with tempfile.TemporaryDirectory() as folder:
        for name, data in files.items():
            path = Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        first, second = _outcome(folder), _outcome(folder)
    assert first == second, "two looks at one bundle differ"


def _outcome(folder: str) -> tuple[str, ...]:
    try:
        bundle = Bundle.load(folder)
    except BundleError as error:
        found = error.diagnostics
        assert any(one.severity == "error" for one in found), "refused without an error"
    else:
        found = bundle.warnings
        assert all(one.severity != "error" for one in found), "taken with an error"
        typings(bundle)
    for one in found:
        assert one.code and one.message and one.file, one
        assert (one.line is None) == (one.column is None), one
        assert one.line is None or (one.line >= 1 and (one.column or 0) >= 1), one
        assert "Traceback" not in str(one)
    return tuple(map(str, found))


TARGET = Target(
    about="arbitrary files as a bundle: findings with places, never an exception",
    inputs=bundles(),
    check=check,
    guided=True,
    batch=20,
)
