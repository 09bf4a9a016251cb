"""The invariants of the pure core over any sequence of messages, legal and illegal."""

import copy

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from jsrun.agent.core import (
    IDLE,
    MODEL,
    TOOLS,
    AgentState,
    CallProvider,
    Done,
    Interrupted,
    Msg,
    Next,
    ProviderFailed,
    ProviderResponded,
    Resume,
    StepResult,
    ToolResults,
    UserPrompt,
    update,
)
from jsrun.agent.errors import IllegalTransition
from jsrun.agent.messages import AssistantMessage, ToolCall, ToolMessage, open_calls, pairing_problem
from tests.agent.test_core import FAILURE, MESSAGES

_IDS = st.sampled_from(["a", "b", "c", "", " "])
_CALLS = st.lists(st.builds(ToolCall, _IDS, st.just("look"), st.just("{}")), max_size=3).map(tuple)
_REASONS = st.sampled_from(["stop", "length", "tool_use", "error", None, "other"])
_ASSISTANT = st.builds(AssistantMessage, st.just("x"), _CALLS, st.none(), _REASONS)
_ILLEGAL = st.sampled_from(MESSAGES)


class AnySequence(RuleBasedStateMachine):
    """AGT-001 AGT-012 Any sequence of messages, legal and illegal."""

    def __init__(self) -> None:
        super().__init__()
        self.state = AgentState()

    @initialize(limit=st.integers(1, 3))
    def start(self, limit: int) -> None:
        """Begin with an empty history."""
        self.state = AgentState(max_iterations=limit)

    @precondition(lambda self: self.state.phase is IDLE)
    @rule()
    def prompt(self) -> None:
        """A caller says something."""
        self.step(UserPrompt("hi"))

    @precondition(lambda self: self.state.phase is IDLE)
    @rule(withheld=st.booleans())
    def resume(self, withheld: bool) -> None:
        """A caller goes on."""
        self.step(Resume(withheld))

    @precondition(lambda self: self.state.phase is MODEL)
    @rule(message=_ASSISTANT)
    def respond(self, message: AssistantMessage) -> None:
        """The model answers."""
        self.step(ProviderResponded(message))

    @precondition(lambda self: self.state.phase is MODEL)
    @rule()
    def fail(self) -> None:
        """The model does not answer."""
        self.step(ProviderFailed(FAILURE))

    @precondition(lambda self: self.state.phase is MODEL)
    @rule()
    def interrupt_inference(self) -> None:
        """The inference is cut short."""
        self.step(Interrupted())

    @precondition(lambda self: self.state.phase is TOOLS)
    @rule(cut=st.booleans())
    def finish_tools(self, cut: bool) -> None:
        """The batch ends, of itself or cut short."""
        results = tuple(ToolMessage(call.id, "r") for call in open_calls(self.state.history))
        self.step(Interrupted(results) if cut else ToolResults(results))

    @rule(message=_ILLEGAL)
    def anything(self, message: Msg) -> None:
        """A message that may be illegal here; if so it changes nothing."""
        before = copy.deepcopy(self.state)
        try:
            update(self.state, message)
        except IllegalTransition:
            assert self.state == before
        else:
            assert self.state == before
            self.step(message)

    def step(self, message: Msg) -> None:
        """One legal transition, and everything that holds of it."""
        before, given = copy.deepcopy(self.state), copy.deepcopy(message)
        result = update(self.state, message)
        assert (self.state, message) == (before, given), "the inputs stay as they were"
        assert update(before, given) == result, "equal inputs give equal results"
        history = result.state.history
        assert history[: len(before.history)] == before.history, "the history only grows"
        added = len(history) > len(before.history)
        if isinstance(result, Next):
            if isinstance(result.effect, CallProvider):
                assert result.state.phase is MODEL
                assert result.effect.messages == history
                assert open_calls(history) == ()
            else:
                assert result.state.phase is TOOLS
                assert result.effect.calls == open_calls(history)
        else:
            assert result.state.phase is IDLE
        if added:
            self.crash_equivalence(result)
        self.state = result.state

    def crash_equivalence(self, result: StepResult) -> None:
        """What the same history yields when it is loaded and its last effect was withheld."""
        loaded = AgentState(result.state.history, result.state.iterations, result.state.max_iterations, IDLE)
        again = update(loaded, Resume(withheld=True))
        if isinstance(result, Next):
            assert again == result
        if isinstance(result, Done) and result.message.stop_reason in ("stop", None):
            assert again == result

    @invariant()
    def rounds_stay_below_the_limit(self) -> None:
        """`iterations` never passes `max_iterations`."""
        assert 0 <= self.state.iterations <= self.state.max_iterations

    @invariant()
    def calls_and_answers_pair(self) -> None:
        """Every tool message answers a call of the nearest assistant message, once."""
        assert pairing_problem(self.state.history) is None


AnySequence.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)


TestAnySequence = AnySequence.TestCase
