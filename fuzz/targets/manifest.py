"""manifest: arbitrary text as manifest.json."""

import json
from typing import Any

from fuzz.strategies import json_texts, manifests
from fuzz.targets import Target
from jsrun.manifest_reader import read_manifest


def check(text: Any, _place: None) -> None:
    """A manifest, or findings with places in the text; what is taken is taken again as it writes itself."""
    reading = read_manifest(text)
    lines = text.count("\n") + 1
    for one in reading.diagnostics:
        assert one.code and one.message, one
        assert one.line is None or 1 <= one.line <= lines, one
    if reading.manifest is None:
        assert any(one.severity == "error" for one in reading.diagnostics), "refused without an error"
        return
    again = read_manifest(reading.manifest.to_text())
    assert again.manifest is not None, again.diagnostics
    assert again.manifest.to_json() == reading.manifest.to_json()


TARGET = Target(
    about="arbitrary text as a manifest: findings with places, never an exception",
    inputs=manifests().map(lambda value: json.dumps(value, indent=2)) | json_texts(),
    check=check,
    guided=True,
)
