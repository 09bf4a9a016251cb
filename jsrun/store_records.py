"""What a store writes beside its bundles: the record of a version, and a note about the last run.

Both are small JSON files that anybody may have edited, so they are read strictly: every key once, known, of its type.
"""

import json
import math
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from jsrun import strictjson
from jsrun._text import quoted
from jsrun.errors import StoreError
from jsrun.files import read_file
from jsrun.journal import storable
from jsrun.strictjson import JsonError
from ptc.wire import Json

RECORD_BYTES: Final = 64 * 1024
"""The largest record that is read; the longest `why` fits, whatever its characters."""

WHY_CHARS: Final = 8_000
"""A reason is a paragraph or a commit message, not a document."""

MOST_VERSION: Final = 999_999_999
"""Nine digits, so that a number fits every counter and every file name."""

_HASH: Final = re.compile(r"sha256:[0-9a-f]{64}")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)", re.ASCII)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a subharness: its number from 1, the hash of its content, and what it was made from.

    `parent` and `parent_version` are those of the version it changes, "" and 0 for a new name; `why` says why it was
    made; `at` is RFC 3339. ValueError, naming the field, for anything else.
    """

    version: int
    hash: str
    parent: str = ""
    parent_version: int = 0
    why: str = ""
    at: str = ""

    def __post_init__(self) -> None:
        _check_number("version", self.version, 1)
        _check_number("parent_version", self.parent_version, 0)
        _check_text("hash", self.hash, _HASH)
        _check_text("parent", self.parent, _HASH, empty=True)
        _check_text("at", self.at, _TIME)
        _check_why(self.why)
        if self.parent_version >= self.version:
            raise ValueError('"parent_version" must be below "version"')
        if bool(self.parent) != bool(self.parent_version):
            raise ValueError('"parent" and "parent_version" must both be there, or neither')

    def to_json(self) -> dict[str, Json]:
        """Every field under its name."""
        return {
            "version": self.version,
            "hash": self.hash,
            "parent": self.parent,
            "parent_version": self.parent_version,
            "why": self.why,
            "at": self.at,
        }


@dataclass(frozen=True, slots=True)
class RunNote:
    """How the last run of a subharness went: its version, when it ended (RFC 3339), whether it gave an output.

    `why` is the sentence of a run that did not take the fast path to its end; `cost_usd` what it cost, US dollars.
    """

    version: int
    at: str
    finished: bool
    why: str = ""
    cost_usd: float = 0.0

    def __post_init__(self) -> None:
        _check_number("version", self.version, 1)
        _check_text("at", self.at, _TIME)
        _check_why(self.why)
        if not isinstance(self.finished, bool):
            raise ValueError('"finished" must be true or false')
        cost: object = self.cost_usd
        if isinstance(cost, bool) or not isinstance(cost, int | float) or not 0 <= cost < math.inf:
            raise ValueError('"cost_usd" must be a number, 0 or more')

    def to_json(self) -> dict[str, Json]:
        """Every field under its name."""
        return {
            "version": self.version,
            "at": self.at,
            "finished": self.finished,
            "why": self.why,
            "cost_usd": self.cost_usd,
        }


def record_bytes(record: Version | RunNote) -> bytes:
    """The content of a record's file."""
    return (json.dumps(record.to_json(), indent=2, ensure_ascii=False) + "\n").encode()


def read_version(path: Path, number: int) -> Version:
    """The record at `path`, which must be that of version `number`. StoreError if there is none, or an unsound one."""
    version = _read(path, lambda values: Version(**values))
    if version.version != number:
        raise _unsound(path, f'"version" is {version.version}, the name of the file says {number}')
    return version


def read_run_note(path: Path) -> RunNote | None:
    """The note at `path`, None if there is none. StoreError for an unsound one."""
    return None if not os.path.lexists(path) else _read(path, lambda values: RunNote(**values))


def fit_why(why: str) -> str:
    """A reason as a record keeps it. StoreError for one that is too long."""
    text = storable(why).strip()
    if len(text) > WHY_CHARS:
        raise StoreError(f'The "why" has {len(text):,} characters, {WHY_CHARS:,} are allowed. Shorten it.')
    return text


def _read(path: Path, make: "Callable[..., T]") -> T:
    try:
        text = read_file(path, RECORD_BYTES).decode("utf-8")
        document = strictjson.parse(text, max_depth=2)
    except UnicodeDecodeError:
        raise _unsound(path, "it is not UTF-8 text") from None
    except JsonError as error:
        raise _unsound(path, f"{error.line}:{error.column}: {error.message.removesuffix('.')}") from None
    except OSError as error:
        raise _unsound(path, (error.strerror or "it cannot be read").lower()) from None
    except ValueError as error:
        raise _unsound(path, str(error)) from None
    if document.duplicates:
        raise _unsound(path, f"the key {quoted(document.duplicates[0].key)} stands there twice")
    values = document.value
    if not isinstance(values, Mapping):
        raise _unsound(path, "it is not an object")
    try:
        return make(values)
    except TypeError:  # the constructor names a Python function, not what is wrong
        raise _unsound(path, f"it has missing or unknown keys: {', '.join(map(quoted, values)) or 'none'}") from None
    except ValueError as error:
        raise _unsound(path, str(error)) from None


def _unsound(path: Path, problem: str) -> StoreError:
    return StoreError(f"The record {quoted(str(path), 500)} cannot be used: {problem}. Correct it or move it away.")


def _check_number(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MOST_VERSION:
        raise ValueError(f'"{name}" must be a whole number from {least} to {MOST_VERSION:,}')


def _check_text(name: str, value: object, form: re.Pattern[str], *, empty: bool = False) -> None:
    if not isinstance(value, str) or not (form.fullmatch(value) or (empty and not value)):
        raise ValueError(f'"{name}" must look like {_EXAMPLES[form]}')


def _check_why(value: object) -> None:
    if not isinstance(value, str) or len(value) > WHY_CHARS:
        raise ValueError(f'"why" must be a text of at most {WHY_CHARS:,} characters')


_EXAMPLES: Final = {_HASH: '"sha256:" and 64 hex digits', _TIME: '"2026-01-31T12:00:00Z"'}
