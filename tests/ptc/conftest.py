"""One warm runtime for every test that needs no other."""

from collections.abc import AsyncIterator

import pytest_asyncio

import ptc


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def runtime(engine: str) -> AsyncIterator[ptc.Runtime]:
    """A runtime without spares, so that a test's processes are its own."""
    async with ptc.Runtime(engine=engine, spares=0) as runtime:
        yield runtime
