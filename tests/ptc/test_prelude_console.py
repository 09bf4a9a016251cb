"""The console: levels, formats, bounds, and values that resist being printed."""

import time

import pytest

from tests.ptc.prelude_harness import Guest, logs_of, run, value_of


def printed(expression: str) -> str:
    """What `console.log(expression)` logs."""
    entries = logs_of(run(f"console.log({expression})"))
    assert len(entries) == 1
    return entries[0]


def test_each_method_makes_one_entry_with_its_level() -> None:
    """PTC-098 also with no argument, detached, and through the parameter or the global."""
    code = """
      for (const level of ['log', 'info', 'warn', 'error', 'debug']) console[level](level, 1);
      const { warn } = console; warn();
      globalThis.console.log.call(null, 'x');
      return [Object.keys(console), Object.getPrototypeOf(console), Object.isFrozen(console),
        console === globalThis.console]
    """
    guest = run(code)
    entries = [(frame["text"], frame.get("level", "log")) for frame in guest.sent[:-1]]
    levels = ["log", "info", "warn", "error", "debug"]
    assert entries == [*((f"{level} 1", level) for level in levels), ("", "warn"), ("x", "log")]
    assert value_of(guest) == [levels, None, True, True]


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("'a b', 'c\\n\"d\"'", 'a b c\n"d"'),
        ("'%s %d %%', 'x', 5", "%s %d %% x 5"),
        ("{a: 1, 'b c': 'x'}", '{a: 1, "b c": "x"}'),
        ("[1, 2], [], {}", "[1, 2] [] {}"),
        ("new Map([['k', 1]]), new Map", 'Map(1) {"k" => 1} Map(0) {}'),
        ("new Set([1, 'a'])", 'Set(2) {1, "a"}'),
        ("2n, -0, 0, NaN, Infinity, 1e21, 0.1", "2n -0 0 NaN Infinity 1e+21 0.1"),
        ("Symbol('s'), Symbol(), Symbol.iterator", "Symbol(s) Symbol() Symbol(Symbol.iterator)"),
        ("function f() {}, () => 0, class A {}, tools.echo", "[Function f] [Function] [Function A] [Function echo]"),
        ("null, undefined, true, [null, undefined]", "null undefined true [null, undefined]"),
        ("new (class Point { x = 1 })", "Point {x: 1}"),
        ("new (class extends Map {}), new (class Bag extends Set {})([1])", "Map(0) {} Bag(1) {1}"),
        ("new (class Stack extends Array {})(3)", "Stack(3) [empty, empty, empty]"),
        ("Object.create(null), Object.create({a: 1})", "{} Object {}"),
        ("new Date(0), new Date(NaN)", "1970-01-01T00:00:00.000Z Invalid Date"),
        ("/a\\/b/giu", "/a\\/b/giu"),
        ("new Uint8Array([1, 2]), new Float64Array(1)", "Uint8Array(2) [1, 2] Float64Array(1) [0]"),
        ("new BigInt64Array(1)", "BigInt64Array(1) [0n]"),
        ("new ArrayBuffer(8), new DataView(new ArrayBuffer(1))", "ArrayBuffer(8) DataView {}"),
        ("new WeakMap, new WeakSet, Promise.resolve(1)", "WeakMap {} WeakSet {} Promise {}"),
        ("Object(5), Object('x'), Object(true), Object(1n)", '[Number 5] [String "x"] [Boolean true] [BigInt 1n]'),
        ("[1,,3]", "[1, empty, 3]"),
        ("{[Symbol('k')]: 1, a: 2}", "{a: 2, [Symbol(k)]: 1}"),
        ("Object.defineProperty({a: 1}, 'hidden', {value: 2})", "{a: 1}"),
        ("{get a() { throw 1 }, set b(v) {}}", "{a: [Getter], b: [Setter]}"),
        ("{'': 0, '__proto__x': 1, 'a-b': 2, $: 3, '1': 4}", '{"1": 4, "": 0, __proto__x: 1, "a-b": 2, $: 3}'),
        ("[[[[[1]]]]], [[[[{}]]]], [[[[1]]]]", "[[[[[Array]]]]] [[[[[Object]]]]] [[[[1]]]]"),
        ("{a: {b: {c: {d: {e: 1}}}}}", "{a: {b: {c: {d: [Object]}}}}"),
        ("[[[[new Map, new Set, new (class Deep {}), new Date(0), 'x']]]]",
         '[[[[[Map], [Set], [Deep], 1970-01-01T00:00:00.000Z, "x"]]]]'),
        ("Array.from({length: 105}, (_, i) => i)", "[" + ", ".join(map(str, range(100))) + ", … 5 more]"),
        ("new Set(Array.from({length: 102}, (_, i) => i))",
         "Set(102) {" + ", ".join(map(str, range(100))) + ", … 2 more}"),
        ("[new Error('m')].map(e => Object.assign(e, {stack: 1}))[0].message", "m"),
        ("new Uint8Array(2).fill(7).map(x => x), globalThis === 1", "Uint8Array(2) [7, 7] false"),
    ],
)  # fmt: skip
def test_formats(expression: str, text: str) -> None:
    """PTC-098 source-like text, one line of the table each."""
    assert printed(expression) == text


def test_errors_print_name_message_and_program_frames() -> None:
    """PTC-098 no frame of ours, at any depth."""
    guest = run("function f() { return new TypeError('m') }\nconsole.log('e:', f(), {e: f()})")
    frames = "    at f (program.js:1:38)\n    at program.js:2:{}"
    first, second = frames.format(20), frames.format(28)
    text = logs_of(guest)[0]
    assert text.startswith("e: TypeError: m\n    at f (program.js:1:")
    assert "{e: TypeError: m\n    at f (program.js:1:" in text
    assert text.count("program.js:2:") == 2, (first, second)
    assert "input" not in text


def test_shared_values_and_cycles() -> None:
    """PTC-099 a cycle is named, a value that is only shared is printed again."""
    assert (
        printed("(() => { const o = {n: 1}; o.o = o; o.l = [o]; return o })()")
        == "{n: 1, o: [Circular], l: [[Circular]]}"
    )
    assert printed("(() => { const s = {n: 1}; return [s, s] })()") == "[{n: 1}, {n: 1}]"
    assert printed("(() => { const m = new Map; m.set(m, 1); return m })()") == "Map(1) {[Circular] => 1}"


def test_hostile_values_make_one_bounded_entry() -> None:
    """PTC-099 no getter runs; a Proxy that throws is unprintable and the other arguments stay."""
    code = """
      let ran = 0;
      const count = () => { ran++; throw new Error('ran') };
      const o = {get a() { count() }, b: {get c() { return count() }}};
      const e = new Error('m');
      Object.defineProperty(e, 'message', {get: count}); Object.defineProperty(e, 'name', {get: count});
      class K { static get name() { return count() } }
      console.log(o, e, new K, {toString: count, [Symbol.toPrimitive]: count, toJSON: count, inspect: count});
      console.log(Object.create({get constructor() { return count() }}), {[Symbol.toStringTag]: 1});
      console.log('before', new Proxy({}, {ownKeys() { throw 1 }}), 'after');
      const {proxy, revoke} = Proxy.revocable({}, {}); revoke();
      console.log(proxy, [proxy], new Proxy([1], {}), new Proxy(function f() {}, {}));
      console.log(Array(1e6).fill(7), new Array(4294967295));
      let deep = 1; for (let i = 0; i < 20; i++) deep = {deep};
      console.log(deep);
      return ran
    """
    guest = run(code)
    logs = logs_of(guest)
    assert len(logs) == 6
    assert value_of(guest) == 0
    assert logs[0].startswith("{a: [Getter], b: {c: [Getter]}} Error\n    at program.js:")
    assert logs[0].endswith("toPrimitive)]: [Function count]}") or "[Function count]" in logs[0]
    assert logs[1] == "Object {} {[Symbol(Symbol.toStringTag)]: 1}"
    assert logs[2] == "before [unprintable] after"
    assert logs[3] == "[unprintable] [unprintable] [1] [Function f]"
    assert "… 999900 more] [empty, empty" in logs[4]
    assert logs[5] == "{deep: {deep: {deep: {deep: [Object]}}}}"


def test_wide_values_are_bounded_in_time_and_size() -> None:
    """PTC-099 a hundred to the fourth items end with the room of the entry."""
    code = """
      let wide = 'x'.repeat(9000); for (let i = 0; i < 4; i++) wide = Array(100).fill(wide);
      console.log(wide);
      console.log(Array(200).fill('y'.repeat(20000)));
      const many = {}; for (let i = 0; i < 1e5; i++) many['k' + i] = i;
      console.log(many, new Map(Object.entries(many)));
    """
    began = time.perf_counter()
    logs = logs_of(run(code))
    assert time.perf_counter() - began < 20
    assert len(logs) == 3
    assert all(len(text) < 65_536 + 40 for text in logs)
    assert "… 99900 more}" in logs[2]


def test_inner_strings_are_cut() -> None:
    """PTC-099 10,000 characters of a string inside a value; a string of its own is whole."""
    assert printed("['x'.repeat(10001)]") == '["' + "x" * 10_000 + '… [+1 characters]"]'
    assert printed("'x'.repeat(10001)") == "x" * 10_001


def test_a_long_entry_keeps_its_head_and_says_what_is_missing() -> None:
    """PTC-100 mark, `cut`, whole code points, and the run goes on."""
    guest = run("console.log('x'.repeat(30)); console.log('😀'.repeat(10)); return 1", maxLogChars=11)
    first, second = guest.sent[0], guest.sent[1]
    assert first == {"type": "log", "text": "x" * 11 + "… [+19 characters]", "cut": 19}
    assert second == {"type": "log", "text": "😀" * 5 + "… [+10 characters]", "cut": 10}
    assert value_of(guest) == 1
    guest = run("console.warn('x'.repeat(1e6)); return 1")
    assert guest.sent[0]["cut"] == 1_000_000 - 65_536
    assert guest.sent[0]["level"] == "warn"
    assert value_of(guest) == 1


def test_an_entry_fits_a_frame() -> None:
    """PTC-100 however small the largest frame is."""
    guest = run("console.log('é'.repeat(500)); console.log('\\x00'.repeat(500)); return 1", maxMessageBytes=256)
    assert all(len(text) <= 256 for text in guest.texts)
    assert len(guest.sent) == 3
    for frame in guest.sent[:2]:
        head = frame["text"].index("…")
        assert head > 15
        assert frame["cut"] == 500 - head


def test_printing_at_the_end_of_the_stack() -> None:
    """PTC-106 a console call with no stack left throws a RangeError or prints, and later ones work."""
    code = "function f() { console.log([{}]); f() } try { f() } catch (e) { console.log(e instanceof RangeError) }"
    guest = run(code + " return 1")
    assert logs_of(guest)[-1] == "true"
    assert value_of(guest) == 1


def test_setup_cannot_log() -> None:
    """Entries belong to runs: nothing is sent while the image is made."""
    guest = Guest()
    guest.load("return 1", setup="console.log('x')")
    assert guest.sent == []
