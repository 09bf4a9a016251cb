"""From a setup to the entries of a run: references are resolved and every static rule is checked, all at once."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from jsrun._text import quoted
from jsrun.plugs._level import PlugEntry
from jsrun.plugs._references import NotFound, resolve
from jsrun.plugs.api import PLUG_API_VERSION, Plug, PlugApi, is_stamp
from jsrun.plugs.config import Entry, Finding, Policy, Setup, problem
from jsrun.plugs.errors import (
    ExpressionError,
    MissingExtra,
    NotAPlug,
    NotResumable,
    PlugNotFound,
    PlugVersionError,
    SchemaError,
    SetupError,
)
from jsrun.plugs.schema import check_inputs, inputs_of, persisted_of

_NOT_RESUMABLE = "cannot be resumed, and the policy may pause the session."
ID = re.compile(r"[a-z][a-z0-9_-]{0,63}")


@dataclass(frozen=True, slots=True)
class Loaded:
    """A setup that may be run: an entry for each plug, and what is worth a warning, with its place."""

    entries: tuple[PlugEntry, ...]
    warnings: tuple[str, ...]


def load(setup: Setup, policy: Policy | None = None) -> Loaded:
    """The plugs of a setup; `policy` is what they must suit, by default the setup's own. Nothing is created.

    SetupError with every mistake in the setup, of its own kind (PlugNotFound, NotAPlug, PlugVersionError,
    ExpressionError) if all are of one. NotResumable if that is all that is wrong.
    """
    policy = policy if policy is not None else setup.policy
    findings = list(setup.findings)
    warnings: list[str] = []
    known: dict[str, Entry] = {}
    entries: list[PlugEntry] = []
    stuck: list[Finding] = []
    stiff: list[str] = []
    for entry in setup.entries:
        findings += _names_nothing_later(entry, known)
        plug = _plug(entry, setup, findings, warnings)
        findings += _id(entry, known)
        if plug is None:
            continue
        findings += _schemas(entry, plug)
        if policy.may_pause and not plug.resumable:
            stuck.append(entry.finding(f"{plug.name} {_NOT_RESUMABLE}", SetupError, "plug"))
            stiff.append(plug.name)
        entries.append(PlugEntry(plug, entry.id, entry.inputs.evaluate))
    error = problem(findings + stuck) if findings else None
    if error is not None:
        raise error
    if stiff:
        raise NotResumable(stiff, "The session cannot be started, since its policy may pause it")
    return Loaded(tuple(entries), tuple(warnings))


def _plug(entry: Entry, setup: Setup, findings: list[Finding], warnings: list[str]) -> type[Plug] | None:
    try:
        found = resolve(entry.plug, setup.folder)
    except NotFound as error:
        findings.append(entry.finding(str(error), PlugNotFound, "plug"))
        return None
    stamp = getattr(found, "plug_api", None)
    version = PlugApi(*stamp) if isinstance(found, type) and is_stamp(stamp) else None
    ours = PLUG_API_VERSION
    # Of another major version, not even what it derives from need be the same.
    if version is None or (version.major == ours.major and not issubclass(found, Plug)):
        message = f"{entry.plug} is not a plug; a plug is a class derived from jsrun.plugs.Plug."
        findings.append(entry.finding(message, NotAPlug, "plug"))
        return None
    if version.major != ours.major:
        message = f"{entry.plug} is made for version {_dotted(version)} of the Plug API; this is {_dotted(ours)}."
        findings.append(entry.finding(message, PlugVersionError, "plug"))
        return None
    if version.minor > ours.minor:
        place = entry.place("plug")[0]
        warnings.append(
            f"{place}: {entry.plug} is made for version {_dotted(version)} of the Plug API, newer than this one,"
            f" {_dotted(ours)}; it may want what is not here."
        )
    plug: type[Plug] = found
    return plug


def _id(entry: Entry, known: dict[str, Entry]) -> list[Finding]:
    """What is wrong with the id of an entry; makes it known to later ones."""
    if entry.id is None:
        return []
    if ID.fullmatch(entry.id) is None:
        message = f"{quoted(entry.id)} is no id: a small letter, then up to 63 small letters, digits, - or _."
        return [entry.finding(message, SetupError, "id")]
    if entry.id in known:
        message = f"The id {quoted(entry.id)} is taken by an earlier entry, at {known[entry.id].place('id')[0]}."
        return [entry.finding(message, SetupError, "id")]
    known[entry.id] = entry
    return []


def _names_nothing_later(entry: Entry, known: Mapping[str, Entry]) -> list[Finding]:
    findings = []
    for leaf in entry.inputs.leaves:
        for path in leaf.names():
            if path[0] == "setup" and path[1] not in known:
                message = f"{'.'.join(path)}: no earlier entry has the id {quoted(path[1])}."
                findings.append(entry.finding(message, ExpressionError, "with", *leaf.path))
    return findings


def _schemas(entry: Entry, plug: type[Plug]) -> list[Finding]:
    """What is wrong with what the plug declares and, unless expressions leave it open, with its inputs."""
    findings = []
    if plug.Persisted is not None and entry.id is None:
        message = f"{plug.name} keeps state, so its entry must have an `id`."
        findings.append(entry.finding(message, SetupError, "plug"))
    try:
        persisted_of(plug)
        # With expressions the value is known only when the chain reaches the plug; without `Inputs` it never fits.
        if not entry.inputs.leaves or inputs_of(plug) is None:
            check_inputs(plug, entry.inputs.value)
    except SchemaError as error:
        findings += [entry.finding(f"{plug.name}: {issue}", SetupError, "with", *issue.path) for issue in error.issues]
    except TypeError as error:
        findings.append(entry.finding(str(error), NotAPlug, "plug"))
    except MissingExtra as error:
        findings.append(entry.finding(f"{plug.name}: a library is missing: {error}", SetupError, "plug"))
    return findings


def _dotted(version: PlugApi) -> str:
    return f"{version.major}.{version.minor}"
