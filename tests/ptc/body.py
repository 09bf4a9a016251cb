"""Runs a program body in a bare engine, as a function, so that what stripping leaves can be seen to work."""

import json
import re
from typing import Any

import _quickjs
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

LINE_BREAKS = re.compile(r"\r\n|[\n\r\u2028\u2029]")

_WRAP = """(async function () {{ "use strict";
{body}
}})().then(value => {{ globalThis.answer = JSON.stringify([value === undefined ? null : value]) }},
           error => {{ globalThis.problem = String(error) + "\\n" + (error && error.stack) }})"""


def run(body: str) -> Any:
    """The value of an async function with this body. A failure is `RuntimeError` with the error's text and stack,
    in which line 1 is the body's first."""
    context = _quickjs.Context()
    try:
        context.eval(_WRAP.format(body=body))
    except _quickjs.JSException as error:
        raise RuntimeError(_renumbered(str(error))) from None
    while context.execute_pending_job():
        pass
    problem = context.get("problem")
    if problem is not None:
        raise RuntimeError(_renumbered(str(problem)))
    return json.loads(context.get("answer"))[0]


def _renumbered(text: str) -> str:
    return re.sub(r"<input>:(\d+)", lambda match: f"<input>:{int(match[1]) - 1}", text)


def lines(text: str) -> list[tuple[int, str]]:
    """Each line's length in code points and the break that ends it."""
    found, at = [], 0
    for match in LINE_BREAKS.finditer(text):
        found.append((match.start() - at, match[0]))
        at = match.end()
    return [*found, (len(text) - at, "")]


# A TypeScript text and its JavaScript twin, written by hand side by side, so that what the one computes after stripping
# can be compared with what the other computes.
Twin = tuple[str, str]

_NAMES = ("a", "b", "c", "größe", "$d")


def _types() -> SearchStrategy[str]:
    simple = st.sampled_from(
        ["number", "any", "unknown", "T.U", "'lit'", "1", "null", "void", "typeof a", "[1, 2][number]"]
    )

    def wider(inner: SearchStrategy[str]) -> SearchStrategy[str]:
        return st.one_of(
            inner.map(lambda t: f"({t})[]"),
            inner.map(lambda t: f"Map<string, {t}>"),
            inner.map(lambda t: f"Array<Array<{t}>>"),
            inner.map(lambda t: f"{{ x: {t};\n  y?: {t} }}"),
            inner.map(lambda t: f"(x: {t}, ...y: any[]) => {t}"),
            inner.map(lambda t: f"[{t}, 'ü'?]"),
            st.tuples(inner, inner).map(lambda two: f"{two[0]} | {two[1]}"),
            st.tuples(inner, inner).map(lambda two: f"{two[0]} & {two[1]}"),
            simple.map(lambda t: f"`${{{t}}}-x`"),
        )

    return st.recursive(simple, wider, max_leaves=4)


TYPES = _types()


@st.composite
def _expression(draw: DrawFn, depth: int = 2) -> Twin:
    if depth == 0:
        one = draw(st.sampled_from([*_NAMES, "1", "2.5", "'s'", "[1, 2]", "Math.PI"]))
        return one, one
    (ts, js), (ts2, js2), kind = draw(_expression(depth - 1)), draw(_expression(depth - 1)), draw(TYPES)
    operator = draw(st.sampled_from(["+", "-", "*", "<", ">", "===", "&&", "||", "??", "|", "&", ">>"]))
    return draw(
        st.sampled_from(
            [
                (f"({ts} as {kind})", f"({js})"),
                (f"({ts} satisfies {kind})", f"({js})"),
                (f"(<{kind}>({ts}))", f"(({js}))"),
                (f"({ts})!", f"({js})"),
                (f"(({ts}) {operator} ({ts2}))", f"(({js}) {operator} ({js2}))"),
                (f"id<{kind}>({ts})", f"id({js})"),
                (f"new Box<{kind}>({ts}).value", f"new Box({js}).value"),
                (f"((p: {kind}, q?: {kind}) => p)({ts})", f"((p, q) => p)({js})"),
                (f"(<T,>(p: T) => p)({ts})", f"((p) => p)({js})"),
                (f"[{ts}, {ts2}]", f"[{js}, {js2}]"),
                (f"`${{{ts}}}é`", f"`${{{js}}}é`"),
                (f"({ts} ? {ts2} : ({ts}) as any)", f"({js} ? {js2} : ({js}))"),
            ]
        )
    )


@st.composite
def _statement(draw: DrawFn) -> Twin:
    (ts, js), kind = draw(_expression()), draw(TYPES)
    name, end = draw(st.sampled_from(_NAMES)), draw(st.sampled_from([";\n", ";", "\n"]))
    ts, js = draw(
        st.sampled_from(
            [
                (f"{name} = {ts}", f"{name} = {js}"),
                (f"{name} = {ts} as any", f"{name} = {js}"),
                (f"{{ let v: {kind} = {ts}; out.push(v) }}", f"{{ let v = {js}; out.push(v) }}"),
                (f"out.push({ts})", f"out.push({js})"),
                (f"type X{name} = {kind}", ""),
                (f"interface Y {{ m(): {kind} }}", ""),
                (f"declare const z: {kind}", ""),
                (";[1, 2].forEach((n: number) => out.push(n))", "; [1, 2].forEach((n) => out.push(n))"),
                (f";(out as any[]).push({ts})", f"; (out).push({js})"),
                (f"if ({ts}) {{ out.push(<any>1) }}", f"if ({js}) {{ out.push(1) }}"),
                (
                    f"{{ class A<T> {{ private p: {kind} = {ts}\n readonly ['q']?: T; get(): T {{ return this.p }} }}"
                    " out.push(new A<any>().get()) }",
                    f"{{ class A {{ p = {js}\n ; ['q']; get() {{ return this.p }} }} out.push(new A().get()) }}",
                ),
                (
                    f"{{ function f<T>(x: T, y?: {kind}): T\n function f(x: any) {{ return x }} out.push(f({ts})) }}",
                    f"{{ function f(x) {{ return x }} out.push(f({js})) }}",
                ),
            ]
        )
    )
    return ts + end, js + ";" + end


def programs() -> SearchStrategy[Twin]:
    """Whole programs that return what they gathered."""
    start = "let a: any = 1, b = 2, c = 0, größe = 3, $d = 'x';\nconst out: any[] = [];\n"
    start += "function id<T>(x: T): T { return x }\n"
    start += "class Box<T> { constructor(v: T) { this.value = v } value: T; }\n"
    start_js = "let a = 1, b = 2, c = 0, größe = 3, $d = 'x';\nconst out = [];\nfunction id(x) { return x }\n"
    start_js += "class Box { constructor(v) { this.value = v } value; }\n"
    end = "\nreturn [a, b, c, größe, $d, ...out].map(x => x === undefined ? 'undefined' : String(x))"

    def joined(parts: list[Twin]) -> Twin:
        return start + "".join(ts for ts, _ in parts) + end, start_js + "".join(js for _, js in parts) + end

    return st.lists(_statement(), min_size=1, max_size=5).map(joined)
