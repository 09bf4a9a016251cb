"""From references to plugs, and the static rules."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from jsrun.plugs import ExpressionError, NotAPlug, NotResumable, PlugNotFound, PlugVersionError, SetupError
from jsrun.plugs.config import Policy, parse_setup
from jsrun.plugs.loader import Loaded, load

PLUGS = """\
from pydantic import BaseModel
from jsrun.plugs import Plug

class Plain(Plug, name="t/plain"): ...
class Inputs(Plug, name="t/inputs"):
    class Inputs(BaseModel):
        image: str
        size: int = 3
class Keeps(Plug, name="t/keeps"):
    class Persisted(BaseModel): vm: str
class Once(Plug, name="t/once"):
    resumable = False
class Old(Plug, name="t/old", api=(0, 9)): ...
class Newer(Plug, name="t/newer", api=(1, 7)): ...
class NoSchema(Plug, name="t/noschema"):
    Inputs = 3
class Outer:
    Inner = Plain
plug = Plain
function = lambda: None
class Unstamped: ...
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with plugs in a file, in a package, and under an entry point."""
    (tmp_path / "plugs.py").write_text(PLUGS)
    package = tmp_path / "site" / "acme_plugs_test"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "vm.py").write_text(PLUGS)
    (package / "broken.py").write_text("import nothing_of_that_name\n")
    (package / "raises.py").write_text("raise SystemExit('no')\n")
    info = tmp_path / "site" / "acme_plugs_test-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-plugs-test\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[jsrun.plugs]\nacme-vm = acme_plugs_test.vm:Plain\nacme-bad = acme_plugs_test.vm:Nope\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    for name in [name for name in sys.modules if name.startswith("acme_plugs_test")]:
        monkeypatch.delitem(sys.modules, name)
    return tmp_path


def loaded(folder: Path, text: str, policy: Policy | None = None) -> Loaded:
    """The plugs of a setup given as text."""
    return load(parse_setup(textwrap.dedent(text), "s.yaml", folder), policy)


@pytest.mark.plg("PLG-004")
@pytest.mark.parametrize(
    "reference",
    [
        "acme_plugs_test.vm:Plain",
        "acme_plugs_test.vm:Outer.Inner",
        "acme_plugs_test.vm",
        "./plugs.py:Plain",
        "./plugs.py",
        "../{name}/plugs.py:Plain",
        "{folder}/plugs.py",
        "acme-vm",
    ],
)
def test_every_form_of_reference_resolves(folder: Path, reference: str) -> None:
    """PLG-004 Module, file from the setup's folder, default attribute, entry point."""
    reference = reference.format(folder=folder, name=folder.name)
    (entry,) = loaded(folder, f"- plug: '{reference}'").entries
    assert entry.plug.name == "t/plain"


@pytest.mark.plg("PLG-004")
@pytest.mark.parametrize("name", ["env", "redact", "permissions", "transcript", "preamble", "turn-limit"])
def test_stock_plugs_have_names(name: str) -> None:
    """PLG-004 What comes with the package is found by its bare name."""
    with_ = {"transcript": "{path: /t}", "preamble": "{text: x}", "turn-limit": "{max_turns: 1}"}.get(name, "{}")
    (entry,) = loaded(Path("/"), f"- {{plug: {name}, id: x, with: {with_}}}").entries
    assert entry.plug.name == f"jsrun/{name}"


@pytest.mark.plg("PLG-004")
@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ("acme_plugs_test.vm:Plian", "Did you mean Plain?"),
        ("acme_plugs_test.nope", "There is no module acme_plugs_test.nope"),
        ("no_such_package_x.y:Z", "There is no module no_such_package_x"),
        ("acme_plugs_test.broken", "cannot be imported: ModuleNotFoundError: No module named 'nothing_of_that_name'"),
        ("acme_plugs_test.raises", "cannot be imported: SystemExit: no"),
        ("./none.py:X", "There is no file"),
        ("./notes.txt:X", "must end in .py"),
        ("./wrong.py", "line 1: "),
        ("acme-bad", "cannot be loaded"),
        ("redcat", "Did you mean redact?"),
        ("a b", "There is no plug"),
        ("a b:c", "is not the name of a module"),
        (":x", "is no reference"),
        ("x:", "is no reference"),
    ],
)
def test_a_reference_to_nothing_is_told_with_its_place(folder: Path, reference: str, words: str) -> None:
    """PLG-004 PlugNotFound, with `file:line:column` of the reference."""
    (folder / "notes.txt").write_text("")
    (folder / "wrong.py").write_text("def (\n")
    with pytest.raises(PlugNotFound) as caught:
        loaded(folder, f"setup:\n  - plug: '{reference}'\n")
    (issue,) = caught.value.issues
    assert issue.place == "s.yaml:2:11" and words in issue.message


@pytest.mark.plg("PLG-003")
def test_the_stamp_decides(folder: Path) -> None:
    """PLG-003 No stamp, another major version, a newer minor one."""
    for name in ("function", "Unstamped", "Plug"):
        with pytest.raises(NotAPlug, match=r"s\.yaml:1:9"):
            loaded(folder, f"- plug: ./plugs.py:{name}")
    with pytest.raises(PlugVersionError, match=r"version 0\.9 .* this is 1\.0"):
        loaded(folder, "- plug: ./plugs.py:Old")
    (warning,) = loaded(folder, "- plug: ./plugs.py:Newer").warnings
    assert warning.startswith("s.yaml:1:9: ") and "1.7" in warning


@pytest.mark.plg("PLG-003")
def test_a_stamp_may_be_made_by_another_copy_of_the_package(folder: Path) -> None:
    """PLG-003 It is two numbers in a tuple; of this major version the class must be a plug as well."""
    stamps = {"Later": (2, 0), "Same": (1, 0), "Text": "10"}
    classes = (f"class {name}:\n    plug_api = {stamp!r}\n" for name, stamp in stamps.items())
    (folder / "foreign.py").write_text("".join(classes))
    with pytest.raises(PlugVersionError, match=r"version 2\.0 .* this is 1\.0"):
        loaded(folder, "- plug: ./foreign.py:Later")
    for name in ("Same", "Text"):
        with pytest.raises(NotAPlug, match=r"s\.yaml:1:9"):
            loaded(folder, f"- plug: ./foreign.py:{name}")


@pytest.mark.plg("PLG-005")
def test_mistakes_with_ids_are_told_together(folder: Path) -> None:
    """PLG-005 State without an id, an id twice, one that is none; nothing else hides them."""
    with pytest.raises(SetupError) as caught:
        loaded(
            folder,
            """\
            - plug: ./plugs.py:Keeps
            - {plug: ./plugs.py, id: a}
            - {plug: ./plugs.py, id: a}
            - {plug: ./plugs.py, id: A b}
            - {plug: ./none.py, id: a, x: 1}
            - {plug: ./plugs.py:Inputs, with: {size: big, imgae: x}}
            """,
        )
    shown = [(issue.place, issue.message) for issue in caught.value.issues]
    places = ["1:9", "3:26", "4:26", "5:10", "5:25", "5:28", "6:35", "6:42", "6:54"]
    assert [place.removeprefix("s.yaml:") for place, _ in shown] == places
    assert "`id`" in shown[0][1] and "at s.yaml:2:26" in shown[1][1] and "no id" in shown[2][1]


@pytest.mark.plg("PLG-006")
def test_inputs_without_expressions_are_validated_at_once(folder: Path) -> None:
    """PLG-006 With expressions, only whether there may be any is known."""
    with pytest.raises(SetupError, match=r"s\.yaml:1:28: t/plain: takes no inputs"):
        loaded(folder, "- {plug: ./plugs.py, with: {a: 1}}")
    with pytest.raises(SetupError, match=r"takes no inputs"):
        loaded(folder, "- {plug: ./plugs.py, with: {a: '${{ run.kind }}'}}")
    with pytest.raises(NotAPlug, match="neither a type"):
        loaded(folder, "- {plug: './plugs.py:NoSchema'}")
    (entry,) = loaded(folder, "- {plug: './plugs.py:Inputs', with: {image: '${{ env.X }}'}}").entries
    assert entry.inputs({"env": {"X": "y"}}) == {"image": "y"}
    assert loaded(folder, "- {plug: ./plugs.py, with: {}}").entries[0].inputs({}) == {}


@pytest.mark.plg("PLG-090")
def test_expressions_name_earlier_entries_only(folder: Path) -> None:
    """PLG-090 A later id, its own, or none is told with its place; a missing variable when it is evaluated."""
    text = (
        "- {plug: './plugs.py:Inputs', id: %s, with: {image: '${{ setup.b.outputs.x }}'}}\n- {plug: ./plugs.py, id: c}"
    )
    for own in ("a", "b"):
        with pytest.raises(
            ExpressionError, match=r's\.yaml:1:\d+: setup\.b\.outputs\.x: no earlier entry has the id "b"'
        ):
            loaded(folder, text % own)
    (entry,) = loaded(folder, "- {plug: './plugs.py:Inputs', with: {image: '${{ env.NOPE }}'}}").entries
    with pytest.raises(ExpressionError, match=r"s\.yaml:1:\d+: env\.NOPE is not there"):
        entry.inputs({"env": {}})


@pytest.mark.plg("PLG-029")
def test_a_policy_that_pauses_wants_plugs_that_can_be_resumed(folder: Path) -> None:
    """PLG-029 The setup's policy or the caller's; the plugs are named."""
    text = "policy: {on_disconnect: pause}\nsetup: [{plug: './plugs.py:Once'}]"
    with pytest.raises(NotResumable, match="t/once"):
        loaded(folder, text)
    assert loaded(folder, text, Policy()).entries
    with pytest.raises(NotResumable):
        loaded(folder, "- plug: ./plugs.py:Once", Policy(idle_after=1.0))
    with pytest.raises(SetupError) as caught:  # with other mistakes it is told with its place
        loaded(folder, text.replace("]", ", {plug: x.y:Z}]"))
    assert "s.yaml:2:16: t/once cannot be resumed" in str(caught.value) and "no module x" in str(caught.value)


@pytest.mark.plg("PLG-008")
def test_the_package_and_its_loader_import_no_extra() -> None:
    """PLG-008 Nor the agent loop, nor the engine; a setup file needs pyyaml, and says so."""
    code = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("yaml", "asyncssh", "cryptography", "acp", "opentelemetry", "quickjs"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
import asyncio
import jsrun.plugs, jsrun.plugs.loader, jsrun.plugs.hosts, jsrun.plugs.stock
from jsrun.plugs import MissingExtra
from jsrun.plugs.config import parse_setup
from jsrun.plugs._references import STOCK
from pathlib import Path
for name in dir(jsrun.plugs):
    getattr(jsrun.plugs, name)
for name in STOCK:
    __import__(STOCK[name].partition(":")[0])
others = ("jsrun.agent", "jsrun.runner", "jsrun.bundle", "jsrun.program", "ptc.runtime")
bad = [name for name in sys.modules if name.startswith(others)]
assert not bad, bad
def missing(call):
    try:
        call()
    except MissingExtra as error:
        return str(error)
print(missing(lambda: parse_setup("- plug: a:b", "s.yaml", Path("/"))))
print(missing(lambda: asyncio.run(jsrun.plugs.hosts.SshHost("h", workspace="/").exec("true"))))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert run.stdout == "pip install 'subharness[plugs]'\npip install 'subharness[ssh]'\n", run.stderr
