"""The messages of one run: both queues, the plugs between them, and every request answered exactly once.

    client = Side("client", write)             # lives as long as the client does; several runs may use it
    agent = Side("agent", process.stdin.write) # one per agent process
    chain = MessageChain(plugs, client, agent, clock=…, hold=300.0, on_failure=run.fail, on_message=trace)

    await side.receive(data); side.end()       # bytes read from a side; `receive` waits while too much is unread
    chain.start()                              # agent lines begin to flow, and `chain.send` works
    chain.admit()                              # client lines begin to flow
    await chain.send(index, message)           # for ctx.send of the plug at `index`; -1 is the client's place
    chain.hidden = True                        # what the agent sends while re-attaching passes plugs, not the client
    chain.in_flight; chain.quiet_since()       # unanswered requests, both ways; None, or the time of the last message
    await client.waiting()                     # a client line is there that no chain has begun
    chain.stop()                               # no client line begins any more; agent lines reach no plug
    await chain.cancel_prompts(5.0)            # session/cancel for each prompt, and time for its answer
    chain.agent_lost(error)                    # pending `next` calls raise AgentExited
    chain.client_lost()                        # the agent's requests are answered -32603
    await chain.close(error)                   # every request begun is answered; with an error, all others too
    client.refuse(text)                        # requests not begun, and all to come, are answered -32603

`plugs` are instances, outermost first, with `ctx.plug` and `message`.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from jsrun.plugs._answers import AGENT_GONE, Answers, Passed, told_text
from jsrun.plugs._cancel import Cancelling
from jsrun.plugs._job import Calls, Job, Seat, current_job, seats_of
from jsrun.plugs._place import HOLD_SECONDS, Place
from jsrun.plugs._queue import Queue
from jsrun.plugs._side import CANCELLED_TEXT, Queued, Side
from jsrun.plugs._watch import within
from jsrun.plugs.api import Plug, PlugLogger
from jsrun.plugs.clock import Clock, LoopClock
from jsrun.plugs.errors import (
    AgentExited,
    AgentNotRunning,
    LineTooLong,
    PlugError,
    RequestError,
)
from jsrun.plugs.message import Direction, Kind, Message
from jsrun.plugs.wire import INTERNAL_ERROR, REQUEST_CANCELLED, Answer, Call

__all__ = ["MessageChain", "Passed"]

# How long handlers may take to end once told to, in seconds.
GRACE_SECONDS: Final = 5.0

CLIENT_GONE: Final = "The client is gone."
SESSION_OVER: Final = "The session is over."
STOPPING: Final = "The session is being stopped."


class MessageChain:
    """See the module. `hold` is how long plug code may hold a place, in seconds.

    `on_failure` is called once, with the first failure of the session that a message shows. `on_message` sees every
    message from either side when it is done; what it raises is logged.
    """

    def __init__(
        self,
        plugs: Sequence[Plug],
        client: Side,
        agent: Side,
        *,
        clock: Clock | None = None,
        hold: float = HOLD_SECONDS,
        on_failure: Callable[[BaseException], None],
        on_message: Callable[[Passed], None] | None = None,
        log: PlugLogger | None = None,
    ) -> None:
        self.client = client
        self.agent = agent
        self.clock: Clock = clock if clock is not None else LoopClock()
        self.hidden = False
        self._log = log if log is not None else PlugLogger({})
        self._on_failure = on_failure
        inwards = seats_of(plugs)
        self._seats: dict[Direction, list[Seat]] = {"to_agent": inwards, "from_agent": inwards[::-1]}
        self._answers = Answers(self.clock, self.fault, on_message, self._log)
        self._cancelling = Cancelling(self.clock, self._answers, self._log)
        self._client_queue = self._queue(client, hold, self.client_lost)  # its answers can come no more at its end
        self._client_queue.answers_only = True
        self._agent_queue = self._queue(agent, hold, lambda: None)
        self._jobs: set[Job] = set()
        self._begun: dict[tuple[Side, int], Job] = {}
        self.calls = Calls()
        self._stopping = self._closed = False
        self._lost: AgentExited | None = None
        self._failure: BaseException | None = None
        self._failure_text = SESSION_OVER
        self._last = self.clock.now()
        client.listener = agent.listener = self

    # Running

    def start(self) -> None:
        """Let agent lines flow."""
        for queue in (self._agent_queue, self._client_queue):
            queue.start()
            if queue.side.failure is not None:
                self.broken(queue.side, queue.side.failure)

    def admit(self) -> None:
        """Let client lines flow."""
        self._client_queue.answers_only = self._stopping
        self._client_queue.look()

    def stop(self) -> None:
        """Begin no client line any more, and let what the agent sends reach no plug, answers excepted."""
        self._stopping = True
        self._client_queue.answers_only = True
        for queue in (self._agent_queue, self._client_queue):
            queue.halted = False  # after a failure: what the agent still says is dropped, not kept
            queue.look()

    async def send(self, index: int, message: Message) -> Any:
        """Start a message at the place of the plug at `index` (-1 is the client's): it passes the plugs beyond.

        It is not queued; the result is as of `next`. AgentNotRunning if the agent is gone or not there yet,
        TypeError for what is no message.
        """
        if not isinstance(message, Message):
            raise TypeError(f"send() takes a Message, not {type(message).__name__}.")
        if self._closed or self._lost is not None or not self._agent_queue.running:
            raise AgentNotRunning("A message can be sent only while the agent runs.")
        inwards = message.direction == "to_agent"
        seats = [
            seat for seat in self._seats[message.direction] if (seat.index > index if inwards else seat.index < index)
        ]
        job = Job(self, message, seats, self.agent if inwards else self.client)
        token = current_job.set(job)
        self._last = self.clock.now()
        try:
            return await job.run()
        except RequestError as error:
            if message.kind == "request":
                raise
            self._log.warning("a notification was refused", method=message.method, plug=job.label, error=error)
            return None
        finally:
            current_job.reset(token)
            job.done = True
            job.settle()
            self._last = self.clock.now()

    @property
    def in_flight(self) -> int:
        """Requests that were begun and not answered, of both sides and of plugs."""
        return len(self._begun) + len(self.calls)

    def quiet_since(self) -> float | None:
        """Since when, on the chain's clock, nothing is in flight or waits; None while something does."""
        if self._jobs or self.calls or self.client.queued or self.agent.queued:
            return None
        return self._last

    async def drained(self) -> None:
        """Wait until all that can be read from the agent was read and has settled its place."""
        await self._agent_queue.drained()

    # Ending

    async def cancel_prompts(self, seconds: float) -> None:
        """Cancel each prompt in flight, through the chain, and wait for their answers, so many seconds at most."""
        prompts = [far for far in self.calls.at(self.agent) if far.message.method == "session/prompt"]
        if not prompts:
            return
        sessions = {
            far.message.params["sessionId"]: None
            for far in prompts
            if isinstance(far.message.params, dict) and isinstance(far.message.params.get("sessionId"), str)
        }
        tasks: set[asyncio.Future[Any]] = {far.answer for far in prompts}
        tasks |= {job.task for far in prompts for job in far.job.lineage() if job.task is not None}
        cancels = [asyncio.create_task(self._cancel_prompt(session)) for session in sessions]
        await self._within({*tasks, *cancels}, seconds)
        for cancel in cancels:
            cancel.cancel()

    def agent_lost(self, error: AgentExited) -> None:
        """The agent is gone: whoever waits for it gets `error`."""
        if self._lost is None:
            self._lost = error
            self.calls.fail(self.agent, error)

    def client_lost(self) -> None:
        """The client is gone: whoever waits for it gets -32603."""
        self.calls.fail(self.client, RequestError(INTERNAL_ERROR, CLIENT_GONE))

    async def close(self, error: BaseException | None = None, text: str | None = None) -> None:
        """End all messages: handlers get 5 s to end by themselves unless the session failed, then they are cancelled.

        Every request that was begun is answered, -32603 with `text` (or what the failure says) where no handler does.
        """
        if error is not None and self._failure is None:
            self._failure = error
            self._failure_text = text if text is not None else told_text(error)
        self._closed = self._answers.quiet = True
        for queue in (self._agent_queue, self._client_queue):
            await queue.close()
        for far in self.calls.at(self.client):
            far.cancel()  # what a person is still being asked needs no answer any more
        self.client_lost()
        if self._failure is None or isinstance(self._failure, AgentExited):
            self.agent_lost(AgentExited(None))
            await self._within(self._tasks(), GRACE_SECONDS)
        self._answer_all()
        for job in self._jobs:
            job.interrupt()
        self.calls.fail(self.agent, AgentNotRunning("The agent is stopped."))
        if not await self._within(self._tasks(), GRACE_SECONDS):
            for job in self._jobs:
                self._log.error(
                    "a message handler did not end and is left behind", plug=job.label, method=job.message.method
                )
        self.agent.discard()
        for side in (self.client, self.agent):
            if side.listener is self:
                side.listener = None
        if self._failure is not None:
            self.client.refuse(self._failure_text)
        await self._within({asyncio.ensure_future(self.client.flush())}, GRACE_SECONDS)

    # What a side tells at once

    def cancel(self, side: Side, number: int) -> None:
        """See Listener."""
        job = self._begun.get((side, number))
        if job is not None:
            self._cancelling.cancel(job)

    def broken(self, side: Side, error: BaseException) -> None:
        """See Listener."""
        if isinstance(error, LineTooLong):
            self.fault(error, "A message was longer than it may be.")
        elif side is self.client:
            self.client_lost()

    # What a message needs

    def closed_to(self, side: Side, message: Message) -> BaseException | None:
        """See Road."""
        if side is self.agent:
            if self._lost is not None:
                return self._lost
            return AgentNotRunning("The agent is stopped.") if self._closed else None
        if message.kind == "request" and (side.ended or side.gone or self.hidden):
            return RequestError(INTERNAL_ERROR, CLIENT_GONE)
        return None

    def swallowed(self, side: Side, message: Message) -> bool:
        """See Road."""
        return side is self.client and (self.hidden or side.gone)

    def fault(self, error: BaseException, text: str) -> None:
        """See Road."""
        if self._failure is not None or self._closed:
            self._log.error("a further failure of a message", error=error)
            return
        self._failure = error
        self._failure_text = text
        self._answers.quiet = True
        for queue in (self._agent_queue, self._client_queue):
            queue.halted = True
        self._log.error("the session fails", why=text, error=repr(error))
        self._on_failure(error)

    # The queues

    def _queue(self, side: Side, hold: float, ended: Callable[[], None]) -> Queue:
        return Queue(side, begin=self._begin, ended=ended, fault=self.fault, clock=self.clock, hold=hold, log=self._log)

    def _begin(self, side: Side, item: Queued) -> Place | None:
        self._last = self.clock.now()
        return self._begin_answer(side, item) if isinstance(item, Answer) else self._begin_call(side, item)

    def _begin_answer(self, side: Side, item: Answer) -> Place | None:
        far = self.calls.take(side, item.number)
        if far is None or far.answer.done():
            self._log.debug("a late answer was dropped", side=side.name)
            return None
        job = far.job
        job.close(far)
        if item.error is not None:
            far.fail(item.error)
        else:
            far.answer.set_result(item.result)
        if job.pending or job.answered or job.done:
            return None  # a task of the handler may still wait, but nothing is owed to the side behind this message
        job.answer_place = Place(job)
        return job.answer_place

    def _begin_call(self, side: Side, item: Call) -> Place | None:
        inwards = side is self.client
        if not inwards and self._stopping:
            side.skipped += 1
            self._log.info("a line of the agent came after the stop", method=item.method)
            if item.number is not None:
                side.answer(item.number, None, RequestError(INTERNAL_ERROR, STOPPING))
            return None
        direction: Direction = "to_agent" if inwards else "from_agent"
        kind: Kind = "notification" if item.number is None else "request"
        job = Job(
            self,
            Message(direction, item.method, item.params, kind),
            self._seats[direction],
            self.agent if inwards else self.client,
            origin=side,
            number=item.number,
            size=item.size,
        )
        job.place = place = Place(job)
        self._jobs.add(job)
        if item.number is not None:
            self._begun[side, item.number] = job
        job.task = asyncio.get_running_loop().create_task(self._perform(job))
        return place

    async def _perform(self, job: Job) -> None:
        """The task of one message: its whole way, and its answer."""
        current_job.set(job)
        began = self.clock.now()
        result: Any = None
        failure: RequestError | None = None
        try:
            job.started = True
            if job.cancelled or self._closed:
                raise asyncio.CancelledError
            result = await job.run()
        except RequestError as error:
            failure = error
        except (AgentExited, AgentNotRunning):
            failure = RequestError(INTERNAL_ERROR, AGENT_GONE)
        except asyncio.CancelledError as error:
            failure = self._cancelled(job, error)
        failure = self._answers.answer(job, result, failure)
        self._answers.done(job, began, result, failure)
        origin = job.origin
        try:
            if origin is not None and origin.blocked:
                await job.blocking(origin)
        finally:
            self._finish(job)

    def _cancelled(self, job: Job, error: BaseException) -> RequestError:
        if job.cancelled:
            return RequestError(REQUEST_CANCELLED, CANCELLED_TEXT)
        if not self._closed:
            text = f"The plug {job.label} failed."
            self.fault(error, text)
        return RequestError(INTERNAL_ERROR, self._failure_text)

    def _finish(self, job: Job) -> None:
        job.done = True
        for timer in (job.timer, job.last_timer):
            if timer is not None:
                timer.cancel()
        job.settle()
        self._jobs.discard(job)
        if job.origin is not None and job.number is not None:
            self._begun.pop((job.origin, job.number), None)
        self._last = self.clock.now()

    # Ending, inside

    def _answer_all(self) -> None:
        for job in list(self._begun.values()):
            self._answers.answer(job, None, RequestError(INTERNAL_ERROR, self._failure_text))

    def _tasks(self) -> set["asyncio.Future[Any]"]:
        return {job.task for job in self._jobs if job.task is not None}

    async def _within(self, futures: Iterable["asyncio.Future[Any]"], seconds: float) -> bool:
        """Wait for all of them for so long; whether they ended."""
        futures = set(futures)
        if not futures:
            return True
        waiting = asyncio.create_task(asyncio.wait(futures))
        try:
            return await within(self.clock, waiting, seconds)
        finally:
            waiting.cancel()

    async def _cancel_prompt(self, session: str) -> None:
        try:
            await self.send(-1, Message("to_agent", "session/cancel", {"sessionId": session}, "notification"))
        except PlugError as error:
            self._log.warning("a prompt could not be cancelled", session=session, error=error)
