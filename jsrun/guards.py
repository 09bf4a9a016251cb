"""Guards: the checks that decide, before a program starts, whether the quick way applies at all."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from jsrun._text import compact_json, cut, quoted
from jsrun._threads import call
from jsrun.env import Answer
from jsrun.look import Look
from jsrun.manifest import Guard
from ptc.outcome import UNSET
from ptc.wire import Json

# How every fall-back by a check begins, for people.
SENTENCE = "Not taking the quick way: "

_YES = frozenset({"y", "yes", "true", "ok"})
# What models put around a one-word answer.
_AROUND = ".!\"'`"


@dataclass(frozen=True, slots=True)
class GuardFailure:
    """The first check that did not pass: its number in the manifest, from 1, and the sentence for people."""

    number: int
    sentence: str


# Asks the model a judgement's question and gives its answer, None if it could not be asked. The runner supplies it, as
# the call is journaled, billed and metered like any other; what it raises (a stop) passes through unchanged.
Judge = Callable[[str], Awaitable[Answer | None]]


async def check_guards(guards: Sequence[Guard], input: Json, look: Look | None, judge: Judge) -> GuardFailure | None:
    """The first guard that does not pass, or None to go ahead.

    Free guards come first, in manifest order, then the judgement; after a failure nothing more is asked. A look that
    is missing or raises means that nobody could tell, which is not passing. `input` is the run's input, defaults
    applied.
    """
    numbered = list(enumerate(guards, start=1))
    free = [(number, guard) for number, guard in numbered if guard.kind != "judgement"]
    judgements = [(number, guard) for number, guard in numbered if guard.kind == "judgement"]
    for number, guard in free:
        if not await _passes(guard, input, look):
            return GuardFailure(number, sentence(guard))
    for number, guard in judgements:
        if not is_yes(await judge((guard.question or "").strip())):
            return GuardFailure(number, sentence(guard))
    return None


def sentence(guard: Guard) -> str:
    """Why the quick way is not taken: the author's words, else the fact."""
    return cut(SENTENCE + ((guard.because or "").strip() or _fact(guard)))


def is_yes(answer: Answer | None) -> bool:
    """Does a judgement's answer say yes, and nothing more? JSON `true` does."""
    if answer is None:
        return False
    if answer.json is True:
        return True
    text = answer.text if answer.json is UNSET else answer.json
    return isinstance(text, str) and text.strip().lower().strip(_AROUND) in _YES


def field_mentions(input: Json, field: str, pattern: str) -> bool:
    """Is `field` of the input there, not null, and does its text contain `pattern`, ignoring case?

    The text of a string is itself, of anything else its compact JSON. `pattern` is literal, never a regex.
    """
    if not isinstance(input, Mapping):
        return False
    value = input.get(field)
    if value is None:
        return False
    text = value if isinstance(value, str) else compact_json(value)
    return pattern.casefold() in text.casefold()


async def _passes(guard: Guard, input: Json, look: Look | None) -> bool:
    if guard.kind == "field":
        return field_mentions(input, guard.field or "", guard.pattern or "")
    if look is None:
        return False
    try:
        if guard.kind == "file":
            return bool(await call(look.file_exists, guard.file or ""))
        return bool(await call(look.tool_on_belt, guard.tool or ""))
    except Exception:  # whatever a host's look raises, the answer is "could not tell"
        return False


def _fact(guard: Guard) -> str:
    if guard.kind == "file":
        return f"{quoted(guard.file or '')} is not there"
    if guard.kind == "tool":
        return f"the tool {quoted(guard.tool or '')} is not available"
    if guard.kind == "field":
        return f"{quoted(guard.field or '')} does not mention {quoted(guard.pattern or '')}"
    return f"{quoted((guard.question or '').strip())} was not answered with yes"
