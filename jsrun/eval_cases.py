"""Cases: what an eval file holds, and reading one strictly, so that every mistake is refused at its place."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Final, Literal, TypeAlias, cast, get_args

from jsrun import strictjson
from jsrun._text import quoted
from jsrun.canonical import MAX_LEVELS
from jsrun.diagnostics import nearest
from jsrun.errors import EvalError
from jsrun.fuel import Fuel
from jsrun.result import REASONS, STATUSES
from jsrun.testing import ScriptedEnv
from jsrun.units import SECOND, parse_duration, parse_size, parse_whole
from ptc.outcome import UNSET, Unset
from ptc.wire import Json

__all__ = ["Case", "Expectation", "OutputForm", "read_case"]

OutputForm: TypeAlias = Literal["exact", "schema", "subset"]

_KEYS: Final = ("name", "input", "look", "memory", "fuel", "doors", "cassette", "expect")
_EXPECT_KEYS: Final = ("status", "reason", "output", "report", "calls")
_LOOK_KEYS: Final = ("files", "tools")
_FUEL_KEYS: Final = tuple(item.name for item in fields(Fuel))
_ITEM: Final = re.compile(r"item (\d+) of the doors")


@dataclass(frozen=True, slots=True)
class Expectation:
    """What must hold of the result; None, or UNSET where null is a value, is not looked at.

    `output` is compared as `form` says: `exact` equality, `schema` it must fit, `subset` it must contain.
    """

    status: str | None = None
    reason: str | None = None
    form: OutputForm | None = None
    output: "Json | Unset" = UNSET
    report: str | None = None
    calls: int | tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """One case. `file` is where it stands; of `doors`, a script, and `cassette`, a recorded run, there is one.

    `cassette` is the name of a file beside it. UNSET as `input` is that of the cassette.
    """

    file: str
    name: str
    input: "Json | Unset"
    expect: Expectation
    doors: tuple[Mapping[str, Json], ...] = ()
    cassette: str | None = None
    files: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    memory: str | None = None
    fuel: Fuel = field(default_factory=Fuel)


def read_case(file: str, text: str) -> Case:
    """The case in the text of a file. EvalError, with file and place, for a text that holds none."""
    document, problems = strictjson.read(text, file, "eval-invalid", MAX_LEVELS)
    if document is None or problems:
        raise EvalError("\n".join(map(str, problems)))
    return _Reader(file, document).case()


class _Reader:
    """Reads one document. Values are named by their path in it, so that a refusal can tell the place."""

    def __init__(self, file: str, document: strictjson.Document) -> None:
        self._file = file
        self._document = document

    def case(self) -> Case:
        raw = self._object(self._document.value, (), _KEYS)
        if "doors" in raw and "cassette" in raw:
            raise self._refuse('"doors" and "cassette" exclude each other.', ("cassette",), key=True)
        if "expect" not in raw:
            raise self._refuse('The case needs "expect", what must come of the run.', ())
        look = self._object(raw.get("look", {}), ("look",), _LOOK_KEYS)
        return Case(
            file=self._file,
            name=self._text(raw, ("name",)) or self._file.removeprefix("evals/").removesuffix(".json"),
            input=raw.get("input", UNSET if "cassette" in raw else None),
            expect=self._expectation(self._object(raw["expect"], ("expect",), _EXPECT_KEYS)),
            doors=self._doors(raw.get("doors", [])),
            cassette=self._text(raw, ("cassette",)),
            files=self._texts(look.get("files", []), ("look", "files")),
            tools=self._texts(look.get("tools", []), ("look", "tools")),
            memory=self._text(raw, ("memory",)),
            fuel=self._fuel(self._object(raw.get("fuel", {}), ("fuel",), _FUEL_KEYS)),
        )

    def _expectation(self, raw: Mapping[str, Json]) -> Expectation:
        path = ("expect", "output")
        output: Mapping[str, Json] = {}
        if "output" in raw:
            output = self._object(raw["output"], path, get_args(OutputForm))
            if len(output) != 1:
                raise self._refuse('"expect.output" needs exactly one of "exact", "schema" and "subset".', path)
        form, wanted = next(iter(output.items()), (None, UNSET))
        if form == "schema" and not isinstance(wanted, dict):
            raise self._refuse('"expect.output.schema" must be an object.', (*path, "schema"))
        return Expectation(
            status=self._one_of(raw, "status", STATUSES),
            reason=self._one_of(raw, "reason", REASONS),
            form=cast("OutputForm | None", form),
            output=wanted,
            report=self._text(raw, ("expect", "report")),
            calls=self._calls(raw.get("calls")),
        )

    def _calls(self, value: Json) -> int | tuple[str, ...] | None:
        path = ("expect", "calls")
        if isinstance(value, list):
            return self._texts(value, path)
        if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
            return value
        raise self._refuse('"expect.calls" must be a count, or a list such as ["ai summarise", "log"].', path)

    def _fuel(self, raw: Mapping[str, Json]) -> Fuel:
        values: dict[str, float] = {}
        for key, value in raw.items():
            if key in ("wall", "compute"):
                duration = parse_duration(value)
                amount = None if duration is None else duration / SECOND
            else:
                amount = parse_size(value) if key in ("memory", "output") else parse_whole(value)
            if amount is None or amount <= 0:
                problem = f'"fuel.{key}" is no amount; write it as in a manifest, such as 5, "30s" or "1MiB".'
                raise self._refuse(problem, ("fuel", key))
            values[key] = amount
        return Fuel(**values)  # type: ignore[arg-type]  # counts are whole numbers

    def _doors(self, value: Json) -> tuple[Mapping[str, Json], ...]:
        if not isinstance(value, list):
            raise self._refuse('"doors" must be a list of objects such as {"door": "ai", "text": "yes"}.', ("doors",))
        doors = tuple(cast("list[dict[str, Json]]", value))
        try:
            ScriptedEnv(doors)
        except EvalError as error:
            item = _ITEM.match(str(error))
            raise self._refuse(f"{error}.", ("doors", int(item[1]) - 1) if item else ("doors",)) from None
        return doors

    def _object(self, value: Json, path: strictjson.Path, keys: Iterable[str]) -> Mapping[str, Json]:
        what = _named(path)
        if not isinstance(value, dict):
            raise self._refuse(f"{what} must be an object.", path)
        known = tuple(keys)
        for key in value:
            if key not in known:
                meant = nearest(key, known)
                hint = f"Did you mean {quoted(meant)}?" if meant else f"Known are {', '.join(known)}."
                raise self._refuse(f"{what} has the unknown key {quoted(key)}. {hint}", (*path, key), key=True)
        return value

    def _text(self, raw: Mapping[str, Json], path: strictjson.Path) -> str | None:
        value = raw.get(str(path[-1]))
        if value is not None and not isinstance(value, str):
            raise self._refuse(f"{_named(path)} must be a text.", path)
        return value

    def _texts(self, value: Json, path: strictjson.Path) -> tuple[str, ...]:
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self._refuse(f"{_named(path)} must be a list of texts.", path)
        return tuple(cast("list[str]", value))

    def _one_of(self, raw: Mapping[str, Json], key: str, known: Sequence[str]) -> str | None:
        path = ("expect", key)
        value = self._text(raw, path)
        if value is not None and value not in known:
            raise self._refuse(f"{_named(path)} must be one of {', '.join(known)}, got {quoted(value)}.", path)
        return value

    def _refuse(self, problem: str, path: strictjson.Path, *, key: bool = False) -> EvalError:
        """A refusal of the value at a path, or of its key."""
        place = self._document.key_place(path) if key else self._document.place(path)
        where = "" if place is None else f":{place[0]}:{place[1]}"
        return EvalError(f"{self._file}{where}: {problem}")


def _named(path: strictjson.Path) -> str:
    return f'"{".".join(map(str, path))}"' if path else "The case"
