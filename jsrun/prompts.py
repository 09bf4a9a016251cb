"""Prompts: the texts a program asks a model with, found by the name its `ai()` call gives."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from jsrun._text import quoted

# A prompt's file name is at most 120 characters; what is longer can only be the text itself.
REF_BYTES = 120
# A blank inside a reference is what tells a sentence from a name.
_INNER_BLANKS = " \t\r\n"


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt: the bare name of its file (None for a judgement's question) and its text, untouched."""

    name: str | None
    text: str


@dataclass(frozen=True, slots=True)
class RefProblem:
    """Why a reference names no prompt: what is wrong (`message`) and what to do about it (`hint`)."""

    code: Literal["blank", "inline", "unknown"]
    message: str
    hint: str

    def __str__(self) -> str:
        return f"{self.message} {self.hint}"


def normalize_ref(text: str) -> str | RefProblem:
    """The bare prompt name that `text` stands for, or the reason why it is none (`blank`, `inline`).

    Blanks around it, one leading `./`, then one leading `prompts/` and one trailing `.md` are taken off, in that order
    and case-sensitively. Whether the bundle has such a prompt is `find_prompt`'s question.
    """
    ref = text.strip()
    if not ref:
        return RefProblem("blank", "ai() needs the name of a prompt, got a blank text.", _NAME_HINT)
    size = len(ref.encode("utf-8", "surrogatepass"))
    if size > REF_BYTES or any(blank in ref for blank in _INNER_BLANKS):
        return RefProblem("inline", f"ai() takes the name of a prompt, not its text, got {quoted(ref)}.", _INLINE_HINT)
    return ref.removeprefix("./").removeprefix("prompts/").removesuffix(".md")


def find_prompt(text: str, names: Iterable[str]) -> str | RefProblem:
    """Like `normalize_ref`, and `unknown` if none of `names` is the bare name; the hint lists them sorted."""
    bare = normalize_ref(text)
    known = sorted(names)
    if isinstance(bare, RefProblem) or bare in known:
        return bare
    message = f"There is no prompt {quoted(text.strip())}."
    if not known:
        return RefProblem("unknown", message, "This bundle has no prompts: add prompts/NAME.md.")
    return RefProblem("unknown", message, f"Use one of: {', '.join(known)}.")


_NAME_HINT = 'Write ai("NAME") for the text in prompts/NAME.md.'
_INLINE_HINT = 'Move the text to prompts/NAME.md and write ai("NAME").'
