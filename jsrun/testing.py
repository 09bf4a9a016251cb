"""Helpers for tests of subharnesses: an Env that plays a script, fakes, and assertions on a run's result."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, cast

from jsrun._text import compact_json
from jsrun.bundle import Bundle
from jsrun.env import (
    AIOptions,
    Answer,
    AskAnswer,
    AskOptions,
    Env,
    Memory,
    Note,
    ToolResult,
    as_notes,
)
from jsrun.errors import DoorFailure, EvalError
from jsrun.events import Observer
from jsrun.fuel import Fuel
from jsrun.journal import Journal
from jsrun.look import Look
from jsrun.prompts import Prompt
from jsrun.result import Reason, RunResult
from jsrun.runner import Runner
from jsrun.spend import Spend
from jsrun.whitelist import matches
from ptc.outcome import UNSET, Unset
from ptc.runtime import Runtime
from ptc.wire import Json

DOORS = ("ai", "tool", "ask", "remember", "recall", "log")

_KEYS = frozenset({"door", "ref", "input", "output", "text", "error", "spend", "times"})
_ASK_KEYS = frozenset({"text", "taking_over", "unanswered"})
# Where fake notes begin, so that no test depends on today.
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ScriptedCall:
    """One call a ScriptedEnv got: its door, ref and input as in the journal; as text, `ai summarise` or `log`."""

    door: str
    ref: str
    input: Json = None

    def __str__(self) -> str:
        return f"{self.door} {self.ref}".rstrip()


@dataclass(slots=True)
class _Item:
    """One entry of the script and how often it was taken."""

    source: str
    door: str
    ref: str | None
    input: "Json | Unset"
    output: "Json | Unset"
    text: str | None
    error: str | None
    spend: Spend
    times: int | Literal["any"]
    used: int = 0

    def takes(self, call: ScriptedCall) -> bool:
        if self.door != call.door or (self.times != "any" and self.used >= self.times):
            return False
        if self.ref is not None and self.ref != call.ref:
            return False
        if self.input is UNSET or contained(self.input, call.input):
            return True
        # The journal keeps an ai call's input beside its options; in a script the input alone is enough.
        return call.door == "ai" and isinstance(call.input, dict) and contained(self.input, call.input["input"])

    def left(self) -> int:
        return 0 if self.times == "any" else self.times - self.used


class ScriptedEnv:
    """An Env that answers from a list of items `{door, ref?, input?, output? | text? | error?, spend?, times?}`.

    A call takes the first unused item of its door and ref (an item without `ref` takes any) whose `input`, if given,
    is contained in the call's: for `tool` the arguments, for `ai` the input, for `ask` `{options, default}`. `times`
    is a count (1) or `"any"`. `output` is JSON, `text` text, `error` fails the door. An `ask` without an answer is
    unanswered; its `output` may be `{text, taking_over, unanswered}`. `recall` takes notes as `output`.

    A call that finds no item fails with a DoorFailure that shows the item to add, and is kept in `problems()`; only
    `log` needs no item unless the script has some for it. EvalError for an item that cannot be one.
    """

    def __init__(self, doors: Sequence[Mapping[str, object]] = ()) -> None:
        self.calls: list[ScriptedCall] = []
        self._items = [_item(number, entry) for number, entry in enumerate(doors, start=1)]
        self._unexpected: list[str] = []

    def problems(self) -> list[str]:
        """What did not go by the script so far: calls without an item, then items nobody called for."""
        left = [f"never called ({item.left()} more expected): {item.source}" for item in self._items if item.left()]
        return self._unexpected + left

    async def ai(self, prompt: Prompt, input: Json, options: AIOptions) -> Answer:
        given: dict[str, Json] = {"input": input}
        if options.schema is not None:
            given["schema"] = dict(options.schema)
        if options.effort is not None:
            given["effort"] = options.effort
        item = self._take(ScriptedCall("ai", prompt.text if prompt.name is None else prompt.name, given))
        return Answer(text=item.text or "", json=item.output, spend=item.spend)

    async def tool(self, name: str, args: dict[str, Json]) -> ToolResult:
        item = self._take(ScriptedCall("tool", name, args))
        return ToolResult(text=item.text or "", json=item.output, spend=item.spend)

    async def ask(self, question: str, options: AskOptions) -> AskAnswer:
        given: dict[str, Json] = {"options": list(options.options), "default": options.default}
        item = self._take(ScriptedCall("ask", question, given))
        if item.text is not None:
            return AskAnswer(text=item.text)
        if item.output is UNSET:
            return AskAnswer(unanswered=True)
        return _ask_answer(item.output)

    async def remember(self, note: str) -> None:
        self._take(ScriptedCall("remember", note))

    async def recall(self, query: str) -> Sequence[Note]:
        item = self._take(ScriptedCall("recall", query))
        return as_notes(item.text if item.output is UNSET else item.output)

    async def log(self, status: str) -> None:
        call = ScriptedCall("log", status)
        if any(item.door == "log" for item in self._items):
            self._take(call)
        else:
            self.calls.append(call)

    def _take(self, call: ScriptedCall) -> _Item:
        self.calls.append(call)
        item = next((item for item in self._items if item.takes(call)), None)
        if item is None:
            problem = f"The script has no item left for this call. Add to its doors: {_paste(call)}"
            self._unexpected.append(problem)
            raise DoorFailure(problem)
        item.used += 1
        if item.error is not None:
            raise DoorFailure(item.error, spend=item.spend)
        return item


class FakeLook:
    """A Look at a world that holds just these files and tools."""

    def __init__(self, files: Sequence[str] = (), tools: Sequence[str] = ()) -> None:
        self._files = frozenset(path.strip() for path in files)
        self._tools = tuple(tools)

    def file_exists(self, path: str) -> bool:
        return path.strip() in self._files

    def tool_on_belt(self, name: str) -> bool:
        return matches(name, self._tools)


class FakeMemory:
    """Notes in a list, oldest first in `notes`; the times of new ones are made up, one second apart."""

    def __init__(self, notes: Sequence[str | Note] = ()) -> None:
        self.notes: list[Note] = []
        for note in notes:
            if isinstance(note, Note):
                self.notes.append(note)
            else:
                self._add(note)

    async def remember(self, note: str) -> None:
        if note.strip():
            self._add(note.strip())

    async def recall(self, query: str = "") -> Sequence[Note]:
        wanted = query.strip().casefold()
        return [note for note in reversed(self.notes) if wanted in note.text.casefold()]

    def _add(self, text: str) -> None:
        at = _EPOCH + timedelta(seconds=len(self.notes))
        self.notes.append(Note(text, at.strftime("%Y-%m-%dT%H:%M:%SZ")))


def contained(part: object, whole: object) -> bool:
    """Is `part` contained in `whole`? Objects may have more keys, lists have equal length, `1` equals `1.0`, not true.

    Both are JSON values.
    """
    if isinstance(part, Mapping) and isinstance(whole, Mapping):
        return all(key in whole and contained(value, whole[key]) for key, value in part.items())
    if isinstance(part, list) and isinstance(whole, list):
        return len(part) == len(whole) and all(map(contained, part, whole))
    if isinstance(part, bool) or isinstance(whole, bool):
        return part is whole
    return part == whole


def assert_finished(result: RunResult, output: "Json | Unset" = UNSET) -> None:
    """The run finished, with just this output if one is given."""
    _expect(result.status == "finished", result, f"expected a finished run, got {_ending(result)}")
    if output is not UNSET:
        equal = contained(output, result.output) and contained(result.output, output)
        _expect(equal, result, f"expected the output {_shown(output)}")


def assert_fell_back(result: RunResult, reason: Reason | None = None, mentions: str = "") -> None:
    """The run fell back, for this reason and with these words in its sentence, if they are given."""
    _expect_ending(result, "fell_back", reason, mentions)


def assert_incomplete(result: RunResult, reason: Reason | None = None, mentions: str = "") -> None:
    """The run is incomplete, for this reason and with these words in its sentence, if they are given."""
    _expect_ending(result, "incomplete", reason, mentions)


def assert_calls(result: RunResult, expected: int | Sequence[str], env: ScriptedEnv | None = None) -> None:
    """The program made so many door calls, or the Env got just these, in order: `["ai summarise", "log ready"]`.

    A list needs the run's `env`; calls that never reach an Env (refused ones, notes in a bundle's own memory) are not
    in it.
    """
    if isinstance(expected, int):
        _expect(result.calls == expected, result, f"expected {expected} door calls, got {result.calls}")
        return
    if env is None:
        raise TypeError("assert_calls needs env= to compare a list of calls")
    calls = [str(call) for call in env.calls]
    _expect(calls == list(expected), result, f"expected the calls {list(expected)}, got {calls}")


def bundle(
    program: str,
    /,
    *,
    prompts: Mapping[str, str] | None = None,
    memory: Memory | None = None,
    look: Look | None = None,
    fuel: Fuel | Mapping[str, Json] | None = None,
    **manifest: object,
) -> Bundle:
    """A bundle of a program and what the test cares about; `name` and `purpose` are filled in. BundleError as always.

    `fuel` as a Fuel is that of the bundle; as a mapping, like all else that is given, it belongs to the manifest.
    """
    filled = {"name": "test", "purpose": "A bundle of a test.", **manifest}
    own = fuel if isinstance(fuel, Fuel) else None
    if fuel is not None and own is None:
        filled["fuel"] = fuel
    return Bundle(cast("dict[str, Json]", filled), program, prompts=prompts, memory=memory, look=look, fuel=own)


async def run_bundle(
    bundle: Bundle,
    input: object = None,
    env: Env | None = None,
    *,
    runtime: Runtime | None = None,
    fuel: Fuel | None = None,
    look: Look | None = None,
    journal: Journal | None = None,
    on_event: Observer | None = None,
) -> RunResult:
    """Run a bundle once, against a ScriptedEnv without items if there is no Env. Raises what `Runner.run` raises."""
    async with Runner(bundle, runtime=runtime) as runner:
        chosen = env if env is not None else ScriptedEnv()
        return await runner.run(input, chosen, fuel=fuel, look=look, journal=journal, on_event=on_event)


def _expect_ending(result: RunResult, status: str, reason: str | None, mentions: str) -> None:
    wanted = status if reason is None else f"{status} ({reason})"
    right = result.status == status and reason in (None, result.reason)
    _expect(right, result, f"expected {wanted}, got {_ending(result)}")
    _expect(mentions in result.sentence, result, f"expected a sentence with {mentions!r}, got {result.sentence!r}")


def _expect(true: bool, result: RunResult, problem: str) -> None:
    if not true:
        raise AssertionError(f"{problem}\n{json.dumps(result.to_json(), indent=2)}")


def _ending(result: RunResult) -> str:
    return result.status if result.reason is None else f"{result.status} ({result.reason}): {result.sentence}"


def _shown(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _ask_answer(output: Json) -> AskAnswer:
    if not isinstance(output, dict):
        return AskAnswer(text=output if isinstance(output, str) else compact_json(output))
    flags = {key: output.get(key) is True for key in ("taking_over", "unanswered")}
    return AskAnswer(text=str(output.get("text", "")), **flags)


def _paste(call: ScriptedCall) -> str:
    """The item that would answer `call`, for a person to complete."""
    item: dict[str, object] = {"door": call.door}
    if call.ref:
        item["ref"] = call.ref
    if call.door == "ai" and isinstance(call.input, dict):
        item["input"] = call.input["input"]
    elif call.door == "tool":
        item["input"] = call.input
    if call.door in ("ai", "tool", "ask"):
        item["text"] = ""
    elif call.door == "recall":
        item["output"] = []
    return _shown(item)


def _item(number: int, entry: Mapping[str, object]) -> _Item:
    """Check one entry of the script."""

    def refuse(problem: str) -> EvalError:
        return EvalError(f"item {number} of the doors: {problem}")

    def text(key: str) -> str | None:
        value = entry.get(key)
        if value is not None and not isinstance(value, str):
            raise refuse(f'"{key}" must be a text')
        return value

    if not isinstance(entry, Mapping):
        raise refuse("must be an object")
    if unknown := sorted(set(entry) - _KEYS):
        raise refuse(f'unknown key "{unknown[0]}", known are {", ".join(sorted(_KEYS))}')
    door = entry.get("door")
    if door not in DOORS:
        raise refuse(f'"door" must be one of {", ".join(DOORS)}')
    if len(answers := [key for key in ("output", "text", "error") if key in entry]) > 1:
        raise refuse(f'"{answers[0]}" and "{answers[1]}" exclude each other')
    times = entry.get("times", 1)
    if times != "any" and (isinstance(times, bool) or not isinstance(times, int) or times < 1):
        raise refuse('"times" must be a count of 1 or more, or "any"')
    try:
        spend = Spend.from_json(cast(Mapping[str, object], entry.get("spend") or {}))
    except (TypeError, ValueError) as error:
        raise refuse(f'"spend" is wrong: {error}') from error
    output = cast("Json | Unset", entry.get("output", UNSET))
    if door == "ask" and isinstance(output, dict) and not set(output) <= _ASK_KEYS:
        raise refuse(f"the output of an ask has the keys {', '.join(sorted(_ASK_KEYS))}")
    ref = text("ref")
    return _Item(
        source=_shown(dict(entry)),
        door=str(door),
        ref=None if ref is None else ref.strip(),
        input=cast("Json | Unset", entry.get("input", UNSET)),
        output=output,
        text=text("text"),
        error=text("error"),
        spend=spend,
        times=times,
    )
