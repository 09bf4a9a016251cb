"""Confinement: which system calls end a process, what an outcome says is in force, and what happens without it."""

import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

import ptc
from ptc.protocol.exits import EXIT_GUEST_FAULT, EXIT_MEASURE_FAILED
from tests.ptc.processes import images_of, needs_filter, needs_proc, runs_of, spares_ready, until

pytestmark = [pytest.mark.asyncio(loop_scope="module"), needs_proc]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sacrifice() -> AsyncIterator[ptc.Runtime]:
    """A runtime whose processes make the system calls they are asked for."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ptc._launch._BOOTSTRAP", Path(__file__).parent / "guest" / "bootstrap.py")
        async with ptc.Runtime(spares=0) as runtime:
            await runtime.report()
            yield runtime


def _ask(call: str) -> str:
    return f'console.log("before"); console.log("!{call}"); return 1'


def _failure(outcome: ptc.Outcome) -> ptc.Failure:
    assert outcome.failure is not None
    return outcome.failure


# --- what ends a run ---


@needs_filter
@pytest.mark.parametrize(
    "call",
    [
        "open",
        "create",
        "stat",
        "unlink",
        "socket",
        "socket-unix",
        "fork",
        "execve",
        "kill",
        "kill-all",
        "kill-group",
        "tgkill-other",
        "ptrace",
        "mmap-executable",
        "namespace",
        "thread",
        "setrlimit",
        "pipe",
    ],
)
async def test_a_forbidden_call_ends_the_run_with_sigsys(sacrifice: ptc.Runtime, call: str) -> None:
    """PTC-062 opening a file, a socket, a new process or a program from inside a run dies with SIGSYS."""
    outcome = await sacrifice.run(_ask(call))
    failure = _failure(outcome)
    assert (failure.kind, failure.message) == ("worker-exit", "forbidden system call (SIGSYS)")
    assert outcome.exit == ptc.ExitStatus(signal=signal.SIGSYS)
    assert outcome.isolation is not None
    assert outcome.isolation.seccomp == "filter"
    assert [entry.text for entry in outcome.logs] == ["before"]


@needs_filter
@pytest.mark.parametrize("call", ["socket", "execve", "kill-all", "ptrace", "mmap-executable", "namespace", "thread"])
async def test_a_forbidden_call_ends_an_image_with_sigsys(sacrifice: ptc.Runtime, call: str) -> None:
    """PTC-062 the process that compiles the program is confined too."""
    with pytest.raises(ptc.LoadError, match=r"while the program was loaded: forbidden system call \(SIGSYS\)"):
        await sacrifice.load(f"//!{call}\nreturn 1")


@needs_filter
@pytest.mark.parametrize("call", ["open", "create"])
async def test_an_image_is_refused_every_file_but_lives(sacrifice: ptc.Runtime, call: str) -> None:
    """PTC-062 an image opens no file; it is only told so, because newer Pythons try when they fork."""
    with pytest.raises(ptc.LoadError, match="PermissionError"):
        await sacrifice.load(f"//!{call}\nreturn 1")


async def test_a_crash_is_named_after_its_signal(sacrifice: ptc.Runtime) -> None:
    """PTC-116 abort() stays a SIGABRT under the filter, for a run may signal itself."""
    assert _failure(await sacrifice.run(_ask("abort"))).message.startswith("the process was ended by SIGABRT")


async def test_a_fault_of_the_guest_is_told_and_is_no_forbidden_call(sacrifice: ptc.Runtime) -> None:
    """PTC-062 reporting an exception of ours opens no file."""
    outcome = await sacrifice.run(_ask("fault"))
    assert outcome.exit == ptc.ExitStatus(code=EXIT_GUEST_FAULT)
    assert "RuntimeError: a fault of the guest" in _failure(outcome).message
    assert "bootstrap.py" in outcome.native


@needs_filter
async def test_a_run_that_cannot_confine_itself_does_not_begin(sacrifice: ptc.Runtime) -> None:
    """PTC-062 a filter that was promised and cannot be loaded ends the run before the program."""
    image = await sacrifice.load("//!no-filter\nreturn 1")
    outcome = await image.run()
    await image.unload()
    assert _failure(outcome).kind == "sandbox-unavailable"
    assert outcome.exit == ptc.ExitStatus(code=EXIT_MEASURE_FAILED)


# --- what is said to be in force ---


async def _waiting(runtime: ptc.Runtime, image: ptc.Image) -> int:
    """The process id of the one spare of the one image, once nothing else runs."""
    await spares_ready(image, 1)
    await until(lambda: len(runs_of(runtime)) == 1, "only the spare is left")
    return runs_of(runtime)[0]


def _status(pid: int, name: str) -> str:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(line.split()[1] for line in lines if line.startswith(f"{name}:"))


@needs_filter
@pytest.mark.needs("fork")
async def test_a_waiting_run_is_under_both_filters(engine: str) -> None:
    """PTC-062 before it knows its input, a run is as confined as it will ever be."""
    async with ptc.Runtime(engine=engine, spares=1, require={"fork", "rlimits", "seccomp"}) as runtime:
        image = await runtime.load("return 1")
        run = await _waiting(runtime, image)
        (parent,) = images_of(runtime)
        for pid, filters in ((parent, 1), (run, 2)):
            assert _status(pid, "NoNewPrivs") == "1"
            assert _status(pid, "Seccomp") == "2"
            assert int(_status(pid, "Seccomp_filters")) == filters + int(_status(os.getpid(), "Seccomp_filters"))
        assert (await image.run()).ok


@needs_filter
@pytest.mark.needs("filter")
async def test_the_report_names_the_calls_that_were_tried(engine: str) -> None:
    """PTC-146 what the doctor shows was seen to happen in a process under the filter."""
    async with ptc.Runtime(engine=engine) as runtime:
        seccomp = (await runtime.report())["seccomp"]
    assert seccomp == {
        "level": "filter",
        "denied": ["open", "socket", "fork", "execve", "kill", "ptrace", "mmap (executable)"],
        "problem": "",
    }


# --- without ---


@pytest.mark.parametrize(
    ("library", "problem"),
    [
        ("libseccomp-not-here.so.2", "libseccomp-not-here.so.2 is not installed"),
        ("libm.so.6", "libm.so.6 is not libseccomp, or too old"),
    ],
)
@pytest.mark.needs("filter")
async def test_without_libseccomp_runs_work_and_say_so(
    engine: str, library: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PTC-063 without libseccomp the run works and reports `no-new-privs`."""
    monkeypatch.setattr("ptc._launch._SECCOMP_LIBRARY", library)
    async with ptc.Runtime(engine=engine, spares=1) as runtime:
        image = await runtime.load("return 1")
        outcome = await image.run()
        run = await _waiting(runtime, image)
        assert _status(run, "NoNewPrivs") == "1"
        assert _status(run, "Seccomp_filters") == _status(os.getpid(), "Seccomp_filters")
        report = await runtime.report()
    assert outcome.value == 1
    assert outcome.isolation is not None
    assert outcome.isolation.seccomp == "no-new-privs"
    assert report["seccomp"] == {"level": "no-new-privs", "denied": [], "problem": problem}


async def test_a_required_filter_that_is_missing_is_a_failure(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """PTC-063 with `require={"seccomp"}` it is `sandbox-unavailable`."""
    monkeypatch.setattr("ptc._launch._SECCOMP_LIBRARY", "libseccomp-not-here.so.2")
    async with ptc.Runtime(engine=engine, require={"seccomp"}) as runtime:
        with pytest.raises(ptc.LoadError) as caught:
            await runtime.load("return 1")
        assert caught.value.failure.kind == "sandbox-unavailable"
        assert _failure(await runtime.run("return 1")).kind == "sandbox-unavailable"
