"""The tools `read`, `list` and `search`: the text files of one folder, bounded in what they read and give."""

import codecs
import contextlib
import fnmatch
import os
import re
from itertools import islice
from typing import Annotated, Final

from pydantic import Field, WithJsonSchema

from jsrun._text import quoted
from jsrun.belt import Tool, tool
from jsrun.errors import DoorFailure
from jsrun.workspace import MAX_NAMES, PASSED_OVER, Parts, Workspace
from ptc.wire import Json

READ_BYTES = 256 * 1024
# To say how many lines a file has it must be read to its end; a file beyond this size is not worth the time.
READABLE_BYTES = 64 * 1024 * 1024
LIST_ENTRIES = 1_000
SEARCH_FILES = 10_000
SEARCH_BYTES = 16 * 1024 * 1024
SEARCH_FILE_BYTES = 1024 * 1024
# All matching lines together; many long lines could otherwise exceed what a door may answer.
SEARCH_ANSWER_CHARS = 1024 * 1024
# Of a longer line only the part around the match is shown.
LINE_CHARS = 500
_BEFORE_MATCH_CHARS = 100
_CHUNK_BYTES = 1024 * 1024
_TEXT_CHARS = 10_000
_PATH_CHARS = 4_096  # the longest path systems take
# A pattern is matched against every path, so its size is part of what a search costs.
_GLOB_CHARS = 1_000
_GLOB_NAMES = 32


def _text(most: int, description: str) -> WithJsonSchema:
    """The schema of a text argument. Its length is checked by the schema alone: pydantic refuses lone surrogates where
    it measures a text, and a file name that is not UTF-8 has some."""
    return WithJsonSchema({"type": "string", "maxLength": most, "description": description})


def _record(**properties: Json) -> dict[str, Json]:
    """The schema of an object that has just these properties."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


_STRING: Final[Json] = {"type": "string"}
_INTEGER: Final[Json] = {"type": "integer"}
_FLAG: Final[Json] = {"type": "boolean"}
_KIND: Final[Json] = {"enum": ["file", "directory", "link", "other"]}
_READ: Final = _record(
    path=_STRING, text=_STRING, start=_INTEGER, lines=_INTEGER, total_lines=_INTEGER, truncated=_FLAG
)
_LISTED: Final = _record(
    entries={"type": "array", "items": _record(path=_STRING, kind=_KIND, size=_INTEGER)}, truncated=_FLAG
)
_FOUND: Final = _record(
    matches={"type": "array", "items": _record(path=_STRING, line=_INTEGER, text=_STRING)}, truncated=_FLAG
)

PathArg = Annotated[str, _text(_PATH_CHARS, "Path from the workspace's root.")]


def workspace_tools(root: str | os.PathLike[str]) -> list[Tool]:
    """`read`, `list` and `search` over `root`, all read-only. BeltError if it is not a folder."""
    workspace = Workspace(root)

    @tool(name="read", read_only=True, output_schema=_READ)
    def read(
        path: PathArg,
        start: Annotated[int, Field(ge=1, description="The first line wanted.")] = 1,
        lines: Annotated[int, Field(ge=1, description="How many lines are wanted.")] = 2_000,
    ) -> dict[str, Json]:
        """Read lines of a text file; `truncated` says that lines follow which are not shown."""
        return read_file(workspace, path, start, lines)

    @tool(name="list", read_only=True, output_schema=_LISTED)
    def list_entries(
        path: PathArg = ".",
        depth: Annotated[int, Field(ge=1, description="1 lists the directory itself, 2 also what is in those.")] = 1,
    ) -> dict[str, Json]:
        """List a directory: path, kind (file, directory, link, other) and size in bytes of each entry."""
        return list_directory(workspace, path, depth)

    @tool(name="search", read_only=True, output_schema=_FOUND)
    def search(
        text: Annotated[str, _text(_TEXT_CHARS, "Found as it stands, case included.")],
        path: PathArg = ".",
        glob: Annotated[str, _text(_GLOB_CHARS, "Files to look into, below path.")] = "**/*",
        limit: Annotated[int, Field(ge=1, description="How many matching lines to give at most.")] = 200,
    ) -> dict[str, Json]:
        """Find the lines of text files that contain a text; `truncated` says that there may be more."""
        return search_files(workspace, text, path, glob, limit)

    return [read, list_entries, search]


def read_file(workspace: Workspace, path: str, start: int, lines: int) -> dict[str, Json]:
    """`{path, text, start, lines, total_lines, truncated}`: whole lines, 256 KiB at most (of one line, its start)."""
    parts = _not_passed_over(workspace.resolve(path), path)
    descriptor, size = workspace.open_file(parts, path)
    with os.fdopen(descriptor, "rb") as file:
        if size > READABLE_BYTES:
            raise DoorFailure(f"{quoted(path)} has {size:,} bytes, files over {READABLE_BYTES:,} are not read.")
        page = _Page(start, lines)
        decoder = codecs.getincrementaldecoder("utf-8")()
        left = READABLE_BYTES
        try:
            while left > 0 and (chunk := file.read(min(_CHUNK_BYTES, left))):
                left -= len(chunk)
                if b"\0" in chunk:
                    raise DoorFailure(f"{quoted(path)} is not a text file.")
                page.add(decoder.decode(chunk))
            page.add(decoder.decode(b"", final=left > 0))
        except UnicodeDecodeError:
            raise DoorFailure(f"{quoted(path)} is not a text file in UTF-8.") from None
        except OSError as error:
            raise DoorFailure(f"{quoted(path)} cannot be read: {error.strerror}.") from None
    text, count = page.text()
    return {
        "path": "/".join(parts),
        "text": text,
        "start": start,
        "lines": count,
        "total_lines": page.total,
        "truncated": page.cut or start + count <= page.total,
    }


def list_directory(workspace: Workspace, path: str, depth: int) -> dict[str, Json]:
    """`{entries: [{path, kind, size}], truncated}`: ordered by path, 1,000 at most."""
    parts = _not_passed_over(workspace.resolve(path), path)
    found = list(islice(workspace.walk(parts, path, depth), LIST_ENTRIES + 1))
    entries: list[Json] = [
        {"path": entry.path, "kind": entry.kind, "size": workspace.size(entry)} for entry in found[:LIST_ENTRIES]
    ]
    return {"entries": entries, "truncated": len(found) > LIST_ENTRIES}


def search_files(workspace: Workspace, text: str, path: str, glob: str, limit: int) -> dict[str, Json]:
    """`{matches: [{path, line, text}], truncated}`: lines that contain the text, by path and line."""
    if not text:
        raise DoorFailure("A search needs a text to look for.")
    if "\n" in text:
        raise DoorFailure("A search looks for a text within one line, so it must not hold a line end.")
    search = _Search(text, limit)
    parts = _not_passed_over(workspace.resolve(path), path)
    if workspace.kind(parts, path) != "directory":
        data = _searchable(workspace, parts, path)
        if not _is_text(data):
            raise DoorFailure(f"{quoted(path)} is not a text file in UTF-8.")
        search.look_into("/".join(parts), data)
        return search.answer()
    wanted = Glob(glob)
    files = 0
    for names, found in enumerate(workspace.walk(parts, path), start=1):
        if found.kind == "file" and wanted.matches(found.parts[len(parts) :]):
            files += 1
            if files > SEARCH_FILES:
                search.truncated = True
            else:
                with contextlib.suppress(DoorFailure):  # too large, or gone: passed over
                    search.look_into(found.path, _searchable(workspace, found.parts, found.path))
        if search.truncated or names == MAX_NAMES:
            search.truncated = True
            break
    return search.answer()


class Glob:
    """A pattern of names with `/` between: `*`, `?` and `[…]` within a name, `**` for any number of names.

    DoorFailure for a pattern of too many names.
    """

    def __init__(self, pattern: str) -> None:
        # `translate` makes expressions that do not backtrack. They are compiled here, not by `fnmatch`, whose cache
        # would keep whatever patterns a program thinks of.
        names = [name for name in pattern.split("/") if name not in ("", ".")]
        names = [name for name, before in zip(names, ["", *names], strict=False) if not name == before == "**"]
        if len(names) > _GLOB_NAMES:
            raise DoorFailure(f"The pattern {quoted(pattern)} has over {_GLOB_NAMES} names.")
        self._names = [None if name == "**" else re.compile(fnmatch.translate(name)) for name in names]

    def matches(self, parts: Parts) -> bool:
        """Does the pattern fit all of these names?"""
        places = self._from({0})  # where in the pattern one may be; a set, so that no choice is tried twice
        for part in parts:
            places = self._from({place + step for place in places for step in self._steps(place, part)})
        return len(self._names) in places

    def _steps(self, place: int, part: str) -> tuple[int, ...]:
        if place == len(self._names):
            return ()
        name = self._names[place]
        if name is None:
            return (0,)
        return (1,) if name.match(part) else ()

    def _from(self, places: set[int]) -> set[int]:
        """These places and those reached by letting a `**` stand for nothing."""
        reached = set()
        for place in places:
            reached.add(place)
            while place < len(self._names) and self._names[place] is None:
                place += 1
                reached.add(place)
        return reached


class _Search:
    """What a search has found, and how much more it may read and give."""

    def __init__(self, text: str, limit: int) -> None:
        self._text = text
        # A lone surrogate is in no UTF-8 file, so nothing will be found.
        self._needle = text.encode("utf-8", "surrogatepass")
        self._limit = limit
        self._bytes_left = SEARCH_BYTES
        self._chars_left = SEARCH_ANSWER_CHARS
        self._matches: list[Json] = []
        self.truncated = False

    def look_into(self, path: str, data: bytes) -> None:
        """Search one file; sets `truncated` when a bound ends the search."""
        if len(data) > self._bytes_left:
            self.truncated = True
            return
        self._bytes_left -= len(data)
        number, counted = 1, 0
        place = data.find(self._needle)
        if place >= 0 and not _is_text(data):
            return
        while place >= 0:
            first, last = data.rfind(b"\n", 0, place) + 1, data.find(b"\n", place)
            last = len(data) if last < 0 else last
            number += data.count(b"\n", counted, first)
            counted = first
            line = _shown(data[first:last].decode().removesuffix("\r"), self._text)
            if len(self._matches) == self._limit or len(line) > self._chars_left:
                self.truncated = True
                return
            self._chars_left -= len(line)
            self._matches.append({"path": path, "line": number, "text": line})
            place = data.find(self._needle, last)

    def answer(self) -> dict[str, Json]:
        """The tool's result."""
        return {"matches": self._matches, "truncated": self.truncated}


class _Page:
    """The wanted lines of a text that comes in pieces, and how many lines it has in all."""

    def __init__(self, start: int, lines: int) -> None:
        self._start = start
        self._end = start + lines
        self._number = 1  # of the line being read
        self._last = "\n"  # the last character so far
        self._line = ""  # what there is of a wanted line
        self._kept: list[str] = []
        self._bytes_left = READ_BYTES
        self._full = False
        self.cut = False  # was a line too long to be given whole?

    @property
    def total(self) -> int:
        """How many lines there are; one without a line end counts."""
        return self._number - 1 if self._last == "\n" else self._number

    def add(self, text: str) -> None:
        """The next piece of the text."""
        if not text:
            return
        self._last = text[-1]
        ends = text.count("\n")
        if self._full or self._number >= self._end or self._number + ends < self._start:
            self._number += ends  # nothing of this piece is wanted
            return
        *whole, rest = text.split("\n")
        for line in whole:
            self._take(line + "\n")
            self._number += 1
        self._take(rest)

    def text(self) -> tuple[str, int]:
        """The wanted lines and their number."""
        if self._line:
            self._kept.append(self._line)
            self._line = ""
        return "".join(self._kept), len(self._kept)

    def _take(self, piece: str) -> None:
        if self._full or not self._start <= self._number < self._end:
            return
        self._line += piece
        size = len(self._line.encode())
        if size > self._bytes_left:
            self._full = True
            if not self._kept:
                self.cut = True
                self._kept.append(self._line.encode()[: self._bytes_left].decode(errors="ignore"))
            self._line = ""
        elif piece.endswith("\n"):
            self._kept.append(self._line)
            self._line = ""
            self._bytes_left -= size


def _not_passed_over(parts: Parts, path: str) -> Parts:
    """The same parts, unless they lead into version control or our own files: a program gets nothing of those."""
    if PASSED_OVER.intersection(parts):
        raise DoorFailure(f"{quoted(path)} is kept from programs.")
    return parts


def _searchable(workspace: Workspace, parts: Parts, path: str) -> bytes:
    """The contents of a file that is small enough to search; DoorFailure for any other."""
    descriptor, size = workspace.open_file(parts, path)
    with os.fdopen(descriptor, "rb") as file:
        if size <= SEARCH_FILE_BYTES:
            try:
                data = file.read(SEARCH_FILE_BYTES + 1)
            except OSError as error:
                raise DoorFailure(f"{quoted(path)} cannot be read: {error.strerror}.") from None
            if len(data) <= SEARCH_FILE_BYTES:
                return data
    raise DoorFailure(f"{quoted(path)} has over {SEARCH_FILE_BYTES:,} bytes, so it is not searched.")


def _is_text(data: bytes) -> bool:
    if b"\0" in data:
        return False
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _shown(line: str, text: str) -> str:
    """The line, or of a long one the part around the text, marked where it is cut."""
    if len(line) <= LINE_CHARS:
        return line
    first = max(0, line.find(text) - _BEFORE_MATCH_CHARS)
    part = line[first : first + LINE_CHARS]
    return ("…" if first else "") + part + ("…" if first + LINE_CHARS < len(line) else "")
