"""What a model reads about `run_code`: its description, the schema of its arguments, and the prompt."""

from typing import Final

from ptc.limits import MIB, Limits
from ptc.tools.declarations import ERROR_CLASS, MEMBER_NAME
from ptc.tools.model import RUN_CODE
from ptc.wire import Json

__all__ = ["prompt", "run_code_description", "run_code_parameters"]

_RULE: Final = f"""\
Call only `{RUN_CODE}` directly. Every other tool is a function of the object `tools` inside the program you give it; \
a direct call of one is refused.
"""

_CHOICE: Final = f"""\
`{RUN_CODE}` runs a program in which every tool is a function of the object `tools`. Use it when a task takes several \
calls or gives more data than you need to read; call a tool directly when one call will do.
"""

_ADVICE: Final = """
Write programs that do as much of the task as they can:
- Loop, branch and filter in code instead of calling again. Print or return only what you need to read.
- Put calls that do not depend on each other into `Promise.all`; up to {max_parallel:,} that are safe side by side run \
at once. Answers arrive in the order of the calls.
- A call takes exactly one object, `{{}}` if there is nothing to say, and is awaited: `await tools.name({{ … }})`.
- Catch `{error_class}` (`message`, `{member}`) only where the program can go on without the answer.

```ts
{declarations}```
"""


def prompt(declarations: str, *, only_programs: bool, max_parallel: int) -> str:
    """The prompt for a model that has `run_code`. With `only_programs` it has no other tool, and is told so first."""
    advice = _ADVICE.format(
        max_parallel=max_parallel, error_class=ERROR_CLASS, member=MEMBER_NAME, declarations=declarations
    )
    return (_RULE if only_programs else _CHOICE) + advice


def run_code_description(limits: Limits, max_result_chars: int) -> str:
    """The description of `run_code`: what it needs, what a program can do, what comes back, within which limits."""
    return f"""\
Run a TypeScript program that calls tools, and read what it prints and returns. `code` and `description` are required.

`code` is the body of an async function: `await` and `return` work at its top level. Tools are functions of the object \
`tools`: `const page = await tools.fetch({{ url }})`. A call that fails throws a {ERROR_CLASS}.
There are no imports, no timers, no files and no network, and nothing is kept from one program to the next. Arguments, \
answers and the returned value are JSON: no undefined, NaN, Date, Map or class instances inside them.
You get the text of each `console.log`, then the returned value; of more than {max_result_chars:,} characters the \
middle is left out. A program that fails tells where and why, how many calls it had finished, and what it had printed.
Limits: {_timeout(limits)}; {limits.cpu:g} seconds of computing, {limits.memory / MIB:,.4g} MiB of memory, \
{limits.max_calls:,} calls."""


def run_code_parameters(limits: Limits) -> dict[str, Json]:
    """The JSON Schema of the arguments of `run_code`."""
    return {
        "type": "object",
        "properties": {
            "code": {"type": "string", "description": "TypeScript, the body of an async function."},
            "description": {"type": "string", "description": "What the program does, in 5 to 10 words."},
            "timeout": {
                "type": "number",
                "exclusiveMinimum": 0,
                "description": f"Seconds the program may take, its calls included: {_timeout(limits)}.",
            },
        },
        "required": ["code", "description"],
        "additionalProperties": False,
    }


def _timeout(limits: Limits) -> str:
    most = f"at most {limits.max_timeout:g}"
    if limits.timeout is None:
        return f"no deadline unless `timeout` sets one, {most} seconds"
    return f"{limits.timeout:g} seconds unless `timeout` says otherwise, {most}"
