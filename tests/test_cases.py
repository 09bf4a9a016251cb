"""The shared cases: faults somebody met in a JavaScript sandbox, and what must happen here instead."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

import ptc
from jsrun import Bundle, BundleError, CallbackEnv, Fuel, Runner, RunResult
from ptc.wire import Json
from tests.jsrun.playing import skip_without_sync_doors

pytestmark = pytest.mark.asyncio(loop_scope="module")

CASES = [json.loads(line) for line in Path(__file__).with_name("cases.jsonl").read_text("utf-8").splitlines()]

# The times in the cases are for a quiet machine; a busy one may take so many times longer.
PATIENCE = 3

FIELDS = {
    "status", "status_in", "reason", "not_reason", "output", "output_if_finished", "output_contains", "output_lacks",
    "message_contains", "report", "tool_calls", "within_s", "repeat",
}  # fmt: skip


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def runtime(engine: str) -> AsyncIterator[ptc.Runtime]:
    async with ptc.Runtime(engine=engine, spares=1) as runtime:
        yield runtime


class Tools:
    """The tools of one case, and how often they were called."""

    def __init__(self, behaviours: dict[str, dict[str, Any]]) -> None:
        self.calls = 0
        self.functions: dict[str, Callable[[dict[str, Json]], object]] = {
            name: self._tool(behaviour) for name, behaviour in behaviours.items()
        }

    def _tool(self, behaviour: dict[str, Any]) -> Callable[[dict[str, Json]], object]:
        async def call(args: dict[str, Json]) -> Any:
            self.calls += 1
            await asyncio.sleep(behaviour.get("sleeps", 0))
            if behaviour.get("never"):
                await asyncio.Event().wait()
            if "fails" in behaviour:
                raise ValueError(behaviour["fails"])
            if behaviour.get("echo"):
                return args
            if "returns_json" in behaviour:
                return json.loads(behaviour["returns_json"])
            if "returns_repeat" in behaviour:
                text, count = behaviour["returns_repeat"]
                return text * count
            return behaviour["returns"]

        return call


# Cases that not every engine can be held to, see `tests.engines`.
NEEDS = {"unhandled": "all rejections"}


def _parameter(case: dict[str, Any]) -> Any:
    need = NEEDS.get(case["id"])
    return pytest.param(case, id=case["id"], marks=[] if need is None else [pytest.mark.needs(need)])


@pytest.mark.parametrize("case", [_parameter(case) for case in CASES])
async def test_case(case: dict[str, Any], runtime: ptc.Runtime) -> None:
    """PTC-071 every engine, and QuickJS in spawned processes, does what the case says."""
    expect = case["expect"]
    assert set(expect) <= FIELDS, "an expectation this test does not know"
    manifest: dict[str, Any] = {
        "name": "case",
        "purpose": case["title"],
        "whitelist": list(case["tools"]),
        "engine": runtime.engine,
    }
    try:
        bundle = Bundle(manifest, case["program"])
    except BundleError as error:
        skip_without_sync_doors(error)
        raise
    async with Runner(bundle, runtime=runtime) as runner:
        await runner.compile()
        for _ in range(expect.get("repeat", 1)):
            tools = Tools(case["tools"])
            env = CallbackEnv(tools=tools.functions, log=lambda _status: None)
            began = time.monotonic()
            result = await runner.run(case["input"], env, fuel=Fuel(**case["fuel"]))
            took = time.monotonic() - began
            _check(expect, result, tools.calls, took)


def _check(expect: dict[str, Any], result: RunResult, calls: int, took: float) -> None:
    ending = f"{result.status} ({result.reason}): {result.sentence}"
    if "status" in expect:
        assert result.status == expect["status"], ending
    if "status_in" in expect:
        assert result.status in expect["status_in"], ending
    if "reason" in expect:
        assert result.reason == expect["reason"], ending
    if "not_reason" in expect:
        assert result.reason != expect["not_reason"], ending
    if "output" in expect:
        assert result.output == expect["output"], ending
    if "output_if_finished" in expect and result.status == "finished":
        assert result.output == expect["output_if_finished"]
    shown = json.dumps(result.output, ensure_ascii=False)
    for text in expect.get("output_contains", ()):
        assert text in shown
    for text in expect.get("output_lacks", ()):
        assert text not in shown
    for text in expect.get("message_contains", ()):
        assert text in result.sentence, ending
    if "report" in expect:
        assert result.report == expect["report"]
    if "tool_calls" in expect:
        assert calls == expect["tool_calls"]
    if "within_s" in expect:
        assert took < expect["within_s"] * PATIENCE
