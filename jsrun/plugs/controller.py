"""SessionController: owns sessions - when a run of one starts, why it stops, and what becomes of it between runs."""

import contextlib
import json
import os
import re
import secrets
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol, Self

from jsrun.plugs._session import Session, Streams
from jsrun.plugs._started import started
from jsrun.plugs._steps import History
from jsrun.plugs.api import PlugLogger
from jsrun.plugs.clock import Clock, LoopClock
from jsrun.plugs.config import Policy, Setup, from_record, read_setup
from jsrun.plugs.errors import ControllerError, NotResumable, PlugError, SessionBusy, SetupError
from jsrun.plugs.infos import AgentName, EndReason, SessionInfo
from jsrun.plugs.journal import SessionJournal, SessionLock, SessionRecord, is_locked
from jsrun.plugs.loader import load
from jsrun.plugs.persist import StateStore
from jsrun.plugs.runner import AgentBase, RunEnd, not_resumable

ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
ENDABLE: Final = ("paused", "interrupted", "leftover", "ending")


class Observer(Protocol):
    """Is told of every message of every session that is done."""

    def __call__(self, session: str, passed: Any, /) -> None: ...


class SessionController:
    """Starts, resumes, pauses and ends sessions; an async context manager, which sweeps when it is entered.

    journal: where sessions are recorded. store: where plugs keep their state. env: the environment of runs. workspace:
    where agents work if no plug says otherwise. observe: is told of messages. hide: takes secrets out of errors before
    they are recorded. Raises what `sweep` does.
    """

    def __init__(
        self,
        journal: SessionJournal,
        store: StateStore,
        *,
        env: Mapping[str, str] | None = None,
        workspace: Path | None = None,
        observe: Observer | None = None,
        hide: Callable[[str], str] = str,
        clock: Clock | None = None,
    ) -> None:
        self.journal = journal
        self.store = store
        self.env = dict(os.environ if env is None else env)
        self.workspace = Path.cwd() if workspace is None else workspace
        self.observe = observe
        self.hide = hide
        self.secrets: set[str] = set()
        """Secret inputs of plugs in sessions that this process has run."""
        self.clock = clock if clock is not None else LoopClock()
        self.log = PlugLogger({})
        self._sessions: dict[str, Session] = {}

    async def __aenter__(self) -> Self:
        await self.sweep()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for session in list(self._sessions.values()):
            session.stop("cancelled")
        for session in list(self._sessions.values()):
            with contextlib.suppress(Exception):
                await session.wait()

    async def start(
        self,
        setup: Setup,
        agent: tuple[str, ...] | None,
        client: Streams,
        policy: Policy | None = None,
        id: str | None = None,
        execution_id: str | None = None,
    ) -> Session:
        """Start a session and return at once. `agent` is command and arguments, in place of the setup's.

        SetupError, NotResumable or ValueError before anything is created; ControllerError if the id is taken.
        """
        policy = setup.policy if policy is None else policy
        session_id = id if id is not None else f"s-{secrets.token_hex(8)}"
        if ID.fullmatch(session_id) is None:
            raise ValueError(f"{session_id!r} is no id of a session: letters, digits, '.', '_' and '-', 64 at most.")
        loaded = load(setup, policy)
        self._warn(loaded.warnings)
        command = agent if agent else (() if setup.agent.command is None else (setup.agent.command, *setup.agent.args))
        now = time.time()
        record = SessionRecord(
            id=session_id, execution_id=execution_id, state="running", reason=None, error=None, setup=setup.record(),
            agent={"command": list(command)}, policy=policy.model_dump(mode="json"), runs=0, ran=0.0, created=now,
            changed=now, tearing=False, history=History(), agent_pid=None, agent_started=None, attached={},
        )  # fmt: skip
        lock = self.journal.lock(session_id)
        try:
            await self.journal.create(record)
        except BaseException:
            lock.release()
            raise
        return self._begin(record, setup, loaded.entries, lock, client, "start")

    async def resume(self, id: str, client: Streams, setup: Setup | None = None) -> Session:
        """Take up a paused or interrupted session with a new client. `setup` replaces the recorded one.

        UnknownSession, SessionBusy, NotResumable, ControllerError for a session that cannot be resumed.
        """
        record = await self.journal.get(id)
        lock = self.journal.lock(id)
        try:
            record = await self._settled(await self.journal.get(id))
            if record.state not in ("paused", "interrupted") or record.tearing:
                raise ControllerError(f"The session {id} is {record.state}; it cannot be resumed, only ended.")
            used = await self._setup(record, setup)
            loaded = load(used, Policy.model_validate(record.policy))
            stiff = not_resumable(loaded.entries)
            if stiff:
                raise NotResumable(stiff, "The session cannot be resumed; it can be ended")
        except BaseException:
            lock.release()
            raise
        self._warn(loaded.warnings)
        return self._begin(record, used, loaded.entries, lock, client, "resume")

    async def pause(self, id: str) -> None:
        """Ask for a pause. A session of another process is asked through the journal."""
        await self._ask(id, "pause", "idle")

    async def end(self, id: str, reason: EndReason = "closed") -> RunEnd | None:
        """End a session, tearing everything down; how that went, or None if it is left to the process that owns it.

        Ending a session that is ended already does nothing. UnknownSession.
        """
        record = await self.journal.get(id)
        session = self._sessions.get(id)
        if session is not None:
            session.stop(reason)
            return await session.wait()
        if record.state == "ended":
            return None
        try:
            lock = self.journal.lock(id)
        except SessionBusy:
            await self.journal.ask(id, "end", reason)
            return None
        return await self._tear_down(await self._settled(await self.journal.get(id)), lock, reason)

    async def sweep(self) -> list[str]:
        """Mark sessions whose owner died, end agents they left behind, and end what is past its expiry: their ids."""
        expired: list[str] = []
        for record in await self.journal.all():
            if record.state in ("running", "ending") and not is_locked(self.journal, record.id):
                with contextlib.suppress(SessionBusy):
                    lock = self.journal.lock(record.id)
                    try:
                        record = await self._settled(record)
                    finally:
                        lock.release()
            if record.state in ("paused", "interrupted"):
                after = Policy.model_validate(record.policy).expire_after
                if after is not None and record.age > after:
                    try:
                        await self.end(record.id, "expired")
                    except PlugError as error:  # one that cannot be ended keeps nobody from the others
                        self.log.warning("an expired session cannot be ended", session=record.id, error=str(error))
                        continue
                    expired.append(record.id)
        return expired

    async def records(self) -> list[SessionRecord]:
        """Every session, the oldest first."""
        return await self.journal.all()

    def forget(self, session: Session) -> None:
        """For a session that has come to its end in this process."""
        self._sessions.pop(session.id, None)

    def known_secrets(self) -> set[str]:
        """Secret inputs of plugs, of sessions that are over and of those that run."""
        return self.secrets.union(*(session.secrets() for session in self._sessions.values()))

    def _begin(
        self, record: SessionRecord, setup: Setup, entries: Any, lock: SessionLock, client: Streams, kind: Any
    ) -> Session:
        session = Session(self, record, setup, entries, lock, client, kind)
        self._sessions[record.id] = session
        return session

    async def _ask(self, id: str, ask: Any, reason: EndReason) -> None:
        record = await self.journal.get(id)
        session = self._sessions.get(id)
        if session is not None:
            session.stop(reason)
        elif record.state == "running":
            await self.journal.ask(id, ask, reason)

    async def _settled(self, record: SessionRecord) -> SessionRecord:
        """The record of a session that nobody runs. We own it."""
        if record.state not in ("running", "ending"):
            return record
        _kill(record)
        await self.journal.update(record.id, state="interrupted", agent_pid=None, agent_started=None)
        return await self.journal.get(record.id)

    async def _tear_down(self, record: SessionRecord, lock: SessionLock, reason: EndReason) -> RunEnd:
        try:
            setup = await self._setup(record, None)
            entries = load(
                setup, Policy.model_validate({**record.policy, "idle_after": None, "on_disconnect": "close"})
            )
            session = Session(self, record, setup, entries.entries, lock, None, "teardown", reason)
        except BaseException:
            lock.release()
            raise
        self._sessions[record.id] = session
        return await session.wait()

    async def _setup(self, record: SessionRecord, replacement: Setup | None) -> Setup:
        """The setup of later runs: the recorded copy, with a warning if its file says something else by now."""
        if replacement is not None:
            await self.journal.update(record.id, setup=json.dumps(replacement.record()))
            return replacement
        setup = from_record(record.setup)
        if _has_changed(setup):
            self.log.warning(
                "the setup file has changed since the session was started; the recorded one is used",
                session=record.id,
                file=setup.file,
            )
        return setup

    def _warn(self, warnings: tuple[str, ...]) -> None:
        for warning in warnings:
            self.log.warning(warning)


def _has_changed(setup: Setup) -> bool:
    """Does the file of a recorded setup say something else by now? One that is gone says nothing."""
    try:
        return not read_setup(setup.file).same_as(setup)
    except SetupError:
        return False


def agent_of(record: SessionRecord, setup: Setup) -> AgentBase:
    """The agent as the session was started with it."""
    command = [str(word) for word in record.agent.get("command", [])]
    return AgentBase(
        command[0] if command else None, tuple(command[1:]), dict(setup.agent.env), tuple(setup.agent.inherit_env)
    )


def session_info(record: SessionRecord, setup: Setup) -> SessionInfo:
    """The session as plugs see it."""
    return SessionInfo(record.id, record.execution_id, AgentName(setup.agent.name))


def _kill(record: SessionRecord) -> None:
    """End the agent that a dead owner left behind, if it is still the same process."""
    pid = record.agent_pid
    if pid is None or record.agent_started is None or started(pid) != record.agent_started:
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
