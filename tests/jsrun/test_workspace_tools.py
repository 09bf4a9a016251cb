"""`read`, `list` and `search`: what they give, where they stop, and that nothing leads out of the workspace."""

import asyncio
import os
import re
import socket
import threading
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jsrun import workspace_tools
from jsrun._text import quoted
from jsrun.belt import Belt
from jsrun.errors import BeltError, DoorFailure
from jsrun.workspace import Workspace
from jsrun.workspace_tools import READ_BYTES, Glob
from ptc.wire import Json

SECRET = "the secret of another folder"


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder beside the workspace, with a file that must stay unread."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.txt").write_text(SECRET)
    return folder


@pytest.fixture
def root(tmp_path: Path, outside: Path) -> Path:
    """A workspace of a few files."""
    folder = tmp_path / "work"
    (folder / "docs" / "deep").mkdir(parents=True)
    (folder / "a.txt").write_text("one\ntwo\nthree\n")
    (folder / "docs" / "b.md").write_text("# Title\n\ntwo words")
    (folder / "docs" / "deep" / "c.py").write_text("print('two')\n")
    return folder


async def call(root: Path, name: str, **args: Json) -> dict[str, Json]:
    result = await Belt.workspace(root).call(name, args)
    assert isinstance(result.json, dict)
    return result.json


async def refused(root: Path, name: str, **args: Json) -> str:
    """The message of a refusal, which must not tell where the workspace is."""
    with pytest.raises(DoorFailure) as caught:
        await call(root, name, **args)
    message = str(caught.value)
    assert str(root.parent) not in message.replace(quoted(str(args.get("path"))), "")
    assert SECRET not in message
    return message


def paths(answer: dict[str, Json]) -> list[str]:
    found = cast(list[dict[str, Json]], answer.get("entries", answer.get("matches")))
    return [str(item["path"]) for item in found]


def found(answer: dict[str, Json]) -> list[tuple[Json, ...]]:
    return [tuple(item.values()) for item in cast(list[dict[str, Json]], answer["matches"])]


def test_the_tools_only_read(root: Path) -> None:
    assert [(spec.name, spec.read_only) for spec in Belt.workspace(root).specs()] == [
        ("read", True),
        ("list", True),
        ("search", True),
    ]


@pytest.mark.parametrize("name", ["missing", "a.txt", "a\0b"])
def test_a_root_that_is_no_folder_is_refused(root: Path, name: str) -> None:
    with pytest.raises(BeltError, match="must be a folder"):
        Belt.workspace(root / name)


# read


async def test_read_gives_the_lines_asked_for(root: Path) -> None:
    whole = {"path": "a.txt", "text": "one\ntwo\nthree\n", "start": 1, "lines": 3, "total_lines": 3, "truncated": False}
    assert await call(root, "read", path="a.txt") == whole
    assert await call(root, "read", path="docs/../a.txt") == whole
    assert await call(root, "read", path=str(root / "a.txt")) == whole
    part = await call(root, "read", path="a.txt", start=2, lines=1)
    assert part == {"path": "a.txt", "text": "two\n", "start": 2, "lines": 1, "total_lines": 3, "truncated": True}
    last = await call(root, "read", path="docs/b.md", start=3)
    assert (last["text"], last["lines"], last["total_lines"], last["truncated"]) == ("two words", 1, 3, False)
    past = await call(root, "read", path="a.txt", start=9)
    assert (past["text"], past["lines"], past["total_lines"], past["truncated"]) == ("", 0, 3, False)


@pytest.mark.parametrize("args", [{}, {"path": "a.txt", "start": 0}, {"path": "a.txt", "lines": 0}, {"path": 1}])
async def test_read_refuses_arguments_that_do_not_fit(root: Path, args: dict[str, Json]) -> None:
    assert re.match(r"The args misses `path`|args\.(path|start|lines): ", await refused(root, "read", **args))


async def test_read_gives_2000_lines_unless_asked_for_more(root: Path) -> None:
    """JSR-120 (caps): the rest is marked."""
    (root / "long").write_text("x\n" * 3_000)
    answer = await call(root, "read", path="long")
    assert (answer["lines"], answer["total_lines"], answer["truncated"]) == (2_000, 3_000, True)
    answer = await call(root, "read", path="long", lines=5_000)
    assert (answer["lines"], answer["truncated"]) == (3_000, False)


async def test_read_gives_whole_lines_within_256_kib(root: Path) -> None:
    """JSR-120 (caps): a line that does not fit is left out, the first of them is cut between characters."""
    line = "é" * 499 + "\n"
    (root / "wide").write_text(line * 1_000)
    answer = await call(root, "read", path="wide", start=3)
    count = READ_BYTES // len(line.encode())
    assert (answer["text"], answer["lines"]) == (line * count, count)
    assert (answer["total_lines"], answer["truncated"]) == (1_000, True)
    (root / "huge").write_text("é" * READ_BYTES * 3 + "\nnext\n")
    answer = await call(root, "read", path="huge")
    assert (answer["text"], answer["lines"], answer["total_lines"], answer["truncated"]) == (
        "é" * (READ_BYTES // 2), 1, 2, True,
    )  # fmt: skip
    (root / "odd").write_text("a" + "é" * READ_BYTES)
    answer = await call(root, "read", path="odd")
    assert (answer["text"], answer["truncated"]) == ("a" + "é" * (READ_BYTES // 2 - 1), True)
    exact = "x" * (READ_BYTES - 1) + "\n"
    (root / "exact").write_text(exact)
    answer = await call(root, "read", path="exact")
    assert (answer["text"] == exact, answer["truncated"]) == (True, False)


@given(st.text(alphabet="a\né\r", max_size=40), st.integers(1, 6), st.integers(1, 6), st.integers(1, 7))
def test_pages_of_a_text_are_its_lines(text: str, start: int, lines: int, piece: int) -> None:
    """However the text is cut into pieces on its way, the page is what slicing the lines gives."""
    page = workspace_tools._Page(start, lines)
    for at in range(0, len(text), piece):
        page.add(text[at : at + piece])
    whole = re.findall(r"[^\n]*\n|[^\n]+", text)
    expected = whole[start - 1 : start - 1 + lines]
    assert page.text() == ("".join(expected), len(expected))
    assert page.total == len(whole)


async def test_read_refuses_what_is_not_a_text_file(root: Path) -> None:
    """JSR-120 (FIFOs and binaries): refused without waiting for a writer."""
    os.mkfifo(root / "fifo")
    (root / "latin").write_bytes("é".encode("latin-1"))
    (root / "cut").write_bytes("é".encode()[:1])
    (root / "zero").write_bytes(b"a\0b")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(root / "socket"))
        for name, message in (
            ("fifo", "not a regular file"),
            ("socket", "not a regular file"),
            ("latin", "not a text file in UTF-8"),
            ("cut", "not a text file in UTF-8"),
            ("zero", "not a text file"),
            ("docs", "is a directory"),
            (".", "is a directory"),
            ("", "is a directory"),
            ("nothing", "is not there"),
            ("a.txt/b", "not a directory"),
        ):
            assert message in await refused(root, "read", path=name), name


async def test_a_file_too_large_to_count_is_refused(root: Path) -> None:
    with (root / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    assert "files over 67,108,864 are not read" in await refused(root, "read", path="sparse")


# Confinement


def arguments(name: str, path: str) -> dict[str, Json]:
    """What the tool needs to look at a path."""
    return {"path": path, "text": "secret"} if name == "search" else {"path": path}


@pytest.mark.parametrize("name", ["read", "list", "search"])
async def test_paths_that_lead_out_are_refused(root: Path, outside: Path, name: str) -> None:
    """JSR-120 (`..`, outside paths, links out)."""
    (root / "out").symlink_to(outside)
    (root / "out.txt").symlink_to("../outside/secret.txt")
    (root / "docs" / "up").symlink_to("..")
    (root / "loop").symlink_to("loop")
    for path in (
        "..", "../outside/secret.txt", "docs/../../outside", str(outside / "secret.txt"), "/etc/passwd", "/", "out",
        "out/secret.txt", "out.txt", "docs/up/../../outside", "docs/up/out/secret.txt", "../work-of-another", "~/../..",
        "../outside/nothing",
    ):  # fmt: skip
        args = arguments(name, path)
        message = await refused(root, name, **args)
        assert message == f"{quoted(path)} leads outside the workspace."
    assert re.search("leads nowhere|not a directory", await refused(root, name, **arguments(name, "loop")))
    for impossible in ("a\0b", "\ud800"):
        assert "not a possible path" in await refused(root, name, **arguments(name, impossible))


async def test_links_inside_work(root: Path) -> None:
    """JSR-120 (links inside work), however they are written."""
    (root / "rel").symlink_to("docs/b.md")
    (root / "abs").symlink_to(root / "docs")
    (root / "docs" / "back").symlink_to("../../work/a.txt")
    (root / "chain").symlink_to("abs")
    assert (await call(root, "read", path="rel"))["path"] == "docs/b.md"
    assert (await call(root, "read", path="abs/b.md"))["path"] == "docs/b.md"
    assert (await call(root, "read", path="chain/deep/c.py"))["path"] == "docs/deep/c.py"
    assert (await call(root, "read", path="docs/back"))["path"] == "a.txt"
    assert paths(await call(root, "list", path="chain")) == ["docs/b.md", "docs/back", "docs/deep"]
    assert paths(await call(root, "search", text="two", path="abs")) == ["docs/b.md", "docs/deep/c.py"]
    assert paths(await call(root, "search", text="two", path="docs/back")) == ["a.txt"]


async def test_a_root_reached_through_a_link_works(root: Path) -> None:
    link = root.parent / "link"
    link.symlink_to(root)
    (root / "abs").symlink_to(link / "a.txt")
    assert (await call(link, "read", path="abs"))["lines"] == 3


async def test_the_whole_file_system_may_be_the_root() -> None:
    assert "usr" in paths(await call(Path("/"), "list"))
    assert (await call(Path("/"), "read", path="/proc/self/../../etc/passwd"))["path"] == "etc/passwd"


@pytest.mark.parametrize("swapped", ["docs/deep/secret.txt", "docs/deep", "docs"])
@pytest.mark.parametrize("name", ["read", "list", "search"])
async def test_a_link_put_in_after_the_check_is_not_followed(
    root: Path, outside: Path, name: str, swapped: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """JSR-120 (also one swapped meanwhile): at the worst moment, between resolving and opening."""
    (root / "docs" / "deep" / "secret.txt").write_text("harmless secret\n")
    (outside / "deep").mkdir()
    (outside / "deep" / "secret.txt").write_text(SECRET)
    target = {"docs/deep/secret.txt": outside / "secret.txt", "docs/deep": outside / "deep", "docs": outside}[swapped]
    resolve = Workspace.resolve

    def resolve_then_swap(workspace: Workspace, path: str) -> tuple[str, ...]:
        parts = resolve(workspace, path)
        (root / swapped).rename(root / "kept")
        (root / swapped).symlink_to(target)
        return parts

    monkeypatch.setattr(Workspace, "resolve", resolve_then_swap)
    path = "docs/deep/secret.txt" if name == "read" else "docs/deep"
    try:
        answer = await call(root, name, **arguments(name, path))
    except DoorFailure as error:
        assert re.search("not a directory|leads nowhere", str(error))
    else:  # only what is met on the way, and passed over
        assert (name, swapped) in (("list", "docs/deep/secret.txt"), ("search", "docs/deep/secret.txt"))
        assert SECRET not in str(answer)


@pytest.mark.parametrize("kind", ["file", "folder"])
async def test_a_link_swapped_meanwhile_does_not_lead_out(root: Path, outside: Path, kind: str) -> None:
    """JSR-120 (also one swapped meanwhile): whatever is read is never the file outside."""
    inside = root / "docs" / "deep"
    (inside / "secret.txt").write_text("harmless secret\n")
    swapped = inside if kind == "folder" else inside / "secret.txt"
    target = outside if kind == "folder" else outside / "secret.txt"
    kept, link = root / "kept", root / "link"
    link.symlink_to(target)
    ended = threading.Event()

    def swap() -> None:
        while not ended.is_set():
            swapped.rename(kept)
            link.rename(swapped)
            swapped.rename(link)
            kept.rename(swapped)

    swapper = threading.Thread(target=swap)
    swapper.start()
    belt = Belt.workspace(root)
    answers, refusals = 0, 0
    try:
        for _ in range(60):
            for name, path in (("read", "docs/deep/secret.txt"), ("search", "docs"), ("list", "docs/deep")):
                try:
                    answer = str((await belt.call(name, arguments(name, path))).json)
                    answers += 1
                except DoorFailure as error:
                    answer = str(error)
                    refusals += 1
                assert SECRET not in answer
    finally:
        ended.set()
        swapper.join()
    assert answers > 0


# list


async def test_list_is_ordered_by_path_with_kinds_and_sizes(root: Path) -> None:
    (root / "a").mkdir()
    (root / "a" / "z").write_text("12345")
    (root / "a-b").write_text("")
    (root / "link").symlink_to("a.txt")
    os.mkfifo(root / "pipe")
    answer = await call(root, "list")
    assert [tuple(entry.values()) for entry in cast(list[dict[str, Json]], answer["entries"])] == [
        ("a", "directory", 0),
        ("a-b", "file", 0),
        ("a.txt", "file", 14),
        ("docs", "directory", 0),
        ("link", "link", 0),
        ("pipe", "other", 0),
    ]
    assert answer["truncated"] is False
    deep = paths(await call(root, "list", depth=2))
    assert deep == ["a", "a-b", "a.txt", "a/z", "docs", "docs/b.md", "docs/deep", "link", "pipe"]
    assert deep == sorted(deep)
    assert "docs/deep/c.py" in paths(await call(root, "list", depth=3))
    assert paths(await call(root, "list", path="docs", depth=1)) == ["docs/b.md", "docs/deep"]
    assert "not a directory" in await refused(root, "list", path="a.txt")
    assert "not there" in await refused(root, "list", path="nothing")
    assert "args.depth" in await refused(root, "list", depth=0)


async def test_list_gives_1000_entries_at_most(root: Path) -> None:
    """JSR-120 (caps): the first by path, marked."""
    many = root / "many"
    many.mkdir()
    for number in range(1_001):
        (many / f"{number:04}").touch()
    answer = await call(root, "list", path="many")
    assert paths(answer) == [f"many/{number:04}" for number in range(1_000)]
    assert answer["truncated"] is True
    (many / "0000").unlink()
    answer = await call(root, "list", path="many")
    assert (len(paths(answer)), answer["truncated"]) == (1_000, False)


async def test_folders_of_tools_are_kept_from_programs(root: Path) -> None:
    """JSR-120: `.git` and `.jsrun`, at any depth, named or met; other dot names are ordinary."""
    for folder in (".git", ".jsrun", "docs/.git", ".github"):
        (root / folder).mkdir()
        (root / folder / "config").write_text("two")
    assert paths(await call(root, "list", depth=2)) == [
        ".github", ".github/config", "a.txt", "docs", "docs/b.md", "docs/deep",
    ]  # fmt: skip
    assert paths(await call(root, "search", text="two")) == [".github/config", "a.txt", "docs/b.md", "docs/deep/c.py"]
    (root / "link").symlink_to(".git")
    for path in (".git", ".jsrun", "docs/.git", "docs/../.git", ".git/config", "link"):
        assert "kept from programs" in await refused(root, "list", path=path)
        assert "kept from programs" in await refused(root, "search", text="two", path=path)
        assert "kept from programs" in await refused(root, "read", path=path)


async def test_names_that_are_no_utf8_can_be_listed_and_read(root: Path) -> None:
    (root / "\udcff").write_text("odd")
    (name,) = [path for path in paths(await call(root, "list")) if path not in ("a.txt", "docs")]
    assert (await call(root, "read", path=name))["text"] == "odd"


# search


async def test_search_gives_lines_by_path_and_number(root: Path) -> None:
    assert found(await call(root, "search", text="two")) == [
        ("a.txt", 2, "two"),
        ("docs/b.md", 3, "two words"),
        ("docs/deep/c.py", 1, "print('two')"),
    ]
    (root / "a.txt").write_text("x two two\r\n\ntwo\n\u2028two\x0btwo")
    assert found(await call(root, "search", text="two", path="a.txt")) == [
        ("a.txt", 1, "x two two"),
        ("a.txt", 3, "two"),
        ("a.txt", 4, "\u2028two\x0btwo"),
    ]


async def test_search_takes_its_text_literally(root: Path) -> None:
    (root / "r").write_text("a.c (x)* [é]\nabc\nTWO\n")
    for text, lines in (("a.c", [1]), ("(x)*", [1]), ("[é]", [1]), ("two", []), ("\ud800", []), ("\x00", [])):
        assert [item[1] for item in found(await call(root, "search", text=text, path="r"))] == lines
    assert "must not hold a line end" in await refused(root, "search", text="a\nb")
    assert "needs a text" in await refused(root, "search", text="")


async def test_search_looks_only_where_it_is_asked_to(root: Path) -> None:
    assert paths(await call(root, "search", text="two", glob="*.txt")) == ["a.txt"]
    assert paths(await call(root, "search", text="two", glob="**/*.[mp][dy]")) == ["docs/b.md", "docs/deep/c.py"]
    assert paths(await call(root, "search", text="two", glob="docs/**")) == ["docs/b.md", "docs/deep/c.py"]
    assert paths(await call(root, "search", text="two", path="docs", glob="*.md")) == ["docs/b.md"]
    assert paths(await call(root, "search", text="two", path="docs", glob="docs/*.md")) == []
    assert paths(await call(root, "search", text="two", path="docs/b.md", glob="*.py")) == ["docs/b.md"]


async def test_search_passes_over_binaries_and_large_files(root: Path) -> None:
    (root / "latin").write_bytes("two é".encode("latin-1"))
    (root / "zero").write_bytes(b"two\0")
    (root / "large").write_bytes(b"two\n" * (1 << 18) + b"\n")
    os.mkfifo(root / "fifo")
    (root / "link").symlink_to("a.txt")
    answer = await call(root, "search", text="two")
    assert paths(answer) == ["a.txt", "docs/b.md", "docs/deep/c.py"]
    assert answer["truncated"] is False
    for name, message in (
        ("latin", "UTF-8"),
        ("zero", "UTF-8"),
        ("large", "over 1,048,576"),
        ("fifo", "not a regular"),
    ):
        assert message in await refused(root, "search", text="two", path=name)
    (root / "large").write_bytes((b"two" + b"\n" * 1024 * 1024)[: 1024 * 1024])
    assert "large" in paths(await call(root, "search", text="two"))


async def test_search_stops_at_its_limits(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """JSR-120 (caps): matches, files, bytes and the size of the answer; each is marked."""
    (root / "many").write_text("two\n" * 300)
    answer = await call(root, "search", text="two", path="many")
    assert (len(paths(answer)), answer["truncated"]) == (200, True)
    answer = await call(root, "search", text="two", path="many", limit=300)
    assert (len(paths(answer)), answer["truncated"]) == (300, False)
    (root / "many").unlink()
    bounds: list[tuple[str, int, int]] = [
        ("SEARCH_FILES", 2, 2),
        ("SEARCH_BYTES", 14 + 18, 2),  # a.txt and docs/b.md
        ("SEARCH_ANSWER_CHARS", 12, 2),
        ("MAX_NAMES", 3, 2),
    ]
    for name, value, count in bounds:
        with monkeypatch.context() as patch:
            patch.setattr(workspace_tools, name, value)
            answer = await call(root, "search", text="two")
            assert (len(paths(answer)), answer["truncated"]) == (count, True), name
    assert (await call(root, "search", text="two"))["truncated"] is False


async def test_of_a_long_line_the_part_around_the_text_is_shown(root: Path) -> None:
    (root / "min.js").write_text("a" * 5_000 + "two" + "b" * 5_000)
    ((_, _, line),) = found(await call(root, "search", text="two", path="min.js"))
    assert line == "…" + "a" * 100 + "two" + "b" * 397 + "…"


async def test_the_event_loop_goes_on_during_a_search(root: Path) -> None:
    for number in range(12):
        (root / f"{number}.txt").write_text("x\n" * 500_000)
    searching = asyncio.ensure_future(call(root, "search", text="nothing"))
    turns = 0
    while not searching.done():
        await asyncio.sleep(0)
        turns += 1
    assert found(await searching) == []
    assert turns > 10


@pytest.mark.parametrize(
    ("pattern", "fitting", "others"),
    [
        ("**/*", ["a", "a/b/c"], []),
        ("*", ["a", ".a"], ["a/b"]),
        ("*.py", ["a.py"], ["a.pyc", "d/a.py"]),
        ("**/*.py", ["a.py", "d/e/a.py"], ["a.txt"]),
        ("a/**/z", ["a/z", "a/b/c/z"], ["a", "z", "b/a/z"]),
        ("**", ["a", "a/b"], []),
        ("a/**", ["a", "a/b", "a/b/c"], ["b"]),
        ("?.[ch]", ["x.c", "y.h"], ["xy.c", "x.d"]),
        ("./a//b", ["a/b"], ["a"]),
        ("[", ["["], ["a"]),
        ("", [], ["a"]),
        ("**/**/b/**/**", ["b", "a/b", "a/b/c"], ["a", "a/c"]),
    ],
)
def test_patterns(pattern: str, fitting: list[str], others: list[str]) -> None:
    glob = Glob(pattern)
    assert [path for path in fitting + others if glob.matches(tuple(path.split("/")))] == fitting


def test_hostile_patterns_take_no_time() -> None:
    for pattern in ("*a" * 499 + "b", "**/" * 300 + "b", "**/a/" * 15 + "b", "[" * 1_000, "*[!a]" * 200, "?*" * 500):
        glob = Glob(pattern)
        for _ in range(100):
            assert not glob.matches(("a" * 255,))
            assert not glob.matches(("a",) * 100)
    with pytest.raises(DoorFailure, match="over 32 names"):
        Glob("a/" * 33)
