"""What a new agent process must be told so that a client does not notice: the handshake, and the open sessions."""

from dataclasses import dataclass, field
from typing import Any, Final

from jsrun.plugs._answers import Passed
from jsrun.plugs.chain import MessageChain
from jsrun.plugs.errors import CannotReattach, RequestError
from jsrun.plugs.message import Message

# More sessions than a person has open; the ones opened last are taken up again.
MAX_SESSIONS: Final = 64


@dataclass(slots=True)
class Attached:
    """What the client and the agent have agreed on, gathered from the messages that passed."""

    initialize: Any = None
    capabilities: Any = None
    authenticate: Any = None
    sessions: dict[str, Any] = field(default_factory=dict)
    """ACP session → the parameters it was opened with."""

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "Attached":
        """What `to_json` gave; parts that are damaged are left out."""
        sessions = data.get("sessions")
        kept = {str(key): value for key, value in sessions.items()} if isinstance(sessions, dict) else {}
        return cls(data.get("initialize"), data.get("capabilities"), data.get("authenticate"), kept)

    def to_json(self) -> dict[str, Any]:
        """As JSON data."""
        return {
            "initialize": self.initialize,
            "capabilities": self.capabilities,
            "authenticate": self.authenticate,
            "sessions": self.sessions,
        }

    @property
    def method(self) -> str | None:
        """How an ACP session is taken up again; None if the agent offers no way."""
        capabilities = self.capabilities if isinstance(self.capabilities, dict) else {}
        ways = capabilities.get("sessionCapabilities")
        if isinstance(ways, dict) and ways.get("resume") is not None:
            return "session/resume"
        return "session/load" if capabilities.get("loadSession") is True else None

    @property
    def possible(self) -> bool:
        """Could everything be taken up again by another agent process?"""
        return not self.sessions or self.method is not None

    def heard(self, passed: Passed) -> bool:
        """Take note of a message that is done. Has anything changed?"""
        message, result = passed.message, passed.result
        if message.direction != "to_agent" or message.kind != "request" or passed.error is not None:
            return False
        params = message.params if isinstance(message.params, dict) else {}
        match message.method:
            case "initialize":
                self.initialize = message.params
                self.capabilities = result.get("agentCapabilities") if isinstance(result, dict) else None
            case "authenticate":
                self.authenticate = message.params
            case "session/new" if isinstance(result, dict) and isinstance(result.get("sessionId"), str):
                self._open(result["sessionId"], params)
            case "session/load" | "session/resume" if isinstance(params.get("sessionId"), str):
                self._open(params["sessionId"], params)
            case "session/close" | "session/delete":
                self.sessions.pop(str(params.get("sessionId")), None)
            case _:
                return False
        return True

    def _open(self, session: str, params: dict[str, Any]) -> None:
        self.sessions.pop(session, None)
        self.sessions[session] = {key: value for key, value in params.items() if key != "sessionId"}
        while len(self.sessions) > MAX_SESSIONS:
            del self.sessions[next(iter(self.sessions))]

    async def again(self, chain: MessageChain) -> None:
        """Tell a new agent what the old one knew, through the plugs; the client sees nothing of it.

        CannotReattach if the agent refuses.
        """
        if self.initialize is None:
            return
        chain.hidden = True
        try:
            await _ask(chain, "initialize", self.initialize)
            if self.authenticate is not None:
                await _ask(chain, "authenticate", self.authenticate)
            if self.sessions and self.method is None:
                raise CannotReattach("The agent offers no way to take up a session again.")
            for session, params in self.sessions.items():
                await _ask(chain, self.method or "", {"sessionId": session, **params})
        finally:
            chain.hidden = False


async def _ask(chain: MessageChain, method: str, params: Any) -> Any:
    try:
        return await chain.send(-1, Message("to_agent", method, params=params, kind="request"))
    except RequestError as error:
        raise CannotReattach(f"The agent does not take up where it was: {method} is refused: {error}") from None
