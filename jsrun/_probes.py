"""Probes: where a program is to be watched, and the text that does it.

A walk over the syntax tree finds what can run or not run: statements, functions and branches. Each gets a counter, and
text is put into the program, within its lines, that tells the host of each counter the first time it is reached:

- in front of statements and at the beginning of functions, cases, loops and handlers, `$hit(7);`
- around what is evaluated only sometimes, such as defaults, `($hit(7),value)`
- around conditions, `$hit_if(7,(condition))`, which tells 7 if it holds and 8 if it does not

What the program computes stays the same, names of anonymous functions included; only their source text differs.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from jsrun._parser import parse
from jsrun.analysis import readable
from jsrun.positions import Lines
from jsrun.program import CAPTURE, Edit
from jsrun.scopes import Node
from ptc.deep import run_deep

BranchKind: TypeAlias = Literal["if", "?:", "&&", "||", "??", "=", "&&=", "||=", "??=", "loop", "switch", "catch"]

# The names in the program. They are made longer until the program does not contain them.
_HIT: Final = "$hit"
_PROBE: Final = "jsrun_probe"
TELL: Final = "tell"
"""The function of the host: it takes the number of a counter."""

_FUNCTIONS: Final = ("FunctionDeclaration", "FunctionExpression", "ArrowFunctionExpression")
_LOOPS: Final = ("ForStatement", "ForInStatement", "ForOfStatement", "ForAwaitStatement", "WhileStatement")
# Statements that do nothing of their own when it is their turn.
_NOT_COUNTED: Final = ("FunctionDeclaration", "EmptyStatement", "BlockStatement")
_ASSIGNED: Final = ("&&=", "||=", "??=")


@dataclass(frozen=True, slots=True)
class Arm:
    """One way a branch may go: its counter, its name, and what it means, in words, that no run goes that way."""

    counter: int
    name: str
    missed: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Branch:
    """A place where a program may go on in several ways."""

    kind: BranchKind
    line: int
    column: int
    arms: tuple[Arm, ...]


@dataclass(frozen=True, slots=True)
class Function:
    """A function and the counter of its calls; `name` is "" if it has none."""

    name: str
    line: int
    column: int
    counter: int


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that is watched in one program. `lines`: line to the counters of the statements that begin there."""

    edits: tuple[Edit, ...]
    counters: int
    lines: Mapping[int, tuple[int, ...]]
    functions: tuple[Function, ...]
    branches: tuple[Branch, ...]
    namespace: str
    """The global under which the program expects the host's function `TELL`."""


def plan(source: str, value: int | None) -> Plan:
    """The plan for a program that can be read. `value`: where the value of the script begins, None if it has none."""
    return run_deep(lambda: _Planner(source, value).plan())


class _Planner:
    def __init__(self, source: str, value: int | None) -> None:
        self._text = readable(source)
        self._hit = _free(_HIT, source)
        self._namespace = _free(_PROBE, source)
        self._value = value
        self._positions = Lines(self._text)
        # With the order among edits at one offset: what closes comes before what opens, the innermost first.
        self._edits: list[tuple[tuple[int, int, int], Edit]] = []
        self._counters = 0
        self._lines: dict[int, list[int]] = {}
        self._functions: list[Function] = []
        self._branches: list[Branch] = []
        self._names: dict[int, str] = {}

    def plan(self) -> Plan:
        tree = parse(self._text)
        self._open(0, self._prologue())
        self._statements(tree.body)
        todo: list[Node] = list(reversed(tree.body))
        while todo:
            node = todo.pop()
            self._capture(node)
            self._visit(node)
            todo += reversed(list(_children(node)))
        edits = tuple(edit for _, edit in sorted(self._edits, key=lambda entry: entry[0]))
        lines = {line: tuple(counters) for line, counters in sorted(self._lines.items())}
        functions = tuple(sorted(self._functions, key=lambda found: (found.line, found.column)))
        branches = tuple(sorted(self._branches, key=lambda found: (found.line, found.column)))
        return Plan(edits, self._counters, lines, functions, branches, self._namespace)

    def _prologue(self) -> str:
        """The functions, in one line. They look up nothing that the program can replace."""
        hit = self._hit
        return (
            f"const {hit}=((tell,told)=>(n)=>{{if(told[n]===undefined)try{{tell(n);told[n]=true}}catch{{}}}})"
            f"({self._namespace}.{TELL},{{__proto__:null}}),"
            f"{hit}_if=(n,value)=>({hit}(value?n:n+1),value),"
            f"{hit}_no=(n,value)=>({hit}(value===null||value===undefined?n:n+1),value);"
        )

    # --- text ---

    def _open(self, offset: int, text: str) -> None:
        self._edits.append(((offset, 1, len(self._edits)), Edit(offset, offset, text)))

    def _close(self, offset: int, text: str) -> None:
        self._edits.append(((offset, 0, -len(self._edits)), Edit(offset, offset, text)))

    def _around(self, node: Node, before: str, after: str) -> None:
        self._open(node.range[0], before)
        self._close(node.range[1], after)

    def _counter(self, count: int = 1) -> int:
        first = self._counters
        self._counters += count
        return first

    def _place(self, node: Node) -> tuple[int, int]:
        return self._positions.position(node.range[0])

    # --- what is counted ---

    def _capture(self, node: Node) -> None:
        """The script's value is captured in front of its expression, behind the counter of its statement."""
        start: int = node.range[0]
        if start == self._value and not node.type.endswith("Statement") and node.type != "SequenceExpression":
            self._open(start, CAPTURE)
            self._value = None

    def _statement(self, node: Node) -> int:
        """A counter for a statement, or an expression that is as good as one, and for its line."""
        counter = self._counter()
        self._lines.setdefault(self._place(node)[0], []).append(counter)
        return counter

    def _statements(self, nodes: list[Node]) -> None:
        for node in nodes:
            exports_function = node.type == "ExportDefaultDeclaration" and node.declaration.type in _NOT_COUNTED
            if node.type not in _NOT_COUNTED and not exports_function and not isinstance(node.directive, str):
                self._open(node.range[0], f"{self._hit}({self._statement(node)});")

    def _body(self, node: Node) -> int:
        """A counter at the beginning of a body, a block or one statement, which then becomes a block."""
        if node.type == "BlockStatement":
            counter = self._counter()
            self._open(node.range[0] + 1, f"{self._hit}({counter});")
            return counter
        counter = self._statement(node) if node.type != "EmptyStatement" else self._counter()
        self._open(node.range[0], f"{{{self._hit}({counter});")
        # A statement without a semicolon at the end of the file reaches as far, over any comment.
        self._close(node.range[1], "}" if node.range[1] < len(self._text) else "\n}")
        return counter

    def _value_of(self, node: Node, name: str | None = None) -> int:
        """A counter for an expression. `name`: what an anonymous function would be called in its place."""
        counter = self._counter()
        if name is not None and node.type in (*_FUNCTIONS, "ClassExpression") and node.id is None:
            key = f"[{json.dumps(name)}]"
            self._around(node, f"({self._hit}({counter}),{{{key}:", f"}}{key})")
        else:
            self._around(node, f"({self._hit}({counter}),", ")")
        return counter

    def _branch(self, kind: BranchKind, node: Node, *arms: tuple[int, str, str]) -> None:
        place = self._place(node)
        self._branches.append(Branch(kind, *place, tuple(Arm(*arm, *place) for arm in arms)))

    def _condition(self, kind: BranchKind, node: Node, test: Node) -> None:
        first = self._counter(2)
        self._around(test, f"{self._hit}{'_no' if kind == '??' else '_if'}({first},(", "))")
        holds, holds_not = (
            (first, "true", "the condition never holds"),
            (first + 1, "false", "the condition always holds"),
        )
        if kind in ("&&", "||", "??"):
            on, off = (first + 1, first) if kind == "||" else (first, first + 1)
            right = f"the right side of {kind} is"
            holds, holds_not = (on, "right", f"{right} never evaluated"), (off, "left", f"{right} always evaluated")
        self._branch(kind, node, holds, holds_not)

    # --- nodes ---

    def _visit(self, node: Node) -> None:
        kind = node.type
        if kind in _FUNCTIONS:
            self._function(node)
        elif kind == "BlockStatement":
            self._statements(node.body)
        elif kind == "IfStatement":
            self._if(node)
        elif kind == "ConditionalExpression":
            self._condition("?:", node, node.test)
        elif kind == "LogicalExpression":
            self._condition(node.operator, node, node.left)
        elif kind in _LOOPS:
            self._branch("loop", node, (self._body(node.body), "body", "the body of the loop never runs"))
        elif kind == "DoWhileStatement":
            self._loose(node.body)
        elif kind == "SwitchStatement":
            self._switch(node)
        elif kind == "CatchClause":
            self._branch("catch", node, (self._body(node.body), "catch", "nothing is ever caught"))
        elif kind == "AssignmentPattern":
            name = node.left.name if node.left.type == "Identifier" else None
            self._branch("=", node, (self._value_of(node.right, name), "default", "the default is never used"))
        elif kind == "AssignmentExpression" and node.operator in _ASSIGNED:
            name = node.left.name if node.left.type == "Identifier" else None
            missed = f"the right side of {node.operator} is never evaluated"
            self._branch(node.operator, node, (self._value_of(node.right, name), "right", missed))
        else:
            self._keep_name(node)

    def _loose(self, node: Node) -> None:
        """The counters of a body that is always run, if it is no block."""
        if node.type != "BlockStatement":
            self._body(node)

    def _if(self, node: Node) -> None:
        # Of `else if`, the statement is counted in its condition, so that long chains do not become deep ones.
        self._condition("if", node, node.test)
        self._loose(node.consequent)
        if node.alternate is not None:
            if node.alternate.type == "IfStatement":
                self._open(node.alternate.test.range[0], f"{self._hit}({self._statement(node.alternate)}),")
            else:
                self._loose(node.alternate)

    def _switch(self, node: Node) -> None:
        arms = []
        for case in node.cases:
            counter = self._counter()
            self._open(case.consequent[0].range[0] if case.consequent else case.range[1], f"{self._hit}({counter});")
            name = "default" if case.test is None else "case"
            arms.append(Arm(counter, name, f"this {name} is never chosen", *self._place(case)))
            self._statements(case.consequent)
        if arms:
            self._branches.append(Branch("switch", *self._place(node), tuple(arms)))

    def _function(self, node: Node) -> None:
        if node.body.type == "BlockStatement":
            counter = self._body(node.body)
        else:
            counter = self._value_of(node.body)
            self._lines.setdefault(self._place(node.body)[0], []).append(counter)
        name = node.id.name if node.id is not None else self._names.get(id(node), "")
        self._functions.append(Function(name, *self._place(node), counter))

    def _keep_name(self, node: Node) -> None:
        """Note what a function that stands here is called."""
        key, value = {
            "VariableDeclarator": (node.id, node.init),
            "AssignmentExpression": (node.left, node.right),
            "Property": (node.key, node.value),
            "MethodDefinition": (node.key, node.value),
            "FieldDefinition": (node.key, node.value),
        }.get(node.type, (None, None))
        if key is None or value is None or value.type not in _FUNCTIONS:
            return
        name = {"Identifier": key.name, "PrivateIdentifier": key.name, "Literal": key.value}.get(key.type)
        if key.type == "MemberExpression" and not key.computed:
            name = key.property.name
        if name is not None and not node.computed:
            self._names[id(value)] = str(name)


def _children(node: Node) -> Iterator[Node]:
    """The nodes within a node, in the order in which they stand in the text."""
    found: list[Any] = []
    for value in node.items():
        found += value[1] if isinstance(value[1], list) else [value[1]]
    nodes = {id(child): child for child in found if isinstance(getattr(child, "range", None), list)}
    yield from sorted(nodes.values(), key=lambda child: (child.range[0], -child.range[1]))


def _free(name: str, source: str) -> str:
    while name in source:
        name += "_"
    return name
