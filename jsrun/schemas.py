"""JSON Schemas at work: defaults for an input, and whether an input, output, answer or tool argument fits.

Schemas and values may come from anyone, so every check is bounded (`_budget`), patterns are JavaScript and run in an
engine process (`RegexTester`), and all of it runs in a thread of its own. `schema_checks` looks at the schemas first.
"""

import asyncio
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Protocol, TypeAlias

from referencing import Registry
from referencing.jsonschema import DRAFT202012

from jsrun._budget import MAX_SECONDS, Budget, OverBound
from jsrun._text import quoted
from jsrun._words import in_order, kind, names_text
from jsrun.keywords import BoundedValidator
from jsrun.schema_checks import (
    IN_VALUES,
    Path,
    SchemaProblem,
    bound_text,
    budget,
    message_of,
    path_text,
    schema_problems,
    subschemas,
)
from ptc.deep import run_deep, start_deep
from ptc.wire import Json

# Mismatches told besides missing names: enough to see what is wrong, few enough to read.
MOST_MISMATCHES = 3
# The same of those told by JSON pointers.
MOST_POINTERS = 5
# Mismatches looked at for missing names.
MOST_ERRORS = 1_000
# New patterns can only turn up behind conditions on others; real schemas need two rounds.
MOST_ROUNDS = 8
# What is sent to the engine for patterns, in characters, so that a value cannot grow by being matched many times.
MOST_PATTERN_CHARS = 8 * 1024 * 1024

Pairs: TypeAlias = list[tuple[str, str]]

_NEVER: dict[str, Any] = {"not": {}}
# Keywords whose values are data, not schemas.
_DATA = frozenset({"const", "default", "enum", "examples"})


class RegexOverBound(Exception):
    """Raised by a RegexTester whose engine did not answer within its second; the text completes "the check …"."""


class RegexTester(Protocol):
    """Matches JavaScript regular expressions, safely."""

    async def test(self, pairs: Pairs) -> list[bool | None]:
        """For each (pattern, text): is the pattern found in the text? None for what is no regular expression.

        Raises RegexOverBound.
        """
        ...


class Schema:
    """A schema that `check_schema` found nothing wrong with, ready to be applied any number of times."""

    def __init__(self, schema: Mapping[str, Json]) -> None:
        self.raw = schema
        self._validator = run_deep(lambda: BoundedValidator(_prepared(schema), registry=Registry()))

    @classmethod
    async def load(
        cls, schema: Mapping[str, Json], root: str = "schema", *, object_root: bool = False
    ) -> "Schema | list[SchemaProblem]":
        """Check a schema that came at run time and make it ready, or tell what is wrong with it."""
        problems = await asyncio.wrap_future(start_deep(lambda: schema_problems(schema, root, object_root)))
        return problems or cls(schema)

    def with_defaults(self, value: Json) -> Json:
        """A copy of `value` in which absent properties have their `default`; `value` itself stays as it is.

        Defaults are applied through `properties` of objects that are there, nowhere else.
        """
        return _with_defaults(self._validator.schema, value)

    async def problems(
        self, value: Json, root: str, tester: RegexTester | None = None, *, object_root: bool = True
    ) -> tuple[str, ...]:
        """Why `value`, called `root` in messages, does not fit: sentences, the one about missing names first.

        Empty if it fits. Without a tester, patterns are left aside. `object_root`: only an object can fit.
        """
        return await self._problems(_Check, value, root, tester, object_root)

    async def mismatches(self, value: Json, tester: RegexTester | None = None) -> tuple[str, ...]:
        """Why `value` does not fit, as JSON pointers (RFC 6901) with reasons, five at most. Empty if it fits."""
        return await self._problems(_PointerCheck, value, "arguments", tester, True)

    async def _problems(
        self, kind_of_check: "type[_Check]", value: Json, root: str, tester: RegexTester | None, object_root: bool
    ) -> tuple[str, ...]:
        known: dict[tuple[str, str], bool | None] = {}
        seconds = MAX_SECONDS
        for _ in range(MOST_ROUNDS):
            check = kind_of_check(self._validator, value, root, None if tester is None else known, seconds, object_root)
            problems = await asyncio.wrap_future(start_deep(check.run))
            if tester is None or not check.unknown:
                return problems
            seconds = check.seconds_left
            try:
                known |= await _ask(tester, list(check.unknown))
            except RegexOverBound as error:
                return (f"{root}: the check of its patterns {error}.",)
        return (f"{root}: the check takes too many rounds of patterns.",)

    def problems_now(self, value: Json, root: str, *, object_root: bool = True) -> tuple[str, ...]:
        """Like `problems`, for code that cannot wait: patterns are left aside."""
        return run_deep(_Check(self._validator, value, root, None, MAX_SECONDS, object_root).run)


async def _ask(tester: RegexTester, pairs: Pairs) -> dict[tuple[str, str], bool | None]:
    if sum(len(pattern) + len(text) for pattern, text in pairs) > MOST_PATTERN_CHARS:
        raise RegexOverBound(f"needs more than {MOST_PATTERN_CHARS:,} characters")
    return dict(zip(pairs, await tester.test(pairs), strict=True))


class _Check:
    """One pass over one value. `known` holds the patterns asked so far; what it lacks ends up in `unknown`."""

    def __init__(
        self,
        validator: Any,
        value: Json,
        root: str,
        known: Mapping[tuple[str, str], bool | None] | None,
        seconds: float,
        object_root: bool,
    ) -> None:
        self._validator = validator
        self._value = value
        self._root = root
        self._known = known
        self._seconds = seconds
        self._object_root = object_root
        self._broken: dict[str, None] = {}
        self.unknown: dict[tuple[str, str], None] = {}
        self.seconds_left = seconds

    def run(self) -> tuple[str, ...]:
        if self._object_root and not isinstance(self._value, dict):
            return (f"{self._root}: must be an object, got {kind(self._value)}.",)
        limits = Budget(None if self._known is None else self._match, self._seconds)
        with budget(limits):
            try:
                problems = self._problems()
            except (OverBound, RecursionError) as error:
                self.unknown = {}
                return (f"{self._root}: the check {bound_text(error)}.",)
            finally:
                self.seconds_left = limits.seconds_left()
        if self._broken and not self.unknown:
            pattern = next(iter(self._broken))
            return (f"{self._root}: the schema's pattern {quoted(pattern)} is not a regular expression.",)
        return problems

    def _match(self, pattern: str, text: str) -> bool:
        pair = (pattern, text)
        if self._known is not None and pair in self._known:
            found = self._known[pair]
            if found is None:
                self._broken[pattern] = None
            return bool(found)
        self.unknown[pair] = None
        return True

    def _problems(self) -> tuple[str, ...]:
        missing: list[str] = []
        others: list[str] = []
        for number, error in enumerate(self._validator.iter_errors(self._value)):
            if number == MOST_ERRORS:
                break
            path = tuple(error.absolute_path)
            if error.validator == "required" and not path:
                missing += error.validator_value
            elif len(others) < MOST_MISMATCHES:
                others.append(f"{path_text(self._root, path)}: {message_of(error)}.")
        if missing:
            ordered = in_order(list(dict.fromkeys(missing)), self._validator.schema)
            return (f"The {self._root} misses {names_text(ordered)}.", *others)
        return tuple(others)


class _PointerCheck(_Check):
    """The same pass, told by JSON pointers."""

    def _problems(self) -> tuple[str, ...]:
        errors = islice(self._validator.iter_errors(self._value), MOST_POINTERS)
        return tuple(f"{_pointer(tuple(error.absolute_path))}: {message_of(error)}" for error in errors)


def _pointer(path: Path) -> str:
    return "".join("/" + str(key).replace("~", "~0").replace("/", "~1") for key in path) or "(root)"


def _prepared(schema: Any) -> Any:
    """A copy of a schema for the package to evaluate.

    Without "$schema", by which it would choose another, unbounded, set of keywords; and with `{"not": {}}` for `false`,
    at which it would lose the place, except where our own keywords look for it.
    """
    if isinstance(schema, list):
        return [_NEVER if item is False else _prepared(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    copy: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _DATA:
            copy[key] = value
        elif not (key == "$schema" and isinstance(value, str)):
            copy[key] = _prepared_map(value) if key in IN_VALUES else _prepared(value)
    return copy


def _prepared_map(schemas: Any) -> Any:
    if not isinstance(schemas, Mapping):
        return schemas
    return {name: _NEVER if schema is False else _prepared(schema) for name, schema in schemas.items()}


def _with_defaults(schema: Any, value: Json) -> Json:
    if not isinstance(schema, Mapping) or not isinstance(value, dict):
        return value
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return value
    filled = dict(value)
    for name, subschema in properties.items():
        if name not in filled and isinstance(subschema, Mapping) and "default" in subschema:
            filled[name] = copy_json(subschema["default"])
        if name in filled:
            filled[name] = _with_defaults(subschema, filled[name])
    return filled


def copy_json(value: Json) -> Json:
    """A copy of a JSON value that shares no list and no object with it."""
    if isinstance(value, list):
        return [copy_json(item) for item in value]
    if isinstance(value, dict):
        return {key: copy_json(item) for key, item in value.items()}
    return value


def default_problems(schema: Mapping[str, Json], root: str) -> list[SchemaProblem]:
    """The `default`s in a valid schema that break the schema they stand in; patterns are left aside."""

    def work() -> list[SchemaProblem]:
        return list(_default_problems(schema, root))

    return run_deep(work)


def _default_problems(schema: Mapping[str, Any], root: str) -> Iterator[SchemaProblem]:
    validator: Any = BoundedValidator(_prepared(schema), registry=Registry())
    todo: list[tuple[Any, Any, Path]] = [(validator.schema, validator, ())]
    seconds = MAX_SECONDS
    while todo:
        subschema, inner, path = todo.pop()
        if "default" in subschema:
            check = _Check(inner, subschema["default"], "default", None, seconds, False)
            problems = check.run()
            seconds = check.seconds_left
            if problems:
                where = (*path, "default")
                message = f"{quoted(path_text(root, where))} does not fit its own schema: {problems[0]}"
                yield SchemaProblem(where, message, "Correct the default or the schema.")
        for step, child in subschemas(subschema):
            if isinstance(child, dict):
                resolver = inner._resolver.in_subresource(DRAFT202012.create_resource(child))
                todo.append((child, inner.evolve(schema=child, _resolver=resolver), path + step))
