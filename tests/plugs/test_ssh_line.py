"""The shell line that starts processes over SSH, given to the shells of this machine."""

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jsrun.plugs import HostError
from jsrun.plugs.hosts._ssh_line import LINE, header

pytestmark = pytest.mark.plg("PLG-079")

# Everything that can be in an argument: no NUL.
_WORD = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12) | st.text(
    st.sampled_from("'\"\\$`!\n\r\t %*~;&|<>()#-ü\x81\x88\x7f"), max_size=8
)
_SHOW = """
import json, os, sys
print(json.dumps([sys.argv[1:], os.environ.get("V"), os.getcwd(), sys.stdin.buffer.read().hex()]))
"""
_SHELLS = [shell for name in ("sh", "bash", "dash") if (shell := shutil.which(name))]


def started(shell: str, told: bytes, data: bytes) -> tuple[bytes, bytes]:
    """What a login shell makes of the line with this input: the line of the marker, and what follows it."""
    run = subprocess.run([shell, "-c", LINE], input=told + data, capture_output=True, check=False, timeout=30)
    first, _, rest = run.stdout.partition(b"\n")
    assert run.stderr == b"", run.stderr
    return first, rest


@settings(max_examples=40, deadline=None)
@given(st.lists(_WORD, max_size=3), _WORD, st.binary(max_size=20), st.sampled_from(_SHELLS))
def test_any_words_and_any_input_arrive(arguments: list[str], value: str, data: bytes, shell: str) -> None:
    """PLG-079 Arguments, a variable and the input, byte for byte, whatever shell it is."""
    told = header([sys.executable, "-c", _SHOW, *arguments], "/tmp", {"V": value, "GONE": None}, "mark")
    assert told.isascii() and told.count(b"\n") == 1 and told.endswith(b"\n")
    first, rest = started(shell, told, data)
    assert first.startswith(b"mark ") and int(first.split()[1]) > 1
    got_arguments, got_value, cwd, got_data = json.loads(rest)
    assert (got_arguments, got_value, cwd, bytes.fromhex(got_data)) == (
        arguments,
        value,
        str(Path("/tmp").resolve()),
        data,
    )


@settings(max_examples=40, deadline=None)
@given(_WORD, st.sampled_from(_SHELLS))
def test_any_text_of_a_command_arrives(word: str, shell: str) -> None:
    """PLG-079 A command for the shell is run as it is written, without parameters of its own."""
    told = header(f"printf '%s' {shlex.quote(word)}\nprintf '|%s' \"$#\"\ncat", "/", {}, "mark")
    assert started(shell, told, b"in\n")[1] == f"{word}|0in\n".encode()


@pytest.mark.parametrize("shell", _SHELLS)
def test_what_cannot_be_started_is_told(shell: str, tmp_path: Path) -> None:
    """PLG-079 No folder, no program, a file that is none; the program's own output never comes then."""
    (tmp_path / "text").write_text("x")
    assert started(shell, header("echo", "/no/such", {}, "mark"), b"")[0] == b"mark folder"
    for program in ("no-such-program", "/no/such", str(tmp_path / "text"), str(tmp_path)):
        assert started(shell, header([program], "/", {}, "mark"), b"") == (b"mark command", b"")
    with pytest.raises(HostError, match="A-B"):
        header("echo", "/", {"A-B": "x"}, "mark")
