"""Values across the doors: what crosses does so exactly, everything else is refused with its place."""

import json
from pathlib import Path

import pytest

from jsrun import MemoryJournal, SqliteJournal
from ptc.wire import Json
from tests.jsrun.playing import Play, echo, playing_env

pytestmark = pytest.mark.asyncio(loop_scope="session")

FORMS = ["", "async "]


def waits(form: str) -> str:
    return "await " if form else ""


@pytest.mark.parametrize("form", FORMS)
async def test_undefined_properties_are_dropped(play: Play, form: str) -> None:
    """JSR-053"""
    got: list[Json] = []

    async def take(args: dict[str, Json]) -> Json:
        got.append(args)
        return None

    program = f"""
    {form}function run() {{
      {waits(form)}tool('take', {{a: undefined, b: {{c: undefined}}}})
      try {{ {waits(form)}tool('take', {{b: [undefined]}}) }}
      catch (e) {{ return {{message: e.message, gone: undefined}} }}
    }}"""
    result = await play(program, tools={"take": take})
    assert got == [{"b": {}}]
    assert result.output == {"message": "args.b[0]: undefined is not JSON"}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("call", "says"),
    [
        ("tool('t', [1])", "tool() takes the arguments as one object, got an array."),
        ("tool('t', 1, 2, 3)", "tool() takes at most 2 arguments, got 4."),
        ("tool('t', new Uint8Array([1]))", "args: Uint8Array is not JSON"),
        ("tool('t', 'text')", "tool() takes the arguments as one object, got a text."),
        ("ai('p', 1, 'quick')", "ai() takes its options as an object, got a text."),
        ("ai('p', 1, {}, 2)", "ai() takes at most 3 arguments, got 4."),
        ("ask('q', ['a', 'b'])", "ask() takes its options as an object, got an array."),
        ("ask('q', {options: 'a'})", 'ask() takes "options" as a list of texts, got a text.'),
        ("ask('q', {options: ['a', {}]})", "options.options[1]: expects text, got an object."),
        ("ai({})", "ai() expects text, got an object."),
        ("ai(() => 1)", "ai() expects text, got a function."),
        ("tool(Symbol('x'))", "tool() expects text, got a symbol."),
        ("tool(NaN)", "tool() expects text, got NaN."),
    ],
)
async def test_malformed_calls_are_refused_without_the_host(play: Play, form: str, call: str, says: str) -> None:
    """JSR-054"""
    called: list[Json] = []

    async def take(args: dict[str, Json]) -> Json:
        called.append(args)
        return None

    program = f"""
    {form}function run() {{
      try {{ {waits(form)}{call} }} catch (e) {{ return [e.name, e instanceof DoorError, e.message] }}
    }}"""
    result = await play(program, tools={"t": take}, prompts={"p": "Hello"})
    assert result.output == ["DoorError", True, says]
    assert called == []
    assert (result.calls, result.usage.steps) == (1, 1)


async def test_integers_are_exact_both_ways(play: Play) -> None:
    """JSR-055"""
    numbers = [2512292042121000001, 2**31, 2**53 + 1, 2**63, -(2**63), 2**53 - 1, 10**4000]
    got: list[Json] = []

    async def take(args: dict[str, Json]) -> Json:
        got.append(args["n"])
        return args["n"]

    program = """
    function run(input) {
      return input.map(n => [tool('take', {n}) === n, typeof n])
    }"""
    result = await play(program, numbers, tools={"take": take})
    assert got == numbers
    kinds = ["bigint", "number", "bigint", "bigint", "bigint", "number", "bigint"]
    assert result.output == [[True, kind] for kind in kinds]
    literal = await play("function run() { return tool('take', {n: 2512292042121000001n}) }", tools={"take": take})
    assert literal.output == 2512292042121000001


TEXTS = ["a\ud800b", "a\x00b", "a\u2028b\u2029", "\U0001f600", "e\u0301\u00e9\u212b", "\ufeff x", "\r\n"]


async def test_text_crosses_as_it_is(play: Play, tmp_path: Path) -> None:
    """JSR-056 both ways; remembered, journaled and printed it raises nothing."""
    remembered: list[str] = []

    async def remember(note: str) -> None:
        remembered.append(note)

    env = playing_env({"echo": echo})
    env._remember = remember
    program = """
    async function run(input) {
      for (const text of input) {
        await remember('>' + text + '<')
        await log('>' + text + '<')
        console.log(text)
      }
      return Promise.all(input.map(text => tool('echo', {[text]: text})))
    }"""
    async with SqliteJournal(tmp_path / "journal.db") as journal:
        result = await play(program, TEXTS, env=env, whitelist=["echo"], run={"journal": journal})
        record = await journal.read(result.run_id)
    assert result.output == [{text: text} for text in TEXTS]
    assert remembered == [f">{text}<" for text in TEXTS]
    assert len(record.entries) == 3 * len(TEXTS)
    assert json.loads(record.run.input) == TEXTS
    json.dumps(result.to_json())


NOT_JSON = [
    ("NaN", "NaN is not JSON"),
    ("Infinity", "Infinity is not JSON"),
    ("-0", "-0 is not JSON"),
    ("() => 1", "function is not JSON"),
    ("Symbol('x')", "symbol is not JSON"),
    ("new Date(0)", "Date is not JSON"),
    ("new Map()", "Map is not JSON"),
    ("[1,,2]", "sparse array is not JSON"),
    ("new (class Thing {})", "class instance is not JSON"),
    ("Object.assign([1], {x: 1})", 'extra property "x" on an array'),
    ("Promise.resolve(1)", "Promise is not JSON; await it first"),
]


@pytest.mark.parametrize(("value", "reason"), NOT_JSON)
async def test_what_is_not_json_is_refused_with_its_path(play: Play, value: str, reason: str) -> None:
    """JSR-057 as an argument a DoorError, as output `invalid_output`."""
    program = f"""
    function run() {{
      try {{ tool('echo', {{items: [1, {{when: {value}}}]}}) }} catch (e) {{ return [e.name, e.message] }}
    }}"""
    result = await play(program, tools={"echo": echo})
    assert result.output == ["DoorError", f"args.items[1].when: {reason}"]
    result = await play(f"function run() {{ return {{items: [1, {{when: {value}}}]}} }}")
    assert (result.status, result.reason) == ("incomplete", "invalid_output")
    assert f"output.items[1].when: {reason}" in result.sentence


async def test_roots_name_what_was_refused(play: Play) -> None:
    """JSR-057 the path begins with `args`, `input` or `options`."""
    program = """
    function run() {
      const said = []
      const say = f => { try { f() } catch (e) { said.push(e.message) } }
      say(() => tool('echo', {a: NaN}))
      say(() => ai('p', {a: NaN}))
      say(() => ai('p', null, {schema: {a: NaN}}))
      const loop = {}; loop.loop = loop
      say(() => ai('p', loop))
      let deep = 1; for (let i = 0; i < 600; i++) deep = [deep]
      say(() => ai('p', deep))
      return said
    }"""
    result = await play(program, tools={"echo": echo}, prompts={"p": "Hello"})
    assert isinstance(result.output, list)
    assert result.output[:4] == [
        "args.a: NaN is not JSON",
        "input.a: NaN is not JSON",
        "options.schema.a: NaN is not JSON",
        "input.loop: cycle",
    ]
    assert str(result.output[4]).startswith("input[0][0]")
    assert str(result.output[4]).endswith("more than 512 levels")


async def test_values_of_512_levels_cross_and_deeper_ones_do_not(play: Play) -> None:
    """JSR-057 the same bound in both directions and for the output."""
    program = """
    function run({levels}) {
      let deep = 1; for (let i = 0; i < levels; i++) deep = [deep]
      return deep
    }"""
    assert (await play(program, {"levels": 512})).status == "finished"
    deeper = await play(program, {"levels": 513})
    assert (deeper.reason, "more than 512 levels" in deeper.sentence) == ("invalid_output", True)


ATTACKS = [
    "JSON.stringify = () => '{}'; JSON.parse = () => 7",
    "Object.prototype.toJSON = () => ({pwn: 2}); Array.prototype.toJSON = () => [2]",
    "globalThis.Promise = class {}; Object.defineProperty(Object.prototype, 'constructor', {value: null})",
    "Array.prototype.map = Array.prototype.push = Array.prototype.join = null",
    "Array.prototype[Symbol.iterator] = function* () { yield 'pwn' }",
    "Object.keys = Reflect.ownKeys = () => []; Object.getPrototypeOf = () => null; Reflect.apply = () => 5",
    "for (const key of ['then', 'get', 'set', 'value', '0', 'length', 'refused', 'ref'])"
    " Object.defineProperty(Object.prototype, key,"
    " {__proto__: null, get() { return undefined }, set() {}, configurable: true})",
    "Object.defineProperty(Array.prototype, '0', {get() { return 'pwn' }, set() {}, configurable: true})",
    "Function.prototype.call = Function.prototype.apply = Function.prototype.bind = null",
    "String.prototype.slice = String.prototype.charCodeAt = () => 'pwn'; Number.prototype.toString = () => 'pwn'",
    "Error.prototype.name = 'pwn'; Object.setPrototypeOf(DoorError, null)",
]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("attack", ATTACKS)
async def test_replaced_built_ins_change_nothing_that_crosses(play: Play, form: str, attack: str) -> None:
    """JSR-058"""
    got: list[Json] = []

    async def take(args: dict[str, Json]) -> Json:
        got.append(args)
        if args["real"] == "fail":
            raise ValueError("failed")
        return args

    program = f"""
    {form}function run(input) {{
      {attack}
      const real = {waits(form)}tool('take', {{real: [1, {{a: "x"}}], gone: undefined}})
      let error
      try {{ {waits(form)}tool('take', {{real: 'fail'}}) }}
      catch (e) {{ error = [e.name, e.door, e.ref, e.message].length }}
      return {{real, error, input, gone: undefined}}
    }}"""
    result = await play(program, {"in": [1]}, tools={"take": take})
    assert got == [{"real": [1, {"a": "x"}]}, {"real": "fail"}]
    expected = {"real": {"real": [1, {"a": "x"}]}, "error": 4, "input": {"in": [1]}}
    assert (result.status, result.output) == ("finished", expected), result.sentence


async def test_a_replaced_then_is_the_programs_own_business(play: Play) -> None:
    """JSR-058 `then` of a promise can be broken, what crosses cannot."""
    program = """
    async function run() {
      Promise.prototype.then = null
      Promise.prototype.constructor = null
      const value = await tool('echo', {real: 1})
      return value
    }"""
    result = await play(program, tools={"echo": echo})
    assert (result.status, result.output) == ("finished", {"real": 1})


async def test_getters_run_once_and_their_errors_are_ordinary(play: Play) -> None:
    """JSR-059"""
    program = """
    function run() {
      let reads = 0, asked = 0
      const args = {get a() { reads += 1; return {toJSON() { asked += 1 }} }, get b() { reads += 1; return 1 }}
      const said = []
      const say = f => { try { f() } catch (e) { said.push(e.message) } }
      say(() => tool('echo', {get ok() { reads += 1; return 1 }}))
      say(() => tool('echo', args))
      say(() => tool('echo', {get a() { throw new TypeError('mine') }}))
      say(() => tool('echo', new Proxy({}, {ownKeys() { throw new Error('trap') }})))
      say(() => ai('p', 1, {get schema() { throw new Error('option') }}))
      const traps = {getOwnPropertyDescriptor() { throw new Error('hidden') }, ownKeys() { throw new Error('keys') }}
      say(() => ask('q', new Proxy({}, traps)))
      return {reads, asked, said, get output() { reads += 1; return reads }}
    }"""
    result = await play(program, tools={"echo": echo}, prompts={"p": "Hello"})
    assert isinstance(result.output, dict)
    assert (result.output["reads"], result.output["asked"], result.output["output"]) == (2, 0, 3)
    assert result.output["said"] == [
        "args.a.toJSON: function is not JSON",
        "args.a: getter failed: mine",
        "args: getter failed: trap",
        "options.schema: getter failed: option",
        "options: getter failed: keys",
    ]


async def test_proto_is_a_key_like_any_other(play: Play) -> None:
    """JSR-060"""

    async def forged(_args: dict[str, Json]) -> Json:
        return {"__proto__": {"polluted": True}, "constructor": 1}

    program = """
    function run(input) {
      const answer = tool('forged', {['__proto__']: 5})
      return [Object.keys(answer), ({}).polluted === undefined, Object.getPrototypeOf(answer) === Object.prototype,
              Object.keys(input), answer]
    }"""
    result = await play(program, {"__proto__": 1}, tools={"forged": forged})
    assert result.output == [
        ["__proto__", "constructor"], True, True, ["__proto__"], {"__proto__": {"polluted": True}, "constructor": 1},
    ]  # fmt: skip


def _deep() -> Json:
    value: Json = 1
    for _ in range(100_000):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ({1, 2}, "result: set is not JSON"),
        ({"a": object()}, "result.a: object is not JSON"),
        ([float("nan")], "result[0]: NaN is not JSON"),
        ({1: 2}, "result: key of type int is not a string"),
        (_deep(), "more than 512 levels"),
        ("x" * (8 * 1024 * 1024), "result: 8,388,610 bytes of JSON, 8,388,608 are allowed"),
        ("\u4e2d" * 2_796_150, "bytes do not fit a message"),
    ],
    ids=["set", "object", "NaN", "key", "deep", "large", "frame"],
)
async def test_answers_that_cannot_cross_fail_the_door(play: Play, answer: Json, says: str) -> None:
    """JSR-061 and the run goes on."""
    journal = MemoryJournal()

    async def give(_args: dict[str, Json]) -> Json:
        return answer

    program = "function run() { try { tool('give') } catch (e) { return [e.name, e.message, tool('echo', {ok: 1})] } }"
    result = await play(program, tools={"give": give, "echo": echo}, run={"journal": journal})
    assert isinstance(result.output, list), result.sentence
    name, message, after = result.output
    assert (name, after) == ("DoorError", {"ok": 1})
    assert says in str(message)
    rows = (await journal.read(result.run_id)).entries
    assert [row.state for row in rows] == ["err", "ok"]


async def test_too_much_is_refused_with_both_sizes(play: Play) -> None:
    """JSR-061 for arguments: 1 MiB of JSON, and a frame of the channel behind it."""
    program = """
    function run() {
      const said = []
      for (const size of [1048576 - 17, 1048576 - 16, 17e6]) {
        try { tool('echo', {s: 'x'.repeat(size)}); said.push('ok') } catch (e) { said.push(e.message) }
      }
      return said
    }"""
    result = await play(program, tools={"echo": echo})
    assert isinstance(result.output, list)
    assert result.output[0] == "ok"
    assert result.output[1] == "the arguments of tool(): 1,048,577 bytes of JSON, 1,048,576 are allowed"
    assert "above the limit of 16777216 bytes" in str(result.output[2])
    assert (result.calls, result.usage.steps) == (3, 3)


async def test_input_and_argument_are_equal_and_separate(play: Play) -> None:
    """JSR-071"""
    given: Json = {"b": [1, {"x": None}], "a": {"__proto__": 1}, "10": 1, "2": "two"}
    before = json.dumps(given)
    program = """
    input.b.push('script')
    input.a.own = 1
    function run(argument) {
      argument.b[1].x = 'entry'
      delete argument.a
      return {argument, input, keys: Object.keys(input), frozen: Object.isFrozen(argument)}
    }"""
    result = await play(program, given)
    assert result.output == {
        "argument": {"2": "two", "10": 1, "b": [1, {"x": "entry"}]},
        "input": {"2": "two", "10": 1, "b": [1, {"x": None}, "script"], "a": {"__proto__": 1, "own": 1}},
        "keys": ["2", "10", "b", "a"],
        "frozen": False,
    }
    assert json.dumps(given) == before
