"""The setup file: which plugs, in what order, with what inputs, around which agent.

Reading one never stops at the first mistake: what is wrong is collected, each with `file:line:column`, and reported
by the loader together with what it finds.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from jsrun import strictjson
from jsrun._text import quoted
from jsrun.canonical import canonical_json
from jsrun.plugs import _yaml
from jsrun.plugs._with import With, read_with
from jsrun.plugs.errors import ExpressionError, SetupError, SetupIssue

# Far more than a setup needs; a larger file is something else.
MAX_FILE_BYTES = 1024 * 1024

_Path = tuple[str | int, ...]
_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_Texts = Annotated[tuple[str, ...], Field(strict=False)]
_M = TypeVar("_M", bound=BaseModel)


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", populate_by_name=True)


class AgentConfig(_Part):
    """`agent:`: the process to be started, the runner's variables it gets (names or globs), and its name."""

    command: str | None = None
    args: _Texts = ()
    env: dict[str, str] = {}
    inherit_env: _Texts = ()
    name: str | None = None


class Policy(_Part):
    """`policy:`: when a session pauses and ends, in seconds; None is never."""

    idle_after: _Positive | None = None
    expire_after: _Positive | None = 86_400
    timeout: _Positive | None = None
    on_disconnect: Literal["close", "pause"] = "close"

    @property
    def may_pause(self) -> bool:
        """Whether a session may be paused without anybody asking for it."""
        return self.idle_after is not None or self.on_disconnect == "pause"


class Limits(_Part):
    """`limits:`: bytes of a line, and seconds: of a plug's own code in each phase, and of holding a queue."""

    line_bytes: Annotated[int, Field(ge=64 * 1024)] = 64 * 1024 * 1024
    prepare: _Positive = 60
    attach: _Positive = 600
    pause: _Positive = 120
    teardown: _Positive = 300
    hold: _Positive = 300


class StateConfig(_Part):
    """`state:`: whether the state of plugs is encrypted, and a file with the key (base64, 32 bytes)."""

    encryption: Literal["aes-gcm", "none"] = "aes-gcm"
    key_file: str | None = None


class _Entry(_Part):
    plug: str
    id: str | None = None
    inputs: Any = Field(None, alias="with")


class _Root(_Part):
    agent: AgentConfig = AgentConfig()
    policy: Policy = Policy()
    limits: Limits = Limits()
    state: StateConfig = StateConfig()
    setup: list[Any]


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong: where, what, and the error that it is."""

    place: str
    message: str
    kind: type[SetupError] = SetupError
    order: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of `setup:` as written, its expressions not evaluated. Places are `file:line:column`, or empty."""

    plug: str
    id: str | None
    inputs: With
    places: Mapping[_Path, tuple[str, tuple[int, int]]]

    def place(self, *path: str | int) -> tuple[str, tuple[int, int]]:
        """Where the value at `path` of the entry is, or else the nearest one around it; also as line and column."""
        while path and path not in self.places:
            path = path[:-1]
        return self.places.get(path, ("", (0, 0)))

    def finding(self, message: str, kind: type[SetupError], *path: str | int) -> Finding:
        """Something wrong at `path` of the entry."""
        place, order = self.place(*path)
        return Finding(place, message, kind, order)


@dataclass(frozen=True, slots=True)
class Setup:
    """A setup. `folder` is where `./file.py` references start; `findings` is what is wrong with it so far."""

    file: str
    folder: Path
    agent: AgentConfig
    policy: Policy
    limits: Limits
    state: StateConfig
    entries: tuple[Entry, ...]
    findings: tuple[Finding, ...] = ()

    @property
    def env_names(self) -> frozenset[str]:
        """The variables of the runner that its expressions name; their values may be secret."""
        return frozenset(
            path[1]
            for entry in self.entries
            for leaf in entry.inputs.leaves
            for path in leaf.names()
            if path[0] == "env"
        )

    def record(self) -> dict[str, Any]:
        """The setup as JSON, expressions unevaluated, from which `from_record` makes it again in a later run."""
        return {
            "file": self.file,
            "folder": str(self.folder),
            "agent": self.agent.model_dump(mode="json"),
            "policy": self.policy.model_dump(mode="json"),
            "limits": self.limits.model_dump(mode="json"),
            "state": self.state.model_dump(mode="json"),
            "setup": [
                {"plug": entry.plug, "id": entry.id, "with": entry.inputs.value, "place": entry.place()[0]}
                for entry in self.entries
            ],
        }

    def same_as(self, other: "Setup") -> bool:
        """Whether both say the same, wherever it stands in their files."""
        return _essence(self) == _essence(other)


def read_setup(path: Path | str) -> Setup:
    """The setup in a YAML or JSON file; SetupError if it cannot be read. For mistakes inside see `Setup.findings`."""
    file = Path(path)
    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
        if len(data) > MAX_FILE_BYTES:
            raise SetupError([SetupIssue(f"The file is larger than {MAX_FILE_BYTES:,} bytes.", str(file))])
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise SetupError([SetupIssue(f"The setup cannot be read: {error.strerror or error}.", str(file))]) from None
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - (data.rfind(b"\n", 0, error.start) + 1) + 1
        raise SetupError([SetupIssue("The file is not UTF-8 text.", f"{file}:{line}:{column}")]) from None
    return parse_setup(text, str(file), file.absolute().parent)


def parse_setup(text: str, file: str, folder: Path) -> Setup:
    """The setup in `text`; `file` is how places name it, `folder` where its `./` references start."""
    document, findings = _document(text, file)
    value = document.value
    if isinstance(value, list):
        value, prefix = {"setup": value}, 1
    else:
        prefix = 0
    places = _Places(document, file, prefix)
    if findings and value is None:
        return _empty(file, folder, findings)
    root = _validated(_Root, value, (), places, findings)
    items = value.get("setup") if isinstance(value, dict) else None
    entries = []
    for index, item in enumerate(items if isinstance(items, list) else []):
        path: _Path = ("setup", index)
        entry = _validated(_Entry, item, path, places, findings)
        if entry is not None:
            entries.append(_entry(entry, path, places, findings))
    if root is None:
        return _empty(file, folder, findings, tuple(entries))
    return Setup(file, folder, root.agent, root.policy, root.limits, root.state, tuple(entries), tuple(findings))


def from_record(record: Mapping[str, Any]) -> Setup:
    """The setup of `Setup.record`; SetupError if the record is damaged."""
    file = str(record.get("file", ""))
    parts = {name: record.get(name, {}) for name in ("agent", "policy", "limits", "state")}
    try:
        root = _Root.model_validate({**parts, "setup": record["setup"]})
        entries = []
        for item in root.setup:
            place = str(item["place"])
            inputs, _ = read_with(item["with"], lambda _path, place=place: place)  # type: ignore[misc]  # a default binds it now
            entries.append(Entry(str(item["plug"]), item["id"], inputs, {(): (place, (0, 0))}))
        folder = Path(str(record["folder"]))
    except (KeyError, TypeError, ValidationError):
        raise SetupError([SetupIssue("The recorded setup is damaged; give a file with --setup.", file)]) from None
    return Setup(file, folder, root.agent, root.policy, root.limits, root.state, tuple(entries))


def problem(findings: Iterable[Finding]) -> SetupError | None:
    """One error for all findings, in the order of the file; of their own kind if they are of one. None for none."""
    ordered = sorted(findings, key=lambda finding: finding.order)
    if not ordered:
        return None
    kinds = {finding.kind for finding in ordered}
    kind = kinds.pop() if len(kinds) == 1 else SetupError
    return kind(dict.fromkeys(SetupIssue(finding.message, finding.place) for finding in ordered))


class _Document(Protocol):
    @property
    def value(self) -> Any: ...
    def place(self, path: _Path) -> tuple[int, int] | None: ...
    def key_place(self, path: _Path) -> tuple[int, int] | None: ...


@dataclass(frozen=True, slots=True)
class _Places:
    """The places of a document, by paths of the form with `setup:`."""

    document: _Document
    file: str
    prefix: int  # how many of the first keys the document itself does not have

    def order(self, path: _Path, key: bool = False) -> tuple[int, int]:
        for end in range(len(path), -1, -1):
            inner = path[:end][self.prefix :]
            place = self.document.key_place(inner) if key and end == len(path) else None
            place = place or self.document.place(inner)
            if place is not None:
                return place
        return (1, 1)

    def finding(self, message: str, path: _Path, kind: type[SetupError] = SetupError, key: bool = False) -> Finding:
        order = self.order(path, key)
        return Finding(self.text(order), message, kind, order)

    def text(self, place: tuple[int, int]) -> str:
        return _at(self.file, place)


def _document(text: str, file: str) -> tuple[_Document, list[Finding]]:
    """JSON if it is JSON, which YAML's own reader does not read in full; else YAML."""
    if text.lstrip()[:1] in ("{", "["):
        try:
            document = strictjson.parse(text)
        except strictjson.JsonError as error:
            if file.endswith(".json"):
                place = (error.line, error.column)
                return _yaml.parse(""), [Finding(_at(file, place), f"{error.message} {error.hint}", order=place)]
        else:
            return document, [
                Finding(_at(file, double.second), double.message, order=double.second) for double in document.duplicates
            ]
    read = _yaml.parse(text)
    return read, [Finding(_at(file, found.place), found.message, order=found.place) for found in read.findings]


def _at(file: str, place: tuple[int, int]) -> str:
    return f"{file}:{place[0]}:{place[1]}"


def _validated(model: type[_M], value: Any, path: _Path, places: _Places, findings: list[Finding]) -> _M | None:
    if not isinstance(value, dict):
        findings.append(places.finding("This must be a mapping with keys.", path))
        return None
    known = {field.alias or name for name, field in model.model_fields.items()}
    for key in value.keys() - known:
        # Told apart from the rest, which is then looked at as if the key were not there.
        message = f"There is no key {quoted(key)} here; remove it."
        findings.append(places.finding(message, (*path, key), key=True))
    try:
        return model.model_validate({key: inner for key, inner in value.items() if key in known})
    except ValidationError as error:
        for details in error.errors(include_url=False, include_input=False, include_context=False):
            inner: _Path = tuple(details["loc"])
            shown = ".".join(map(str, inner))
            if details["type"] == "extra_forbidden":
                message = f"There is no key {quoted(str(inner[-1]))} here; remove it."
                findings.append(places.finding(message, (*path, *inner), key=True))
            elif details["type"] == "missing":
                findings.append(places.finding(f"The key {quoted(str(inner[-1]))} is missing.", (*path, *inner)))
            else:
                # pydantic names our own classes where it wants a mapping.
                wanted = "must be a mapping with keys" if details["type"] == "model_type" else details["msg"]
                findings.append(places.finding(f"{shown}: {wanted}.", (*path, *inner)))
        return None


def _entry(entry: _Entry, path: _Path, places: _Places, findings: list[Finding]) -> Entry:
    def place(inner: _Path) -> str:
        return places.text(places.order((*path, "with", *inner)))

    inputs, wrong = read_with(entry.inputs, place)
    for where, message in wrong:
        findings.append(places.finding(message, (*path, "with", *where), ExpressionError))
    known: dict[_Path, tuple[str, tuple[int, int]]] = {}
    for inner in ((), ("plug",), ("id",), *_paths(entry.inputs, ("with",))):
        order = places.order((*path, *inner))
        known[inner] = (places.text(order), order)
    return Entry(entry.plug, entry.id, inputs, known)


def _paths(value: Any, path: _Path) -> Iterable[_Path]:
    yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _paths(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _paths(inner, (*path, index))


def _empty(file: str, folder: Path, findings: list[Finding], entries: tuple[Entry, ...] = ()) -> Setup:
    return Setup(file, folder, AgentConfig(), Policy(), Limits(), StateConfig(), entries, tuple(findings))


def _essence(setup: Setup) -> str:
    record = setup.record()
    for entry in record["setup"]:
        del entry["place"]
    del record["file"]
    return canonical_json(record)
