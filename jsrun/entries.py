"""The entry of a program, and the expression whose value a program without one answers with."""

import re
from dataclasses import dataclass
from typing import Literal

from jsrun.facts import DefaultExport, Entry, Problem
from jsrun.positions import Lines
from jsrun.scopes import Binding, Node, Walk, global_name

ENTRY = "run"

_HINT = "Write function run(input) { … }."
_BLANKS = re.compile(r"(?:\s|//[^\n\r]*|/\*.*?\*/)*", re.DOTALL)
_FUNCTIONS = ("FunctionDeclaration", "FunctionExpression", "ArrowFunctionExpression")
_CLASSES = ("ClassDeclaration", "ClassExpression")


@dataclass(frozen=True, slots=True)
class FoundEntry:
    """The entry, if there is one, what is wrong with it, and how it is exported."""

    entry: Entry | None = None
    problems: tuple[Problem, ...] = ()
    export: DefaultExport | None = None


def find_entry(body: list[Node], walk: Walk, text: str, lines: Lines) -> FoundEntry:
    """Look for a default export, then for a top-level `run`, then for `globalThis.run = …`."""
    exports = [node for node in body if node.type == "ExportDefaultDeclaration"]
    run = walk.module.bindings.get(ENTRY)
    if exports:
        found = _exported(exports[0], run, walk, text, lines)
        extra = [
            _problem(node, "There is a second default export.", "Keep one of them.", lines) for node in exports[1:]
        ]
        return FoundEntry(found.entry, (*found.problems, *extra), found.export)
    if run is not None:
        return _held(run, lines)
    for node, scope, _ in walk.visited:
        assigned = node.left if node.type == "AssignmentExpression" else None
        if assigned is not None and assigned.type == "MemberExpression" and global_name(assigned, scope) == ENTRY:
            return FoundEntry(Entry(ENTRY, lines.position(node.range[0]), "opaque"))
    return FoundEntry()


def _exported(export: Node, run: Binding | None, walk: Walk, text: str, lines: Lines) -> FoundEntry:
    declaration = export.declaration
    default = _after_blanks(text, export.range[0] + len("export"))
    start = _after_blanks(text, default + len("default"))
    name = ENTRY
    rewrite: Literal["blank", "function", "variable"] = "variable"
    if declaration.type == "FunctionDeclaration":
        rewrite = "function" if declaration.id is None else "blank"
        name = ENTRY if declaration.id is None else declaration.id.name
    elif declaration.type == "ClassDeclaration":
        rewrite = "blank"
    elif declaration.type == "Identifier" and not text.startswith("(", start):
        # In brackets it could become the arguments of the line before.
        rewrite, name = "blank", declaration.name
    spot = DefaultExport(export.range[0], default, start, rewrite)
    problems: list[Problem] = []
    if (run is not None and name == ENTRY and rewrite != "blank") or (run is not None and name != ENTRY):
        problems.append(_problem(export, 'There is a default export beside "run".', "Keep one of them.", lines))
    if declaration.type == "Identifier":
        held = walk.module.bindings.get(declaration.name)
        found = FoundEntry() if held is None else _held(held, lines)
        form = found.entry.form if found.entry is not None else "opaque"
        problems += found.problems
    elif declaration.type in _FUNCTIONS:
        problems += _wrong_kind(declaration, declaration, lines)
        form = _form(declaration)
    elif declaration.type in _CLASSES:
        problems += _wrong_kind(declaration, declaration, lines)
        form = "opaque"
    elif declaration.type == "CallExpression":
        form = "opaque"
    else:
        message = "The default export is neither a function, nor a name, nor a call."
        problems.append(_problem(declaration, message, "Write export default function (input) { … }.", lines))
        form = "opaque"
    return FoundEntry(Entry(name, lines.position(declaration.range[0]), form), tuple(problems), spot)


def _held(binding: Binding, lines: Lines) -> FoundEntry:
    """The entry that a top-level name holds."""
    value = binding.value
    place = lines.position(binding.node.range[0])
    if value is None or value.type not in (*_FUNCTIONS, *_CLASSES):
        return FoundEntry(Entry(binding.name, place, "opaque"))
    problems = tuple(_wrong_kind(value, binding.node, lines))
    form: Literal["sync", "async", "opaque"] = "opaque" if value.type in _CLASSES else _form(value)
    return FoundEntry(Entry(binding.name, place, form), problems)


def _form(function: Node) -> Literal["sync", "async", "opaque"]:
    return "async" if function.isAsync else "sync"


def _wrong_kind(value: Node, at: Node, lines: Lines) -> list[Problem]:
    if value.type in _CLASSES:
        return [_problem(at, "The entry is a class.", _HINT, lines)]
    if value.generator:
        return [_problem(at, "The entry is a generator.", _HINT, lines)]
    return []


def _problem(node: Node, message: str, hint: str, lines: Lines) -> Problem:
    return Problem(lines.position(node.range[0]), message, hint)


def _after_blanks(text: str, offset: int) -> int:
    match = _BLANKS.match(text, offset)
    return match.end() if match else offset


def value_offset(body: list[Node]) -> tuple[int | None, bool]:
    """Where the value of the last top-level expression statement begins, and whether it is the last statement.

    What stands there can take an assignment in front of it: of expressions joined by commas, it is the last.
    """
    statements = [node for node in body if node.type != "EmptyStatement"]
    for number, node in enumerate(reversed(statements)):
        if node.type == "ExpressionStatement":
            expression = node.expression
            while expression.type == "SequenceExpression":
                expression = expression.expressions[-1]
            return expression.range[0], number == 0
    return None, False
