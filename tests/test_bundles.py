"""The bundles in `bundles/`: strictly checked, their evals pass, and `todos` works on real files."""

import asyncio
from pathlib import Path

import pytest

from jsrun import Belt, Bundle, LocalEnv, Runner, WorkspaceLook, load_cases, run_case
from jsrun.cli.check import check_bundle
from jsrun.memory import FileMemory

BUNDLES = sorted(path for path in (Path(__file__).parents[1] / "bundles").iterdir() if path.is_dir())
CASES = [
    pytest.param(path, case, id=f"{path.name}-{case.name}")
    for path in BUNDLES
    for case in load_cases(Bundle.load(path))
]


def test_there_are_three() -> None:
    assert [path.name for path in BUNDLES] == ["digest", "todos", "triage"]


@pytest.mark.parametrize("path", BUNDLES, ids=lambda path: path.name)
async def test_a_bundle_checks_without_a_warning(path: Path) -> None:
    bundle, diagnostics = await check_bundle(path)
    assert bundle is not None
    assert [str(diagnostic) for diagnostic in diagnostics] == []
    assert (path / "README.md").is_file()


@pytest.mark.parametrize(("path", "case"), CASES)
async def test_an_eval_passes(path: Path, case: object) -> None:
    """JSR-126 a case passes without a model."""
    report = await run_case(Bundle.load(path), case)  # type: ignore[arg-type]
    assert report.passed, report.problems


async def test_todos_reports_real_files_and_what_changed(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# A project\n\nTODO is only a word here.\n")
    (tmp_path / "src").mkdir()
    source = tmp_path / "src" / "a.py"
    source.write_text("x = 1  # TODO(ann): name it\n# FIXME: this goes on\n# over two lines\nprint('# TODO no')\n")
    (tmp_path / "src" / "b.c").write_text("/* XXX careful */\nint main;\n")
    bundle = Bundle.load(next(path for path in BUNDLES if path.name == "todos"))
    belt = Belt.workspace(tmp_path)
    env = LocalEnv(belt=belt, memory=FileMemory(tmp_path / "notes.md"), log=None)
    look = WorkspaceLook(tmp_path, belt)
    async with Runner(bundle) as runner:
        first = await runner.run({}, env, look=look)
        source.write_text("x = 1\n")
        second = await runner.run({}, env, look=look)
    assert first.output == {
        "path": ".",
        "total": 3,
        "counts": {"TODO": 1, "FIXME": 1, "XXX": 1},
        "files": [
            {
                "path": "src/a.py",
                "count": 2,
                "items": [
                    {"line": 1, "kind": "TODO", "owner": "ann", "text": "name it"},
                    {"line": 2, "kind": "FIXME", "text": "this goes on over two lines"},
                ],
            },
            {"path": "src/b.c", "count": 1, "items": [{"line": 1, "kind": "XXX", "text": "careful"}]},
        ],
        "change": "first run here",
        "truncated": False,
    }
    assert isinstance(second.output, dict)
    assert (second.output["total"], second.output["change"]) == (1, "2 fewer than last time (3)")


async def test_todos_reads_on_where_one_read_ends(tmp_path: Path) -> None:
    """A read gives 256 KiB at most; a file may be longer, and may have any name."""
    (tmp_path / "README.md").write_text("# A project\n")
    filler = "x = 1\n" * 60_000
    (tmp_path / "__proto__").write_text(f"# TODO first\n{filler}# TODO second\n# goes on\n")
    bundle = Bundle.load(next(path for path in BUNDLES if path.name == "todos"))
    belt = Belt.workspace(tmp_path)
    env = LocalEnv(belt=belt, memory=FileMemory(tmp_path / "notes.md"), log=None)
    async with Runner(bundle) as runner:
        result = await runner.run({}, env, look=WorkspaceLook(tmp_path, belt))
    assert isinstance(result.output, dict), result.sentence
    assert result.output["files"] == [
        {
            "path": "__proto__",
            "count": 2,
            "items": [
                {"line": 1, "kind": "TODO", "text": "first"},
                {"line": 60_002, "kind": "TODO", "text": "second goes on"},
            ],
        }
    ]


def test_a_runner_works_without_an_event_loop(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# x\n")
    bundle = Bundle.load(next(path for path in BUNDLES if path.name == "todos"))
    belt = Belt.workspace(tmp_path)
    env = LocalEnv(belt=belt, memory=FileMemory(tmp_path / "notes.md"), log=None)
    runner = Runner(bundle)
    try:
        result = runner.run_sync({}, env, look=WorkspaceLook(tmp_path, belt))
    finally:
        runner.close()
    assert result.finished()
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()
