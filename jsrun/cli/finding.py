"""Finding the bundle that a command names."""

from pathlib import Path

from jsrun.bundle import Bundle
from jsrun.cli.output import Refusal
from jsrun.diagnostics import nearest
from jsrun.errors import BundleError

MANIFEST = "manifest.json"


def find_bundle(name: str) -> Path:
    """The directory of a bundle given by its path. Refusal with the nearest name if it is not there."""
    path = Path(name)
    if path.is_dir():
        return path
    if path.exists():
        if path.name == MANIFEST or path.name == "program.js":
            raise Refusal(f'"{name}" is a file; a bundle is the directory around it. Use "{path.parent}".')
        raise Refusal(f'"{name}" is a file; a bundle is a directory with a {MANIFEST} and a program.js.')
    raise Refusal(f'There is no bundle "{name}". {_hint(path)}', code="not-found")


def load_bundle(name: str) -> tuple[Bundle, Path]:
    """Find and load a bundle. Refusal with every diagnostic if it cannot be used."""
    path = find_bundle(name)
    try:
        return Bundle.load(path), path
    except BundleError as error:
        raise Refusal.of(_placed(error, path)) from None


def _placed(error: BundleError, path: Path) -> BundleError:
    """The same error; file names get the bundle's directory in front, as editors and people need it."""
    from dataclasses import replace

    return BundleError(replace(d, file=str(path / d.file)) for d in error.diagnostics)


def _hint(path: Path) -> str:
    """The nearest bundle beside the path or in `bundles/`, or what there is."""
    there: dict[str, str] = {}
    for folder in (path.parent, Path("bundles"), Path()):
        for bundle in bundles_in(folder):
            there.setdefault(bundle.name, str(bundle))
    if (name := nearest(path.name, there)) is not None:
        return f'Did you mean "{there[name]}"?'
    if path.name in there:
        return f'Did you mean "{there[path.name]}"?'
    if there:
        return f"There are: {', '.join(sorted(there.values()))}."
    return 'Make one with "jsrun new NAME".'


def bundles_in(folder: Path) -> list[Path]:
    """The directories in `folder` that look like bundles."""
    try:
        return sorted(entry for entry in folder.iterdir() if (entry / MANIFEST).is_file())
    except OSError:
        return []
