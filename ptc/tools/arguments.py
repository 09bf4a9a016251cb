"""Whether the arguments of a call fit the schema of its tool, at a cost that is bounded.

The schema is the host's, or comes from a server the host uses; the arguments are a program's or a model's and may be
anything. So patterns are matched in linear time (`ptc.tools.patterns`), a check has a budget and moves to a thread when
it takes longer than a moment, nothing is ever fetched, and no message holds a whole value.
"""

import asyncio
import logging
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any, Final

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from ptc.deep import run_deep, start_deep
from ptc.errors import CallError, NotJson, UsageError
from ptc.tools.keywords import OWN_WORDS, Budget, OverBudgetError, TooDeepError, make_validator, spending
from ptc.tools.model import copy_json
from ptc.tools.patterns import TooLongError, pattern
from ptc.tools.render import short_json
from ptc.wire import Json, path_text

__all__ = ["Arguments", "subschemas"]

# Done at once, on the event loop: a few milliseconds, and far more than ordinary arguments need.
QUICK_EVALUATIONS: Final = 1_000
# Processor time of a check in its thread. The largest value that crosses, a list of a million numbers, needs about as
# long.
MAX_SECONDS: Final = 5.0
# Levels of arrays and objects in a schema. To check it as a schema takes time that grows with their square.
MAX_LEVELS: Final = 512
# Told to the caller: enough to see what is wrong, few enough to read.
MOST_PROBLEMS: Final = 3
_WANTED_CHARS: Final = 200

_log = logging.getLogger("ptc")

# Keywords whose values are data, and those whose values are schemas by name.
_DATA: Final = frozenset({"const", "default", "enum", "examples"})
_NAMED: Final = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})


class Arguments:
    """The check of one tool's arguments, compiled once.

    schema: JSON Schema of an object, read as Draft 2020-12 whatever its `$schema` says. Raises `UsageError` if it is
    not valid, points outside itself, or has a pattern that cannot be matched in bounded time.
    """

    def __init__(self, schema: object) -> None:
        try:
            copied = copy_json(schema, "parameters")
        except NotJson as error:
            raise UsageError(str(error)) from None
        if not isinstance(copied, dict) or copied.get("type", "object") != "object":
            raise UsageError('parameters: the schema of an object is needed, {"type": "object", …}')
        if not _is_flat(copied):
            raise UsageError(f"parameters: nested too deep to be checked, more than {MAX_LEVELS} levels")
        for inner in subschemas(copied):
            inner.pop("$schema", None)  # by it the package would choose other keywords than ours
        run_deep(lambda: _check_schema(copied))
        self._validator = make_validator(copied)

    async def check(self, arguments: Json) -> None:
        """Raise `CallError`, with up to three reasons, unless the arguments fit. They are plain JSON data."""
        try:
            problems = self._problems(arguments, Budget(evaluations=QUICK_EVALUATIONS))
        except OverBudgetError:
            problems = await self._problems_slowly(arguments)
        if problems:
            raise CallError(f"invalid arguments: {'; '.join(problems)}")

    async def _problems_slowly(self, arguments: Json) -> list[str]:
        budget = Budget(seconds=MAX_SECONDS)
        try:
            return await asyncio.wrap_future(start_deep(lambda: self._problems(arguments, budget)))
        except OverBudgetError:
            return [f"checking them takes more than {MAX_SECONDS:g} s; make them smaller"]
        finally:
            budget.stop()  # if we have been cancelled, the thread has no more to do

    def _problems(self, arguments: Json, budget: Budget) -> list[str]:
        if not isinstance(arguments, dict):
            return [f"args: an object is needed, not {short_json(arguments)}"]
        try:
            with spending(budget):
                return [_problem(error) for error in islice(self._validator.iter_errors(arguments), MOST_PROBLEMS)]
        except OverBudgetError:
            raise
        except (TooDeepError, RecursionError):
            return ["args: nested too deep to be checked"]
        except TooLongError:
            return ["args: a text is too long to be searched for a pattern"]
        except Exception:  # the package meets something in the schema that its own check has let pass
            _log.exception("arguments of a tool could not be checked")
            return ["args: could not be checked"]


def _problem(error: ValidationError) -> str:
    path = path_text("args", list(error.absolute_path))
    if error.message in OWN_WORDS:
        return f"{path} {error.message}"
    if error.validator is None:  # the schema `false`
        return f"{path} is not allowed"
    value: Any = error.instance
    wanted: Any = {error.validator: error.validator_value}
    return f"{path}: {short_json(value)} does not fit {short_json(wanted, _WANTED_CHARS)}"


def subschemas(schema: Json) -> Iterator[dict[str, Json]]:
    """Every object in a schema that may be a schema itself. It may be changed before the next is asked for."""
    pending: list[tuple[Json, bool]] = [(schema, False)]
    while pending:
        item, by_name = pending.pop()
        if isinstance(item, list):
            pending.extend((inner, False) for inner in item)
        elif isinstance(item, dict) and by_name:
            pending.extend((inner, False) for inner in item.values())
        elif isinstance(item, dict):
            yield item
            pending.extend((inner, key in _NAMED) for key, inner in item.items() if key not in _DATA)


def _is_flat(schema: Json) -> bool:
    layer: list[Json] = [schema]
    for _ in range(MAX_LEVELS):
        containers = (
            item.values() if isinstance(item, dict) else item for item in layer if isinstance(item, dict | list)
        )
        layer = list(chain.from_iterable(containers))
    return not layer


def _check_schema(schema: dict[str, Json]) -> None:
    # Without a checker of formats, which would take patterns for Python's. (That it may be None is not in the types.)
    check: Any = Draft202012Validator.check_schema
    try:
        check(schema, format_checker=None)
    except SchemaError as error:
        where = path_text("parameters", list(error.absolute_path))
        raise UsageError(f"{where}: not valid JSON Schema, Draft 2020-12: {error.message:.200}") from None
    known = {id(inner): inner for inner in subschemas(schema)}
    keywords = {keyword for inner in known.values() for keyword in inner}
    if {"patternProperties", "unevaluatedProperties"} <= keywords:
        raise UsageError("parameters: patternProperties and unevaluatedProperties cannot be used together")
    for inner in known.values():
        _check_patterns(inner)
    if "$id" not in keywords:  # with names in it, only the validation itself can tell where a reference leads
        resolver = Registry().with_resource("", DRAFT202012.create_resource(schema)).resolver()
        for inner in known.values():
            reference = inner.get("$ref")
            if isinstance(reference, str) and not _leads_to(resolver, reference, known):
                raise UsageError(f"parameters: {short_json(reference)} leads to no schema inside it")


def _check_patterns(schema: dict[str, Json]) -> None:
    by_name = schema.get("patternProperties")
    sources = [*by_name] if isinstance(by_name, dict) else []
    single = schema.get("pattern")
    if isinstance(single, str):
        sources.append(single)
    for source in sources:
        try:
            pattern(source)
        except UsageError as error:
            raise UsageError(f"parameters: {error}") from None


def _leads_to(resolver: Any, reference: str, known: dict[int, dict[str, Json]]) -> bool:
    try:
        target = resolver.lookup(reference).contents
    except Exception:  # what the package raises for odd references is not documented
        return False
    return isinstance(target, bool) or id(target) in known
