"""A test double that owns the program's end of the channel, and everything it does to the host.

`hostile(late=[…])` is the program that makes the guest of `hostile_guest/` take these steps; `taking_over()` puts that
guest in place for the runtimes that start inside. `attack` runs one `Attack` and says what of the host's promises was
broken. `python -m fuzz.hostile [--engine E] [NAME…]` runs all of `fuzz.attacks` and prints a table.
"""

import asyncio
import contextlib
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final
from unittest import mock

import typer

import ptc
from fuzz.engines import ENGINES, WAYS, EngineName
from fuzz.health import Health, recovered

__all__ = ["BOOTSTRAP", "Attack", "attack", "guests", "hostile", "taken_over", "taking_over"]

BOOTSTRAP: Final = Path(__file__).with_name("hostile_guest") / "ptc" / "guest" / "bootstrap.py"

Step = str | tuple[Any, ...]
"""A name of a step of the hostile guest, alone or with what belongs to it; bytes become hex."""

# By how much longer than its own limits a run may take: a process that hangs is given up after 2 s.
_SLACK_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """What a hostile child does and what must come of it.

    late, early, image: its steps, see the guest. kind: of the failure, None for a run that succeeds; `kinds` where
    what comes first decides. calls: the arguments the host function gets, exactly. unfiltered: what the filter of
    system calls forbids is tried as well, so it is left off. orphans: it makes processes of its own; those of a
    forked run may stay until their runtime ends. lines: those of the conformance list.
    """

    name: str
    lines: str
    kind: str | None = "protocol"
    kinds: frozenset[str | None] = frozenset()
    late: Sequence[Step] | None = None
    early: Sequence[Step] | None = None
    calls: Sequence[Any] = ()
    limits: dict[str, Any] = field(default_factory=dict)
    unfiltered: bool = False
    orphans: bool = False


def hostile(**steps: Sequence[Step]) -> str:
    """The program that makes the guest take these steps."""
    return "// hostile: " + json.dumps({name: [_plain(step) for step in list_] for name, list_ in steps.items()})


def _plain(step: Step) -> list[Any]:
    parts = step if isinstance(step, tuple) else (step,)
    return [_part(part) for part in parts]


def _part(part: Any) -> Any:
    if isinstance(part, bytes):
        return part.hex()
    return [_plain(step) for step in part] if isinstance(part, list) else part


@contextlib.contextmanager
def taking_over(*, filtered: bool = True) -> Iterator[None]:
    """Runtimes that start their processes inside get the hostile guest. filtered: with the filter of system calls."""
    with contextlib.ExitStack() as patches:
        patches.enter_context(mock.patch("ptc._launch._BOOTSTRAP", BOOTSTRAP))
        if not filtered:
            patches.enter_context(mock.patch("ptc._launch._SECCOMP_LIBRARY", "no-such-library"))
        yield


@contextlib.asynccontextmanager
async def taken_over(engine: EngineName, *, filtered: bool = True) -> AsyncIterator[ptc.Runtime]:
    """A runtime whose guest can be taken over. Programs without steps are run as ever."""
    name, process = WAYS[engine]
    with taking_over(filtered=filtered):
        async with ptc.Runtime(engine=name, process=process, spares=0) as runtime:
            assert (await runtime.run("return await 1", form="async")).value == 1
            yield runtime


async def attack(runtime: ptc.Runtime, attack: Attack) -> list[str]:
    """Let one attack happen. What was broken, one text each: the ending, the calls, the time, the host's health."""
    called: list[Any] = []

    async def f(argument: Any) -> Any:
        called.append(argument)
        return argument

    limits = ptc.Limits(**{"timeout": 5.0, "cpu": 5.0, "start_timeout": 5.0, **attack.limits})
    steps = {name: list_ for name, list_ in (("early", attack.early), ("late", attack.late)) if list_ is not None}
    before = Health.now()
    of_ours = len(guests()) if attack.orphans else 0
    began = time.monotonic()
    outcome = await runtime.run(hostile(**steps), {"t": {"f": f}}, form="async", limits=limits)
    took = time.monotonic() - began
    problems = []
    kind = None if outcome.failure is None else outcome.failure.kind
    if kind not in (attack.kinds or {attack.kind}):
        message = outcome.failure.message if outcome.failure is not None else outcome.value
        problems.append(f"ended as {kind}, {attack.kind} is right: {message!r:.300}")
    if called != list(attack.calls):
        problems.append(f"the function was called with {called!r:.300}, not {list(attack.calls)!r:.300}")
    if outcome.calls < len(called):
        problems.append(f"{len(called)} calls were made, {outcome.calls} are told of")
    allowed = (limits.timeout or 0.0) + limits.start_timeout + _SLACK_S
    if took > allowed:
        problems.append(f"took {took:.1f} s")
    honest = await runtime.run("return await t.f(7)", {"t": {"f": f}}, form="async", timeout=20)
    if honest.value != 7:
        problems.append(f"an honest program fails after it: {honest.failure}")
    if attack.orphans and runtime.process == "fork":
        return problems
    if attack.orphans and len(guests()) > of_ours:
        problems.append("a process of its own is left behind")
    return problems + await recovered(before)


def guests() -> list[int]:
    """Living processes that this one, or a process of ours, has started as guests, whoever their parent is. Linux."""
    found = []
    for entry in Path("/proc").iterdir() if Path("/proc/self").exists() else ():
        with contextlib.suppress(OSError):  # it ended meanwhile
            if entry.name.isdigit() and (entry / "stat").read_text().rpartition(")")[2].split()[0] != "Z":
                words = (entry / "cmdline").read_bytes().split(b"\0")
                if len(words) > 1 and str(BOOTSTRAP).encode() in words and words[-2] == str(os.getpid()).encode():
                    found.append(int(entry.name))
    return found


# --- the command line ---


async def _run_all(attacks: Sequence[Attack], engines: Sequence[EngineName]) -> int:
    failed = 0
    for engine in engines:
        for filtered in (True, False):
            chosen = [one for one in attacks if one.unfiltered is not filtered]
            if not chosen:
                continue
            async with taken_over(engine, filtered=filtered) as runtime:
                for one in chosen:
                    began = time.monotonic()
                    problems = await attack(runtime, one)
                    failed += bool(problems)
                    shown = ascii("; ".join(problems) or "-")[1:-1]
                    print(f"{one.name:<48} {engine:<16} {time.monotonic() - began:6.2f} s  {shown}", flush=True)
    return failed


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


@app.command()
def main(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]…", help="Attacks to run; all if none.")] = None,
    engine: Annotated[list[str] | None, typer.Option(help=f"{', '.join(ENGINES)}; may be repeated.")] = None,
) -> None:
    """Run the hostile child's attacks on every engine."""
    from fuzz.attacks import ATTACKS  # it is made of what this module defines

    known = {one.name for one in ATTACKS}
    for name in names or ():
        if name not in known:
            raise typer.BadParameter(f'there is no attack "{name}"')
    for name in engine or ():
        if name not in ENGINES:
            raise typer.BadParameter(f'there is no engine "{name}"; there are {", ".join(ENGINES)}')
    wanted = [name for name in ENGINES if not engine or name in engine]
    failed = asyncio.run(_run_all([one for one in ATTACKS if not names or one.name in names], wanted))
    print(f"{failed} attacks broke a promise")
    if failed:
        sys.exit(1)


if __name__ == "__main__":
    app()
