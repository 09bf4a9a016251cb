"""What `mint` looks at before it touches the disk: the files as a bundle, as they will be stored, and the engine."""

import asyncio
import hashlib
import os
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Final

from jsrun.bundle import Bundle
from jsrun.bundle_files import EVALS, MANIFEST, MEMORY, PROGRAM, PROMPTS, read_folder
from jsrun.diagnostics import Diagnostic
from jsrun.errors import BundleError
from jsrun.runner import check

# Programs the engine has taken in this process, by engine and hash: minting again, or again after a stale parent, does
# not compile again.
_compiled: dict[tuple[str, str], None] = {}
_COMPILED: Final = 256


def bundle_texts(path: str | os.PathLike[str]) -> dict[str, str]:
    """The texts of the bundle in a directory by their path in it. BundleError if a file is missing or unreadable."""
    files = read_folder(path)
    if files.manifest is None or files.program is None or any(found.severity == "error" for found in files.diagnostics):
        raise BundleError(files.diagnostics)
    texts = {MANIFEST: files.manifest, PROGRAM: files.program}
    if files.memory is not None:
        texts[MEMORY] = files.memory
    texts |= {f"{PROMPTS}/{name}.md": text for name, text in files.prompts.items()}
    texts |= {f"{EVALS}/{name}": text for name, text in files.evals.items()}
    return dict(sorted(texts.items()))


def checked(files: Mapping[str, str]) -> tuple[Bundle, dict[str, str]]:
    """The bundle and its files as they are stored. BundleError if there is anything wrong with them."""
    given = Bundle.from_files(files)
    texts = {MANIFEST: given.manifest.to_text(), PROGRAM: files[PROGRAM], MEMORY: files.get(MEMORY, "")}
    for path in (*(f"{PROMPTS}/{name}.md" for name in given.prompts), *(f"{EVALS}/{name}" for name in given.evals)):
        texts[path] = files[path]
    # Once more, as what is stored must load again: in its layout the manifest may have grown over its limit.
    bundle = Bundle.from_files(texts)
    _compile(bundle)
    return bundle, texts


def _compile(bundle: Bundle) -> None:
    """Have the engine read the program, in a thread with a loop of its own. BundleError if it refuses it."""
    key = (bundle.manifest.engine, hashlib.sha256(bundle.program.encode()).hexdigest())
    if key in _compiled:
        return
    future: Future[tuple[Diagnostic, ...]] = Future()

    def work() -> None:
        try:
            future.set_result(asyncio.run(check(bundle)))
        except BaseException as error:  # it belongs to the one who waits
            future.set_exception(error)

    threading.Thread(target=work, name="jsrun mint", daemon=True).start()
    found = future.result()
    if any(diagnostic.severity == "error" for diagnostic in found):
        raise BundleError(found)
    if len(_compiled) >= _COMPILED:
        _compiled.clear()
    _compiled[key] = None
