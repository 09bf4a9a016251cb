"""The public names of the agent."""

import subprocess
import sys

import jsrun.agent

# What must not come along with the package: extras, databases, engines, the command line, the plugs.
HEAVY = ("pydantic_ai", "opentelemetry", "sqlite3", "quickjs", "typer", "jsrun.plugs", "jsrun.agent.runtime")


def test_every_public_name_is_there() -> None:
    """AGT-078 And listed once."""
    assert len(set(jsrun.agent.__all__)) == len(jsrun.agent.__all__)
    for name in jsrun.agent.__all__:
        assert getattr(jsrun.agent, name) is not None
        assert name in dir(jsrun.agent)


def test_a_function_with_the_name_of_its_module_is_the_function() -> None:
    """AGT-082 Whatever was imported before."""
    code = (
        "import jsrun.agent.belt_items, jsrun.agent.code_tool, jsrun.agent.bundle_tool;"
        "from jsrun.agent.code_tool import code_tool as inner;"
        "from jsrun.agent import belt_tools, bundle_tool, code_tool;"
        "print(code_tool is inner, callable(bundle_tool), callable(belt_tools))"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "True True True"
    assert callable(jsrun.agent.bundle_tool)


def test_importing_the_package_loads_nothing_heavy() -> None:
    """AGT-078 Each part is loaded when its name is first asked for."""
    code = f"import sys, jsrun.agent; print([name for name in {HEAVY!r} if name in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_the_runtime_loads_no_plugs_and_no_extra() -> None:
    """AGT-078 Nor does anything of the runtime need them."""
    code = (
        "import sys; from jsrun.agent import Supervisor, SqliteSessions, EventDispatcher, run;"
        "print([name for name in ('pydantic_ai', 'opentelemetry', 'jsrun.plugs') if name in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
