"""What hosts with real processes must do: nothing is left running, ports are forwarded, SSH hides what it is told."""

import asyncio
import contextlib
import os
import pwd
import secrets
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from jsrun.plugs import ExecError, ExecTimeout, HostError, HostUnavailable
from jsrun.plugs.api import AgentSpawnSpec, ForwardSpec, Host
from jsrun.plugs.hosts import LocalHost, SshHost, UnavailableHost
from tests.plugs.sshd import Server, sshd

_PATIENCE_SECONDS = 20.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One SSH server for all tests of the module."""
    with sshd(tmp_path_factory.mktemp("sshd")) as running:
        yield running


@pytest.fixture(params=["local", "ssh"])
async def host(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Host]:
    """An open host; its workspace is the test's folder."""
    made: Host
    if request.param == "local":
        made = LocalHost(tmp_path)
    else:
        made = SshHost(request.getfixturevalue("server").login, workspace=str(tmp_path))
    yield made
    await made.aclose()


@pytest.fixture
def mark() -> str:
    """A word that no other process knows."""
    return f"mark-{secrets.token_hex(6)}"


def living(mark: str) -> list[str]:
    """Command lines and environments of living processes in which the word stands."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if (entry / "stat").read_text().rpartition(")")[2].split()[0] == "Z":
                continue
            text = ((entry / "cmdline").read_bytes() + b"\n" + (entry / "environ").read_bytes()).decode(
                errors="replace"
            )
            if mark in text:
                found.append(text)
    return found


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition; fails when it takes unreasonably long."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        await asyncio.sleep(0.02)


# Ignores TERM, has a child that does too, and says when both are there.
_STUBBORN = "trap '' TERM; (trap '' TERM; while :; do sleep 0.1; done) & echo up > started; while :; do sleep 0.1; done"


@pytest.mark.plg("PLG-074")
async def test_at_its_limit_a_whole_group_is_ended(host: Host, tmp_path: Path, mark: str) -> None:
    """PLG-074 Also processes that ignore TERM, and background ones."""
    with pytest.raises(ExecTimeout) as caught:
        await host.exec(_STUBBORN, env={"MARK": mark}, timeout=1.0)
    assert (tmp_path / "started").exists()
    assert living(mark) == []
    assert caught.value.result.exit_code == -9


@pytest.mark.plg("PLG-074")
async def test_a_cancelled_command_leaves_nothing(host: Host, tmp_path: Path, mark: str) -> None:
    """PLG-074 The group is gone when the cancellation is through."""
    running = asyncio.create_task(host.exec(_STUBBORN, env={"MARK": mark}))
    await until((tmp_path / "started").exists)
    assert living(mark)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert living(mark) == []


@pytest.mark.plg("PLG-074")
async def test_a_command_cancelled_while_it_starts_leaves_nothing(host: Host, mark: str) -> None:
    """PLG-074 At whatever step the cancellation comes."""
    await host.exec("true")
    for steps in (0, 1, 3, 9):
        running = asyncio.create_task(host.exec("sleep 1000", env={"MARK": mark}))
        for _ in range(steps):
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert living(mark) == []


@pytest.mark.plg("PLG-074")
async def test_a_command_cancelled_twice_is_ended_all_the_same(host: Host, tmp_path: Path, mark: str) -> None:
    """PLG-074 The second cancellation does not spare the group."""
    running = asyncio.create_task(host.exec(_STUBBORN, env={"MARK": mark}))
    await until((tmp_path / "started").exists)
    running.cancel()
    await asyncio.sleep(0)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    await until(lambda: living(mark) == [])


@pytest.mark.plg("PLG-075")
async def test_a_background_process_does_not_hold_a_command_back(host: Host, mark: str) -> None:
    """PLG-075 What the command itself printed is the result, though the pipe is still open."""
    result = await host.exec("echo done; sleep 1000 &", env={"MARK": mark})
    assert result.stdout == "done\n"
    assert living(mark)
    await host.aclose()
    assert living(mark) == []


@pytest.mark.plg("PLG-081")
async def test_what_a_command_left_running_is_killed_when_the_host_closes(
    host: Host, mark: str, caplog: pytest.LogCaptureFixture
) -> None:
    """PLG-081 Also the rest of a group whose leader has ended; with a warning, and without one if nothing is left."""
    await host.exec("sleep 1000 >/dev/null 2>&1 & true", env={"MARK": mark})
    process = await host.spawn(AgentSpawnSpec("/bin/sh", ("-c", "sleep 1000 & wait"), {"MARK": mark}))
    await until(lambda: len(living(mark)) == 3)
    await host.aclose()
    assert await process.wait() < 0
    assert living(mark) == []
    assert [record.message for record in caplog.records if record.levelname == "WARNING"] == [
        f"processes left running on a host ({host.info.kind}) are killed: 2"
    ]


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


async def _through(port: int, data: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    sending = asyncio.create_task(_send(writer, data))
    got = await reader.read(-1)
    await sending
    writer.close()
    return got


async def _send(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(data)
    await writer.drain()
    writer.write_eof()


@pytest.mark.plg("PLG-080")
@pytest.mark.parametrize("direction", ["to_host", "to_runner"])
async def test_a_port_is_forwarded_while_its_context_lasts(host: Host, direction: str) -> None:
    """PLG-080 Both ways, several at once, megabytes, and half-closed; afterwards nobody listens."""
    echo = await asyncio.start_server(_echo, "127.0.0.1", 0)
    target = echo.sockets[0].getsockname()[1]
    if direction == "to_host":
        spec = ForwardSpec("to_host", remote_port=target)
    else:
        spec = ForwardSpec("to_runner", local_port=target)
    data = os.urandom(1024 * 1024)
    async with echo:
        async with host.forward(spec) as forward:
            assert await asyncio.gather(*(_through(forward.port, data) for _ in range(3))) == [data] * 3
            kept_reader, kept_writer = await asyncio.open_connection("127.0.0.1", forward.port)
            kept_writer.write(b"x")
            assert await kept_reader.read(1) == b"x"
        assert await kept_reader.read(1) == b""
        kept_writer.close()
        with pytest.raises(ConnectionRefusedError):
            await _through(forward.port, b"x")


@pytest.mark.plg("PLG-080")
async def test_a_forward_to_nothing_ends_the_connection_only(host: Host) -> None:
    """PLG-080 The listener stays."""
    async with host.forward(ForwardSpec("to_host", remote_port=1)) as forward:
        for _ in range(2):
            assert await _through(forward.port, b"") == b""


@pytest.mark.plg("PLG-077")
async def test_a_host_nobody_uses_never_connects(server: Server) -> None:
    """PLG-077 Neither facts nor closing need a connection, not even to a server that is there."""
    before = server.logins()
    host = SshHost(server.login, workspace="/w", home="/h", tmpdir="/t", os="macos")
    assert (host.info.workspace, host.info.home, host.info.tmpdir, host.info.os) == ("/w", "/h", "/t", "macos")
    host.path("a")
    await host.aclose()
    unreachable = SshHost(replace(server.login, address="192.0.2.1"), workspace="/w")
    assert unreachable.info.workspace == "/w"
    await unreachable.aclose()
    assert server.logins() == before


@pytest.mark.plg("PLG-078")
async def test_twenty_first_uses_make_one_connection(server: Server) -> None:
    """PLG-078 Commands and files alike share it."""
    before = server.logins()
    host = SshHost(server.login, workspace="/")
    # More than the ten sessions that a server opens on one connection by default.
    commands = [host.exec(f"sleep 0.1; echo {number}") for number in range(16)]
    files = [host.path("/").stat() for _ in range(4)]
    results, _ = await asyncio.gather(asyncio.gather(*commands), asyncio.gather(*files))
    assert [result.stdout for result in results] == [f"{number}\n" for number in range(16)]
    await host.aclose()
    assert server.logins() == before + 1


@pytest.mark.plg("PLG-078")
async def test_an_unknown_host_key_is_refused(server: Server, tmp_path: Path) -> None:
    """PLG-078 Unless the check is switched off in so many words; the refusal stays."""
    empty = tmp_path / "known_hosts"
    empty.write_text("")
    login = replace(server.login, known_hosts=empty)
    before = server.logins()
    host = SshHost(login, workspace="/")
    for _ in range(2):
        with pytest.raises(HostError, match="known_hosts"):
            await host.exec("true")
    await host.aclose()
    assert server.logins() == before
    trusting = SshHost(replace(login, insecure_accept_any_host_key=True), workspace="/")
    assert (await trusting.exec("echo in")).stdout == "in\n"
    await trusting.aclose()


@pytest.mark.plg("PLG-078")
async def test_a_lost_connection_is_not_made_again(server: Server) -> None:
    """PLG-078 What was under way and all that follows raises HostError."""
    before = server.logins()
    host = SshHost(server.login, workspace="/")
    process = await host.spawn(AgentSpawnSpec("/bin/sh", ("-c", "echo $PPID $$; exec sleep 1000")))
    connection, program = map(int, (await process.stdout.read(100)).split())
    os.kill(connection, signal.SIGKILL)
    with pytest.raises(HostError, match="lost"):
        await process.wait()
    os.kill(program, signal.SIGKILL)  # nothing could reach it any more
    assert await process.stdout.read(1) == b""
    for attempt in (host.exec("true"), host.path("/").stat()):
        with pytest.raises(HostError):
            await attempt
    await host.aclose()
    assert server.logins() == before + 1


@pytest.mark.plg("PLG-079")
async def test_nothing_told_over_ssh_is_in_a_process_list(server: Server, tmp_path: Path) -> None:
    """PLG-079 Variables, folder and the text of a command; arguments are in the list of the program itself only."""
    folder = tmp_path / f"folder-{secrets.token_hex(6)}"
    folder.mkdir()
    host = SshHost(server.login, workspace=str(folder))
    words = [f"secret-{secrets.token_hex(6)}" for _ in range(3)]
    listing = "for f in /proc/[0-9]*/cmdline; do tr '\\0' ' ' < $f; echo; done 2>/dev/null"
    text = f': {words[0]} "$SECRET"; sleep 0; {listing}; : end'
    shown = (await host.exec(text, env={"SECRET": words[1]})).stdout
    assert "_jsrun_h" in shown  # the fixed line is there, so the list was read
    assert not [word for word in (*words, folder.name) if word in shown]
    spawned = await host.spawn(AgentSpawnSpec("sleep", ("1000", words[2]), {"SECRET": words[1]}))
    await spawned.kill("KILL")
    plain = (await host.exec(["cat", "/proc/self/cmdline"], env={"SECRET": words[1]})).stdout
    assert plain == "cat\0/proc/self/cmdline\0"
    await host.aclose()


@pytest.mark.plg("PLG-079")
async def test_binary_input_arrives_unchanged_over_ssh(server: Server, tmp_path: Path) -> None:
    """PLG-079 Whatever follows the header reaches the program byte for byte."""
    host = SshHost(server.login, workspace=str(tmp_path))
    data = bytes(range(256)) * 2000 + b"\n\0\r\n"
    await host.exec("cat > copy", input=data, env={"X": "a\nb\x81\x88"})
    assert (tmp_path / "copy").read_bytes() == data
    await host.exec(["tee", "copy2"], input=b"\n" + data)
    assert (tmp_path / "copy2").read_bytes() == b"\n" + data
    await host.aclose()


@pytest.mark.plg("PLG-073")
async def test_words_survive_the_way_over_ssh(server: Server, tmp_path: Path) -> None:
    """PLG-073 Line ends, quotes, backslashes and bytes beyond ASCII in arguments, variables, folders and texts."""
    odd = "a'b\"c\\d\n\ne ü\x07 $HOME `id` %s \\n-\n"
    folder = tmp_path / "x\ny 'ü'"
    folder.mkdir()
    host = SshHost(server.login, workspace=str(folder))
    arguments = await host.exec(["printf", "%s", odd])
    assert arguments.stdout == odd
    assert (await host.exec('printf %s "$ODD"', env={"ODD": odd})).stdout == odd
    assert (await host.exec("printf '%s' \"$PWD\"")).stdout == str(folder)
    assert (await host.exec("printf %s 'ü\n'; printf '%s' \"$#$1\"")).stdout == "ü\n0"
    with pytest.raises(HostError, match=r"A\.B"):
        await host.exec("true", env={"A.B": "1"})
    with pytest.raises(ExecError) as caught:
        await host.exec("if")
    assert caught.value.result.exit_code == 2
    await host.aclose()


@pytest.mark.plg("PLG-073")
async def test_probe_asks_the_machine(server: Server) -> None:
    """PLG-073 True facts, over the connection that is used later."""
    before = server.logins()
    host = await SshHost.probe(server.login)
    assert host.info.home == pwd.getpwuid(os.getuid()).pw_dir
    assert host.info.workspace == host.info.home
    assert host.info.kind == "ssh" and host.info.tmpdir.startswith("/")
    assert (await host.exec("pwd")).stdout.strip() == host.info.workspace
    await host.aclose()
    assert server.logins() == before + 1


@pytest.mark.plg("PLG-035")
async def test_the_base_environment_of_this_machine_is_short(tmp_path: Path) -> None:
    """PLG-035 A runner's other variables do not travel."""
    host = LocalHost(tmp_path, environ={"PATH": os.environ["PATH"], "LC_TIME": "C", "API_KEY": "x", "JSRUN_X": "y"})
    shown = (await host.exec("env")).stdout
    await host.aclose()
    assert "LC_TIME=C" in shown and "API_KEY" not in shown and "JSRUN_X" not in shown


@pytest.mark.plg("PLG-023")
async def test_an_unavailable_host_refuses_every_operation() -> None:
    """PLG-023 Each raises HostUnavailable and names the plug."""
    host: Host = UnavailableHost("acme/vm")
    assert host.info.kind == "unavailable"
    path = host.path("/x")
    attempts = [
        host.exec("true"),
        host.spawn(AgentSpawnSpec("true")),
        path.read_bytes(),
        path.write_bytes(b""),
        path.append_bytes(b""),
        path.stat(),
        path.mkdir(),
        path.rename("/y"),
        path.unlink(),
        path.rmdir(),
        path.rmtree(),
        path.chmod(0),
        path.symlink_to("/y"),
        path.readlink(),
    ]
    for attempt in attempts:
        with pytest.raises(HostUnavailable, match="acme/vm"):
            await attempt
    with pytest.raises(HostUnavailable):
        host.forward(ForwardSpec("to_host"))
    await host.aclose()
