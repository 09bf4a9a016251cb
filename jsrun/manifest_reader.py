"""Reading manifest.json: every rule about it, each violation with its place."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from jsrun._text import quoted
from jsrun._words import kind
from jsrun.diagnostics import Diagnostic, Severity, nearest
from jsrun.fuel import CEILING, Fuel, exceeding
from jsrun.manifest import Guard, GuardKind, Manifest
from jsrun.schema_checks import SchemaProblem, check_schema
from jsrun.schemas import default_problems
from jsrun.strictjson import Document, Path, read
from jsrun.units import SECOND, duration_text, parse_duration, parse_size, parse_whole
from ptc.wire import Json

FILE = "manifest.json"
NAME_CHARS = 64
# Names the command line or a registry needs for itself.
RESERVED_NAMES = frozenset({"linear"})

_DURATION_KEYS = ("deadline_floor", "deadline_step")
_TEXTS_KEYS = ("prior_anchors", "cues", "evals", "provenance")
_KEYS = (
    "name", "purpose", "deadline_floor", "deadline_step", "deadline_per_tokens", "input", "output", "whitelist",
    "guards", "fuel", "engine", "prior_anchors", "cues", "evals", "provenance",
)  # fmt: skip
_GUARD_NEEDS: Mapping[GuardKind, tuple[str, ...]] = {
    "file": ("file",),
    "tool": ("tool",),
    "field": ("field", "pattern"),
    "judgement": ("question",),
}
_GUARD_KEYS = ("kind", "file", "tool", "field", "pattern", "question", "because")
_FUEL_KEYS = ("steps", "tokens", "wall", "compute", "memory", "output")
_LINE_ENDS = ("\n", "\r", "\u2028", "\u2029", "\x85")
_TIME_HINT = 'Write 900000000000 or "15m".'


@dataclass(slots=True)
class ManifestReading:
    """What a manifest's text gave. `manifest` is None if there is any error; the other checks use the fields that are
    in order: `whitelist` and `guards` (None if not), with their places."""

    document: Document | None
    places: bool
    diagnostics: list[Diagnostic] = field(default_factory=list)
    fields: dict[str, Any] = field(default_factory=dict)
    manifest: Manifest | None = None

    def report(
        self, code: str, path: Path, message: str, hint: str, severity: Severity = "error", *, at_key: bool = False
    ) -> None:
        """Add a diagnostic at the value (or key) of `path`."""
        place = None
        if self.document is not None and self.places:
            place = self.document.key_place(path) if at_key else self.document.place(path)
        line, column = place if place is not None else (None, None)
        self.diagnostics.append(Diagnostic(code, severity, FILE, line, column, message, hint))

    def whitelist_index(self, name: str) -> int:
        """Where in the list as written the tool stands."""
        raw = self.document.value if self.document is not None else None
        entries = raw.get("whitelist") if isinstance(raw, dict) else None
        written = entries if isinstance(entries, list) else []
        return next((i for i, entry in enumerate(written) if isinstance(entry, str) and entry.strip() == name), 0)

    @property
    def whitelist(self) -> tuple[str, ...] | None:
        return cast("tuple[str, ...] | None", self.fields.get("whitelist"))

    @property
    def guards(self) -> "tuple[Guard, ...] | None":
        return cast("tuple[Guard, ...] | None", self.fields.get("guards"))


def read_manifest(text: str, *, places: bool = True) -> ManifestReading:
    """Read and check the text of a manifest; `places` = False leaves lines and columns out of the diagnostics."""
    document, problems = read(text, FILE, "manifest-json")
    reading = ManifestReading(document, places)
    for problem in problems:
        line, column = (problem.line, problem.column) if places else (None, None)
        code = "manifest-json" if document is None else "manifest-duplicate-key"
        reading.diagnostics.append(Diagnostic(code, "error", FILE, line, column, problem.message, problem.hint))
    if document is None:
        return reading
    raw = document.value
    if not isinstance(raw, dict):
        reading.report("manifest-json", (), f"A manifest must be one object, got {kind(raw)}.", "Write {…}.")
        return reading
    _check_keys(reading, (), raw, _KEYS)
    _check_name(reading, raw)
    _check_purpose(reading, raw)
    _check_deadline(reading, raw)
    for key in ("input", "output"):
        _check_schema_key(reading, raw, key)
    _check_whitelist(reading, raw)
    _check_guards(reading, raw)
    _check_fuel(reading, raw)
    _check_engine(reading, raw)
    for key in _TEXTS_KEYS:
        _check_texts(reading, raw, key)
    if not any(diagnostic.severity == "error" for diagnostic in reading.diagnostics):
        reading.manifest = Manifest.of_json(raw, reading.fields)
    return reading


def _check_keys(reading: ManifestReading, path: Path, raw: Mapping[str, Json], known: Iterable[str]) -> None:
    known = tuple(known)
    for key in raw:
        if key not in known:
            meant = nearest(key, known)
            hint = f"Did you mean {quoted(meant)}?" if meant else f"Remove it; known are {', '.join(known)}."
            message = f"{quoted(key)} is not a key here and is ignored."
            reading.report("manifest-unknown-key", (*path, key), message, hint, "warning", at_key=True)


def _wrong_type(reading: ManifestReading, path: Path, name: str, wanted: str, value: Json) -> None:
    reading.report(
        "manifest-type", path, f"{quoted(name)} must be {wanted}, got {kind(value)}.", f"Write {wanted} here."
    )


def _check_name(reading: ManifestReading, raw: Mapping[str, Json]) -> None:
    if "name" not in raw:
        reading.report("manifest-name", (), '"name" is missing.', 'Add a name such as "summarise".')
        return
    name = raw["name"]
    if not isinstance(name, str):
        _wrong_type(reading, ("name",), "name", "text", name)
        return
    problem = name_problem(name)
    if problem:
        reading.report("manifest-name", ("name",), *problem)
    reading.fields["name"] = name


def name_problem(name: str) -> tuple[str, str] | None:
    """Why `name` cannot be a subharness's name, as message and hint; None if it can."""
    shown = quoted(name)
    plain = "Use a to z, 0 to 9, - and _."
    if not name:
        return f"The name {shown} is empty.", 'Write a name such as "summarise".'
    if len(name) > NAME_CHARS:
        return f"The name {shown} has {len(name):,} characters, {NAME_CHARS} are allowed.", "Shorten it."
    if any("A" <= character <= "Z" for character in name):
        return f"The name {shown} has a capital letter.", f"Write {quoted(name.lower())}."
    if any(character.isspace() for character in name):
        return f"The name {shown} has a space in it.", f"Write {quoted('-'.join(name.split()))}."
    for character in name:
        if not (character.isascii() and (character.isalnum() or character in "-_")):
            return f"The name {shown} has the character {quoted(character)} in it.", plain
    if not name[0].isalpha():
        return f"The name {shown} begins with {quoted(name[0])}.", "Begin with a letter from a to z."
    if name in RESERVED_NAMES:
        return f"The name {shown} is reserved.", "Choose another name."
    return None


def _check_purpose(reading: ManifestReading, raw: Mapping[str, Json]) -> None:
    if "purpose" not in raw:
        reading.report("manifest-purpose", (), '"purpose" is missing.', "Add one line that says what it is for.")
        return
    purpose = raw["purpose"]
    if not isinstance(purpose, str):
        _wrong_type(reading, ("purpose",), "purpose", "text", purpose)
    elif not purpose.strip():
        message, hint = f'"purpose" is blank, got {quoted(purpose)}.', "Write one line that says what it is for."
        reading.report("manifest-purpose", ("purpose",), message, hint)
    elif any(end in purpose.strip() for end in _LINE_ENDS):
        message, hint = f'"purpose" has more than one line, got {quoted(purpose)}.', "Write it as one line."
        reading.report("manifest-purpose", ("purpose",), message, hint)
    else:
        reading.fields["purpose"] = purpose


def _check_deadline(reading: ManifestReading, raw: Mapping[str, Json]) -> None:
    for key in _DURATION_KEYS:
        if key in raw:
            _number(reading, "manifest-deadline", key, raw[key], parse_duration(raw[key]), "a duration", _TIME_HINT)
    key = "deadline_per_tokens"
    if key in raw:
        hint = "Write a number of tokens such as 50000."
        _number(reading, "manifest-deadline", key, raw[key], parse_whole(raw[key]), "a whole number", hint)


def _number(
    reading: ManifestReading, code: str, key: str, value: Json, parsed: int | None, wanted: str, hint: str
) -> None:
    if parsed is None:
        reading.report(code, (key,), f"{quoted(key)} must be {wanted}, got {kind(value)}.", hint)
    elif parsed < 0:
        reading.report(code, (key,), f"{quoted(key)} must not be negative, got {kind(value)}.", hint)
    else:
        reading.fields[key] = parsed


def _check_schema_key(reading: ManifestReading, raw: Mapping[str, Json], key: str) -> None:
    schema = raw.get(key)
    if schema is None or schema == {}:
        return
    if not isinstance(schema, dict):
        _wrong_type(reading, (key,), key, "a JSON Schema object", schema)
        return
    problems = check_schema(schema, key)
    for problem in problems:
        _schema_diagnostic(reading, "manifest-schema", key, problem, "error")
    if not problems:
        reading.fields[key] = schema
        for problem in default_problems(schema, key):
            _schema_diagnostic(reading, "manifest-default", key, problem, "warning")


def _schema_diagnostic(
    reading: ManifestReading, code: str, key: str, problem: SchemaProblem, severity: Severity
) -> None:
    # What only a reference reaches has no place of its own: the reference has.
    path: Path = (key, *problem.path)
    while path and reading.document is not None and reading.document.place(path) is None:
        path = path[:-1]
    reading.report(code, path, problem.message, problem.hint, severity)


def _check_whitelist(reading: ManifestReading, raw: Mapping[str, Json]) -> None:
    entries = raw.get("whitelist", [])
    if not isinstance(entries, list):
        _wrong_type(reading, ("whitelist",), "whitelist", "a list of tool names", entries)
        return
    names: dict[str, None] = {}
    for index, entry in enumerate(entries):
        path: Path = ("whitelist", index)
        if not isinstance(entry, str):
            _wrong_type(reading, path, "whitelist", "a list of tool names", entry)
        elif not entry.strip():
            message = f'Entry {index + 1} of "whitelist" is blank, got {quoted(entry)}.'
            reading.report("manifest-whitelist", path, message, "Write a tool's name, or remove the entry.")
        elif entry.strip() in names:
            message = f"{quoted(entry.strip())} is on the whitelist twice."
            reading.report("manifest-whitelist", path, message, "Remove one of the two.", "warning")
        else:
            names[entry.strip()] = None
    reading.fields["whitelist"] = tuple(names)


def _check_guards(reading: ManifestReading, raw: Mapping[str, Json]) -> None:
    entries = raw.get("guards", [])
    if not isinstance(entries, list):
        _wrong_type(reading, ("guards",), "guards", "a list of objects", entries)
        return
    guards = [_guard(reading, index, entry) for index, entry in enumerate(entries)]
    judgements = [index for index, guard in enumerate(guards) if guard is not None and guard.kind == "judgement"]
    for index in judgements[1:]:
        message = f'Check {index + 1} is a second "judgement", after check {judgements[0] + 1}.'
        reading.report("two-judgements", ("guards", index), message, "Keep one of them.")
    if None not in guards:
        reading.fields["guards"] = tuple(guards)


def _guard(reading: ManifestReading, index: int, entry: Json) -> Guard | None:
    """The guard, or None if it has an error."""
    path: Path = ("guards", index)
    number = f"Check {index + 1}"
    if not isinstance(entry, dict):
        _wrong_type(reading, path, f"guards[{index}]", "an object", entry)
        return None
    wrong = [key for key in _GUARD_KEYS if key in entry and not isinstance(entry[key], str)]
    for key in wrong:
        message = f"{number}: {quoted(key)} must be text, got {kind(entry[key])}."
        reading.report("manifest-type", (*path, key), message, "Write text here.")
    chosen = entry.get("kind")
    kinds = ", ".join(quoted(name) for name in _GUARD_NEEDS)
    if chosen is None:
        reading.report("manifest-guard", path, f'{number} has no "kind".', f"Write one of {kinds}.")
        return None
    needs = next((keys for name, keys in _GUARD_NEEDS.items() if name == chosen), None)
    if needs is None:
        if isinstance(chosen, str):
            meant = nearest(chosen, _GUARD_NEEDS)
            hint = f"Did you mean {quoted(meant)}?" if meant else f"Write one of {kinds}."
            reading.report("manifest-guard", (*path, "kind"), f"{number} has the unknown kind {quoted(chosen)}.", hint)
        return None
    _check_keys(reading, path, entry, ("kind", *needs, "because"))
    lacking = [key for key in needs if key not in wrong and not str(entry.get(key, "")).strip()]
    for key in lacking:
        problem = f"has a blank {quoted(key)}" if key in entry else f"needs {quoted(key)}"
        message = f"{number}, a {quoted(str(chosen))} check, {problem}."
        reading.report(
            "manifest-guard", (*path, key) if key in entry else path, message, f"Add the text of {quoted(key)}."
        )
    if wrong or lacking:
        return None
    return Guard.model_validate({key: entry[key] for key in ("kind", *needs, "because") if key in entry})


def _check_fuel(reading: ManifestReading, raw: Mapping[str, Json]) -> None:
    fuel = raw.get("fuel", {})
    if not isinstance(fuel, dict):
        _wrong_type(reading, ("fuel",), "fuel", "an object", fuel)
        return
    _check_keys(reading, ("fuel",), fuel, _FUEL_KEYS)
    stated: dict[str, Any] = {}
    for key in _FUEL_KEYS:
        if key not in fuel:
            continue
        amount, wanted, hint = _fuel_amount(key, fuel[key])
        if amount is None or amount <= 0:
            problem = f"be {wanted}" if amount is None else "be greater than 0"
            message = f'"fuel.{key}" must {problem}, got {kind(fuel[key])}.'
            reading.report("manifest-fuel", ("fuel", key), message, hint)
        else:
            stated[key] = amount
    reading.fields["fuel"] = Fuel(**stated)
    for key in exceeding(reading.fields["fuel"]):
        limit = getattr(CEILING, key)
        shown = duration_text(round(limit * SECOND)) if key in ("wall", "compute") else f"{limit:,}"
        message = f'"fuel.{key}" is above what a manifest may ask for, got {kind(fuel[key])}.'
        reading.report("fuel-clamped", ("fuel", key), message, f"A run gets {shown}; write that, or less.", "warning")


def _fuel_amount(key: str, value: Json) -> tuple[float | int | None, str, str]:
    """The amount in Fuel's unit, or None; what is wanted, and how to write it."""
    if key in ("wall", "compute"):
        duration = parse_duration(value)
        return (None if duration is None else duration / SECOND), "a duration", 'Write 30000000000 or "30s".'
    if key in ("memory", "output"):
        return parse_size(value), "a size", 'Write 134217728 or "128MiB".'
    return parse_whole(value), "a whole number", "Write a number such as 500."


def _check_engine(reading: ManifestReading, raw: Mapping[str, Json]) -> None:
    engine = raw.get("engine", "quickjs")
    if not isinstance(engine, str):
        _wrong_type(reading, ("engine",), "engine", "text", engine)
    elif engine not in ("quickjs", "v8"):
        meant = nearest(engine, ("quickjs", "v8"))
        hint = f"Did you mean {quoted(meant)}?" if meant else 'Write "quickjs" or "v8".'
        reading.report("manifest-engine", ("engine",), f"There is no engine {quoted(engine)}.", hint)
    else:
        reading.fields["engine"] = engine


def _check_texts(reading: ManifestReading, raw: Mapping[str, Json], key: str) -> None:
    value = raw.get(key, [])
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        _wrong_type(reading, (key,), key, "text or a list of text", value)
    else:
        reading.fields[key] = tuple(texts)
