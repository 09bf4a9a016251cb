"""The helper process that reads large programs.

The parser recovers from errors, and what that costs grows with the square of what is left open: 50 KB of `a<b,` take
it eight seconds and gigabytes, in one step that nothing in the process can interrupt. So what is not small is read in
a process of its own, with a bound on its memory and killed when its time is over. It is started when the first large
program comes, serves one after the other, and leaves when it has had nothing to do for two seconds or its host is gone.
"""

import atexit
import json
import os
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Final

from ptc._strip import TOO_SLOW, Form, FormChoice, Refused

__all__ = ["StripProcess"]

_ANSWER_SECONDS: Final = 2.0
"""From the question to the answer, a start of the process included."""

# An answer holds the program, at most in the same escaped form as the question, and a little beside it.
_ROOM: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class _Answer:
    """What the process answers: `refused` with the `offset` it is for, or `form`, with `code` if that has changed."""

    form: Form | None = None
    code: str | None = None
    refused: str | None = None
    offset: int | None = None


# The modules it needs are taken without `ptc/__init__.py`, which would import the whole runtime.
_START: Final = """
import sys, types
sys.path[:] = {paths!r}
package = types.ModuleType("ptc")
package.__path__ = [{home!r}]
sys.modules["ptc"] = package
from ptc._strip_child import serve
serve()
"""


class StripProcess:
    """`strip` and `form_of` of `ptc._strip`, done elsewhere. Safe to use from several threads: they take turns."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = os.getpid()
        atexit.register(self.close)

    def strip(self, code: str, form: FormChoice) -> tuple[str, Form]:
        """See `ptc._strip.strip`."""
        answer = self._ask({"code": code, "form": form})
        return code if answer.code is None else answer.code, _form(answer)

    def form_of(self, code: str) -> Form:
        """See `ptc._strip.form_of`."""
        return _form(self._ask({"code": code}))

    def close(self) -> None:
        """End the process, if there is one. It may be used again."""
        process, self._process = self._process, None
        if process is not None and self._owner == os.getpid():
            process.kill()

    def _ask(self, question: dict[str, str]) -> _Answer:
        body = json.dumps(question).encode("ascii")
        with self._turn:
            started = monotonic()
            fresh = self._start()
            answer = self._exchange(body, started + _ANSWER_SECONDS)
            if answer is None and not fresh and monotonic() - started < _ANSWER_SECONDS / 2:
                self._start()  # it had just left
                answer = self._exchange(body, started + _ANSWER_SECONDS)
            if answer is None and monotonic() - started >= _ANSWER_SECONDS:
                raise Refused(TOO_SLOW)
        if answer is None:
            raise Refused("the program takes too much memory to parse; it leaves too many brackets or types open")
        if answer.refused is not None:
            raise Refused(answer.refused, answer.offset)
        return answer

    def _start(self) -> bool:
        """Have a process; True if it is a new one."""
        if self._owner != os.getpid():  # a forked copy of the host: the process is not ours
            self._process, self._owner = None, os.getpid()
        if self._process is not None and self._process.poll() is None:
            return False
        home = str(Path(__file__).parent)
        paths = [path for path in sys.path if path]
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _START.format(paths=paths, home=home)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={},
            start_new_session=True,  # an interrupt from the terminal is the host's
        )
        threading.Thread(target=self._process.wait, name="ptc parser", daemon=True).start()  # leaves no zombie
        return True

    def _exchange(self, body: bytes, deadline: float) -> _Answer | None:
        """One question and its answer; None, and no process, if none came before the deadline."""
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            return None
        alarm = threading.Timer(deadline - monotonic(), process.kill)
        alarm.daemon = True
        alarm.start()
        try:
            process.stdin.write(len(body).to_bytes(4) + body)
            process.stdin.flush()
            size = int.from_bytes(process.stdout.read(4))
            # It has read program text, so it is believed as little as that.
            text = process.stdout.read(size) if size <= _ROOM + len(body) else b""
        except OSError:
            text = b""
        except BaseException:  # interrupted: what it answers now must not be taken for the answer to another program
            self._drop(process)
            raise
        finally:
            alarm.cancel()
        try:
            return _checked(json.loads(text))
        except ValueError:
            self._drop(process)
            return None

    def _drop(self, process: subprocess.Popen[bytes]) -> None:
        process.kill()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        self._process = None


def _checked(answer: object) -> _Answer:
    """The answer that a parsed text is. ValueError if it is none: who wrote it has read program text."""
    if not isinstance(answer, dict) or not all(isinstance(part, str) for part in answer.values()):
        raise ValueError("no object of texts")
    form, offset = answer.get("form"), answer.get("offset", "")
    if form not in ("sync", "async", None) or not (offset == "" or (offset.isascii() and offset.isdigit())):
        raise ValueError("no form or no offset")
    return _Answer(form, answer.get("code"), answer.get("refused"), int(offset[:12]) if offset else None)


def _form(answer: _Answer) -> Form:
    """The form an answer tells; one that tells none is that of a process gone wrong."""
    if answer.form is None:
        raise Refused("the program could not be read; try again")
    return answer.form
