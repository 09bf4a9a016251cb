"""Runner: runs one bundle, any number of times, also at the same time. Run: one run that goes on."""

import asyncio
import hashlib
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from types import TracebackType
from typing import Final, Self, TypedDict, TypeVar, Unpack, get_args

from jsrun._calls import SchemaCache
from jsrun._images import Images
from jsrun._life import Life, Order, Shared
from jsrun._past import Recorded
from jsrun._resuming import again, check_resume, read_record, recorded_fuel, replay_fuel
from jsrun.bundle import Bundle
from jsrun.diagnostics import Diagnostic, arrange
from jsrun.doors import Rules
from jsrun.endings import cancelled
from jsrun.env import Env, UnwiredEnv
from jsrun.errors import BundleError, JsrunError
from jsrun.events import Observer, Watch
from jsrun.fuel import CEILING, Fuel, merge, resolve
from jsrun.journal import Journal, MemoryJournal, RunRecord, new_run_id
from jsrun.look import Look
from jsrun.manifest import Manifest
from jsrun.manifest_reader import FILE
from jsrun.regex import EngineRegexTester
from jsrun.replay import InFlight, ReplayReport
from jsrun.result import RunResult
from jsrun.schemas import Schema
from ptc.runtime import Runtime

T = TypeVar("T")

PARALLEL: Final = 16
"""Host calls of one run at once: as many as model providers take from one key, and no flood for a tool."""

_SEED_BYTES: Final = 16

# Fuel put together for runs, kept for the next run that asks for the same.
_CACHED: Final = 256


class RunOptions(TypedDict, total=False):
    """What one run may be given, each by its name.

    fuel: limits of this run, over those of bundle and manifest. look: what guards look at, else the bundle's.
    journal: where it is recorded, else the runner's. run_id, seed, started_at: those of the run, made up if absent;
    equal seed, start, input and answers give equal runs. on_event: called with each RunEvent.
    """

    fuel: Fuel | None
    look: Look | None
    journal: Journal | None
    run_id: str | None
    seed: str | None
    started_at: datetime | str | None
    on_event: Observer | None


class Run:
    """A run that has been started. Await `result()`; `cancel()` ends it."""

    def __init__(self, life: Life, run_id: str, journal: Journal) -> None:
        self.run_id = run_id
        self.journal = journal
        """Where this run is recorded: the journal it was given, or one in memory."""
        self._life = life
        self._task = asyncio.get_running_loop().create_task(life.live())
        # An error nobody waits for is not reported as lost: it belongs to the waiter, if there is one.
        self._task.add_done_callback(lambda task: None if task.cancelled() else task.exception())

    async def result(self) -> RunResult:
        """Wait for the end. May be awaited more than once.

        Raises InputError, BundleError or JsrunError if the run could not happen. If the waiting is cancelled, the run
        is killed, its journal closed, and CancelledError raised again; so are KeyboardInterrupt and SystemExit of a
        host function.
        """
        try:
            result = await asyncio.shield(self._task)
        except asyncio.CancelledError:
            if not self._task.done():
                self._life.stop(cancelled("the task that waited for it was cancelled"))
                await asyncio.wait([self._task])
            raise
        if self._life.fatal is not None:
            raise self._life.fatal
        return result

    def cancel(self, why: str = "") -> None:
        """End the run as `cancelled`; no effect once it has ended."""
        self._life.stop(cancelled(why))


class Runner:
    """Runs a bundle. An async context manager; `aclose` ends its processes.

    - runtime: a `ptc` runtime of the bundle's engine to run in; without one the runner makes and owns one.
    - journal: where runs are recorded that are not given another one; else the Env, if it is a Journal; else memory.
    - ceiling: what a manifest may grant itself at most. parallel: host calls of one run at once.
    - show_errors: whether a program sees the text of exceptions other than DoorFailure.

    Belongs to one event loop, or, with `run_sync`, to none. Raises JsrunError if the runtime is of another engine.
    """

    def __init__(
        self,
        bundle: Bundle,
        *,
        runtime: Runtime | None = None,
        journal: Journal | None = None,
        ceiling: Fuel = CEILING,
        parallel: int = PARALLEL,
        show_errors: bool = True,
    ) -> None:
        if not isinstance(parallel, int) or isinstance(parallel, bool) or parallel < 1:
            raise ValueError(f"parallel must be a whole number from 1, got {parallel!r}")
        manifest = bundle.manifest
        self.bundle = bundle
        self._journal = journal
        self._ceiling = ceiling
        self._parallel = parallel
        self._images = Images(bundle.prepared, bundle.source, manifest.engine, runtime, parallel)
        self._shared = Shared(
            bundle=bundle,
            program_hash=hashlib.sha256(bundle.program.encode("utf-8", "surrogatepass")).hexdigest(),
            images=self._images,
            rules=Rules(dict(bundle.prompts), manifest.whitelist),
            input_schema=None if manifest.input is None else Schema(manifest.input),
            output_schema=None if manifest.output is None else Schema(manifest.output),
            schemas=SchemaCache(),
            tester=EngineRegexTester(),
            show_errors=show_errors,
        )
        self._resolved: dict[Fuel | None, Fuel] = {}
        self._loop: asyncio.Runner | None = None

    @property
    def manifest(self) -> Manifest:
        """The bundle's manifest."""
        return self.bundle.manifest

    @property
    def prompts(self) -> Mapping[str, str]:
        """The bundle's prompts: bare name to text."""
        return self.bundle.prompts

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def compile(self) -> None:
        """Compile the program now rather than at the first run. BundleError if the engine refuses it."""
        await self._images.get(self._fuel(None))

    async def run(self, input: object, env: Env, **options: Unpack[RunOptions]) -> RunResult:
        """Run the program once and return how it ended.

        input: a JSON value. env: the host's side of the doors. options: see `RunOptions`.
        Raises InputError, BundleError or JsrunError if the run could not happen, TypeError without an env.
        """
        return await self.start(input, env, **options).result()

    def start(
        self,
        input: object,
        env: Env,
        *,
        fuel: Fuel | None = None,
        look: Look | None = None,
        journal: Journal | None = None,
        run_id: str | None = None,
        seed: str | None = None,
        started_at: datetime | str | None = None,
        on_event: Observer | None = None,
    ) -> Run:
        """Like `run`, but returns the `Run` at once."""
        _check_env(env)
        for name, text in (("run_id", run_id), ("seed", seed)):
            if text is not None and not isinstance(text, str):
                raise TypeError(f"{name} must be text, got {text!r}")
        when = _moment(started_at)
        order = Order(
            run_id=new_run_id() if run_id is None else run_id,
            input=input,
            env=env,
            fuel=self._fuel(fuel),
            look=look if look is not None else self.bundle.look,
            journal=self._recorder(journal, env),
            seed=secrets.token_hex(_SEED_BYTES) if seed is None else seed,
            started_at=when.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            clock_ms=round(when.timestamp() * 1000),
            watch=Watch(on_event),
        )
        return Run(Life(self._shared, order), order.run_id, order.journal)

    def run_sync(self, input: object, env: Env, **options: Unpack[RunOptions]) -> RunResult:
        """Like `run`, for code without an event loop; call `close()` in the end. JsrunError where a loop is running."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise JsrunError("run_sync() cannot be used where an event loop is running. Write: await runner.run(…).")
        if self._loop is None:
            self._loop = asyncio.Runner()
        return self._loop.run(self.run(input, env, **options))

    async def replay(self, run_id: str, journal: Journal | None = None) -> ReplayReport:
        """Run the program again on what a run was answered, and compare; no host function is called.

        journal: where the run is recorded, else the runner's. The program may be another version than the recorded
        one, or on another engine. Raises JournalError if the run cannot be read, and what `run` raises.
        """
        return await self.replay_record(await read_record(journal or self._journal, run_id))

    async def replay_record(self, record: RunRecord) -> ReplayReport:
        """Like `replay`, of a record that has been read."""
        order = again(Recorded(record), UnwiredEnv(), replay_fuel(record.run), MemoryJournal())
        life = Life(self._shared, order)
        result = await Run(life, order.run_id, order.journal).result()
        return ReplayReport(life.difference is None, life.difference, result)

    async def resume(
        self,
        run_id: str,
        env: Env,
        in_flight: InFlight = "refuse",
        fuel: Fuel | None = None,
        force: bool = False,
        *,
        look: Look | None = None,
        journal: Journal | None = None,
        on_event: Observer | None = None,
    ) -> RunResult:
        """Go on with a run that was interrupted: what was answered is not asked again, the rest is made.

        in_flight: what becomes of tools and notes that may have been done already, unless they only read: `refuse`
        raises InFlightError, `fail` fails them in the program, `retry` does them again. fuel: over what the run had;
        steps and tokens go on counting, wall and compute start anew. force: believe that the process that worked on
        the run is gone. look, journal, on_event: as those of `run`.

        Raises ResumeError, with nothing done, if the run has ended for good, may still be going on, is of another
        program, or is taken up by another process at the same time; DivergenceError if the program makes other calls
        than recorded; JournalError if the run cannot be read; and what `run` raises.
        """
        run = await self.start_resume(
            run_id, env, in_flight, fuel, force, look=look, journal=journal, on_event=on_event
        )
        return await run.result()

    async def start_resume(
        self,
        run_id: str,
        env: Env,
        in_flight: InFlight = "refuse",
        fuel: Fuel | None = None,
        force: bool = False,
        *,
        look: Look | None = None,
        journal: Journal | None = None,
        on_event: Observer | None = None,
    ) -> Run:
        """Like `resume`, but returns the `Run` as soon as it is known that it may be resumed."""
        _check_env(env)
        if in_flight not in get_args(InFlight):
            raise ValueError(f'in_flight must be "refuse", "fail" or "retry", got {in_flight!r}')
        chosen = self._recorder(journal, env)
        record = await read_record(chosen, run_id)
        unsure = check_resume(record, self._shared.program_hash, env, in_flight, force)
        recorded = Recorded(record, resume=True, parallel=self._parallel, unsure=unsure)
        had = recorded_fuel(record.run)
        order = again(recorded, env, merge(fuel, had), chosen, look if look is not None else self.bundle.look, on_event)
        return Run(Life(self._shared, order), order.run_id, order.journal)

    async def aclose(self) -> None:
        """End all processes of this runner. May be called twice; runs that go on end as `cancelled`."""
        await self._images.aclose()

    def close(self) -> None:
        """The same after `run_sync`."""
        loop, self._loop = self._loop, None
        if loop is not None:
            with loop:
                loop.run(self.aclose())

    def _fuel(self, fuel: Fuel | None) -> Fuel:
        if fuel is not None and not isinstance(fuel, Fuel):
            raise TypeError(f"fuel must be a Fuel, such as Fuel(steps=5), got {fuel!r}")
        known = self._resolved.get(fuel)
        if known is None:
            manifest = self.bundle.manifest
            known = resolve(fuel, self.bundle.fuel, manifest.fuel, manifest.deadline, self._ceiling)
            if len(self._resolved) < _CACHED:  # it may not grow with every new limit somebody thinks of
                self._resolved[fuel] = known
        return known

    def _recorder(self, journal: Journal | None, env: Env) -> Journal:
        """The one journal of a run: the run's, else the runner's, else the Env if it is one, else memory."""
        if journal is not None:
            return journal
        if self._journal is not None:
            return self._journal
        # The check of the whole protocol takes longer than the start of a run; most Envs fail at the first method.
        return env if hasattr(env, "open_run") and isinstance(env, Journal) else MemoryJournal()


def _check_env(env: object) -> None:
    if env is None:
        raise TypeError("a run needs an env; use UnwiredEnv() for a program without a host")
    if isinstance(env, type):
        raise TypeError("the env must be an object, not its class; write ENV()")


def _moment(started_at: datetime | str | None) -> datetime:
    """The start of a run, in UTC. ValueError without a time zone."""
    if started_at is None:
        return datetime.now(UTC)
    when = datetime.fromisoformat(started_at) if isinstance(started_at, str) else started_at
    if when.tzinfo is None:
        raise ValueError("started_at needs a time zone; write it in UTC, such as 2026-01-31T12:00:00Z")
    try:
        return when.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"started_at {when.isoformat()} is beyond the years that UTC can tell") from None


async def check(bundle: Bundle, engine: str | None = None) -> tuple[Diagnostic, ...]:
    """What is to be said about a bundle, the engine's opinion of its program included; `engine`: else the bundle's.

    An engine that refuses the program is an error among the warnings. JsrunError if the engine is not installed.
    """
    manifest = bundle.manifest
    wanted = engine or manifest.engine
    if wanted == "v8" and bundle.form == "sync":
        message, hint = 'The engine "v8" runs async programs only, and this one is sync.', "Make run async."
        return arrange((*bundle.warnings, Diagnostic("engine-form", "error", FILE, None, None, message, hint)))
    images = Images(bundle.prepared, bundle.source, wanted, None, PARALLEL)
    try:
        await images.get(resolve(None, bundle.fuel, manifest.fuel, manifest.deadline))
    except BundleError as error:
        return arrange((*bundle.warnings, *error.diagnostics))
    finally:
        await images.aclose()
    return bundle.warnings
