"""The guest half of the channel protocol, in JavaScript: one script made of the parts below.

The parts share one function scope, so their order is the order of their dependencies; each begins with a comment that
says what it is for. `source()` gives the whole script. Its completion value is an object of entry functions; see
`program.js` for the contract with the engine adapter.
"""

import os  # pathlib would be the only reason to import it in a guest process

PARTS = (
    "intrinsics.js",
    "text.js",
    "stack.js",
    "wire.js",
    "print.js",
    "output.js",
    "calls.js",
    "realm.js",
    "program.js",
)

# The body of a program is compiled behind this many line breaks. Everything of ours has fewer lines, so a stack frame
# above this line is never the program's. stack.js holds the same number.
BASE_LINE = 4096


def source() -> str:
    """Read the parts and join them into one script. Raises OSError if a part cannot be read."""
    here = os.path.dirname(__file__)  # noqa: PTH120
    texts = []
    for part in PARTS:
        with open(f"{here}/{part}", encoding="utf-8") as file:  # noqa: PTH123
            texts.append(file.read())
    script = "(function () {\n'use strict';\n" + "".join(texts) + "})()\n"
    if script.count("\n") >= BASE_LINE:
        raise RuntimeError(f"the prelude has more than {BASE_LINE} lines, so its frames would look like the program's")
    return script
