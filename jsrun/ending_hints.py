"""What to do about an ending: one sentence for each reason, for people who look at a run that did not finish."""

from collections.abc import Mapping
from typing import Final

_HINTS: Final[Mapping[str, str]] = {
    "guard": "The input is not what this program is for, so the long way was right; change the guard if it was not.",
    "threw": "Look at the line it names and at the last calls before it.",
    "steps": "Make fewer door calls, or raise the fuel steps and resume the run.",
    "tokens": "Send less to the models, or raise the fuel tokens and resume the run.",
    "wall": "Find the longest bars: make such calls at the same time, or raise the fuel wall and resume the run.",
    "compute": "The program itself worked too long: look for a loop that does not end, or raise the fuel compute.",
    "memory": "The program kept too much: handle its data in parts, or raise the fuel memory.",
    "output": "Log less and return less, or raise the fuel output.",
    "cancelled": "Resume the run to go on where it stopped.",
    "unanswered": "Resume the run when somebody can answer, or give the question a default.",
    "taken_over": "Nothing is wrong: a person does the rest.",
    "stuck": "The program awaits a promise that nothing settles: look at what follows the last call.",
    "no_output": "Return a value from run; undefined and null are no output.",
    "invalid_output": "Compare what the program returns with the output schema of the manifest.",
    "crashed": "If the process was killed from outside, resume the run; if it happens again, report it.",
}
_NO_ENDING = "Either it goes on, or its process died: resume the run if it did."


def ending_hint(status: str | None, reason: str | None) -> str:
    """What to do about an ending; empty for a run that finished, and for a reason nobody knows."""
    if status is None:
        return _NO_ENDING
    return _HINTS.get(reason or "", "")
