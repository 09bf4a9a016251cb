"""A message of the Agent Client Protocol as plugs see it, and what is known of the methods of protocol version 1."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import replace as changed
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

from jsrun.plugs.errors import MissingExtra

Direction: TypeAlias = Literal["to_agent", "from_agent"]
Kind: TypeAlias = Literal["request", "notification"]

# The one method that plugs do not see: a cancel is acted on by the chain itself.
CANCEL_REQUEST: Final = "$/cancel_request"


@dataclass(frozen=True, slots=True)
class Message:
    """One request or notification on its way to the agent or from it.

    `params` is plain JSON and must not be changed in place; None stands for no params. ValueError for another
    direction or kind than those there are, TypeError for a method that is no text.
    """

    direction: Direction
    method: str
    params: Any = None
    kind: Kind = "request"

    def __post_init__(self) -> None:
        if self.direction not in ("to_agent", "from_agent"):
            raise ValueError(f"The direction of a message is 'to_agent' or 'from_agent', not {self.direction!r}.")
        if self.kind not in ("request", "notification"):
            raise ValueError(f"The kind of a message is 'request' or 'notification', not {self.kind!r}.")
        if not isinstance(self.method, str):
            raise TypeError(f"The method of a message is a text, not {type(self.method).__name__}.")

    def replace(self, /, **params: Any) -> "Message":
        """The message with these members of `params` set, and all others as they are.

        TypeError if its params are neither absent nor an object. To change the method, use `dataclasses.replace`.
        """
        if self.params is not None and not isinstance(self.params, dict):
            raise TypeError("Members can be replaced only in params that are an object.")
        return changed(self, params={**(self.params or {}), **params})

    def copy(self) -> "Message":
        """The message with params of its own, all the way down, which may be changed."""
        return changed(self, params=copy.deepcopy(self.params))

    def view(self) -> Any:
        """The params as a model of the ACP library; what is forwarded stays the raw value.

        MissingExtra without that library, LookupError for a method it has no model for, pydantic's ValidationError if
        the params do not fit.
        """
        return _model(self, self.params if self.params is not None else {})


@dataclass(frozen=True, slots=True)
class MethodInfo:
    """A known method: who is asked (`directions`), the kinds it comes in, and names of models in `acp.schema`.

    `result` is None for what is only a notification. `params` lists a request's model before a notification's.
    """

    directions: tuple[Direction, ...]
    kinds: tuple[Kind, ...]
    params: tuple[str, ...]
    result: str | None = None


def _asked(params: str, result: str, *others: str, to: Direction = "to_agent") -> MethodInfo:
    return MethodInfo((to,), ("request",), (params, *others), result)


def _told(params: str, to: Direction = "to_agent") -> MethodInfo:
    return MethodInfo((to,), ("notification",), (params,))


METHODS: Final[Mapping[str, MethodInfo]] = MappingProxyType(
    {
        "initialize": _asked("InitializeRequest", "InitializeResponse"),
        "authenticate": _asked("AuthenticateRequest", "AuthenticateResponse"),
        "logout": _asked("LogoutRequest", "LogoutResponse"),
        "providers/list": _asked("ListProvidersRequest", "ListProvidersResponse"),
        "providers/set": _asked("SetProviderRequest", "SetProviderResponse"),
        "providers/disable": _asked("DisableProviderRequest", "DisableProviderResponse"),
        "session/new": _asked("NewSessionRequest", "NewSessionResponse"),
        "session/load": _asked("LoadSessionRequest", "LoadSessionResponse"),
        "session/list": _asked("ListSessionsRequest", "ListSessionsResponse"),
        "session/delete": _asked("DeleteSessionRequest", "DeleteSessionResponse"),
        "session/fork": _asked("ForkSessionRequest", "ForkSessionResponse"),
        "session/resume": _asked("ResumeSessionRequest", "ResumeSessionResponse"),
        "session/close": _asked("CloseSessionRequest", "CloseSessionResponse"),
        "session/set_mode": _asked("SetSessionModeRequest", "SetSessionModeResponse"),
        "session/set_config_option": _asked(
            "SetSessionConfigOptionSelectRequest",
            "SetSessionConfigOptionResponse",
            "SetSessionConfigOptionBooleanRequest",
        ),
        "session/prompt": _asked("PromptRequest", "PromptResponse"),
        "session/cancel": _told("CancelNotification"),
        "nes/start": _asked("StartNesRequest", "StartNesResponse"),
        "nes/suggest": _asked("SuggestNesRequest", "SuggestNesResponse"),
        "nes/accept": _told("AcceptNesNotification"),
        "nes/reject": _told("RejectNesNotification"),
        "nes/close": _asked("CloseNesRequest", "CloseNesResponse"),
        "document/didOpen": _told("DidOpenDocumentNotification"),
        "document/didChange": _told("DidChangeDocumentNotification"),
        "document/didClose": _told("DidCloseDocumentNotification"),
        "document/didSave": _told("DidSaveDocumentNotification"),
        "document/didFocus": _told("DidFocusDocumentNotification"),
        "session/request_permission": _asked("RequestPermissionRequest", "RequestPermissionResponse", to="from_agent"),
        "session/update": _told("SessionNotification", to="from_agent"),
        "fs/write_text_file": _asked("WriteTextFileRequest", "WriteTextFileResponse", to="from_agent"),
        "fs/read_text_file": _asked("ReadTextFileRequest", "ReadTextFileResponse", to="from_agent"),
        "terminal/create": _asked("CreateTerminalRequest", "CreateTerminalResponse", to="from_agent"),
        "terminal/output": _asked("TerminalOutputRequest", "TerminalOutputResponse", to="from_agent"),
        "terminal/release": _asked("ReleaseTerminalRequest", "ReleaseTerminalResponse", to="from_agent"),
        "terminal/wait_for_exit": _asked("WaitForTerminalExitRequest", "WaitForTerminalExitResponse", to="from_agent"),
        "terminal/kill": _asked("KillTerminalRequest", "KillTerminalResponse", to="from_agent"),
        "mcp/connect": _asked("ConnectMcpRequest", "ConnectMcpResponse", to="from_agent"),
        "mcp/disconnect": _asked("DisconnectMcpRequest", "DisconnectMcpResponse", to="from_agent"),
        # The far end of an MCP connection may be on either side, and MCP has both kinds.
        "mcp/message": MethodInfo(
            ("to_agent", "from_agent"),
            ("request", "notification"),
            ("MessageMcpRequest", "MessageMcpNotification"),
        ),
        "elicitation/create": _asked("CreateElicitationRequest", "CreateElicitationResponse", to="from_agent"),
        "elicitation/complete": _told("CompleteElicitationNotification", to="from_agent"),
    }
)


def _model(message: Message, params: Any) -> Any:
    """See Message.view."""
    try:
        from acp import schema
    except ImportError as error:
        raise MissingExtra("acp") from error
    from pydantic import TypeAdapter

    info = METHODS.get(message.method)
    if info is None:
        raise LookupError(f"The ACP library has no model for {message.method}.")
    names = info.params
    if len(info.kinds) > 1:
        names = (names[info.kinds.index(message.kind)],)
    elif len(names) > 1:
        # An option is boolean if its params say so, else one of a list.
        names = (names[1],) if isinstance(params, dict) and params.get("type") == "boolean" else (names[0],)
    return TypeAdapter(getattr(schema, names[0])).validate_python(params)
