"""Every escape program, on the engines that can run it."""

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from typer.testing import CliRunner

from fuzz.engines import ENGINES
from fuzz.escape_files import CORPUS, Escape, read, read_all
from fuzz.escapes import Yard, app, attempt, yard

on_one_loop = pytest.mark.asyncio(loop_scope="session")

ESCAPES = read_all()

# The bounds in the headers are for a quiet machine.
PATIENCE = 6.0


# A spawned process costs a tenth of a second, and inside of it QuickJS is the same as forked. So of what ends by itself
# every third program must do there; with PTC_VARIANTS=all, and `python -m fuzz.escapes`, all are run.
_EVERY = 1 if os.environ.get("PTC_VARIANTS") == "all" else 3


def _cases() -> list[Any]:
    return [
        pytest.param(engine, escape, id=f"{engine}-{escape.name}")
        for engine in ENGINES
        for number, escape in enumerate(ESCAPES)
        if engine in escape.header.engines
        and (engine != "quickjs-spawned" or number % _EVERY == 0 or not escape.header.ending(engine).ends_by_itself)
    ]


class Yards:
    """One yard at a time: an engine's programs come one after the other."""

    def __init__(self) -> None:
        self._open: tuple[str, Any, Yard] | None = None

    async def get(self, engine: Any) -> Yard:
        if self._open is None or self._open[0] != engine:
            await self.close()
            manager = yard(engine)
            self._open = (engine, manager, await manager.__aenter__())
        return self._open[2]

    async def close(self) -> None:
        if self._open is not None:
            _, manager, _ = self._open
            self._open = None
            await manager.__aexit__(None, None, None)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def yards() -> AsyncIterator[Yards]:
    yards = Yards()
    yield yards
    await yards.close()


@on_one_loop
@pytest.mark.parametrize(("name", "escape"), _cases())
async def test_a_program_ends_as_its_header_says(yards: Yards, name: Any, escape: Escape) -> None:
    """PTC-067 PTC-071 PTC-073 PTC-075 PTC-102 PTC-103 PTC-104 every technique ends as told, and the host is healthy."""
    report = await attempt(await yards.get(name), escape, PATIENCE, hurried=True)
    assert report.problems == ()


def test_every_family_of_techniques_has_programs() -> None:
    """PTC-073 all families are there, and each program runs wherever it can."""
    assert {escape.header.family for escape in ESCAPES} == set(range(1, 36))
    assert len(ESCAPES) >= 100
    for escape in ESCAPES:
        assert escape.name.startswith(f"{escape.header.family:02}-")


@on_one_loop
async def test_what_is_not_as_told_is_found(yards: Yards, tmp_path: Path) -> None:
    """PTC-067 another value, a call too many and a bound that is passed are problems: the corpus can fail."""
    path = tmp_path / "01-wrong.js"
    path.write_text(
        '// title: A program that is not as it says\n// family: 1\n// engines: ["quickjs"]\n// form: "async"\n'
        '// expect: {"value": true, "calls": []}\n// within: 0.0001\n\nreturn await host.echo(1);\n'
    )
    report = await attempt(await yards.get("quickjs"), read(path))
    assert [problem.partition(" ")[0] for problem in report.problems] == ["calls:", "value:", "took"]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("// family: 1", "// family: 36", "family"),
        ("// form: ", "// shape: ", "form"),
        ('"value"', '"kind": "timeout", "value"', "exactly one"),
        ("// within: 2", "// within: two", "within is no JSON"),
        ("// within: 2", "// within: 2\n// within: 3", "each key once"),
        ('"async"', '"sync"', "v8 runs no sync programs"),
    ],
)
def test_a_bad_header_is_refused(tmp_path: Path, old: str, new: str, words: str) -> None:
    """PTC-073 a header that says nothing sure is one clear error that names the file."""
    text = (CORPUS / "01-arrow-constructor.js").read_text()
    assert old in text
    path = tmp_path / "bad.js"
    path.write_text(text.replace(old, new, 1))
    with pytest.raises(ValueError, match=words) as caught:
        read(path)
    assert str(caught.value).startswith("bad.js")


def test_the_command_line_runs_named_programs() -> None:
    """PTC-073 the table has a line for each run; an unknown name is a usage error."""
    good = CliRunner().invoke(app, ["--engine", "quickjs", "--patience", "9", "01-arrow-constructor"])
    assert good.exit_code == 0, good.output
    assert "1 runs, 0 not as expected" in good.output
    assert CliRunner().invoke(app, ["no-such-program"]).exit_code == 2
    assert CliRunner().invoke(app, ["--engine", "other"]).exit_code == 2
