"""Public names that are imported when they are first asked for, so that a part is loaded without the others."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module


def attach(
    package: str, names: Mapping[str, tuple[str, ...]]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` (PEP 562) of a package whose public names its modules define.

    `names`: the full name of a module → the names it defines.
    """
    home = {name: module for module, defined in names.items() for name in defined}

    def get(name: str) -> object:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(home[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    def names_of() -> list[str]:
        return sorted({*vars(sys.modules[package]), *home})

    return get, names_of
