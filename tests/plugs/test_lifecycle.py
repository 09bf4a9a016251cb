"""Runs that start and pause: order, infos, failures, cancellation, limits."""

import asyncio
import contextlib
import logging
from typing import Any

import pytest

from jsrun.plugs import NextMisuse, NotResumable, PauseInfo, PhaseTimeout, Plug, PlugCancelled, TeardownInfo
from jsrun.plugs._level import PlugEntry
from jsrun.plugs.lifecycle import Lifecycle
from jsrun.plugs.runner import MemoryRecorder
from tests.plugs.rig import PATIENCE, NoteHost, Rig, ScriptedAgent, entries, noting, settle


class Seen(Plug, name="test/seen"):
    """Keeps what `next` returned on the class, which each test sub-classes."""

    infos: list[PauseInfo]
    torn: list[TeardownInfo]

    async def session(self, next: Any) -> None:
        self.infos.append(await next())

    async def teardown(self, next: Any) -> None:
        self.torn.append(await next())


def seen() -> type[Seen]:
    """A plug whose class keeps the infos it was given."""

    class Fresh(Seen, name="test/seen"):
        infos: list[PauseInfo] = []  # noqa: RUF012  # one list per class made here
        torn: list[TeardownInfo] = []  # noqa: RUF012

    return Fresh


@pytest.mark.plg("PLG-010")
async def test_plugs_are_loaded_and_attached_inwards_and_paused_outwards() -> None:
    """PLG-010"""
    calls: list[str] = []

    async def agent(lifecycle: Lifecycle) -> PauseInfo:
        calls.append("agent")
        return await lifecycle.stopped()

    rig = Rig(entries(noting(calls, "a"), noting(calls, "b"), noting(calls, "c")), agent=ScriptedAgent(agent))
    end = await rig.perform(stop="idle")
    assert calls == [
        *("load a", "attach a", "load b", "attach b", "load c", "attach c", "agent"),
        *("pause c: idle", "pause b: idle", "pause a: idle"),
    ]
    assert (end.state, end.reason, end.teardown) == ("paused", "idle", None)
    assert end.pause is not None and end.pause.may_resume


@pytest.mark.plg("PLG-010")
async def test_each_step_is_recorded_before_it_is_made() -> None:
    """PLG-010 The journal has the same order as the steps."""
    calls: list[str] = []
    rig = Rig(entries(noting(calls, "a"), noting(calls, "b")))
    await rig.perform(stop="closed")
    assert rig.recorder.steps == [
        ("run", "start", "1"),
        *(("load", "p0"), ("attach", "p0"), ("load", "p1"), ("attach", "p1")),
        *(("stopping", "closed"), ("pause", "p1"), ("pause", "p0")),
        *(("tearing", "closed"), ("teardown", "p0"), ("teardown", "p1")),
        ("ended", "ended", "closed"),
    ]


@pytest.mark.plg("PLG-011")
async def test_inputs_use_an_output_that_an_outer_plug_set_before_next() -> None:
    """PLG-011"""
    got: list[Any] = []

    class Outer(Plug):
        async def session(self, next: Any) -> None:
            self.ctx.set_output("address", "10.0.0.7")
            await next()

    class Inner(Plug):
        Inputs = dict[str, str]

        def load(self) -> None:
            got.append((self.inputs, self.ctx.setup["outer"].outputs["address"]))

    inner = PlugEntry(Inner, "inner", lambda names: {"to": names["setup"]["outer"]["outputs"]["address"]})
    await Rig([PlugEntry(Outer, "outer"), inner]).perform()
    assert got == [({"to": "10.0.0.7"}, "10.0.0.7")]


@pytest.mark.plg("PLG-014")
async def test_next_tells_a_failure_of_an_inner_attach_the_agent_or_an_inner_pause_without_raising() -> None:
    """PLG-014"""

    class BadAttach(Plug):
        async def session(self, next: Any) -> None:
            raise OSError("no disk")

    class BadPause(Plug):
        async def session(self, next: Any) -> None:
            await next()
            raise OSError("no network")

    async def bad_agent(lifecycle: Lifecycle) -> PauseInfo:
        raise OSError("no agent")

    for inner, agent, text in (
        (BadAttach, None, "no disk"),
        (BadPause, None, "no network"),
        (None, bad_agent, "no agent"),
    ):
        outer = seen()
        plugs = [outer] if inner is None else [outer, inner]
        end = await Rig(entries(*plugs), agent=ScriptedAgent(agent)).perform()
        (info,) = outer.infos
        assert (info.reason, str(info.error), info.may_resume) == ("failed", text, False)
        assert (end.reason, end.error) == ("failed", info.error)


@pytest.mark.plg("PLG-015")
async def test_after_a_failed_attach_the_outer_plugs_pause_and_nothing_inner_begins() -> None:
    """PLG-015"""
    calls: list[str] = []

    class Bad(Plug):
        async def session(self, next: Any) -> None:
            raise OSError("no disk")

    rig = Rig(entries(noting(calls, "a"), noting(calls, "b"), Bad, noting(calls, "d")))
    await rig.perform()
    assert calls[:6] == ["load a", "attach a", "load b", "attach b", "pause b: failed", "pause a: failed"]
    assert "attach d" not in calls and not rig.agent.specs
    assert calls[6:] == [  # the teardown reaches the one that was never attached, too
        *("restore a", "restore b", "load d", "restore d"),
        *("destroy d: failed", "destroy b: failed", "destroy a: failed"),
    ]


@pytest.mark.plg("PLG-015")
async def test_a_plug_that_cannot_be_prepared_fails_the_run() -> None:
    """PLG-015 A failing `load`, `__init__` or `with:` is a failed attach."""

    class BadLoad(Plug):
        def load(self) -> None:
            raise OSError("load")

    class BadInit(Plug):
        def __init__(self) -> None:
            raise OSError("init")

    class BadInputs(Plug, name="test/bad"):
        Inputs = dict[str, int]

    for plug, text in ((BadLoad, "load"), (BadInit, "init"), (BadInputs, "test/bad: a: ")):
        outer = seen()
        rig = Rig([PlugEntry(outer, "outer"), PlugEntry(plug, "bad", lambda names: {"a": "x"} if names else {})])
        if plug is not BadInputs:
            rig.entries = entries(outer, plug)
        await rig.perform()
        assert text in str(outer.infos[0].error)


@pytest.mark.plg("PLG-016")
async def test_a_pause_that_raises_for_idle_ends_the_session_in_the_same_run() -> None:
    """PLG-016"""

    class Bad(Plug):
        async def session(self, next: Any) -> None:
            info = await next()
            assert info.may_resume
            raise OSError("cannot stop the machine")

    outer, inner = seen(), seen()
    end = await Rig(entries(outer, Bad, inner)).perform(stop="idle")
    assert inner.infos[0].reason == "idle"
    assert outer.infos[0].reason == "failed" and not outer.infos[0].may_resume
    assert end.state == "ended" and end.reason == "failed"
    assert [info.reason for info in (*outer.torn, *inner.torn)] == ["failed", "failed"]
    assert outer.torn[0].error is outer.infos[0].error


@pytest.mark.plg("PLG-017")
async def test_returning_without_next_fails_the_run() -> None:
    """PLG-017"""

    class Forgetful(Plug, name="test/forgetful"):
        async def session(self, next: Any) -> None:
            pass

    outer = seen()
    await Rig(entries(outer, Forgetful)).perform()
    assert isinstance(outer.infos[0].error, NextMisuse)
    assert "test/forgetful (p1)" in str(outer.infos[0].error)


@pytest.mark.plg("PLG-017")
async def test_a_second_next_raises_in_the_caller() -> None:
    """PLG-017"""
    caught: list[BaseException] = []

    class Twice(Plug):
        async def session(self, next: Any) -> None:
            await next()
            with pytest.raises(NextMisuse) as info:
                await next()
            caught.append(info.value)

    end = await Rig(entries(Twice)).perform(stop="idle")
    assert caught and end.reason == "idle"


@pytest.mark.plg("PLG-017")
async def test_a_handler_that_ends_while_next_is_pending_fails_after_the_inside_paused() -> None:
    """PLG-017"""
    calls: list[str] = []

    class Hasty(Plug):
        async def session(self, next: Any) -> None:
            self.pending = asyncio.create_task(next())
            await rig.agent.running.wait()

    class Slow(Plug):
        async def session(self, next: Any) -> None:
            await next()
            for _ in range(20):
                await asyncio.sleep(0)
            calls.append("slow")

    outer = seen()
    rig = Rig(entries(outer, noting(calls, "b"), Hasty, Slow))
    async with rig.going() as task:
        pass
    end = task.result()
    assert end.reason == "failed" and isinstance(end.error, NextMisuse)
    assert outer.infos == [PauseInfo("failed", end.error)]
    assert calls[:4] == ["load b", "attach b", "slow", "pause b: failed"]


@pytest.mark.plg("PLG-018")
async def test_a_task_group_child_that_dies_fails_the_session_after_the_inside_paused_in_full() -> None:
    """PLG-018"""
    order: list[str] = []
    dying = asyncio.Event()
    inner = seen()

    class Watcher(Plug):
        async def session(self, next: Any) -> None:
            async def child() -> None:
                await dying.wait()
                raise OSError("the tunnel broke")

            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(child())
                    await next()
            finally:
                order.append("watcher")

    class Slow(Plug):
        async def session(self, next: Any) -> None:
            await next()
            for _ in range(20):
                await asyncio.sleep(0)
            order.append("slow")

    outer = seen()
    rig = Rig(entries(outer, Watcher, Slow, inner))
    async with rig.going() as task:
        await rig.agent.running.wait()
        dying.set()
    end = task.result()
    assert order == ["slow", "watcher"]
    assert isinstance(inner.infos[0].error, PlugCancelled)
    error = outer.infos[0].error
    assert isinstance(error, ExceptionGroup) and str(error.exceptions[0]) == "the tunnel broke"
    assert end.error is error


@pytest.mark.plg("PLG-017")
async def test_what_a_handler_raises_while_next_is_pending_is_the_failure() -> None:
    """PLG-017"""

    class Hasty(Plug):
        async def session(self, next: Any) -> None:
            self.pending = asyncio.create_task(next())
            await rig.agent.running.wait()
            raise OSError("cannot wait")

    outer = seen()
    rig = Rig(entries(outer, Hasty))
    async with rig.going():
        pass
    assert str(outer.infos[0].error) == "cannot wait" and outer.infos[0].also == ()


@pytest.mark.plg("PLG-018", "PLG-019")
async def test_an_attach_that_fails_because_the_outside_was_cancelled_is_told_second() -> None:
    """PLG-018, PLG-019"""
    attaching = asyncio.Event()

    class Watcher(Plug):
        async def session(self, next: Any) -> None:
            async def child() -> None:
                await attaching.wait()
                raise OSError("the tunnel broke")

            async with asyncio.TaskGroup() as group:
                group.create_task(child())
                await next()

    class Attaching(Plug):
        async def session(self, next: Any) -> None:
            attaching.set()
            await self.ctx.stopping.wait()
            raise OSError("not attached")

    outer, middle = seen(), seen()
    await Rig(entries(outer, Watcher, middle, Attaching)).perform()
    assert isinstance(middle.infos[0].error, PlugCancelled)
    assert [str(error) for error in middle.infos[0].also] == ["not attached"]
    assert isinstance(outer.infos[0].error, ExceptionGroup)
    assert [str(error) for error in outer.infos[0].also] == ["not attached"]


@pytest.mark.plg("PLG-018")
async def test_a_handler_that_swallows_its_cancellation_has_still_failed() -> None:
    """PLG-018 A timeout of the plug's own around `next` stops the run as failed."""

    class Impatient(Plug):
        async def session(self, next: Any) -> None:
            try:
                async with asyncio.timeout(0.01):
                    await next()
            except TimeoutError:
                pass

    outer = seen()
    rig = Rig(entries(outer, Impatient))
    async with rig.going() as task:
        await rig.agent.running.wait()
    assert isinstance(outer.infos[0].error, PlugCancelled)
    assert task.result().reason == "failed"


@pytest.mark.plg("PLG-019")
async def test_of_two_failures_the_first_is_the_error_and_both_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    """PLG-019"""

    class First(Plug):
        async def session(self, next: Any) -> None:
            raise OSError("the first")

    class Second(Plug):
        async def session(self, next: Any) -> None:
            await next()
            raise OSError("the second")

    class Third(Plug):
        async def session(self, next: Any) -> None:
            await next()
            raise OSError("the third")

    outer = seen()
    with caplog.at_level(logging.ERROR, "jsrun.plugs"):
        end = await Rig(entries(outer, Third, Second, First)).perform()
    info = outer.infos[0]
    assert [str(error) for error in (info.error, *info.also)] == ["the first", "the second", "the third"]
    assert all(text in caplog.text for text in ("the first", "the second", "the third"))
    assert end.teardown is not None and str(end.teardown.error) == "the first"


@pytest.mark.plg("PLG-014", "PLG-019")
async def test_a_handler_may_raise_anything() -> None:
    """PLG-014, PLG-019 SystemExit does not end the process."""

    class Exiting(Plug):
        async def session(self, next: Any) -> None:
            raise SystemExit(3)

    outer = seen()
    await Rig(entries(outer, Exiting)).perform()
    assert isinstance(outer.infos[0].error, SystemExit)


@pytest.mark.plg("PLG-020")
async def test_a_stop_during_attach_cancels_nothing_and_reaches_no_inner_plug() -> None:
    """PLG-020"""
    calls: list[str] = []
    attaching, go_on = asyncio.Event(), asyncio.Event()

    class Slow(Plug):
        async def session(self, next: Any) -> None:
            attaching.set()
            await go_on.wait()
            calls.append(f"noticed {self.ctx.stopping.reason}")
            info = await next()
            calls.append(f"slow {info.reason}")

    rig = Rig(entries(noting(calls, "a"), Slow, noting(calls, "c")))
    async with rig.going():
        await attaching.wait()
        rig.run.stop("cancelled")
        await settle()
        go_on.set()
    assert calls[:5] == ["load a", "attach a", "noticed cancelled", "slow cancelled", "pause a: cancelled"]
    assert "attach c" not in calls and not rig.agent.specs
    assert "destroy c: cancelled" in calls


@pytest.mark.plg("PLG-014", "PLG-031")
async def test_an_agent_that_ends_by_itself_completes_the_session() -> None:
    """PLG-014, PLG-031"""
    reasons: list[Any] = []

    class Noticing(Plug):
        async def session(self, next: Any) -> None:
            info = await next()
            reasons.append((info.reason, self.ctx.stopping.reason))

    async def agent(lifecycle: Lifecycle) -> PauseInfo:
        return PauseInfo("completed")

    rig = Rig(entries(Noticing), agent=ScriptedAgent(agent))
    async with rig.going() as task:
        pass
    assert reasons == [("completed", "completed")]
    assert (task.result().state, task.result().reason) == ("ended", "completed")
    assert ("stopping", "completed") in rig.recorder.steps


@pytest.mark.plg("PLG-019")
async def test_a_failure_while_the_agent_is_stopped_for_another_reason_counts() -> None:
    """PLG-019"""

    async def agent(lifecycle: Lifecycle) -> PauseInfo:
        info = await lifecycle.stopped()
        lifecycle.fail(OSError("the chain broke"))
        return info

    outer = seen()
    end = await Rig(entries(outer), agent=ScriptedAgent(agent)).perform(stop="idle")
    assert outer.infos[0].reason == "failed" and str(outer.infos[0].error) == "the chain broke"
    assert end.state == "ended"


@pytest.mark.plg("PLG-028")
async def test_an_end_asked_for_while_an_idle_pause_unwinds_follows_it() -> None:
    """PLG-028"""
    pausing, go_on = asyncio.Event(), asyncio.Event()

    class Slow(Plug):
        async def session(self, next: Any) -> None:
            await next()
            pausing.set()
            await go_on.wait()

    outer = seen()
    rig = Rig(entries(outer, Slow))
    async with rig.going() as task:
        await rig.agent.running.wait()
        rig.run.stop("idle")
        await pausing.wait()
        rig.run.stop("cancelled")
        rig.run.stop("closed")
        go_on.set()
    end = task.result()
    assert outer.infos[0].reason == "idle" and outer.infos[0].may_resume
    assert outer.torn == [TeardownInfo("cancelled")]
    assert (end.state, end.reason) == ("ended", "cancelled")


class Stiff(Plug, name="test/stiff"):
    """A plug that cannot be resumed."""

    resumable = False
    loads: list[str] = []  # noqa: RUF012  # emptied by each test

    def load(self) -> None:
        self.loads.append("load")


@pytest.mark.plg("PLG-029")
async def test_a_plug_that_cannot_be_resumed_refuses_a_pausing_policy_and_a_resume() -> None:
    """PLG-029"""
    Stiff.loads.clear()
    rig = Rig(entries(Stiff), may_pause=True)
    for kind, text in (("start", "policy"), ("resume", "can be ended")):
        with pytest.raises(NotResumable, match=text) as info:
            await rig.perform(kind)  # type: ignore[arg-type]  # the literals of the loop
        assert info.value.plugs == ("test/stiff",)
    assert not Stiff.loads and not rig.recorder.steps


@pytest.mark.plg("PLG-029")
async def test_a_forced_pause_of_such_a_plug_is_made_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """PLG-029"""
    with caplog.at_level(logging.WARNING, "jsrun.plugs"):
        end = await Rig(entries(Stiff)).perform(stop="idle")
    assert end.state == "paused"
    assert "test/stiff" in caplog.text


@pytest.mark.plg("PLG-030")
@pytest.mark.parametrize("phase", ["prepare", "attach", "pause"])
async def test_a_handler_past_its_limit_fails(phase: str) -> None:
    """PLG-030"""
    never = asyncio.Event()

    class Stuck(Plug, name="test/stuck"):
        async def load(self) -> None:
            if phase == "prepare":
                await never.wait()

        async def session(self, next: Any) -> None:
            if phase == "attach":
                await never.wait()
            await next()
            if phase == "pause":
                await never.wait()

    limits = {"prepare": 60.0, "attach": 600.0, "pause": 120.0}
    outer = seen()
    rig = Rig(entries(outer, Stuck))
    async with rig.going():
        await settle()
        rig.run.stop("closed") if phase == "pause" else None
        await rig.clock.advance(limits[phase] - 1)
        assert not outer.infos
        await rig.clock.advance(2)
        await settle()
        assert isinstance(outer.infos[0].error, PhaseTimeout)
        assert f"{limits[phase]:g} s" in str(outer.infos[0].error)
        never.set()  # in teardown `load` is tried once more


@pytest.mark.plg("PLG-030")
async def test_a_handler_past_its_limit_that_goes_on_reaches_nothing_inner() -> None:
    """PLG-030"""
    reasons: list[str] = []

    class Late(Plug):
        async def session(self, next: Any) -> None:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                reasons.append((await next()).reason)

    calls: list[str] = []
    rig = Rig(entries(Late, noting(calls, "b")))
    async with rig.going() as task:
        await settle()
        await rig.clock.advance(601)
    assert reasons == ["failed"] and not rig.agent.specs and "attach b" not in calls
    assert isinstance(task.result().error, PhaseTimeout)


@pytest.mark.plg("PLG-030")
async def test_time_inside_next_does_not_count() -> None:
    """PLG-030"""
    outer = seen()
    rig = Rig(entries(outer))
    async with rig.going():
        await rig.agent.running.wait()
        await rig.clock.advance(100_000)
        assert not outer.infos
        rig.run.stop("idle")
    assert outer.infos[0].reason == "idle"


@pytest.mark.plg("PLG-030")
async def test_a_handler_that_ignores_its_cancellation_is_abandoned(caplog: pytest.LogCaptureFixture) -> None:
    """PLG-030"""
    release = asyncio.Event()
    late: list[BaseException] = []

    class Deaf(Plug, name="test/deaf"):
        async def session(self, next: Any) -> None:
            while not release.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await release.wait()
            try:
                await next()
            except NextMisuse as error:
                late.append(error)

    outer = seen()
    rig = Rig(entries(outer, Deaf))
    async with rig.going() as task:
        await settle()
        await rig.clock.advance(600)
        assert not outer.infos
        await rig.clock.advance(5.1)
    assert isinstance(outer.infos[0].error, PhaseTimeout)
    assert "abandoned" in caplog.text and "test/deaf" in caplog.text
    assert task.result().state == "ended"
    assert rig.run.lifecycle.left_behind
    release.set()
    await settle()
    assert late and not rig.run.lifecycle.left_behind


@pytest.mark.plg("PLG-030")
async def test_a_handler_left_behind_touches_no_later_phase() -> None:
    """PLG-030 Abandoned in attach, it goes on, calls `next` and raises while the same plug is being torn down."""
    release = asyncio.Event()
    late: list[BaseException] = []

    class Deaf(Plug):
        async def session(self, next: Any) -> None:
            while not release.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await release.wait()
            try:
                await next()
            except NextMisuse as error:
                late.append(error)
            raise OSError("too late")

        async def teardown(self, next: Any) -> None:
            release.set()
            await settle()
            assert late
            await next()

    calls: list[str] = []
    rig = Rig(entries(Deaf, noting(calls, "b")))
    async with rig.going() as task:
        await settle()
        await rig.clock.advance(606)
    end = task.result()
    assert end.state == "ended" and isinstance(end.error, PhaseTimeout)
    assert calls == ["load b", "restore b", "destroy b: failed"]


@pytest.mark.plg("PLG-030")
async def test_the_limit_of_a_later_phase_outlives_a_handler_left_behind() -> None:
    """PLG-030"""
    release, never = asyncio.Event(), asyncio.Event()

    class Deaf(Plug):
        async def session(self, next: Any) -> None:
            while not release.is_set():
                with contextlib.suppress(asyncio.CancelledError):
                    await release.wait()

        async def teardown(self, next: Any) -> None:
            release.set()
            await never.wait()

    rig = Rig(entries(Deaf))
    async with rig.going() as task:
        await settle()
        await rig.clock.advance(606)
        await rig.clock.advance(301)
    end = task.result()
    assert end.state == "leftover" and end.teardown is not None and "300 s" in str(end.teardown.error)


@pytest.mark.plg("PLG-030")
@pytest.mark.parametrize("kind", ["start", "teardown"])
async def test_a_plug_that_took_too_long_to_be_prepared_is_not_attached_afterwards(kind: Any) -> None:
    """PLG-030"""
    calls: list[str] = []

    class Slow(Plug):
        async def load(self) -> None:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()

        async def session(self, next: Any) -> None:
            calls.append("session")
            await next()

        async def teardown(self, next: Any) -> None:
            calls.append("teardown")
            await next()

    rig = Rig(entries(Slow))
    async with rig.going(kind):
        await settle()
        await rig.clock.advance(61)
    assert calls == (["teardown"] if kind == "start" else [])


@pytest.mark.plg("PLG-031")
async def test_stopping_is_set_before_pause_code_and_fresh_in_teardown() -> None:
    """PLG-031"""
    notices: list[Any] = []

    class Noticing(Plug):
        async def session(self, next: Any) -> None:
            stopping = self.ctx.stopping
            notices.append((stopping.is_set(), stopping.reason))
            waiter = asyncio.create_task(stopping.wait())
            await next()
            notices.append((stopping.is_set(), await waiter))

        async def teardown(self, next: Any) -> None:
            notices.append((self.ctx.stopping.is_set(), self.ctx.stopping.reason))
            await next()

    await Rig(entries(Noticing)).perform(stop="timeout")
    assert notices == [(False, None), (True, "timeout"), (False, None)]


@pytest.mark.plg("PLG-031")
async def test_in_teardown_notice_is_given_ten_seconds_before_the_limit_or_at_a_second_signal() -> None:
    """PLG-031"""
    for hurried in (False, True):
        noticed = asyncio.Event()

        class Slow(Plug):
            async def teardown(self, next: Any, noticed: asyncio.Event = noticed) -> None:
                await next()
                await self.ctx.stopping.wait()
                noticed.set()

        rig = Rig(entries(Slow))
        task = asyncio.create_task(rig.make("teardown").perform())
        await settle()
        if hurried:
            rig.run.hurry()
        else:
            await rig.clock.advance(289)
            assert not noticed.is_set()
            await rig.clock.advance(1.5)
        end = await asyncio.wait_for(task, PATIENCE)
        assert noticed.is_set() and end.state == "ended"


@pytest.mark.plg("PLG-031", "PLG-095")
async def test_a_teardown_begun_after_a_second_signal_has_notice_from_the_start() -> None:
    """PLG-031, PLG-095"""
    notices: list[bool] = []

    class Noticing(Plug):
        def load(self) -> None:
            notices.append(self.ctx.stopping.is_set())

    rig = Rig(entries(Noticing))
    run = rig.make("teardown")
    run.hurry()
    end = await asyncio.wait_for(run.perform(), PATIENCE)
    assert notices == [True] and end.state == "ended"


@pytest.mark.plg("PLG-095")
async def test_a_second_signal_cuts_the_limits_that_remain() -> None:
    """PLG-095 The part that runs now, and those to come, get 5 s."""
    never = asyncio.Event()

    class Stuck(Plug):
        async def session(self, next: Any) -> None:
            await next()
            await never.wait()

        async def teardown(self, next: Any) -> None:
            await never.wait()

    rig = Rig(entries(Stuck))
    async with rig.going() as task:
        await rig.agent.running.wait()
        rig.run.stop("cancelled")
        await settle()
        rig.run.hurry()
        await rig.clock.advance(5.1)
        await rig.clock.advance(5.1)
        await settle()
    assert task.result().state == "leftover"


@pytest.mark.plg("PLG-095")
async def test_cancelling_the_run_stops_it_and_tears_down() -> None:
    """PLG-095 The task that performs a run may be cancelled; the clean-up is made all the same."""
    calls: list[str] = []
    rig = Rig(entries(noting(calls, "a")))
    task = asyncio.create_task(rig.make("start").perform())
    await rig.agent.running.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, PATIENCE)
    assert calls[-2:] == ["restore a", "destroy a: cancelled"]
    assert rig.host.closes == 1


class BrokenJournal(MemoryRecorder):
    """Cannot write one kind of step."""

    def __init__(self, broken: str) -> None:
        super().__init__()
        self.broken = broken

    def __getattribute__(self, name: str) -> Any:
        value = object.__getattribute__(self, name)
        if name != "broken" and name == self.broken:
            raise OSError(f"no space for {name}")
        return value


@pytest.mark.plg("PLG-014")
@pytest.mark.parametrize("step", ["loaded", "attached", "handed", "stopping", "paused", "torn"])
async def test_a_step_that_cannot_be_recorded_fails_the_run_and_all_is_removed_that_can_be(step: str) -> None:
    """PLG-014 What must be recorded first is not done; pausing and removing go on."""
    calls: list[str] = []

    class Handing(Plug):
        async def session(self, next: Any) -> None:
            await next(host=NoteHost("vm"))

        async def teardown(self, next: Any) -> None:
            await next(host=NoteHost("vm"))

    outer = seen()
    rig = Rig(entries(outer, Handing, noting(calls, "c")), recorder=BrokenJournal(step))
    end = await rig.perform()
    assert end.error is not None and step in str(end.error)
    assert end.reason == ("closed" if step == "torn" else "failed")
    if step in ("stopping", "paused"):
        assert calls[:3] == ["load c", "attach c", "pause c: failed"] and end.state == "ended"
    elif step == "torn":
        assert outer.infos == [PauseInfo("closed")] and end.state == "leftover"
    else:
        assert "attach c" not in calls and not rig.agent.specs


@pytest.mark.plg("PLG-014")
@pytest.mark.parametrize("step", ["run_started", "tearing", "ended"])
async def test_a_run_that_cannot_be_recorded_as_a_whole_raises(step: str) -> None:
    """PLG-014"""
    calls: list[str] = []
    rig = Rig(entries(noting(calls, "a")), recorder=BrokenJournal(step))
    with pytest.raises(OSError, match=step):
        await rig.perform()
    assert rig.host.closes == 1
    assert ("load a" in calls, "restore a" in calls) == (step != "run_started", step == "ended")


async def test_infos_refuse_reasons_and_errors_that_do_not_fit() -> None:
    """PLG-014 What a plug is told is consistent."""
    error = OSError()
    for wrong in (("expired", None), ("idle", error), ("failed", None), ("bored", None)):
        with pytest.raises(ValueError):
            PauseInfo(*wrong)
    for torn in (("idle", None, False), ("closed", error, False), ("closed", None, True), ("failed", None, False)):
        with pytest.raises(ValueError):
            TeardownInfo(*torn)
    assert PauseInfo("idle").may_resume and not PauseInfo("completed").may_resume
