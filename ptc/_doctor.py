"""What `ptc doctor` tells: not what should be there, but what runs of each engine report."""

import asyncio
import os
import platform
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any, Final

from ptc._launch import ENGINES, StartError, engine_library
from ptc.errors import PtcError, UsageError
from ptc.outcome import Outcome
from ptc.runtime import Runtime

__all__ = ["examine", "lines"]

_DEFAULT: Final = "quickjs"
_RLIMITS: Final = ("as", "core", "cpu", "fsize", "nofile", "nproc")

_PAUSE: Final = 0.05
"""Seconds for the next process to get ready, as between the runs of a service."""


async def examine() -> dict[str, Any]:
    """Everything the command tells, as JSON data. `ok`: the default engine works."""
    engines = {name: await _engine(name, package) for name, (package, _module) in ENGINES.items()}
    return {
        "ok": engines[_DEFAULT]["ok"],
        "subharness": version("subharness"),
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": platform.platform(),
        "fork": hasattr(os, "fork"),
        "engines": engines,
    }


def lines(report: dict[str, Any]) -> Iterator[str]:
    """The report as lines for people."""
    rows = [
        ("subharness", report["subharness"]),
        ("python", f"{report['python']} ({report['executable']})"),
        ("platform", report["platform"]),
        ("fork", "yes" if report["fork"] else "no; runs are spawned"),
    ]
    for name, engine in report["engines"].items():
        rows += _engine_rows(name, engine)
    yield from (f"{label:<12} {text}" for label, text in rows)
    if report["ok"]:
        yield f'The engine "{_DEFAULT}" works.'
    else:
        yield f'The engine "{_DEFAULT}" does not work: {report["engines"][_DEFAULT]["problem"]}'


def _engine_rows(name: str, engine: dict[str, Any]) -> list[tuple[str, str]]:
    if not engine["ok"]:
        return [(name, engine["problem"])]
    names = sorted({*_RLIMITS, *engine["rlimits"]})
    limits = ", ".join(f"{limit} {'yes' if limit in engine['rlimits'] else 'no'}" for limit in names)
    problem = engine["seccomp_problem"]
    return [
        (name, f"{engine['version']} ({engine['package']})"),
        ("  forms", ", ".join(engine["forms"])),
        ("  rejections", engine["rejections"]),
        ("  process", engine["process"]),
        ("  rlimits", limits),
        ("  seccomp", f"{engine['seccomp']} ({problem})" if problem else engine["seccomp"]),
        ("  times", f"cold start {engine['cold_ms']} ms, warm run {engine['warm_ms']} ms"),
    ]


async def _engine(name: str, package: str) -> dict[str, Any]:
    """One engine, as its runs show it; `problem` says what to do if it does not work."""
    try:
        engine_library(name)
        started = time.perf_counter()
        async with Runtime(engine=name, spares=1) as runtime:
            image = await runtime.load("return await 42")
            _check(await image.run())
            cold = time.perf_counter() - started
            await asyncio.sleep(_PAUSE)
            started = time.perf_counter()
            outcome = _check(await image.run())
            warm = time.perf_counter() - started
            described = await runtime.report()
            forms = ["async", "sync"] if await _runs_sync(runtime) else ["async"]
    except (PtcError, StartError, _NotWorking) as error:
        return {"ok": False, "problem": " ".join(str(error).split()) or "it does not start"}
    isolation = outcome.isolation
    assert isolation is not None
    return {
        "ok": True,
        "version": outcome.engine.version,
        "package": f"{package} {version(package)}",
        "forms": forms,
        "rejections": described["rejections"],
        "process": isolation.process,
        "rlimits": list(isolation.rlimits),
        "seccomp": isolation.seccomp,
        "seccomp_problem": described["seccomp"]["problem"],
        "cold_ms": round(cold * 1000, 1),
        "warm_ms": round(warm * 1000, 2),
    }


class _NotWorking(Exception):
    """An engine is there, and does not do what it should."""


def _check(outcome: Outcome) -> Outcome:
    if outcome.failure is not None:
        raise _NotWorking(f"{outcome.failure.kind}: {outcome.failure.message}")
    if outcome.value != 42:
        raise _NotWorking(f"a program that returns 42 returned {outcome.value!r}")
    return outcome


async def _runs_sync(runtime: Runtime) -> bool:
    try:
        image = await runtime.load("return 42", form="sync")
    except UsageError:
        return False
    _check(await image.run())
    return True
