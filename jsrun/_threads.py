"""Calling host functions that may be plain or async, without ever blocking the event loop."""

import asyncio
import contextlib
import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable
from typing import ParamSpec, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")


async def call(function: Callable[P, T | Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call `function`: an async one on the loop, a plain one in a thread; an awaitable it returns is awaited."""
    if is_async(function):
        return await cast(Awaitable[T], function(*args, **kwargs))
    answer = await in_thread(function, *args, **kwargs)
    if inspect.isawaitable(answer):
        return await cast(Awaitable[T], answer)
    return answer


def is_async(function: object) -> bool:
    """Is it a coroutine function, or an object whose `__call__` is one?"""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


async def in_thread(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a blocking function in a thread of its own and wait for its answer; context variables go along.

    A pool (`asyncio.to_thread`) is not used: its threads are joined when the loop closes and when the interpreter
    exits, so one host function that never returns would keep the whole process. Cancelling the wait drops the answer.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def settle(answer: T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if isinstance(error, StopIteration):  # a future refuses it: it would end the awaiting coroutine instead
            future.set_exception(RuntimeError("the function raised StopIteration"))
        elif error is not None:
            future.set_exception(error)
        else:
            future.set_result(cast(T, answer))

    def work() -> None:
        answer: T | None = None
        error: BaseException | None = None
        try:
            answer = context.run(function, *args, **kwargs)
        except BaseException as raised:  # SystemExit and KeyboardInterrupt belong to the one who waits
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, answer, error)

    threading.Thread(target=work, name=f"jsrun {getattr(function, '__name__', 'call')}", daemon=True).start()
    return await future
