"""Spans and metrics, read back from exporters in memory."""

import json
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from jsrun.agent.config import AgentIdentity
from jsrun.agent.errors import ApiError, RunError, ToolError
from jsrun.agent.messages import AssistantMessage
from jsrun.agent.otel import OtelInstrumentation
from jsrun.agent.provider import InferenceMetadata, InferenceRequest, InferenceResult, InferenceSettings
from jsrun.agent.runtime import start, start_with_session_store
from jsrun.agent.stores.memory import MemorySessions
from jsrun.agent.tools import ToolContext
from tests.agent.helpers import DONE, PATIENCE_S, Hang, asks, call, config, script, seen, tool

IDENTITY = AgentIdentity(id="a-1", name="clerk", description="does it", version="2", provider_name="openai")
FIGURES = InferenceMetadata("resp-1", "real-model", 30, 7, 10, 2, 0.01)
SETTINGS = InferenceSettings(max_tokens=9, temperature=0.5, top_p=0.25, seed=3, stop_sequences=("END",))


class Recorder:
    """An instrumentation whose spans and metrics stay in memory."""

    def __init__(self, capture_content: bool = False) -> None:
        self._exporter = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        meters = MeterProvider([self._reader])
        self.instrumentation = OtelInstrumentation(self.provider, meters, capture_content)

    @property
    def spans(self) -> dict[str, ReadableSpan]:
        """The spans that have ended, by name, which must not repeat."""
        spans = self._exporter.get_finished_spans()
        assert len({span.name for span in spans}) == len(spans)
        return {span.name: span for span in spans}

    @property
    def points(self) -> dict[str, list[Any]]:
        """The data points of each metric."""
        data = self._reader.get_metrics_data()
        metrics = data.resource_metrics[0].scope_metrics[0].metrics if data else []
        return {metric.name: list(metric.data.data_points) for metric in metrics}

    def everything(self) -> str:
        """All that leaves the process, as text."""
        spans = [span.to_json() for span in self._exporter.get_finished_spans()]
        data = self._reader.get_metrics_data()
        return "\n".join([*spans, data.to_json() if data else ""])


async def a_run(recorder: Recorder, *steps: Any, tools: Any = (), **options: Any) -> None:
    """One run in a session, its errors ignored."""
    options = {"identity": IDENTITY, "settings": SETTINGS, **options}
    made = config(script(*steps), *tools, instrumentation=recorder.instrumentation, **options)
    async with await start_with_session_store(made, MemorySessions().open("s-1")) as agent:
        await agent.try_run("secret prompt", PATIENCE_S)


def attributes(span: ReadableSpan, *, own: bool = False) -> dict[str, Any]:
    """The attributes of a span, without (or of) our own namespace."""
    return {name: value for name, value in (span.attributes or {}).items() if name.startswith("jsrun.agent.") == own}


async def test_the_tree_of_a_run_with_a_tool() -> None:
    """AGT-080 Names, kinds, parents and attributes."""
    recorder = Recorder()
    first = InferenceResult(asks(call("c-1", "look", '{"a":1}')), FIGURES)
    await a_run(recorder, first, ApiError("down", 500), tools=[tool(seen)])
    spans = recorder._exporter.get_finished_spans()
    chat, look, failed, run = spans
    assert [span.name for span in spans] == ["chat test", "execute_tool look", "chat test", "invoke_agent clerk"]
    assert [span.kind for span in spans] == [SpanKind.CLIENT, SpanKind.INTERNAL, SpanKind.CLIENT, SpanKind.INTERNAL]
    assert run.parent is None
    assert run.context is not None
    assert {span.parent.span_id for span in (chat, look, failed) if span.parent} == {run.context.span_id}
    shared = {
        "gen_ai.provider.name": "openai",
        "gen_ai.agent.id": "a-1",
        "gen_ai.agent.name": "clerk",
        "gen_ai.conversation.id": "s-1",
    }
    asked = {
        **shared,
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "test",
        "gen_ai.request.max_tokens": 9,
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.top_p": 0.25,
        "gen_ai.request.seed": 3,
        "gen_ai.request.stop_sequences": ("END",),
    }
    assert attributes(chat) == {
        **asked,
        "gen_ai.response.id": "resp-1",
        "gen_ai.response.model": "real-model",
        "gen_ai.response.finish_reasons": ("tool_use",),
        "gen_ai.usage.input_tokens": 30,
        "gen_ai.usage.output_tokens": 7,
        "gen_ai.usage.cache_read.input_tokens": 10,
        "gen_ai.usage.cache_creation.input_tokens": 2,
    }
    assert attributes(failed) == {**asked, "error.type": "ApiError"}
    assert attributes(look) == {
        **shared,
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "look",
        "gen_ai.tool.call.id": "c-1",
        "gen_ai.tool.type": "function",
    }
    assert attributes(run) == {
        **shared,
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.request.model": "test",
        "gen_ai.agent.description": "does it",
        "gen_ai.agent.version": "2",
        "gen_ai.usage.input_tokens": 30,
        "gen_ai.usage.output_tokens": 7,
        "gen_ai.usage.cache_read.input_tokens": 10,
        "gen_ai.usage.cache_creation.input_tokens": 2,
        "error.type": "InferenceError",
    }
    codes = [span.status.status_code for span in spans]
    assert codes == [StatusCode.UNSET, StatusCode.UNSET, StatusCode.ERROR, StatusCode.ERROR]


async def test_sizes_are_told() -> None:
    """AGT-080 Under our own names: how much, not what."""
    recorder = Recorder()
    await a_run(recorder, asks(call("c-1", "look", '{"é":1}')), DONE, tools=[tool(seen)])
    chat, look, again, run = recorder._exporter.get_finished_spans()
    assert attributes(chat, own=True) == {
        "jsrun.agent.messages": 1,
        "jsrun.agent.input_chars": len("secret prompt"),
        "jsrun.agent.output_chars": len('{"é":1}'),
    }
    assert attributes(look, own=True) == {"jsrun.agent.argument_bytes": 8, "jsrun.agent.result_bytes": len("seen c-1")}
    assert attributes(again, own=True)["jsrun.agent.messages"] == 3
    assert set(attributes(run, own=True)) == {"jsrun.agent.run.id"}


async def test_what_is_not_known_is_not_told() -> None:
    """AGT-080 An agent without names and figures has spans all the same."""
    recorder = Recorder()
    made = config(script(DONE), instrumentation=recorder.instrumentation)
    async with await start(made) as agent:
        await agent.run("hi", PATIENCE_S)
    chat, run = recorder.spans["chat test"], recorder.spans["invoke_agent"]
    assert attributes(chat) == {
        "gen_ai.agent.id": made.agent_id,
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "test",
        "gen_ai.response.finish_reasons": ("stop",),
    }
    assert "gen_ai.conversation.id" not in attributes(run)


async def test_metrics_measure_inferences() -> None:
    """AGT-080 Duration, with the error if there is one, and tokens by kind."""
    recorder = Recorder()
    await a_run(recorder, InferenceResult(asks(call("c-1")), FIGURES), ApiError("down", 500), tools=[tool(seen)])
    shared = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "test"}
    answered = {**shared, "gen_ai.response.model": "real-model"}
    durations = {
        json.dumps(dict(point.attributes), sort_keys=True): point
        for point in recorder.points["gen_ai.client.operation.duration"]
    }
    assert set(durations) == {
        json.dumps(answered, sort_keys=True),
        json.dumps({**shared, "error.type": "ApiError"}, sort_keys=True),
    }
    assert all(point.count == 1 and 0 <= point.sum < PATIENCE_S for point in durations.values())
    tokens = {point.attributes["gen_ai.token.type"]: point for point in recorder.points["gen_ai.client.token.usage"]}
    assert {kind: point.sum for kind, point in tokens.items()} == {"input": 30, "output": 7}
    assert dict(tokens["input"].attributes) == {**answered, "gen_ai.token.type": "input"}


@pytest.mark.parametrize(
    ("error", "kind"), [(ToolError("secret"), "ToolError"), (KeyError("secret"), "KeyError"), (None, "TimeoutError")]
)
async def test_a_tool_that_fails_has_the_class_of_its_error(error: Exception | None, kind: str) -> None:
    """AGT-080 Time-outs included; the run goes on and is none."""

    async def handler(arguments: dict[str, Any], ctx: ToolContext) -> str:
        if error is None:
            await Hang()()
        raise error or AssertionError

    recorder = Recorder()
    await a_run(recorder, asks(call("c-1")), DONE, tools=[tool(handler, timeout=0.05)])
    _, look, _, run = recorder._exporter.get_finished_spans()
    assert look.name == "execute_tool look"
    assert (look.status.status_code, (look.attributes or {})["error.type"]) == (StatusCode.ERROR, kind)
    assert run.status.status_code is StatusCode.UNSET


async def test_a_cancelled_run_ends_its_spans() -> None:
    """AGT-080 As failures of the class of the cancellation."""
    recorder = Recorder()
    hang = Hang()
    async with await start(config(hang, instrumentation=recorder.instrumentation)) as agent:
        handle = agent.start_run("hi")
        await hang.wait_entered()
        await handle.cancel()
    assert (recorder.spans["chat test"].attributes or {})["error.type"] == "CancelledError"
    assert (recorder.spans["invoke_agent"].attributes or {})["error.type"] == "RunCancelled"


async def test_each_span_is_current_while_its_work_runs() -> None:
    """AGT-080 In the provider, in an async tool, in a plain one in its thread; and a run nests under its caller."""
    recorder = Recorder()
    current: dict[str, int] = {}

    def note(name: str) -> None:
        current[name] = trace.get_current_span().get_span_context().span_id

    async def asynchronous(arguments: dict[str, Any], ctx: ToolContext) -> str:
        note("execute_tool look")
        return ""

    def plain(arguments: dict[str, Any], ctx: ToolContext) -> str:
        note("execute_tool plain")
        return ""

    def answer(request: InferenceRequest) -> AssistantMessage:
        if len(request.messages) > 1:
            return DONE
        note("chat test")
        return asks(call("a"), call("b", "plain"))

    tools = [tool(asynchronous), tool(plain, "plain")]
    made = config(script(answer, answer), *tools, instrumentation=recorder.instrumentation)
    with recorder.provider.get_tracer("caller").start_as_current_span("caller") as caller:
        async with await start(made) as agent:
            await agent.run("hi", PATIENCE_S)
        assert trace.get_current_span() is caller
    spans = recorder._exporter.get_finished_spans()
    ids = {span.name: span.context.span_id for span in reversed(spans) if span.context is not None}
    assert current == {name: ids[name] for name in ("chat test", "execute_tool look", "execute_tool plain")}
    (run,) = [span for span in spans if span.name == "invoke_agent"]
    assert run.parent is not None
    assert run.parent.span_id == caller.get_span_context().span_id


SECRETS = ("secret prompt", "secret answer", "secret thought", "secret argument", "secret result", "secret system")


async def telling(recorder: Recorder) -> None:
    """A run in which every kind of text is a secret, and one that fails with one."""

    async def handler(arguments: dict[str, Any], ctx: ToolContext) -> str:
        return "secret result"

    async def bad(arguments: dict[str, Any], ctx: ToolContext) -> str:
        raise ToolError("secret failure")

    asked = AssistantMessage(
        "secret answer",
        (call("a", "look", '{"x":"secret argument"}'), call("b", "bad", "{}")),
        thinking="secret thought",
        stop_reason="tool_use",
    )
    tools = [tool(handler), tool(bad, "bad")]
    await a_run(recorder, asked, ApiError("secret error", 500), tools=tools, system_prompt="secret system")


async def test_no_text_leaves_the_process_by_default() -> None:
    """AGT-081 Not of messages, arguments, results, and not of errors that may quote them."""
    recorder = Recorder()
    await telling(recorder)
    everything = recorder.everything()
    assert "gen_ai.operation.name" in everything
    assert "secret" not in everything


async def test_texts_are_there_when_they_are_asked_for() -> None:
    """AGT-081 In the form of the conventions, and still not in metrics."""
    recorder = Recorder(capture_content=True)
    await telling(recorder)
    everything = recorder.everything()
    for secret in (*SECRETS, "secret error", "secret failure"):
        assert secret in everything
    chat = recorder._exporter.get_finished_spans()[0]
    told = chat.attributes or {}
    assert json.loads(str(told["gen_ai.input.messages"])) == [
        {"role": "user", "parts": [{"type": "text", "content": "secret prompt"}]}
    ]
    (answer,) = json.loads(str(told["gen_ai.output.messages"]))
    assert [part["type"] for part in answer["parts"]] == ["reasoning", "text", "tool_call", "tool_call"]
    assert json.loads(str(told["gen_ai.system_instructions"])) == [{"type": "text", "content": "secret system"}]
    assert "secret" not in str(recorder.points)


async def test_the_global_providers_are_used_without_others() -> None:
    """AGT-080 Which do nothing unless the host has set them."""
    async with await start(config(script(DONE), instrumentation=OtelInstrumentation())) as agent:
        assert await agent.run("hi", PATIENCE_S) == DONE
        with pytest.raises(RunError):
            await agent.run("hi", PATIENCE_S)
