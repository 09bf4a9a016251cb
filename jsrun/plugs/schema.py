"""Validation of what plugs are given and keep: any type that pydantic adapts, or an object with a `validate` method."""

import inspect
import json
import typing
from collections.abc import Iterator, Mapping
from typing import Any

import pydantic
import pydantic_core

from jsrun.plugs.api import Plug, Schema
from jsrun.plugs.errors import Issue, SchemaError

__all__ = ["Issue", "Schema", "Validator", "check_inputs", "inputs_of", "persisted_of"]

# How pydantic calls a key that no model, dataclass or TypedDict has.
_UNKNOWN_KEY = frozenset({"extra_forbidden", "unexpected_keyword_argument"})


class Validator:
    """One schema at work. TypeError, naming `what`, for something that is no schema."""

    def __init__(self, kind: Any, what: str) -> None:
        self._schema: Schema[Any] | None = None
        self._adapter: pydantic.TypeAdapter[Any] | None = None
        self._strict_keys = False
        self._policies_inside = False
        if _is_schema_object(kind):
            self._schema = kind
            return
        try:
            self._adapter = pydantic.TypeAdapter(kind)
        except pydantic.errors.PydanticUserError as error:
            first = str(error).partition("\n")[0]
            raise TypeError(f"{what} is neither a type that pydantic adapts nor a schema object: {first}") from None
        policies = list(_extra_policies(self._adapter.core_schema))
        self._policies_inside = bool(policies)
        self._strict_keys = not _has_policy(kind)

    def validate(self, value: Any) -> Any:
        """The validated value, with defaults and conversions; SchemaError with issues if it does not fit.

        A model without an `extra` policy of its own refuses keys it does not know.
        """
        if self._schema is not None:
            return self._schema.validate(value)
        assert self._adapter is not None
        if not self._strict_keys:
            return self._plain(value)
        try:
            return self._adapter.validate_python(value, extra="forbid")
        except pydantic.ValidationError as error:
            # `extra=` overrules models inside that have a policy, so with such ones only the outermost keys are judged.
            issues = [
                issue
                for details in error.errors(include_url=False, include_input=False, include_context=False)
                if not (self._policies_inside and details["type"] in _UNKNOWN_KEY and len(details["loc"]) > 1)
                for issue in (_issue(details),)
            ]
        if issues:
            raise SchemaError(issues)
        return self._plain(value)

    def dump(self, value: Any) -> bytes:
        """`value` as compact UTF-8 JSON; SchemaError if that is not possible."""
        try:
            if self._adapter is not None:
                return self._adapter.dump_json(value, round_trip=True, by_alias=True, warnings=False)
            return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
        except (ValueError, TypeError, RecursionError, pydantic_core.PydanticSerializationError) as error:
            first = str(error).partition("\n")[0]
            raise SchemaError([Issue(f"cannot be written as JSON: {first}")]) from None

    def _plain(self, value: Any) -> Any:
        assert self._adapter is not None
        try:
            return self._adapter.validate_python(value)
        except pydantic.ValidationError as error:
            found = error.errors(include_url=False, include_input=False, include_context=False)
            raise SchemaError(map(_issue, found)) from None


def inputs_of(plug: type[Plug]) -> Validator | None:
    """What validates the `with:` of a plug; None if it takes none."""
    return Validator(plug.Inputs, f"{plug.name}: Inputs") if plug.Inputs is not None else None


def persisted_of(plug: type[Plug]) -> Validator | None:
    """What validates the stored state of a plug; None if it has none."""
    return Validator(plug.Persisted, f"{plug.name}: Persisted") if plug.Persisted is not None else None


def check_inputs(plug: type[Plug], value: Any) -> Any:
    """The validated inputs of a plug from its `with:`, None for a plug without `Inputs`.

    `value` None counts as an empty mapping. SchemaError, with the plug's name before each issue.
    """
    validator = inputs_of(plug)
    if validator is None:
        if value:
            raise SchemaError([Issue("takes no inputs; remove `with:`.")], plug.name)
        return None
    try:
        return validator.validate({} if value is None else value)
    except SchemaError as error:
        raise SchemaError(error.issues, plug.name) from None


def _issue(details: Mapping[str, Any]) -> Issue:
    return Issue(str(details["msg"]), tuple(details["loc"]))


def _is_schema_object(kind: Any) -> bool:
    # Annotated[Model, …] passes `validate` on to the model, and a dataclass may have such a method of its own.
    if typing.get_origin(kind) is not None:
        return False
    validate = getattr(kind, "validate", None)
    if isinstance(kind, type):
        return inspect.ismethod(validate) and not issubclass(kind, pydantic.BaseModel)
    return callable(validate)


def _has_policy(kind: Any) -> bool:
    """Whether a type says itself what is to happen with unknown keys."""
    config = getattr(kind, "model_config", None) or getattr(kind, "__pydantic_config__", None) or {}
    return "extra" in config


def _extra_policies(schema: Any) -> Iterator[str]:
    """The policies for unknown keys anywhere in a schema of pydantic."""
    if isinstance(schema, Mapping):
        config = schema.get("config")
        if isinstance(config, Mapping) and "extra_fields_behavior" in config:
            yield config["extra_fields_behavior"]
        for key, part in schema.items():
            if key not in ("metadata", "config", "default"):
                yield from _extra_policies(part)
    elif isinstance(schema, list | tuple):
        for part in schema:
            yield from _extra_policies(part)
