"""Endings: how what happened to a run becomes status, reason and a sentence for people."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from jsrun._text import cut, printable, quoted
from jsrun.canonical import json_text
from jsrun.fuel import Fuel
from jsrun.result import FALL_BACK_REASONS, Reason, Status
from jsrun.values import levels_problem
from ptc.outcome import Failure, Outcome
from ptc.wire import Json

# How every fall-back by an error begins, for people.
THREW: Final = "The quick way stopped with an error: "

_UNITS: Final = ((3600.0, "hour"), (60.0, "minute"), (1.0, "second"), (0.001, "millisecond"))
_SIZES: Final = ((1024**3, "GiB"), (1024**2, "MiB"), (1024, "KiB"))


@dataclass(frozen=True, slots=True)
class Ending:
    """How a run ended. `reason` None is a finished run with `output`; `sentence` is for people.

    `report` replaces the last status, where a person said something; `whole` is the sentence before it was cut.
    """

    reason: Reason | None
    sentence: str = ""
    output: Json = None
    report: str | None = None
    whole: str = ""

    @property
    def status(self) -> Status:
        """The status this reason belongs to."""
        if self.reason is None:
            return "finished"
        return "fell_back" if self.reason in FALL_BACK_REASONS else "incomplete"


def ending(reason: Reason, sentence: str, report: str | None = None) -> Ending:
    """An ending other than finishing. A long sentence is cut and marked."""
    return Ending(reason, cut(sentence), report=report, whole=sentence)


def out_of(field: Reason, fuel: Fuel, spent: int = 0) -> Ending:
    """The ending of a run that crossed a limit of its fuel; `spent` tokens are told."""
    match field:
        case "steps":
            sentence = f"The run ran out of steps: it may make {_count(fuel.steps or 0, 'step')}, which are door calls."
        case "tokens":
            sentence = f"The run ran out of tokens: it spent {spent:,}, it may spend {fuel.tokens:,}."
        case "wall":
            sentence = f"The run ran out of time after {duration(fuel.wall or 0)}."
        case "compute":
            sentence = f"The run ran out of compute time after {duration(fuel.compute or 0)} of CPU."
        case "memory":
            sentence = f"The run ran out of memory: its process may grow by {size(fuel.memory or 0)}."
        case _:
            sentence = f"The run wrote too much: console and output may have {size(fuel.output or 0)}."
    return ending(field, sentence)


def cancelled(why: str = "") -> Ending:
    """The ending of a run that somebody cancelled."""
    return ending("cancelled", f"The run was cancelled: {why}" if why.strip() else "The run was cancelled.")


def crashed(what: str) -> Ending:
    """The ending of a run that could not go on through no fault of its limits."""
    return ending("crashed", what)


def unanswered(question: str) -> Ending:
    """The ending of a run whose question nobody answered."""
    return ending("unanswered", f"Nobody answered the question {quoted(question, 500)}.")


def taken_over(text: str) -> Ending:
    """The ending of a run that a person took over; what the person said is the report."""
    return ending("taken_over", "A person took over.", report=text)


def of_failure(
    failure: Failure, fuel: Fuel, source: str, place: Callable[[int, int], tuple[int, int]], stop: Ending | None
) -> Ending:
    """The ending of a run that `ptc` says has failed.

    `source` names the program in messages, `place` turns line and column of what `ptc` compiled into those of the file,
    `stop` is what the runner stopped the run for, if it did.
    """
    match failure.kind:
        case "exception":
            where = source
            if failure.position is not None:
                line, column = place(failure.position.line, failure.position.column)
                where = f"{source}:{line}:{column}"
            return ending("threw", THREW + one_line(f"{where}: {failure.message}"))
        case "timeout":
            return out_of("wall", fuel)
        case "compute-limit":
            return out_of("compute", fuel)
        case "memory-limit":
            return out_of("memory", fuel)
        case "output-limit":
            return out_of("output", fuel)
        case "call-limit":
            return out_of("steps", fuel)
        case "invalid-output":
            return invalid_output((f"output{failure.message.removeprefix('value')}",))
        case "stuck":
            return ending("stuck", "The program waits for something that can never come.")
        case "abort":
            return stop if stop is not None else cancelled(failure.message)
        case _:
            return crashed(f"The program's process did not end well: {one_line(failure.message)}.")


def of_output(outcome: Outcome) -> Ending:
    """The ending of a run whose program came to its end: its output, or why that is none."""
    output: Json = outcome.value
    if output is None:
        return ending("no_output", "The program ended without an output.")
    if isinstance(output, dict | list) and (problem := levels_problem(output, json_text(output), "output")):
        return invalid_output((problem,))
    return Ending(None, output=output)


def invalid_output(problems: tuple[str, ...]) -> Ending:
    """The ending of a run whose output does not fit. Each problem is `PATH: …` or a sentence."""
    return ending("invalid_output", "The output is not valid. " + " ".join(map(_sentence, problems)))


def duration(seconds: float) -> str:
    """`15 minutes`, `1.5 seconds`: in the largest unit that gives a short number."""
    for unit, name in _UNITS:
        if seconds >= unit:
            return _count(round(seconds / unit, 2), name)
    return f"{seconds:g} seconds"


def size(amount: int) -> str:
    """`128 MiB`, `1.5 KiB`, `100 bytes`."""
    for unit, name in _SIZES:
        if amount >= unit:
            return f"{round(amount / unit, 2):g} {name}"
    return _count(amount, "byte")


def one_line(text: str) -> str:
    """The text on one line, fit to be printed."""
    return printable(" ".join(text.split()))


def _count(number: float, noun: str) -> str:
    shown = f"{number:,.2f}".rstrip("0").rstrip(".") if isinstance(number, float) else f"{number:,}"
    return f"{shown} {noun}" + ("" if number == 1 else "s")


def _sentence(problem: str) -> str:
    return problem if problem.endswith((".", "!", "?")) else f"{problem}."
