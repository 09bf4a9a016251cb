"""Watching directories for changes, by looking at them again and again: it works everywhere, and bundles are small."""

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

# People do not notice a third of a second, and a look at some dozen files takes a millisecond.
INTERVAL_S: Final = 0.3
# More files than a bundle may have; beyond it changes may go unnoticed.
_MOST_FILES: Final = 2_000

State = dict[str, tuple[int, int]]


def state(paths: Iterable[Path]) -> State:
    """Every file under the paths, with the time of its last change and its size."""
    found: State = {}
    for path in paths:
        for file in _files(path):
            try:
                status = file.stat()
            except OSError:  # gone while we looked
                continue
            found[str(file)] = (status.st_mtime_ns, status.st_size)
    return found


def watch(paths: list[Path], act: Callable[[], None]) -> None:
    """Call `act` now and after every change under the paths, until Ctrl-C, which ends the watch in good order."""
    try:
        seen = state(paths)
        act()
        while True:
            time.sleep(INTERVAL_S)
            now = state(paths)
            if now == seen:
                continue
            # Editors write in several steps; half a file is not worth a report.
            while (later := _later(paths)) != now:
                now = later
            seen = now
            act()
    except KeyboardInterrupt:
        return


def _later(paths: list[Path]) -> State:
    time.sleep(INTERVAL_S / 3)
    return state(paths)


def _files(path: Path) -> list[Path]:
    """The files under a path; directories whose name begins with a dot are left out."""
    found: list[Path] = []
    todo = [path]
    while todo and len(found) < _MOST_FILES:
        try:
            entries = sorted(todo.pop().iterdir())
        except OSError:
            continue
        for entry in entries:
            if entry.is_dir() and not entry.is_symlink():
                if not entry.name.startswith("."):
                    todo.append(entry)
            else:
                found.append(entry)
    return found
