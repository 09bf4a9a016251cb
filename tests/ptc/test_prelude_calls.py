"""Calls inside the guest: namespaces, arguments, failures, and the queue of calls that wait."""

import time
from typing import Any

import pytest

from ptc import wire
from ptc.wire import Json
from tests.ptc.prelude_harness import TOOLS, TYPED_TOOLS, Guest, error_of, logs_of, run, tools, value_of


def started(code: str, *, form: str = "async", **limits: Any) -> Guest:
    """A booted guest whose calls nobody has answered yet."""
    guest = Guest()
    assert guest.load(code, form=form) == {}
    guest.boot(**limits)
    guest.jobs()
    return guest


def ids(guest: Guest) -> list[int]:
    return [call["id"] for call in guest.open_calls()]


def test_async_calls_are_open_together() -> None:
    """PTC-077 ten calls under Promise.all are all at the host before one is answered, in any order."""
    guest = started("return await Promise.all([...Array(10).keys()].map(i => tools.echo(i)))")
    assert ids(guest) == list(range(1, 11))
    assert guest.call("turn", "") == "wait"
    for call in (7, 1, 10, 2, 9, 3, 8, 4, 6, 5):
        guest.reply(call, call * 10)
    assert guest.call("turn", "") == "done"
    assert value_of(guest) == [10 * i for i in range(1, 11)]


def test_sync_calls_return_and_throw() -> None:
    """PTC-078 values in order, failures thrown, and awaiting one in a nested async function works too."""
    code = """
      const seen = [tools.echo(1), tools.echo({a: [2]})];
      try { tools.fail('no') } catch (e) { seen.push(e.message) }
      return (async () => [...seen, await tools.other(3), await Promise.all([tools.echo(4), tools.echo(5)])])()
    """
    guest = run(code, form="sync")
    assert value_of(guest) == [1, {"a": [2]}, "no", 3, [4, 5]]
    assert ids(guest) == [1, 2, 3, 4, 5, 6]


def test_namespaces_are_frozen_and_bare() -> None:
    """PTC-080 shadowing, freezing, no prototype, enumerable functions, any function name."""
    names = ["__proto__", "toString", "constructor", "a b", "then", "ok"]
    code = """
      let tools2 = tools;
      { const tools = 1; }
      const broken = [];
      for (const change of [() => { tools2.ok = 1 }, () => { tools2.more = 1 }, () => { delete tools2.ok },
        () => { tools2.ok.x = 1 }, () => Object.setPrototypeOf(tools2, {}), () => { console.log = 1 }])
        try { change(); broken.push(String(change)) } catch (e) { if (!(e instanceof TypeError)) throw e }
      const f = tools2['__proto__'];
      return [broken, Object.keys(tools2), Object.getPrototypeOf(tools2), tools2.ok.name, tools2.ok.length,
        'new' in tools2, await f('x'), await tools2.toString('y'), Object.isFrozen(tools2), Object.isFrozen(tools2.ok)]
    """
    guest = run(code, [{"global": "tools", "names": names}])
    assert value_of(guest) == [[], names, None, "ok", 1, False, "x", "y", True, True]
    assert [call["name"] for call in guest.open_calls()] == ["__proto__", "toString"]
    assert value_of(run("let tools = 5, console = 6; const ToolCallError = 7; return tools", TYPED_TOOLS)) == 5
    assert (
        value_of(run("return typeof tools.ok + String(this)", [], setup="return {tools: {ok: 1}}")) == "numberundefined"
    )


@pytest.mark.parametrize("form", ["async", "sync"])
def test_exactly_one_argument(form: str) -> None:
    """PTC-081 none or two fail that call with the fixed text; nothing is sent and no id used."""
    code = """
      const seen = [];
      for (const call of [() => tools.echo(), () => tools.echo(1, 2), () => tools.echo(undefined),
        () => tools.echo(1, 2, 3)])
        try { WAIT call() } catch (e) { seen.push(e.message) }
      return [seen, WAIT tools.echo('ok')]
    """.replace("WAIT", "await" if form == "async" else "")
    guest = run(code, form=form)
    assert value_of(guest) == [
        [
            "args: undefined is not JSON",
            "args: one argument expected, got 2",
            "args: undefined is not JSON",
            "args: one argument expected, got 3",
        ],
        "ok",
    ]
    assert ids(guest) == [1]


def test_a_refused_call_fails_as_a_promise() -> None:
    """PTC-081 in the async form the call itself never throws."""
    code = "const p = tools.echo(new Date); try { await p } catch (e) { return [p instanceof Promise, e.message] }"
    assert value_of(run(code)) == [True, "args: Date is not JSON"]


def test_the_argument_is_fixed_at_the_call() -> None:
    """PTC-082 a later change does not cross, not even while the call waits for its turn."""
    code = "const v = {n: [1]}; for (let i = 0; i < 4; i++) { tools.echo(v); v.n.push(i) } v.n = 0; return 0"
    guest = started(code, maxPendingCalls=1)
    guest.answer = tools
    guest.drive()
    assert [wire.decode(call["args"]) for call in guest.open_calls()] == [
        {"n": [1]},
        {"n": [1, 0]},
        {"n": [1, 0, 1]},
        {"n": [1, 0, 1, 2]},
    ]


@pytest.mark.parametrize("form", ["async", "sync"])
def test_a_failed_call_is_the_declared_class(form: str) -> None:
    """PTC-083 class, own enumerable name and member property, the host's text, else a plain Error."""
    wait = "await" if form == "async" else ""
    code = f"""
      let e; try {{ {wait} tools.fail('why') }} catch (x) {{ e = x }}
      const typed = typeof ToolCallError === 'function';
      return [typed ? e instanceof ToolCallError : null, e instanceof Error, Object.keys(e), e.name, e.message,
        Object.prototype.propertyIsEnumerable.call(e, 'message'), String(e), e.constructor.name]
    """
    typed = [True, True, ["name", "toolName"], "ToolCallError", "why", False, "ToolCallError: why", "ToolCallError"]
    assert value_of(run(code, TYPED_TOOLS, form=form)) == typed
    assert value_of(run(code, form=form)) == [None, True, [], "Error", "why", False, "Error: why", "Error"]
    own = "class Mine extends ToolCallError { constructor() { super('m'); this.name = 'Mine' } }; const e = new Mine;"
    own += "return [e.name, e.message, new ToolCallError('x').name, String(new ToolCallError)]"
    assert value_of(run(own, TYPED_TOOLS)) == [
        "Mine", "m", "ToolCallError", "ToolCallError",
    ]  # fmt: skip


@pytest.mark.parametrize("form", ["async", "sync"])
def test_an_uncaught_failure_is_positioned_at_its_call(form: str) -> None:
    """PTC-083 not where the promise was awaited, nor where the reply came in."""
    wait = "await " if form == "async" else ""
    kind = "async " if wait else ""
    code = f"const go = {kind}() => {{\n  const p =\n    tools.fail('why');\n  return {wait}p;\n}};\n{wait}go();"
    error = error_of(run(code, TYPED_TOOLS, form=form))
    assert error["message"] == "ToolCallError: why"
    assert error["at"]["line"] == 3
    assert error["at"]["column"] in range(5, 16)
    assert error["stack"].splitlines()[0].startswith("    at go (program.js:3:")


def test_many_calls_wait_in_order() -> None:
    """PTC-084 400 at once all succeed, never more than 128 open, numbered in call order."""
    guest = started("return (await Promise.all([...Array(400).keys()].map(i => tools.echo(i)))).length")
    answered = 0
    while guest.call("turn", "") == "wait":
        assert len(ids(guest)) - answered <= 128
        answered += 1
        guest.reply(answered, None)
    assert ids(guest) == list(range(1, 401))
    assert [wire.decode(call["args"]) for call in guest.open_calls()] == list(range(400))
    assert value_of(guest) == 400


def test_values_nobody_keeps() -> None:
    """PTC-085 1,000 awaits in sequence, and a rejection that lost a race."""
    assert value_of(run("for (let i = 0; i < 1000; i++) await tools.echo([i]); return 'end'")) == "end"
    code = "return await Promise.race([tools.echo('won'), tools.fail('lost')])"
    guest = run(code)
    assert value_of(guest) == "won"
    assert len(ids(guest)) == 2


def test_ten_thousand_functions() -> None:
    """PTC-086 a large namespace loads in reasonable time and each function is its own."""
    names = [f"f{i}" for i in range(10_000)]
    guest = Guest()
    guest.answer = tools
    began = time.perf_counter()
    assert guest.load("return [Object.keys(big).length, await big.f9999(1)]", [{"global": "big", "names": names}]) == {}
    assert time.perf_counter() - began < 5
    guest.boot()
    guest.drive()
    assert value_of(guest) == [10_000, 1]
    assert guest.open_calls()[0]["name"] == "f9999"


def test_calls_wait_for_room_in_bytes() -> None:
    """PTC-087 open frames never exceed the sum, a frame above it fails alone, and the others still go."""
    code = """
      const texts = [300, 600, 5000, 400].map(n => 'x'.repeat(n));
      const all = await Promise.allSettled(texts.map(t => tools.echo(t)));
      return all.map(r => r.status === 'fulfilled' ? r.value.length : r.reason.message)
    """
    guest = started(code, maxMessageBytes=1000)
    assert len(ids(guest)) == 1  # 300 and 600 and the envelopes are more than 1,000
    answered = 0
    while guest.call("turn", "") == "wait":
        sizes = [len(text) for text in guest.texts[answered:]]
        assert sum(sizes) <= 1000
        call = guest.open_calls()[answered]
        answered += 1
        guest.reply(call["id"], wire.decode(call["args"]))
    size = len('{"type":"call","id":3,"global":"tools","name":"echo","args":["') + 5000 + len('"]}')
    refused = f"args: a message of {size} bytes is above the limit of 1000 bytes"
    assert value_of(guest) == [300, 600, refused, 400]
    assert ids(guest) == [1, 2, 3]


def test_a_frame_of_exactly_the_cap_is_sent() -> None:
    """PTC-087 the cap itself passes, one byte more does not."""
    envelope = len('{"type":"call","id":1,"global":"tools","name":"echo","args":[""]}')
    for extra, count in ((0, 1), (1, 0)):
        guest = started(f"await tools.echo('x'.repeat({1000 - envelope + extra}))", maxMessageBytes=1000)
        assert len(ids(guest)) == count


def test_a_call_nobody_awaits_is_finished() -> None:
    """PTC-088 its handlers run and their entries are kept, before `done`."""
    guest = run(
        "tools.echo('x').then(v => { console.log('got', v); tools.other(1).then(() => console.log('more')) }); return 1"
    )
    assert [frame["type"] for frame in guest.sent] == ["call", "log", "call", "log", "done"]
    assert value_of(guest) == 1
    guest = run("throw tools.echo(1).then(() => console.log('still')), new Error('x')")
    assert logs_of(guest) == ["still"]
    assert error_of(guest)["message"] == "Error: x"


def test_failures_nobody_looks_at() -> None:
    """PTC-089 a failure nobody handles is the ending; one handled before the run drains is not."""
    error = error_of(run("tools.fail('lost');\nreturn 1"))
    assert (error["message"], error["kind"], error["at"]["line"]) == ("Error: lost", "exception", 1)
    code = "const p = tools.fail('late'); await tools.echo(1); p.catch(() => console.log('seen')); return 2"
    guest = run(code)
    assert value_of(guest) == 2
    assert logs_of(guest) == ["seen"]
    refused = error_of(run("tools.echo(NaN); return 1"))
    assert refused["message"] == "Error: args: NaN is not JSON"


def test_late_and_unknown_replies_are_ignored() -> None:
    """A reply with an unknown or answered id changes nothing, nor does one after the end."""
    guest = started("return await tools.echo('x')")
    guest.reply(7, "unknown")
    guest.reply_error(9, "unknown")
    assert guest.call("turn", "") == "wait"
    guest.reply(1, "first")
    guest.reply(1, "second")
    assert guest.call("turn", "") == "done"
    assert value_of(guest) == "first"
    guest.reply(1, "third")
    assert len(guest.sent) == 2


def test_a_call_made_with_no_stack_left_uses_no_id() -> None:
    """PTC-106 runaway recursion through calls leaves the numbering intact, in both forms."""
    deep = "let n = 0; function f() { n++; TRY; f() } try { f() } catch (e) { if (!(e instanceof RangeError)) throw e }"
    sync = run(deep.replace("TRY", "tools.echo(n)") + "return tools.echo('end')", form="sync")
    assert value_of(sync) == "end"
    assert ids(sync) == list(range(1, len(ids(sync)) + 1))
    code = deep.replace("TRY", "tools.echo(n).catch(() => 0)") + "return await tools.echo('end')"
    guest = run(code, maxPendingCalls=100_000)
    assert value_of(guest) == "end"
    assert ids(guest) == list(range(1, len(ids(guest)) + 1))


def test_results_with_then_are_data() -> None:
    """PTC-092 a result that has a `then` member is not a thenable, whatever it holds."""
    result: Json = {"then": {"a": 1}, "n": 2}
    assert value_of(run("return [await tools.echo(0)]", answer=lambda *_: result)) == [result]


def test_no_calls_before_a_run() -> None:
    """A setup that calls gets a failure, and nothing is sent from the image."""
    guest = Guest()
    setup = "host.namespaces.tools.echo(1).catch(e => { globalThis.said = e.message }); console.log('x')"
    assert guest.load("return said", TOOLS, setup=setup) == {}
    guest.jobs()
    assert guest.sent == []
    guest.boot()
    guest.drive()
    assert value_of(guest) == "no run is going on"
