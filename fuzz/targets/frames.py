"""frames: arbitrary bytes in arbitrary splits, through the channel's reader into the machine."""

from typing import Any

from hypothesis import strategies as st

from fuzz.machines import check_events, machine
from fuzz.strategies import frames
from fuzz.targets import Target
from ptc.frames import FrameError, FrameReader, loads
from ptc.protocol.machine import Event


def check(given: Any, _place: None) -> None:
    """Nothing raises, only declared functions are called, one outcome; and the split makes no difference."""
    state, data, cuts = given
    whole = machine(state)
    events = whole.feed(data)
    check_events(events)
    other = machine(state)
    parts: list[Event] = []
    start = 0
    for end in [*sorted({cut % (len(data) + 1) for cut in cuts}), len(data)]:
        parts += other.feed(data[start:end])
        start = end
    assert parts == events, f"in parts: {parts}"
    assert other.state == whole.state
    ended = whole.eof() + whole.exited(None)
    assert other.eof() + other.exited(None) == ended
    check_events(events + ended)
    assert whole.state == "settled"
    reader = FrameReader(400)
    reader.feed(data)
    try:
        for body in reader:
            loads(body)
    except FrameError:
        return


TARGET = Target(
    about="arbitrary bytes in arbitrary splits into the channel's reader and the host's machine",
    inputs=st.tuples(st.sampled_from(["new", "running"]), frames(), st.lists(st.integers(0, 2000), max_size=10)).map(
        list
    ),
    check=check,
    guided=True,
)
