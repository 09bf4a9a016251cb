"""The rules of programs, and a bundle for every code there is."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from jsrun.bundle import Bundle
from jsrun.diagnostics import Diagnostic, arrange, edit_distance, nearest
from jsrun.errors import BundleError

LEAST = {"name": "a", "purpose": "b"}
SYNC = "function run(input) {{ return {} }}"


def findings(
    program: str, prompts: Mapping[str, str] | None = None, files: Mapping[str, str] | None = None, /, **manifest: Any
) -> list[Diagnostic]:
    """All diagnostics of a bundle that is otherwise in order, by code."""
    texts = {"manifest.json": json.dumps(LEAST | manifest), "program.js": program}
    texts |= {f"prompts/{name}.md": text for name, text in (prompts or {}).items()}
    texts |= files or {}
    try:
        return list(Bundle.from_files(texts).warnings)
    except BundleError as error:
        return list(error.diagnostics)


def codes(program: str, prompts: Mapping[str, str] | None = None, /, **manifest: Any) -> list[str]:
    return sorted(one.code for one in findings(program, prompts, **manifest))


def one(program: str, prompts: Mapping[str, str] | None = None, /, **manifest: Any) -> Diagnostic:
    (only,) = findings(program, prompts, **manifest)
    return only


# --- every code alone -------------------------------------------------------------------------------------------------

OK = "function run(input) { return 1 }"
PROMPT = SYNC.format('ai("x")')
TWO = {"kind": "judgement", "question": "Well?"}

# code → severity, program, prompts, manifest keys, more files.
TRIGGERS: dict[str, tuple[str, str, dict[str, str], dict[str, Any], dict[str, str]]] = {
    "ignored-file": ("warning", OK, {}, {}, {"notes.txt": "x"}),
    "bundle-file": ("error", OK, {}, {}, {"memory.md": "\ud800"}),
    "prompt-name": ("error", SYNC.format('ai(`-x`)'), {"-x": "x"}, {}, {}),
    "prompt-case": ("warning", SYNC.format('ai("x") + ai("X")'), {"x": "x", "X": "x"}, {}, {}),
    "prompt-empty": ("warning", PROMPT, {"x": " \n"}, {}, {}),
    "manifest-json": ("error", OK, {}, {}, {"manifest.json": "{"}),
    "manifest-duplicate-key": ("error", OK, {}, {}, {"manifest.json": '{"name": "a", "purpose": "b", "name": "a"}'}),
    "manifest-unknown-key": ("warning", OK, {}, {"naem": 1}, {}),
    "manifest-type": ("error", OK, {}, {"guards": 5}, {}),
    "manifest-name": ("error", OK, {}, {"name": "A"}, {}),
    "manifest-purpose": ("error", OK, {}, {"purpose": ""}, {}),
    "manifest-deadline": ("error", OK, {}, {"deadline_step": "x"}, {}),
    "manifest-schema": ("error", OK, {}, {"input": {"type": "array"}}, {}),
    "manifest-default": ("warning", OK, {}, {"input": {"properties": {"a": {"type": "null", "default": 1}}}}, {}),
    "manifest-whitelist": ("error", OK, {}, {"whitelist": [""]}, {}),
    "manifest-guard": ("error", OK, {}, {"guards": [{"kind": "file"}]}, {}),
    "two-judgements": ("error", OK, {}, {"guards": [TWO, TWO | {"question": "Really?"}]}, {}),
    "manifest-fuel": ("error", OK, {}, {"fuel": {"steps": 0}}, {}),
    "fuel-clamped": ("warning", OK, {}, {"fuel": {"steps": 10**6}}, {}),
    "manifest-engine": ("error", OK, {}, {"engine": "node"}, {}),
    "engine-form": ("error", OK, {}, {"engine": "v8"}, {}),
    "syntax": ("error", "function run( {", {}, {}, {}),
    "program-empty": ("error", "// nothing\n/* here */ ", {}, {}, {}),
    "missing-prompt": ("error", SYNC.format('ai("y")'), {}, {}, {}),
    "inline-prompt": ("error", SYNC.format('ai("Sum up this text.")'), {}, {}, {}),
    "dynamic-prompt": ("warning", SYNC.format("ai(input)"), {"x": "x"}, {}, {}),
    "dynamic-tool": ("warning", SYNC.format("tool(input)"), {}, {"whitelist": ["t"]}, {}),
    "tool-not-whitelisted": ("error", SYNC.format('tool("t")'), {}, {}, {}),
    "unused-prompt": ("warning", OK, {"x": "x"}, {}, {}),
    "unused-whitelist": ("warning", OK, {}, {"whitelist": ["t"]}, {}),
    "floating-door": ("warning", 'async function run() { tool("t") }', {}, {"whitelist": ["t"]}, {}),
    "door-then": ("error", SYNC.format('tool("t").then(x => x)'), {}, {"whitelist": ["t"]}, {}),
    "door-overwritten": ("error", "const ai = 1\n" + OK, {}, {}, {}),
    "door-shadowed": ("warning", "function run(log) { return log }", {}, {}, {}),
    "unavailable-global": ("error", SYNC.format("fetch"), {}, {}, {}),
    "undeclared": ("warning", SYNC.format("inpt"), {}, {}, {}),
    "no-value": ("error", "const a = 1", {}, {}, {}),
    "entry-kind": ("error", "function* run() {}", {}, {}, {}),
    "entry-opaque": ("warning", "const run = [x => x][0]", {}, {}, {}),
    "module-syntax": ("error", 'import x from "y"\n' + OK, {}, {}, {}),
    "dynamic-code": ("warning", SYNC.format('eval("1")'), {}, {}, {}),
    "unsafe-integer": ("warning", SYNC.format("9007199254740993"), {}, {}, {}),
    "unknown-option": ("warning", SYNC.format('ai("x", null, {efort: "low"})'), {"x": "x"}, {}, {}),
    "unreachable-guard": ("warning", OK, {}, {"guards": [{"kind": "tool", "tool": "t"}]}, {}),
}  # fmt: skip

# What only the engine can find, and what only eval files can hold, is tested where they are.
ELSEWHERE = {"compile-failed", "eval-invalid"}


@pytest.mark.parametrize("code", TRIGGERS)
def test_every_code_can_be_triggered_alone(code: str) -> None:
    """JSR-035 every code of files, manifest and program has a bundle that triggers nothing else"""
    severity, program, prompts, manifest, files = TRIGGERS[code]
    found = findings(program, prompts, files, **manifest)
    assert [(diagnostic.code, diagnostic.severity) for diagnostic in found] == [(code, severity)]
    text = str(found[0])
    assert text.count("\n") == 0 and "Traceback" not in text
    assert found[0].message.endswith(".") and found[0].hint.endswith((".", "?"))


# --- prompts and tools ------------------------------------------------------------------------------------------------


SPELLINGS = ["summarise", "summarise.md", "prompts/summarise.md", "./prompts/summarise.md", " summarise "]


@pytest.mark.parametrize("ref", SPELLINGS)
def test_every_spelling_of_a_prompt_is_found(ref: str) -> None:
    """JSR-022 the four spellings name one prompt"""
    assert codes(SYNC.format(f"ai({ref!r})"), {"summarise": "x"}) == []


def test_a_misspelt_prompt_is_an_error_with_the_nearest_name() -> None:
    """JSR-022 at the place of its text"""
    found = findings(SYNC.format('ai("sumarise.md")'), {"summarise": "x", "other": "x"})[0]
    assert (found.code, found.line, found.column) == ("missing-prompt", 1, 33)
    assert '"sumarise"' in found.message and found.hint == 'Did you mean "summarise"?'
    far = findings(SYNC.format('ai("completely")'), {"b": "x", "a": "x"})[0]
    assert far.hint == "Use one of: a, b."
    assert one(SYNC.format('ai("x")')).hint == "Add prompts/NAME.md."
    assert one(SYNC.format("ai()")).code == one(SYNC.format("ai('  ')")).code == "missing-prompt"


def test_a_constant_name_is_reported_where_its_text_is() -> None:
    """JSR-022 JSR-024 once, however many calls use it"""
    found = one('const NAME = "nope"\nfunction run() { return ai(NAME) + ai(NAME) }')
    assert (found.code, found.line, found.column) == ("missing-prompt", 1, 14)


@pytest.mark.parametrize("ref", ['"Sum this up."', "`a\nb`", f'"{"x" * 121}"', '"a\\tb"'])
def test_an_inline_prompt_is_an_error(ref: str) -> None:
    """JSR-023 inner blanks or more than 120 bytes, pointing at prompts/"""
    found = one(SYNC.format(f"ai({ref})"))
    assert found.code == "inline-prompt" and "prompts/NAME.md" in found.hint


def test_a_computed_name_silences_the_unused_warnings() -> None:
    """JSR-024 it might name any prompt; so might a door that is passed around, and code made at run time"""
    assert codes(SYNC.format("ai(input)"), {"x": "x", "y": "y"}) == ["dynamic-prompt"]
    assert codes(SYNC.format("tool(input)"), whitelist=["x", "y"]) == ["dynamic-tool"]
    assert codes(SYNC.format("[1].map(tool)"), whitelist=["x"]) == []
    assert codes(SYNC.format("eval(input)"), {"x": "x"}, whitelist=["x"]) == ["dynamic-code"]
    assert codes(SYNC.format("ai(input)"), {"x": "x"}, whitelist=["t"]) == ["dynamic-prompt", "unused-whitelist"]


def test_known_names_count_as_used() -> None:
    """JSR-025 each branch of a choice does"""
    assert codes(SYNC.format('ai(input ? "x" : "prompts/y.md")'), {"x": "x", "y": "y"}) == []
    assert codes(SYNC.format('tool(input ?? " t ")'), whitelist=["t"]) == ["dynamic-tool"]
    assert codes(SYNC.format('tool(input ? "t" : " u")'), whitelist=[" t ", "u"]) == []


def test_a_tool_off_the_whitelist_is_an_error() -> None:
    """JSR-025 with the nearest entry, or the hint to add it"""
    found = findings(SYNC.format('tool("serch")'), whitelist=["search"])
    assert [(each.code, each.file) for each in found] == [
        ("unused-whitelist", "manifest.json"),
        ("tool-not-whitelisted", "program.js"),
    ]
    assert found[1].hint == 'Did you mean "search"?'
    assert one(SYNC.format('tool("Read")'), whitelist=[]).hint == "Add it to the whitelist in manifest.json."
    assert codes(SYNC.format('tool("Read") + tool(" read ")'), whitelist=["read"]) == ["tool-not-whitelisted"]


def test_what_nothing_uses_is_reported_where_it_is() -> None:
    """JSR-025 the entry of the whitelist, the file of the prompt"""
    unused = one(OK, whitelist=["t"])
    assert (unused.file, unused.line, unused.column) == ("manifest.json", 1, 45)
    assert one(OK, {"x": "x"}).file == "prompts/x.md"


# --- doors ------------------------------------------------------------------------------------------------------------

FLOATING = [
    ('tool("t")', 1),
    ('void tool("t")', 1),
    ('const x = tool("t").title', 1),
    ('if (1) { tool("t") }', 1),
    ('tool("t")?.title', 1),
    ('remember("x"); recall(); ask("y")', 3),
    ('await tool("t")', 0),
    ('return tool("t")', 0),
    ('const x = tool("t")', 0),
    ('await Promise.all([tool("t"), tool("t")])', 0),
    ('tool("t").then(x => x).catch(x => x)', 0),
    ('log("x")', 0),
    ('const f = () => tool("t")', 0),
    ('const { title } = tool("t")', 1),
    ('if (tool("t") === "yes") return 1', 1),
    ('for (const one of tool("t")) log(`${tool("t")}`)', 2),
    ('return [...tool("t"), tool("t")]', 1),
    ('(await tool("t")).title', 0),
]


@pytest.mark.parametrize(("statement", "count"), FLOATING)
def test_an_answer_nobody_awaits_is_a_warning_in_async_programs(statement: str, count: int) -> None:
    """JSR-026 a statement, `void` and a property read are; awaited, returned, assigned and passed on are not"""
    extra = "" if "tool" in statement else "; await tool('t')"
    program = f"async function run() {{ {statement}{extra} }}"
    assert codes(program, whitelist=["t"]) == ["floating-door"] * count
    assert "floating-door" not in codes(program.removeprefix("async ").replace("await ", ""), whitelist=["t"])


def test_the_output_of_an_async_script_is_awaited() -> None:
    """JSR-026 its last expression needs no await"""
    assert codes('await 1\ntool("t")', whitelist=["t"]) == []


def test_then_on_a_door_in_a_sync_program_is_an_error() -> None:
    """JSR-027 whether it is called or not"""
    for name in ("then", "catch", "finally"):
        found = one(SYNC.format(f"recall().{name}(x => x)"))
        assert found.code == "door-then" and f'"{name}"' in found.message
    assert codes(SYNC.format("recall().map(x => x)")) == []


def test_a_sync_program_cannot_run_on_v8() -> None:
    """JSR-027 the place is that of the engine in the manifest"""
    found = one(OK, engine="v8")
    assert (found.code, found.file, found.line) == ("engine-form", "manifest.json", 1)
    assert codes("async " + OK, engine="v8") == []


@pytest.mark.parametrize(
    "program",
    ["const ai = 1", "let tool", "function log() {}", "class ask {}", "var DoorError", "ai = 1", "globalThis.tool = 1",
     "globalThis['tool'] = 1", "[ai] = [1]", "({x: ai} = {})", "for (ai of []) ;", "ai++", "{ var recall }",
     "const {remember} = {}"],
)  # fmt: skip
def test_giving_the_name_of_a_door_away_is_an_error(program: str) -> None:
    """JSR-028 by declaration or by assignment"""
    found = codes(f"{program}\n{OK}")
    assert found == ["door-overwritten"]


def test_an_inner_binding_of_a_doors_name_is_a_warning() -> None:
    """JSR-028 calls through it are not checked, and a parameter `input` is fine"""
    assert codes('function run(input) { return [1].map(log => log("x")) }') == ["door-shadowed"]
    assert codes('function run(ai) { return ai("Not a prompt at all.") }') == ["door-shadowed"]
    assert codes("function run(input) { const {tool} = input; tool(x => x); return 1 }") == ["door-shadowed"]
    assert codes("function run(input) { input = 5; return x => input }") == []
    assert codes("const input = 5; function run() { return input }") == []


REDECLARED = [
    "let a\nlet a", "const a = 1\nvar a", "var a\nlet a", "class a {}\nclass a {}",
    "function a() {}\nfunction a() {}", "var a\nfunction a() {}", "let a; {\nvar a }", "{ var a }\nlet a",
    "switch (1) { case 1: let a; case 2:\nlet a }", "function f(a) {\nlet a }", "(a) => {\nconst a = 1 }",
    "function f({ a } = {}, b) {\nclass a {} }", "const a = 1,\na = 2", "const { a,\nb: a } = {}",
    "try {} catch (a) {\nlet a }", "for (let a of []) {\nvar a }", "{ function a() {}\nfunction a() {} }",
    "class A { static { let a\nlet a } }", "let [a, ...\na] = []",
]  # fmt: skip
DECLARED_ONCE = [
    "var a; var a", "function f(a) { var a; function a() {} }",
    "function f() { function g() {} function g() {} var g }", "let a; { let a; { const a = 1 } }",
    "for (let a;;) { let a }", "try {} catch (a) { var a; { let a } }", "function f(a) { { let a } }",
    "(function a() { let a })", "let a; (a) => a; class B { a() { let a } }",
    "class A { static { var a; var a; function b() {} function b() {} } }",
    "switch (1) { case 1: { let a } case 2: { let a } }", "function f(arguments_) { let input } let input",
    "if (1) { let a } else { let a }", "let a = function a() {}",
]  # fmt: skip


@pytest.mark.parametrize("program", REDECLARED)
def test_a_name_that_is_declared_twice_is_a_syntax_error(program: str) -> None:
    """JSR-019 at the second declaration, where the engine would only come to it later"""
    (found,) = [each for each in findings(f"{program}\n1") if each.severity == "error"]
    assert (found.code, found.line) == ("syntax", 2)
    assert found.message == '"a" is declared already, on line 1.'


@pytest.mark.parametrize("program", DECLARED_ONCE)
def test_names_of_different_scopes_and_kinds_that_may_be_repeated_are_fine(program: str) -> None:
    """JSR-019 as the engine sees it"""
    assert "syntax" not in codes(f"{program}\n1")


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        ('ai("x", 1, {shema: {}})', 'Did you mean "schema"?'),
        ('ai("x", 1, {"model": "m"})', 'Use "schema" or "effort".'),
        ('ask("x", {option: []})', 'Did you mean "options"?'),
        ('(() => { const S = {type: "object", required: []}; return ai("x", 1, S) })()', 'Use "schema" or "effort".'),
    ],
)
def test_unknown_options_are_warned(call: str, hint: str) -> None:
    """JSR-035 in an object written in its place, or held by a constant"""
    assert [each.hint for each in findings(SYNC.format(call), {"x": "x"}) if each.code == "unknown-option"] == [hint]
    fine = 'ai("x", 1, {schema: {}, effort: "low"}) + ask("y", {options: [], default: "z"}) + ai("x", {model: 1})'
    assert codes(SYNC.format(fine), {"x": "x"}) == []
    assert codes(SYNC.format('ai("x", 1, {...input, [input]: 1})'), {"x": "x"}) == []


# --- names ------------------------------------------------------------------------------------------------------------


ABSENT = ["require", "fetch", "setTimeout", "process", "crypto", "Intl", "prompt", "print", "Buffer"]


@pytest.mark.parametrize("name", ABSENT)
def test_what_other_worlds_have_is_an_error_with_a_hint(name: str) -> None:
    """JSR-029 but not a function of that name, nor a question by typeof"""
    found = one(SYNC.format(f"{name}(1)"))
    assert found.code == "unavailable-global" and len(found.hint) > 5
    assert codes(f"function {name}() {{}}\n{OK}") == []
    assert codes(SYNC.format(f"typeof {name} === 'undefined'")) == []
    assert codes(SYNC.format(f"input.{name} + {{{name}: 1}}.{name}")) == []


def test_the_hints_name_what_to_use_instead() -> None:
    """JSR-029 network, timers, settings"""
    assert "tool()" in one(SYNC.format("fetch")).hint
    assert "timers" in one(SYNC.format("setTimeout")).hint
    assert "`input`" in one(SYNC.format("process")).hint


def test_the_globals_that_are_there_are_known() -> None:
    """JSR-029 those of the engine, the doors, their error and the input"""
    for name in ("JSON", "Math", "console", "performance", "queueMicrotask", "DoorError", "ai", "input", "globalThis",
                 "undefined", "Promise", "BigUint64Array", "Iterator"):  # fmt: skip
        assert codes(SYNC.format(name)) == []
    found = one(SYNC.format("Pormise.all([])"))
    assert (found.code, found.hint) == ("undeclared", 'Did you mean "Promise"?')
    assert codes("ls -la") == ["undeclared", "undeclared"]


def test_module_syntax_is_an_error() -> None:
    """JSR-030 import, import(), import.meta and every export but the default"""
    for program in ('import a from "b"', 'import "b"', "export const a = 1", "export {run}", 'export * from "b"'):
        assert codes(f"{program}\n{OK}") == ["module-syntax"]
    assert codes(SYNC.format('import("b")')) == codes(SYNC.format("import.meta.url")) == ["module-syntax"]
    assert codes("export " + OK) == ["module-syntax"]
    assert codes("export default " + OK) == []


def test_a_program_must_give_a_value() -> None:
    """JSR-030 neither an entry nor a final expression"""
    assert codes("const a = 1") == codes("1; if (1) { 2 }") == codes("for (const a of []) ;") == ["no-value"]
    assert codes("const a = 1; a;;") == []
    assert one("const a = 1\nconst b = 2").line == 2


@pytest.mark.parametrize(
    "program",
    [
        "function* run() {}",
        "async function* run() {}",
        "const run = function* () {}",
        "const run = class {}",
        "class run {}",
        "export default class {}",
        "export default class A {}",
        "export default function* () {}",
        "export default main; function* main() {}",
        "export default 5",
        "export default {run() {}}",
        "export default input ? 1 : 2",
        "export default function () {}\nfunction run() {}",
        "export default function main() {}\nconst run = x => x",
        "export default x => x\nexport default y => y",
        "export default main\nfunction main() {}\nfunction run() {}",
    ],
)
def test_an_entry_that_cannot_be_called_once_is_an_error(program: str) -> None:
    """JSR-031 generators, classes, values, and two entries"""
    found = findings(program)
    assert {each.code for each in found if each.severity == "error"} == {"entry-kind"}


@pytest.mark.parametrize(
    "program",
    [
        "const run = [x => x][0]",
        "let run",
        "var run = Object",
        "export default make(); function make() { return x => x }",
        "globalThis.run = x => x",
        "const {run} = {}",
        "export default Object",
    ],
)
def test_an_entry_whose_form_cannot_be_seen_is_a_warning(program: str) -> None:
    """JSR-031 it counts as sync"""
    texts = {"manifest.json": json.dumps(LEAST), "program.js": program}
    bundle = Bundle.from_files(texts)
    assert [each.code for each in bundle.warnings] == ["entry-opaque"]
    assert bundle.form == "sync"


def test_guards_that_are_of_no_use_are_warned() -> None:
    """JSR-032 duplicates, values no input can have, tools off the whitelist"""

    def guards(*entries: dict[str, Any], **manifest: Any) -> list[str]:
        return [each.message for each in findings(OK, guards=list(entries), **manifest)]

    file = {"kind": "file", "file": "x"}
    assert guards(file, file | {"because": "no"}) == ["Check 2 repeats check 1."]
    assert guards(file, file | {"file": "y"}) == []

    def field(schema: dict[str, Any]) -> list[str]:
        return guards({"kind": "field", "field": "topic", "pattern": "SQL"}, input=schema)

    assert field({"properties": {"topic": {"enum": ["a", "postgresql"]}}}) == []
    assert field({"properties": {"topic": {"enum": ["a", 5, None]}}})[0].startswith("Check 1 can never pass")
    assert field({"properties": {"topic": {"const": "b"}}}) != []
    assert field({"properties": {"topic": False}}) != []
    assert field({"properties": {"a": {}}, "additionalProperties": False}) != []
    assert field({"properties": {"a": {}}}) == field({"properties": {"topic": {}}}) == []
    assert guards({"kind": "tool", "tool": "t"}) != []
    message = 'Nothing uses "t" of the whitelist.'
    assert guards({"kind": "tool", "tool": " t "}, whitelist=["t"]) == [message]


BIG = ["9007199254740992", "0x20000000000001", "0b1" + "0" * 53, "9_007_199_254_740_993", "1" * 5000]


@pytest.mark.parametrize("number", BIG)
def test_an_integer_that_is_not_exact_is_a_warning(number: str) -> None:
    """JSR-033 with its BigInt form"""
    found = one(SYNC.format(number))
    assert found.code == "unsafe-integer"
    assert f"Write {number}n." == found.hint or len(number) > 40
    for fine in ("9007199254740991", "9007199254740993n", "1e21", "9007199254740993.5", "0x1fffffffffffff"):
        assert codes(SYNC.format(fine)) == []


def test_a_comment_drops_a_warning_on_its_line_and_the_next() -> None:
    """JSR-034 that warning, and no error"""
    assert codes("// jsrun: ignore undeclared\nfoo + bar\n") == []
    assert codes("foo + bar // jsrun: ignore undeclared") == []
    assert codes("// jsrun: ignore undeclared\n\nfoo") == ["undeclared"]
    assert codes("foo\n// jsrun: ignore undeclared\n") == ["undeclared"]
    assert codes("// jsrun: ignore dynamic-code\nfoo") == ["undeclared"]
    assert codes("// jsrun: ignore dynamic-code, undeclared\nfoo + eval('1')") == []
    assert codes("// jsrun:ignore undeclared dynamic-code because it is fine\nfoo + eval('1')") == []
    assert codes("// jsrun: ignore unavailable-global\nfetch(1)") == ["unavailable-global"]
    assert codes("'// jsrun: ignore undeclared'\nfoo") == ["undeclared"]
    assert codes("/* jsrun: ignore undeclared */ foo") == ["undeclared"]


# --- diagnostics ------------------------------------------------------------------------------------------------------


def test_diagnostics_are_sorted_and_counted() -> None:
    """JSR-015 by file, line and column; of more than 100, errors first, and one that counts the rest"""
    program = "\n".join(f"nope{number}" for number in range(150)) + "\nfetch(1)\n"
    found = findings(program)
    assert len(found) == 101
    assert found[-1].message == "51 more problems are not shown." and found[-1].severity == "warning"
    one_more = findings("\n".join(f"nope{number}" for number in range(101)))
    assert one_more[-1].message == "1 more problem is not shown."
    assert "unavailable-global" in {each.code for each in found}
    places = [(each.line or 0, each.column or 0) for each in found[:-1]]
    assert places == sorted(places)
    assert arrange([]) == ()


def test_a_diagnostic_is_printed_for_people_and_editors() -> None:
    """JSR-015 file:line:column: severity [code] message hint"""
    whole = Diagnostic("code", "error", "a.js", 3, 7, "It is wrong.", "Correct it.")
    assert str(whole) == "a.js:3:7: error [code] It is wrong. Correct it."
    assert str(Diagnostic("code", "warning", "a.js", None, None, "No.", "")) == "a.js: warning [code] No."


def test_the_nearest_name_is_near() -> None:
    """JSR-022 at most 2 characters, or a third of the length"""
    assert nearest("serch", ["search", "read"]) == "search"
    assert nearest("a", ["b"]) is None
    assert nearest("abc", ["xyz"]) is None
    assert nearest("summarize_everything", ["summarise_every_thing"]) == "summarise_every_thing"
    assert nearest("ab", ["abd", "abc"]) == "abc"
    assert nearest("x" * 100, ["x" * 99]) is None
    assert edit_distance("kitten", "sitting", 3) == 3
    assert edit_distance("kitten", "sitting", 2) is None


def test_thousands_of_misspellings_are_checked_in_time() -> None:
    """JSR-021 looking for what was meant is bounded"""
    prompts = {f"prompt-{'x' * 50}-{number}": "x" for number in range(200)}
    calls = "\n".join(f'ai("prompt-{"y" * 50}-{number}")' for number in range(1_000))
    assert len(findings(calls, prompts)) == 101
