"""Manifest: what a bundle says about itself. `manifest_reader` makes one from text and finds all that is wrong."""

import json
import re
from collections.abc import Mapping
from typing import Any, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, PrivateAttr

from jsrun.fuel import Fuel
from jsrun.units import MINUTE, SECOND
from ptc.wire import Json

Engine: TypeAlias = Literal["quickjs", "v8"]
GuardKind: TypeAlias = Literal["file", "tool", "field", "judgement"]

# Most jobs worth a program end within minutes; a quarter of an hour forgives a slow model.
DEFAULT_FLOOR = 15 * MINUTE
# A model writes some 50,000 tokens in a minute when calls run side by side.
DEFAULT_STEP = MINUTE
DEFAULT_PER_TOKENS = 50_000

_SURROGATES = re.compile("[\ud800-\udfff]")


class Guard(BaseModel):
    """One condition that must hold before the program starts; a text its kind does not need is None."""

    model_config = ConfigDict(strict=True, frozen=True)

    kind: GuardKind
    file: str | None = None
    tool: str | None = None
    field: str | None = None
    pattern: str | None = None
    question: str | None = None
    because: str | None = None


class Manifest(BaseModel):
    """Identity, shapes, whitelist, guards and limits of a bundle. Durations are nanoseconds, 0 means the default.

    `whitelist` holds trimmed names, each once; `input` and `output` are JSON Schemas, None for none. What `fuel` states
    is not clamped yet. Building one checks types only; `Bundle` checks the rest.
    """

    model_config = ConfigDict(strict=True, frozen=True)

    name: str
    purpose: str
    deadline_floor: int = 0
    deadline_step: int = 0
    deadline_per_tokens: int = 0
    input: dict[str, Any] | None = None
    output: dict[str, Any] | None = None
    whitelist: tuple[str, ...] = ()
    guards: tuple[Guard, ...] = ()
    fuel: Fuel = Fuel()
    engine: Engine = "quickjs"
    prior_anchors: tuple[str, ...] = ()
    cues: tuple[str, ...] = ()
    evals: tuple[str, ...] = ()
    provenance: tuple[str, ...] = ()

    _raw: dict[str, Json] | None = PrivateAttr(default=None)

    @classmethod
    def of_json(cls, raw: dict[str, Json], fields: Mapping[str, Any]) -> Self:
        """A manifest of checked `fields` that remembers the JSON it was written as."""
        manifest = cls(**fields)
        manifest._raw = raw
        return manifest

    def deadline(self, tokens: int) -> float:
        """The wall of a run with a budget of `tokens` (0: none), in seconds: the larger of floor and steps."""
        step, per = self.deadline_step, self.deadline_per_tokens
        if step <= 0 or per <= 0:
            step, per = DEFAULT_STEP, DEFAULT_PER_TOKENS
        floor = self.deadline_floor if self.deadline_floor > 0 else DEFAULT_FLOOR
        return max(floor, tokens // per * step) / SECOND

    def to_json(self) -> dict[str, Json]:
        """The manifest as JSON: as it was written, or what is set."""
        if self._raw is not None:
            return self._raw
        raw: dict[str, Json] = self.model_dump(exclude_defaults=True, exclude={"guards", "fuel"})
        for name, value in raw.items():
            if isinstance(value, tuple):
                raw[name] = list(value)
        if self.guards:
            raw["guards"] = [guard.model_dump(exclude_none=True) for guard in self.guards]
        if self.fuel != Fuel():
            raw["fuel"] = _fuel_json(self.fuel)
        return raw

    def to_text(self) -> str:
        """The text of manifest.json: two-space indent, final newline. Reading and writing it again changes nothing."""
        text = json.dumps(self.to_json(), indent=2, ensure_ascii=False) + "\n"
        return _SURROGATES.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def _fuel_json(fuel: Fuel) -> dict[str, Json]:
    """Fuel as a manifest writes it: times in nanoseconds."""
    stated: dict[str, Json] = {name: value for name, value in fuel.to_json().items() if value is not None}
    for name in ("wall", "compute"):
        seconds = stated.get(name)
        if isinstance(seconds, int | float):
            stated[name] = round(seconds * SECOND)
    return stated
