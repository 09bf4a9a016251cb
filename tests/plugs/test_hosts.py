"""What every host does alike: files, commands, processes. Memory hosts have their commands scripted."""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from jsrun.plugs import ExecError, ExecTimeout, HostClosed, HostError
from jsrun.plugs.api import AgentSpawnSpec, ForwardSpec, Host
from jsrun.plugs.hosts import BoundHost, LocalHost, MemoryHost, SshHost
from jsrun.plugs.hosts._memory_process import MemoryIO
from jsrun.plugs.hosts.memory import ExecCall, Ran
from tests.plugs.sshd import Server, sshd

pytestmark = pytest.mark.plg("PLG-073")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One SSH server for all tests of the module."""
    with sshd(tmp_path_factory.mktemp("sshd")) as running:
        yield running


@pytest.fixture(params=["local", "memory", "ssh"])
async def host(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Host]:
    """An open host with an empty workspace."""
    made: Host
    if request.param == "local":
        made = LocalHost(tmp_path)
    elif request.param == "memory":
        made = _scripted(MemoryHost())
    else:
        made = SshHost(request.getfixturevalue("server").login, workspace=str(tmp_path))
    yield made
    await made.aclose()


async def _echo(io: MemoryIO) -> int:
    while data := await io.stdin.read(65536):
        await io.stdout.write(data)
    await io.stderr.write(b"bye")
    return 3


def _scripted(host: MemoryHost) -> MemoryHost:
    def environment(call: ExecCall) -> Ran:
        return Ran(stdout=f"{call.env.get('GREETING', '')}|{call.env.get('HOME', 'none')}|{call.cwd}\n")

    host.on("cat", lambda call: Ran(stdout=call.input))
    host.on("echo out; echo err >&2; exit 3", Ran(3, "out\n", "err\n"))
    host.on(["printf", "%s|", "a b", "$HOME", "", "c\nd'e", "ü"], Ran(stdout="a b|$HOME||c\nd'e|ü|"))
    host.on('printf \'%s|%s|%s\\n\' "$GREETING" "${HOME-none}" "$PWD"', environment)
    host.on(re.compile("^kill -s KILL"), Ran(-9))
    host.on("printf 'a\\377b'", Ran(stdout=b"a\xffb"))
    host.on("head -c 100000 /dev/zero", Ran(stdout=bytes(100_000)))

    async def sleep(call: ExecCall) -> Ran:
        await asyncio.Event().wait()
        return Ran()

    host.on("sleep 1000", sleep)
    host.program("/bin/sh", _echo)

    async def sleeper(io: MemoryIO) -> None:
        await asyncio.Event().wait()

    host.program("sleep", sleeper)
    return host


async def test_files_are_written_read_and_listed(host: Host) -> None:
    """PLG-073 Contents come back byte for byte; listing, facts and kinds are right."""
    top = host.path(host.info.workspace)
    folder = top / "a b" / "ü"
    await folder.mkdir(parents=True)
    await folder.mkdir(exist_ok=True)
    data = bytes(range(256)) * 1000
    assert await (folder / "file").write_bytes(data) == 256_000
    await (folder / "file").append_text("end")
    assert await (folder / "file").read_bytes() == data + b"end"
    assert (await (folder / "file").stat()).size == 256_003
    await (folder / "file").chmod(0o640)
    assert (await (folder / "file").stat()).mode == 0o640
    await (folder / "link").symlink_to("file")
    assert [path.name async for path in folder.iterdir()] == ["file", "link"]
    assert await (folder / "link").is_symlink() and await (folder / "link").is_file()
    assert str(await (folder / "link").readlink()) == "file"
    assert (await (folder / "link").lstat()).kind == "symlink"
    await (folder / "other").write_text("x")
    await (folder / "other").rename(folder / "file")
    assert await (folder / "file").read_text() == "x"
    await (folder / "touched").touch()
    assert await (folder / "touched").read_bytes() == b""
    assert await top.is_dir() and not await (top / "nothing").exists()
    await (top / "a b").rmtree()
    assert not await (top / "a b").exists()
    await (top / "a b").rmtree(missing_ok=True)


async def test_patterns_find_what_is_below_a_folder(host: Host) -> None:
    """PLG-073 `glob` and `rglob` as pathlib's, without following symlinks; names as pathlib's."""
    top = host.path(host.info.workspace)
    for name in ("a/b/c.txt", "a/d.txt", "a/e.md"):
        await (top / name).parent.mkdir(parents=True, exist_ok=True)
        await (top / name).write_text(name)
    await (top / "a" / "again").symlink_to(top / "a")

    async def found(pattern: str) -> list[str]:
        return [str(path.relative_to(top)) async for path in top.glob(pattern)]

    assert await found("*/*.txt") == ["a/d.txt"]
    assert await found("**/*.txt") == ["a/d.txt", "a/b/c.txt"]
    assert await found("**/**/c.txt") == await found("a/b/c.txt") == ["a/b/c.txt"]
    assert await found("**") == [".", "a", "a/b"]
    assert await found("none/*") == await found("a/d.txt/*") == []
    assert [path.name async for path in top.rglob("*.md")] == ["e.md"]
    for pattern in ("", "/*"):
        with pytest.raises(ValueError, match="A pattern is relative"):
            await found(pattern)
    path = top / "a" / "x.tar.gz"
    assert path.suffixes == [".tar", ".gz"] and path.with_stem("y").name == "y.gz" and path.match("*.gz")
    assert path.parents[:2] == (top / "a", top) and path.is_relative_to(top) and path.as_posix() == str(path)


async def test_a_tree_is_removed_without_following_links(host: Host) -> None:
    """PLG-073 What a link in a removed tree leads to stays."""
    top = host.path(host.info.workspace)
    await (top / "kept").mkdir()
    await (top / "kept" / "file").write_text("x")
    await (top / "gone").mkdir()
    await (top / "gone" / "link").symlink_to(top / "kept")
    with pytest.raises(NotADirectoryError):
        await (top / "gone" / "link").rmtree()
    await (top / "gone").rmtree()
    assert await (top / "kept" / "file").read_text() == "x"


async def test_errors_of_files_are_pythons_own(host: Host) -> None:
    """PLG-073 The same exception types everywhere."""
    top = host.path(host.info.workspace)
    await (top / "file").write_text("x")
    await (top / "dir").mkdir()
    await (top / "full").mkdir()
    await (top / "full" / "child").mkdir()
    with pytest.raises(FileNotFoundError):
        await (top / "none").read_bytes()
    with pytest.raises(FileNotFoundError):
        await (top / "none" / "file").write_text("x")
    with pytest.raises(FileNotFoundError):
        await (top / "none").stat()
    with pytest.raises(FileNotFoundError):
        await (top / "none").unlink()
    with pytest.raises(FileNotFoundError):
        await (top / "none").rename(top / "other")
    with pytest.raises(FileNotFoundError):
        _ = [path async for path in (top / "none").iterdir()]
    with pytest.raises(FileExistsError):
        await (top / "dir").mkdir()
    with pytest.raises(FileExistsError):
        await (top / "file").mkdir(exist_ok=True)
    with pytest.raises(FileExistsError):
        await (top / "file").symlink_to("dir")
    with pytest.raises(IsADirectoryError):
        await (top / "dir").read_bytes()
    with pytest.raises(IsADirectoryError):
        await (top / "dir").write_bytes(b"")
    with pytest.raises(IsADirectoryError):
        await (top / "dir").unlink()
    with pytest.raises(NotADirectoryError):
        await (top / "file").rmdir()
    with pytest.raises(NotADirectoryError):
        _ = [path async for path in (top / "file").iterdir()]
    with pytest.raises(NotADirectoryError):
        await (top / "file" / "below").read_bytes()
    with pytest.raises(OSError, match="not empty"):
        await (top / "full").rmdir()
    with pytest.raises(IsADirectoryError):
        await (top / "file").rename(top / "dir")
    with pytest.raises(NotADirectoryError):
        await (top / "dir").rename(top / "file")
    with pytest.raises(OSError, match="Invalid argument"):
        await (top / "file").readlink()


async def test_a_command_runs_in_a_shell_or_in_none(host: Host) -> None:
    """PLG-073 Text goes to a shell, a sequence to none; input is empty unless given; `check` raises."""
    with pytest.raises(ExecError) as caught:
        await host.exec("echo out; echo err >&2; exit 3")
    assert (caught.value.result.stdout, caught.value.result.stderr) == ("out\n", "err\n")
    assert (await host.exec("echo out; echo err >&2; exit 3", check=False)).exit_code == 3
    plain = await host.exec(["printf", "%s|", "a b", "$HOME", "", "c\nd'e", "ü"])
    assert plain.stdout == "a b|$HOME||c\nd'e|ü|"
    assert (await host.exec("cat")).stdout == ""
    assert (await host.exec("cat", input="täxt")).stdout == "täxt"
    invalid = await host.exec("printf 'a\\377b'")
    assert (invalid.stdout, invalid.stdout_bytes) == ("a\ufffdb", 3)
    assert (await host.exec("kill -s KILL $$", check=False)).exit_code == -9


async def test_a_command_gets_its_folder_and_variables(host: Host) -> None:
    """PLG-073 Variables lie over the host's own; None removes one."""
    folder = host.path(host.info.workspace) / "d r"
    await folder.mkdir()
    shown = 'printf \'%s|%s|%s\\n\' "$GREETING" "${HOME-none}" "$PWD"'
    result = await host.exec(shown, cwd=str(folder), env={"GREETING": "hällo\n'x'", "HOME": None})
    assert result.stdout == f"hällo\n'x'|none|{folder}\n"
    assert (await host.exec(shown)).stdout.endswith(f"|{host.info.workspace}\n")


async def test_what_cannot_be_started_is_a_host_error(host: Host) -> None:
    """PLG-073 No program, no folder, nothing at all."""
    with pytest.raises(HostError, match="no-such-program"):
        await host.exec(["no-such-program", "x"])
    with pytest.raises(HostError, match="no-such-program"):
        await host.spawn(AgentSpawnSpec("no-such-program"))
    with pytest.raises(HostError, match="/no/such/folder"):
        await host.exec("cat", cwd="/no/such/folder")
    with pytest.raises(HostError):
        await host.exec([])


@pytest.mark.plg("PLG-075")
async def test_long_output_is_cut_and_counted(host: Host) -> None:
    """PLG-075 The command ends as usual; full sizes are told."""
    result = await host.exec("head -c 100000 /dev/zero", max_output=10)
    assert (result.exit_code, result.stdout, result.stdout_bytes, result.truncated) == (0, "\0" * 10, 100_000, True)
    assert not (await host.exec("head -c 100000 /dev/zero", max_output=100_000)).truncated


async def test_a_process_has_streams_and_an_exit_code(host: Host) -> None:
    """PLG-073 Bytes go in and come out; the end of the input, the exit code, the end of the output are seen."""
    process = await host.spawn(AgentSpawnSpec("/bin/sh", ("-c", "cat; printf bye >&2; exit 3")))
    data = bytes(range(256)) * 1024
    writing = asyncio.create_task(process.stdin.write(data))
    got = b""
    while len(got) < len(data):
        got += await process.stdout.read(10_000)
    await writing
    assert got == data
    await process.stdin.close()
    await process.stdin.close()
    assert await process.stdout.read(10) == b""
    assert await process.wait() == 3
    assert await process.stderr.read(10) == b"bye"
    assert await process.stderr.read(10) == b""
    assert await process.wait() == 3


async def test_a_killed_process_tells_its_signal(host: Host) -> None:
    """PLG-073 Minus the number; killing it once more does nothing."""
    process = await host.spawn(AgentSpawnSpec("sleep", ("1000",)))
    with pytest.raises(ValueError, match="NONSENSE"):
        await process.kill("NONSENSE")
    await process.kill()
    assert await process.wait() == -15
    await process.kill("KILL")
    with pytest.raises(BrokenPipeError):
        for _ in range(100):
            await process.stdin.write(b"x" * 65536)


@pytest.mark.plg("PLG-074")
async def test_a_time_limit_ends_a_command(host: Host) -> None:
    """PLG-074 ExecTimeout with the result so far."""
    with pytest.raises(ExecTimeout) as caught:
        await host.exec("sleep 1000", timeout=0.3)
    assert caught.value.result.exit_code == -15


@pytest.mark.plg("PLG-076")
async def test_an_unbound_host_refuses_relative_paths(host: Host) -> None:
    """PLG-076 Nothing says where they would start."""
    for attempt in (host.path("file").write_text("x"), host.exec("cat", cwd="sub"), host.path("a").rename("/tmp/x")):
        with pytest.raises(HostError, match="relative"):
            await attempt


@pytest.mark.plg("PLG-076")
async def test_a_bound_view_reads_the_draft_at_each_call(host: Host) -> None:
    """PLG-076 Folder and variables are those of the moment."""
    top = host.path(host.info.workspace)
    await (top / "one" / "sub").mkdir(parents=True)
    await (top / "two").mkdir()
    cwd, env = str(top / "one"), {"GREETING": "first", "HOME": None}
    view: Host = BoundHost(host, lambda: cwd, lambda: env)
    file = view.path("file")
    await file.write_text("1")
    await view.path("link").symlink_to("file")
    shown = 'printf \'%s|%s|%s\\n\' "$GREETING" "${HOME-none}" "$PWD"'
    assert (await view.exec(shown)).stdout == f"first|none|{top}/one\n"
    assert (await view.exec(shown, cwd="sub", env={"HOME": "/h"})).stdout == f"first|/h|{top}/one/sub\n"
    cwd, env = str(top / "two"), {"GREETING": "second"}
    await file.write_text("2")
    assert (await view.exec(shown)).stdout.startswith("second|")
    assert await (top / "one" / "link").read_text() == "1"
    assert await (top / "two" / "file").read_text() == "2"
    assert view.bound and not host.bound
    with pytest.raises(HostError, match="whoever made it"):
        await view.aclose()


async def test_a_closed_host_refuses_everything(host: Host) -> None:
    """PLG-073 Closing twice is fine."""
    await host.path(host.info.workspace).is_dir()
    await host.aclose()
    await host.aclose()
    assert host.closed
    for attempt in (
        host.exec("cat"),
        host.spawn(AgentSpawnSpec("sleep", ("1",))),
        host.path("/tmp").stat(),
        host.path("/tmp/x").write_text("x"),
    ):
        with pytest.raises(HostClosed):
            await attempt
    with pytest.raises(HostClosed):
        async with host.forward(ForwardSpec("to_host", remote_port=1)):
            pass


@pytest.mark.plg("PLG-081")
async def test_a_process_left_running_is_killed_with_a_warning(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    """PLG-081 When its host closes."""
    process = await host.spawn(AgentSpawnSpec("sleep", ("1000",)))
    await host.aclose()
    assert await process.wait() < 0
    assert [record.message for record in caplog.records if "left running" in record.message] == [
        f"processes left running on a host ({host.info.kind}) are killed: 1"
    ]


@pytest.mark.plg("PLG-077")
async def test_facts_are_read_without_use(host: Host) -> None:
    """PLG-077 Facts, paths and closing are no use of a host."""
    assert host.info.workspace.startswith("/")
    assert host.info.kind in ("local", "memory", "ssh")
    assert host.path("a/b.txt").with_suffix(".md").name == "b.md"
