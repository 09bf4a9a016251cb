"""differential: one made program on QuickJS and on V8: the same calls, the same output."""

import re
from contextlib import AbstractContextManager
from typing import Any

from fuzz.running import Ground, Ran, ground
from fuzz.strategies import programs
from fuzz.targets import Target

# What may differ, and why:
# - the time, which goes on while doors answer; programs here do not ask for it;
# - the name of the time zone behind a date, which the language leaves to the engine: V8 writes `(GMT)`, QuickJS none;
# - `toLocaleString` and `localeCompare`, which the language leaves to the engine too: only V8 knows locales;
# - texts of errors and positions in them, which are the engine's own words. They are left out of what is compared;
#   `e.name`, which the language fixes, is not.
_WORDS = re.compile(
    r"program\.js:\d+:\d+.*|(Type|Reference|Syntax|Range|Internal)?Error.*|cannot .*|not a function.*", re.DOTALL
)


def opened() -> AbstractContextManager[Ground]:
    """Both engines."""
    return ground("quickjs", "v8")


def check(program: Any, place: Ground) -> None:
    """Equal calls, equal ending, equal output."""
    if len(place.runtimes) < 2:
        return
    runs = {engine: place.run(engine, program) for engine in ("quickjs", "v8")}
    one, two = runs["quickjs"], runs["v8"]
    assert (one is None) == (two is None), "one engine's bundle is refused"
    if one is None or two is None:
        return
    if {one.result.reason, two.result.reason} & {"wall", "compute", "memory"}:
        return
    assert _calls(one) == _calls(two), f"calls: {_calls(one)} and {_calls(two)}"
    assert one.result.status == two.result.status, (one.result, two.result)
    assert one.result.reason == two.result.reason, (one.result.sentence, two.result.sentence)
    assert _plain(one.result.output) == _plain(two.result.output), (one.result.output, two.result.output)


def _calls(ran: Ran) -> list[tuple[str, str, str]]:
    return [(row.call, row.ref, _WORDS.sub("", row.input or row.note or "")) for row in ran.record.entries]


def _plain(value: Any) -> Any:
    """A value without the words of errors in its texts."""
    if isinstance(value, str):
        return _WORDS.sub("", value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


TARGET = Target(
    about="the same made program on QuickJS and V8: equal calls and output",
    inputs=programs(own_words=False),
    check=check,
    open=opened,
    batch=10,
)
