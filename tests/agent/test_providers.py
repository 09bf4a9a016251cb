"""Providers of ours: the one that asks again, and the ones that play a script."""

from collections.abc import Callable

import pytest

from jsrun.agent.errors import (
    AiError,
    ApiError,
    AuthFailed,
    ContextTooLong,
    InferenceTimeout,
    InvalidConfiguration,
    InvalidResponse,
    RateLimited,
)
from jsrun.agent.events import InferenceCompleted, InferenceDelta
from jsrun.agent.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from jsrun.agent.provider import Delta, InferenceRequest, InferenceResult
from jsrun.agent.providers.retrying import RetryingProvider
from jsrun.agent.runtime import start
from jsrun.agent.testing import ScriptedProvider, StreamingScriptedProvider
from tests.agent.helpers import PATIENCE_S, Seen, config, seen, tool

REQUEST = InferenceRequest((UserMessage("hi"),))
ANSWER = AssistantMessage("hello there", stop_reason="stop")


class Clock:
    """Sleeps at once, and notes for how long it would have."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    async def sleep(self, seconds: float) -> None:
        """Note it."""
        self.waits.append(seconds)


def retrying(inner: ScriptedProvider, clock: Clock, attempts: int = 3, jitter: float = 0.0) -> RetryingProvider:
    """A provider that asks again in no time."""
    return RetryingProvider(inner, attempts, sleep=clock.sleep, jitter=lambda: jitter)


@pytest.mark.parametrize("error", [RateLimited(), InferenceTimeout(1.0), ApiError("down", 500), ApiError("busy", 529)])
async def test_what_may_pass_is_asked_again(error: AiError) -> None:
    """AGT-079 Twice failed, the third answer counts; the pauses double."""
    clock, inner = Clock(), ScriptedProvider([error, error, ANSWER])
    assert await retrying(inner, clock)(REQUEST) == InferenceResult(ANSWER)
    assert inner.requests == [REQUEST] * 3
    assert clock.waits == [1.0, 2.0]


@pytest.mark.parametrize(
    "error",
    [
        ApiError("bad request", 400),
        ApiError("no status"),
        ApiError("almost", 499),
        AuthFailed("no key", 401),
        ContextTooLong("too long", 400),
        InvalidResponse("gibberish"),
    ],
)
async def test_what_stays_wrong_is_asked_once(error: AiError) -> None:
    """AGT-079 An error that comes again anyway is handed through at once."""
    clock, inner = Clock(), ScriptedProvider([error, ANSWER])
    with pytest.raises(type(error)) as caught:
        await retrying(inner, clock)(REQUEST)
    assert caught.value == error
    assert len(inner.requests) == 1
    assert clock.waits == []


async def test_a_foreign_exception_is_not_asked_again() -> None:
    """AGT-079 Only what §10 lists is retried."""

    def broken(request: InferenceRequest) -> object:
        raise KeyError("bug")

    inner = ScriptedProvider([broken, ANSWER])
    with pytest.raises(KeyError):
        await retrying(inner, Clock())(REQUEST)
    assert len(inner.requests) == 1


async def test_the_last_error_is_the_one_that_is_raised() -> None:
    """AGT-079 After the attempts are used up."""
    clock, inner = Clock(), ScriptedProvider([RateLimited(), ApiError("x", 500), ApiError("y", 503), ANSWER])
    with pytest.raises(ApiError) as caught:
        await retrying(inner, clock)(REQUEST)
    assert caught.value == ApiError("y", 503)
    assert len(inner.requests) == 3


@pytest.mark.parametrize(
    ("after", "jitter", "waits"), [(7.5, 0.0, 7.5), (10.0, 1.0, 15.0), (3600.0, 1.0, 60.0), (0.0, 1.0, 0.0)]
)
async def test_the_provider_says_how_long_to_wait(after: float, jitter: float, waits: float) -> None:
    """AGT-079 `retry_after` is honoured, never undercut, up to 60 seconds."""
    clock, inner = Clock(), ScriptedProvider([RateLimited(after), ANSWER])
    await retrying(inner, clock, jitter=jitter)(REQUEST)
    assert clock.waits == [waits]


async def test_after_a_delta_nothing_is_asked_again() -> None:
    """AGT-079 What was shown cannot be taken back."""

    class Breaks(ScriptedProvider):
        async def stream(self, request: InferenceRequest, emit: Callable[[Delta], None]) -> InferenceResult:
            emit(Delta("text", "hel"))
            return await self(request)

    clock, inner = Clock(), Breaks([ApiError("down", 500), ANSWER])
    shown: list[Delta] = []
    with pytest.raises(ApiError):
        await retrying(inner, clock).stream(REQUEST, shown.append)
    assert shown == [Delta("text", "hel")]
    assert len(inner.requests) == 1


async def test_a_stream_that_failed_before_its_first_delta_is_asked_again() -> None:
    """AGT-079 Nothing was shown yet."""
    clock, inner = Clock(), StreamingScriptedProvider([ApiError("down", 500), ANSWER])
    shown: list[Delta] = []
    assert await retrying(inner, clock).stream(REQUEST, shown.append) == InferenceResult(ANSWER)
    assert "".join(delta.text for delta in shown) == ANSWER.content


async def test_a_provider_that_cannot_stream_still_answers() -> None:
    """AGT-076 AGT-079 Streaming around it shows nothing, and answers the same."""
    shown: list[Delta] = []
    inner = ScriptedProvider([RateLimited(), ANSWER])
    assert await retrying(inner, Clock()).stream(REQUEST, shown.append) == InferenceResult(ANSWER)
    assert shown == []


@pytest.mark.parametrize("attempts", [0, -1, True, 1.5])
def test_attempts_are_a_whole_number(attempts: int) -> None:
    """AGT-079 One attempt is the least."""
    with pytest.raises(InvalidConfiguration, match="attempts"):
        RetryingProvider(ScriptedProvider([]), attempts)


async def test_a_script_records_requests_and_reports_its_end() -> None:
    """AGT-079 Messages, results, errors and callables are steps."""
    result = InferenceResult(AssistantMessage("result"))
    seen: list[InferenceRequest] = []

    def called(request: InferenceRequest) -> AssistantMessage:
        seen.append(request)
        return AssistantMessage("called")

    async def awaited(request: InferenceRequest) -> InferenceResult:
        return result

    provider = ScriptedProvider([ANSWER, result, RateLimited(3.0), called, awaited])
    assert await provider(REQUEST) == InferenceResult(ANSWER)
    assert await provider(REQUEST) == result
    with pytest.raises(RateLimited) as limited:
        await provider(REQUEST)
    assert limited.value == RateLimited(3.0)
    assert await provider(REQUEST) == InferenceResult(AssistantMessage("called"))
    assert seen == [REQUEST]
    assert await provider(REQUEST) == result
    with pytest.raises(InvalidResponse, match="5 steps"):
        await provider(REQUEST)
    assert provider.requests == [REQUEST] * 6


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("kind", [ScriptedProvider, StreamingScriptedProvider])
async def test_deltas_are_a_view_of_the_answer(kind: type[ScriptedProvider], stream: bool) -> None:
    """AGT-076 Joined text deltas are the content; without `stream`, or where it is off, the run is the same."""
    asked = AssistantMessage("let me look", (ToolCall("a", "look", '{"at":1}'),), thinking="hm", stop_reason="tool_use")
    watcher = Seen()
    made = config(kind([asked, ANSWER]), tool(seen), stream=stream, dispatcher=watcher.dispatcher)
    async with await start(made) as agent:
        assert await agent.run("hi", PATIENCE_S) == ANSWER
        assert await agent.history() == (UserMessage("hi"), asked, ToolMessage("a", "seen a"), ANSWER)
    deltas = await watcher.events(InferenceDelta)
    if stream and kind is StreamingScriptedProvider:
        texts = {name: "".join(one.text for one in deltas if one.kind == name) for name in ("text", "thinking")}
        assert texts == {"text": asked.content + ANSWER.content, "thinking": "hm"}
        assert [one.text for one in deltas if one.kind == "tool_call"] == ['{"at":1}']
    else:
        assert deltas == []
    assert len(await watcher.events(InferenceCompleted)) == 2
