"""`SyncRuntime` and `run`: the same runtime without `await`, on a loop thread of its own."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

from ptc._run import HostFunction
from ptc.errors import ClosedError
from ptc.events import Event
from ptc.image import Image
from ptc.limits import Limits
from ptc.outcome import UNSET, LogEntry, Outcome, Unset
from ptc.runtime import Namespaces, Runtime

T = TypeVar("T")


class SyncRuntime:
    """A context manager with the methods of `Runtime`, blocking. Takes the same options.

    Host functions are called on the loop thread. It may be used while another event loop runs in the calling thread.
    """

    def __init__(self, **options: Any) -> None:
        self._runtime = Runtime(**options)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="ptc-loop", daemon=True)
        self._thread.start()
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def load(self, code: str, namespaces: Namespaces = (), **options: Any) -> "SyncImage":
        """See `Runtime.load`."""
        return SyncImage(self, self.wait(self._runtime.load(code, namespaces, **options)))

    def run(self, code: str, namespaces: Namespaces = (), **options: Any) -> Outcome:
        """See `Runtime.run`."""
        return self.wait(self._runtime.run(code, namespaces, **options))

    def close(self) -> None:
        """End every process and the thread. May be called twice."""
        if self._closed:
            return
        self.wait(self._runtime.aclose())
        self._closed = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop thread and wait for it; interrupting the wait cancels it."""
        if self._closed:
            coroutine.close()
            raise ClosedError("the runtime has been closed")
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.close()


class SyncImage:
    """A loaded program; see `Image`."""

    def __init__(self, runtime: SyncRuntime, image: Image) -> None:
        self._runtime = runtime
        self._image = image

    def run(
        self,
        *,
        input: object | Unset = UNSET,
        functions: Mapping[str, Mapping[str, HostFunction]] | None = None,
        timeout: float | Unset | None = UNSET,
        limits: Limits | None = None,
        on_event: Callable[[Event], object] | None = None,
        on_log: Callable[[LogEntry], object] | None = None,
    ) -> Outcome:
        """See `Image.run`."""
        return self._runtime.wait(
            self._image.run(
                input=input, functions=functions, timeout=timeout, limits=limits, on_event=on_event, on_log=on_log
            )
        )

    def unload(self) -> None:
        """See `Image.unload`."""
        self._runtime.wait(self._image.unload())


def run(code: str, namespaces: Namespaces = (), **options: Any) -> Outcome:
    """Run one program in a runtime of its own and return its `Outcome`. Options as for `Runtime.run`."""
    with SyncRuntime(spares=0) as runtime:
        return runtime.run(code, namespaces, **options)
