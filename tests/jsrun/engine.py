"""Running a program's body in the real engine, with the smallest `$jsrun` there can be."""

import json
import re
from dataclasses import dataclass

import _quickjs

from jsrun.program import Program
from ptc.wire import Json

# What precedes the body in `_wrap`.
_LINES_BEFORE = 1


@dataclass(frozen=True)
class Ran:
    """What came of a program: its output, or the message and the place (in the file) of its error."""

    output: Json = None
    error: str | None = None
    place: tuple[int, int] | None = None


def run_body(program: Program, given: Json = None) -> Ran:
    """Run a program's body with `given` as its input."""
    context = _quickjs.Context()
    kind = "async " if program.form == "async" else ""
    context.eval("globalThis.answer = undefined; globalThis.failure = undefined;")
    try:
        function = context.eval(f'({kind}function ($jsrun, input) {{ "use strict"; L: {{\n{program.body}\n}} }})')
    except _quickjs.JSException as error:
        return _failed(program, str(error))
    context.eval("globalThis.start = (f, text) => { START }".replace("START", _START))(function, json.dumps(given))
    while context.execute_pending_job():
        pass
    if context.eval("failure !== undefined"):
        return _failed(program, context.eval("failure"))
    text = context.eval("answer")
    return Ran(None if text is None else json.loads(text))


_START = """
const $jsrun = {value: undefined, entry(held) {
  return typeof held === "function" ? (0, held)(JSON.parse(text)) : this.value;
}};
const fail = error => { failure = String(error) + "\\n" + (error && error.stack); };
try {
  Promise.resolve(f($jsrun, JSON.parse(text))).then(value => { answer = JSON.stringify(value); }, fail);
} catch (error) { fail(error); }
"""


def _failed(program: Program, text: str) -> Ran:
    place = re.search(r"<input>:(\d+):(\d+)", text)
    where = None if place is None else program.position(int(place[1]) - _LINES_BEFORE, int(place[2]))
    return Ran(error=text.split("\n")[0], place=where)
