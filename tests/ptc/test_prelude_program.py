"""The life of a program inside the guest: loading, booting, endings, positions, limits of output."""

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptc import wire
from ptc.limits import Limits
from ptc.outcome import LogEntry
from ptc.protocol.ledger import Ledger
from tests.ptc.prelude_harness import (
    OUTPUT_BYTES,
    TOOLS,
    TYPED_TOOLS,
    Ended,
    Frame,
    Guest,
    error_of,
    logs_of,
    run,
    tools,
    value_of,
)

FORMS = pytest.mark.parametrize("form", ["async", "sync"])


def problem_of(code: str, form: str = "async") -> Frame:
    """The syntax problem of a program."""
    answer = Guest().load(code, form=form)
    assert list(answer) == ["problem"], answer
    problem: Frame = answer["problem"]
    return problem


# --- loading ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        "}",
        "} {",
        "} } ) ; globalThis.ran = 1; (function () { {",
        "}}); globalThis.ran = 1; L: { (function () { L2: {",
        "} }); globalThis.ran = 1; (async function () { x: { for (;;) {",
        "}; globalThis.ran = 1; {",
        "return 1 } }); globalThis.ran = 1; /*",
        "`}})`; } }); globalThis.ran = 1; `",
    ],
)
@FORMS
def test_a_body_cannot_close_its_wrapper(body: str, form: str) -> None:
    """PTC-050 whatever it opens again, it is a syntax error and nothing of it has run."""
    guest = Guest()
    answer = guest.load(body, form=form)
    assert answer["problem"]["message"].startswith("SyntaxError: ")
    assert guest.context.eval("typeof ran") == "undefined"
    text = json.dumps(answer)
    assert "label" not in text


def test_loading_runs_nothing() -> None:
    """PTC-050 not a statement, not a hoisted function, not a default value."""
    guest = Guest()
    code = "globalThis.ran = 1; function f(a = globalThis.ran = 2) {} class A { static x = globalThis.ran = 3 }"
    assert guest.load(code) == {}
    assert guest.context.eval("typeof ran") == "undefined"
    assert guest.sent == []


@pytest.mark.parametrize(
    ("code", "line", "column"),
    [
        ("let = ;", 1, None),
        ("a b", 1, 3),
        ("\n\nlet x = ;", 3, 9),
        ("\r\n\r\nlet x = ;\r\n", 3, 9),
        ("let é = '😀'; let y = ;", 1, 22),
        ("function f() {\n  return 1;\n", 2, 11),
        ("if (x) {", 1, 8),
        ("f(", 1, 2),
        ("}", 1, 1),
        ("\n\n  `abc", 3, None),
        ("return 1\n\n\n})", 4, None),
        ("", None, None),
    ],
)
@FORMS
def test_a_syntax_error_has_its_place(code: str, line: int | None, column: int | None, form: str) -> None:
    """PTC-051 exact line, column inside the line, also past the end and on the first line."""
    if line is None:
        assert Guest().load(code, form=form) == {}
        return
    problem = problem_of(code, form)
    assert problem["line"] == line
    text = code.split("\n")[line - 1].rstrip("\r")
    assert 1 <= problem["column"] <= max(1, len(text))
    if column is not None:
        assert problem["column"] == column
    assert problem["message"].startswith("SyntaxError: ")


def test_what_a_body_may_do() -> None:
    """`return` at the top, `this` undefined, strict mode, nested functions; `await` only in the async form."""
    assert value_of(run("return typeof this")) == "undefined"
    assert value_of(run("'use strict'; return (function () { return typeof this })()")) == "undefined"
    assert "problem" in Guest().load("with ({}) {}")
    assert "problem" in Guest().load("break;")
    assert "problem" in Guest().load("await 1", form="sync")
    assert Guest().load("await 1; for await (const x of []) ;") == {}
    assert value_of(run("return f(); function f() { return 2 }", form="sync")) == 2


def test_a_source_the_parser_cannot_hold() -> None:
    """PTC-106 nesting beyond the engine's stack is a problem without a crash, and the realm stays usable."""
    guest = Guest()
    answer = guest.load("(" * 100_000)
    assert "problem" in answer


# --- setup and input --------------------------------------------------------------------------------------------------


def test_setup_shapes_the_parameters() -> None:
    """PTC-094 it gets the namespaces, adds, replaces and hides parameters, and runs once per image."""
    setup = """
      globalThis.count = (globalThis.count || 0) + 1;
      const { tools } = host.namespaces;
      return { extra: 5, twice: async (x) => [await tools.echo(x), await tools.echo(x)], tools: undefined };
    """
    code = "return [extra, await twice('a'), typeof tools, count]"
    assert value_of(run(code, setup=setup)) == [5, ["a", "a"], "undefined", 1]


def test_on_start_functions_run_in_order_with_the_input() -> None:
    """PTC-094 each sees what the one before left; undefined keeps it."""
    setup = """
      host.onStart((input) => { globalThis.first = input.n });
      host.onStart((input) => ({ n: input.n + 1 }));
      host.onStart((input) => { globalThis.last = input.n });
    """
    code = "return [input, first, last]"
    assert value_of(run(code, setup=setup, input={"n": 1}, input_name="input")) == [{"n": 2}, 1, 2]


def test_the_input_is_there_only_if_named() -> None:
    """PTC-094 under its name, undefined if none was given, absent otherwise."""
    assert value_of(run("return typeof input", input=1)) == "undefined"
    assert value_of(run("return given", input=[1], input_name="given")) == [1]
    assert "value" not in run("return given", input_name="given").sent[-1]
    assert value_of(run("let given = 2; return given", input=[1], input_name="given")) == 2


def test_no_frame_of_setup_shows() -> None:
    """PTC-094 an error made in setup's functions is placed at the program's call of them."""
    setup = "return { fail: () => { throw new TypeError('no') } }"
    error = error_of(run("\nfail()", setup=setup))
    assert error["at"] == {"line": 2, "column": 1}
    assert error["stack"] == "    at program.js:2:1"


@pytest.mark.parametrize(
    ("setup", "said"),
    [
        ("throw new Error('broken')", "setup failed: Error: broken"),
        ("let = ;", "setup failed: SyntaxError"),
        ("return 5", "setup must return"),
        ("return {'a b': 1}", 'parameter "a b" is not an identifier'),
        ("return {class: 1}", "reserved word"),
        ("return {input: 1}", "input parameter"),
    ],
)
def test_a_setup_that_fails_is_misuse(setup: str, said: str) -> None:
    """PTC-094 the answer to `load` says what is wrong with it."""
    answer = Guest().load("return 1", setup=setup, input_name="input")
    assert said in answer["misuse"]


def test_copies_for_trusted_code() -> None:
    """`host.copy` leaves undefined properties out, keeps the rest, and names the path of a refusal."""
    setup = """
      const tell = (f) => { try { return f() } catch (e) { return e.message } };
      return { copy: (value) => tell(() => host.copy(value, 'options', 3)) };
    """
    code = """
      const v = {a: undefined, b: [1, {c: undefined}], d: {get e() { return undefined }, f: null}};
      return [copy(v), copy([undefined]), copy({x: {y: new Date}}), copy([[[1]]]), copy([[[[1]]]]), copy(undefined),
        copy({a: {b: {c: 1}}}), copy({z: undefined})]
    """
    assert value_of(run(code, setup=setup)) == [
        {"b": [1, {}], "d": {"f": None}},
        "options[0]: undefined is not JSON",
        "options.x.y: Date is not JSON",
        [[[1]]],
        "options[0][0][0]: more than 3 levels",
        "options: undefined is not JSON",
        {"a": {"b": {"c": 1}}},
        {},
    ]


# --- boot -------------------------------------------------------------------------------------------------------------


def test_a_bare_run_takes_everything_from_its_boot() -> None:
    """PTC-045 code and namespaces come with the frame; a syntax error is told through `done`."""
    guest = Guest()
    guest.answer = tools
    data = {"code": "return await tools.echo(1)", "namespaces": list(TYPED_TOOLS), "maxOutputBytes": 1000}
    guest.boot(data=data)
    guest.drive()
    assert value_of(guest) == 1
    guest = Guest()
    guest.boot(data={"code": "\nlet = ;", "namespaces": [], "maxOutputBytes": 1000})
    guest.drive()
    error = error_of(guest)
    assert error["kind"] == "exception"
    assert error["message"].startswith("SyntaxError: ")
    assert error["at"]["line"] == 2


def test_cpu_time_comes_from_the_host() -> None:
    """`cpuMs` is in `done` where the adapter offers the process clock."""
    guest = Guest(cpu=True)
    guest.load("return 1")
    guest.boot()
    guest.drive()
    assert guest.sent[-1] == {"type": "done", "value": [1], "cpuMs": 1.5}


# --- endings ----------------------------------------------------------------------------------------------------------


@FORMS
def test_values_and_no_value(form: str) -> None:
    """PTC-093 undefined has no value, null has one, and it is taken when the body settles."""
    assert "value" not in run("return", form=form).sent[-1]
    assert "value" not in run("", form=form).sent[-1]
    assert value_of(run("return null", form=form)) is None
    assert value_of(run("const o = {n: 1}; tools.echo(0).then(() => { o.n = 2 }); return o")) == {"n": 1}
    assert value_of(run("const o = {n: 1}; queueMicrotask(() => { o.n = 2 }); return o", form="sync")) == {"n": 1}


@pytest.mark.parametrize(
    "code",
    [
        "await new Promise(() => {})",
        "return new Promise(() => {})",
        "await {then() {}}",
        "await tools.echo(1); await new Promise(() => {})",
    ],
)
def test_a_body_that_can_never_settle_is_stuck(code: str) -> None:
    """PTC-091 as soon as no call is open and no job left."""
    error = error_of(run(code))
    assert error["kind"] == "stuck"
    assert "at" not in error


def test_stuck_in_the_sync_form_and_with_a_lost_rejection() -> None:
    """PTC-091 PTC-090 a returned promise that never settles; a rejection is the better reason."""
    assert error_of(run("return new Promise(() => {})", form="sync"))["kind"] == "stuck"
    error = error_of(run("Promise.reject(new Error('why')); await new Promise(() => {})"))
    assert (error["kind"], error["message"]) == ("exception", "Error: why")


def test_not_stuck_while_a_call_is_open() -> None:
    """PTC-091 an open call may still settle it."""
    guest = Guest()
    guest.load("await new Promise(r => tools.echo(1).then(r)); return 'ok'")
    guest.boot()
    guest.jobs()
    for _ in range(3):
        assert guest.call("turn", "") == "wait"
    guest.reply(1)
    guest.drive()
    assert value_of(guest) == "ok"


@FORMS
def test_unhandled_rejections(form: str) -> None:
    """PTC-090 with position; the body's own error wins, then the oldest; handled later is none."""
    error = error_of(run("(async () => {\n null.x })();\nreturn 1", form=form))
    assert error["kind"] == "exception"
    assert error["at"]["line"] == 2
    two = "Promise.reject(new Error('one')); Promise.reject(new Error('two'));"
    assert error_of(run(two + "return 1", form=form))["message"] == "Error: one"
    assert error_of(run(two + "throw new Error('own')", form=form))["message"] == "Error: own"
    assert error_of(run(two + "return NaN", form=form))["kind"] == "invalid-output"
    later = "queueMicrotask(() => p.catch(() => 0));"
    handled = "const p = Promise.reject(new Error('one')); Promise.reject(new Error('two'));" + later
    assert error_of(run(handled + "return 1", form=form))["message"] == "Error: two"
    assert value_of(run(f"const p = Promise.reject(1); {later} return 1", form=form)) == 1
    assert error_of(run("Promise.reject('text'); return 1", form=form)) == {"message": "text", "kind": "exception"}
    started = error_of(run("Promise.reject({get message() { return tools.echo(1) }}); return 1", form=form))
    assert started["message"] == "{message: [Getter]}"


@FORMS
def test_a_microtask_that_throws(form: str) -> None:
    """PTC-090 what a callback of `queueMicrotask` throws is an unhandled rejection, with its place."""
    error = error_of(run("queueMicrotask(() => {\n null.x });\nreturn 1", form=form))
    assert error["kind"] == "exception"
    assert error["at"]["line"] == 2


def test_describing_a_lost_rejection_starts_nothing() -> None:
    """PTC-090 an accessor asked at the very end can neither call nor log."""
    code = """
      class E extends Error { get message() { console.log('late'); tools.echo(1).catch(() => 0); return 'text' } }
      Promise.reject(new E); return 1
    """
    guest = run(code)
    assert [frame["type"] for frame in guest.sent] == ["done"]
    assert error_of(guest)["message"] == "Error: text"


@FORMS
def test_thenables_settle_by_the_language(form: str) -> None:
    """PTC-092 twice, throwing after resolving, changing `then`, subclasses."""
    twice = "return {then(yes, no) { yes(1); yes(2); no(3) }}"
    assert value_of(run(twice, form=form)) == 1
    assert value_of(run("return {then(yes) { yes(1); throw new Error('late') }}", form=form)) == 1
    assert error_of(run("return {then() { throw new Error('early') }}", form=form))["message"] == "Error: early"
    changing = "let n = 0; return {get then() { n++; return n > 1 ? undefined : (yes) => yes(n) }}"
    assert value_of(run(changing, form=form)) == 1
    assert value_of(run("class P extends Promise {}; return P.resolve([1])", form=form)) == [1]
    assert value_of(run("return Promise.resolve(Promise.resolve({a: 1}))", form=form)) == {"a": 1}
    assert value_of(run("return {then: 5}", form=form)) == {"then": 5}
    assert error_of(run("return Promise.reject(new Error('no'))", form=form))["message"] == "Error: no"
    inner = "class P extends Promise { then(...a) { return super.then(...a) } }; return P.resolve(1)"
    assert value_of(run(inner, form=form)) == 1


@FORMS
def test_an_error_has_its_place(form: str) -> None:
    """PTC-095 third line in both forms, LF and CRLF, multi-byte text before it; columns are code points."""
    for line_end in ("\n", "\r\n"):
        error = error_of(run(line_end.join(["'é😀';", "", "null.x"]), form=form))
        assert error["at"]["line"] == 3
        assert error["at"]["column"] in range(1, 7)
        assert error["message"].startswith("TypeError: ")
        wide = error_of(run(f"{line_end}{line_end}  'é中😀😀\ud800'; null.x", form=form))
        assert wide["at"]["line"] == 3
        assert wide["at"]["column"] == 12


@pytest.mark.parametrize(
    ("thrown", "message"),
    [
        ("'text'", "text"),
        ("null", "null"),
        ("undefined", "undefined"),
        ("-0", "-0"),
        ("{a: 1}", "{a: 1}"),
        ("{toString() { throw 1 }, valueOf: null}", "{toString: [Function toString], valueOf: null}"),
        ("Object.defineProperty(new Error('x'), 'message', {get() { throw 1 }})", "Error"),
        ("Object.assign(new Error('x'), {name: 5, message: {}})", "Error"),
        ("Object.assign(new Error('m'), {name: 'Own'})", "Own: m"),
        ("new (class extends RangeError { get name() { return 'Got' } })('m')", "Got: m"),
        ("new AggregateError([1], 'all')", "AggregateError: all"),
        ("new Proxy(new Error('m'), {})", "[unprintable]"),
        ("Symbol('s')", "Symbol(s)"),
        ("(() => { class A { b = 1 } return new A })()", "A {b: 1}"),
    ],
)
@FORMS
def test_whatever_is_thrown_is_one_exception(thrown: str, message: str, form: str) -> None:
    """PTC-096 also what resists being printed."""
    guest = run(f"throw {thrown}", form=form)
    error = error_of(guest)
    assert error["kind"] == "exception"
    if message != "[unprintable]":
        assert error["message"] == message
    assert len(guest.sent) == 1


def test_long_messages_and_stacks_are_cut() -> None:
    """PTC-097 a megabyte never crosses whole, and 20 frames are the most."""
    guest = run("const e = new Error('x'.repeat(1e6)); throw e")
    message = error_of(guest)["message"]
    assert message.startswith("Error: xxx")
    assert message.endswith(f"… [+{1_000_007 - 65_536} characters]")
    code = "const f = (n) => n === 0 ? (() => { throw new Error('x') })() : f(n - 1) + 1;"
    named = "Object.defineProperty(f, 'name', {value: 'n'.repeat(1e6)});"
    error = error_of(run(code + named + "f(40)"))
    assert error["stack"].count("\n") == 19
    assert len(error["stack"]) < 20 * 300
    small = run("throw new Error('é'.repeat(5000))", maxMessageBytes=400)
    assert len(small.texts[-1]) <= 400
    assert error_of(small)["message"].startswith("Error: " + "é" * 20)


def test_deep_recursion_is_an_ordinary_error() -> None:
    """PTC-106 RangeError, JSON.parse of deep brackets, deep regular expressions; the same run goes on."""
    code = """
      const seen = [];
      for (const f of [function r() { return r() + 1 }, () => JSON.parse('['.repeat(1e5)),
        () => new RegExp('('.repeat(1e5)), () => { const o = {}; let p = o; for (let i = 0; i < 1e5; i++) p = p.a = {};
          return JSON.stringify(o) }])
        try { f(); seen.push('none') } catch (e) { seen.push(e instanceof Error) }
      return [seen, await tools.echo([1, 2, 3])]
    """
    seen, after = value_of(run(code))
    assert after == [1, 2, 3]
    assert set(seen) <= {True, "none"}
    error = error_of(run("(function r() { return r() + 1 })()"))
    assert error["message"].startswith("RangeError: ")
    assert error["at"]["line"] == 1


def test_an_engine_out_of_memory_error_at_the_top_ends_the_process() -> None:
    """PTC-105 a refused reservation that is caught ends nothing; uncaught it is status 65."""
    grab = "const a = []; for (;;) a.push('x'.repeat(1 << 20) + a.length)"
    for code, status in ((f"{{ {grab} }}", "65"), (f"try {{ {grab} }} catch (e) {{ return e.message }}", None)):
        guest = Guest()
        guest.load(code)
        guest.context.set_memory_limit(64 * 1024 * 1024)
        if status is None:
            guest.boot()
            guest.drive()
            assert value_of(guest) == "out of memory"
        else:
            with pytest.raises(Ended):
                guest.boot()
                guest.jobs()
                guest.call("turn", "")
            assert guest.status == status
            assert guest.sent == []


# --- the ledger -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [4, 8, 40, 80])
def test_output_ends_on_the_exact_byte(limit: int) -> None:
    """PTC-111 for logs, value and message, multi-byte included."""
    for text in ("x", "é", "中", "😀", '"', "\n", "\ud800"):
        each = wire.string_size(text) - 2
        fits = (limit - 2 - 2) // each
        for count, ending in ((fits, "done"), (fits + 1, "output-limit")):
            shown = json.dumps(text)
            assert run(f"return {shown}.repeat({count})", max_output=limit).sent[-1]["type"] == ending
            logged = run(f"console.log({shown}.repeat({count}))", max_output=limit)
            assert logged.sent[-1]["type"] == ending
            assert logged.sent[0]["type"] == "log"  # also the one that does not fit: the host keeps its head
            thrown = run(f"throw {shown}.repeat({count})", max_output=limit)
            assert thrown.sent[-1]["type"] == ending


def test_after_the_output_limit_nothing_is_sent() -> None:
    """PTC-111 the process ends at once with status 0."""
    guest = run("for (let i = 0; ; i++) console.log(i)", max_output=100)
    assert guest.status == "0"
    assert guest.sent[-1]["type"] == "output-limit"
    assert logs_of(guest) == [str(i) for i in range(len(logs_of(guest)))]
    guest = run("for (;;) console.log('')", maxLogEntries=10)
    assert guest.sent[-1]["type"] == "output-limit"
    assert len(logs_of(guest)) == 11


def test_a_value_too_large_for_a_frame_is_output_limit() -> None:
    """PTC-114 although the ledger would have room."""
    assert run("return 'x'.repeat(2000)", maxMessageBytes=1000).sent[-1]["type"] == "output-limit"
    assert run("return 'x'.repeat(900)", maxMessageBytes=1000).sent[-1]["type"] == "done"


def test_a_stack_that_does_not_fit_is_dropped() -> None:
    """PTC-111 the message alone decides."""
    size = 2 + wire.string_size("Error: x")
    error = error_of(run("throw new Error('x')", max_output=size))
    assert error["message"] == "Error: x"
    assert "stack" not in error
    assert "at" in error
    assert "stack" in error_of(
        run("throw new Error('x')", max_output=size + wire.string_size("    at program.js:1:16"))
    )


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.text(st.characters(codec=None, categories=None), max_size=40), max_size=5),
    st.text(st.characters(codec=None, categories=None), max_size=20),
    st.integers(4, 300),
)
def test_host_and_guest_ledgers_agree(entries: list[str], value: str, limit: int) -> None:
    """PTC-112 both stop at the same entry and judge the same value."""
    code = "for (const e of input[0]) console.log(e); return input[1]"
    guest = run(code, input=[entries, value], input_name="input", max_output=limit)
    ledger = Ledger(Limits(max_output_bytes=limit))
    full = next((i for i, text in enumerate(entries) if ledger.add(LogEntry(wire.joined(text))) is not None), None)
    if full is None:
        assert guest.sent[-1]["type"] == ("done" if ledger.fits_value(wire.joined(value)) else "output-limit")
    else:
        assert len(logs_of(guest)) == full + 1
        assert guest.sent[-1]["type"] == "output-limit"


def test_measuring_a_large_text_is_quick() -> None:
    """PTC-112 8 MB of plain and of multi-byte text are measured without a copy of them in escapes."""
    began = time.perf_counter()
    for text in ("x", "中", "a\\n"):
        run(f"return '{text}'.repeat({OUTPUT_BYTES // 4 // len(text)})")
    assert time.perf_counter() - began < 30


def test_limits_may_differ_from_those_of_the_load() -> None:
    """The boot decides: output, tokens and entries are those of the run."""
    guest = Guest()
    guest.load("return [1, 2, 3]", TOOLS, limits={"maxValueTokens": 2})
    guest.boot(maxValueTokens=10)
    guest.drive()
    assert value_of(guest) == [1, 2, 3]


def test_everything_after_done_is_ignored() -> None:
    """A job left over by describing the end sends nothing."""
    guest = run("return 1")
    guest.context.eval("console.log('late'); 0")
    before: list[Any] = list(guest.sent)
    guest.jobs()
    assert guest.call("turn", "") == "done"
    assert guest.sent == before
