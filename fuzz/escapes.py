"""Runs the escape programs: each must end exactly as its header says, in time, and leave a healthy host.

`python -m fuzz.escapes [--engine E] [NAME…]` prints a table. Exit code 0 if all went as expected, 1 if not, 2 for bad
names or files.
"""

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer

import ptc
from fuzz.engines import ENGINES, WAYS, EngineName
from fuzz.escape_files import Ending, Escape, read_all
from fuzz.escape_host import SECRET, EscapeHost
from fuzz.health import Health, recovered
from jsrun import AIOptions, BundleError, CallbackEnv, Fuel, MemoryJournal, Note, Prompt, Runner, RunResult
from jsrun.testing import FakeMemory, bundle

__all__ = ["Report", "Yard", "attempt", "main", "yard"]

MIB: Final = 1024 * 1024

# Far more than any program of the corpus needs that is not about a limit: those state a smaller one.
_LIMITS: Final[dict[str, Any]] = {"timeout": 20.0, "cpu": 10.0, "memory": 64 * MIB}
_FUEL: Final[dict[str, Any]] = {"wall": 20.0, "compute": 10.0, "memory": 64 * MIB}

# No text that comes of a run may hold these: they are of the host, or of what we put around a program.
_LEAKS: Final = (SECRET, "PermissionError", "Traceback (most", "__ptc", "site-packages", str(Path(__file__).parents[1]))


@dataclass(frozen=True, slots=True)
class Report:
    """What came of one program on one engine: the ending in words, the seconds, and everything that was wrong."""

    name: str
    engine: EngineName
    ending: str
    seconds: float
    problems: tuple[str, ...]


@contextlib.asynccontextmanager
async def yard(engine: EngineName) -> AsyncIterator["Yard"]:
    """Where programs are run on one engine: a runtime, and a plain program that must go on working."""
    name, process = WAYS[engine]
    async with ptc.Runtime(engine=name, process=process, spares=0) as runtime:
        plain = await runtime.load("return await host.echo(1)", {"host": {"echo": lambda argument: argument}})
        yard = Yard(engine, runtime, plain)
        assert await yard.is_well()
        yield yard


class Yard:
    """A runtime for programs of the corpus. `is_well` runs a plain program in it."""

    def __init__(self, engine: EngineName, runtime: ptc.Runtime, plain: ptc.Image) -> None:
        self.engine = engine
        self.runtime = runtime
        self._plain = plain

    async def is_well(self) -> bool:
        """Whether an honest program still gets its answer."""
        outcome = await self._plain.run(timeout=10)
        return outcome.ok and outcome.value == 1


async def attempt(yard: Yard, escape: Escape, patience: float = 1.0, *, hurried: bool = False) -> Report:
    """Run one program as its header says. patience: by how much the machine may be slower than a quiet one.

    hurried: leave out the honest program after those that ended by themselves in a process of their own; the next
    program of the corpus shows as well that the runtime goes on, and each start of a process costs a tenth of a second.
    """
    header = escape.header
    ending = header.ending(yard.engine)
    before = Health.now()
    began = time.monotonic()
    endings = await (_by_ptc if header.via == "ptc" else _by_jsrun)(yard, escape)
    seconds = time.monotonic() - began
    problems = [problem for one in endings for problem in one.compare(ending)]
    if seconds > header.within * patience:
        problems.append(f"took {seconds:.1f} s, {header.within:g} s are allowed")
    by_itself = hurried and yard.runtime.process == "spawn" and ending.ends_by_itself
    if not by_itself and not await yard.is_well():
        problems.append("an honest program fails after it")
    problems += await recovered(before)
    return Report(escape.name, yard.engine, endings[0].words, seconds, tuple(dict.fromkeys(problems)))


@dataclass(frozen=True, slots=True)
class _Ended:
    """One run: its members as `Ending` names them, and every text that came of it."""

    members: dict[str, Any]
    message: str
    texts: str
    problems: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """The ending for the table."""
        for key in ("kind", "raises", "refused", "reason", "status"):
            if self.members.get(key) is not None:
                return str(self.members[key])
        return "finished"

    def compare(self, wanted: Ending) -> list[str]:
        """What is not as it should be."""
        problems = list(self.problems)
        for key in sorted(wanted.model_fields_set - {"says"}):
            got, want = self.members.get(key), getattr(wanted, key)
            if key not in self.members or _text(got) != _text(want):
                problems.append(f"{key}: wanted {_text(want)[:300]}, got {_text(got)[:300]} ({self.message[:300]})")
        problems += [
            f"the message lacks {text!r}: {self.message[:300]}" for text in wanted.says if text not in self.message
        ]
        problems += [f"{leak!r} of the host leaked" for leak in _LEAKS if leak in self.texts]
        return problems


# --- through ptc ---


async def _by_ptc(yard: Yard, escape: Escape) -> list[_Ended]:
    header = escape.header
    limits = ptc.Limits(**{**_LIMITS, **header.limits})
    images: list[ptc.Image] = []

    async def again(argument: Any) -> Any:
        return (await images[0].run(input=argument)).value

    # Each run gets functions of its own; these are only declared.
    try:
        image = await yard.runtime.load(
            escape.code,
            {"host": EscapeHost(again).functions()},
            form=header.form,
            name=f"{escape.name}.js",
            input_name="input",
            limits=limits,
        )
    except ptc.LoadError as error:
        return [_Ended({"kind": error.failure.kind}, error.failure.message, _text(str(error.failure)))]
    images.append(image)

    async def run() -> _Ended:
        host = EscapeHost(again)
        try:
            outcome = await image.run(input=header.input, functions={"host": host.functions()})
        except (SystemExit, KeyboardInterrupt) as error:
            return _Ended({"raises": type(error).__name__, **_called(host)}, "", "")
        return _of_outcome(outcome, host)

    try:
        return [ended for _ in range(header.runs) for ended in await _together(run, header.together)]
    finally:
        await image.unload()


def _of_outcome(outcome: ptc.Outcome, host: EscapeHost) -> _Ended:
    logs = [entry.text for entry in outcome.logs]
    failure = outcome.failure
    members = {"logs": logs, "entries": len(logs), **_called(host)}
    if failure is not None:
        members["kind"] = failure.kind
    elif outcome.has_value:
        members["value"] = outcome.value
    else:
        members["nothing"] = True
    stack = failure.stack if failure is not None else None
    message = failure.message if failure is not None else _text(outcome.value)
    return _Ended(members, message, _text([logs, outcome.value, message, stack, outcome.native]))


# --- through a bundle ---


async def _by_jsrun(yard: Yard, escape: Escape) -> list[_Ended]:
    header = escape.header
    notes = FakeMemory(header.memory)
    runners: list[Runner] = []

    async def again(argument: Any) -> Any:
        return (await runners[0].run(argument, _env(EscapeHost(again), notes), fuel=fuel)).output

    fuel = Fuel(**{**_FUEL, **header.limits})
    names = list(EscapeHost(again).functions())
    try:
        made = bundle(
            escape.code,
            prompts=header.prompts,
            engine=yard.runtime.engine,
            whitelist=header.whitelist if header.whitelist is not None else names,
        )
    except BundleError as error:
        codes = [found.code for found in error.diagnostics if found.severity == "error"]
        return [_Ended({"refused": codes}, str(error), str(error))]

    async def run() -> _Ended:
        host, journal = EscapeHost(again), MemoryJournal()
        result = await runners[0].run(header.input, _env(host, notes), fuel=fuel, journal=journal)
        problems = [
            f"a row of the journal is {row.state}"
            for row in (await journal.read(result.run_id)).entries
            if row.state == "open"
        ]
        if header.replay:
            report = await runners[0].replay(result.run_id, journal)
            problems += [] if report.same else [f"the replay differs: {report.difference}"]
        return _of_result(result, host, [note.text for note in await notes.recall()], problems)

    async with Runner(made, runtime=yard.runtime) as runner:
        runners.append(runner)
        return [ended for _ in range(header.runs) for ended in await _together(run, header.together)]


def _of_result(result: RunResult, host: EscapeHost, notes: list[str], problems: list[str]) -> _Ended:
    logs = [entry.text for entry in result.logs]
    members = {"status": result.status, "reason": result.reason, "output": result.output, "notes": notes}
    members |= {"logs": logs, "entries": len(logs), **_called(host)}
    return _Ended(
        members, result.sentence, _text([logs, result.output, result.sentence, result.report]), tuple(problems)
    )


def _env(host: EscapeHost, notes: FakeMemory) -> CallbackEnv:
    async def ai(prompt: Prompt, input: Any, _options: AIOptions) -> Any:
        host.calls.append(["ai", [prompt.name, prompt.text, input]])
        return {"prompt": prompt.text, "input": input}

    async def recall(query: str) -> Sequence[Note]:
        return await notes.recall(query)

    async def log(_status: str) -> None:
        return None

    return CallbackEnv(
        ai=ai,
        tools=host.functions(),
        ask=lambda _question, _options: "yes",
        remember=notes.remember,
        recall=recall,
        log=log,
    )


# --- small things ---


async def _together(run: Callable[[], Awaitable[_Ended]], count: int) -> list[_Ended]:
    if count == 1:  # what a host function raises must reach us, not the loop
        return [await run()]
    return await asyncio.gather(*(run() for _ in range(count)))


def _called(host: EscapeHost) -> dict[str, Any]:
    return {"calls": host.calls, "called": len(host.calls)}


def _text(value: object) -> str:
    """JSON of a value: equal texts are equal values, of the same types and in the same order."""
    return json.dumps(value)


# --- the command line ---


async def _run_all(escapes: Sequence[Escape], engines: Sequence[EngineName], patience: float) -> list[Report]:
    reports = []
    for engine in engines:
        chosen = [escape for escape in escapes if engine in escape.header.engines]
        if chosen:
            async with yard(engine) as place:
                for escape in chosen:
                    reports.append(await attempt(place, escape, patience))
    return reports


def _print(reports: Sequence[Report]) -> None:
    for report in reports:
        shown = "; ".join(report.problems) or "-"
        print(
            f"{report.name:<36} {report.engine:<16} {report.ending:<16} {report.seconds:6.2f} s  {ascii(shown)[1:-1]}"
        )
    failed = sum(bool(report.problems) for report in reports)
    print(f"{len(reports)} runs, {failed} not as expected")


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.command()
def main(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]…", help="Programs to run; all if none.")] = None,
    engine: Annotated[list[str] | None, typer.Option(help=f"{', '.join(ENGINES)}; may be repeated.")] = None,
    patience: Annotated[float, typer.Option(help="How many times longer than stated a run may take.")] = 1.0,
) -> None:
    """Run the escape programs on every engine that can run them."""
    try:
        escapes = read_all()
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    known = {escape.name for escape in escapes}
    for name in names or ():
        if name not in known:
            raise typer.BadParameter(f'there is no program "{name}"')
    for name in engine or ():
        if name not in ENGINES:
            raise typer.BadParameter(f'there is no engine "{name}"; there are {", ".join(ENGINES)}')
    chosen = [escape for escape in escapes if not names or escape.name in names]
    wanted = [name for name in ENGINES if not engine or name in engine]
    reports = asyncio.run(_run_all(chosen, wanted, patience))
    _print(reports)
    if any(report.problems for report in reports):
        sys.exit(1)


if __name__ == "__main__":
    app()
