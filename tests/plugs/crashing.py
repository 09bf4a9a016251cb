"""Runs that are killed right after a step was recorded: `python -m tests.plugs.crashing FOLDER`.

Each kill happens in a process of its own, in a folder of its own: FOLDER/1 after the first recorded step, and so on
until a run ends by itself.
"""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

from jsrun.plugs import PauseInfo, Plug, SqliteStore
from jsrun.plugs._level import PlugEntry
from jsrun.plugs._steps import History
from jsrun.plugs.infos import RunInfo, RunKind, SessionInfo, TeardownInfo
from jsrun.plugs.lifecycle import Lifecycle
from jsrun.plugs.runner import AgentBase, MemoryRecorder, Run, RunEnd, RunPlan
from tests.plugs.rig import GoneHost, NoteHost, View

PLUGS = 3


class FileRecorder(MemoryRecorder):
    """Writes each step to a file, durably, and kills the process after step number `fatal`."""

    def __init__(self, path: Path, fatal: int = 0) -> None:
        super().__init__()
        self._path = path
        self._fatal = fatal
        self._count = 0

    def __getattribute__(self, name: str) -> Any:
        value = object.__getattribute__(self, name)
        if name.startswith("_") or not asyncio.iscoroutinefunction(value):
            return value

        async def recorded(*args: Any) -> None:
            await value(*args)
            self._write([name, *map(str, args)])

        return recorded

    def _write(self, step: list[str]) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps(step) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self._count += 1
        if self._count == self._fatal:
            os.kill(os.getpid(), signal.SIGKILL)


def history(path: Path) -> History:
    """What the recorded steps of all runs tell."""
    loaded: set[str] = set()
    handed: set[str] = set()
    for step in map(json.loads, path.read_text().splitlines()):
        if step[0] == "loaded":
            loaded.add(step[1])
        elif step[0] == "handed":
            (handed.add if step[2] == "True" else handed.discard)(step[1])
    return History(frozenset(loaded), frozenset(handed))


def plug(folder: Path, index: int) -> type[Plug]:
    """A plug whose machine is a file: made in a start, looked for in a resume, removed in teardown."""

    class Machine(Plug, name=f"test/machine-{index}"):
        Persisted = str

        async def session(self, next: Any) -> None:
            name = self.persisted.value
            if name is None:
                name = f"machine-{index}"
                await self.persisted.set(name)
            (folder / name).touch()
            await next(host=NoteHost(name) if index == 1 else None)

        async def teardown(self, next: Any) -> None:
            await next(host=NoteHost("again") if index == 1 else None)
            if self.persisted.value is not None:
                (folder / self.persisted.value).unlink(missing_ok=True)

    return Machine


async def perform(folder: Path, kind: RunKind, number: int, fatal: int = 0) -> RunEnd:
    """One run in a folder, stopped as soon as the agent is reached."""

    async def agent(spec: Any, host: Any, lifecycle: Lifecycle) -> PauseInfo:
        await recorder.agent_started(None, None)
        lifecycle.stop("closed")
        return await lifecycle.stopped()

    steps = folder / "steps"
    steps.touch()
    recorder = FileRecorder(steps, fatal)
    store = SqliteStore(folder / "state.db")
    plan = RunPlan(
        entries=[PlugEntry(plug(folder, index), f"p{index}") for index in range(PLUGS)],
        session=SessionInfo("s1"),
        run=RunInfo(kind, number),
        agent=AgentBase("agent"),
        history=history(steps),
        end=TeardownInfo("closed") if kind == "teardown" else None,
    )
    parts: Any = {"host": NoteHost("runner"), "bind": View, "unavailable": GoneHost}
    try:
        return await Run(plan, agent=agent, store=store, recorder=recorder, **parts).perform()
    finally:
        store.close()


def main(folder: Path) -> None:
    """Kill one run after the other, each one step later."""
    fatal, status = 0, 1
    while status != 0:
        fatal += 1
        place = folder / str(fatal)
        place.mkdir()
        child = os.fork()
        if child == 0:
            asyncio.run(perform(place, "start", 1, fatal))
            os._exit(0)
        status = os.waitpid(child, 0)[1]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
