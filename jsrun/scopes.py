"""Walking a syntax tree with its scopes: which names are declared where, and what every name refers to.

Nodes are those of `esprima`: objects with a `type`, a `range` of two offsets, and attributes that are nodes, lists of
nodes or scalars; an attribute a node does not have is None. The walk keeps its own stack.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

Node: TypeAlias = Any
Trail: TypeAlias = "tuple[Node, Trail] | None"
"""The nodes above a node, nearest first, as a linked list."""

BindingKind: TypeAlias = Literal["var", "let", "const", "function", "class", "parameter", "catch", "import"]

_FUNCTIONS = frozenset({"FunctionDeclaration", "FunctionExpression", "ArrowFunctionExpression"})
_CLASSES = frozenset({"ClassDeclaration", "ClassExpression"})
_BLOCKS = frozenset(
    {"BlockStatement", "ForStatement", "ForInStatement", "ForOfStatement", "ForAwaitStatement", "SwitchStatement"}
)
_IMPORTED = frozenset({"ImportSpecifier", "ImportDefaultSpecifier", "ImportNamespaceSpecifier"})
# Attributes that hold names of something else than a variable.
_NOT_REFERENCES = {
    "LabeledStatement": ("label",),
    "BreakStatement": ("label",),
    "ContinueStatement": ("label",),
    "MetaProperty": ("meta", "property"),
    "ExportSpecifier": ("exported",),
    "ExportAllDeclaration": ("exported",),
}


@dataclass(slots=True, eq=False)
class Binding:
    """A declared name. `value` is the function or class, or what a `const`, `let` or `var` starts with, if known.

    `within` is the scope it is written in; that of a `var` may be deeper than the scope it belongs to.
    """

    name: str
    kind: BindingKind
    node: Node
    scope: "Scope"
    value: Node = None
    within: "Scope | None" = None

    @property
    def lexical(self) -> bool:
        """Whether its scope may hold no other declaration of the name. So it is for functions in blocks, and for those
        outside of every function, because a program runs as a block."""
        if self.kind == "function":
            return not self.scope.function or self.scope.top
        return self.kind in ("let", "const", "class", "import")


@dataclass(slots=True, eq=False)
class Scope:
    """A region of names. `function` scopes hold `var`s; `asynchronous` code outside functions is at top level."""

    parent: "Scope | None"
    function: bool
    bindings: dict[str, Binding] = field(default_factory=dict)
    top: bool = False

    def lookup(self, name: str) -> Binding | None:
        """What the name refers to here; None if it is not declared."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.bindings:
                return scope.bindings[name]
            scope = scope.parent
        return None

    def holder(self) -> "Scope":
        """The scope in which a `var` declared here ends up."""
        scope = self
        while not scope.function and scope.parent is not None:
            scope = scope.parent
        return scope


@dataclass(slots=True)
class Reference:
    """A use of a variable's name. `assigned`: it is written to. `trail`: the nodes above."""

    node: Node
    scope: Scope
    trail: Trail
    assigned: bool = False


@dataclass(slots=True)
class Walk:
    """What one walk over a program found. `visited` are all nodes of interest with their surroundings."""

    module: Scope
    bindings: list[Binding] = field(default_factory=list)
    references: list[Reference] = field(default_factory=list)
    visited: list[tuple[Node, Scope, Trail]] = field(default_factory=list)
    awaits: bool = False


# Node types a caller wants to see again, with scope and trail.
_OF_INTEREST = frozenset(
    {
        "CallExpression", "NewExpression", "Literal", "MetaProperty", "ImportDeclaration", "ExportNamedDeclaration",
        "ExportAllDeclaration", "AssignmentExpression", "UpdateExpression", "ForInStatement", "ForOfStatement",
        "ForAwaitStatement",
    }
)  # fmt: skip


def walk(program: Node) -> Walk:
    """Walk a whole program."""
    module = Scope(None, True, top=True)
    return _Walker(Walk(module)).run(program)


class _Walker:
    def __init__(self, result: Walk) -> None:
        self._result = result
        # Nodes still to be visited, the next one last: node, scope, trail, and whether it stands outside functions.
        self._todo: list[tuple[Node, Scope, Trail, bool]] = []

    def run(self, program: Node) -> Walk:
        self._push(program.body, self._result.module, (program, None), True)
        while self._todo:
            node, scope, trail, top = self._todo.pop()
            if node.type in _OF_INTEREST:
                self._result.visited.append((node, scope, trail))
            self._visit(node, scope, trail, top)
        return self._result

    def _push(self, nodes: Any, scope: Scope, trail: Trail, top: bool) -> None:
        if isinstance(nodes, list):
            self._todo += [(node, scope, trail, top) for node in reversed(nodes) if _is_node(node)]
        elif _is_node(nodes):
            self._todo.append((nodes, scope, trail, top))

    def _visit(self, node: Node, scope: Scope, trail: Trail, top: bool) -> None:
        kind = node.type
        below: Trail = (node, trail)
        if kind == "Identifier":
            self._result.references.append(Reference(node, scope, trail))
        elif kind in _FUNCTIONS:
            self._function(node, scope, below)
        elif kind in _CLASSES:
            self._class(node, scope, below, top)
        elif kind == "VariableDeclaration":
            self._declaration(node, scope, below, top)
        elif kind in _IMPORTED:
            self._bind(node.local, "import", scope)
        elif kind == "CatchClause":
            inner = Scope(scope, False)
            self._pattern(node.param, "catch", inner, below, top)
            self._push(node.body, inner, below, top)
        elif kind in ("AssignmentExpression", "UpdateExpression"):
            self._target(node.left if kind == "AssignmentExpression" else node.argument, scope, below, top)
            self._push(node.right, scope, below, top)
        elif kind in ("MethodDefinition", "FieldDefinition", "Property"):
            self._member(node, scope, below, top)
        elif kind == "StaticBlock":
            # As in functions, the block is the scope.
            self._push(node.body.body, Scope(scope, True), below, False)
        else:
            self._other(node, scope, below, top)

    def _other(self, node: Node, scope: Scope, below: Trail, top: bool) -> None:
        kind = node.type
        if top and kind in ("AwaitExpression", "ForAwaitStatement"):
            self._result.awaits = True
        inner = Scope(scope, False) if kind in _BLOCKS else scope
        skipped = _NOT_REFERENCES.get(kind, ())
        if kind == "MemberExpression" and not node.computed:
            skipped = ("property",)
        elif kind == "ExportSpecifier" and below is not None and below[1] is not None and below[1][0].source:
            skipped = ("exported", "local")
        left = node.left if kind in ("ForInStatement", "ForOfStatement", "ForAwaitStatement") else None
        for name, value in reversed(list(node.items())):
            if name == "left" and left is not None and left.type != "VariableDeclaration":
                self._target(left, inner, below, top)
            elif name not in skipped:
                self._push(value, inner, below, top)

    def _function(self, node: Node, scope: Scope, below: Trail) -> None:
        outer = scope
        if node.id is not None:
            if node.type == "FunctionDeclaration":
                self._bind(node.id, "function", scope, node)
            else:
                outer = Scope(scope, False)
                self._bind(node.id, "function", outer, node)
        inner = Scope(outer, True)
        if node.type != "ArrowFunctionExpression":
            inner.bindings["arguments"] = Binding("arguments", "var", node, inner)
        # The body's own block would only be a second scope for the same names.
        body = node.body.body if node.body.type == "BlockStatement" else node.body
        self._push(body, inner, below, False)
        for parameter in reversed(node.params):
            self._pattern(parameter, "parameter", inner, below, False)

    def _class(self, node: Node, scope: Scope, below: Trail, top: bool) -> None:
        inner = scope
        if node.id is not None:
            if node.type == "ClassDeclaration":
                self._bind(node.id, "class", scope, node)
            else:
                inner = Scope(scope, False)
                self._bind(node.id, "class", inner, node)
        self._push(node.body, inner, below, top)
        self._push(node.superClass, inner, below, top)

    def _member(self, node: Node, scope: Scope, below: Trail, top: bool) -> None:
        # A field's value is evaluated in a function of its own.
        self._push(node.value, scope, below, top and node.type != "FieldDefinition")
        if node.computed:
            self._push(node.key, scope, below, top)

    def _declaration(self, node: Node, scope: Scope, below: Trail, top: bool) -> None:
        # `using` binds like `const`.
        kind: BindingKind = node.kind if node.kind in ("var", "let") else "const"
        holder = scope.holder() if kind == "var" else scope
        for declarator in reversed(node.declarations):
            inside: Trail = (declarator, below)
            self._push(declarator.init, scope, inside, top)
            if declarator.id.type == "Identifier":
                self._bind(declarator.id, kind, holder, declarator.init, scope)
            else:
                self._pattern(declarator.id, kind, holder, inside, top, scope)

    def _pattern(
        self,
        pattern: Node,
        kind: BindingKind,
        holder: Scope,
        trail: Trail,
        top: bool,
        scope: Scope | None = None,
    ) -> None:
        """Bind the names of a pattern in `holder`; what is computed in it is looked up in `scope`."""
        for leaf, is_target in _leaves(pattern):
            if is_target and leaf.type == "Identifier":
                self._bind(leaf, kind, holder, None, scope)
            else:
                self._push(leaf, scope or holder, trail, top)

    def _target(self, pattern: Node, scope: Scope, trail: Trail, top: bool) -> None:
        """What an assignment writes to."""
        for leaf, is_target in _leaves(pattern):
            if is_target and leaf.type == "Identifier":
                self._result.references.append(Reference(leaf, scope, trail, assigned=True))
            else:
                self._push(leaf, scope, trail, top)

    def _bind(
        self, identifier: Node, kind: BindingKind, scope: Scope, value: Node = None, within: Scope | None = None
    ) -> None:
        binding = Binding(identifier.name, kind, identifier, scope, value, within or scope)
        self._result.bindings.append(binding)
        # Of two declarations of one name, which only `var`s and functions may have, a function is what it holds.
        if identifier.name not in scope.bindings or kind == "function":
            scope.bindings[identifier.name] = binding


def _leaves(pattern: Node) -> Iterator[tuple[Node, bool]]:
    """The parts of a pattern: targets (True), and expressions that are evaluated on the way (False)."""
    todo = [pattern]
    while todo:
        node = todo.pop()
        if not _is_node(node):
            continue
        if node.type in ("ObjectPattern", "ObjectExpression"):
            todo += reversed(node.properties)
        elif node.type in ("ArrayPattern", "ArrayExpression"):
            todo += reversed(node.elements)
        elif node.type == "Property":
            if node.computed:
                yield node.key, False
            todo.append(node.value)
        elif node.type in ("RestElement", "SpreadElement"):
            todo.append(node.argument)
        elif node.type == "AssignmentPattern":
            yield node.right, False
            todo.append(node.left)
        else:
            yield node, True


def targets(node: Node) -> Iterator[Node]:
    """What an assignment, an update or the head of a loop writes to."""
    if node.type == "AssignmentExpression":
        pattern = node.left
    elif node.type == "UpdateExpression":
        pattern = node.argument
    else:
        pattern = None if node.left.type == "VariableDeclaration" else node.left
    yield from (leaf for leaf, is_target in _leaves(pattern) if is_target)


def global_name(node: Node, scope: Scope) -> str | None:
    """The global that an expression names, as `NAME` or `globalThis.NAME`; None if it is anything else."""
    if node.type == "Identifier":
        return str(node.name) if scope.lookup(node.name) is None else None
    if node.type != "MemberExpression" or node.object.type != "Identifier" or node.object.name != "globalThis":
        return None
    if scope.lookup("globalThis") is not None:
        return None
    if not node.computed:
        return str(node.property.name) if node.property.type == "Identifier" else None
    return node.property.value if isinstance(node.property.value, str) else None


def _is_node(value: object) -> bool:
    return isinstance(getattr(value, "type", None), str)


def redeclared(bindings: list[Binding]) -> Iterator[tuple[Binding, Binding]]:
    """Declarations of a name that another one, given too, stands in the way of."""
    seen: dict[tuple[int, str], list[Binding]] = {}
    for binding in sorted(bindings, key=lambda binding: int(binding.node.range[0])):
        scope = binding.within or binding.scope
        scopes = [scope]
        while scope is not binding.scope and scope.parent is not None:
            scope = scope.parent
            scopes.append(scope)
        known = [other for scope in scopes for other in seen.get((id(scope), binding.name), ())]
        caught = binding.scope.parent.bindings.get(binding.name) if binding.scope.parent is not None else None
        if caught is not None and caught.kind == "catch" and binding.lexical:
            known.append(caught)
        other = next((other for other in known if other.lexical or binding.lexical), None)
        if other is not None:
            yield binding, other
        for scope in scopes:
            seen.setdefault((id(scope), binding.name), []).append(binding)
