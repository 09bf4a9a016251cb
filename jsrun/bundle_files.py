"""The files of a bundle: reading a directory without trusting it, and the rules that are about files alone.

Nothing is followed, waited for or read past its limit: only regular files are opened, links are not, and sizes are
looked at first.
"""

import errno
import hashlib
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from jsrun._text import quoted
from jsrun.diagnostics import Diagnostic, Severity

KIB = 1024
MIB = 1024 * KIB

# A person reads all of a manifest; a megabyte of program holds a bundled library; prompts are pages, not books.
MANIFEST_BYTES = 256 * KIB
PROGRAM_BYTES = MIB
PROMPT_BYTES = 256 * KIB
MEMORY_BYTES = 4 * MIB
BUNDLE_BYTES = 16 * MIB
MOST_PROMPTS = 500
# More names than this in one folder are not looked at.
MOST_ENTRIES = 10_000

MANIFEST = "manifest.json"
PROGRAM = "program.js"
MEMORY = "memory.md"
PROMPTS = "prompts"
EVALS = "evals"
_TYPINGS = "program.d.ts"

_PROMPT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,119}")
_LIMITS = {MANIFEST: MANIFEST_BYTES, PROGRAM: PROGRAM_BYTES, MEMORY: MEMORY_BYTES}
_EVAL_ENDS = (".json", ".jsonl")
_REQUIRED_HINT = {
    MANIFEST: 'Add it, with at least a "name" and a "purpose".',
    PROGRAM: "Add it, with function run(input) { … }.",
}


@dataclass(slots=True)
class Files:
    """The texts of one bundle and what is wrong with its files. None: not there, or not readable.

    `prompts` are keyed by bare name, `evals` by the name of the file. `prompt_names` are those of all prompts, also of
    unreadable ones.
    """

    manifest: str | None = None
    program: str | None = None
    prompts: dict[str, str] = field(default_factory=dict)
    prompt_names: set[str] = field(default_factory=set)
    memory: str | None = None
    evals: dict[str, str] = field(default_factory=dict)
    diagnostics: list[Diagnostic] = field(default_factory=list)

    def report(self, code: str, file: str, message: str, hint: str, severity: Severity = "error") -> None:
        """Add a diagnostic about a file as a whole."""
        self.diagnostics.append(Diagnostic(code, severity, file, None, None, message, hint))


def read_folder(path: str | os.PathLike[str]) -> Files:
    """Read the directory of a bundle."""
    files = Files()
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        files.report("bundle-file", str(Path(path)), *_unreadable_folder(path, error))
        return files
    try:
        _Reader(files, folder).read()
    finally:
        os.close(folder)
    return files


def sort_files(texts: Mapping[str, str]) -> Files:
    """The files of a bundle given as a mapping from POSIX path to text."""
    files = Files()
    total = 0
    for path in sorted(texts):
        kept = _place_of(path)
        if kept is None:
            if not _is_silent(path.rpartition("/")[2]):
                _ignore(files, path)
            continue
        total += _take_text(files, path, texts[path])
    _finish(files, total, {MANIFEST, PROGRAM} - set(texts))
    return files


def given_files(
    manifest: str, program: str, source: str, prompts: Mapping[str, str], memory: str, evals: Mapping[str, str]
) -> Files:
    """The files of a bundle given as parts; prompts by name, evals by name of the case or of the file."""
    files = Files()
    parts = {MANIFEST: manifest, PROGRAM: program}
    if memory:
        parts[MEMORY] = memory
    for key, text in prompts.items():
        name = key.removeprefix(f"{PROMPTS}/").removesuffix(".md")
        path = f"{PROMPTS}/{name}.md"
        if path in parts:
            message = f'Two prompts have the name {quoted(name)} once {quoted(f"{PROMPTS}/")} and ".md" are taken off.'
            files.report("prompt-name", path, message, "Rename one of them.")
        parts[path] = text
    for key, text in evals.items():
        name = key.removeprefix(f"{EVALS}/")
        parts[f"{EVALS}/{name if name.endswith(_EVAL_ENDS) else f'{name}.json'}"] = text
    total = 0
    for path, text in parts.items():
        total += _take_text(files, path, text, source if path == PROGRAM else path)
    _finish(files, total, set())
    return files


def _take_text(files: Files, path: str, text: str, shown: str | None = None) -> int:
    """Take one text, or report why not; gives its size in bytes."""
    content = text.removeprefix("\ufeff")
    _announce(files, path)
    size = _size(files, shown or path, content)
    if size is not None and not _is_over(files, path, size, shown):
        _keep(files, path, content)
    return size or 0


def bundle_hash(manifest: str, program: str, prompts: Mapping[str, str], memory: str, evals: Mapping[str, str]) -> str:
    """`sha256:` and hex over paths and contents, each after its length as 8 bytes; `manifest` is the rewritten text."""
    parts = {MANIFEST: manifest, PROGRAM: program}
    if memory:
        parts[MEMORY] = memory
    parts |= {f"{PROMPTS}/{name}.md": text for name, text in prompts.items()}
    parts |= {f"{EVALS}/{name}": text for name, text in evals.items()}
    digest = hashlib.sha256()
    for path, content in sorted((path.encode(), text.encode()) for path, text in parts.items()):
        for data in (path, content):
            digest.update(len(data).to_bytes(8, "big"))
            digest.update(data)
    return f"sha256:{digest.hexdigest()}"


# --- reading a directory ----------------------------------------------------------------------------------------------


class _Reader:
    def __init__(self, files: Files, folder: int) -> None:
        self._files = files
        self._folder = folder
        self._total = 0

    def read(self) -> None:
        names = self._names(self._folder, ".")
        for name in names:
            if name in (PROMPTS, EVALS):
                self._read_folder(name)
            elif name in (MANIFEST, PROGRAM, MEMORY):
                self._read_file(self._folder, name, name)
            elif not _is_silent(name):
                _ignore(self._files, name)
        _finish(self._files, self._total, {MANIFEST, PROGRAM} - set(names))

    def _read_folder(self, name: str) -> None:
        try:
            folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._folder)
        except OSError:
            message, hint = f"{quoted(name)} is not a directory.", "Make it a directory of files, not a file or link."
            self._files.report("bundle-file", name, message, hint)
            return
        try:
            for entry in self._names(folder, name):
                path = f"{name}/{entry}"
                if _place_of(path) is not None:
                    self._read_file(folder, entry, path)
                elif not _is_silent(entry) and name == PROMPTS:
                    _ignore(self._files, path)
        finally:
            os.close(folder)

    def _names(self, folder: int, shown: str) -> list[str]:
        names: list[str] = []
        with os.scandir(folder) as entries:
            for entry in entries:
                if len(names) == MOST_ENTRIES:
                    message = f"{quoted(shown)} holds more than {MOST_ENTRIES:,} files."
                    self._files.report("bundle-file", shown, message, "Keep only the files of the bundle there.")
                    break
                names.append(entry.name)
        return sorted(names)

    def _read_file(self, folder: int, name: str, path: str) -> None:
        _announce(self._files, path)
        if len(self._files.prompt_names) > MOST_PROMPTS:  # told at the end
            return
        try:
            # Looked at before it is opened: opening a device can already do something.
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if not stat.S_ISREG(status.st_mode):
                self._files.report(
                    "bundle-file", path, f"{quoted(path)} is {_kind(status.st_mode)}.", "Make it a file."
                )
                return
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptor = os.open(name, flags, dir_fd=folder)
        except OSError as error:
            self._report_unreadable(path, error)
            return
        try:
            data = self._content(descriptor, path)
        except OSError as error:
            self._report_unreadable(path, error)
            return
        finally:
            os.close(descriptor)
        if data is None:
            return
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            message = f"{quoted(path)} is not UTF-8 text: byte {error.start + 1:,} does not fit."
            self._files.report("bundle-file", path, message, "Save it as UTF-8.")
            return
        _keep(self._files, path, text.removeprefix("\ufeff"))

    def _is_regular(self, status: os.stat_result, path: str) -> bool:
        if stat.S_ISREG(status.st_mode):
            return True
        self._files.report("bundle-file", path, f"{quoted(path)} is {_kind(status.st_mode)}.", "Make it a file.")
        return False

    def _content(self, descriptor: int, path: str) -> bytes | None:
        status = os.fstat(descriptor)
        if not self._is_regular(status, path):  # exchanged since it was looked at
            return None
        if _is_over(self._files, path, status.st_size):
            return None
        self._total += status.st_size
        if self._total > BUNDLE_BYTES:  # told once, at the end
            return None
        with os.fdopen(os.dup(descriptor), "rb") as file:
            data = file.read(status.st_size + 1)
        if len(data) > status.st_size:
            self._files.report("bundle-file", path, f"{quoted(path)} grew while it was read.", "Try again.")
            return None
        return data

    def _report_unreadable(self, path: str, error: OSError) -> None:
        reason = "it is a link" if error.errno == errno.ELOOP else (error.strerror or "unknown reason").lower()
        self._files.report("bundle-file", path, f"{quoted(path)} cannot be read: {reason}.", "Make it a readable file.")


def _kind(mode: int) -> str:
    if stat.S_ISLNK(mode):
        return "a symbolic link"
    if stat.S_ISDIR(mode):
        return "a directory"
    if stat.S_ISFIFO(mode):
        return "a FIFO"
    return "a socket" if stat.S_ISSOCK(mode) else "a device"


def _unreadable_folder(path: str | os.PathLike[str], error: OSError | ValueError) -> tuple[str, str]:
    shown = quoted(str(Path(path)))
    if isinstance(error, FileNotFoundError):
        return f"There is no directory {shown}.", "Give the path of a bundle's directory."
    if isinstance(error, NotADirectoryError):
        return f"{shown} is not a directory.", "Give the path of a bundle's directory."
    reason = (error.strerror or "unknown reason").lower() if isinstance(error, OSError) else "its path is not usable"
    return f"{shown} cannot be read: {reason}.", "Give the path of a bundle's directory."


# --- rules about files ------------------------------------------------------------------------------------------------


def _place_of(path: str) -> str | None:
    """What kind of file of a bundle a path is: its name at the root, or its folder; None if it is none."""
    folder, slash, name = path.rpartition("/")
    if not slash:
        return path if path in (MANIFEST, PROGRAM, MEMORY) else None
    if folder == PROMPTS and name.endswith(".md") and not name.startswith("."):
        return PROMPTS
    if folder == EVALS and name.endswith(_EVAL_ENDS) and not name.startswith(".") and _is_file_name(name):
        return EVALS
    return None


def _is_file_name(name: str) -> bool:
    """Can a file have this name wherever file names are UTF-8?"""
    return "\0" not in name and not any("\ud800" <= character <= "\udfff" for character in name)


def _is_silent(name: str) -> bool:
    return name.startswith((".", "README", "LICENSE")) or name == _TYPINGS


def _ignore(files: Files, path: str) -> None:
    message = f"{quoted(path)} is no part of a bundle and is ignored."
    files.report("ignored-file", path, message, "Remove it, or put it elsewhere.", "warning")


def _size(files: Files, path: str, text: str) -> int | None:
    """The size of a text in bytes; None, reported, if it cannot be written as UTF-8."""
    try:
        return len(text.encode())
    except UnicodeEncodeError as error:
        message = f"{quoted(path)} is not UTF-8 text: character {error.start + 1:,} is half of a pair."
        files.report("bundle-file", path, message, "Remove it, or write it as an escape.")
        return None


def _is_over(files: Files, path: str, size: int, shown: str | None = None) -> bool:
    limit = _LIMITS.get(path, PROMPT_BYTES if path.startswith(f"{PROMPTS}/") else BUNDLE_BYTES)
    if size > limit:
        name = shown or path
        message = f"{quoted(name)} has {size:,} bytes, {limit:,} are allowed."
        files.report("bundle-file", name, message, "Make it smaller.")
    return size > limit


def _announce(files: Files, path: str) -> None:
    """Remember that there is a prompt of this name, whether or not it can be read."""
    if path.startswith(f"{PROMPTS}/"):
        files.prompt_names.add(_prompt_name(path))


def _prompt_name(path: str) -> str:
    return path.removeprefix(f"{PROMPTS}/").removesuffix(".md")


def _keep(files: Files, path: str, text: str) -> None:
    if path == MANIFEST:
        files.manifest = text
    elif path == PROGRAM:
        files.program = text
    elif path == MEMORY:
        files.memory = text
    elif path.startswith(f"{PROMPTS}/"):
        files.prompts[_prompt_name(path)] = text
    else:
        files.evals[path.removeprefix(f"{EVALS}/")] = text


def _finish(files: Files, total: int, missing: set[str]) -> None:
    """The rules about all files together."""
    for name in sorted(missing):
        files.report("bundle-file", name, f"{quoted(name)} is missing.", _REQUIRED_HINT[name])
    if total > BUNDLE_BYTES:
        message = f"The bundle has {total:,} bytes, {BUNDLE_BYTES:,} are allowed."
        files.report("bundle-file", ".", message, "Make its files smaller.")
    if len(files.prompt_names) > MOST_PROMPTS:
        message = f"The bundle has more than {MOST_PROMPTS} prompts."
        files.report("bundle-file", PROMPTS, message, "Remove some, or split the bundle.")
        return
    _check_prompts(files)


def _check_prompts(files: Files) -> None:
    seen: dict[str, str] = {}
    for name in sorted(files.prompt_names):
        path = f"{PROMPTS}/{name}.md"
        if not _PROMPT_NAME.fullmatch(name):
            message = f"{quoted(name)} cannot be the name of a prompt."
            hint = 'Use letters, digits, ".", "_" and "-", a letter or digit first, 120 characters at most.'
            files.report("prompt-name", path, message, hint)
        earlier = seen.setdefault(name.casefold(), name)
        if earlier != name:
            message = f"{quoted(name)} and {quoted(earlier)} differ in capitals only."
            files.report("prompt-case", path, message, "Rename one of them.", "warning")
        if name in files.prompts and not files.prompts[name].strip():
            files.report("prompt-empty", path, f"The prompt {quoted(name)} is empty.", "Write it.", "warning")
