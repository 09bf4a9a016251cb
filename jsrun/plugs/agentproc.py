"""The agent's process: its three streams, how it is stopped, and its part in a run."""

import asyncio
import codecs
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

from jsrun.plugs._place import HOLD_SECONDS
from jsrun.plugs._side import Side
from jsrun.plugs._started import started
from jsrun.plugs._watch import within
from jsrun.plugs.api import AgentSpawnSpec, Host, HostProcess, PlugLogger
from jsrun.plugs.chain import SESSION_OVER, MessageChain, Passed
from jsrun.plugs.clock import Clock
from jsrun.plugs.errors import AgentExited, AgentStartError, HostError, LineTooLong, PlugError
from jsrun.plugs.infos import PauseInfo
from jsrun.plugs.lifecycle import Lifecycle
from jsrun.plugs.wire import LINE_BYTES

# One read of a stream; a line limit is passed by this much at most.
READ_BYTES: Final = 64 * 1024
# Of the agent's stderr so much is kept, and so much is shown where the agent is told to be gone, in bytes.
STDERR_KEPT: Final = 64 * 1024
STDERR_SHOWN: Final = 8 * 1024
# A line of stderr longer than this is logged in parts.
STDERR_LINE: Final = 8 * 1024

# Seconds to answer a cancelled prompt, to end once stdin is closed, and to end once told to by TERM.
PROMPT_SECONDS: Final = 5.0
CLOSED_SECONDS: Final = 5.0
TERM_SECONDS: Final = 2.0
# Seconds for a process that closed a stream to exit, and for streams of one that exited to end: a child of the agent
# may hold them open.
EXIT_SECONDS: Final = 5.0
STREAM_SECONDS: Final = 2.0


class AgentProcess:
    """A running agent. `side` is the chain's end of its stdin and stdout."""

    def __init__(
        self, process: HostProcess, *, clock: Clock, line_bytes: int = LINE_BYTES, log: PlugLogger | None = None
    ) -> None:
        self.process = process
        self._clock = clock
        self._log = (log if log is not None else PlugLogger({})).bind(agent=process.pid)
        self.side = Side("agent", self._write, line_bytes=line_bytes, log=self._log)
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self._unwritable = asyncio.Event()
        self._tasks: list[asyncio.Task[Any]] = []
        self._exit: asyncio.Task[int] = asyncio.create_task(process.wait())

    @property
    def stderr(self) -> bytes:
        """The last 64 KiB that it wrote to stderr."""
        return b"".join(self._tail)[-STDERR_KEPT:]

    @property
    def code(self) -> int | None:
        """Its exit code; None while it runs, or if it is not known."""
        ended = self._exit.done() and not self._exit.cancelled() and self._exit.exception() is None
        return self._exit.result() if ended else None

    def start(self) -> None:
        """Begin to read what it prints."""
        self._output = asyncio.create_task(self._read_output())
        self._errors = asyncio.create_task(self._read_errors())
        self._tasks = [self._output, self._errors]

    def exited(self) -> AgentExited:
        """How it ended, with the end of its stderr."""
        return AgentExited(self.code, self.stderr[-STDERR_SHOWN:].decode(errors="replace"))

    async def gone(self, chain: MessageChain) -> AgentExited | None:
        """Wait until it is gone and all it printed has passed; None if it ended with 0 and nothing was in flight."""
        unwritable = asyncio.create_task(self._unwritable.wait())
        try:
            await asyncio.wait({self._exit, self._output, unwritable}, return_when=asyncio.FIRST_COMPLETED)
            await within(self._clock, self._exit, EXIT_SECONDS)
        finally:
            unwritable.cancel()
        for task in self._tasks:
            await within(self._clock, task, STREAM_SECONDS)
        drained = asyncio.create_task(chain.drained())
        try:
            await within(self._clock, drained, STREAM_SECONDS)
        finally:
            drained.cancel()
        return None if self.code == 0 and chain.in_flight == 0 else self.exited()

    async def stop(self) -> None:
        """Close its stdin; after 5 s TERM to its group, after another 2 s KILL. It is gone when this returns."""
        closing = asyncio.create_task(self._close_input())
        try:
            if not await within(self._clock, self._exit, CLOSED_SECONDS):
                self._log.info("the agent does not end by itself")
                await self._kill("TERM")
                if not await within(self._clock, self._exit, TERM_SECONDS):
                    await self._kill("KILL")
                    await within(self._clock, self._exit, EXIT_SECONDS)
            for task in self._tasks:
                await within(self._clock, task, STREAM_SECONDS)
        finally:
            # A child of the agent may still hold the streams.
            self.side.close()
            tasks = [*self._tasks, closing, self._exit]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _kill(self, signal: str) -> None:
        try:
            await self.process.kill(signal)
        except (PlugError, OSError) as error:
            self._log.error("the agent could not be sent a signal", signal=signal, error=error)

    async def _close_input(self) -> None:
        await self.side.flush()
        try:
            await self.process.stdin.close()
        except (PlugError, OSError) as error:
            self._log.debug("the agent's stdin was closed before", error=error)

    async def _write(self, data: bytes) -> None:
        try:
            await self.process.stdin.write(data)
        except BaseException:
            self._unwritable.set()
            raise

    async def _read_output(self) -> None:
        try:
            while data := await self.process.stdout.read(READ_BYTES):
                await self._take(data)
        except (PlugError, OSError) as error:
            self._log.warning("the agent's output cannot be read any more", error=error)
        try:
            await self.side.end()
        except LineTooLong:
            self._log.debug("the last line of the agent was too long")

    async def _take(self, data: bytes) -> None:
        try:
            await self.side.receive(data)
        except LineTooLong:
            # The chain knows; reading goes on, so that the agent can end.
            self.side.discard()

    async def _read_errors(self) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        line = ""
        try:
            while data := await self.process.stderr.read(READ_BYTES):
                self._keep(data)
                *lines, line = (line + decoder.decode(data)).split("\n")
                while len(line) > STDERR_LINE:
                    lines.append(line[:STDERR_LINE])
                    line = line[STDERR_LINE:]
                for each in lines:
                    self._log.debug("the agent's stderr", line=each)
        except (PlugError, OSError) as error:
            self._log.warning("the agent's stderr cannot be read any more", error=error)
        if line:
            self._log.debug("the agent's stderr", line=line)

    def _keep(self, data: bytes) -> None:
        self._tail.append(data)
        self._tail_bytes += len(data)
        while self._tail_bytes - len(self._tail[0]) >= STDERR_KEPT:
            self._tail_bytes -= len(self._tail.popleft())


class AgentRecorder(Protocol):
    """Where the start of the agent is written down."""

    async def agent_started(self, pid: int | None, started: str | None) -> None:
        """See RunRecorder."""
        ...


class AgentPart:
    """Runs the agent as the innermost step of a run; see AgentStep.

    `client` is the client's side. `open` is called with the chain before client lines flow, to re-attach ACP sessions;
    what it raises fails the run. `on_message` sees all messages. `hold` is in seconds.

    A run that never gets this far leaves the client's requests as they are: whoever performs it calls `client.refuse`.
    """

    def __init__(
        self,
        client: Side,
        recorder: AgentRecorder,
        *,
        clock: Clock,
        line_bytes: int = LINE_BYTES,
        hold: float = HOLD_SECONDS,
        open: Callable[[MessageChain], Awaitable[None]] | None = None,
        on_message: Callable[[Passed], None] | None = None,
    ) -> None:
        self.chain: MessageChain | None = None
        self._client = client
        self._recorder = recorder
        self._clock = clock
        self._line_bytes = line_bytes
        self._hold = hold
        self._open = open
        self._on_message = on_message

    async def __call__(self, spec: AgentSpawnSpec, host: Host, lifecycle: Lifecycle) -> PauseInfo:
        """See AgentStep. AgentStartError if it cannot be started."""
        try:
            process = await host.spawn(spec)
        except (HostError, OSError, ValueError) as error:
            self._client.refuse("The agent could not be started.")
            raise AgentStartError(f"The agent {spec.command} could not be started: {error}") from error
        agent = AgentProcess(process, clock=self._clock, line_bytes=self._line_bytes, log=lifecycle.log)
        chain = self.chain = MessageChain(
            [level.instance for level in lifecycle.levels if level.instance is not None],
            self._client,
            agent.side,
            clock=self._clock,
            hold=self._hold,
            on_failure=lifecycle.fail,
            on_message=self._on_message,
            log=lifecycle.log,
        )
        agent.start()
        for level in lifecycle.levels:
            level.send_message = chain.send
        try:
            await self._recorder.agent_started(process.pid, started(process.pid) if process.pid is not None else None)
            return await self._until_stopped(agent, chain, lifecycle)
        except Exception as error:
            await chain.close(error)
            raise
        finally:
            for level in lifecycle.levels:
                level.send_message = None
            await agent.stop()

    async def _until_stopped(self, agent: AgentProcess, chain: MessageChain, lifecycle: Lifecycle) -> PauseInfo:
        chain.start()
        opening = asyncio.create_task(self._admit(chain, lifecycle))
        gone = asyncio.create_task(agent.gone(chain))
        stopped = asyncio.create_task(lifecycle.stopped())
        try:
            await asyncio.wait({gone, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if gone.done():
                error = gone.result()
                chain.agent_lost(error if error is not None else agent.exited())
                if error is not None:
                    lifecycle.fail(error)
                else:
                    lifecycle.stop("completed")
            info = await stopped
            chain.stop()
            if info.reason != "failed":
                await chain.cancel_prompts(PROMPT_SECONDS)
                await agent.stop()
                chain.agent_lost(agent.exited())
            await chain.close(info.error)
            if not info.may_resume:
                self._client.refuse(SESSION_OVER)
            return info
        finally:
            tasks = (opening, gone, stopped)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _admit(self, chain: MessageChain, lifecycle: Lifecycle) -> None:
        try:
            if self._open is not None:
                await self._open(chain)
            chain.admit()
        except Exception as error:
            if lifecycle.stop_requested is None:
                lifecycle.fail(error)
            else:  # an agent that is being stopped need not take up where it was
                lifecycle.log.debug("the agent was stopped before it was taken up again", error=error)
