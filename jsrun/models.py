"""Models for `LocalEnv`: two that need no network, those of other packages, and those of the `ai` extra."""

import importlib.util
import json
from importlib.metadata import entry_points
from pathlib import Path
from typing import NoReturn, Protocol, cast

from jsrun._text import quoted
from jsrun.env import AIOptions, Answer
from jsrun.errors import DoorFailure, JsrunError
from jsrun.spend import Spend
from ptc.wire import Json

# Where other packages announce models: an entry point is a function of the text after "NAME:" that gives a Model.
GROUP = "jsrun.models"

_FORMS = f'Write PROVIDER:NAME, script:FILE, echo:, or the name of an entry point of the group "{GROUP}".'


class Model(Protocol):
    """Anything that answers a system and a user message."""

    async def answer(self, system: str, user: str, options: AIOptions) -> Answer:
        """Answer `user` as `system` says; with `options.schema` preferably in JSON. DoorFailure if it cannot."""
        ...


class EchoModel:
    """Answers with the user message, unchanged: shows what a model would be given, and costs nothing."""

    async def answer(self, system: str, user: str, options: AIOptions) -> Answer:
        return Answer(text=user, spend=Spend(model="echo", calls=1))


class ScriptModel:
    """Answers with the items of a script, in order; a text is a text, anything else is JSON.

    DoorFailure when the script is used up.
    """

    def __init__(self, answers: list[Json], name: str = "script") -> None:
        self._answers = list(answers)
        self._next = 0
        self._name = name

    async def answer(self, system: str, user: str, options: AIOptions) -> Answer:
        if self._next >= len(self._answers):
            raise DoorFailure(f"The script {quoted(self._name)} has no answer after number {len(self._answers)}.")
        item = self._answers[self._next]
        self._next += 1
        spend = Spend(model="script", calls=1)
        return Answer(text=item, spend=spend) if isinstance(item, str) else Answer(json=item, spend=spend)

    @classmethod
    def load(cls, path: str | Path) -> "ScriptModel":
        """The script in a UTF-8 file: one JSON array of answers, or one JSON value after another.

        JsrunError if the file cannot be read or is not JSON.
        """
        try:
            text = Path(path).read_text(encoding="utf-8-sig")
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise JsrunError(f"The script {quoted(str(path))} cannot be read: {reason}.") from error
        return cls(_values(text, str(path)), str(path))


def resolve_model(spec: str) -> Model:
    """The model a model string names: `echo:`, `script:FILE`, an entry point, else `PROVIDER:NAME` of the `ai` extra.

    JsrunError if there is none, saying what to install where something is missing.
    """
    scheme, colon, rest = spec.strip().partition(":")
    if scheme == "echo" and not rest:
        return EchoModel()
    if scheme == "script" and rest:
        return ScriptModel.load(rest)
    for entry in entry_points(group=GROUP, name=scheme):
        return _from_entry_point(entry.load(), spec, rest)
    if not colon or not scheme or not rest or scheme in ("echo", "script"):
        raise JsrunError(f"There is no model {quoted(spec)}. {_FORMS}")
    if importlib.util.find_spec("pydantic_ai") is None:
        raise JsrunError(f'The model {quoted(spec)} needs the "ai" extra. Run: pip install "subharness[ai]"')
    from jsrun._pydantic_ai import PydanticAIModel  # only here: the extra is optional

    return PydanticAIModel.named(spec.strip())


def _from_entry_point(factory: object, spec: str, rest: str) -> Model:
    model = factory(rest) if callable(factory) else factory
    if not callable(getattr(model, "answer", None)):
        raise JsrunError(f'The entry point of the model {quoted(spec)} gives nothing with an "answer" method.')
    return cast(Model, model)


def _values(text: str, name: str) -> list[Json]:
    """All JSON values of `text`; if it is one array, its items."""
    decoder = json.JSONDecoder(parse_constant=_refuse_constant)
    values: list[Json] = []
    at = _skip_blanks(text, 0)
    while at < len(text):
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError) as error:
            place = error.pos if isinstance(error, json.JSONDecodeError) else at
            line, column = text.count("\n", 0, place) + 1, place - text.rfind("\n", 0, place)
            raise JsrunError(f"{name}:{line}:{column}: the script is not JSON. Write an array of answers.") from error
        values.append(value)
        at = _skip_blanks(text, at)
    if len(values) == 1 and isinstance(values[0], list):
        return values[0]
    return values


def _skip_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\r\n":
        at += 1
    return at


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
