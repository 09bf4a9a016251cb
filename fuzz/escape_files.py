"""Reading the escape programs: one file a technique, its header says how it is run and how it must end.

The header is the comment lines at the top, `// key: value`. The title is text, every other value is JSON.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from fuzz.engines import EngineName

__all__ = ["CORPUS", "Ending", "Escape", "Header", "read", "read_all"]

CORPUS: Final = Path(__file__).with_name("corpus") / "escapes"


_FAMILIES: Final = 35
"""The families of techniques, see README.md beside the programs."""


class Ending(BaseModel):
    """How a run must end. What is given must be exactly so; what is not given is not looked at.

    By `ptc`: `value`, or `nothing` for a run that finishes without one, or the `kind` of its failure, or the Python
    exception that it `raises`. By `jsrun`: `status` with `reason`, and `output`; or the `refused` codes of the errors
    that are found in the bundle. `says`: texts that are in the message. `logs`: the entries' texts. `entries`: their
    number. `calls`: `[name, argument]` of all host functions called, in order; `called`: their number. `notes`: what
    was remembered.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    value: Any = None
    nothing: bool = False
    kind: str | None = None
    raises: str | None = None
    status: str | None = None
    reason: str | None = None
    output: Any = None
    refused: list[str] | None = None
    says: list[str] = Field(default_factory=list)
    logs: list[str] | None = None
    entries: int | None = None
    calls: list[list[Any]] | None = None
    called: int | None = None
    notes: list[str] | None = None

    @model_validator(mode="after")
    def _one_ending(self) -> Self:
        given = self.model_fields_set & {"value", "nothing", "kind", "raises", "status", "refused"}
        if len(given) != 1:
            raise ValueError("exactly one of value, nothing, kind, raises, status, refused is needed")
        return self

    @property
    def ends_by_itself(self) -> bool:
        """Whether the process is not stopped from outside."""
        return self.kind in (None, "exception", "invalid-output", "stuck") and self.status != "incomplete"


class Header(BaseModel):
    """What the top of a file says.

    family: the number of the family of techniques. engines: those that can run it. form: of the program. via: whether
    it is a body for `ptc` or the program.js of a bundle for `jsrun`. within: seconds it may take on a quiet machine.
    limits: over the small ones every program gets, fields of `ptc.Limits` or of `jsrun.Fuel`. runs: so many runs of one
    image, one after the other; together: so many at the same time. Each run must end as expected. input: of the run.
    prompts, memory, whitelist: of the bundle. replay: the recorded run must replay as the same.
    """

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")

    title: str = Field(min_length=10)
    family: int = Field(ge=1, le=_FAMILIES)
    via: Literal["ptc", "jsrun"] = "ptc"
    form: Literal["sync", "async"]
    engines: list[EngineName] = Field(min_length=1)
    expect: Ending
    expect_on: dict[EngineName, Ending] = Field(default_factory=dict)
    within: float = Field(gt=0, le=10)
    limits: dict[str, float | int] = Field(default_factory=dict)
    runs: int = Field(default=1, ge=1)
    together: int = Field(default=1, ge=1)
    input: Any = None
    prompts: dict[str, str] = Field(default_factory=dict)
    memory: list[str] = Field(default_factory=list)
    whitelist: list[str] | None = None
    replay: bool = False

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.form == "sync" and "v8" in self.engines:
            raise ValueError("v8 runs no sync programs")
        for ending in (self.expect, *self.expect_on.values()):
            of_bundles = bool(ending.model_fields_set & {"status", "refused"})
            if of_bundles != (self.via == "jsrun"):
                raise ValueError(f"the ending is not one of {self.via}")
        return self

    def ending(self, engine: EngineName) -> Ending:
        """The ending with this engine."""
        return self.expect_on.get(engine, self.expect)


@dataclass(frozen=True, slots=True)
class Escape:
    """One program of the corpus. `code` is the whole file, so that positions are those of the file."""

    name: str
    header: Header
    code: str


def read(path: Path) -> Escape:
    """Read one program. ValueError, naming the file and what is wrong, for a bad header."""
    code = path.read_text("utf-8")
    members: dict[str, Any] = {}
    for number, line in enumerate(code.split("\n"), 1):
        if not line.startswith("// "):
            break
        key, colon, value = line[3:].partition(": ")
        if not colon or key in members:
            raise ValueError(f"{path.name}:{number}: a header line is `// key: value`, each key once")
        try:
            members[key] = value if key == "title" else json.loads(value)
        except ValueError as error:
            raise ValueError(f"{path.name}:{number}: {key} is no JSON: {error}") from None
    try:
        return Escape(path.stem, Header.model_validate(members), code)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"])) or "header"
        raise ValueError(f"{path.name}: {place}: {first['msg']}") from None


def read_all(directory: Path = CORPUS) -> list[Escape]:
    """Every program, in the order of their names. ValueError as for `read`."""
    return [read(path) for path in sorted(directory.glob("*.js"))]
