"""The door calls of a program: which door, with what name, and what becomes of the answer."""

from collections.abc import Iterator

from jsrun.facts import DOORS, DoorCall, Name, Use
from jsrun.positions import Lines
from jsrun.scopes import Binding, Node, Scope, Trail, Walk, global_name

# Texts that one argument may have, and constants it may lead through, before it counts as not known.
MOST_NAMES = 100
MOST_STEPS = 100

# Where the options object stands among the arguments.
_OPTIONS_AT = {"ai": 2, "ask": 1}

_TESTING = ("IfStatement", "ConditionalExpression", "WhileStatement", "DoWhileStatement", "ForStatement")

_Texts = dict[tuple[str, int], None]


def door_calls(walk: Walk, lines: Lines, value: int | None) -> Iterator[DoorCall]:
    """The calls of unshadowed doors. One that makes the value of the script, at offset `value`, is used by that."""
    known = _Known()
    for node, scope, trail in walk.visited:
        if node.type != "CallExpression":
            continue
        door = global_name(node.callee, scope)
        if door not in DOORS:
            continue
        use, read = _use(node, trail, value)
        texts = known.first_argument(node, scope) if door in ("ai", "tool") else None
        names = None if texts is None else tuple(Name(text, lines.position(offset)) for text, offset in texts)
        place = lines.position(node.range[0])
        yield DoorCall(door, place, names, use, read, tuple(_options(node, door, scope, lines)))


def _use(node: Node, trail: Trail, value: int | None) -> tuple[Use, str]:
    while trail is not None and trail[0].type == "ChainExpression":
        node, trail = trail
    parent = trail[0] if trail is not None else None
    if parent is None:
        return "value", ""
    if parent.type == "ExpressionStatement":
        return ("value" if node.range[0] == value else "statement"), ""
    if parent.type == "UnaryExpression":
        return ("void" if parent.operator == "void" else "value" if parent.operator == "typeof" else "operand"), ""
    if parent.type == "MemberExpression" and parent.object is node:
        return "property", "" if parent.computed else str(parent.property.name)
    target = {"VariableDeclarator": parent.id, "AssignmentExpression": parent.left}.get(parent.type)
    if target is not None and target.type in ("ObjectPattern", "ArrayPattern"):
        return "property", _first_key(target)
    return ("operand" if _is_operand(node, parent) else "value"), ""


def _first_key(pattern: Node) -> str:
    """The first property that a pattern takes out of a value; "" if it is no plain name."""
    first = pattern.properties[0] if pattern.type == "ObjectPattern" and pattern.properties else None
    return str(first.key.name) if first is not None and first.type == "Property" and not first.computed else ""


def _is_operand(node: Node, parent: Node) -> bool:
    """Whether the answer is computed with, in a way in which no promise makes sense."""
    kind = parent.type
    return (
        kind in ("BinaryExpression", "TemplateLiteral", "SpreadElement")
        or (kind in _TESTING and parent.test is node)
        or (kind == "ForOfStatement" and parent.right is node)
        or (kind == "SwitchStatement" and parent.discriminant is node)
    )


def _options(node: Node, door: str, scope: Scope, lines: Lines) -> Iterator[Name]:
    at = _OPTIONS_AT.get(door)
    arguments = node.arguments
    if at is None or len(arguments) <= at or any(item.type == "SpreadElement" for item in arguments[:at]):
        return
    given = arguments[at]
    binding = scope.lookup(given.name) if given.type == "Identifier" else None
    written = given if binding is None or binding.kind != "const" else binding.value
    if written is not None and written.type == "ObjectExpression":
        for entry in written.properties:
            if entry.type == "Property" and not entry.computed:
                key = entry.key.name if entry.key.type == "Identifier" else entry.key.value
                yield Name(str(key), lines.position((entry.key if written is given else given).range[0]))


class _Known:
    """The texts an expression may have, with the offsets of the literals; each constant is looked at once."""

    def __init__(self) -> None:
        self._bindings: dict[int, _Texts | None] = {}

    def first_argument(self, call: Node, scope: Scope) -> _Texts | None:
        if not call.arguments:
            return {("", call.range[0]): None}
        return self._texts(call.arguments[0], scope, 0)

    def _texts(self, node: Node, scope: Scope, steps: int) -> _Texts | None:
        if steps > MOST_STEPS:
            return None
        if node.type == "Literal" and isinstance(node.value, str) and node.raw[:1] in ('"', "'"):
            return {(node.value, node.range[0]): None}
        if node.type == "TemplateLiteral" and not node.expressions:
            text = node.quasis[0].value.cooked
            return {(text, node.range[0]): None} if isinstance(text, str) else None
        if node.type == "Identifier":
            return self._constant(scope.lookup(node.name), steps)
        if node.type == "ConditionalExpression":
            return self._either(node.consequent, node.alternate, scope, steps)
        if node.type == "LogicalExpression" and node.operator in ("??", "||"):
            return self._either(node.left, node.right, scope, steps)
        return None

    def _constant(self, binding: Binding | None, steps: int) -> _Texts | None:
        if binding is None or binding.kind != "const" or binding.value is None:
            return None
        key = id(binding)
        if key not in self._bindings:
            self._bindings[key] = None  # a constant that leads to itself is not known
            self._bindings[key] = self._texts(binding.value, binding.scope, steps + 1)
        return self._bindings[key]

    def _either(self, one: Node, two: Node, scope: Scope, steps: int) -> _Texts | None:
        left, right = self._texts(one, scope, steps + 1), self._texts(two, scope, steps + 1)
        if left is None or right is None or len(left | right) > MOST_NAMES:
            return None
        return left | right
