"""RunEvent: what one can watch of a run while it goes on."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

EventKind: TypeAlias = Literal["started", "guard", "opened", "closed", "status", "ended"]

_log = logging.getLogger("jsrun")


@dataclass(frozen=True, slots=True)
class RunEvent:
    """One thing that happened in a run: names, sizes and times, never contents but the text of a `status`.

    - `started`, `ended` (`ok`: the run finished), `guard` (`ok`: all checks passed).
    - `opened`, `closed`: a door call; `seq` is its row's, `ref` the name of its prompt or tool, `size` the characters
      of JSON of its input or its output, `elapsed_ms` the time of the host's work, `ok` whether it went well.
    - `status`: `log` showed `text`.
    """

    kind: EventKind
    run_id: str
    seq: int = 0
    door: str = ""
    ref: str = ""
    ok: bool = True
    elapsed_ms: float = 0.0
    size: int = 0
    text: str = ""


Observer: TypeAlias = Callable[[RunEvent], object]


class Watch:
    """Tells one observer, if there is one. An observer that raises is logged once and left out from then on."""

    __slots__ = ("_observer",)

    def __init__(self, observer: Observer | None) -> None:
        self._observer = observer

    @property
    def active(self) -> bool:
        """Is anybody watching?"""
        return self._observer is not None

    def tell(self, event: RunEvent) -> None:
        """Hand the event to the observer."""
        if self._observer is None:
            return
        try:
            self._observer(event)
        except Exception:
            self._observer = None
            _log.exception("An observer of run %s raised and is left out from now on.", event.run_id)
