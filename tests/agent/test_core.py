"""The pure core: every row of its table, every pair that is not in it, and its invariants over any sequence."""

import ast
import copy
from pathlib import Path

import pytest

import jsrun.agent.core
import jsrun.agent.errors
import jsrun.agent.messages
from jsrun.agent.core import (
    IDLE,
    MAX_CALLS,
    MODEL,
    TOOLS,
    AgentState,
    CallProvider,
    Done,
    ExecuteTools,
    Failed,
    Halted,
    Interrupted,
    Msg,
    Next,
    Phase,
    ProviderFailed,
    ProviderResponded,
    Resume,
    StepResult,
    ToolResults,
    UserPrompt,
    update,
)
from jsrun.agent.errors import ApiError, IllegalTransition, IterationLimit, RuntimeFault
from jsrun.agent.messages import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)

A, B = ToolCall("a", "look", "{}"), ToolCall("b", "look", "{}")
ASKED = AssistantMessage("looking", (A, B), stop_reason="tool_use")
ANSWER = AssistantMessage("done", stop_reason="stop")
USER = UserMessage("hi")
RESULTS = (ToolMessage("a", "1"), ToolMessage("b", "2"))
FAILURE = ApiError("broken", 500)


def idle(*history: Message, iterations: int = 0, limit: int = 50) -> AgentState:
    """A state between runs."""
    return AgentState(history, iterations, limit, IDLE)


def model(*history: Message, iterations: int = 0, limit: int = 50) -> AgentState:
    """A state that waits for the model."""
    return AgentState(history, iterations, limit, MODEL)


def tools(*history: Message, iterations: int = 0, limit: int = 50) -> AgentState:
    """A state that waits for tools."""
    return AgentState(history, iterations, limit, TOOLS)


def closed(call: ToolCall) -> ToolMessage:
    """What a prompt answers an open call with."""
    return ToolMessage(call.id, "Tool error: not executed", is_error=True)


ROWS: dict[str, tuple[AgentState, Msg, StepResult]] = {
    "prompt": (
        idle(iterations=7),
        UserPrompt("hi"),
        Next(model(USER), CallProvider((USER,))),
    ),
    "prompt after open calls": (
        idle(USER, ASKED, RESULTS[0]),
        UserPrompt("hi"),
        Next(model(USER, ASKED, RESULTS[0], closed(B), USER), CallProvider((USER, ASKED, RESULTS[0], closed(B), USER))),
    ),
    "answer": (model(USER), ProviderResponded(ANSWER), Done(idle(USER, ANSWER), ANSWER)),
    "sound batch": (
        model(USER, iterations=3),
        ProviderResponded(ASKED),
        Next(tools(USER, ASKED, iterations=3), ExecuteTools((A, B), recovered=False)),
    ),
    "provider failure": (
        model(USER, iterations=3),
        ProviderFailed(FAILURE),
        Failed(idle(USER, iterations=3), FAILURE),
    ),
    "interrupted inference": (model(USER, iterations=3), Interrupted(), Halted(idle(USER, iterations=3))),
    "tool results": (
        tools(USER, ASKED, iterations=3),
        ToolResults(RESULTS),
        Next(model(USER, ASKED, *RESULTS, iterations=4), CallProvider((USER, ASKED, *RESULTS))),
    ),
    "results of what was still open": (
        tools(USER, ASKED, RESULTS[0]),
        ToolResults(RESULTS[1:]),
        Next(model(USER, ASKED, *RESULTS, iterations=1), CallProvider((USER, ASKED, *RESULTS))),
    ),
    "tool results at the limit": (
        tools(USER, ASKED, iterations=3, limit=4),
        ToolResults(RESULTS),
        Failed(idle(USER, ASKED, *RESULTS, iterations=4, limit=4), IterationLimit(4)),
    ),
    "interrupted tools": (
        tools(USER, ASKED, iterations=3),
        Interrupted(RESULTS),
        Halted(idle(USER, ASKED, *RESULTS, iterations=3)),
    ),
    "resume without history": (idle(iterations=3), Resume(), Failed(idle(), RuntimeFault("no_history"))),
    "resume open calls": (
        idle(USER, ASKED, iterations=3),
        Resume(),
        Next(tools(USER, ASKED), ExecuteTools((A, B), recovered=True)),
    ),
    "resume what is still open": (
        idle(USER, ASKED, RESULTS[0]),
        Resume(),
        Next(tools(USER, ASKED, RESULTS[0]), ExecuteTools((B,), recovered=True)),
    ),
    "resume withheld calls": (
        idle(USER, ASKED, iterations=3),
        Resume(withheld=True),
        Next(tools(USER, ASKED, iterations=3), ExecuteTools((A, B), recovered=False)),
    ),
    "resume a user tail": (idle(USER, iterations=3), Resume(), Next(model(USER), CallProvider((USER,)))),
    "resume a tool tail": (
        idle(USER, ASKED, *RESULTS, iterations=3),
        Resume(withheld=True),
        Next(model(USER, ASKED, *RESULTS, iterations=3), CallProvider((USER, ASKED, *RESULTS))),
    ),
    "resume a finished tail": (idle(USER, ANSWER, iterations=3), Resume(), Done(idle(USER, ANSWER), ANSWER)),
    "resume a system tail": (
        idle(USER, SystemMessage("s")),
        Resume(),
        Failed(idle(USER, SystemMessage("s")), RuntimeFault("bad_tail")),
    ),
}

MESSAGES: tuple[Msg, ...] = (
    UserPrompt("hi"),
    Resume(),
    ProviderResponded(ANSWER),
    ProviderFailed(FAILURE),
    ToolResults(RESULTS),
    Interrupted(),
    Interrupted(RESULTS),
)
STATES = {IDLE: idle(USER, ASKED), MODEL: model(USER), TOOLS: tools(USER, ASKED)}
LEGAL = {
    (IDLE, UserPrompt("hi")),
    (IDLE, Resume()),
    (MODEL, ProviderResponded(ANSWER)),
    (MODEL, ProviderFailed(FAILURE)),
    (MODEL, Interrupted()),
    (TOOLS, ToolResults(RESULTS)),
    (TOOLS, Interrupted(RESULTS)),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
def test_each_row_of_the_table(row: tuple[AgentState, Msg, StepResult]) -> None:
    """AGT-002 AGT-003 AGT-004 AGT-007 AGT-008 AGT-011 AGT-013 AGT-014 AGT-015 AGT-016"""
    state, message, expected = row
    assert update(state, message) == expected


@pytest.mark.parametrize("phase", list(Phase))
@pytest.mark.parametrize("message", MESSAGES, ids=repr)
def test_every_pair_that_is_not_in_the_table_is_illegal(phase: Phase, message: Msg) -> None:
    """AGT-002 It raises and changes nothing; the legal ones do not raise."""
    state = STATES[phase]
    before = copy.deepcopy(state)
    if (phase, message) in LEGAL:
        update(state, message)
    else:
        with pytest.raises(IllegalTransition) as caught:
            update(state, message)
        assert caught.value.phase == phase.value
    assert state == before


@pytest.mark.parametrize(
    "results",
    [(), RESULTS[:1], RESULTS[::-1], (*RESULTS, ToolMessage("c", "")), (RESULTS[0], RESULTS[0])],
    ids=["none", "missing", "out of order", "too many", "twice"],
)
@pytest.mark.parametrize("kind", [ToolResults, Interrupted])
def test_results_name_exactly_the_open_calls_in_order(
    results: tuple[ToolMessage, ...], kind: type[ToolResults] | type[Interrupted]
) -> None:
    """AGT-002 AGT-008 Anything else raises and changes nothing."""
    state = tools(USER, ASKED)
    with pytest.raises(IllegalTransition):
        update(state, kind(results))
    assert state == tools(USER, ASKED)


@pytest.mark.parametrize("reason", ["stop", "length", "tool_use", "error", "refusal", None])
def test_the_stop_reason_never_decides_what_follows_an_answer(reason: str | None) -> None:
    """AGT-005 AGT-006 No calls is Done, calls are executed, whatever the stop reason."""
    said = AssistantMessage("x", stop_reason=reason)
    assert update(model(USER), ProviderResponded(said)) == Done(idle(USER, said), said)
    asked = AssistantMessage("x", (B, A), stop_reason=reason)
    assert update(model(USER), ProviderResponded(asked)) == Next(
        tools(USER, asked), ExecuteTools((B, A), recovered=False)
    )


@pytest.mark.parametrize("reason", ["stop", "length", "error", None, "other"])
def test_open_calls_win_over_the_stop_reason_on_entry(reason: str | None) -> None:
    """AGT-015 Open calls at the tail are executed whatever the stop reason."""
    asked = AssistantMessage("x", (A,), stop_reason=reason)
    assert update(idle(USER, asked), Resume()) == Next(tools(USER, asked), ExecuteTools((A,), recovered=True))


@pytest.mark.parametrize("reason", ["length", "error", "tool_use", "anything"])
def test_a_cut_tail_goes_to_inference_and_stays(reason: str) -> None:
    """AGT-017 The cut message stays and a second assistant message may follow."""
    cut = AssistantMessage("half a", stop_reason=reason)
    result = update(idle(USER, cut), Resume())
    assert result == Next(model(USER, cut), CallProvider((USER, cut)))
    assert update(result.state, ProviderResponded(ANSWER)) == Done(idle(USER, cut, ANSWER), ANSWER)


def test_a_limit_of_one_fails_after_the_first_round_and_keeps_it() -> None:
    """AGT-009 The tool messages stay, and the error names the limit."""
    result = update(tools(USER, ASKED, limit=1), ToolResults(RESULTS))
    assert result == Failed(idle(USER, ASKED, *RESULTS, iterations=1, limit=1), IterationLimit(1))
    assert str(IterationLimit(1)) == "exceeded maximum iterations (1)"


def test_after_the_limit_a_continue_has_a_fresh_budget() -> None:
    """AGT-018 Resume zeroes the rounds."""
    result = update(idle(USER, ASKED, *RESULTS, iterations=4, limit=4), Resume())
    assert isinstance(result, Next)
    assert result.state.iterations == 0


@pytest.mark.parametrize(
    ("calls", "words"),
    [
        ((ToolCall("", "look", "{}"), A), "blank id"),
        ((A, ToolCall(" \t", "look", "{}")), "blank id"),
        ((A, B, A), "same id"),
        (tuple(ToolCall(str(n), "look", "{}") for n in range(MAX_CALLS + 1)), "129 calls"),
    ],
    ids=["empty", "blank", "repeated", "129"],
)
def test_an_unsound_batch_is_rejected_whole(calls: tuple[ToolCall, ...], words: str) -> None:
    """AGT-010 Repaired ids, one error per call, no provider data, one round, and the model is asked again."""
    message = AssistantMessage("x", calls, thinking="t", stop_reason="tool_use", provider_data={"old": 1})
    result = update(model(USER), ProviderResponded(message))
    assert isinstance(result, Next)
    assert result.effect == CallProvider(result.state.history)
    assert (result.state.phase, result.state.iterations) == (MODEL, 1)
    user, repaired, *errors = result.state.history
    assert user == USER
    assert isinstance(repaired, AssistantMessage)
    ids = [f"rejected-1-{n}" for n in range(len(calls))]
    assert [call.id for call in repaired.tool_calls] == ids
    assert [(call.name, call.arguments_json) for call in repaired.tool_calls] == [("look", "{}")] * len(calls)
    assert (repaired.content, repaired.thinking, repaired.provider_data) == ("x", "t", None)
    assert [error.tool_call_id for error in errors if isinstance(error, ToolMessage)] == ids
    for error in errors:
        assert isinstance(error, ToolMessage)
        assert error.is_error
        assert error.content.startswith("Tool error: batch rejected: ")
        assert words in error.content


def test_a_batch_of_128_is_sound() -> None:
    """AGT-010 The limit itself is allowed."""
    calls = tuple(ToolCall(str(n), "look", "{}") for n in range(MAX_CALLS))
    result = update(model(USER), ProviderResponded(AssistantMessage("", calls)))
    assert isinstance(result, Next)
    assert result.effect == ExecuteTools(calls, recovered=False)


def test_an_unsound_batch_at_the_limit_fails_and_stays() -> None:
    """AGT-009 AGT-010 A rejected batch is a round like any other."""
    result = update(model(USER, limit=1), ProviderResponded(AssistantMessage("", (A, A))))
    assert isinstance(result, Failed)
    assert result.error == IterationLimit(1)
    assert len(result.state.history) == 4
    assert result.state.phase is IDLE


def test_the_pure_modules_import_nothing_that_acts() -> None:
    """AGT-001 No IO, time, randomness or scheduling: only values and each other."""
    allowed = {"collections.abc", "dataclasses", "enum", "re", "typing", "ptc.wire"}
    allowed |= {f"jsrun.agent.{name}" for name in ("core", "errors", "messages")}
    for module in (jsrun.agent.core, jsrun.agent.errors, jsrun.agent.messages):
        tree = ast.parse(Path(module.__file__ or "").read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                assert {alias.name for alias in node.names} <= allowed
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0
                assert node.module in allowed
                # The type of JSON values is the one name from outside, and only a type checker imports it.
                assert node.module != "ptc.wire" or [alias.name for alias in node.names] == ["Json"]
