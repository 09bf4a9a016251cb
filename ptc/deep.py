"""Running recursive code on a deep stack: the parser and the schema validator recurse as deep as their input goes."""

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")

# 200 levels of anything the parser nests take at most some 60 frames each; deeper input gets a RecursionError.
FRAMES = 20_000
# Address space, not memory: only what is used is ever touched. The second is for systems that refuse the first.
_STACKS = (256 * 1024 * 1024, 64 * 1024 * 1024)

_lock = threading.Lock()
_active = 0
_usual_limit = 0


def run_deep(function: Callable[[], T]) -> T:
    """Call `function` in a thread with a deep stack and wait for what it gives or raises."""
    return start_deep(function).result()


def start_deep(function: Callable[[], T]) -> Future[T]:
    """Start `function` in a thread with a deep stack."""
    future: Future[T] = Future()

    def work() -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            with _deep_recursion():
                answer = function()
        except BaseException as error:  # it belongs to the one who waits
            future.set_exception(error)
        else:
            future.set_result(answer)

    with _lock:
        usual_stack = threading.stack_size()
        try:
            _ask_for_stack()
            threading.Thread(target=work, name="ptc deep", daemon=True).start()
        finally:
            threading.stack_size(usual_stack)
    return future


def _ask_for_stack() -> None:
    for size in _STACKS:
        try:
            threading.stack_size(size)
        except ValueError:
            continue
        return


@contextmanager
def _deep_recursion() -> Iterator[None]:
    """The recursion limit belongs to the whole interpreter: the first to come raises it, the last to go restores it."""
    global _active, _usual_limit
    with _lock:
        if _active == 0:
            _usual_limit = sys.getrecursionlimit()
            sys.setrecursionlimit(max(_usual_limit, FRAMES))
        _active += 1
    try:
        yield
    finally:
        with _lock:
            _active -= 1
            if _active == 0:
                sys.setrecursionlimit(_usual_limit)
