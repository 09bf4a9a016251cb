"""One warm runtime for every test that needs no other."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

import ptc
from tests.engines import ENGINES


@pytest.fixture(scope="session", params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    """The name of an engine."""
    return str(request.param)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def runtime(engine: str) -> AsyncIterator[ptc.Runtime]:
    """A runtime without spares, so that a test's processes are its own."""
    async with ptc.Runtime(engine=engine, spares=0) as runtime:
        yield runtime
