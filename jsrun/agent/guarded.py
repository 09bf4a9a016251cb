"""Foreign code under control: given its time, cancelled when it is up, abandoned if it does not end even then."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")

# What does not end is referred to by nobody else; asyncio itself keeps tasks by weak references only.
_abandoned: set[asyncio.Task[object]] = set()


class Raised(Exception):
    """Foreign code raised `error`, which may be anything but KeyboardInterrupt."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error


class TimeUp(Exception):
    """Foreign code did not end in its time."""


class _Settled(Generic[T]):
    """How a call ended, as a value: an exception of its own kind would stop the loop or look like a cancellation."""

    def __init__(self, value: T | None, error: BaseException | None) -> None:
        self.value = value
        self.error = error


async def guarded(
    call: Callable[[], Awaitable[T]],
    timeout: float | None,
    grace: float | None,
    stopping: Callable[[], None] = lambda: None,
) -> T:
    """What `call()` returns. Raises Raised, or TimeUp after `timeout` seconds (None: no limit).

    When its time is up or this task is cancelled, `stopping` is called, the call is cancelled and gets `grace` seconds
    to end; then it is abandoned, and whatever it still does has no effect here. `grace` None: it is never cancelled,
    and abandoned at once.
    """
    task = asyncio.create_task(_settle(call))
    try:
        await asyncio.wait({task}, timeout=timeout)
    except asyncio.CancelledError:
        stopping()
        await _end(task, grace)
        raise
    if not task.done():
        stopping()
        await _end(task, grace)
        raise TimeUp
    settled = task.result()
    if settled.error is not None:
        raise Raised(settled.error)
    return settled.value  # type: ignore[return-value]  # without an error there is a value


async def _settle(call: Callable[[], Awaitable[T]]) -> _Settled[T]:
    try:
        return _Settled(await call(), None)
    except KeyboardInterrupt:
        raise
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        return _Settled(None, error)  # the call's own, nobody cancelled this task
    except BaseException as error:
        return _Settled(None, error)


async def _end(task: "asyncio.Task[_Settled[T]]", grace: float | None) -> None:
    if grace is not None:
        task.cancel()
        await asyncio.wait({task}, timeout=grace)
    if not task.done():
        _abandoned.add(task)
        task.add_done_callback(_forget)


def _forget(task: "asyncio.Task[_Settled[T]]") -> None:
    _abandoned.discard(task)
    if not task.cancelled():
        task.exception()  # looked at, so that asyncio does not report it


def name_of(error: BaseException) -> str:
    """Class and first line of a foreign error, for people and models: bounded, never a traceback."""
    try:
        lines = str(error).strip().splitlines()
    except Exception:  # foreign code too
        lines = []
    return f"{type(error).__name__}: {lines[0]}"[:500] if lines else type(error).__name__


def stripped(error: BaseException) -> None:
    """Take traceback, cause and context off an error that is kept as a value."""
    error.__traceback__ = None
    error.__cause__ = None
    error.__context__ = None
