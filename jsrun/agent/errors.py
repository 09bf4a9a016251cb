"""What `jsrun.agent` raises.

AgentError
├── StartError                       an agent that does not start
│   ├── InvalidConfiguration         `.detail` names the field
│   ├── SessionLoad                  the session could not be loaded; `.error`
│   └── ActorStart                   a start hook failed; `.detail`
├── RunError                         how a run ends without an answer
│   ├── InferenceError               the model gave no usable answer; `.error`, an AiError
│   ├── SessionFailure               a commit or load failed; `.error`, a SessionError
│   ├── RuntimeFault                 the run was refused or cannot go on; `.code`, `.detail`
│   ├── RunCancelled                 `.reason`: caller, deadline, tokens, stopped
│   └── AgentUnavailable             the agent is gone; `.detail`
├── AiError                          raised BY providers
│   ├── ApiError                     `.message`, `.status` (HTTP, or None)
│   │   ├── AuthFailed
│   │   ├── ContextTooLong
│   │   └── IterationLimit           the run used up its rounds; `.limit`
│   ├── RateLimited                  `.retry_after`, seconds, or None
│   ├── InferenceTimeout             `.after`, seconds
│   └── InvalidResponse              `.detail`
├── SessionError                     raised BY session stores
│   ├── Unavailable                  the store cannot be reached or used now; `.message`
│   ├── Corrupt                      what is stored cannot be trusted; `.message`
│   ├── ParentConflict               another head than assumed; `.expected`, `.actual`
│   └── InvalidCommit                `.message`
├── ToolError                        raised BY tool handlers: `.message` is what the model reads
├── SupervisorFailed                 `.child` failed too often; `.cause`
└── IllegalTransition                misuse of the core; `.phase`, `.message`

Errors are values: equal if class and fields are, one line as text, safe to copy, pickle and raise again.
Pure: this module imports nothing that does IO, tells time, draws random numbers or schedules.
"""

from typing import Literal, Self, TypeAlias

from jsrun.agent.messages import clean_text

FaultCode: TypeAlias = Literal["busy", "pending", "no_history", "bad_tail", "hook_failed", "no_session"]
CancelReason: TypeAlias = Literal["caller", "deadline", "tokens", "stopped"]

_FAULTS: dict[str, str] = {
    "busy": "a run is in progress; wait for its end or cancel it",
    "pending": "a commit is pending; continue to send it again, or reload the session",
    "no_history": "there is nothing to continue; give a prompt",
    "bad_tail": "the history ends in a system message; give a prompt",
    "hook_failed": "a hook failed before the inference",
    "no_session": "the agent has no session store to reload from",
}
_CANCELLED: dict[str, str] = {
    "caller": "the run was cancelled by its caller",
    "deadline": "the run was cancelled at its deadline",
    "tokens": "the run was cancelled at its token ceiling",
    "stopped": "the run was cancelled because the agent was stopped",
}


class AgentError(Exception):
    """The root of the tree. `args` are the fields in order, by which errors compare."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and isinstance(other, AgentError) and self.args == other.args

    def __hash__(self) -> int:
        return hash((type(self), self.args))

    def __str__(self) -> str:
        return one_line(self._sentence())

    def _sentence(self) -> str:
        return " ".join(str(value) for value in self.args)

    def bare(self) -> Self:
        """An equal error that has not been raised: without traceback, cause and context."""
        return type(self)(*self.args)


def one_line(text: str) -> str:
    """The text on one line, lone surrogates replaced."""
    return " ".join(clean_text(text).split())


class StartError(AgentError):
    """An agent that does not start."""


class InvalidConfiguration(StartError):
    """A configuration that cannot be used; `detail` names the field and what to do."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class SessionLoad(StartError):
    """The session could not be loaded; `error` says why."""

    def __init__(self, error: "SessionError") -> None:
        super().__init__(error)
        self.error = error

    def _sentence(self) -> str:
        return f"the session could not be loaded: {self.error}"


class ActorStart(StartError):
    """A start hook failed; `detail` names it."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class RunError(AgentError):
    """How a run ends without an answer."""


class InferenceError(RunError):
    """The model gave no usable answer, or the rounds are used up; `error` says why."""

    def __init__(self, error: "AiError") -> None:
        super().__init__(error)
        self.error = error


class SessionFailure(RunError):
    """A commit or a load failed; `error` is the store's, unchanged."""

    def __init__(self, error: "SessionError") -> None:
        super().__init__(error)
        self.error = error

    def _sentence(self) -> str:
        return f"the session failed: {self.error}"


class RuntimeFault(RunError):
    """The run was refused or cannot go on. Without a `detail` it is the sentence that belongs to the `code`."""

    def __init__(self, code: FaultCode, detail: str = "") -> None:
        detail = detail or _FAULTS[code]
        super().__init__(code, detail)
        self.code: FaultCode = code
        self.detail = detail

    def _sentence(self) -> str:
        return f"{self.code}: {self.detail}"


class RunCancelled(RunError):
    """The run was cancelled; the first reason is told."""

    def __init__(self, reason: CancelReason) -> None:
        super().__init__(reason)
        self.reason: CancelReason = reason

    def _sentence(self) -> str:
        return _CANCELLED[self.reason]


class AgentUnavailable(RunError):
    """The agent is gone, or was restarted while the call waited."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail

    def _sentence(self) -> str:
        return f"the agent is unavailable: {self.detail}"


class AiError(AgentError):
    """Raised by providers."""


class ApiError(AiError):
    """The provider refused or failed; `status` is its HTTP status, None if there is none."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message, status)
        self.message = message
        self.status = status

    def _sentence(self) -> str:
        return self.message if self.status is None else f"{self.message} (status {self.status})"


class AuthFailed(ApiError):
    """The provider did not accept the credentials."""


class ContextTooLong(ApiError):
    """The conversation does not fit the model's context window."""


class IterationLimit(ApiError):
    """The run used up its `limit` rounds."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"exceeded maximum iterations ({limit})")
        self.limit = limit
        self.args = (limit,)


class RateLimited(AiError):
    """Too many requests; `retry_after` seconds to wait, None if the provider did not say."""

    def __init__(self, retry_after: float | None = None) -> None:
        super().__init__(retry_after)
        self.retry_after = retry_after

    def _sentence(self) -> str:
        wait = "" if self.retry_after is None else f", try again after {self.retry_after:g} s"
        return f"the provider limits the rate of requests{wait}"


class InferenceTimeout(AiError):
    """The provider did not answer within `after` seconds."""

    def __init__(self, after: float) -> None:
        super().__init__(after)
        self.after = after

    def _sentence(self) -> str:
        return f"the provider did not answer within {self.after:g} s"


class InvalidResponse(AiError):
    """The provider's answer cannot be used."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail

    def _sentence(self) -> str:
        return f"the provider's answer cannot be used: {self.detail}"


class SessionError(AgentError):
    """Raised by session stores."""


class Unavailable(SessionError):
    """The store cannot be reached or used now."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class Corrupt(SessionError):
    """What is stored cannot be trusted."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class ParentConflict(SessionError):
    """The session's head is another than the commit assumed; None stands for an empty session."""

    def __init__(self, expected: str | None, actual: str | None) -> None:
        super().__init__(expected, actual)
        self.expected = expected
        self.actual = actual

    def _sentence(self) -> str:
        expected, actual = (name or "an empty session" for name in (self.expected, self.actual))
        return f"the session has moved on: expected head {expected}, found {actual}"


class InvalidCommit(SessionError):
    """A commit no store accepts."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class ToolError(AgentError):
    """Raised by tool handlers; `message` is what the model reads."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class SupervisorFailed(AgentError):
    """The child ended too often in too short a time; `cause` is its last error as it was."""

    def __init__(self, child: str, cause: BaseException) -> None:
        super().__init__(child, cause)
        self.child = child
        self.cause = cause

    def _sentence(self) -> str:
        return f"the agent {self.child} failed too often: {str(self.cause) or type(self.cause).__name__}"


class IllegalTransition(AgentError):
    """A message the core does not take in this phase."""

    def __init__(self, phase: str, message: str) -> None:
        super().__init__(phase, message)
        self.phase = phase
        self.message = message

    def _sentence(self) -> str:
        return f"in phase {self.phase}: {self.message}"
