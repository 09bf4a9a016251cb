"""One run: moves bytes between a process and its `HostMachine`, calls host functions, keeps the clock.

Everything that decides is in the machine; this side has the socket, the timers and the tasks.
"""

import asyncio
import contextlib
import contextvars
import inspect
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from ptc import events
from ptc._functions import failure_text, in_thread
from ptc._launch import StartError
from ptc._run_process import RunProcess
from ptc.limits import Limits
from ptc.namespaces import Blocking, HostFunction
from ptc.outcome import ExitStatus, LogEntry, Outcome
from ptc.protocol import machine as protocol
from ptc.protocol.machine import HostMachine, Result

if TYPE_CHECKING:
    from ptc.image import Image

_log = logging.getLogger("ptc")

T = TypeVar("T")

# A spare is made when the run it replaces is over, or after this while for a run that takes longer: forking right at
# the start would compete with the run for the processor.
_REPLACE_S = 0.002
# What a sync host function may give without being looked at any closer: nothing of these is awaitable.
_PLAIN = frozenset({type(None), bool, int, float, str, list, dict, tuple})


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What one run was asked to do. `boot` is its boot frame; `timeout` in seconds, None for no deadline."""

    functions: Mapping[str, Mapping[str, HostFunction]]
    limits: Limits
    timeout: float | None
    boot: bytes
    on_event: Callable[[events.Event], object] | None
    on_log: Callable[[LogEntry], object] | None
    describe_error: Callable[[BaseException], str]


@dataclass(slots=True)
class _Call:
    """A call that is not answered yet. Of an async function, what it gave and the task that waits for it."""

    started: float
    result: Awaitable[Any] | None = None
    task: asyncio.Task[None] | None = None


class Run:
    """A run in progress, made by `Image.start`. Await `outcome()`; iterate for its events."""

    def __init__(self, image: "Image", options: RunOptions) -> None:
        loop = asyncio.get_running_loop()
        self._loop = loop
        self._image = image
        self._context = contextvars.copy_context()
        """That of our caller, for his functions: what arrives from a process comes in some other one."""
        self._options = options
        self._machine = HostMachine(
            {name: frozenset(table) for name, table in options.functions.items()}, options.limits
        )
        self._process: RunProcess | None = None
        self._settled: asyncio.Future[Result] = loop.create_future()
        self._ended_at = 0.0
        self._booted_at = 0.0
        self._calls: dict[int, _Call] = {}
        self._dropped: list[asyncio.Task[None]] = []
        """Host functions that were at work when the run ended, cancelled."""
        self._grace_ends = 0.0
        self._timers: list[asyncio.TimerHandle] = []
        self._abandoned = False
        """Our side has ended the run: no host function is called any more, whatever had been accepted."""
        self._fatal: BaseException | None = None
        self._queues: list[asyncio.Queue[events.Event | None]] = []
        self._task: asyncio.Task[Outcome] | None = None
        self._outcome: Outcome | None = None

    # --- for users ---

    def abort(self, reason: str = "aborted") -> None:
        """End the run as `abort` with this reason. No effect once it has ended."""
        self._abandoned = True
        self._handle(self._machine.abort(reason))

    async def outcome(self) -> Outcome:
        """Wait for the end. Cancelling the wait aborts the run."""
        if self._task is None:
            return await self.execute()
        try:
            return await asyncio.shield(self._task)
        except asyncio.CancelledError:
            if not self._task.done():
                self._task.cancel()
                await asyncio.wait([self._task])
            raise

    async def __aiter__(self) -> AsyncIterator[events.Event]:
        """The events from now on, up to and with `RunEnded`."""
        if self._outcome is not None:
            return
        queue: asyncio.Queue[events.Event | None] = asyncio.Queue()
        self._queues.append(queue)
        try:
            while (event := await queue.get()) is not None:
                yield event
        finally:
            self._queues.remove(queue)

    # --- for the image ---

    def begin(self) -> None:
        """Run in a task of its own."""
        self._image.enter(self)
        self._task = self._loop.create_task(self.execute())
        # A failure nobody waits for must not be reported as a lost exception: it is the waiter's, if there is one.
        self._task.add_done_callback(lambda task: None if task.cancelled() else task.exception())

    async def execute(self) -> Outcome:
        """The whole life of the run, in the caller's task."""
        image = self._image
        image.enter(self)
        has_slot = False
        try:
            has_slot = await self._take_slot()
            if has_slot:
                await self._acquire()
            await asyncio.shield(self._settled)
            await self._wait_for_dropped()
        except BaseException as error:
            self.abort("cancelled" if isinstance(error, asyncio.CancelledError) else "a fault of the runtime")
            await self._wait_out()
            raise
        finally:
            outcome = self._finish(self._settled.result())
            if has_slot:
                image.free_slot()
            image.leave(self)
        if self._fatal is not None:
            raise self._fatal
        return outcome

    async def _take_slot(self) -> bool:
        """Wait until fewer than `max_runs` runs are going on. False if the run has settled before."""
        image = self._image
        if not image.must_wait():
            return await image.take_slot()
        return await self._unless_settled(image.take_slot(), image.free_slot) or False

    async def _acquire(self) -> None:
        """Get a process and attach to it; without one the run settles as `worker-exit`."""
        if self._settled.done():  # aborted before it began
            return
        process = self._image.pop_spare()
        if process is None:
            try:
                process = await self._unless_settled(self._image.fork(), RunProcess.release)
            except StartError as error:
                self._handle(self._machine.start_expired(str(error)))
                return
            if process is None:
                return
        self._process = process
        self._timers.append(self._loop.call_later(self._options.limits.start_timeout, self._start_expired))
        process.attach(self)

    async def _unless_settled(self, work: Coroutine[Any, Any, T], undo: Callable[[T], object]) -> T | None:
        """What `work` gives, None if the run settles first. What comes too late, or for nobody, is undone."""
        task = self._loop.create_task(work)
        is_wanted = False
        try:
            await asyncio.wait((task, self._settled), return_when=asyncio.FIRST_COMPLETED)
            is_wanted = not self._settled.done()
        finally:
            if not is_wanted:
                task.add_done_callback(
                    lambda task: undo(task.result()) if not task.cancelled() and task.exception() is None else None
                )
                task.cancel()
        return task.result() if is_wanted else None

    async def _wait_out(self) -> None:
        """Wait for the end of process and host functions, however often the caller is cancelled meanwhile."""

        async def end() -> None:
            await self._settled
            await self._wait_for_dropped()

        task = self._loop.create_task(end())
        while not task.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.shield(task)

    async def _wait_for_dropped(self) -> None:
        """Wait for the cancelled host functions, `cancel_grace` at most."""
        if self._dropped:
            await asyncio.wait(self._dropped, timeout=max(0.0, self._grace_ends - self._loop.time()))

    def _drop_calls(self) -> None:
        """Cancel the host functions still at work."""
        for call in self._calls.values():
            if call.task is None:
                continue
            call.task.cancel()
            self._dropped.append(call.task)
            if inspect.iscoroutine(call.result) and inspect.getcoroutinestate(call.result) == inspect.CORO_CREATED:
                call.result.close()  # accepted at the very end: never begun, and never to begin
        self._calls.clear()
        self._grace_ends = self._loop.time() + self._options.limits.cancel_grace

    def _finish(self, result: Result) -> Outcome:
        image = self._image
        elapsed = self._ended_at - self._booted_at if self._booted_at else 0.0
        self._outcome = outcome = Outcome(
            value=result.value,
            has_value=result.has_value,
            failure=result.failure,
            logs=result.logs,
            calls=result.calls,
            unfinished=result.unfinished,
            elapsed=elapsed,
            cpu=result.cpu,
            exit=result.exit,
            native=result.native,
            truncated=result.truncated,
            isolation=image.isolation if self._process is not None else None,
            engine=image.engine,
        )
        self._emit(events.RunEnded(outcome))
        for queue in self._queues:
            queue.put_nowait(None)
        return outcome

    # --- what the process tells (RunSink) ---

    def received(self, data: bytes) -> None:
        self._handle(self._machine.feed(data))

    def native(self, data: bytes) -> None:
        self._handle(self._machine.native(data))

    def lost(self) -> None:
        self._handle(self._machine.eof())

    def exited(self, status: ExitStatus | None, grown: int, cpu: float | None) -> None:
        self._handle(self._machine.exited(status, grown, cpu))

    def writable(self) -> None:
        self._flush()

    # --- the machine's events ---

    def _handle(self, happened: list[protocol.Event]) -> None:
        for event in happened:
            match event:
                case protocol.CallRequested():
                    self._call(event)
                case protocol.Replied():
                    self._replied(event)
                case protocol.Logged(entry):
                    self._logged(entry)
                case protocol.Ready():
                    self._boot()
                case protocol.KillRequested():
                    self._end_process()
                case protocol.Settled(result):
                    self._ended_at = time.perf_counter()
                    self._stop_timers()
                    self._drop_calls()
                    self._settled.set_result(result)
        self._flush()

    def _flush(self) -> None:
        process = self._process
        if process is not None and process.writing:
            data = self._machine.take_frames()
            if data:
                process.write(data)

    def _boot(self) -> None:
        options = self._options
        self._stop_timers()
        self._emit(events.RunStarted())
        if self._machine.state != "ready":  # an observer has aborted it
            return
        self._booted_at = time.perf_counter()
        self._handle(self._machine.boot_with(options.boot, options.timeout))
        if options.timeout is not None:
            self._timers.append(self._loop.call_later(options.timeout, self._deadline))
        self._timers.append(self._loop.call_later(_REPLACE_S, self._image.replenish))
        process = self._process
        if process is not None:
            self._image.memory_watch.watch(process, self._measured)

    def _end_process(self) -> None:
        process = self._process
        if process is None:  # there is none yet, and what comes later will be undone
            self._handle(self._machine.exited(None))
        elif self._machine.state == "settled":
            process.release()
        else:
            process.kill()

    def _stop_timers(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        if self._process is not None:
            self._image.memory_watch.forget(self._process)

    def _deadline(self) -> None:
        self._handle(self._machine.deadline())

    def _start_expired(self) -> None:
        self._handle(self._machine.start_expired())

    def _measured(self, resident: int) -> None:
        if self._process is not None:
            self._handle(self._machine.memory(self._process.grown(resident)))

    # --- host functions ---

    def _call(self, call: protocol.CallRequested) -> None:
        pending = self._calls[call.id] = _Call(time.perf_counter())
        self._emit(events.CallStarted(call.id, call.global_, call.name))
        if self._abandoned:
            return
        function = self._options.functions[call.global_][call.name]
        context = self._context.copy()
        try:
            if isinstance(function, Blocking):
                result: Any = in_thread(function, call.args)
            else:
                result = context.run(function, call.args)
            if type(result) not in _PLAIN and inspect.isawaitable(result):
                pending.result = result
                pending.task = self._loop.create_task(self._await(call.id, result), context=context)
                return
        except BaseException as error:
            self._failed(call.id, error)
            return
        self._handle(self._machine.reply(call.id, result))

    async def _await(self, call_id: int, result: Awaitable[Any]) -> None:
        try:
            value = await result
        except BaseException as error:
            if call_id in self._calls:  # else the run is over and we have been cancelled
                self._failed(call_id, error)
            return
        if call_id in self._calls:
            self._handle(self._machine.reply(call_id, value))

    def _failed(self, call_id: int, error: BaseException) -> None:
        if isinstance(error, (KeyboardInterrupt, SystemExit, GeneratorExit)):
            self._fatal = self._fatal or error
            self.abort("a host function asked the process to end")
            return
        self._handle(self._machine.reply_error(call_id, failure_text(error, self._options.describe_error)))

    def _replied(self, reply: protocol.Replied) -> None:
        call = self._calls.pop(reply.id)
        if self._options.on_event is not None or self._queues:
            elapsed = time.perf_counter() - call.started
            self._emit(events.CallFinished(reply.id, reply.ok, elapsed, reply.message))

    def _logged(self, entry: LogEntry) -> None:
        self._emit(events.Logged(entry))
        if self._options.on_log is not None:
            self._tell(self._options.on_log, entry)

    def _emit(self, event: events.Event) -> None:
        if self._options.on_event is not None:
            self._tell(self._options.on_event, event)
        for queue in self._queues:
            queue.put_nowait(event)

    def _tell(self, observer: Callable[[Any], object], what: object) -> None:
        try:
            self._context.copy().run(observer, what)
        except (Exception, asyncio.CancelledError):
            _log.exception("an observer of a run raised")
