"""Asking a person: on a real terminal, through pipes, and where there is nobody."""

import asyncio
import contextlib
import io
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import TextIO

import pytest

import jsrun.terminal
from jsrun.env import AskAnswer, AskOptions
from jsrun.terminal import Terminal, write

if not hasattr(os, "openpty"):
    pytest.skip("needs pseudo-terminals", allow_module_level=True)

COLOURS = AskOptions(("red", "blue"), "blue")
PLAIN = AskOptions()


class Pty:
    """A pseudo-terminal: the test types at one end, the Terminal under test sits at the other."""

    def __init__(self) -> None:
        self.master, slave = os.openpty()
        self.reader: TextIO = os.fdopen(slave, "r", encoding="utf-8")
        self.writer: TextIO = os.fdopen(os.dup(slave), "w", encoding="utf-8")
        self.terminal = Terminal(self.reader, self.writer)

    def type(self, text: str) -> None:
        os.write(self.master, text.encode("utf-8", "surrogateescape"))

    def shown(self) -> str:
        """What is on the screen so far, the echo of what was typed included."""
        data = b""
        while select.select([self.master], [], [], 0.05)[0]:
            data += os.read(self.master, 65536)
        return data.decode()

    def close(self) -> None:
        self.reader.close()
        self.writer.close()
        os.close(self.master)


@pytest.fixture
def pty() -> Iterator[Pty]:
    made = Pty()
    yield made
    made.close()


def piped(text: str | bytes) -> TextIO:
    """A pipe that holds `text` and ends."""
    reader, writer = os.pipe()
    os.write(writer, text.encode() if isinstance(text, str) else text)
    os.close(writer)
    return os.fdopen(reader, "r", encoding="utf-8")


async def asked(text: str | bytes, options: AskOptions = PLAIN) -> AskAnswer:
    """What asking gives when `text` comes through a pipe."""
    with piped(text) as reader:
        return await Terminal(reader, io.StringIO())("Which?", options)


CASES = [
    ("1\n", COLOURS, AskAnswer("red")),
    ("2\n", COLOURS, AskAnswer("blue")),
    ("3\n", COLOURS, AskAnswer("3")),
    ("0\n", COLOURS, AskAnswer("0")),
    ("²\n", COLOURS, AskAnswer("²")),
    (f"{'9' * 3000}\n", COLOURS, AskAnswer("9" * 3000)),
    ("\n", COLOURS, AskAnswer("blue")),
    ("  \n", COLOURS, AskAnswer("blue")),
    ("  green  \n", COLOURS, AskAnswer("green")),
    ("größer\n", PLAIN, AskAnswer("größer")),
    ("! I'll do it myself \n", COLOURS, AskAnswer("I'll do it myself", taking_over=True)),
    ("!\n", COLOURS, AskAnswer("", taking_over=True)),
    ("no!\n", COLOURS, AskAnswer("no!")),
    ("\n\n answer\n", PLAIN, AskAnswer("answer")),
    ("\n", AskOptions(default=" "), AskAnswer(unanswered=True)),
]


@pytest.mark.parametrize(("typed", "options", "answer"), CASES)
async def test_a_piped_line_is_understood(typed: str, options: AskOptions, answer: AskAnswer) -> None:
    """JSR-063"""
    assert await asked(typed, options) == answer


@pytest.mark.parametrize(("typed", "options", "answer"), CASES[:-1])
async def test_a_typed_line_is_understood(pty: Pty, typed: str, options: AskOptions, answer: AskAnswer) -> None:
    """JSR-063"""
    pty.type(typed)
    assert await pty.terminal("Which?", options) == answer


async def test_the_terminal_shows_question_options_and_default(pty: Pty) -> None:
    """JSR-063"""
    pty.type("1\n")
    await pty.terminal("Which colour?", COLOURS)
    assert "? Which colour?\r\n  1) red\r\n  2) blue\r\n[blue] > " in pty.shown()


async def test_end_of_input_is_unanswered(pty: Pty) -> None:
    """JSR-063"""
    pty.type("\x04")
    assert await pty.terminal("Which?", COLOURS) == AskAnswer(unanswered=True)
    assert await asked("") == AskAnswer(unanswered=True)


async def test_a_terminal_that_hangs_up_is_unanswered() -> None:
    """JSR-063"""
    pty = Pty()
    pending = asyncio.ensure_future(pty.terminal("Which?", COLOURS))
    while "Which?" not in await asyncio.to_thread(pty.shown):
        pass
    os.close(pty.master)
    assert await pending == AskAnswer(unanswered=True)
    pty.reader.close()
    with contextlib.suppress(OSError):  # what it could not show is lost with the terminal
        pty.writer.close()


async def test_a_last_line_without_its_end_counts() -> None:
    """JSR-063"""
    assert await asked("green") == AskAnswer("green")


async def test_bytes_that_are_no_text_are_replaced() -> None:
    """JSR-056"""
    assert await asked(b"a\xffb\n") == AskAnswer("a\ufffdb")


async def test_an_endless_line_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """JSR-063"""
    monkeypatch.setattr(jsrun.terminal, "_LINE_BYTES", 5000)
    reader, writer = os.pipe()

    def feed() -> None:
        try:
            while True:
                os.write(writer, b"x" * 65536)
        except OSError:
            os.close(writer)

    threading.Thread(target=feed, daemon=True).start()
    with os.fdopen(reader) as stream:
        answer = await Terminal(stream, io.StringIO())("Which?", PLAIN)
    assert len(answer.text) == 5000


async def test_a_question_takes_one_line_and_leaves_the_next() -> None:
    """JSR-063"""
    with piped("one\ntwo\nrest") as reader:
        terminal = Terminal(reader, io.StringIO())
        assert (await terminal("a", PLAIN)).text == "one"
        assert (await terminal("b", PLAIN)).text == "two"
        assert reader.read() == "rest"


async def test_a_cancelled_question_does_not_swallow_the_next_answer(pty: Pty) -> None:
    """JSR-083"""
    pending = asyncio.ensure_future(pty.terminal("first", PLAIN))
    while "first" not in await asyncio.to_thread(pty.shown):
        pass
    pending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await pending
    second = asyncio.ensure_future(pty.terminal("second", PLAIN))
    while "second" not in await asyncio.to_thread(pty.shown):
        pass
    pty.type("for the second\n")
    assert await second == AskAnswer("for the second")


async def test_questions_at_the_same_time_are_put_one_after_the_other() -> None:
    """JSR-063"""
    shown = io.StringIO()
    with piped("1\n1\n1\n") as reader:
        terminal = Terminal(reader, shown)
        answers = await asyncio.gather(*(terminal(f"q{n}", AskOptions((f"a{n}",))) for n in range(3)))
    assert sorted(answer.text for answer in answers) == ["a0", "a1", "a2"]
    blocks = sorted(shown.getvalue().split("> ")[:3])
    assert blocks == [f"? q{n}\n  1) a{n}\n" for n in range(3)]


async def test_lone_surrogates_and_controls_never_reach_the_terminal(pty: Pty) -> None:
    """JSR-056 an option chosen by number still comes back as it is"""
    pty.type("1\n")
    answer = await pty.terminal("a\ud800b\x1b[2J", AskOptions(("x\udfff\x07",), "d\ud83d"))
    assert answer == AskAnswer("x\udfff\x07")
    shown = pty.shown()
    assert "? a\ufffdb\\u001b[2J" in shown and "1) x\ufffd\\u0007" in shown and "[d\ufffd] > " in shown
    assert "\x1b" not in shown and "\x07" not in shown


def test_text_a_stream_cannot_encode_is_replaced() -> None:
    """JSR-056"""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    write(stream, "größe \ud800\n")
    assert raw.getvalue() == b"gr??e ?\n"


async def test_input_without_a_descriptor_is_read_by_lines() -> None:
    """JSR-063"""
    terminal = Terminal(io.StringIO("one\n\ntwo"), io.StringIO())
    assert (await terminal("a", PLAIN)).text == "one"
    assert (await terminal("b", AskOptions(default="d"))).text == "d"
    assert (await terminal("c", PLAIN)).text == "two"
    assert (await terminal("d", PLAIN)).unanswered


async def test_a_process_without_input_leaves_questions_unanswered(monkeypatch: pytest.MonkeyPatch) -> None:
    """JSR-063"""
    monkeypatch.setattr(sys, "stdin", None)
    assert (await Terminal(writer=io.StringIO())("a", PLAIN)).unanswered
    closed = io.StringIO()
    closed.close()
    assert (await Terminal(closed, io.StringIO())("a", PLAIN)).unanswered


SCRIPT = """
import asyncio, sys
from jsrun.env import AskOptions
from jsrun.local_env import LocalEnv
answer = asyncio.run(LocalEnv().ask("Which?", AskOptions(("red", "blue"), "blue")))
print(answer.text, answer.taking_over, answer.unanswered)
"""


def test_standard_input_and_error_are_the_terminal_and_output_stays_clean() -> None:
    """JSR-127 a process of its own whose terminal is a pseudo-terminal, its output a pipe"""
    master, slave = os.openpty()
    process = subprocess.Popen([sys.executable, "-c", SCRIPT], stdin=slave, stderr=slave, stdout=subprocess.PIPE)
    os.close(slave)
    shown = b""
    give_up = time.monotonic() + 60
    while b"[blue] > " not in shown and time.monotonic() < give_up:
        try:
            if select.select([master], [], [], 1)[0]:
                shown += os.read(master, 4096)
        except OSError:  # the process is gone: what it said is in `shown`
            break
    os.write(master, b"1\n")
    output, _ = process.communicate(timeout=60)
    os.close(master)
    assert output == b"red False False\n", shown.decode()
