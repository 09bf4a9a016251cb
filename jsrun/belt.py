"""Belt: the host's tools, by name, each with a schema its arguments are checked against before it is called."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TypeAlias, overload

from jsrun import _threads
from jsrun._text import cut, quoted
from jsrun.env import ToolResult
from jsrun.errors import BeltError, DoorFailure
from jsrun.function_tools import Arguments, docstring, plain, result_schema
from jsrun.schema_checks import check_schema
from jsrun.schemas import Schema, copy_json
from jsrun.whitelist import matches
from ptc.deep import run_deep
from ptc.wire import Json

__all__ = ["Belt", "Tool", "ToolFunction", "ToolSpec", "tool"]

ToolFunction: TypeAlias = Callable[[dict[str, Json]], object]
"""Takes the arguments as one object; plain (called in a thread) or async. A `str` it returns is text, a `ToolResult`
itself, anything else JSON."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """What a tool is, without the means to call it."""

    name: str
    description: str
    input_schema: Mapping[str, Json]
    read_only: bool = False
    output_schema: Mapping[str, Json] | None = None


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool: name, description, JSON Schema of its arguments (an object), function, and whether it changes nothing.

    A `read_only` tool may be called again without asking. `output_schema` tells people what it gives, None if that is
    not known; it is never checked. BeltError for a blank name or a schema that is not valid.
    """

    name: str
    description: str
    input_schema: Mapping[str, Json]
    call: ToolFunction
    read_only: bool = False
    output_schema: Mapping[str, Json] | None = None
    schema: Schema = field(init=False, repr=False, compare=False)
    """`input_schema`, ready to check arguments."""

    def __post_init__(self) -> None:
        name = self.name.strip()
        if not name:
            raise BeltError("A tool needs a name that is not blank.")
        object.__setattr__(self, "name", name)
        raw = dict(self.input_schema)
        problems = check_schema(raw)
        if problems:
            raise BeltError(
                f"The input schema of the tool {quoted(name)} is not valid: {problems[0].message} {problems[0].hint}"
            )
        object.__setattr__(self, "input_schema", run_deep(lambda: copy_json(raw)))
        object.__setattr__(self, "schema", Schema(self.input_schema))

    @property
    def spec(self) -> ToolSpec:
        """The tool without its function."""
        return ToolSpec(self.name, self.description, self.input_schema, self.read_only, self.output_schema)


class Belt:
    """Tools in the order they were given; iterating gives them. BeltError if two have one name after trimming."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        for item in tools:
            if item.name in self._tools:
                raise BeltError(f"Two tools are called {quoted(item.name)}. Rename one of them.")
            self._tools[item.name] = item

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def names(self) -> tuple[str, ...]:
        """The names of the tools."""
        return tuple(self._tools)

    def specs(self) -> tuple[ToolSpec, ...]:
        """What each tool is."""
        return tuple(item.spec for item in self)

    def get(self, name: str) -> Tool | None:
        """The tool of this name, or None; blanks around the name do not count."""
        return self._tools.get(name.strip())

    def only(self, names: Iterable[str]) -> "Belt":
        """A belt of those tools that the names, a whitelist, allow; names of no tool are passed over."""
        allowed = tuple(names)
        return Belt(item for item in self if matches(item.name, allowed))

    async def call(self, name: str, args: dict[str, Json]) -> ToolResult:
        """Check the arguments, call the tool, give its result as text or plain JSON.

        DoorFailure, for the program to see, for an unknown name, arguments that do not fit (by path) and a result that
        is not JSON; whatever the function raises goes through.
        """
        item = self.get(name)
        if item is None:
            raise DoorFailure(f"There is no tool {quoted(name.strip())} on the belt{self._others()}.")
        problems = await item.schema.problems(args, "args")
        if problems:
            raise DoorFailure(cut(" ".join(problems)))
        answer = await _threads.call(item.call, args)
        if isinstance(answer, ToolResult):
            return answer
        if isinstance(answer, str):
            return ToolResult(text=answer)
        return ToolResult(json=plain(answer))

    @classmethod
    def workspace(cls, root: str | os.PathLike[str]) -> "Belt":
        """`read`, `list` and `search` over the text files under `root`, and nothing outside it."""
        from jsrun.workspace_tools import workspace_tools  # it makes its tools with this module

        return cls(workspace_tools(root))

    @classmethod
    def mcp(
        cls,
        command: str | Sequence[str] | None = None,
        url: str | None = None,
        prefix: str = "",
        env: Mapping[str, str] | None = None,
    ) -> "AbstractAsyncContextManager[Belt]":
        """The tools of an MCP server, started by `command` or reached at `url`, as long as the `async with` lasts.

        `prefix` is put before each name, `env` added to the few variables a started server gets. BeltError if the
        extra `mcp` is missing or the server does not answer.
        """
        from jsrun.mcp_tools import mcp_belt  # needs an optional package

        return mcp_belt(command=command, url=url, prefix=prefix, env=env)

    def _others(self) -> str:
        return f", only: {', '.join(self.names())}" if self._tools else ""


@overload
def tool(function: Callable[..., object], /) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    read_only: bool = False,
    output_schema: Mapping[str, Json] | None = None,
) -> Callable[[Callable[..., object]], Tool]: ...
def tool(
    function: Callable[..., object] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    read_only: bool = False,
    output_schema: Mapping[str, Json] | None = None,
) -> Tool | Callable[[Callable[..., object]], Tool]:
    """Make a Tool of a plain or async function: schema from its type hints, description from its docstring.

    Use it as `@tool` or as `@tool(name=…, description=…, read_only=True)`. What it gives is described by its return
    hint, unless `output_schema` does. BeltError at once for `*args`, `**kwargs`,
    a parameter without a type hint, or a hint that no JSON Schema describes.
    """

    def make(function: Callable[..., object]) -> Tool:
        arguments = Arguments(function)

        async def call(args: dict[str, Json]) -> object:
            return await _threads.call(function, **arguments.bind(args))

        return Tool(
            name=name if name is not None else getattr(function, "__name__", ""),
            description=description if description is not None else docstring(function),
            input_schema=arguments.schema,
            call=call,
            read_only=read_only,
            output_schema=output_schema if output_schema is not None else result_schema(function),
        )

    return make if function is None else make(function)
