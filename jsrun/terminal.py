"""Asking a person at a terminal: the question to stderr, one line of stdin as the answer."""

import contextlib
import os
import select
import sys
import threading
from typing import TextIO

from jsrun._text import printable
from jsrun._threads import in_thread
from jsrun.env import AskAnswer, AskOptions

# How long a reader that nobody waits for any more may go on looking for input, in seconds.
_POLL = 0.05
# A terminal gives 4 KiB at most; this is for a pipe that never ends its line.
_LINE_BYTES = 1024 * 1024

# A process has one terminal, and two questions at a time on it could not be told apart.
_turn = threading.Lock()


class Terminal:
    """Asks with numbered options; call it with a question and its options, like any `ask` function.

    A number chooses that option, an empty line takes the default (without one the question is put again), a line that
    starts with `!` takes over with the rest of it, anything else is the answer in the person's own words. End of input
    is unanswered. `reader` and `writer` are `sys.stdin` and `sys.stderr` at the time of the question unless given.

    Nothing but the answer's line is taken from the input, and a question that is cancelled takes nothing, where the
    input is a descriptor that can be waited for.
    """

    def __init__(self, reader: TextIO | None = None, writer: TextIO | None = None) -> None:
        self._reader = reader
        self._writer = writer

    async def __call__(self, question: str, options: AskOptions) -> AskAnswer:
        gave_up = threading.Event()
        try:
            return await in_thread(self._in_turn, question, options, gave_up)
        finally:
            gave_up.set()

    def _in_turn(self, question: str, options: AskOptions, gave_up: threading.Event) -> AskAnswer:
        while not _turn.acquire(timeout=_POLL):
            if gave_up.is_set():
                return AskAnswer(unanswered=True)
        try:
            return self._ask(question, options, gave_up)
        finally:
            _turn.release()

    def _ask(self, question: str, options: AskOptions, gave_up: threading.Event) -> AskAnswer:
        reader = self._reader or sys.stdin
        writer = self._writer or sys.stderr
        write(writer, f"? {question}\n")
        for number, option in enumerate(options.options, start=1):
            write(writer, f"  {number}) {option}\n")
        while True:
            write(writer, f"[{options.default}] > " if options.default.strip() else "> ")
            line = read_line(reader, gave_up)
            if line is None:
                with contextlib.suppress(OSError):  # the terminal may be gone altogether
                    write(writer, "\n")  # what is shown next must not stand behind the prompt
                return AskAnswer(unanswered=True)
            answer = _understand(line.strip(), options)
            if answer is not None:
                return answer


def write(stream: TextIO, text: str) -> None:
    """Show text from outside: controls escaped, lone surrogates as U+FFFD, what the stream cannot encode replaced."""
    encoding = stream.encoding or "utf-8"
    stream.write(printable(text).encode(encoding, "replace").decode(encoding))
    stream.flush()


def _understand(text: str, options: AskOptions) -> AskAnswer | None:
    """What a trimmed line means; None if it says nothing and there is no default."""
    if text.startswith("!"):
        return AskAnswer(text=text[1:].strip(), taking_over=True)
    if not text:
        return AskAnswer(text=options.default) if options.default.strip() else None
    count = len(options.options)
    if text.isascii() and text.isdigit() and len(text) <= len(str(count)) and 1 <= int(text) <= count:
        return AskAnswer(text=options.options[int(text) - 1])
    return AskAnswer(text=text)


def read_line(reader: TextIO | None, gave_up: threading.Event) -> str | None:
    """The next line without its end; None at the end of input, or when nobody waits any more."""
    if reader is None:  # a process without a console
        return None
    try:
        descriptor = reader.fileno()
        select.select([descriptor], [], [], 0)
    except (AttributeError, OSError, ValueError):  # no descriptor, or none that can be waited for
        line = ""
        with contextlib.suppress(OSError, ValueError):
            line = reader.readline()
        return line.removesuffix("\n") if line else None
    data = _read_bytes(descriptor, gave_up)
    return None if data is None else data.decode(reader.encoding or "utf-8", "replace")


def _read_bytes(descriptor: int, gave_up: threading.Event) -> bytes | None:
    """Like `read_line`, byte by byte: the line is all that may be taken, others read from the same input."""
    data = bytearray()
    while len(data) < _LINE_BYTES and not gave_up.is_set():
        try:
            if not select.select([descriptor], [], [], _POLL)[0]:
                continue
            byte = os.read(descriptor, 1)
        except OSError:  # the other side of a terminal hung up
            byte = b""
        if byte == b"\n":
            return bytes(data)
        if not byte:
            break
        data += byte
    return bytes(data) if data and not gave_up.is_set() else None
