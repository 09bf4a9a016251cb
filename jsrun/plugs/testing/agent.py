"""An agent that does what a test says: a coroutine on a host in memory."""

import inspect
from typing import Any

from jsrun.plugs.errors import RequestError
from jsrun.plugs.hosts.memory import MemoryIO
from jsrun.plugs.testing.peer import METHOD_NOT_FOUND, Peer, Reply

READ_BYTES = 64 * 1024


class ScriptedAgent:
    """Speaks ACP: it answers `initialize`, `session/new`, `session/load`, `session/resume` and `session/prompt`.

    `on[method]` is what answers a method instead, called with the peer, the method and the params; it may be async,
    send updates with `peer.notify`, ask with `peer.request`, and raise RequestError. `peer` is None until the agent
    was started; `got` is what it got over all starts.
    """

    def __init__(self, on: dict[str, Reply] | None = None, *, exit_code: int = 0) -> None:
        self.on: dict[str, Reply] = dict(on or {})
        self.exit_code = exit_code
        self.peer: Peer | None = None
        self.got: list[tuple[str, Any, Any]] = []
        self.log: list[tuple[str, str, Any, Any]] | None = None  # see Peer
        self.starts = 0
        self.args: tuple[str, ...] = ()
        self.env: dict[str, str] = {}
        self.cwd = ""
        self._sessions = 0

    async def program(self, io: MemoryIO) -> int:
        """The coroutine for `MemoryHost.program`: ends with `exit_code` when its stdin does."""
        self.starts += 1
        self.args, self.env, self.cwd = io.args, dict(io.env), io.cwd
        peer = self.peer = Peer("agent", self._reply)
        peer.got = self.got
        peer.log = self.log
        peer.feed = io.stdout.write
        try:
            while data := await io.stdin.read(READ_BYTES):
                await peer.accept(data)
        finally:
            await peer.close()
        return self.exit_code

    async def _reply(self, peer: Peer, method: str, params: Any) -> Any:
        reply: Reply = self.on.get(method, self._usual)
        result = reply(peer, method, params)
        return await result if inspect.isawaitable(result) else result

    async def _usual(self, peer: Peer, method: str, params: Any) -> Any:
        match method:
            case "initialize":
                return {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}, "authMethods": []}
            case "session/new":
                self._sessions += 1
                return {"sessionId": f"acp-{self._sessions}"}
            case "session/load" | "session/resume" | "authenticate" | "session/set_mode":
                return {}
            case "session/prompt":
                text = "".join(block.get("text", "") for block in params.get("prompt", ()))
                chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
                await peer.notify("session/update", {"sessionId": params.get("sessionId"), "update": chunk})
                return {"stopReason": "end_turn"}
        raise RequestError(METHOD_NOT_FOUND, f"{method} is not offered.")
