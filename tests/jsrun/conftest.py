"""One warm engine for every test that runs programs, and a short way to run one."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

import ptc
from tests.jsrun.playing import Play


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def runtime(engine: str) -> AsyncIterator[ptc.Runtime]:
    """A runtime all runs share."""
    async with ptc.Runtime(engine=engine, spares=1) as runtime:
        yield runtime


@pytest.fixture
def play(runtime: ptc.Runtime) -> Play:
    """Runs programs in the shared runtime."""
    return Play(runtime)
