"""What in a TypeScript syntax tree is type, what cannot be erased, and what awaits.

A `Survey` gathers notes while a tree is walked once, node after node, by the handlers below; nothing here recurses, so
no nesting is too deep. Offsets are code points of the program: the parser reads a text that has one byte for each.
What the notes lead to is decided in `ptc._erase`.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = ["FORM_HANDLERS", "LINE_BREAK", "TYPE_HANDLERS", "Handlers", "Refusal", "Removal", "Survey", "after"]

LINE_BREAK: Final = re.compile(r"[\n\r\u2028\u2029]")
_TRIVIA: Final = re.compile(r"(?:[\s\ufeff]++|//[^\n\r\u2028\u2029]*+|/\*[\s\S]*?\*/)*+")

_BRACKETS: Final = "([`"
"""A line that begins with one of these goes on with the expression of the line before it."""

_AFTER_ANNOTATION: Final = _BRACKETS + "*<"
"""The same after an annotation, which may also stand before a generator method or a type assertion."""

_TIGHTNESS: Final = {
    **dict.fromkeys(("<", ">", "<=", ">=", "in", "instanceof"), 0),
    **dict.fromkeys(("<<", ">>", ">>>"), 1),
    **dict.fromkeys(("+", "-"), 2),
    **dict.fromkeys(("*", "/", "%"), 3),
    "**": 4,
}
"""How tightly operators bind, from those that bind like `as` does on; the looser ones are not here."""

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

_NESTED_ARGUMENTS: Final = 8
"""Type arguments within type arguments that are looked at when the parser saw none: nobody writes more."""

_PARAMETER_MODIFIERS: Final = frozenset({"accessibility_modifier", "override_modifier", "readonly"})
_MODIFIERS: Final = _PARAMETER_MODIFIERS | {"declare", "abstract"}
_ERASED_DECLARATIONS: Final = frozenset(
    {"interface_declaration", "type_alias_declaration", "ambient_declaration", "function_signature"}
)
_AS_EXPRESSIONS: Final = frozenset({"as_expression", "satisfies_expression"})
_TYPES: Final = (
    "array_type",
    "conditional_type",
    "constructor_type",
    "function_type",
    "generic_type",
    "index_type_query",
    "intersection_type",
    "lookup_type",
    "object_type",
    "parenthesized_type",
    "readonly_type",
    "template_literal_type",
    "tuple_type",
    "type_query",
    "union_type",
)
_SUFFIXED_TYPES: Final = frozenset(
    {"lookup_type", "array_type", "generic_type", "call_expression", "subscript_expression"}
)
_TYPE_SUFFIXES: Final = frozenset({"[", "type_arguments", "arguments"})
_NAMES_LIKE_MODIFIERS: Final = frozenset({"get", "set", "static", "async", "accessor"})


def after(text: str, offset: int) -> int:
    """The next offset from `offset` on that is neither white space nor comment."""
    match = _TRIVIA.match(text, offset)
    return match.end() if match else offset


@dataclass(frozen=True, slots=True)
class Removal:
    """A stretch of text that goes.

    `semicolon`: it leaves a `;` in its first place. `joins`: it must do so too if the next line begins with one of
    these characters.
    """

    start: int
    end: int
    semicolon: bool = False
    joins: str = ""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Something that cannot be erased: where it is, and what to do about it."""

    offset: int
    advice: str


@dataclass(slots=True)
class Survey:
    """The notes of one walk over a tree. `unreadable`: the parser met an error, so the notes are a guess."""

    text: str
    unreadable: bool
    removals: list[Removal] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    functions: list[tuple[int, int]] = field(default_factory=list)
    """Where text is not part of the body itself."""
    awaits: list[int] = field(default_factory=list)
    restricted: list[tuple[int, str]] = field(default_factory=list)
    """End and name of the keywords no line break may follow."""
    fat_arrows: list[int] = field(default_factory=list)
    typed_arrows: list[tuple[int, int]] = field(default_factory=list)
    """End of `)` and start of `=>`, of arrow functions with a return type."""
    prefixes: set[int] = field(default_factory=set)
    """Starts of the `<T>` of type assertions."""
    statements: list[int] = field(default_factory=list)
    """Starts of expression statements."""
    first: list[Removal] = field(default_factory=list)
    """What must be gone before the parser can read on."""
    comparisons: list[int] = field(default_factory=list)
    """Offsets of `<` that open no type argument, though the parser took them for it."""
    less: list[int] = field(default_factory=list)
    """Offsets of the `<` that were read as operators, since the last `>`."""
    after_open_field: set[int] = field(default_factory=set)
    """Starts of class members that follow a field without a semicolon."""

    def awaits_itself(self) -> bool:
        """Whether there is an `await` outside all nested functions."""
        spans = sorted(self.functions)
        starts = [start for start, _ in spans]
        reach = []  # how far the functions up to and including this one go
        furthest = 0
        for _, end in spans:
            furthest = max(furthest, end)
            reach.append(furthest)
        for at in self.awaits:
            before = bisect_right(starts, at)
            if before == 0 or reach[before - 1] <= at:
                return True
        return False

    def remove(self, node: "Node", *, semicolon: bool = False, joins: str = "") -> None:
        self.removals.append(Removal(node.start_byte, node.end_byte, semicolon, joins))

    def refuse(self, node: "Node", advice: str) -> None:
        self.refusals.append(Refusal(node.start_byte, advice))

    def broken(self, start: int, end: int) -> bool:
        return LINE_BREAK.search(self.text, start, end) is not None


Handler = Callable[[Survey, "Node"], bool]
"""Notes what a node means for us. True: its children are to be looked at as well."""


# -- handlers of plain JavaScript: the form of a program ---------------------------------------------------------------


def _function(survey: Survey, node: "Node") -> bool:
    survey.functions.append((node.start_byte, node.end_byte))
    return True


def _method(survey: Survey, node: "Node") -> bool:
    # Its name is not part of it: a computed one is evaluated by the code around the class or object.
    parameters = node.child_by_field_name("parameters")
    if parameters is not None:
        survey.functions.append((parameters.start_byte, node.end_byte))
    return True


def _field(survey: Survey, node: "Node") -> bool:
    value = node.child_by_field_name("value")
    if value is not None:
        survey.functions.append((value.start_byte, value.end_byte))
    return True


def _await(survey: Survey, node: "Node") -> bool:
    survey.awaits.append(node.start_byte)
    return False


# -- handlers of TypeScript: what goes ---------------------------------------------------------------------------------


def _statement(survey: Survey, node: "Node") -> bool:
    survey.remove(node, semicolon=True, joins="`")
    return False


def _declaration(survey: Survey, node: "Node") -> bool:
    _same_line(survey, node.children[0])
    return _statement(survey, node)


def _member(survey: Survey, node: "Node") -> bool:
    for child in node.children:
        if child.type in _MODIFIERS:
            _same_line(survey, child)
    return _statement(survey, node)


def _same_line(survey: Survey, keyword: "Node") -> None:
    """Refuse a word that is a keyword only if what it belongs to stands on its line; else it is a name."""
    if survey.broken(keyword.end_byte, after(survey.text, keyword.end_byte)):
        word = survey.text[keyword.start_byte : keyword.end_byte]
        survey.refuse(keyword, f"`{word}` must stand on the line of what it belongs to")


def _plain(survey: Survey, node: "Node") -> bool:
    survey.remove(node)
    return False


def _type_arguments(survey: Survey, node: "Node") -> bool:
    # The parser takes `a < b && c > (d)` for a call, as if `&&` were `&` twice, and may split `>>` and `>=`.
    text = survey.text[node.start_byte : node.end_byte]
    logic = ("&&" in text or "||" in text) and re.search(r"&&|\|\|", _QUOTED.sub("", text))
    follows = survey.text[node.end_byte : node.end_byte + 1]
    inner = follows == ">" and survey.less and _applies(survey, survey.less[-1], node.end_byte + 1)
    if logic or (follows in (">", "=") and not inner):
        survey.comparisons.append(node.start_byte)
    else:
        survey.remove(node)
    return False


def _instantiation(survey: Survey, node: "Node") -> bool:
    end = node.end_byte
    follows = after(survey.text, end)
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
    if node.child(0).type in _AS_EXPRESSIONS:
        for child in node.children:
            if child.type == "type_arguments":
                survey.refuse(child, "TypeScript reads this `<` as a comparison; end the line before it with `;`")
    return True


def _annotation(survey: Survey, node: "Node") -> bool:
    end = _end_of_type(survey, node)
    survey.removals.append(Removal(node.start_byte, end, joins=_AFTER_ANNOTATION))
    return False


def _as(survey: Survey, node: "Node") -> bool:
    for child in node.children:
        if child.type in ("as", "satisfies"):
            end = _end_of_type(survey, node)
            _continues_line(survey, node, child)
            if end < node.end_byte and survey.text.startswith("<", after(survey.text, end)):
                survey.refuse(child, "a type ends at the end of its line here; put its `<…>` on the same line")
            survey.removals.append(Removal(child.start_byte, end, joins=_BRACKETS))
            break
    return True


def _continues_line(survey: Survey, node: "Node", token: "Node") -> None:
    """Refuse a token after a comment with a line break: for TypeScript it begins another statement."""
    if survey.broken(node.child(0).end_byte, token.start_byte):
        survey.refuse(token, f"`{token.type}` must stand on the line of what it applies to")


def _end_of_type(survey: Survey, node: "Node") -> int:
    """Where a type at the right edge of `node` really ends.

    The parser takes `T⏎[x]` for an element of a type, `T⏎<x>` for a type with an argument, and `typeof f⏎(x)` for a
    call. TypeScript does not: it ends the type at the line break.
    """
    end = node.end_byte
    while node.child_count:
        if node.type in _SUFFIXED_TYPES:
            element = _element_before_break(survey, node)
            if element is None:
                break
            node, end = element, element.end_byte
        else:
            node = node.child(node.child_count - 1)
    return end


def _element_before_break(survey: Survey, node: "Node") -> "Node | None":
    found = None
    while node.type in _SUFFIXED_TYPES:
        element = node.child(0)
        suffix = next((child for child in node.children if child.type in _TYPE_SUFFIXES), element)
        if survey.broken(element.end_byte, suffix.start_byte):
            found = element
        node = element
    return found


def _type(survey: Survey, node: "Node") -> bool:
    return False  # all of it is in the removal that brought us here


def _assertion(survey: Survey, node: "Node") -> bool:
    survey.prefixes.add(node.start_byte)
    return True


def _non_null(survey: Survey, node: "Node") -> bool:
    mark = node.child(node.child_count - 1)
    if mark.type == "!":
        _continues_line(survey, node, mark)
        survey.remove(mark)
    return True


def _declarator(survey: Survey, node: "Node") -> bool:
    _marks(survey, node)
    return True


def _marks(survey: Survey, node: "Node") -> None:
    for child in node.children:
        if child.type in ("?", "!"):
            survey.remove(child)


def _parameter(survey: Survey, node: "Node") -> bool:
    for child in node.children:
        if child.type in _PARAMETER_MODIFIERS:
            survey.refuse(
                child, "a parameter property leaves code behind; declare the field and assign it in the constructor"
            )
        elif child.type == "?":
            survey.remove(child)
        elif child.type == "this":
            survey.remove(node)
            comma = after(survey.text, node.end_byte)
            if survey.text.startswith(",", comma):
                survey.removals.append(Removal(comma, comma + 1))
            return False
    return True


def _class_body(survey: Survey, node: "Node") -> bool:
    field_before = ""
    for child in node.children:
        if child.type == "comment":
            continue
        if field_before:
            survey.after_open_field.add(child.start_byte)
            if field_before == "static" and child.child_count and child.child(0).type in _MODIFIERS:
                survey.refuse(child, "`static` must stand on the line of what it belongs to")
        is_field = child.type == "public_field_definition"
        field_before = survey.text[child.start_byte : child.end_byte] if is_field else ""
    return True


def _modifier(survey: Survey, node: "Node") -> bool:
    # `a = 1⏎public [k] = 2`: without its modifier the second field would be an index into the first one's value.
    _same_line(survey, node)
    survey.remove(node, semicolon=node.start_byte in survey.after_open_field)
    return False


def _typed_field(survey: Survey, node: "Node") -> bool:
    children = node.children
    if any(child.type in ("declare", "abstract") for child in children):
        return _member(survey, node)  # it has no code: the bare field would set the inherited value to undefined
    _field(survey, node)
    _marks(survey, node)
    name = node.child_by_field_name("name")
    last = children[-1]
    if (
        name is not None
        and survey.text[name.start_byte : name.end_byte] in _NAMES_LIKE_MODIFIERS
        and last.type in ("type_annotation", "?", "!")
    ):
        survey.removals.append(Removal(last.start_byte, last.end_byte, semicolon=True))
    return True


def _typed_method(survey: Survey, node: "Node") -> bool:
    _marks(survey, node)
    return _method(survey, node)


def _abstract(survey: Survey, node: "Node") -> bool:
    _same_line(survey, node)
    survey.remove(node)
    return False


def _arrow_function(survey: Survey, node: "Node") -> bool:
    parameters, result = node.child_by_field_name("parameters"), node.child_by_field_name("return_type")
    if parameters is not None and result is not None:
        arrow = after(survey.text, result.end_byte)
        survey.typed_arrows.append((parameters.end_byte, arrow))
    return _function(survey, node)


def _fat_arrow(survey: Survey, node: "Node") -> bool:
    survey.fat_arrows.append(node.end_byte)
    return False


def _restricted(survey: Survey, node: "Node") -> bool:
    survey.restricted.append((node.end_byte, node.type))
    return False


def _expression_statement(survey: Survey, node: "Node") -> bool:
    survey.statements.append(node.start_byte)
    return True


def _binary(survey: Survey, node: "Node") -> bool:
    left, operator = node.child(0), node.child_by_field_name("operator")
    if operator is not None and left.type in _AS_EXPRESSIONS and _changes_hands(left, operator.type):
        survey.refuse(node, f"without the type, `{operator.type}` would bind tighter; put parentheses around `… as …`")
    return True


def _changes_hands(left: "Node", operator: str) -> bool:
    """Whether `operator` would take an operand from what `as` applies to: `a + b as T * c` is the sum, times c."""
    while True:
        inner = left.child_by_field_name("operator")
        if left.type in _AS_EXPRESSIONS:
            left = left.child(0)
        elif left.type == "binary_expression" and inner is not None and inner.type not in _TIGHTNESS:
            left = left.child(left.child_count - 1)  # `as` applies to the right-hand side only
        else:
            break
    if left.type != "binary_expression" or inner is None or operator not in _TIGHTNESS:
        return False
    return _TIGHTNESS[inner.type] < _TIGHTNESS[operator] or inner.type == operator == "**"


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
    follows = after(survey.text, end)
    if survey.text[follows : follows + 1] in ("(", "`"):
        return True
    return survey.broken(end, follows) and not _COMPARES.match(survey.text, follows)


def _import(survey: Survey, node: "Node") -> bool:
    kinds = {child.type for child in node.children}
    if "type" in kinds:
        return _statement(survey, node)
    if "import_require_clause" in kinds:
        return _import_alias(survey, node)
    return True


def _export(survey: Survey, node: "Node") -> bool:
    kinds = {child.type for child in node.children}
    if "type" in kinds or kinds & _ERASED_DECLARATIONS:
        return _statement(survey, node)
    if "=" in kinds:
        survey.refuse(node, "`export =` cannot be erased, and a program has no exports; `return` the value")
    return True


# -- handlers of TypeScript: what leaves code behind -------------------------------------------------------------------


def _import_alias(survey: Survey, node: "Node") -> bool:
    survey.refuse(node, "`import … =` cannot be erased; use `const … =`")
    return True


def _enum(survey: Survey, node: "Node") -> bool:
    survey.refuse(node, "`enum` cannot be erased; use a constant object, as in `const Level = { low: 1 } as const`")
    return False


def _namespace(survey: Survey, node: "Node") -> bool:
    if not node.is_named:
        return False
    survey.refuse(node, "`namespace` cannot be erased; use a constant object, or plain functions")
    return False


Handlers = Mapping[str, Callable[[Survey, "Node"], bool]]
"""From the type of a node to what notes its meaning; a True answer means that its children count as well."""

FORM_HANDLERS: Final[Handlers] = {
    "arrow_function": _function,
    "function_expression": _function,
    "function_declaration": _function,
    "generator_function": _function,
    "generator_function_declaration": _function,
    "class_static_block": _function,
    "method_definition": _method,
    "public_field_definition": _field,
    "await": _await,
}
"""All that the form of a program depends on."""

TYPE_HANDLERS: Final[Handlers] = {
    **FORM_HANDLERS,
    "interface_declaration": _declaration,
    "type_alias_declaration": _declaration,
    "ambient_declaration": _declaration,
    "function_signature": _statement,
    "abstract_method_signature": _member,
    "method_signature": _member,
    "index_signature": _member,
    "type_annotation": _annotation,
    "type_predicate_annotation": _annotation,
    "asserts_annotation": _annotation,
    "as_expression": _as,
    "satisfies_expression": _as,
    **dict.fromkeys(_TYPES, _type),
    "type_assertion": _assertion,
    "type_arguments": _type_arguments,
    "instantiation_expression": _instantiation,
    "call_expression": _call,
    "type_parameters": _plain,
    "implements_clause": _plain,
    "non_null_expression": _non_null,
    "variable_declarator": _declarator,
    "required_parameter": _parameter,
    "optional_parameter": _parameter,
    "class_body": _class_body,
    "accessibility_modifier": _modifier,
    "override_modifier": _modifier,
    "readonly": _modifier,
    "abstract": _abstract,
    "public_field_definition": _typed_field,
    "method_definition": _typed_method,
    "arrow_function": _arrow_function,
    "expression_statement": _expression_statement,
    "binary_expression": _binary,
    "import_statement": _import,
    "export_statement": _export,
    "import_alias": _import_alias,
    "enum_declaration": _enum,
    "internal_module": _namespace,
    "module": _namespace,
    "<": _less,
    ">": _greater,
    ">>": _greater,
    ">>>": _greater,
    "=>": _fat_arrow,
    "return": _restricted,
    "throw": _restricted,
    "yield": _restricted,
    "async": _restricted,
}
"""All that has to do with types, and the form."""
