"""Small text helpers shared by messages, prompts to people and guards."""

import json
import re

# Error texts and fall-back sentences are kept this long; the rest is counted, not shown.
TEXT_CHARS = 2_000
# Enough to recognise a quoted text, short enough that a message stays one line.
QUOTE_CHARS = 80

_SURROGATES = re.compile("[\ud800-\udfff]")
# Tab and newline are layout; every other control character could drive a terminal, or pass for a line end.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")


def cut(text: str, limit: int = TEXT_CHARS) -> str:
    """`text`, or its first `limit` characters and a mark that says how many were left out."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}… ({len(text) - limit:,} more characters)"


def quoted(text: str, limit: int = QUOTE_CHARS) -> str:
    """`text` in double quotes on one line; control characters and lone surrogates are escaped, a long text is cut."""
    shown = text if len(text) <= limit else text[:limit] + "…"
    escaped = json.dumps(shown, ensure_ascii=False)
    return _SURROGATES.sub(_escape, _CONTROLS.sub(_escape, escaped))


def printable(text: str) -> str:
    """`text` fit for a terminal: lone surrogates become U+FFFD, controls but tab and newline are escaped."""
    return _CONTROLS.sub(_escape, _SURROGATES.sub("\ufffd", text))


def compact_json(value: object) -> str:
    """The JSON text of a JSON value without blanks, keys in their order, whole floats as integers (`1.0` is `1`).

    Unlike the canonical form it is made to be read and searched: characters are themselves, not escapes.
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return json.dumps(json.loads(text, parse_float=_number), ensure_ascii=False, separators=(",", ":"))


def _number(literal: str) -> float:
    value = float(literal)
    return int(value) if value.is_integer() else value


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match.group()):04x}"
