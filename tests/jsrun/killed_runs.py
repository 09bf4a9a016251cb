"""A host that is killed at every step of a run's journal. `python -m tests.jsrun.killed_runs FOLDER FORM`

Each attempt is a process of its own that kills itself with SIGKILL right before or right after its n-th write to the
journal, in a folder of its own. Another process then resumes the run, first without a word about calls in flight, and
if that is refused, letting them fail. The last attempt lives, and tells what comes of a run that nobody disturbs.
What came of each is printed, one JSON object a line.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal

from jsrun import (
    AIOptions,
    Answer,
    AskAnswer,
    AskOptions,
    Belt,
    Bundle,
    FileMemory,
    InFlightError,
    Note,
    Prompt,
    Runner,
    Spend,
    SqliteJournal,
    Tool,
    ToolResult,
)
from jsrun.journal import EntryRow, RunRow
from jsrun.testing import bundle
from ptc.wire import Json

Moment = Literal["before", "after"]

# A tool or note that may have been done is looked up before it is done again.
BODY = """
const append = ASYNC (line) => {
  try {
    WAIT tool("append", { line });
  } catch (error) {
    if (!(WAIT tool("lines")).includes(line)) WAIT append(line);
  }
};
const note = ASYNC (text) => {
  try {
    WAIT remember(text);
  } catch (error) {
    if ((WAIT recall(text)).length === 0) WAIT note(text);
  }
};
ASYNC function run({ topic }) {
  const word = WAIT ai("word", { topic });
  WAIT append("first " + word);
  WAIT log("wrote " + word);
  const answer = WAIT ask("More?", { options: ["yes", "no"] });
  WAIT note("asked about " + topic);
  const more = PARALLEL;
  WAIT log("");
  WAIT append("last");
  WAIT log("done");
  const notes = (WAIT recall("")).map(({ text }) => text);
  return { word, answer, more, notes, lines: (WAIT tool("lines")).toSorted() };
}
"""
SYNC = (
    BODY.replace("ASYNC ", "")
    .replace("WAIT ", "")
    .replace("PARALLEL", '[ai("word", { topic: 1 }), ai("word", { topic: 2 }), append("second")].slice(0, 2)')
)
ASYNC = (
    BODY.replace("ASYNC", "async")
    .replace("WAIT", "await")
    .replace(
        "PARALLEL",
        '(await Promise.all([ai("word", { topic: 1 }), ai("word", { topic: 2 }), append("second")])).slice(0, 2)',
    )
)
RUN_ID = "01KILLED000000000000000000"


def made(form: str, folder: Path) -> Bundle:
    """The bundle, with notes in the folder."""
    return bundle(
        SYNC if form == "sync" else ASYNC,
        prompts={"word": "One word."},
        whitelist=["append", "lines"],
        memory=FileMemory(folder / "memory.md"),
    )


class FileEnv:
    """A host whose tool leaves its mark in a file."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "lines"
        self.belt = Belt([
            Tool("append", "Append a line.", {"type": "object"}, self._append),
            Tool("lines", "The lines.", {"type": "object"}, self._lines, read_only=True),
        ])  # fmt: skip

    async def _append(self, args: dict[str, Json]) -> Json:
        with self._file.open("a") as file:
            file.write(f"{args['line']}\n")
        return None

    async def _lines(self, _args: dict[str, Json]) -> list[str]:
        return self._file.read_text().splitlines() if self._file.exists() else []

    async def ai(self, _prompt: Prompt, input: Json, _options: AIOptions) -> Answer:
        given: Any = input
        return Answer(json=f"about {given['topic']}", spend=Spend("m", calls=1, input=7, output=3))

    async def tool(self, name: str, args: dict[str, Json]) -> ToolResult:
        return await self.belt.call(name, args)

    async def ask(self, _question: str, options: AskOptions) -> AskAnswer:
        return AskAnswer(options.options[0])

    async def remember(self, note: str) -> None:
        raise AssertionError("the bundle has a memory of its own")

    async def recall(self, query: str) -> list[Note]:
        raise AssertionError("the bundle has a memory of its own")

    async def log(self, status: str) -> None:
        return None


class DeadlyJournal(SqliteJournal):
    """Kills this process right before or after its n-th write."""

    def __init__(self, path: Path, step: int, moment: Moment) -> None:
        super().__init__(path)
        self._left = step
        self._moment = moment

    async def open_run(self, row: RunRow) -> None:
        await self._counted(lambda: super(DeadlyJournal, self).open_run(row))

    async def open(self, row: EntryRow) -> None:
        await self._counted(lambda: super(DeadlyJournal, self).open(row))

    async def close(self, row: EntryRow) -> None:
        await self._counted(lambda: super(DeadlyJournal, self).close(row))

    async def end_run(self, row: RunRow) -> None:
        await self._counted(lambda: super(DeadlyJournal, self).end_run(row))

    async def _counted(self, write: Callable[[], Awaitable[None]]) -> None:
        self._left -= 1
        dies = self._left == 0
        if dies and self._moment == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        await write()
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)


async def first_run(form: str, folder: Path, step: int, moment: Moment) -> dict[str, Any]:
    """The run that is killed; if it is not, what came of it."""
    async with (
        Runner(made(form, folder)) as runner,
        DeadlyJournal(folder / "journal.db", step, moment) as journal,
    ):
        result = await runner.run({"topic": "ants"}, FileEnv(folder), journal=journal, run_id=RUN_ID, seed="s")
        return {"lived": True, "output": result.output, "tokens": result.spend.tokens, "lines": lines(folder)}


async def resume(form: str, folder: Path) -> dict[str, Any]:
    """What comes of the resume."""
    async with Runner(made(form, folder)) as runner, SqliteJournal(folder / "journal.db") as journal:
        before = await journal.read(RUN_ID)
        if before.run.status is not None:
            return {"complete": before.run.status}
        unsure = [
            f"{row.call} {row.ref}"
            for row in before.entries
            if row.state == "open" and (row.call == "remember" or row.ref == "append")
        ]
        refused = False
        try:
            result = await runner.resume(RUN_ID, FileEnv(folder), journal=journal)
        except InFlightError:
            refused = True
            result = await runner.resume(RUN_ID, FileEnv(folder), "fail", journal=journal)
        record = await journal.read(RUN_ID)
        replayed = await runner.replay(RUN_ID, journal)
        return {
            "output": result.output,
            "status": result.status,
            "tokens": result.spend.tokens,
            "ledger": record.spend().tokens,
            "unsure": unsure,
            "refused": refused,
            "replayed": replayed.same,
            "lines": lines(folder),
            "open": sum(row.state == "open" for row in record.current()),
        }


def lines(folder: Path) -> list[str]:
    """What the tool has left behind."""
    file = folder / "lines"
    return file.read_text().splitlines() if file.exists() else []


def in_child(work: Callable[[], Any]) -> int:
    """Do this in a process of its own, which prints what comes of it; how that process ended."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.write(1, json.dumps(asyncio.run(work())).encode() + b"\n")
            status = 0
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1]


def main(base: Path, form: str) -> None:
    """Attempts, until one lives."""
    moments: tuple[Moment, ...] = ("before", "after")
    for step in range(1, 100):
        for moment in moments:
            folder = base / f"{step}-{moment}"
            folder.mkdir()
            status = in_child(lambda: first_run(form, folder, step, moment))  # noqa: B023  # done at once
            if os.WIFEXITED(status):
                sys.exit(os.WEXITSTATUS(status))
            if not (folder / "journal.db").exists():
                os.write(1, b'{"nothing": true}\n')  # killed before there was a run
                continue
            status = in_child(lambda: resume(form, folder))  # noqa: B023
            if status != 0:
                sys.exit(f"the resume of {folder.name} ended with {status}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
