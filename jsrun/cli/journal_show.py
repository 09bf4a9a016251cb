"""How the command line shows one run: as lines on the terminal, or as a page in a file."""

import hashlib
import shutil
import sys
from importlib.metadata import version
from pathlib import Path

from jsrun.bundle import Bundle
from jsrun.called_lines import called_lines
from jsrun.cli.finding import load_bundle
from jsrun.cli.output import Refusal
from jsrun.explain_html import explain_html
from jsrun.files import write_whole
from jsrun.journal import RunRecord, RunRow
from jsrun.manifest_reader import name_problem
from jsrun.timeline import timeline
from jsrun.timeline_text import timeline_lines


def print_timeline(record: RunRecord) -> None:
    """Print a run. What a pipe gets is not cut to the width of a terminal."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    encoding = sys.stdout.encoding or "ascii"
    for line in timeline_lines(timeline(record), width, ascii_only=not _encodes("█░·", encoding)):
        print(line.encode(encoding, "replace").decode(encoding))


def fuel_json(record: RunRecord) -> dict[str, dict[str, float | None]]:
    """What a run used of its fuel: seconds, bytes and counts; null for what was not measured or has no limit."""
    return {gauge.name: {"used": gauge.used, "limit": gauge.limit} for gauge in timeline(record).gauges}


def write_page(record: RunRecord, path: Path, bundle: str | None, *, force: bool) -> bool:
    """Write the page of a run; is the program on it? Refusal if the bundle cannot be used, or the file not written."""
    if path.exists() and not force:  # said before the work; the writing itself checks again
        raise _there(path)
    found, notice = _program(record.run, bundle)
    line = timeline(record)
    lines = None if found is None else called_lines(found, line.calls, line.sentence)
    page = explain_html(line, lines, notice=notice, made_by=f"Made by subharness {version('subharness')}.")
    try:
        write_whole(path, page.encode("utf-8", "replace"), replace=force)
    except FileExistsError:
        raise _there(path) from None
    except OSError as error:
        raise Refusal(f'"{path}" cannot be written: {error.strerror}.') from None
    return found is not None


def _program(run: RunRow, wanted: str | None) -> tuple[Bundle | None, str]:
    """The bundle that ran, and what to say of it. One that was not asked for must hold the very program that ran."""
    if wanted is not None:
        bundle, _place = load_bundle(wanted)
        if _same_program(bundle, run):
            return bundle, ""
        return bundle, "This is not the program that ran: it was changed since, or is another one. Lines may not fit."
    found: Bundle | None = None
    try:
        # The name is from a journal: only a proper one is looked for, so that it cannot be the path of something else.
        if name_problem(run.name) is None:
            found, _place = load_bundle(run.name)
    except Refusal:
        pass
    if found is not None and _same_program(found, run):
        return found, ""
    return None, "The program that ran was not found. To show it here, name its bundle with --bundle."


def _same_program(bundle: Bundle, run: RunRow) -> bool:
    return hashlib.sha256(bundle.program.encode("utf-8", "surrogatepass")).hexdigest() == run.program_hash


def _there(path: Path) -> Refusal:
    return Refusal(f'"{path}" is there already. Choose another file, or replace it with --force.', code="exists")


def _encodes(text: str, encoding: str) -> bool:
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True
