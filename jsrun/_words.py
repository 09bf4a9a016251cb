"""What values, types and names are called in messages about schemas."""

from typing import Any

from jsrun._text import compact_json, quoted

# Names listed in one message.
MOST_NAMES = 10

_KINDS = {
    "null": "null",
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a number",
    "string": "a string",
    "array": "an array",
    "object": "an object",
}


def kind(value: Any) -> str:
    """What a value is, in a message: a scalar as JSON, a container by its kind."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an array"
    return quoted(value) if isinstance(value, str) else compact_json(value)


def type_text(types: Any) -> str:
    """The types a schema names, in a message."""
    names = [types] if isinstance(types, str) else list(types)
    return either([_KINDS.get(name, str(name)) for name in dict.fromkeys(names)])


def names_text(names: list[str]) -> str:
    """Names in back quotes, joined by commas and "and"."""
    shown = [f"`{quoted(name)[1:-1]}`" for name in names[:MOST_NAMES]]
    if len(names) > MOST_NAMES:
        shown.append(f"{len(names) - MOST_NAMES:,} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def either(texts: list[str]) -> str:
    """Texts joined by commas and "or"."""
    return texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} or {texts[-1]}"


def in_order(names: list[str], schema: Any) -> list[str]:
    """Names in the order of the schema's `x-order`, then in that of its `properties`, then as they are."""
    order = schema.get("x-order")
    properties = schema.get("properties")
    wanted = [name for name in order if isinstance(name, str)] if isinstance(order, list) else []
    wanted += list(properties) if isinstance(properties, dict) else []
    present = set(names)
    return list(dict.fromkeys([name for name in wanted if name in present] + names))
