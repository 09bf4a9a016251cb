"""map: one bundle over many inputs, and what is left when it is stopped half-way."""

import importlib.util
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

import pytest

from jsrun import (
    BadInput,
    Bundle,
    BundleError,
    CallbackEnv,
    FileMemory,
    Fuel,
    JsrunError,
    MapError,
    MapLine,
    Runner,
    Store,
    map_runs,
)
from jsrun.canonical import input_hash
from jsrun.cli import call
from jsrun.mapping import Processes, read_inputs
from jsrun.testing import bundle
from ptc.wire import Json
from tests.jsrun.map_envs import double, doubling

ROOT = Path(__file__).parents[2]
ENVS = "tests.jsrun.map_envs"
PROGRAM = "async function run(input) { return {twice: await tool('double', {n: input.n})} }"
INPUT = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
CONTROL_CODE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
# Far more than any of it takes on a busy machine.
PATIENCE_S = 60.0

needs_proc = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test works in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JSRUN_HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.fixture(scope="module", autouse=True)
def no_tracker() -> Iterator[None]:
    """What multiprocessing keeps to clean up after spawned processes until this one ends; the session looks for it."""
    yield
    resource_tracker._resource_tracker._stop()  # type: ignore[attr-defined]


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as executor:
        yield executor


def doubler(**parts: Any) -> Bundle:
    """A bundle that doubles `n` with a tool."""
    return bundle(PROGRAM, **{"whitelist": ["double"], "input": INPUT, **parts})


def write_bundle(program: str = PROGRAM, **manifest: object) -> None:
    """The same in the folder `doubler`."""
    Path("doubler").mkdir()
    text = json.dumps({"name": "doubler", "purpose": "A test.", "whitelist": ["double"], "input": INPUT, **manifest})
    Path("doubler/manifest.json").write_text(text)
    Path("doubler/program.js").write_text(program)


def write_inputs(*lines: str) -> None:
    Path("in.jsonl").write_text("".join(f"{line}\n" for line in lines))


def written(name: str = "out.jsonl") -> list[dict[str, Any]]:
    """The lines of the output; every one is whole."""
    text = Path(name).read_text()
    assert text == "" or text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


def outputs(lines: list[dict[str, Any]]) -> dict[int, Any]:
    """Index to output; every index is there once."""
    found = {line["index"]: line["result"]["output"] for line in lines if "result" in line}
    assert len(found) == sum("result" in line for line in lines)
    return found


def mapped(inputs: list[Any], executor: Executor, **options: Any) -> list[MapLine]:
    """All lines, by index."""
    made = options.pop("bundle", None) or doubler()
    env = options.pop("env", doubling)
    return sorted(map_runs(made, inputs, env, executor, **options), key=lambda line: line.index)


def processes_of(session: int) -> list[int]:
    """The living processes of a session, whose leader has this id."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def wait_for(condition: Callable[[], bool]) -> None:
    """Until it holds; fails if it does not come true."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.02)


def start(*options: str, stderr: int = subprocess.PIPE) -> subprocess.Popen[str]:
    """`jsrun map` over in.jsonl, in a session of its own."""
    arguments = [sys.executable, "-m", "jsrun", "map", "doubler", "in.jsonl", "-o", "out.jsonl", *options]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "100"}
    return subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=stderr, text=True, env=environment, start_new_session=True
    )


def line_count() -> int:
    try:
        return Path("out.jsonl").read_bytes().count(b"\n")
    except FileNotFoundError:
        return 0


@needs_proc
class TestStopped:
    """50 inputs, of which 25 end; the others wait for ever in a tool."""

    @pytest.fixture(autouse=True)
    def inputs(self) -> None:
        write_bundle()
        write_inputs(*(json.dumps({"n": n}) for n in range(50)))

    def test_a_killed_map_goes_on_where_it_was(self) -> None:
        """JSR-129 each index once, though the host was killed half-way and left a torn line; no worker outlives it."""
        options = ("--env", f"{ENVS}:gating", "--workers", "2")
        with start(*options) as host:
            wait_for(lambda: line_count() == 25)
            assert len(processes_of(host.pid)) > 3
            host.kill()
        assert outputs(written()) == {n: {"twice": 2 * n} for n in range(25)}
        wait_for(lambda: processes_of(host.pid) == [])
        before = Path("out.jsonl").read_bytes()
        Path("out.jsonl").write_bytes(before + b'{"index":31,"input_ha')
        Path("go").touch()
        with start(*options) as host:
            out, err = host.communicate(timeout=PATIENCE_S)
        assert (host.returncode, err) == (0, "")
        assert out == "out.jsonl: 50 finished; 25 of them had been there.\n"
        assert Path("out.jsonl").read_bytes().startswith(before)
        assert outputs(written()) == {n: {"twice": 2 * n} for n in range(50)}
        calls = Counter(map(int, Path("calls").read_text().split()))
        assert all(calls[n] == 1 for n in range(25))
        wait_for(lambda: processes_of(host.pid) == [])

    @pytest.mark.parametrize("executor", ["processes", "threads"])
    def test_interrupted_it_ends_and_leaves_whole_lines(self, executor: str) -> None:
        """JSR-127 Ctrl-C exits 2 and leaves no process; what had ended is in the output, what had not is not."""
        with start("--env", f"{ENVS}:gating", "--workers", "2", "--executor", executor) as host:
            wait_for(lambda: line_count() == 25)
            os.killpg(host.pid, signal.SIGINT)
            out, err = host.communicate(timeout=PATIENCE_S)
        assert (host.returncode, err) == (2, "")
        assert out == "out.jsonl: 25 finished. Interrupted; start again to go on.\n"
        assert outputs(written()) == {n: {"twice": 2 * n} for n in range(25)}
        wait_for(lambda: processes_of(host.pid) == [])

    def test_interrupted_while_workers_start_it_says_nothing_else(self) -> None:
        """JSR-127 workers that are still importing print no traceback."""
        write_inputs('{"n": 1}', '{"n": 2}', "nonsense", '{"n": 30}')
        with start("--env", f"{ENVS}:gating", "--workers", "2") as host:
            wait_for(lambda: line_count() >= 1)  # the bad line needs no worker
            os.killpg(host.pid, signal.SIGINT)
            out, err = host.communicate(timeout=PATIENCE_S)
        assert (host.returncode, err) == (2, "")
        assert "Interrupted; start again to go on." in out
        wait_for(lambda: processes_of(host.pid) == [])

    def test_two_maps_do_not_write_one_file(self, capsys: pytest.CaptureFixture[str]) -> None:
        with start("--env", f"{ENVS}:gating", "--workers", "1") as host:
            wait_for(lambda: line_count() == 25)
            arguments = ["map", "doubler", "in.jsonl", "-o", "out.jsonl", "--env", f"{ENVS}:doubling"]
            assert call([*arguments, "--executor", "threads"]) == 1
            host.kill()
        assert "Another map is writing" in capsys.readouterr().err
        assert line_count() == 25


class TestCommand:
    def map(self, *options: str, env: str = "doubling") -> int:
        arguments = ["map", "doubler", "in.jsonl", "-o", "out.jsonl", "--env", f"{ENVS}:{env}", "--workers", "2"]
        return call([*arguments, "--executor", "threads", *options])

    def test_a_bad_line_is_an_error_and_the_others_run(self, capsys: pytest.CaptureFixture[str]) -> None:
        """JSR-129 JSR-127 with its line and column in the file; exit 2; a line corrected later is run."""
        write_bundle()
        write_inputs('{"n": 1}', "", '{"n": 2', '{"m": 3}', '{"n": 4, "n": 5}', '{"n": 6}')
        assert self.map() == 2
        assert capsys.readouterr().out == "out.jsonl: 2 finished, 3 error.\n"
        lines = {line["index"]: line for line in written()}
        assert outputs(written()) == {0: {"twice": 2}, 4: {"twice": 12}}
        assert lines[1]["error"]["code"] == "input-json"
        assert lines[1]["error"]["line"] == 3
        assert lines[1]["error"]["message"].startswith("in.jsonl:3:8: error [input-json]")
        assert lines[2]["error"] == {"code": "input", "message": "The input misses `n`.", "line": None}
        assert lines[3]["error"]["message"].startswith("in.jsonl:5:10: error [input-json]")
        assert lines[0]["input_hash"] == input_hash({"n": 1})
        write_inputs('{"n":1}', "", '{"n": 2}', '{"n": 3}', '{"n": 5}', '{"n": 6}')
        assert self.map() == 0
        assert capsys.readouterr().out == "out.jsonl: 5 finished; 2 of them had been there.\n"
        assert outputs(written()) == {
            0: {"twice": 2},
            1: {"twice": 4},
            2: {"twice": 6},
            3: {"twice": 10},
            4: {"twice": 12},
        }
        assert len(written()) == 5

    def test_retry_runs_again_what_is_not_finished(self, capsys: pytest.CaptureFixture[str]) -> None:
        """JSR-127 exit 2 as long as any is not, also of those that were there."""
        write_bundle("async function run(input) { if (input.n > 1) throw new Error('no'); return 1 }", whitelist=[])
        write_inputs('{"n": 1}', '{"n": 2}')
        assert self.map() == 2
        first = outputs(written())
        assert first == {0: 1, 1: None}
        Path("doubler/program.js").write_text("async function run(input) { return 7 }")
        assert self.map() == 2
        assert outputs(written()) == first
        assert self.map("--retry") == 0
        assert outputs(written()) == {0: 1, 1: 7}
        assert "1 finished, 1 fell back; 2 of them had been there" in capsys.readouterr().out

    def test_json_is_one_document(self, capsys: pytest.CaptureFixture[str]) -> None:
        """JSR-127"""
        write_bundle()
        write_inputs('{"n": 1}', "nonsense")
        assert self.map("--json") == 2
        captured = capsys.readouterr()
        assert captured.err == ""
        assert json.loads(captured.out) == {
            "output": "out.jsonl", "inputs": 2, "finished": 1, "fell_back": 0, "incomplete": 0, "error": 1,
            "kept": 0, "interrupted": False,
        }  # fmt: skip
        assert self.map("--json", "--executor", "magic") == 1
        assert json.loads(capsys.readouterr().out)["error"]["code"] == "usage"

    @pytest.mark.parametrize(
        ("options", "says"),
        [
            (["--env", "nonsense"], "Write MODULE:FACTORY"),
            (["--env", "no_such_module:make"], "cannot be imported"),
            (["--env", f"{ENVS}:nobody"], "is not a function of"),
            (["--env", f"{ENVS}:nothing"], "is not an Env: it has no ai, tool"),
            (["--executor", "magic"], "write processes, threads or dask:ADDRESS"),
            (["--executor", "dask:"], "write processes, threads or dask:ADDRESS"),
            (["-o", "missing/out.jsonl"], "cannot be used: No such file or directory"),
            (["-o", "doubler"], "cannot be used"),
            (["-o", "in.jsonl"], "in.jsonl:1: this is not a line of a map"),
            (["--workers", "0"], "--workers"),
        ],
    )
    def test_what_cannot_be_done_is_one_message(
        self, options: list[str], says: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """JSR-127 exit 1, nothing on stdout, inputs untouched."""
        write_bundle()
        write_inputs('{"n": 1}')
        assert self.map(*options) == 1
        captured = capsys.readouterr()
        assert captured.out == ""
        assert says in captured.err
        assert "Traceback" not in captured.err
        assert Path("in.jsonl").read_text() == '{"n": 1}\n'
        assert line_count() == 0

    def test_missing_inputs(self, capsys: pytest.CaptureFixture[str]) -> None:
        """JSR-127"""
        write_bundle()
        assert self.map() == 1
        assert 'The inputs "in.jsonl" cannot be read: No such file' in capsys.readouterr().err
        assert not Path("out.jsonl").exists()

    def test_a_worker_that_dies_is_told(self, capsys: pytest.CaptureFixture[str]) -> None:
        write_bundle()
        write_inputs('{"n": 1}', '{"n": 2}')
        assert self.map("--executor", "processes", env="dying") == 1
        assert "A worker process died" in capsys.readouterr().err
        assert written() == []
        assert self.map() == 0

    @pytest.mark.parametrize("executor", ["processes", "threads"])
    def test_a_host_function_that_exits_ends_the_map(self, executor: str, capsys: pytest.CaptureFixture[str]) -> None:
        """JSR-127 exit 1, and no worker is left."""
        write_bundle()
        write_inputs('{"n": 1}', '{"n": 2}')
        assert self.map("--executor", executor, env="exiting") == 1
        assert "A host function ended its process" in capsys.readouterr().err
        assert written() == []

    def test_progress_is_a_bar_on_a_terminal_only(self) -> None:
        """JSR-127 off a terminal there is no control code."""
        write_bundle()
        write_inputs('{"n": 1}', '{"n": 2}')
        options = ("--env", f"{ENVS}:doubling", "--executor", "threads")
        with start(*options) as host:
            out, err = host.communicate(timeout=PATIENCE_S)
        assert (err, CONTROL_CODE.search(out)) == ("", None)
        terminal, other = pty.openpty()
        try:
            with start(*options, "--retry", stderr=other) as host:
                os.close(other)
                shown = _read_all(terminal)
                assert host.wait(PATIENCE_S) == 0
        finally:
            os.close(terminal)
        assert "\x1b" in shown
        assert "2/2" in shown


def _read_all(terminal: int) -> str:
    shown = b""
    while select.select([terminal], [], [], PATIENCE_S)[0]:
        try:
            data = os.read(terminal, 65536)
        except OSError:  # how a terminal says that nobody has its other side any more
            break
        shown += data
    return shown.decode()


class TestMapRuns:
    def test_any_executor_gives_a_line_for_each(self, threads: ThreadPoolExecutor) -> None:
        lines = mapped([{"n": n} for n in range(5)], threads, env=lambda: CallbackEnv(tools={"double": double}))
        assert [line.result.output for line in lines if line.result] == [{"twice": 2 * n} for n in range(5)]
        assert all(line.finished and not line.kept for line in lines)

    def test_every_worker_compiles_once(self) -> None:
        """JSR-129 in a process pool; factories may be given as functions."""
        with Processes(2) as pool:
            lines = mapped([{"n": n} for n in range(20)], pool, env=f"{ENVS}:compiling")
        assert all(line.finished for line in lines)
        compiled = Path("compiled").read_text().split()
        assert len(compiled) == len(set(compiled)) <= 2

    def test_threads_make_a_runner_each_and_leave_none(
        self, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made: list[Runner] = []
        closed: list[Runner] = []

        class Watched(Runner):
            def __init__(self, bundle: Bundle) -> None:
                super().__init__(bundle)
                made.append(self)

            async def aclose(self) -> None:
                closed.append(self)
                await super().aclose()

        monkeypatch.setattr("jsrun._map_workers.Runner", Watched)
        mapped([{"n": n} for n in range(20)], threads)
        assert 1 <= len(made) <= 2
        assert set(closed) == set(made)

    def test_everything_of_a_bundle_reaches_a_process(self, tmp_path: Path) -> None:
        """Memory, Look, fuel, prompts and evals too; a bundle out of a store keeps its notes in the store."""
        program = "function run(input) { remember(`saw ${input.n}`); return ai('ask', input) }"
        store = Store(tmp_path / "store")
        files = {
            "manifest.json": json.dumps({"name": "noter", "purpose": "A test."}),
            "program.js": program,
            "prompts/ask.md": "Ask.",
        }
        store.mint(files, why="A test.")
        with Processes(1) as pool:
            lines = mapped([{"n": 1}], pool, bundle=store.load("noter"), env="jsrun.testing:ScriptedEnv")
            limited = bundle("function run() { for (;;) log('x') }", fuel=Fuel(steps=3))
            stopped = mapped([1], pool, bundle=limited, env=f"{ENVS}:doubling")
        assert lines[0].result is not None
        assert "saw 1" in store.memory("noter").path.read_text()
        assert stopped[0].result is not None
        assert (stopped[0].result.reason, stopped[0].result.usage.steps) == ("steps", 3)

    def test_what_cannot_be_sent_is_told(self) -> None:
        with Processes(1) as pool:
            with pytest.raises(JsrunError, match="The Env factory cannot be sent to another process"):
                mapped([{"n": 1}], pool, env=lambda: doubling())
            memory = FileMemory("notes.md", lambda: "")
            with pytest.raises(JsrunError, match="The memory of the bundle cannot be sent"):
                mapped([{"n": 1}], pool, bundle=doubler(memory=memory))

    def test_values_come_back_as_they_are(self) -> None:
        """Big integers, lone surrogates, key order and 500 levels cross to a process and into the file."""
        deep: Json = 0
        for _ in range(500):
            deep = [deep]
        value: Json = {"b": 2**70, "a": "x\ud800\u2028\0", "z": 1.5, "deep": deep}
        same = bundle("function run(input) { return input }")
        with Processes(1) as pool:
            (line,) = mapped([value], pool, bundle=same, output="out.jsonl")
        assert line.result is not None
        assert line.result.output == value
        assert list(written()[0]["result"]["output"]) == ["b", "a", "z", "deep"]
        with ThreadPoolExecutor(1) as threads:
            (kept,) = mapped([value], threads, bundle=same, output="out.jsonl")
        assert kept.kept
        assert kept.result == line.result

    def test_a_factory_that_fails_is_an_error_line(self, threads: ThreadPoolExecutor) -> None:
        (line,) = mapped([{"n": 1}], threads, env=f"{ENVS}:failing")
        message = "The Env of this run cannot be made: there is no key for the model"
        assert line.error == MapError("env", message)

    def test_a_value_that_is_not_json_is_an_error_line(self, threads: ThreadPoolExecutor) -> None:
        for _ in range(2):
            lines = mapped([{"n": float("nan")}, {"n": 1}], threads, output="out.jsonl")
            assert lines[0].error is not None
            assert (lines[0].error.code, lines[0].input_hash) == ("input", None)
            assert lines[1].finished
        assert sorted(line["index"] for line in written()) == [0, 1]

    def test_a_program_the_engine_refuses_stops_it(
        self, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def refused(_runner: object, *_args: object, **_options: object) -> None:
            raise BundleError([])

        monkeypatch.setattr("jsrun._images.Images._load", refused)
        with pytest.raises(BundleError):
            mapped([{"n": 1}, {"n": 2}], threads, output="out.jsonl")
        assert written() == []

    def test_guards_look_at_the_workspace(self, threads: ThreadPoolExecutor, tmp_path: Path) -> None:
        (tmp_path / "there").touch()
        guarded = doubler(guards=[{"kind": "file", "file": "there"}])
        assert mapped([{"n": 1}], threads, bundle=guarded, workspace=tmp_path)[0].finished
        assert not mapped([{"n": 1}], threads, bundle=guarded)[0].finished

    def test_closing_keeps_what_ended_and_takes_no_more(self, threads: ThreadPoolExecutor) -> None:
        taken = 0

        def inputs() -> Iterator[Json]:
            nonlocal taken
            for n in range(1000):
                taken += 1
                yield {"n": n}

        lines = map_runs(doubler(), inputs(), f"{ENVS}:doubling", threads, output="out.jsonl", ahead=4)
        seen = [next(lines) for _ in range(3)]
        lines.close()
        assert taken < 20
        indexes = {line["index"] for line in written()}
        assert {line.index for line in seen} <= indexes
        assert all(line["result"]["status"] == "finished" for line in written())

    def test_nothing_happens_before_the_first_line_is_wanted(self, threads: ThreadPoolExecutor) -> None:
        map_runs(doubler(), [{"n": 1}], doubling, threads, output="out.jsonl").close()
        assert not Path("out.jsonl").exists()


class TestOutput:
    def line(self, index: int, n: int) -> str:
        return json.dumps({"index": index, "input_hash": input_hash({"n": n}), "error": {"code": "x", "message": "y"}})

    @pytest.mark.parametrize("tail", ["{", '{"index":1', '{"index":1,"input_hash":"a","result":{"status":"fin'])
    def test_a_torn_line_is_dropped(self, tail: str, threads: ThreadPoolExecutor) -> None:
        """JSR-129"""
        Path("out.jsonl").write_text(self.line(0, 0) + "\n" + tail)
        lines = mapped([{"n": 0}, {"n": 1}], threads, output="out.jsonl")
        assert [line.kept for line in lines] == [True, False]
        assert [line["index"] for line in written()] == [0, 1]

    def test_a_whole_line_without_its_end_is_kept(self, threads: ThreadPoolExecutor) -> None:
        Path("out.jsonl").write_text(self.line(0, 0))
        lines = mapped([{"n": 0}, {"n": 1}], threads, output="out.jsonl")
        assert [line.kept for line in lines] == [True, False]
        assert [line["index"] for line in written()] == [0, 1]

    @pytest.mark.parametrize("text", ["notes of mine", '{"n": 1}\n', '{"index":0,"in\n', '{"index": true}\n', "\0\0"])
    def test_a_file_of_somebody_else_is_left_alone(self, text: str, threads: ThreadPoolExecutor) -> None:
        Path("out.jsonl").write_text(text)
        with pytest.raises(JsrunError, match=r"out\.jsonl:1: this is not a line of a map"):
            mapped([{"n": 0}], threads, output="out.jsonl")
        assert Path("out.jsonl").read_text() == text

    def test_the_line_of_another_input_is_replaced_once_there_is_a_new_one(self, threads: ThreadPoolExecutor) -> None:
        """JSR-129 the file keeps its mode, and a link stays a link."""
        Path("real.jsonl").write_text(f"{self.line(0, 7)}\n{self.line(1, 1)}\n")
        Path("real.jsonl").chmod(0o640)
        Path("out.jsonl").symlink_to("real.jsonl")
        lines = mapped([{"n": 0}, {"n": 1}], threads, output="out.jsonl")
        assert [line.kept for line in lines] == [False, True]
        assert [line["index"] for line in written()] == [1, 0]
        assert Path("out.jsonl").is_symlink()
        assert Path("real.jsonl").stat().st_mode & 0o777 == 0o640
        assert sorted(path.name for path in Path().iterdir()) == ["out.jsonl", "real.jsonl"]

    def test_a_line_that_cannot_be_written_whole_is_not_written(
        self, threads: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        Path("out.jsonl").write_text(self.line(0, 0) + "\n")
        before = Path("out.jsonl").read_text()
        write = os.write

        def full(descriptor: int, data: bytes) -> int:
            if not data.startswith(b'{"index":'):
                raise OSError(28, "No space left on device")
            return write(descriptor, data[:20])

        with monkeypatch.context() as patch:
            patch.setattr(
                "jsrun._map_file.os.write", lambda d, data: full(d, data) if b"twice" in data else write(d, data)
            )
            with pytest.raises(JsrunError, match="No space left"):
                mapped([{"n": 0}, {"n": 1}], threads, output="out.jsonl")
        assert Path("out.jsonl").read_text() == before


class TestReadInputs:
    def test_every_line_is_a_value_or_bad(self, tmp_path: Path) -> None:
        path = tmp_path / "in.jsonl"
        path.write_bytes(b'\xef\xbb\xbf1\r\n\n  \n"a\xe2\x80\xa8b"\n\xff\n[1,]\nNaN\n{"a":1}')
        one, text, latin, comma, nan, last = read_inputs(path)
        assert (one, text, last) == (1, "a\u2028b", {"a": 1})
        bad = [item for item in (latin, comma, nan) if isinstance(item, BadInput)]
        assert [(item.error.code, item.error.line) for item in bad] == [
            ("input-json", 5), ("input-json", 6), ("input-json", 7),
        ]  # fmt: skip
        assert len({item.input_hash for item in bad}) == 3

    def test_a_line_that_is_too_long_is_passed_over(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("jsrun.mapping._MAX_INPUT_BYTES", 10)
        path = tmp_path / "in.jsonl"
        path.write_text(f"{'1' * 10}\r\n{'2' * 11}\n{'3' * 100}\n4\n{'5' * 12}")
        first, second, third, fourth, fifth = read_inputs(path)
        assert (first, fourth) == (1111111111, 4)
        for item, line in ((second, 2), (third, 3), (fifth, 5)):
            assert isinstance(item, BadInput)
            assert item.error.line == line
            assert "longer than 10 bytes" in item.error.message


@pytest.mark.skipif(
    importlib.util.find_spec("distributed") is None, reason='needs Dask: pip install "subharness[dask]"'
)
def test_dask_does_the_work(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """JSR-129 on a cluster of one worker with two threads."""
    import distributed

    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    write_bundle()
    write_inputs(*(json.dumps({"n": n}) for n in range(10)), "nonsense")
    with distributed.LocalCluster(n_workers=1, threads_per_worker=2, dashboard_address=None) as cluster:
        arguments = ["map", "doubler", "in.jsonl", "-o", "out.jsonl", "--env", f"{ENVS}:compiling"]
        assert call([*arguments, "--executor", f"dask:{cluster.scheduler_address}"]) == 2
    assert capsys.readouterr().out == "out.jsonl: 10 finished, 1 error.\n"
    assert outputs(written()) == {n: {"twice": 2 * n} for n in range(10)}
    assert len(Path("compiled").read_text().split()) <= 2


def test_dask_that_is_missing_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """JSR-127"""
    monkeypatch.setitem(sys.modules, "distributed", None)
    write_bundle()
    write_inputs('{"n": 1}')
    arguments = ["map", "doubler", "in.jsonl", "-o", "out.jsonl", "--env", f"{ENVS}:doubling"]
    assert call([*arguments, "--executor", "dask:tcp://localhost:1"]) == 1
    assert 'pip install "subharness[dask]"' in capsys.readouterr().err
