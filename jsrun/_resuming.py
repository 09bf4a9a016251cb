"""Reading a recorded run for replay or resume, and deciding whether it may be resumed."""

from dataclasses import replace
from typing import Final

from jsrun._life import Order
from jsrun._past import Recorded
from jsrun.canonical import parse_json
from jsrun.env import Env
from jsrun.errors import InFlightError, JournalError, ResumeError
from jsrun.events import Observer, Watch
from jsrun.fuel import Fuel
from jsrun.journal import Journal, MemoryJournal, RunRecord, RunRow, owner_gone
from jsrun.look import Look
from jsrun.replay import InFlight, resume_problem, unsure_calls

# A replay may be slower than the run was, on another engine or a busy machine, and must not end by that.
_REPLAY_WALL_S: Final = 60.0
_REPLAY_COMPUTE_S: Final = 10.0


async def read_record(journal: Journal | None, run_id: str) -> RunRecord:
    """The run with all its rows. JournalError if it is not there, or not whole."""
    if journal is None:
        raise JournalError("There is no journal to read the run from. Give the journal it was recorded in.")
    record = await journal.read(run_id)
    if isinstance(journal, MemoryJournal) and journal.calls(run_id) > len(record.entries):
        raise JournalError(
            f"The run {run_id} made more calls than a journal in memory keeps, so it cannot be made again."
            " Record such runs in a SqliteJournal."
        )
    return record


def recorded_fuel(run: RunRow) -> Fuel:
    """The fuel a run had. JournalError if the journal holds none."""
    value = parse_json(run.fuel)
    try:
        if isinstance(value, dict):
            return Fuel(**value)
    except (TypeError, ValueError):
        pass
    raise JournalError(f"The journal does not hold the fuel of the run {run.run_id}. It was changed or damaged.")


def replay_fuel(run: RunRow) -> Fuel:
    """The fuel of a replay: that of the run, but with time enough, unless the run ended for lack of that time."""
    fuel = recorded_fuel(run)
    if fuel.wall is not None and run.reason != "wall":
        fuel = replace(fuel, wall=max(fuel.wall, _REPLAY_WALL_S))
    if fuel.compute is not None and run.reason != "compute":
        fuel = replace(fuel, compute=max(fuel.compute, _REPLAY_COMPUTE_S))
    return fuel


def again(
    recorded: Recorded,
    env: Env,
    fuel: Fuel,
    journal: Journal,
    look: Look | None = None,
    on_event: Observer | None = None,
) -> Order:
    """A recorded run with its input, clock and randomness."""
    run = recorded.record.run
    return Order(
        run_id=run.run_id,
        input=parse_json(run.input),
        env=env,
        fuel=fuel,
        look=look,
        journal=journal,
        seed=run.seed,
        started_at=run.started_at,
        clock_ms=run.clock_ms,
        watch=Watch(on_event),
        recorded=recorded,
    )


def check_resume(record: RunRecord, program_hash: str, env: Env, in_flight: InFlight, force: bool) -> frozenset[int]:
    """Whether a run may be resumed. Gives the numbers of the calls that are to fail, as nobody knows what came of them.

    Raises ResumeError, or InFlightError if there are such calls and `in_flight` is `refuse`.
    """
    run = record.run
    problem = resume_problem(run, program_hash, force or owner_gone(run.owner))
    if problem is not None:
        raise ResumeError(problem)
    belt = getattr(env, "belt", None)
    tools = () if belt is None or not hasattr(belt, "specs") else belt.specs()
    read_only = {spec.name.strip() for spec in tools if spec.read_only}
    unsure = unsure_calls(record.current(), read_only.__contains__)
    if unsure and in_flight == "refuse":
        raise InFlightError(unsure)
    return frozenset(call.seq for call in unsure) if in_flight == "fail" else frozenset()
