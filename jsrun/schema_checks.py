"""Is a JSON Schema itself in order? Valid Draft 2020-12, and every reference inside it.

A schema may come from anyone, so the check is bounded like that of a value, and never opens a file or a connection.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

from jsonschema.exceptions import ValidationError
from jsonschema_specifications import REGISTRY
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from jsrun._budget import BUDGET, Budget, OverBound
from jsrun._text import compact_json, cut, quoted
from jsrun._words import kind
from jsrun.keywords import BoundedValidator
from ptc.deep import run_deep
from ptc.wire import Json

DIALECT = "https://json-schema.org/draft/2020-12/schema"
PATH_CHARS = 200
# Told about one schema: enough to see what is wrong, few enough to read.
MOST_PROBLEMS = 3

Path: TypeAlias = tuple[str | int, ...]

_IDENTIFIER = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")
_IN_VALUE = (
    "additionalProperties", "contains", "contentSchema", "else", "if", "items", "not", "propertyNames", "then",
    "unevaluatedItems", "unevaluatedProperties",
)  # fmt: skip
_IN_LIST = ("allOf", "anyOf", "oneOf", "prefixItems")
IN_VALUES = ("$defs", "definitions", "dependentSchemas", "patternProperties", "properties")


@dataclass(frozen=True, slots=True)
class SchemaProblem:
    """Something wrong with a schema itself: where in it, one sentence, and what to do."""

    path: Path
    message: str
    hint: str

    def __str__(self) -> str:
        return f"{self.message} {self.hint}"


def path_text(root: str, path: Path, limit: int = PATH_CHARS) -> str:
    """A way into a value as people write it: `input.items[3]["a b"]`; a long one keeps its end."""
    parts = [root]
    for key in path:
        if isinstance(key, int):
            parts.append(f"[{key}]")
        elif _IDENTIFIER.fullmatch(key):
            parts.append(f".{key}")
        else:
            parts.append(f"[{quoted(key)}]")
    text = "".join(parts)
    return text if len(text) <= limit else f"{root}…{text[-limit:]}"


def check_schema(schema: Mapping[str, Json], root: str = "schema", *, object_root: bool = True) -> list[SchemaProblem]:
    """What is wrong with `schema`, which messages call `root`; empty if nothing.

    `object_root` also demands that the root accepts objects only. Patterns are not compiled here.
    """
    return run_deep(lambda: schema_problems(schema, root, object_root))


def schema_problems(schema: Mapping[str, Json], root: str, object_root: bool) -> list[SchemaProblem]:
    """What `check_schema` does, for code that runs on a deep stack already."""
    with budget(Budget()):
        try:
            return _problems(dict(schema), root, object_root)
        except (OverBound, RecursionError) as error:
            return [SchemaProblem((), f"{quoted(root)} cannot be checked: the check {bound_text(error)}.", _SMALLER)]
        except ValueError:  # from the package that resolves references, for an identifier it cannot take apart
            return [SchemaProblem((), f'{quoted(root)} holds an "$id" that is not a URI.', "Correct or remove it.")]


_SMALLER = "Make the schema smaller and flatter."


def _problems(schema: dict[str, Any], root: str, object_root: bool) -> list[SchemaProblem]:
    problems = list(_against_dialect(schema, (), root))
    if problems:
        return problems
    if object_root and schema.get("type", "object") != "object":
        problems.append(
            SchemaProblem(
                ("type",),
                f'{quoted(root)} must describe an object, its "type" is {compact_json(schema["type"])}.',
                'Write "type": "object", or leave it out.',
            )
        )
    walk = _Walk(schema, root)
    return problems + list(walk.problems())


def _against_dialect(schema: dict[str, Any], path: Path, root: str) -> Iterator[SchemaProblem]:
    # The meta-schema's few patterns are left aside: what they rule out (an anchor with a blank) no reference reaches.
    # It comes in several parts, which may all find the same.
    found: dict[SchemaProblem, None] = {}
    for error in _meta_validator().iter_errors(schema):
        where = path + tuple(error.absolute_path)
        reason, hint = message_of(error), "Write JSON Schema, Draft 2020-12."
        if where and where[-1] == "type" and error.validator == "anyOf":
            reason, hint = f"names no type with {kind(error.instance)}", f"Use one or a list of: {', '.join(_TYPES)}."
        found[SchemaProblem(where, f"{quoted(path_text(root, where))} {reason}.", hint)] = None
        if len(found) == MOST_PROBLEMS:
            break
    yield from found


@cache
def _meta_validator() -> Any:
    """A validator of schemas. With a "$schema" in them the package would evaluate its own files by its own keywords."""
    registry: Registry[Any] = Registry()
    for uri in REGISTRY:
        if uri.startswith(DIALECT.removesuffix("schema")):
            contents = {key: value for key, value in REGISTRY.contents(uri).items() if key != "$schema"}
            registry = registry.with_resource(uri, DRAFT202012.create_resource(contents))
    # Crawled, because the package adds its own copies, and what is known of a resource first is what counts.
    return BoundedValidator(registry.contents(DIALECT), registry=registry.crawl())


class _Walk:
    """Visits every subschema once, also those only a reference reaches, and checks dialect and references."""

    def __init__(self, schema: dict[str, Any], root: str) -> None:
        self._root = root
        resource = DRAFT202012.create_resource(schema)
        # Looked through once: else every reference by name would look through the whole schema again.
        resolver = Registry().with_resource(resource.id() or "", resource).crawl().resolver(resource.id() or "")
        self._todo: list[tuple[Any, Any, Path]] = [(schema, resolver, ())]
        self._seen: set[int] = set()
        self._referenced: list[tuple[Any, Any, Path]] = []

    def problems(self) -> Iterator[SchemaProblem]:
        while self._todo:
            schema, resolver, path = self._todo.pop()
            if isinstance(schema, dict) and id(schema) not in self._seen:
                self._seen.add(id(schema))
                yield from self._visit(schema, resolver, path)
            if not self._todo:
                yield from self._reach()

    def _visit(self, schema: dict[str, Any], resolver: Any, path: Path) -> Iterator[SchemaProblem]:
        BUDGET.get().spend()
        dialect = schema.get("$schema", DIALECT)
        if not isinstance(dialect, str) or dialect.rstrip("#") != DIALECT:
            where = quoted(path_text(self._root, (*path, "$schema")))
            yield SchemaProblem(
                (*path, "$schema"), f"{where} names another dialect.", f'Remove it, or write "{DIALECT}".'
            )
        for keyword in ("$ref", "$dynamicRef"):
            if keyword in schema:
                yield from self._follow(schema[keyword], resolver, (*path, keyword))
        for step, subschema in subschemas(schema):
            if isinstance(subschema, dict):
                inner = resolver.in_subresource(DRAFT202012.create_resource(subschema))
                self._todo.append((subschema, inner, path + step))

    def _follow(self, reference: str, resolver: Any, path: Path) -> Iterator[SchemaProblem]:
        try:
            resolved = resolver.lookup(reference)
            target = resolved.contents
        except Exception:  # what the package raises for odd URIs is not documented; none of them leads anywhere
            target = None
        if isinstance(target, dict):
            self._referenced.append((target, resolved.resolver, path))
        elif not isinstance(target, bool):
            yield SchemaProblem(
                path,
                f"{quoted(path_text(self._root, path))} points to {quoted(reference)}, which is not in the schema.",
                'Point inside the schema, such as "#/$defs/NAME".',
            )

    def _reach(self) -> Iterator[SchemaProblem]:
        """Take up what only references reach: it has not been checked as a schema yet."""
        for target, resolver, path in self._referenced:
            if id(target) not in self._seen:
                found = list(_against_dialect(target, path, self._root))
                yield from found
                if not found:
                    self._todo.append((target, resolver, path))
        self._referenced = []


def subschemas(schema: Mapping[str, Any]) -> Iterator[tuple[Path, Any]]:
    """The schemas directly inside a valid schema, each with the way to it."""
    for keyword in _IN_VALUE:
        if keyword in schema:
            yield (keyword,), schema[keyword]
    for keyword in _IN_LIST:
        for index, subschema in enumerate(schema.get(keyword, ())):
            yield (keyword, index), subschema
    for keyword in IN_VALUES:
        for name, subschema in schema.get(keyword, {}).items():
            yield (keyword, name), subschema


@contextmanager
def budget(limits: Budget) -> Iterator[None]:
    """Let everything inside spend from `limits`."""
    token = BUDGET.set(limits)
    try:
        yield
    finally:
        BUDGET.reset(token)


def message_of(error: ValidationError) -> str:
    """What does not fit, without the place."""
    # Only the schema `false` has no keyword; its message would hold the whole value.
    return "is not allowed" if error.validator is None else cut(error.message)


def bound_text(error: OverBound | RecursionError) -> str:
    """Which bound was met, to complete "the check …"."""
    return str(error) if isinstance(error, OverBound) else "goes too deep"
