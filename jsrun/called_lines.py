"""Which lines of a program made the calls of a run, as far as names tell.

A journal keeps no positions. A line is taken to have made a call if it holds a call of that door which may have that
name; with several such lines each of them may have.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from jsrun.analysis import analyse
from jsrun.bundle import Bundle
from jsrun.facts import DoorCall
from jsrun.journal import storable
from jsrun.prompts import normalize_ref
from jsrun.timeline import TimedCall

_LINE_END = re.compile(r"\r\n|\n|\r")


@dataclass(frozen=True, slots=True)
class CalledLines:
    """A program's lines, from 1. `calls`: line to the calls it may have made; `lines`: key of a call to its lines.

    `ended` is the line that the sentence of the ending names, or None.
    """

    source: str
    lines: tuple[str, ...]
    calls: Mapping[int, tuple[TimedCall, ...]]
    lines_of: Mapping[tuple[str, int, int], tuple[int, ...]]
    ended: int | None


def called_lines(bundle: Bundle, calls: Iterable[TimedCall], sentence: str = "") -> CalledLines:
    """The lines of the bundle's program, with the calls of a run that they may have made."""
    by_door: dict[str, list[DoorCall]] = {}
    for site in analyse(bundle.program).calls:
        by_door.setdefault(site.door, []).append(site)
    found: dict[tuple[str, str], tuple[int, ...]] = {}
    made: dict[int, list[TimedCall]] = {}
    lines_of: dict[tuple[str, int, int], tuple[int, ...]] = {}
    for call in calls:
        row = call.row
        if not row.step:  # a guard's question, which the program did not make
            continue
        wanted = (row.call, row.ref if row.call in ("ai", "tool") else "")
        if wanted not in found:
            found[wanted] = _sites(by_door.get(row.call, []), *wanted)
        lines_of[row.key] = found[wanted]
        for line in found[wanted]:
            made.setdefault(line, []).append(call)
    texts = _LINE_END.split(bundle.program)
    if len(texts) > 1 and not texts[-1]:  # the end of the last line begins none
        texts.pop()
    ended = re.search(rf"{re.escape(bundle.source)}:(\d{{1,7}})", sentence)
    line = int(ended[1]) if ended else 0
    return CalledLines(
        source=bundle.source,
        lines=tuple(texts),
        calls={number: tuple(those) for number, those in made.items()},
        lines_of=lines_of,
        ended=line if 1 <= line <= len(texts) else None,
    )


def _sites(sites: list[DoorCall], door: str, ref: str) -> tuple[int, ...]:
    """The lines of one door's calls that have this name, else those whose name is not known."""
    named = [site for site in sites if site.names is not None and ref in {_name(door, n.text) for n in site.names}]
    chosen = named or [site for site in sites if site.names is None]
    return tuple(sorted({site.place[0] for site in chosen}))


def _name(door: str, text: str) -> str:
    bare = normalize_ref(text) if door == "ai" else text
    return storable(bare) if isinstance(bare, str) else ""
