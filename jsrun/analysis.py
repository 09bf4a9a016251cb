"""Analysis: a program's source, parsed once, turned into facts.

The parser is `esprima` in module grammar, on a deep stack. Whatever it makes of a text, the answer is facts or a
problem with a place, never an exception.
"""

import hashlib
import re
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterator

import esprima

from jsrun._parser import parse
from jsrun._text import quoted
from jsrun.door_calls import door_calls
from jsrun.entries import find_entry, value_offset
from jsrun.facts import DOORS, Facts, Name, Place, Problem
from jsrun.positions import Lines
from jsrun.scopes import Node, Reference, Walk, global_name, redeclared, targets, walk
from ptc.deep import run_deep

# Programs somebody works on at one time, and all versions of them since lunch.
CACHED = 256
# What the parser is known to get through; deeper nesting may be refused.
NESTING = 200
# Uses of one unbound name that are kept: a name that is misspelt everywhere need not be told everywhere.
MOST_USES = 20
MAX_SAFE_INTEGER = 2**53 - 1

_SEPARATORS = str.maketrans("\u2028\u2029", "  ")
_IGNORE = re.compile(r"//[ \t]*jsrun:[ \t]*ignore[ \t]+([a-z0-9-]+(?:[ \t,]+[a-z0-9-]+)*)")
_FENCE = re.compile(r"\s*(```)")
_TOKEN = re.compile(r"\w+|\S")
_CODE = re.compile(r"[a-z0-9-]+")
_INTEGER = re.compile(r"(?:0[xX][0-9a-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+|[0-9][0-9_]*)")
# No integer of this many digits is safe, and longer ones would be slow to read.
_MANY_DIGITS = 64
_WRITES = frozenset(
    {"AssignmentExpression", "UpdateExpression", "ForInStatement", "ForOfStatement", "ForAwaitStatement"}
)

_cache: OrderedDict[str, Facts] = OrderedDict()
_lock = threading.Lock()


def analyse(source: str) -> Facts:
    """The facts of a program, from the cache if the same source was analysed before."""
    key = hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()
    with _lock:
        known = _cache.get(key)
        if known is not None:
            _cache.move_to_end(key)
            return known
    facts = run_deep(lambda: _parse(source))
    with _lock:
        _cache[key] = facts
        while len(_cache) > CACHED:
            _cache.popitem(last=False)
    return facts


def readable(source: str) -> str:
    """A program as the parser is given it, of the same length."""
    # Line and paragraph separators end lines for the engine in some places only, so here they are blanks.
    text = source.translate(_SEPARATORS)
    if text.startswith("#!"):  # a comment to the engine; the parser would miscount the rest of the line
        text = "//" + text[2:]
    return text


def _parse(source: str) -> Facts:
    text = readable(source)
    lines = Lines(text)
    fence = _FENCE.match(text)
    if fence is not None:  # which would be a text to the parser, and the program all of it
        message = "The program stands between the fences of Markdown."
        return Facts(problem=Problem(lines.position(fence.start(1)), message, "Remove them and keep what is between."))
    try:
        tree = parse(text, comments="jsrun:" in text)
        return _Analysis(tree, text, lines).facts()
    except esprima.Error as error:
        return Facts(problem=_syntax_problem(error, text, lines))
    except RecursionError:
        hint = f"Nest at most {NESTING} levels."
        return Facts(problem=Problem(_deep_place(text, lines), "The program is nested too deeply to be checked.", hint))
    except Exception:  # a fault of the parser, which must not become one of the host
        return Facts(problem=Problem((1, 1), "The checker cannot read the program.", "Write it in a simpler way."))


def _syntax_problem(error: "esprima.Error", text: str, lines: Lines) -> Problem:
    index = error.index if isinstance(error.index, int) else 0
    reason = re.sub(r"^Line \d+: ", "", str(error.message))
    unexpected = re.fullmatch(r"Unexpected token (.+)", reason, re.DOTALL)
    hint = "Correct the syntax here."
    if reason == "Unexpected end of input":
        message, hint = "The program ends too early.", "Close every bracket, text and comment."
    elif reason == "Illegal return statement":
        index = max(text.rfind("return", 0, index), 0)
        message, hint = '"return" stands outside of a function.', "Write function run(input) { … } around it."
    elif text.startswith("await", index) and not text[index + len("await") : index + len("await") + 1].isalnum():
        message, hint = '"await" stands in a function that is not async.', "Write async in front of that function."
    elif unexpected and unexpected[1] not in ("ILLEGAL", "undefined"):
        message = f"Unexpected {quoted(unexpected[1])}."
    else:
        found = _TOKEN.match(text, index)
        near = f" near {quoted(found[0], 20)}" if found else ""
        message = f"{reason.removesuffix(' ILLEGAL').rstrip('.')}{near}."
    return Problem(lines.position(min(index, len(text))), message, hint)


def _deep_place(text: str, lines: Lines) -> Place:
    """About where the nesting gets too deep: a scan that knows brackets only."""
    depth = 0
    for match in re.finditer(r"[\[({]|[\])}]", text):
        depth += 1 if match[0] in "[({" else -1
        if depth > NESTING:
            return lines.position(match.start())
    return (1, 1)


class _Analysis:
    def __init__(self, tree: Node, text: str, lines: Lines) -> None:
        self._tree = tree
        self._text = text
        self._lines = lines
        self._walk: Walk = walk(tree)

    def facts(self) -> Facts:
        if not self._tree.body:
            return Facts(empty=True)
        entry = find_entry(self._tree.body, self._walk, self._text, self._lines)
        value, is_last = value_offset(self._tree.body)
        return Facts(
            awaits=self._walk.awaits,
            entry=entry.entry,
            entry_problems=entry.problems,
            default_export=entry.export,
            value=value,
            ends_with_value=is_last,
            last=self._place(self._tree.body[-1]),
            calls=tuple(door_calls(self._walk, self._lines, None if entry.entry else value)),
            escaped=frozenset(self._escaped()),
            unbound=self._unbound(),
            declared=frozenset(self._declared()),
            overwritten=tuple(self._overwritten()),
            shadowed=tuple(self._shadowed()),
            redeclared=tuple(self._redeclared()),
            module_syntax=tuple(self._module_syntax()),
            dynamic_code=tuple(self._dynamic_code()),
            big_integers=tuple(self._big_integers()),
            regexes=tuple(self._regexes()),
            ignored=self._ignored(),
        )

    def _place(self, node: Node) -> Place:
        return self._lines.position(node.range[0])

    def _name(self, text: str, node: Node) -> Name:
        return Name(text, self._place(node))

    def _escaped(self) -> Iterator[str]:
        for reference in self._walk.references:
            node, above = reference.node, reference.trail
            if node.name in DOORS and reference.scope.lookup(node.name) is None and above is not None:
                called = above[0].type == "CallExpression" and above[0].callee is node
                if not called and not reference.assigned and not _under_typeof(reference):
                    yield node.name

    def _unbound(self) -> tuple[Name, ...]:
        """Names that are declared nowhere, each at most `MOST_USES` times; those under `typeof` only ask."""
        uses: Counter[str] = Counter()
        made = frozenset(self._declared_globals())
        found = []
        for reference in self._walk.references:
            name = reference.node.name
            if name in made or reference.scope.lookup(name) is not None or _under_typeof(reference):
                continue
            if uses[name] == MOST_USES:
                continue
            uses[name] += 1
            found.append(self._name(name, reference.node))
        return tuple(sorted(found, key=lambda use: use.place))

    def _declared(self) -> Iterator[str]:
        yield from (binding.name for binding in self._walk.bindings)
        yield from self._declared_globals()

    def _declared_globals(self) -> Iterator[str]:
        """Names that `globalThis.NAME = …` makes."""
        return (name for name, node in self._global_writes() if node.type == "MemberExpression")

    def _global_writes(self) -> Iterator[tuple[str, Node]]:
        """Globals that are written to, as `NAME = …` or `globalThis.NAME = …`, with the place."""
        for node, scope, _ in self._walk.visited:
            if node.type in _WRITES:
                for target in targets(node):
                    name = global_name(target, scope)
                    if name is not None:
                        yield name, target

    def _overwritten(self) -> Iterator[Name]:
        protected = (*DOORS, "DoorError")
        for binding in self._walk.bindings:
            if binding.scope.top and binding.name in protected:
                yield self._name(binding.name, binding.node)
        for name, node in self._global_writes():
            if name in protected:
                yield self._name(name, node)

    def _shadowed(self) -> Iterator[Name]:
        for binding in self._walk.bindings:
            if not binding.scope.top and binding.name in DOORS:
                yield self._name(binding.name, binding.node)

    def _redeclared(self) -> Iterator[tuple[Name, Place]]:
        for binding, other in redeclared(self._walk.bindings):
            yield self._name(binding.name, binding.node), self._place(other.node)

    def _module_syntax(self) -> Iterator[Name]:
        for node, _, _ in self._walk.visited:
            if node.type == "ImportDeclaration":
                yield self._name("import", node)
            elif node.type in ("ExportNamedDeclaration", "ExportAllDeclaration"):
                yield self._name("export", node)
            elif node.type == "CallExpression" and node.callee.type == "Import":
                yield self._name("import()", node)
            elif node.type == "MetaProperty" and node.property.name == "meta":
                yield self._name("import.meta", node)

    def _dynamic_code(self) -> Iterator[Name]:
        for node, scope, _ in self._walk.visited:
            if node.type in ("CallExpression", "NewExpression"):
                name = global_name(node.callee, scope)
                if name in ("eval", "Function"):
                    yield self._name(name, node)

    def _big_integers(self) -> Iterator[Name]:
        for node, _, _ in self._walk.visited:
            raw = node.raw if node.type == "Literal" else None
            if isinstance(raw, str) and _INTEGER.fullmatch(raw):
                digits = raw.replace("_", "")
                base = 10 if digits.isdigit() else 0
                if len(digits) > _MANY_DIGITS or int(digits, base) > MAX_SAFE_INTEGER:
                    yield self._name(raw, node)

    def _regexes(self) -> Iterator[Name]:
        for node, _, _ in self._walk.visited:
            if node.type == "Literal" and node.regex is not None and node.raw:
                yield self._name(node.raw, node)

    def _ignored(self) -> dict[int, frozenset[str]]:
        ignored: dict[int, frozenset[str]] = {}
        for comment in self._tree.comments or ():
            match = _IGNORE.match(self._text, comment.range[0])
            if match:
                line, _ = self._lines.position(comment.range[0])
                ignored[line] = ignored.get(line, frozenset()) | frozenset(_CODE.findall(match[1]))
        return ignored


def _under_typeof(reference: Reference) -> bool:
    parent = reference.trail[0] if reference.trail is not None else None
    return parent is not None and parent.type == "UnaryExpression" and parent.operator == "typeof"
