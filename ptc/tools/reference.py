"""Tools named on a command line: `module:name`, a dict of functions or a list of `Tool`.

async with namespaces(find("my_tools:TOOLS")) as mine:
    outcome = await runtime.run(code, mine)
"""

import contextlib
import importlib
import os
import sys
from collections.abc import AsyncIterator, Mapping

from ptc.errors import UsageError
from ptc.namespaces import Namespace, normalize
from ptc.tools.calls import NAMESPACE, ProgramTools, checked

__all__ = ["find", "namespaces"]


def find(reference: str) -> object:
    """What `module:name` stands for. The module may lie in the current directory. `UsageError`, on one line."""
    module_name, _, path = reference.partition(":")
    if not module_name or not path:
        raise UsageError(f'"{reference}": write module:name, like my_tools:TOOLS')
    if "" not in sys.path and (here := os.getcwd()) not in sys.path:  # noqa: PTH109  # sys.path holds texts
        sys.path.insert(0, here)
    try:
        found: object = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = error.name or module_name
        if module_name == missing or module_name.startswith(f"{missing}."):
            raise UsageError(f'"{reference}": there is no module "{missing}"') from None
        raise UsageError(f'"{reference}": the module needs "{missing}", which is not installed') from None
    except (Exception, SystemExit) as error:  # whatever its code does
        raise UsageError(f'"{reference}": the module cannot be imported{_because(error)}') from None
    for name in path.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            raise UsageError(f'"{reference}": the module has no "{path}"') from None
    return found


@contextlib.asynccontextmanager
async def namespaces(tools: object) -> AsyncIterator[list[Namespace]]:
    """The namespace `tools` for one run, made of a dict of functions or a list of `Tool`. `UsageError` for the rest."""
    if isinstance(tools, Mapping):
        yield list(normalize({NAMESPACE: tools}))
    elif isinstance(tools, (list, tuple)):
        async with ProgramTools(checked(tools)) as mine:
            yield list(normalize([mine.namespace]))
    else:
        raise UsageError("a dict of functions or a list of Tool is needed")


def _because(error: BaseException) -> str:
    lines = str(error).splitlines()
    return f": {lines[0]}" if lines else ""
