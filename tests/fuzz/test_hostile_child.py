"""The hostile child's attacks: whatever owns the program's end of the channel, the host keeps its promises."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from typer.testing import CliRunner

import ptc
from fuzz.attacks import ATTACKS
from fuzz.engines import ENGINES, EngineName
from fuzz.hostile import Attack, app, attack, taken_over
from tests.ptc.processes import needs_proc

on_one_loop = pytest.mark.asyncio(loop_scope="session")

# A spawned process costs a tenth of a second; the rules of the channel are the same code in the host for all, so there
# one of each rule's cases must do. Deaths and grandchildren differ by how processes are made.
_EVERY = 12


def _cases() -> list[Any]:
    cases = []
    for engine in ENGINES:
        for number, one in enumerate(ATTACKS):
            by_process = one.unfiltered or not one.name.startswith(("frame:", "message:", "args:", "value:"))
            if engine == "quickjs" or (by_process and engine == "quickjs-spawned") or number % _EVERY == 0:
                cases.append(pytest.param(engine, one.unfiltered, one, id=f"{engine}-{one.name}"))
    return sorted(cases, key=lambda case: (case.values[0], case.values[1]))


class Runtimes:
    """One runtime at a time, kept while the same kind is asked for."""

    def __init__(self) -> None:
        self._key: tuple[str, bool] | None = None
        self._manager: Any = None
        self._runtime: ptc.Runtime | None = None

    async def get(self, engine: EngineName, unfiltered: bool) -> ptc.Runtime:
        if self._runtime is None or self._key != (engine, unfiltered):
            await self.close()
            self._key, self._manager = (engine, unfiltered), taken_over(engine, filtered=not unfiltered)
            self._runtime = await self._manager.__aenter__()
        assert self._runtime is not None
        return self._runtime

    async def close(self) -> None:
        if self._runtime is not None:
            self._runtime = None
            await self._manager.__aexit__(None, None, None)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def runtimes() -> AsyncIterator[Runtimes]:
    runtimes = Runtimes()
    yield runtimes
    await runtimes.close()


@needs_proc
@on_one_loop
@pytest.mark.parametrize(("engine_name", "unfiltered", "one"), _cases())
async def test_the_host_keeps_its_promises(
    runtimes: Runtimes, engine_name: EngineName, unfiltered: bool, one: Attack
) -> None:
    """PTC-016 PTC-020 PTC-022 PTC-026 PTC-028 PTC-029 PTC-035 PTC-037 PTC-041 PTC-057 PTC-066 PTC-070 each attack ends
    with its kind, no function is called wrongly, and the host goes on."""
    assert await attack(await runtimes.get(engine_name, unfiltered), one) == []


@needs_proc
@on_one_loop
async def test_a_broken_promise_is_found(runtimes: Runtimes) -> None:
    """PTC-028 an attack that says the wrong ending and the wrong calls is told as two problems."""
    wrong = Attack(name="wrong", lines="", kind="timeout", late=[("send", b"\0\0\0\0")], calls=[1])
    problems = await attack(await runtimes.get("quickjs", False), wrong)
    assert [problem.split(" ")[0] for problem in problems] == ["ended", "the"]


def test_every_attack_has_a_name_of_its_own() -> None:
    """PTC-016 names are unique, and more than thirty malformed wires are among them."""
    names = [one.name for one in ATTACKS]
    assert len(set(names)) == len(names)
    assert sum(name.startswith("args:") for name in names) > 30


def test_the_command_line_refuses_unknown_names() -> None:
    """PTC-028 an unknown attack or engine is a usage error."""
    assert CliRunner().invoke(app, ["no such attack"]).exit_code == 2
    assert CliRunner().invoke(app, ["--engine", "other"]).exit_code == 2
