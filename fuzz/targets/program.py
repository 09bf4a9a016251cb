"""program: made programs as bundles, on every engine."""

from contextlib import AbstractContextManager
from typing import Any

from hypothesis import strategies as st

from fuzz.engines import ENGINES
from fuzz.running import Ground, check_ran, ground
from fuzz.strategies import programs
from fuzz.targets import Target

# Spawned processes take fifty times as long to start.
_MOSTLY = [*["quickjs"] * 12, "quickjs-spawned", *["v8"] * 3]


def opened() -> AbstractContextManager[Ground]:
    """Every engine, QuickJS forked and spawned."""
    return ground(*ENGINES)


def check(given: Any, place: Ground) -> None:
    """An outcome in time, a sound journal, an identical replay, and a host that runs the next program."""
    engine, program = given
    if engine not in place.runtimes:
        return
    ran = place.run(engine, program)
    if ran is None:
        return
    check_ran(ran)
    if ran.result.reason not in ("wall", "compute", "memory"):  # where the clock ends a run, it may end elsewhere
        difference = place.replay(engine, program, ran.record)
        assert not difference, f"the replay differs: {difference}"
    after = place.run(engine, "async function run() { return 'fine' }")
    assert after is not None and after.result.output == "fine", after


TARGET = Target(
    about="made programs on every engine: an outcome in time, a sound journal, an identical replay",
    inputs=st.tuples(st.sampled_from(_MOSTLY), programs()).map(list)
    | programs(sync=True).map(lambda program: ["quickjs", program]),
    check=check,
    open=opened,
    batch=20,
)
