"""The doors at work: every call is booked, checked, written down, made, written down again, metered and answered."""

import asyncio
import inspect
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from jsrun import env as envs
from jsrun._session import NOTHING_SPENT, Answer, Session, Stopped
from jsrun._text import cut
from jsrun.canonical import json_text, parse_json
from jsrun.doors import DOORS, PULSE, AiCall, AskCall, DoorCall, Refused, Rules, TextCall, ToolCall, read_call
from jsrun.endings import taken_over, unanswered
from jsrun.env import AIOptions, Env, Memory, Note
from jsrun.errors import DoorFailure
from jsrun.journal import Call, EntryRow, storable
from jsrun.prompts import Prompt
from jsrun.replay import Made
from jsrun.schemas import RegexTester, Schema
from jsrun.spend import Spend
from jsrun.values import Unsendable, answer_text, json_in
from ptc.outcome import UNSET
from ptc.wire import Json

T = TypeVar("T")

Envelope = list[Json]
"""What a door call answers over the channel: `[now]`, `[now, value]` or `[now, null, ref, message]`."""

_SCHEMAS: Final = 64
"""Answer schemas kept ready in a runner; a program has a handful, and may compute one anew for each call."""

_SCHEMA_CHARS: Final = 64 * 1024
"""Of an answer schema as JSON: checking one takes the host up to half a second at this size, which no fuel counts."""

# The note of a row whose error text the program has not seen (`show_errors=False`).
_HIDDEN: Final = "error text hidden"

_UNSURE: Final = "This call was under way when the run was interrupted, so nobody knows whether it was done."


class SchemaCache:
    """Checked answer schemas by their JSON text."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Schema | str] = OrderedDict()

    async def get(self, schema: Mapping[str, Json]) -> Schema | str:
        """The schema ready for use, or what is wrong with it."""
        text = json_text(schema)
        if len(text) > _SCHEMA_CHARS:
            return f"options.schema: it has {len(text):,} characters as JSON, {_SCHEMA_CHARS:,} is the most."
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

    def functions(self) -> dict[str, Callable[[Json], Awaitable[Json]]]:
        """One function a door, and that of the pulse, for the namespace."""
        return {**{door: self._function(door) for door in DOORS}, PULSE: self._pulse}

    async def judge(self, question: str, input: Json) -> envs.Answer | None:
        """Ask the model a judgement's question: journaled and billed like any call, but no step. None if it failed."""
        session = self._session
        seq = session.next_seq()
        if session.past is not None:
            recorded = await session.past.recorded(seq, Made("ai", question, {"input": input}))
            if recorded is not None:
                return _judged(recorded)
        row = await session.open(seq, "ai", question, {"input": input}, step=False)
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

    async def fall_back(self, sentence: str) -> None:
        """Journal why the program is not run."""
        session = self._session
        seq = session.next_seq()
        if session.past is not None:
            recorded = await session.past.recorded(seq, Made("log", "", status=sentence))
            if recorded is not None:
                return
        await session.record(seq, "log", "", "ok", note=sentence)

    def _function(self, door: Call) -> Callable[[Json], Awaitable[Json]]:
        return lambda message: self._serve(door, message)

    async def _pulse(self, _message: Json) -> Json:
        past = self._session.past
        return past is not None and await past.pulse()

    async def _serve(self, door: Call, message: Json) -> Envelope:
        session = self._session
        session.book_step()
        try:
            call = read_call(door, message, self._rules)
        except Refused as refused:
            return await self._refuse(session.next_seq(), door, refused)
        if call is None:
            await session.blank()
            return [0]  # nothing happened, so the clock stays where it is
        seq = session.next_seq()  # now, in the order of the program, before anything is waited for
        schema: Schema | None = None
        if isinstance(call, AiCall) and call.schema is not None:
            try:
                schema = await self._checked(call.schema, call.ref)
            except Refused as refused:
                return await self._refuse(seq, door, refused)
        past = session.past
        if past is None:
            return await self._live(seq, door, call, schema)
        recorded = await past.recorded(seq, Made(door, call.ref, call.input, status=_status(call)))
        if recorded is not None:
            return self._again(call, recorded)
        async with past.slots:
            return await self._live(seq, door, call, schema)

    async def _live(self, seq: int, door: Call, call: DoorCall, schema: Schema | None) -> Envelope:
        session = self._session
        status = _status(call)
        row = await session.open(seq, door, call.ref, call.input, note=status)
        began = time.perf_counter()
        answer = await self._guarded(door, lambda: self._make(seq, call, schema))
        now = await session.close(row, answer, time.perf_counter() - began)
        if answer.err is None:
            self._show(call)
        elif status is None:
            return [now, None, call.ref, answer.shown]
        return [now] if answer.value is UNSET else [now, answer.value]

    def _again(self, call: DoorCall, row: EntryRow) -> Envelope:
        """The answer that a recorded call got."""
        now = self._session.now_ms if row.clock_ms is None else row.clock_ms
        if row.state == "ok":
            self._show(call)
        elif row.call != "log":
            return [now, None, call.ref, _failed(row.call) if row.note == _HIDDEN else cut(row.err or "")]
        return [now] if row.output is None else [now, _parsed(row.output)]

    def _show(self, call: DoorCall) -> None:
        if isinstance(call, TextCall) and call.door == "log":
            self._session.show(call.text, call.cut)

    async def _refuse(self, seq: int, door: Call, refused: Refused) -> Envelope:
        session = self._session
        message = storable(refused.message)
        recorded = None
        if session.past is not None:
            recorded = await session.past.recorded(seq, Made(door, refused.ref, refused=True))
        if recorded is None:
            now = await session.record(seq, door, refused.ref, "refused", err=message)
        else:
            now = session.now_ms if recorded.clock_ms is None else recorded.clock_ms
            message = recorded.err or message
        return [now] if door == "log" else [now, None, refused.ref, cut(message)]

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
            text = storable(failure.message.strip()) or _failed(door)
            spend = failure.spend if isinstance(failure.spend, Spend) else NOTHING_SPENT
            return Answer(err=text, shown=cut(text), spend=spend)
        except _BadAnswer as bad:
            text = storable(str(bad))
            return Answer(err=text, shown=cut(text), spend=bad.spend, output=bad.output)
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
            text = storable(str(error).strip()) or _failed(door)
            if self._show_errors:
                return Answer(err=text, shown=cut(text))
            return Answer(err=text, shown=_failed(door), note=None if door == "log" else _HIDDEN)
        return answer

    async def _make(self, seq: int, call: DoorCall, schema: Schema | None) -> Answer:
        if self._session.past is not None and seq in self._session.past.unsure:
            raise DoorFailure(_UNSURE)
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
        value = answer.json if answer.json is not UNSET else json_in(answer.text)
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


def _status(call: DoorCall) -> str | None:
    """The text of a status, which the journal keeps as the note of its row."""
    return call.text if isinstance(call, TextCall) and call.door == "log" else None


def _parsed(text: str) -> Json:
    value: Json = parse_json(text)  # type: ignore[assignment]  # what JSON text holds is JSON
    return value


def _judged(row: EntryRow) -> envs.Answer | None:
    """What a judgement was answered with, out of its row."""
    return envs.Answer(json=_parsed(row.output)) if row.state == "ok" and row.output is not None else None


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
