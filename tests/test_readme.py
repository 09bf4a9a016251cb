"""What the READMEs show is executed: every Python block that is followed by its output, and the commands."""

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.version import InvalidVersion, Version

from jsrun.bundle import Bundle
from jsrun.cli import call
from jsrun.errors import BundleError
from ptc.wire import Json

ROOT = Path(__file__).parents[1]
PLACES = ("README.md", "ptc/README.md", "jsrun/README.md", "jsrun/agent/README.md", "jsrun/plugs/README.md")
READMES = [path for path in map(ROOT.joinpath, PLACES) if path.exists()]
EXAMPLE = re.compile(r"```python\n(?P<code>.*?)```\s*```text\n(?P<output>.*?)```", re.DOTALL)
EXAMPLES = [
    pytest.param(match["code"], match["output"], id=f"{path.relative_to(ROOT)}-{number}")
    for path in READMES
    for number, match in enumerate(EXAMPLE.finditer(path.read_text()), 1)
]


def commands(marker: str) -> str:
    """The command in the block after `<!-- command: MARKER -->`."""
    match = re.search(rf"<!-- command: {marker} -->\n```sh\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert match is not None
    return match[1].strip()


@pytest.mark.parametrize(("code", "output"), EXAMPLES)
def test_an_example_gives_what_the_readme_says(code: str, output: str, tmp_path: Path) -> None:
    """PTC-149 and the same for jsrun."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert done.stderr == ""
    assert done.stdout == output


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 2


def test_the_run_command_runs_the_bundle_it_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The last part of the set-up command, in this environment."""
    words = shlex.split(commands("run").rpartition("&&")[2])
    assert words[0].endswith("/jsrun")
    monkeypatch.chdir(ROOT)
    assert call([*words[1:], "--journal", str(tmp_path / "journal.db")]) == 0
    assert '"total"' in capsys.readouterr().out


def test_no_extra_has_the_name_of_a_version() -> None:
    """pip 24.2 takes such a name for a version, compares it with those of the other extras, and installs nothing."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for name in extras:
        with pytest.raises(InvalidVersion):
            Version(name)


def test_the_test_command_installs_what_the_tests_need() -> None:
    assert "'.[test]'" in commands("test")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert any(requirement.startswith("pytest") for requirement in extras["test"])


def test_the_diagnostic_shown_is_the_one_printed() -> None:
    """The sample program of the README, with the mistake its message speaks of."""
    text = (ROOT / "README.md").read_text()
    program = re.search(r"```js\n(.*?)```", text, re.DOTALL)
    shown = re.search(r"```text\n(program\.js:.*?)\n```", text, re.DOTALL)
    assert program is not None
    assert shown is not None
    manifest: dict[str, Json] = {"name": "files", "purpose": "A test.", "whitelist": ["list"]}
    prompts = {"describe": "Describe."}
    Bundle(manifest, program[1], prompts=prompts)  # right as it stands
    with pytest.raises(BundleError) as caught:
        Bundle(manifest, program[1].replace('"list"', '"lst"'), prompts=prompts)
    errors = [str(problem) for problem in caught.value.diagnostics if problem.severity == "error"]
    assert errors == [shown[1]]
