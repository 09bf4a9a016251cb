"""Whatever goes wrong at whatever level: the promises that hold for every run."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jsrun.plugs import GONE, EndReason, HostUnavailable, Plug
from jsrun.plugs._level import PlugEntry
from tests.plugs.rig import PATIENCE, NoteHost, Rig

PHASES = ("load", "attach", "pause", "restore", "destroy")


@dataclass(frozen=True)
class Character:
    """How a plug behaves: where it fails, and what it hands inwards."""

    fails: frozenset[str]
    hands: bool
    hands_again: str


@dataclass
class Story:
    """What the plugs of a run did, in order."""

    steps: list[tuple[str, int]] = field(default_factory=list)
    machines: list[NoteHost] = field(default_factory=list)
    where: list[tuple[int, str]] = field(default_factory=list)


def made(character: Character, index: int, story: Story) -> type[Plug]:
    """A plug of this character that adds to the story."""

    def step(name: str) -> None:
        story.steps.append((name, index))
        if name in character.fails:
            raise OSError(f"{name} {index}")

    class Made(Plug, name=f"test/{index}"):
        async def load(self) -> None:
            await asyncio.sleep(0)
            step("load")

        async def session(self, next: Any) -> None:
            step("attach")
            host = NoteHost(f"vm {index}") if character.hands else None
            story.machines.extend([host] if host is not None else [])
            info = await next(host=host)
            assert host is None or host.closes == 1
            story.steps.append((f"saw {info.reason}", index))
            step("pause")

        async def teardown(self, next: Any) -> None:
            step("restore")
            host: Any = None
            if character.hands and character.hands_again == "hand":
                host = NoteHost(f"vm {index}")
                story.machines.append(host)
            elif character.hands and character.hands_again == "gone":
                host = GONE
            await next(host=host)
            step("destroy")
            try:
                where = (await self.ctx.host.exec("clean")).stdout
            except HostUnavailable as error:
                where = f"unavailable {error.plug}"
            story.where.append((index, where))

    return Made


characters = st.builds(
    Character,
    fails=st.frozensets(st.sampled_from(PHASES), max_size=2),
    hands=st.booleans(),
    hands_again=st.sampled_from(["hand", "gone", "nothing"]),
)
reasons: st.SearchStrategy[EndReason] = st.sampled_from(["idle", "closed", "cancelled", "timeout"])


def expected_place(plugs: list[Character], index: int) -> set[str]:
    """Where the clean-up of a plug may run: on the next machine outside that is there, or nowhere."""
    for outer in range(index - 1, -1, -1):
        if plugs[outer].hands:
            return {f"vm {outer}", f"unavailable test/{outer} (p{outer})"}
    return {"runner"}


@pytest.mark.plg("PLG-010", "PLG-014", "PLG-015", "PLG-021", "PLG-022", "PLG-023", "PLG-037")
@settings(max_examples=150, deadline=None)
@given(st.lists(characters, min_size=1, max_size=4), reasons)
def test_every_run_keeps_its_promises(plugs: list[Character], reason: EndReason) -> None:
    """PLG-010, PLG-014, PLG-015, PLG-021, PLG-022, PLG-023, PLG-037"""

    async def story_of() -> tuple[Story, Any, Rig]:
        story = Story()
        entries = [PlugEntry(made(plug, index, story), f"p{index}") for index, plug in enumerate(plugs)]
        rig = Rig(entries)
        return story, await rig.perform(stop=reason), rig

    story, end, rig = asyncio.run(story_of())
    attached = [index for step, index in story.steps if step == "attach"]
    whole = [index for index in attached if "attach" not in plugs[index].fails]
    paused = [index for step, index in story.steps if step == "pause"]
    # Attached inwards without a gap, paused outwards without a gap.
    assert attached == list(range(len(attached)))
    assert paused == whole[::-1]
    # The agent ran exactly if every plug was attached.
    assert bool(rig.agent.specs) == (len(whole) == len(plugs))
    # Every machine was closed once, whatever happened.
    assert all(machine.closes == 1 for machine in story.machines)
    assert rig.host.closes == 1
    # Whoever is outside of a failure saw it.
    failed = [
        index for step, index in story.steps if step in ("load", "attach", "pause") and step in plugs[index].fails
    ]
    deepest = max(failed, default=-1)
    for index in range(len(whole)):
        saw = [step for step, each in story.steps if each == index and step.startswith("saw")]
        assert saw == [f"saw {'failed' if index < deepest else reason}"]
    if not failed and reason == "idle":
        assert end.state == "paused" and not any(step == "restore" for step, _ in story.steps)
        return
    assert end.reason == ("failed" if failed else reason)
    # Everything that can be loaded is visited, and destroyed innermost first.
    visited = [index for step, index in story.steps if step == "restore"]
    assert visited == [index for index, plug in enumerate(plugs) if "load" not in plug.fails]
    destroyed = [index for step, index in story.steps if step == "destroy"]
    assert destroyed == [index for index in visited if "restore" not in plugs[index].fails][::-1]
    # No clean-up ran on another machine than its own.
    handed = {index for index in range(len(attached)) if plugs[index].hands and index in whole}
    for index, where in story.where:
        if all(not plugs[outer].hands or outer in handed for outer in range(index)):
            assert where in expected_place(plugs, index)
    broken = [index for step, index in story.steps if step in ("restore", "destroy") and step in plugs[index].fails]
    if broken:
        assert end.state == "leftover" and end.teardown is not None and end.teardown.cleanup_failed
    if end.state == "ended":
        assert rig.recorder.steps[-1] == ("ended", "ended", end.reason)


def restless(index: int, turns: int, dies: bool, story: Story) -> type[Plug]:
    """A plug that takes its time everywhere, with a child that may die while the plug is in `next`."""

    class Restless(Plug, name=f"test/{index}"):
        async def load(self) -> None:
            await self._wait()

        async def session(self, next: Any) -> None:
            story.steps.append(("attach", index))
            await self._wait()
            host = NoteHost(f"vm {index}")
            story.machines.append(host)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._child())
                try:
                    await next(host=host)
                finally:
                    assert host.closes == 1
                    story.steps.append(("pause", index))
            await self._wait()

        async def teardown(self, next: Any) -> None:
            await self._wait()
            await next(host=GONE)
            story.steps.append(("destroy", index))

        async def _wait(self) -> None:
            for _ in range(turns):
                await asyncio.sleep(0)

        async def _child(self) -> None:
            await self._wait()
            if dies:
                raise OSError(f"child {index}")

    return Restless


@pytest.mark.plg("PLG-018", "PLG-020", "PLG-021", "PLG-037")
@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=1, max_size=4),
    st.integers(0, 80),
    reasons,
    st.booleans(),
)
def test_a_stop_may_come_at_any_moment(
    plugs: list[tuple[int, bool]], moment: int, reason: EndReason, cancelled: bool
) -> None:
    """PLG-018, PLG-020, PLG-021, PLG-037"""

    async def story_of() -> tuple[Story, Any, Rig, bool]:
        story = Story()
        rig = Rig([PlugEntry(restless(index, *plug, story), f"p{index}") for index, plug in enumerate(plugs)])
        task = asyncio.create_task(rig.make("start").perform())
        for _ in range(moment):
            await asyncio.sleep(0)
        in_time = cancelled and task.cancel()
        rig.run.stop(reason)
        (done,) = await asyncio.gather(asyncio.wait_for(task, PATIENCE), return_exceptions=True)
        return story, done, rig, in_time

    story, end, rig, in_time = asyncio.run(story_of())
    assert isinstance(end, asyncio.CancelledError) == in_time
    if not rig.recorder.steps:
        assert in_time and moment == 0  # its task never began
        return
    attached = [index for step, index in story.steps if step == "attach"]
    assert attached == list(range(len(attached)))
    assert [index for step, index in story.steps if step == "pause"] == attached[::-1]
    assert all(machine.closes == 1 for machine in story.machines)
    assert rig.host.closes == 1
    last = rig.recorder.steps[-1]
    destroyed = [index for step, index in story.steps if step == "destroy"]
    assert destroyed == (list(range(len(plugs)))[::-1] if last[:2] == ("ended", "ended") else [])
    assert last[:2] == ("ended", "ended") or last == ("ended", "paused", "idle")
