"""Declarations of host functions, checked before a process exists."""

from typing import Any

import pytest

from ptc.errors import UsageError
from ptc.namespaces import GLOBALS, Blocking, ErrorClass, Namespace, blocking, normalize


def echo(argument: Any) -> Any:
    return argument


BAD_NAMES = [
    ("", "use ASCII letters"),
    ("1a", "use ASCII letters"),
    ("a-b", "use ASCII letters"),
    ("a.b", "use ASCII letters"),
    ("$tools", "use ASCII letters"),
    ("a$", "use ASCII letters"),
    ("é", "use ASCII letters"),
    ("a\n", "use ASCII letters"),
    ("a ", "use ASCII letters"),
    *[(word, "reserved") for word in ("if", "class", "let", "static", "yield", "await", "arguments", "eval", "null")],
    *[(word, "every program has a global") for word in ("Object", "console", "undefined", "JSON", "Uint8Array")],
]


@pytest.mark.parametrize(("name", "reason"), BAD_NAMES, ids=lambda part: ascii(part))
def test_a_name_that_cannot_be_a_variable_is_refused(name: str, reason: str) -> None:
    """PTC-126 as a global, an error class and an input name."""
    with pytest.raises(UsageError, match=reason) as caught:
        normalize({name: {"f": echo}})
    assert f'namespace "{name}"' in str(caught.value)
    with pytest.raises(UsageError, match=reason) as caught:
        normalize([Namespace("tools", {"f": echo}, ErrorClass(name, "toolName"))])
    assert f'error class "{name}"' in str(caught.value)
    with pytest.raises(UsageError, match=reason) as caught:
        normalize({}, input_name=name)
    assert f'input name "{name}"' in str(caught.value)


def test_a_name_used_twice_is_refused() -> None:
    """PTC-126 across globals, error classes and the input name."""
    tools = Namespace("tools", {"f": echo}, ErrorClass("ToolError", "toolName"))
    for declared, name, input_name in [
        ([tools, Namespace("tools", {})], "tools", None),
        ([tools, Namespace("ToolError", {})], "ToolError", None),
        ([tools, Namespace("more", {}, ErrorClass("ToolError", "member"))], "ToolError", None),
        ([Namespace("same", {}, ErrorClass("same", "member"))], "same", None),
        ([tools], "tools", "tools"),
        ([tools], "ToolError", "ToolError"),
    ]:
        with pytest.raises(UsageError, match=f'"{name}": this name is used twice'):
            normalize(declared, input_name=input_name)


@pytest.mark.parametrize("member", ["", "name", "message", "stack", "__proto__", "__x__"])
def test_a_member_name_property_that_errors_need_is_refused(member: str) -> None:
    """PTC-126 empty, taken, or of a special shape."""
    with pytest.raises(UsageError, match=r'error class "ToolError": the member-name property'):
        normalize([Namespace("tools", {}, ErrorClass("ToolError", member))])


@pytest.mark.parametrize(
    ("functions", "reason"),
    [
        ({"": echo}, "not empty"),
        ({1: echo}, "a text"),
        ({"f": 7}, 'function "f" cannot be called'),
        ({"f": None}, 'function "f" cannot be called'),
        ({"\U0001f600": echo, "\ud83d\ude00": echo}, "declared twice"),
        (7, "mapping"),
        ([echo], "mapping"),
    ],
    ids=["empty", "number", "not callable", "none", "twice", "no mapping", "list"],
)
def test_bad_functions_are_refused(functions: Any, reason: str) -> None:
    """PTC-126 names and functions."""
    with pytest.raises(UsageError, match=reason) as caught:
        normalize({"tools": functions})
    assert 'namespace "tools"' in str(caught.value)


@pytest.mark.parametrize("namespaces", [7, None, "tools", [{"tools": {}}], [("tools", {})], {1: {}}], ids=repr)
def test_another_shape_is_refused(namespaces: Any) -> None:
    """PTC-126 neither a mapping nor namespaces."""
    with pytest.raises(UsageError):
        normalize(namespaces)


def test_any_text_names_a_function() -> None:
    """PTC-080 names that are no identifiers, or that every object seems to have."""
    names = ["a b", "__proto__", "toString", "constructor", "é", "if", "$", "name", "0", "\n"]
    (namespace,) = normalize({"tools": dict.fromkeys(names, echo)})
    assert list(namespace.functions) == names


def test_both_shapes_give_namespaces_in_order() -> None:
    """PTC-126 what is allowed; the result does not follow later changes."""
    functions = {"f": echo}
    assert normalize({"a": functions, "_B2": {}}, input_name="input") == (
        Namespace("a", {"f": echo}),
        Namespace("_B2", {}),
    )
    declared = normalize(iter([Namespace("a", functions, ErrorClass("AError", "member"))]))
    functions["g"] = echo
    assert declared == (Namespace("a", {"f": echo}, ErrorClass("AError", "member")),)
    assert normalize(()) == ()


def test_a_split_pair_in_a_name_is_the_character_javascript_has() -> None:
    """PTC-126 so that the call a program sends is the one declared."""
    (namespace,) = normalize({"tools": {"\ud83d\ude00": echo}})
    assert list(namespace.functions) == ["\U0001f600"]


def test_the_list_of_globals_is_that_of_the_realm() -> None:
    """PTC-072 host side: 57 names, no timers, no modules, no weak references."""
    assert len(GLOBALS) == 57
    assert not GLOBALS & {"setTimeout", "require", "WeakRef", "FinalizationRegistry", "SharedArrayBuffer", "Atomics"}


def test_blocking_marks_a_sync_function() -> None:
    """PTC-120 the mark, and what it refuses."""
    marked = blocking(echo)
    assert isinstance(marked, Blocking)
    assert marked({"a": 1}) == {"a": 1}
    assert blocking(marked) is marked
    (namespace,) = normalize({"tools": {"f": marked}})
    assert namespace.functions["f"] is marked

    async def later(argument: Any) -> Any:
        return argument

    with pytest.raises(UsageError, match="async function"):
        blocking(later)
    number: Any = 7
    with pytest.raises(UsageError, match="a function is needed"):
        blocking(number)
