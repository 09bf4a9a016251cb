"""`Image`: one program, compiled once, run any number of times, also at the same time."""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from ptc import frames
from ptc._launch import GoneError, StartError
from ptc._memory import MemoryWatch
from ptc._run import Run, RunOptions
from ptc._run_process import RunProcess
from ptc._strategy import LoadedProgram
from ptc.errors import ClosedError, LoadError, UsageError
from ptc.events import Event
from ptc.limits import CONTROL_FRAME_BYTES, Limits, check_run_limits, resolve_timeout
from ptc.namespaces import HostFunction, Namespace
from ptc.outcome import UNSET, EngineInfo, ExitStatus, Failure, Isolation, LogEntry, Outcome, Position, Unset
from ptc.protocol import control
from ptc.protocol.exits import NativeOutput, classify
from ptc.protocol.messages import boot_frame, guest_limits

if TYPE_CHECKING:
    from ptc.runtime import Runtime

# Waiting runs of an image nobody uses are given back after this long.
_IDLE_S = 60.0
# An unloaded image kills its runs and exits at once; if it has not after this long, it is killed.
_UNLOAD_S = 1.0
_RLIMITS = frozenset({"as", "core", "cpu", "fsize", "nofile"})


class RunArguments(TypedDict, total=False):
    """What one run may be given, each by its name.

    input: a JSON value for the program's input name. functions: replacements for declared functions.
    timeout: seconds, None for no deadline. limits: those of this run; memory, cpu, stack and source size stay the
    image's. on_event, on_log: called with every event, with every console entry, as they come.
    """

    input: object | Unset
    functions: Mapping[str, Mapping[str, HostFunction]] | None
    timeout: float | Unset | None
    limits: Limits | None
    on_event: Callable[[Event], object] | None
    on_log: Callable[[LogEntry], object] | None


class Image:
    """Made by `Runtime.load`. Use `run`, or `start` for a run one can watch and abort.

    Making one raises `LoadError` if the program and what is declared with it do not fit one message.
    """

    def __init__(
        self,
        runtime: "Runtime",
        *,
        code: str,
        form: Literal["sync", "async"],
        name: str,
        setup: str,
        input_name: str | None,
        namespaces: tuple[Namespace, ...],
        limits: Limits,
        spares: int,
    ) -> None:
        self._runtime = runtime
        self.form = form
        self.limits = limits
        self.memory_watch: MemoryWatch = runtime.memory_watch
        self.engine = EngineInfo(runtime.engine, "")
        self.isolation: Isolation | None = None
        self._functions = {namespace.global_name: dict(namespace.functions) for namespace in namespaces}
        self._takes_input = input_name is not None
        # Encoded once, however often it is sent: for every spawned process, and again after a death.
        self._load_frame = frames.encode({
            "type": "load",
            "data": {
                "code": code,
                "namespaces": [_declaration(namespace) for namespace in namespaces],
                "maxOutputBytes": limits.max_output_bytes,
            },
            "form": form,
            "name": name,
            "setup": setup,
            "inputName": input_name,
            "limits": {"memory": limits.memory, "cpu": limits.cpu, "stack": limits.stack, **guest_limits(limits)},
        })  # fmt: skip
        size = len(self._load_frame) - frames.HEADER_BYTES
        if size > CONTROL_FRAME_BYTES:
            what = "the program, with its setup and its function names, is too large"
            raise LoadError(Failure("exception", f"{what}: {size:,} bytes as JSON, of at most {CONTROL_FRAME_BYTES:,}"))
        self._wanted_spares = spares
        self._spares: deque[RunProcess] = deque()
        self._making: set[asyncio.Task[None]] = set()
        self._process: LoadedProgram | None = None
        self._loading = asyncio.Lock()
        self._idle: asyncio.TimerHandle | None = None
        self._runs: set[Run] = set()
        self._nobody = asyncio.Event()
        """Set while no run is going on."""
        self._nobody.set()
        self._closing: asyncio.Future[None] = runtime.loop.create_future()
        self._unloading: asyncio.Task[None] | None = None

    # --- for users ---

    async def run(self, **arguments: Unpack[RunArguments]) -> Outcome:
        """Run the program once and return its `Outcome`. arguments: see `RunArguments`.

        Raises `UsageError` for what cannot be run, `ClosedError` after `unload`; all else is in the outcome.
        """
        return await self._prepare(**arguments).execute()

    def start(self, **arguments: Unpack[RunArguments]) -> Run:
        """Like `run`, but returns the `Run` at once."""
        run = self._prepare(**arguments)
        run.begin()
        return run

    async def unload(self) -> None:
        """End the image's process and its runs, and wait for them. May be called twice."""
        self._runtime.check_place()
        if self._unloading is None:
            self._closing.set_result(None)
            self._unloading = self._runtime.loop.create_task(self._unload())
        # The work goes on if our caller is cancelled, or is a host function of one of the runs and ends with it.
        await asyncio.shield(self._unloading)

    async def _unload(self) -> None:
        self.abort_runs("image unloaded")
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        for task in self._making:
            task.cancel()
        if self._making:
            await asyncio.wait(self._making)
        self._release_spares()
        async with self._loading:
            process, self._process = self._process, None
        if process is not None:
            process.unload()
            await asyncio.wait([process.gone], timeout=_UNLOAD_S)
            process.kill()
            await process.gone
        await self._nobody.wait()
        self._runtime.forget(self)

    def _prepare(
        self,
        *,
        input: object | Unset = UNSET,
        functions: Mapping[str, Mapping[str, HostFunction]] | None = None,
        timeout: float | Unset | None = UNSET,
        limits: Limits | None = None,
        on_event: Callable[[Event], object] | None = None,
        on_log: Callable[[LogEntry], object] | None = None,
    ) -> Run:
        self._runtime.check_usable()
        if self._closing.done():
            raise ClosedError("the image has been unloaded")
        if limits is None:
            limits = self.limits
        elif isinstance(limits, Limits):
            check_run_limits(self.limits, limits)
        else:
            raise UsageError("limits: a Limits object is needed")
        if input is not UNSET and not self._takes_input:
            raise UsageError("input was given, but the program was loaded without an input name")
        seconds = resolve_timeout(timeout, limits)
        # The program is loaded already, so the frame carries no code and no namespaces.
        data = {"code": "", "namespaces": [], "maxOutputBytes": limits.max_output_bytes}
        options = RunOptions(
            functions=self._functions if functions is None else self._replaced(functions),
            limits=limits,
            timeout=seconds,
            boot=boot_frame(data, input, limits, seconds),
            on_event=on_event,
            on_log=on_log,
            describe_error=self._runtime.describe_error,
        )
        return Run(self, options)

    def _replaced(self, functions: Mapping[str, Mapping[str, HostFunction]]) -> dict[str, dict[str, HostFunction]]:
        merged = {name: dict(table) for name, table in self._functions.items()}
        if not isinstance(functions, Mapping):
            raise UsageError("functions: a mapping from namespace to functions is needed")
        for name, table in functions.items():
            if name not in merged:
                raise UsageError(f'functions: the program declares no namespace "{name}"')
            if not isinstance(table, Mapping):
                raise UsageError(f'functions: "{name}" needs a mapping from name to function')
            for key, function in table.items():
                if key not in merged[name]:
                    raise UsageError(f'functions: the namespace "{name}" declares no function "{key}"')
                if not callable(function):
                    raise UsageError(f'functions: "{name}.{key}" is not callable')
                merged[name][key] = function
        return merged

    # --- for Runtime and Run ---

    def abort_runs(self, reason: str) -> None:
        """End every run of this image as `abort`."""
        for run in list(self._runs):
            run.abort(reason)

    def enter(self, run: Run) -> None:
        """A run begins, if only to wait its turn."""
        self._runs.add(run)
        self._nobody.clear()

    def leave(self, run: Run) -> None:
        """A run is over, its host functions included."""
        self._runs.discard(run)
        if not self._runs:
            self._nobody.set()

    def must_wait(self) -> bool:
        """Whether as many runs are going on as may."""
        return self._runtime.slots.locked()

    async def take_slot(self) -> bool:
        """Wait until a run may start. True, for whoever wants to know whether it came so far."""
        return await self._runtime.slots.acquire()

    def free_slot(self, _taken: bool = True) -> None:
        """Let another run start, and see to the spares."""
        self._runtime.slots.release()
        self.replenish()

    def pop_spare(self) -> RunProcess | None:
        """A waiting run that is alive, if there is one."""
        while self._spares:
            spare = self._spares.popleft()
            if spare.is_alive():
                return spare
            spare.release()
        return None

    async def fork(self) -> RunProcess:
        """A run process that has spoken. If its image dies before, or it does, another one is tried once.

        StartError if there is no process; one that died itself comes back dead, for its end tells the reason.
        """
        for last in (False, True):
            try:
                run = await (await self._ensure()).fork(spare=False)
            except GoneError:
                if last:
                    raise
                continue
            except (LoadError, UsageError) as error:
                raise StartError(f"the program could not be loaded again: {error}") from None
            seconds = self.limits.start_timeout
            try:
                if await asyncio.wait_for(asyncio.shield(run.ready), seconds) or last:
                    return run
            except BaseException as error:
                run.release()
                run.kill()
                if isinstance(error, TimeoutError):
                    raise StartError(f"the process did not become ready within {seconds:g} s") from None
                raise
            run.release()
        raise AssertionError

    # --- spares ---

    def replenish(self) -> None:
        """See to it that enough runs wait, and that they are given back when nobody comes."""
        if self._closing.done() or self._wanted_spares == 0 or self._process is None or self._process.dead:
            return
        for _ in range(self._wanted_spares - len(self._spares) - len(self._making)):
            task = self._runtime.loop.create_task(self._make_spare())
            self._making.add(task)
            task.add_done_callback(self._making.discard)
        self._wait_idle()

    async def _make_spare(self) -> None:
        process = self._process
        if process is None or process.dead:
            return
        spare = None
        try:
            spare = await process.fork(spare=True)
            if await asyncio.wait_for(spare.ready, self.limits.start_timeout) and not self._closing.done():
                self._spares.append(spare)
                spare = None
                if self._idle is None:  # all were given back while this one was made
                    self._wait_idle()
        except (StartError, TimeoutError):
            pass
        finally:
            if spare is not None:
                spare.release()

    def _wait_idle(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
        self._idle = self._runtime.loop.call_later(_IDLE_S, self._release_spares)

    def _release_spares(self) -> None:
        self._idle = None
        while self._spares:
            self._spares.popleft().release()

    # --- loading ---

    async def load(self) -> None:
        """Compile the program in a process of its own. LoadError if it cannot be; UsageError for a bad setup."""
        try:
            await self._ensure()
        except StartError as error:
            raise LoadError(Failure("worker-exit", str(error))) from None
        self.replenish()

    async def _ensure(self) -> LoadedProgram:
        """The living image process, loaded again if need be. StartError or LoadError if it cannot be."""
        async with self._loading:
            if self._closing.done():
                raise ClosedError("the image has been unloaded")
            if self._process is None or self._process.dead:
                self._release_spares()
                try:
                    process = await self._load()
                except GoneError:  # root had died unnoticed, or died now
                    process = await self._load()
                self._process = process
            return self._process

    async def _load(self) -> LoadedProgram:
        root = await self._runtime.root()
        printed = root.printed
        process = root.fork_image()
        process.load(self._load_frame)
        answers: set[asyncio.Future[Any]] = {process.loaded, process.gone, self._closing}
        try:
            await asyncio.wait(answers, timeout=self.limits.load_timeout, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            process.kill()
            raise
        if self._closing.done():
            process.kill()
            await process.gone
            raise ClosedError("the image has been unloaded")
        if not process.loaded.done() and not process.gone.done():
            process.kill()
            await process.gone
            seconds = self.limits.load_timeout
            raise LoadError(Failure("timeout", f"the program was not compiled within {seconds:g} seconds"))
        if not process.loaded.done():
            status = await process.gone
            if root.dead:
                raise GoneError("the root process is gone")
            raise LoadError(_load_failure(status, self.limits, root.diagnostics(since=printed)))
        answer = await process.loaded
        if isinstance(answer, control.Refused):
            await process.gone
            if answer.kind == "misuse":
                raise UsageError(f"setup: {answer.message}")
            at = Position(answer.at.line, answer.at.column) if answer.at is not None else None
            raise LoadError(Failure("exception", answer.message, at))
        report = answer.isolation
        self.isolation = Isolation(report.process, tuple(report.rlimits), report.seccomp)
        self.engine = EngineInfo(answer.engine.name, answer.engine.version)
        missing = missing_measures(self._runtime.require, self.isolation)
        if missing:
            process.kill()
            await process.gone
            raise LoadError(Failure("sandbox-unavailable", f"required but not in force here: {', '.join(missing)}"))
        return process


def missing_measures(required: frozenset[str], isolation: Isolation) -> list[str]:
    """Which of the required measures (`fork`, `rlimits`, `seccomp`) are not in force."""
    in_force = {
        "fork": isolation.process == "fork",
        "rlimits": set(isolation.rlimits) >= _RLIMITS,
        "seccomp": isolation.seccomp == "filter",
    }
    return sorted(name for name in required if not in_force[name])


def _declaration(namespace: Namespace) -> dict[str, object]:
    declaration: dict[str, object] = {"global": namespace.global_name, "names": list(namespace.functions)}
    if namespace.error_class is not None:
        declaration["errorClass"] = {
            "name": namespace.error_class.name,
            "memberNameProperty": namespace.error_class.member_name_property,
        }
    return declaration


def _load_failure(status: ExitStatus | None, limits: Limits, diagnostics: str) -> Failure:
    """Why an image process died while loading."""
    printed = NativeOutput()
    printed.add(diagnostics.encode("utf-8", "replace"))
    verdict = classify(status, 0, limits, printed)
    return Failure(verdict.kind, f"while the program was loaded: {verdict.message}{verdict.details}")
