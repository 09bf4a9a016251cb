"""Before a program is compiled: its types are removed, and its form is decided from its syntax tree.

    prepare(code, language=…, form=…) -> Prepared(code, form)

In goes the program's text as its author wrote it; out comes JavaScript of the same shape, every line and column where
it was, and whether it is an async or a sync program. It is no type checker and no syntax checker: what the parser
cannot read goes to the engine unchanged, and the engine says what is wrong. Refused here, as `LoadError` of kind
`exception`, are only texts that are too large, take too long to parse, or hold TypeScript that cannot be erased.

What is a type is decided in `ptc._syntax`, what becomes of the text in `ptc._erase`.
"""

import re
from dataclasses import dataclass
from typing import Final, Literal, get_args

from ptc._strip import Form, FormChoice, Refused, form_of, strip
from ptc._strip_process import StripProcess
from ptc.errors import LoadError, UsageError
from ptc.limits import MIB
from ptc.outcome import Failure, Position

__all__ = ["Form", "FormChoice", "Language", "Prepared", "is_quick", "prepare"]

Language = Literal["javascript", "typescript"]

_READ_HERE: Final = 8 * 1024
"""Characters of a program that is read in this process. Up to here every single step of the parser is short and takes
some 100 MB at most, whatever the program holds; both grow with the square of the size."""

_LINE_BREAK: Final = re.compile(r"\r\n|[\n\r\u2028\u2029]")

_helper: Final = StripProcess()


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
    is one), `UsageError` for an unknown language or form. It blocks for milliseconds, for a hostile text up to 2 s.
    """
    if language not in get_args(Language):
        raise UsageError(f"language: 'javascript' or 'typescript' is needed, not {language!r}")
    if form not in get_args(FormChoice):
        raise UsageError(f"form: 'auto', 'sync' or 'async' is needed, not {form!r}")
    _check_size(code, max_source_bytes)
    try:
        if language == "typescript":
            return Prepared(*(strip if _is_small(code) else _helper.strip)(code, form))
        if form != "auto":
            return Prepared(code, form)
        if "await" not in code:  # a keyword has no other spelling: an escaped one is a syntax error
            return Prepared(code, "sync")
        return Prepared(code, (form_of if _is_small(code) else _helper.form_of)(code))
    except Refused as refused:
        position = None if refused.offset is None else _position(code, refused.offset)
        raise LoadError(Failure("exception", refused.advice, position)) from None


def is_quick(code: str, *, language: Language = "javascript", form: FormChoice = "auto") -> bool:
    """Whether `prepare` answers an honest program at once, so that an event loop need not hand it to a thread."""
    return _is_small(code) or (language == "javascript" and (form != "auto" or "await" not in code))


def _is_small(code: str) -> bool:
    return len(code) <= _READ_HERE


def _check_size(code: str, limit: int) -> None:
    size = len(code)
    if not code.isascii() and size <= limit:
        size = len(code.encode("utf-8", "surrogatepass"))
    if size > limit:
        message = f"the program is too large: {size:,} bytes of at most {limit:,}; split it or make it smaller"
        raise LoadError(Failure("exception", message))


def _position(code: str, offset: int) -> Position:
    """Line and column of a code point, counted as the engines count them."""
    line, start = 1, 0
    for match in _LINE_BREAK.finditer(code, 0, offset):
        line, start = line + 1, match.end()
    return Position(line, offset - start + 1)
