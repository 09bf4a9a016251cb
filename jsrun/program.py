"""Program: the text of program.js as `ptc` gets it, and the way back to the file for every position.

`ptc` is given `body`, the inside of a function (async or plain, by `form`) that is strict and sits in a block of its
own, and a parameter `$jsrun`, which `guest.js` provides. What `body` expects of it:

- `$jsrun.value`, a property that can be written: the body assigns the value of the script's last top-level expression
  statement to it. It begins as `undefined`.
- `$jsrun.entry(held)`: if `held` is a function, call it with `this` undefined and the program's own copy of the input,
  and give what it returns (in an async program a promise, which the body's `return` awaits); else give `$jsrun.value`.

The body returns the program's output. Apart from the assignment, which stands directly in front of the expression, and
one line after the last, it is the file's text, character by character: `export default` is replaced by text of equal
length. An object enough for tests: `{value: undefined, entry(f) { return typeof f === "function" ? f(INPUT) :
this.value; }}`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from jsrun.entries import ENTRY
from jsrun.facts import DefaultExport, Entry, Facts
from jsrun.positions import Lines
from ptc.namespaces import HostFunction

PARAMETER = "$jsrun"
CAPTURE = f"{PARAMETER}.value="


@dataclass(frozen=True, slots=True)
class Insertion:
    """Text that the body has and the file has not: where it was put in the file, and how wide it is."""

    line: int
    column: int
    width: int


@dataclass(frozen=True, slots=True)
class Edit:
    """Text to be put in place of what stands between two offsets."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Probes:
    """More text for a program, which tells the host what runs.

    `edits` are in the order in which they follow each other, `CAPTURE` among them if the program's value is captured.
    `namespaces` are functions of the host that the text calls, at most `calls` times in a run; steps are not booked.
    """

    edits: tuple[Edit, ...]
    namespaces: Mapping[str, Mapping[str, HostFunction]]
    calls: int


@dataclass(frozen=True, slots=True)
class Program:
    """One program, ready for `ptc`. `source` is the file's text, `entry` what is called with the input, if anything."""

    source: str
    body: str
    form: Literal["sync", "async"]
    entry: Entry | None
    insertions: tuple[Insertion, ...] = ()
    end: tuple[int, int] = (1, 1)
    probes: Probes | None = None

    @classmethod
    def of(cls, source: str, facts: Facts, probes: Probes | None = None) -> "Program":
        """The program of a source and its facts, which must not hold a problem."""
        lines = Lines(source)
        edits = [*probes.edits, *_edits(source, facts, captures=False)] if probes else _edits(source, facts)
        edits = sorted(edits, key=lambda edit: edit.start)
        parts: list[str] = []
        insertions: list[Insertion] = []
        at = 0
        for edit in edits:
            parts += [source[at : edit.start], edit.text]
            width = len(edit.text) - (edit.end - edit.start)
            if width and edit.start < len(source):  # what stands behind the file counts as its end
                insertions.append(Insertion(*lines.position(edit.start), width))
            at = edit.end
        parts += [source[at:], "\n", _last_line(facts.entry)]
        end = lines.position(len(source))
        return cls(source, "".join(parts), facts.form, facts.entry, tuple(insertions), end, probes)

    def position(self, line: int, column: int) -> tuple[int, int]:
        """Where in the file a position of the body is; what was appended counts as the file's end."""
        if line > self.end[0]:
            return self.end
        for insertion in self.insertions:
            if insertion.line == line and column > insertion.column:
                column = max(insertion.column, column - insertion.width)
        return line, column


def _edits(source: str, facts: Facts, captures: bool = True) -> Iterator[Edit]:
    if source.startswith("#!"):  # a comment at the start of a file only
        yield Edit(0, 2, "//")
    if facts.value is not None and captures:
        yield Edit(facts.value, facts.value, CAPTURE)
    if facts.default_export is not None:
        yield from _export_edits(source, facts.default_export)


def _export_edits(source: str, export: DefaultExport) -> Iterator[Edit]:
    first = Edit(export.export, export.export + len("export"), " " * len("export"))
    second = Edit(export.default, export.default + len("default"), " " * len("default"))
    if export.rewrite == "blank":
        yield from (first, second)
    elif export.rewrite == "variable":
        yield Edit(first.start, first.end, "var".ljust(len("export")))
        yield Edit(second.start, second.end, f"{ENTRY}=".ljust(len("default")))
    else:
        yield from _named_function(source, export, first, second)


def _named_function(source: str, export: DefaultExport, first: Edit, second: Edit) -> Iterator[Edit]:
    """Give an anonymous function declaration the name of the entry, in the room that the two words leave."""
    end = source.index("function", export.declaration) + len("function")
    words = source[export.export : end].split()
    if words in (["export", "default", "function"], ["export", "default", "async", "function"]):
        head = " ".join([*words[2:], ENTRY])
        if not set(source[export.export : end]) & set("\n\r\u2028\u2029"):
            yield Edit(export.export, end, head.rjust(end - export.export))
            return
    # Comments or line ends between the words: the name does not fit in, so it is put behind.
    yield from (first, second, Edit(end, end, f" {ENTRY}"))


def _last_line(entry: Entry | None) -> str:
    if entry is None:
        return f"return {PARAMETER}.value;"
    return f'return {PARAMETER}.entry(typeof {entry.name}==="undefined"?undefined:{entry.name});'
