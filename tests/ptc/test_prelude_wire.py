"""Values crossing inside the engine: the JavaScript half of the wire codec."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptc import frames, wire
from ptc.wire import Json
from tests.ptc.prelude_harness import Ended, Guest, error_of, run, tools, value_of

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parent / "golden_wire.json").read_text("utf-8"))

texts = st.text(st.characters(codec=None, categories=None, min_codepoint=0, max_codepoint=0x10FFFF), max_size=12)
numbers = st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: repr(x) != "-0.0")
scalars = st.none() | st.booleans() | st.integers() | numbers | texts
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4), max_leaves=20
)


def refusal_of(expression: str, **options: Any) -> str:
    """The text with which `return expression` is refused."""
    # Synchronous, because an async function looks for `then` on what it returns before we see it.
    error = error_of(run(f"return {expression}", form="sync", **options))
    assert error["kind"] == "invalid-output"
    message: str = error["message"]
    return message


@pytest.mark.parametrize("row", GOLDEN["values"], ids=lambda row: row["js"][:40])
def test_a_value_encodes_to_the_golden_tokens(row: dict[str, Any]) -> None:
    """PTC-001 as completion and as argument, with the size the ledger counts; PTC-111 to the byte."""
    guest = run(f"const v = {row['js']}; tools.echo(v); return v")
    assert guest.texts[0].endswith(f'"args":{row["wire"]}}}')
    assert guest.texts[1].endswith(f'"value":{row["wire"]}}}')
    limit = 2 + row["size"]
    assert run(f"return {row['js']}", max_output=limit).sent[-1]["type"] == "done"
    assert run(f"return {row['js']}", max_output=limit - 1).sent[-1]["type"] == "output-limit"


@pytest.mark.parametrize("row", GOLDEN["values"], ids=lambda row: row["js"][:40])
def test_golden_tokens_decode_to_the_value(row: dict[str, Any]) -> None:
    """PTC-001 tokens sent to the program and back give the same tokens, or the ones named as `again`."""
    guest = Guest()
    assert guest.load("return await tools.echo(input)", input_name="input") == {}
    value = wire.decode(frames.loads(row["wire"].encode()))
    guest.boot(input=value)
    guest.answer = tools
    guest.drive()
    assert guest.texts[-1].endswith(f'"value":{row.get("again", row["wire"])}}}')


@pytest.mark.parametrize("row", GOLDEN["python"], ids=lambda row: row["python"][:40])
def test_a_python_value_arrives_as_the_golden_javascript(row: dict[str, Any]) -> None:
    """PTC-001 PTC-010 PTC-011 the program compares what it got with the expression of the table."""
    guest = Guest()
    assert guest.load(f"const same = {SAME}; return same(input, {row['js']})", input_name="input") == {}
    text = json.dumps({"type": "boot", "data": {"maxOutputBytes": 1000}, "limits": {}})
    guest.call("boot", f'{text[:-1]},"input":{row["wire"]}}}')
    guest.drive()
    assert value_of(guest) is True


SAME = """(a, b) => typeof a === 'object' && a !== null
  ? Array.isArray(a) === Array.isArray(b) && Object.keys(a).length === Object.keys(b).length
    && Object.keys(a).every(k => same(a[k], b[k]))
  : Object.is(a, b)"""


@pytest.mark.parametrize("row", GOLDEN["refused_js"], ids=lambda row: row["js"][:40])
def test_a_value_is_refused_with_its_path(row: dict[str, Any]) -> None:
    """PTC-004 PTC-005 PTC-006 PTC-015 the texts of the table, as completion and as argument."""
    expected: str = row["text"].removeprefix(row["root"])
    if row["js"] not in ("undefined", "Promise.resolve(1)"):  # as completions: no value, and awaited
        assert refusal_of(row["js"]) == "value" + expected
    guest = run(f"try {{ await tools.echo({row['js']}) }} catch (e) {{ return e.message }}")
    # A longer root moves the cut of a path.
    assert value_of(guest) == "args" + expected or "…" in expected
    assert guest.open_calls() == []


def test_pollution_and_key_order() -> None:
    """PTC-002 order survives both ways; `__proto__` and `constructor` are ordinary own keys."""
    value: dict[str, Json] = {
        "z": 1,
        "__proto__": {"p": 1},
        "a": [3, 1, 2],
        "constructor": {"prototype": {"q": 1}},
        "": 0,
    }
    code = """
      const got = await tools.echo(input);
      const own = Object.getOwnPropertyDescriptor(got, '__proto__');
      return [got, Object.keys(got), own.value, own.enumerable && own.writable && own.configurable,
        typeof ({}).p + typeof ({}).q, Object.getPrototypeOf(got) === Object.prototype]
    """
    got = value_of(run(code, input=value, input_name="input"))
    assert got == [value, list(value), {"p": 1}, True, "undefinedundefined", True]
    assert list(got[0]) == list(value)


def test_depth_has_no_limit() -> None:
    """PTC-003 100,000 levels of arrays and objects cross both ways and are measured; 5,000 arrays are 5,001 tokens."""
    arrays = "let v = 1; for (let i = 0; i < 5000; i++) v = [v]; return v"
    assert len(run(arrays).sent[-1]["value"]) == 5001
    deep: Json = 1
    for i in range(100_000):
        deep = [deep] if i % 2 else {"k": deep}
    guest = run("tools.echo(input); return input", input=deep, input_name="input")
    assert guest.sent[0]["args"] == guest.sent[1]["value"]
    assert len(guest.sent[1]["value"]) == 100_001
    size = 2 + 100_000 * 2 + 50_000 * 4 + 1
    for limit, ending in ((size, "done"), (size - 1, "output-limit")):
        assert run("return input", input=deep, input_name="input", max_output=limit).sent[-1]["type"] == ending
    path = refusal_of("(() => { let v = undefined; for (let i = 0; i < 100000; i++) v = [v]; return v })()")
    assert path == "value" + "[0]" * 25 + "…" + ("[0]" * 40)[-119:] + ": undefined is not JSON"


def test_custom_prototypes_keep_their_kind() -> None:
    """PTC-005 a Date, Map or typed array under another prototype is still refused by its own name."""
    for made, name in (
        ("new Date", "Date"),
        ("new Map", "Map"),
        ("new Uint8Array(2)", "Uint8Array"),
        ("/x/", "RegExp"),
    ):
        assert refusal_of(f"Object.setPrototypeOf({made}, class A {{}}.prototype)") == f"value: {name} is not JSON"
    named = "Object.assign(new (class Date {}), {})"
    assert refusal_of(named) == "value: class instance is not JSON"
    assert refusal_of("[new (class P extends Promise {})(() => 0)]") == "value[0]: Promise is not JSON; await it first"
    tagged = "new (class { get [Symbol.toStringTag]() { return 'Map' } })"
    assert refusal_of(tagged) == "value: class instance is not JSON"


def test_arrays_that_are_not_plain() -> None:
    """PTC-006 holes, extra, hidden and symbol properties, other prototypes."""
    assert refusal_of("[,]") == "value: sparse array is not JSON"
    assert refusal_of("new Array(4294967295)") == "value: sparse array is not JSON"
    assert refusal_of("Object.assign([1,,3], {x: 1})") == "value: sparse array is not JSON"
    assert refusal_of("Object.assign([1], {[Symbol('s')]: 1})") == "value: symbol key"
    assert refusal_of("Object.setPrototypeOf([1], null)") == "value: class instance is not JSON"
    assert refusal_of("Object.assign([], {'-1': 1})") == 'value: extra property "-1" on an array'
    assert refusal_of("({a: Object.defineProperty({}, Symbol('s'), {value: 1})})") == "value.a: symbol key"
    holes = "Array.prototype[1] = 'inherited'; return [1,,3]"
    assert error_of(run(holes))["message"] == "value: sparse array is not JSON"


def test_shared_references_and_the_token_budget() -> None:
    """PTC-007 copies are independent; a structure that doubles 64 times meets the budget in time."""
    code = "const s = {n: 1}; const r = await tools.echo([s, s]); r[0].n = 2; return r"
    assert value_of(run(code)) == [{"n": 2}, {"n": 1}]
    started = time.perf_counter()
    refused = refusal_of("(() => { let v = [1]; for (let i = 0; i < 64; i++) v = [v, v]; return v })()")
    assert time.perf_counter() - started < 10
    assert refused.endswith(": more than 1000000 tokens")
    assert refusal_of("[1, 2, 3]", maxValueTokens=3) == "value[2]: more than 3 tokens"
    assert refusal_of("[1, 2, undefined]", maxValueTokens=3) == "value[2]: more than 3 tokens"
    assert refusal_of("[1, undefined, 3]", maxValueTokens=3) == "value[1]: undefined is not JSON"
    assert refusal_of("[1, , 3, 4, 5]", maxValueTokens=3) == "value: sparse array is not JSON"
    assert value_of(run("return [1, 2]", maxValueTokens=3)) == [1, 2]


def test_getters_and_proxies_are_read_once_and_guarded() -> None:
    """PTC-008 one read a slot; what throws, lies or shrinks refuses that value only."""
    code = "let n = 0; const v = {get a() { return ++n }}; const r = await tools.echo(v); return [r, n]"
    assert value_of(run(code)) == [{"a": 1}, 1]
    assert refusal_of("new Proxy({}, {ownKeys() { throw new Error('no') }})") == "value: getter failed: no"
    assert refusal_of("new Proxy([], {getPrototypeOf() { throw 'x' }})") == "value: getter failed: x"
    assert refusal_of("new Proxy({a: 1}, {get() { throw null }})") == "value.a: getter failed: null"
    revoked = "(() => { const {proxy, revoke} = Proxy.revocable({}, {}); revoke(); return [proxy] })()"
    assert refusal_of(revoked).startswith("value[0]: getter failed: ")
    shrinking = "(() => { const a = [0, 1, 2]; Object.defineProperty(a, 0, {get() { a.length = 1; return 0 }, "
    shrinking += "enumerable: true, configurable: true}); return a })()"
    assert refusal_of(shrinking) == "value[1]: undefined is not JSON"
    assert refusal_of("({get a() { throw {get message() { throw 1 }} }})") == (
        "value.a: getter failed: {message: [Getter]}"
    )
    assert value_of(run("return new Proxy({a: [1]}, {})")) == {"a": [1]}
    endless = "new Proxy({}, {ownKeys: () => ['a'], get: (t, k, r) => r, getOwnPropertyDescriptor: () => "
    endless += "({value: 1, enumerable: true, configurable: true})})"
    assert refusal_of(endless) == "value.a: cycle"
    deepening = (
        "(function make() { return new Proxy({}, {ownKeys: () => ['a'], get: make, getOwnPropertyDescriptor: () => "
    )
    deepening += "({value: 1, enumerable: true, configurable: true})}) })()"
    assert refusal_of(deepening, maxValueTokens=1000).endswith(": more than 1000 tokens")
    long_array = "new Proxy([], {get: (t, k) => k === 'length' ? 4294967295 : 1})"
    assert refusal_of(long_array, maxValueTokens=1000) == "value: sparse array is not JSON"


def test_a_getter_may_call_the_host() -> None:
    """PTC-008 a call made while another argument is read keeps both intact."""
    code = "const v = {get a() { tools.other('inner'); return 1 }, b: [2]}; tools.echo(v); return 0"
    calls = run(code).open_calls()
    assert [(call["id"], call["name"], wire.decode(call["args"])) for call in calls] == [
        (1, "other", "inner"),
        (2, "echo", {"a": 1, "b": [2]}),
    ]


def test_to_json_is_never_asked() -> None:
    """PTC-009 on the value, its prototype or any built-in prototype."""
    code = """
      for (const p of [Object, Array, String, Number, Boolean, BigInt, Symbol, Date])
        Object.defineProperty(p.prototype, 'toJSON', {value: () => 'evil', configurable: true});
      console.log('x', {a: [1]});
      return await tools.echo({a: [1, 'x', true, 2n], b: {c: 0.5}})
    """
    guest = run(code)
    assert value_of(guest) == {"a": [1, "x", True, 2], "b": {"c": 0.5}}
    assert guest.sent[0]["text"] == "x {a: [1]}"
    assert refusal_of("{toJSON: () => 1}") == "value.toJSON: function is not JSON"


def test_large_integers_are_exact() -> None:
    """PTC-010 integers past 2^53 arrive as BigInt; every BigInt goes back as the exact int."""
    big = int("7" * 4000)
    value: Json = [2**53 - 1, -(2**53 - 1), 2**53, -(2**53), 2**63, big]
    code = "return [input.map(x => typeof x), input.map(x => BigInt(x)), input[5] === BigInt('7'.repeat(4000))]"
    kinds, back, same = value_of(run(code, input=value, input_name="input"))
    assert kinds == ["number", "number", "bigint", "bigint", "bigint", "bigint"]
    assert back == value
    assert same is True
    assert refusal_of("2n ** 100000n") == "value: integer of more than 4300 digits"


def test_every_power_of_two_is_written_in_the_shortest_way() -> None:
    """PTC-011 PTC-112 the text is what Python makes of the same double, which the host demands of integers."""
    code = """
      const all = [];
      for (let e = -1074; e < 1024; e++) all.push(2 ** e, -(2 ** e), 2 ** e * 1.5);
      return [all, 2 ** 70, 123456789012345680000, 1e21, 5e-324, 0.1 + 0.2, 1e-7]
    """
    texts = run(code).texts[-1].split("},")[-1].removesuffix("]}").split(",")
    powers = [sign * 2.0**e for e in range(-1074, 1024) for sign in (1, -1, 1.5)]
    numbers = [*powers, 2.0**70, 123456789012345680000.0, 1e21, 5e-324, 0.1 + 0.2, 1e-7]
    numbers = [x for x in numbers if x != 1.5 * 2.0**-1074]  # halves of the smallest double round away
    assert len(texts) == len(powers) + 6
    assert [text for text in texts if float(text) != 1.5 * 2.0**-1074] == [wire.number_text(x) for x in numbers]


def test_odd_characters_cross_unchanged() -> None:
    """PTC-013 in strings and in keys, both ways; two halves from Python are one character."""
    odd = 'a\x00\u2028\ufeff\ud800\U0001f600\udc00\x7f\x80\xff\u0100"\\/\b\n'
    code = "return [input, Object.keys(input)[0].length, await tools.echo(input)]"
    got = value_of(run(code, input={odd: odd}, input_name="input"))
    assert got == [{odd: odd}, 17, {odd: odd}]
    assert value_of(run("return [input.length, input]", input="\ud83d\ude00", input_name="input")) == [2, "\U0001f600"]


@settings(max_examples=60, deadline=None)
@given(values)
def test_any_value_survives_the_round_trip(value: Json) -> None:
    """PTC-001 PTC-112 what Python encodes comes back equal, and both sides measure the same size."""
    guest = run("return input", input=value, input_name="input")
    back = guest.sent[-1]["value"]
    decoded = wire.decode(back)
    assert decoded == wire.decode(frames.loads(wire.encode(value).encode()))
    limit = 2 + wire.json_size(decoded)
    if limit > 4:
        assert run("return input", input=value, input_name="input", max_output=limit).sent[-1]["type"] == "done"
        short = run("return input", input=value, input_name="input", max_output=limit - 1)
        assert short.sent[-1]["type"] == "output-limit"


def test_an_unreadable_host_frame_ends_the_guest() -> None:
    """A frame that is no JSON is exit status 71; nothing is sent."""
    guest = Guest()
    guest.load("return await tools.echo(1)")
    guest.boot()
    with pytest.raises(Ended):
        guest.call("deliver", "{")
    assert guest.status == "71"
