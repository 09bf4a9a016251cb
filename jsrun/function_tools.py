"""Python functions as tools: a JSON Schema from type hints, arguments from JSON, plain JSON from results."""

import dataclasses
import datetime
import decimal
import inspect
import math
import pathlib
import uuid
import warnings
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, cast, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic.errors import PydanticSchemaGenerationError, PydanticUndefinedAnnotation, PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import CoreSchema, PydanticSerializationError, to_jsonable_python

from jsrun._text import quoted
from jsrun.canonical import MAX_LEVELS
from jsrun.errors import BeltError, DoorFailure
from ptc.wire import Json

# Types that pydantic writes as JSON in the way everyone expects.
_WRITTEN_BY_PYDANTIC = (
    BaseModel,
    datetime.datetime,
    datetime.date,
    datetime.time,
    datetime.timedelta,
    decimal.Decimal,
    uuid.UUID,
)
_NORMAL = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class Arguments:
    """The arguments of one function: their JSON Schema, and the way from a JSON object to Python values.

    Raises BeltError, naming function and parameter, for a function whose arguments cannot be described.
    """

    def __init__(self, function: Callable[..., object]) -> None:
        name = getattr(function, "__name__", "function")
        hints = _hints(function, name)
        self._names: dict[str, str] = {}
        model_fields: dict[str, tuple[object, FieldInfo]] = {}
        for number, parameter in enumerate(_parameters(function, name)):
            if parameter.name not in hints:
                raise BeltError(
                    f"The tool function {name} does not say what {quoted(parameter.name)} is. Add a type hint to it."
                )
            # Numbered names, because a model does not take every parameter name (`_x`, `copy`, `schema`).
            field = f"p{number}"
            self._names[field] = parameter.name
            default = ... if parameter.default is inspect.Parameter.empty else parameter.default
            model_fields[field] = (hints[parameter.name], Field(default, alias=parameter.name))
        try:
            # The overloads of `create_model` know no fields from a mapping.
            make = cast(Callable[..., type[BaseModel]], create_model)
            self._model = make("Arguments", __config__=ConfigDict(extra="forbid"), **model_fields)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a default that is no JSON is left out of the schema
                self.schema = self._model.model_json_schema(schema_generator=_WithoutTitles)
        except (PydanticSchemaGenerationError, PydanticUndefinedAnnotation, PydanticUserError, TypeError) as error:
            reason = str(error).splitlines()[0]
            raise BeltError(
                f"The type hints of the tool function {name} cannot be described as JSON Schema: {reason}"
            ) from None

    def bind(self, args: Mapping[str, Json]) -> dict[str, object]:
        """Keyword arguments for the function; DoorFailure, naming the path, for what a type refuses."""
        try:
            made = self._model.model_validate(dict(args))
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            raise DoorFailure(f"{_path(first['loc'])}: {first['msg']}") from None
        return {name: getattr(made, field) for field, name in self._names.items() if field in made.model_fields_set}


def docstring(function: Callable[..., object]) -> str:
    """The function's own docstring, without its indentation; "" if it has none."""
    return inspect.cleandoc(function.__doc__ or "")


def result_schema(function: Callable[..., object]) -> dict[str, Json] | None:
    """The JSON Schema of what a function gives, from its return hint; None if there is none or it says nothing."""
    try:
        hint = get_type_hints(function, include_extras=True).get("return", Any)
        schema = TypeAdapter(hint).json_schema(mode="serialization", schema_generator=_WithoutTitles)
    except Exception:  # it is only shown to people, so a hint that cannot be described is as good as none
        return None
    return schema or None


def plain(value: object, path: str = "result", level: int = 0) -> Json:
    """A tool's result as plain JSON: models and data classes become objects, tuples arrays, dates and the like text.

    DoorFailure, naming the path, for everything that has no such form.
    """
    if isinstance(value, Enum):
        value = value.value
    if value is None or isinstance(value, bool):
        return value
    # Through their own base, so that what goes on is never a subclass with ideas of its own.
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise DoorFailure(f"{path}: a number that is not finite is not JSON")
        return float.__float__(value)
    if level >= MAX_LEVELS:
        raise DoorFailure(f"{path[:200]}: nested deeper than {MAX_LEVELS} levels")
    if isinstance(value, _WRITTEN_BY_PYDANTIC):
        try:
            return plain(to_jsonable_python(value, inf_nan_mode="constants"), path, level)
        except PydanticSerializationError as error:
            raise DoorFailure(f"{path}: this value is not JSON: {error}") from None
    if isinstance(value, pathlib.PurePath):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    # Loops, not comprehensions: one Python frame a level.
    if isinstance(value, Mapping):
        made: dict[str, Json] = {}
        for key, item in value.items():
            if not isinstance(key, str):
                raise DoorFailure(f"{path}: an object whose keys are not all text is not JSON")
            made[str.__str__(key)] = plain(item, f"{path}.{key}", level + 1)
        return made
    if isinstance(value, list | tuple):
        items: list[Json] = []
        for number, item in enumerate(value):
            items.append(plain(item, f"{path}[{number}]", level + 1))
        return items
    raise DoorFailure(f"{path}: this value is not JSON")


class _WithoutTitles(GenerateJsonSchema):
    """Schemas without the titles pydantic makes up from names: they say nothing and cost a model tokens."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def generate(self, schema: CoreSchema, mode: Any = "validation") -> JsonSchemaValue:
        made = super().generate(schema, mode)
        made.pop("title", None)
        return made


def _hints(function: Callable[..., object], name: str) -> dict[str, object]:
    try:
        return get_type_hints(function, include_extras=True)
    except Exception as error:  # a hint in quotes is code, and may fail in any way
        raise BeltError(f"The type hints of the tool function {name} cannot be resolved: {error}") from None


def _parameters(function: Callable[..., object], name: str) -> list[inspect.Parameter]:
    parameters = list(inspect.signature(function).parameters.values())
    for parameter in parameters:
        if parameter.kind not in _NORMAL:
            raise BeltError(
                f'The tool function {name} takes "{parameter}", which has no name a caller could use. Use'
                " ordinary parameters."
            )
    return parameters


def _path(location: tuple[int | str, ...]) -> str:
    return "args" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
