"""The program of a bundle, compiled by `ptc`: once for each pair of memory and compute limits its runs ask for."""

import asyncio
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import Any, Final

from jsrun._refused_place import refused_place
from jsrun.analysis import analyse
from jsrun.diagnostics import Diagnostic
from jsrun.doors import DOORS, NAMESPACE, PULSE
from jsrun.errors import BundleError, JsrunError
from jsrun.fuel import Fuel
from jsrun.program import Program
from jsrun.values import FRAME_BYTES, MIB
from ptc.errors import LoadError, UsageError
from ptc.image import Image
from ptc.limits import Limits
from ptc.outcome import Failure
from ptc.runtime import Runtime

# The wall is the runner's to set, as long as anybody may want; this is what timers can hold.
_MOST_SECONDS: Final = 2**31 - 1
# How long a cancelled host call is waited for.
_CANCEL_GRACE_S: Final = 0.1
# Programs of this size may be loaded; with what is put around one of the largest allowed size.
_MOST_SOURCE: Final = 2 * MIB
# Of one character at most.
_BYTES: Final = 4

# As good as no limit.
_ANY_NUMBER: Final = 2**50

_PACKAGES: Final = {"quickjs": "quickjs-ng", "v8": "mini-racer"}


class Images:
    """Loads the program when it is first wanted with certain limits, and keeps it until `aclose`.

    runtime: None to make and own one. Raises JsrunError if the runtime is not of the bundle's engine.
    """

    def __init__(self, program: Program, source: str, engine: str, runtime: Runtime | None, parallel: int) -> None:
        if runtime is not None and runtime.engine != engine:
            raise JsrunError(f'The bundle needs the engine "{engine}", the runtime has "{runtime.engine}".')
        self._program = program
        self._source = source
        self._engine = engine
        self._runtime = runtime
        self._owns = runtime is None
        self._parallel = parallel
        self._loading: dict[tuple[int, float], asyncio.Task[Image]] = {}
        self._limits: dict[Fuel, Limits] = {}
        self._closed = False

    async def get(self, fuel: Fuel) -> Image:
        """The image for this fuel. BundleError if the program does not compile, JsrunError if the engine is missing."""
        if self._closed:
            raise JsrunError("This runner has been closed.")
        limits = self.limits(fuel)
        key = (limits.memory, limits.cpu)
        task = self._loading.get(key)
        if task is None:
            task = self._loading[key] = asyncio.get_running_loop().create_task(self._load(limits))
        if task.done() and not task.cancelled() and task.exception() is None:
            return task.result()
        try:
            return await asyncio.shield(task)  # others may be waiting for the same image
        except BaseException:
            if task.done() and self._loading.get(key) is task:
                del self._loading[key]  # the next run tries again
            raise

    def limits(self, fuel: Fuel, *, bounded: bool = True) -> Limits:
        """The limits of a run in the words of `ptc`. `fuel` has everything set but perhaps `tokens`.

        Not `bounded`: any number of calls, and of calls at once, as a run may make that is fed from a record.
        """
        if not bounded:
            return replace(self.limits(fuel), max_calls=_ANY_NUMBER, max_pending_calls=_ANY_NUMBER)
        known = self._limits.get(fuel)
        if known is None:
            probes = self._program.probes
            known = Limits(
                timeout=None,
                max_timeout=_MOST_SECONDS,
                cpu=min(fuel.compute or _MOST_SECONDS, _MOST_SECONDS),
                memory=fuel.memory or _ANY_NUMBER,
                max_source_bytes=max(_MOST_SOURCE, _BYTES * len(self._program.body)),
                max_output_bytes=max(4, fuel.output or _ANY_NUMBER),
                max_message_bytes=FRAME_BYTES,
                max_calls=(fuel.steps or _ANY_NUMBER) + (0 if probes is None else probes.calls),
                max_pending_calls=self._parallel,
                cancel_grace=_CANCEL_GRACE_S,
            )
            if len(self._limits) < 1000:  # as a cache it may not grow with every new limit somebody thinks of
                self._limits[fuel] = known
        return known

    async def runtime(self) -> Runtime:
        """The runtime programs run in, made if there is none yet."""
        if self._runtime is None:
            try:
                self._runtime = Runtime(engine=self._engine)
            except UsageError:
                package = _PACKAGES.get(self._engine, self._engine)
                raise JsrunError(
                    f'The engine "{self._engine}" is not installed. Install its package: pip install {package}'
                ) from None
        return self._runtime

    async def aclose(self) -> None:
        """Drop the images, and the runtime if it is ours."""
        if self._closed:
            return
        self._closed = True
        tasks = list(self._loading.values())
        self._loading.clear()
        for task in tasks:
            task.cancel()
        for loaded in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(loaded, Image):
                await loaded.unload()
        if self._owns and self._runtime is not None:
            await self._runtime.aclose()

    async def _load(self, limits: Limits) -> Image:
        runtime = await self.runtime()
        probes = self._program.probes
        namespaces = {} if probes is None else probes.namespaces
        try:
            return await runtime.load(
                self._program.body,
                {NAMESPACE: dict.fromkeys((*DOORS, PULSE), _unbound), **namespaces},
                form=self._program.form,
                name=self._source,
                setup=guest(),
                input_name="input",
                limits=limits,
            )
        except LoadError as error:
            raise await self._refused(error.failure, runtime) from None

    async def _refused(self, failure: Failure, runtime: Runtime) -> JsrunError:
        """What it means that the engine did not take the program."""
        if failure.kind == "sandbox-unavailable":
            return JsrunError(f"Programs cannot be run safely here: {failure.message}.")
        if failure.kind != "exception":
            diagnostic = Diagnostic(
                "compile-failed", "error", self._source, None, None,
                f"The engine could not compile the program: {failure.message}.", "Make the program smaller.",
            )  # fmt: skip
            return BundleError([diagnostic])
        at = failure.position
        place: tuple[int, int] | None
        if at is not None:
            place = self._program.position(at.line, at.column)
        else:
            source = self._program.source
            place = await refused_place(failure.message, source, analyse(source).regexes, runtime)
        line, column = place or (None, None)
        message = f"The engine refuses the program: {failure.message}."
        return BundleError([Diagnostic("syntax", "error", self._source, line, column, message, "Correct the syntax.")])


@cache
def guest() -> str:
    """The text of the guest half."""
    return resources.files("jsrun").joinpath("guest.js").read_text("utf-8")


def _unbound(_message: Any) -> Any:
    """Stands for a door in the image; every run brings its own."""
    raise AssertionError("a door was called outside a run")
