"""The removal of everything: whom it visits, what it does on which machine, and what remains if it fails."""

import asyncio
import json
from typing import Any

import pytest

from jsrun.plugs import (
    GONE,
    HostUnavailable,
    MemoryStore,
    NextMisuse,
    PhaseTimeout,
    Plug,
    StateClosed,
    StateUnavailable,
    TeardownInfo,
)
from jsrun.plugs._level import PlugEntry
from tests.plugs.rig import NoteHost, Rig, entries, noting, settle
from tests.plugs.test_lifecycle import seen


def broken(when: str) -> type[Plug]:
    """A plug whose teardown goes wrong `before` or `after` next, or never calls it."""

    class Broken(Plug, name="test/broken"):
        async def teardown(self, next: Any) -> None:
            if when == "before":
                raise OSError("no access")
            if when == "after":
                await next()
                raise OSError("still there")

    return Broken


@pytest.mark.plg("PLG-012")
async def test_load_runs_once_in_a_run_with_teardown_and_the_instances_are_those_of_the_run() -> None:
    """PLG-012"""
    made: list[Any] = []

    class Counting(Plug):
        def load(self) -> None:
            made.append(self)

        async def session(self, next: Any) -> None:
            self.note = "attached"
            await next()

        async def teardown(self, next: Any) -> None:
            assert self.note == "attached" and self is made[0]
            await next()

    end = await Rig(entries(Counting)).perform()
    assert end.state == "ended" and len(made) == 1


@pytest.mark.plg("PLG-013")
async def test_a_teardown_run_loads_and_tears_down_only() -> None:
    """PLG-013"""
    calls: list[str] = []
    numbers: list[tuple[str, int]] = []

    class Numbered(Plug):
        def load(self) -> None:
            numbers.append((self.ctx.run.kind, self.ctx.run.number))

        async def message(self, message: Any, next: Any) -> Any:
            raise AssertionError("no message is seen in a teardown run")

    rig = Rig(entries(noting(calls, "a"), Numbered))
    await rig.perform(stop="idle")
    calls.clear()
    end = await rig.teardown("expired")
    assert calls == ["load a", "restore a", "destroy a: expired"]
    assert numbers == [("start", 1), ("teardown", 2)]
    assert len(rig.agent.specs) == 1
    assert (end.state, end.reason, end.pause) == ("ended", "expired", None)


@pytest.mark.plg("PLG-021")
async def test_teardown_visits_all_plugs_and_the_innermost_is_destroyed_first() -> None:
    """PLG-021"""
    calls: list[str] = []

    class Bad(Plug):
        def load(self) -> None:
            raise OSError("cannot load")

    rig = Rig(entries(noting(calls, "a"), Bad, noting(calls, "c")))
    await rig.perform()
    assert calls == [
        *("load a", "attach a", "pause a: failed"),
        *("restore a", "load c", "restore c", "destroy c: failed", "destroy a: cleanup_failed"),
    ]


@pytest.mark.plg("PLG-021")
async def test_a_plug_whose_load_failed_gets_a_new_instance_and_one_more_try() -> None:
    """PLG-021"""
    tries: list[Any] = []
    torn: list[Any] = []
    states: list[Any] = []

    class Shaky(Plug):
        Persisted = int

        async def load(self) -> None:
            tries.append(self)
            if states:
                with pytest.raises(StateClosed):  # what the first instance left running cannot write any more
                    await states[0].set(1)
            states.append(self.persisted)
            if len(tries) == 1:
                raise OSError("the first try")

        async def teardown(self, next: Any) -> None:
            torn.append(self)
            await next()

    end = await Rig(entries(Shaky)).perform()
    assert len(tries) == 2 and torn == [tries[1]] and tries[0] is not tries[1]
    assert (end.state, end.reason) == ("ended", "failed")


@pytest.mark.plg("PLG-022")
@pytest.mark.parametrize("when", ["before", "after", "never"])
async def test_a_broken_teardown_lets_the_inner_ones_run_and_is_told_outwards(when: str) -> None:
    """PLG-022"""
    outer, inner = seen(), seen()
    rig = Rig(entries(outer, broken(when), inner))
    end = await rig.perform()
    assert inner.torn == [TeardownInfo("closed")]
    (info,) = outer.torn
    assert (info.reason, info.cleanup_failed) == ("closed", True)
    assert isinstance(info.error, NextMisuse if when == "never" else OSError)
    assert (end.state, end.reason) == ("leftover", "closed")


@pytest.mark.plg("PLG-022", "PLG-030")
async def test_a_teardown_past_its_limit_lets_the_inner_ones_run() -> None:
    """PLG-022, PLG-030"""
    never = asyncio.Event()

    class Stuck(Plug):
        async def teardown(self, next: Any) -> None:
            await never.wait()

    outer, inner = seen(), seen()
    rig = Rig(entries(outer, Stuck, inner))
    async with rig.going("teardown"):
        await rig.clock.advance(299)
        assert not inner.torn
        await rig.clock.advance(2)
    assert inner.torn == [TeardownInfo("closed")]
    assert isinstance(outer.torn[0].error, PhaseTimeout)


@pytest.mark.plg("PLG-019", "PLG-022")
async def test_the_first_cleanup_failure_is_the_error_and_the_sessions_own_is_in_also() -> None:
    """PLG-019, PLG-022"""

    class BadPause(Plug):
        async def session(self, next: Any) -> None:
            await next()
            raise OSError("the session")

        async def teardown(self, next: Any) -> None:
            await next()
            raise OSError("the second clean-up")

    outer = seen()
    await Rig(entries(outer, BadPause, broken("after"))).perform()
    (info,) = outer.torn
    assert info.cleanup_failed and info.reason == "failed"
    assert [str(error) for error in (info.error, *info.also)] == ["still there", "the session", "the second clean-up"]


class Handing(Plug, name="test/vm"):
    """Hands a machine inwards, in teardown as the class attribute says."""

    machine = NoteHost("vm")
    in_teardown: Any = "hand"

    async def session(self, next: Any) -> None:
        await next(host=self.machine)

    async def teardown(self, next: Any) -> None:
        if self.in_teardown == "raise":
            raise OSError("the provider is down")
        if self.in_teardown == "hand":
            await next(host=self.machine)
        elif self.in_teardown == "gone":
            await next(host=GONE)
        else:
            await next()


class Removing(Plug, name="test/removing"):
    """Runs a command where it is."""

    async def teardown(self, next: Any) -> None:
        await next()
        await self.ctx.host.exec("rm -rf build")


def handing(how: str) -> type[Handing]:
    """A plug that hands a machine of its own."""

    class Fresh(Handing, name="test/vm"):
        machine = NoteHost("vm")
        in_teardown = how

        def load(self) -> None:
            if how == "bad load" and self.ctx.run.kind == "teardown":
                raise OSError("cannot load")

    return Fresh


@pytest.mark.plg("PLG-023")
@pytest.mark.parametrize("how", ["nothing", "raise", "bad load"])
async def test_where_a_handed_host_is_missing_nothing_inner_runs_elsewhere(how: str) -> None:
    """PLG-023"""
    errors: list[BaseException] = []

    class Cleaning(Plug):
        async def teardown(self, next: Any) -> None:
            info = await next()
            errors.append(info.error)
            try:
                await self.ctx.host.exec("rm -rf build")
            except HostUnavailable as error:
                errors.append(error)
                raise

    vm = handing(how)
    rig = Rig(entries(vm, Cleaning, Removing))
    await rig.perform(stop="idle")
    vm.machine.closes = 0
    end = await rig.teardown()
    assert end.state == "leftover"
    assert [type(error) for error in errors] == [HostUnavailable, HostUnavailable]
    assert all("test/vm (p0)" in str(error) for error in errors)
    assert not rig.host.uses and not vm.machine.uses


@pytest.mark.plg("PLG-023")
async def test_a_host_handed_again_serves_the_inner_teardowns() -> None:
    """PLG-023"""
    vm = handing("hand")
    rig = Rig(entries(vm, Removing))
    await rig.perform(stop="idle")
    vm.machine.closes = 0
    end = await rig.teardown()
    assert end.state == "ended"
    assert vm.machine.uses == ["rm -rf build"] and not rig.host.uses
    assert vm.machine.closes == 1


@pytest.mark.plg("PLG-023")
async def test_what_counts_is_the_last_time_the_chain_went_inwards() -> None:
    """PLG-023 A resume whose attach fails leaves the machine of the run before."""
    runs: list[str] = []

    class Flaky(Plug, name="test/flaky"):
        async def session(self, next: Any) -> None:
            runs.append(self.ctx.run.kind)
            if self.ctx.run.kind == "resume":
                raise OSError("the machine does not answer")
            await next(host=NoteHost("vm"))

    rig = Rig(entries(Flaky, Removing))
    await rig.perform(stop="idle")
    end = await rig.perform("resume")
    assert runs == ["start", "resume"]
    assert end.state == "leftover" and not rig.host.uses


@pytest.mark.plg("PLG-023")
async def test_a_later_session_without_a_machine_leaves_none_to_miss() -> None:
    """PLG-023 Its resume went inwards without one, so the clean-up is for the runner."""

    class Once(Plug):
        async def session(self, next: Any) -> None:
            await next(host=NoteHost("vm") if self.ctx.run.kind == "start" else None)

    rig = Rig(entries(Once, Removing))
    await rig.perform(stop="idle")
    end = await rig.perform("resume")
    assert end.state == "ended" and rig.host.uses == ["rm -rf build"]
    assert [step for step in rig.recorder.steps if "handed" in step[0]] == [("handed", "p0"), ("not handed", "p0")]


@pytest.mark.plg("PLG-024")
async def test_after_gone_a_missing_host_is_no_cleanup_failure() -> None:
    """PLG-024"""

    class Grouped(Plug, name="test/grouped"):
        async def teardown(self, next: Any) -> None:
            await next()
            async with asyncio.TaskGroup() as group:
                group.create_task(self.ctx.host.exec("rm a"))
                group.create_task(self.ctx.host.exec("rm b"))

    outer = seen()
    rig = Rig(entries(outer, handing("gone"), Removing, Grouped))
    end = await rig.perform()
    assert outer.torn == [TeardownInfo("closed")]
    assert end.state == "ended" and not rig.host.uses


@pytest.mark.plg("PLG-024")
async def test_gone_covers_the_machines_inside_of_the_one_that_is_gone() -> None:
    """PLG-024"""

    class Container(Plug, name="test/container"):
        async def session(self, next: Any) -> None:
            await next(host=NoteHost("container"))

        async def teardown(self, next: Any) -> None:
            await self.ctx.host.exec("find the container")
            await next(host=NoteHost("container"))

    rig = Rig(entries(handing("gone"), Container, Removing))
    end = await rig.perform()
    assert end.state == "ended" and not rig.host.uses
    rig = Rig(entries(Container, handing("nothing"), Removing))
    end = await rig.perform()
    assert end.state == "leftover"


@pytest.mark.plg("PLG-024")
async def test_gone_forgives_nothing_further_out() -> None:
    """PLG-024"""
    end = await Rig(entries(handing("nothing"), Removing, handing("gone"))).perform()
    assert end.state == "leftover"


@pytest.mark.plg("PLG-024")
async def test_gone_forgives_nothing_else_and_is_misuse_in_a_session() -> None:
    """PLG-024"""
    end = await Rig(entries(handing("gone"), broken("after"))).perform()
    assert end.state == "leftover"

    class Early(Plug):
        async def session(self, next: Any) -> None:
            await next(host=GONE)

    end = await Rig(entries(Early)).perform()
    assert isinstance(end.error, NextMisuse)


@pytest.mark.plg("PLG-025")
async def test_a_plug_never_loaded_whose_inputs_are_bad_makes_no_leftover() -> None:
    """PLG-025"""

    class Bad(Plug):
        Inputs = dict[str, int]

    outer = seen()
    rig = Rig([PlugEntry(outer, "outer"), PlugEntry(Bad, "bad", lambda names: {"a": "x"})])
    end = await rig.perform()
    assert (end.state, end.reason) == ("ended", "failed")
    assert not outer.torn[0].cleanup_failed


@pytest.mark.plg("PLG-025")
async def test_a_plug_loaded_in_an_earlier_run_that_cannot_be_prepared_makes_a_leftover() -> None:
    """PLG-025"""
    values: list[Any] = [{"a": 1}]

    class Picky(Plug):
        Inputs = dict[str, int]

    rig = Rig([PlugEntry(Picky, "picky", lambda names: values[0])])
    await rig.perform(stop="idle")
    values[0] = {"a": "x"}
    end = await rig.teardown()
    assert end.state == "leftover"


class Keeping(Plug, name="test/keeping"):
    """Keeps a number."""

    Persisted = int

    async def session(self, next: Any) -> None:
        await self.persisted.set((self.persisted.value or 0) + 1)
        await next()


@pytest.mark.plg("PLG-026")
async def test_state_is_gone_after_a_successful_teardown_and_there_after_a_failed_one() -> None:
    """PLG-026"""
    failing = [True]

    class Sometimes(Plug):
        async def teardown(self, next: Any) -> None:
            await next()
            if failing[0]:
                raise OSError("still there")

    store = MemoryStore()
    rig = Rig(entries(Keeping, Sometimes), store=store)
    store.values["s1", "left-the-setup"] = b"1"
    store.values["s2", "p0"] = b"7"
    end = await rig.perform()
    assert end.state == "leftover"
    assert store.values["s1", "p0"] == b"1"
    failing[0] = False
    end = await rig.teardown()
    assert end.state == "ended"
    assert store.values == {("s2", "p0"): b"7"}


@pytest.mark.plg("PLG-069")
async def test_an_inner_plug_cannot_write_once_its_teardown_is_over() -> None:
    """PLG-069"""
    states: list[Any] = []
    errors: list[BaseException] = []

    class Outer(Plug):
        async def teardown(self, next: Any) -> None:
            await next()
            with pytest.raises(StateClosed) as info:
                await states[0].set(7)
            errors.append(info.value)

    class Inner(Keeping, name="test/inner"):
        def load(self) -> None:
            states.append(self.persisted)

    end = await Rig(entries(Outer, Inner)).perform()
    assert end.state == "ended" and len(errors) == 1


@pytest.mark.plg("PLG-026")
async def test_a_store_that_cannot_delete_makes_a_leftover() -> None:
    """PLG-026"""

    class Stubborn(MemoryStore):
        async def delete_session(self, session: str) -> None:
            raise StateUnavailable("read-only")

    end = await Rig(entries(Keeping), store=Stubborn()).perform()
    assert end.state == "leftover" and isinstance(end.error, StateUnavailable)


@pytest.mark.plg("PLG-067")
async def test_state_that_cannot_be_migrated_fails_the_run_and_in_teardown_is_a_cleanup_failure() -> None:
    """PLG-067"""
    store = MemoryStore()
    outer = seen()
    rig = Rig(entries(outer, Keeping), store=store)
    await rig.perform(stop="idle")
    store.values["s1", "p1"] = json.dumps({"an": "object"}).encode()
    end = await rig.perform("resume")
    assert "Persisted" in str(outer.infos[1].error) and "integer" in str(outer.infos[1].error)
    assert outer.torn[0].cleanup_failed and end.state == "leftover"
    assert store.values["s1", "p1"] == b'{"an": "object"}'
    await settle()


@pytest.mark.plg("PLG-026", "PLG-065")
async def test_a_store_that_hangs_holds_no_run_up(caplog: pytest.LogCaptureFixture) -> None:
    """PLG-026 PLG-065 Begun writes have 30 s, the removal of the state too; then the run goes on without them."""

    class Hanging(MemoryStore):
        begun = 0

        async def put(self, session: str, plug: str, value: bytes) -> None:
            self.begun += 1
            await asyncio.Event().wait()

        async def delete_session(self, session: str) -> None:
            await asyncio.Event().wait()

    class Writing(Plug, name="test/writing"):
        Persisted = int

        async def teardown(self, next: Any) -> None:
            self.writes = [asyncio.create_task(self.persisted.set(n)) for n in range(2)]
            await next()

    store = Hanging()
    rig = Rig(entries(Writing), store=store)
    async with rig.going() as run:
        await rig.agent.running.wait()
        rig.run.stop("closed")
        await rig.clock.advance(29.0)
        assert not run.done()
        await rig.clock.advance(2.0)
        assert "it is not known whether the state is stored" in caplog.text and store.begun == 1
        await rig.clock.advance(30.0)
    end = run.result()
    assert end.state == "leftover" and isinstance(end.error, TimeoutError)
    await settle()
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.plg("PLG-037", "PLG-095")
async def test_a_second_signal_cuts_the_time_of_a_host_that_is_being_closed(caplog: pytest.LogCaptureFixture) -> None:
    """PLG-037 PLG-095 It has 30 s, and 5 s from the signal on."""

    class Hanging(NoteHost):
        async def aclose(self) -> None:
            self.closes += 1
            await asyncio.Event().wait()

    class Handing(Plug, name="test/handing"):
        async def session(self, next: Any) -> None:
            await next(host=Hanging("vm"))

        async def teardown(self, next: Any) -> None:
            await next(host=GONE)

    rig = Rig(entries(Handing))
    async with rig.going() as run:
        await rig.agent.running.wait()
        rig.run.stop("cancelled")
        await settle()
        rig.run.hurry()
        await rig.clock.advance(4.0)
        assert not run.done() and "could not be closed" not in caplog.text
        await rig.clock.advance(2.0)
    assert run.result().state == "ended" and "could not be closed" in caplog.text
