"""The event loop of a command: it ends with the command, whatever foreign code still hangs in it."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")

# Seconds for what is still at work when a command ends: more than the `cancel_grace` of a run.
_GRACE: Final = 3.0


def run_command(main: Coroutine[Any, Any, T]) -> T:
    """What `main` returns or raises, in a loop of its own.

    Unlike `asyncio.run` it does not wait for ever for tasks that ignore being cancelled, which tools may start.
    """
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        return loop.run_until_complete(main)
    finally:
        try:
            _end(loop)
        finally:
            asyncio.set_event_loop(None)
            loop.close()


def _end(loop: asyncio.AbstractEventLoop) -> None:
    # Whoever is left behind here has nobody to report to.
    loop.set_exception_handler(lambda _loop, _context: None)
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.wait(tasks, timeout=_GRACE))
    loop.run_until_complete(loop.shutdown_asyncgens())
