"""The life of one run: input, run row, guards, prompts, program, ending, output, closing row, result."""

import asyncio
import hashlib
import inspect
import json
import struct
from collections.abc import Awaitable
from dataclasses import dataclass, replace
from typing import Any, Final

from jsrun._calls import Calls, SchemaCache
from jsrun._gathered import logs, truncated
from jsrun._images import Images
from jsrun._past import Past, Recorded
from jsrun._session import Session, Stopped, timestamp
from jsrun.bundle import Bundle
from jsrun.canonical import json_text
from jsrun.doors import NAMESPACE, Rules
from jsrun.endings import Ending, cancelled, crashed, ending, invalid_output, of_failure, of_output, out_of
from jsrun.env import Env, Prompted
from jsrun.errors import InputError, JournalError, ResumeError
from jsrun.events import RunEvent, Watch
from jsrun.fuel import Fuel
from jsrun.guards import check_guards
from jsrun.journal import Journal, RunRow, owner
from jsrun.look import Look
from jsrun.replay import Difference, RecordedLook, guards_have_passed
from jsrun.result import RunResult, Usage
from jsrun.schemas import RegexTester, Schema
from jsrun.values import ANSWER_BYTES, FRAME_BYTES, levels_problem, size_problem
from ptc.errors import ClosedError, NotJson
from ptc.image import Image
from ptc.outcome import Outcome
from ptc.wire import Json, encode

# Host code that has been cancelled before the program started is waited for as long as a cancelled call.
_CANCEL_GRACE_S: Final = 0.1
# What a boot frame holds beside the input.
_BOOT_ROOM: Final = 4096


@dataclass(frozen=True, slots=True)
class Shared:
    """What all runs of a runner have in common."""

    bundle: Bundle
    program_hash: str
    images: Images
    rules: Rules
    input_schema: Schema | None
    output_schema: Schema | None
    schemas: SchemaCache
    tester: RegexTester | None
    show_errors: bool


@dataclass(frozen=True, slots=True)
class Order:
    """What one run was asked for. `fuel` is resolved; `seed` and `clock_ms` make its randomness and its time."""

    run_id: str
    input: object
    env: Env
    fuel: Fuel
    look: Look | None
    journal: Journal
    seed: str
    started_at: str
    clock_ms: int
    watch: Watch
    recorded: Recorded | None = None
    """The run has been made before: replay it, or go on with it."""


class Life:
    """One run, carried out by `live`; `stop` may be called at any time."""

    def __init__(self, shared: Shared, order: Order) -> None:
        self._shared = shared
        self._order = order
        self._session: Session | None = None
        self._stop: Ending | None = None
        self._image: Image | None = None
        self._outcome: Outcome | None = None
        self._past: Past | None = None
        self._row: RunRow | None = None
        self._opened = False
        self._claiming: asyncio.Task[None] | None = None
        self._before_s = 0.0  # what passed until the program was given to `ptc`, seconds

    @property
    def fatal(self) -> BaseException | None:
        """What a host function raised to end the whole process; to be raised again when the run is closed."""
        return None if self._session is None else self._session.fatal

    @property
    def difference(self) -> Difference | None:
        """Of a replay that has ended: what is not as recorded."""
        return None if self._past is None else self._past.difference

    def stop(self, ending: Ending) -> None:
        """End the run for this reason, unless it has ended."""
        self._stop = self._stop or ending
        if self._session is not None:
            self._session.stop(ending)

    async def live(self) -> RunResult:
        """Everything, in order. Raises InputError, BundleError or JsrunError before anything has happened."""
        order, shared = self._order, self._shared
        given, value = await self._accept()
        self._image = image = await shared.images.get(order.fuel)
        recorded = order.recorded
        self._session = session = Session(
            run_id=order.run_id,
            fuel=order.fuel,
            journal=order.journal,
            watch=order.watch,
            clock_ms=order.clock_ms,
            attempt=1 if recorded is None else recorded.record.run.attempt + 1,
        )
        if self._stop is not None:
            session.stop(self._stop)
        self._row = self._first_row(given, image, session.attempt)
        if recorded is not None:
            session.past = self._past = Past(session, recorded, self._begin)
        try:
            if recorded is None:
                await order.journal.open_run(self._row)
                self._opened = True
            end = await self._run(session, image, value)
            if self._past is not None:
                await self._past.conclude(end)
                if self._past.resumes:
                    await self._claim()
        except ResumeError:
            raise
        except JournalError as error:
            return self._result(crashed(f"The journal cannot be written: {error}"))
        except ClosedError as error:  # the host closed its runtime while the guards were asked
            end = crashed(f"The engine's runtime cannot be used any more: {error}.")
        except asyncio.CancelledError:
            session.stop(cancelled("the task that waited for it was cancelled"))
            await self._close(session.ending or cancelled())
            raise
        result = await self._close(end)
        if self._past is not None and not self._past.resumes:
            self._past.judge(result)
        return result

    async def _claim(self) -> None:
        """Claim a run that is resumed: once, and to the end, also if whoever waits for it is cancelled."""
        if self._claiming is None:
            assert self._row is not None
            self._claiming = asyncio.ensure_future(self._order.journal.open_run(self._row))
        await asyncio.shield(self._claiming)
        self._opened = True

    async def _begin(self) -> None:
        """A resumed run goes live: what a host does for a program before its first call."""
        await self._claim()
        failed = await self._tell_prompts()
        if failed is not None:
            assert self._session is not None
            self._session.stop(failed)

    # --- before the program ---

    async def _accept(self) -> tuple[str, Json]:
        """The input as JSON text as given, and as the program gets it. InputError if it is not what it must be."""
        given = self._order.input
        try:
            wire = encode(given, "input")
        except NotJson as error:
            raise InputError((f"{error}.",)) from None
        text = json_text(given)
        checked: Json = given  # type: ignore[assignment]  # encode has looked at all of it
        if problem := levels_problem(checked, text, "input") or size_problem(checked, text, ANSWER_BYTES, "input"):
            raise InputError((f"{problem}.",))
        value: Json = json.loads(text)  # a copy that nobody else can change
        schema = self._shared.input_schema
        if schema is not None:
            value = schema.with_defaults(value)
            if len(wire) > FRAME_BYTES // 2:  # all defaults of a manifest fit the other half
                wire = encode(value, "input")
        if len(wire) + _BOOT_ROOM > FRAME_BYTES:
            raise InputError((f"input: {len(wire):,} bytes do not fit a message of {FRAME_BYTES:,} bytes.",))
        if schema is not None and (problems := await schema.problems(value, "input", self._shared.tester)):
            raise InputError(problems)
        return text, value

    def _first_row(self, given: str, image: Image, attempt: int) -> RunRow:
        order, bundle = self._order, self._shared.bundle
        engine = image.engine
        return RunRow(
            run_id=order.run_id,
            name=bundle.manifest.name,
            bundle_hash=bundle.hash,
            program_hash=self._shared.program_hash,
            engine=f"{engine.name} {engine.version}".strip(),
            form=image.form,
            input=given,
            started_at=order.started_at,
            clock_ms=order.clock_ms,
            seed=order.seed,
            fuel=json_text(order.fuel.to_json()),
            owner=owner(),
            attempt=attempt,
        )

    async def _run(self, session: Session, image: Image, value: Json) -> Ending:
        shared, order = self._shared, self._order
        session.tell(RunEvent("started", session.run_id))
        calls = Calls(
            session,
            order.env,
            shared.rules,
            memory=shared.bundle.memory,
            schemas=shared.schemas,
            tester=shared.tester,
            show_errors=shared.show_errors,
        )
        past = self._past
        guards = shared.bundle.manifest.guards
        if guards or (past is None and _prompted(order.env) is not None):
            failed = await self._within_wall(session, self._before(session, calls, value))
            if failed is not None:
                return failed
        left = _left(session)
        if left is not None and left <= 0:
            session.stop(out_of("wall", session.fuel))
        if session.ending is not None:
            return session.ending
        pulses = past is not None and image.form == "async"
        if past is not None and pulses:
            past.use_pulse()
        run = image.start(
            input=[order.clock_ms, *_state(order.seed), value, pulses],
            functions={NAMESPACE: calls.functions()},
            timeout=left,
            limits=shared.images.limits(session.fuel, bounded=past is None),
            on_log=lambda entry: _count(session),
        )
        session.abort = run.abort
        self._before_s = session.elapsed()
        self._outcome = outcome = await run.outcome()
        if outcome.failure is not None:
            place = shared.bundle.prepared.position
            return of_failure(outcome.failure, session.fuel, shared.bundle.source, place, session.ending)
        return await self._judge_output(of_output(outcome))

    async def _before(self, session: Session, calls: Calls, value: Json) -> Ending | None:
        """Guards, then prompts. The ending if the program must not start."""
        guards, past = self._shared.bundle.manifest.guards, self._past
        if guards:
            look = self._order.look
            if past is not None and (not past.resumes or guards_have_passed(past.record)):
                look = RecordedLook(past.record, guards)
            failure = await check_guards(guards, value, look, lambda question: calls.judge(question, _copy(value)))
            session.tell(RunEvent("guard", session.run_id, ok=failure is None))
            if failure is not None:
                await calls.fall_back(failure.sentence)
                return ending("guard", failure.sentence)
        # A run made again tells the prompts when it goes live.
        return await self._tell_prompts() if past is None or past.live else None

    async def _tell_prompts(self) -> Ending | None:
        """Hand the prompts to an Env that wants them. The ending if that fails."""
        session, prompted = self._session, _prompted(self._order.env)
        assert session is not None
        if prompted is None:
            return None
        try:
            taken: object = prompted.use_prompts(self._shared.rules.prompts)
            if inspect.isawaitable(taken):
                await taken
        except (KeyboardInterrupt, SystemExit) as error:
            session.stop_for(error)
            raise Stopped from None
        except Exception as error:
            return crashed(f"The host could not take the prompts: {error}")
        return None

    async def _within_wall(self, session: Session, work: "Awaitable[Ending | None]") -> Ending | None:
        """Host code before the program: it counts as time of the run, and ends with it."""
        task = asyncio.ensure_future(work)
        either: set[asyncio.Future[Any]] = {task, session.stopped}
        try:
            await asyncio.wait(either, timeout=_left(session), return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not task.done():
                task.cancel()
        if not task.done():
            session.stop(out_of("wall", session.fuel))
            await asyncio.wait({task}, timeout=_CANCEL_GRACE_S)
            task.add_done_callback(lambda late: None if late.cancelled() else late.exception())
            return session.ending
        try:
            return task.result()
        except (Stopped, asyncio.CancelledError):
            return session.ending or cancelled()

    # --- after the program ---

    async def _judge_output(self, end: Ending) -> Ending:
        schema = self._shared.output_schema
        if end.reason is not None or schema is None:
            return end
        problems = await schema.problems(end.output, "output", self._shared.tester)
        return invalid_output(problems) if problems else end

    async def _close(self, end: Ending) -> RunResult:
        """Make the result and write the closing row, if the run has an opening one."""
        session, order = self._session, self._order
        assert session is not None and self._row is not None
        session.over = True
        result = self._result(end)
        if self._opened:
            row = replace(
                self._row,
                status=result.status,
                reason=result.reason,
                result=json_text(result.to_json()),
                ended_at=timestamp(),
            )
            try:
                await order.journal.end_run(row)
            except JournalError as error:
                if end.reason != "crashed":
                    result = self._result(crashed(f"The journal cannot be written: {error}"))
        session.tell(RunEvent("ended", session.run_id, ok=result.status == "finished"))
        return result

    def _result(self, end: Ending) -> RunResult:
        session = self._session
        assert session is not None
        session.over = True
        outcome = self._outcome
        # Waiting for a process does not count.
        wall = session.elapsed() if outcome is None else self._before_s + outcome.elapsed
        return RunResult(
            status=end.status,
            reason=end.reason,
            output=end.output,
            report=session.report if end.report is None else end.report,
            spend=session.spend,
            logs=logs(session, outcome),
            calls=session.calls,
            run_id=session.run_id,
            usage=Usage(session.steps, wall, None if outcome is None else outcome.cpu),
            truncated=truncated(session, outcome, end),
            sandbox=None if outcome is None else outcome.isolation,
            incomplete=end.sentence if end.status == "incomplete" else "",
            fell_back=end.sentence if end.status == "fell_back" else "",
        )


def _prompted(env: Env) -> Prompted | None:
    # The check of a protocol takes a while, and most Envs are no such thing.
    return env if hasattr(env, "use_prompts") and isinstance(env, Prompted) else None


def _copy(value: Json) -> Json:
    """A copy for the Env, which may change what it is given."""
    copy: Json = json.loads(json_text(value))
    return copy


def _count(session: Session) -> None:
    session.console_entries += 1


def _left(session: Session) -> float | None:
    """Seconds of wall that are left, None without a limit."""
    return None if session.fuel.wall is None else session.fuel.wall - session.elapsed()


def _state(seed: str) -> tuple[int, ...]:
    """The state of the program's random generator: 128 bits, as four numbers of 32."""
    return struct.unpack("<4i", hashlib.sha256(seed.encode("utf-8", "surrogatepass")).digest()[:16])
