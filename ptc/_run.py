"""One run: moves bytes between a process and its `HostMachine`, calls host functions, keeps the clock.

Everything that decides is in the machine; this side has the socket, the timers and the tasks.
"""

import asyncio
import inspect
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ptc import events
from ptc._processes import RunProcess, StartError
from ptc.errors import CallError
from ptc.limits import Limits
from ptc.outcome import ExitStatus, LogEntry, Outcome
from ptc.protocol import machine as protocol
from ptc.protocol.machine import HostMachine, Result

if TYPE_CHECKING:
    from ptc.image import Image

_log = logging.getLogger("ptc")

HostFunction = Callable[[Any], Any]

# A killed process is gone within milliseconds; if its image has not reaped it after this, the image goes too.
_REAP_S = 2.0

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


class Run:
    """A run in progress, made by `Image.start`. Await `outcome()`; iterate for its events."""

    def __init__(self, image: "Image", options: RunOptions) -> None:
        loop = asyncio.get_running_loop()
        self._loop = loop
        self._image = image
        self._options = options
        self._machine = HostMachine(
            {name: frozenset(table) for name, table in options.functions.items()}, options.limits
        )
        self._process: RunProcess | None = None
        self._settled: asyncio.Future[Result] = loop.create_future()
        self._ended_at = 0.0
        self._booted_at = 0.0
        self._calls: dict[int, tuple[float, asyncio.Task[None] | None]] = {}
        """Unanswered calls by id: when they started, and the task of an async function."""
        self._timers: list[asyncio.TimerHandle] = []
        self._fatal: BaseException | None = None
        self._acquiring: asyncio.Task[RunProcess] | None = None
        self._queues: list[asyncio.Queue[events.Event | None]] = []
        self._task: asyncio.Task[Outcome] | None = None
        self._outcome: Outcome | None = None

    # --- for users ---

    def abort(self, reason: str = "aborted") -> None:
        """End the run as `abort` with this reason. No effect once it has ended."""
        self._handle(self._machine.abort(reason))
        if self._acquiring is not None:
            self._acquiring.cancel()

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
        queue: asyncio.Queue[events.Event | None] = asyncio.Queue()
        self._queues.append(queue)
        if self._outcome is not None:
            return
        while (event := await queue.get()) is not None:
            yield event

    # --- for the image ---

    def begin(self) -> None:
        """Run in a task of its own."""
        self._task = self._loop.create_task(self.execute())
        # A failure nobody waits for must not be reported as a lost exception: it is the waiter's, if there is one.
        self._task.add_done_callback(lambda task: None if task.cancelled() else task.exception())

    async def execute(self) -> Outcome:
        """The whole life of the run, in the caller's task."""
        async with self._image.runtime_slot(self):
            try:
                await self._acquire()
                result = await asyncio.shield(self._settled)
            except asyncio.CancelledError:
                await self._cancelled()
                raise
            finally:
                self._stop_timers()
            await self._drop_calls()
            if self._fatal is not None:
                self._finish(result)
                raise self._fatal
            return self._finish(result)

    async def _acquire(self) -> None:
        """Get a process and attach to it; without one the run settles as `worker-exit`."""
        if self._machine.state == "ending":  # aborted while it waited its turn
            self._handle(self._machine.exited(None))
            return
        process = self._image.pop_spare()
        if process is None:
            self._acquiring = self._loop.create_task(self._image.fork())
            try:
                process = await self._acquiring
            except StartError as error:
                self._start_failed(str(error))
                return
            except asyncio.CancelledError:
                if self._machine.state in ("ending", "settled"):  # abort() stopped the waiting, not our caller
                    self._handle(self._machine.exited(None))
                    return
                raise
            finally:
                self._acquiring = None
        self._process = process
        self._timers.append(self._loop.call_later(self._options.limits.start_timeout, self._start_expired))
        process.attach(self)

    def _start_failed(self, message: str) -> None:
        self._handle(self._machine.start_expired(message))
        self._handle(self._machine.exited(None))

    async def _cancelled(self) -> None:
        """The caller gave up: end the process, then the host functions, before the caller goes on."""
        if self._acquiring is not None:
            self._acquiring.cancel()
            await asyncio.wait([self._acquiring])
            if not self._acquiring.cancelled() and self._acquiring.exception() is None:
                self._acquiring.result().release()
        self._handle(self._machine.abort("cancelled"))
        if self._process is not None:
            while not self._settled.done():
                try:
                    await asyncio.shield(self._settled)
                except asyncio.CancelledError:
                    continue
        await self._drop_calls()

    async def _drop_calls(self) -> None:
        """Cancel the host functions still at work and wait for them, `cancel_grace` at most."""
        tasks = [task for _started, task in self._calls.values() if task is not None]
        self._calls.clear()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=self._options.limits.cancel_grace)

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
                    if not self._settled.done():
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
        self._booted_at = time.perf_counter()
        self._handle(self._machine.boot_with(options.boot, options.timeout))
        if options.timeout is not None:
            self._timers.append(self._loop.call_later(options.timeout, self._deadline))
        process = self._process
        if process is not None:
            self._image.memory_watch.watch(process, self._measured)

    def _end_process(self) -> None:
        process = self._process
        if process is None:
            return
        if self._machine.state == "settled":
            process.release()
            return
        process.kill()
        self._timers.append(self._loop.call_later(_REAP_S, process.image.kill))

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
        started = time.perf_counter()
        self._calls[call.id] = (started, None)
        self._emit(events.CallStarted(call.id, call.global_, call.name))
        function = self._options.functions[call.global_][call.name]
        try:
            result = function(call.args)
            if type(result) not in _PLAIN and inspect.isawaitable(result):
                task = self._loop.create_task(self._await(call.id, result))
                self._calls[call.id] = (started, task)
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
            self._handle(self._machine.abort("a host function asked the process to end"))
            return
        self._handle(self._machine.reply_error(call_id, self._describe(error)))

    def _describe(self, error: BaseException) -> str:
        if isinstance(error, CallError):
            text = str(error)
        elif isinstance(error, asyncio.CancelledError):
            text = "the host function was cancelled"
        else:
            try:
                text = self._options.describe_error(error)
            except Exception:
                _log.exception("describe_error raised")
                text = ""
        return text if isinstance(text, str) and text else "the host function failed"

    def _replied(self, reply: protocol.Replied) -> None:
        started, _task = self._calls.pop(reply.id, (self._booted_at, None))
        if self._options.on_event is not None or self._queues:
            elapsed = time.perf_counter() - started
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
            observer(what)
        except Exception:
            _log.exception("an observer of a run raised")
