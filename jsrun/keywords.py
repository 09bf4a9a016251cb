"""The keywords of JSON Schema Draft 2020-12 as we evaluate them: bounded, and with messages for people.

They replace those of `jsonschema` that would print whole values or Python type names, use Python's `re`, or compare
every item of an array with every other. What is left of that package's own keywords only walks.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from typing import Any, ParamSpec, TypeAlias, TypeVar

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.validators import extend

from jsrun._budget import BUDGET
from jsrun._text import compact_json, quoted
from jsrun._words import MOST_NAMES, either, in_order, kind, names_text, type_text
from jsrun.canonical import canonical_json

# A validator of `jsonschema`, a part of a schema, and a JSON value: untyped data of a package without precise types.
Validator: TypeAlias = Any
Value: TypeAlias = Any
Errors: TypeAlias = Iterator[ValidationError]
Keyword: TypeAlias = Callable[[Validator, Value, Value, Value], Errors]

P = ParamSpec("P")
T = TypeVar("T")


def _type(validator: Validator, types: Value, instance: Value, schema: Value) -> Errors:
    names = [types] if isinstance(types, str) else types
    if not any(validator.is_type(instance, name) for name in names):
        yield ValidationError(f"must be {type_text(names)}, got {kind(instance)}")


def _enum(validator: Validator, members: Value, instance: Value, schema: Value) -> Errors:
    if not any(same(member, instance) for member in members):
        shown = either([kind(member) for member in members[:MOST_NAMES]]) if members else "nothing"
        more = " or another listed value" if len(members) > MOST_NAMES else ""
        yield ValidationError(f"must be {shown}{more}, got {kind(instance)}")


def _const(validator: Validator, constant: Value, instance: Value, schema: Value) -> Errors:
    if not same(constant, instance):
        yield ValidationError(f"must be {kind(constant)}, got {kind(instance)}")


def _required(validator: Validator, required: Value, instance: Value, schema: Value) -> Errors:
    if isinstance(instance, dict) and (missing := [name for name in required if name not in instance]):
        ordered = in_order(missing, schema)
        error = ValidationError(f"misses {names_text(ordered)}")
        error.validator_value = ordered
        yield error


def _dependent_required(validator: Validator, dependent: Value, instance: Value, schema: Value) -> Errors:
    if isinstance(instance, dict):
        for name, needed in dependent.items():
            if name in instance and (missing := [other for other in needed if other not in instance]):
                yield ValidationError(f"misses {names_text(missing)}, needed beside {names_text([name])}")


def _additional_properties(validator: Validator, additional: Value, instance: Value, schema: Value) -> Errors:
    if not isinstance(instance, dict):
        return
    extras = [name for name in instance if not _named(name, schema)]
    if additional is False:
        if extras:
            yield ValidationError(f"has {names_text(extras)}, which the schema does not allow")
        return
    for name in extras:
        yield from validator.descend(instance[name], additional, path=name)


def _named(name: str, schema: Value) -> bool:
    """Is the property one of the schema's `properties` or `patternProperties`?"""
    if name in schema.get("properties", ()):
        return True
    matches = BUDGET.get().matches
    # Every pattern is asked, so that one pass over a value finds all that have to be looked up.
    return sum(matches(pattern, name) for pattern in schema.get("patternProperties", ())) > 0


def _pattern_properties(validator: Validator, patterns: Value, instance: Value, schema: Value) -> Errors:
    if isinstance(instance, dict):
        matches = BUDGET.get().matches
        for pattern, subschema in patterns.items():
            for name, value in instance.items():
                if matches(pattern, name):
                    yield from validator.descend(value, subschema, path=name, schema_path=pattern)


def _property_names(validator: Validator, subschema: Value, instance: Value, schema: Value) -> Errors:
    if isinstance(instance, dict):
        for name in instance:
            reason = next(validator.descend(instance=name, schema=subschema), None)
            if reason is not None:
                yield ValidationError(f"has the name {quoted(name)}, which the schema does not allow")


def _pattern(validator: Validator, pattern: Value, instance: Value, schema: Value) -> Errors:
    if isinstance(instance, str) and not BUDGET.get().matches(pattern, instance):
        yield ValidationError(f"must match the pattern {quoted(pattern)}, got {quoted(instance)}")


def _items(validator: Validator, subschema: Value, instance: Value, schema: Value) -> Errors:
    if not isinstance(instance, list):
        return
    start = len(schema.get("prefixItems", ()))
    if subschema is False:
        if len(instance) > start:
            yield ValidationError(f"must have at most {_count(start, 'item')}, got {len(instance):,}")
        return
    for index in range(start, len(instance)):
        yield from validator.descend(instance[index], subschema, path=index)


def _contains(validator: Validator, subschema: Value, instance: Value, schema: Value) -> Errors:
    if not isinstance(instance, list):
        return
    inner = validator.evolve(schema=subschema)
    least, most = schema.get("minContains", 1), schema.get("maxContains", len(instance))
    matching = sum(inner.is_valid(item) for item in instance)
    if matching < least:
        yield ValidationError(f"must contain at least {_count(least, 'matching item')}, got {matching:,}")
    elif matching > most:
        yield ValidationError(f"must contain at most {_count(most, 'matching item')}, got {matching:,}")


def _unique_items(validator: Validator, unique: Value, instance: Value, schema: Value) -> Errors:
    if unique and isinstance(instance, list):
        texts = [canonical_json(item) for item in instance]
        if len(set(texts)) != len(texts):
            yield ValidationError("must not have two equal items")


def _any_of(validator: Validator, alternatives: Value, instance: Value, schema: Value) -> Errors:
    failed: list[list[ValidationError]] = []
    for subschema in alternatives:
        errors = list(validator.descend(instance, subschema))
        if not errors:
            return
        failed.append(errors)
    yield ValidationError(_no_alternative(failed, instance))


def _one_of(validator: Validator, alternatives: Value, instance: Value, schema: Value) -> Errors:
    outcomes = [list(validator.descend(instance, subschema)) for subschema in alternatives]
    fitting = sum(not errors for errors in outcomes)
    if not fitting:
        yield ValidationError(_no_alternative(outcomes, instance))
    elif fitting > 1:
        yield ValidationError(f"must fit one of {len(outcomes):,} alternatives, fits {fitting:,}")


def _no_alternative(failed: list[list[ValidationError]], instance: Value) -> str:
    """Why no alternative fits. Where all of them want another type (`string or null`), the types say it best."""
    if all(len(errors) == 1 and errors[0].validator == "type" and not errors[0].path for errors in failed):
        types: list[str] = []
        for (error,) in failed:
            wanted: Value = error.validator_value
            types += [wanted] if isinstance(wanted, str) else wanted
        return f"must be {type_text(types)}, got {kind(instance)}"
    return f"fits none of {_count(len(failed), 'alternative')}"


def _not(validator: Validator, subschema: Value, instance: Value, schema: Value) -> Errors:
    if subschema == {}:
        yield ValidationError("is not allowed")
    elif validator.evolve(schema=subschema).is_valid(instance):
        yield ValidationError("is what the schema rules out")


def _multiple_of(validator: Validator, factor: Value, instance: Value, schema: Value) -> Errors:
    ours = Draft202012Validator.VALIDATORS["multipleOf"]
    for _ in ours(validator, factor, instance, schema) or ():
        yield ValidationError(f"must be a multiple of {compact_json(factor)}, got {kind(instance)}")


def _unevaluated_items(validator: Validator, subschema: Value, instance: Value, schema: Value) -> Errors:
    if isinstance(instance, list):
        done = _evaluated_items(validator, instance, schema, own=True)
        rest = [index for index in range(len(instance)) if index not in done]
        if subschema is False and rest:
            yield ValidationError(f"must not have item {rest[0]:,}")
            return
        for index in rest:
            yield from validator.descend(instance[index], subschema, path=index)


def _unevaluated_properties(validator: Validator, subschema: Value, instance: Value, schema: Value) -> Errors:
    if isinstance(instance, dict):
        done = _evaluated_properties(validator, instance, schema, own=True)
        rest = [name for name in instance if name not in done]
        if subschema is False and rest:
            yield ValidationError(f"has {names_text(rest)}, which the schema does not allow")
            return
        for name in rest:
            yield from validator.descend(instance[name], subschema, path=name)


def _counted_look(look: Callable[P, set[T]]) -> Callable[P, set[T]]:
    """A function that goes down a schema beside the keywords; it has the same bounds as they."""

    @wraps(look)
    def counted(*args: P.args, **kwargs: P.kwargs) -> set[T]:
        limits = BUDGET.get()
        limits.enter()
        try:
            return look(*args, **kwargs)
        finally:
            limits.leave()

    return counted


@_counted_look
def _evaluated_properties(validator: Validator, instance: Value, schema: Value, own: bool = False) -> set[str]:
    """The properties that the other keywords of a schema look at; `own` leaves the asking keyword itself out."""
    if not isinstance(schema, dict):
        return set()
    if "additionalProperties" in schema or ("unevaluatedProperties" in schema and not own):
        return set(instance)
    done = {name for name in instance if _named(name, schema)}
    for inner, subschema in _in_place(validator, instance, schema):
        done |= _evaluated_properties(inner, instance, subschema)
    for name, subschema in schema.get("dependentSchemas", {}).items():
        if name in instance:
            done |= _evaluated_properties(validator, instance, subschema)
    return done


@_counted_look
def _evaluated_items(validator: Validator, instance: Value, schema: Value, own: bool = False) -> set[int]:
    """The items that the other keywords of a schema look at."""
    if not isinstance(schema, dict):
        return set()
    if "items" in schema or ("unevaluatedItems" in schema and not own):
        return set(range(len(instance)))
    done = set(range(len(schema.get("prefixItems", ()))))
    if "contains" in schema:
        inner = validator.evolve(schema=schema["contains"])
        done |= {index for index, item in enumerate(instance) if inner.is_valid(item)}
    for inner, subschema in _in_place(validator, instance, schema):
        done |= _evaluated_items(inner, instance, subschema)
    return done


def _in_place(validator: Validator, instance: Value, schema: Value) -> Iterator[tuple[Validator, Value]]:
    """The subschemas that apply to the instance itself and accept it, each with a validator for what is in it."""
    for name in ("$ref", "$dynamicRef"):
        if name in schema:
            # There is no public way to follow a reference by hand; keywords of the package itself do the same.
            resolved = validator._resolver.lookup(schema[name])
            yield validator.evolve(schema=resolved.contents, _resolver=resolved.resolver), resolved.contents
    for name in ("allOf", "anyOf", "oneOf"):
        for subschema in schema.get(name, ()):
            if validator.evolve(schema=subschema).is_valid(instance):
                yield validator, subschema
    if "if" in schema:
        chosen = "else"
        if validator.evolve(schema=schema["if"]).is_valid(instance):
            yield validator, schema["if"]
            chosen = "then"
        if chosen in schema:
            yield validator, schema[chosen]


def same(one: Value, two: Value) -> bool:
    """Equal as JSON: `1` and `1.0` are, `1` and `true` are not. Keeps its own stack."""
    pairs = [(one, two)]
    while pairs:
        left, right = pairs.pop()
        if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
            pairs += zip(left, right, strict=True)
        elif isinstance(left, dict) and isinstance(right, dict) and left.keys() == right.keys():
            pairs += [(value, right[name]) for name, value in left.items()]
        elif isinstance(left, list | dict | bool) or isinstance(right, list | dict | bool):
            if left is not right:
                return False
        elif left != right:
            return False
    return True


def _bound(
    kinds: type | tuple[type, ...], breaks: Callable[[Value, Value], bool], text: Callable[[Value, Value], str]
) -> Keyword:
    """A keyword that compares the instance with one number."""

    def keyword(validator: Validator, bound: Value, instance: Value, schema: Value) -> Errors:
        if isinstance(instance, kinds) and not isinstance(instance, bool) and breaks(instance, bound):
            yield ValidationError(text(instance, bound))

    return keyword


def _size(kinds: type, least: bool, unit: str) -> Keyword:
    word = "at least" if least else "at most"
    return _bound(
        kinds,
        lambda instance, bound: len(instance) < bound if least else len(instance) > bound,
        lambda instance, bound: f"must have {word} {_count(bound, unit)}, got {len(instance):,}",
    )


def _count(number: Value, unit: str) -> str:
    plural = unit.removesuffix("y") + "ies" if unit.endswith("ty") else unit + "s"
    return f"{compact_json(number)} {unit if number == 1 else plural}"


def _limit(words: str, breaks: Callable[[Value, Value], bool]) -> Keyword:
    return _bound(
        (int, float), breaks, lambda instance, bound: f"must be {words} {compact_json(bound)}, got {kind(instance)}"
    )


_KEYWORDS: Mapping[str, Keyword] = {
    "additionalProperties": _additional_properties,
    "anyOf": _any_of,
    "const": _const,
    "contains": _contains,
    "dependentRequired": _dependent_required,
    "enum": _enum,
    "exclusiveMaximum": _limit("less than", lambda instance, bound: instance >= bound),
    "exclusiveMinimum": _limit("greater than", lambda instance, bound: instance <= bound),
    "items": _items,
    "maxItems": _size(list, False, "item"),
    "maxLength": _size(str, False, "character"),
    "maxProperties": _size(dict, False, "property"),
    "maximum": _limit("at most", lambda instance, bound: instance > bound),
    "minItems": _size(list, True, "item"),
    "minLength": _size(str, True, "character"),
    "minProperties": _size(dict, True, "property"),
    "minimum": _limit("at least", lambda instance, bound: instance < bound),
    "multipleOf": _multiple_of,
    "not": _not,
    "oneOf": _one_of,
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "propertyNames": _property_names,
    "required": _required,
    "type": _type,
    "unevaluatedItems": _unevaluated_items,
    "unevaluatedProperties": _unevaluated_properties,
    "uniqueItems": _unique_items,
}


# Of those, the ones that look at the value alone and have no others inside.
_LEAVES = frozenset(_KEYWORDS) - {
    "additionalProperties", "anyOf", "contains", "items", "not", "oneOf", "patternProperties", "propertyNames",
    "unevaluatedItems", "unevaluatedProperties",
}  # fmt: skip


def _counted(keyword: Keyword) -> Keyword:
    """A keyword that looks at the value alone."""

    def counted(validator: Validator, value: Value, instance: Value, schema: Value) -> Errors:
        BUDGET.get().spend()
        return keyword(validator, value, instance, schema) or iter(())

    return counted


def _nested(keyword: Keyword) -> Keyword:
    """A keyword with others inside."""

    def nested(validator: Validator, value: Value, instance: Value, schema: Value) -> Errors:
        limits = BUDGET.get()
        limits.enter()
        try:
            yield from keyword(validator, value, instance, schema) or ()
        finally:
            limits.leave()

    return nested


def _unchecked(validator: Validator, value: Value, instance: Value, schema: Value) -> Errors:
    return iter(())


def _bounded_validator() -> Callable[..., Validator]:
    keywords: dict[str, Keyword] = dict(Draft202012Validator.VALIDATORS) | dict(_KEYWORDS)
    bounded = {name: (_counted if name in _LEAVES else _nested)(keyword) for name, keyword in keywords.items()}
    make: Callable[..., Callable[..., Validator]] = extend
    return make(Draft202012Validator, validators=bounded | {"format": _unchecked})


BoundedValidator = _bounded_validator()
"""Makes a validator of one schema; it may only be used in a context where `BUDGET` is set."""
