"""The host functions that escape programs may call, like those of hosts: some echo, some fail, some never answer."""

import asyncio
import datetime
import decimal
import json
from collections.abc import Awaitable, Callable
from typing import Any, Final

import ptc

__all__ = ["SECRET", "EscapeHost"]

SECRET: Final = "hunter2-of-the-host"
"""In causes and attributes of the errors that `leaky` raises; nothing of it may reach a program."""


class _Dict(dict[str, Any]):
    pass


def _odd_values() -> dict[str, object]:
    cycle: list[Any] = []
    cycle.append(cycle)
    deep: list[Any] = []
    for _ in range(20_000):
        deep = [deep]
    return {
        "nan": float("nan"),
        "infinity": float("inf"),
        "minus zero": -0.0,
        "decimal": decimal.Decimal("1.5"),
        "datetime": datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC),
        "bytes": b"abc",
        "set": {1},
        "subclass": _Dict(a=1),
        "key": {1: 2},
        "cycle": cycle,
        "deep": deep,
        "2**53": 2**53,
        "2**63": 2**63,
        "5000 digits": 10**4999,
        "4000 digits": 10**3999,
        "1.0": 1.0,
        "half a pair": "\ud83d",
        "two halves": "\ud83d\ude00",
        "exception": ValueError("x"),
        "function": len,
    }


class EscapeHost:
    """The functions of one run and what they were called with: `calls`, as [name, argument], in order."""

    def __init__(self, again: Callable[[Any], Awaitable[Any]]) -> None:
        """again: runs the same program once more with this input and gives its value."""
        self.calls: list[list[Any]] = []
        self._again = again

    def functions(self) -> dict[str, Callable[[Any], Any]]:
        """Name to function of one argument; each call is noted first."""
        return {
            "echo": self._noted("echo", self._echo),
            "fail": self._noted("fail", self._fail),
            "leaky": self._noted("leaky", self._leaky),
            "never": self._noted("never", self._never),
            "slow": self._noted("slow", self._slow),
            "again": self._noted("again", self._again),
            "big": self._noted("big", self._big),
            "parse": self._noted("parse", self._parse),
            "odd": self._noted("odd", self._odd),
            "end": self._noted("end", self._end),
        }

    def _noted(self, name: str, function: Callable[[Any], Awaitable[Any]]) -> Callable[[Any], Awaitable[Any]]:
        async def call(argument: Any) -> Any:
            self.calls.append([name, argument])
            return await function(argument)

        return call

    async def _echo(self, argument: Any) -> Any:
        return argument

    async def _fail(self, argument: Any) -> Any:
        raise ptc.CallError(str(argument))

    async def _leaky(self, argument: Any) -> Any:
        """Fail as code of a host does: inside of something, with a cause that nobody else is to see."""
        try:
            raise PermissionError(13, "denied", f"/etc/{SECRET}")
        except PermissionError as cause:
            error = ValueError(str(argument))
            error.add_note(SECRET)
            raise error from cause

    async def _never(self, _argument: Any) -> Any:
        await asyncio.Event().wait()

    async def _slow(self, argument: Any) -> Any:
        await asyncio.sleep(0.05)
        return argument

    async def _big(self, argument: Any) -> Any:
        return "x" * int(argument["size"] if isinstance(argument, dict) else argument)

    async def _parse(self, argument: Any) -> Any:
        return json.loads(argument["text"] if isinstance(argument, dict) else argument)

    async def _odd(self, argument: Any) -> Any:
        return _odd_values()[argument["name"] if isinstance(argument, dict) else argument]

    async def _end(self, argument: Any) -> Any:
        """Raise what is no Exception."""
        raise {"exit": SystemExit, "interrupt": KeyboardInterrupt, "cancel": asyncio.CancelledError}[
            argument["how"] if isinstance(argument, dict) else argument
        ]
