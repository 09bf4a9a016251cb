"""One session while this process owns it: its runs one after the other, and the waiting between them."""

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

from pydantic import BaseModel, SecretStr

from jsrun.plugs._level import PlugEntry
from jsrun.plugs._side import Side
from jsrun.plugs._steps import PhaseLimits
from jsrun.plugs.agentproc import AgentPart
from jsrun.plugs.chain import MessageChain, Passed
from jsrun.plugs.config import Policy, Setup
from jsrun.plugs.errors import ControllerError, LineTooLong
from jsrun.plugs.hosts import LocalHost
from jsrun.plugs.infos import EndReason, RunInfo, RunKind, TeardownInfo
from jsrun.plugs.journal import JournalRecorder, SessionLock, SessionRecord
from jsrun.plugs.reattach import Attached
from jsrun.plugs.runner import Run, RunEnd, RunPlan

if TYPE_CHECKING:
    from jsrun.plugs.controller import SessionController

# How often what others ask for is looked at, in seconds.
_LOOK_S: Final = 1.0
_READ_BYTES: Final = 64 * 1024

OVER: Final = "The session is over."


class ClientReader(Protocol):
    """Where the client's bytes come from."""

    async def read(self, n: int, /) -> bytes:
        """Some bytes, none at the end."""
        ...


class ClientWriter(Protocol):
    """Where the client's bytes go."""

    def write(self, data: bytes, /) -> object:
        """Take bytes; an awaitable it returns is awaited."""
        ...


Streams = tuple[ClientReader, ClientWriter]


class LeftOver(Exception):
    """How a session failed before, as its record tells."""


class Session:
    """A session that is being run. `client` is None for one that is only torn down, for `reason`."""

    def __init__(
        self,
        controller: "SessionController",
        record: SessionRecord,
        setup: Setup,
        entries: Sequence[PlugEntry],
        lock: SessionLock,
        client: Streams | None,
        kind: RunKind,
        reason: EndReason = "closed",
    ) -> None:
        self.id = record.id
        self._controller = controller
        self._record = record
        self._setup = setup
        self._entries = entries
        self._lock = lock
        self._policy = Policy.model_validate(record.policy)
        self._attached = Attached.from_json(record.attached)
        self._reason = reason
        self._run: Run | None = None
        self._chain: MessageChain | None = None
        self._stopped: EndReason | None = None
        self._changed = asyncio.Event()
        self._told_stiff = False
        self._saving: set[asyncio.Task[None]] = set()
        self._secrets: set[str] = set()  # of runs that are over: their errors are still to be told
        self._side, self._reading = self._open(client)
        self._task = asyncio.create_task(self._live(kind), name=f"session {record.id}")
        self.left_behind = False
        """Does plug code still run that could not be ended?"""

    async def wait(self) -> RunEnd:
        """Wait until this process is done with the session; how its last run ended. Raises what stopped it."""
        return await asyncio.shield(self._task)

    def stop(self, reason: EndReason) -> None:
        """Ask for a pause ("idle") or an end; the first request wins, an end after a pause is made as well."""
        if self._stopped is None or (self._stopped == "idle" and reason != "idle"):
            self._stopped = reason
        self._changed.set()
        if self._run is not None:
            self._run.stop(reason)

    def secrets(self) -> set[str]:
        """The secret values among the inputs of plugs that are, or were, prepared."""
        levels = [] if self._run is None else self._run.lifecycle.levels
        found = [
            level.instance.inputs for level in levels if level.instance is not None and hasattr(level.instance, "ctx")
        ]
        return self._secrets | set(_secrets(found))

    def hurry(self) -> None:
        """Cut every limit that remains to 5 s."""
        if self._run is not None:
            self._run.hurry()

    def _open(self, client: Streams | None) -> tuple[Side, asyncio.Task[None] | None]:
        limit = self._setup.limits.line_bytes
        if client is None:

            async def nowhere(data: bytes) -> None:
                return

            return Side("client", nowhere, line_bytes=limit), None
        reader, writer = client

        async def write(data: bytes) -> None:
            done = writer.write(data)
            if isinstance(done, Awaitable):
                await done
            drain = getattr(writer, "drain", None)
            if drain is not None:
                await drain()

        side = Side("client", write, line_bytes=limit)
        return side, asyncio.create_task(_read(reader, side))

    async def _live(self, kind: RunKind) -> RunEnd:
        side = self._side
        try:
            while True:
                end = await self._perform(kind)
                if end.state != "paused":
                    return end
                self._record = await self._controller.journal.get(self.id)
                following = await self._between()
                if following is None:
                    return end
                kind = following
        finally:
            side.refuse(OVER)
            with contextlib.suppress(Exception):
                await side.flush()
            if self._reading is not None:
                self._reading.cancel()
                await asyncio.gather(self._reading, return_exceptions=True)
            side.close()
            self._lock.release()
            self._controller.forget(self)

    async def _perform(self, kind: RunKind) -> RunEnd:
        """One run."""
        from jsrun.plugs.controller import agent_of, session_info

        controller, record = self._controller, self._record
        run = RunInfo(kind, record.runs + 1)
        recorder = JournalRecorder(controller.journal, record, run, controller.hide)
        limits = self._setup.limits
        part = AgentPart(
            self._side,
            recorder,
            clock=controller.clock,
            line_bytes=limits.line_bytes,
            hold=limits.hold,
            open=self._reattach if kind == "resume" else None,
            on_message=self._heard,
        )
        plan = RunPlan(
            self._entries,
            session_info(record, self._setup),
            run,
            agent=agent_of(record, self._setup),
            env=controller.env,
            may_pause=self._policy.may_pause,
            history=record.history,
            limits=PhaseLimits(limits.prepare, limits.attach, limits.pause, limits.teardown),
            end=self._end_info() if kind == "teardown" else None,
        )
        self._run = Run(
            plan,
            agent=part,
            host=LocalHost(controller.workspace),
            store=controller.store,
            recorder=recorder,
            clock=controller.clock,
        )
        if self._stopped is not None and kind != "teardown":
            self._run.stop(self._stopped)
        watching = asyncio.create_task(self._watch(self._run, part, record))
        try:
            end = await self._run.perform()
        finally:
            self.left_behind = self.left_behind or self._run.lifecycle.left_behind
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            if self._saving:
                await asyncio.wait(self._saving)
            self._secrets = self.secrets()
            self._controller.secrets |= self._secrets
            self._run = None
        if end.state != "paused":
            self._side.refuse(OVER if end.error is None else "The session failed.")
        return end

    def _end_info(self) -> TeardownInfo:
        error = LeftOver(self._record.error) if self._record.error else LeftOver("it failed")
        return TeardownInfo(self._reason, error if self._reason == "failed" else None)

    async def _watch(self, run: Run, part: AgentPart, record: SessionRecord) -> None:
        """Stop the run when the policy says so, when the client is gone, or when another process asks."""
        clock = self._controller.clock
        began = clock.now()
        gone = asyncio.create_task(self._side.wait_gone())
        try:
            while True:
                if gone.done():
                    run.stop("idle" if self._policy.on_disconnect == "pause" else "closed")
                    self._stopped = self._stopped or ("idle" if self._policy.on_disconnect == "pause" else "closed")
                if self._policy.timeout is not None and record.ran + clock.now() - began >= self._policy.timeout:
                    run.stop("timeout")
                self._look_idle(run, part)
                asked = await self._heard_from_others()
                if asked is not None:
                    self.stop("idle" if asked[0] == "pause" else asked[1])  # type: ignore[arg-type]
                if gone.done():
                    await asyncio.sleep(self._pace())
                else:
                    await asyncio.wait({gone}, timeout=self._pace())
        finally:
            gone.cancel()
            await asyncio.gather(gone, return_exceptions=True)

    async def _heard_from_others(self) -> tuple[str, str] | None:
        """What another process asks for. A journal that cannot be read now is read again the next time."""
        try:
            return await self._controller.journal.asked(self.id)
        except ControllerError as error:
            self._controller.log.warning("nobody else can be heard", session=self.id, error=error)
            return None

    def _pace(self) -> float:
        waits = [limit for limit in (self._policy.idle_after, self._policy.timeout) if limit is not None]
        return max(0.02, min([_LOOK_S, *(limit / 4 for limit in waits)]))

    def _look_idle(self, run: Run, part: AgentPart) -> None:
        chain = part.chain
        if self._policy.idle_after is None or chain is None:
            return
        quiet = chain.quiet_since()
        if quiet is None or self._controller.clock.now() - quiet < self._policy.idle_after:
            return
        if self._attached.possible:
            run.stop("idle")
        elif not self._told_stiff:
            self._told_stiff = True
            self._controller.log.warning(
                "the session is not paused for idleness: the agent offers no way to take up a session again",
                session=self.id,
            )

    def _heard(self, passed: Passed) -> None:
        if self._controller.observe is not None:
            self._controller.observe(self.id, passed)
        if self._attached.heard(passed):
            text = json.dumps(self._attached.to_json())
            task = asyncio.create_task(self._controller.journal.update(self.id, attached=text))
            self._saving.add(task)
            task.add_done_callback(self._saving.discard)

    async def _reattach(self, chain: MessageChain) -> None:
        await self._attached.again(chain)

    async def _between(self) -> RunKind | None:
        """Paused: wait for what comes next, a resume or an end; None to leave the session paused."""
        if self._stopped is not None and self._stopped != "idle":
            self._reason = self._stopped  # it came when the pause could not be stopped any more
            return "teardown"
        if self._stopped is not None or self._reading is None:
            return None  # a pause was asked for, or the client is gone
        expiry = self._policy.expire_after
        waiting = [
            asyncio.create_task(one) for one in (self._side.waiting(), self._side.wait_gone(), self._changed.wait())
        ]
        asking = asyncio.create_task(self._asked())
        try:
            await asyncio.wait({*waiting, asking}, timeout=expiry, return_when=asyncio.FIRST_COMPLETED)
            asked = self._stopped or (asking.result() if asking.done() else None)
            if asked == "idle":
                return None
            if asked is not None:
                self._reason = asked
                return "teardown"
            if waiting[0].done():
                return "resume"
            if waiting[1].done():
                if self._policy.on_disconnect == "pause":
                    return None
                self._reason = "closed"
                return "teardown"
            self._reason = "expired"
            return "teardown"
        finally:
            for task in (*waiting, asking):
                task.cancel()
            await asyncio.gather(*waiting, asking, return_exceptions=True)

    async def _asked(self) -> EndReason:
        """Wait until another process asks for something."""
        while True:
            asked = await self._heard_from_others()
            if asked is not None:
                return "idle" if asked[0] == "pause" else asked[1]  # type: ignore[return-value]
            await asyncio.sleep(_LOOK_S)


async def _read(reader: ClientReader, side: Side) -> None:
    try:
        while data := await reader.read(_READ_BYTES):
            await side.receive(data)
    except (LineTooLong, ConnectionError, OSError):
        side.discard()
    with contextlib.suppress(LineTooLong):
        await side.end()


def _secrets(value: Any) -> Iterator[str]:
    """Every `SecretStr` in a value."""
    if isinstance(value, SecretStr):
        yield value.get_secret_value()
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _secrets(getattr(value, name))
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _secrets(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _secrets(inner)
