"""Memory: notes that outlive a run, kept in one Markdown file a person can read and edit."""

import os
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from jsrun._text import quoted
from jsrun._threads import in_thread
from jsrun.env import Memory, Note
from jsrun.errors import DoorFailure
from jsrun.files import Busy, locked, replace_file
from jsrun.journal import storable

__all__ = ["MEMORY_BYTES", "FileMemory", "Memory"]

# The size of a bundle's memory.md at most, so that live notes can always be shipped as a seed.
MEMORY_BYTES = 4 * 1024 * 1024
# A write takes milliseconds; who waits longer waits for a process that hangs.
LOCK_SECONDS = 10.0

_TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)"
_BLANKS = r"[ \t\r]*"  # at the end of a line; an editor may have written CR LF
_HEADING = re.compile(rf"^## ({_TIME}){_BLANKS}$", re.MULTILINE | re.ASCII)
_ESCAPABLE = re.compile(rf"^(\\*## {_TIME}{_BLANKS})$", re.MULTILINE | re.ASCII)
_ESCAPED = re.compile(rf"^\\(\\*## {_TIME}{_BLANKS})$", re.MULTILINE | re.ASCII)


class FileMemory:
    """Notes in the file `path`, shared by any number of processes.

    Each note stands under a heading `## TIME` (RFC 3339, UTC); text before the first heading is one note without a
    time. A line of a note that looks like such a heading is written with a leading backslash. The file, and its folder,
    are made by the first `remember`, which starts it with `seed`; until then `recall` answers from the seed. A seed may
    be a function that gives it: called in a thread, whenever there is no file; it may raise DoorFailure.
    """

    def __init__(self, path: str | os.PathLike[str], seed: str | Callable[[], str] = "") -> None:
        self.path = Path(path)
        self._seed = seed

    async def remember(self, note: str) -> None:
        """Append a note; a blank one is ignored. DoorFailure if the memory is full or the file cannot be written."""
        text = storable(note).strip()
        if text:
            await in_thread(self._append, text)

    async def recall(self, query: str = "") -> Sequence[Note]:
        """The notes that contain `query`, whatever its case, newest first; a blank query means all."""
        wanted = storable(query).strip().casefold()
        notes = parse_notes(await in_thread(self._read))
        return tuple(note for note in reversed(notes) if wanted in note.text.casefold())

    def _append(self, text: str) -> None:
        folder = self.path.parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
            # Renaming gives the file a new identity each time, so the lock must be a file of its own.
            with locked(folder / f".{self.path.name}.lock", LOCK_SECONDS):
                data = (self._read() + render_note(text, now())).encode()
                if len(data) > MEMORY_BYTES:
                    raise DoorFailure(
                        f"The memory is full: with this note it would hold {len(data):,} bytes, {MEMORY_BYTES:,} are"
                        " allowed. Shorten the notes to remember more."
                    )
                replace_file(self.path, data, folder / f".{self.path.name}.new")
        except Busy:
            raise DoorFailure("The memory is in use by another process. Try again later.") from None
        except (OSError, ValueError) as error:
            raise self._unusable(error) from None

    def _read(self) -> str:
        """The text of the file, or the seed while there is none."""
        try:
            with self.path.open("rb") as file:
                data = file.read(MEMORY_BYTES + 1)
        except FileNotFoundError:
            return self._first()
        except (OSError, ValueError) as error:
            raise self._unusable(error) from None
        if len(data) > MEMORY_BYTES:
            raise DoorFailure(f"The memory file is over its limit of {MEMORY_BYTES:,} bytes. Shorten it.")
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise DoorFailure("The memory file is not UTF-8 text. Correct it or move it away.") from None

    def _first(self) -> str:
        """What the file starts with."""
        seed = self._seed if isinstance(self._seed, str) else self._seed()
        return storable(seed).removeprefix("\ufeff")

    def _unusable(self, error: OSError | ValueError) -> DoorFailure:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "its path is not usable"
        return DoorFailure(f"The memory file {quoted(self.path.name)} cannot be used: {reason}.")


def parse_notes(text: str) -> list[Note]:
    """The notes of a memory file, in the order they were written."""
    heading, *rest = _HEADING.split(text)
    pairs = [("", heading), *zip(rest[::2], rest[1::2], strict=True)]
    notes = [Note(_ESCAPED.sub(r"\1", body.strip()), at) for at, body in pairs]
    return [note for note in notes if note.text]


def render_note(text: str, at: str) -> str:
    """A note as it stands in the file, its heading at the start of a line whatever came before."""
    escaped = _ESCAPABLE.sub(r"\\\1", text)
    return f"\n## {at}\n\n{escaped}\n"


def now() -> str:
    """The time in RFC 3339, UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
