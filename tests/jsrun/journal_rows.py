"""Rows for journal tests."""

from jsrun.journal import Call, EntryRow, RunRow, State, input_hash, json_text, new_run_id, owner
from jsrun.spend import Spend

AT = "2026-01-31T12:00:00.000Z"


def run_row(run_id: str | None = None, *, attempt: int = 1, started_at: str = AT) -> RunRow:
    """A run that goes on in this process."""
    return RunRow(
        run_id=run_id or new_run_id(),
        name="summarise",
        bundle_hash="sha256:0",
        program_hash="sha256:1",
        engine="quickjs 0.17",
        form="sync",
        input='{"topic":"caf\\u00e9"}',
        started_at=started_at,
        clock_ms=1_769_860_800_000,
        seed="42",
        fuel='{"steps":500}',
        owner=owner(),
        attempt=attempt,
    )


def entry_row(
    run_id: str,
    seq: int = 1,
    *,
    attempt: int = 1,
    call: Call = "tool",
    ref: str = "read",
    input: object = None,
    state: State = "open",
    output: str | None = None,
    spend: Spend | None = None,
) -> EntryRow:
    """A row of that run; with the default state a call that was just made."""
    return EntryRow(
        run_id=run_id,
        attempt=attempt,
        seq=seq,
        call=call,
        ref=ref,
        input=json_text(input),
        input_hash=input_hash(input),
        at=AT,
        state=state,
        output=output,
        spend=spend,
    )
