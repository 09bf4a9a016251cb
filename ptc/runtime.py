"""`Runtime`: owns the processes of one engine and makes images."""

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import Any, Literal, Self, TypedDict, Unpack

from ptc import _strategy
from ptc._launch import StartError, engine_library
from ptc._memory import MemoryWatch
from ptc.errors import ClosedError, LoadError, UsageError
from ptc.events import Event
from ptc.image import Image
from ptc.limits import Limits
from ptc.namespaces import HostFunction, Namespace, normalize
from ptc.outcome import UNSET, EngineInfo, Failure, LogEntry, Outcome, Unset
from ptc.typescript import is_quick, prepare

Namespaces = Mapping[str, Mapping[str, HostFunction]] | Iterable[Namespace]
Form = Literal["auto", "sync", "async"]
Language = Literal["javascript", "typescript"]


class LoadArguments(TypedDict, total=False):
    """What a program may be loaded with, each by its name.

    language, form: `javascript` and `auto` if absent. name: of the program, in messages. setup: trusted source run once
    before it. input_name: the variable that holds each run's input. limits: else the runtime's.
    """

    language: Language
    form: Form
    name: str
    setup: str
    input_name: str | None
    limits: Limits | None


_MEASURES = frozenset({"fork", "rlimits", "seccomp"})


class Runtime:
    """An async context manager. Its processes start on first use and are all gone after `aclose`.

    engine: `quickjs` or `v8`. process: how runs are made, `fork` or `spawn`; `auto` forks where that can be.
    limits: the defaults of everything loaded here. spares: runs kept waiting per image, at most one if spawned.
    max_runs: runs at work at once; more wait their turn. require: measures out of `fork`, `rlimits`, `seccomp` without
    which nothing is run. describe_error: the text a program sees of an exception of a host function.
    Belongs to one event loop and one process. Raises `UsageError` for options that cannot be met.
    """

    def __init__(
        self,
        *,
        engine: str = "quickjs",
        process: _strategy.ProcessChoice = "auto",
        limits: Limits | None = None,
        spares: int = 2,
        max_runs: int = 32,
        require: Iterable[str] = (),
        describe_error: Callable[[BaseException], str] = str,
    ) -> None:
        engine_library(engine)  # says at once what is missing
        self.require = frozenset(require)
        if unknown := sorted(self.require - _MEASURES):
            raise UsageError(f'require: "{unknown[0]}" is no measure; there are {", ".join(sorted(_MEASURES))}')
        if not isinstance(spares, int) or isinstance(spares, bool) or spares < 0:
            raise UsageError("spares: a whole number from 0 is needed")
        if not isinstance(max_runs, int) or isinstance(max_runs, bool) or max_runs < 1:
            raise UsageError("max_runs: a whole number from 1 is needed")
        if limits is not None and not isinstance(limits, Limits):
            raise UsageError("limits: a Limits object is needed")
        self.engine = engine
        self.process = _strategy.choose(engine, process)
        self.limits = limits if limits is not None else Limits()
        self.spares = _strategy.most_spares(self.process, spares)
        self.max_runs = max_runs
        self.describe_error = describe_error
        self._pid = os.getpid()
        self._closing: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._root: _strategy.Maker | None = None
        self._images: set[Image] = set()

    async def __aenter__(self) -> Self:
        self.check_usable()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def load(
        self,
        code: str,
        namespaces: Namespaces = (),
        **arguments: Unpack[LoadArguments],
    ) -> Image:
        """Compile a program, a function body, against named host functions. arguments: see `LoadArguments`.

        Raises `LoadError` for a program that cannot be loaded and `UsageError` for everything else that is wrong.
        """
        return await self._load(code, namespaces, self.spares, **arguments)

    async def run(
        self,
        code: str,
        namespaces: Namespaces = (),
        *,
        input: object | Unset = UNSET,
        timeout: float | Unset | None = UNSET,
        on_event: Callable[[Event], object] | None = None,
        on_log: Callable[[LogEntry], object] | None = None,
        **arguments: Unpack[LoadArguments],
    ) -> Outcome:
        """Load a program, run it once, drop it. A program that cannot be loaded is a failed outcome."""
        if input is not UNSET and arguments.get("input_name") is None:
            arguments["input_name"] = "input"
        try:
            image = await self._load(code, namespaces, 0, **arguments)
        except LoadError as error:
            return Outcome(failure=error.failure, engine=EngineInfo(self.engine, self._version()))
        try:
            return await image.run(input=input, timeout=timeout, on_event=on_event, on_log=on_log)
        finally:
            await image.unload()

    async def aclose(self) -> None:
        """Abort every run, end every process and wait for them. May be called twice."""
        self.check_place()
        if self._closing is None:
            self._closing = self.loop.create_task(self._close())
        # The work goes on if our caller is cancelled, or is a host function of one of the runs and ends with it.
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        for image in list(self._images):
            image.abort_runs("runtime closed")
        if self._root is not None and self._root.report is None:
            self._root.kill()  # nobody needs it any more to become ready
        for image in list(self._images):
            await image.unload()
        self.memory_watch.close()
        async with self._starting:
            root, self._root = self._root, None
        if root is not None:
            await root.stop()

    async def report(self) -> Mapping[str, Any]:
        """What this machine has: engine name and version, `rejections`, `rlimits`, `seccomp`. Starts root if need be.

        seccomp: the `level` in force, the forbidden calls a process under the filter was seen to die of (`denied`),
        and why there is no filter (`problem`). Raises `LoadError` if no process can be started.
        """
        self.check_usable()
        try:
            root = await self.root()
            return await root.describe(self.limits.start_timeout)
        except StartError as error:
            raise LoadError(Failure("worker-exit", str(error))) from None

    # --- for images ---

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop this runtime belongs to: the one it was first used on."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self.memory_watch = MemoryWatch(self._loop)
            self.slots = asyncio.Semaphore(self.max_runs)
            self._starting = asyncio.Lock()
        return self._loop

    def check_place(self) -> None:
        """Raise in a forked copy of the process, or on another loop than before."""
        if os.getpid() != self._pid:
            raise ClosedError("this runtime belongs to the process that was forked")
        if self.loop is not asyncio.get_running_loop():
            raise UsageError("a runtime belongs to the event loop it was first used on")

    def check_usable(self) -> None:
        """Raise as `check_place` does, or if closed."""
        self.check_place()
        if self._closing is not None:
            raise ClosedError("the runtime has been closed")

    async def root(self) -> _strategy.Maker:
        """The root process, or what stands for it, started or started again if need be. StartError if it cannot be."""
        async with self._starting:
            self.check_usable()
            if self._root is not None and self._root.dead:
                await self._root.stop()
                self._root = None
            if self._root is None:
                self._root = root = _strategy.make(self.process, self.loop, self.engine)
                try:
                    await root.start(self.limits.start_timeout)
                except BaseException:
                    self._root = None
                    raise
            return self._root

    def forget(self, image: Image) -> None:
        """The image has been unloaded."""
        self._images.discard(image)

    async def _load(
        self,
        code: str,
        namespaces: Namespaces,
        spares: int,
        *,
        language: Language = "javascript",
        form: Form = "auto",
        name: str = "program.js",
        setup: str = "",
        input_name: str | None = None,
        limits: Limits | None = None,
    ) -> Image:
        self.check_usable()
        limits = limits if limits is not None else self.limits
        _check_texts(code=code, name=name, setup=setup)
        if not isinstance(limits, Limits):
            raise UsageError("limits: a Limits object is needed")
        declared = normalize(namespaces, input_name=input_name)
        _strategy.check_wanted_form(self.engine, form)
        read = partial(prepare, code, language=language, form=form, max_source_bytes=limits.max_source_bytes)
        # A large program takes the parser long enough for the loop to miss other work.
        prepared = read() if is_quick(code, language=language, form=form) else await asyncio.to_thread(read)
        _strategy.check_form(self.engine, prepared.form)
        image = Image(
            self,
            code=prepared.code,
            form=prepared.form,
            name=name,
            setup=setup,
            input_name=input_name,
            namespaces=declared,
            limits=limits,
            spares=spares,
        )
        self._images.add(image)
        try:
            await image.load()
        except BaseException as error:
            await image.unload()
            if isinstance(error, LoadError):
                self.check_usable()  # closed meanwhile: then that is the reason
            raise
        return image

    def _version(self) -> str:
        report = self._root.report if self._root is not None else None
        return report.engine.version if report is not None else ""


def _check_texts(**options: object) -> None:
    for name, value in options.items():
        if not isinstance(value, str):
            raise UsageError(f"{name}: a text is needed")
