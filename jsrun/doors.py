"""The six doors, seen from the host: what a program passed to one is read and checked before anything happens.

What arrives is never trusted: the guest half checks first, for good messages and positions, but a program can write to
the channel itself. `read_call` gives a `DoorCall` that is fine in every respect, or raises `Refused` with the text the
program sees.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn, TypeAlias

from jsrun._text import compact_json, quoted
from jsrun.canonical import json_text
from jsrun.env import AskOptions, Effort
from jsrun.journal import CALLS, Call
from jsrun.prompts import Prompt, RefProblem, find_prompt
from jsrun.values import ARGUMENT_BYTES, KIB, levels_problem, size_problem
from jsrun.whitelist import matches, trimmed
from ptc.outcome import UNSET, Unset
from ptc.wire import Json, number_text

DOORS: Final = CALLS

NAMESPACE: Final = "jsrun_doors"
"""The namespace `ptc` is given; the guest half takes it away before a program runs."""

PULSE: Final = "pulse"
"""The function beside the doors by which the host learns that a program it feeds from a record is at rest."""

NOTE_BYTES: Final = 64 * KIB
"""One note: memory is for findings, not for documents."""

STATUS_BYTES: Final = 4 * KIB
"""One status; it is meant to be a line."""

EFFORTS: Final[tuple[Effort, ...]] = ("off", "low", "medium", "high")

_ARGUMENTS: Final[Mapping[Call, int]] = {"ai": 3, "tool": 2, "ask": 2, "remember": 1, "recall": 1, "log": 2}
"""The most items of a message; the second one of `log` is how much of a long status the guest half left out."""

_WANTED: Final[Mapping[Call, str]] = {
    "tool": 'tool() needs the name of a tool, got a blank text. Write tool("NAME", {…}).',
    "ask": 'ask() needs a question, got a blank text. Write ask("QUESTION").',
    "remember": 'remember() needs a note, got a blank text. Write remember("NOTE").',
}


class Refused(Exception):
    """A call that is not made: the text for the program, and the ref as far as it is known."""

    def __init__(self, message: str, ref: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.ref = ref


@dataclass(frozen=True, slots=True)
class AiCall:
    """`ai`: the prompt, its input, and the options as given; the schema itself is not checked yet."""

    prompt: Prompt
    value: Json
    schema: dict[str, Json] | None = None
    effort: Effort | None = None

    @property
    def ref(self) -> str:
        return self.prompt.name or ""

    @property
    def input(self) -> Json:
        given: dict[str, Json] = {"input": self.value}
        if self.schema is not None:
            given["schema"] = self.schema
        if self.effort is not None:
            given["effort"] = self.effort
        return given


@dataclass(frozen=True, slots=True)
class ToolCall:
    """`tool`: a tool on the whitelist and its arguments."""

    ref: str
    input: dict[str, Json]


@dataclass(frozen=True, slots=True)
class AskCall:
    """`ask`: the question and what is offered with it."""

    ref: str
    options: AskOptions

    @property
    def input(self) -> Json:
        return {"options": list(self.options.options), "default": self.options.default}


@dataclass(frozen=True, slots=True)
class TextCall:
    """`remember`, `recall` and `log`: one text, which is the ref of all but `log`. `cut`: characters left out of it."""

    door: Call
    text: str
    cut: int = 0

    @property
    def ref(self) -> str:
        return "" if self.door == "log" else self.text

    @property
    def input(self) -> Unset:
        return UNSET


DoorCall: TypeAlias = AiCall | ToolCall | AskCall | TextCall


@dataclass(frozen=True, slots=True)
class Rules:
    """What a bundle allows its program: its prompts (bare name to text) and its whitelist."""

    prompts: Mapping[str, str]
    whitelist: Collection[str] = ()


def read_call(door: Call, message: Json, rules: Rules) -> DoorCall | None:
    """The call that `message` asks for; None for a blank status, which does nothing. Refused if it must not be made."""
    if isinstance(message, dict):
        _refuse_for_guest(door, message)
    if not isinstance(message, list) or not message or len(message) > _ARGUMENTS[door]:
        raise Refused(f"{door}() was not called in the way doors are called.")
    text = _text(door, message[0])
    if door == "log":
        return _status(text, message)
    # One JSON text of all arguments tells cheaply that they are neither too large nor too deep.
    json = json_text(message)
    if door == "ai":
        call: DoorCall = _ai(text, message, json, rules)
    elif door == "tool":
        call = _tool(text, message, json, rules)
    elif door == "ask":
        call = _ask(text, message)
    elif door == "remember":
        call = _note(text)
    else:
        call = TextCall(door, text)
    if problem := size_problem(message, json, ARGUMENT_BYTES, f"the arguments of {door}()"):
        raise Refused(problem, call.ref[:STATUS_BYTES])
    return call


def not_allowed(name: str, whitelist: Collection[str]) -> str:
    """The message for a tool that is not on the whitelist."""
    allowed = trimmed(whitelist)
    if not allowed:
        return f"The tool {quoted(name)} cannot be called: this subharness has no tools, it spends only on the model."
    return f"The tool {quoted(name)} is not on the whitelist. Allowed: {', '.join(allowed)}."


def _refuse_for_guest(door: Call, message: Mapping[str, Json]) -> NoReturn:
    """The guest half found arguments that cannot cross, and says why."""
    ref, reason, size = message.get("ref"), message.get("refused"), message.get("size")
    named = ref.strip() if isinstance(ref, str) else ""
    if isinstance(reason, str) and reason:
        raise Refused(reason, named)
    if isinstance(size, int):
        what = f"at least {size:,} bytes of JSON, {ARGUMENT_BYTES:,} are allowed"
        raise Refused(f"{door}() was called with too much: {what}.", named)
    raise Refused(f"{door}() was not called in the way doors are called.", named)


def _text(door: Call, value: Json) -> str:
    """A text argument, trimmed; nothing is a blank text."""
    if isinstance(value, str):
        return value.strip()
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return number_text(value)
    raise Refused(f"{door}() expects text, got {_kind(value)}.")


def _ai(text: str, message: Sequence[Json], json: str, rules: Rules) -> AiCall:
    name = text if text in rules.prompts else find_prompt(text, rules.prompts)
    if isinstance(name, RefProblem):
        raise Refused(str(name), text)
    options = _options("ai", name, message[2] if len(message) > 2 else None)
    schema, effort = options.get("schema"), options.get("effort")
    if schema is not None and not isinstance(schema, dict):
        raise Refused(f'ai() takes "schema" as a JSON Schema object, got {_kind(schema)}.', name)
    if effort is not None and effort not in EFFORTS:
        shown = quoted(effort) if isinstance(effort, str) else _kind(effort)
        raise Refused(f'ai() takes "effort" as one of {", ".join(EFFORTS)}, got {shown}.', name)
    value = message[1] if len(message) > 1 else None
    if problem := levels_problem(value, json, "input") or levels_problem(schema, json, "options.schema"):
        raise Refused(problem, name)
    return AiCall(Prompt(name, rules.prompts[name]), value, schema, effort)


def _tool(text: str, message: Sequence[Json], json: str, rules: Rules) -> ToolCall:
    if not text:
        raise Refused(_WANTED["tool"])
    args = message[1] if len(message) > 1 else None
    if args is None:
        args = {}
    if not isinstance(args, dict):
        raise Refused(f"tool() takes the arguments as one object, got {_kind(args)}.", text)
    if problem := levels_problem(args, json, "args"):
        raise Refused(problem, text)
    if not matches(text, rules.whitelist):
        raise Refused(not_allowed(text, rules.whitelist), text)
    return ToolCall(text, args)


def _ask(text: str, message: Sequence[Json]) -> AskCall:
    if not text:
        raise Refused(_WANTED["ask"])
    given = _options("ask", text, message[1] if len(message) > 1 else None)
    choices, default = given.get("options"), given.get("default")
    if choices is not None and not isinstance(choices, list):
        raise Refused(f'ask() takes "options" as a list of texts, got {_kind(choices)}.', text)
    options = tuple(_choice(item, f"options.options[{number}]", text) for number, item in enumerate(choices or ()))
    return AskCall(
        text, AskOptions(options, "" if default is None else _choice(default, "options.default", text, True))
    )


def _choice(value: Json, path: str, ref: str, blank: bool = False) -> str:
    try:
        text = _text("ask", value)
    except Refused:
        raise Refused(f"{path}: expects text, got {_kind(value)}.", ref) from None
    if not text and not blank:
        raise Refused(f"{path}: expects text, got a blank one.", ref)
    return text


def _note(text: str) -> TextCall:
    if not text:
        raise Refused(_WANTED["remember"])
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > NOTE_BYTES:
        raise Refused(f"remember() takes notes of at most {NOTE_BYTES:,} bytes, this one has {size:,}.")
    return TextCall("remember", text)


def _status(text: str, message: Sequence[Json]) -> TextCall | None:
    if not text:
        return None
    omitted = message[1] if len(message) > 1 else 0
    dropped = omitted if isinstance(omitted, int) and omitted > 0 else 0
    data = text.encode("utf-8", "surrogatepass")
    if len(data) > STATUS_BYTES:
        kept = data[:STATUS_BYTES]
        while kept and data[len(kept)] & 0xC0 == 0x80:  # not within a character
            kept = kept[:-1]
        head = kept.decode("utf-8", "surrogatepass")
        dropped += len(text) - len(head)
        text = head
    if dropped:
        text = f"{text}… ({dropped:,} more characters)"
    return TextCall("log", text, dropped)


def _options(door: Call, ref: str, options: Json) -> Mapping[str, Json]:
    if options is None:
        return {}
    if isinstance(options, dict):
        return options
    hint = ""
    if isinstance(options, list) and door == "ai":
        hint = " A function given to map() gets index and list too: write items.map(item => ai(item))."
    raise Refused(f"{door}() takes its options as an object, got {_kind(options)}.{hint}", ref)


def _kind(value: Json) -> str:
    """What a value is, for people; a number by its digits."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an array"
    return "a text" if isinstance(value, str) else compact_json(value)
