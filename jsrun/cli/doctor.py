"""`jsrun doctor`: what this machine has, proved by a run."""

import asyncio
import os
import platform
import sqlite3
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import typer

import ptc
from jsrun.cli.journal import DEFAULT_JOURNAL
from jsrun.cli.output import print_json
from jsrun.store import PROJECT, home


def command(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False) -> int:
    """Show platform, engine, sandbox and stores, and prove them with a timed run. Exit 0 if the engine works."""
    report = asyncio.run(examine())
    if as_json:
        print_json(report)
    else:
        for key, value in _lines(report):
            print(f"{key:<10} {value}")
    return 0 if report["ok"] else 1


async def examine() -> dict[str, object]:
    """Everything the command tells, as JSON data."""
    report: dict[str, object] = {
        "subharness": version("subharness"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "sqlite": sqlite3.sqlite_version,
        "stores": {"home": _place(home()), "project": _place(PROJECT), "journal": _place(DEFAULT_JOURNAL)},
    }
    engine = await _engine()
    return report | {"engines": {"quickjs": engine}, "ok": engine["ok"]}


async def _engine() -> dict[str, object]:
    """A cold start and a warm run of the default engine."""
    try:
        start = time.perf_counter()
        async with ptc.Runtime(spares=1) as runtime:
            image = await runtime.load("return 6 * 7")
            first = await image.run()
            cold_ms = (time.perf_counter() - start) * 1000
            await asyncio.sleep(0.05)  # let the next process get ready, as it does between runs of a service
            start = time.perf_counter()
            second = await image.run()
            warm_ms = (time.perf_counter() - start) * 1000
    except ptc.PtcError as error:
        return {"ok": False, "problem": str(error)}
    for outcome in (first, second):
        if outcome.value != 42 or outcome.isolation is None:
            problem = outcome.failure.message if outcome.failure is not None else f"6 * 7 is {outcome.value!r}"
            return {"ok": False, "problem": problem}
    isolation = second.isolation
    assert isolation is not None
    return {
        "ok": True,
        "package": _package("quickjs-ng"),
        "version": second.engine.version,
        "process": isolation.process,
        "rlimits": list(isolation.rlimits),
        "seccomp": isolation.seccomp,
        "cold_ms": round(cold_ms, 1),
        "warm_ms": round(warm_ms, 2),
    }


def _package(name: str) -> str:
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return name


def _place(path: Path) -> dict[str, object]:
    return {"path": str(path), "exists": path.exists(), "writable": os.access(_existing(path), os.W_OK)}


def _existing(path: Path) -> Path:
    """The path, or the nearest folder above it that is there."""
    path = path.absolute()
    while not path.exists():
        path = path.parent
    return path


def _lines(report: dict[str, object]) -> list[tuple[str, object]]:
    engines = report["engines"]
    stores = report["stores"]
    assert isinstance(engines, dict)
    assert isinstance(stores, dict)
    lines: list[tuple[str, object]] = [
        ("subharness", report["subharness"]),
        ("python", f"{report['python']} ({sys.executable})"),
        ("platform", report["platform"]),
        ("sqlite", report["sqlite"]),
    ]
    for name, engine in engines.items():
        if engine["ok"]:
            lines.append((name, f"{engine['version']} ({engine['package']})"))
            lines.append(
                ("sandbox", f"{engine['process']}; rlimits {', '.join(engine['rlimits'])}; seccomp {engine['seccomp']}")
            )
            lines.append(("smoke run", f"cold {engine['cold_ms']} ms, warm {engine['warm_ms']} ms"))
        else:
            lines.append((name, f"does not work: {engine['problem']}"))
    for name, store in stores.items():
        state = "there" if store["exists"] else "not there yet"
        lines.append((name, f"{store['path']} ({state}{'' if store['writable'] else ', not writable'})"))
    return lines
