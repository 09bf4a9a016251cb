"""Finding the bundle that a command names: by its path, or by its name in a store."""

from dataclasses import dataclass, replace
from pathlib import Path

from jsrun.bundle import Bundle
from jsrun.cli.output import Refusal
from jsrun.diagnostics import nearest
from jsrun.errors import BundleError, StoreError, UnknownSubharness
from jsrun.manifest_reader import name_problem
from jsrun.registry import Layer, Registry
from jsrun.store import Store

MANIFEST = "manifest.json"
PROGRAM = "program.js"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a bundle is: its directory, and the store it is a version in, if it is in one."""

    path: Path
    layer: Layer = Layer.PACKED
    store: Store | None = None


def find_bundle(name: str) -> Path:
    """The directory of a bundle given by path or name. Refusal with the nearest one if it is not there."""
    return find_place(name).path


def load_bundle(name: str) -> tuple[Bundle, Place]:
    """Find and load a bundle, one in a store with its notes. Refusal with every diagnostic if it cannot be used."""
    place = find_place(name)
    try:
        return (Bundle.load(place.path) if place.store is None else place.store.load(name)), place
    except BundleError as error:
        raise Refusal.of(placed(error, place.path)) from None
    except StoreError as error:
        raise Refusal.of(error) from None


def find_place(name: str) -> Place:
    """Where the bundle of a path or name is.

    A directory that holds a bundle comes first, then the project's store, then the user's. Refusal, with the nearest
    path or name, if it is nowhere.
    """
    path = Path(name)
    if name_problem(name) is None and not _looks_like_bundle(path):
        place = _in_stores(name)
        if place is not None:
            return place
    if path.is_dir():
        return Place(path)
    if path.exists():
        if path.name in (MANIFEST, PROGRAM):
            raise Refusal(f'"{name}" is a file; a bundle is the directory around it. Use "{path.parent}".')
        raise Refusal(f'"{name}" is a file; a bundle is a directory with a {MANIFEST} and a {PROGRAM}.')
    raise Refusal(f'There is no bundle "{name}". {_hint(path)}', code="not-found")


def _in_stores(name: str) -> Place | None:
    """The newest version of a name in the stores; None if they do not have it."""
    try:
        layer, source = Registry.local().where(name)
        return Place(source.path(name), layer, source) if isinstance(source, Store) else None
    except UnknownSubharness:
        return None
    except StoreError as error:
        raise Refusal.of(error) from None


def _looks_like_bundle(path: Path) -> bool:
    return (path / MANIFEST).exists() or (path / PROGRAM).exists()


def placed(error: BundleError, path: Path) -> BundleError:
    """The same error; file names get the bundle's directory in front, as editors and people need it."""
    return BundleError(replace(d, file=str(path / d.file)) for d in error.diagnostics)


def _hint(path: Path) -> str:
    """The nearest bundle beside the path, in `bundles/` or in a store, or what there is."""
    there: dict[str, str] = {}
    for folder in (path.parent, Path("bundles"), Path()):
        for bundle in bundles_in(folder):
            there.setdefault(bundle.name, str(bundle))
    for name in _stored_names():
        there.setdefault(name, name)
    if (near := nearest(path.name, there)) is not None:
        return f'Did you mean "{there[near]}"?'
    if path.name in there:
        return f'Did you mean "{there[path.name]}"?'
    if there:
        return f"There are: {', '.join(sorted(there.values()))}."
    return 'Make one with "jsrun new NAME".'


def _stored_names() -> list[str]:
    try:
        return [name for _layer, source in Registry.local().sources() for name in source.names()]
    except StoreError:  # a hint is not worth an error of its own
        return []


def bundles_in(folder: Path) -> list[Path]:
    """The directories in `folder` that look like bundles."""
    try:
        return sorted(entry for entry in folder.iterdir() if (entry / MANIFEST).is_file())
    except OSError:
        return []
