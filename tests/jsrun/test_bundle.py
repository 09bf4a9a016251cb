"""Bundles on disk and in memory: what is read, what is refused, and that all ways give the same."""

import json
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from jsrun.bundle import Bundle
from jsrun.errors import BundleError
from jsrun.fuel import Fuel
from jsrun.look import WorkspaceLook
from jsrun.manifest import Manifest
from jsrun.memory import FileMemory

MANIFEST = '{"name": "summarise", "purpose": "Sum up a text."}'
PROGRAM = 'function run(input) { return ai("summarise", input.text) }\n'
FILES = {"manifest.json": MANIFEST, "program.js": PROGRAM, "prompts/summarise.md": "Sum up the text."}


def write(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def written(folder: Path, **changes: str | bytes | None) -> Path:
    """The usual bundle, with files changed, added, or (None) left out; `__` stands for `/`, `_` for `.`."""
    files: dict[str, str | bytes] = dict(FILES)
    for key, content in changes.items():
        name = key.replace("__", "/").replace("_", ".")
        if content is None:
            del files[name]
        else:
            files[name] = content
    return write(folder, files)


def refused(path: Path) -> list[tuple[str, str]]:
    """The file and code of every error of a bundle that must not load."""
    with pytest.raises(BundleError) as caught:
        Bundle.load(path)
    return [(one.file, one.code) for one in caught.value.diagnostics if one.severity == "error"]


def test_a_bundle_is_read_from_its_directory(tmp_path: Path) -> None:
    """JSR-001 all its files, and nothing is said about them"""
    folder = written(tmp_path, memory_md="Notes.", evals__one_json="{}")
    memory, look = FileMemory(tmp_path / "x.md"), WorkspaceLook(tmp_path)
    bundle = Bundle.load(folder, memory=memory, look=look, fuel=Fuel(steps=5))
    assert bundle.warnings == ()
    assert bundle.manifest.name == "summarise"
    assert (bundle.program, bundle.source, bundle.form) == (PROGRAM, "program.js", "sync")
    assert dict(bundle.prompts) == {"summarise": "Sum up the text."}
    assert bundle.memory_seed == "Notes."
    assert dict(bundle.evals) == {"one.json": "{}"}
    assert (bundle.memory, bundle.look, bundle.fuel) == (memory, look, Fuel(steps=5))
    assert bundle.path == folder
    assert bundle.hash.startswith("sha256:") and len(bundle.hash) == 71


def test_missing_files_are_reported_together(tmp_path: Path) -> None:
    """JSR-002 each named, and prompts are checked all the same"""
    write(tmp_path, {"prompts/a b.md": "x"})
    assert refused(tmp_path) == [
        ("manifest.json", "bundle-file"),
        ("program.js", "bundle-file"),
        ("prompts/a b.md", "prompt-name"),
    ]


def test_a_directory_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    """JSR-002 so is a file in its place, without a traceback"""
    for path, part in ((tmp_path / "none", "There is no directory"), (tmp_path / "file", "is not a directory")):
        (tmp_path / "file").write_text("x")
        with pytest.raises(BundleError) as caught:
            Bundle.load(path)
        assert part in str(caught.value) and "Error" not in str(caught.value)
    with pytest.raises(BundleError):
        Bundle.load("a\0b")


def test_every_problem_is_found_at_once(tmp_path: Path) -> None:
    """JSR-015 one BundleError, sorted, each line with its place, without a traceback"""
    manifest = '{\n  "name": "Sum",\n  "purpose": "b",\n  "deadline_floor": true\n}'
    folder = written(tmp_path, manifest_json=manifest, program_js="function run() {\n  fetch(1)\n  require(2)\n}")
    with pytest.raises(BundleError) as caught:
        Bundle.load(folder)
    assert str(caught.value).split("\n") == [
        'manifest.json:2:11: error [manifest-name] The name "Sum" has a capital letter. Write "sum".',
        'manifest.json:4:21: error [manifest-deadline] "deadline_floor" must be a duration, got true.'
        ' Write 900000000000 or "15m".',
        'program.js:2:3: error [unavailable-global] There is no "fetch" here.'
        " Name a tool on the whitelist and call it with tool().",
        'program.js:3:3: error [unavailable-global] There is no "require" here.'
        " Write everything in one file; the world is reached through the doors.",
        'prompts/summarise.md: warning [unused-prompt] Nothing uses the prompt "summarise". Remove it.',
    ]


def test_an_unreadable_manifest_does_not_hide_the_program(tmp_path: Path) -> None:
    """JSR-015 nor does it accuse tools that may be on its whitelist"""
    folder = written(tmp_path, manifest_json="{", program_js='function run() { return fetch(tool("t")) }')
    assert refused(folder) == [("manifest.json", "manifest-json"), ("program.js", "unavailable-global")]


def test_a_file_name_cannot_pass_for_another_line(tmp_path: Path) -> None:
    """JSR-015 one diagnostic, one line, whatever a file is called"""
    folder = written(tmp_path)
    (folder / "x\nprogram.js:1:1: error [syntax] \t\x1b[31m").write_text("")
    printed = [str(found) for found in Bundle.load(folder).warnings]
    assert len(printed) == 1
    assert printed[0].startswith(r"x\nprogram.js:1:1: error [syntax] \t\u001b[31m: warning [ignored-file]")


def test_warnings_refuse_a_bundle_under_strict_only(tmp_path: Path) -> None:
    """JSR-016 otherwise they are kept"""
    folder = written(tmp_path, extra_txt="x")
    assert [one.code for one in Bundle.load(folder).warnings] == ["ignored-file"]
    with pytest.raises(BundleError) as caught:
        Bundle.load(folder, strict=True)
    assert [one.severity for one in caught.value.diagnostics] == ["warning"]
    with pytest.raises(BundleError):
        Bundle.from_files(FILES | {"extra.txt": "x"}, strict=True)
    assert Bundle.load(written(tmp_path / "b"), strict=True).warnings == ()


# --- files that are no files ------------------------------------------------------------------------------------------


def test_links_are_not_followed(tmp_path: Path) -> None:
    """JSR-012 wherever they lead"""
    secret = tmp_path / "secret"
    secret.write_text("secret")
    folder = written(tmp_path / "b", prompts__summarise_md=None)
    (folder / "prompts").mkdir()
    (folder / "prompts" / "summarise.md").symlink_to(secret)
    (folder / "memory.md").symlink_to(tmp_path / "nowhere")
    assert refused(folder) == [("memory.md", "bundle-file"), ("prompts/summarise.md", "bundle-file")]
    (folder / "program.js").unlink()
    (folder / "program.js").symlink_to(secret)
    assert ("program.js", "bundle-file") in refused(folder)


def test_linked_folders_are_not_followed(tmp_path: Path) -> None:
    """JSR-012 nor taken for empty"""
    folder = written(tmp_path / "b", prompts__summarise_md=None)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "summarise.md").write_text("x")
    (folder / "prompts").symlink_to(tmp_path / "elsewhere")
    (folder / "evals").write_text("x")
    assert [pair for pair in refused(folder) if pair[1] == "bundle-file"] == [
        ("evals", "bundle-file"),
        ("prompts", "bundle-file"),
    ]


def test_nothing_is_waited_for(tmp_path: Path) -> None:
    """JSR-012 a FIFO, a socket and a directory in place of a file are refused at once"""
    folder = written(tmp_path / "b")
    os.mkfifo(folder / "memory.md")
    (folder / "prompts" / "a.md").mkdir()
    before = Path.cwd()
    os.chdir(folder / "prompts")  # a socket's path has to be short
    try:
        with socket.socket(socket.AF_UNIX) as end:
            end.bind("s.md")
            found = refused(folder)
    finally:
        os.chdir(before)
    assert found == [("memory.md", "bundle-file"), ("prompts/a.md", "bundle-file"), ("prompts/s.md", "bundle-file")]


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    """JSR-012 in every file"""
    bad = b"ok \xff"
    folder = written(tmp_path, manifest_json=bad, program_js=bad, prompts__summarise_md=bad, memory_md=bad)
    assert refused(folder) == [
        ("manifest.json", "bundle-file"),
        ("memory.md", "bundle-file"),
        ("program.js", "bundle-file"),
        ("prompts/summarise.md", "bundle-file"),
    ]


SIZES = {"manifest.json": 256 << 10, "program.js": 1 << 20, "prompts/summarise.md": 256 << 10, "memory.md": 4 << 20}


@pytest.mark.parametrize("name", SIZES)
def test_files_have_a_size_they_may_not_pass(name: str, tmp_path: Path) -> None:
    """JSR-012 the message has size and limit, and nothing is read past it"""
    limit = SIZES[name]
    content = {"manifest.json": MANIFEST, "program.js": PROGRAM}.get(name, "x")
    at_limit = content + " " * (limit - len(content))
    folder = write(tmp_path / "b", FILES | {name: at_limit})
    Bundle.load(folder)
    with (folder / name).open("ab") as file:
        file.truncate(1 << 40)  # sparse: to read it whole would take for ever
    with pytest.raises(BundleError) as caught:
        Bundle.load(folder)
    (one,) = [each for each in caught.value.diagnostics if each.code == "bundle-file"]
    assert one.file == name and f"{1 << 40:,}" in one.message and f"{limit:,}" in one.message
    with pytest.raises(BundleError) as caught:
        Bundle.from_files(FILES | {name: at_limit + " "})
    assert next(each.code for each in caught.value.diagnostics if each.file == name) == "bundle-file"


def test_a_bundle_has_a_size_and_a_number_of_prompts(tmp_path: Path) -> None:
    """JSR-012 16 MiB in all, 500 prompts"""
    files: dict[str, str] = FILES | {f"evals/{number}.json": "x" * (1 << 20) for number in range(16)}
    with pytest.raises(BundleError) as caught:
        Bundle.from_files(files)
    assert "16,777,216" in str(caught.value)
    assert refused(write(tmp_path / "a", files)) == [(".", "bundle-file")]
    calls = "\n".join(f'ai("p{number}")' for number in range(501))
    many = {"manifest.json": MANIFEST, "program.js": calls} | {f"prompts/p{number}.md": "x" for number in range(501)}
    assert refused(write(tmp_path / "b", many)) == [("prompts", "bundle-file")]
    del many["prompts/p500.md"]
    many["program.js"] = calls.replace('ai("p500")', "1")
    assert Bundle.from_files(many).warnings == ()


def test_texts_are_kept_as_they_are() -> None:
    """JSR-013 template markers, braces and line ends stay, a leading byte-order mark does not"""
    prompt = "Dear {{name}}, ${x} {% if %}\r\n$1 \\n {0}"
    bom = "\ufeff"
    bundle = Bundle.from_files(
        {"manifest.json": bom + MANIFEST, "program.js": bom + PROGRAM, "prompts/summarise.md": bom + prompt}
    )
    assert bundle.prompts["summarise"] == prompt
    assert bundle.program == PROGRAM


def test_names_of_prompts_are_checked(tmp_path: Path) -> None:
    """JSR-014 a space is refused, equal names but for case are warned"""
    calls = 'ai("summarise"); ai("Summarise"); ai("a.b-c_d")'
    folder = written(tmp_path, program_js=calls, prompts__Summarise_md="x")
    (folder / "prompts" / "a.b-c_d.md").write_text("x")
    (one,) = Bundle.load(folder).warnings
    assert (one.code, one.file) == ("prompt-case", "prompts/summarise.md")
    for name in ("a b", "ü", "_a", "a" * 121):
        (folder / "prompts" / f"{name}.md").write_text("x")
        assert ("prompt-name") in [code for _, code in refused(folder)]
        (folder / "prompts" / f"{name}.md").unlink()


def test_what_is_no_part_of_a_bundle_is_passed_over(tmp_path: Path) -> None:
    """JSR-001 with a warning, except for what stands in every folder"""
    folder = written(tmp_path, README_md="x", LICENSE="x", program_d_ts="x", _gitignore="x", prompts__README_txt="x")
    (folder / ".git").mkdir()
    (folder / "prompts" / ".draft.md").write_text("x")
    (folder / "evals").mkdir()
    (folder / "evals" / "tape.jsonl").write_text("{}\n")
    (folder / "evals" / "notes.txt").write_text("x")
    assert Bundle.load(folder).warnings == ()
    (folder / "src").mkdir()
    (folder / "prompts" / "old").mkdir()
    (folder / "prompts" / "a.txt").symlink_to("/nowhere")
    assert [one.file for one in Bundle.load(folder).warnings] == ["prompts/a.txt", "prompts/old", "src"]
    assert all(one.code == "ignored-file" for one in Bundle.load(folder).warnings)


# --- the three ways ---------------------------------------------------------------------------------------------------


def parts(**changes: Any) -> dict[str, Any]:
    return {
        "manifest": json.loads(MANIFEST),
        "program": PROGRAM,
        "prompts": {"summarise": "Sum up the text."},
        "memory_seed": "Notes.",
        "evals": {"one": "{}"},
    } | changes


def test_all_ways_to_make_a_bundle_give_the_same(tmp_path: Path) -> None:
    """JSR-017 equal hash for equal content"""
    files = FILES | {"memory.md": "Notes.", "evals/one.json": "{}"}
    loaded = Bundle.load(write(tmp_path, files))
    hashes = {
        loaded.hash,
        Bundle.from_files(files).hash,
        Bundle(**parts()).hash,
        Bundle(**parts(manifest=loaded.manifest)).hash,
        Bundle(**parts(manifest=Manifest(name="summarise", purpose="Sum up a text."))).hash,
        Bundle(**parts(prompts={"prompts/summarise.md": "Sum up the text."}, evals={"evals/one.json": "{}"})).hash,
    }
    assert len(hashes) == 1
    pretty = json.dumps(json.loads(MANIFEST), indent=8)
    assert Bundle.from_files(files | {"manifest.json": pretty}).hash == loaded.hash


def test_the_hash_depends_on_every_file() -> None:
    """JSR-017 names and contents, and nothing can be moved from one to the other"""
    base = Bundle(**parts()).hash
    changed = [
        Bundle(**parts(manifest=json.loads(MANIFEST) | {"cues": "x"})).hash,
        Bundle(**parts(program=PROGRAM + " ")).hash,
        Bundle(**parts(prompts={"summarise": "Sum up the text. "})).hash,
        Bundle(**parts(prompts={"summarise": "Sum up the text.", "b": ""})).hash,
        Bundle(**parts(memory_seed="")).hash,
        Bundle(**parts(evals={"two": "{}"})).hash,
        Bundle(**parts(evals={})).hash,
    ]
    assert base not in changed and len(set(changed)) == len(changed)
    assert Bundle(**parts()).hash == base


@pytest.mark.parametrize(
    ("manifest", "program"),
    [
        ({"name": "A", "purpose": "b"}, PROGRAM),
        ({"name": "a", "purpose": "b", "whitelist": ["x"], "zzz": 1}, PROGRAM),
        ({"name": "a", "purpose": "b"}, "const a = 1"),
        ({"name": "a", "purpose": "b"}, 'fetch(tool("x"))\nai("Sum it up.")'),
        ({"name": "a", "purpose": "b", "fuel": {"steps": 0}}, ""),
        ({"name": "a", "purpose": "b"}, "\ud800"),
    ],
)
def test_all_ways_find_the_same(manifest: dict[str, Any], program: str, tmp_path: Path) -> None:
    """JSR-017 equal codes, with places where there is a text to show"""

    def codes(make: Any) -> list[tuple[str, str, str]]:
        try:
            found = make().warnings
        except BundleError as error:
            found = error.diagnostics
        return sorted((one.file, one.code, one.message) for one in found)

    files = {"manifest.json": json.dumps(manifest), "program.js": program, "prompts/summarise.md": "x"}
    expected = codes(lambda: Bundle.from_files(files))
    assert codes(lambda: Bundle(manifest, program, prompts={"summarise": "x"})) == expected
    if program.isascii():
        folder = write(tmp_path, files)
        assert codes(lambda: Bundle.load(folder)) == expected
    assert expected


def test_the_constructor_knows_places_in_the_program_only() -> None:
    """JSR-017 lines of a manifest that is no text are None; the program has the name it was given"""
    with pytest.raises(BundleError) as caught:
        Bundle({"name": "A", "purpose": "b"}, "fetch(1)", source="mine.js")
    name, fetch = caught.value.diagnostics
    assert (name.file, name.line, name.column) == ("manifest.json", None, None)
    assert (fetch.file, fetch.line, fetch.column) == ("mine.js", 1, 1)
    with pytest.raises(BundleError) as caught:
        Bundle({"name": {1, 2}}, PROGRAM)  # type: ignore[dict-item]
    assert [one.code for one in caught.value.diagnostics] == ["manifest-json"]


def test_two_names_for_one_prompt_clash() -> None:
    """JSR-014 once prefix and suffix are taken off"""
    with pytest.raises(BundleError) as caught:
        Bundle(json.loads(MANIFEST), PROGRAM, prompts={"summarise": "x", "prompts/summarise.md": "y"})
    assert [one.code for one in caught.value.diagnostics] == ["prompt-name"]


def test_a_bundle_cannot_be_changed() -> None:
    """JSR-046 it is shared by all its runs"""
    bundle = Bundle.from_files(FILES)
    with pytest.raises(AttributeError):
        bundle.program = "x"  # type: ignore[misc]
    with pytest.raises(TypeError):
        bundle.prompts["x"] = "y"  # type: ignore[index]
