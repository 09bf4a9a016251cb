"""The store: what is minted is loaded, whoever is killed, competes or has edited the files."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jsrun import (
    AlreadyExists,
    Bundle,
    BundleError,
    DoorFailure,
    FileMemory,
    MintBusy,
    NotFound,
    RunNote,
    StaleParent,
    Store,
    StoreError,
    Version,
)
from jsrun import store as store_module
from jsrun.files import locked
from jsrun.store import home
from jsrun.store_records import WHY_CHARS
from tests.jsrun import killed_mints

PROGRAM = "function run() { return 1; }\n"
HASH = "sha256:" + "0" * 64


def texts(purpose: str = "A test.", name: str = "alpha", **more: str) -> dict[str, str]:
    """The files of a bundle."""
    return {"manifest.json": json.dumps({"name": name, "purpose": purpose}), "program.js": PROGRAM, **more}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "root")


def folder(store: Store, name: str = "alpha") -> Path:
    return store.root / "subharnesses" / name


def entries(path: Path) -> set[str]:
    return {entry.name for entry in path.iterdir()}


class TestMint:
    def test_a_new_name_gets_version_1_and_is_loaded(self, store: Store) -> None:
        """JSR-122 what is minted is what is loaded, and its record says where it comes from."""
        version = store.mint(texts(**{"prompts/a.md": "A.", "evals/x.json": "{}"}), why="To begin.")
        assert (version.version, version.parent, version.parent_version, version.why) == (1, "", 0, "To begin.")
        assert store.names() == ("alpha",)
        assert store.versions("alpha") == (version,)
        assert store.head("alpha") == version
        bundle = store.load("alpha")
        assert bundle.hash == version.hash
        assert bundle.prompts == {"a": "A."}
        assert bundle.path == store.path("alpha") == folder(store) / "v1"
        assert store.notices == ()

    def test_the_files_on_disk(self, store: Store) -> None:
        """JSR-122 the layout: record, directory with memory.md and evals always there, gate, and nothing else."""
        store.mint(texts())
        assert entries(folder(store)) == {"v1", "v1.json", ".mint.lock"}
        assert entries(folder(store) / "v1") == {"manifest.json", "program.js", "memory.md", "evals"}
        assert list((folder(store) / "v1" / "evals").iterdir()) == []
        record = json.loads((folder(store) / "v1.json").read_text())
        assert set(record) == {"version", "hash", "parent", "parent_version", "why", "at"}

    def test_the_manifest_is_rewritten_and_other_files_are_stored_byte_for_byte(self, store: Store) -> None:
        """JSR-122 two-space indent and a final newline, a fixed point; line ends and byte-order marks stay."""
        program = "\ufefffunction run() {\r\n  return ai('a');\r\n}"
        given = {"prompts/a.md": " é😀\r\n", "memory.md": "seed\r", "evals/x.json": "not JSON"}
        first = store.mint(texts(**{**given, "program.js": program}))
        directory = store.path("alpha")
        assert (directory / "program.js").read_bytes() == program.encode()
        for name, text in given.items():
            assert (directory / name).read_bytes() == text.encode()
        assert (directory / "manifest.json").read_text() == '{\n  "name": "alpha",\n  "purpose": "A test."\n}\n'
        assert store.mint(store.files("alpha")) == first
        assert store.load("alpha").hash == first.hash

    def test_equal_content_returns_the_newest_version(self, store: Store) -> None:
        """JSR-122 idempotent: whatever the parent, the reason or the layout of the manifest."""
        first = store.mint(texts())
        manifest = '{"name":"alpha",\n\n"purpose":"A test."}'
        for parent, why in (("", ""), (first.hash, ""), (HASH, "again")):
            assert store.mint(texts(**{"manifest.json": manifest}), parent, why) == first
        assert len(store.versions("alpha")) == 1

    def test_a_change_names_its_parent(self, store: Store) -> None:
        """JSR-122"""
        first = store.mint(texts())
        second = store.mint(texts("Better."), first.hash, "To be better.")
        assert (second.version, second.parent, second.parent_version) == (2, first.hash, 1)
        assert store.load("alpha").manifest.purpose == "Better."
        assert store.load("alpha", 1).manifest.purpose == "A test."
        third = store.mint(texts(), second.hash, "It was not.")
        assert (third.version, third.hash) == (3, first.hash)

    def test_a_stale_parent_is_refused(self, store: Store) -> None:
        """JSR-122 a parent that is not the newest version, nor any."""
        first = store.mint(texts())
        second = store.mint(texts("Two."), first.hash, "Two.")
        with pytest.raises(StaleParent, match=f"version 2 .{second.hash}"):
            store.mint(texts("Three."), first.hash, "Three.")
        with pytest.raises(StaleParent):
            store.mint(texts("Three."), "nonsense", "Three.")
        with pytest.raises(StaleParent, match="no version yet"):
            store.mint(texts(name="beta"), first.hash, "Three.")
        assert len(store.versions("alpha")) == 2

    def test_a_taken_name_is_refused_without_a_parent(self, store: Store) -> None:
        """JSR-122"""
        first = store.mint(texts())
        with pytest.raises(AlreadyExists, match=first.hash):
            store.mint(texts("Other."))

    @pytest.mark.parametrize("why", ["", " \n"])
    def test_a_change_without_a_reason_is_refused(self, store: Store, why: str) -> None:
        """JSR-122"""
        first = store.mint(texts())
        with pytest.raises(StoreError, match="needs a reason"):
            store.mint(texts("Other."), first.hash, why)

    @pytest.mark.parametrize(
        "program", ["function run( {", "let a; let a; function run() { return 1; }", "", "function run() { ai('x'); }"]
    )
    def test_what_fails_a_check_is_refused_and_leaves_nothing(self, store: Store, program: str) -> None:
        """JSR-122 syntax errors, those that only the engine sees, and every other error."""
        with pytest.raises(BundleError) as refused:
            store.mint(texts(**{"program.js": program}))
        assert refused.value.diagnostics[0].file == "program.js"
        assert not store.root.exists()

    def test_a_manifest_that_is_too_large_in_its_layout_is_refused(self, store: Store) -> None:
        """What is stored must load again."""
        schema = {"properties": {"a": {"enum": list(range(40_000))}}}
        manifest = json.dumps({"name": "alpha", "purpose": "x", "input": schema}, separators=(",", ":"))
        assert len(manifest) < 256 * 1024
        with pytest.raises(BundleError, match=r"manifest\.json"):
            store.mint(texts(**{"manifest.json": manifest}))
        assert not store.root.exists()

    def test_a_busy_gate_is_refused(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        """JSR-122"""
        monkeypatch.setattr(store_module, "GATE_SECONDS", 0.05)
        first = store.mint(texts())
        with locked(folder(store) / ".mint.lock", 1), pytest.raises(MintBusy, match="Try again"):
            store.mint(texts("Two."), first.hash, "Two.")
        assert store.mint(texts("Two."), first.hash, "Two.").version == 2

    def test_paths_lead_nowhere_else(self, store: Store) -> None:
        """Only the files of a bundle are written, whatever the others are called."""
        outside = {"../evil.md": "x", "/etc/evil.md": "x", "prompts/../../evil.md": "x", "evals/a\0.json": "x"}
        store.mint(texts(**outside, **{"evals/\ud800.json": "x", "README.md": "x", "prompts/sub/a.md": "x"}))
        assert entries(folder(store) / "v1") == {"manifest.json", "program.js", "memory.md", "evals"}
        assert entries(folder(store)) == {"v1", "v1.json", ".mint.lock"}
        assert entries(store.root.parent) == {"root"}

    def test_a_file_that_the_system_refuses_leaves_the_store_as_it_was(self, store: Store) -> None:
        first = store.mint(texts())
        with pytest.raises(StoreError, match="too long"):
            store.mint(texts(**{f"evals/{'x' * 300}.json": "{}"}), first.hash, "Why not.")
        assert entries(folder(store)) == {"v1", "v1.json", ".mint.lock"}
        assert store.head("alpha") == first

    def test_reasons_are_bounded_and_any_text(self, store: Store) -> None:
        first = store.mint(texts(), why=" \ud800😀\n" + "\1" * (WHY_CHARS - 10))
        assert store.versions("alpha") == (first,)
        assert first.why.startswith("\ufffd😀\n")
        with pytest.raises(StoreError, match="8,001 characters"):
            store.mint(texts("Two."), first.hash, "x" * (WHY_CHARS + 1))

    async def test_it_can_be_called_where_a_loop_is_running(self, store: Store) -> None:
        program = {"program.js": "function run() { return 'in a loop'; }"}
        assert store.mint(texts(**program)).version == 1
        assert (await asyncio.to_thread(store.mint, texts(**program))).version == 1

    def test_a_root_that_is_a_file_is_a_store_error(self, tmp_path: Path) -> None:
        (tmp_path / "root").write_text("x")
        store = Store(tmp_path / "root")
        for call in (store.names, lambda: store.mint(texts())):
            with pytest.raises(StoreError, match="root"):
                call()
        with pytest.raises(NotFound):
            store.load("alpha")


class TestKills:
    @pytest.mark.parametrize("scenario", ["new", "change", "dead"])
    def test_a_kill_before_every_step_leaves_a_loadable_store(self, tmp_path: Path, scenario: str) -> None:
        """JSR-122 a mint killed at any point: what was there loads, the number is not reused, the next mint works."""
        command = [sys.executable, "-m", "tests.jsrun.killed_mints", str(tmp_path), scenario]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
        assert done.returncode == 0, done.stderr
        steps = done.stdout.split("\n")[:-1]
        assert {"os.mkdir", "open", "write", "fsync", "os.link", "os.rename", "lived"} <= set(steps)
        before = ["First."] if scenario != "new" else []
        after = "Second." if before else "First."
        loaded: list[str] = []
        for number in range(1, len(steps) + 1):
            root = tmp_path / str(number)
            store = Store(root)
            found = [store.load("killed", version.version) for version in store.versions("killed")]
            assert [bundle.manifest.purpose for bundle in found] in (before, [*before, after])
            assert store.names() == (("killed",) if found else ())
            for bundle, version in zip(found, store.versions("killed"), strict=True):
                assert bundle.hash == version.hash
            loaded.append(found[-1].manifest.purpose if found else "")

            seen = _numbers(root)
            killed_mints.mint(root, scenario)
            head = store.head("killed")
            assert store.load("killed").manifest.purpose == after
            assert head.version in ({max(seen, default=0) + 1} if loaded[-1] != after else {max(seen)})
            assert not [name for name in entries(folder(store, "killed")) if name.startswith(".mint-")]
            assert not [notice for notice in store.notices if "changed" in notice]
        # The commit point is one step: everything before it is the old state, everything after it the new one.
        assert loaded == sorted(loaded, key=lambda purpose: purpose == after)
        assert loaded[-1] == after

    def test_processes_that_mint_at_once_make_one_chain(self, store: Store) -> None:
        """JSR-122 of several changes of one version one wins, the others are told; nothing is lost or doubled."""
        store.mint(texts())
        script = """
import json, sys
from jsrun import MintBusy, StaleParent, Store
root, mine = sys.argv[1:]
store, made = Store(root), 0
while made < 4:
    head = store.head("alpha")
    manifest = {"name": "alpha", "purpose": f"{mine} {made}"}
    files = {"manifest.json": json.dumps(manifest), "program.js": "function run() { return 1; }\\n"}
    try:
        store.mint(files, head.hash, "To compete.")
        made += 1
    except (StaleParent, MintBusy):
        continue
"""
        command = [sys.executable, "-c", script, str(store.root)]
        processes = [subprocess.Popen([*command, str(number)]) for number in range(3)]
        assert [process.wait(timeout=100) for process in processes] == [0, 0, 0]
        chain = store.versions("alpha")
        assert [version.version for version in chain] == list(range(1, 14))
        assert [version.parent for version in chain[1:]] == [version.hash for version in chain[:-1]]
        purposes = {store.load("alpha", version.version).manifest.purpose for version in chain[1:]}
        assert purposes == {f"{mine} {made}" for mine in range(3) for made in range(4)}


def _numbers(root: Path) -> set[int]:
    path = root / "subharnesses" / "killed"
    names = entries(path) if path.is_dir() else set()
    return {int(name[1:].removesuffix(".json")) for name in names if name[0] == "v"}


class TestHead:
    def test_a_record_without_its_directory_is_dead(self, store: Store) -> None:
        """JSR-122 it is skipped with a notice, and its number is not used again."""
        first = store.mint(texts())
        second = store.mint(texts("Two."), first.hash, "Two.")
        shutil.rmtree(folder(store) / "v2")
        assert store.head("alpha") == first
        assert store.versions("alpha") == (first,)
        assert store.load("alpha").manifest.purpose == "A test."
        assert "alpha: v2 is left out: it has a record but no directory" in store.notices[0]
        with pytest.raises(BundleError):
            store.load("alpha", 2)
        third = store.mint(texts("Three."), first.hash, "Three.")
        assert (third.version, third.parent_version) == (3, 1)
        assert second.version == 2

    def test_a_name_whose_versions_are_all_dead_can_be_minted_anew(self, store: Store) -> None:
        store.mint(texts())
        shutil.rmtree(folder(store) / "v1")
        assert store.names() == ()
        with pytest.raises(NotFound):
            store.load("alpha")
        assert store.mint(texts()).version == 2

    def test_a_directory_without_a_record_is_no_version(self, store: Store) -> None:
        first = store.mint(texts())
        shutil.copytree(folder(store) / "v1", folder(store) / "v7")
        assert store.head("alpha") == first
        assert "v7 is left out: it has a directory but no record" in store.notices[0]
        with pytest.raises(NotFound, match="no version 7"):
            store.load("alpha", 7)
        assert store.mint(texts("Two."), first.hash, "Two.").version == 8

    def test_links_and_other_kinds_of_files_are_not_followed(self, store: Store, tmp_path: Path) -> None:
        first = store.mint(texts())
        here = folder(store)
        (here / "v2.json").symlink_to(here / "v1.json")
        shutil.copytree(here / "v1", here / "v2")
        shutil.copy(here / "v1.json", here / "v3.json")
        (here / "v3").symlink_to(here / "v1")
        os.mkfifo(here / "v4.json")
        shutil.copytree(here / "v1", here / "v4")
        (here.parent / "beta").symlink_to(here)
        (here.parent / "Gamma").mkdir()
        (here.parent / "delta").write_text("x")
        assert store.names() == ("alpha",)
        assert store.head("alpha") == first
        assert [notice.split(":")[0] for notice in store.notices] == [
            "Gamma", "alpha", "alpha", "alpha", "beta", "delta",
        ]  # fmt: skip
        with pytest.raises(NotFound):
            store.load("beta")
        assert store.last_run("beta") is None
        assert store.versions("beta") == ()
        with pytest.raises(StoreError, match="not a directory"):
            store.mint(texts(name="beta"))

    @pytest.mark.parametrize(
        "content",
        [
            b"",
            b"{",
            b"[]",
            b"\xff",
            b'{"version": 1}',
            b" " * 70_000,
            b"[" * 60_000,
            b'{"version": 1, "version": 1}',
            {"version": 2},
            {"version": True},
            {"version": 1.0},
            {"version": 10**30},
            {"hash": "sha256:xyz"},
            {"hash": None},
            {"parent": HASH},
            {"parent_version": 1},
            {"parent": HASH, "parent_version": 1},
            {"why": 5},
            {"why": "x" * 20_000},
            {"at": "yesterday"},
            {"more": 1},
        ],
        ids=lambda content: repr(content)[:30],
    )
    def test_an_unsound_record_is_told_and_never_believed(
        self, store: Store, content: bytes | dict[str, object]
    ) -> None:
        """Every deviation is a StoreError with the file's name; it does not let an older version take over."""
        first = store.mint(texts())
        path = folder(store) / "v1.json"
        if isinstance(content, dict):
            content = json.dumps({**first.to_json(), **content}).encode()
        path.write_bytes(content)
        with pytest.raises(StoreError, match=r"v1\.json.* cannot be used: .*Correct it") as refused:
            store.head("alpha")
        assert "class" not in str(refused.value) and ".." not in str(refused.value)
        with pytest.raises(StoreError, match=r"v1\.json"):
            store.mint(texts("Two."), first.hash, "Two.")
        assert store.versions("alpha") == ()
        assert "v1.json" in store.notices[0]
        assert store.load("alpha").manifest.purpose == "A test."  # the files are what they are

    @settings(max_examples=40, deadline=None)
    @given(st.lists(st.sampled_from(["mint", "again", "die", "lose", "orphan", "forget", "left"]), max_size=12))
    def test_the_head_is_always_the_highest_whole_version(self, happened: list[str]) -> None:
        """JSR-122 whatever was killed or lost before, in any order."""
        with tempfile.TemporaryDirectory() as root:
            store = Store(root)
            here = folder(store)
            made = 0
            for what in ["mint", *happened]:
                seen = {int(name[1:].removesuffix(".json")) for name in _versions_in(here)}
                live = sorted(n for n in seen if {f"v{n}", f"v{n}.json"} <= _versions_in(here))
                match what:
                    case "mint":
                        made += 1
                        parent = store.head("alpha").hash if live else ""
                        version = store.mint(texts(f"Number {made}."), parent, "Why not.")
                        assert version.version == max(seen, default=0) + 1
                    case "again" if live:
                        assert store.mint(store.files("alpha")) == store.head("alpha")
                    case "die":
                        (here / f"v{max(seen, default=0) + 1}.json").write_text("{}")
                    case "lose" if live:
                        shutil.rmtree(here / f"v{live[-1]}")
                    case "orphan":
                        (here / f"v{max(seen, default=0) + 1}").mkdir()
                    case "forget" if live:
                        (here / f"v{live[0]}.json").unlink()
                    case "left":
                        (here / ".mint-x").mkdir(exist_ok=True)
                names = _versions_in(here)
                whole = sorted(int(name[1:]) for name in names if f"{name}.json" in names)
                assert [version.version for version in store.versions("alpha")] == whole
                assert store.names() == (("alpha",) if whole else ())
                assert bool(store.notices) == (len(names) != 2 * len(whole))
                for number in whole:
                    assert store.load("alpha", number).path == here / f"v{number}"


def _versions_in(path: Path) -> set[str]:
    return {name for name in entries(path) if name.startswith("v")} if path.is_dir() else set()


class TestLoad:
    def test_reading_creates_nothing(self, store: Store) -> None:
        """JSR-123 reading a name that never ran creates nothing."""
        assert store.names() == ()
        assert store.versions("alpha") == ()
        assert store.last_run("alpha") is None
        for call in (store.load, store.head, store.path, store.files):
            with pytest.raises(NotFound, match='no "alpha" in the store'):
                call("alpha")
        assert asyncio.run(_texts(store.memory("alpha"))) == []
        assert not store.root.exists()
        store.mint(texts(**{"memory.md": "Seed."}))
        before = entries(folder(store))
        bundle = store.load("alpha")
        assert bundle.memory is not None
        assert asyncio.run(_texts(store.memory("alpha"))) == ["Seed."]
        assert entries(folder(store)) == before

    @pytest.mark.parametrize("name", ["", ".", "..", "../alpha", "alpha/../alpha", "Alpha", "a\0b", "linear", "a" * 65])
    def test_what_cannot_be_a_name_is_not_found(self, store: Store, name: str) -> None:
        store.mint(texts())
        for call in (store.load, store.head, store.memory, store.last_run):
            with pytest.raises(NotFound):
                call(name)
        assert store.versions(name) == ()

    @pytest.mark.parametrize("version", [2, -1, 10**30])
    def test_a_version_that_is_not_there_is_not_found(self, store: Store, version: int) -> None:
        store.mint(texts())
        with pytest.raises(NotFound, match="The newest is 1"):
            store.load("alpha", version)

    @pytest.mark.parametrize("name", ["manifest.json", "program.js"])
    def test_a_missing_file_is_a_bundle_error(self, store: Store, name: str) -> None:
        """JSR-124 (broken): every problem is told, and an older version does not take over."""
        first = store.mint(texts())
        store.mint(texts("Two."), first.hash, "Two.")
        (folder(store) / "v2" / name).unlink()
        with pytest.raises(BundleError, match=f"{name}: error .bundle-file"):
            store.load("alpha")
        assert store.names() == ("alpha",)

    def test_a_manifest_of_another_name_is_a_bundle_error(self, store: Store) -> None:
        store.mint(texts())
        (folder(store) / "v1" / "manifest.json").write_text(texts(name="beta")["manifest.json"])
        with pytest.raises(BundleError, match=r'manifest-name.*"beta".*"alpha"'):
            store.load("alpha")

    def test_a_version_that_was_changed_is_loaded_with_a_notice(self, store: Store) -> None:
        first = store.mint(texts())
        (folder(store) / "v1" / "program.js").write_text("function run() { return 2; }")
        assert "return 2" in store.load("alpha").program
        notice = "alpha: v1 was changed since it was minted. Mint what is in it as a new version."
        assert list(store.notices) == [notice]
        # It does not pass for what it was: that content is not in the store any more.
        assert store.mint(texts(), first.hash, "As it was.").version == 2
        store.load("alpha")
        assert list(store.notices) == []

    def test_files_give_what_mint_takes(self, store: Store) -> None:
        given = texts(**{"prompts/a.md": "A.", "memory.md": "Seed."})
        store.mint(given)
        assert store.files("alpha") == {**given, "manifest.json": store.load("alpha").manifest.to_text()}
        (folder(store) / "v1" / "program.js").write_text("function run( {")
        assert store.files("alpha")["program.js"] == "function run( {"
        (folder(store) / "v1" / "program.js").unlink()
        with pytest.raises(BundleError):
            store.files("alpha")


async def _texts(memory: FileMemory) -> list[str]:
    return [note.text for note in await memory.recall()]


class TestNotes:
    async def test_a_seed_is_copied_once_over_all_versions(self, store: Store) -> None:
        """JSR-123 the seed is that of the newest version at the first note; later seeds change nothing."""
        first = store.mint(texts(**{"memory.md": "Old seed."}))
        bundle = store.load("alpha")
        assert await _texts(store.memory("alpha")) == ["Old seed."]
        second = store.mint(texts(**{"memory.md": "New seed."}), first.hash, "A better seed.")
        assert bundle.memory is not None
        await bundle.memory.remember("A note.")  # by the run of a bundle that was loaded before
        assert await _texts(store.memory("alpha")) == ["A note.", "New seed."]
        store.mint(texts(**{"memory.md": "Newest seed."}), second.hash, "A better seed.")
        for version in (0, 1, 2, 3):
            memory = store.load("alpha", version).memory
            assert isinstance(memory, FileMemory)
            assert await _texts(memory) == ["A note.", "New seed."]
        assert (folder(store) / "memory.md").is_file()
        assert (folder(store) / "v1" / "memory.md").read_text() == "Old seed."

    async def test_a_name_without_a_version_has_notes_too(self, store: Store) -> None:
        """A bundle that is run by its path keeps its notes where a minted one would."""
        memory = store.memory("alpha", "Its own seed.")
        await memory.remember("A note.")
        assert await _texts(memory) == ["A note.", "Its own seed."]
        assert store.names() == ()
        store.mint(texts(**{"memory.md": "Seed."}))
        assert await _texts(store.memory("alpha")) == ["A note.", "Its own seed."]

    @pytest.mark.parametrize("kind", ["link", "bytes", "folder"])
    async def test_a_seed_that_cannot_be_read_is_not_lost(self, store: Store, tmp_path: Path, kind: str) -> None:
        """The door fails, and the notes do not begin without it."""
        store.mint(texts())
        path = folder(store) / "v1" / "memory.md"
        path.unlink()
        if kind == "link":
            path.symlink_to(tmp_path)
        elif kind == "bytes":
            path.write_bytes(b"\xff")
        else:
            path.mkdir()
        memory = store.memory("alpha")
        for call in (memory.recall(), memory.remember("A note.")):
            with pytest.raises(DoorFailure, match=r"memory\.md"):
                await call
        assert not (folder(store) / "memory.md").exists()

    def test_how_the_last_run_went(self, store: Store) -> None:
        store.mint(texts())
        assert store.last_run("alpha") is None
        for note in (
            RunNote(1, "2026-01-31T12:00:00Z", True, cost_usd=0.25),
            RunNote(1, "2026-01-31T12:00:01.5Z", False, "It ran out of time."),
        ):
            store.note_run("alpha", note)
            assert store.last_run("alpha") == note
        text = (folder(store) / "last-run.json").read_text()
        assert set(json.loads(text)) == {"version", "at", "finished", "why", "cost_usd"}
        with pytest.raises(NotFound):
            store.note_run("beta", RunNote(1, "2026-01-31T12:00:00Z", True))
        for broken in ("{", text.replace("0.0", "1e999"), text.replace("false", "0"), text.replace("0.0", "-1")):
            (folder(store) / "last-run.json").write_text(broken)
            with pytest.raises(StoreError, match=r"last-run\.json"):
                store.last_run("alpha")
        (folder(store) / "last-run.json").unlink()
        (folder(store) / "last-run.json").symlink_to("nowhere")
        with pytest.raises(StoreError, match="not a regular file"):
            store.last_run("alpha")


def test_the_home_store_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JSRUN_HOME", "/somewhere")
    assert home() == Path("/somewhere")
    monkeypatch.setenv("JSRUN_HOME", "")
    monkeypatch.setenv("HOME", "/me")
    assert home() == Path("/me/.jsrun")


def test_a_version_is_checked_where_it_is_made() -> None:
    with pytest.raises(ValueError, match="version"):
        Version(0, HASH, at="2026-01-31T12:00:00Z")
    with pytest.raises(ValueError, match="hash"):
        Version(1, "x", at="2026-01-31T12:00:00Z")


def test_a_loaded_bundle_can_be_made_again(store: Store) -> None:
    """What a store gives is a bundle like any other."""
    store.mint(texts())
    loaded = store.load("alpha")
    assert Bundle.from_files(store.files("alpha")).hash == loaded.hash
