"""`redact`: masks secrets in what the agent says, also when they are split over chunks."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import BaseModel, SecretStr, field_validator

from jsrun.plugs.api import NextMessage, Plug
from jsrun.plugs.errors import PlugError, RequestError
from jsrun.plugs.message import Message
from jsrun.plugs.stock._masking import Masker

_CHUNKS: Final = frozenset({"agent_message_chunk", "agent_thought_chunk", "user_message_chunk"})
_FROM_AGENT: Final = frozenset({"session/update", "session/request_permission", "elicitation/create"})
# What is no text for people: ids, paths, contents of files, words of the protocol, and schemas.
_NO_TEXT: Final = frozenset(
    {
        "_meta",
        "blob",
        "const",
        "cwd",
        "data",
        "default",
        "enum",
        "format",
        "id",
        "kind",
        "mimeType",
        "mode",
        "newText",
        "oldText",
        "path",
        "pattern",
        "priority",
        "required",
        "resource",
        "role",
        "sessionUpdate",
        "status",
        "type",
        "uri",
    }
)


class RedactInputs(BaseModel):
    """What to mask: `secrets`, the values of the runner's variables named in `env`, and what `patterns` match.

    `direction`: what the agent says, prompts, or both. `mask` is put in their place.
    """

    secrets: list[SecretStr] = []
    env: list[str] = []
    patterns: list[str] = []
    direction: Literal["from_agent", "to_agent", "both"] = "from_agent"
    mask: str = "[redacted]"

    @field_validator("patterns")
    @classmethod
    def _compile(cls, value: list[str]) -> list[str]:
        for pattern in value:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"not a regular expression: {error}") from None
        return value


@dataclass(slots=True)
class _Held:
    """The tail of a stream of chunks that is not sent yet, and the last chunk it is of."""

    message: Message
    stream: tuple[Any, ...]
    text: str


class RedactPlug(Plug, name="jsrun/redact", description="masks secrets in what the agent says", api=(1, 0)):
    """See the module. Never masked: ids, paths, contents of files, `_meta`.

    Of streamed text the tail that may begin a secret is held back, and sent before anything else of its ACP session.
    """

    Inputs = RedactInputs
    if TYPE_CHECKING:
        inputs: RedactInputs

    def load(self) -> None:
        """Collect what is to be masked."""
        self._held: dict[str, _Held] = {}
        runner = self.ctx.runner_env
        missing = [name for name in self.inputs.env if not runner.get(name)]
        if missing:
            self.log.warning("the runner does not have variables whose values are to be masked", names=missing)
        secrets = [secret.get_secret_value() for secret in self.inputs.secrets]
        values = [runner[name] for name in self.inputs.env if name not in missing]
        self._masker = Masker([*secrets, *values], self.inputs.patterns, self.inputs.mask)

    async def message(self, message: Message, next: NextMessage) -> Any:
        """Mask, hold back, and send what was held back before what follows it."""
        params = message.params
        session = params.get("sessionId") if isinstance(params, dict) else None
        if self._masker.idle or not isinstance(params, dict):
            return await next(message)
        if message.direction == "to_agent":
            if message.method == "session/prompt" and self.inputs.direction != "from_agent":
                message = message.replace(prompt=self._walked(params.get("prompt")))
            try:
                result = await next(message)
            except RequestError:
                await self._release(session)
                raise
            # An answer, of a prompt say, comes after what the agent said before it.
            await self._release(session)
            return result
        if self.inputs.direction == "to_agent":
            return await next(message)
        if isinstance(session, str):
            chunk = _chunk(message)
            if chunk is not None:
                return await self._stream(session, message, chunk, next)
            await self._release(session)
        if message.method in _FROM_AGENT:
            message = Message(message.direction, message.method, self._walked(params), message.kind)
        return await next(message)

    async def _stream(self, session: str, message: Message, chunk: str, next: NextMessage) -> Any:
        update = message.params["update"]
        stream = (update["sessionUpdate"], update.get("messageId"))
        held = self._held.get(session)
        if held is not None and held.stream != stream:
            await self._release(session)
            held = None
        shown, tail = self._masker.split((held.text if held is not None else "") + chunk)
        if tail:
            self._held[session] = _Held(message, stream, tail)
        else:
            self._held.pop(session, None)
        if shown or not tail:
            return await next(_with_text(message, shown))
        return None

    async def _release(self, session: Any) -> None:
        held = self._held.pop(session, None) if isinstance(session, str) else None
        if held is None:
            return
        try:
            await self.ctx.send(_with_text(held.message, self._masker.mask(held.text)))
        except PlugError as error:
            self.log.warning("text held back could not be sent", error=error)

    def _walked(self, value: Any) -> Any:
        """`value` with its texts masked."""
        if isinstance(value, str):
            return self._masker.mask(value)
        if isinstance(value, list):
            return [self._walked(item) for item in value]
        if isinstance(value, dict):
            return {key: item if _is_no_text(key) else self._walked(item) for key, item in value.items()}
        return value


def _chunk(message: Message) -> str | None:
    """The text of a chunk of a stream; None for anything else."""
    update = message.params.get("update")
    if message.method != "session/update" or not isinstance(update, dict):
        return None
    content = update.get("content")
    if update.get("sessionUpdate") not in _CHUNKS or not isinstance(content, dict) or content.get("type") != "text":
        return None
    text = content.get("text")
    return text if isinstance(text, str) else None


def _with_text(message: Message, text: str) -> Message:
    update = message.params["update"]
    return message.replace(update={**update, "content": {**update["content"], "text": text}})


def _is_no_text(key: str) -> bool:
    return key in _NO_TEXT or key.endswith(("Id", "Ids"))
