"""From a reference in a setup to what it refers to."""

import difflib
import hashlib
import importlib
import importlib.metadata
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from jsrun._text import cut, quoted

GROUP = "jsrun.plugs"
# What a reference without `:Name` means.
DEFAULT_NAME = "plug"
# The plugs that come with this package, by the names that entry points would give them.
STOCK = {
    "env": "jsrun.plugs.stock.env:EnvPlug",
    "redact": "jsrun.plugs.stock.redact:RedactPlug",
    "permissions": "jsrun.plugs.stock.permissions:PermissionsPlug",
    "transcript": "jsrun.plugs.stock.transcript:TranscriptPlug",
    "preamble": "jsrun.plugs.stock.preamble:PreamblePlug",
    "turn-limit": "jsrun.plugs.stock.turn_limit:TurnLimitPlug",
}


class NotFound(Exception):
    """A reference that leads to nothing; the text is a message for people."""


def resolve(reference: str, folder: Path) -> Any:
    """What `reference` names: `package.module:Name`, `./file.py:Name` from `folder`, or a name of an entry point.

    NotFound if there is no such thing, or its module cannot be imported. Importing runs the module's code.
    """
    target, colon, name = reference.rpartition(":")
    if not colon:
        target, name = reference, DEFAULT_NAME
    if not target or not name:
        raise NotFound(f"{quoted(reference)} is no reference; write package.module:Name or ./file.py:Name.")
    if _is_file(target):
        return _attribute(_from_file(target, folder), name, target)
    if not colon:
        if target in STOCK:
            return resolve(STOCK[target], folder)
        for point in importlib.metadata.entry_points(group=GROUP, name=target):
            return _loaded(point)
    return _attribute(_from_package(target, bare=not colon), name, target)


def _is_file(target: str) -> bool:
    return target.startswith(("./", "../", "/"))


def _from_file(target: str, folder: Path) -> ModuleType:
    path = (folder / target).resolve()
    if not path.is_file():
        raise NotFound(f"There is no file {path}.")
    # Its own name for each file: two plugs may both be called plug.py. It stays known to Python, because types that a
    # schema names are looked up in it.
    name = f"jsrun_plugs_file_{hashlib.sha256(str(path).encode()).hexdigest()[:16]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise NotFound(f"{path} is not a Python file; its name must end in .py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise NotFound(f"{path} cannot be imported: {_shown(error)}") from error
    return module


def _from_package(target: str, *, bare: bool) -> ModuleType:
    if not all(part.isidentifier() for part in target.split(".")):
        if bare:
            raise NotFound(_no_entry_point(target))
        raise NotFound(f"{quoted(target)} is not the name of a module; a file begins with ./ or /.")
    try:
        return importlib.import_module(target)
    except ModuleNotFoundError as error:
        if error.name is not None and (target == error.name or target.startswith(f"{error.name}.")):
            if bare and "." not in target:
                raise NotFound(_no_entry_point(target)) from None
            raise NotFound(f"There is no module {error.name}. Is its package installed?") from None
        raise NotFound(f"The module {target} cannot be imported: {_shown(error)}") from error
    except (Exception, SystemExit) as error:
        raise NotFound(f"The module {target} cannot be imported: {_shown(error)}") from error


def _loaded(point: importlib.metadata.EntryPoint) -> Any:
    try:
        return point.load()
    except (Exception, SystemExit) as error:
        raise NotFound(f"The entry point {point.name} ({point.value}) cannot be loaded: {_shown(error)}") from error


def _attribute(module: ModuleType, name: str, target: str) -> Any:
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise NotFound(f"{target} has no {quoted(name)}.{_alike(name, dir(module))}")
        found = getattr(found, part)
    return found


def _no_entry_point(name: str) -> str:
    names = [*STOCK, *importlib.metadata.entry_points(group=GROUP).names]
    return f"There is no plug {quoted(name)} and no module of that name.{_alike(name, names)}"


def _alike(name: str, names: list[str]) -> str:
    close = difflib.get_close_matches(name, [other for other in names if not other.startswith("_")], n=1)
    return f" Did you mean {close[0]}?" if close else ""


def _shown(error: BaseException) -> str:
    if isinstance(error, SyntaxError) and error.lineno is not None:
        return f"line {error.lineno}: {error.msg}."
    return f"{type(error).__name__}: {cut(str(error), 300)}"
