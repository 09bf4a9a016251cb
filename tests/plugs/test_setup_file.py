"""Reading a setup file: what is refused, and where."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jsrun.plugs import ExpressionError, SetupError
from jsrun.plugs.config import Setup, from_record, parse_setup, problem, read_setup

FULL = """\
agent: {command: my-agent, args: [--x, "1"], env: {A: b}, inherit_env: [MY_*], name: mine}
policy: {idle_after: 900, on_disconnect: pause}
limits: {line_bytes: 65536, attach: 1.5}
state: {encryption: none, key_file: key}
setup:
  - plug: acme.vm:VmPlug
    id: vm
    with:
      image: "${{ env.VM_IMAGE }}"
      list: [1, true, null, yes, 1.5, 0x10, 010, "2", ~, 'true', ]
  - {plug: ./b.py}
"""


def parsed(text: str, file: str = "setup.yaml") -> Setup:
    """The setup in a text."""
    return parse_setup(text, file, Path("/folder"))


def issues(text: str, file: str = "setup.yaml") -> list[str]:
    """What is wrong with a text."""
    error = problem(parsed(text, file).findings)
    return [str(issue) for issue in error.issues] if error is not None else []


@pytest.mark.plg("PLG-092")
def test_a_setup_is_read() -> None:
    """PLG-092 Every key of the file, with YAML's values read strictly."""
    setup = parsed(FULL)
    assert setup.findings == ()
    assert (setup.agent.command, setup.agent.args, setup.agent.env) == ("my-agent", ("--x", "1"), {"A": "b"})
    assert (setup.agent.inherit_env, setup.agent.name) == (("MY_*",), "mine")
    assert (setup.policy.idle_after, setup.policy.expire_after, setup.policy.may_pause) == (900, 86_400, True)
    assert (setup.limits.line_bytes, setup.limits.attach, setup.limits.hold) == (65_536, 1.5, 300)
    assert (setup.state.encryption, setup.state.key_file) == ("none", "key")
    vm, other = setup.entries
    assert (vm.plug, vm.id, vm.place()[0]) == ("acme.vm:VmPlug", "vm", "setup.yaml:6:5")
    assert vm.inputs.value["list"] == [1, True, None, "yes", 1.5, 16, 10, "2", None, "true"]
    assert vm.inputs.evaluate({"env": {"VM_IMAGE": "x"}})["image"] == "x"
    assert (other.plug, other.id, other.inputs.value) == ("./b.py", None, None)
    assert setup.env_names == {"VM_IMAGE"}


@pytest.mark.plg("PLG-092")
def test_a_list_alone_and_json_are_setups_too() -> None:
    """PLG-092 JSON is read as JSON, escapes and tabs included; places are right in all forms."""
    listed = parsed("- plug: a:b\n-   plug: c:d\n    with: {x: '${{ env.A }}'}\n")
    assert [(entry.plug, entry.place("plug")[0]) for entry in listed.entries] == [
        ("a:b", "setup.yaml:1:9"),
        ("c:d", "setup.yaml:2:11"),
    ]
    assert listed.entries[1].inputs.leaves[0].place == "setup.yaml:3:15"
    text = '{\n\t"setup": [{"plug": "a:b", "with": {"x": "\\ud83d\\ude00"}}]\n}'
    assert parsed(text).entries[0].inputs.value == {"x": "\U0001f600"}
    assert issues('{"setup": [], "setup": []}', "x.json") == ['x.json:1:15: The key "setup" is already at 1:2.']
    assert issues('{"setup": [,]}', "x.json")[0].startswith("x.json:1:12: ")


@pytest.mark.plg("PLG-092")
@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("setup: []\nsetup: []\n", "2:1", 'The key "setup" is already at 1:1'),
        ("- plug: a:b\n  with: {x: 1, x: 2}\n", "2:16", 'The key "x" is already at 2:10'),
        ("- &a {plug: a:b}\n", "1:3", "Anchors are not used here: &a"),
        ("- plug: *a\n", "1:9", "Aliases are not used here: *a"),
        ("- plug: a:b\n  with: !!python/object:os.system {}\n", "2:9", "Tags are not used here"),
        ("- plug: !!str a:b\n", "1:9", "Tags are not used here"),
        ("- plug: ! a:b\n", "1:9", "Tags are not used here"),
        ("setup: []\nsetpu: 1\n", "2:1", 'There is no key "setpu" here'),
        ("setup: []\nagent: {comand: x}\n", "2:9", 'There is no key "comand" here'),
        ("- plug: a:b\n  wiht: {}\n", "2:3", 'There is no key "wiht" here'),
        ("- id: a\n", "1:3", 'The key "plug" is missing'),
        ("agent: {}\n", "1:1", 'The key "setup" is missing'),
        ("- 3\n", "1:3", "must be a mapping"),
        ("3\n", "1:1", "must be a mapping"),
        ("", "1:1", "must be a mapping"),
        ("setup: {}\n", "1:8", "valid list"),
        ("setup: []\npolicy: 3\n", "2:9", "policy: must be a mapping"),
        ("setup: []\npolicy: {idle_after: yes}\n", "2:22", "policy.idle_after"),
        ("setup: []\npolicy: {idle_after: 0}\n", "2:22", "greater than 0"),
        ("setup: []\npolicy: {idle_after: true}\n", "2:22", "policy.idle_after"),
        ("setup: []\npolicy: {on_disconnect: stop}\n", "2:25", "'close' or 'pause'"),
        ("setup: []\nlimits: {line_bytes: 1000}\n", "2:22", "65536"),
        ("setup: []\nagent: {args: [1]}\n", "2:16", "valid string"),
        ("setup: []\nagent: {env: {A: 1}}\n", "2:18", "valid string"),
        ("- plug: a:b\n  with: {1: x}\n", "2:10", "A key is text"),
        ("- plug: a:b\n  with: {? [a] : x}\n", "2:12", "A key is text"),
        ("- plug: a:b\n  with: .inf\n", "2:9", ".inf is no number"),
        ("- plug: a:b\n  with: 1e999\n", "2:9", "too large"),
        ("- plug: a:b\n  with: " + "1" * 5000 + "\n", "2:9", "5,000 characters"),
        ("- plug: a:b\n---\n- plug: c:d\n", "2:1", "second document"),
        ("- plug: [a\n", "2:1", "not YAML"),
        ("- plug: a:b\n  with: \x07\n", "2:9", "U+0007"),
        ("- plug: a:b\n  with: " + "[" * 100 + "]" * 100 + "\n", "2:71", "64 levels"),
        ("- plug: a:b\n  with: {a: 'x ${{ nope }}'}\n", "2:13", 'There is no name "nope"'),
    ],
)
def test_what_is_wrong_is_told_with_its_place(text: str, place: str, words: str) -> None:
    """PLG-092 Duplicate keys, aliases, tags, unknown keys and wrong values, with `file:line:column`."""
    found = issues(text)
    assert any(issue.startswith(f"setup.yaml:{place}: ") and words in issue for issue in found), found


@pytest.mark.plg("PLG-092")
def test_everything_wrong_is_told_at_once_in_order() -> None:
    """PLG-092 One mistake hides no other."""
    text = "policy: {idle_after: -1, x: 1}\nsetup:\n  - plug: 1\n    id: [a]\n  - plug: a:b\n    with: '${{'\n"
    found = issues(text)
    assert [issue.split(": ")[0].partition(":")[2] for issue in found] == ["1:22", "1:26", "3:11", "4:9", "6:11"]
    assert isinstance(problem(parsed("- plug: a:b\n  with: '${{ x }}'\n").findings), ExpressionError)


@pytest.mark.plg("PLG-092")
def test_a_file_that_cannot_be_read_is_one_issue(tmp_path: Path) -> None:
    """PLG-092 Not there, too large, not UTF-8."""
    with pytest.raises(SetupError, match="No such file"):
        read_setup(tmp_path / "none.yaml")
    (tmp_path / "latin.yaml").write_bytes(b"- plug: a:b\n  id: \xe4\n")
    with pytest.raises(SetupError, match=r"latin\.yaml:2:7: The file is not UTF-8"):
        read_setup(tmp_path / "latin.yaml")
    (tmp_path / "large.yaml").write_bytes(b"#" * (1024 * 1024 + 1))
    with pytest.raises(SetupError, match="larger than"):
        read_setup(tmp_path / "large.yaml")
    (tmp_path / "marked.yaml").write_bytes(b"\xef\xbb\xbf- plug: a:b\n")
    setup = read_setup(tmp_path / "marked.yaml")
    assert setup.entries[0].plug == "a:b" and setup.folder == tmp_path


@pytest.mark.plg("PLG-088")
def test_a_recorded_setup_is_the_same_later() -> None:
    """PLG-088 The record is JSON, keeps expressions unevaluated, and tells whether the file says something else."""
    setup = parsed(FULL)
    record = json.loads(json.dumps(setup.record()))
    assert record["setup"][0]["with"]["image"] == "${{ env.VM_IMAGE }}"
    again = from_record(record)
    assert again.record() == setup.record()
    assert again.same_as(setup) and setup.same_as(parsed("# moved\n" + FULL))
    assert not again.same_as(parsed(FULL.replace("900", "901")))
    assert not again.same_as(parsed(FULL.replace("VM_IMAGE", "VM")))
    entry = again.entries[0]
    assert entry.inputs.evaluate({"env": {"VM_IMAGE": "x"}})["image"] == "x"
    with pytest.raises(ExpressionError, match=r"setup\.yaml:6:5: env\.VM_IMAGE is not there"):
        entry.inputs.evaluate({"env": {}})
    damaged: list[dict[str, Any]] = [{}, {**record, "setup": [{}]}, {**record, "policy": {"x": 1}}]
    for bad in damaged:
        with pytest.raises(SetupError, match="damaged"):
            from_record(bad)


_TEXT = st.text(st.sampled_from("- plug:ab\n{}[]'\"&*!?|>#%@`\t1.~$<,é\x00\ud800"), max_size=60)


@pytest.mark.plg("PLG-092")
@settings(max_examples=300, deadline=None)
@given(_TEXT)
def test_any_text_gives_a_setup_or_issues(text: str) -> None:
    """PLG-092 Nothing is raised, whatever the file holds."""
    for start in ("", "setup:\n", "- plug: a:b\n  with: "):
        issues(start + text)
