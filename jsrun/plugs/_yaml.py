"""A strict reading of YAML: JSON's values, every key and value with its place.

Aliases, anchors, tags and duplicate keys are refused. A plain scalar is a boolean only as `true` and `false`, null as
`null`, `~` or nothing, and a number as in YAML 1.2; everything else is text.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from jsrun._text import quoted
from jsrun.plugs.errors import MissingExtra

Path: TypeAlias = tuple[str | int, ...]
Place: TypeAlias = tuple[int, int]

# Deeper than anything people write, and shallow enough for every later step to recurse.
MAX_DEPTH = 64
# More digits are a mistake, and slow to read.
_MAX_DIGITS = 4_000

_DECIMAL = re.compile(r"[-+]?[0-9]+")
_BASED = re.compile(r"0(?:o[0-7]+|x[0-9a-fA-F]+)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong in the text, at a line and column from 1."""

    place: Place
    message: str


@dataclass(frozen=True, slots=True)
class YamlDocument:
    """A parsed text: its value, where each value and each key begins, and what is wrong with it."""

    value: Any
    places: dict[Path, Place]
    keys: dict[Path, Place]
    findings: tuple[Finding, ...]

    def place(self, path: Path) -> Place | None:
        """Where the value at `path` begins; None if there is none."""
        return self.places.get(path)

    def key_place(self, path: Path) -> Place | None:
        """Where the key of the value at `path` begins; None if it has none."""
        return self.keys.get(path)


def parse(text: str) -> YamlDocument:
    """Read one document. What is wrong is among its findings; after a syntax error the value is None.

    MissingExtra without pyyaml.
    """
    try:
        import yaml
    except ImportError:
        raise MissingExtra("plugs") from None
    builder = _Builder()
    try:
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            builder.take(type(event).__name__, event)
            if builder.too_deep:
                break
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = " ".join(filter(None, (error.context, error.problem)))
        builder.find(_place(mark) if mark is not None else (1, 1), f"This is not YAML: {problem}.")
        builder.value = None
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        line, column = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
        builder.find(
            (line, column), f"This is not YAML: a character that it does not allow, U+{ord(text[error.position]):04X}."
        )
        builder.value = None
    return YamlDocument(builder.value, builder.places, builder.keys, tuple(builder.findings))


@dataclass(slots=True)
class _Open:
    """A container that is not closed yet, and the key that waits for its value."""

    path: Path
    value: dict[str, Any] | list[Any]
    key: str | None = None


@dataclass(slots=True)
class _Builder:
    """Builds the value from the events of the parser, which does not recurse."""

    value: Any = None
    places: dict[Path, Place] = field(default_factory=dict)
    keys: dict[Path, Place] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    _open: list[_Open] = field(default_factory=list)
    too_deep: bool = False
    _documents: int = 0

    def find(self, place: Place, message: str) -> None:
        self.findings.append(Finding(place, message))

    def take(self, kind: str, event: Any) -> None:
        if kind == "DocumentStartEvent":
            self._documents += 1
            if self._documents == 2:
                self.find(_place(event.start_mark), "There is a second document; write one only.")
        if self._documents != 1:
            return
        if kind in ("MappingEndEvent", "SequenceEndEvent"):
            self._open.pop()
            return
        if kind not in ("MappingStartEvent", "SequenceStartEvent", "ScalarEvent", "AliasEvent"):
            return
        for message in _refused(kind, event):
            self.find(_place(event.start_mark), message)
        if kind in ("MappingStartEvent", "SequenceStartEvent"):
            self._container(kind, event)
        else:
            self._scalar(kind, event)

    def _container(self, kind: str, event: Any) -> None:
        place = _place(event.start_mark)
        if len(self._open) >= MAX_DEPTH:
            self.find(place, f"This is nested deeper than {MAX_DEPTH} levels.")
            self.too_deep = True
            return
        if self._open and isinstance(self._open[-1].value, dict) and self._open[-1].key is None:
            self.find(place, "A key is text, not a list or a mapping.")
            self._open[-1].key = f"?{len(self._open[-1].value)}"
        value: dict[str, Any] | list[Any] = {} if kind == "MappingStartEvent" else []
        self._open.append(_Open(self._put(value, place), value))

    def _scalar(self, kind: str, event: Any) -> None:
        place = _place(event.start_mark)
        if kind == "AliasEvent":
            value: Any = None
        elif event.style is None and event.implicit[0]:
            value = self._plain(event.value, place)
        else:
            value = event.value
        holder = self._open[-1] if self._open else None
        if holder is None or isinstance(holder.value, list) or holder.key is not None:
            self._put(value, place)
            return
        if not isinstance(value, str):
            self.find(place, f"A key is text; write it in quotes: {quoted(str(getattr(event, 'value', '')))}.")
        key = str(getattr(event, "value", ""))
        holder.key = key
        path = (*holder.path, key)
        if path in self.keys:
            first = self.keys[path]
            self.find(place, f"The key {quoted(key)} is already at {first[0]}:{first[1]}.")
        else:
            self.keys[path] = place

    def _put(self, value: Any, place: Place) -> Path:
        """Put a value where it belongs; its path."""
        if not self._open:
            self.value = value
            self.places[()] = place
            return ()
        holder = self._open[-1]
        if isinstance(holder.value, list):
            path: Path = (*holder.path, len(holder.value))
            holder.value.append(value)
        else:
            assert holder.key is not None
            path = (*holder.path, holder.key)
            holder.value[holder.key] = value
            holder.key = None
        self.places[path] = place
        return path

    def _plain(self, text: str, place: Place) -> Any:
        if text in ("", "~", "null"):
            return None
        if text in ("true", "false"):
            return text == "true"
        if len(text) > _MAX_DIGITS and _FLOAT.fullmatch(text):
            self.find(place, f"The number has {len(text):,} characters.")
            return 0
        if _DECIMAL.fullmatch(text):
            return int(text)
        if _BASED.fullmatch(text):
            return int(text, 0)
        if _NOT_FINITE.fullmatch(text):
            self.find(place, f"{text} is no number that can be used; for text write it in quotes.")
            return 0
        if _FLOAT.fullmatch(text):
            number = float(text)
            if number in (float("inf"), float("-inf")):
                self.find(place, f"The number {text} is too large.")
                return 0
            return number
        return text


def _refused(kind: str, event: Any) -> Iterator[str]:
    if kind == "AliasEvent":
        yield f"Aliases are not used here: *{event.anchor}. Write the value out."
        return
    if event.anchor is not None:
        yield f"Anchors are not used here: &{event.anchor}."
    if event.tag is not None:
        yield f"Tags are not used here: {event.tag}."


def _place(mark: Any) -> Place:
    return mark.line + 1, mark.column + 1
