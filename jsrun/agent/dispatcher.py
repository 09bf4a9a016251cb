"""EventDispatcher: hands event records to consumers, each at its own pace, without ever holding the agent up."""

import asyncio
import inspect
import logging
import queue
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, TypeAlias

from jsrun.agent.errors import one_line
from jsrun.agent.events import EventRecord, EventsDropped
from jsrun.agent.guarded import name_of

Consumer: TypeAlias = Callable[[EventRecord], Any]

# Enough for a burst of deltas while a consumer writes to a disk.
QUEUE_SIZE: Final = 1024
# A consumer that fails this often in a row will not recover.
MOST_FAILURES: Final = 10
# Seconds that a consumer gets to end when the dispatcher is closed and gives up on it.
_GRACE: Final = 1.0

_log = logging.getLogger("jsrun.agent")


class Buffer:
    """Records for one consumer. What does not fit is dropped and counted, and told before the next that fits."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._records: deque[EventRecord] = deque()
        self._dropped = 0

    def put(self, record: EventRecord) -> bool:
        """Add a record, or drop it; was it added?"""
        if len(self._records) >= self._size:
            self._dropped += 1
            return False
        if self._dropped:
            dropped = EventsDropped(count=self._dropped)
            self._dropped = 0
            self._records.append(record.model_copy(update={"event": dropped}))
        self._records.append(record)
        return True

    def take(self) -> EventRecord | None:
        """The oldest record, None if there is none."""
        return self._records.popleft() if self._records else None


class EventQueue:
    """The events of one run for one reader: an async iterator that ends when the queue is closed."""

    def __init__(self, size: int = QUEUE_SIZE) -> None:
        self._buffer = Buffer(size)
        self._closed = False
        self._changed = asyncio.Event()

    def put(self, record: EventRecord) -> None:
        """Add a record; nothing is added to a queue that is closed."""
        if not self._closed:
            self._buffer.put(record)
            self._changed.set()

    def close(self) -> None:
        """No more records will come."""
        self._closed = True
        self._changed.set()

    def __aiter__(self) -> "EventQueue":
        return self

    async def __anext__(self) -> EventRecord:
        while True:
            record = self._buffer.take()
            if record is not None:
                return record
            if self._closed:
                raise StopAsyncIteration
            self._changed.clear()
            await self._changed.wait()


class _Worker(Protocol):
    """Feeds one consumer."""

    def put(self, record: EventRecord) -> None: ...

    def end(self) -> None: ...

    async def ended(self) -> None: ...


class EventDispatcher:
    """Consumers of events, async or plain; plain ones run in a thread of their own.

    Each has a queue of `queue_size` records; when it is full the consumer loses new ones, and is told how many by an
    `EventsDropped`. One that raises is logged and goes on; after ten failures in a row it is removed. Whoever made the
    dispatcher closes it; an agent that stops leaves it open.
    """

    def __init__(self, queue_size: int = QUEUE_SIZE) -> None:
        if isinstance(queue_size, bool) or not isinstance(queue_size, int) or queue_size < 1:
            raise ValueError(f"queue_size must be a whole number above 0, got {queue_size!r}")
        self._queue_size = queue_size
        self._workers: list[_Worker] = []
        self._closed = False

    def add(self, consumer: Consumer, name: str | None = None) -> Callable[[], None]:
        """Add a consumer; what is returned removes it. RuntimeError once the dispatcher is closed."""
        if self._closed:
            raise RuntimeError("the dispatcher is closed")
        called = name or str(getattr(consumer, "__name__", type(consumer).__name__))
        is_async = inspect.iscoroutinefunction(consumer) or inspect.iscoroutinefunction(
            getattr(consumer, "__call__", None)  # noqa: B004
        )
        kind = _TaskWorker if is_async else _ThreadWorker
        worker = kind(consumer, called, self._queue_size, lambda: self._remove(worker))
        self._workers.append(worker)
        return lambda: self._remove(worker)

    def emit(self, record: EventRecord) -> None:
        """Hand a record to every consumer. Never blocks, never raises."""
        for worker in self._workers:
            worker.put(record)

    async def aclose(self, timeout: float = 5.0) -> None:
        """Let the consumers finish what they have, for `timeout` seconds; then they are left behind."""
        self._closed = True
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.end()
        if workers:
            endings = [asyncio.ensure_future(worker.ended()) for worker in workers]
            _done, late = await asyncio.wait(endings, timeout=timeout)
            for ending in late:
                ending.cancel()
            if late:
                await asyncio.wait(late)

    def _remove(self, worker: _Worker) -> None:
        if worker in self._workers:
            self._workers.remove(worker)
        worker.end()


class _Failures:
    """Counts the failures of a consumer in a row."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._count = 0

    def none(self) -> None:
        """The consumer took a record."""
        self._count = 0

    def one(self, error: BaseException) -> bool:
        """The consumer raised: was it once too often?"""
        self._count += 1
        _log.warning("event consumer %s: %s", self._name, one_line(name_of(error)))
        if self._count < MOST_FAILURES:
            return False
        _log.error("event consumer %s is removed after %d failures in a row", self._name, self._count)
        return True


class _TaskWorker:
    def __init__(self, consumer: Consumer, name: str, size: int, remove: Callable[[], None]) -> None:
        self._consumer = consumer
        self._failures = _Failures(name)
        self._queue = EventQueue(size)
        self._remove = remove
        self._task = asyncio.get_running_loop().create_task(self._work(), name=f"events of {name}")

    def put(self, record: EventRecord) -> None:
        self._queue.put(record)

    def end(self) -> None:
        self._queue.close()

    async def ended(self) -> None:
        try:
            await asyncio.wait({self._task})
        finally:
            if not self._task.done():
                self._task.cancel()
                await asyncio.wait({self._task}, timeout=_GRACE)

    async def _work(self) -> None:
        async for record in self._queue:
            try:
                answer: Awaitable[object] = self._consumer(record)
                await answer
            except (KeyboardInterrupt, GeneratorExit):
                raise
            except BaseException as error:
                task = asyncio.current_task()
                if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                    raise
                if self._failures.one(error):
                    self._remove()
                    return
            else:
                self._failures.none()


class _ThreadWorker:
    def __init__(self, consumer: Consumer, name: str, size: int, remove: Callable[[], None]) -> None:
        self._consumer = consumer
        self._failures = _Failures(name)
        self._buffer = Buffer(size)
        self._lock = threading.Lock()
        self._signal: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._done = asyncio.Event()
        self._remove = remove
        threading.Thread(target=self._work, name=f"events of {name}", daemon=True).start()

    def put(self, record: EventRecord) -> None:
        with self._lock:
            added = self._buffer.put(record)
        if added:  # else signals would pile up behind a consumer that is stuck
            self._signal.put(True)

    def end(self) -> None:
        self._signal.put(False)

    async def ended(self) -> None:
        await self._done.wait()

    def _work(self) -> None:
        while self._signal.get() and self._consume():
            pass
        self._tell(self._done.set)

    def _consume(self) -> bool:
        """Hand over what there is; False if the consumer is to be removed."""
        while True:
            with self._lock:
                record = self._buffer.take()
            if record is None:
                return True
            try:
                self._consumer(record)
            except BaseException as error:
                if self._failures.one(error):
                    self._tell(self._remove)
                    return False
            else:
                self._failures.none()

    def _tell(self, function: Callable[[], None]) -> None:
        try:
            self._loop.call_soon_threadsafe(function)
        except RuntimeError:  # the loop is closed: nobody waits any more
            return
