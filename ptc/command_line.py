"""What the command lines of both packages share: text for terminals, usage errors, a reader that has gone."""

import os
import re
import sys
from typing import Final

import typer

__all__ = ["USAGE_ERROR", "drop_output", "printable", "usage_text"]

# typer does not export the class of all its usage errors, only those below it.
USAGE_ERROR: Final[type[Exception]] = typer.BadParameter.__bases__[0]

_CONTROLS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


def printable(text: str) -> str:
    """Text that every terminal takes: control codes and lone surrogates, which a program may have written, shown."""
    return _CONTROLS.sub(_shown, text)


def usage_text(error: Exception) -> str:
    """The message of a usage error, and where to find help. Without any argument the message is the help itself."""
    format_message = getattr(error, "format_message", None)
    text = str(format_message()) if callable(format_message) else str(error)
    context = getattr(error, "ctx", None)
    if context is None or text.startswith("Usage:"):
        return text
    return f'{text} Try "{context.command_path} --help".'


def drop_output() -> None:
    """Write no more to stdout: whoever reads it has enough. Python would complain when it flushes what is left."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _shown(match: re.Match[str]) -> str:
    number = ord(match[0])
    return "\ufffd" if number > 0xFF else f"\\x{number:02x}"
