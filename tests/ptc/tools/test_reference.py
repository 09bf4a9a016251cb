"""Tools named on a command line."""

import sys
from pathlib import Path
from typing import Any

import pytest

import ptc
from ptc.tools.reference import find, namespaces

pytestmark = pytest.mark.asyncio(loop_scope="session")

MODULE = """
from ptc.tools import Tool

def double(arguments):
    return arguments["n"] * 2

FUNCTIONS = {"double": double}
TOOLS = [Tool("double", "Doubles.", {"type": "object", "required": ["n"]}, double)]
class Inner:
    tools = TOOLS
NUMBER = 3
"""


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, with a module of tools in it."""
    (tmp_path / "ptc_test_tools.py").write_text(MODULE)
    (tmp_path / "ptc_test_broken.py").write_text("this is no Python")
    (tmp_path / "ptc_test_raising.py").write_text("raise ValueError('no\\nluck')")
    (tmp_path / "ptc_test_leaving.py").write_text("raise SystemExit")
    (tmp_path / "ptc_test_needing.py").write_text("import ptc_test_absent")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    for name in list(sys.modules):
        if name.startswith("ptc_test_"):
            monkeypatch.delitem(sys.modules, name)
    return tmp_path


@pytest.mark.usefixtures("directory")
@pytest.mark.parametrize(
    "reference", ["ptc_test_tools:FUNCTIONS", "ptc_test_tools:TOOLS", "ptc_test_tools:Inner.tools"]
)
async def test_a_dict_and_a_list_of_tools_are_taken(runtime: ptc.Runtime, reference: str) -> None:
    """PTC-145 as the namespace `tools`."""
    async with namespaces(find(reference)) as mine:
        outcome = await runtime.run("return await tools.double({ n: 21 })", mine)
    assert outcome.value == 42


@pytest.mark.usefixtures("directory")
async def test_arguments_of_tools_are_checked(runtime: ptc.Runtime) -> None:
    """PTC-145 a list of Tool has schemas and an error class."""
    async with namespaces(find("ptc_test_tools:TOOLS")) as mine:
        code = "try { await tools.double({}) } catch (e) { return [e instanceof ToolCallError, e.message] }"
        outcome = await runtime.run(code, mine)
    assert outcome.value == [True, "invalid arguments: args.n is missing"]


@pytest.mark.usefixtures("directory")
@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("ptc_test_tools", '"ptc_test_tools": write module:name, like my_tools:TOOLS'),
        (":TOOLS", '":TOOLS": write module:name'),
        ("ptc_test_tools:", '"ptc_test_tools:": write module:name'),
        ("ptc_test_no.x:TOOLS", 'there is no module "ptc_test_no"'),
        ("ptc_test_needing:TOOLS", 'the module needs "ptc_test_absent", which is not installed'),
        ("ptc_test_broken:TOOLS", "the module cannot be imported: invalid syntax"),
        ("ptc_test_raising:TOOLS", "the module cannot be imported: no"),
        ("ptc_test_leaving:TOOLS", "the module cannot be imported"),
        ("ptc_test_tools:NO", 'the module has no "NO"'),
        ("ptc_test_tools:Inner.no", 'the module has no "Inner.no"'),
        ("..:TOOLS", "the module cannot be imported"),
    ],
)
async def test_a_wrong_reference_is_one_line(reference: str, reason: str) -> None:
    """PTC-145 with what is wrong."""
    with pytest.raises(ptc.UsageError) as refusal:
        find(reference)
    assert reason in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (3, "a dict of functions or a list of Tool is needed"),
        ("tools", "a dict of functions or a list of Tool is needed"),
        ([len], "entry 1 is no Tool"),
        ({"x": 3}, 'the function "x" cannot be called'),
    ],
)
async def test_anything_else_is_refused(value: Any, reason: str) -> None:
    """PTC-145 with what is needed."""
    with pytest.raises(ptc.UsageError, match=reason):
        async with namespaces(value):
            pass
