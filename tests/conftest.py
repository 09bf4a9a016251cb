"""What every test shares: the proof that nothing is left behind."""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines import VARIANTS, skip_unmet_needs, using, variant_of, wanted_variants

# A process that has been told to end gets this long to be gone.
_PATIENCE_S = 5.0


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Repeat what asks for an engine; see `tests.engines`."""
    if "engine" in metafunc.fixturenames:
        variants = wanted_variants()
        metafunc.parametrize("engine", variants, indirect=True, scope="session")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """See `tests.engines`."""
    skip_unmet_needs(items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Use a test's variant from its first fixture to its last, shared ones that it is the first to need included."""
    name = variant_of(item)
    with using(name) if name is not None else contextlib.nullcontext():
        return (yield)


@pytest.fixture(scope="session")
def engine(request: pytest.FixtureRequest) -> str:
    """The name of an engine. See `tests.engines`."""
    return VARIANTS[request.param].engine


def our_processes() -> dict[int, int]:
    """Living processes of ours → the host each belongs to, as their command line tells. Linux only."""
    found = {}
    for entry in Path("/proc").iterdir() if Path("/proc").is_dir() else ():
        if not entry.name.isdigit():
            continue
        try:
            command = (entry / "cmdline").read_bytes().split(b"\0")
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state != "Z" and any(part.endswith(b"/ptc/guest/bootstrap.py") for part in command):
            found[int(entry.name)] = int(command[-2])
    return found


def left_behind() -> list[int]:
    """Processes of ours whose host is this session or is no longer there."""
    return [pid for pid, host in our_processes().items() if host == os.getpid() or not Path(f"/proc/{host}").is_dir()]


@pytest.fixture(scope="session", autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """The whole session leaves no process of ours and no child of its own."""
    yield
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        if not left_behind() and not _children():
            return
        time.sleep(0.05)
    pytest.fail(f"processes left behind: {left_behind()}, children: {_children()}")


def _children() -> list[int]:
    path = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    try:
        return [int(pid) for pid in path.read_text().split()]
    except OSError:
        return []
