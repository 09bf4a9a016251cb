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
from pathlib import Path
from time import monotonic
from typing import Final, cast

from ptc._strip import TOO_SLOW, Form, FormChoice, Refused

__all__ = ["StripProcess"]

_ANSWER_SECONDS: Final = 2.0
"""From the question to the answer, a start of the process included."""

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
        return answer.get("code", code), cast("Form", answer["form"])

    def form_of(self, code: str) -> Form:
        """See `ptc._strip.form_of`."""
        return cast("Form", self._ask({"code": code})["form"])

    def close(self) -> None:
        """End the process, if there is one. It may be used again."""
        process, self._process = self._process, None
        if process is not None and self._owner == os.getpid():
            process.kill()

    def _ask(self, question: dict[str, str]) -> dict[str, str]:
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
        if "refused" in answer:
            raise Refused(answer["refused"], int(answer["offset"]) if "offset" in answer else None)
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

    def _exchange(self, body: bytes, deadline: float) -> dict[str, str] | None:
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
            size = process.stdout.read(4)
            text = process.stdout.read(int.from_bytes(size)) if len(size) == 4 else b""
        except OSError:
            text = b""
        except BaseException:  # interrupted: what it answers now must not be taken for the answer to another program
            self._drop(process)
            raise
        finally:
            alarm.cancel()
        try:
            return cast("dict[str, str]", json.loads(text))
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
