"""How the text of a program closes over the types taken out of it.

What is removed becomes spaces, one for each code point, and line breaks stay, so that every line and column is kept.
Three things could then mean something else than the author wrote:

- What stood before a removed statement, or before a type at a line's end, could join what follows: a `;` is left in
  the first place of the removal.
- A line break inside a type could end a statement (`return <⏎T>x`) or be forbidden (between `)` and `=>`): refused.
- A removed prefix could turn an object into a block: refused. (Operators that would get other operands are refused
  where they are seen, in `ptc._syntax`.)
"""

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from ptc._survey import Refusal, Removal, Survey, Text

__all__ = ["blank", "harmful_breaks", "joining"]

_NOT_A_BREAK: Final = re.compile(r"[^\n\r\u2028\u2029]")
_STATEMENT_OPENER: Final = re.compile(r"\{|(?:function|class|async|let)\b")
"""What an expression statement must not begin with, or what means something else there."""


def blank(text: str, removals: Iterable[Removal]) -> str:
    """The text with the removals as spaces, or a semicolon and spaces. They may lie within each other, or overlap."""
    parts = []
    at = 0
    for removal in sorted(removals, key=lambda removal: (removal.start, -removal.end, not removal.semicolon)):
        start = max(removal.start, at)
        if start >= removal.end:
            continue
        hole = _NOT_A_BREAK.sub(" ", text[start : removal.end])
        semicolon = removal.semicolon and start == removal.start
        parts += [text[at:start], ";" + hole[1:] if semicolon else hole]
        at = removal.end
    parts.append(text[at:])
    return "".join(parts)


def joining(survey: Survey) -> list[Removal]:
    """The removals after which the next line would join the text before them, each with its semicolon."""
    found = []
    for removal in survey.removals:
        if not removal.joins:
            continue
        following = survey.after(removal.end)
        opens = following < len(survey.text) and survey.text[following] in removal.joins
        if opens and survey.broken(removal.end, following):
            found.append(replace(removal, semicolon=True))
    return found


def harmful_breaks(code: Text, stripped: Text, survey: Survey) -> list[Refusal]:
    """Where removing types changed what a line break, or a first token, means."""
    found = []
    for end, keyword in survey.restricted:
        was, now = code.after(end), stripped.after(end)
        if code.broken(was, now) and not code.broken(end, was):
            advice = f"without the type here, a line break would follow `{keyword}`; put both on one line"
            found.append(Refusal(was, advice))
    for end, arrow in survey.typed_arrows:
        if stripped.broken(end, arrow):
            advice = "without the type here, a line break would come before `=>`; put the return type on one line"
            found.append(Refusal(code.after(end), advice))
    if survey.prefixes:
        found += _exposed_braces(code, stripped, survey)
    return found


def _exposed_braces(code: Text, stripped: Text, survey: Survey) -> list[Refusal]:
    found = []
    advice = "without its `<type>` this is read as a block or a declaration; write `(… as type)` instead"
    for end in survey.fat_arrows:
        start = code.after(end)
        if start in survey.prefixes and stripped.value.startswith("{", stripped.after(end)):
            found.append(Refusal(start, advice))
    for start in survey.statements:
        if start in survey.prefixes and _STATEMENT_OPENER.match(stripped.value, stripped.after(start)):
            found.append(Refusal(start, advice))
    return found
