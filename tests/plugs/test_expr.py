"""Expressions of a setup."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jsrun.plugs._expr_parser import MAX_BYTES, MAX_LEVELS, read
from jsrun.plugs.expr import ExprError, MissingName, Template

NAMES: dict[str, Any] = {
    "env": {"IMAGE": "debian:12", "EMPTY": "", "JSON": '{"a":[1,2.5,"x"],"b":null}', "NESTED": "${{ env.IMAGE }}"},
    "session": {"id": "s1", "execution_id": None, "agent": {"name": "helper"}},
    "run": {"kind": "start", "number": 3},
    "setup": {"vm-1": {"outputs": {"ip_addr": "10.0.0.1"}}},
}


def value(text: str) -> Any:
    """The value of a text of a setup."""
    found = read(text)
    return found.evaluate(NAMES) if isinstance(found, Template) else found


@pytest.mark.plg("PLG-089")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("${{ env.IMAGE }}", "debian:12"),
        ("${{run.number}}", 3),
        ("${{ session.execution_id }}", None),
        ("${{ session.agent.name }}", "helper"),
        ("${{ setup.vm-1.outputs.ip_addr }}", "10.0.0.1"),
        ("${{ json(env.JSON) }}", {"a": [1, 2.5, "x"], "b": None}),
        ("${{ 1.0 }}", 1.0),
        ("${{ -12 }}", -12),
        ('${{ "a\\"b\\n" }}', 'a"b\n'),
        ("${{ 'a}}b' }}", "a}}b"),
        ("run ${{ run.number }}, ${{ session.execution_id }}.", "run 3, ."),
        ("${{ true }}${{ false }}", "truefalse"),
        ("=${{ json(env.JSON) }}", '={"a":[1,2.5,"x"],"b":null}'),
        (" ${{ run.number }}", " 3"),
        ("${{ env.NESTED }}", "${{ env.IMAGE }}"),
        ("x${{ env.NESTED }}", "x${{ env.IMAGE }}"),
        ("$${{ env.IMAGE }}", "${{ env.IMAGE }}"),
        ("a $${{ b ${{ run.kind }} $${{", "a ${{ b start ${{"),
        ("$ {{ x }} }} ${", "$ {{ x }} }} ${"),
    ],
)
def test_values(text: str, expected: Any) -> None:
    """PLG-089 A whole expression keeps its type, an embedded one becomes text, results are not read again."""
    result = value(text)
    assert result == expected and type(result) is type(expected)


@pytest.mark.plg("PLG-089")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 == 1.0", True),
        ("1 == true", False),
        ("'1' == 1", False),
        ("null == false", False),
        ('json(\'[1,{"b":2,"a":1}]\') == json(\'[1.0,{"a":1,"b":2}]\')', True),
        ("1 != 2 == true", True),
        ("!''", True),
        ("!0 && !null && !false", True),
        ("!'0'", False),
        ("!json('[]')", False),
        ("'' || 'b' || 'c'", "b"),
        ("'a' && 'b'", "b"),
        ("0 && 'b'", 0),
        ("'x' || 'y' && ''", "x"),
        ("('x' || 'y') && ''", ""),
        ("false || null", None),
        ("contains('abc', 'b')", True),
        ("contains(json('[1,true]'), 1)", True),
        ("contains(json('[true]'), 1)", False),
        ("starts_with(env.IMAGE, 'debian')", True),
        ("ends_with(env.IMAGE, ':11')", False),
        ("lower('ÄB')", "äb"),
        ("default(env.NOPE, 'x')", "x"),
        ("default(env.EMPTY, 'x')", ""),
        ("default(env.NOPE, default(setup.other.outputs.a, run.kind))", "start"),
        ("false && env.NOPE", False),
    ],
)
def test_operators_and_functions(text: str, expected: Any) -> None:
    """PLG-089 `&&` and `||` give an operand; what is falsy is null, false, 0 and the empty text."""
    result = value(f"${{{{ {text} }}}}")
    assert result == expected and type(result) is type(expected)


@pytest.mark.plg("PLG-090")
@pytest.mark.parametrize("text", ["env.NOPE", "env.JSRUN_STATE_KEY", "setup.vm-2.outputs.a", "lower(env.NOPE)"])
def test_a_missing_name_raises(text: str) -> None:
    """PLG-090 It is told; `default` takes its second argument then."""
    with pytest.raises(MissingName, match="is not there"):
        value(f"${{{{ {text} }}}}")
    assert value(f"${{{{ default({text}, 'else') }}}}") == "else"


@pytest.mark.plg("PLG-090")
@pytest.mark.parametrize("text", ["lower(1)", "contains(1, 2)", "json('{')", "json('NaN')", "starts_with(null, 'x')"])
def test_a_function_that_does_not_fit_raises_without_the_value(text: str) -> None:
    """PLG-090 What a function cannot take is an error; `default` does not hide it."""
    with pytest.raises(ExprError):
        value(f"${{{{ default({text}, 'x') }}}}")


@pytest.mark.plg("PLG-091")
@pytest.mark.parametrize(
    "text",
    [
        "env",
        "env.A.B",
        "env['A']",
        "session.__class__",
        "session.id.upper",
        "run.number.real",
        "setup.vm-1",
        "setup.vm-1.outputs",
        "setup.vm-1.state.x",
        "open('x')",
        "env.A()",
        "lower()",
        "lower('a', 'b')",
        "default('a')",
        "().__class__",
        "1 + 1",
        "1 < 2",
        "a = 1",
        "0x10",
        "01",
        "1.",
        "1e999",
        "'open",
        "'\\q'",
        "'a' 'b'",
        "",
        "(1",
        "1)",
        "!",
        "1 ==",
        "lambda: 1",
        "TRUE",
        "env.A; env.B",
        "`x`",
        "\u00e4",
    ],
)
def test_everything_else_is_refused_when_it_is_read(text: str) -> None:
    """PLG-091 No attribute, index, call outside the list, or operator that there is not."""
    with pytest.raises(ExprError):
        read(f"${{{{ {text} }}}}")


@pytest.mark.plg("PLG-091")
def test_long_and_deep_expressions_are_refused() -> None:
    """PLG-091 4 KiB and 32 levels are the limits, of nesting and of chains alike."""
    fits = "'" + "a" * (MAX_BYTES - 4) + "'"
    assert len(value(f"${{{{ {fits} }}}}")) == MAX_BYTES - 4
    for wrong in (f"'a{fits[1:]}", "'" + "ä" * (MAX_BYTES // 2) + "'"):
        with pytest.raises(ExprError, match=r"4,096 bytes"):
            read(f"${{{{ {wrong} }}}}")
    deep = "(" * (MAX_LEVELS - 1) + "1" + ")" * (MAX_LEVELS - 1)
    assert value(f"${{{{ {deep} }}}}") == 1
    for wrong in (f"({deep})", "!" * MAX_LEVELS + "1", "||".join("1" * (MAX_LEVELS + 1)), "lower(" * 500 + ")" * 500):
        with pytest.raises(ExprError, match="levels"):
            read(f"${{{{ {wrong} }}}}")
    with pytest.raises(ExprError, match="no end"):
        read("x ${{ 1")


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.plg("PLG-089")
@settings(max_examples=100, deadline=None)
@given(_JSON)
def test_json_values_come_through(data: Any) -> None:
    """PLG-089 Whatever a variable holds comes out of json() as it is, and embedded as compact JSON."""
    names = {"env": {"X": json.dumps(data)}}
    whole = read("${{ json(env.X) }}")
    assert isinstance(whole, Template) and whole.evaluate(names) == data
    embedded = read("<${{ json(env.X) }}>")
    assert isinstance(embedded, Template)
    text = embedded.evaluate(names)
    if not isinstance(data, str) and data is not None:
        assert json.loads(text[1:-1]) == data


@pytest.mark.plg("PLG-091")
@settings(max_examples=300, deadline=None)
@given(st.text(st.sampled_from("${}!&|=().,'\" aenv.X1session\\"), max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    """PLG-091 Nothing but ExprError is raised, whatever stands in the file."""
    try:
        found = read(text)
        if isinstance(found, Template):
            found.evaluate(NAMES)
    except ExprError:
        pass
