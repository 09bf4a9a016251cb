"""The command line as a user meets it: what it prints where, and what it exits with."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

import ptc
from ptc import Outcome
from ptc.cli import call

TOOLS = """
import asyncio
from ptc.tools import Tool

async def add(args):
    return args["a"] + args["b"]

def fail(args):
    raise ptc.CallError("no luck") if args else ValueError("bad")

async def never(args):
    await asyncio.Event().wait()

FUNCTIONS = {"add": add, "fail": fail, "never": never}

async def call(arguments):
    return sorted(arguments)

LIST = [Tool("keys", "Gives the names.", {"type": "object", "required": ["a"]}, call)]
NUMBER = 3
BROKEN = {"add": 1}

class Nested:
    tools = FUNCTIONS
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Every test works in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    Path("cli_tools.py").write_text("import ptc\n" + TOOLS)
    yield tmp_path


def ptc_run(*arguments: str, stdin: bytes = b"", **environment: str) -> subprocess.CompletedProcess[str]:
    """The real thing, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "ptc", *arguments],
        input=stdin,
        capture_output=True,
        timeout=60,
        env={**os.environ, "PYTHONIOENCODING": "utf-8", **environment},
        check=False,
    )
    out, err = done.stdout.decode("utf-8"), done.stderr.decode("utf-8")
    assert "Traceback" not in err, err
    return subprocess.CompletedProcess(done.args, done.returncode, out, err)


def write(name: str, text: str) -> str:
    Path(name).write_bytes(text.encode("utf-8", "surrogatepass"))
    return name


def refuses(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line of a command that cannot be done; it exits 2 and prints nothing else."""
    assert call(list(arguments)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err.strip()


# -- run ---------------------------------------------------------------------------------------------------------------


def test_a_file_runs() -> None:
    """PTC-144 the value is JSON on stdout, log entries are on stderr, exit 0."""
    file = write("a.js", "console.log('one', [1]); console.warn('two');\nreturn { a: [1, 'é', null], b: 2n ** 64n }")
    done = ptc_run("run", file)
    assert (done.returncode, done.stderr) == (0, "one [1]\ntwo\n")
    assert done.stdout == '{"a":[1,"é",null],"b":18446744073709551616}\n'


def test_standard_input_runs() -> None:
    """PTC-144 `-` is the program."""
    done = ptc_run("run", "-", stdin=b"\xef\xbb\xbfreturn 6 * 7")
    assert (done.returncode, done.stdout, done.stderr) == (0, "42\n", "")
    done = ptc_run("run", "-", stdin=b"const x = 1;\n  null.x")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "-:2:3: exception: TypeError: cannot read property 'x' of null\n"


def test_typescript_runs() -> None:
    """PTC-144 a `.ts` file is stripped, a `.js` file is not."""
    text = "interface A { x: number }\nconst a: A = { x: 1 }\nreturn (await Promise.resolve(a)).x as number"
    assert ptc_run("run", write("a.ts", text)).stdout == "1\n"
    done = ptc_run("run", write("a.js", text))
    assert done.returncode == 1
    assert re.match(r"a\.js:1:\d+: exception: SyntaxError: ", done.stderr)
    done = ptc_run("run", write("b.ts", "let x: number\n  enum E { A }"))
    assert done.returncode == 1
    assert done.stderr.startswith("b.ts:2:3: exception: SyntaxError: `enum` cannot be erased")


def test_no_value_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """PTC-144 undefined is no value, null is one."""
    assert call(["run", write("a.js", "const x = 1")]) == 0
    assert capsys.readouterr().out == ""
    assert call(["run", write("a.js", "return null")]) == 0
    assert capsys.readouterr().out == "null\n"


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("let x = ;", r"a\.js:1:9: exception: SyntaxError: .*"),
        ("\nthrow new Error('oh')", r"a\.js:2:\d+: exception: Error: oh"),
        ("return undefined ?? new Date()", r"a\.js: invalid-output: value: Date is not JSON"),
        ("await new Promise(() => {})", r"a\.js(:\d+:\d+)?: stuck: .*"),
    ],
)
def test_a_failure_is_one_line(code: str, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    """PTC-144 with file, position where there is one, kind and message; exit 1."""
    assert call(["run", write("a.js", code)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert re.fullmatch(line, captured.err.rstrip("\n"))


def test_the_timeout_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    """PTC-144 and what had no answer is named."""
    started = time.monotonic()
    file = write("a.js", "await tools.never({})")
    assert call(["run", file, "--timeout", "0.3", "--tools", "cli_tools:FUNCTIONS"]) == 1
    assert time.monotonic() - started < 20
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("a.js: timeout: ")
    assert lines[1] == "a.js: without an answer: tools.never (call 1)"


def test_log_entries_come_while_the_program_runs() -> None:
    """PTC-144 not only at its end."""
    write("a.js", "console.log('started'); await tools.never({})")
    arguments = [sys.executable, "-m", "ptc", "run", "a.js", "--timeout", "30", "--tools", "cli_tools:FUNCTIONS"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "started\n"
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (130, "interrupted\n")


def test_json_prints_every_field() -> None:
    """PTC-144 one object, of a success and of a failure."""
    done = ptc_run("run", write("a.js", "console.error('x');\nreturn [1]"), "--json")
    outcome = json.loads(done.stdout)
    assert done.returncode == 0
    assert set(outcome) == {field.name for field in fields(Outcome)}
    assert (outcome["ok"], outcome["value"], outcome["has_value"], outcome["failure"]) == (True, [1], True, None)
    assert outcome["logs"] == [{"text": "x", "level": "error", "cut": 0}]
    assert outcome["engine"]["name"] == "quickjs"
    assert outcome["isolation"]["process"] in ("fork", "spawn")

    write("a.js", "await tools.add({a: 1, b: 2}); null.x")
    done = ptc_run("run", "a.js", "--json", "--tools", "cli_tools:FUNCTIONS")
    outcome = json.loads(done.stdout)
    assert done.returncode == 1
    assert (outcome["ok"], outcome["has_value"], outcome["calls"]) == (False, False, 1)
    assert outcome["failure"]["kind"] == "exception"
    assert outcome["failure"]["position"] == {"line": 1, "column": 32}

    done = ptc_run("run", write("a.js", "let = 1 2"), "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["failure"]["kind"] == "exception"


def test_odd_values_are_printed_too(capsys: pytest.CaptureFixture[str]) -> None:
    """PTC-144 any depth, lone surrogates, control codes, and an output that is not UTF-8."""
    assert call(["run", write("a.js", "let x = 1; for (let i = 0; i < 50_000; i++) x = [x]; return x")]) == 0
    assert capsys.readouterr().out == "[" * 50_000 + "1" + "]" * 50_000 + "\n"
    file = write("b.js", r"console.log('\x1b[2J\ud800é'); return ['\ud800', '\x1b', '\x9b', 'é𝒳']")
    for arguments in (["run", file], ["run", file, "--json"]):
        for encoding in ("utf-8", "ascii"):
            done = ptc_run(*arguments, PYTHONIOENCODING=encoding)
            value = json.loads(done.stdout)
            assert (value["value"] if "--json" in arguments else value) == ["\ud800", "\x1b", "\x9b", "é𝒳"]
            assert not re.search(r"[\x1b\x9b]", done.stdout + done.stderr)
            assert done.stderr.startswith(r"\x1b[2J")


def test_what_is_left_out_is_said() -> None:
    """PTC-144 with its size."""
    code = "for (let i = 0; i < 200; i++) console.log('x'.repeat(60_000)); return 1"
    done = ptc_run("run", write("a.js", code))
    assert done.returncode == 1
    assert re.search(r"^a\.js: output-limit: .*\na\.js: [\d,]+ characters were cut off$", done.stderr, re.MULTILINE)
    done = ptc_run("run", write("a.js", "throw new Error('x'.repeat(9_000_000))"))
    assert done.returncode == 1
    assert len(done.stderr) < 9_000_000


def test_a_closed_output_is_no_crash() -> None:
    """PTC-144 whoever reads may stop."""
    write("a.js", "return 'x'.repeat(1_000_000)")
    command = f"{sys.executable} -m ptc run a.js | head -c 5"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ('"xxxx', "")


# -- usage -------------------------------------------------------------------------------------------------------------


def test_bad_usage_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """PTC-144 exit 2, what is wrong and what to do, never a traceback."""
    write("a.js", "return 1")
    write("latin.js", "")
    Path("latin.js").write_bytes(b"return '\xe9'")
    assert "nope.js: No such file" in refuses(capsys, "run", "nope.js")
    assert ".: Is a directory" in refuses(capsys, "run", ".")
    assert "latin.js: not UTF-8 text, at byte 9" in refuses(capsys, "run", "latin.js")
    assert "--timeout: " in refuses(capsys, "run", "a.js", "--timeout", "0")
    assert "--timeout: " in refuses(capsys, "run", "a.js", "--timeout", "nan")
    assert "max_timeout" in refuses(capsys, "run", "a.js", "--timeout", "100000")
    assert "--timeout" in refuses(capsys, "run", "a.js", "--timeout", "soon")
    assert "'quickjs', 'v8'" in refuses(capsys, "run", "a.js", "--engine", "spidermonkey")
    assert "FILE" in refuses(capsys, "run")
    assert "--help" in refuses(capsys, "run", "a.js", "--nope")
    assert "No such command" in refuses(capsys, "walk")


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    """PTC-144 what can be done is told."""
    assert call(["--help"]) == 0
    assert call(["run", "--help"]) == 0
    assert call(["--version"]) == 0
    text = capsys.readouterr().out
    for word in ("run", "doctor", "--tools", "--timeout", "--engine", "--json", "subharness"):
        assert word in text


# -- tools -------------------------------------------------------------------------------------------------------------


def test_a_dict_of_functions_is_the_namespace_tools(capsys: pytest.CaptureFixture[str]) -> None:
    """PTC-145 its functions are called, and their failures are the program's to catch."""
    code = "try { await tools.fail({a: 1}) } catch (e) { return [e.message, await tools.add({a: 1, b: 2})] }"
    file = write("a.js", code)
    for reference in ("cli_tools:FUNCTIONS", "cli_tools:Nested.tools"):
        assert call(["run", file, "--tools", reference]) == 0
        assert capsys.readouterr().out == '["no luck",3]\n'
    done = ptc_run("run", file, "--tools", "cli_tools:FUNCTIONS")
    assert (done.returncode, done.stdout, done.stderr) == (0, '["no luck",3]\n', "")


def test_a_list_of_tools_is_the_namespace_tools(capsys: pytest.CaptureFixture[str]) -> None:
    """PTC-145 with the checks that tools have."""
    file = write("a.js", "try { await tools.keys({}) } catch (e) { return [e.name, await tools.keys({ b: 1, a: 2 })] }")
    assert call(["run", file, "--tools", "cli_tools:LIST"]) == 0
    assert json.loads(capsys.readouterr().out) == ["ToolCallError", ["a", "b"]]


def test_a_wrong_reference_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """PTC-145 exit 2, and it names the reference."""
    write("a.js", "return 1")
    write("broken_module.py", "import")
    for reference, said in (
        ("cli_tools", "module:name"),
        ("nowhere_at_all:X", "no module"),
        ("cli_tools:MISSING", 'no "MISSING"'),
        ("cli_tools:NUMBER", "a dict of functions or a list of Tool"),
        ("cli_tools:BROKEN", "add"),
        ("broken_module:X", "cannot be imported"),
    ):
        line = refuses(capsys, "run", "a.js", "--tools", reference)
        assert f'--tools "{reference}": ' in line
        assert said in line


# -- what is missing ---------------------------------------------------------------------------------------------------

WITHOUT = "import sys; sys.modules['{module}'] = None; sys.argv[1:] = {arguments!r}; from ptc.cli import main; main()"


def _without(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    code = WITHOUT.format(module=module, arguments=list(arguments))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert "Traceback" not in done.stderr, done.stderr
    return done


def test_a_missing_engine_is_named() -> None:
    """PTC-144 PTC-146 exit 3 and what to install, from `run` and from `doctor`."""
    write("a.js", "return await 1")
    done = _without("_quickjs", "run", "a.js")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == 'the engine "quickjs" is not installed; run: pip install quickjs-ng\n'
    done = _without("py_mini_racer", "run", "a.js", "--engine", "v8")
    assert done.returncode == 3
    assert done.stderr == 'the engine "v8" is not installed; run: pip install mini-racer\n'

    done = _without("_quickjs", "doctor")
    assert done.returncode == 3
    assert 'quickjs      the engine "quickjs" is not installed; run: pip install quickjs-ng\n' in done.stdout
    assert 'The engine "quickjs" does not work' in done.stdout
    report = json.loads(_without("_quickjs", "doctor", "--json").stdout)
    assert report["ok"] is False
    assert "pip install quickjs-ng" in report["engines"]["quickjs"]["problem"]
    done = _without("py_mini_racer", "doctor")
    assert done.returncode == 0
    assert "pip install mini-racer" in done.stdout


# -- doctor ------------------------------------------------------------------------------------------------------------


def test_doctor_reports_what_a_run_reports() -> None:
    """PTC-146 engine, isolation and forms are those of an actual run."""
    done = ptc_run("doctor", "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["ok"]) == (0, True)
    engine = report["engines"]["quickjs"]
    outcome = ptc.run("return 1")
    assert outcome.isolation is not None
    assert engine["version"] == outcome.engine.version
    assert engine["process"] == outcome.isolation.process
    assert engine["rlimits"] == list(outcome.isolation.rlimits)
    assert engine["seccomp"] == outcome.isolation.seccomp
    assert engine["forms"] == ["async", "sync"]
    assert engine["rejections"] in ("all", "calls")
    assert 0 < engine["warm_ms"] < engine["cold_ms"] < 60_000
    assert report["python"] == ".".join(map(str, sys.version_info[:3]))
    assert report["fork"] is hasattr(os, "fork")


def test_doctor_tells_people_the_same() -> None:
    """PTC-146 one line for each finding, each rlimit by name."""
    done = ptc_run("doctor")
    assert done.returncode == 0
    labels = [line[:12].strip() for line in done.stdout.splitlines()]
    assert labels[:5] == ["subharness", "python", "platform", "fork", "quickjs"]
    assert {"forms", "rejections", "process", "rlimits", "seccomp", "times", "v8"} <= set(labels)
    for limit in ("as", "core", "cpu", "fsize", "nofile", "nproc"):
        assert re.search(rf"\b{limit} (yes|no)\b", done.stdout)
    assert done.stdout.endswith('The engine "quickjs" works.\n')
    assert done.stderr == ""
