"""`jsrun plugs`: sessions of an agent with plugs around it, on standard streams.

Exit codes: 0 ended or paused as asked, 1 failed, 2 usage, setup or id (nothing was created), 3 a clean-up failed (wins
over the others), 124 timeout, 130 cancelled.
"""

import asyncio
import contextlib
import fnmatch
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import typer

from jsrun._threads import in_thread
from jsrun.plugs._redacting import Hidden, log_to_stderr
from jsrun.plugs._session import Session, Streams
from jsrun.plugs._stdio import own_streams
from jsrun.plugs.config import Policy, Setup, read_setup
from jsrun.plugs.controller import ENDABLE, SessionController
from jsrun.plugs.errors import ControllerError, MissingExtra, NotResumable, PlugError, SetupError, UnknownSession
from jsrun.plugs.hints import hints
from jsrun.plugs.journal import SessionJournal, SessionRecord, default_folder
from jsrun.plugs.loader import load
from jsrun.plugs.persist import SqliteStore, StateStore
from jsrun.plugs.runner import RunEnd
from jsrun.plugs.sealed import EncryptedStore, decode_key, key_from_file
from jsrun.plugs.trace import Tracer, lines
from ptc.command_line import printable

FAILED: Final = 1
USAGE: Final = 2
CLEANUP: Final = 3
TIMEOUT: Final = 124
CANCELLED: Final = 130

_FOLLOW_S: Final = 0.5

app = typer.Typer(
    help="Put plugs around an agent that speaks the Agent Client Protocol.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

StateDir = Annotated[Path | None, typer.Option("--state-dir", metavar="DIR", help="Where sessions and state are kept.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
TraceOption = Annotated[bool, typer.Option("--trace", help="Keep a log of the messages, without their contents.")]
BodiesOption = Annotated[bool, typer.Option("--trace-bodies", help="Keep the contents of messages too.")]


@app.command("run", context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def run(
    context: typer.Context,
    setup: Annotated[Path, typer.Argument(metavar="SETUP", help="The setup, a YAML or JSON file.")],
    session_id: Annotated[str | None, typer.Option("--id", metavar="NAME", help="The session's id.")] = None,
    state_dir: StateDir = None,
    trace: TraceOption = False,
    bodies: BodiesOption = False,
    on_disconnect: Annotated[
        str | None, typer.Option("--on-disconnect", metavar="close|pause", help="What a lost client means.")
    ] = None,
) -> int:
    """Start a session: jsrun plugs run SETUP -- AGENT… acts as that agent on stdin and stdout."""
    if on_disconnect not in (None, "close", "pause"):
        _refuse('--on-disconnect: "close" or "pause" is needed.')
    read = _usage(lambda: read_setup(setup))
    policy = read.policy if on_disconnect is None else read.policy.model_copy(update={"on_disconnect": on_disconnect})
    agent = tuple(word for word in context.args if word != "--" or word is not context.args[0])
    if not agent and read.agent.command is None:
        _usage(lambda: load(read, policy))
        _refuse(f"{setup}: no agent: give its command behind --, or as agent.command in the setup.")

    async def begin(controller: SessionController, client: Streams) -> Session:
        return await controller.start(read, agent or None, client, policy, session_id)

    return _serve(read, state_dir, begin, trace=trace, bodies=bodies)


@app.command("resume")
def resume(
    session_id: Annotated[str, typer.Argument(metavar="ID", help="The session.")],
    setup: Annotated[Path | None, typer.Option("--setup", metavar="FILE", help="Use this setup from now on.")] = None,
    state_dir: StateDir = None,
    trace: TraceOption = False,
    bodies: BodiesOption = False,
) -> int:
    """Take up a paused or interrupted session with a new client on stdin and stdout."""
    replacement = None if setup is None else _usage(lambda: read_setup(setup))
    record = asyncio.run(_record(state_dir, session_id))
    from jsrun.plugs.config import from_record

    used = replacement if replacement is not None else _usage(lambda: from_record(record.setup))

    async def begin(controller: SessionController, client: Streams) -> Session:
        return await controller.resume(session_id, client, replacement)

    return _serve(used, state_dir, begin, trace=trace, bodies=bodies)


@app.command("end")
def end(
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID…]", help="The sessions.")] = None,
    expired: Annotated[bool, typer.Option("--expired", help="End every session that is past its expiry.")] = False,
    reason: Annotated[str, typer.Option("--reason", metavar="closed|cancelled", help="Why they end.")] = "closed",
    state_dir: StateDir = None,
) -> int:
    """Tear down paused, interrupted and leftover sessions; ask a running one to stop."""
    if reason not in ("closed", "cancelled"):
        _refuse('--reason: "closed" or "cancelled" is needed.')
    if not ids and not expired:
        _refuse("Name the sessions to end, or use --expired.")
    return asyncio.run(_end(list(ids or []), expired, reason, _folder(state_dir)))


@app.command("ls")
def ls(
    everything: Annotated[bool, typer.Option("--all", help="Ended sessions too.")] = False,
    as_json: JsonOption = False,
    state_dir: StateDir = None,
) -> int:
    """List sessions: state, runs, age, reason."""
    records = asyncio.run(_records(_folder(state_dir)))
    shown = [record for record in records if everything or record.state != "ended"]
    if as_json:
        print(json.dumps({"sessions": [_record_json(record) for record in shown]}, indent=2))
        return 0
    for record in shown:
        print(f"{record.id}  {record.state}  {record.runs} runs  {_age(record.age)}  {record.reason or '-'}")
    return 0


@app.command("check")
def check(
    setup: Annotated[Path, typer.Argument(metavar="SETUP", help="The setup, a YAML or JSON file.")],
    as_json: JsonOption = False,
) -> int:
    """Check a setup without starting anything. Exit 2 if something is wrong."""
    problems: list[dict[str, str]] = []
    notes: list[str] = []
    try:
        loaded = load(read_setup(setup))
        notes = [
            *loaded.warnings,
            *(hint for plug in dict.fromkeys(e.plug for e in loaded.entries) for hint in hints(plug)),
        ]
    except SetupError as error:
        problems = [{"place": issue.place, "message": issue.message} for issue in error.issues]
    except NotResumable as error:
        problems = [{"place": str(setup), "message": str(error)}]
    except MissingExtra as error:
        _refuse(_told(error))
    if as_json:
        print(json.dumps({"ok": not problems, "issues": problems, "hints": notes}, indent=2))
    else:
        for problem in problems:
            print(printable(f"{problem['place']}: {problem['message']}"), file=sys.stderr)
        for note in notes:
            print(printable(f"hint: {note}"), file=sys.stderr)
        if not problems:
            print(f"{setup}: fine")
    return USAGE if problems else 0


@app.command("trace")
def trace(
    session_id: Annotated[str, typer.Argument(metavar="ID", help="The session.")],
    method: Annotated[str, typer.Option("--method", metavar="GLOB", help="Only methods like this.")] = "*",
    follow: Annotated[bool, typer.Option("--follow", help="Go on until the session is over.")] = False,
    state_dir: StateDir = None,
) -> int:
    """Show the message log of a session that was run with --trace."""
    return asyncio.run(_trace(_folder(state_dir), session_id, method, follow))


Begin = Callable[[SessionController, Streams], Any]


def _serve(setup: Setup, state_dir: Path | None, begin: Begin, *, trace: bool, bodies: bool) -> int:
    code, left_behind = asyncio.run(_served(setup, _folder(state_dir), begin, trace=trace, bodies=bodies))
    if left_behind:
        # Plug code that ignores its cancellation would keep the interpreter for ever.
        sys.stderr.flush()
        os._exit(code)
    return code


async def _served(setup: Setup, folder: Path, begin: Begin, *, trace: bool, bodies: bool) -> tuple[int, bool]:
    hidden = Hidden(setup)
    log_to_stderr(hidden)
    store = _usage(lambda: _store(setup, folder))
    journal = SessionJournal(folder)
    tracer = Tracer(journal, bodies=bodies, hide=hidden) if trace or bodies else None
    try:
        async with own_streams() as client:
            controller = SessionController(journal, store, observe=tracer, hide=hidden)
            hidden.controller = controller
            await controller.sweep()
            try:
                session = await begin(controller, client)
            except (SetupError, NotResumable, ControllerError, ValueError) as error:
                _refuse(hidden(str(error)))
            with _signals(session):
                end = await _ending(session, hidden)
            if tracer is not None:
                await tracer.aclose()
            return end, session.left_behind
    finally:
        journal.close()


async def _ending(session: Session, hidden: Hidden) -> int:
    try:
        end: RunEnd = await session.wait()
    except PlugError as error:
        print(printable(hidden(str(error))), file=sys.stderr)
        return FAILED
    if end.error is not None:
        print(printable(hidden(f"The session {end.state}: {end.error}")), file=sys.stderr)
    return _code(end)


def _code(end: RunEnd) -> int:
    if end.state == "leftover":
        return CLEANUP
    return {"failed": FAILED, "timeout": TIMEOUT, "cancelled": CANCELLED}.get(end.reason, 0)


def _store(setup: Setup, folder: Path) -> StateStore:
    """Where plugs keep state: encrypted, unless the setup says otherwise."""
    inner = SqliteStore(folder / "state.db")
    if setup.state.encryption == "none":
        return inner
    text = os.environ.get("JSRUN_STATE_KEY")
    if text is not None:
        key = decode_key(text, "JSRUN_STATE_KEY")
    elif setup.state.key_file is not None:
        key = key_from_file(Path(setup.state.key_file))
    else:
        key = key_from_file(folder / "state.key", create=True)
    return EncryptedStore(inner, [key])


@contextlib.contextmanager
def _signals(session: Session) -> Any:
    """The first signal ends the session, the second makes what remains short."""
    loop = asyncio.get_running_loop()
    told = False

    def stop() -> None:
        nonlocal told
        if told:
            session.hurry()
        told = True
        session.stop("cancelled")

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


async def _end(ids: list[str], expired: bool, reason: str, folder: Path) -> int:
    code = 0
    journal = SessionJournal(folder)
    try:
        wanted = ids
        if expired:
            now = [record for record in await journal.all() if record.state in ("paused", "interrupted")]
            wanted = [*ids, *(record.id for record in now if _is_expired(record))]
        for session_id in wanted:
            try:
                record = await journal.get(session_id)
                setup = _recorded(record)
                hidden = Hidden(setup)
                log_to_stderr(hidden)
                controller = hidden.controller = SessionController(journal, _store(setup, folder), hide=hidden)
                why: Any = "expired" if expired and session_id not in ids else reason
                outcome = await controller.end(session_id, why)
                state = "asked to stop" if outcome is None and record.state in ("running", *ENDABLE) else (
                    record.state if outcome is None else outcome.state)  # fmt: skip
                print(f"{session_id}  {state}")
                if outcome is not None and outcome.state == "leftover":
                    print(printable(hidden(f"{session_id}: {outcome.error}")), file=sys.stderr)
                    code = CLEANUP
            except UnknownSession as error:
                _refuse(str(error))
            except PlugError as error:
                print(printable(f"{session_id}: {error}"), file=sys.stderr)
                code = code or FAILED
    finally:
        journal.close()
    return code


def _is_expired(record: SessionRecord) -> bool:
    after = Policy.model_validate(record.policy).expire_after
    return after is not None and record.age > after


def _recorded(record: SessionRecord) -> Setup:
    from jsrun.plugs.config import from_record

    return from_record(record.setup)


async def _records(folder: Path) -> list[SessionRecord]:
    if not await in_thread((folder / "sessions.db").exists):
        return []
    journal = SessionJournal(folder)
    try:
        return await journal.all()
    except ControllerError as error:
        _refuse(str(error))
    finally:
        journal.close()


async def _record(state_dir: Path | None, session_id: str) -> SessionRecord:
    found = [record for record in await _records(_folder(state_dir)) if record.id == session_id]
    if not found:
        _refuse(f"There is no session {session_id}.")
    return found[0]


async def _trace(folder: Path, session_id: str, method: str, follow: bool) -> int:
    journal = SessionJournal(folder)
    after = 0
    try:
        while True:
            record = await journal.get(session_id)
            for line in await lines(journal, session_id, after):
                after = line.number
                if fnmatch.fnmatchcase(line.method, method):
                    at = time.strftime("%H:%M:%S", time.localtime(line.at))
                    took = "-" if line.elapsed is None else f"{line.elapsed * 1000:.1f} ms"
                    arrow = "->" if line.direction == "to_agent" else "<-"
                    print(printable(f"{at} {arrow} {line.method}  {line.size} B  {took}  {line.outcome}"), flush=True)
                    if line.body is not None:
                        print(printable(f"    {line.body}"), flush=True)
            if not follow or record.state != "running":
                return 0
            await asyncio.sleep(_FOLLOW_S)
    except UnknownSession as error:
        _refuse(str(error))
    finally:
        journal.close()


def _record_json(record: SessionRecord) -> dict[str, object]:
    return {
        "id": record.id,
        "state": record.state,
        "runs": record.runs,
        "age_s": round(record.age, 1),
        "reason": record.reason,
        "error": record.error,
        "execution_id": record.execution_id,
    }


def _age(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def _folder(state_dir: Path | None) -> Path:
    return default_folder() if state_dir is None else state_dir


def _usage(work: Callable[[], Any]) -> Any:
    """Do what may find that the command cannot be carried out."""
    try:
        return work()
    except (PlugError, ValueError, OSError) as error:
        _refuse(_told(error))


def _told(error: Exception) -> str:
    """The text of an error; of a missing library, what it is about."""
    return f"A library that this needs is missing: {error}" if isinstance(error, MissingExtra) else str(error)


def _refuse(text: str) -> NoReturn:
    print(printable(text), file=sys.stderr)
    raise typer.Exit(USAGE)
