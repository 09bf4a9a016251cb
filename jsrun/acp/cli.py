"""`jsrun acp BUNDLE`, `jsrun acp --agent`: a bundle, or the agent loop, for an ACP client on stdin and stdout."""

import asyncio
import contextlib
import logging
import os
import shutil
import stat
import sys
import threading
from collections.abc import AsyncIterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from jsrun._threads import in_thread
from jsrun.agent.command_loop import run_command
from jsrun.bundle import Bundle
from jsrun.cli.finding import load_bundle
from jsrun.cli.journal import DEFAULT_JOURNAL
from jsrun.cli.output import Refusal
from jsrun.cli.run import load_belt
from jsrun.env import Env
from jsrun.errors import BundleError, JsrunError
from jsrun.local_env import LocalEnv
from jsrun.look import Look, WorkspaceLook
from jsrun.runner import Runner
from jsrun.sqlite_journal import SqliteJournal
from jsrun.store import PROJECT, Store, home

# One prompt may hold a whole file.
_LINE_BYTES = 64 * 1024 * 1024


def command(
    bundle: Annotated[
        str | None, typer.Argument(metavar="BUNDLE", help="The bundle to serve, by name or path.")
    ] = None,
    agent: Annotated[bool, typer.Option("--agent", help="Serve the agent loop instead of a bundle.")] = False,
    model: Annotated[
        str | None, typer.Option("--model", metavar="MODEL", help='"PROVIDER:NAME", or offline "script:FILE".')
    ] = None,
    tools: Annotated[
        list[str] | None,
        typer.Option("--tool", metavar="MODULE:FUNCTION", help="A Python function as a tool of the bundle."),
    ] = None,
    fallback: Annotated[
        bool, typer.Option("--fallback", help="Let the agent take over when the bundle falls back.")
    ] = False,
    belt: Annotated[
        list[str] | None, typer.Option("--belt", metavar="ITEM", help="Tools of the agent; see `jsrun agent`.")
    ] = None,
    system: Annotated[
        Path | None, typer.Option("--system", metavar="FILE", help="The agent's system prompt, a text file.")
    ] = None,
    journal: Annotated[
        Path, typer.Option("--journal", metavar="FILE", help="Where runs of the bundle are recorded.")
    ] = DEFAULT_JOURNAL,
    database: Annotated[
        Path | None, typer.Option("--db", metavar="FILE", help="Where the agent's sessions are kept.")
    ] = None,
) -> int:
    """Serve a bundle, or the agent loop, as an ACP agent on stdin and stdout, until the client is gone."""
    if find_spec("acp") is None:
        raise Refusal(
            "`jsrun acp` needs the package agent-client-protocol; install the extra: pip install 'subharness[acp]'"
        )
    if (bundle is None) != agent:
        raise Refusal("Name a bundle to serve, or use --agent; one of the two.", code="usage")
    if model is None and (agent or fallback):
        raise Refusal('--model is missing: name one as "PROVIDER:NAME", or offline "script:FILE".', code="usage")
    wanted = _Wanted(model, tuple(tools or ()), fallback, tuple(belt or ()), system, journal, database)
    # The library tells its troubles to the root logger, with tracebacks; ours are lines of the logger "jsrun".
    logging.getLogger().setLevel(logging.CRITICAL + 1)
    logging.getLogger("jsrun").setLevel(logging.WARNING)
    logging.getLogger("jsrun").addHandler(logging.StreamHandler())
    if bundle is not None:
        loaded, _place = load_bundle(bundle)
        run_command(_serve_bundle(loaded, wanted))
    else:
        run_command(_serve_agent(wanted))
    return 0


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The options."""

    model: str | None
    tools: tuple[str, ...]
    fallback: bool
    belt: tuple[str, ...]
    system: Path | None
    journal: Path
    database: Path | None


async def _serve_bundle(bundle: Bundle, wanted: _Wanted) -> None:
    from jsrun.acp.bundle_agent import BundleAgent

    def make_env(cwd: str) -> tuple[Env, Look]:
        folder = Path(cwd) if Path(cwd).is_dir() else Path()
        belt = load_belt(folder, wanted.tools)
        memory = Store(PROJECT).memory(bundle.manifest.name, bundle.memory_seed)
        # A script answers one run after another from its beginning, as it does at the command line.
        return LocalEnv(wanted.model, belt, ask=None, memory=memory, log=None), WorkspaceLook(folder, belt)

    try:
        make_env(str(Path.cwd()))  # what is wrong with the options is told before a client waits
    except JsrunError as error:
        raise Refusal(f"--model: {error}", code="usage") from None
    async with Runner(bundle) as runner, SqliteJournal(wanted.journal) as journal:
        try:
            await runner.compile()
        except BundleError as error:
            raise Refusal.of(error) from None
        generalist: Any = None
        if wanted.fallback:
            from jsrun.agent.generalist import AgentGeneralist

            generalist = AgentGeneralist(_config(wanted))
        await _serve(BundleAgent(bundle, runner, make_env, generalist=generalist, journal=journal))


async def _serve_agent(wanted: _Wanted) -> None:
    from jsrun.acp.loop_agent import LoopAgent
    from jsrun.agent.belt_items import read_items
    from jsrun.agent.stores.sqlite import SqliteSessions

    items = read_items(wanted.belt)
    async with contextlib.AsyncExitStack() as stack:
        ai = None if str(wanted.model).startswith("script:") else wanted.model
        config = _config(wanted, await items.open(stack, ai))
        catalog = SqliteSessions(home() / "sessions.db" if wanted.database is None else wanted.database)
        await stack.enter_async_context(catalog)
        served = LoopAgent(config, catalog)
        stack.push_async_callback(served.aclose)
        await _serve(served)


def _config(wanted: _Wanted, tools: Any = None) -> Any:
    from jsrun.agent.cli import provider_of, read_system
    from jsrun.agent.config import RuntimeConfig
    from jsrun.agent.tools import ToolRegistry

    return RuntimeConfig(
        provider=provider_of(str(wanted.model)),
        tools=ToolRegistry() if tools is None else tools,
        model=str(wanted.model),
        system_prompt=read_system(wanted.system),
    )


async def _serve(agent: Any) -> None:
    import acp  # needs an optional package

    async with _streams() as (reader, writer):
        with contextlib.suppress(ConnectionError, BrokenPipeError):
            await acp.run_agent(agent, writer, reader)


@contextlib.asynccontextmanager
async def _streams() -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """The protocol's streams. What tools and their children print goes to stderr, what they read is empty."""
    sys.stdout.flush()
    reading, writing = os.dup(0), os.dup(1)
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=_LINE_BYTES)
    copying: threading.Thread | None = None
    if _is_file(reading):
        inner, outer = os.pipe()
        _copy(reading, outer)
        reading = inner
    if _is_file(writing):
        inner, outer = os.pipe()
        copying = _copy(inner, writing)
        writing = outer
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(reading, "rb", buffering=0))
    transport, protocol = await loop.connect_write_pipe(_Flow, os.fdopen(writing, "wb", buffering=0))
    try:
        yield reader, asyncio.StreamWriter(transport, protocol, None, loop)
    finally:
        transport.close()
        if copying is not None:
            await in_thread(copying.join)


def _is_file(descriptor: int) -> bool:
    """Is it a regular file, which no event loop can wait for?"""
    return stat.S_ISREG(os.fstat(descriptor).st_mode)


def _copy(source: int, target: int) -> threading.Thread:
    """Copy what is read to where it is written, in a thread, to the end; both are closed then."""

    def work() -> None:
        given, taken = os.fdopen(source, "rb", buffering=0), os.fdopen(target, "wb", buffering=0)
        with given, taken, contextlib.suppress(OSError):  # whoever reads has enough
            shutil.copyfileobj(given, taken)

    thread = threading.Thread(target=work, name="acp copy", daemon=True)
    thread.start()
    return thread


class _Flow(asyncio.streams.FlowControlMixin):
    """Lets a writer wait while the client does not read."""

    async def _get_close_waiter(self, _stream: asyncio.StreamWriter) -> None:
        return
