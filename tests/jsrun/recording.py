"""Runs to be made again: Envs that keep count, recorded runs, and a journal that remembers how it looked.

`Snapshots.at(n)` is what a host that died after the n-th write would have left behind.
"""

import asyncio
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from jsrun import (
    AIOptions,
    Answer,
    AskAnswer,
    AskOptions,
    DoorFailure,
    Env,
    MemoryJournal,
    Note,
    Prompt,
    ReplayReport,
    RunResult,
    Spend,
    SqliteJournal,
    ToolResult,
)
from jsrun.journal import EntryRow, RunRecord, RunRow
from ptc.wire import Json
from tests.jsrun.playing import Play

PROMPTS = {"sum": "Sum up."}
PARTS: dict[str, Any] = {"prompts": PROMPTS, "whitelist": ["write", "fail"]}
"""What the programs of resumed runs need."""

STEPS = """
async function run(input) {
  const one = await tool("wait", { id: 1, list: [1, { deep: "a" }] });
  const [two, three] = await Promise.all([ai("sum", { n: 2.0 }), tool("other", { n: 3 })]);
  await log("nearly");
  return { one, two, three };
}
"""

BODY = """
{
  const out = [];
  out.push(WAIT ai("sum", { text: input.text }));
  out.push(WAIT tool("write", { id: 1 }));
  try { WAIT tool("fail", {}); } catch (error) { out.push(error.message); }
  try { WAIT tool("un" + "listed", {}); } catch (error) { out.push(error.message); }
  WAIT log("");
  out.push(WAIT ask("Sure?"));
  WAIT remember("a note " + Math.random());
  out.push((WAIT recall("")).length);
  WAIT log("half-way");
  out.push(WAIT tool("write", { id: 2 }), Math.random());
  return out;
}
"""
SYNC = "function run(input) " + BODY.replace("WAIT ", "")
ASYNC = "async function run(input) " + BODY.replace("WAIT", "await")
PARALLEL = """
async function run(input) {
  const parts = await Promise.all([
    tool("write", { id: 1 }).then((got) => ai("sum", got)),
    ai("sum", { text: input.text }).then((got) => tool("write", { id: 2, got })),
    log("on the way").then(() => log("")).then(() => ask("Sure?")),
    tool("fail", {}).catch((error) => error.message),
  ]);
  await remember("all of it");
  return [parts, (await recall("")).length];
}
"""


class Snapshots(MemoryJournal):
    """`at(n)` is the journal as of the n-th write, from 0; the process that worked on its runs is gone."""

    def __init__(self) -> None:
        super().__init__()
        self._states: list[tuple[dict[str, RunRow], dict[tuple[str, int, int], EntryRow]]] = [({}, {})]

    @property
    def writes(self) -> int:
        """How many writes there were."""
        return len(self._states) - 1

    def at(self, write: int, owner: str | None = None) -> "Snapshots":
        """A journal of its own."""
        runs, entries = self._states[write]
        journal = Snapshots()
        journal._runs = {key: replace(run, owner=owner or gone_owner()) for key, run in runs.items()}
        journal._entries = dict(entries)
        for (run_id, _attempt, _seq), row in entries.items():
            journal._calls[run_id] = journal.calls(run_id) + 1
            journal._book(row)
        journal._states = [(dict(journal._runs), dict(entries))]
        return journal

    async def open_run(self, row: RunRow) -> None:
        await super().open_run(row)
        self._keep()

    async def open(self, row: EntryRow) -> None:
        await super().open(row)
        self._keep()

    async def close(self, row: EntryRow) -> None:
        await super().close(row)
        self._keep()

    async def end_run(self, row: RunRow) -> None:
        await super().end_run(row)
        self._keep()

    def _keep(self) -> None:
        self._states.append((dict(self._runs), dict(self._entries)))


def noted(rows: Sequence[EntryRow]) -> list[Note]:
    """The notes that a memory has by these rows."""
    return [Note(row.ref) for row in rows if row.call == "remember" and row.state == "ok"]


def gone_owner() -> str:
    """A process of this machine that is surely gone."""
    return f"{2**22 + 1}@{socket.gethostname()}"  # above the largest number Linux gives


class Doer:
    """An Env that keeps count of what it was asked for. `tools` by name; the model answers with its input."""

    def __init__(self, tools: Mapping[str, Callable[[dict[str, Json]], object]] | None = None) -> None:
        self.tools = dict(tools or {})
        self.calls: list[str] = []
        self.notes: list[Note] = []
        self.answer = AskAnswer("yes")

    async def ai(self, prompt: Prompt, input: Json, _options: AIOptions) -> Answer:
        self.calls.append(f"ai {prompt.name or prompt.text}")
        return Answer(json=input, spend=Spend("m", calls=1, input=10, output=5))

    async def tool(self, name: str, args: dict[str, Json]) -> ToolResult:
        self.calls.append(f"tool {name}")
        answer = self.tools[name](args)
        if hasattr(answer, "__await__"):
            answer = await answer
        if isinstance(answer, Exception):
            raise DoorFailure(str(answer))
        return ToolResult(json=answer)  # type: ignore[arg-type]  # tools of tests give JSON

    async def ask(self, question: str, _options: AskOptions) -> AskAnswer:
        self.calls.append(f"ask {question}")
        return self.answer

    async def remember(self, note: str) -> None:
        self.calls.append(f"remember {note}")
        self.notes.append(Note(note))

    async def recall(self, _query: str) -> Sequence[Note]:
        self.calls.append("recall")
        return list(reversed(self.notes))

    async def log(self, status: str) -> None:
        self.calls.append(f"log {status}")


class Writer(Doer):
    """Its tool `write` may be called once for each id."""

    def __init__(self, notes: Sequence[Any] = ()) -> None:
        super().__init__({"write": self.write, "fail": lambda _args: ValueError("no luck")})
        self.notes = list(notes)
        self.written: list[Json] = []

    async def write(self, args: dict[str, Json]) -> Json:
        await asyncio.sleep(0)
        self.written.append(args["id"])
        return args


async def recorded(
    play: Play, program: str, input: Json = None, env: Any = None, parts: Mapping[str, Any] = PARTS, **options: Any
) -> tuple[RunResult, Snapshots]:
    """One run and all states of its journal."""
    journal = Snapshots()
    async with play.runner(program, **parts) as runner:
        return await runner.run(input, env or Writer(), journal=journal, **options), journal


async def resume(
    play: Play, program: str, run_id: str, env: Any, journal: Any, parts: Mapping[str, Any] = PARTS, **options: Any
) -> RunResult:
    async with play.runner(program, **parts) as runner:
        return await runner.resume(run_id, env, journal=journal, **options)


def in_flight(rows: Sequence[EntryRow]) -> list[EntryRow]:
    return [row for row in rows if row.state in ("open", "abandoned")]


async def wait(args: dict[str, Json]) -> Json:
    """A tool that takes as long as it is told to, in milliseconds."""
    await asyncio.sleep(float(str(args.get("ms", 0))) / 1000)
    return args


class Recording:
    """One run, recorded in `journal`."""

    def __init__(self, play: Play, program: str, **parts: Any) -> None:
        self.play = play
        self.program = program
        self.parts = {"prompts": PROMPTS, "whitelist": ["wait", "fail", "other"], **parts}
        self.journal: MemoryJournal | SqliteJournal = MemoryJournal()

    async def run(self, input: Json = None, env: Env | None = None, **options: Any) -> RunResult:
        async with self.play.runner(self.program, **self.parts) as runner:
            self.result = await runner.run(input, env or doer(), journal=self.journal, **options)
        return self.result

    async def replay(self, program: str | None = None, **parts: Any) -> ReplayReport:
        """Replay it, by another program if there is one."""
        async with self.play.runner(program or self.program, **{**self.parts, **parts}) as runner:
            return await runner.replay(self.result.run_id, self.journal)

    async def record(self) -> RunRecord:
        return await self.journal.read(self.result.run_id)


def doer() -> Doer:
    return Doer({"wait": wait, "fail": lambda _args: ValueError("no luck"), "other": lambda args: args})


def alike(result: RunResult) -> RunResult:
    """What must be equal in a run and its replay: all but what time it took."""
    return replace(result, usage=replace(result.usage, wall_s=0, compute_s=None), sandbox=None)
