"""WorkspaceLook: what guards may see of a directory and a belt."""

from pathlib import Path

import pytest

from jsrun.look import WorkspaceLook


class Belt:
    def names(self) -> list[str]:
        return ["read", " search "]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("a")
    return tmp_path


@pytest.mark.parametrize(
    ("path", "there"),
    [("docs/a.md", True), ("docs", True), (" docs/a.md ", True), ("docs/b.md", False), ("", False), ("  ", False)],
)
def test_relative_paths_count_from_the_root(root: Path, path: str, there: bool) -> None:
    """JSR-072"""
    assert WorkspaceLook(root).file_exists(path) is there


def test_an_absolute_path_is_taken_as_given(root: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """JSR-072"""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    assert WorkspaceLook(elsewhere).file_exists(str(root / "docs" / "a.md"))


def test_without_a_root_nothing_is_there(root: Path) -> None:
    """JSR-074"""
    assert not WorkspaceLook().file_exists(str(root))


@pytest.mark.parametrize("path", ["a\0b", "\ud800", "x" * 5_000])
def test_a_path_no_system_accepts_is_not_there(root: Path, path: str) -> None:
    """JSR-074"""
    assert not WorkspaceLook(root).file_exists(path)


def test_a_broken_link_is_not_there(root: Path) -> None:
    """JSR-072"""
    (root / "link").symlink_to("nowhere")
    assert not WorkspaceLook(root).file_exists("link")


def test_tools_are_matched_after_trimming_and_by_case(root: Path) -> None:
    """JSR-049 JSR-072"""
    look = WorkspaceLook(root, Belt())
    assert look.tool_on_belt("read") and look.tool_on_belt(" read ") and look.tool_on_belt("search")
    assert not look.tool_on_belt("Read") and not look.tool_on_belt("")
    assert not WorkspaceLook(root).tool_on_belt("read")
