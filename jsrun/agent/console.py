"""A conversation at the command line: one prompt, or a chat. Answers go to stdout, everything else to stderr."""

import asyncio
import contextlib
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Final

from jsrun._threads import in_thread
from jsrun.agent.errors import AgentError, RunCancelled, RunError, RuntimeFault
from jsrun.agent.events import EventRecord, ToolBlocked, ToolExecuted, ToolStarted
from jsrun.agent.handle import RunHandle
from jsrun.agent.messages import AssistantMessage, Message, ToolMessage, UserMessage, open_calls
from jsrun.agent.runtime import Agent
from jsrun.cli.output import Refusal, print_problem
from jsrun.terminal import read_line, write
from ptc.command_line import drop_output

ANSWERED: Final = 0
FAILED: Final = 2

_HELP = "/continue goes on with unfinished work, /reload reads the session again, /history shows it, /quit leaves"


class Left(KeyboardInterrupt):
    """A second Ctrl-C: whoever waits for a run to end waits no longer."""


class Console:
    """One agent at a terminal or a pipe.

    as_json: stdout belongs to event records, which others print, so answers are not shown. timeout: seconds of one run,
    None for no limit.
    """

    def __init__(self, agent: Agent, *, as_json: bool, timeout: float | None) -> None:
        self._agent = agent
        self._as_json = as_json
        self._timeout = timeout

    async def once(self, prompt: str | None) -> int:
        """One run from a prompt, or, without one, from where the session stands. The exit code."""
        return await self._run(self._begin(prompt))

    async def chat(self) -> int:
        """Prompts line by line until the input ends. The exit code is that of the last run."""
        print_problem(_HELP)
        code = ANSWERED
        while True:
            line = await _prompt()
            if line is None or line.strip() == "/quit":
                return code
            match line.strip():
                case "":
                    continue
                case "/history":
                    self._show(await self._agent.history())
                case "/reload":
                    await self._reload()
                case "/continue":
                    code = await self._run(self._begin(None))
                case command if command.startswith("/"):
                    print_problem(f'There is no command "{command}": {_HELP}.')
                case text:
                    code = await self._run(self._begin(text))

    def _begin(self, prompt: str | None) -> RunHandle:
        if prompt is None:
            return self._agent.start_continue(self._timeout)
        return self._agent.start_run(prompt, self._timeout)

    async def _run(self, handle: RunHandle) -> int:
        events = asyncio.ensure_future(self._follow(handle.events()))
        with _interrupts(lambda: handle.request_cancel("caller")):
            outcome = await handle.outcome_or_cancel()
        await events
        if outcome.error is not None:
            print_problem(_told(outcome.error))
            return FAILED
        message = outcome.message
        assert message is not None
        if not self._as_json:
            _answer(message.content)
        if message.stop_reason not in (None, "stop"):
            print_problem(f"The answer was cut ({message.stop_reason}); continue to go on.")
            return FAILED
        return ANSWERED

    async def _follow(self, events: AsyncIterator[EventRecord]) -> None:
        async for record in events:
            if not self._as_json:
                self._tell(record)

    def _tell(self, record: EventRecord) -> None:
        match record.event:
            case ToolStarted(call=call):
                print_problem(f"  {call.name} {_short(call.arguments_json)}")
            case ToolExecuted(call=call, content=content, is_error=True):
                print_problem(f"  {call.name} failed: {_short(content)}")
            case ToolBlocked(call=call, hook_name=hook, reason=reason):
                print_problem(f"  {call.name} was blocked by {hook}: {_short(reason)}")

    async def _reload(self) -> None:
        try:
            report = await self._agent.reload()
        except RunError as error:
            print_problem(_told(error))
            return
        if report.landed:
            print_problem("The session was read again; the pending messages are in it.")
        elif report.discarded:
            print_problem(f"The session was read again; {len(report.discarded)} pending messages are not in it.")
        else:
            print_problem("The session was read again.")

    def _show(self, history: tuple[Message, ...]) -> None:
        for line in history_lines(history):
            print_problem(line)


async def print_record(record: EventRecord) -> None:
    """One event record as a line of JSON on stdout."""
    print(record.model_dump_json(), flush=True)


def history_lines(history: tuple[Message, ...]) -> Iterator[str]:
    """A history for people, a line or more a message."""
    for message in history:
        match message:
            case UserMessage(content=text):
                yield f"user: {text}"
            case ToolMessage(tool_call_id=call, content=text):
                yield f"tool ({call}): {_short(text)}"
            case AssistantMessage(content=text, tool_calls=calls):
                yield f"assistant: {text}"
                yield from (f"  calls {call.name} ({call.id}) {_short(call.arguments_json)}" for call in calls)


def unfinished(history: tuple[Message, ...]) -> bool:
    """Does a history wait for something: an answer, or the results of calls?"""
    if not history:
        return False
    last = history[-1]
    if isinstance(last, AssistantMessage):
        return bool(open_calls(history)) or last.stop_reason not in (None, "stop")
    return True


async def _prompt() -> str | None:
    """The next line of a person; None at the end of the input, or when Ctrl-C ends the chat."""
    gave_up = threading.Event()
    try:
        with _interrupts(gave_up.set):
            write(sys.stderr, "> ")
            line = await in_thread(read_line, sys.stdin, gave_up)
    finally:
        gave_up.set()
    if line is None:
        write(sys.stderr, "\n")
    return line


@contextlib.contextmanager
def _interrupts(cancel: Callable[[], None]) -> Iterator[None]:
    """Meanwhile Ctrl-C means this; the next one raises Left, out of the event loop."""
    loop = asyncio.get_running_loop()

    def interrupted() -> None:
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, _leave)
        cancel()

    before = signal.getsignal(signal.SIGINT)
    try:
        loop.add_signal_handler(signal.SIGINT, interrupted)
    except (NotImplementedError, RuntimeError, ValueError):  # no signals on this platform or thread
        yield
        return
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, before)


def _leave(_number: int, _frame: object) -> None:
    raise Left


def _told(error: AgentError) -> str:
    if error == RunCancelled("caller"):
        return "Cancelled. The session keeps what was done."
    text = error.detail if isinstance(error, RuntimeFault) else str(error)
    return f"{text[:1].upper()}{text[1:]}."


def _short(text: str, most: int = 200) -> str:
    text = " ".join(text.split())
    return text if len(text) <= most else f"{text[:most]}…"


def _answer(text: str) -> None:
    """The text on stdout, as that can hold it. Refusal if it cannot be written; BrokenPipeError if nobody reads."""
    encoding = sys.stdout.encoding or "utf-8"
    try:
        print(text.encode(encoding, "replace").decode(encoding), flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        drop_output()
        raise Refusal(f"The answer cannot be written: {error.strerror}.") from None
