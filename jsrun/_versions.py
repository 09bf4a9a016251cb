"""The directory of one name in a store: which versions are there, and how a new one is added so that a kill at any
point leaves every earlier version as it was.

A version is a record `vN.json` and a directory `vN`. The record is what claims the number: it is linked to its name
exclusively, and only then the finished directory is renamed to its own. So a record without a directory is a mint that
was killed in between; nobody ever saw it, and its number is not used again.
"""

import contextlib
import os
import re
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from jsrun.bundle_files import EVALS
from jsrun.files import sync_folder, write_new
from jsrun.store_records import Version, record_bytes

GATE: Final = ".mint.lock"
_STAGING: Final = ".mint-"
_ENTRY: Final = re.compile(r"v([1-9][0-9]{0,8})(\.json)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Numbers:
    """The version numbers in a directory. `live` ascends; `highest` counts every number that was ever used."""

    live: tuple[int, ...] = ()
    highest: int = 0
    notices: tuple[str, ...] = ()


def look(folder: Path) -> Numbers:
    """What versions a name's directory holds; none if it is not there, or is no directory but a link or a file."""
    if not is_folder(folder):
        return Numbers()
    records: set[int] = set()
    folders: set[int] = set()
    taken: dict[int, list[str]] = {}
    with os.scandir(folder) as entries:
        for entry in entries:
            match = _ENTRY.fullmatch(entry.name)
            if match is None:
                continue
            number = int(match[1])
            taken.setdefault(number, []).append(entry.name)
            if match[2] and entry.is_file(follow_symlinks=False):
                records.add(number)
            elif not match[2] and entry.is_dir(follow_symlinks=False):
                folders.add(number)
    notices = [
        _notice(number, names, number in records, number in folders)
        for number, names in sorted(taken.items())
        if number not in records or number not in folders
    ]
    return Numbers(tuple(sorted(records & folders)), max(taken, default=0), tuple(notices))


def _notice(number: int, names: list[str], record: bool, folder: bool) -> str:
    if record and f"v{number}" not in names:
        return f"v{number} is left out: it has a record but no directory. Its number is not used again."
    if folder and f"v{number}.json" not in names:
        return f"v{number} is left out: it has a directory but no record v{number}.json."
    wrong = f"v{number}" if record else f"v{number}.json"
    return f"v{number} is left out: {wrong} is not a {'directory' if record else 'regular file'}."


def is_folder(path: Path) -> bool:
    """Is there a directory, reached through no link?"""
    return path.is_dir() and not path.is_symlink()


def record_path(folder: Path, number: int) -> Path:
    """Where the record of a version is."""
    return folder / f"v{number}.json"


def version_path(folder: Path, number: int) -> Path:
    """Where the files of a version are."""
    return folder / f"v{number}"


def number_of(path: Path) -> int | None:
    """The version that a directory holds, by its name; None if it is not named so."""
    match = _ENTRY.fullmatch(path.name)
    return None if match is None or match[2] else int(match[1])


def make_folders(folder: Path) -> None:
    """Make a directory and those above it, each to last. OSError if it cannot be made."""
    if folder.is_dir():
        return
    make_folders(folder.parent)
    folder.mkdir(exist_ok=True)
    sync_folder(folder.parent)


def sweep(folder: Path) -> None:
    """Remove what mints left that were killed. The caller holds the gate, so nobody works on it."""
    for entry in list(folder.iterdir()):
        if entry.name.startswith(_STAGING):
            if is_folder(entry):
                shutil.rmtree(entry)
            else:
                entry.unlink()


def add(folder: Path, record: Version, files: Mapping[str, str]) -> None:
    """Add a version; the caller holds the gate and has swept. OSError, also where the number is taken."""
    token = secrets.token_hex(4)
    staged, staged_record = folder / f"{_STAGING}{token}", folder / f"{_STAGING}{token}.json"
    try:
        _write_all(staged, files)
        write_new(staged_record, record_bytes(record))
        # From here on the number is used. Linking fails where there is such a record; renaming would replace it.
        record_path(folder, record.version).hardlink_to(staged_record)
        staged.rename(version_path(folder, record.version))
    except OSError:
        with contextlib.suppress(OSError):
            sweep(folder)
        raise
    sync_folder(folder)
    with contextlib.suppress(OSError):  # the next mint sweeps it away
        staged_record.unlink()


def _write_all(staged: Path, files: Mapping[str, str]) -> None:
    folders = {staged, staged / EVALS, *((staged / name).parent for name in files)}
    for path in sorted(folders):
        path.mkdir()
    for name, text in files.items():
        write_new(staged / name, text.encode())
    for path in folders:
        sync_folder(path)
