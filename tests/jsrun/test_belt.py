"""Tools, belts, and Python functions made into tools."""

import asyncio
import dataclasses
import datetime
import decimal
import enum
import pathlib
import threading
import uuid
from collections.abc import Callable, Mapping
from typing import Annotated, Literal, NamedTuple

import pytest
from pydantic import AfterValidator, BaseModel, Field

from jsrun.belt import Belt, Tool, ToolSpec, tool
from jsrun.env import ToolResult
from jsrun.errors import BeltError, DoorFailure
from jsrun.function_tools import plain
from jsrun.spend import Spend
from ptc.outcome import UNSET
from ptc.wire import Json

PATH_SCHEMA: dict[str, Json] = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


def recorded(calls: list[object], answer: object = None) -> Callable[[dict[str, Json]], object]:
    """A tool function that notes its arguments and gives this answer."""

    def call(args: dict[str, Json]) -> object:
        calls.append(args)
        return answer

    return call


class Point(BaseModel):
    x: int
    y: int = 0


class Level(BaseModel):
    value: float


@dataclasses.dataclass
class Trip:
    stops: list[Point]
    day: datetime.date


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Pair(NamedTuple):
    one: int
    two: str


# The belt


async def test_a_belt_calls_its_tools_by_name() -> None:
    calls: list[object] = []
    belt = Belt(
        [
            Tool("read", "Reads.", PATH_SCHEMA, recorded(calls, "text"), read_only=True),
            Tool(" b ", "", {}, recorded(calls)),
        ]
    )
    assert belt.names() == ("read", "b")
    assert belt.specs() == (ToolSpec("read", "Reads.", PATH_SCHEMA, True), ToolSpec("b", "", {}, False))
    assert [item.name for item in belt] == ["read", "b"]
    assert len(belt) == 2
    assert await belt.call(" read ", {"path": "a"}) == ToolResult(text="text")
    assert await belt.call("b", {}) == ToolResult(json=None)
    assert calls == [{"path": "a"}, {}]


def test_two_tools_of_one_name_are_refused() -> None:
    one, other = (Tool(name, "", {}, recorded([])) for name in ("read", " read"))
    with pytest.raises(BeltError, match='Two tools are called "read"'):
        Belt([one, other])


@pytest.mark.parametrize("name", ["", " \n"])
def test_a_blank_name_is_refused(name: str) -> None:
    with pytest.raises(BeltError, match="not blank"):
        Tool(name, "", {}, recorded([]))


@pytest.mark.parametrize(
    "schema", [{"type": "text"}, {"type": "array"}, {"properties": 1}, {"type": ["object", "null"]}]
)
def test_a_schema_that_is_not_valid_is_refused(schema: dict[str, Json]) -> None:
    with pytest.raises(BeltError, match='schema of the tool "t"'):
        Tool("t", "", schema, recorded([]))


def test_a_tool_keeps_its_own_copy_of_the_schema() -> None:
    schema: dict[str, Json] = {"properties": {"a": {"type": "string"}}}
    made = Tool("t", "", schema, recorded([]))
    schema["properties"] = 1
    assert made.input_schema == {"properties": {"a": {"type": "string"}}}


def test_only_takes_what_a_whitelist_allows() -> None:
    belt = Belt(Tool(name, "", {}, recorded([])) for name in ("a", "b", "c"))
    assert belt.only([" c", "a ", "missing", "B"]).names() == ("a", "c")
    assert belt.only([]).names() == ()
    assert belt.only(iter(["b"])).names() == ("b",)


async def test_an_unknown_tool_is_a_door_failure_that_lists_the_others() -> None:
    with pytest.raises(DoorFailure, match=r'no tool "x" on the belt\.'):
        await Belt().call("x", {})
    with pytest.raises(DoorFailure, match=r'no tool "x" on the belt, only: a, b\.'):
        await Belt(Tool(name, "", {}, recorded([])) for name in "ab").call("x", {})


@pytest.mark.parametrize(
    ("args", "start"),
    [
        ({"items": [{"n": 1}, {"n": "x"}]}, "args.items[1].n:"),
        ({"items": "x"}, "args.items:"),
        ({}, "The args misses `items`"),
        ({"items": [], "more": 1}, "args:"),
    ],
)
async def test_arguments_that_do_not_fit_never_reach_the_tool(args: dict[str, Json], start: str) -> None:
    """JSR-119 (arguments): refused by path before the call, whoever made the tool."""
    calls: list[object] = []
    item: Json = {"type": "object", "properties": {"n": {"type": "integer"}}}
    schema: dict[str, Json] = {
        "type": "object",
        "properties": {"items": {"type": "array", "items": item}},
        "required": ["items"],
        "additionalProperties": False,
    }
    with pytest.raises(DoorFailure) as caught:
        await Belt([Tool("t", "", schema, recorded(calls))]).call("t", args)
    assert str(caught.value).startswith(start)
    assert calls == []


async def test_results_are_text_json_or_themselves() -> None:
    full = ToolResult(text="no", failed=True, spend=Spend("m", 1, 1, 1))
    answers: list[tuple[object, ToolResult]] = [
        ("text", ToolResult(text="text")),
        (None, ToolResult(json=None)),
        ({"a": (1, 2.5)}, ToolResult(json={"a": [1, 2.5]})),
        (full, full),
    ]
    for answer, expected in answers:
        assert await Belt([Tool("t", "", {}, recorded([], answer))]).call("t", {}) == expected
    assert ToolResult(text="text").json is UNSET


async def test_what_a_tool_raises_goes_through() -> None:
    @tool
    def fails() -> None:
        """Fails."""
        raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        await Belt([fails]).call("fails", {})


# Functions


async def test_a_function_becomes_a_tool() -> None:
    @tool
    def move(to: Point, how: Literal["walk", "fly"] = "walk", tags: list[str] | None = None) -> str:
        """Move somewhere.

        Takes a while.
        """
        return f"{how} to {to.x},{to.y} {tags}"

    assert move.name == "move"
    assert move.description == "Move somewhere.\n\nTakes a while."
    assert move.read_only is False
    schema = move.input_schema
    assert schema["required"] == ["to"]
    assert schema["additionalProperties"] is False
    properties = schema["properties"]
    assert isinstance(properties, dict)
    assert list(properties) == ["to", "how", "tags"]
    assert properties["how"] == {"default": "walk", "enum": ["walk", "fly"], "type": "string"}
    belt = Belt([move])
    assert await belt.call("move", {"to": {"x": 1}}) == ToolResult(text="walk to 1,0 None")
    result = await belt.call("move", {"to": {"x": 1, "y": 2}, "how": "fly", "tags": ["a\ud800"]})
    assert result.text == "fly to 1,2 ['a\\ud800']"


async def test_name_description_and_read_only_can_be_given() -> None:
    @tool(name="look", description="Looks.", read_only=True)
    def something() -> int:
        """Not this."""
        return 2**70

    assert something.spec == ToolSpec("look", "Looks.", something.input_schema, True, {"type": "integer"})
    assert await Belt([something]).call("look", {}) == ToolResult(json=2**70)


def test_what_a_tool_gives_is_described_by_its_return_hint() -> None:
    """A hint that says nothing, or cannot be described, is none; what the decorator is given counts more."""

    @tool
    def described(name: str) -> list[Point]:
        return []

    @tool
    def silent(name: str):  # type: ignore[no-untyped-def]
        return name

    @tool
    def odd(name: str) -> threading.Thread:
        return threading.current_thread()

    @tool(output_schema={"type": "null"})
    def told(name: str) -> str:
        return name

    assert described.output_schema is not None and described.output_schema["type"] == "array"
    assert silent.output_schema is None and odd.output_schema is None
    assert told.output_schema == {"type": "null"}
    assert all(item.output_schema for item in Belt.workspace("."))


async def test_async_and_plain_functions_leave_the_loop_alone() -> None:
    threads: list[threading.Thread] = []

    @tool
    async def on_loop() -> None:
        threads.append(threading.current_thread())

    @tool
    def elsewhere() -> None:
        threads.append(threading.current_thread())

    belt = Belt([on_loop, elsewhere])
    await asyncio.gather(belt.call("on_loop", {}), belt.call("elsewhere", {}))
    assert threading.main_thread() in threads
    assert len(set(threads)) == 2


async def test_awkward_parameter_names_work() -> None:
    @tool
    def odd(_private: int, model_config: int, copy: int, schema: int, self: int) -> list[int]:
        return [_private, model_config, copy, schema, self]

    names = ["_private", "model_config", "copy", "schema", "self"]
    assert list(odd.input_schema["required"]) == names  # type: ignore[arg-type]
    result = await Belt([odd]).call("odd", {name: number for number, name in enumerate(names)})
    assert result.json == [0, 1, 2, 3, 4]


async def test_methods_and_keyword_only_parameters_work() -> None:
    class Shop:
        def price(self, item: str, *, count: int = 2, when: datetime.date | None = None) -> list[object]:
            return [item, count, when]

    belt = Belt([tool(Shop().price)])
    assert (await belt.call("price", {"item": "x"})).json == ["x", 2, None]
    assert (await belt.call("price", {"item": "x", "count": 3, "when": "2026-01-31"})).json == ["x", 3, "2026-01-31"]


def test_functions_that_cannot_be_described_are_refused_at_definition() -> None:
    """JSR-119 (definition): no hints, `*args`, `**kwargs`, positional-only, a hint that is no JSON."""

    def untyped(path, count: int = 1):  # type: ignore[no-untyped-def]
        return path

    def stars(*paths: str) -> None: ...
    def options(**more: str) -> None: ...
    def positional(path: str, /) -> None: ...
    def a_thread(thread: threading.Thread) -> None: ...
    def a_function(call: Callable[[int], int]) -> None: ...
    def dangling(path: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821

    refused: list[tuple[Callable[..., object], str]] = [
        (untyped, 'untyped does not say what "path" is'),
        (stars, r'stars takes "\*paths: str"'),
        (options, r'options takes "\*\*more: str"'),
        (positional, 'positional takes "path: str"'),
        (a_thread, "a_thread cannot be described"),
        (a_function, "a_function cannot be described"),
        (dangling, "dangling cannot be resolved"),
    ]
    for function, message in refused:
        with pytest.raises(BeltError, match=message):
            tool(function)


@pytest.mark.parametrize(
    ("args", "start"),
    [
        ({}, "The args misses `point`"),
        ({"point": {"x": "1"}}, "args.point.x:"),
        ({"point": {}}, "args.point:"),
        ({"point": {"x": 1}, "count": "2"}, "args.count:"),
        ({"point": {"x": 1}, "count": 11}, "args.count:"),
        ({"point": {"x": 1}, "other": 1}, "args:"),
        ({"point": {"x": 1}, "even": 3}, "args.even:"),
        ({"point": {"x": 1}, "day": "yesterday"}, "args.day:"),
        ({"point": {"x": 1}, "colour": "green"}, "args.colour:"),
    ],
)
async def test_bad_arguments_never_reach_a_function(args: dict[str, Json], start: str) -> None:
    """JSR-119 (arguments): also those only Python's types refuse."""
    reached = []

    def is_even(value: int) -> int:
        if value % 2:
            raise ValueError("must be even")
        return value

    @tool
    def place(
        point: Point,
        count: Annotated[int, Field(le=10)] = 1,
        even: Annotated[int, AfterValidator(is_even)] = 2,
        day: datetime.date | None = None,
        colour: Colour = Colour.RED,
    ) -> None:
        reached.append(point)

    with pytest.raises(DoorFailure) as caught:
        await Belt([place]).call("place", args)
    assert str(caught.value).startswith(start)
    assert reached == []
    await Belt([place]).call("place", {"point": {"x": 1}, "count": 2.0})
    assert reached == [Point(x=1)]


async def test_models_and_data_classes_arrive_as_json() -> None:
    """JSR-119 (results): whatever has an obvious JSON form gets it."""

    @tool
    def trip(options: dict[str, bool], stops: tuple[Point, ...] = ()) -> object:
        return {
            "trip": Trip([*stops, Point(x=3)], datetime.date(2026, 1, 31)),
            "pair": Pair(1, "a"),
            "colour": Colour.BLUE,
            "options": options,
            "cost": decimal.Decimal("1.50"),
            "id": uuid.UUID(int=0),
            "file": pathlib.PurePosixPath("a/b"),
        }

    result = await Belt([trip]).call("trip", {"options": {"deep": True}, "stops": [{"x": 1, "y": 2}]})
    assert result.json == {
        "trip": {"stops": [{"x": 1, "y": 2}, {"x": 3, "y": 0}], "day": "2026-01-31"},
        "pair": [1, "a"],
        "colour": "blue",
        "options": {"deep": True},
        "cost": "1.50",
        "id": "00000000-0000-0000-0000-000000000000",
        "file": "a/b",
    }


def nested(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": [1, {2}]}, "result.a[1]: this value is not JSON"),
        (b"x", "result: this value is not JSON"),
        ([object()], "result[0]: this value is not JSON"),
        ({"a": float("nan")}, "result.a: a number that is not finite is not JSON"),
        ({1: 2}, "result: an object whose keys are not all text is not JSON"),
        (Point, "result: this value is not JSON"),
        (Level(value=float("inf")), "result.value: a number that is not finite is not JSON"),
        (nested(513), "nested deeper than 512 levels"),
        (nested(100_000), "nested deeper than 512 levels"),
    ],
)
def test_a_result_without_a_json_form_is_refused_by_path(value: object, message: str) -> None:
    with pytest.raises(DoorFailure) as caught:
        plain(value)
    assert message in str(caught.value)


def test_512_levels_are_fine() -> None:
    assert plain(nested(512)) == nested(512)


def test_subclasses_become_the_plain_types() -> None:
    class Text(str):
        pass

    class Number(int):
        pass

    class Height(enum.IntEnum):
        HIGH = 3

    class Mode(enum.StrEnum):
        FAST = "fast"

    class Table(Mapping[str, int]):
        def __getitem__(self, key: str) -> int:
            return 1

        def __iter__(self):  # type: ignore[no-untyped-def]
            return iter([Text("k")])

        def __len__(self) -> int:
            return 1

    value = plain([Text("a"), Number(2), Height.HIGH, Mode.FAST, Table(), True])
    assert value == ["a", 2, 3, "fast", {"k": 1}, True]
    assert isinstance(value, list)
    assert [type(item) for item in value] == [str, int, int, str, dict, bool]
