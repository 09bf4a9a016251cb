"""manifest.json: every rule, its code, its place and its wording."""

import json
import re
from typing import Any

import pytest

from jsrun.diagnostics import Diagnostic
from jsrun.fuel import Fuel
from jsrun.manifest import Guard, Manifest
from jsrun.manifest_reader import read_manifest
from jsrun.units import MINUTE

LEAST = {"name": "summarise", "purpose": "Sum up a text."}


def found(raw: object = None, /, **keys: Any) -> list[Diagnostic]:
    """The diagnostics of a manifest that is in order but for `keys`, or of `raw` as it is."""
    value = LEAST | keys if raw is None else raw
    text = value if isinstance(value, str) else json.dumps(value)
    return sorted(read_manifest(text).diagnostics, key=lambda one: (one.line or 0, one.column or 0))


def codes(raw: object = None, /, **keys: Any) -> list[str]:
    return [one.code for one in found(raw, **keys)]


def manifest(**keys: Any) -> Manifest:
    reading = read_manifest(json.dumps(LEAST | keys))
    assert reading.manifest is not None, reading.diagnostics
    return reading.manifest


ORIGINAL = """{
  "name": "triage",
  "purpose": "Decide what to do with a mail.",
  "deadline_floor": 900000000000,
  "deadline_step": 60000000000,
  "deadline_per_tokens": 50000,
  "input": {
    "type": "object",
    "x-order": ["mail", "urgent"],
    "properties": {
      "mail": {"type": "string", "description": "The mail."},
      "urgent": {"type": ["string", "null"], "default": null},
      "level": {"enum": [1, 2, 3]}
    },
    "required": ["mail"]
  },
  "output": {"type": "object", "properties": {"action": {"type": "string"}}},
  "whitelist": ["read", "search"],
  "guards": [
    {"kind": "file", "file": "docs/mail.md", "because": "The rules are not there."},
    {"kind": "tool", "tool": "read"},
    {"kind": "field", "field": "mail", "pattern": "@"},
    {"kind": "judgement", "question": "Is this a mail?"}
  ],
  "prior_anchors": ["mail"],
  "cues": "mail",
  "evals": ["evals/one.json"],
  "provenance": "yours"
}
"""


def test_a_manifest_in_the_form_of_the_original_is_read_without_a_word() -> None:
    """JSR-001 integer nanoseconds, texts and lists of the original's form give no diagnostic"""
    reading = read_manifest(ORIGINAL)
    assert reading.diagnostics == []
    assert reading.manifest is not None
    assert reading.manifest.deadline_floor == 15 * MINUTE
    assert reading.manifest.whitelist == ("read", "search")
    assert reading.manifest.guards[2] == Guard(kind="field", field="mail", pattern="@")
    assert reading.manifest.cues == ("mail",)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", (1, 1)),
        ("[]", (1, 1)),
        ('{"name": NaN}', (1, 10)),
        ('{"name": "a"} {}', (1, 15)),
        ("{} // no", (1, 4)),
        ("5", (1, 1)),
    ],
)
def test_only_one_strict_object_is_a_manifest(text: str, place: tuple[int, int]) -> None:
    """JSR-003 bad JSON, trailing text and anything but an object are manifest-json"""
    (one,) = [one for one in found(text) if one.code == "manifest-json"]
    assert (one.line, one.column) == place


def test_a_duplicate_key_is_refused_with_both_places() -> None:
    """JSR-003 at any level, with the place of the second and the first"""
    text = '{"name": "a", "purpose": "b",\n "input": {"properties": {"x": {},\n  "x": {}}}}'
    (one,) = found(text)
    assert (one.code, one.severity, one.line, one.column) == ("manifest-duplicate-key", "error", 3, 3)
    assert "2:27" in one.message
    assert read_manifest(text).manifest is None


def test_keys_that_other_languages_mind_are_data() -> None:
    """JSR-003 `__proto__` and `constructor` are names like others in a schema"""
    assert codes(input={"properties": {"__proto__": {}, "constructor": {"type": "string"}}}) == []


def test_an_unknown_key_is_a_warning_with_the_nearest_known_one() -> None:
    """JSR-004 the manifest is still read"""
    (one,) = found(pourpose="x")
    assert (one.code, one.severity) == ("manifest-unknown-key", "warning")
    assert '"pourpose"' in one.message and 'Did you mean "purpose"?' in one.hint
    assert manifest(pourpose="x").name == "summarise"
    (far,) = found(completely_else=1)
    assert "Did you mean" not in far.hint


NAMES = {
    "Sum": "capital",
    "sum up": "space",
    "sum\tup": "space",
    "sum.up": '"."',
    "süm": '"ü"',
    "9sum": 'begins with "9"',
    "-sum": 'begins with "-"',
    "a" * 65: "65 characters",
    "linear": "reserved",
    "": "empty",
}


def test_every_fault_of_a_name_has_its_own_message() -> None:
    """JSR-005 capital, space, other character, first character, length and the reserved name are told apart"""
    messages = []
    for name, part in NAMES.items():
        (one,) = found(name=name)
        assert one.code == "manifest-name" and part in one.message
        assert (one.line, one.column) == (1, 10)
        messages.append(re.sub('"[^"]*"', "", one.message))
    assert len(set(messages)) == len(NAMES) - 3  # two spaces, two other characters, two first characters
    assert codes(name="a" * 64) == codes(name="a") == codes(name="a9_-z") == []


def test_a_name_and_a_purpose_are_needed() -> None:
    """JSR-005 JSR-006 without them the manifest is refused, and other types are told as such"""
    assert sorted(codes({})) == ["manifest-name", "manifest-purpose"]
    assert codes(name=5) == ["manifest-type"]
    assert codes(purpose=None) == ["manifest-type"]


@pytest.mark.parametrize("purpose", ["", "  \n", "one\ntwo", "one\r\ntwo", "one\u2028two"])
def test_a_purpose_is_one_line(purpose: str) -> None:
    """JSR-006 a blank and a two-line purpose are refused"""
    assert codes(purpose=purpose) == ["manifest-purpose"]


@pytest.mark.parametrize("value", ["15", True, -1, "1m1m", None, [], 1.5, "-5m"])
def test_a_bad_duration_is_refused_where_it_stands(value: object) -> None:
    """JSR-007 at line and column of the value, in the words of every diagnostic"""
    text = json.dumps(LEAST | {"deadline_floor": value}, indent=2)
    (one,) = found(text)
    assert (one.code, one.line, one.column) == ("manifest-deadline", 4, 21)
    assert one.hint == 'Write 900000000000 or "15m".'
    if value is True:
        assert str(one) == (
            'manifest.json:4:21: error [manifest-deadline] "deadline_floor" must be a duration, got true. '
            'Write 900000000000 or "15m".'
        )


@pytest.mark.parametrize("value", ["15m", "1h30m", "2.5s", 900_000_000_000, 0])
def test_a_good_duration_is_taken(value: object) -> None:
    """JSR-007 text with units and whole nanoseconds"""
    assert codes(deadline_floor=value, deadline_step=value) == []


def test_the_deadline_grows_with_the_budget() -> None:
    """JSR-008 the larger of the floor and the steps; half a pair of step and tokens is none"""
    plain = manifest()
    assert [plain.deadline(tokens) for tokens in (0, 150_000, 1_000_000)] == [900, 900, 1200]
    assert manifest(deadline_floor="90s").deadline(0) == 90
    for half in ({"deadline_step": "1h"}, {"deadline_per_tokens": 10}, {"deadline_step": 0, "deadline_per_tokens": 10}):
        assert manifest(**half).deadline(1_000_000) == 1200
    both = manifest(deadline_floor="1s", deadline_step="10s", deadline_per_tokens=1000)
    assert both.deadline(2_999) == 20


def test_schemas_of_several_types_and_numbers_are_accepted() -> None:
    """JSR-009 a type list in a property, a numeric enum, no type at the root, null and {} for none"""
    schema = {"properties": {"a": {"type": ["string", "null"]}, "b": {"enum": [1, 2.5]}}, "$defs": {"c": {}}}
    assert codes(input=schema, output={"type": "object", "$ref": "#/$defs/x", "$defs": {"x": {}}}) == []
    assert codes(input=None, output={}) == []
    assert manifest(input={}).input is None


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array"},
        {"type": ["object", "null"]},
        {"type": "objekt"},
        {"properties": {"a": {"$ref": "https://example.com/x.json"}}},
        {"properties": {"a": {"$ref": "file:///etc/hostname"}}},
        {"properties": {"a": {"$ref": "#/$defs/none"}}},
        {"$ref": "https://json-schema.org/draft/2020-12/schema"},
        {"$schema": "http://json-schema.org/draft-07/schema#"},
        {"properties": []},
        {"properties": {"a": {"items": [{}]}}},
        {"required": "a"},
        {"$id": "http://["},
    ],
)
def test_bad_schemas_are_refused(schema: dict[str, Any]) -> None:
    """JSR-009 another root type, an invalid schema, a remote and a dangling reference"""
    assert codes(output=schema) == ["manifest-schema"]


def test_a_fault_in_a_schema_is_reported_inside_it() -> None:
    """JSR-009 the place is that of the offending part"""
    text = '{"name": "a", "purpose": "b", "input": {\n  "properties": {\n    "x": {"type": "strng"}}}}'
    (one,) = found(text)
    assert (one.line, one.column) == (3, 19)
    assert '"input.properties.x.type"' in one.message and '"strng"' in one.message


def test_a_default_that_does_not_fit_is_a_warning() -> None:
    """JSR-009 a default that breaks its own schema is told, its pattern left aside"""
    schema = {"properties": {"a": {"type": "string", "default": 5}, "b": {"pattern": "^x$", "default": "y"}}}
    (one,) = found(input=schema)
    assert (one.code, one.severity) == ("manifest-default", "warning")
    assert '"input.properties.a.default"' in one.message
    assert codes(input={"$defs": {"n": {"minimum": 3}}, "properties": {"a": {"$ref": "#/$defs/n", "default": 2}}}) == [
        "manifest-default"
    ]


def test_the_whitelist_is_trimmed_and_checked() -> None:
    """JSR-010 a blank entry is refused, a duplicate after trimming warned"""
    (blank,) = found(whitelist=["a", " "])
    assert (blank.code, blank.severity) == ("manifest-whitelist", "error")
    (double,) = found(whitelist=["a", " a "])
    assert (double.code, double.severity) == ("manifest-whitelist", "warning")
    assert manifest(whitelist=[" b ", "a", "b"]).whitelist == ("b", "a")
    assert codes(whitelist="a") == codes(whitelist=["a", 5]) == codes(whitelist=None) == ["manifest-type"]


@pytest.mark.parametrize(
    ("guard", "code", "part"),
    [
        ({"kind": "file"}, "manifest-guard", 'needs "file"'),
        ({"kind": "file", "file": " "}, "manifest-guard", 'blank "file"'),
        ({"kind": "tool", "file": "x"}, "manifest-guard", 'needs "tool"'),
        ({"kind": "field", "field": "x"}, "manifest-guard", 'needs "pattern"'),
        ({"kind": "judgement", "because": "x"}, "manifest-guard", 'needs "question"'),
        ({"kind": "fil", "file": "x"}, "manifest-guard", '"fil"'),
        ({"file": "x"}, "manifest-guard", '"kind"'),
        ({"kind": 5}, "manifest-type", "must be text"),
        ({"kind": "file", "file": 5}, "manifest-type", "must be text"),
        ({"kind": "file", "file": "x", "because": None}, "manifest-type", "must be text"),
    ],
)
def test_a_guard_is_named_by_its_number(guard: dict[str, Any], code: str, part: str) -> None:
    """JSR-011 the message says "Check N", from 1"""
    errors = [one for one in found(guards=[{"kind": "tool", "tool": "a"}, guard]) if one.severity == "error"]
    assert [one.code for one in errors] == [code]
    assert "Check 2" in errors[0].message and part in errors[0].message


def test_keys_of_another_kind_of_guard_are_unknown() -> None:
    """JSR-011 what the kind does not need is a warning"""
    assert codes(guards=[{"kind": "file", "file": "x", "tool": "y"}]) == ["manifest-unknown-key"]
    assert codes(guards=5) == codes(guards=[5]) == ["manifest-type"]


def test_two_judgements_are_refused() -> None:
    """JSR-011 one question is all there is time for"""
    ask = {"kind": "judgement", "question": "Well?"}
    (one,) = found(guards=[ask, {"kind": "file", "file": "x"}, ask])
    assert one.code == "two-judgements" and "Check 3" in one.message


def test_fuel_is_read_in_units() -> None:
    """JSR-018 durations and sizes as text or numbers"""
    stated = manifest(
        fuel={"steps": 5, "tokens": 1e3, "wall": "2m", "compute": "1.5s", "memory": "64MiB", "output": 1000}
    )
    assert stated.fuel == Fuel(steps=5, tokens=1000, wall=120, compute=1.5, memory=67_108_864, output=1000)
    assert manifest().fuel == Fuel()


@pytest.mark.parametrize(
    ("key", "amount"),
    [("steps", 0), ("steps", 1.5), ("tokens", "5"), ("wall", "x"), ("compute", -1), ("memory", "5"), ("output", None)],
)
def test_bad_fuel_is_refused(key: str, amount: object) -> None:
    """JSR-018 zero, negative amounts and other types are manifest-fuel"""
    assert codes(fuel={key: amount}) == ["manifest-fuel"]


def test_fuel_above_the_ceiling_is_a_warning() -> None:
    """JSR-018 it is clamped, and said so"""
    assert codes(fuel={"steps": 10_000, "memory": "2GiB", "wall": "24h"}) == []
    assert codes(fuel={"steps": 10_001, "memory": "3GiB", "wall": "25h"}) == ["fuel-clamped"] * 3
    assert codes(fuel=[]) == ["manifest-type"]
    assert codes(fuel={"stepz": 1}) == ["manifest-unknown-key"]


def test_the_engine_is_one_of_two() -> None:
    """JSR-027 an unknown engine is refused with the nearest name"""
    (one,) = found(engine="quickj")
    assert one.code == "manifest-engine" and one.hint == 'Did you mean "quickjs"?'
    assert codes(engine=True) == ["manifest-type"]
    assert manifest(engine="v8").engine == "v8"


def test_the_keys_for_registries_are_text_or_lists_of_text() -> None:
    """JSR-001 they are accepted and never used"""
    for key in ("prior_anchors", "cues", "evals", "provenance"):
        assert codes(**{key: "x"}) == codes(**{key: ["x", "y"]}) == []
        assert codes(**{key: 5}) == codes(**{key: ["x", 5]}) == ["manifest-type"]


def test_writing_a_manifest_is_a_fixed_point() -> None:
    """JSR-017 two-space indent, a final newline, keys in their order, half pairs as escapes"""
    text = read_manifest('{"purpose":"a \\ud800 é", "name":"b", "extra": [1.0, 1e3]}').manifest
    assert text is not None
    written = text.to_text()
    assert written == '{\n  "purpose": "a \\ud800 é",\n  "name": "b",\n  "extra": [\n    1.0,\n    1000.0\n  ]\n}\n'
    again = read_manifest(written).manifest
    assert again is not None and again.to_text() == written


def test_a_manifest_made_in_python_is_written_like_one_that_was_read() -> None:
    """JSR-017 fields that are set are written in the manifest's own units"""
    made = Manifest(name="a", purpose="b", deadline_floor=5, whitelist=("t",), fuel=Fuel(wall=2, steps=3),
                    guards=(Guard(kind="tool", tool="t"),))  # fmt: skip
    reading = read_manifest(made.to_text())
    assert reading.diagnostics == []
    assert reading.manifest is not None and reading.manifest.model_dump() == made.model_dump()


def test_diagnostics_are_written_for_people() -> None:
    """JSR-015 no Python type name, no traceback, one sentence and one hint"""
    bad = {
        "name": 5,
        "purpose": True,
        "input": [],
        "whitelist": {},
        "guards": "x",
        "fuel": {"steps": None},
        "engine": 1.5,
        "cues": None,
        "deadline_floor": [1],
        "deadline_per_tokens": "x",
    }
    for one in found(bad):
        text = str(one)
        assert not re.search(r"\b(NoneType|dict|list\[|str|int|float|bool|tuple|Traceback|None|True|False)\b", text)
        assert one.message.endswith(".") and one.hint.endswith((".", "?"))
        assert "\n" not in text
