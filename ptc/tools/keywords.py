"""The keywords of JSON Schema, Draft 2020-12, as tool arguments are checked by them: within a budget.

They replace those of `jsonschema` that would print whole values, use Python's `re`, or compare each item with each.
What is left of that package's own keywords only walks. A validator made here works inside `spending(budget)`.
"""

import contextvars
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from itertools import chain, islice
from typing import Any, Final, TypeAlias

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend
from referencing import Registry

from ptc.tools.patterns import pattern
from ptc.tools.render import json_text
from ptc.wire import Json

__all__ = ["OWN_WORDS", "Budget", "OverBudgetError", "TooDeepError", "Validator", "make_validator", "spending"]

# A validator of a package without precise types, and the value of a keyword.
Validator: TypeAlias = Any
_Wanted: TypeAlias = Any
_Errors: TypeAlias = Iterator[ValidationError]
_Keyword: TypeAlias = Callable[[Validator, _Wanted, Json, Mapping[str, Any]], _Errors]

# Keywords inside one another, in a check with a stack of its own (`ptc.deep`). A schema that refers to itself in place
# would go on for ever, and extension code that `jsonschema` needs panics at Python's own limit.
MAX_DEPTH: Final = 3_000
# The same in a check on the caller's stack, of which Python gives a thousand frames to everything.
QUICK_DEPTH: Final = 30

# The clock is read once in so many evaluations, since reading it costs as much as one.
_GLANCE: Final = 64
# Automaton steps that take as long as one evaluation.
_STEPS: Final = 2_000

_MISSING, _UNKNOWN, _RULED_OUT = "is missing", "is not a known property", "is not allowed"
_UNFITTING = "does not fit"
OWN_WORDS: Final = frozenset({_MISSING, _UNKNOWN, _RULED_OUT})
"""Messages that say all there is to say after the path; for every other error keyword and value must be shown."""


def make_validator(schema: dict[str, Json]) -> Validator:
    """A validator of a schema that is valid and has no `$schema`. It fetches nothing."""
    return _VALIDATOR(schema, registry=Registry())


class OverBudgetError(Exception):
    """A check takes more than it may."""


class TooDeepError(Exception):
    """A check goes deeper than it may."""


class Budget:
    """What one check may use: so many evaluations on its caller's stack, or seconds of processor time of its thread."""

    def __init__(self, *, evaluations: int | None = None, seconds: float | None = None) -> None:
        self._evaluations = evaluations
        self._seconds = seconds
        self._until = 0.0
        self._spent = 0
        self._depth = 0
        self._next_glance = 0
        self._stopped = False

    def stop(self) -> None:
        """Let the check end at its next glance at the clock."""
        self._stopped = True

    def enter(self) -> None:
        """Book one evaluation, inside which others may be; `leave` is called at its end.

        Raises OverBudgetError and TooDeepError.
        """
        self.spend()
        if self._depth == QUICK_DEPTH and self._evaluations is not None:
            raise OverBudgetError
        if self._depth == MAX_DEPTH:
            raise TooDeepError
        self._depth += 1

    def leave(self) -> None:
        """An evaluation has ended, in whatever way."""
        self._depth -= 1

    def spend(self, count: int = 1) -> None:
        """Book evaluations. Raises OverBudgetError."""
        self._spent += count
        if self._evaluations is not None and self._spent > self._evaluations:
            raise OverBudgetError
        if self._seconds is not None and self._spent >= self._next_glance:
            now = time.thread_time()
            self._until = self._until or now + self._seconds
            self._next_glance = self._spent + _GLANCE
            if self._stopped or now > self._until:
                raise OverBudgetError


_BUDGET: contextvars.ContextVar[Budget] = contextvars.ContextVar("ptc-arguments-budget")


@contextmanager
def spending(budget: Budget) -> Iterator[None]:
    """Let everything inside spend from `budget`."""
    token = _BUDGET.set(budget)
    try:
        yield
    finally:
        _BUDGET.reset(token)


# --- comparing values ---


def _same(one: Json, two: Json) -> bool:
    """Equal as JSON: `1` and `1.0` are, `1` and `true` are not."""
    pairs = [(one, two)]
    while pairs:
        left, right = pairs.pop()
        if isinstance(left, dict) and isinstance(right, dict) and left.keys() == right.keys():
            pairs += [(item, right[key]) for key, item in left.items()]
            _BUDGET.get().spend(len(left))
        elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
            pairs += zip(left, right, strict=True)
            _BUDGET.get().spend(len(left))
        elif isinstance(left, (bool, dict, list)) or isinstance(right, (bool, dict, list)):
            if left is not right:
                return False
        elif left != right:
            return False
    return True


def _all_different(items: list[Json]) -> bool:
    return len({json_text(_sorted(item)) for item in items}) == len(items)


def _sorted(value: Json) -> Json:
    """The value with the members of every object in the order of their names, so that equal values have equal text."""
    _BUDGET.get().spend()
    if isinstance(value, list):
        return [_sorted(item) for item in value]
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return value


def _is_type(value: Json, name: str) -> bool:
    if name == "integer":
        return type(value) is int or (type(value) is float and value.is_integer())
    return type(value) in _TYPES[name]


_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    "array": (list,),
    "boolean": (bool,),
    "null": (type(None),),
    "number": (int, float),
    "object": (dict,),
    "string": (str,),
}


def _is_multiple(value: float, factor: float) -> bool:
    # Of the decimal numbers people wrote: 0.3 is a multiple of 0.1.
    exact = [Fraction(number) if isinstance(number, int) else Fraction(repr(number)) for number in (value, factor)]
    return exact[0] % exact[1] == 0


def _matches(text: str, source: str) -> bool:
    found = pattern(source)
    _BUDGET.get().spend(found.work(text) // _STEPS)
    return found.is_in(text)


# --- keywords ---

_ANY: Final = (bool, int, float, str, list, dict, type(None))
_NUMBER: Final = (int, float)

# Which values a keyword is about, and whether one fits. Values are plain JSON data, never of a subclass.
_CHECKS: Final[Mapping[str, tuple[tuple[type, ...], Callable[[Any, Any], bool]]]] = {
    "const": (_ANY, _same),
    "enum": (_ANY, lambda value, members: any(_same(value, member) for member in members)),
    "exclusiveMaximum": (_NUMBER, lambda value, bound: value < bound),
    "exclusiveMinimum": (_NUMBER, lambda value, bound: value > bound),
    "maxItems": ((list,), lambda value, bound: len(value) <= bound),
    "maxLength": ((str,), lambda value, bound: len(value) <= bound),
    "maxProperties": ((dict,), lambda value, bound: len(value) <= bound),
    "maximum": (_NUMBER, lambda value, bound: value <= bound),
    "minItems": ((list,), lambda value, bound: len(value) >= bound),
    "minLength": ((str,), lambda value, bound: len(value) >= bound),
    "minProperties": ((dict,), lambda value, bound: len(value) >= bound),
    "minimum": (_NUMBER, lambda value, bound: value >= bound),
    "multipleOf": (_NUMBER, _is_multiple),
    "pattern": ((str,), _matches),
    "type": (
        _ANY,
        lambda value, names: any(_is_type(value, name) for name in ([names] if isinstance(names, str) else names)),
    ),
    "uniqueItems": ((list,), lambda value, wanted: not wanted or _all_different(value)),
}


def _leaf(types: tuple[type, ...], fits: Callable[[Any, Any], bool]) -> _Keyword:
    def keyword(_: Validator, wanted: _Wanted, value: Json, __: Mapping[str, Any]) -> _Errors:
        if type(value) in types and not fits(value, wanted):
            yield ValidationError(_UNFITTING)

    return keyword


def _required(_: Validator, names: _Wanted, value: Json, __: Mapping[str, Any]) -> _Errors:
    if isinstance(value, dict):
        for name in names:
            if name not in value:
                yield ValidationError(_MISSING, path=[name])


def _dependent_required(_: Validator, wanted: _Wanted, value: Json, __: Mapping[str, Any]) -> _Errors:
    if isinstance(value, dict):
        for name in chain.from_iterable(needed for given, needed in wanted.items() if given in value):
            if name not in value:
                yield ValidationError(_MISSING, path=[name])


def _additional(validator: Validator, wanted: _Wanted, value: Json, schema: Mapping[str, Any]) -> _Errors:
    if not isinstance(value, dict):
        return
    known, sources = schema.get("properties", ()), list(schema.get("patternProperties", ()))
    for name, item in value.items():
        if name in known or any(_matches(name, source) for source in sources):
            continue
        if wanted is False:
            yield ValidationError(_UNKNOWN, path=[name])
        else:
            yield from validator.descend(item, wanted, path=name)


def _properties(validator: Validator, wanted: _Wanted, value: Json, _: Mapping[str, Any]) -> _Errors:
    if isinstance(value, dict):
        for name, inner in wanted.items():
            if name not in value:
                continue
            if inner is False:  # of which the package does not tell the path
                yield ValidationError(_RULED_OUT, path=[name])
            else:
                yield from validator.descend(value[name], inner, path=name)


def _pattern_properties(validator: Validator, wanted: _Wanted, value: Json, _: Mapping[str, Any]) -> _Errors:
    if isinstance(value, dict):
        for source, inner in wanted.items():
            for name, item in value.items():
                if _matches(name, source):
                    yield from validator.descend(item, inner, path=name)


def _items(validator: Validator, wanted: _Wanted, value: Json, schema: Mapping[str, Any]) -> _Errors:
    if isinstance(value, list):
        for index in range(len(schema.get("prefixItems", ())), len(value)):
            if wanted is False:
                yield ValidationError(_UNFITTING)
                return
            yield from validator.descend(value[index], wanted, path=index)


def _contains(validator: Validator, wanted: _Wanted, value: Json, schema: Mapping[str, Any]) -> _Errors:
    if isinstance(value, list):
        inner = validator.evolve(schema=wanted)
        count = sum(inner.is_valid(item) for item in value)
        if not schema.get("minContains", 1) <= count <= schema.get("maxContains", len(value)):
            yield ValidationError(_UNFITTING)


def _some_of(most: float) -> _Keyword:
    """`anyOf`, or `oneOf` if at most one may fit."""

    def keyword(validator: Validator, wanted: _Wanted, value: Json, _: Mapping[str, Any]) -> _Errors:
        fitting = (inner for inner in wanted if validator.evolve(schema=inner).is_valid(value))
        count = sum(1 for _ in islice(fitting, 2 if most == 1 else 1))
        if not 1 <= count <= most:
            yield ValidationError(_UNFITTING)

    return keyword


def _not(validator: Validator, wanted: _Wanted, value: Json, _: Mapping[str, Any]) -> _Errors:
    if validator.evolve(schema=wanted).is_valid(value):
        yield ValidationError(_UNFITTING)


def _nothing(*_: object) -> _Errors:
    return iter(())


def _counted(keyword: _Keyword) -> _Keyword:
    """A keyword that looks at the value alone."""

    def counted(validator: Validator, wanted: _Wanted, value: Json, schema: Mapping[str, Any]) -> _Errors:
        _BUDGET.get().spend()
        return keyword(validator, wanted, value, schema)

    return counted


def _nested(keyword: _Keyword) -> _Keyword:
    """A keyword with others inside."""

    def nested(validator: Validator, wanted: _Wanted, value: Json, schema: Mapping[str, Any]) -> _Errors:
        budget = _BUDGET.get()
        budget.enter()
        try:
            yield from keyword(validator, wanted, value, schema) or ()
        finally:
            budget.leave()

    return nested


def _bounded() -> Validator:
    leaves = {name: _leaf(*check) for name, check in _CHECKS.items()}
    keywords: dict[str, _Keyword] = dict(Draft202012Validator.VALIDATORS)
    keywords |= {
        "additionalProperties": _additional,
        "anyOf": _some_of(float("inf")),
        "contains": _contains,
        "dependentRequired": _dependent_required,
        "format": _nothing,  # an annotation
        "items": _items,
        "not": _not,
        "oneOf": _some_of(1),
        "patternProperties": _pattern_properties,
        "properties": _properties,
        "required": _required,
    }
    counted = {name: _nested(keyword) for name, keyword in keywords.items()}
    counted |= {name: _counted(keyword) for name, keyword in leaves.items()}
    make: Callable[..., Validator] = extend
    return make(Draft202012Validator, counted)


_VALIDATOR: Final = _bounded()
