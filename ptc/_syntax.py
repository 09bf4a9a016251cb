"""What the nodes of a TypeScript syntax tree mean for us: what goes, what cannot be erased, and what awaits.

Each handler notes one kind of node in a `Survey`. The tree is walked node after node and nothing here recurses, so no
nesting is too deep.
"""

from typing import TYPE_CHECKING, Final

from ptc._generics import GENERIC_HANDLERS
from ptc._survey import Handlers, Removal, Survey

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = ["FORM_HANDLERS", "TYPE_HANDLERS"]

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
    survey.remove(node, semicolon=True, joins="`*")
    return False


def _same_line(survey: Survey, keyword: "Node") -> None:
    """Refuse a word that is a keyword only if what it belongs to stands on its line; else it is a name."""
    if survey.broken(keyword.end_byte, survey.after(keyword.end_byte)):
        word = survey.text[keyword.start_byte : keyword.end_byte]
        survey.refuse(keyword, f"`{word}` must stand on the line of what it belongs to")


def _plain(survey: Survey, node: "Node") -> bool:
    survey.remove(node)
    return False


def _annotation(survey: Survey, node: "Node") -> bool:
    end = _end_of_type(survey, node)
    survey.removals.append(Removal(node.start_byte, end, joins=_AFTER_ANNOTATION))
    return False


def _as(survey: Survey, node: "Node") -> bool:
    for child in node.children:
        if child.type in ("as", "satisfies"):
            end = _end_of_type(survey, node)
            _continues_line(survey, node, child)
            if end < node.end_byte and survey.text.startswith("<", survey.after(end)):
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
            comma = survey.after(node.end_byte)
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
        arrow = survey.after(result.end_byte)
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
    if node.child(node.child_count - 1).type == "arrow_function":
        survey.unreadable = True  # no operator takes one without parentheses: it was a type
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
    **GENERIC_HANDLERS,
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
    "=>": _fat_arrow,
    "return": _restricted,
    "throw": _restricted,
    "yield": _restricted,
    "async": _restricted,
}
"""All that has to do with types, and the form."""
