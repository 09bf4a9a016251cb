"""Durable sessions: what is committed, and the store that a session lives in."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeAlias

from jsrun.agent.core import AgentState, Done, Failed, StepResult
from jsrun.agent.errors import AiError, Corrupt, InvalidCommit, ParentConflict, RuntimeFault
from jsrun.agent.messages import AssistantMessage, Message, UserMessage, clean_text, pairing_problem, without_system

# Long enough for any id of ours, short enough for a key of any database.
MAX_ID_CHARS = 128
TITLE_CHARS = 80

_SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_COMMIT_ID = re.compile(rf"[\x20-\x7e]{{1,{MAX_ID_CHARS}}}")


@dataclass(frozen=True, slots=True)
class SessionCommit:
    """The messages of one transition. `parent` is the head they follow, None for the first."""

    id: str
    parent: str | None
    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class CommitAck:
    """The store's answer: the id of the newest commit."""

    head: str


@dataclass(frozen=True, slots=True)
class Session:
    """What a store holds: the id of the newest commit, None if there is none, and all messages."""

    head: str | None
    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """A session in a list: `messages` is their number, `title` the beginning of the first user text."""

    id: str
    head: str | None
    messages: int
    created_at: datetime
    updated_at: datetime
    title: str


class SessionStore(Protocol):
    """Where one session lives. It needs no more than an atomic compare-and-append.

    Both methods raise SessionError. `commit` is answered with the head, and is checked in this order, changing nothing
    if refused: no messages or a bad id → InvalidCommit; an id that is there, with the same parent and messages → the
    current head, with others → Corrupt; a parent that is not the head → ParentConflict.
    """

    @property
    def session_id(self) -> str:
        """The id of the session."""
        ...

    async def load(self) -> Session:
        """Head and messages; `Session(None, ())` for one that was never written."""
        ...

    async def commit(self, commit: SessionCommit, /) -> CommitAck:
        """Append the commit if its parent is the head."""
        ...


class SessionCatalog(Protocol):
    """Many sessions in one place. Methods raise SessionError; a bad id is a ValueError."""

    def open(self, session_id: str) -> SessionStore:
        """The store of a session, which need not exist yet."""
        ...

    async def list(self) -> tuple[SessionInfo, ...]:
        """The sessions that were written, the one changed last first."""
        ...

    async def delete(self, session_id: str) -> None:
        """Remove a session with all its commits; one that is not there is fine."""
        ...


@dataclass(frozen=True, slots=True)
class ResumeFromHistory:
    """After the commit: go on with the effect that was withheld."""


@dataclass(frozen=True, slots=True)
class ReturnMessage:
    """After the commit: the run is answered with this message."""

    message: AssistantMessage


@dataclass(frozen=True, slots=True)
class ReturnAiError:
    """After the commit: the run fails with this error."""

    error: AiError


PostCommitDisposition: TypeAlias = ResumeFromHistory | ReturnMessage | ReturnAiError


@dataclass(frozen=True, slots=True)
class SessionDisabled:
    """No store: each transition counts as committed at once."""


@dataclass(frozen=True, slots=True)
class SessionReady:
    """The next commit follows `head`."""

    store: SessionStore
    head: str | None


@dataclass(frozen=True, slots=True)
class SessionPending:
    """The fate of `commit` is unknown. `candidate` is the state once it has landed."""

    store: SessionStore
    commit: SessionCommit
    candidate: AgentState
    disposition: PostCommitDisposition


SessionState: TypeAlias = SessionDisabled | SessionReady | SessionPending


@dataclass(frozen=True, slots=True)
class ReloadReport:
    """What a reload found: the `head`, whether a pending commit had `landed`, and the messages lost with it if not."""

    head: str | None
    landed: bool
    discarded: tuple[Message, ...]


def disposition_of(result: StepResult) -> PostCommitDisposition:
    """What is to be done once the commit of a transition lands."""
    if isinstance(result, Done):
        return ReturnMessage(result.message)
    if isinstance(result, Failed) and not isinstance(result.error, RuntimeFault):
        return ReturnAiError(result.error)
    return ResumeFromHistory()


def entering(history: tuple[Message, ...]) -> tuple[Message, ...]:
    """A history as it may enter an agent: without system messages. Raises Corrupt, with the message's index from 0."""
    for index, message in enumerate(history):
        if not isinstance(message, Message):
            raise Corrupt(f"message {index}: a {type(message).__name__} is no message")
    problem = pairing_problem(history)
    if problem is not None:
        index, text = problem
        raise Corrupt(f"message {index}: {text}")
    return without_system(history)


def check_session_id(session_id: str) -> str:
    """The id itself; ValueError if it is none."""
    if not isinstance(session_id, str) or not _SESSION_ID.fullmatch(session_id):
        raise ValueError(
            f"a session id begins with a letter or digit and goes on with letters, digits, '.', '_' and '-', "
            f"{MAX_ID_CHARS} characters at most; got {session_id!r}"
        )
    return session_id


def check_commit(commit: SessionCommit, head: str | None, same: Callable[[SessionCommit], bool | None]) -> bool:
    """Must the commit be appended? False if it is there already. The checks every store makes, in their order.

    `same` tells of a commit's id: None if it is unknown, else whether parent and messages are those stored under it.
    Raises InvalidCommit, Corrupt or ParentConflict.
    """
    if not commit.messages:
        raise InvalidCommit("the commit has no messages")
    if not isinstance(commit.id, str) or not _COMMIT_ID.fullmatch(commit.id):
        raise InvalidCommit(f"a commit id is 1 to {MAX_ID_CHARS} printable ASCII characters")
    known = same(commit)
    if known is False:
        raise Corrupt(f"commit {commit.id} is stored with another parent or other messages")
    if known:
        return False
    if commit.parent != head:
        raise ParentConflict(commit.parent, head)
    return True


def title_of(messages: tuple[Message, ...]) -> str:
    """The beginning of the first user text, on one line; empty if there is none."""
    for message in messages:
        if isinstance(message, UserMessage):
            return clean_text(" ".join(message.content.split())[:TITLE_CHARS])
    return ""
