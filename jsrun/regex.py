"""Matching the JavaScript regular expressions of schemas, in an engine process that can be stopped."""

from collections import OrderedDict
from typing import Final, cast

from jsrun.schemas import Pairs, RegexOverBound
from ptc.errors import PtcError
from ptc.limits import Limits
from ptc.runtime import Runtime

# Real patterns take microseconds. What backtracks for a second would do so for ever.
SECONDS: Final = 1.0
# Answers kept, of texts of up to so many characters: models repeat themselves, and a process takes its time to start.
_CACHED: Final = 10_000
_CACHED_CHARS: Final = 200

# JSON Schema wants Unicode mode. It refuses escapes that many people write (`\-`), so the old mode is tried after it.
_CODE: Final = """
function compile(pattern) {
  for (const flags of ["u", ""]) {
    try { return new RegExp(pattern, flags) } catch {}
  }
  return null
}
return input.map(([pattern, texts]) => {
  const regex = compile(pattern)
  return texts.map(text => regex === null ? null : regex.test(text))
})
"""


class EngineRegexTester:
    """A RegexTester with an engine of its own, started when there is something to match and gone when it is done."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, str], bool | None] = OrderedDict()

    async def test(self, pairs: Pairs) -> list[bool | None]:
        """For each (pattern, text): is the pattern found in the text? None for what is no regular expression.

        Raises RegexOverBound if the engine does not answer within a second.
        """
        groups: dict[str, dict[str, None]] = {}
        for pattern, text in pairs:
            if (pattern, text) not in self._known:
                groups.setdefault(pattern, {})[text] = None
        found = await _match(groups) if groups else {}
        answers = [found[pair] if pair in found else self._known[pair] for pair in pairs]
        for pair, answer in found.items():
            if len(pair[0]) + len(pair[1]) <= _CACHED_CHARS:
                self._known[pair] = answer
        while len(self._known) > _CACHED:
            self._known.popitem(last=False)
        return answers


async def _match(groups: dict[str, dict[str, None]]) -> dict[tuple[str, str], bool | None]:
    given = [[pattern, list(texts)] for pattern, texts in groups.items()]
    try:
        async with Runtime(limits=Limits(cpu=2 * SECONDS), spares=0) as runtime:
            outcome = await runtime.run(_CODE, input=given, input_name="input", form="sync", timeout=SECONDS)
    except PtcError as error:
        raise RegexOverBound(f"could not be done: {error}") from error
    if outcome.failure is not None:
        late = outcome.failure.kind in ("timeout", "compute-limit")
        raise RegexOverBound(f"takes more than {SECONDS:g} second" if late else "takes too much memory")
    lists = cast("list[list[bool | None]]", outcome.value)
    return {
        (pattern, text): answer
        for (pattern, texts), answers in zip(groups.items(), lists, strict=True)
        for text, answer in zip(texts, answers, strict=True)
    }
