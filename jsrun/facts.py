"""Facts about a program: what its syntax tree says, without knowing the bundle around it. `analysis` finds them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

DOORS = ("ai", "tool", "ask", "remember", "recall", "log")
"""The functions through which a program reaches its host."""

Place: TypeAlias = tuple[int, int]
"""Line and column, both from 1, the column in code points."""


Use: TypeAlias = Literal["statement", "void", "property", "operand", "value"]


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that stands in the way, with its place."""

    place: Place
    message: str
    hint: str


@dataclass(frozen=True, slots=True)
class Name:
    """A text in the program and where it stands."""

    text: str
    place: Place


@dataclass(frozen=True, slots=True)
class DoorCall:
    """One call of a door.

    `names` are the texts its first argument may have, None if they are not known. `use` is what becomes of the answer:
    `statement` and `void` drop it, `property` reads `property` of it, `operand` computes with it, `value` is anything
    else. `options` are the keys of a literal options object, or of a constant that holds one.
    """

    door: str
    place: Place
    names: tuple[Name, ...] | None
    use: Use
    property: str = ""
    options: tuple[Name, ...] = ()


@dataclass(frozen=True, slots=True)
class DefaultExport:
    """An `export default`, as offsets: the two words, and the declaration.

    `rewrite` is how it is made an entry: `blank` (a named function, a bare name), `function` (an anonymous function
    declaration, which gets the name `run`), `variable` (any other expression, which becomes the value of `run`).
    """

    export: int
    default: int
    declaration: int
    rewrite: Literal["blank", "function", "variable"]


@dataclass(frozen=True, slots=True)
class Entry:
    """What is called with the input: the variable that holds it, and its form (`opaque`: cannot be seen)."""

    name: str
    place: Place
    form: Literal["sync", "async", "opaque"]


@dataclass(frozen=True, slots=True)
class Facts:
    """All that is known of one program. With a `problem` it could not be read, and everything else is empty.

    `value` is the offset at which the value of the last top-level expression statement begins; `ends_with_value` says
    that it is the last statement of all, which begins at `last`. `redeclared` names come with the place of the first
    declaration. `awaits`: it awaits outside every function. `escaped`:
    doors that are used as values, so that not all their calls are seen.
    """

    problem: Problem | None = None
    empty: bool = False
    awaits: bool = False
    entry: Entry | None = None
    entry_problems: tuple[Problem, ...] = ()
    default_export: DefaultExport | None = None
    value: int | None = None
    ends_with_value: bool = False
    last: Place | None = None
    calls: tuple[DoorCall, ...] = ()
    escaped: frozenset[str] = frozenset()
    unbound: tuple[Name, ...] = ()
    declared: frozenset[str] = frozenset()
    overwritten: tuple[Name, ...] = ()
    shadowed: tuple[Name, ...] = ()
    redeclared: tuple[tuple[Name, Place], ...] = ()
    module_syntax: tuple[Name, ...] = ()
    dynamic_code: tuple[Name, ...] = ()
    big_integers: tuple[Name, ...] = ()
    regexes: tuple[Name, ...] = ()
    ignored: Mapping[int, frozenset[str]] = field(default_factory=dict)
    """Line to the diagnostic codes that a comment on it tells to drop."""

    @property
    def form(self) -> Literal["sync", "async"]:
        """How the program runs: async if its entry is an async function, or if it awaits at top level."""
        return "async" if self.awaits or (self.entry is not None and self.entry.form == "async") else "sync"
