"""Tools: what a model may call, checked when they are registered, their arguments checked when they are called."""

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from jsrun import strictjson
from jsrun._threads import in_thread
from jsrun.agent.errors import InvalidConfiguration
from jsrun.agent.messages import clean_text
from jsrun.diagnostics import Diagnostic
from jsrun.regex import EngineRegexTester
from jsrun.schema_checks import check_schema
from jsrun.schemas import Schema, copy_json
from jsrun.spend import Spend
from ptc.deep import run_deep
from ptc.outcome import UNSET, Unset

if TYPE_CHECKING:
    from jsrun.agent.messages import ToolMessage
    from ptc.wire import Json

# What every provider takes as a function's name.
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}")
# Levels of nesting of arguments: more than any model means, few enough for everything after to recurse.
_DEPTH: Final = 128
# Characters of arguments that are read at once; longer ones would hold up the event loop for too long.
_LONG: Final = 20_000


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """What the model is told of a tool. `parameters`: JSON Schema (Draft 2020-12) of an object."""

    name: str
    description: str
    parameters: "Mapping[str, Json]" = field(hash=False)


class Nested(Protocol):
    """Makes one call out of a call; see `ToolContext.nested`."""

    def __call__(self, name: str, arguments_json: str, registry: "ToolRegistry") -> "Awaitable[NestedAnswer]":
        """The answer."""
        ...


@dataclass(frozen=True, slots=True)
class NestedAnswer:
    """What became of a nested call: the message as a model would get it, and the value if it is one.

    `value` is what the handler gave; the text, if a hook replaced that; UNSET for an error.
    """

    message: "ToolMessage"
    value: "Json | Unset"


@dataclass(frozen=True, slots=True)
class ToolContext:
    """One call, for its handler.

    `add_usage` counts what the call cost. `nested(name, arguments_json, registry)` makes one call of another tool, as
    `CALL_ID:N`, through all that a call of the model goes through: checks, hooks, timeout, events.
    """

    run_id: str
    call_id: str
    tool_name: str
    add_usage: Callable[[Spend], None]
    nested: Nested | None = None


Handler: TypeAlias = "Callable[[dict[str, Json], ToolContext], object]"
"""Takes the arguments and the context; async, or plain and then run in a thread of its own. A `str` it gives is text,
any other JSON value its JSON text; a `ToolError` is what the model reads."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool and the function behind it.

    `timeout` in seconds, None for no limit; it and `max_result_chars` are by default those of the agent's limits.
    `repeatable`: may the call be made again if a crash left it unknown whether it was?
    """

    definition: ToolDefinition
    handler: Handler
    _: KW_ONLY
    timeout: float | Unset | None = UNSET
    max_result_chars: int | Unset = UNSET
    repeatable: bool = True


class ToolRegistry:
    """Tools in the order they were given.

    InvalidConfiguration, naming the tool, for a name no provider takes, one that stands twice, parameters that are no
    valid schema of an object, a reference out of the schema, and bad limits.
    """

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        self._schemas: dict[str, Schema] = {}
        for tool in tools:
            self._add(tool)
        self._tester = EngineRegexTester()

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    @property
    def definitions(self) -> tuple[ToolDefinition, ...]:
        """What the model is told."""
        return tuple(tool.definition for tool in self)

    def names(self) -> tuple[str, ...]:
        """The names, in order."""
        return tuple(self._tools)

    def get(self, name: str) -> Tool | None:
        """The tool of a name, None if there is none."""
        return self._tools.get(name)

    async def read_arguments(self, name: str, text: str) -> "dict[str, Json] | str":
        """The arguments that the model wrote for the tool `name`, or why they cannot be used."""
        if len(text) > _LONG:
            document, problems = await in_thread(_read, text)
        else:
            document, problems = _read(text)
        if document is None or problems:
            place = f"at line {problems[0].line}, column {problems[0].column}"
            return f"the arguments are not JSON {place}: {problems[0].message}"
        if not isinstance(document.value, dict):
            return "the arguments are no JSON object"
        arguments: dict[str, Json] = _clean(document.value) if "\\u" in text else document.value
        mismatches = await self._schemas[name].mismatches(arguments, self._tester)
        return f"the arguments do not fit: {'; '.join(mismatches)}" if mismatches else arguments

    def _add(self, tool: Tool) -> None:
        name = tool.definition.name
        if not isinstance(name, str) or _NAME.fullmatch(name) is None:
            raise InvalidConfiguration(
                f"the tool name {name!r} must begin with a letter and hold letters, digits, '_' and '-', 64 at most"
            )
        if name in self._tools:
            raise InvalidConfiguration(f"two tools are called {name!r}; rename one of them")
        if not callable(tool.handler):
            raise InvalidConfiguration(f"tool {name!r}: its handler cannot be called")
        timeout = tool.timeout
        if timeout is not None and not isinstance(timeout, Unset) and not _positive(timeout, int | float):
            raise InvalidConfiguration(f"tool {name!r}: timeout must be None or seconds above 0")
        if not isinstance(tool.max_result_chars, Unset) and not _positive(tool.max_result_chars, int):
            raise InvalidConfiguration(f"tool {name!r}: max_result_chars must be a whole number above 0")
        parameters = tool.definition.parameters
        if not isinstance(parameters, Mapping):
            raise InvalidConfiguration(f"tool {name!r}: its parameters are no JSON Schema")
        problems = check_schema(parameters, "parameters")
        if problems:
            raise InvalidConfiguration(f"tool {name!r}: {problems[0].message} {problems[0].hint}")
        self._tools[name] = tool
        self._schemas[name] = Schema(run_deep(lambda: {key: copy_json(part) for key, part in parameters.items()}))


def _read(text: str) -> tuple[strictjson.Document | None, list[Diagnostic]]:
    return strictjson.read(text, "arguments", "arguments", max_depth=_DEPTH)


def _clean(value: Any) -> Any:
    """The value with every lone surrogate, which only an escape can bring in, replaced."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        return [_clean(item) for item in value]
    if isinstance(value, dict):
        return {clean_text(key): _clean(item) for key, item in value.items()}
    return value


def _positive(value: object, kind: object) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool) and value > 0  # type: ignore[arg-type, operator]
