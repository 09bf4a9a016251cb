"""The output of a run: what counts as one, how it is checked, how errors are told."""

import asyncio
import time
from typing import Any

import pytest

from jsrun import InputError, MemoryJournal
from ptc.wire import Json
from tests.jsrun.playing import Play, playing_env

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.mark.parametrize(
    "program",
    [
        "function run() { log('last words'); return undefined }",
        "function run() { log('last words'); return null }",
        "function run() { log('last words') }",
        "async function run() { await log('last words') }",
        "log('last words'); undefined",
    ],
)
async def test_nothing_is_no_output(play: Play, program: str) -> None:
    """JSR-108 and the last log is the report."""
    result = await play(program)
    assert (result.status, result.reason, result.report) == ("incomplete", "no_output", "last words")


SCHEMA: dict[str, Json] = {
    "type": "object",
    "x-order": ["second", "first"],
    "properties": {"first": {"type": "string"}, "second": {"type": "object", "properties": {"n": {"type": "number"}}}},
    "required": ["first", "second", "unlisted"],
}


async def test_missing_fields_are_named_in_order(play: Play) -> None:
    """JSR-109 with "and", also when not in `properties`; the output is cleared."""
    result = await play("function run() { return {other: 1} }", output=SCHEMA)
    assert (result.status, result.reason, result.output) == ("incomplete", "invalid_output", None)
    assert "`second`, `first` and `unlisted`" in result.sentence
    both = await play("function run() { return {unlisted: 1, second: {n: 'x'}} }", output=SCHEMA)
    assert "`first`" in both.sentence
    assert "output.second.n" in both.sentence


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("{first: 1, second: {}, unlisted: 1}", "output.first"),
        ("{first: '', second: {n: []}, unlisted: 1}", "output.second.n"),
        ("'text'", "output"),
        ("[1]", "output"),
        ("0", "output"),
    ],
)
async def test_mismatches_are_told_by_path(play: Play, value: str, says: str) -> None:
    """JSR-110"""
    result = await play(f"function run() {{ return {value} }}", output=SCHEMA)
    assert (result.status, result.reason, result.output) == ("incomplete", "invalid_output", None)
    assert says in result.sentence


async def test_an_additional_property_is_a_mismatch(play: Play) -> None:
    """JSR-110"""
    closed: Json = {"properties": {"a": {}}, "additionalProperties": False}
    result = await play("function run() { return {a: 1, b: 2} }", output=closed)
    assert result.reason == "invalid_output"
    assert "b" in result.sentence
    assert (await play("function run() { return {a: 1, b: undefined} }", output=closed)).output == {"a": 1}


@pytest.mark.parametrize(("value", "output"), [("0", 0), ("''", ""), ("false", False), ("[]", []), ("-1.5", -1.5)])
async def test_without_a_schema_any_value_but_null_finishes(play: Play, value: str, output: Json) -> None:
    """JSR-110"""
    result = await play(f"function run() {{ return {value} }}")
    assert (result.status, result.output) == ("finished", output)
    assert result.finished()


async def test_defaults_are_in_the_programs_input(play: Play) -> None:
    """JSR-111 nested ones too; the host's object and the journal keep the input as given."""
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "default": 5},
            "b": {"type": "object", "properties": {"c": {"default": [1]}}},
            "d": {"type": "object", "default": {"e": 1}},
        },
    }
    journal = MemoryJournal()
    given: dict[str, Json] = {"b": {}}
    guards = [{"kind": "field", "field": "a", "pattern": "5"}]
    program = "function run(argument) { return [argument, input] }"
    result = await play(program, given, input=schema, guards=guards, run={"journal": journal})
    filled = {"b": {"c": [1]}, "a": 5, "d": {"e": 1}}
    assert result.output == [filled, filled]
    assert given == {"b": {}}
    assert (await journal.read(result.run_id)).run.input == '{"b":{}}'


async def test_an_input_that_is_too_large_with_its_defaults_is_refused(play: Play) -> None:
    """JSR-078 what does not fit one frame is an InputError, and nothing has happened."""
    schema = {"type": "object", "properties": {"more": {"default": "x" * 200_000}}}
    given = {"text": "\u00e9" * ((16 * 1024 * 1024 - 20_000) // 6)}
    journal = MemoryJournal()
    with pytest.raises(InputError, match=r"input: .* do not fit a message"):
        await play("function run() { return 1 }", given, input=schema, run={"journal": journal})
    assert await journal.runs() == ()


@pytest.mark.parametrize("name", ["seed", "run_id"])
async def test_what_names_a_run_must_be_text(play: Play, name: str) -> None:
    """JSR-078 misuse raises before anything is opened."""
    journal = MemoryJournal()
    with pytest.raises(TypeError, match=f"{name} must be text, got 5"):
        await play("function run() { return 1 }", run={"journal": journal, name: 5})
    assert await journal.runs() == ()


HEAVY: list[tuple[str, dict[str, Any], str]] = [
    (
        "anyOf",
        {"$defs": {"x": {"anyOf": [{"properties": {"a": {"$ref": "#/$defs/x"}}, "required": ["a"]}] * 4}},
         "$ref": "#/$defs/x"},
        "let deep = {}; for (let i = 0; i < 100; i++) deep = {a: deep}; return deep",
    ),
    ("self", {"$defs": {"x": {"$ref": "#/$defs/x"}}, "properties": {"a": {"$ref": "#/$defs/x"}}}, "return {a: 1}"),
    (
        "unique",
        {"properties": {"a": {"uniqueItems": True}}},
        "return {a: Array.from({length: 1e5}, (_, i) => ({i})).concat({i: 5})}",
    ),
    ("pattern", {"properties": {"a": {"pattern": "^(a+)+$"}}}, "return {a: 'a'.repeat(40) + '!'}"),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "body"), [case[1:] for case in HEAVY], ids=[case[0] for case in HEAVY])
async def test_schema_checks_are_bounded(play: Play, schema: dict[str, Any], body: str) -> None:
    """JSR-112 each ends in time as a mismatch, the host responsive."""
    longest = 0.0

    async def heartbeat() -> None:
        nonlocal longest
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.02)
            longest = max(longest, time.monotonic() - before)

    beat = asyncio.create_task(heartbeat())
    began = time.monotonic()
    result = await play(f"function run() {{ {body} }}", output=schema, fuel={"output": "16MiB"})
    took = time.monotonic() - began
    beat.cancel()
    assert (result.status, result.reason) == ("incomplete", "invalid_output"), result.sentence
    assert took < 20
    assert longest < 3


@pytest.mark.parametrize(
    ("body", "ending"),
    [
        ("throw new TypeError('a\\nb')", "TypeError: a b"),
        ("throw undefined", "undefined"),
        ("throw null", "null"),
        ("throw {}", "{}"),
        ("throw 'text'", "text"),
        ("throw {code: 1}", "{code: 1}"),
        ("throw new (class Own extends Error {})('mine')", "Error: mine"),
    ],
)
async def test_an_uncaught_error_is_one_line(play: Play, body: str, ending: str) -> None:
    """JSR-113 with file, line and column where there are any; what was thrown can be told apart."""
    result = await play(f"function run() {{\n  {body}\n}}")
    assert (result.status, result.reason, result.output) == ("fell_back", "threw", None)
    assert "\n" not in result.sentence
    assert result.sentence.startswith("The quick way stopped with an error: program.js")
    assert result.sentence.endswith(f": {ending}")
    if "Error" in ending:
        assert "program.js:2:" in result.sentence


async def test_a_long_error_is_cut_and_marked(play: Play) -> None:
    """Section 22: 2,000 characters, with the rest counted."""
    result = await play("function run() { throw new Error('x'.repeat(5000)) }")
    assert len(result.sentence) < 2100
    assert result.sentence.endswith("more characters)")
    assert [cut.what for cut in result.truncated] == ["sentence"]
    (cut,) = result.truncated
    assert cut.kept == 2000
    assert cut.dropped is not None
    assert cut.dropped > 3000


async def test_another_name_of_the_source(play: Play) -> None:
    """Section 4: `source` is the name errors are reported against."""
    from jsrun import Bundle, Runner

    manifest: dict[str, Json] = {"name": "x", "purpose": "Test.", "engine": play.runtime.engine}
    bundle = Bundle(manifest, "async function run() {\n  throw new Error('x')\n}", source="my/own.js")
    async with Runner(bundle, runtime=play.runtime) as runner:
        result = await runner.run(None, playing_env())
    assert "my/own.js:2:" in result.sentence
