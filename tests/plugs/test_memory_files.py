"""Files in memory behave as those of a real machine: random operations on both, with the same outcome."""

import asyncio
import tempfile
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jsrun.plugs.api import Host
from jsrun.plugs.hosts import HostPath, LocalHost, MemoryHost

_PATHS = ["a", "b", "a/b", "a/b/c", "b/a", "a/../b", "link", "link/a"]
_TARGETS = ["a", "b", "a/b", "../a", "link", "nowhere", "."]


async def _listed(path: HostPath) -> list[str]:
    return [child.name async for child in path.iterdir()]


_ONE: dict[str, Callable[[HostPath], Any]] = {
    "read": lambda path: path.read_bytes(),
    "write": lambda path: path.write_bytes(b"xy"),
    "append": lambda path: path.append_bytes(b"z"),
    "list": _listed,
    "mkdir": lambda path: path.mkdir(),
    "parents": lambda path: path.mkdir(parents=True, exist_ok=True),
    "unlink": lambda path: path.unlink(),
    "rmdir": lambda path: path.rmdir(),
    "rmtree": lambda path: path.rmtree(),
    "is_file": lambda path: path.is_file(),
    "is_symlink": lambda path: path.is_symlink(),
    "chmod": lambda path: path.chmod(0o700),
    "readlink": lambda path: path.readlink(),
    "kind": lambda path: path.stat(),
    "lkind": lambda path: path.lstat(),
}
_STEPS = st.lists(
    st.tuples(st.sampled_from(sorted(_ONE)), st.sampled_from(_PATHS), st.none())
    | st.tuples(st.just("rename"), st.sampled_from(_PATHS), st.sampled_from(_PATHS))
    | st.tuples(st.just("symlink"), st.sampled_from(_PATHS), st.sampled_from(_TARGETS)),
    max_size=14,
)


async def _outcomes(host: Host, top: str, steps: list[tuple[str, str, str | None]]) -> list[Any]:
    found: list[Any] = []
    for operation, path, other in steps:
        here = host.path(top) / path
        try:
            if operation == "rename":
                result: Any = str(await here.rename(host.path(top) / str(other)))
            elif operation == "symlink":
                await here.symlink_to(str(other))
                result = None
            else:
                result = await _ONE[operation](here)
        except OSError as error:
            found.append((operation, path, type(error).__name__, error.errno))
            continue
        if operation in ("kind", "lkind"):
            result = (result.kind, result.size if result.kind == "file" else None)
        found.append((operation, path, str(result).replace(top, "")))
    return found


@pytest.mark.plg("PLG-073")
@settings(max_examples=150, deadline=None)
@given(_STEPS)
def test_memory_and_real_files_agree(steps: list[tuple[str, str, str | None]]) -> None:
    """PLG-073 Results, kinds of errors and their numbers."""

    async def both() -> tuple[list[Any], list[Any]]:
        with tempfile.TemporaryDirectory() as folder:
            # Deep down, so that links which lead upwards stay inside.
            top = f"{folder}/1/2/3/4/work"
            local, memory = LocalHost(top), MemoryHost(workspace="/0/1/2/3/4/work")
            await local.path(top).mkdir(parents=True)
            real = await _outcomes(local, top, steps)
            await local.aclose()
        return real, await _outcomes(memory, memory.info.workspace, steps)

    real, made = asyncio.run(both())
    assert made == real
