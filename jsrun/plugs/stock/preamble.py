"""`preamble`: puts one text before a prompt."""

from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, model_validator

from jsrun.plugs.api import NextMessage, NextSession, Plug
from jsrun.plugs.errors import PlugError
from jsrun.plugs.message import Message

# A text for every prompt; a larger file is not meant to be one.
MAX_BYTES = 1024 * 1024


class PreambleInputs(BaseModel):
    """The `text`, or a `file` with it on the runner or on the agent's `host`.

    `when`: before the first prompt after each `session/new` of this run, or before every prompt.
    """

    text: str | None = None
    file: str | None = None
    where: Literal["runner", "host"] = "runner"
    when: Literal["first", "every"] = "first"

    @model_validator(mode="after")
    def _one(self) -> "PreambleInputs":
        if (self.text is None) == (self.file is None):
            raise ValueError("give either `text` or `file`")
        return self


class PreamblePlug(Plug, name="jsrun/preamble", description="puts a text before prompts", api=(1, 0)):
    """See the module."""

    Inputs = PreambleInputs
    if TYPE_CHECKING:
        inputs: PreambleInputs

    def load(self) -> None:
        """Nothing is known of ACP sessions yet."""
        self._text = self.inputs.text or ""
        self._new: set[str] = set()

    async def session(self, next: NextSession) -> None:
        """Read the file, if there is one, while the host is there."""
        if self.inputs.file is not None:
            host = self.ctx.host if self.inputs.where == "host" else self.ctx.runner
            path = host.path(self.inputs.file)
            if (await path.stat()).size > MAX_BYTES:
                raise PlugError(f"{path} is larger than {MAX_BYTES:,} bytes; that is no preamble.")
            self._text = await path.read_text()
        await next()

    async def message(self, message: Message, next: NextMessage) -> Any:
        """Put the text before a prompt that is to have it."""
        if message.method == "session/new":
            result = await next(message)
            session = result.get("sessionId") if isinstance(result, dict) else None
            if isinstance(session, str):
                self._new.add(session)
            return result
        params = message.params
        if message.method != "session/prompt" or not isinstance(params, dict):
            return await next(message)
        session, prompt = params.get("sessionId"), params.get("prompt")
        first = isinstance(session, str) and session in self._new
        if isinstance(session, str):
            self._new.discard(session)
        if not isinstance(prompt, list) or (self.inputs.when == "first" and not first):
            return await next(message)
        return await next(message.replace(prompt=[{"type": "text", "text": self._text}, *prompt]))
