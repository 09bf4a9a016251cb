"""Typings: what they say, that they are stable, and what the TypeScript compiler makes of programs with them."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jsrun.belt import Belt, ToolSpec
from jsrun.bundle import Bundle
from jsrun.cli import call
from jsrun.errors import BundleError
from jsrun.typings import typings
from tests.ptc.tools.toolbox import is_typescript
from tests.tsc import check_types

BUNDLES = Path(__file__).parents[2] / "bundles"
ASYNC = "async function run() { return {} }"


@pytest.fixture(scope="module")
def belt() -> tuple[ToolSpec, ...]:
    return Belt.workspace(".").specs()


def bundle(program: str = ASYNC, prompts: tuple[str, ...] = (), **manifest: Any) -> Bundle:
    files = {"manifest.json": json.dumps({"name": "a", "purpose": "b"} | manifest), "program.js": program}
    return Bundle.from_files(files | {f"prompts/{name}.md": "x" for name in prompts})


# --- what they say ----------------------------------------------------------------------------------------------------


def test_prompts_input_output_and_doors_are_there() -> None:
    """JSR-128 all of them, with promises in async programs only"""
    shape = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    for program, gives in ((ASYNC, "Promise<any>"), (ASYNC.removeprefix("async "), "any")):
        text = typings(bundle(program, ("one", "two.three"), input=shape, output=shape, whitelist=["t"]))
        assert 'type PromptName = "one" | "two.three";' in text
        assert "type Input = { text: string };" in text and "type Output = { text: string };" in text
        assert f"): {gives};\n" in text
        assert ("Promise<Note[]>" in text) == (gives != "any")
        assert "t(args?: { [key: string]: unknown } | null): any;" in text
        assert is_typescript(text)


def test_without_shapes_prompts_and_tools_they_are_open() -> None:
    """JSR-128 an absent schema says nothing, an absent prompt forbids everything"""
    text = typings(bundle())
    assert "type Input = any;" in text and "type Output = {};" in text
    assert "type PromptName = never;" in text and "interface Tools {\n}" in text
    assert is_typescript(text)


def test_what_has_a_default_is_always_there() -> None:
    """JSR-111 the program gets its input with defaults, through objects that are there"""
    inner = {"properties": {"c": {"default": 1, "type": "integer"}, "d": {"type": "string"}}}
    properties = {"a": {"type": "string", "default": "x"}, "b": {"type": "object", **inner}}
    text = typings(bundle(input={"properties": properties}))
    assert "type Input = { a: string; b?: { c: number; d?: string } };" in text
    referred = {"properties": {"a": {"properties": {"x": {"default": 1}}}, "b": {"$ref": "#/properties/a"}}}
    assert "x?: unknown" in typings(bundle(input=referred))


def test_fields_are_in_the_order_of_the_schema() -> None:
    """JSR-128 `x-order` first, then as they are written"""
    properties = {"b": {"type": "null"}, "a": {"type": "null"}, "c": {"type": "null"}}
    assert "{ b?: null; a?: null; c?: null }" in typings(bundle(input={"properties": properties}))
    ordered = typings(bundle(input={"properties": properties, "x-order": ["c", "z"], "required": ["q"]}))
    assert "{ c?: null; b?: null; a?: null; q: unknown }" in ordered


def test_descriptions_cannot_leave_their_comments() -> None:
    """JSR-128 comment ends, line ends and lone surrogates"""
    evil = "x */ declare var y; /* \n\u2028 \ud800 */"
    schema = {"properties": {"*/": {"description": evil}}, "description": evil}
    spec = ToolSpec("t*/", evil, {"type": "object", "properties": {"a": {"description": evil}}})
    text = typings(bundle(purpose="b */ declare var z;", input=schema, whitelist=["t*/"]), [spec])
    assert is_typescript(text)
    outside = re.sub(r"/\*.*?\*/|//[^\n]*", "", text, flags=re.DOTALL)
    assert "var y" not in outside and "var z" not in outside


def test_tools_of_the_belt_are_described(belt: tuple[ToolSpec, ...]) -> None:
    """JSR-128 those of the whitelist only, by name, with blanks around it taken off"""
    text = typings(bundle(whitelist=[" read ", "other-tool", "list"]), belt)
    tools = text[text.index("interface Tools") :]
    assert tools.index("  list(args?: {") < tools.index('  "other-tool"(') < tools.index("  read(args: {")
    assert "search" not in text and "total_lines: number;" in text
    assert is_typescript(text)


def test_they_are_byte_stable(belt: tuple[ToolSpec, ...]) -> None:
    """JSR-128 equal for equal content, whatever order prompts and tools come in"""
    one = typings(bundle(prompts=("a", "b"), whitelist=["read", "list"]), belt)
    assert one == typings(bundle(prompts=("b", "a"), whitelist=["list", "read"]), reversed(belt))
    assert one.endswith(";\n")


def test_what_cannot_be_expressed_is_unknown() -> None:
    """JSR-128 conditions, circles and references to nowhere in a tool's schema"""
    circle = {"properties": {"a": {"$ref": "#"}, "b": {"not": {"type": "null"}}, "c": {"if": {}, "then": False}}}
    assert "{ a?: unknown; b?: unknown; c?: unknown }" in typings(bundle(input=circle))
    spec = ToolSpec("t", "", {"$ref": "https://nowhere.test"})
    assert "t(args?: { [key: string]: unknown } | null): any;" in typings(bundle(whitelist=["t"]), [spec])


_texts = st.text(st.characters(codec=None), max_size=8)
_leaves = st.one_of(
    st.booleans(),
    st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["string", "integer", "object", "array", "null", ["string", "null"]]),
            "const": st.one_of(st.none(), _texts, st.floats(allow_nan=False, allow_infinity=False), st.integers()),
            "enum": st.lists(_texts, min_size=1, max_size=3, unique=True),
            "description": _texts,
            "default": _texts,
            "$ref": st.sampled_from(["#", "#/$defs/a", "#/properties/a"]),
        },
    ),
)
_schemas: st.SearchStrategy[Any] = st.recursive(
    _leaves,
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(st.one_of(st.sampled_from("ab"), _texts), inner, max_size=3),
            "required": st.lists(_texts, max_size=3, unique=True),
            "x-order": st.lists(_texts, max_size=2),
            "items": inner,
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "additionalProperties": inner,
            "anyOf": st.lists(inner, min_size=1, max_size=3),
            "allOf": st.lists(inner, min_size=1, max_size=2),
            "$defs": st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
            "description": _texts,
            "default": st.dictionaries(_texts, _texts, max_size=1),
        },
    ),
    max_leaves=12,
)


@given(st.one_of(_schemas.filter(lambda schema: isinstance(schema, dict))), _texts)
@settings(max_examples=150, deadline=None)
def test_every_bundle_that_loads_has_typings(schema: dict[str, Any], name: str) -> None:
    """JSR-128 and they are TypeScript, twice the same"""
    if isinstance(schema.get("type"), list) or schema.get("type") not in (None, "object"):
        schema = schema | {"type": "object"}
    try:
        loaded = bundle(input=schema, output=schema, whitelist=[name])
    except BundleError:
        return
    text = typings(loaded, [ToolSpec(name.strip(), name, schema, output_schema=schema)])
    assert text == typings(loaded, [ToolSpec(name.strip(), name, schema, output_schema=schema)])
    assert is_typescript(text)


# --- what the compiler makes of them ----------------------------------------------------------------------------------

MANIFEST = {
    "name": "typed",
    "purpose": "Be checked.",
    "input": {
        "type": "object",
        "properties": {"path": {"type": "string", "default": "."}, "words": {"type": "integer"}},
        "additionalProperties": False,
    },
    "output": {
        "type": "object",
        "properties": {"title": {"type": "string"}, "files": {"type": "array", "items": {"type": "string"}}},
        "required": ["title"],
    },
    "whitelist": ["list", "read", "weather"],
}

CORRECT = """\
const SHAPE = { type: "object", properties: { title: { type: "string" } } };

/** @type {Run} */
async function run({ path, words }) {
  const { entries } = await tool("list", { path });
  const files = entries.filter((entry) => entry.kind === "file").map((entry) => entry.path);
  const texts = await Promise.all(files.map(async (file) => (await tool("read", { path: file, lines: 5 })).text));
  await tool("list");
  const either = await tool(path === "." ? "list" : "read", { path });
  const weather = await tool("weather", { city: "Ghent", days: 3 });
  const unsure = (words ?? 100) > 5 && weather.sunny;
  const { title } = await ai(unsure ? "summarise" : "prompts/merge.md", texts, { schema: SHAPE, effort: "low" });
  try {
    await remember(await ask("Well?", { options: ["yes", "no"], default: "no" }));
  } catch (error) {
    if (!(error instanceof DoorError)) throw error;
    console.warn(error.door, error.ref, error.message.length, performance.now(), either.truncated);
  }
  (await recall("x")).forEach((note) => log(`${note.at} ${note.text}`));
  await log(input.path);
  return { title: String(title), files };
}
"""

FRAME = """\
/** @type {Run} */
async function run({ path }) {
  await log(path);
  WRONG
  return { title: "a" };
}
"""
# What is wrong on line 4, and a part of what the compiler says.
WRONG = {
    "prompt": ('await ai("sumarise", {});', "PromptRef"),
    "argument": ('await tool("read", { pth: "a" });', "path"),
    "await": ('const { entries } = tool("list", { path: "." });\nawait log(`${entries}`);', "entries"),
    "output": ('return { titel: "a" };', "title"),
    "option": ('await ai("merge", {}, { efort: "low" });', "effort"),
    "error": ("try { await log(); } catch (e) { if (e instanceof DoorError) throw new Error(e.tool); }", "tool"),
}


def folder_with(path: Path, programs: dict[str, str], manifest: dict[str, Any]) -> Path:
    """A bundle whose types are made by the command, with more programs beside it."""
    (path / "prompts").mkdir()
    for name in ("summarise", "merge"):
        (path / "prompts" / f"{name}.md").write_text("Do it.")
    (path / "manifest.json").write_text(json.dumps(manifest))
    for name, program in programs.items():
        (path / f"{name}.js").write_text(program)
    assert call(["types", str(path), "-o", str(path / "program.d.ts")]) == 0
    return path


def test_a_correct_program_passes_and_six_wrong_ones_fail_where_they_are_wrong(tmp_path: Path) -> None:
    """JSR-128 an unknown prompt, tool argument, door option and output, a missing await, a misused DoorError"""
    wrong = {name: FRAME.replace("WRONG", text) for name, (text, _) in WRONG.items()}
    folder = folder_with(tmp_path, {"program": CORRECT, **wrong}, MANIFEST)
    files = ["program.d.ts", *(f"{name}.js" for name in ("program", *wrong))]
    found = check_types(folder, files, "--target", "esnext", "--moduleDetection", "force")
    assert [(file, line) for file, line, _, _ in found] == sorted((f"{name}.js", 4) for name in WRONG)
    for file, _, _, text in found:
        assert WRONG[file.removesuffix(".js")][1] in text
    # Also without any option but those everybody knows.
    assert check_types(folder, ["program.js", "program.d.ts"]) == []


def test_a_sync_program_passes(tmp_path: Path) -> None:
    """JSR-128 its doors give values, so awaiting nothing is right, and `then` is wrong"""
    program = CORRECT.replace("async ", "").replace("await ", "").replace("Promise.all(files", "(files")
    wrong = '/** @type {Run} */\nfunction run() {\n  tool("list").then(log);\n  return { title: "a" };\n}\n'
    folder = folder_with(tmp_path, {"program": program, "wrong": wrong}, MANIFEST)
    found = check_types(folder, ["program.js", "wrong.js", "program.d.ts"], "--moduleDetection", "force")
    assert [(file, line) for file, line, _, _ in found] == [("wrong.js", 3)]


def test_types_of_every_kind_of_schema_compile(tmp_path: Path) -> None:
    """JSR-128 the declarations themselves hold no error for the compiler"""
    for name in ("digest", "todos", "triage"):
        assert call(["types", str(BUNDLES / name), "-o", str(tmp_path / f"{name}.d.ts")]) == 0
        assert check_types(tmp_path, [f"{name}.d.ts"]) == []


@pytest.mark.parametrize("options", [[], ["--async"]])
def test_the_types_of_the_scaffold_fit_its_program(options: list[str], tmp_path: Path, monkeypatch: Any) -> None:
    """JSR-128 what `new` makes type-checks"""
    monkeypatch.chdir(tmp_path)
    assert call(["new", "hello", *options]) == 0
    assert call(["types", "hello", "-o", "hello/program.d.ts"]) == 0
    assert call(["check", "--strict", "hello"]) == 0
    assert check_types(tmp_path / "hello", ["program.js", "program.d.ts"]) == []


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command_prints_or_writes_the_same_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """JSR-128 JSR-127 on stdout, into a file, and as one JSON document"""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "typed_tools.py").write_text("def weather(city: str) -> dict[str, bool]:\n    return {}\n")
    path = str(BUNDLES / "digest")
    assert call(["types", path]) == 0
    printed = capsys.readouterr().out
    assert is_typescript(printed)
    assert call(["types", path, "-o", "made.d.ts"]) == 0
    assert capsys.readouterr().out == ""
    assert Path("made.d.ts").read_bytes() == printed.encode()
    assert call(["types", path, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["text"] == printed
    assert (
        call(["types", str(folder_with(tmp_path, {"program": CORRECT}, MANIFEST)), "--tool", "typed_tools:weather"])
        == 0
    )
    assert "weather(args: { city: string }): { [key: string]: boolean };" in capsys.readouterr().out
    assert call(["types", path, "-o", "nowhere/made.d.ts"]) == 1
    assert "cannot be written" in capsys.readouterr().err
    assert call(["types", "nothing"]) == 1
    assert "Traceback" not in capsys.readouterr().err
