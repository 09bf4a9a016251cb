"""The rules a program must keep, given its facts and the bundle around it. Each rule is one function of the list."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from jsrun._text import quoted
from jsrun.diagnostics import Diagnostic, Severity, nearest
from jsrun.facts import DoorCall, Facts, Name, Place
from jsrun.prompts import RefProblem, normalize_ref
from jsrun.vocabulary import PROVIDED, UNAVAILABLE
from jsrun.whitelist import matches

# Names listed in a hint.
MOST_LISTED = 10
# Misspellings looked up for one program; a list of more is read by nobody, and each costs a comparison with all names.
MOST_LOOKED_UP = 30
# Names of its own that a program may have to be compared with a misspelling.
MOST_DECLARED = 1_000

_THENS = ("then", "catch", "finally")
_OPTIONS = {"ai": ("schema", "effort"), "ask": ("options", "default")}
_RUN_HINT = "Write function run(input) { … }."


@dataclass(slots=True)
class Surroundings:
    """What a program is checked against. `prompts` and `whitelist` are None where they could not be read."""

    file: str
    prompts: Collection[str] | None
    whitelist: tuple[str, ...] | None
    _meant: dict[tuple[str, str], str | None] = field(default_factory=dict)

    def meant(self, kind: str, name: str, candidates: Iterable[str]) -> str | None:
        """Of the names of one kind, that which was probably meant; each is looked up once, and not too many of them."""
        key = (kind, name)
        if key not in self._meant:
            self._meant[key] = nearest(name, candidates) if len(self._meant) < MOST_LOOKED_UP else None
        return self._meant[key]


Finding = tuple[str, Severity, Place, str, str]


def check_program(facts: Facts, around: Surroundings) -> Iterator[Diagnostic]:
    """Everything that is wrong with a program, apart from warnings its comments tell to drop."""
    for code, severity, place, message, hint in _findings(facts, around):
        if severity == "warning" and _is_ignored(facts.ignored, place[0], code):
            continue
        yield Diagnostic(code, severity, around.file, *place, message, hint)


def _is_ignored(ignored: Mapping[int, frozenset[str]], line: int, code: str) -> bool:
    return code in ignored.get(line, ()) or code in ignored.get(line - 1, ())


def _findings(facts: Facts, around: Surroundings) -> Iterator[Finding]:
    if facts.problem is not None:
        yield "syntax", "error", facts.problem.place, facts.problem.message, facts.problem.hint
    elif facts.empty:
        yield "program-empty", "error", (1, 1), "The program is empty.", _RUN_HINT
    else:
        for rule in _RULES:
            yield from rule(facts, around)


# --- the entry --------------------------------------------------------------------------------------------------------


def _entry(facts: Facts, around: Surroundings) -> Iterator[Finding]:
    for problem in facts.entry_problems:
        yield "entry-kind", "error", problem.place, problem.message, problem.hint
    if facts.entry is None and not facts.ends_with_value:
        message = 'The program gives no value: there is no "run", and its last statement is not an expression.'
        hint = "Write function run(input) { … }, or end with the value."
        yield "no-value", "error", facts.last or (1, 1), message, hint
    if facts.entry is not None and facts.entry.form == "opaque" and not facts.entry_problems:
        message = f"What {quoted(facts.entry.name)} holds cannot be seen, so it counts as a plain function."
        yield "entry-opaque", "warning", facts.entry.place, message, "Write the function in its place."


def _module_syntax(facts: Facts, around: Surroundings) -> Iterator[Finding]:
    for use in facts.module_syntax:
        message = f"A program is one file without modules, got {quoted(use.text)}."
        if use.text == "export":
            hint = "Remove the word; only export default is known."
        else:
            hint = "Write everything in one file, and reach the world through the doors."
        yield "module-syntax", "error", use.place, message, hint


# --- prompts and tools ------------------------------------------------------------------------------------------------


def _prompts(facts: Facts, around: Surroundings) -> Iterator[Finding]:
    for name in _known_names(facts, "ai"):
        ref = normalize_ref(name.text)
        if isinstance(ref, RefProblem) and ref.code == "inline":
            message = f"ai() takes the name of a prompt, not its text, got {quoted(name.text)}."
            yield "inline-prompt", "error", name.place, message, "Move the text to prompts/NAME.md."
        elif isinstance(ref, RefProblem):
            yield (
                "missing-prompt",
                "error",
                name.place,
                "ai() needs the name of a prompt, got none.",
                _prompt_hint("", around),
            )
        elif around.prompts is not None and ref not in around.prompts:
            yield "missing-prompt", "error", name.place, f"There is no prompt {quoted(ref)}.", _prompt_hint(ref, around)
    for call in _dynamic(facts, "ai"):
        message = "The name of this prompt is only known when it runs."
        yield "dynamic-prompt", "warning", call.place, message, 'Choose among names: x ? "one" : "other".'


def _prompt_hint(ref: str, around: Surroundings) -> str:
    if not around.prompts:
        return "Add prompts/NAME.md."
    meant = around.meant("prompt", ref, around.prompts)
    return f"Did you mean {quoted(meant)}?" if meant else f"Use one of: {_listed(around.prompts)}."


def _tools(facts: Facts, around: Surroundings) -> Iterator[Finding]:
    if around.whitelist is not None:
        for name in _known_names(facts, "tool"):
            wanted = name.text.strip()
            if not matches(wanted, around.whitelist):
                meant = around.meant("tool", wanted, around.whitelist)
                hint = f"Did you mean {quoted(meant)}?" if meant else "Add it to the whitelist in manifest.json."
                message = f"The tool {quoted(wanted)} is not on the whitelist."
                yield "tool-not-whitelisted", "error", name.place, message, hint
    for call in _dynamic(facts, "tool"):
        message = "The name of this tool is only known when it runs."
        yield "dynamic-tool", "warning", call.place, message, 'Choose among names: x ? "one" : "other".'


def _known_names(facts: Facts, door: str) -> Iterable[Name]:
    """Every text that names something in a call of the door, each place once."""
    return dict.fromkeys(name for call in facts.calls if call.door == door for name in call.names or ())


def _dynamic(facts: Facts, door: str) -> Iterable[DoorCall]:
    return (call for call in facts.calls if call.door == door and call.names is None)


def _listed(names: Collection[str]) -> str:
    shown = sorted(names)[:MOST_LISTED]
    more = f" and {len(names) - MOST_LISTED:,} more" if len(names) > MOST_LISTED else ""
    return ", ".join(shown) + more


def unused_names(facts: Facts, door: Literal["ai", "tool"], names: Iterable[str]) -> list[str]:
    """Those of `names` that no call of the door uses. None if the program may use any: a call with a name that is not
    known, a door passed around as a value, code made at run time."""
    if facts.problem is not None or facts.empty or door in facts.escaped or facts.dynamic_code:
        return []
    if any(True for _ in _dynamic(facts, door)):
        return []
    used = set()
    for name in _known_names(facts, door):
        ref = normalize_ref(name.text) if door == "ai" else name.text.strip()
        if isinstance(ref, str):
            used.add(ref)
    return [name for name in names if name not in used]


# --- how doors are called ---------------------------------------------------------------------------------------------


def _awaiting(facts: Facts, around: Surroundings) -> Iterator[Finding]:
    for call in facts.calls:
        then = call.use == "property" and call.property in _THENS
        if facts.form == "sync" and then:
            message = f"{call.door}() gives its value at once in this program, so there is no {quoted(call.property)}."
            hint = "Use the value, or make run async: async function run(input) { … }."
            yield "door-then", "error", call.place, message, hint
        elif facts.form == "async" and call.door != "log" and call.use != "value" and not then:
            message = f"{call.door}() gives a promise here, and nobody awaits it."
            yield "floating-door", "warning", call.place, message, "Put await before it."


def _options(facts: Facts, around: Surroundings) -> Iterator[Finding]:
    for call in facts.calls:
        known = _OPTIONS.get(call.door, ())
        told: set[Place] = set()
        for option in call.options:
            # The keys of a constant all stand where it is used, and one of them is enough to find the mistake.
            if option.text not in known and option.place not in told:
                told.add(option.place)
                meant = nearest(option.text, known)
                hint = f"Did you mean {quoted(meant)}?" if meant else f"Use {' or '.join(map(quoted, known))}."
                message = f"{call.door}() has no option {quoted(option.text)} and ignores it."
                yield "unknown-option", "warning", option.place, message, hint


def _doors(facts: Facts, around: Surroundings) -> Iterator[Finding]:
    for name in facts.overwritten:
        message = f"{quoted(name.text)} is the name of a door, or of its error, and cannot be given to anything else."
        yield "door-overwritten", "error", name.place, message, "Rename it."
    for name in facts.shadowed:
        message = f"{quoted(name.text)} hides the door of that name here, and calls of it are not checked."
        yield "door-shadowed", "warning", name.place, message, "Rename it."


def _redeclared(facts: Facts, around: Surroundings) -> Iterator[Finding]:
    for name, (line, _) in facts.redeclared:
        message = f"{quoted(name.text)} is declared already, on line {line}."
        yield "syntax", "error", name.place, message, "Rename one of them, or assign without declaring it again."


# --- names and numbers ------------------------------------------------------------------------------------------------


def _unbound(facts: Facts, around: Surroundings) -> Iterator[Finding]:
    known = PROVIDED | facts.declared if len(facts.declared) <= MOST_DECLARED else PROVIDED
    for use in facts.unbound:
        if use.text in UNAVAILABLE:
            yield (
                "unavailable-global",
                "error",
                use.place,
                f"There is no {quoted(use.text)} here.",
                UNAVAILABLE[use.text],
            )
        elif use.text not in PROVIDED and use.text != "arguments":
            meant = around.meant("name", use.text, known)
            hint = f"Did you mean {quoted(meant)}?" if meant else "Declare it first."
            yield "undeclared", "warning", use.place, f"{quoted(use.text)} is declared nowhere.", hint


def _dynamic_code(facts: Facts, around: Surroundings) -> Iterator[Finding]:
    for use in facts.dynamic_code:
        message = f"What {quoted(use.text)} runs cannot be checked."
        yield "dynamic-code", "warning", use.place, message, "Write the code in the program."


def _integers(facts: Facts, around: Surroundings) -> Iterator[Finding]:
    for number in facts.big_integers:
        message = f"The number {quoted(number.text, 40)} is too large to be exact."
        hint = f"Write {number.text}n." if len(number.text) <= 40 else "Write it with n at its end."
        yield "unsafe-integer", "warning", number.place, message, hint


Rule = Callable[[Facts, Surroundings], Iterator[Finding]]
_RULES: tuple[Rule, ...] = (
    _entry,
    _module_syntax,
    _prompts,
    _tools,
    _awaiting,
    _options,
    _doors,
    _redeclared,
    _unbound,
    _dynamic_code,
    _integers,
)
