"""Inputs as text: JSON, in which bytes are `{"$bytes": HEX}`. A finding is kept in this form and replayed from it."""

import json
from typing import Any


def to_text(value: Any) -> str:
    """The text of an input."""
    return json.dumps(value, default=_bytes, indent=1)


def from_text(text: str) -> Any:
    """The input of such a text. ValueError if it is none."""
    return json.loads(text, object_hook=_object)


def _bytes(value: object) -> dict[str, str]:
    if isinstance(value, bytes):
        return {"$bytes": value.hex()}
    raise TypeError(f"a {type(value).__name__} cannot be part of an input")


def _object(value: dict[str, Any]) -> Any:
    return bytes.fromhex(value["$bytes"]) if set(value) == {"$bytes"} else value
