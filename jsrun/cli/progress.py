"""Progress of a run on stderr: a live line on a terminal, else one plain line an event without control codes."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.status import Status
from rich.text import Text

from jsrun.events import RunEvent
from ptc.command_line import printable

# Of a ref or status in one line of progress.
_SHOWN_CHARACTERS = 80


@contextmanager
def progress(name: str, *, quiet: bool) -> Iterator["Progress | Quiet"]:
    """What `Runner.run` takes as `on_event`. Nothing is shown if `quiet`."""
    if quiet:
        yield Quiet()
        return
    shown = Progress(name)
    try:
        yield shown
    finally:
        shown.close()


class Quiet:
    """Shows nothing."""

    def __call__(self, event: RunEvent) -> None:
        return

    def say(self, text: str) -> None:
        """Show a line that is no event."""
        return


class Progress:
    """One run's progress. Statuses stay on the screen, calls only show while they are open."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._began = time.monotonic()
        self._calls = 0
        self._open: dict[int, str] = {}
        self._console = Console(stderr=True, highlight=False, markup=False)
        self._live = sys.stderr.isatty()
        self._status: Status | None = None
        if self._live:
            self._status = self._console.status(Text(f"{name}: starting"))
            self._status.start()

    def __call__(self, event: RunEvent) -> None:
        """Show one event."""
        match event.kind:
            case "started":
                self._line(f"{self._name}: run {event.run_id}", live=False)
            case "guard":
                self._line(f"guards: {'passed' if event.ok else 'not passed'}", live=False)
            case "status":
                self._line(f"{self._name}: {_short(event.text)}", live=True)
            case "opened":
                self._opened(event)
            case "closed":
                self._closed(event)
            case "ended":
                self.close()
        self._refresh()

    def say(self, text: str) -> None:
        """Show a line that is no event."""
        self._line(f"{self._name}: {text}", live=True)

    def close(self) -> None:
        """Take the live line away."""
        if self._status is not None:
            self._status.stop()
            self._status = None

    def _opened(self, event: RunEvent) -> None:
        self._calls += 1
        self._open[event.seq] = f"{event.door} {_short(event.ref)}".rstrip()
        if event.door == "ask" and self._status is not None:
            self._status.stop()  # the person types now

    def _closed(self, event: RunEvent) -> None:
        what = self._open.pop(event.seq, event.door)
        if event.door == "ask" and self._status is not None:
            self._status.start()
        if event.door != "log":
            self._line(f"{what}: {'ok' if event.ok else 'failed'}, {event.elapsed_ms:.0f} ms", live=False)

    def _line(self, text: str, *, live: bool) -> None:
        """A line that stays. On a terminal only what is `live` does; a pipe gets everything."""
        if not self._live:
            print(printable(text), file=sys.stderr, flush=True)
        elif live:
            self._console.print(Text(printable(text)))

    def _refresh(self) -> None:
        if self._status is None:
            return
        seconds = time.monotonic() - self._began
        going_on = ", ".join(list(self._open.values())[:3])
        text = f"{self._name}: {self._calls} calls, {seconds:.1f} s{' · ' + going_on if going_on else ''}"
        self._status.update(Text(printable(text)))


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN_CHARACTERS else line[: _SHOWN_CHARACTERS - 1] + "…"
