"""`SyncRuntime` and `run`: the same runtime without `await`, on a loop thread of its own."""

import asyncio
import os
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from ptc.errors import ClosedError, UsageError
from ptc.image import Image, RunArguments
from ptc.outcome import Outcome
from ptc.runtime import LoadArguments, Namespaces, Runtime

T = TypeVar("T")


class SyncRuntime:
    """A context manager with the methods of `Runtime`, blocking. Takes the same options.

    Host functions are called on the loop thread, so they cannot use the same runtime (`ptc.blocking` ones can). It may
    be used from several threads, also while another event loop runs in them.
    """

    def __init__(self, **options: Any) -> None:
        self._runtime = Runtime(**options)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="ptc-loop", daemon=True)
        self._thread.start()
        self._pid = os.getpid()
        self._closing = threading.Lock()
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def load(self, code: str, namespaces: Namespaces = (), **arguments: Unpack[LoadArguments]) -> "SyncImage":
        """See `Runtime.load`."""
        return SyncImage(self, self.wait(self._runtime.load(code, namespaces, **arguments)))

    def run(self, code: str, namespaces: Namespaces = (), **options: Any) -> Outcome:
        """See `Runtime.run`."""
        return self.wait(self._runtime.run(code, namespaces, **options))

    def close(self) -> None:
        """End every process and the thread. May be called twice."""
        self._check_thread()
        with self._closing:
            if self._closed:
                return
            self.wait(self._runtime.aclose())
            self._closed = True
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop thread and wait for it; interrupting the wait cancels it."""
        try:
            self._check_thread()
            if self._closed or os.getpid() != self._pid:
                raise ClosedError("the runtime has been closed, or belongs to the process that was forked")
        except BaseException:
            coroutine.close()
            raise
        future = asyncio.run_coroutine_threadsafe(_caught(coroutine), self._loop)
        try:
            result, error = future.result()
        except BaseException:
            future.cancel()
            raise
        if error is not None:
            raise error
        assert result is not None
        return result[0]

    def _check_thread(self) -> None:
        if threading.current_thread() is self._thread:
            raise UsageError("a host function cannot use its own SyncRuntime; mark it with ptc.blocking")

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()


async def _caught(coroutine: Coroutine[Any, Any, T]) -> tuple[tuple[T] | None, BaseException | None]:
    """The result or, as a value, what would end the loop thread if it were raised there."""
    try:
        return (await coroutine,), None
    except (KeyboardInterrupt, SystemExit) as error:
        return None, error


class SyncImage:
    """A loaded program; see `Image`."""

    def __init__(self, runtime: SyncRuntime, image: Image) -> None:
        self._runtime = runtime
        self._image = image

    def run(self, **arguments: Unpack[RunArguments]) -> Outcome:
        """See `Image.run`."""
        return self._runtime.wait(self._image.run(**arguments))

    def unload(self) -> None:
        """See `Image.unload`."""
        self._runtime.wait(self._image.unload())


def run(code: str, namespaces: Namespaces = (), **options: Any) -> Outcome:
    """Run one program in a runtime of its own and return its `Outcome`. Options as for `Runtime.run`."""
    with SyncRuntime(spares=0) as runtime:
        return runtime.run(code, namespaces, **options)
