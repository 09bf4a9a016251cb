"""What the command line prints: JSON that every terminal and every reader takes, and lines for people."""

import re
import sys
from dataclasses import asdict, fields, is_dataclass
from typing import Any, Final

from ptc.command_line import printable
from ptc.outcome import Outcome
from ptc.tools.render import json_text
from ptc.wire import Json

__all__ = ["outcome_json", "print_json", "print_line", "print_value"]

_LEVELS: Final = 4
"""Levels of a document that get lines of their own; below it is data."""

_UNSAFE: Final = re.compile("[\x7f-\x9f\ud800-\udfff]")


def print_value(value: Json) -> None:
    """A value as one line of JSON on stdout, of any depth."""
    print(_portable(json_text(value)))


def print_json(document: dict[str, Any]) -> None:
    """One JSON document on stdout."""
    print(_portable(json_text(document, _LEVELS)))


def print_line(text: str) -> None:
    """A text for people on stderr, at once. Control codes a program may have written are shown, not obeyed."""
    shown = printable(text)
    encoding = sys.stderr.encoding or "ascii"
    print(shown.encode(encoding, "backslashreplace").decode(encoding), file=sys.stderr, flush=True)


def outcome_json(outcome: Outcome) -> dict[str, Json]:
    """Every field of an outcome, as JSON data."""
    return {field.name: _plain(field.name, getattr(outcome, field.name)) for field in fields(outcome)}


def _plain(name: str, part: Any) -> Json:
    if name == "value":
        return part  # type: ignore[no-any-return]  # JSON data as it is; it may be deep
    if isinstance(part, tuple):
        return [_plain("", item) for item in part]
    if is_dataclass(part) and not isinstance(part, type):
        return {key: _plain("", value) for key, value in asdict(part).items()}
    return part  # type: ignore[no-any-return]


def _portable(text: str) -> str:
    """JSON text in which everything the output cannot hold is escaped."""
    text = _UNSAFE.sub(_escaped, text)
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        text = re.sub(r"[^\x00-\x7f]", _escaped, text)
    return text


def _escaped(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
