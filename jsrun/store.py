"""Store: subharnesses in a directory, every version of each, with their notes.

    ROOT/subharnesses/NAME/vN.json         record of a version: hash, parent, why, when
                           vN/             its files
                           memory.md       notes of its runs, over all versions
                           last-run.json   how the last run went
                           .mint.lock .mint-*   gate and staging of `mint`

Everything read back is untrusted: records are validated, reading is bounded, links are not followed.
"""

import contextlib
import functools
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from jsrun import _versions
from jsrun._mint_checks import bundle_texts, checked
from jsrun._text import quoted
from jsrun._versions import Numbers
from jsrun.bundle import Bundle
from jsrun.bundle_files import MANIFEST, MEMORY, MEMORY_BYTES
from jsrun.diagnostics import Diagnostic
from jsrun.errors import AlreadyExists, BundleError, DoorFailure, MintBusy, NotFound, StaleParent, StoreError
from jsrun.files import Busy, locked, read_file, replace_file
from jsrun.manifest_reader import name_problem
from jsrun.memory import FileMemory, now
from jsrun.store_records import MOST_VERSION, RunNote, Version, fit_why, read_run_note, read_version, record_bytes

__all__ = ["PROJECT", "RunNote", "Store", "Version", "bundle_texts", "home", "version_of"]

PROJECT: Final = Path(".jsrun")
"""Root of a project's store, in the project's directory."""

GATE_SECONDS: Final = 2.0
"""A mint takes milliseconds; who waits longer waits for a process that hangs."""

_NAMES: Final = "subharnesses"
_NOTES: Final = "memory.md"
_LAST_RUN: Final = "last-run.json"


def home() -> Path:
    """Root of the user's store: `$JSRUN_HOME`, else `~/.jsrun`. StoreError for a user without a home directory."""
    try:
        return Path(os.environ.get("JSRUN_HOME") or "~/.jsrun").expanduser()
    except RuntimeError:
        raise StoreError("There is no home directory to keep a store in. Set JSRUN_HOME to a directory.") from None


def version_of(bundle: Bundle) -> int | None:
    """The version that a bundle out of a store is; None for any other bundle."""
    return None if bundle.path is None else _versions.number_of(bundle.path)


class Store:
    """The store under `root`, which need not be there: nothing is made before the first mint, note or run.

    Its methods block for as long as disks take, `mint` for some tenths of a second; in an event loop, call them in a
    thread. Any number of threads and processes may use one store at once. StoreError where it cannot be read or
    written; NotFound, one of them, where a name or version is not there.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(root)
        self._notices: dict[str, tuple[str, ...]] = {}

    @property
    def notices(self) -> tuple[str, ...]:
        """What was left out or is odd, as of the last look at each name."""
        return tuple(f"{name}: {notice}" for name, notices in sorted(self._notices.items()) for notice in notices)

    def names(self) -> tuple[str, ...]:
        """The names that have a version, sorted."""
        parent = self.root / _NAMES
        with self._reading(parent):
            try:
                entries = sorted(entry.name for entry in parent.iterdir() if not entry.name.startswith("."))
            except FileNotFoundError:
                entries = []
        for name in self._notices.keys() - set(entries):
            self._notices.pop(name, None)
        return tuple(name for name in entries if self._is_name(name))

    def versions(self, name: str) -> tuple[Version, ...]:
        """The records of the versions that are there, the first one first; empty for a name that is not there.

        A version whose record is unsound is left out, with a notice.
        """
        if name_problem(name) is not None:
            return ()
        numbers = self._look(name)
        found: list[Version] = []
        unsound: list[str] = []
        for number in numbers.live:
            try:
                found.append(self._record(name, number))
            except StoreError as error:
                unsound.append(str(error))
        if unsound:
            self._notices[name] = (*numbers.notices, *unsound)
        return tuple(found)

    def head(self, name: str) -> Version:
        """The newest version, which is the highest that has both record and directory."""
        return self._record(name, self._number(name, 0))

    def path(self, name: str, version: int = 0) -> Path:
        """The directory of a version's files, 0 for the newest; it may be gone. Nothing may be changed in it."""
        return _versions.version_path(self._folder(name), self._number(name, version))

    def load(self, name: str, version: int = 0) -> Bundle:
        """The bundle of a version, 0 for the newest, with the live notes of the name as its memory.

        BundleError if its files are not those of a bundle of this name. A version that was changed since it was minted
        is loaded with a notice.
        """
        number = self._number(name, version)
        bundle = Bundle.load(_versions.version_path(self._folder(name), number), memory=self.memory(name))
        stated = bundle.manifest.name
        if stated != name:
            message = f"The manifest is that of {quoted(stated)}, the store keeps it as {quoted(name)}."
            hint = "Give both the same name."
            raise BundleError([Diagnostic("manifest-name", "error", MANIFEST, None, None, message, hint)])
        self._compare(name, number, bundle)
        return bundle

    def files(self, name: str, version: int = 0) -> dict[str, str]:
        """The texts of a version, 0 for the newest, by their path in it: what `mint` takes.

        BundleError if a file cannot be read; apart from that the version need not be a sound bundle.
        """
        return bundle_texts(self.path(name, version))

    def mint(self, files: Mapping[str, str], parent: str = "", why: str = "") -> Version:
        """Add a version of the name that the manifest among `files` (path to text) states, and return its record.

        `parent` is the hash of the newest version, which this one changes, and `why` says why; a new name has none.
        Content equal to the newest version is not added again: that version is returned. The manifest is stored in one
        layout, other files byte for byte; files that are no part of a bundle are left out.

        BundleError if any check finds an error, the engine's included. AlreadyExists without a parent where the name is
        taken, StaleParent where the parent is not the newest version, MintBusy if another process is minting.
        """
        bundle, texts = checked(files)
        name = bundle.manifest.name
        reason = fit_why(why)
        folder = self._folder(name)
        with self._writing(folder):
            _versions.make_folders(folder)
            if not _versions.is_folder(folder):
                raise StoreError(f"{quoted(str(folder), 500)} is not a directory. Move it away.")
            try:
                with locked(folder / _versions.GATE, GATE_SECONDS):
                    return self._mint(bundle, texts, parent, reason)
            except Busy:
                raise MintBusy(f"Another process is minting {quoted(name)}. Try again in a moment.") from None

    def _mint(self, bundle: Bundle, texts: Mapping[str, str], parent: str, why: str) -> Version:
        """`mint`, once the gate is ours."""
        name = bundle.manifest.name
        folder = self._folder(name)
        _versions.sweep(folder)
        numbers = self._look(name)
        head = self._record(name, numbers.live[-1]) if numbers.live else None
        if head is not None and head.hash == bundle.hash and self._unchanged(name, head):
            return head
        _check_parent(name, head, parent, why)
        number = numbers.highest + 1
        if number > MOST_VERSION:
            raise StoreError(f"{quoted(name)} has a version {numbers.highest}, and there are no greater numbers.")
        record = Version(number, bundle.hash, parent, 0 if head is None else head.version, why, now())
        _versions.add(folder, record, texts)
        return record

    def memory(self, name: str, seed: str | None = None) -> FileMemory:
        """The live notes of a name, shared by its versions; they need not be there, nor need the name.

        When the first note is written they start with the seed of the version that is the newest then, or with `seed`
        if one is given.
        """
        path = self._folder(name) / _NOTES
        return FileMemory(path, functools.partial(self._seed, name) if seed is None else seed)

    def note_run(self, name: str, note: RunNote) -> None:
        """Remember how the last run of a name went."""
        folder = self._folder(name)
        with self._writing(folder):
            if not _versions.is_folder(folder):
                raise self._not_found(name)
            try:
                with locked(folder / f".{_LAST_RUN}.lock", GATE_SECONDS):
                    replace_file(folder / _LAST_RUN, record_bytes(note), folder / f".{_LAST_RUN}.new")
            except Busy:
                raise StoreError(f"Another process is noting a run of {quoted(name)}.") from None

    def last_run(self, name: str) -> RunNote | None:
        """How the last run of a name went; None if it never ran."""
        folder = self._folder(name)
        return read_run_note(folder / _LAST_RUN) if _versions.is_folder(folder) else None

    # --- looking ---

    def _folder(self, name: str) -> Path:
        """The directory of a name. NotFound for a text that cannot be a name, so that no path is ever made of it."""
        if name_problem(name) is not None:
            raise self._not_found(name)
        return self.root / _NAMES / name

    def _is_name(self, name: str) -> bool:
        """Does an entry among the names have a version? Leaves a notice if it is something else."""
        if name_problem(name) is not None:
            self._notices[name] = ("is left out: a subharness cannot have this name.",)
            return False
        if not _versions.is_folder(self.root / _NAMES / name):
            self._notices[name] = ("is left out: it is not a directory.",)
            return False
        try:
            return bool(self._look(name).live)
        except StoreError as error:  # it is there, and whoever wants it has to know what is wrong with it
            self._notices[name] = (str(error),)
            return True

    def _look(self, name: str) -> Numbers:
        folder = self._folder(name)
        with self._reading(folder):
            numbers = _versions.look(folder)
        if numbers.notices:
            self._notices[name] = numbers.notices
        else:
            self._notices.pop(name, None)
        return numbers

    def _number(self, name: str, version: int) -> int:
        """The number of a version that has a record. NotFound for any other."""
        numbers = self._look(name)
        if version == 0:
            if not numbers.live:
                raise self._not_found(name)
            return numbers.live[-1]
        if version in numbers.live or self._is_dead(name, version):
            return version
        if not numbers.live:
            raise self._not_found(name)
        raise NotFound(f"{quoted(name)} has no version {version} in {self._shown()}. The newest is {numbers.live[-1]}.")

    def _is_dead(self, name: str, version: int) -> bool:
        """Is there a record, though no directory? Loading it is an error of the bundle, not of the one who asks."""
        return version > 0 and os.path.lexists(_versions.record_path(self._folder(name), version))

    def _record(self, name: str, number: int) -> Version:
        return read_version(_versions.record_path(self._folder(name), number), number)

    def _compare(self, name: str, number: int, bundle: Bundle) -> None:
        """Leave a notice if a version is not what its record says."""
        try:
            record = self._record(name, number)
        except StoreError as error:
            notice = str(error)
        else:
            if record.hash == bundle.hash:
                return
            notice = f"v{number} was changed since it was minted. Mint what is in it as a new version."
        self._notices[name] = (*self._notices.get(name, ()), notice)

    def _unchanged(self, name: str, head: Version) -> bool:
        """Is the newest version what its record says?"""
        try:
            return Bundle.load(_versions.version_path(self._folder(name), head.version)).hash == head.hash
        except BundleError:
            return False

    def _seed(self, name: str) -> str:
        """The text of the newest version's memory.md, empty without a version. DoorFailure if it cannot be read."""
        try:
            numbers = self._look(name)
            if not numbers.live:
                return ""
            path = _versions.version_path(self._folder(name), numbers.live[-1]) / MEMORY
            return read_file(path, MEMORY_BYTES).decode("utf-8")
        except FileNotFoundError:
            return ""
        except UnicodeDecodeError:
            reason = "it is not UTF-8 text"
        except (OSError, ValueError) as error:
            reason = _reason(error)
        except StoreError as error:
            raise DoorFailure(str(error)) from None
        raise DoorFailure(f"The notes cannot begin with the newest version's memory.md: {reason}.")

    # --- errors ---

    def _shown(self) -> str:
        return quoted(str(self.root), 500)

    def _not_found(self, name: str) -> NotFound:
        return NotFound(f"There is no {quoted(name)} in the store {self._shown()}.")

    @contextlib.contextmanager
    def _reading(self, path: Path) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as error:
            raise StoreError(f"{quoted(str(path), 500)} cannot be read: {_reason(error)}.") from None

    @contextlib.contextmanager
    def _writing(self, folder: Path) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as error:
            raise StoreError(f"{quoted(str(folder), 500)} cannot be written: {_reason(error)}.") from None


def _check_parent(name: str, head: Version | None, parent: str, why: str) -> None:
    shown = quoted(name)
    if head is None:
        if parent:
            raise StaleParent(f"{shown} has no version yet that could be a parent. Mint it without one.")
        return
    newest = f"version {head.version} ({head.hash})"
    if not parent:
        raise AlreadyExists(
            f"{shown} is there already, as {newest}. To change it, give that hash as parent and say why."
        )
    if parent != head.hash:
        raise StaleParent(f"The parent is not the newest version of {shown}. That is {newest}; change that one.")
    if not why:
        raise StoreError(f"A change of {shown} needs a reason. Say why it is made.")


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, OSError):
        return (error.strerror or "the system gives no reason").lower()
    return str(error) if type(error) is ValueError else "its path is not usable"
