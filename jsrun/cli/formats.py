"""Diagnostics in the formats of others: annotations of GitHub, and SARIF for code scanning services."""

from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import quote

from jsrun.diagnostics import Diagnostic

FORMATS: Final = ("text", "github", "sarif")

_SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"


def github(diagnostic: Diagnostic) -> str:
    """One line that GitHub shows beside the line of code."""
    fields = {"file": diagnostic.file, "line": diagnostic.line, "col": diagnostic.column}
    named = {**fields, "title": f"jsrun {diagnostic.code}"}
    values = ",".join(f"{key}={_github_field(str(value))}" for key, value in named.items() if value is not None)
    return f"::{diagnostic.severity} {values}::{_github_text(_message(diagnostic))}"


def sarif(diagnostics: Iterable[Diagnostic]) -> dict[str, object]:
    """A SARIF 2.1.0 log with one run."""
    found = list(diagnostics)
    codes = sorted({diagnostic.code for diagnostic in found})
    driver = {
        "name": "jsrun",
        "version": version("subharness"),
        "rules": [{"id": code, "name": code.title().replace("-", "")} for code in codes],
    }
    results = [_sarif_result(diagnostic, codes.index(diagnostic.code)) for diagnostic in found]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _sarif_result(diagnostic: Diagnostic, rule: int) -> dict[str, object]:
    location: dict[str, object] = {"artifactLocation": {"uri": _uri(diagnostic.file)}}
    if diagnostic.line is not None:
        region = {"startLine": diagnostic.line}
        if diagnostic.column is not None:
            region["startColumn"] = diagnostic.column
        location["region"] = region
    return {
        "ruleId": diagnostic.code,
        "ruleIndex": rule,
        "level": diagnostic.severity,
        "message": {"text": _message(diagnostic)},
        "locations": [{"physicalLocation": location}],
    }


def _message(diagnostic: Diagnostic) -> str:
    text = f"{diagnostic.message} {diagnostic.hint}".rstrip()
    # What a program wrote may hold half a character, which no file of text can.
    return text.encode("utf-8", "replace").decode("utf-8")


def _uri(file: str) -> str:
    path = Path(file)
    return path.as_uri() if path.is_absolute() else quote(PurePosixPath(path.as_posix()).as_posix(), errors="replace")


def _github_text(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _github_field(text: str) -> str:
    return _github_text(text).replace(":", "%3A").replace(",", "%2C")
