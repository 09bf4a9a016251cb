"""Bundle: one program and what it needs, checked as a whole."""

import copy
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Literal, Self

from jsrun._text import quoted
from jsrun.analysis import analyse
from jsrun.bundle_files import PROGRAM, Files, bundle_hash, given_files, read_folder, sort_files
from jsrun.canonical import json_text
from jsrun.checks import Surroundings, check_program, unused_names
from jsrun.diagnostics import Diagnostic, arrange
from jsrun.env import Memory
from jsrun.errors import BundleError
from jsrun.facts import Facts
from jsrun.fuel import Fuel
from jsrun.guard_checks import unreachable_guards
from jsrun.look import Look
from jsrun.manifest import Manifest
from jsrun.manifest_reader import FILE, ManifestReading, read_manifest
from jsrun.program import Program
from ptc.wire import Json


@dataclass(frozen=True, slots=True, init=False, eq=False)
class Bundle:
    """One bundle, in which no error was found.

    manifest; program: the text of program.js; source: the name its errors are reported against; prompts: bare name to
    text; memory: what serves `remember` and `recall`, else the Env does; look: what guards look at; fuel: over what the
    manifest states; memory_seed: the text of memory.md; evals: file name to text; path: where it was read from.

    Found when it was made: `warnings`; `hash`, equal for equal content; `prepared`, the program ready for `ptc`.
    """

    manifest: Manifest
    program: str
    source: str
    prompts: Mapping[str, str]
    memory: Memory | None
    look: Look | None
    fuel: Fuel
    memory_seed: str
    evals: Mapping[str, str]
    path: Path | None
    warnings: tuple[Diagnostic, ...]
    hash: str
    prepared: Program = field(repr=False)

    def __init__(
        self,
        manifest: Manifest | Mapping[str, Json],
        program: str,
        source: str = PROGRAM,
        prompts: Mapping[str, str] | None = None,
        memory: Memory | None = None,
        look: Look | None = None,
        fuel: Fuel | None = None,
        memory_seed: str = "",
        evals: Mapping[str, str] | None = None,
        path: str | os.PathLike[str] | None = None,
    ) -> None:
        """Make a bundle of its parts. BundleError if there is any error in them; lines of the manifest are not known.

        Names of prompts may have `prompts/` before and `.md` behind them, those of evals `evals/` and `.json`.
        """
        try:
            text = manifest.to_text() if isinstance(manifest, Manifest) else json_text(dict(manifest))
        except ValueError:
            message, hint = "The manifest is not JSON.", "Use text, numbers, true, false, None, lists and dicts only."
            raise BundleError([Diagnostic("manifest-json", "error", FILE, None, None, message, hint)]) from None
        files = given_files(text, program, source, prompts or {}, memory_seed, evals or {})
        self._fill(files, source, False, memory, look, fuel, path, strict=False)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        memory: Memory | None = None,
        look: Look | None = None,
        fuel: Fuel | None = None,
        strict: bool = False,
    ) -> Self:
        """Read a bundle from its directory and check it; no process is started.

        BundleError, with all that was found, on any error, and with `strict` on any warning.
        """
        bundle = cls.__new__(cls)
        bundle._fill(read_folder(path), PROGRAM, True, memory, look, fuel, path, strict)
        return bundle

    @classmethod
    def from_files(
        cls,
        files: Mapping[str, str],
        *,
        memory: Memory | None = None,
        look: Look | None = None,
        fuel: Fuel | None = None,
        strict: bool = False,
    ) -> Self:
        """Like `load`, of texts keyed by their path in the bundle, such as `prompts/summarise.md`."""
        bundle = cls.__new__(cls)
        bundle._fill(sort_files(files), PROGRAM, True, memory, look, fuel, None, strict)
        return bundle

    @property
    def form(self) -> Literal["sync", "async"]:
        """Whether doors give promises in this program."""
        return self.prepared.form

    def with_memory(self, memory: Memory | None) -> Self:
        """The same bundle with other notes; None: those of the Env."""
        return self._with("memory", memory)

    def with_prepared(self, prepared: Program) -> Self:
        """The same bundle with its program prepared in another way."""
        return self._with("prepared", prepared)

    def _with(self, name: str, value: object) -> Self:
        other = copy.copy(self)
        object.__setattr__(other, name, value)
        return other

    def _fill(
        self,
        files: Files,
        source: str,
        places: bool,
        memory: Memory | None,
        look: Look | None,
        fuel: Fuel | None,
        path: str | os.PathLike[str] | None,
        strict: bool,
    ) -> None:
        manifest, facts, found = _check(files, source, places)
        failed = strict or any(diagnostic.severity == "error" for diagnostic in found)
        if (found and failed) or manifest is None or facts is None or files.program is None:
            raise BundleError(found)
        seed = files.memory or ""
        values = {
            "manifest": manifest,
            "program": files.program,
            "source": source,
            "prompts": MappingProxyType(dict(sorted(files.prompts.items()))),
            "memory": memory,
            "look": look,
            "fuel": fuel if fuel is not None else Fuel(),
            "memory_seed": seed,
            "evals": MappingProxyType(dict(sorted(files.evals.items()))),
            "path": None if path is None else Path(path),
            "warnings": arrange(found),
            "hash": bundle_hash(manifest.to_text(), files.program, files.prompts, seed, files.evals),
            "prepared": Program.of(files.program, facts),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)


def _check(files: Files, source: str, places: bool) -> tuple[Manifest | None, Facts | None, list[Diagnostic]]:
    """Check what could be read, all of it: one unreadable file does not hide the problems of another."""
    found = list(files.diagnostics)
    reading = read_manifest(files.manifest, places=places) if files.manifest is not None else None
    facts = analyse(files.program) if files.program is not None else None
    whitelist = reading.whitelist if reading is not None else None
    if facts is not None:
        found += check_program(facts, Surroundings(source, files.prompt_names, whitelist))
        for name in unused_names(facts, "ai", files.prompts):
            message = f"Nothing uses the prompt {quoted(name)}."
            found.append(
                Diagnostic("unused-prompt", "warning", f"prompts/{name}.md", None, None, message, "Remove it.")
            )
    if reading is not None:
        _check_together(reading, facts)
        found += reading.diagnostics
    return reading.manifest if reading is not None else None, facts, found


def _check_together(reading: ManifestReading, facts: Facts | None) -> None:
    """The rules about the manifest that need the program, or several parts of the manifest."""
    whitelist = reading.whitelist
    if facts is not None and whitelist is not None:
        for name in unused_names(facts, "tool", whitelist):
            place = ("whitelist", reading.whitelist_index(name))
            message = f"Nothing uses {quoted(name)} of the whitelist."
            reading.report("unused-whitelist", place, message, "Remove it.", "warning")
    if facts is not None and facts.problem is None and reading.fields.get("engine") == "v8" and facts.form == "sync":
        message = 'The engine "v8" runs async programs only, and this one is sync.'
        reading.report("engine-form", ("engine",), message, 'Make run async, or use the engine "quickjs".')
    if reading.guards is not None:
        for index, message in unreachable_guards(reading.guards, reading.fields.get("input"), whitelist):
            reading.report("unreachable-guard", ("guards", index), message, "Remove or correct it.", "warning")
