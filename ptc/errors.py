"""What `ptc` raises. Misuse by the caller raises; the failure of a program is data (`Outcome.failure`).

    PtcError
    ├── UsageError (also ValueError)        a declaration, limit, option or input that cannot be used
    ├── ClosedError                         a runtime or image that has been closed
    ├── LoadError                           a program that cannot be loaded; `.failure` says why
    ├── LocalProtocolError                  the embedding code drove a `HostMachine` against its rules
    ├── CallError                           raised BY a host function: its text reaches the program verbatim
    ├── FrameError (also ValueError)        bytes that are no frame, or a body that is no strict JSON
    ├── WireError (also ValueError)         parsed JSON that is no wire value
    └── NotJson (also ValueError)           a Python value that cannot cross, as `PATH: REASON`

The last three stay inside: the machine turns them into failures of the run or of one call.
"""

from ptc.outcome import Failure

__all__ = [
    "CallError",
    "ClosedError",
    "FrameError",
    "LoadError",
    "LocalProtocolError",
    "NotJson",
    "PtcError",
    "UsageError",
    "WireError",
]


class PtcError(Exception):
    """The root of the tree."""


class UsageError(PtcError, ValueError):
    """The caller asked for something that cannot be done; nothing was run."""


class ClosedError(PtcError):
    """The runtime or image was closed, or belongs to another process."""


class LoadError(PtcError):
    """A program could not be loaded. `failure` has the kind, the message and, where known, the position."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure)
        self.failure = failure

    def __str__(self) -> str:
        position = self.failure.position
        where = f"{position.line}:{position.column}: " if position is not None else ""
        return f"{where}{self.failure.kind}: {self.failure.message}"


class LocalProtocolError(PtcError):
    """A method of `HostMachine` was called in a state, or with an id, that does not allow it."""


class CallError(PtcError):
    """For host functions to raise: the text becomes the message of the failed call, unchanged."""


class FrameError(PtcError, ValueError):
    """A byte stream broke the framing, or a frame's body is not JSON as we accept it."""


class WireError(PtcError, ValueError):
    """Tokens that do not form exactly one wire value."""


class NotJson(PtcError, ValueError):
    """A Python value, or a part of it, has no wire form. The text is `PATH: REASON`."""
