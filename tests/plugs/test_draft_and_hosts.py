"""The draft of the agent, outputs, and hosts handed inwards."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from jsrun.plugs import (
    AgentFrozen,
    AgentSpawnSpec,
    AgentSpecError,
    HostClosed,
    NextMisuse,
    PauseInfo,
    PhaseTimeout,
    Plug,
)
from jsrun.plugs._level import PlugEntry
from jsrun.plugs.draft import AgentDraft
from jsrun.plugs.lifecycle import Lifecycle
from jsrun.plugs.runner import AgentBase
from tests.plugs.rig import NoteHost, Rig, ScriptedAgent, View, entries
from tests.plugs.test_lifecycle import seen


def draft(**changes: Any) -> AgentDraft:
    """A draft of `agent --acp`."""
    values: dict[str, Any] = {"command": "agent", "args": ["--acp"], "env": {}, "cwd": None}
    return AgentDraft(**{**values, **changes}, workspace=lambda: "/work")


@pytest.mark.plg("PLG-032")
async def test_inner_plugs_see_the_draft_of_outer_ones_and_the_agent_starts_from_the_innermost() -> None:
    """PLG-032"""
    got: list[Any] = []

    class Outer(Plug):
        async def session(self, next: Any) -> None:
            self.ctx.agent.env["LEVEL"] = "outer"
            self.ctx.agent.args.append("--outer")
            await next()
            got.append(("outer", dict(self.ctx.agent.env), list(self.ctx.agent.args)))

    class Inner(Plug):
        async def session(self, next: Any) -> None:
            got.append(("inner", dict(self.ctx.agent.env), list(self.ctx.agent.args)))
            self.ctx.agent.command = "wrapped"
            self.ctx.agent.args += ["--inner"]
            self.ctx.agent.env = {"LEVEL": "inner", "GONE": None}
            await next()

    rig = Rig(entries(Outer, Inner))
    await rig.perform()
    assert got == [
        ("inner", {"LEVEL": "outer"}, ["--acp", "--outer"]),
        ("outer", {"LEVEL": "outer"}, ["--acp", "--outer"]),
    ]
    assert rig.agent.specs == [
        AgentSpawnSpec("wrapped", ("--acp", "--outer", "--inner"), {"LEVEL": "inner", "GONE": None}, "/work")
    ]


@pytest.mark.plg("PLG-033")
async def test_after_next_the_draft_is_frozen_also_through_references_taken_before() -> None:
    """PLG-033"""
    refused: list[str] = []

    class Late(Plug):
        async def session(self, next: Any) -> None:
            agent = self.ctx.agent
            args, env = agent.args, agent.env
            env["KEPT"] = "yes"
            await next()

            def change(name: str, value: Any) -> None:
                setattr(agent, name, value)

            attempts: tuple[tuple[str, Callable[[], Any]], ...] = (
                ("command", lambda: change("command", "other")),
                ("args", lambda: change("args", [])),
                ("env", lambda: change("env", {})),
                ("cwd", lambda: change("cwd", "/")),
                ("append", lambda: args.append("x")),
                ("clear", lambda: args.clear()),
                ("slice", lambda: args.__setitem__(slice(0, 1), ["x"])),
                ("item", lambda: env.__setitem__("A", "b")),
                ("pop", lambda: env.pop("KEPT")),
                ("update", lambda: env.update(A="b")),
            )
            for what, attempt in attempts:
                with pytest.raises(AgentFrozen):
                    attempt()
                refused.append(what)
            assert (agent.command, list(args), dict(env)) == ("agent", ["--acp"], {"KEPT": "yes"})

    rig = Rig(entries(Late))
    end = await rig.perform()
    assert end.reason == "closed" and len(refused) == 10
    assert rig.agent.specs[0].env == {"KEPT": "yes"}


@pytest.mark.plg("PLG-034")
async def test_an_unset_cwd_is_the_workspace_of_the_levels_host_and_a_set_one_survives_a_host_switch() -> None:
    """PLG-034"""
    for set_outside in (False, True):
        seen_cwd: list[str] = []

        class Outer(Plug):
            async def session(self, next: Any, seen_cwd: list[str] = seen_cwd, set_outside: bool = set_outside) -> None:
                seen_cwd.append(self.ctx.agent.cwd)
                if set_outside:
                    self.ctx.agent.cwd = "/project"
                await next(host=NoteHost("vm", "/on-vm"))
                seen_cwd.append(self.ctx.agent.cwd)

        class Inner(Plug):
            async def session(self, next: Any, seen_cwd: list[str] = seen_cwd) -> None:
                seen_cwd.append(self.ctx.agent.cwd)
                await next()

        rig = Rig(entries(Outer, Inner))
        await rig.perform()
        expected = ["/work", "/project", "/project"] if set_outside else ["/work", "/on-vm", "/work"]
        assert seen_cwd == expected
        assert rig.agent.specs[0].cwd == expected[1]


@pytest.mark.plg("PLG-035")
async def test_the_base_environment_holds_what_is_named_and_no_variable_of_our_own() -> None:
    """PLG-035"""
    got: list[Any] = []

    class Looking(Plug):
        Inputs = dict[str, list[str]]

        async def session(self, next: Any) -> None:
            got.append((dict(self.ctx.agent.env), sorted(self.ctx.runner_env), self.inputs["names"]))
            await next()

    rig = Rig(
        [PlugEntry(Looking, "p0", lambda names: {"names": sorted(names["env"])})],
        base=AgentBase("agent", (), {"A": "from setup", "B": "set"}, ("A", "KEY_*", "JSRUN_*", "MISSING")),
        env={"A": "inherited", "KEY_1": "one", "PATH": "/bin", "JSRUN_STATE_KEY": "secret"},
    )
    await rig.perform()
    visible = ["A", "KEY_1", "PATH"]
    assert got == [({"A": "from setup", "B": "set", "KEY_1": "one"}, visible, visible)]


@pytest.mark.plg("PLG-032")
async def test_each_phase_begins_with_a_new_base_draft() -> None:
    """PLG-032"""
    got: list[dict[str, str | None]] = []

    class Editing(Plug):
        async def session(self, next: Any) -> None:
            self.ctx.agent.env["SESSION"] = "1"
            await next()

        async def teardown(self, next: Any) -> None:
            got.append(dict(self.ctx.agent.env))
            self.ctx.agent.env["TEARDOWN"] = "1"
            await next()

    class Inner(Plug):
        async def teardown(self, next: Any) -> None:
            got.append(dict(self.ctx.agent.env))
            await next()

    await Rig(entries(Editing, Inner)).perform()
    assert got == [{}, {"TEARDOWN": "1"}]


@pytest.mark.plg("PLG-032")
def test_a_draft_refuses_what_no_process_can_be_started_with() -> None:
    """PLG-032"""
    for changes in (
        {"command": "a\0b"},
        {"command": 3},
        {"args": "text"},
        {"args": [1]},
        {"env": {"A=B": "x"}},
        {"env": {"": "x"}},
        {"env": {"A": 1}},
        {"cwd": "relative"},
    ):
        with pytest.raises(AgentSpecError):
            draft(**changes)
    with pytest.raises(AgentSpecError, match="no agent to start"):
        draft(command=None).spec()
    assert "secret" not in repr(draft(env={"KEY": "secret"})) + repr(draft(env={"KEY": "secret"}).env)


@pytest.mark.plg("PLG-032")
async def test_an_agent_that_cannot_be_is_refused_before_anything_is_done() -> None:
    """PLG-032"""
    rig = Rig(entries(seen()), base=AgentBase("agent", (), {"A=B": "x"}))
    with pytest.raises(AgentSpecError, match="A=B"):
        await rig.perform()
    assert not rig.recorder.steps


@pytest.mark.plg("PLG-036")
async def test_an_output_after_next_or_without_id_warns_and_publishes_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """PLG-036"""
    got: list[Any] = []

    class Early(Plug):
        def load(self) -> None:
            self.ctx.set_output("in_load", "1")

        async def session(self, next: Any) -> None:
            self.ctx.set_output("before", "2")
            await next()
            self.ctx.set_output("after", "3")

    class Nameless(Plug):
        def load(self) -> None:
            self.ctx.set_output("lost", "4")

    class Reader(Plug):
        async def session(self, next: Any) -> None:
            await next()

        async def teardown(self, next: Any) -> None:
            got.append({name: dict(place.outputs) for name, place in self.ctx.setup.items()})
            await next()

    await Rig([PlugEntry(Early, "early"), PlugEntry(Nameless), PlugEntry(Reader, "reader")]).perform()
    assert got == [{"early": {"in_load": "1", "before": "2"}}]
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 2 and "output=lost" in warnings[0] and "output=after" in warnings[1]


@pytest.mark.plg("PLG-036")
async def test_an_output_has_a_name_and_a_text_of_bounded_size() -> None:
    """PLG-036"""
    refused: list[Any] = []

    class Wrong(Plug):
        def load(self) -> None:
            for name, value in (("1a", "x"), ("", "x"), ("a" * 65, "x"), ("a", 1), ("a", "x" * 16_385)):
                with pytest.raises(ValueError):
                    self.ctx.set_output(name, value)  # type: ignore[arg-type]  # that is the point
                refused.append(name)
            self.ctx.set_output("a" * 64, "x" * 16_384)

    end = await Rig(entries(Wrong)).perform()
    assert end.reason == "closed" and len(refused) == 5


class _Vm(Plug, name="test/vm"):
    """Hands `machine` in both phases and notes how often it is closed when `next` returns."""

    machine: NoteHost
    closes: list[int]

    async def session(self, next: Any) -> None:
        assert isinstance(self.ctx.host, View) and self.ctx.host.host.name == "runner"
        await next(host=self.machine)
        self.closes.append(self.machine.closes)
        assert self.ctx.host.host.name == "runner"

    async def teardown(self, next: Any) -> None:
        self.machine.closes = 0
        await next(host=self.machine)
        self.closes.append(self.machine.closes)


def vm(close_error: BaseException | None = None) -> type[_Vm]:
    """A plug with a machine of its own."""

    class Fresh(_Vm, name="test/vm"):
        machine = NoteHost("vm", close_error=close_error)
        closes: list[int] = []  # noqa: RUF012  # one per class made here

    return Fresh


@pytest.mark.plg("PLG-037")
@pytest.mark.parametrize("failing", [False, True])
async def test_a_handed_host_serves_the_inside_and_is_closed_once_before_the_plug_goes_on(failing: bool) -> None:
    """PLG-037"""
    open_inside: list[bool] = []

    class Inner(Plug):
        async def session(self, next: Any) -> None:
            assert (await self.ctx.host.exec("hostname")).stdout == "vm"
            await next()
            open_inside.append(not self.ctx.host.closed)
            if failing:
                raise OSError("inside")

        async def teardown(self, next: Any) -> None:
            await next()
            open_inside.append(not self.ctx.host.closed)
            if failing:
                raise OSError("inside")

    outer = vm()
    rig = Rig(entries(outer, Inner))
    await rig.perform()
    assert outer.closes == [1, 1]
    assert open_inside == [True, True]
    assert rig.agent.hosts == [outer.machine]
    assert ("handed", "p0") in rig.recorder.steps


@pytest.mark.plg("PLG-037")
async def test_a_handed_host_is_closed_when_a_stop_came_first() -> None:
    """PLG-037"""
    attaching, go_on = asyncio.Event(), asyncio.Event()
    machine = NoteHost("vm")

    class Slow(Plug):
        async def session(self, next: Any) -> None:
            attaching.set()
            await go_on.wait()
            await next(host=machine)
            assert machine.closes == 1

    rig = Rig(entries(Slow))
    async with rig.going() as task:
        await attaching.wait()
        rig.run.stop("closed")
        go_on.set()
    assert task.result().reason == "closed" and machine.closes == 1


@pytest.mark.plg("PLG-037")
async def test_a_handed_host_is_closed_before_a_cancellation_reaches_the_plug() -> None:
    """PLG-037"""
    machine = NoteHost("vm")
    closes: list[int] = []

    class Impatient(Plug):
        async def session(self, next: Any) -> None:
            try:
                async with asyncio.timeout(0.01):
                    await next(host=machine)
            except TimeoutError:
                closes.append(machine.closes)

    rig = Rig(entries(Impatient))
    async with rig.going():
        await rig.agent.running.wait()
    assert closes == [1]


@pytest.mark.plg("PLG-038")
async def test_a_bound_view_or_a_closed_host_cannot_be_handed_on() -> None:
    """PLG-038"""
    closed = NoteHost("vm")
    await closed.aclose()

    class View_(Plug):
        async def session(self, next: Any) -> None:
            await next(host=self.ctx.host)

    class Runner(Plug):
        async def session(self, next: Any) -> None:
            await next(host=self.ctx.runner)

    class Closed(Plug):
        async def session(self, next: Any) -> None:
            await next(host=closed)

    for plug, error in ((View_, NextMisuse), (Runner, NextMisuse), (Closed, HostClosed)):
        outer = seen()
        rig = Rig(entries(outer, plug))
        await rig.perform()
        assert isinstance(outer.infos[0].error, error)
        assert not rig.agent.specs
    assert closed.closes == 1


@pytest.mark.plg("PLG-038")
@pytest.mark.parametrize("error", [OSError("cannot hang up"), SystemExit("cannot hang up")])
async def test_a_failing_close_is_logged_and_changes_no_info(
    caplog: pytest.LogCaptureFixture, error: BaseException
) -> None:
    """PLG-038"""
    outer, machine = seen(), vm(error)
    end = await Rig(entries(outer, machine)).perform()
    assert outer.infos == [PauseInfo("closed")]
    assert end.state == "ended"
    assert caplog.text.count("cannot hang up") >= 2


@pytest.mark.plg("PLG-038")
async def test_a_close_that_hangs_is_left_after_half_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    """PLG-038"""

    class Hanging(NoteHost):
        async def aclose(self) -> None:
            self.closes += 1
            await asyncio.Event().wait()

    machine = Hanging("vm")

    class Vm(Plug):
        async def session(self, next: Any) -> None:
            await next(host=machine)

        async def teardown(self, next: Any) -> None:
            await next()

    outer = seen()
    rig = Rig(entries(outer, Vm))
    async with rig.going():
        await rig.agent.running.wait()
        rig.run.stop("closed")
        await rig.clock.advance(29)
        assert not outer.infos
        await rig.clock.advance(2)
    assert outer.infos == [PauseInfo("closed")]
    assert "could not be closed" in caplog.text and "not done in time" in caplog.text


@pytest.mark.plg("PLG-014")
async def test_the_agent_step_gets_the_innermost_host_unbound() -> None:
    """PLG-014, PLG-037 The agent is spawned on the host itself, with a spec that says all."""
    machine = vm()

    async def failing(lifecycle: Lifecycle) -> PauseInfo:
        raise PhaseTimeout("x")

    rig = Rig(entries(machine), agent=ScriptedAgent(failing))
    end = await rig.perform()
    assert rig.agent.hosts == [machine.machine] and not rig.agent.hosts[0].bound
    assert rig.agent.specs[0].cwd == "/work"
    assert isinstance(end.error, PhaseTimeout)
