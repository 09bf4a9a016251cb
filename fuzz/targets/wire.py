"""wire: the codec of values, on its own and against the one inside a real engine."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hypothesis import strategies as st

import ptc
from fuzz.strategies import tokens, wire_values
from fuzz.targets import Target
from ptc import frames, wire
from ptc.wire import WireError


@contextmanager
def opened() -> Iterator[ptc.SyncImage]:
    """A program that gives back what it gets."""
    with ptc.SyncRuntime(spares=2) as runtime:
        yield runtime.load("return input", input_name="input", form="sync")


def check(given: Any, image: ptc.SyncImage | None) -> None:
    """Arbitrary tokens are a value or a WireError; a value is the same behind the wire, here and in the engine."""
    kind, part = given
    if kind == "tokens":
        try:
            value = wire.decode(frames.loads(json.dumps(part).encode()))
        except WireError:
            return
        assert wire.decode(frames.loads(wire.encode(value).encode())) == value
        return
    text = wire.encode(part)
    back = wire.decode(frames.loads(text.encode()))
    assert same(back, part), f"here: {back!r} of {part!r}"
    assert wire.encode(back) == text
    if image is not None:
        outcome = image.run(input=part)
        assert outcome.ok, outcome.failure
        assert same(outcome.value, part), f"the engine: {outcome.value!r} of {part!r}"


def same(one: Any, two: Any) -> bool:
    """Equal as JavaScript has them: no difference between 1 and 1.0, and keys in the order of an object."""
    if isinstance(one, dict) and isinstance(two, dict):
        return one.keys() == joined(two).keys() and all(same(one[key], joined(two)[key]) for key in one)
    if isinstance(one, list) and isinstance(two, list):
        return len(one) == len(two) and all(map(same, one, two))
    if isinstance(one, str) and isinstance(two, str):
        return wire.joined(one) == wire.joined(two)
    if isinstance(one, bool) or isinstance(two, bool) or one is None or two is None:
        return one is two
    return bool(one == two)


def joined(value: dict[str, Any]) -> dict[str, Any]:
    """An object with its keys as a program holds them."""
    return {wire.joined(key): inner for key, inner in value.items()}


TARGET = Target(
    about="decode arbitrary tokens; encode and decode values; the codec of the engine against the one of Python",
    guided=True,
    inputs=st.tuples(st.just("tokens"), tokens()).map(list) | st.tuples(st.just("value"), wire_values()).map(list),
    check=check,
    open=opened,
)
