"""Reading a program's syntax tree: for its form, and for the types that go. Keeps the time.

The same code runs in the host for small programs and in a helper process for large ones (`ptc._strip_process` says
why), so it imports as little as it can.
"""

import re
from functools import cache
from time import perf_counter
from typing import TYPE_CHECKING, Final, Literal

from ptc._erase import blank, harmful_breaks, joining
from ptc._generics import SPACED_COMPARISON, STAND_IN
from ptc._survey import Handlers, Refusal, Removal, Survey, Text
from ptc._syntax import FORM_HANDLERS, TYPE_HANDLERS

if TYPE_CHECKING:
    from tree_sitter import Language as Grammar
    from tree_sitter import Tree

__all__ = ["TOO_SLOW", "Form", "FormChoice", "Refused", "form_of", "strip"]

Form = Literal["sync", "async"]
FormChoice = Literal["auto", "sync", "async"]

PARSE_SECONDS: Final = 1.75
"""For reading one program, so that with all around it the answer is there within 2 s. A megabyte of honest TypeScript
takes half a second; only nested guesses take more."""

_CHUNK: Final = 64 * 1024
"""Bytes handed to the parser at a time: large enough that asking costs nothing, and no copy of the whole."""

_NODES_PER_GLANCE: Final = 4096
"""Nodes between two looks at the clock: a millisecond or two."""

_UNLIKE_ASCII: Final = re.compile(r"[^\x01-\x7f]|\r")

TOO_SLOW: Final = "the program took more than 2 s to parse; it leaves too many brackets or types open"


class Refused(Exception):
    """A program that cannot be taken: what to do about it, and the offset where (None: all of it)."""

    def __init__(self, advice: str, offset: int | None = None) -> None:
        super().__init__(advice, offset)
        self.advice = advice
        self.offset = offset


def form_of(code: str) -> Form:
    """The form of a JavaScript program: async if its body itself awaits. Raises `Refused` when it takes too long."""
    return _form(_read(_mask(code), _deadline(), FORM_HANDLERS))


def strip(code: str, form: FormChoice) -> tuple[str, Form]:
    """A TypeScript program without its types, and its form. Raises `Refused`.

    A text the parser cannot read comes back as it is.
    """
    deadline = _deadline()
    mask = _mask(code)
    # To the parser a `<` is a riddle, so where it can only be a comparison it is shown something else.
    plainer = SPACED_COMPARISON.sub(STAND_IN, mask)
    survey, removals, refusals = _settle(plainer, deadline)
    if survey.unreadable and plainer != mask:
        survey, removals, refusals = _settle(mask, deadline)
    chosen = _form(survey) if form == "auto" else form
    if survey.unreadable:
        return code, chosen
    stripped = blank(code, removals)
    refusals += harmful_breaks(Text(code), Text(stripped), survey)
    if refusals:
        first = min(refusals, key=lambda refusal: refusal.offset)
        raise Refused(f"SyntaxError: {first.advice}", first.offset)
    return stripped, chosen


def _settle(mask: str, deadline: float) -> tuple[Survey, list[Removal], list[Refusal]]:
    """Read a masked text, until the parser sees in it what TypeScript would.

    Where a type ends a line and the next one begins with a bracket, the parser reads on; there the type is removed
    first, leaving a semicolon. Where it takes a comparison for type arguments, it is shown another operator. Then it
    reads again.
    """
    removals: list[Removal] = []
    refusals: list[Refusal] = []
    while True:
        survey = _read(mask, deadline, TYPE_HANDLERS)
        split = joining(survey) + survey.first
        if not split and not survey.comparisons:
            return survey, removals + survey.removals, refusals + survey.refusals
        starts = {removal.start for removal in split}
        split += [removal for removal in survey.removals if survey.after(removal.end) in starts]  # the mark of `x!: T`
        mask = blank(_with(mask, survey.comparisons, STAND_IN), split)
        removals += split
        refusals += [refusal for refusal in survey.refusals if refusal.offset in starts]


def _with(text: str, offsets: list[int], character: str) -> str:
    if not offsets:
        return text
    characters = list(text)
    for offset in offsets:
        characters[offset] = character
    return "".join(characters)


def _form(survey: Survey) -> Form:
    return "async" if survey.awaits_itself() else "sync"


def _mask(code: str) -> str:
    """The text as the parser sees it: one ASCII character for each code point, so that its offsets are ours.

    A code point beyond ASCII becomes a space if it is white space and else `_`, which is part of a name where names
    are and as good as anything else in strings and comments. NUL would end the text, and CR alone is no line break to
    the parser.
    """
    if code.isascii() and "\0" not in code and "\r" not in code:
        return code
    return _UNLIKE_ASCII.sub(_stand_in, code)


def _stand_in(match: re.Match[str]) -> str:
    character = match[0]
    if character == "\r":
        return "\n"
    return " " if character.isspace() or character == "\ufeff" else "_"


@cache
def _grammar() -> "Grammar":
    # Imported when the first program needs it: most programs and many processes never do, and it costs 20 ms.
    import tree_sitter
    import tree_sitter_typescript

    return tree_sitter.Language(tree_sitter_typescript.language_typescript())


def _deadline() -> float:
    return perf_counter() + PARSE_SECONDS


def _read(mask: str, deadline: float, handlers: Handlers) -> Survey:
    """Parse a masked text and let the handlers note what they see. Raises `Refused` when the time is over."""
    if perf_counter() > deadline:
        raise Refused(TOO_SLOW)
    tree = _parse(mask.encode("ascii"), deadline)
    survey = Survey(Text(mask), unreadable=tree.root_node.has_error)
    cursor = tree.walk()
    seen = 0
    while True:
        node = cursor.node
        seen += 1
        if node is None or (seen % _NODES_PER_GLANCE == 0 and perf_counter() > deadline):
            raise Refused(TOO_SLOW)
        handler = handlers.get(node.type)
        if (handler is None or handler(survey, node)) and cursor.goto_first_child():
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return survey


def _parse(source: bytes, deadline: float) -> "Tree":
    from tree_sitter import Parser

    parser = Parser(_grammar())
    late = False

    def look_at_clock(_offset: int, _has_error: bool) -> bool:
        nonlocal late
        late = perf_counter() > deadline
        return late

    try:
        return parser.parse(lambda offset, _point: source[offset : offset + _CHUNK], progress_callback=look_at_clock)
    except ValueError:  # how the parser says that it was told to stop
        if late:
            raise Refused(TOO_SLOW) from None
        raise
