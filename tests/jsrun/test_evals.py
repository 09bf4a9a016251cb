"""Executable cases: read strictly, run without a model, failing for each thing that is not as expected."""

import json
from pathlib import Path
from typing import Any

import pytest

from jsrun import Bundle, EvalError, load_cases, run_case
from ptc.wire import Json
from tests.jsrun.playing import Play

session = pytest.mark.asyncio(loop_scope="session")

PROGRAM = """
async function run(input) {
  const said = await ai('p', input)
  await log('working')
  if (input.more) await remember('note: ' + said)
  return {said, n: 1}
}"""
GOOD: dict[str, Any] = {
    "name": "good",
    "input": {"x": 1},
    "doors": [{"door": "ai", "ref": "p", "input": {"x": 1}, "text": "hello"}, {"door": "log"}],
    "expect": {
        "status": "finished",
        "output": {"exact": {"said": "hello", "n": 1}},
        "report": "working",
        "calls": ["ai p", "log"],
    },
}


def with_case(case: object, engine: str = "quickjs") -> Bundle:
    text = case if isinstance(case, str) else json.dumps(case)
    manifest: dict[str, Json] = {"name": "x", "purpose": "Test.", "engine": engine}
    return Bundle(manifest, PROGRAM, prompts={"p": "Hello"}, evals={"good.json": text})


async def report(play: Play, **changes: Any) -> Any:
    bundle = with_case({**GOOD, **changes}, play.runtime.engine)
    (case,) = load_cases(bundle)
    return await run_case(bundle, case, runtime=play.runtime)


@session
async def test_a_case_passes(play: Play) -> None:
    """JSR-126"""
    passed = await report(play)
    assert (passed.passed, passed.problems) == (True, ())
    assert passed.result.output == {"said": "hello", "n": 1}


@session
@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"doors": [{"door": "log"}]}, "no item left for this call"),
        ({"doors": [*GOOD["doors"], {"door": "recall"}]}, "never called"),
        ({"doors": [{"door": "ai", "input": {"x": 2}, "text": "hello"}]}, "no item left"),
        ({"expect": {"status": "incomplete"}}, 'status should be "incomplete"'),
        ({"expect": {"reason": "guard"}}, 'reason should be "guard"'),
        ({"expect": {"report": "done"}}, 'report should be "done"'),
        ({"expect": {"calls": 3}}, "should be 3 door calls, there were 2"),
        ({"expect": {"calls": ["log", "ai p"]}}, 'calls should be ["log","ai p"]'),
        ({"expect": {"output": {"exact": {"said": "hello"}}}}, "The output should be"),
        ({"expect": {"output": {"subset": {"said": "bye"}}}}, "The output should contain"),
        ({"expect": {"output": {"schema": {"required": ["gone"]}}}}, "`gone`"),
        ({"input": float("1e400")}, "input"),
    ],
)
async def test_a_case_fails_for_each_thing_that_is_not_as_expected(play: Play, changes: Any, says: str) -> None:
    """JSR-126"""
    if changes.get("input") == float("inf"):
        with pytest.raises(EvalError):
            await report(play, **changes)
        return
    failed = await report(play, **changes)
    assert not failed.passed
    assert any(says in problem for problem in failed.problems), failed.problems


@session
async def test_weaker_expectations(play: Play) -> None:
    """JSR-126 `subset` allows more keys, `schema` any value that fits, `times` any number of calls."""
    for output in ({"subset": {"n": 1.0}}, {"schema": {"required": ["said"]}}):
        assert (await report(play, expect={"output": output})).passed
    doors = [{"door": "ai", "output": [1]}, {"door": "log", "times": "any"}]
    assert (await report(play, doors=doors, expect={"output": {"exact": {"said": [1], "n": 1}}})).passed


@session
async def test_memory_and_fuel_of_a_case(play: Play) -> None:
    """Section 20: `memory` serves both doors instead of the script; `fuel` is written as in a manifest."""
    case = {"input": {"x": 1, "more": True}, "memory": "## 2026-01-01T00:00:00Z\n\nold\n", "expect": {"calls": 3}}
    assert (await report(play, **case)).passed
    short = await report(play, **{**case, "fuel": {"steps": 2, "wall": "30s"}, "expect": {"reason": "steps"}})
    assert short.passed, short.problems


@pytest.mark.parametrize(
    ("case", "says"),
    [
        ("{", "evals/good.json:1:"),
        ('{"name": "a", "name": "b", "expect": {}}', "already at 1:2"),
        ([1], "must be an object"),
        ({**GOOD, "imput": 1}, 'Did you mean "input"?'),
        ({"name": "x"}, '"expect"'),
        ({**GOOD, "cassette": "x"}, "exclude each other"),
        ({**GOOD, "doors": [{"door": "fetch"}]}, '"door" must be one of'),
        ({**GOOD, "doors": {}}, '"doors" must be a list'),
        ({**GOOD, "expect": {"status": "done"}}, "must be one of finished"),
        ({**GOOD, "expect": {"output": {}}}, "exactly one of"),
        ({**GOOD, "expect": {"output": {"exact": 1, "subset": 2}}}, "exactly one of"),
        ({**GOOD, "expect": {"calls": -1}}, '"expect.calls"'),
        ({**GOOD, "fuel": {"wall": "soon"}}, '"fuel.wall"'),
        ({**GOOD, "fuel": {"steps": 0}}, '"fuel.steps"'),
        ({**GOOD, "look": {"files": "a"}}, '"look.files"'),
    ],
)
def test_a_case_that_cannot_be_read(case: object, says: str) -> None:
    """Section 20: strict JSON, unknown keys refused, the file named."""
    with pytest.raises(EvalError) as caught:
        load_cases(with_case(case))
    assert says in str(caught.value)
    assert "evals/good.json" in str(caught.value)


BUNDLES = sorted(path.parent for path in (Path(__file__).parents[2] / "bundles").glob("*/manifest.json"))


@session
@pytest.mark.parametrize("path", BUNDLES, ids=[path.name for path in BUNDLES])
async def test_the_bundles_that_come_along_pass(play: Play, path: Path) -> None:
    """JSR-126 for the bundles of the repository, which load without a warning."""
    bundle = Bundle.load(path, strict=True)
    cases = load_cases(bundle)
    assert cases
    for case in cases:
        done = await run_case(
            bundle, case, runtime=play.runtime if play.runtime.engine == bundle.manifest.engine else None
        )
        assert done.passed, (case.name, done.problems)
