"""The public names of both packages, which are imported when they are first asked for."""

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import jsrun
import ptc


def declared(package: ModuleType) -> dict[str, str]:
    """The names that type checkers see → the module each is imported from."""
    tree = ast.parse(Path(str(package.__file__)).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    return {
        alias.name: str(node.module) for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }


@pytest.mark.parametrize("package", [jsrun, ptc], ids=lambda package: str(package.__name__))
def test_every_public_name_is_what_type_checkers_see(package: ModuleType) -> None:
    """The package's names are those it declares, each from its module."""
    assert sorted(declared(package)) == sorted(package.__all__)
    for name, module in declared(package).items():
        assert getattr(package, name) is getattr(import_module(module), name)
    assert set(package.__all__) <= set(dir(package))


def test_a_name_it_does_not_have_is_an_attribute_error() -> None:
    """A wrong name fails as it does in any package."""
    with pytest.raises(AttributeError, match="has no attribute 'Bundel'"):
        _ = jsrun.Bundel


def test_importing_the_package_imports_no_engine_and_no_runtime() -> None:
    """A part of the package is loaded without the others."""
    loaded = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys, jsrun; print([m for m in sys.modules if m.startswith(('jsrun.', 'ptc.'))])",
        ],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert loaded.strip() == "['ptc._lazy']"
