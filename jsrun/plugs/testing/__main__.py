"""`python -m jsrun.plugs.testing`: the scripted agent as a process on standard streams, to try a setup with.

A prompt is said again with the variables it names (`$NAME`) replaced by what the agent has, "unset" if it has none.
A prompt of `edit PATH` first asks whether that file may be edited, and says which option was chosen.
"""

import asyncio
import os
import re
import sys
from pathlib import Path
from typing import Any, Final

from jsrun.plugs.testing.agent import ScriptedAgent
from jsrun.plugs.testing.peer import Peer

_VARIABLE: Final = re.compile(r"\$([A-Za-z_]\w*)")
_OPTIONS: Final = (
    {"optionId": "allow", "name": "Allow", "kind": "allow_once"},
    {"optionId": "reject", "name": "Reject", "kind": "reject_once"},
)


async def _prompt(peer: Peer, method: str, params: Any) -> Any:
    session = params.get("sessionId")
    text = "".join(block.get("text", "") for block in params.get("prompt", ()))
    if text.startswith("edit "):
        path = text.removeprefix("edit ").strip()
        call = {"toolCallId": "edit", "title": text, "kind": "edit", "locations": [{"path": path}]}
        answer = await peer.request(
            "session/request_permission", {"sessionId": session, "toolCall": call, "options": list(_OPTIONS)}
        )
        outcome = answer["outcome"]
        text = f"{text}: {outcome.get('optionId', outcome['outcome'])}"
    said = _VARIABLE.sub(lambda match: os.environ.get(match[1], "unset"), text)
    chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": said}}
    await peer.notify("session/update", {"sessionId": session, "update": chunk})
    return {"stopReason": "end_turn"}


class _StandardStreams:
    """The process's own streams, as `ScriptedAgent.program` takes them; one object is both."""

    def __init__(self) -> None:
        self.args = tuple(sys.argv[1:])
        self.env = dict(os.environ)
        self.cwd = str(Path.cwd())
        self.stdin = self.stdout = self

    async def read(self, n: int) -> bytes:
        """Some bytes, none at the end."""
        return await asyncio.to_thread(os.read, 0, n)

    async def write(self, data: bytes) -> None:
        """Write all of it."""
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    streams: Any = _StandardStreams()
    sys.exit(asyncio.run(ScriptedAgent({"session/prompt": _prompt}).program(streams)))
