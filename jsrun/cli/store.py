"""`jsrun store list | show | mint | diff`: subharnesses by name, and their versions."""

import contextlib
import difflib
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from jsrun.bundle import Bundle
from jsrun.cli.finding import find_bundle, placed
from jsrun.cli.output import Refusal, diagnostic_json, print_json, print_problem
from jsrun.errors import AlreadyExists, BundleError, JsrunError, StoreError
from jsrun.registry import Layer, Registry
from jsrun.store import PROJECT, RunNote, Store, Version, bundle_texts, home
from ptc.command_line import printable

app = typer.Typer(
    help="List, show and change the versions of subharnesses.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

_VERSION = re.compile(r"v?([1-9][0-9]{0,8})", re.ASCII)

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
HomeOption = Annotated[bool, typer.Option("--home", help="The user's store only, not the project's.")]
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The subharness.")]


@dataclass(frozen=True, slots=True)
class _Row:
    """One name in one store."""

    name: str
    layer: Layer
    store: Store
    shadowed: bool
    version: Version | None = None
    purpose: str | None = None
    problem: str | None = None

    def to_json(self) -> dict[str, object]:
        return {
            "name": self.name,
            "from": self.layer.provenance,
            "store": str(self.store.root),
            "shadowed": self.shadowed,
            "version": None if self.version is None else self.version.to_json(),
            "purpose": self.purpose,
            "problem": self.problem,
        }


@app.command("list")
def list_names(as_json: JsonOption = False) -> int:
    """List the subharnesses of the project's store and of the user's."""
    rows: list[_Row] = []
    notices: list[str] = []
    for layer, store in _stores():
        with _refusing():
            names = store.names()
        known = {row.name for row in rows}
        rows += [_row(name, layer, store, name in known) for name in names]
        notices += store.notices
    if as_json:
        print_json({"subharnesses": [row.to_json() for row in rows], "notices": notices})
        return 0
    if not rows:
        print('There are no subharnesses yet. "jsrun store mint PATH" adds one.')
    else:
        _print_rows(rows)
    for notice in notices:
        print_problem(notice)
    return 0


def _row(name: str, layer: Layer, store: Store, shadowed: bool) -> _Row:
    version: Version | None = None
    try:
        version = store.head(name)
        purpose = store.load(name).manifest.purpose
    except BundleError as error:
        return _Row(name, layer, store, shadowed, version, problem=str(error.diagnostics[0]))
    except StoreError as error:
        return _Row(name, layer, store, shadowed, version, problem=str(error))
    return _Row(name, layer, store, shadowed, version, purpose)


def _print_rows(rows: list[_Row]) -> None:
    table = Table(box=None, pad_edge=False)
    for column in ("name", "version", "where", "minted", "purpose"):
        table.add_column(column, no_wrap=column != "purpose")
    for row in rows:
        number, at = ("?", "") if row.version is None else (str(row.version.version), row.version.at)
        where = f"{row.store.root}{' (shadowed)' if row.shadowed else ''}"
        purpose = row.purpose if row.problem is None else f"broken: {row.problem}"
        table.add_row(row.name, number, printable(where), at, printable(purpose or ""))
    # A pipe has no width; what is cut there would be lost to whoever reads it.
    Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else 1000).print(table)


@app.command("show")
def show(
    name: NameArgument,
    version: Annotated[str, typer.Argument(metavar="[VERSION]", help="Its number; the newest if absent.")] = "head",
    only_home: HomeOption = False,
    as_json: JsonOption = False,
) -> int:
    """Show one subharness: where it is, its versions, why they were made, and how its last run went."""
    layer, store = _find(name, only_home)
    with _refusing():
        path = store.path(name, _number(version))
        record = next((record for record in store.versions(name) if f"v{record.version}" == path.name), None)
        try:
            bundle, problem = store.load(name, _number(version)), None
        except BundleError as error:
            bundle, problem = None, placed(error, path)
        notices = store.notices
    note, unnoted = _last_run(store, name)
    if as_json:
        print_json({
            "name": name,
            "from": layer.provenance,
            "store": str(store.root),
            "path": str(path),
            "version": None if record is None else record.to_json(),
            "versions": [one.to_json() for one in store.versions(name)],
            "manifest": None if bundle is None else bundle.manifest.to_json(),
            "diagnostics": [] if problem is None else [diagnostic_json(found) for found in problem.diagnostics],
            "last_run": None if note is None else note.to_json(),
            "notices": [*notices, *unnoted],
        })  # fmt: skip
        return 0 if problem is None else 1
    print(f"name      {name}, {layer.provenance}")
    if bundle is not None:
        print(f"purpose   {printable(bundle.manifest.purpose)}")
    print(f"files     {printable(str(path))}")
    if note is not None:
        print(f"last run  {_note_text(note)}")
    print()
    for one in store.versions(name):
        parent = f" from {one.parent_version}" if one.parent_version else ""
        print(f"{'*' if one is record or one == record else ' '} {one.version}  {one.at}  {one.hash}{parent}")
        if one.why:
            print(f"     {_line(one.why)}")
    for notice in (*notices, *unnoted):
        print_problem(notice)
    if problem is not None:
        print_problem(str(problem))
    return 0 if problem is None else 1


@app.command("mint")
def mint(
    bundle: Annotated[str, typer.Argument(metavar="PATH", help="The bundle's directory.")],
    parent: Annotated[
        str, typer.Option("--parent", metavar="VERSION", help='What it changes: a number, a hash, or "head".')
    ] = "",
    why: Annotated[str, typer.Option("--why", metavar="TEXT", help="Why it was made; a change needs a reason.")] = "",
    only_home: Annotated[bool, typer.Option("--home", help="Into the user's store, not the project's.")] = False,
    as_json: JsonOption = False,
) -> int:
    """Add a bundle to a store, under its name, as a new version. What is there already is not added again."""
    path = find_bundle(bundle)
    try:
        loaded = Bundle.load(path)
        texts = bundle_texts(path)
    except BundleError as error:
        raise Refusal.of(placed(error, path)) from None
    name = loaded.manifest.name
    with _refusing():
        store = Store(home() if only_home else PROJECT)
        before = {version.version for version in store.versions(name)}
        try:
            version = store.mint(texts, _parent(store, name, parent), why)
        except BundleError as error:
            raise Refusal.of(placed(error, path)) from None
        except AlreadyExists as error:
            raise Refusal(f'{error} Here that is: --parent head --why "…".', code="exists") from None
        directory = store.path(name, version.version)
    new = version.version not in before
    if as_json:
        print_json({"name": name, "new": new, "path": str(directory), "version": version.to_json()})
        return 0
    for warning in loaded.warnings:
        print_problem(str(warning))
    print(f"{name} is {'now' if new else 'already'} version {version.version} ({version.hash}) in {store.root}")
    return 0


@app.command("diff")
def diff(
    name: NameArgument,
    old: Annotated[str, typer.Argument(metavar="[OLD]", help="A version; the parent of NEW if absent.")] = "",
    new: Annotated[str, typer.Argument(metavar="[NEW]", help="A version or a directory; the newest if absent.")] = "",
    only_home: HomeOption = False,
    as_json: JsonOption = False,
) -> int:
    """Show what changed between two versions, or from a version to a bundle in a directory."""
    _layer, store = _find(name, only_home)
    with _refusing():
        right, after = _side(store, name, new or "head")
        number = _number(old) if old else _before(store, name, new or "head")
        left = f"v{number}" if number else ""
        before = store.files(name, number) if number else {}
    changes = [
        (path, change, "".join(_diff(before.get(path), after.get(path), f"{left}/{path}", f"{right}/{path}")))
        for path in sorted(before.keys() | after.keys())
        if (change := _change(before.get(path), after.get(path))) is not None
    ]
    if as_json:
        files = [{"path": path, "change": change, "diff": text} for path, change, text in changes]
        print_json({"name": name, "old": left or None, "new": right, "files": files})
        return 0
    for _path, _kind, text in changes:
        sys.stdout.write(printable(text))
    if not changes:
        print(f"{name}: no difference between {left or 'nothing'} and {right}", file=sys.stderr)
    return 0


def _side(store: Store, name: str, text: str) -> tuple[str, dict[str, str]]:
    """One side of a diff: what it is called, and its texts by path."""
    if text == "head" or _VERSION.fullmatch(text):
        path = store.path(name, _number(text))
        return path.name, store.files(name, _number(text))
    path = find_bundle(text)
    try:
        return str(path), bundle_texts(path)
    except BundleError as error:
        raise Refusal.of(placed(error, path)) from None


def _before(store: Store, name: str, text: str) -> int:
    """The version a side is compared with: the parent of a version, 0 if it has none, or the newest for a directory."""
    head = store.head(name).version
    if text != "head" and not _VERSION.fullmatch(text):
        return head
    number = _number(text) or head
    return next((one.parent_version for one in store.versions(name) if one.version == number), 0)


def _change(before: str | None, after: str | None) -> str | None:
    """`added`, `removed` or `changed`; None for equal texts, and for an empty memory.md that is there or not."""
    if (before or "") == (after or ""):
        return None
    if before is None:
        return "added"
    return "removed" if after is None else "changed"


def _diff(before: str | None, after: str | None, old: str, new: str) -> Iterator[str]:
    lines = difflib.unified_diff(
        _lines(before),
        _lines(after),
        "/dev/null" if before is None else old,
        "/dev/null" if after is None else new,
    )
    for line in lines:
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _lines(text: str | None) -> list[str]:
    """The lines of a text with their ends; only a line feed ends one, whatever else a program holds."""
    return [] if not text else [line for line in re.split(r"(?<=\n)", text) if line]


def _stores() -> list[tuple[Layer, Store]]:
    with _refusing():
        return [(layer, source) for layer, source in Registry.local().sources() if isinstance(source, Store)]


def _find(name: str, only_home: bool) -> tuple[Layer, Store]:
    """The store that has a name, the project's first. Refusal with the nearest name."""
    registry = Registry()
    for layer, store in _stores():
        if layer is Layer.HOME or not only_home:
            registry.use(layer, store)
    with _refusing():
        layer, source = registry.where(name)
    assert isinstance(source, Store)
    return layer, source


def _number(text: str) -> int:
    """The number of a version, 0 for the newest. Refusal for anything else."""
    if text == "head":
        return 0
    match = _VERSION.fullmatch(text)
    if match is None:
        raise Refusal(f'"{text}" is no version; write a number such as 3, or "head".', code="usage")
    return int(match[1])


def _parent(store: Store, name: str, text: str) -> str:
    """The hash of what `--parent` names; a hash, and what nobody knows, is what it is."""
    if text == "head":
        return store.head(name).hash
    if _VERSION.fullmatch(text) is None:
        return text
    number = _number(text)
    known = {version.version: version.hash for version in store.versions(name)}
    if number not in known:
        raise Refusal(f'--parent: "{name}" has no version {number} in {store.root}.', code="not-found")
    return known[number]


def _last_run(store: Store, name: str) -> tuple[RunNote | None, tuple[str, ...]]:
    """The note about the last run, or what is wrong with it."""
    try:
        return store.last_run(name), ()
    except StoreError as error:
        return None, (str(error),)


def _note_text(note: RunNote) -> str:
    cost = f", ${note.cost_usd:.4f}" if note.cost_usd else ""
    why = f": {_line(note.why)}" if note.why else ""
    return f"{note.at}, version {note.version}, {'finished' if note.finished else 'not finished'}{cost}{why}"


def _line(text: str) -> str:
    return printable(" ".join(text.split()))


@contextlib.contextmanager
def _refusing() -> Iterator[None]:
    """What the library raises, as a Refusal."""
    try:
        yield
    except JsrunError as error:
        raise Refusal.of(error) from None
