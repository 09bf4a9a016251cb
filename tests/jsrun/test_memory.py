"""Notes in a file: what is written comes back, whoever writes at the same time or is killed."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jsrun import memory as memory_module
from jsrun.env import Note
from jsrun.errors import DoorFailure
from jsrun.files import locked
from jsrun.memory import MEMORY_BYTES, FileMemory, Memory, parse_notes, render_note

RFC_3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


async def texts(memory: Memory, query: str = "") -> list[str]:
    return [note.text for note in await memory.recall(query)]


async def test_notes_come_back_newest_first_with_their_time(tmp_path: Path) -> None:
    memory: Memory = FileMemory(tmp_path / "memory.md")
    await memory.remember("  first\n")
    await memory.remember("second line\n\nand more")
    notes = await memory.recall()
    assert [note.text for note in notes] == ["second line\n\nand more", "first"]
    assert all(RFC_3339.fullmatch(note.at) for note in notes)
    text = (tmp_path / "memory.md").read_text()
    assert text == f"\n## {notes[1].at}\n\nfirst\n\n## {notes[0].at}\n\nsecond line\n\nand more\n"


async def test_recall_looks_for_a_substring_whatever_its_case(tmp_path: Path) -> None:
    memory = FileMemory(tmp_path / "memory.md")
    for note in ("Use UTC", "straße", "a.b", "axb"):
        await memory.remember(note)
    assert await texts(memory, "utc") == ["Use UTC"]
    assert await texts(memory, " STRASSE ") == ["straße"]
    assert await texts(memory, "a.b") == ["a.b"]
    assert await texts(memory, "nothing") == []
    assert len(await memory.recall("  ")) == 4


async def test_a_blank_note_is_ignored_and_reading_creates_nothing(tmp_path: Path) -> None:
    """JSR-123 (reading creates nothing), for a folder that is not there either."""
    memory = FileMemory(tmp_path / "deep" / "er" / "memory.md")
    assert await memory.recall() == ()
    await memory.remember(" \n\t")
    assert not (tmp_path / "deep").exists()
    await memory.remember("x")
    assert await texts(memory) == ["x"]


@pytest.mark.parametrize(
    "note",
    [
        "## 2026-01-31T12:00:00Z",
        "a\n## 2026-01-31T12:00:00Z\n\nb",
        "a\n## 2026-01-31T12:00:00.123+02:00  \nb",
        "a\n\\## 2026-01-31T12:00:00Z\n\\\\## 2026-01-31T12:00:00Z\nb",
        "## a heading of another kind\n# 2026-01-31T12:00:00Z",
        "a\r\n## 2026-01-31T12:00:00Z\r\nb",
    ],
)
async def test_a_note_with_a_heading_line_comes_back_as_one_note(tmp_path: Path, note: str) -> None:
    """JSR-123 (headings): escaped in the file, read back without the escape."""
    memory = FileMemory(tmp_path / "memory.md")
    await memory.remember("before")
    await memory.remember(note)
    await memory.remember("after")
    assert await texts(memory) == ["after", note, "before"]


async def test_a_seed_is_copied_once(tmp_path: Path) -> None:
    """JSR-123 (seed): recall answers from it before it is copied, the first note copies it, later seeds are ignored."""
    path = tmp_path / "memory.md"
    seed = "\ufeffWritten by hand.\n\n## 2026-01-01T00:00:00Z\n\nFirst.\n"
    memory = FileMemory(path, seed)
    expected = (Note("First.", "2026-01-01T00:00:00Z"), Note("Written by hand.", ""))
    assert await memory.recall() == expected
    assert not path.exists()
    await memory.remember("new")
    assert (await memory.recall())[1:] == expected
    assert path.read_text().startswith(seed.removeprefix("\ufeff"))
    assert (await FileMemory(path, "Another seed").recall())[1:] == expected
    path.write_text("")  # somebody forgot everything on purpose
    assert await memory.recall() == ()


async def test_a_file_edited_by_hand_is_read(tmp_path: Path) -> None:
    path = tmp_path / "memory.md"
    path.write_bytes(
        b"\xef\xbb\xbfIntro\r\n\r\n## 2026-01-01T00:00:00Z\r\n\r\nnote\r\n## not a time\r\n## 2026-01-02T00:00:00Z"
    )
    memory = FileMemory(path)
    assert await memory.recall() == (Note("note\r\n## not a time", "2026-01-01T00:00:00Z"), Note("Intro"))
    await memory.remember("more")  # the file does not end with a line end
    assert await texts(memory) == ["more", "note\r\n## not a time", "Intro"]


async def test_lone_surrogates_become_replacement_characters(tmp_path: Path) -> None:
    memory = FileMemory(tmp_path / "memory.md", seed="s\udfff")
    await memory.remember("a\ud800b\0\u2028😀")
    assert await texts(memory) == ["a\ufffdb\0\u2028😀", "s\ufffd"]
    assert await texts(memory, "\ud800b") == ["a\ufffdb\0\u2028😀"]


any_text = st.text(alphabet=st.characters(codec=None, exclude_categories=()), max_size=20)
heading = st.builds(
    lambda slashes, time, tail: "\\" * slashes + "## " + time + tail,
    st.integers(0, 3),
    st.sampled_from(["2026-01-31T12:00:00Z", "2026-01-31T12:00:00.5+01:00", "2026-01-31", "a heading"]),
    st.sampled_from(["", " ", "\r", "\t x"]),
)
note_text = st.lists(any_text | heading, max_size=5).map("\n".join)


@settings(max_examples=200)
@given(st.lists(note_text, max_size=5), note_text)
def test_whatever_is_noted_comes_back(notes: list[str], before: str) -> None:
    def kept(text: str) -> str:
        return re.sub("[\ud800-\udfff]", "\ufffd", text).strip()

    at = "2026-01-31T12:00:00.000Z"
    head = "" if "## 2026" in before else kept(before)
    text = head + "".join(render_note(kept(note), at) for note in notes if kept(note))
    expected = ([Note(head)] if head else []) + [Note(kept(note), at) for note in notes if kept(note)]
    assert parse_notes(text.encode().decode()) == expected


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(notes=st.lists(note_text, min_size=1, max_size=3))
async def test_whatever_is_remembered_is_recalled(tmp_path: Path, notes: list[str]) -> None:
    path = tmp_path / "memory.md"
    path.unlink(missing_ok=True)
    memory = FileMemory(path)
    for note in notes:
        await memory.remember(note)
    kept = [re.sub("[\ud800-\udfff]", "\ufffd", note).strip() for note in notes]
    assert await texts(memory) == [note for note in reversed(kept) if note]


async def test_a_full_memory_says_so_and_keeps_what_it_has(tmp_path: Path) -> None:
    path = tmp_path / "memory.md"
    path.write_bytes(b"x" * (MEMORY_BYTES - 100))
    memory = FileMemory(path)
    with pytest.raises(DoorFailure, match="memory is full"):
        await memory.remember("y" * 100)
    assert path.stat().st_size == MEMORY_BYTES - 100
    await memory.remember("y")
    path.write_bytes(b"x" * (MEMORY_BYTES + 1))
    for attempt in (memory.recall(), memory.remember("z")):
        with pytest.raises(DoorFailure, match="over its limit"):
            await attempt


async def test_a_file_that_cannot_be_used_is_named_without_its_folder(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("")
    (tmp_path / "bytes").write_bytes(b"\xff")
    for name, text in (("folder", "cannot be used"), ("file/memory.md", "cannot be used"), ("bytes", "not UTF-8")):
        memory = FileMemory(tmp_path / name)
        for attempt in (memory.recall(), memory.remember("x")):
            with pytest.raises(DoorFailure, match=text) as caught:
                await attempt
            assert str(tmp_path) not in str(caught.value)


async def test_a_lock_that_is_never_released_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_module, "LOCK_SECONDS", 0.1)
    memory = FileMemory(tmp_path / "memory.md")
    await memory.remember("before")
    with locked(tmp_path / ".memory.md.lock", 1), pytest.raises(DoorFailure, match="in use by another process"):
        await memory.remember("x")
    assert await texts(memory) == ["before"]


WRITER = """
import asyncio, sys
from jsrun.memory import FileMemory

async def main(path, name, count):
    memory = FileMemory(path, seed="The seed.")
    for number in range(int(count)):
        await memory.remember(f"{name} {number}\\n" + "x" * 20_000)
        print(number, flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


def writer(path: Path, name: str, count: int) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", WRITER, str(path), name, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


async def test_two_processes_remembering_at_once_lose_no_note(tmp_path: Path) -> None:
    """JSR-123: no note is lost, and the seed is there once."""
    path = tmp_path / "memory.md"
    children = [writer(path, name, 25) for name in "ab"]
    for child in children:
        child.communicate(timeout=60)
        assert child.returncode == 0
    notes = [note.text.split("\n")[0] for note in reversed(await FileMemory(path).recall())]
    assert notes[0] == "The seed."
    assert sorted(notes[1:]) == sorted(f"{name} {number}" for name in "ab" for number in range(25))
    for name in "ab":  # each process's own order is kept
        assert [note for note in notes if note.startswith(name)] == [f"{name} {number}" for number in range(25)]


async def test_a_killed_process_never_leaves_a_torn_file(tmp_path: Path) -> None:
    path = tmp_path / "memory.md"
    noted: list[str] = []
    for round_ in range(5):
        child = writer(path, f"round{round_}", 1_000)
        assert child.stdout is not None
        said = [child.stdout.readline() for _ in range(2 + round_)]
        child.kill()
        said += child.stdout.readlines()  # not communicate(): it would pass over what has been read ahead
        child.communicate()
        noted += [f"round{round_} {line.strip()}" for line in said if line.endswith("\n")]
        notes = list(reversed(await FileMemory(path).recall()))
        assert notes[0] == Note("The seed.")
        assert all(note.text.endswith("\n" + "x" * 20_000) for note in notes[1:])
        assert set(noted) <= {note.text.split("\n")[0] for note in notes}
