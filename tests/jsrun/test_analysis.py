"""Facts about programs: what is parsed, how deep, how long, and what is found."""

import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jsrun import analysis
from jsrun._parser import parse
from jsrun.analysis import analyse
from jsrun.facts import Facts
from ptc.deep import run_deep


def facts(source: str) -> Facts:
    found = analyse(source)
    assert found.problem is None, found.problem
    return found


def names(source: str, door: str = "ai") -> list[list[str] | None]:
    calls = [call for call in facts(source).calls if call.door == door]
    return [None if call.names is None else [name.text for name in call.names] for call in calls]


MODERN = [
    "a?.b?.[c]?.(d)",
    "a ??= b; a ||= b; a &&= b",
    "class A { #x = 1; static #y; get z() { return this.#x } has(o) { return #x in o } }",
    "const big = 12345678901234567890n",
    "class A { static x; static { A.x = 1 } }",
    "const x = await f()",
    "for await (const x of y) z(x)",
    "const s = 'a\u2028b\u2029c'",
    "try { f() } catch { g() }",
    "const {a, ...rest} = b; f(...rest)",
    "1_000_000",
    "/(?<year>\\d{4})(?<=4)/u.test(s)",
    "async function* f() { yield await 1; yield* g() }",
    "label: for (;;) { break label }",
    "`a${`b${c}`}`",
    "export default async (input) => input",
    "x = a ? b : c ?? d",
    "({async a() {}, get b() { return 1 }, [c]: 1, 'd': 2, e})",
    "let 变量 = 1; let \\u0061b = 2",
    "a ** b",
    "#!/usr/bin/env jsrun\n1",
]

# Valid programs that the parser, left to itself, refuses.
REFUSED_ONCE = [
    r"/(?<=^|\s)x/.test(s)",
    r"x = /\p{Script=Greek}+[^]/u",
    r"x = /[\p{L}--[a-z]]/v",
    r"/(?<a>x)|(?<a>y)(?i:z)/",
    "const o = {async *m() { yield await 1 }, async *[k]() {}, async/* c */*n() {}, async *'s'() {}}",
    "class A { async *m() { yield await x } static async *n() { for await (const a of b) yield a } async *#p() {} }",
    "class A { static = 1; async = 2; get = 3; set; static static = 4; default = 5; in; static delete = 6 }",
    "class A { static async; get; static get; static; async }",
    "class A { a\n*b() {} }; class B { get\nx() { return 1 } static\ny = 2 }",
    "class A extends B { static keys = [...super.keys]; static { super.start() } m = () => super.m }",
    "export default [one, two][0]",
    "export default {run() {}}.run",
    "export /* a */ default\n{}",
    "(-1) ** 2; (!a) ** b ** c; (await x) ** 2",
    r"String.raw`C:\new\x\1${a}\u`",
]


@pytest.mark.parametrize("source", REFUSED_ONCE)
def test_valid_syntax_is_not_refused(source: str) -> None:
    """JSR-020 whatever Python's `re` thinks of a regular expression, and where the parser is too strict"""
    facts(source)


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("class A {\n get constructor() {} }", 2),
        ("class A { constructor() {}\n constructor() {} }", 2),
        ("class A {\n async *constructor() {} }", 2),
        ("class A {\n constructor = 1 }", 2),
        ("class A {\n static prototype() {} }", 2),
        ("class A { a = 1\n b c }", 2),
        ("const o = {\n async *m }", 2),
        ("export default\n [1] 2", 2),
        ("x = -1 ** 2", 1),
    ],
)
def test_broken_members_are_refused(source: str, line: int) -> None:
    """JSR-019 what is read in another way than the parser's own is refused where it is wrong"""
    problem = analyse(source).problem
    assert problem is not None and problem.place[0] == line


@pytest.mark.parametrize("source", MODERN)
def test_modern_syntax_is_analysed(source: str) -> None:
    """JSR-020 optional chaining, `??=`, private fields, BigInt, static blocks, top-level await, U+2028 in a string"""
    facts(source)


@pytest.mark.parametrize(
    ("source", "place", "part"),
    [
        ("const a = 1\nconst b = 2\nc = = 3", (3, 5), '"="'),
        ("function run( {", (1, 16), "ends too early"),
        ("const s = '😀', = 2", (1, 16), '"="'),
        ("a\r\nb\r\n  )", (3, 3), '")"'),
        ("return 1", (1, 1), "return"),
        ("with (a) {}", (1, 1), "with"),
        ("1\n/* never", (2, 1), ""),
        ("x = 'abc", (1, 5), ""),
        ("if (a) let\nx = 1", (1, 8), ""),
        ("break", (1, 1), "break"),
        ("\n```js\nfunction run() {}\n```", (2, 1), "Markdown"),
        ("function run() {\n  await ai('x')\n}", (2, 3), "not async"),
    ],
)
def test_a_syntax_error_has_its_place(source: str, place: tuple[int, int], part: str) -> None:
    """JSR-019 line exact, column in code points"""
    problem = analyse(source).problem
    assert problem is not None
    assert problem.place[0] == place[0]
    assert part in problem.message
    if part.startswith('"'):
        assert problem.place == place
    assert problem.message.endswith(".") and problem.hint.endswith(".")


NESTINGS = {
    "parentheses": ("(", "1", ")"),
    "arrays": ("[", "1", "]"),
    "blocks": ("{", "", "}"),
    "objects": ("(a,{b:", "1", "})"),
    "calls": ("f(", "1", ")"),
    "functions": ("(function () { return ", "1", "})"),
    "arrows": ("(x => ", "1", ")"),
    "async arrows": ("(async (x) => { await ", "1", "})"),
    "classes": ("(class { a = ", "1", "})"),
    "templates": ("`${", "1", "}`"),
    "ifs": ("if (1) {", "", "}"),
    "elses": ("if (1); else ", ";", ""),
    "conditionals": ("a ? b : ", "1", ""),
    "patterns": ("[", "a", "]"),
    "nots": ("!", "1", ""),
    "tries": ("try {", "", "} finally {}"),
    "loops": ("for (;;) ", ";", ""),
    "members": ("a.", "b", ""),
    "additions": ("1 + ", "1", ""),
    "assignments": ("a = ", "1", ""),
}


@pytest.mark.parametrize("name", NESTINGS)
def test_two_hundred_levels_are_analysed(name: str) -> None:
    """JSR-021 of everything that nests"""
    before, inner, after = NESTINGS[name]
    for levels in (100, 200):
        source = before * levels + inner + after * levels
        assert analyse(source + (" = 1" if name == "patterns" else "")).problem is None


@pytest.mark.parametrize("name", NESTINGS)
def test_thousands_of_levels_end_in_facts_or_a_problem(name: str) -> None:
    """JSR-021 never an exception, a crash or a hang"""
    before, inner, after = NESTINGS[name]
    for levels in (5_000, 100_000 // len(before)):
        problem = analyse(before * levels + inner + after * levels).problem
        if name == "parentheses":
            assert problem is not None and "nested too deeply" in problem.message
            assert problem.place == (1, 201)


OPENED = ["(", "[", "{", "`${", "f(", "x=>", "{a:", "new ", "- ", "1,", "/*", "async(", "async x=>"]


@pytest.mark.parametrize("text", OPENED)
def test_what_is_opened_a_hundred_thousand_times_ends(text: str) -> None:
    """JSR-021 also when nothing is closed"""
    began = time.monotonic()
    analyse(text * 100_000)
    assert time.monotonic() - began < 60


def test_a_hundred_thousand_nested_blocks_end() -> None:
    """JSR-021 1e5 nested blocks are a problem"""
    assert analyse("{" * 100_000 + "}" * 100_000).problem is not None


def test_a_mebibyte_of_source_is_analysed() -> None:
    """JSR-021 1 MiB of program ends in facts"""
    line = 'console.log("' + "x" * 200 + '"); // ' + "y" * 200 + "\n"
    source = line * (2**20 // len(line))
    began = time.monotonic()
    assert analyse(source).problem is None
    assert time.monotonic() - began < 60


def test_the_recursion_limit_and_the_stack_of_others_stay_as_they_are() -> None:
    """JSR-021 the deep stack is that of the analysis alone"""
    import sys

    before = sys.getrecursionlimit(), threading.stack_size()
    results = []
    threads = [threading.Thread(target=lambda: results.append(analyse("(" * 150 + "1" + ")" * 150))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(result.problem is None for result in results) and len(results) == 4
    assert (sys.getrecursionlimit(), threading.stack_size()) == before
    with pytest.raises(ZeroDivisionError):
        run_deep(lambda: 1 // 0)


def test_the_same_source_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """JSR-035 facts are kept by the hash of the source, the last 256 of them"""
    parsed: list[str] = []

    def counted(text: str, *, comments: bool = False) -> object:
        parsed.append(text)
        return parse(text, comments=comments)

    monkeypatch.setattr(analysis, "parse", counted)
    source = "const once = 'JSR-035'"
    first = analyse(source)
    assert analyse(source) is first
    assert parsed == [source]
    for number in range(analysis.CACHED):
        analyse(f"const number = {number}")
    assert analyse(source) is not first
    assert len(analysis._cache) == analysis.CACHED


def test_names_are_followed_through_constants_and_choices() -> None:
    """JSR-024 literals, plain templates, constants, conditionals, `??` and `||` are known"""
    assert names("ai('a'); ai(`b`)") == [["a"], ["b"]]
    assert names("const A = 'a'; const B = A; ai(B)") == [["a"]]
    assert names("ai(x ? 'a' : y ? 'b' : 'c')") == [["a", "b", "c"]]
    assert names("const A = x ? 'a' : 'b'; function run() { ai(A || 'c'); ai(A ?? 'd') }") == [
        ["a", "b", "c"],
        ["a", "b", "d"],
    ]
    assert names("function run() { ai(A) }\nconst A = 'late'") == [["late"]]
    assert names("ai('a\\u0062c')") == [["abc"]]
    assert names("ai()") == [[""]]


@pytest.mark.parametrize(
    "source",
    [
        "ai(x)",
        "ai('a' + 'b')",
        "ai(`a${x}`)",
        "let A = 'a'; ai(A)",
        "var A = 'a'; ai(A)",
        "const {A} = {A: 'a'}; ai(A)",
        "ai(x ? 'a' : y)",
        "ai(x && 'a')",
        "ai(...['a'])",
        "ai(5)",
        "ai(f('a'))",
        "const A = B; const B = A; ai(A)",
        "function run(A) { ai(A) }; const A = 'a'",
        "ai(/a/)",
        "ai(1n)",
    ],
)
def test_other_names_are_not_known(source: str) -> None:
    """JSR-024 whatever is computed"""
    assert names(source) == [None]


def test_long_chains_and_doublings_of_constants_end() -> None:
    """JSR-021 neither the number of texts nor the length of a chain gets out of hand"""
    chain = "const a0 = 'x'\n" + "".join(f"const a{n} = a{n - 1}\n" for n in range(1, 5_000))
    assert names(chain + "ai(a4999)") == [None]
    assert names(chain + "ai(a50)") == [["x"]]
    double = "const a0 = 'x'\n" + "".join(f"const a{n} = c ? a{n - 1} : a{n - 1}\n" for n in range(1, 45))
    assert names(double + "ai(a44)") == [["x"]]
    many = "const a0 = 'x'\n" + "".join(f"const a{n} = c ? 'n{n}' : a{n - 1}\n" for n in range(1, 200))
    assert names(many + "ai(a40)")[0] is not None
    assert names(many + "ai(a199)") == [None]


def test_a_door_is_the_unshadowed_global_in_either_spelling() -> None:
    """JSR-028 `globalThis.ai` and `globalThis['ai']` are doors, members and inner names are not"""
    assert len(facts("globalThis.ai('a'); globalThis['ai']('b'); globalThis?.ai('c')").calls) == 3
    assert facts("x.ai('a'); function f(ai) { ai('b') } { const tool = 1; tool('c') }").calls == ()
    assert facts("const globalThis_ = 1; function f(globalThis) { globalThis.ai('x') }").calls == ()
    assert facts("class ai2 { ai() { } }; const o = {ai: 1}; ai: for (;;) break ai").calls == ()


@pytest.mark.parametrize(
    ("source", "use"),
    [
        ("tool('a')", "statement"),
        ("f(); tool('a'); g", "statement"),
        ("void tool('a')", "void"),
        ("x = tool('a').title", "property"),
        ("tool('a')?.title", "property"),
        ("tool('a')[0]", "property"),
        ("x = tool('a')", "value"),
        ("async () => await tool('a')", "value"),
        ("function run() { return tool('a') }", "value"),
        ("Promise.all([tool('a')])", "value"),
        ("() => tool('a')", "value"),
        ("f(tool('a'))", "value"),
        ("const {a} = tool('a')", "property"),
        ("[x] = tool('a')", "property"),
        ("if (tool('a')) x", "operand"),
        ("x = tool('a') ? 1 : 2", "operand"),
        ("x = tool('a') === 1", "operand"),
        ("x = !tool('a')", "operand"),
        ("x = typeof tool('a')", "value"),
        ("x = `${tool('a')}`", "operand"),
        ("x = [...tool('a')]", "operand"),
        ("for (const x of tool('a')) y", "operand"),
        ("switch (tool('a')) {}", "operand"),
        ("x = tool('a') || y", "value"),
        ("x = y ? tool('a') : z", "value"),
    ],
)
def test_what_becomes_of_an_answer(source: str, use: str) -> None:
    """JSR-026 a statement, `void`, a property read, or a value"""
    (call,) = facts(source + "\nfunction run() {}" if "function run" not in source else source).calls
    assert call.use == use


def test_the_value_of_a_script_is_no_mere_statement() -> None:
    """JSR-026 the last expression of a script is its output"""
    assert [call.use for call in facts("tool('a')\ntool('b')").calls] == ["statement", "value"]


SCOPES = [
    ("a", ["a"]),
    ("typeof a", []),
    ("typeof a.b", ["a"]),
    ("let a; a", []),
    ("a; var a", []),
    ("{ let a } a", ["a"]),
    ("{ var a } a", []),
    ("{ function a() {} } a", ["a"]),
    ("function f(a, {b, c: [d] = e}, ...g) { a; b; d; g; c }", ["c", "e"]),
    ("(a, b = c) => a + b", ["c"]),
    ("try {} catch ({a, b = c}) { a; b }", ["c"]),
    ("try {} catch { a }", ["a"]),
    ("for (const a of b) a; for (let c = 0; c; c++) c; for (d in e) ;", ["b", "d", "e"]),
    ("(function a() { a })()", []),
    ("(function a() { })(); a", ["a"]),
    ("class A extends B { [c]() { A } d = e; static { let f; f } #g; h() { this.#g } }", ["B", "c", "e"]),
    ("(class A { a = A }); A", ["A"]),
    ("({a, b: c, [d]: e, f() {}, get g() { return h }})", ["a", "c", "d", "e", "h"]),
    ("[a.b, {c: d}] = e", ["a", "d", "e"]),
    ("x: for (;;) { continue x }", []),
    ("a.b.c?.d[e]", ["a", "e"]),
    ("`${a}${'b'}`; f`${c}`", ["a", "c", "f"]),
    ("function f() { arguments } arguments; () => arguments", ["arguments", "arguments"]),
    ("globalThis.a = 1; a", ["globalThis"]),
    ("switch (a) { case b: let c; default: c; d }", ["a", "b", "d"]),
    ("a = 1; b++; [c] = d; ({e: f} = g)", ["a", "b", "c", "d", "f", "g"]),
    ("async function* f() { for await (const a of b) yield a }", ["b"]),
    ("if (a) function_; else { const a = 1 }", ["a", "function_"]),
    ("export default function (input) { return input }", []),
    ("import {a as b} from 'c'; b; a", ["a"]),
    ("export {a as b}; let a", []),
    ("new a.B(c)", ["a", "c"]),
    ("const a = 1, {[a]: b} = c", ["c"]),
]


@pytest.mark.parametrize(("source", "unbound"), SCOPES)
def test_names_are_resolved_in_their_scopes(source: str, unbound: list[str]) -> None:
    """JSR-029 only what is declared nowhere is unbound"""
    assert sorted(name.text for name in facts(source).unbound) == unbound


def test_a_name_used_everywhere_is_kept_a_few_times() -> None:
    assert len(facts("a;" * 1000).unbound) == analysis.MOST_USES


_PIECES = (
    "( ) { } [ ] => async await function class ` ${ / * // /* \n \u2028 \" ' # ?. ??= ... 1n 0x export default import"
    " let const using static get yield 😀 \0 <!-- --> @ = ; , : ? of in for try catch new.target super \\ ** ++ run ai"
)
_pieces = st.sampled_from(_PIECES.split(" "))


@given(st.lists(_pieces, max_size=25), st.sampled_from(["", " "]))
@settings(max_examples=400, deadline=None)
def test_any_text_ends_in_facts_or_a_problem_with_a_place(pieces: list[str], joint: str) -> None:
    """JSR-021 whatever the text is"""
    source = joint.join(pieces)
    found = analyse(source)
    if found.problem is not None:
        line, column = found.problem.place
        assert line >= 1 and column >= 1
        assert found.problem.message.endswith(".") and "Error" not in found.problem.message
