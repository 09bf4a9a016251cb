"""What runs inside the helper process of `ptc._strip_process`."""

import json
import os
import signal
import sys
from contextlib import suppress
from typing import Final, cast

from ptc._strip import FormChoice, Refused, form_of, strip

__all__ = ["serve"]

_MEMORY: Final = 1 << 30
"""Address space. A megabyte of honest TypeScript takes a fifth of it."""

_CPU_SECONDS: Final = 3
"""For one program, should the host be gone that would end us after two."""

_IDLE_SECONDS: Final = 2
"""Without a question for this long the process ends: long enough for a series of loads, and then nothing is left."""


def serve() -> None:
    """Answer questions from standard input on standard output, until there are no more."""
    _limit_memory()
    while True:
        _set_idle_alarm(_IDLE_SECONDS)
        size = sys.stdin.buffer.read(4)
        body = sys.stdin.buffer.read(int.from_bytes(size)) if len(size) == 4 else b""
        _set_idle_alarm(0)
        if not body:
            return
        _limit_cpu()
        answer = json.dumps(_answer(json.loads(body))).encode("ascii")
        sys.stdout.buffer.write(len(answer).to_bytes(4) + answer)
        sys.stdout.buffer.flush()


def _answer(question: dict[str, str]) -> dict[str, str]:
    code = question["code"]
    try:
        if "form" not in question:
            return {"form": form_of(code)}
        stripped, form = strip(code, cast("FormChoice", question["form"]))
    except Refused as refused:
        place = {} if refused.offset is None else {"offset": str(refused.offset)}
        return {"refused": refused.advice, **place}
    return {"form": form} if stripped == code else {"form": form, "code": stripped}


def _set_idle_alarm(seconds: int) -> None:
    if hasattr(signal, "alarm"):
        signal.alarm(seconds)


def _limit_memory() -> None:
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _limit_cpu() -> None:
    with suppress(ImportError, OSError, ValueError):
        import resource

        used = sum(os.times()[:2])
        _, hard = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (int(used) + _CPU_SECONDS, hard))
