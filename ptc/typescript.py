"""Before a program is compiled: its types are removed, and its form is decided from its syntax tree.

    prepare(code, language=…, form=…) -> Prepared(code, form)

In goes the program's text as its author wrote it; out comes JavaScript of the same shape, every line and column where
it was, and whether it is an async or a sync program. It is no type checker and no syntax checker: what the parser
cannot read goes to the engine unchanged, and the engine says what is wrong. Refused here, as `LoadError` of kind
`exception`, are only texts that are too large, take too long to parse, or hold TypeScript that cannot be erased.

What is a type is decided in `ptc._syntax`, what becomes of the text in `ptc._erase`; this module reads
the text, keeps the time and reports.
"""

import re
from dataclasses import dataclass
from functools import cache
from time import perf_counter
from typing import TYPE_CHECKING, Final, Literal, get_args

from ptc._erase import blank, harmful_breaks, joining
from ptc._syntax import FORM_HANDLERS, TYPE_HANDLERS, Handlers, Refusal, Removal, Survey, after
from ptc.errors import LoadError, UsageError
from ptc.limits import MIB
from ptc.outcome import Failure, Position

if TYPE_CHECKING:
    from tree_sitter import Language as Grammar
    from tree_sitter import Tree

__all__ = ["Form", "FormChoice", "Language", "Prepared", "prepare"]

Language = Literal["javascript", "typescript"]
Form = Literal["sync", "async"]
FormChoice = Literal["auto", "sync", "async"]

PARSE_SECONDS: Final = 2.0
"""For parsing one program. A megabyte of honest TypeScript takes half a second; only nested guesses take more."""

_CHUNK: Final = 64 * 1024
"""Bytes handed to the parser at a time: large enough that asking costs nothing, and no copy of the whole."""

_NODES_PER_GLANCE: Final = 4096
"""Nodes between two looks at the clock, about a millisecond."""

_UNLIKE_ASCII: Final = re.compile(r"[^\x01-\x7f]|\r")
_LINE_BREAK: Final = re.compile(r"\r\n|[\n\r\u2028\u2029]")


@dataclass(frozen=True, slots=True)
class Prepared:
    """A program that is ready to be compiled: plain JavaScript, and its form."""

    code: str
    form: Form


def prepare(
    code: str, *, language: Language = "javascript", form: FormChoice = "auto", max_source_bytes: int = MIB
) -> Prepared:
    """Strip the types of a TypeScript program, and settle the form of any program.

    `code` is a function body. JavaScript is never changed, and is parsed only if the form is `auto` and the text
    mentions `await`. Raises `LoadError` for a program that cannot be taken (its failure has the position where there
    is one), `UsageError` for an unknown language or form. Takes at most `PARSE_SECONDS` of wall time, a little more on
    a busy machine; a text of ordinary size takes milliseconds.
    """
    if language not in get_args(Language):
        raise UsageError(f"language must be 'javascript' or 'typescript', not {language!r}")
    if form not in get_args(FormChoice):
        raise UsageError(f"form must be 'auto', 'sync' or 'async', not {form!r}")
    _check_size(code, max_source_bytes)
    if language == "javascript":
        if form != "auto":
            return Prepared(code, form)
        if "await" not in code:  # a keyword has no other spelling: an escaped one is a syntax error
            return Prepared(code, "sync")
        return Prepared(code, _form(_read(_mask(code), _deadline(), FORM_HANDLERS)))
    return _strip(code, form)


def _strip(code: str, form: FormChoice) -> Prepared:
    """Remove the types of a TypeScript program. See `prepare`."""
    deadline = _deadline()
    mask = _mask(code)
    removals: list[Removal] = []
    refusals: list[Refusal] = []
    while True:
        survey = _read(mask, deadline, TYPE_HANDLERS)
        # The parser does not read every text as TypeScript does. Where a type ends a line and the next one begins with
        # a bracket it reads on; there the type is removed first, leaving a semicolon. Where it takes a comparison for
        # type arguments it is shown another comparison. Then it reads again.
        split = joining(mask, survey.removals) + survey.first
        if not split and not survey.comparisons:
            break
        starts = {removal.start for removal in split}
        split += [removal for removal in survey.removals if after(mask, removal.end) in starts]  # the mark of `x!: T`
        mask = blank(_with(mask, survey.comparisons, ">"), split)
        removals += split
        refusals += [refusal for refusal in survey.refusals if refusal.offset in starts]
    chosen = _form(survey) if form == "auto" else form
    if survey.unreadable:
        return Prepared(code, chosen)
    removals += survey.removals
    stripped = blank(code, removals)
    refusals += survey.refusals + harmful_breaks(code, stripped, survey)
    if refusals:
        raise _refused(code, min(refusals, key=lambda refusal: refusal.offset))
    return Prepared(stripped, chosen)


def _with(text: str, offsets: list[int], character: str) -> str:
    if not offsets:
        return text
    characters = list(text)
    for offset in offsets:
        characters[offset] = character
    return "".join(characters)


def _form(survey: Survey) -> Form:
    return "async" if survey.awaits_itself() else "sync"


def _check_size(code: str, limit: int) -> None:
    size = len(code)
    if not code.isascii() and size <= limit:
        size = len(code.encode("utf-8", "surrogatepass"))
    if size > limit:
        raise _failed(f"the program is too large: {size:,} bytes of at most {limit:,}; split it or make it smaller")


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
    """Parse a masked text and let the handlers note what they see. Raises `LoadError` when the time is over."""
    if perf_counter() > deadline:
        raise _too_slow()
    tree = _parse(mask.encode("ascii"), deadline)
    survey = Survey(mask, unreadable=tree.root_node.has_error)
    cursor = tree.walk()
    seen = 0
    while True:
        node = cursor.node
        seen += 1
        if node is None or (seen % _NODES_PER_GLANCE == 0 and perf_counter() > deadline):
            raise _too_slow()
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
            raise _too_slow() from None
        raise


def _position(code: str, offset: int) -> Position:
    """Line and column of a code point, counted as the engines count them."""
    line, start = 1, 0
    for match in _LINE_BREAK.finditer(code, 0, offset):
        line, start = line + 1, match.end()
    return Position(line, offset - start + 1)


def _failed(message: str, position: Position | None = None) -> LoadError:
    return LoadError(Failure("exception", message, position))


def _refused(code: str, refusal: Refusal) -> LoadError:
    return _failed(f"SyntaxError: {refusal.advice}", _position(code, refusal.offset))


def _too_slow() -> LoadError:
    return _failed(f"the program took more than {PARSE_SECONDS:g} s to parse; it nests too many open brackets or types")
