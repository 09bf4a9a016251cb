"""`python -m tests.bench.agent`: what the agent adds to one tool round, with everything foreign answering at once.

A round is one inference and one batch of one call, with their commits into memory, hooks and events included.
"""

import asyncio
import statistics
import sys
import time

from jsrun.agent import (
    AssistantMessage,
    EventDispatcher,
    EventRecord,
    Hooks,
    InferenceRequest,
    InferenceResult,
    MemorySessions,
    RuntimeConfig,
    Tool,
    ToolCall,
    ToolContext,
    ToolDefinition,
    ToolRegistry,
    start_with_session_store,
)

ROUNDS = 40
RUNS = 25
AGENTS = 200
# Milliseconds; a model takes a hundred times as long to answer.
BAR_MS = 3.0


async def provider(request: InferenceRequest) -> InferenceResult:
    """Asks for one call in every round but the last."""
    number = len(request.messages)
    if number > 2 * ROUNDS:
        return InferenceResult(AssistantMessage("done", stop_reason="stop"))
    call = ToolCall(f"call-{number}", "look", '{"path": "README.md"}')
    return InferenceResult(AssistantMessage("", (call,), stop_reason="tool_use"))


async def look(arguments: object, context: ToolContext) -> str:
    """Answers at once."""
    return "a page of text"


async def watch(record: EventRecord) -> None:
    """Takes every event and does nothing with it."""


PARAMETERS = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


async def one_run(sessions: MemorySessions, number: int, dispatcher: EventDispatcher) -> float:
    """Milliseconds per round of a run."""
    config = RuntimeConfig(
        provider,
        ToolRegistry((Tool(ToolDefinition("look", "Look.", PARAMETERS), look),)),  # type: ignore[arg-type]  # it is JSON
        (Hooks("plain", on_tool_call=lambda *given: None, on_before_inference=lambda *given: None),),
        dispatcher,
    )
    async with await start_with_session_store(config, sessions.open(f"s{number}")) as agent:
        started = time.perf_counter()
        await agent.run("go", timeout=None)
        return (time.perf_counter() - started) * 1000 / ROUNDS


async def main() -> int:
    """Print the figures; 1 if a bar is missed."""
    sessions, dispatcher = MemorySessions(), EventDispatcher()
    dispatcher.add(watch)
    await one_run(sessions, 0, dispatcher)
    alone = statistics.median([await one_run(sessions, number, dispatcher) for number in range(1, RUNS)])
    started = time.perf_counter()
    await asyncio.gather(*(one_run(sessions, RUNS + number, dispatcher) for number in range(AGENTS)))
    together = (time.perf_counter() - started) * 1000 / ROUNDS / AGENTS
    await dispatcher.aclose()
    print(f"one agent:        {alone:.2f} ms per round (bar {BAR_MS:g})")
    print(f"{AGENTS} agents at once: {together:.2f} ms per round (bar {BAR_MS:g})")
    return 1 if max(alone, together) > BAR_MS else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
