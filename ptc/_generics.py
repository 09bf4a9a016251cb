"""Which `<` opens type arguments. The parser guesses, and TypeScript has rules; where they differ, the rules count.

TypeScript takes `a<b>` for type arguments if what is between could be types and what follows is `(`, a template string,
or something no operand begins with; else both signs are comparisons. The parser finds type arguments nearly always. It
also finds them in `a < b && c > (d)`, misses them before template strings and, in some places, after another `<`.
"""

import re
from typing import TYPE_CHECKING, Final

from ptc._survey import Handlers, Removal, Survey

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = ["GENERIC_HANDLERS", "SPACED_COMPARISON", "STAND_IN"]

_COMPARES: Final = re.compile(r"\+(?!\+)|-(?!-)|<(?![<=])|>(?![>=])")
"""What makes the `>` before it a comparison, whatever stands between it and the `<`."""

_BEGINS: Final = re.compile(r"\[|!(?!=)|\+\+|--")
"""What begins an operand, so that the `>` before it on the same line is a comparison too."""

_QUOTED: Final = re.compile(r"""'(?:[^'\\]|\\.)*+'|"(?:[^"\\]|\\.)*+"|`(?:[^`\\]|\\.)*+`|//.*+|/\*[\s\S]*?\*/""")
_OPERAND: Final = (
    r"(?:(?:keyof|typeof|readonly)\s++)?+(?:[\w$]++(?:\.[\w$]++)*+|'[^'\n]*+'|\"[^\"\n]*+\")(?:\[[^\[\]\n]*+\])*+"
)
_OPERANDS: Final = rf"\s*+{_OPERAND}(?:\s*+[,|&]\s*+{_OPERAND})*+\s*+"
_INNER_ARGUMENTS: Final = re.compile(f"<{_OPERANDS}>")
_TYPE_LIST: Final = re.compile(_OPERANDS)
"""Type arguments that could be read as values too."""

SPACED_COMPARISON: Final = re.compile(rf"(?<=[ \t])<(?=[ \t])(?!{_OPERANDS}>\s*+[(`])")
"""A `<` between spaces, which nobody writes before type arguments. (`f < T > (x)` is a call all the same.)"""

STAND_IN: Final = "^"
"""What the parser is shown for such a `<`: an operator that can be nothing else, and binds no tighter."""

_NESTED_ARGUMENTS: Final = 8
"""Type arguments within type arguments that are looked at when the parser saw none: nobody writes more."""


def _type_arguments(survey: Survey, node: "Node") -> bool:
    # The parser takes `a < b && c > (d)` for a call, as if `&&` were `&` twice, and may split `>>` and `>=`.
    text = survey.text[node.start_byte : node.end_byte]
    logic = ("&&" in text or "||" in text) and re.search(r"&&|\|\|", _QUOTED.sub("", text))
    follows = survey.text[node.end_byte : node.end_byte + 1]
    inner = follows == ">" and survey.less and _applies(survey, survey.less[-1], node.end_byte + 1)
    open_end = node.child(node.child_count - 1).is_missing  # `a < { b: 1 }.b`
    if logic or open_end or (follows in (">", "=") and not inner):
        survey.comparisons.append(node.start_byte)
    else:
        survey.remove(node)
    return False


def _instantiation(survey: Survey, node: "Node") -> bool:
    end = node.end_byte
    follows = survey.after(end)
    arguments = [child for child in node.children if child.type == "type_arguments"]
    if survey.text.startswith("`", follows):
        survey.first += [Removal(child.start_byte, child.end_byte) for child in arguments]
        return False
    begins = _BEGINS.match(survey.text, follows) and not survey.broken(end, follows)
    if begins or _COMPARES.match(survey.text, follows):
        survey.comparisons += [child.start_byte for child in arguments]
        return False
    return True


def _call(survey: Survey, node: "Node") -> bool:
    if node.child(0).type in ("as_expression", "satisfies_expression"):
        for child in node.children:
            if child.type == "type_arguments":
                survey.refuse(child, "TypeScript reads this `<` as a comparison; end the line before it with `;`")
    return True


def _less(survey: Survey, node: "Node") -> bool:
    survey.less.append(node.start_byte)
    return False


def _greater(survey: Survey, node: "Node") -> bool:
    """What the parser took for a comparison, or for a shift: at times it closes type arguments for TypeScript."""
    depth, end = node.end_byte - node.start_byte, node.end_byte
    opening = survey.less[-depth] if len(survey.less) >= depth else None
    survey.less.clear()
    if opening is not None and _applies(survey, opening, end):
        survey.removals.append(Removal(opening, end))
    elif survey.text.startswith("`", end):
        # Nobody shifts by a template string, and who compares with one leaves a space before it.
        survey.refuse(
            node, "the type argument of a tagged template must be a name; give the type a name, or leave it out"
        )
    return False


def _applies(survey: Survey, opening: int, end: int) -> bool:
    """Whether TypeScript takes the text from `<` to `>` for type arguments, by what it is and by what follows."""
    text = survey.text[opening + 1 : end - 1]
    for _ in range(_NESTED_ARGUMENTS):
        text, found = _INNER_ARGUMENTS.subn("", text)
        if not found:
            break
    if not _TYPE_LIST.fullmatch(text):
        return False
    follows = survey.after(end)
    if survey.text[follows : follows + 1] in ("(", "`"):
        return True
    return survey.broken(end, follows) and not _COMPARES.match(survey.text, follows)


GENERIC_HANDLERS: Final[Handlers] = {
    "type_arguments": _type_arguments,
    "instantiation_expression": _instantiation,
    "call_expression": _call,
    "<": _less,
    ">": _greater,
    ">>": _greater,
    ">>>": _greater,
}
"""All that has to do with `<` and `>`."""
