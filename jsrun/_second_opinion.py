"""What the engine says of a program that the checker cannot read."""

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from jsrun.diagnostics import Diagnostic
from ptc.errors import LoadError, PtcError
from ptc.runtime import Runtime

# As long as the two words, and like them in front of any declaration or expression.
_EXPORT: Final = re.compile(r"^([ \t]*)export default\b", re.MULTILINE)
_EXPORT_AS: Final = "var $export  ="
# What the engine, which gets a program as the inside of a function, sees in another light.
_NOT_ASKED: Final = re.compile(r"^[ \t]*(?:import|export)\b(?! default\b)", re.MULTILINE)
_RETURN: Final = '"return" stands outside'
_END: Final = "The program ends too early."
_HINT: Final = "The engine takes this text, but the checker cannot read it. Write it in a simpler way."


async def second_opinion(
    diagnostics: Iterable[Diagnostic], file: str, program: str, runtime: Runtime
) -> tuple[Diagnostic, ...]:
    """The diagnostics; the one that says that `program` does not parse with what the engine says about that.

    The engine's place is shown, unless it has read on beyond the parser's. Where the engine has nothing against the
    text, the hint says so; an error it stays.
    """
    found = tuple(diagnostics)
    parsing = next((one for one in found if one.code == "syntax" and one.file == file), None)
    if parsing is None or parsing.message.startswith(_RETURN) or _NOT_ASKED.search(program):
        return found
    told = await _told(parsing, program, runtime)
    return tuple(told if one is parsing else one for one in found)


async def _told(parsing: Diagnostic, program: str, runtime: Runtime) -> Diagnostic:
    try:
        image = await runtime.load(_EXPORT.sub(rf"\1{_EXPORT_AS}", program), form="async", name=parsing.file)
    except LoadError as error:
        failure = error.failure
        at = failure.position
        if failure.kind != "exception" or at is None or (at.line, at.column) >= (parsing.line, parsing.column):
            return parsing
        message = parsing.message if parsing.message == _END else f"The engine refuses the program: {failure.message}."
        return replace(parsing, line=at.line, column=at.column, message=message)
    except PtcError:
        return parsing
    await image.unload()
    return replace(parsing, hint=_HINT)
