"""What a process of ours prints when something of ours goes wrong in it.

Not by `traceback`: that looks up source lines, and opening a file ends a confined process, which would then tell of a
forbidden system call instead of the fault.
"""

import contextlib
import os
import sys
from types import TracebackType
from typing import Any

_STDERR = 2
# A message may hold the program's text, and a pipe must not fill up before anyone reads it.
_MAX_CHARS = 2000


def report(error: BaseException) -> None:
    """Print type and message of an exception and the places it came through, innermost last."""
    lines = [f"{place}\n" for place in _places(error.__traceback__)]
    _print("".join(lines) + f"{type(error).__name__}: {str(error)[:_MAX_CHARS]}\n")


def be_brief() -> None:
    """Have exceptions nobody can catch, such as those in a callback from C, printed in the same way."""
    sys.unraisablehook = _report_unraisable


def _report_unraisable(unraisable: Any) -> None:
    if unraisable.exc_value is not None:
        report(unraisable.exc_value)
    else:
        _print(f"{unraisable.exc_type.__name__}\n")


def _places(traceback: TracebackType | None) -> list[str]:
    places = []
    while traceback is not None:
        code = traceback.tb_frame.f_code
        places.append(f"  {code.co_filename}:{traceback.tb_lineno} in {code.co_name}")
        traceback = traceback.tb_next
    return places[-10:]


def _print(text: str) -> None:
    with contextlib.suppress(OSError):  # nobody listens
        os.write(_STDERR, text.encode("utf-8", "backslashreplace"))
