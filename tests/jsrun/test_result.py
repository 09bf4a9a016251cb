"""RunResult: every key, always."""

import json
from dataclasses import fields, replace
from typing import get_args

import pytest

from jsrun.result import (
    FALL_BACK_REASONS,
    REASONS,
    Artifact,
    LogEntry,
    Reason,
    RunResult,
    Status,
    Truncation,
    Usage,
)
from jsrun.spend import Spend
from ptc.outcome import Isolation

FULL = RunResult(
    status="finished",
    output={"a": [1, None, "\ud800", 2**63]},
    report="done",
    artifacts=(Artifact("report", "out/report.md", "the report"),),
    fell_back="Not taking the quick way: because",
    spend=Spend("m", 2, 10, 5, 1, 1, 0.25),
    logs=(LogEntry("hello", "warn", 3), LogEntry("done", "status")),
    calls=4,
    run_id="01J",
    path="long",
    long_run_id="01K",
    usage=Usage(4, 1.5, 0.25, 4096),
    truncated=(Truncation("logs", 100, 20), Truncation("native", 10)),
    sandbox=Isolation("fork", ("AS", "CPU"), "filter"),
)

ENDINGS = [
    FULL,
    RunResult("finished", output=0),
    *(
        RunResult("fell_back", reason, fell_back="sentence")
        for reason in get_args(Reason)
        if reason in FALL_BACK_REASONS
    ),
    *(
        RunResult("incomplete", reason, incomplete="sentence")
        for reason in get_args(Reason)
        if reason not in FALL_BACK_REASONS
    ),
]


@pytest.mark.parametrize("result", ENDINGS, ids=lambda result: result.reason or result.path)
def test_json_has_every_key_on_every_ending_and_round_trips(result: RunResult) -> None:
    """JSR-114"""
    data = result.to_json()
    assert list(data) == [field.name for field in fields(RunResult)]
    assert {"output", "report", "artifacts", "incomplete", "fell_back", "spend"} <= set(data)
    assert RunResult.from_json(json.loads(json.dumps(data))) == result


def test_json_is_plain_data() -> None:
    """JSR-114"""
    data = FULL.to_json()
    assert data["logs"] == [
        {"text": "hello", "level": "warn", "cut": 3},
        {"text": "done", "level": "status", "cut": 0},
    ]
    assert data["truncated"] == [
        {"what": "logs", "kept": 100, "dropped": 20},
        {"what": "native", "kept": 10, "dropped": None},
    ]
    assert data["sandbox"] == {"process": "fork", "rlimits": ["AS", "CPU"], "seccomp": "filter"}
    assert data["usage"] == {"steps": 4, "wall_s": 1.5, "compute_s": 0.25, "memory_bytes": 4096}
    assert RunResult("finished", output=1).to_json()["sandbox"] is None


def test_finished_does_not_look_at_fell_back() -> None:
    """JSR-114"""
    assert FULL.fell_back and FULL.finished()
    assert not RunResult("incomplete", "stuck", incomplete="sentence").finished()
    assert not RunResult("incomplete", "no_output").finished()
    assert not replace(FULL, incomplete="sentence").finished()
    assert not RunResult("fell_back", "guard", fell_back="sentence").finished()
    assert RunResult("finished", output=False).finished() and RunResult("finished", output="").finished()


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ("finished", "stuck"),
        ("incomplete", None),
        ("fell_back", None),
        ("fell_back", "steps"),
        ("incomplete", "guard"),
        ("incomplete", "tired"),
        ("lost", None),
    ],
)
def test_a_status_takes_only_its_own_reasons(status: Status, reason: Reason | None) -> None:
    """JSR-114"""
    with pytest.raises(ValueError, match=r"reason|status"):
        RunResult(status, reason)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spend", None),
        ("spend", {"tokens": 1}),
        ("usage", {"hours": 1}),
        ("logs", "text"),
        ("logs", [1]),
        ("artifacts", {}),
        ("truncated", [{"kept": 1}]),
        ("sandbox", {"process": "fork"}),
        ("extra", 1),
    ],
)
def test_json_that_is_no_result_is_refused(key: str, value: object) -> None:
    """JSR-114"""
    with pytest.raises(ValueError):
        RunResult.from_json({**FULL.to_json(), key: value})


def test_the_reasons_are_those_of_the_design() -> None:
    """JSR-114"""
    assert len(REASONS) == 15 and len(set(REASONS)) == 15
