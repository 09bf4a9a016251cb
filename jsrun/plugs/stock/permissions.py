"""`permissions`: answers the agent's questions for permission by rules."""

import posixpath
import re
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pydantic import BaseModel, field_validator

from jsrun.plugs.api import NextMessage, Plug
from jsrun.plugs.message import Message

Answer: TypeAlias = Literal["allow", "deny", "ask"]

# Of so many tool calls it is remembered what they are; a question may tell only what has changed.
_REMEMBERED = 1_000
_FACTS = ("kind", "title", "locations")
_CANCELLED = {"outcome": {"outcome": "cancelled"}}


class Rule(BaseModel):
    """What a question must be like for `answer`: its `kind`, a glob for all its paths, a pattern for its title.

    Each is optional. In a glob `*` and `?` stay within one part of a path, and `**` does not; a relative one starts at
    the agent's folder. The pattern is a regular expression that is searched.
    """

    answer: Answer
    kind: str | None = None
    path: str | None = None
    title: str | None = None

    @field_validator("title")
    @classmethod
    def _compiles(cls, value: str | None) -> str | None:
        try:
            re.compile(value or "")
        except re.error as error:
            raise ValueError(f"not a regular expression: {error}") from None
        return value

    @field_validator("path")
    @classmethod
    def _is_glob(cls, value: str | None) -> str | None:
        try:
            re.compile(glob_regex(value or ""))
        except re.error as error:
            raise ValueError(f"not a glob: {error}") from None
        return value


class PermissionsInputs(BaseModel):
    """The first rule that fits answers, else `default`."""

    rules: list[Rule] = []
    default: Answer = "ask"


class PermissionsPlug(Plug, name="jsrun/permissions", description="answers questions for permission", api=(1, 0)):
    """See the module. `ask` passes the question on, as does `allow` without an option for it.

    From `session/cancel` to the answer of the prompt every question of that session is answered `cancelled`.
    """

    Inputs = PermissionsInputs
    if TYPE_CHECKING:
        inputs: PermissionsInputs

    def load(self) -> None:
        """Nothing is known of ACP sessions yet."""
        self._prompts: dict[str, int] = {}
        self._cancelled: set[str] = set()
        self._calls: OrderedDict[tuple[str, str], dict[str, Any]] = OrderedDict()

    async def message(self, message: Message, next: NextMessage) -> Any:
        """Answer questions; see prompts, cancels and tool calls go by."""
        params = message.params if isinstance(message.params, dict) else {}
        session = str(params.get("sessionId"))
        if message.method == "session/prompt":
            return await self._prompt(session, message, next)
        if message.method == "session/cancel" and self._prompts.get(session):
            self._cancelled.add(session)
        elif message.method == "session/update" and isinstance(params.get("update"), dict):
            self._remember(session, params["update"])
        elif message.method == "session/request_permission" and message.kind == "request":
            answer = self._answer(session, params)
            if answer is not None:
                return answer
        return await next(message)

    async def _prompt(self, session: str, message: Message, next: NextMessage) -> Any:
        self._prompts[session] = self._prompts.get(session, 0) + 1
        try:
            return await next(message)
        finally:
            self._prompts[session] -= 1
            if not self._prompts[session]:
                del self._prompts[session]
                self._cancelled.discard(session)

    def _answer(self, session: str, params: dict[str, Any]) -> dict[str, Any] | None:
        """The answer to a question, None to pass it on."""
        if session in self._cancelled:
            return _CANCELLED
        call = params.get("toolCall")
        call = call if isinstance(call, dict) else {}
        known = self._calls.get((session, str(call.get("toolCallId"))), {})
        answer = self._decide({**known, **_facts(call)})
        self.log.debug("a question for permission", answer=answer, tool_call=call.get("toolCallId"))
        if answer == "ask":
            return None
        wanted = ("allow_once", "allow_always") if answer == "allow" else ("reject_once", "reject_always")
        options = params.get("options")
        for kind in wanted:
            for option in options if isinstance(options, list) else []:
                if isinstance(option, dict) and option.get("kind") == kind and isinstance(option.get("optionId"), str):
                    return {"outcome": {"outcome": "selected", "optionId": option["optionId"]}}
        return None if answer == "allow" else _CANCELLED

    def _decide(self, call: dict[str, Any]) -> Answer:
        cwd = self.ctx.agent.cwd
        for rule in self.inputs.rules:
            if rule.kind is not None and call.get("kind") != rule.kind:
                continue
            if rule.title is not None and not re.search(rule.title, str(call.get("title") or "")):
                continue
            if rule.path is not None and not _all_match(rule.path, call.get("locations"), cwd):
                continue
            return rule.answer
        return self.inputs.default

    def _remember(self, session: str, update: dict[str, Any]) -> None:
        if update.get("sessionUpdate") not in ("tool_call", "tool_call_update"):
            return
        key = (session, str(update.get("toolCallId")))
        self._calls[key] = {**self._calls.pop(key, {}), **_facts(update)}
        if len(self._calls) > _REMEMBERED:
            self._calls.popitem(last=False)


def _facts(call: dict[str, Any]) -> dict[str, Any]:
    return {name: call[name] for name in _FACTS if call.get(name) is not None}


def _all_match(glob: str, locations: Any, cwd: str) -> bool:
    """Whether there are locations, and all of their paths match."""
    if not isinstance(locations, list) or not locations:
        return False
    # The folder is taken as it is: its name may hold what means something in a glob.
    before = "" if glob.startswith("/") else re.escape(_normal(cwd, "/").rstrip("/") + "/")
    pattern = re.compile(before + glob_regex(glob), re.DOTALL)
    for location in locations:
        path = location.get("path") if isinstance(location, dict) else None
        if not isinstance(path, str) or not pattern.fullmatch(_normal(path, cwd)):
            return False
    return True


def _normal(path: str, cwd: str) -> str:
    normal = posixpath.normpath(posixpath.join(cwd, path))
    # POSIX gives two leading slashes a meaning of their own; here they are one.
    return normal[1:] if normal.startswith("//") else normal


def glob_regex(glob: str) -> str:
    """The regular expression of a glob: `*` and `?` within a part of the path, `**` over parts, `[…]` one character."""
    out = ""
    at = 0
    while at < len(glob):
        if glob.startswith("**/", at) and (at == 0 or glob[at - 1] == "/"):
            out += "(?:[^/]+/)*"
            at += 3
        elif glob.startswith("**", at):
            out += ".*"
            at += 2
        elif glob[at] in "*?":
            out += "[^/]*" if glob[at] == "*" else "[^/]"
            at += 1
        elif glob[at] == "[" and (end := glob.find("]", at + 2)) > 0:
            inside = re.sub(r"[\\[^]", r"\\\g<0>", glob[at + 1 : end])
            out += f"(?!/)[{'^' + inside[1:] if inside[0] == '!' else inside}]"
            at = end + 1
        else:
            out += re.escape(glob[at])
            at += 1
    return out
