"""Env: the host's side of the six doors, the values that cross it, and two ready-made Envs."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeAlias, cast, runtime_checkable

from jsrun._text import compact_json, quoted
from jsrun._threads import call
from jsrun.errors import DoorFailure, NotWired
from jsrun.prompts import Prompt
from jsrun.spend import Spend
from jsrun.whitelist import matches
from ptc.outcome import UNSET, Unset
from ptc.wire import Json

Effort: TypeAlias = Literal["off", "low", "medium", "high"]


@dataclass(frozen=True, slots=True)
class AIOptions:
    """What `ai` asks for besides the prompt: a JSON Schema for the answer, an effort, and the tokens the run has left.

    None means not given; `tokens_left` is None for a run without a token ceiling.
    """

    schema: Mapping[str, Json] | None = None
    effort: Effort | None = None
    tokens_left: int | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """A model's answer: text, or JSON (None is JSON null, UNSET is no JSON), and what it cost."""

    text: str = ""
    json: "Json | Unset" = UNSET
    spend: Spend = field(default_factory=Spend)


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A tool's result, like `Answer`; `failed` makes it an exception for the program, with `text` as its message."""

    text: str = ""
    json: "Json | Unset" = UNSET
    spend: Spend = field(default_factory=Spend)
    failed: bool = False


@dataclass(frozen=True, slots=True)
class AskOptions:
    """What `ask` offers the person: texts to choose from, and what is taken if nobody says otherwise."""

    options: tuple[str, ...] = ()
    default: str = ""


@dataclass(frozen=True, slots=True)
class AskAnswer:
    """What the person said; `taking_over` ends the run with `text` as report, `unanswered` says nobody was there."""

    text: str = ""
    taking_over: bool = False
    unanswered: bool = False


@dataclass(frozen=True, slots=True)
class Note:
    """One remembered note; `at` is its time in RFC 3339, empty if unknown."""

    text: str
    at: str = ""


class Env(Protocol):
    """What a host does for a program, one method a door.

    A method raises `DoorFailure` to choose the text the program sees; any other exception fails the door too. An Env
    may also have `belt` (a Belt), implement `Prompted`, or implement `Journal`.
    """

    async def ai(self, prompt: Prompt, input: Json, options: AIOptions) -> Answer:
        """Answer `prompt` about `input`; a judgement's question comes as a prompt without a name."""
        ...

    async def tool(self, name: str, args: dict[str, Json]) -> ToolResult:
        """Call a tool; only names on the whitelist ever get here."""
        ...

    async def ask(self, question: str, options: AskOptions) -> AskAnswer:
        """Put a question to a person."""
        ...

    async def remember(self, note: str) -> None:
        """Keep a note for later runs."""
        ...

    async def recall(self, query: str) -> Sequence[Note]:
        """The notes that match, newest first; an empty query means all."""
        ...

    async def log(self, status: str) -> None:
        """Show what the program is doing."""
        ...


@runtime_checkable
class Prompted(Protocol):
    """An Env that wants all prompts of the bundle, once per run, after the guards and before the program starts."""

    def use_prompts(self, prompts: Mapping[str, str]) -> Awaitable[None] | None:
        """Take the bundle's prompts: bare name to text. Plain or async."""
        ...


class Memory(Protocol):
    """Notes that outlive a run; serves `remember` and `recall`."""

    async def remember(self, note: str) -> None:
        """Keep a note."""
        ...

    async def recall(self, query: str = "") -> Sequence[Note]:
        """The notes that match, newest first."""
        ...


class ToolBelt(Protocol):
    """What an Env needs of a Belt."""

    def names(self) -> Sequence[str]:
        """The names of the tools."""
        ...

    async def call(self, name: str, args: dict[str, Json]) -> ToolResult:
        """Check the arguments and call the tool."""
        ...


class UnwiredEnv:
    """The Env of a program that needs no host: every door fails with `NotWired`, by name."""

    async def ai(self, prompt: Prompt, input: Json, options: AIOptions) -> Answer:
        raise NotWired("ai")

    async def tool(self, name: str, args: dict[str, Json]) -> ToolResult:
        raise NotWired("tool")

    async def ask(self, question: str, options: AskOptions) -> AskAnswer:
        raise NotWired("ask")

    async def remember(self, note: str) -> None:
        raise NotWired("remember")

    async def recall(self, query: str) -> Sequence[Note]:
        raise NotWired("recall")

    async def log(self, status: str) -> None:
        raise NotWired("log")


class CallbackEnv:
    """An Env made of functions, each plain (then it runs in a thread) or async; a door without one is `NotWired`.

    - `ai(prompt, input, options)`, `tool(name, args)`: a `str` they return is text, `Answer` or `ToolResult` is
      itself, anything else is JSON.
    - `tools`: name to `function(args)`, answered like `tool`, or a Belt. Names it does not have go to `tool`, if given.
    - `ask(question, options)`: a `str` or an `AskAnswer`; None leaves the question unanswered.
    - `remember(note)`, `log(status)`: what they return is ignored.
    - `recall(query)`: a sequence of `Note`s, texts or `{"text", "at"}` objects; None means no notes.
    """

    def __init__(
        self,
        ai: Callable[[Prompt, Json, AIOptions], object] | None = None,
        tool: Callable[[str, dict[str, Json]], object] | None = None,
        tools: Mapping[str, Callable[[dict[str, Json]], object]] | ToolBelt | None = None,
        ask: Callable[[str, AskOptions], object] | None = None,
        remember: Callable[[str], object] | None = None,
        recall: Callable[[str], object] | None = None,
        log: Callable[[str], object] | None = None,
    ) -> None:
        self._ai = ai
        self._tool = tool
        self._ask = ask
        self._remember = remember
        self._recall = recall
        self._log = log
        self._functions: dict[str, Callable[[dict[str, Json]], object]] = {}
        self.belt: ToolBelt | None = None
        if isinstance(tools, Mapping):
            self._functions = {name.strip(): function for name, function in tools.items()}
        else:
            self.belt = tools

    async def ai(self, prompt: Prompt, input: Json, options: AIOptions) -> Answer:
        if self._ai is None:
            raise NotWired("ai")
        answer = await call(self._ai, prompt, input, options)
        if isinstance(answer, Answer):
            return answer
        if isinstance(answer, str):
            return Answer(text=answer)
        return Answer(json=cast(Json, answer))  # the runner checks that it is JSON

    async def tool(self, name: str, args: dict[str, Json]) -> ToolResult:
        function = self._functions.get(name.strip())
        if function is not None:
            answer = await call(function, args)
        elif self.belt is not None and (self._tool is None or matches(name, self.belt.names())):
            answer = await self.belt.call(name, args)
        elif self._tool is not None:
            answer = await call(self._tool, name, args)
        elif self._functions:
            raise DoorFailure(f"There is no tool {quoted(name)} here, only: {', '.join(sorted(self._functions))}.")
        else:
            raise NotWired("tool")
        if isinstance(answer, ToolResult):
            return answer
        if isinstance(answer, str):
            return ToolResult(text=answer)
        return ToolResult(json=cast(Json, answer))  # the runner checks that it is JSON

    async def ask(self, question: str, options: AskOptions) -> AskAnswer:
        if self._ask is None:
            raise NotWired("ask")
        return as_ask_answer(await call(self._ask, question, options))

    async def remember(self, note: str) -> None:
        if self._remember is None:
            raise NotWired("remember")
        await call(self._remember, note)

    async def recall(self, query: str) -> Sequence[Note]:
        if self._recall is None:
            raise NotWired("recall")
        return as_notes(await call(self._recall, query))

    async def log(self, status: str) -> None:
        if self._log is None:
            raise NotWired("log")
        await call(self._log, status)


def as_ask_answer(answer: object) -> AskAnswer:
    """An answer from what a host function returned: None is unanswered, a text or number is what was said."""
    if isinstance(answer, AskAnswer):
        return answer
    if answer is None:
        return AskAnswer(unanswered=True)
    if isinstance(answer, str):
        return AskAnswer(text=answer)
    if isinstance(answer, int | float):
        return AskAnswer(text=compact_json(answer))
    raise DoorFailure("The host's ask function must answer with a text.")


def as_notes(answer: object) -> tuple[Note, ...]:
    """Notes from what a host function returned: None, one text or note, or a sequence of them; else DoorFailure."""
    if answer is None:
        return ()
    if isinstance(answer, str | Note) or not isinstance(answer, Sequence):
        return (_as_note(answer),)
    return tuple(_as_note(item) for item in answer)


def _as_note(item: object) -> Note:
    if isinstance(item, Note):
        return item
    if isinstance(item, str):
        return Note(item)
    if isinstance(item, Mapping) and set(item) <= {"text", "at"}:
        text, at = item.get("text"), item.get("at", "")
        if isinstance(text, str) and isinstance(at, str):
            return Note(text, at)
    raise DoorFailure('The host\'s recall function must answer with notes: texts or {"text", "at"} objects.')
