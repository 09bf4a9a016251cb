"""`jsrun agent`: the generalist at the command line, one prompt or a chat, with sessions that last."""

import asyncio
import contextlib
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from jsrun.agent.belt_items import BeltItems, read_items
from jsrun.agent.command_loop import run_command
from jsrun.agent.config import RuntimeConfig
from jsrun.agent.console import FAILED, Console, Left, history_lines, print_record, unfinished
from jsrun.agent.dispatcher import EventDispatcher
from jsrun.agent.errors import SessionError, SessionLoad, StartError
from jsrun.agent.message_json import message_to_json
from jsrun.agent.messages import has_surrogate
from jsrun.agent.provider import Provider
from jsrun.agent.providers.retrying import RetryingProvider
from jsrun.agent.providers.script import ScriptProvider
from jsrun.agent.runtime import start, start_with_session_store
from jsrun.agent.session import Session, SessionCatalog, check_session_id
from jsrun.agent.stores.sqlite import SqliteSessions
from jsrun.cli.output import Refusal, print_json, print_problem
from jsrun.store import home

T = TypeVar("T")

# Seconds. A job at the command line may take many rounds; a chat has no deadline, because a person watches it.
ONE_SHOT_TIMEOUT = 600.0
# Event records waiting to be printed; whoever reads them wants them all.
_EVENTS = 1_000_000
# More than any model reads; a file piped in by mistake is not read whole.
_MAX_PROMPT_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A conversation as the options describe it."""

    provider: Provider
    model: str
    items: BeltItems
    system: str | None
    max_iterations: int
    prompt: str | None
    go_on: bool
    session: str | None
    database: Path
    timeout: float | None
    as_json: bool


def command(
    model: Annotated[
        str | None, typer.Option("--model", metavar="MODEL", help='"PROVIDER:NAME", or offline "script:FILE".')
    ] = None,
    session: Annotated[
        str | None,
        typer.Option("--session", metavar="ID", help="Keep the conversation under this id, or go on with it."),
    ] = None,
    belt: Annotated[
        list[str] | None,
        typer.Option(
            "--belt",
            metavar="ITEM",
            help='Tools: "workspace", "code", a bundle or a directory of them, MODULE:ATTRIBUTE; may be repeated.',
        ),
    ] = None,
    prompt: Annotated[str | None, typer.Option("--prompt", metavar="TEXT", help="Run once with this prompt.")] = None,
    go_on: Annotated[bool, typer.Option("--continue", help="Go on with the session's unfinished work.")] = False,
    system: Annotated[
        Path | None, typer.Option("--system", metavar="FILE", help="The system prompt, a text file.")
    ] = None,
    max_iterations: Annotated[
        int, typer.Option("--max-iterations", min=1, metavar="N", help="Rounds of tools a run may take.")
    ] = 50,
    timeout: Annotated[
        float | None, typer.Option("--timeout", metavar="S", help="Seconds a run may take; 600, in a chat no limit.")
    ] = None,
    database: Annotated[
        Path | None, typer.Option("--db", metavar="FILE", help="Where sessions are kept; sessions.db in ~/.jsrun.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print events, a line of JSON each.")] = False,
    list_sessions: Annotated[bool, typer.Option("--list-sessions", help="List the sessions and exit.")] = False,
    show_session: Annotated[
        str | None, typer.Option("--show-session", metavar="ID", help="Show a session and exit.")
    ] = None,
    delete_session: Annotated[
        str | None, typer.Option("--delete-session", metavar="ID", help="Delete a session and exit.")
    ] = None,
) -> int:
    """Talk to an agent with tools. Exit 0 answered, 1 could not start, 2 the run failed, was cut or was cancelled."""
    path = home() / "sessions.db" if database is None else database
    if list_sessions:
        return asyncio.run(_list(path, as_json))
    if show_session is not None:
        return asyncio.run(_show(path, _session_id(show_session, "--show-session"), as_json))
    if delete_session is not None:
        return asyncio.run(_delete(path, _session_id(delete_session, "--delete-session"), as_json))
    if prompt is not None and go_on:
        raise Refusal("--prompt and --continue cannot be used together: a prompt starts anew.", code="usage")
    if go_on and session is None:
        raise Refusal("--continue: name the session with --session.", code="usage")
    if timeout is not None and not timeout > 0:
        raise Refusal("--timeout: seconds above 0 are needed.", code="usage")
    if model is None:
        raise Refusal('--model is missing: name one as "PROVIDER:NAME", or offline "script:FILE".', code="usage")
    if prompt is None and not go_on and not (sys.stdin is not None and sys.stdin.isatty()):
        prompt = _piped()
    if prompt is not None and not prompt.strip():
        raise Refusal("--prompt: the prompt is blank; say what the agent is to do.", code="usage")
    if prompt is not None and has_surrogate(prompt):
        raise Refusal("--prompt: the prompt is not text in the encoding of this system.", code="usage")
    once = prompt is not None or go_on
    wanted = _Wanted(
        provider=provider_of(model),
        model=model,
        items=read_items(belt or []),
        system=read_system(system),
        max_iterations=max_iterations,
        prompt=prompt,
        go_on=go_on,
        session=None if session is None else _session_id(session, "--session"),
        database=path,
        timeout=ONE_SHOT_TIMEOUT if timeout is None and once else timeout,
        as_json=as_json,
    )
    try:
        return run_command(_converse(wanted))
    except Left:
        print_problem("Interrupted.")
        return FAILED


async def _converse(wanted: _Wanted) -> int:
    async with contextlib.AsyncExitStack() as stack:
        try:
            ai = None if wanted.model.startswith("script:") else wanted.model
            config = RuntimeConfig(
                provider=wanted.provider,
                tools=await wanted.items.open(stack, ai),
                model=wanted.model,
                max_iterations=wanted.max_iterations,
                system_prompt=wanted.system,
                dispatcher=await _printing(stack) if wanted.as_json else None,
            )
            if wanted.session is None:
                agent = await start(config)
            else:
                store = (await stack.enter_async_context(SqliteSessions(wanted.database))).open(wanted.session)
                agent = await start_with_session_store(config, store)
        except SessionLoad as error:
            raise _unusable(error.error) from None
        except StartError as error:
            raise Refusal(f"The agent cannot start: {error}.") from None
        await stack.enter_async_context(agent)
        if not wanted.go_on and unfinished(await agent.history()):
            way = "--continue" if wanted.prompt is not None else "/continue"
            print_problem(f'The session "{wanted.session}" has unfinished work; {way} goes on with it.')
        console = Console(agent, as_json=wanted.as_json, timeout=wanted.timeout)
        if wanted.prompt is not None or wanted.go_on:
            return await console.once(wanted.prompt)
        return await console.chat()


async def _printing(stack: contextlib.AsyncExitStack) -> EventDispatcher:
    """A dispatcher that prints every event, the last ones when the stack is closed."""
    dispatcher = EventDispatcher(_EVENTS)
    stack.push_async_callback(dispatcher.aclose)
    dispatcher.add(print_record, name="output")
    return dispatcher


async def _list(path: Path, as_json: bool) -> int:
    sessions = await _catalog(path, lambda catalog: catalog.list()) if _is_there(path) else ()
    if as_json:
        print_json(
            {
                "sessions": [
                    {
                        "id": one.id,
                        "messages": one.messages,
                        "title": one.title,
                        "created_at": one.created_at.isoformat(),
                        "updated_at": one.updated_at.isoformat(),
                    }
                    for one in sessions
                ]
            }
        )
        return 0
    for one in sessions:
        print(f"{one.id}  {one.updated_at:%Y-%m-%d %H:%M}  {one.messages} messages  {one.title}")
    if not sessions:
        print_problem(f"There are no sessions in {path}.")
    return 0


async def _show(path: Path, session_id: str, as_json: bool) -> int:
    session = await _existing(path, session_id)
    if as_json:
        print_json({"id": session_id, "head": session.head, "messages": [message_to_json(m) for m in session.messages]})
        return 0
    for line in history_lines(session.messages):
        print(line)
    return 0


async def _delete(path: Path, session_id: str, as_json: bool) -> int:
    await _existing(path, session_id)
    await _catalog(path, lambda catalog: catalog.delete(session_id))
    if as_json:
        print_json({"deleted": session_id})
    else:
        print_problem(f'The session "{session_id}" is deleted.')
    return 0


async def _existing(path: Path, session_id: str) -> Session:
    if _is_there(path):
        session = await _catalog(path, lambda catalog: catalog.open(session_id).load())
        if session.head is not None:
            return session
    raise Refusal(
        f'There is no session "{session_id}" in {path}; --list-sessions shows what there is.', code="not-found"
    )


def _is_there(path: Path) -> bool:
    """A database that nobody wrote yet is not made by reading it."""
    return path.exists()


async def _catalog(path: Path, work: Callable[[SessionCatalog], Awaitable[T]]) -> T:
    """Do something with the sessions of a file. Refusal if they cannot be used."""
    try:
        async with SqliteSessions(path) as catalog:
            return await work(catalog)
    except SessionError as error:
        raise _unusable(error) from None


def _unusable(error: SessionError) -> Refusal:
    """For sessions that cannot be used; the error names the file."""
    return Refusal(f"--db: {error}.")


def _session_id(text: str, option: str) -> str:
    try:
        return check_session_id(text)
    except ValueError as error:
        raise Refusal(f"{option}: {error}.", code="usage") from None


def _piped() -> str:
    if sys.stdin is None:  # closed by whoever started the command
        raise Refusal("--prompt is missing, and there is no standard input to read one from.", code="usage")
    data = sys.stdin.buffer.read(_MAX_PROMPT_BYTES + 1)
    if len(data) > _MAX_PROMPT_BYTES:
        raise Refusal(f"The prompt on standard input is longer than {_MAX_PROMPT_BYTES:,} bytes.", code="input")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Refusal(f"standard input: not UTF-8 text, at byte {error.start + 1}.", code="input") from None


def read_system(path: Path | None) -> str | None:
    """The text of `--system`. Refusal if it cannot be read."""
    if path is None:
        return None
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise Refusal(f'--system: "{path}" cannot be read: {error.strerror}.', code="input") from None
    except UnicodeDecodeError as error:
        raise Refusal(f'--system: "{path}" is not UTF-8 text, at byte {error.start + 1}.', code="input") from None


def provider_of(model: str) -> Provider:
    """The provider of `--model`. Refusal if there is none."""
    scheme, _colon, rest = model.partition(":")
    try:
        if scheme == "script" and rest:
            return ScriptProvider.load(rest)
        from jsrun.agent.providers.pydantic_ai import PydanticAIProvider  # needs the extra `ai`

        return RetryingProvider(PydanticAIProvider(model))
    except StartError as error:
        raise Refusal(f"--model: {error}.", code="usage") from None
