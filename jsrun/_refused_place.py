"""Where a program is wrong that the engine refuses without saying where: QuickJS is silent on regular expressions."""

import re
from typing import Final

from jsrun.facts import Name, Place
from jsrun.positions import Lines
from ptc.errors import PtcError
from ptc.runtime import Runtime

# Compiling takes microseconds, even for the longest expressions.
_SECONDS: Final = 1.0
_CODE: Final = """
return input.map(([pattern, flags]) => {
  try { new RegExp(pattern, flags); return true } catch { return false }
})
"""
_PRIVATE_NAME: Final = re.compile(r"private field '(#[^']+)'")


async def refused_place(message: str, source: str, regexes: tuple[Name, ...], runtime: Runtime) -> Place | None:
    """The place that `message`, the engine's, is about: a private name, or else one of the program's expressions.

    None if it is not known.
    """
    private = _PRIVATE_NAME.search(message)
    if private is not None:
        found = re.search(re.escape(private[1]) + r"(?![\w$])", source)
        return None if found is None else Lines(source).position(found.start())
    # /pattern/flags
    parts = [regex.text[1:].rsplit("/", 1) for regex in regexes]
    if not parts:
        return None
    try:
        outcome = await runtime.run(_CODE, input=parts, input_name="input", form="async", timeout=_SECONDS)
    except PtcError:
        return None
    answers = outcome.value if isinstance(outcome.value, list) else []
    return next((regex.place for regex, valid in zip(regexes, answers, strict=False) if valid is False), None)
