"""Tools as TypeScript, for a model that writes programs against them.

    declarations(tools) -> text

Total: any JSON value may stand where a schema should, of any depth, with references in circles; what is not understood
is `unknown`. The same tools give the same bytes, in whatever order they and the members of their schemas come.
"""

import json
import math
import re
from collections.abc import Callable, Generator, Iterable
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import unquote

from ptc.tools.model import Tool
from ptc.wire import MAX_SAFE_INTEGER, joined, number_text

__all__ = ["ERROR_CLASS", "MEMBER_NAME", "comment_line", "declarations", "member_name", "quoted", "schema_type"]

ERROR_CLASS: Final = "ToolCallError"
MEMBER_NAME: Final = "toolName"

# Parts of a schema put into one type. Real tools have a few dozen; references that fan out would fill any memory.
# Beyond the first number, what is not a plain type is `unknown`; beyond the second, everything is.
MAX_PARTS: Final = 2_000
MOST_PARTS: Final = 4 * MAX_PARTS
# An object without comments that is not longer stays on one line.
LINE_CHARS: Final = 80
# Levels of objects with lines of their own. Deeper ones stay on one line, or most of the text would be indentation.
MAX_LEVELS: Final = 12

_INDENT: Final = "  "
_IDENTIFIER: Final = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_BLANKS: Final = re.compile(r"[\x00-\x20\x7f-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]+")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_HIDDEN: Final = re.compile("[\x7f-\xa0\u2028\u2029\ud800-\udfff\ufeff]")
# `new(…)` declares a constructor, and parsers take `abstract` for the beginning of a type.
_SPECIAL_NAMES: Final = frozenset({"abstract", "new"})
_SIMPLE: Final = {"boolean": "boolean", "integer": "number", "null": "null", "number": "number", "string": "string"}
# What belongs to values of one type only, and so tells the type where a schema does not.
_IMPLIED: Final = {
    "array": ("items", "prefixItems"),
    "object": ("properties", "required", "additionalProperties", "patternProperties"),
}

Order: TypeAlias = Callable[[Iterable[str], dict[str, Any]], Iterable[str]]
"""Takes the names of an object's properties and its schema, and gives the same names in order."""


def declarations(tools: Iterable[Tool]) -> str:
    """The object `tools` and the class of its errors, as TypeScript declarations."""
    members = [
        (
            comment_line(tool.description),
            f"{member_name(tool.name)}(args: {schema_type(tool.parameters, 1)}): Promise<{_result_type(tool)}>",
        )
        for tool in sorted(tools, key=lambda tool: tool.name)
    ]
    error = f"declare class {ERROR_CLASS} extends Error {{ readonly {MEMBER_NAME}: string }}"
    return f"{error}\n\ndeclare const tools: {_lines(members, 0) if members else '{}'};\n"


def alphabetical(names: Iterable[str], schema: dict[str, Any]) -> Iterable[str]:
    """The usual order of an object's properties: the same whatever order they came in."""
    return sorted(names)


def schema_type(schema: object, level: int = 0, order: Order = alphabetical) -> str:
    """The type of the values a schema describes. `level` is the indentation of the line it stands in.

    `order` puts the properties of each object in order.
    """
    return _Types(schema, order).text(level)


def _result_type(tool: Tool) -> str:
    return "unknown" if tool.output is None else schema_type(tool.output, 1)


class _Type(NamedTuple):
    """The text of a type, and the operator it has outside of brackets: `|`, `&` or none."""

    text: str
    operator: str = ""


_UNKNOWN: Final = _Type("unknown")
_NEVER: Final = _Type("never")

_Member: TypeAlias = tuple[str, str]
"""A comment, "" for none, and the member itself."""

# To get an inner type, a step yields the step that makes it. So steps never call each other, and depth is no matter.
_Step: TypeAlias = Generator[Any, Any, _Type]


class _Types:
    """Makes the type of one root schema."""

    def __init__(self, root: object, order: Order) -> None:
        self._root = root
        self._order = order
        self._parts = 0
        self._inside: set[int] = set()
        """The targets of the references that are being followed, by which a circle is noticed."""

    def text(self, level: int) -> str:
        stack = [self._type(self._root, level)]
        result: _Type | None = None
        while stack:
            try:
                inner = stack[-1].send(result)
            except StopIteration as end:
                stack.pop()
                result = end.value
            else:
                stack.append(inner)
                result = None
        assert result is not None
        return result.text

    def _is_full(self) -> bool:
        self._parts += 1
        return self._parts > MOST_PARTS

    def _type(self, schema: object, level: int) -> _Step:
        if self._is_full():
            return _UNKNOWN
        if schema is False:
            return _NEVER
        if not isinstance(schema, dict):
            return _UNKNOWN
        if self._parts > MAX_PARTS:
            name = schema.get("type")
            return _Type(_SIMPLE[name]) if isinstance(name, str) and name in _SIMPLE else _UNKNOWN
        parts = [self._literal(schema)]
        if parts[0] is _UNKNOWN:
            parts.append((yield self._base(schema, level)))
        if "$ref" in schema:
            parts.append((yield self._reference(schema["$ref"], level)))
        for keyword in ("anyOf", "oneOf"):
            alternatives = _array(schema, keyword)
            if alternatives:
                types = []
                for inner in alternatives:
                    types.append((yield self._type(inner, level)))
                    if types[-1] is _UNKNOWN:
                        break
                parts.append(_union(types))
        for inner in _array(schema, "allOf"):
            parts.append((yield self._type(inner, level)))
        return _intersection(parts)

    def _literal(self, schema: dict[str, Any]) -> _Type:
        """The values of `const` or `enum`; unknown if there are none, or if one cannot be written as a type."""
        types = []
        for value in [schema["const"]] if "const" in schema else _array(schema, "enum"):
            if self._is_full():
                return _UNKNOWN
            types.append(_literal(value))
        return _union(types) if types else _UNKNOWN

    def _reference(self, reference: object, level: int) -> _Step:
        target = _follow(self._root, reference)
        if not isinstance(target, dict) or id(target) in self._inside:
            return _UNKNOWN
        self._inside.add(id(target))
        result: _Type = yield self._type(target, level)
        self._inside.remove(id(target))
        return result

    def _base(self, schema: dict[str, Any], level: int) -> _Step:
        """What `type` says, or what the other keywords imply."""
        named = schema.get("type")
        names = [named] if isinstance(named, str) else [name for name in _array(schema, "type") if type(name) is str]
        if named is None:
            names = [name for name, keywords in _IMPLIED.items() if any(keyword in schema for keyword in keywords)][:1]
        types = []
        for name in dict.fromkeys(names):
            if name == "object":
                types.append((yield self._object(schema, level)))
            elif name == "array":
                types.append((yield self._list(schema, level)))
            else:
                types.append(_Type(_SIMPLE[name]) if name in _SIMPLE else _UNKNOWN)
        return _union(types) if types else _UNKNOWN

    def _list(self, schema: dict[str, Any], level: int) -> _Step:
        first = _array(schema, "prefixItems")
        items = schema.get("items", not first)
        if not first:
            inner = yield self._type(items, level)
            return _Type(f"{_bracketed(inner)}[]")
        least, most = schema.get("minItems", len(first)), schema.get("maxItems")
        slots = []
        for index, item in enumerate(first):
            if self._is_full():
                items = True
                break
            inner = yield self._type(item, level)
            is_optional = isinstance(least, int) and index >= least
            slots.append(f"{_bracketed(inner)}?" if is_optional else inner.text)
        if items is not False and not (isinstance(most, int) and most <= len(first)):
            inner = yield self._type(items, level)
            slots.append(f"...{_bracketed(inner)}[]")
        return _Type(f"[{', '.join(slots)}]")

    def _object(self, schema: dict[str, Any], level: int) -> _Step:
        properties = schema.get("properties")
        properties = properties if isinstance(properties, dict) else {}
        required = dict.fromkeys(name for name in _array(schema, "required") if isinstance(name, str))
        members: list[_Member] = []
        others = schema.get("additionalProperties", not required and "properties" not in schema)
        if schema.get("patternProperties"):
            others = True
        names = dict.fromkeys([*(name for name in properties if isinstance(name, str)), *required])
        for name in self._order(names, schema):
            if self._is_full():
                others = True
                break
            inner = properties.get(name)
            described = yield self._type(inner, level + 1)
            comment = comment_line(inner.get("description")) if isinstance(inner, dict) else ""
            members.append((comment, f"{member_name(name)}{'' if name in required else '?'}: {described.text}"))
        if others is False:
            return _Type(_layout(members, level))
        described = yield self._type(others, level + 1)
        rest = f"[key: string]: {described.text}"
        if not members or described is _UNKNOWN:
            return _Type(_layout([*members, ("", rest)], level))
        # A type for all keys would have to hold for the named ones too.
        return _Type(f"{_layout(members, level)} & {_layout([('', rest)], level)}", "&")


def _array(schema: dict[str, Any], keyword: str) -> list[Any]:
    value = schema.get(keyword)
    return value if isinstance(value, list) else []


def _follow(root: object, reference: object) -> object:
    """What a reference within the schema points to (`#`, `#/$defs/a`), None if it leads anywhere else."""
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        return None
    target = root
    for step in reference.split("/")[1:]:
        key = unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(target, dict):
            target = target.get(key)
        elif isinstance(target, list) and key.isascii() and key.isdigit() and len(key) < 10 and int(key) < len(target):
            target = target[int(key)]
        else:
            return None
    return target


# --- types made of types ---


def _union(types: list[_Type]) -> _Type:
    if any(kind.text == _UNKNOWN.text for kind in types):
        return _UNKNOWN
    distinct = list(dict.fromkeys(kind for kind in types if kind.text != _NEVER.text))
    if len(distinct) < 2:
        return distinct[0] if distinct else _NEVER
    return _Type(" | ".join(kind.text for kind in distinct), "|")


def _intersection(types: list[_Type]) -> _Type:
    if any(kind.text == _NEVER.text for kind in types):
        return _NEVER
    distinct = list(dict.fromkeys(kind for kind in types if kind.text != _UNKNOWN.text))
    if len(distinct) < 2:
        return distinct[0] if distinct else _UNKNOWN
    return _Type(" & ".join(_bracketed(kind) if kind.operator == "|" else kind.text for kind in distinct), "&")


def _bracketed(kind: _Type) -> str:
    return f"({kind.text})" if kind.operator else kind.text


def _literal(value: object) -> _Type:
    if value is None or isinstance(value, (bool, str)):
        return _Type(quoted(value) if isinstance(value, str) else json.dumps(value))
    if isinstance(value, int):
        if abs(value) <= MAX_SAFE_INTEGER:
            return _Type(str(value))
        # A longer one is true as well, but nothing to read.
        return _Type(f"{value}n") if abs(value) < 10**30 else _Type("bigint")
    if isinstance(value, float) and math.isfinite(value):
        return _Type(number_text(value))
    return _UNKNOWN


# --- texts ---


def _layout(members: list[_Member], level: int) -> str:
    """An object type: on one line if it is short and has no comments, or is deep inside others."""
    if not members:
        return "{}"
    is_plain = not any(comment or "\n" in text for comment, text in members)
    line = f"{{ {'; '.join(f'{comment} {text}' if comment else text for comment, text in members)} }}"
    if (is_plain and len(line) <= LINE_CHARS) or level >= MAX_LEVELS:
        return line
    return _lines(members, level)


def _lines(members: list[_Member], level: int) -> str:
    inner, lines = _INDENT * (level + 1), []
    for comment, text in members:
        if comment:
            lines.append(f"{inner}{comment}\n")
        lines.append(f"{inner}{text};\n")
    return f"{{\n{''.join(lines)}{_INDENT * level}}}"


def comment_line(description: object) -> str:
    """A description as a comment on one line, "" for none."""
    text = _BLANKS.sub(" ", description).strip() if isinstance(description, str) else ""
    if not text:
        return ""
    text = _SURROGATE.sub("\ufffd", joined(text)).replace("*/", "*\\/")
    return f"/** {text} */"


def member_name(name: str) -> str:
    """The name of a property as it stands in an object type."""
    return name if _IDENTIFIER.fullmatch(name) and name not in _SPECIAL_NAMES else quoted(name)


def quoted(text: str) -> str:
    """A string literal; what cannot be seen or written as UTF-8 is escaped."""
    return _HIDDEN.sub(lambda found: f"\\u{ord(found.group()):04x}", json.dumps(joined(text), ensure_ascii=False))
