"""What inputs are made of, for the targets here and for your own: values, frames, manifests, bundles, programs.

Everything is a Hypothesis strategy: https://hypothesis.readthedocs.io
"""

import json
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from ptc.frames import frame

__all__ = [
    "bundles",
    "cases",
    "frames",
    "json_texts",
    "json_values",
    "manifests",
    "messages",
    "programs",
    "rows",
    "schemas",
    "tokens",
    "wire_values",
]

# Characters that have broken a bridge before: line ends of two kinds, half a surrogate pair, NUL, what JSON escapes.
TEXT = st.text(st.sampled_from('ab"\\/{}[]\n\r\t\0\u2028\u00e9\ufeff\ud800\U0001f600'), max_size=8)
KEYS = st.sampled_from(["a", "b", "__proto__", "constructor", "then", "toJSON", "length", "0", ""]) | TEXT
NUMBERS = (
    st.integers(-3, 3)
    | st.sampled_from([2**31, -(2**31), 2**53 - 1, -(2**53 - 1), 0.5, 1e21, 1e-7, 5e-324, 1.7976931348623157e308])
    | st.floats(allow_nan=False, allow_infinity=False).filter(
        lambda number: not (number == 0 and str(number)[0] == "-")
    )
)


def json_values(max_leaves: int = 12) -> SearchStrategy[Any]:
    """JSON values: every kind, odd keys, odd texts, odd numbers."""
    return st.recursive(
        st.none() | st.booleans() | NUMBERS | TEXT,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
        max_leaves=max_leaves,
    )


def wire_values(max_leaves: int = 12) -> SearchStrategy[Any]:
    """Values the wire carries: JSON, and whole numbers of any size, which are BigInts in a program."""
    return st.recursive(
        st.none() | st.booleans() | NUMBERS | TEXT | st.integers(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
        max_leaves=max_leaves,
    )


def tokens() -> SearchStrategy[list[Any]]:
    """Arrays that look like values on the wire, and often are none."""
    marker = (
        st.builds(lambda n: {"kind": "array", "length": n}, st.integers(-1, 4) | json_values(2))
        | st.builds(lambda keys: {"kind": "object", "keys": keys}, st.lists(KEYS, max_size=3) | json_values(2))
        | st.builds(lambda digits: {"kind": "bigint", "digits": digits}, st.from_regex(r"-?[0-9]{1,20}") | TEXT)
    )
    return st.lists(marker | json_values(3), max_size=8)


def json_texts() -> SearchStrategy[str]:
    """JSON text, now and then broken in one place."""

    @st.composite
    def made(draw: DrawFn) -> str:
        text = json.dumps(draw(json_values()))
        if draw(st.booleans()):
            at = draw(st.integers(0, len(text)))
            text = (
                text[:at] + draw(st.sampled_from(['"', ",", "{", "]", "1e999", "NaN", "//", "\n", ""])) + text[at + 1 :]
            )
        return text

    return made()


def messages() -> SearchStrategy[Any]:
    """Messages of a program's process: often valid, sometimes nearly, sometimes nonsense."""
    fields: dict[str, dict[str, SearchStrategy[Any]]] = {
        "call": {
            "id": st.integers(1, 4) | json_values(1),
            "global": st.sampled_from(["tools", "more", "__proto__"]),
            "name": st.sampled_from(["echo", "search", "toString"]),
            "args": st.just([1]) | tokens(),
        },
        "log": {"text": TEXT, "level": st.sampled_from(["log", "warn", "trace"]), "cut": st.integers(-1, 3)},
        "done": {
            "value": tokens(),
            "error": st.fixed_dictionaries(
                {"kind": st.sampled_from(["exception", "stuck", "timeout"]), "message": TEXT}
            ),
            "cpuMs": NUMBERS,
        },
        "ready": {"wire": st.integers(0, 2)},
        "output-limit": {"message": TEXT},
    }

    @st.composite
    def made(draw: DrawFn) -> Any:
        kind = draw(st.sampled_from([*fields, "call", "odd"]))
        if kind == "odd":
            return draw(json_values(4))
        message: dict[str, Any] = {"type": kind}
        for name, strategy in fields[kind].items():
            if draw(st.integers(0, 5)):
                message[name] = draw(strategy)
        if draw(st.integers(0, 9)) == 0:
            message[draw(KEYS)] = draw(json_values(2))
        return message

    return made()


def frames() -> SearchStrategy[bytes]:
    """Bytes of a channel: frames with messages, raw JSON in frames, torn frames, noise."""
    sound = messages().map(lambda message: frame(json.dumps(message)))
    raw = json_texts().map(lambda text: frame(text.encode("utf-8", "surrogatepass")))
    return st.lists(sound | raw | st.binary(max_size=12), max_size=8).map(b"".join)


def schemas() -> SearchStrategy[Any]:
    """JSON Schemas, valid and not, with references that lead nowhere or in a circle."""
    leaf = st.sampled_from(
        [
            True, False, {}, {"type": "string"}, {"type": "integer"}, {"type": ["string", "null"]}, {"type": "strange"},
            {"enum": ["a", 1, None]}, {"const": {"a": [1]}}, {"$ref": "#"}, {"$ref": "#/$defs/a"},
            {"$ref": "#/nowhere"}, {"$ref": "http://elsewhere/x"}, {"pattern": "^(a+)+$"}, {"minimum": 1},
            {"format": "date"},
        ]
    )  # fmt: skip

    def deeper(inner: SearchStrategy[Any]) -> SearchStrategy[Any]:
        named = st.dictionaries(KEYS, inner, max_size=3)
        return st.fixed_dictionaries(
            {},
            optional={
                "type": st.sampled_from(["object", "array", "string"]),
                "properties": named,
                "patternProperties": named,
                "additionalProperties": inner,
                "required": st.lists(KEYS, max_size=2),
                "items": inner,
                "prefixItems": st.lists(inner, max_size=2),
                "anyOf": st.lists(inner, max_size=3),
                "oneOf": st.lists(inner, max_size=2),
                "allOf": st.lists(inner, max_size=2),
                "not": inner,
                "if": inner,
                "then": inner,
                "$defs": named,
                "description": TEXT,
                "default": json_values(2),
                "uniqueItems": st.booleans(),
            },
        )

    return st.recursive(leaf, deeper, max_leaves=8) | json_values(4)


def manifests() -> SearchStrategy[Any]:
    """Manifests as JSON values: mostly right, with parts of any kind."""
    part = json_values(4)
    return st.fixed_dictionaries(
        {"name": st.sampled_from(["a", "a-b", "A b", ""]) | TEXT, "purpose": st.just("Fuzz.") | TEXT},
        optional={
            "input": schemas(),
            "output": schemas(),
            "whitelist": st.lists(st.sampled_from(["echo", "fail", " echo ", ""]) | TEXT, max_size=3) | part,
            "guards": st.lists(
                st.fixed_dictionaries(
                    {"kind": st.sampled_from(["file", "tool", "judgement", "odd"]), "because": TEXT},
                    optional={"file": TEXT, "tool": TEXT, "prompt": TEXT},
                ),
                max_size=2,
            )
            | part,
            "fuel": st.dictionaries(
                st.sampled_from(["steps", "tokens", "wall", "compute", "memory", "output", "odd"]),
                NUMBERS | st.sampled_from(["1s", "64MiB", "-1s", "1e9h", "1s1s"]),
                max_size=3,
            )
            | part,
            "engine": st.sampled_from(["quickjs", "v8", "other"]),
            "deadline_floor": st.sampled_from(["15m", 1, -1, "x"]) | NUMBERS,
            "x-more": part,
        },
    ) | json_values(6)


# What a value is, in a way that no engine is free to choose.
_STRUCTURE = "const structure = (v) => [typeof v, Array.isArray(v), v === null, Object(v) === v && Object.keys(v)];"

_OF_ONE_ENGINE = [
    "Date.now()",
    "performance.now()",
    "new Date(2020, 1, 30, 12).toString()",
    "(1234.5).toLocaleString()",
    "new Date(0).toLocaleString()",
    "'a'.localeCompare('B')",
]


def programs(sync: bool = False, own_words: bool = True) -> SearchStrategy[str]:
    """JavaScript programs: doors, promises, getters, proxies, patched intrinsics, loops that end, errors.

    They are async unless `sync`. With `own_words` they ask for the time, and for texts that engines are free to choose.
    The doors they use are `tool` (of `echo` and `fail`), `remember`, `recall` and `log`; none waits for more than that,
    so each comes to its end.
    """
    wait = "" if sync else "await "
    names = st.sampled_from(["a", "b", "c"])
    literals = st.sampled_from(
        ["1", "-1", "0.5", "1e21", '"x"', '"\\ud800"', "true", "null", "[1, [2]]", '({ k: 1, "__proto__": 2 })',
         "undefined", "10n", "(() => 1)", "Symbol('s')", "new Map([[1, 2]])", "NaN", "-0"]
    )  # fmt: skip

    def deeper(inner: SearchStrategy[str]) -> SearchStrategy[str]:
        return st.one_of(
            st.builds("[{}, {}]".format, inner, inner),
            st.builds("({{ a: {}, b: {} }})".format, inner, inner),
            st.builds(f"{wait}tool('echo', {{{{ v: {{}} }}}})".format, inner),
            st.builds(f"{wait}tool('fail', {{{{ v: {{}} }}}}).v".format, inner),
            st.builds("({} + {})".format, inner, inner),
            st.builds("typeof ({})".format, inner),
            st.builds("JSON.stringify({})".format, inner),
            st.builds("[{}].map((x) => [x, 1])".format, inner),
            st.builds("({{ get a() {{ return {} }} }}).a".format, literals),
            st.builds("new Proxy({{ a: {} }}, {{ get: (o, k) => o[k] }}).a".format, inner),
            st.builds('Object.assign({{}}, JSON.parse(\'{{"__proto__": {{"p": 1}}}}\'), {{ a: {} }})'.format, inner),
            st.builds("(({{ x = {}, ...rest }}) => [x, rest])({{ y: {} }})".format, inner, inner),
            st.builds("[...(function* () {{ yield {}; yield {}; }})()]".format, literals, names),
            st.builds("new (class {{ #p = {}; get p() {{ return this.#p; }} }})().p".format, literals),
            st.builds("({})?.a".format, inner),
            st.builds("Array.from({{ length: 2, 0: {} }})".format, inner),
            st.builds("Object.entries(Object({}))".format, inner),
            st.builds("structure({})".format, inner),
            st.sampled_from(
                [
                    *(_OF_ONE_ENGINE if own_words else []),
                    "new Date(0).toISOString()",
                    "Math.random()",
                    "Object.keys(globalThis)",
                    "Reflect.ownKeys(tool)",
                    "tool.name",
                    "(0, eval)('typeof tool')",
                    "new Function('return typeof this')()",
                    "'x'.repeat(5000)",
                    "(1.005).toFixed(2)",
                    "[3, 1, 2].sort()",
                    "'\u0130'.toLowerCase()",
                    "new Date(2020, 1, 30, 12).toISOString()",
                    "'a-b'.split(/(-)/)",
                ]
            ),
            *([] if sync else asynchronous(inner)),
        )

    def asynchronous(inner: SearchStrategy[str]) -> list[SearchStrategy[str]]:
        many = st.sampled_from(["all", "allSettled", "race", "any"])
        return [
            st.builds("(await Promise.{}([tool('echo', {{ v: {} }}), {}]))".format, many, inner, inner),
            st.builds("(await {{ then(f, r) {{ f({}); f(2); r(3); }} }})".format, inner),
            st.builds("(await (async () => {{ throw {}; }})().catch((e) => [typeof e]))".format, inner),
            st.builds("(await tool('fail', {{ v: {} }}).catch((e) => e.message))".format, inner),
            st.builds("(await tool('echo', {{ get v() {{ log('read'); return {}; }} }}))".format, literals),
            st.builds(
                "(await tool('echo', new Proxy({{ v: {} }}, {{ ownKeys: (o) => Reflect.ownKeys(o) }})))".format, inner
            ),
            st.builds("(await tool(['echo', 'fail', 'none', {}][2], {{}}).catch((e) => 'refused'))".format, inner),
        ]

    values = st.recursive(literals | names, deeper, max_leaves=5)
    simple = st.one_of(
        st.builds("{} = {};".format, names, values),
        st.builds(f"{wait}log(String({{}}));".format, values),
        st.builds(f"{wait}remember(String({{}}));".format, values),
        st.builds(f"a = ({wait}recall('x')).length + String({{}}).length;".format, names),
        st.builds("console.log({}, {});".format, values, names),
        st.builds("if (!({})) throw new Error('made');".format, values),
        st.sampled_from(
            [
                "Array.prototype.map = () => 'patched';",
                "JSON.stringify = () => 'patched';",
                "Object.prototype.toJSON = () => 'patched';",
                "Promise.prototype.then = undefined;",
                "globalThis.tool2 = tool;",
                "delete globalThis.JSON;",
                "Object.defineProperty(Object.prototype, 'kind', { get() { return 'bigint' }, configurable: true });",
                "Symbol.prototype[Symbol.toPrimitive] = () => 1;",
                "Array.prototype[Symbol.iterator] = function* () { yield 'patched'; };",
                "Object.prototype.then = function (f) { f('patched'); };",
                "Object.prototype[0] = 'patched';",
                "Object.defineProperty(Object.prototype, 'v', { set() {}, get() { return 7; }, configurable: true });",
                "globalThis.Promise = class extends Promise {};",
                "Promise.prototype.constructor = function () { throw 1; };",
                "Function.prototype.call = Function.prototype.apply = undefined;",
                "Error.prototype.toString = () => { throw 2; };",
                "Date.now = () => 5;",
                "Math.random = 1;",
                "RegExp.prototype.exec = () => null;",
                "const cycle = {}; cycle.self = cycle; try { a = JSON.stringify(cycle); } catch (e) { a = e.name; }",
                "class Odd extends Error { get message() { return 'got'; } } c = new Odd().message;",
                "const dropped = tool('echo', { v: 9 });" if not sync else "tool('echo', { v: 9 });",
            ]
        ).map(lambda text: f"{{ {text} }}"),
    )

    def blocks(inner: SearchStrategy[str]) -> SearchStrategy[str]:
        body = st.lists(inner, min_size=1, max_size=3).map(" ".join)
        return st.one_of(
            st.builds("try {{ {} }} catch (e) {{ a = e instanceof Error ? e.name : 'other'; }}".format, body),
            st.builds("for (let i = 0; i < 3; i++) {{ {} }}".format, body),
            st.builds("if ({}) {{ {} }} else {{ {} }}".format, values, body, body),
            st.builds("try {{ {} }} finally {{ b = 1; }}".format, body),
        )

    statements = st.recursive(simple, blocks, max_leaves=5)
    head = "function run(input) {" if sync else "async function run(input) {"
    return st.builds(
        lambda lines, result: (
            "\n  ".join([head, "let a = 1, b = input, c = 'c';", _STRUCTURE, *lines, f"return {result};"]) + "\n}\n"
        ),
        st.lists(statements, max_size=5),
        values,
    )


def bundles() -> SearchStrategy[dict[str, bytes]]:
    """The files of a bundle's directory: path → contents; mostly the right names, with contents of any kind."""
    text = st.one_of(programs(), programs(sync=True), json_texts(), TEXT).map(
        lambda text: text.encode("utf-8", "replace")
    )
    contents = text | st.binary(max_size=40)
    path = st.sampled_from(
        ["program.js", "program.ts", "prompts/p.md", "prompts/P.md", "prompts/deep/q.md", "memory.md", "evals/e.json",
         "x.txt", "prompts/\u00e9.md", "evals/e.jsonl"]
    )  # fmt: skip
    manifest = manifests().map(lambda value: json.dumps(value).encode()) | contents
    return st.builds(
        lambda files, manifest, program: {"manifest.json": manifest, "program.js": program, **files},
        st.dictionaries(path, contents, max_size=4),
        manifest,
        contents,
    )


def cases() -> SearchStrategy[str]:
    """Texts of eval cases: mostly right, with parts of any kind."""
    call = st.fixed_dictionaries(
        {"door": st.sampled_from(["ai", "tool", "ask", "log", "odd"])},
        optional={"ref": TEXT, "input": json_values(3), "output": json_values(3), "error": TEXT, "times": NUMBERS},
    )
    case = st.fixed_dictionaries(
        {},
        optional={
            "input": json_values(4),
            "script": st.lists(call | json_values(2), max_size=3),
            "cassette": TEXT,
            "memory": st.lists(TEXT, max_size=2),
            "files": st.dictionaries(TEXT, TEXT, max_size=2),
            "expect": st.dictionaries(
                st.sampled_from(["status", "reason", "output", "output_contains", "calls", "report", "odd"]),
                json_values(3),
                max_size=3,
            ),
            "x": json_values(2),
        },
    )
    return case.map(json.dumps) | json_texts()


def rows(columns: tuple[str, ...]) -> SearchStrategy[dict[str, Any]]:
    """A row of a database as read back: any value in any of these columns."""
    value = (
        st.none() | st.integers(-1, 3) | st.floats() | TEXT | json_texts() | st.binary(max_size=4)
        | st.sampled_from(["ok", "open", "tool", "ai", "sync", "2026-01-31T12:00:00Z", "a" * 64, "finished"])
    )  # fmt: skip
    return st.fixed_dictionaries(dict.fromkeys(columns, value))
