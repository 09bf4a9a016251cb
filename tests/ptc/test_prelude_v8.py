"""The prelude in V8: the same values, refusals, texts and places, as far as one realm can show it."""

import json
from pathlib import Path
from typing import Any

import pytest

from ptc import frames, wire
from ptc.guest.prelude import source

py_mini_racer = pytest.importorskip("py_mini_racer")

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parent / "golden_wire.json").read_text("utf-8"))

# The host functions write to a list nobody else has; `take` empties it. V8 runs the jobs by itself after each call.
HOST = """
  var guest = (() => {
    const sent = [];
    globalThis.__ptc_send = (text) => { sent.push(text); return ''; };
    globalThis.__ptc_exit = () => '';
    const { stringify } = JSON;
    const entries = PRELUDE;
    return { entries, take: () => stringify(sent), };
  })(); 0
"""


def run(code: str) -> list[str]:
    """The texts of all frames of one program; `echo` gives its argument back, `fail` fails."""
    context = py_mini_racer.MiniRacer()
    context.eval(HOST.replace("PRELUDE", source()))

    def call(entry: str, message: object) -> str:
        result: str = context.eval(f"guest.entries.{entry}({json.dumps(json.dumps(message))})")
        return result

    names = {"global": "tools", "names": ["echo", "fail"]}
    typed = {**names, "errorClass": {"name": "ToolCallError", "memberNameProperty": "toolName"}}
    data = {"code": code, "namespaces": [typed], "maxOutputBytes": 1 << 20}
    load = {"data": data, "form": "async", "name": "program.js", "setup": "", "inputName": "", "limits": {}}
    assert call("load", load) == "{}"
    call("warm", "")
    call("boot", {"type": "boot", "data": {"code": "", "namespaces": [], "maxOutputBytes": 1 << 20}, "limits": {}})
    answered = 0
    while call("turn", "") == "wait":
        sent = [json.loads(text) for text in json.loads(context.eval("guest.take()"))]
        made = [frame for frame in sent if frame["type"] == "call"][answered]
        answered += 1
        reply = {
            "type": "reply",
            "id": made["id"],
            "ok": made["name"] == "echo",
            "value": made["args"],
            "message": "no",
        }
        call("deliver", reply)
    texts: list[str] = json.loads(context.eval("guest.take()"))
    return texts


def test_golden_values() -> None:
    """PTC-001 every value encodes to its tokens, and comes back as the same."""
    rows = GOLDEN["values"]
    echoes = "".join(f"await tools.echo(await tools.echo({row['js']}));\n" for row in rows)
    texts = run(echoes)
    for i, row in enumerate(rows):
        assert texts[2 * i].endswith(f'"args":{row["wire"]}}}')
        assert texts[2 * i + 1].endswith(f'"args":{row["wire"]}}}')
    assert texts[-1] == '{"type":"done"}'


def test_golden_refusals() -> None:
    """PTC-004 PTC-005 PTC-006 PTC-015 every refusal has its text."""
    rows = [row for row in GOLDEN["refused_js"] if "…" not in row["text"]]
    tries = "".join(f"try {{ await tools.echo({row['js']}) }} catch (e) {{ texts.push(e.message) }}\n" for row in rows)
    last = frames.loads(run(f"const texts = [];\n{tries}return texts")[-1].encode())
    assert isinstance(last, dict)
    assert wire.decode(last["value"]) == ["args" + row["text"].removeprefix(row["root"]) for row in rows]


def test_places_and_stacks() -> None:
    """PTC-076 PTC-083 PTC-095 program frames only, columns in code points, a failure at its call."""
    last = json.loads(run("const f = () => {\n  '😀'; null.x };\nf()")[-1])
    assert last["error"]["at"] == {"line": 2, "column": 13}
    assert last["error"]["stack"] == "    at f (program.js:2:13)\n    at program.js:3:1"
    failed = json.loads(run("\nconst p = tools.fail(1);\nawait p")[-1])["error"]
    assert failed["message"] == "ToolCallError: no"
    assert failed["at"]["line"] == 2
    hooked = run(
        "Error.prepareStackTrace = () => 'hooked'; return [new Error('x').stack, typeof Error.captureStackTrace]"
    )
    assert wire.decode(json.loads(hooked[-1])["value"]) == ["    at program.js:1:51", "undefined"]


def test_console_formats() -> None:
    """PTC-098 the same texts as in QuickJS."""
    code = """
      console.log({a: 1, 'b c': 'x'}, [1,,2], new Map([['k', 1]]), new Set([1]), 2n, -0, Symbol('s'), function f() {},
        new (class Point { x = 1 }), new Date(0), /a/giu, new Uint8Array(2), Promise.resolve(1), {get a() { throw 1 }});
      queueMicrotask(() => console.log(typeof performance.now()));
    """
    logs = [json.loads(text)["text"] for text in run(code)[:-1]]
    assert logs == [
        '{a: 1, "b c": "x"} [1, empty, 2] Map(1) {"k" => 1} Set(1) {1} 2n -0 Symbol(s) [Function f] Point {x: 1} '
        "1970-01-01T00:00:00.000Z /a/giu Uint8Array(2) [0, 0] Promise {} {a: [Getter]}",
        "number",
    ]
