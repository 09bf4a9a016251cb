"""The text `ptc` gets of a program: entries, values of scripts, and the way back for positions."""

import json

import _quickjs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jsrun.analysis import analyse
from jsrun.program import Program
from ptc.wire import Json
from tests.jsrun.engine import Ran, run_body


def program(source: str) -> Program:
    facts = analyse(source)
    assert facts.problem is None, facts.problem
    return Program.of(source, facts)


def ran(source: str, given: Json = None) -> Ran:
    return run_body(program(source), given)


def output(source: str, given: Json = None) -> Json:
    result = ran(source, given)
    assert result.error is None, result
    return result.output


ENTRIES = [
    "function run(input) { return {a: input.n + 1} }",
    "async function run(input) { return {a: input.n + 1} }",
    "const run = input => ({a: input.n + 1})",
    "const run = async input => ({a: input.n + 1})",
    "let run = function (input) { return {a: input.n + 1} }",
    "var run = input => { return {a: input.n + 1} };",
    "let run\nrun = input => ({a: input.n + 1})",
    "globalThis.run = input => ({a: input.n + 1})",
    "export default function (input) { return {a: input.n + 1} }",
    "export default function main(input) { return {a: input.n + 1} }",
    "export default async function (input) { return {a: input.n + 1} }",
    "export default async function main(input) { return {a: await input.n + 1} }",
    "export default input => ({a: input.n + 1})",
    "export default async input => ({a: input.n + 1})",
    "export default async (input) => ({a: input.n + 1}) // the end",
    "export default (function (input) { return {a: input.n + 1} })",
    "export default main\nfunction main(input) { return {a: input.n + 1} }",
    "function main(input) { return {a: input.n + 1} }\nexport default main",
    "const x = 1\nfunction main(input) { return {a: input.n + x} }\nexport default (main)",
    "function make() { return input => ({a: input.n + 1}) }\nexport default make()",
    "export default\nfunction\n(input) { return {a: input.n + 1} }",
    "export /* a */ default // b\n function /* c */ (input) { return {a: input.n + 1} }",
    "export default async /* c */ function (input) { return {a: input.n + 1} }",
    "export\tdefault\tfunction(input) { return {a: input.n + 1} }\n(1)",
    "export default function*dead() {}".replace(
        "function*dead() {}", "function run(input) { return {a: input.n + 1} }"
    ),
    "#!/usr/bin/env jsrun\nfunction run(input) { return {a: input.n + 1} }",
    "function run(input) { return {a: input.n + 1} } // no line end after this",
    "function run(input) { return {a: input.n + 1} }\r\n/* the end */\r\n",
    "1\nfunction run(input) { return {a: input.n + 1} }\n2",
    "function run(input) { return {a: this === undefined ? input.n + 1 : 0} }",
    "const input = 7; function run(given) { return {a: given.n + 1} }",
]


@pytest.mark.parametrize("source", ENTRIES)
def test_every_form_of_entry_gives_the_same_output(source: str) -> None:
    """JSR-036 every form of entry is called with the input and gives the same output"""
    assert output(source, {"n": 1}) == {"a": 2}


VALUES = [
    ("1 + 1", 2),
    ("const a = 1\na + 1", 2),
    ("({a: 1})", {"a": 1}),
    ("[1, 2];", [1, 2]),
    ("1, 2", 2),
    ("(1, 2)", 2),
    ("((1, (2, 3)))", 3),
    ("1; 2;; ;", 2),
    ("'a string that looks like a directive'", "a string that looks like a directive"),
    ('"use strict"', "use strict"),
    ("`a${1}b`", "a1b"),
    ("2 // comment", 2),
    ("2 /* comment */", 2),
    ("/* before */ 2 /* after */ ;", 2),
    ("const f = x => x * 2; f(2)", 4),
    ("(function () { return 4 })()", 4),
    ("(() => 4)()", 4),
    ("let a = 1\na = 5", 5),
    ("let a = {b: 1}\na.b ??= 5", 1),
    ("let a = 1\na++", 1),
    ("let a = 1\n++a", 2),
    ("let a = 1\na\n++a", 2),
    ("true ? 1 : 2", 1),
    ("(true) ? 1 : 2", 1),
    ("null ?? 3", 3),
    ("(1) + (2)", 3),
    ("(1) + 2, (3) * 4", 12),
    ("!0", True),
    ("typeof x", "undefined"),
    ("void 0", None),
    ("/a+/.test('caat')", True),
    ("await 3", 3),
    ("const x = await 3\nx + 1", 4),
    ("await Promise.all([1, 2])", [1, 2]),
    ("const a = []\nfor await (const x of [1, Promise.resolve(2)]) a.push(x)\na", [1, 2]),
    ("Promise.resolve(6)", 6),
    ("const f = async () => 7\nf()", 7),
    ("do { var a = 1 } while (0) a + 1", 2),
    ("{ let a = 1 } 8", 8),
    ("class A { static x = 9 }\nA.x", 9),
    ("new Map([[1, 2]]).get(1)", 2),
    ("new (class { x = 4 })().x", 4),
    ("String.raw`\\n`", "\\n"),
    ("(String.raw)`b`", "b"),
    ("(a => a)(3)", 3),
    ("a => a, 3", 3),
    ("({a: 1}).a", 1),
    ("({a: 1})?.a", 1),
    ("({a: [1, {b: 2}]}).a[1]?.b", 2),
    ("let a, b; [a, b] = [1, 2]", [1, 2]),
    ("let a; ({a} = {a: 3})", {"a": 3}),
    ("-(1)", -1),
    ("(2) ** 3", 8),
    ("'a' in {a: 1}", True),
    ("('a') in ({a: 1})", True),
    ("[] instanceof Array", True),
    ("input.n", 41),
    ("input.n + 1", 42),
    ("1\u2028", 1),
    ("'\u2028'.length", 1),
    ("let é = 2; é", 2),
    ("'😀'.length", 2),
    ("const run = 5; run + 1", 6),
    ("3\nlet run", 3),
    ("globalThis.run = 4", 4),
    ("globalThis.run = 4; 5", 5),
]


@pytest.mark.parametrize(("source", "value"), VALUES)
def test_a_script_without_entry_answers_with_its_last_expression(source: str, value: Json) -> None:
    """JSR-038 the value of the last top-level expression statement is the output, also after an await"""
    assert output(source, {"n": 41}) == value


def test_a_promise_returned_by_a_plain_entry_is_awaited() -> None:
    """JSR-040 a promise that a plain entry returns is settled first"""
    assert output("function run(){ return (async()=>({a:1}))() }") == {"a": 1}


FORMS = [
    ("function run() {}", "sync"),
    ("async function run() {}", "async"),
    ("const run = async () => {}", "async"),
    ("export default async function () {}", "async"),
    ("async function main() {}\nexport default main", "async"),
    ("function run() { return (async () => await 1)() }", "sync"),
    ("async function other() {}\nfunction run() {}", "sync"),
    ("await 1\nfunction run() {}", "async"),
    ("for await (const x of []) ;\n1", "async"),
    ("class A { async m() { await 1 } static x = 1 }\n1", "sync"),
    ("class A { [await 'x']() {} }\n1", "async"),
    ("const f = async (a) => { for await (const b of a) ; }\n1", "sync"),
    ("const run = make()\nfunction make() { return async () => {} }", "sync"),
    ("if (await 1) { 2 }\n3", "async"),
    ("const {a = await 1} = {}\na", "async"),
]


@pytest.mark.parametrize(("source", "form"), FORMS)
def test_the_form_is_seen_in_the_source(source: str, form: str) -> None:
    """JSR-039 the form comes from the source: an async entry, or an await outside every function"""
    assert program(source).form == form


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    "source",
    [
        "export default function (input) { nope.x }",
        "export default input => { nope.x }",
        "export default main; function main() { nope.x }",
        "export default async function main() { nope.x }",
        "export default\nfunction (input) { nope.x }",
        "export default function (input) {\n  const a = 1\n  nope.x\n}",
        "const y = 1\nexport default async () => {\n  nope.x\n}",
        "const y = 1; export default (a, b) => nope.x",
        "const a = 1\nconst b = 2\nnope.x\nconst c = 3",
        "await 1\nconst b = 2\n  nope.x",
        "1\n2\nnope.x, 3",
        "1, 2, nope.x",
        "let s = '😀'; nope.x",
        "'😀' + nope.x",
        "function run() {\n  const a = 1\n  nope.x\n}",
        "async function run() {\n  await 1\n  nope.x\n}\n",
        "(function () {\n  nope.x })()",
        "[1, 2].map(n => nope.x)",
    ],
)
def test_the_place_of_an_error_is_that_in_the_file(source: str, end: str) -> None:
    """JSR-037 JSR-039 line exact and column within the failing statement, whatever was put around the program"""
    text = source.replace("\n", end)
    lines = text.split(end)
    line = next(number for number, content in enumerate(lines, start=1) if "nope.x" in content)
    begins = lines[line - 1].index("nope.x") + 1
    result = ran(text)
    assert result.error is not None and result.place is not None
    assert result.place[0] == line
    assert begins <= result.place[1] <= begins + len("nope.x")


def test_a_syntax_error_of_the_engine_is_placed_in_the_file() -> None:
    """JSR-019 what only the engine refuses is reported where it stands in the file"""
    result = ran("1\nlet a = 1\nlet a = 2; 3")
    assert result.error is not None and "redefinition" in result.error
    assert result.place is not None and result.place[0] == 3


def test_a_place_in_the_appended_line_is_the_end_of_the_file() -> None:
    """JSR-039 what lies behind the program is reported at its end"""
    made = program("function run() {}\n\n")
    assert made.position(99, 5) == (3, 1)
    assert program("function run() {}").position(2, 1) == (1, 18)


# --- rewriting keeps every line and column ----------------------------------------------------------------------------

_gap = st.sampled_from([" ", "\t", "  ", "\n", "\r\n", " /* c */ ", "/**/", " // c\n", "\n\n  "])
_exported = st.sampled_from(
    [
        ("function{g}(input){g}{ return probe(input) }", False),
        ("function{g}main(input){g}{ return probe(input) }", False),
        ("async function{g}(input){g}{ return probe(input) }", False),
        ("(input){n}=>{g}probe(input)", False),
        ("async{n}(input){n}=>{g}probe(input)", False),
        ("main; function main(input) { return probe(input) }", False),
        ("(main); function main(input) { return probe(input) }", False),
        ("(0,{g}input => probe(input))({g}2)", True),
    ]
)


@given(before=st.sampled_from(["", "const a = 1\n", "const b = '😀';", "/* x */ "]), parts=_exported, data=st.data())
@settings(max_examples=150, deadline=None)
def test_rewriting_an_export_moves_nothing(before: str, parts: tuple[str, bool], data: st.DataObject) -> None:
    """JSR-037 every character after a rewritten default export keeps the place it has in the file"""
    text, is_call = parts
    source = (
        before
        + "export{g}default{g}"
        + text.replace("{n}", " ")
        + "{g}\nfunction probe(input) { throw new Error(input) }"
    )
    while "{g}" in source:
        source = source.replace("{g}", data.draw(_gap), 1)
    facts = analyse(source)
    if facts.problem is not None:
        return  # a gap where the grammar allows no line end
    made = Program.of(source, facts)
    body = made.body.split("\n")
    for line, content in enumerate(source.split("\n"), start=1):
        inserted = sum(insertion.width for insertion in made.insertions if insertion.line == line)
        assert len(body[line - 1]) == len(content) + inserted
    result = run_body(made, 1)
    if not is_call:
        assert result.error == "Error: 1"
        assert result.place is not None and result.place[0] == len(source.split("\n"))


_expression = st.recursive(
    st.sampled_from(["1", "a", "'s'", "`t`", "[1]", "({b: 2})", "null", "input", "/r/.source", "f"]),
    lambda inner: st.one_of(
        st.builds("({}, {})".format, inner, inner),
        st.builds("({})".format, inner),
        st.builds("{} , {}".format, inner, inner).map("({})".format),
        st.builds("f({})".format, inner),
        st.builds("(x => {})(1)".format, inner),
        st.builds("(function () {{ return {} }})()".format, inner),
        st.builds("({}) ? ({}) : ({})".format, inner, inner, inner),
        st.builds("({}) ?? ({})".format, inner, inner),
        st.builds("({}) + ({})".format, inner, inner),
        st.builds("typeof ({})".format, inner),
        st.builds("[{}, ...[{}]]".format, inner, inner),
        st.builds("({{k: {}}}).k".format, inner),
        st.builds("({{k: {}}})?.['k']".format, inner),
        st.builds("a = {}".format, inner).map("({})".format),
    ),
    max_leaves=8,
)


_end = st.sampled_from(["\n;", ";", "; ", ";\n\n", ";;", "; // c\n", "; /* c */"])


@given(
    expressions=st.lists(_expression, min_size=1, max_size=3),
    separators=st.lists(_end, min_size=3, max_size=3),
    joined=st.booleans(),
)
@settings(max_examples=200, deadline=None)
def test_a_script_gives_what_the_engine_gives_for_its_last_statement(
    expressions: list[str], separators: list[str], joined: bool
) -> None:
    """JSR-038 the captured value is the completion value, whatever the expression looks like"""
    head = "let a = 3; function f(x) { return x }\n"
    if joined:
        source = head + ", ".join(f"{text}" for text in expressions)
    else:
        source = head + "".join(text + end for text, end in zip(expressions, separators, strict=False))
    made = program(source)
    context = _quickjs.Context()
    context.eval("var input = null")
    expected = context.eval(f"JSON.stringify(eval({json.dumps(source)}))")
    result = run_body(made, None)
    assert result.error is None, (source, result)
    assert result.output == (None if expected is None else json.loads(expected))
