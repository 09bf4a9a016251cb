"""The doors at work: every call is booked, checked, written down, made, written down again, metered and answered."""

import asyncio
import inspect
import re
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from jsrun import env as envs
from jsrun._session import NOTHING_SPENT, Answer, Session, Stopped
from jsrun._text import cut
from jsrun.canonical import json_text, parse_json
from jsrun.doors import DOORS, AiCall, AskCall, DoorCall, Refused, Rules, TextCall, ToolCall, read_call
from jsrun.endings import taken_over, unanswered
from jsrun.env import AIOptions, Env, Memory, Note
from jsrun.errors import DoorFailure
from jsrun.journal import Call
from jsrun.prompts import Prompt
from jsrun.schemas import RegexTester, Schema
from jsrun.spend import Spend
from jsrun.values import Unsendable, answer_text
from ptc.outcome import UNSET
from ptc.wire import Json

T = TypeVar("T")

Envelope = list[Json]
"""What a door call answers over the channel: `[now]`, `[now, value]` or `[now, null, ref, message]`."""

_SCHEMAS: Final = 64
"""Answer schemas kept ready in a runner; a program has a handful, and may compute one anew for each call."""

# One code fence around an answer, as models like to write it.
_FENCE = re.compile(r"\s*```[A-Za-z0-9_-]*[ \t]*\r?\n(.*?)\r?\n?[ \t]*```\s*", re.DOTALL)


class SchemaCache:
    """Checked answer schemas by their JSON text."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Schema | str] = OrderedDict()

    async def get(self, schema: Mapping[str, Json]) -> Schema | str:
        """The schema ready for use, or what is wrong with it."""
        text = json_text(schema)
        known = self._known.get(text)
        if known is None:
            loaded = await Schema.load(schema, "options.schema")
            known = loaded if isinstance(loaded, Schema) else " ".join(map(str, loaded))
            self._known[text] = known
            if len(self._known) > _SCHEMAS:
                self._known.popitem(last=False)
        else:
            self._known.move_to_end(text)
        return known


class Calls:
    """The host functions of one run."""

    def __init__(
        self,
        session: Session,
        env: Env,
        rules: Rules,
        *,
        memory: Memory | None,
        schemas: SchemaCache,
        tester: RegexTester | None,
        show_errors: bool,
    ) -> None:
        self._session = session
        self._env = env
        self._rules = rules
        self._memory: Memory | Env = env if memory is None else memory
        self._schemas = schemas
        self._tester = tester
        self._show_errors = show_errors

    def functions(self) -> dict[str, Callable[[Json], Awaitable[Envelope]]]:
        """One function a door, for the namespace."""
        return {door: self._function(door) for door in DOORS}

    async def judge(self, question: str, input: Json) -> envs.Answer | None:
        """Ask the model a judgement's question: journaled and billed like any call, but no step. None if it failed."""
        session = self._session
        row = await session.open("ai", question, {"input": input}, step=False)
        given: list[envs.Answer] = []

        async def ask() -> Answer:
            result = await _settled(self._env.ai(Prompt(None, question), input, AIOptions()))
            answer = _expect(result, envs.Answer, "ai", "an Answer")
            given.append(answer)
            return _value_answer(answer.text, answer.json, answer.spend)

        began = time.perf_counter()
        answer = await self._guarded("ai", ask)
        await session.close(row, answer, time.perf_counter() - began)
        return given[0] if given and answer.err is None else None

    def _function(self, door: Call) -> Callable[[Json], Awaitable[Envelope]]:
        return lambda message: self._serve(door, message)

    async def _serve(self, door: Call, message: Json) -> Envelope:
        session = self._session
        session.book_step()
        schema: Schema | None = None
        try:
            call = read_call(door, message, self._rules)
            if call is None:
                return [0]  # nothing happened, so the clock stays where it is
            if isinstance(call, AiCall) and call.schema is not None:
                schema = await self._checked(call.schema, call.ref)
        except Refused as refused:
            return await self._refuse(door, refused)
        status = call if isinstance(call, TextCall) and call.door == "log" else None
        row = await session.open(door, call.ref, call.input, note=status.text if status else None)
        began = time.perf_counter()
        answer = await self._guarded(door, lambda: self._make(call, schema))
        now = await session.close(row, answer, time.perf_counter() - began)
        if status is not None:
            if answer.err is None:
                session.show(status.text, status.cut)
            return [now]
        if answer.err is not None:
            return [now, None, call.ref, answer.shown]
        return [now] if answer.value is UNSET else [now, answer.value]

    async def _refuse(self, door: Call, refused: Refused) -> Envelope:
        now = await self._session.record(door, refused.ref, "refused", err=refused.message)
        return [now] if door == "log" else [now, None, refused.ref, cut(refused.message)]

    async def _checked(self, raw: dict[str, Json], ref: str) -> Schema:
        schema = await self._schemas.get(raw)
        self._session.check()
        if isinstance(schema, str):
            raise Refused(f'ai() takes "schema" as a valid JSON Schema. {schema}', ref)
        return schema

    # --- calling the host ---

    async def _guarded(self, door: Call, make: Callable[[], Awaitable[Answer]]) -> Answer:
        """Make the call; whatever goes wrong in it is an answer too."""
        try:
            answer = await make()
        except DoorFailure as failure:
            text = failure.message.strip() or _failed(door)
            spend = failure.spend if isinstance(failure.spend, Spend) else NOTHING_SPENT
            return Answer(err=text, shown=cut(text), spend=spend)
        except _BadAnswer as bad:
            return Answer(err=str(bad), shown=cut(str(bad)), spend=bad.spend, output=bad.output)
        except (Stopped, GeneratorExit):
            raise
        except (KeyboardInterrupt, SystemExit) as error:
            self._session.stop_for(error)
            raise Stopped from None
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._session.ending is not None or (task is not None and task.cancelling()):
                raise  # it is the run that is cancelled, not the host's function
            text = f"The host's {door} function was cancelled."
            return Answer(err=text, shown=text)
        except BaseException as error:
            text = str(error).strip() or _failed(door)
            return Answer(err=text, shown=cut(text) if self._show_errors else _failed(door))
        return answer

    async def _make(self, call: DoorCall, schema: Schema | None) -> Answer:
        match call:
            case AiCall():
                return await self._ai(call, schema)
            case ToolCall(name, args):
                result = await _settled(self._env.tool(name, args))
                return _tool_answer(_expect(result, envs.ToolResult, "tool", "a ToolResult"))
            case AskCall(question, options):
                answer = await _settled(self._env.ask(question, options))
                return _ask_answer(question, options.default, _expect(answer, envs.AskAnswer, "ask", "an AskAnswer"))
            case TextCall("remember", text):
                await _settled(self._memory.remember(text))
                return Answer()
            case TextCall("recall", text):
                return _notes_answer(await _settled(self._memory.recall(text)))
            case TextCall(_, text):
                await _settled(self._env.log(text))
                return Answer()

    async def _ai(self, call: AiCall, schema: Schema | None) -> Answer:
        options = AIOptions(call.schema, call.effort, self._session.tokens_left())
        result = await _settled(self._env.ai(call.prompt, call.value, options))
        answer = _expect(result, envs.Answer, "ai", "an Answer")
        plain = _value_answer(answer.text, answer.json, answer.spend)
        if schema is None:
            return plain
        value = answer.json if answer.json is not UNSET else _json_of(answer.text)
        if value is UNSET:
            raise _BadAnswer("The model's answer is not JSON, as the schema asks for.", answer.spend, plain.output)
        problems = await schema.problems(value, "answer", self._tester, object_root=False)
        if problems:
            text = f"The model's answer does not fit the schema. {' '.join(problems)}"
            raise _BadAnswer(text, answer.spend, plain.output)
        if answer.json is not UNSET:
            return plain
        return replace(plain, value=value, output=_sendable(value, answer.spend))


class _BadAnswer(Exception):
    """An answer that was given, and may have cost something, but cannot be used."""

    def __init__(self, message: str, spend: Spend = NOTHING_SPENT, output: str | None = None) -> None:
        super().__init__(message)
        self.spend = spend
        self.output = output


def _failed(door: Call) -> str:
    return f"The host's {door} function failed."


async def _settled(result: object) -> object:
    """What a host method gives, whether or not it is async."""
    return await result if inspect.isawaitable(result) else result


def _expect(answer: object, kind: type[T], door: Call, what: str) -> T:
    if not isinstance(answer, kind):
        raise _BadAnswer(f"The host's {door} function must answer with {what}.")
    spend: object = getattr(answer, "spend", NOTHING_SPENT)
    if not isinstance(spend, Spend):
        raise _BadAnswer(f"The host's {door} function must state what a call cost as a Spend.")
    return answer


def _sendable(value: object, spend: Spend) -> str:
    try:
        return answer_text(value)
    except Unsendable as error:
        raise _BadAnswer(f"{error}.", spend) from None


def _value_answer(text: str, value: object, spend: Spend) -> Answer:
    """The JSON of an answer if it has one, else its text."""
    given: Any = text if value is UNSET else value
    output = _sendable(given, spend)
    return Answer(value=given, output=output, spend=spend)


def _tool_answer(result: envs.ToolResult) -> Answer:
    if not result.failed:
        return _value_answer(result.text, result.json, result.spend)
    text = result.text if isinstance(result.text, str) else ""
    if not text.strip() and isinstance(result.json, str):
        text = result.json
    raise _BadAnswer(text.strip() or "The tool failed.", result.spend)


def _ask_answer(question: str, default: str, answer: envs.AskAnswer) -> Answer:
    if answer.taking_over:
        return Answer(output=_sendable(answer.text, NOTHING_SPENT), ending=taken_over(answer.text))
    if not answer.unanswered:
        return _value_answer(answer.text, UNSET, NOTHING_SPENT)
    if default:
        return Answer(value=default, output=json_text(default), note="default taken")
    return Answer(ending=unanswered(question))


def _notes_answer(notes: object) -> Answer:
    if not isinstance(notes, Sequence) or not all(isinstance(note, Note) for note in notes):
        raise _BadAnswer("The host's recall function must answer with a list of Notes.")
    given: list[Json] = [{"text": note.text, "at": note.at} for note in notes]
    return Answer(value=given, output=_sendable(given, NOTHING_SPENT))


def _json_of(text: str) -> Any:
    """The JSON in a model's text, which may stand in one code fence; UNSET if there is none."""
    if not isinstance(text, str):
        return UNSET
    fenced = _FENCE.fullmatch(text)
    try:
        return parse_json(fenced[1] if fenced else text)
    except ValueError:
        return UNSET
