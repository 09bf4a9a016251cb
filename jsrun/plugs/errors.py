"""What `jsrun.plugs` raises, and the issues such an error carries.

PlugError
├── SchemaError(issues)               a value does not fit its schema
├── NotResumable(plugs)               the session would have to be paused or resumed, and plugs of it cannot be
├── NextMisuse                        `next` called twice, not at all, or with a host it cannot hand on
├── PhaseTimeout                      a handler took longer than its limit
├── PlugCancelled                     an inner plug is stopped because one further out was cancelled
├── ChainStalled                      a message held its place in the queue for too long
├── MissingExtra                      a feature whose library is not installed
├── SetupError(issues)                a setup that cannot be used
│   ├── ExpressionError               a `${{ … }}` that cannot be read, or names something that is not there
│   ├── PlugNotFound                  a reference that leads to nothing
│   ├── NotAPlug                      a reference that leads to something without a stamp
│   └── PlugVersionError              a plug made for another major version of the Plug API
├── AgentError
│   ├── AgentFrozen                   the draft was changed after `next()`
│   ├── AgentSpecError                a command, argument, variable or folder no process can be started with
│   ├── AgentStartError               the agent could not be started
│   ├── AgentExited(code, stderr_tail)  the agent is gone
│   └── AgentNotRunning               a message was sent while no agent runs
├── WireError
│   ├── LineTooLong(side, limit)      a message longer than `line_bytes`
│   └── InvalidLine                   a line that is not one JSON-RPC message
├── StateError
│   ├── StateTooLarge                 more than 16 KiB
│   ├── StateInvalid(issues)          the value does not fit `Persisted`
│   ├── StateCorrupt                  what is stored cannot be read
│   ├── StateUnavailable              the store cannot be reached
│   └── StateClosed                   a write where none is allowed
├── HostError
│   ├── ExecError(result)             a command ended with another code than 0
│   ├── ExecTimeout(result)           a command was stopped at its limit
│   ├── HostClosed                    the host was closed before
│   ├── HostUnavailable(plug)         the machine that this plug once handed inwards is not there
│   └── ForwardUnsupported            this host cannot forward ports that way
├── ControllerError
│   ├── UnknownSession                no session has the id
│   ├── SessionBusy                   another process owns the session
│   └── CannotReattach                the agent does not take up an earlier ACP session
└── RequestError(code, message, data) an ACP error answer; no failure of the session
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from jsrun._text import cut, printable

if TYPE_CHECKING:
    from jsrun.plugs.host_api import ExecResult

__all__ = [
    "AgentError",
    "AgentExited",
    "AgentFrozen",
    "AgentNotRunning",
    "AgentSpecError",
    "AgentStartError",
    "CannotReattach",
    "ChainStalled",
    "ControllerError",
    "ExecError",
    "ExecTimeout",
    "ExpressionError",
    "ForwardUnsupported",
    "HostClosed",
    "HostError",
    "HostUnavailable",
    "InvalidLine",
    "Issue",
    "LineTooLong",
    "MissingExtra",
    "NextMisuse",
    "NotAPlug",
    "NotResumable",
    "PhaseTimeout",
    "PlugCancelled",
    "PlugError",
    "PlugNotFound",
    "PlugVersionError",
    "RequestError",
    "SchemaError",
    "SessionBusy",
    "SetupError",
    "SetupIssue",
    "StateClosed",
    "StateCorrupt",
    "StateError",
    "StateInvalid",
    "StateTooLarge",
    "StateUnavailable",
    "UnknownSession",
    "WireError",
]

IssuePath: TypeAlias = tuple[str | int, ...]

# What a failed command printed is shown up to here; the rest is in its result.
_SHOWN_STDERR_CHARS = 1_000


@dataclass(frozen=True, slots=True)
class Issue:
    """One finding about a value: what is wrong, and the keys and indexes that lead there; printed `path: message`."""

    message: str
    path: IssuePath = ()

    def __str__(self) -> str:
        return f"{path_text(self.path)}: {self.message}" if self.path else self.message


@dataclass(frozen=True, slots=True)
class SetupIssue:
    """One finding about a setup; `place` is `file:line:column`, or empty where the setup came from no file."""

    message: str
    place: str = ""

    def __str__(self) -> str:
        return f"{self.place}: {self.message}" if self.place else self.message


def path_text(path: IssuePath) -> str:
    """`("a", 0, "b")` as `a[0].b`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


class PlugError(Exception):
    """The root of the tree."""


class _WithIssues(PlugError):
    """An error with several findings, one a line."""

    def __init__(self, issues: Iterable[Issue], subject: str = "") -> None:
        self.issues: tuple[Issue, ...] = tuple(issues)
        self.subject = subject
        super().__init__(self.issues, subject)

    def __str__(self) -> str:
        before = f"{self.subject}: " if self.subject else ""
        return "\n".join(f"{before}{issue}" for issue in self.issues)


class SchemaError(_WithIssues):
    """A value that does not fit its schema. `subject` (a plug's name) stands before each finding."""


class NotResumable(PlugError):
    """The session cannot be paused or resumed because of `plugs`, whose names the text lists."""

    def __init__(self, plugs: Sequence[str], what: str) -> None:
        self.plugs: tuple[str, ...] = tuple(plugs)
        super().__init__(f"{what}, because of plugs that cannot be resumed: {', '.join(self.plugs)}.")


class NextMisuse(PlugError):
    """`next` was called twice, not at all, or with a host that cannot be handed on."""


class PhaseTimeout(PlugError):
    """A handler took longer than its limit."""


class PlugCancelled(PlugError):
    """A plug further out was cancelled, so the inside is stopped."""


class ChainStalled(PlugError):
    """A message held its place in the queue for too long."""


class MissingExtra(PlugError):
    """A library that is not installed; the text is the command that installs it."""

    def __init__(self, extra: str) -> None:
        self.extra = extra
        super().__init__(f"pip install 'subharness[{extra}]'")


class SetupError(PlugError):
    """A setup that cannot be used; `issues` are all findings, one a line."""

    def __init__(self, issues: Iterable[SetupIssue]) -> None:
        self.issues: tuple[SetupIssue, ...] = tuple(issues)
        super().__init__(self.issues)

    def __str__(self) -> str:
        return "\n".join(map(str, self.issues))


class ExpressionError(SetupError):
    """An expression that cannot be read, or that names something that is not there."""


class PlugNotFound(SetupError):
    """A reference that leads to nothing."""


class NotAPlug(SetupError):
    """A reference that leads to something that is not a plug."""


class PlugVersionError(SetupError):
    """A plug made for another major version of the Plug API."""


class AgentError(PlugError):
    """Something about the agent's draft or process."""


class AgentFrozen(AgentError):
    """The draft of the agent was changed after `next()`."""


class AgentSpecError(AgentError):
    """No process can be started from this command, argument list, environment or folder."""


class AgentStartError(AgentError):
    """The agent's process could not be started."""


class AgentExited(AgentError):
    """The agent is gone. `code` is its exit code, minus the signal's number if it was killed, None if unknown."""

    def __init__(self, code: int | None, stderr_tail: str = "") -> None:
        self.code = code
        self.stderr_tail = stderr_tail
        super().__init__(code, stderr_tail)

    def __str__(self) -> str:
        if self.code is None:
            text = "The agent closed its output."
        elif self.code < 0:
            text = f"The agent was ended by signal {-self.code}."
        else:
            text = f"The agent exited with code {self.code}."
        return f"{text} The end of its stderr:\n{printable(self.stderr_tail)}" if self.stderr_tail else text


class AgentNotRunning(AgentError):
    """A message was sent while no agent runs."""


class WireError(PlugError):
    """Bytes that are no message."""


class LineTooLong(WireError):
    """A message of more than `limit` bytes; `side` is the side whose message it was, "client" or "agent"."""

    def __init__(self, side: str, limit: int) -> None:
        self.side = side
        self.limit = limit
        super().__init__(f"A message of the {side} is longer than {limit:,} bytes. Raise `limits.line_bytes`.")


class InvalidLine(WireError):
    """A line that is not one JSON-RPC message."""


class StateError(PlugError):
    """Something about the persisted state of a plug."""


class StateTooLarge(StateError):
    """The value has more than 16 KiB as compact JSON; nothing was written."""


class StateInvalid(StateError):
    """The value does not fit `Persisted`; `issues` say where."""

    def __init__(self, message: str, issues: Iterable[Issue] = ()) -> None:
        self.issues: tuple[Issue, ...] = tuple(issues)
        super().__init__("\n".join([message, *(f"  {issue}" for issue in self.issues)]))


class StateCorrupt(StateError):
    """What is stored cannot be read: damaged, moved, or encrypted with another key."""


class StateUnavailable(StateError):
    """The store cannot be read or written."""


class StateClosed(StateError):
    """A write inside `migrate` or after the plug's last handler."""


class HostError(PlugError):
    """Something about a host."""


class ExecError(HostError):
    """A command ended with a code other than 0; `result` has its output."""

    def __init__(self, result: "ExecResult") -> None:
        self.result = result
        super().__init__(result)

    def __str__(self) -> str:
        shown = printable(cut(self.result.stderr.strip(), _SHOWN_STDERR_CHARS))
        return f"The command ended with code {self.result.exit_code}." + (f" {shown}" if shown else "")


class ExecTimeout(HostError):
    """A command was stopped at its limit of `timeout` seconds; `result` has what it printed before."""

    def __init__(self, result: "ExecResult", timeout: float) -> None:
        self.result = result
        self.timeout = timeout
        super().__init__(result, timeout)

    def __str__(self) -> str:
        return f"The command was stopped after {self.timeout:g} s."


class HostClosed(HostError):
    """The host was closed before."""


class HostUnavailable(HostError):
    """The machine that `plug` handed inwards in an earlier run is not there; nothing is done in its place."""

    def __init__(self, plug: str) -> None:
        self.plug = plug
        super().__init__(f"The host that the plug {plug} once handed on is not available.")


class ForwardUnsupported(HostError):
    """This host cannot forward ports that way."""


class ControllerError(PlugError):
    """Something about sessions as a whole."""


class UnknownSession(ControllerError):
    """No session has this id."""


class SessionBusy(ControllerError):
    """Another process owns the session."""


class CannotReattach(ControllerError):
    """The agent does not take up an ACP session that it had before the pause."""


class RequestError(PlugError):
    """An ACP error answer: raised by a handler to give one, by `next` to tell one. No failure of the session.

    TypeError for a code that is no whole number or a message that is no text: the far side could not read that answer.
    """

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        if not isinstance(code, int) or isinstance(code, bool) or not isinstance(message, str):
            raise TypeError("RequestError takes a whole number as code and a text as message.")
        self.code = code
        self.message = message
        self.data = data
        super().__init__(code, message, data)

    def __str__(self) -> str:
        return f"{self.message} ({self.code})"
