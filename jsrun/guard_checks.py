"""Guards that can never pass, or repeat another: seen in the manifest alone."""

from collections.abc import Iterator, Mapping
from typing import Any

from jsrun._text import quoted
from jsrun.guards import field_mentions
from jsrun.manifest import Guard
from jsrun.whitelist import matches


def unreachable_guards(
    guards: tuple[Guard, ...], input_schema: Mapping[str, Any] | None, whitelist: tuple[str, ...] | None
) -> Iterator[tuple[int, str]]:
    """The index of every guard that is of no use, and why. None for what could not be read."""
    seen: dict[Guard, int] = {}
    for index, guard in enumerate(guards):
        number = f"Check {index + 1}"
        earlier = seen.setdefault(guard.model_copy(update={"because": None}), index)
        if earlier != index:
            yield index, f"{number} repeats check {earlier + 1}."
        elif guard.kind == "tool" and whitelist is not None and not matches(guard.tool or "", whitelist):
            yield index, f"{number} asks for the tool {quoted(guard.tool or '')}, which is not on the whitelist."
        elif guard.kind == "field" and input_schema is not None:
            reason = _never(guard.field or "", guard.pattern or "", input_schema)
            if reason:
                yield index, f"{number} can never pass: {reason}."


def _never(field: str, pattern: str, schema: Mapping[str, Any]) -> str | None:
    """Why no input that fits the schema has the pattern in the field; None if one may."""
    properties = schema.get("properties", {})
    if field not in properties:
        closed = schema.get("additionalProperties") is False and not schema.get("patternProperties")
        return f"the input schema has no {quoted(field)}" if closed else None
    described = properties[field]
    if described is False:
        return f"the input schema rules out {quoted(field)}"
    if not isinstance(described, dict):
        return None
    members = described["enum"] if "enum" in described else [described["const"]] if "const" in described else None
    if members is None or any(field_mentions({field: member}, field, pattern) for member in members):
        return None
    return f"no value the input schema lists for {quoted(field)} contains {quoted(pattern)}"
