"""What `jsrun` raises. Only misuse raises; how a run ends is data (`RunResult`).

JsrunError
├── BundleError                       a bundle that cannot be used; `.diagnostics` says all that is wrong with it
├── InputError                        an input that the manifest does not accept; `.problems`
├── DoorFailure                       raised BY host functions: the text the program sees; `.spend`
│   └── NotWired                      a door the host did not provide; `.call`
├── JournalError                      a journal that cannot be read or written
│   └── ResumeError                   a run that cannot be resumed
│       ├── InFlightError             calls whose outcome nobody knows; `.calls`
│       └── DivergenceError           the program took another way than recorded; `.difference`
├── StoreError                        a store that cannot be read or written
│   ├── NotFound                      no such name or version
│   ├── AlreadyExists                 a new name that is taken
│   ├── StaleParent                   a change based on a version that is no longer the newest
│   └── MintBusy                      another process is minting
├── UnknownSubharness                 no layer has the name; `.name`, `.nearest`
├── BeltError                         a tool that cannot be offered
└── EvalError                         an executable case that cannot be read
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from jsrun._text import quoted
from jsrun.diagnostics import Diagnostic, arrange
from jsrun.spend import Spend

if TYPE_CHECKING:  # the journal raises errors of this module
    from jsrun.journal import EntryRow
    from jsrun.replay import Difference

__all__ = [
    "AlreadyExists",
    "BeltError",
    "BundleError",
    "DivergenceError",
    "DoorFailure",
    "EvalError",
    "InFlightError",
    "InputError",
    "JournalError",
    "JsrunError",
    "MintBusy",
    "NotFound",
    "NotWired",
    "ResumeError",
    "StaleParent",
    "StoreError",
    "UnknownSubharness",
]


class JsrunError(Exception):
    """The root of the tree."""


class BundleError(JsrunError):
    """A bundle that cannot be used. `diagnostics` is sorted by place and holds 100 at most, then one with the rest."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics: tuple[Diagnostic, ...] = arrange(diagnostics)
        super().__init__(self.diagnostics)

    def __str__(self) -> str:
        return "\n".join(str(diagnostic) for diagnostic in self.diagnostics)


class InputError(JsrunError):
    """An input that cannot be given to the program; each of `problems` is one sentence."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems: tuple[str, ...] = tuple(problems)
        super().__init__(self.problems)

    def __str__(self) -> str:
        return "\n".join(self.problems)


class DoorFailure(JsrunError):
    """For host functions to raise: `message` is the text the program sees; `spend` is billed all the same."""

    def __init__(self, message: str, spend: Spend | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.spend = spend if spend is not None else Spend()


class NotWired(DoorFailure):
    """The host did not provide the door `call`."""

    def __init__(self, call: str) -> None:
        super().__init__(f"This host does not provide {call}().")
        self.call = call


class JournalError(JsrunError):
    """A journal that cannot be opened, read or written."""


class ResumeError(JournalError):
    """A run that cannot be resumed: another program, an ending that is final, a live owner, or two at once."""


class InFlightError(ResumeError):
    """`calls` were in flight when the run died, and repeating one could do it twice. Nothing was run."""

    def __init__(self, calls: "Sequence[EntryRow]") -> None:
        self.calls: tuple[EntryRow, ...] = tuple(calls)
        super().__init__(self.calls)

    def __str__(self) -> str:
        named = ", ".join(f"{call.call} {quoted(call.ref)} (call {call.seq})" for call in self.calls)
        return f'Nobody knows whether these calls were done: {named}. Resume with in_flight="fail" or "retry".'


class DivergenceError(ResumeError):
    """The program made another call than the recorded one; nothing live has happened."""

    def __init__(self, difference: "Difference") -> None:
        super().__init__(difference)
        self.difference = difference

    def __str__(self) -> str:
        return f"The program went another way than recorded: {self.difference}"


class StoreError(JsrunError):
    """A store that cannot be read or written."""


class NotFound(StoreError):
    """The store has no such name or version."""


class AlreadyExists(StoreError):
    """A mint without a parent, over a name that exists."""


class StaleParent(StoreError):
    """A mint whose parent is not the newest version."""


class MintBusy(StoreError):
    """Another process held the mint gate for too long."""


class UnknownSubharness(JsrunError):
    """No layer has the name; `nearest` is the name that was probably meant, or None."""

    def __init__(self, name: str, nearest: str | None = None) -> None:
        super().__init__(name, nearest)
        self.name = name
        self.nearest = nearest

    def __str__(self) -> str:
        hint = f"Did you mean {quoted(self.nearest)}?" if self.nearest else "Run `jsrun store list` for the names."
        return f"There is no subharness {quoted(self.name)}. {hint}"


class BeltError(JsrunError):
    """A tool that cannot be offered: two of one name, a schema that is not valid, a function without type hints."""


class EvalError(JsrunError):
    """An executable case that cannot be read or used."""
