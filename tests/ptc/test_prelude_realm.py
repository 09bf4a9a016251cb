"""What a program can reach and what it can break: globals, compiled text, patched built-ins, stacks."""

import re

import pytest

from ptc.guest.prelude import PARTS, source
from ptc.wire import Json
from tests.ptc.prelude_harness import TYPED_TOOLS, Guest, error_of, logs_of, run, tools, value_of

GLOBALS = re.findall(
    r"\w+",
    """
    Object Function Array String Number Boolean Symbol BigInt Math JSON Reflect Proxy Promise RegExp Date Map Set
    WeakMap WeakSet Iterator ArrayBuffer DataView Int8Array Uint8Array Uint8ClampedArray Int16Array Uint16Array
    Int32Array Uint32Array Float32Array Float64Array BigInt64Array BigUint64Array Error AggregateError EvalError
    RangeError ReferenceError SyntaxError TypeError URIError globalThis undefined NaN Infinity eval isFinite isNaN
    parseFloat parseInt decodeURI decodeURIComponent encodeURI encodeURIComponent queueMicrotask performance console
    """,
)

# Every property of every global, of every prototype behind one, and of the hidden prototypes, becomes a function that
# throws; then every global goes. What cannot be changed stays.
BREAK_EVERYTHING = """
  const {defineProperty, getOwnPropertyDescriptor, ownKeys, getPrototypeOf, deleteProperty} = Reflect;
  const broken = () => { throw new TypeError('patched') };
  const seen = [];
  const holders = [];
  const known = (value) => { for (let i = 0; i < seen.length; i++) if (seen[i] === value) return true; return false };
  const add = (value) => {
    if ((typeof value !== 'object' && typeof value !== 'function') || value === null || known(value)) return;
    seen[seen.length] = holders[holders.length] = value;
  };
  for (const key of ownKeys(globalThis)) {
    const value = globalThis[key];
    if (key === 'globalThis' || key === 'console') continue;
    add(value);
    if (typeof value === 'function') add(value.prototype);
  }
  for (const value of [[][Symbol.iterator](), ''[Symbol.iterator](), new Map().entries(), new Set().values(),
    /x/[Symbol.matchAll](''), (function* () {})(), (async function* () {})(), async function () {}, new Int8Array(1)])
    for (let p = getPrototypeOf(value); p !== null; p = getPrototypeOf(p)) add(p);
  for (let i = 0; i < holders.length; i++) {
    const holder = holders[i];
    const keys = ownKeys(holder);
    for (let k = 0; k < keys.length; k++) {
      const key = keys[k];
      const old = getOwnPropertyDescriptor(holder, key);
      if (key === 'prototype' || old === undefined) continue;
      const patch = 'value' in old ? {value: broken} : {get: broken, set: broken};
      try {
        if (!defineProperty(holder, key, {__proto__: null, ...patch, configurable: true})) holder[key] = broken;
      } catch {}
    }
  }
  const all = globalThis;
  const names = ownKeys(all);
  for (let i = 0; i < names.length; i++) if (names[i] !== 'console') deleteProperty(all, names[i]);
"""

# Accessors that hold whatever name a careless bridge would read from, or write to, an ordinary object or array.
HOSTILE_PROTOTYPES = """
  const throwing = {__proto__: null, get() { throw new TypeError('read') }, set() { throw new TypeError('written') },
    configurable: true};
  const hostile = ['get', 'set', 'value', 'writable', 'enumerable', 'configurable', 'then', 'kind', 'length', 'keys',
    'digits', 'toJSON', 'id', 'ok', 'message', 'stack', 'index', 'groups', 'lastIndex', 'name', 'done', 'a', 'b', 'n',
    '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', '10', '100', '-1', ''];
  for (let i = 0; i < hostile.length; i++) {
    Reflect.defineProperty(Object.prototype, hostile[i], throwing);
    if (hostile[i] !== 'length') Reflect.defineProperty(Array.prototype, hostile[i], throwing);
  }
"""


# Behind every built-in prototype a Proxy whose traps all throw: a look-up that misses does not end quietly.
HOSTILE_CHAINS = """
  const traps = {__proto__: null};
  const trap = () => { throw new TypeError('trap') };
  for (const name of ['get', 'set', 'has', 'getPrototypeOf', 'getOwnPropertyDescriptor', 'ownKeys', 'defineProperty'])
    traps[name] = trap;
  const behind = new Proxy({__proto__: null}, traps);
  for (const maker of [Array, Function, Promise, String, RegExp, Map, Set, Error, Number, Symbol, BigInt, Date])
    Reflect.setPrototypeOf(maker.prototype, behind);
"""


def test_the_global_object_holds_exactly_the_list() -> None:
    """PTC-072 names and symbols, also the hidden ones."""
    guest = run("return Reflect.ownKeys(globalThis).map(String).sort()")
    assert value_of(guest) == sorted(GLOBALS)
    assert value_of(run("return Reflect.ownKeys(performance)")) == ["now"]
    absent = "['std', 'os', 'print', 'require', 'process', 'WeakRef', 'Atomics', 'SharedArrayBuffer', 'InternalError']"
    assert value_of(run(f"return {absent}.filter(n => n in globalThis)")) == []
    assert value_of(run("return typeof __ptc_send + typeof __ptc_entries")) == "undefinedundefined"


def test_compiled_text_reaches_nothing() -> None:
    """PTC-073 whatever kind of function compiles it."""
    code = """
      const makers = [(() => 0), async () => 0, function* () {}, async function* () {}, function () {}.bind(), class {},
        tools.echo, console.log, performance.now, Function, new Proxy(function () {}, {})].map(f => f.constructor);
      makers.push(function () { return Reflect.construct(Function, arguments) });
      const texts = ['return globalThis', 'return this', 'return typeof hostSend + typeof calls + typeof output'];
      const found = new Set();
      for (const make of makers) for (const text of texts) {
        let made = make(text)();
        if (made && typeof made.next === 'function') made = (await made.next()).value;
        made = await made;
        found.add(made === globalThis ? 'global' : String(made));
      }
      found.add((0, eval)('this') === globalThis ? 'global' : 'other');
      found.add((0, eval)('typeof hostSend + typeof calls + typeof output'));
      return [...found]
    """
    assert set(value_of(run(code))) <= {"global", "undefined", "undefined" * 3}


def test_modules_do_not_exist() -> None:
    """PTC-074 `import()` rejects, static `import` does not parse, `require` is undefined."""
    code = "const r = []; for (const n of ['x', 'std', 'os', './a.js', 'data:text/javascript,1'])"
    code += " await import(n).then(() => r.push(n), () => 0); return [r, typeof require]"
    assert value_of(run(code)) == [[], "undefined"]
    guest = Guest()
    assert "problem" in guest.load("import x from 'os'")


DAMAGES = {"everything": BREAK_EVERYTHING, "prototypes": HOSTILE_PROTOTYPES, "chains": HOSTILE_CHAINS}


@pytest.mark.parametrize("form", ["async", "sync"])
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_nothing_a_program_breaks_changes_what_crosses(form: str, damage: str) -> None:
    """PTC-075 calls, failures, logs and the value stay as they were."""
    wait = "await " if form == "async" else ""
    body = f"""
      class Odd {{ x = 1 }}
      const odd = [new Odd(), new Map([['k', {{a: 1}}]]), new Set([1]), new Date(0), /r/g, new Error('e'), Symbol('s'),
        new Uint8Array(2), (class Named {{}}), -0, 2n, Object(1)];
      {damage}
      const v = {{a: [1, 'é', null, {{n: 2n}}], b: {{'c d': true, '0': [[]]}}, '': 0.5}};
      let r = {wait}tools.echo(v);
      console.warn('text', v, odd);
      let caught;
      try {{ {wait}tools.fail('no') }} catch (e) {{ caught = e }}
      try {{ {wait}tools.echo(1, 2) }} catch (e) {{ console.log(e.toolName) }}
      try {{ {wait}tools.echo([odd[3]]) }} catch (e) {{ console.log(e.toolName) }}
      for (let i = 0; i < 3; i++) {wait}tools.other([i]);
      console.log(caught.toolName);
      console.log(caught);
    """
    expected = {"a": [1, "é", None, {"n": 2}], "b": {"c d": True, "0": [[]]}, "": 0.5}
    # An async function itself looks for `then` on an object it returns, so there the value is a number.
    guest = run(body + ("return r" if form == "sync" else "return r.a[0]"), TYPED_TOOLS, form=form)
    assert value_of(guest) == (expected if form == "sync" else 1)
    calls = guest.open_calls()
    assert [call["name"] for call in calls] == ["echo", "fail", "other", "other", "other"]
    assert calls[0]["args"] == [
        {"kind": "object", "keys": ["a", "b", ""]}, {"kind": "array", "length": 4}, 1, "é", None,
        {"kind": "object", "keys": ["n"]}, {"kind": "bigint", "digits": "2"},
        {"kind": "object", "keys": ["0", "c d"]}, {"kind": "array", "length": 1}, {"kind": "array", "length": 0}, True,
        0.5,
    ]  # fmt: skip
    logs = logs_of(guest)
    assert logs[0].startswith(
        'text {a: [1, "é", null, {n: 2n}], b: {"0": [[]], "c d": true}, "": 0.5} '
        '[Odd {x: 1}, Map(1) {"k" => {a: 1}}, Set(1) {1}, 1970-01-01T00:00:00.000Z, /r/g, Error: e\n'
    )
    assert logs[0].endswith(", Symbol(s), Uint8Array(2) [0, 0], [Function Named], -0, 2n, [Number 1]]")
    assert logs[1:4] == ["echo", "echo", "fail"]
    assert logs[4].startswith("ToolCallError: no\n    at program.js:")
    assert guest.sent[-1]["type"] == "done"


def test_results_arrive_whole_under_hostile_prototypes() -> None:
    """PTC-075 a result is built from own properties only, and no `then` of a prototype makes a thenable of it."""
    body = f"""
      const same = {SAME};
      {HOSTILE_PROTOTYPES}
      const got = await tools.echo(0);
      const list = await tools.other(0);
      console.log(got, list);
      return '' + [same(got.a, 1), same(list[0], 5), list.length]
    """
    result: Json = {"a": 1, "then": 2, "0": [1, 2, 3, 4, 5, 6], "__proto__": {"b": None}, "length": "x"}
    listed: Json = [5, {"n": []}, *range(10)]
    guest = run(body, answer=lambda name, _: result if name == "echo" else listed)
    printed = '{"0": [1, 2, 3, 4, 5, 6], a: 1, then: 2, __proto__: {b: null}, length: "x"}'
    assert logs_of(guest) == [f"{printed} [5, {{n: []}}, {', '.join(map(str, range(10)))}]"]
    assert value_of(guest) == "true,true,12"


SAME = "(a, b) => a === b"


def test_awaiting_a_call_needs_nothing_a_program_can_break() -> None:
    """PTC-075 a patched Promise.prototype, species or constructor does not keep `await` from a call's result."""
    code = """
      Promise.prototype.then = null; Promise.prototype.constructor = null; Promise.prototype.catch = 1;
      Object.defineProperty(Promise, Symbol.species, {get() { throw 1 }});
      globalThis.Promise = undefined; JSON.parse = () => 7; Array.prototype.push = null;
      const p = tools.echo([1]);
      return await p
    """
    assert value_of(run(code)) == [1]


def test_stack_hooks_show_nothing_of_ours() -> None:
    """PTC-076 the engine's hooks are gone, setting them does nothing, and a stack holds program frames only."""
    code = """
      const seen = [];
      Error.prepareStackTrace = (e, frames) => { seen.push(String(frames)); return 'hooked' };
      Error.stackTraceLimit = Infinity;
      const hooks = [typeof Error.captureStackTrace];
      function inner() { return new Error('x').stack }
      const viaNative = [1].map(inner)[0];
      const fails = [];
      for (const f of [() => null.x, () => JSON.parse('{'), () => tools.echo(),
        () => console.log({get a() { inner() }}), () => new Proxy({}, {ownKeys() { fails.push(inner()); return [] }})])
        try { const r = f(); if (r && r.then) await r; await tools.echo(r) } catch (e) { fails.push(e.stack) }
      class Own extends Error {}
      return [seen, hooks, viaNative, fails, Object.getOwnPropertyNames(new Own('y')),
        new Own().stack, typeof Error.prototype.stack,
        Object.getOwnPropertyDescriptor(Error.prototype, 'stack').get.call({}) === undefined]
    """
    guest = run(code)
    seen, hooks, via_native, fails, own, stack, bare, foreign = value_of(guest)
    assert seen == []
    assert hooks == ["undefined"]
    assert via_native == "    at inner (program.js:6:37)\n    at program.js:7:33"
    assert own == ["message"]
    assert foreign is True
    assert bare == "undefined"
    for text in [*fails, stack]:
        for line in str(text).splitlines():
            assert line.startswith("    at ") and "program.js:" in line, text
        assert not any(name in str(text) for name in ("native", "input", ".py", "admit", "entry", "boot"))


def test_a_program_may_write_a_stack() -> None:
    """PTC-076 an own `stack` is what was written; the position of an uncaught error is still the engine's."""
    guest = run("const e = new Error('x');\ne.stack = 'mine'; console.log(e.stack);\nthrow e")
    assert logs_of(guest) == ["mine"]
    assert error_of(guest)["at"] == {"line": 1, "column": 15}
    assert error_of(guest)["stack"] == "    at program.js:1:15"


def test_hostile_function_names_stay_inside_the_program() -> None:
    """PTC-076 a name in the form of a frame cannot point outside the text."""
    code = r"""
      const f = function () { throw new Error('x') };
      Object.defineProperty(f, 'name', {value: 'a (<input>:1:1)\n    at b (<input>:999999:1)\n    at <input>:4097:0'});
      f()
    """
    guest = run(code)
    assert 1 <= error_of(guest)["at"]["line"] <= code.count("\n") + 1
    assert error_of(guest)["at"]["column"] >= 1


def test_every_part_of_the_prelude_is_listed_and_stays_above_the_program() -> None:
    """The parts exist, none is empty, and the whole has fewer lines than the line a program begins on."""
    assert len(set(PARTS)) == len(PARTS)
    assert source().count("\n") < 4096


def test_nothing_is_left_by_warming() -> None:
    """`warm` sends nothing and changes nothing a program can see."""
    guest = Guest()
    guest.answer = tools
    assert guest.load("return [await tools.echo(1), Reflect.ownKeys(globalThis).length]") == {}
    assert guest.call("warm", "") == ""
    assert guest.call("warm", "") == ""
    assert guest.sent == []
    guest.boot()
    guest.drive()
    assert [frame["type"] for frame in guest.sent] == ["call", "done"]
    assert guest.open_calls()[0]["id"] == 1
    assert value_of(guest) == [1, len(GLOBALS)]
