"""What the source of a plug shows that is probably a mistake, though no rule forbids it."""

import ast
import inspect
import textwrap
from collections.abc import Iterator

from jsrun.plugs.api import Plug


def hints(plug: type[Plug]) -> list[str]:
    """One sentence each; none for a plug whose source cannot be read."""
    return [f"{plug.name}: {text}" for text in _hints(plug)]


def _hints(plug: type[Plug]) -> Iterator[str]:
    handlers = {name: tree for name in plug.handlers if (tree := _source(plug, name)) is not None}
    session, message = handlers.get("session"), handlers.get("message")
    if session is not None and "teardown" not in plug.handlers and any(_hands_host(call) for call in _nexts(session)):
        yield "`session` hands a host inwards and there is no `teardown` to hand it again; what inner plugs made stays."
    if session is not None and _publishes_late(session):
        yield "`session` calls `set_output` after `next()`, when nobody reads it any more."
    if message is not None and not list(_nexts(message)):
        yield "`message` never calls `next`, so no message passes it."


def _source(plug: type[Plug], name: str) -> ast.AST | None:
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(getattr(plug, name))))
    except (OSError, TypeError, SyntaxError):
        return None


def _nexts(tree: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "next":
            yield node


def _hands_host(call: ast.Call) -> bool:
    return bool(call.args) or any(keyword.arg == "host" for keyword in call.keywords)


def _publishes_late(tree: ast.AST) -> bool:
    first = min((call.lineno for call in _nexts(tree)), default=None)
    return first is not None and any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "set_output"
        and node.lineno > first
        for node in ast.walk(tree)
    )  # fmt: skip
