"""`transcript`: writes one JSON line per message to a file."""

import asyncio
import json
import time
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel

from jsrun.plugs.api import NextMessage, NextSession, Plug
from jsrun.plugs.errors import HostError, PlugError, RequestError
from jsrun.plugs.message import Message

# A request is written when it is answered, and later messages wait for it. With more than so many waiting, it is
# written as it is.
MAX_WAITING = 10_000


class TranscriptInputs(BaseModel):
    """`path` of the file, on the runner or on the agent's `host`; it is added to, and made with mode 0600.

    `on_error`: whether a file that cannot be written fails the run. `bodies`: whether params and results are written.
    """

    path: str
    where: Literal["runner", "host"] = "runner"
    on_error: Literal["warn", "fail"] = "warn"
    bodies: bool = True


@dataclass(slots=True)
class _Line:
    """A message that is to be written."""

    fields: dict[str, Any]
    began: float = field(default_factory=time.monotonic)
    done: bool = False


class TranscriptPlug(Plug, name="jsrun/transcript", description="writes messages to a file", api=(1, 0)):
    """See the module. Lines stand in the order in which the messages came by.

    A message that was never answered has `"unanswered": true` instead of a result.
    """

    Inputs = TranscriptInputs
    if TYPE_CHECKING:
        inputs: TranscriptInputs

    def load(self) -> None:
        """Nothing is to be written yet."""
        self._waiting: deque[_Line] = deque()
        self._ready: list[bytes] = []
        self._more = asyncio.Event()
        self._ending = False
        self._error: Exception | None = None

    async def session(self, next: NextSession) -> None:
        """Write while the inside runs, and what is left after it."""
        host = self.ctx.host if self.inputs.where == "host" else self.ctx.runner
        path = host.path(self.inputs.path)
        try:
            if not await path.exists():
                await path.touch()
                await path.chmod(0o600)  # it holds whatever is said
            await path.append_bytes(b"")  # whether it can be written is known before anything starts
        except (OSError, HostError) as error:
            self._failed(error)
            self._check()
        writer = asyncio.create_task(self._write(path))
        try:
            await next()
        finally:
            self._ending = True
            self._collect()
            self._more.set()
            await writer
        self._check()

    async def message(self, message: Message, next: NextMessage) -> Any:
        """Note the message and how it ended."""
        self._check()
        fields: dict[str, Any] = {
            "time": round(time.time(), 6),
            "direction": message.direction,
            "kind": message.kind,
            "method": message.method,
        }
        if self.inputs.bodies:
            fields["params"] = message.params
        line = _Line(fields)
        self._waiting.append(line)
        try:
            result = await next(message)
        except RequestError as error:
            data = {} if error.data is None or not self.inputs.bodies else {"data": error.data}
            fields["error"] = {"code": error.code, "message": error.message, **data}
            raise
        except BaseException:
            fields["unanswered"] = True
            raise
        else:
            if message.kind == "request" and self.inputs.bodies:
                fields["result"] = result
            return result
        finally:
            fields["seconds"] = round(time.monotonic() - line.began, 6)
            line.done = True
            self._collect()

    def _collect(self) -> None:
        """Hand on what is done and has nothing before it that is not."""
        while self._waiting:
            line = self._waiting[0]
            if not line.done:
                if len(self._waiting) <= MAX_WAITING and not self._ending:
                    break
                line.fields["unanswered"] = True
            self._waiting.popleft()
            if self._error is None:
                self._ready.append(json.dumps(line.fields, separators=(",", ":")).encode() + b"\n")
        if self._ready:
            self._more.set()

    async def _write(self, path: Any) -> None:
        while not self._ending or self._ready:
            await self._more.wait()
            self._more.clear()
            lines, self._ready = self._ready, []
            if not lines or self._error is not None:
                continue
            try:
                await path.append_bytes(b"".join(lines))
            except (OSError, HostError) as error:
                self._failed(error)

    def _failed(self, error: Exception) -> None:
        self._error = error
        self._ready.clear()
        if self.inputs.on_error == "warn":
            self.log.warning("the transcript cannot be written and ends here", path=self.inputs.path, error=error)

    def _check(self) -> None:
        if self._error is not None and self.inputs.on_error == "fail":
            raise PlugError(f"The transcript {self.inputs.path} cannot be written: {self._error}") from self._error
