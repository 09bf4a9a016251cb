"""What a result says of the texts of a run: console entries and statuses in order, and what was cut."""

from jsrun._session import Session
from jsrun._text import TEXT_CHARS
from jsrun.endings import Ending
from jsrun.result import LogEntry, Truncation
from ptc.outcome import Outcome


def logs(session: Session, outcome: Outcome | None) -> tuple[LogEntry, ...]:
    """Console entries and statuses, in the order they came."""
    entries: list[LogEntry] = []
    statuses = iter(session.statuses)
    status = next(statuses, None)
    for number, entry in enumerate(outcome.logs if outcome is not None else ()):
        while status is not None and status.after <= number:
            entries.append(status.entry)
            status = next(statuses, None)
        entries.append(LogEntry(entry.text, entry.level, entry.cut))
    if status is not None:
        entries.append(status.entry)
    entries.extend(later.entry for later in statuses)
    return tuple(entries)


def truncated(session: Session, outcome: Outcome | None, end: Ending) -> tuple[Truncation, ...]:
    """What the result leaves out, with sizes."""
    cuts: list[Truncation] = []
    if outcome is not None and outcome.truncated is not None:
        lost = outcome.truncated
        if lost.entries or lost.characters or lost.output_limit:
            cuts.append(Truncation("console", sum(_bytes(entry.text) for entry in outcome.logs), None))
        if lost.native_bytes:
            cuts.append(Truncation("native", _bytes(outcome.native), lost.native_bytes))
    cuts.extend(session.status_truncation())
    if end.whole != end.sentence:
        kept = _bytes(end.whole[:TEXT_CHARS])
        cuts.append(Truncation("sentence", kept, _bytes(end.whole) - kept))
    return tuple(cuts)


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
