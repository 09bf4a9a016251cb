"""What the commands print: one JSON document or plain text on stdout, problems on stderr."""

import json
import sys
from collections.abc import Iterable

from jsrun.diagnostics import Diagnostic
from jsrun.errors import (
    AlreadyExists,
    BundleError,
    InputError,
    JsrunError,
    MintBusy,
    NotFound,
    StaleParent,
    UnknownSubharness,
)
from ptc.command_line import printable

_CODES: dict[type[JsrunError], str] = {
    AlreadyExists: "exists",
    InputError: "input",
    MintBusy: "busy",
    NotFound: "not-found",
    StaleParent: "stale-parent",
    UnknownSubharness: "not-found",
}


class Refusal(Exception):
    """A command that cannot be done. The text is for people; `code` and `diagnostics` are for `--json`."""

    def __init__(self, message: str, *, code: str = "refused", diagnostics: Iterable[Diagnostic] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.diagnostics = tuple(diagnostics)

    def to_json(self) -> dict[str, object]:
        """The refusal as a JSON object."""
        return {
            "code": self.code,
            "message": str(self),
            "diagnostics": [diagnostic_json(diagnostic) for diagnostic in self.diagnostics],
        }

    @classmethod
    def of(cls, error: JsrunError) -> "Refusal":
        """What the library raised, for the command line."""
        if isinstance(error, BundleError):
            return cls(str(error), code="bundle", diagnostics=error.diagnostics)
        return cls(str(error), code=_CODES.get(type(error), "refused"))


def diagnostic_json(diagnostic: Diagnostic) -> dict[str, object]:
    """A diagnostic as a JSON object."""
    return {
        "code": diagnostic.code,
        "severity": diagnostic.severity,
        "file": diagnostic.file,
        "line": diagnostic.line,
        "column": diagnostic.column,
        "message": diagnostic.message,
        "hint": diagnostic.hint,
    }


def print_json(document: object, *, indent: int | None = 2) -> None:
    """One JSON document on stdout. ASCII, so that a lone surrogate in a program's output breaks no terminal."""
    print(json.dumps(document, indent=indent))


def print_problem(text: str) -> None:
    """A problem on stderr."""
    print(printable(text), file=sys.stderr)
