"""Typings: what TypeScript, and editors that use it, should know about a bundle's program.

    typings(bundle, tools) -> the text of program.d.ts

The same bundle and tools give the same bytes. Every bundle that loads has typings: what cannot be written as a type is
`unknown`.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from jsrun._words import in_order
from jsrun.belt import ToolSpec
from jsrun.bundle import Bundle
from jsrun.whitelist import matches
from ptc.tools.declarations import comment_line, member_name, quoted, schema_type
from ptc.wire import Json

__all__ = ["FILE", "typings"]

FILE: Final = "program.d.ts"
"""Where editors look for the types of program.js; a bundle may hold it."""

_OPEN_OBJECT: Final = "{ [key: string]: unknown }"
# References may lead here from places where no defaults are applied.
_PROPERTIES: Final = "#/properties/"

# The last line holds for every file of a compilation: programs find no other globals than the language's own.
_HEAD: Final = """\
// Types for {file}, made by "jsrun types". Make them again when the manifest, the prompts or the tools change.
// To check the program: tsc --noEmit --checkJs --strict --target esnext --moduleDetection force {file} program.d.ts
/// <reference no-default-lib="true" />
/// <reference lib="esnext" />
"""

_CONSOLE: Final = """\
interface Console {
  debug(...values: unknown[]): void;
  error(...values: unknown[]): void;
  info(...values: unknown[]): void;
  log(...values: unknown[]): void;
  warn(...values: unknown[]): void;
}
declare var console: Console;
interface Performance {
  now(): number;
}
declare var performance: Performance;
declare function queueMicrotask(callback: () => void): void;
"""

_DOORS: Final = """\
/** What a door takes as text. */
type DoorText = string | number | bigint | boolean;

/** Ask a model: a prompt and its input. It gives JSON if the answer is JSON, else text. */
declare function ai(
  ref: PromptRef,
  input?: unknown,
  options?: {{ schema?: object | null; effort?: "off" | "low" | "medium" | "high" | null }} | null,
): {any};

/** Call a tool of the whitelist. */
declare function tool<Name extends keyof Tools>(
  name: Name,
  ...args: Parameters<Tools[Name]>
): {result};

/** Ask a person. */
declare function ask(
  question: DoorText,
  options?: {{ options?: readonly DoorText[] | null; default?: DoorText | null }} | null,
): {string};

/** Keep a note for later runs. */
declare function remember(note: DoorText): {void};

interface Note {{
  text: string;
  /** When it was made, in UTC; "" if that is not known. */
  at: string;
}}

/** The notes that contain a text, newest first; all of them without one. */
declare function recall(query?: DoorText | null): {notes};

/** Say what is going on. The last status is the report of the run. */
declare function log(status?: DoorText | null): {void};

/** What a door throws that refuses or fails. */
declare class DoorError extends Error {{
  constructor(message?: string, door?: string, ref?: string);
  /** The door: ai, tool, ask, remember, recall or log. */
  door: string;
  /** The prompt, tool or question it was called with; "" if there is none. */
  ref: string;
}}
"""


def typings(bundle: Bundle, tools: Iterable[ToolSpec] = ()) -> str:
    """The text of program.d.ts. `tools` are those of the belt; of the whitelist, the others have open types."""
    is_async = bundle.form == "async"

    def given(kind: str) -> str:
        return f"Promise<{kind}>" if is_async else kind

    parts = [
        _HEAD.format(file=bundle.source if _is_plain(bundle.source) else "program.js"),
        _prompts(bundle.prompts),
        _shapes(bundle, is_async),
        _tools(bundle.manifest.whitelist, tools),
        _DOORS.format(
            any=given("any"),
            result=given("ReturnType<Tools[Name]>"),
            string=given("string"),
            notes=given("Note[]"),
            void=given("void"),
        ),
        _CONSOLE,
    ]
    return "\n".join(parts)


def _is_plain(name: str) -> bool:
    return name.isprintable() and " " not in name


def _prompts(names: Iterable[str]) -> str:
    union = " | ".join(quoted(name) for name in sorted(names)) or "never"
    return (
        "/** The names of the prompts. */\n"
        f"type PromptName = {union};\n\n"
        "/** A prompt as ai() takes it: by its name or by its path. */\n"
        'type PromptRef = PromptName | `${"" | "./"}${"" | "prompts/"}${PromptName}${"" | ".md"}`;\n'
    )


def _shapes(bundle: Bundle, is_async: bool) -> str:
    manifest = bundle.manifest
    given, made = manifest.input, manifest.output
    purpose = comment_line(manifest.purpose)
    result = "Promise<Output>" if is_async else "Output | Promise<Output>"
    return (
        "/** What the program is given. */\n"
        f"type Input = {'any' if given is None else _object_type(_with_defaults(given))};\n\n"
        "/** What it must give. */\n"
        f"type Output = {'{}' if made is None else _object_type(made)};\n\n"
        f"{purpose + chr(10) if purpose else ''}"
        f"type Run = (input: Input) => {result};\n\n"
        "declare let input: Input;\n"
    )


def _tools(whitelist: tuple[str, ...], tools: Iterable[ToolSpec]) -> str:
    known = {spec.name: spec for spec in tools if matches(spec.name, whitelist)}
    lines = ["/** The tools of the whitelist: what each takes and gives. */\n", "interface Tools {\n"]
    for name in sorted({name.strip() for name in whitelist}):
        spec = known.get(name)
        if spec is None:
            lines.append(f"  {member_name(name)}(args?: {_OPEN_OBJECT} | null): any;\n")
            continue
        if comment := comment_line(spec.description):
            lines.append(f"  {comment}\n")
        optional = not spec.input_schema.get("required")
        kind = _object_type(spec.input_schema, 1)
        args = f"args?: {kind} | null" if optional else f"args: {kind}"
        result = "any" if spec.output_schema is None else _type(spec.output_schema, 1)
        lines.append(f"  {member_name(name)}({args}): {result};\n")
    return "".join([*lines, "}\n"])


def _type(schema: Mapping[str, Json], level: int = 0) -> str:
    return schema_type(schema, level, _ordered)


def _object_type(schema: Mapping[str, Json], level: int = 0) -> str:
    """The type of a schema that objects alone fit, whether it says so or not."""
    kind = _type(schema, level)
    return _OPEN_OBJECT if kind == "unknown" else kind


def _ordered(names: Iterable[str], schema: dict[str, Any]) -> list[str]:
    return in_order(list(names), schema)


def _with_defaults(schema: Mapping[str, Json]) -> Mapping[str, Json]:
    """The schema of an input whose defaults have been applied: what has one is always there."""
    if _PROPERTIES in _references(schema):
        return schema
    copy = dict(schema)
    todo: list[dict[str, Json]] = [copy]
    while todo:
        inner = todo.pop()
        properties = inner.get("properties")
        if not isinstance(properties, dict):
            continue
        filled = {
            name: dict(property) if isinstance(property, dict) else property for name, property in properties.items()
        }
        inner["properties"] = filled
        present = [name for name, property in filled.items() if isinstance(property, dict) and "default" in property]
        required = inner.get("required")
        inner["required"] = [*(required if isinstance(required, list) else ()), *present]
        todo += [property for property in filled.values() if isinstance(property, dict)]
    return copy


def _references(schema: Mapping[str, Json]) -> str:
    """The text of all references in a schema."""
    found = []
    todo: list[Json] = [dict(schema)]
    while todo:
        value = todo.pop()
        if isinstance(value, dict):
            if isinstance(reference := value.get("$ref"), str):
                found.append(reference)
            todo += value.values()
        elif isinstance(value, list):
            todo += value
    return "\n".join(found)
