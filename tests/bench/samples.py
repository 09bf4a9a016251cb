"""The programs and values everyone is measured with, in JavaScript for us and quickjs-rs and in Python for monty."""

import json
from typing import Any

CALLS = 1000

# About 118 KB of JSON: 2,000 small objects, as a search tool or a database returns them.
OBJECTS: list[dict[str, Any]] = [
    {"id": i, "name": f"item number {i}", "ok": i % 2 == 0, "tags": ["a", i]} for i in range(2000)
]
OBJECTS_JSON = json.dumps(OBJECTS, separators=(",", ":"))


# Compute, for engines with a compiler: calls, and a loop.
FIB = "const fib = (n) => (n < 2 ? n : fib(n - 1) + fib(n - 2)); return fib(30);"
LOOP = "let sum = 0; for (let i = 0; i < 1e7; i++) sum += i % 7; return sum;"


def program_50kb() -> str:
    """A JavaScript program of 50 KB that returns at once: many small functions nobody calls."""
    parts: list[str] = []
    size = 0
    while size < 50_000:
        number = len(parts)
        part = (
            f"function helper{number}(items, limit) {{\n"
            f"  const kept = items.filter((item) => item.size > {number} && item.name !== null);\n"
            f"  return kept.slice(0, limit).map((item) => ({{ name: item.name, size: item.size * {number} }}));\n"
            "}\n"
        )
        parts.append(part)
        size += len(part)
    return "".join(parts) + "return 1;\n"


def python_50kb() -> str:
    """The same in Python, for monty."""
    parts: list[str] = []
    size = 0
    while size < 50_000:
        number = len(parts)
        part = (
            f"def helper{number}(items, limit):\n"
            f"    kept = [item for item in items if item['size'] > {number} and item['name'] is not None]\n"
            f"    return [{{'name': item['name'], 'size': item['size'] * {number}}} for item in kept[:limit]]\n\n"
        )
        parts.append(part)
        size += len(part)
    return "".join(parts) + "1\n"
